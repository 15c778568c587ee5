"""The names that a policy of your own imports.

A policy is a function of the state that is called once per instant, after all ends and submits of that instant. It
reads the rooms of the state (`state.now`, `state.jobs.walltime[job]`, `state.free.nodes[node, resource]` ...), writes
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
goes under `@kernel()`. The fields, the verbs and longer examples are in docs/reference/policies.md.
"""

from backfill.compiler.kernel import kernel
from backfill.core.plan.plan import earliest_start, fits_now, rebuild, settle
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.shadow import place_beside, shadow_from, shadow_time, use_extra
from backfill.core.queue.order import rounded
from backfill.core.queue.walk import arrange_by, candidate, following, head, is_first, rewind
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

__all__ = [
    "BACKFILL",
    "CHECKPOINT",
    "FIT",
    "FUTURE",
    "GANG",
    "HEAD",
    "MOVED_UP",
    "NO_TIME",
    "REQUEUE",
    "RESERVED",
    "RESUMED",
    "SUSPEND",
    "THREAD",
    "arrange_by",
    "candidate",
    "earliest_start",
    "fits_now",
    "following",
    "head",
    "held_back",
    "is_first",
    "is_ready",
    "kernel",
    "pick",
    "place",
    "place_beside",
    "place_on",
    "predecessor",
    "preempt",
    "rebuild",
    "reserve",
    "rewind",
    "rounded",
    "run_in",
    "settle",
    "shadow_from",
    "shadow_time",
    "start",
    "start_heads",
    "use_extra",
    "wake",
]
