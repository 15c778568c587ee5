"""The State: all that a policy may know and touch at one instant. The true run time is not in it.

Jobs are numbered in queue order (submit, then file order). Times are int64 microseconds. In array shapes n is jobs,
m nodes, k resources, l licences; "slot" is 0 for the policy's order and 1 for the order in which candidates are tried.
"""

from numba import float64, int8, int16, int32, int64, types, uint64

from backfill.core.profile import PAST, ProfileT
from backfill.core.record import record

NO_TIME = PAST  # no such instant

STATE = [
    ("now", int64),
    ("jobs", int64),
    ("submitted", int64),  # so many are; rows of the table from here on are the future, and no policy may read them
    # the job table
    ("submit", int64[::1]),
    ("walltime", int64[::1]),  # what the policy may count on; see --estimates
    ("tasks", int64[::1]),
    ("demand", int64[:, ::1]),  # (n, k) per task
    ("need", int64[:, ::1]),  # (n, k) of the whole job
    ("spread", int8[::1]),  # 0 one node, 1 one site, 2 anywhere
    ("alone", int8[::1]),  # 1: all of it sits on one node
    ("bound", int32[::1]),  # which row of `allowed` has the nodes that it may run on; -1 all of them
    ("deadline", int64[::1]),
    ("priority", float64[::1]),
    ("admin_priority", float64[::1]),
    ("user", int32[::1]),
    ("group", int32[::1]),
    ("project", int32[::1]),
    ("licence_first", int64[::1]),  # (n + 1,): the licences of job j are items licence_first[j] to licence_first[j + 1]
    ("licence", int64[::1]),  # licence of an item
    ("licence_count", int64[:, ::1]),  # (items, 1) copies
    # the platform, most powerful node first
    ("nodes", int64),
    ("resources", int64),
    ("pool", int64),  # 1: one node and no licences, so a job fits or does not
    ("capacity", int64[:, ::1]),  # (m, k)
    ("in_play", int8[::1]),  # (k,): 1 for a resource that there is and that some job which can run asks for; no licence
    ("site", int64[::1]),
    ("allowed", int8[:, ::1]),  # (sets of nodes, m): 1 for the nodes of a set to which jobs are bound
    ("hosts", int8[:, ::1]),  # (m, l)
    ("copies", int64[::1]),
    # what is free now
    ("free", int64[:, ::1]),  # (m, k)
    ("total", int64[::1]),  # (k,) over all nodes
    ("peak", int64[:, ::1]),  # (blocks of nodes, k): the most that a node of the block has free
    ("most", int64[::1]),  # (k,): the most that any node has free, as a walk over candidates begins
    ("unknown_peak", int64[:, ::1]),  # the same for amounts of which nobody keeps it: no bound
    ("licence_free", int64[::1]),
    # the waiting jobs: short queues lie dense, deep ones are leaves of a tree in rank order (queue.py)
    ("waiting", int64),
    ("slots", int64),
    ("order", int64[::1]),  # (slots,): code of an order, see order.py
    ("queue", int64[:, ::1]),  # (slots, n): jobs in order, from front to back
    ("front", int64[::1]),
    ("back", int64[::1]),
    ("at", int64[::1]),  # (slots,): where a walk goes on
    ("rank", int32[:, ::1]),  # (slots, n): place of a job in a static order of all jobs
    ("ranked", int32[:, ::1]),  # (slots, n): job at a place
    ("deep", int64),  # 1: the tree is in use
    ("deep_at", int64),  # queue length from which it is
    ("waits", int8[::1]),
    ("length", int8[::1]),  # (n,): class of a walltime, of the jobs in the tree
    ("first", int64[::1]),  # (slots,): no job of the tree waits at an earlier place
    ("buckets", int64),
    ("tree", int16[:, ::1]),  # (slots * 2 * buckets, k * classes): least need of jobs of a walltime class or shorter
    ("class_bound", int64[::1]),  # (classes - 1,): the longest walltime of each class but the last
    ("limits", int64[:, ::1]),  # (2, k): what a candidate may need at most; if it does not end in time
    ("short", int16[:, ::1]),  # (2, k): the same as the tree counts it
    # the running jobs, by limit, then start
    ("running", int64[::1]),
    ("limit", int64[::1]),  # of each running job, in step with `running`
    ("active", int64),
    # what became of the jobs
    ("start_time", int64[::1]),
    ("reason", int8[::1]),
    ("reserved", int64[::1]),  # the start that the policy holds for it now; NO_TIME = none
    ("promise", int64[::1]),  # the first that it held
    # where they run: pairs (node, tasks), job j holds `held_count[j]` of them from `held_first[j]`; unused on a pool
    ("placed", int64[:, ::1]),  # (m, 2): what the last `place` found
    ("placements", int64),
    ("placed_for", int64),  # the job that it was for
    ("held", int64[:, ::1]),
    ("held_used", int64),
    ("held_first", int64[::1]),
    ("held_count", int64[::1]),
    # what a job may take that does not end by the shadow time (shadow.py); no bound where the reservation is not
    ("extra", int64[:, ::1]),
    ("licence_extra", int64[::1]),
    ("shadow_job", int64),  # whose reservation that is; -1 nobody's
    ("shadow_placed", int64[:, ::1]),  # (m, 2): pairs (node, tasks) of the reservation
    ("shadow_placements", int64),
    ("room", int64[:, ::1]),  # scratch of the same shapes
    ("licence_room", int64[::1]),
    ("licence_least", int64[:, ::1]),
    # the future: availability of nodes and licences; kept by the policies that plan, see future.py
    ("plan", ProfileT),
    ("licence_plan", ProfileT),
    ("licence_capacity", int64[:, ::1]),  # (l, 1)
    # where availability grew, for two rounds; see future.py
    ("rooms_until", int64[::1]),  # (2,): no room appeared beyond
    ("rooms_kept", int64),
    ("rooms", int64[:, :, ::1]),  # (2, levels, buckets): for how long a level is free up to an instant of a bucket
    ("rooms_need", int64[::1]),  # (levels,): the need that makes a level, of the first resource
    ("rooms_since", int64[::1]),  # (levels,): scratch
    ("rooms_level", int8[::1]),  # (n,): level of a job that has a place in the plan
    ("rooms_low", int64),  # no such job waits at a lower level,
    ("rooms_high", int64),  # nor at a higher one
    ("rooms_origin", int64),  # where bucket 0 begins
    ("rooms_shift", int64),  # a bucket is 2**rooms_shift microseconds long
    ("rooms_last", int64),  # number of the last bucket, which has no end
    # this instant
    ("arrived", int64[::1]),
    ("arrivals", int64),
    ("ended_jobs", int64[::1]),
    ("ended", int64),
    ("started", int64[::1]),
    ("decisions", int64),
    ("overdue", int64),  # running jobs at or beyond their limit
    ("timers", int64[::1]),  # heap of instants at which the policy wants a pass
    ("timed", int64),
    # the policy's own
    ("param", float64[::1]),
    ("memory_i", int64[::1]),
    ("memory_f", float64[::1]),
    ("random", uint64[::1]),  # seed, numbers drawn
    # for people
    ("watched", int64),  # job whose promises are written down; -1 none
    ("history", int64[:, ::1]),  # (entries, 2): instant, promised start
    ("entries", int64),
    ("counters", int64[::1]),  # see counters.py
    ("error", int64[::1]),  # code, job, which, asked, available, now; code 0 = none
]
State, StateT = record("State", STATE, globals())
PolicyT = None if StateT is None else types.FunctionType(types.void(StateT))
