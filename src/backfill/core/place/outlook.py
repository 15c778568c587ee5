"""A quick look at whether a job may fit now, for policies with rules of their own for the choice of nodes."""

from backfill.compiler.loops import few_turns
from backfill.compiler.wall import verb
from backfill.core.errors import BY_PLACE
from backfill.core.place.shapes import may_sit
from backfill.core.queue.walk import is_waiting


@verb(within=True)
def may_fit(state, job):
    """Return False if a waiting job certainly does not fit into what is free now, by whatever rule nodes are chosen.

    Licences and limits count. Cost: that of a comparison, and of the nodes that have changed since the last look.
    """
    if not is_waiting(state, job, BY_PLACE):
        return False
    if state.machine.pool:
        for k in range(state.machine.resources):
            few_turns()
            if state.jobs.need[job, k] > max(state.free.nodes[0, k], 0):
                return False
        return True
    return may_sit(state, job, False) != 0
