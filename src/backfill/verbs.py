"""The names that a policy of your own imports.

A policy is a function of the state that is called once per instant, after all ends and submits of that instant. It
reads the records of the state (`state.now`, `state.jobs.walltime[job]`, `state.free.nodes[node, resource]` ...), writes
its own memory by name (`state.own.seen[job] = 1`, declared as `memory={"seen": "jobs"}`), acts through the verbs below,
and returns nothing; jobs are numbers, and -1 is no job. Anything else that it writes is refused when it is loaded.

    from backfill import policy
    from backfill.verbs import HEAD, head, place, start

    @policy("mine", source="mine")
    def mine(state):
        job = head(state)
        while job >= 0 and place(state, job):
            start(state, job, HEAD)
            job = head(state)

`backfill simulate LOG --policy mine.py:mine` compiles and runs it. A helper function of your own that the policy calls
is decorated with `@kernel()`. The fields, the verbs and longer examples are in docs/reference/policies.md.
"""

from backfill.compiler.kernel import kernel
from backfill.core.plan.bookings import allow_until
from backfill.core.plan.moves import begin_moves, settle_at_least_cost, settle_with_moves
from backfill.core.plan.plan import earliest_start, fits_now, rebuild, settle
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.shadow import place_beside, shadow_from, shadow_time, use_extra
from backfill.core.plan.way import ANY, FROM_NOW, LATER_ONLY, ONE, PER_TIME, has_begun, project_end
from backfill.core.queue.order import rounded
from backfill.core.queue.walk import (
    arrange_by,
    arrange_waiting,
    candidate,
    following,
    head,
    is_first,
    rewind,
    waiting_jobs,
    waiting_times,
    waiting_walltimes,
)
from backfill.core.random import pick
from backfill.core.runs import CHECKPOINT, REQUEUE, SUSPEND
from backfill.core.verbs import (
    BACKFILL,
    FIT,
    GANG,
    HEAD,
    MOVED_UP,
    RESERVED,
    RESUMED,
    THREAD,
    held_back,
    is_ready,
    place,
    place_on,
    predecessor,
    preempt,
    reserve,
    run_in,
    start,
    start_heads,
    wake,
)
from backfill.policies.promising import (
    PROMISES,
    await_promises,
    by_project,
    end_of_project,
    keep_promises,
    promise_at,
    start_promised,
)

__all__ = [
    "ANY",
    "BACKFILL",
    "CHECKPOINT",
    "FIT",
    "FROM_NOW",
    "FUTURE",
    "GANG",
    "HEAD",
    "LATER_ONLY",
    "MOVED_UP",
    "NO_TIME",
    "ONE",
    "PER_TIME",
    "PROMISES",
    "REQUEUE",
    "RESERVED",
    "RESUMED",
    "SUSPEND",
    "THREAD",
    "allow_until",
    "arrange_by",
    "arrange_waiting",
    "await_promises",
    "begin_moves",
    "by_project",
    "candidate",
    "earliest_start",
    "end_of_project",
    "fits_now",
    "following",
    "has_begun",
    "head",
    "held_back",
    "is_first",
    "is_ready",
    "keep_promises",
    "kernel",
    "pick",
    "place",
    "place_beside",
    "place_on",
    "predecessor",
    "preempt",
    "project_end",
    "promise_at",
    "rebuild",
    "reserve",
    "rewind",
    "rounded",
    "run_in",
    "settle",
    "settle_at_least_cost",
    "settle_with_moves",
    "shadow_from",
    "shadow_time",
    "start",
    "start_heads",
    "start_promised",
    "use_extra",
    "waiting_jobs",
    "waiting_times",
    "waiting_walltimes",
    "wake",
]
