"""The questions that a comparison can answer, with the policies that `compare` and `policies` suggest for each."""

QUESTIONS = {
    "What does backfilling gain?": "fcfs easy first-fit",
    "Which order of the queue is best?": "easy-sjf easy-ljf easy-saf easy-laf easy-lxf easy-wfp3 easy-unicef easy-f1 "
    "easy-f2 easy-f3 easy-f4",
    "Should priorities decide, and of whom?": "easy-priority flexible",
    "Should users get equal shares of the machine?": "flexible-fairshare",
    "What would my own Slurm do with other settings?": "slurm",
    "Should short and long jobs have queues of their own?": "multi-queue",
    "Should short jobs fill the holes first?": "easy-sjbf",
    "Is the machine fuller if jobs are chosen together?": "lookahead combinational best-fit",
    "How many jobs should hold a reservation?": "k-reservations reservation-depth conservative selective",
    "May a reservation slip?": "relaxed dynamic slack",
    "Do deadlines and scarce licences matter?": "bf-fcfs bf-mod bf-unmod",
    "Can cpus, memory and GPUs be used more evenly?": "bb backfill-lowest ibb",
    "What does preemption gain?": "preemptive round-robin",
    "Should jobs share processors in turns?": "gang-matrix gang-matrix-backfill",
    "When will a whole project have ended?": "2tsb 2tfb 2tfb-sf 2tpb",
    "How should threads that wait for each other share a machine?": "thread-matrix partition-fixed partition-variable "
    "partition-adaptive partition-dynamic",
    "Should gangs use several sites?": "gang-site gang-span",
}
