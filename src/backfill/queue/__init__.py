"""The queue itself, pure: requests, decisions and ends go in, events come out. It has no clock, file or process of its
own but the store.

In the order in which they import each other:

words      times, sizes and lists as users write them
states     which state follows which
nodes      what each node has, and what jobs hold of it
shapes     the shapes of the JSON that enters and leaves
events     one class for each kind of event, and their JSON
job        a job with its attempt, and the row that both are in the store
book       what the log of events says: jobs, what they hold, who waits for whom
schema     what may be asked of it
commands   requests of clients, checked and turned into events
protocol   what is said between the queue and its planner
feed       what a planner is told of the events
store      the log on disk
ends       what the state of an attempt means for its job
starts     whether a job that the policy starts can start
news       what happens in a batch system in which users submit
epochs     when another epoch has to begin
progress   what a preempted job keeps of what it has done
around     what the engine needs: a clock, a planner, who waits for jobs
parts      nodes and tasks as Slurm's options ask for them, as equal parts
slurm      the variables that Slurm gives to a script
variables  the environment of a job
engine     all of that together
files      where the input and the output of a job are
evidence   what the witness beside the store is told, for a store that is older
deep       whether a record is sound, judged by itself
"""
