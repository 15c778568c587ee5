"""Reservations to a depth: each job gets one when it is among the first k, and the others run where these let them.

Source: RESERVATIONDEPTH with RESERVATIONPOLICY HIGHEST, Maui Administrator's Guide, 7.1.4.
"""

from dataclasses import replace

from .conservative import Promises, due_again, start_what_is_due, timers, updated
from .orders import ranked
from .profile import Profile
from .words import Decision, Job, Policy, Reservation, Start, View


def reservation_depth(k: float = 20, every: float = 0, order: str = "fcfs") -> Policy:
    def decide(view: View) -> Decision:
        view = replace(view, queue=ranked(view.queue, order, view))
        profile = Profile.of_running(view)
        promises, moved_up, refresh = updated(view, profile, every)
        waited = view.memory.get("waiting", set())
        left = k
        for job in view.queue:
            if left <= 0:
                break
            if job.row not in promises and (earliest := profile.earliest(job, view.now)):
                promises[job.row] = profile.book(job, earliest)
            left -= job.row in promises and promises[job.row].start != view.now
        starts = start_what_is_due(view, profile, promises, moved_up)
        tried = [job for job in view.queue if view.memory["refreshed"] or job.row not in waited]
        starts += start_beside(view, profile, promises, starts, tried)
        return Decision(starts, promises, timers(view, promises) | due_again(view, starts, refresh))

    return decide


def start_beside(
    view: View, profile: Profile, promises: Promises, starts: list[Start], tried: list[Job]
) -> list[Start]:
    """Start those of the tried jobs that have no promise and delay none. starts: of jobs with one, in this pass."""
    started, passed = [], list[Job]()
    for job in view.queue:
        if job.row in {start.job.row for start in starts}:
            continue
        if job.row not in promises and job in tried and (placement := profile.place_now(job)):
            alone = all(profile.held_back(other) for other in passed)
            started.append(Start(job, placement, "head" if alone else "backfill"))
            profile.book(job, Reservation(view.now, placement))
        else:
            passed.append(job)
    return started
