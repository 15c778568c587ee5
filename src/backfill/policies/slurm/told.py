"""What a cycle of the backfill loop decided about each job, written down while somebody watches.

`record` holds entries one after the other: job, begin, number of nodes, nodes. Its first number is the length of the
entries; below 0, nothing is recorded. An entry without nodes has a verdict instead of a begin.
"""

from backfill.compiler.kernel import kernel
from backfill.policies.slurm.bits import has

OFF = -1  # the first number of `record`: nothing is recorded
# Verdicts on jobs without a plan. The first one of a job in a cycle counts.
LIMITED, TOO_DEEP, UNLICENSED, BEYOND, NO_ROOM = -1, -2, -3, -4, -5


@kernel(inline=True)
def is_told(state):
    """Return whether decisions are recorded now; then a cycle must not leave out a test that decides no start."""
    return len(state.own.record) > 0 and state.own.record[0] >= 0


@kernel()
def record(state, job, begin, chosen):
    """Add a plan: when the job begins, and its nodes, a set."""
    kept, nodes = state.own.record, state.machine.nodes
    if not is_told(state) or kept[0] + 4 + nodes > len(kept):
        return
    at, count = kept[0] + 1, 0
    for node in range(nodes):
        if has(chosen, node):
            kept[at + 3 + count] = node
            count += 1
    kept[at], kept[at + 1], kept[at + 2] = job, begin, count
    kept[0] += 3 + count


@kernel()
def note(state, job, verdict):
    """Add a verdict on a job that gets no plan."""
    kept = state.own.record
    if not is_told(state) or kept[0] + 4 > len(kept):
        return
    at = kept[0] + 1
    kept[at], kept[at + 1], kept[at + 2] = job, verdict, 0
    kept[0] += 3
