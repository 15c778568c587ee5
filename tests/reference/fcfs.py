"""First come, first served."""

from .profile import Profile
from .words import Decision, Reservation, Start, View


def fcfs(view: View) -> Decision:
    """Start jobs in submit order while the head fits; the first that does not fit blocks the rest."""
    profile, starts = Profile.of_running(view), []
    for job in view.queue:
        if profile.held_back(job):
            continue
        placement = profile.place_now(job)
        if placement is None:
            break
        starts.append(Start(job, placement, "head"))
        profile.book(job, Reservation(view.now, placement))
    return Decision(starts)
