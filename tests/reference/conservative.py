"""Conservative backfilling: every waiting job holds a reservation, and an end improves them once, in queue order.

Promise: no start is later than the one promised at submit, if walltimes hold.
Source: Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; the details of compression are those of public simulators.

Why a job starts: `moved-up` when compression brought its start to now in this pass; else `head` when no earlier job
of the queue stays waiting; else `reserved` when the time promised in an earlier pass has come, and `backfill` when it
starts in its very first pass.
"""

from dataclasses import replace

from backfill.model.units import SECOND

from .limits import held_back
from .placement import held, minus
from .profile import Profile
from .words import Decision, Policy, Reservation, Start, Time, View

Promises = dict[int, Reservation]


def conservative(every: float = 0) -> Policy:
    """every: seconds that lie at least between two compressions; meanwhile freed capacity serves new jobs alone."""

    def decide(view: View) -> Decision:
        """Compress the old reservations if a job ended, give new jobs theirs, start what is due.

        A job that has no start for want of capacity waits without a promise, and gets one as soon as it has a start.
        """
        profile = Profile.of_running(view)
        promises, moved_up, refresh = updated(view, profile, every)
        for job in view.queue:
            if job.row not in promises and (earliest := profile.earliest(job, view.now)):
                promises[job.row] = profile.book(job, earliest)
        starts = start_what_is_due(view, profile, promises, moved_up)
        return Decision(starts, promises, timers(view, promises) | due_again(view, starts, refresh))

    return decide


def updated(view: View, profile: Profile, every: float) -> tuple[Promises, set[int], Time]:
    """Book the promises of earlier passes, improved if `every` seconds are over.

    Says also which of these came to now from a later time, and when a compression may be next.
    """
    promises, moved_up = rebuilt(view, profile) if view.changed else (kept(view, profile), set())
    refresh = view.memory.get("refresh", view.now)
    waited = any(job.row in view.memory.get("waiting", ()) for job in view.queue)
    stale = waited and (view.memory.get("stale", False) or view.ended or view.changed)
    refreshed = stale and view.now >= refresh
    if refreshed:
        moved_up |= compress(view, profile, promises)
        stale, refresh = False, view.now + round(every * SECOND)
    view.memory.update(stale=stale, refresh=refresh, refreshed=refreshed)
    return promises, moved_up, refresh


def due_again(view: View, starts: list[Start], refresh: Time) -> set[Time]:
    """Remember which jobs wait. A pass when a compression may be next, if capacity was freed that none has tried."""
    view.memory["waiting"] = {job.row for job in view.queue} - {start.job.row for start in starts}
    return {refresh} if view.memory["stale"] else set()


def kept(view: View, profile: Profile) -> Promises:
    """Book the promises of earlier passes; those that an overdue job has broken are made anew.

    A promise that was due and could not be kept is tried at each later pass, at that pass's time. In queue order,
    each that is due keeps its place if it still fits; then each of the others gets its earliest start after now.
    """
    promises = {job.row: view.promises[job.row] for job in view.queue if job.row in view.promises}
    waiting = [job for job in view.queue if job.row in promises]
    due = [job for job in waiting if promises[job.row].start <= view.now]
    for job in waiting:
        if job not in due:
            profile.book(job, promises[job.row])
    broken = []
    for job in due:
        promises[job.row] = Reservation(view.now, promises[job.row].placement)
        if profile.fits(job, promises[job.row]):
            profile.book(job, promises[job.row])
        else:
            broken.append(job)
    for job in broken:
        del promises[job.row]
        if earliest := profile.earliest(job, view.now + 1):
            promises[job.row] = replace(profile.book(job, earliest), late=True)
    return promises


def rebuilt(view: View, profile: Profile) -> tuple[Promises, set[int]]:
    """Return the promises of earlier passes, adjusted if capacity, walltimes or runs have changed.

    In queue order, each that still fits where it was promised keeps its place; then each of the others gets its
    earliest start. Says also which of these came to now from a later time.
    """
    promises, others, moved_up = {}, [], set()
    for job in view.queue:
        if before := view.promises.get(job.row):
            if before.start >= view.now and profile.fits(job, before):
                promises[job.row] = replace(profile.book(job, before), late=False)
            else:
                others.append(job)
    for job in others:
        if earliest := profile.earliest(job, view.now):
            promises[job.row] = profile.book(job, earliest)
            if earliest.start == view.now < view.promises[job.row].start:
                moved_up.add(job.row)
    return promises, moved_up


def compress(view: View, profile: Profile, promises: Promises) -> set[int]:
    """Lift each reservation out and put it back at its earliest start, once; says which came to now."""
    moved_up = set()
    for job in view.queue:
        if job.row in promises:
            before = promises[job.row]
            profile.lift(job, before)
            promises[job.row] = profile.book(job, profile.earliest(job, view.now, by_rule=False))
            assert promises[job.row].start <= before.start
            if promises[job.row].start == before.start:
                promises[job.row] = replace(promises[job.row], late=before.late)
            if promises[job.row].start == view.now < before.start:
                moved_up.add(job.row)
    return moved_up


def start_what_is_due(view: View, profile: Profile, promises: Promises, moved_up: set[int]) -> list[Start]:
    starts, waiting, free = [], [], view.free
    for job in view.queue:
        if job.row not in promises or promises[job.row].start > view.now:
            waiting.append(job)
            continue
        if job.place != "power":
            profile.lift(job, promises[job.row])
            promises[job.row] = profile.book(job, Reservation(view.now, profile.place_now(job)))
        placement = promises[job.row].placement
        if job.row in moved_up:
            reason = "moved-up"
        elif all(held_back(view.platform, other, free) for other in waiting):
            reason = "head"
        else:
            reason = "reserved" if job.row in view.promises else "backfill"
        starts.append(Start(job, placement, reason))
        free = minus(free, held(view.platform, job, placement))
    return starts


def timers(view: View, promises: Promises) -> set[Time]:
    """A pass at the next reserved start, but for that of a late job.

    Nobody knows when the overdue job that broke its promise ends: the late one is tried whenever something happens.
    """
    due = [promise.start for promise in promises.values() if promise.start > view.now and not promise.late]
    return {min(due)} if due else set()
