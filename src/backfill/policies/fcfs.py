"""First come, first served."""

from backfill.core.policy import Policy, policy
from backfill.core.queue import head
from backfill.core.record import kernel
from backfill.core.verbs import HEAD, place, start


@kernel()
def start_heads(state):
    """Start the first job in order while it fits. Returns the first that does not; -1 when nobody waits."""
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job


@policy("fcfs", source="the rule that every backfilling policy is measured against")
def fcfs(state):
    """Start jobs in submit order; the first that does not fit blocks the rest.

    Promise: jobs start in submit order. Cost: O(1) per pass.
    Slow twin: tests/reference/fcfs.py.
    """
    start_heads(state)


def family() -> dict[str, Policy]:
    """The only member."""
    return {fcfs.name: fcfs}
