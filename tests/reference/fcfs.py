"""First come, first served."""

from .placement import held, minus, place
from .words import Decision, Start, View


def fcfs(view: View) -> Decision:
    """Start jobs in submit order while the head fits; the first that does not fit blocks the rest."""
    free, starts = view.free, []
    for job in view.queue:
        placement = place(view.platform, job, free)
        if placement is None:
            break
        starts.append(Start(job, placement, "head"))
        free = minus(free, held(view.platform, job, placement))
    return Decision(starts)
