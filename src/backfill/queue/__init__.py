"""The queue itself, pure: requests, decisions and ends go in, events come out.

Its only access to the outside is the store. In the order in which they import each other:

    words      times, sizes and lists as users write them
    states     the states of a job and their transitions
    nodes      the capacity of each node, and what jobs hold of it
    shapes     the shapes of the JSON that enters and leaves
    events     one class for each kind of event, and their JSON
    job        a job with its attempt, and the row of both in the store
    book       the state that follows from the log: jobs, what they hold, and their dependencies
    schema     the requests that are accepted
    commands   requests of clients, checked and turned into events
    protocol   the messages between the queue and its planner
    feed       the messages to a planner that follow from events
    store      the log on disk
    ends       the consequences of the state of an attempt for its job
    starts     whether a job that the policy starts can start
    news       events of a batch system in which users submit
    epochs     when another epoch has to begin
    progress   the progress that a preempted job keeps
    around     interfaces that the engine needs: a clock, a planner, clients that wait for jobs
    parts      Slurm's options for nodes and tasks, as equal parts
    slurm      the variables that Slurm sets for a script
    variables  the environment of a job
    engine     all of these together
    files      the paths of a job's input and output
    evidence   the records in the witness beside the store, for a store that is older
    deep       whether a record is sound, judged independently
"""
