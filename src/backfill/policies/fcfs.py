"""First come, first served.

Slow twin: tests/reference/fcfs.py.
"""

from backfill.core.policy import Policy, policy
from backfill.core.verbs import start_heads


@policy("fcfs", forgets="all", source="the rule that every backfilling policy is measured against")
def fcfs(state):
    """Start jobs in submit order; the first that does not fit blocks the rest.

    Promise: jobs start in submit order.
    Cost: O(1) per pass.
    """
    start_heads(state)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {fcfs.name: fcfs}
