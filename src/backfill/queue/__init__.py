"""The live queue: the same policies on one machine. The daemon writes a log of events; everything else is its fold.

All but `watchdog`, `moves`, `planner`, `planning`, `closed`, `replay`, `history`, `top`, `doctor` and what answers
questions use the standard library alone: a daemon must be small, and a client must answer at once.
In the order in which they import each other:

words      times, sizes and lists as users write them
states     which state follows which
book       what the log of events says: jobs, what they hold, who waits for whom
commands   requests of clients, checked and turned into events
feed       what a planner is told of the events
store      the log on disk
processes  processes, signals and small files
witness    which attempts began, and job numbers: outlives run folders and backups
supervisor starts one attempt, ends it, and writes down how it ended
keeper     a script that starts jobs and outlives the daemon
attempts   folders in which jobs run, and what is true of one
ends       what the end of an attempt means for its job
clock      the clock of the queue, which nobody sets
engine     the queue itself: requests, decisions and ends in, events out; no clock, file or process of its own
watchdog   limits on the time that a policy takes
moves      the starts that a policy reserved for a job, one after the other
planner    the policy, fed by the events
rewind     a planner that is set back, to look into many futures
forecast   run times that may be, and the future with them
asked      what a question is asked of: a copy of the planner, and the open jobs
explain    why a job waits, and what would help
whatif     estimates, slots, a job that is not there yet, another policy
questions  a copy of the planner answers
planning   the process of a planner
estimates  what people were told, and whether it came so
foreseen   the estimates that the daemon has, and those that are being made
link       the daemon's side of planners
options    the options of the verbs
sbatch     scripts of Slurm: what their options become, and the variables that they find
variables  the environment of a job
notices    commands that tell of the end of a job
launcher   the daemon's side of the keeper
licences   what the servers of licences say
config     settings, and what the machine has
shown      the queue and its jobs, as clients are shown them
connection one client of the daemon
door       the lock and the sockets of a daemon
backups    copies of the store
recovery   what happened while no daemon was there
daemon     sockets, clock and processes around the engine
neighbours other queues on this machine
client     the verbs
printing   the queue and its jobs on a terminal
boot       a queue that starts with the machine
restoring  `serve --restore`
asking     the verbs that ask what will come
top        the queue on a screen
deep       whether a record is sound, judged by itself
doctor     what the machine offers, and what is wrong
history    the jobs that are over, and the recorded week as a workload
closed     an epoch lived again on a virtual clock
replay     a recorded queue, lived again
"""
