"""EASY whose head may be delayed: relaxed and dynamic backfilling.

The slack counts from the earliest shadow time that the head was told, and its end is what it was promised. Beside
windows the reservation lies there if the head fits at that instant, else at its shadow time.
Sources: Ward, Mahood and West, JSSPP 2002; Feitelson, Rudolph and Schwiegelshohn, JSSPP 2004.
"""

from collections.abc import Callable
from math import inf

from .easy import first_fit, rest_in_order, start_heads
from .limits import holds_turn, in_turn, keep_turn
from .orders import ranked
from .placement import place, plus
from .profile import Profile
from .words import Decision, Job, Policy, Reservation, Start, Time, View

Until = Callable[[Job, Time], Time]  # head, shadow time -> the latest start of the head


def relaxed(omega: float = 0.5, base: str = "wait", order: str = "fcfs", tried: str | None = None) -> Policy:
    def decide(view: View) -> Decision:
        def until(head: Job, shadow: Time) -> Time:
            begin = earliest_shadow(view, head, shadow)
            return begin + round((head.estimate if base == "walltime" else begin - head.submit) * float(omega))

        queue = ranked(view.queue, order, view)
        return first_fit(view, queue) if omega == inf else delayed(view, queue, tried, until)

    return decide


def dynamic(delta: float = 0.05, gain: float = 0.1, order: str = "fcfs", tried: str | None = None) -> Policy:
    def decide(view: View) -> Decision:
        def until(head: Job, shadow: Time) -> Time:
            return earliest_shadow(view, head, shadow) + round(head.estimate * float(delta))

        least = gain * sum(node.capacity[0] for node in view.platform.nodes if node.of is None)
        queue = ranked(view.queue, order, view)
        return delayed(view, queue, tried, until, overrules=lambda job: job.procs >= least)

    return decide


def earliest_shadow(view: View, head: Job, shadow: Time) -> Time:
    """The shadow time that the head was first told, or an earlier one that it was told since."""
    told = view.memory.setdefault("shadow", {})
    told[head.row] = min(shadow, told.get(head.row, shadow))
    return told[head.row]


def delayed(
    view: View,
    in_order: list[Job],
    tried: str | None,
    until: Until,
    overrules: Callable[[Job], bool] | None = None,
) -> Decision:
    """EASY with the reservation at the latest start of the head.

    overrules: only these use the delay, once all others have started that cannot delay the head at all.
    """
    if view.windows:
        return delayed_beside_windows(view, in_order, tried, until, overrules)
    starts, blocked = start_heads(view, in_order)
    if blocked is None:
        return Decision(starts)
    head, shadow = blocked.head, blocked.shadow
    latest = until(head, shadow.start)
    rest = rest_in_order(blocked.rest, tried, view)
    if overrules is not None:
        starts += blocked.fill(rest)
        rest = [job for job in rest if overrules(job) and job not in {start.job for start in starts}]
    if latest > shadow.start:
        blocked.then = blocked.free
        for run in blocked.running:
            if run.limit <= latest:
                blocked.then = plus(blocked.then, run.held)
        blocked.shadow = Reservation(latest, place(view.platform, head, blocked.then))
    if overrules is None or latest > shadow.start:
        starts += blocked.fill(rest)
    return Decision(starts, promises={head.row: blocked.shadow})


def delayed_beside_windows(
    view: View, in_order: list[Job], tried: str | None, until: Until, overrules: Callable[[Job], bool] | None
) -> Decision:
    profile, starts = Profile.of_running(view), []
    queue, passed, head = in_turn(view, in_order), [], None
    while queue and head is None:
        job = queue.pop(0)
        if profile.held_back(job) and not holds_turn(view, job):
            continue
        earliest = profile.earliest(job, view.now)
        if earliest is None:
            passed.append(job)
        elif earliest.start > view.now:
            head, shadow = job, earliest
            keep_turn(view, in_order, job, profile.rooms[0])
        else:
            profile.book(job, earliest)
            starts.append(Start(job, earliest.placement, "backfill" if passed else "head"))
    if head is None:
        return Decision(starts)

    def fill(jobs: list[Job]) -> None:
        for job in jobs:
            if placement := profile.place_now(job):
                profile.book(job, Reservation(view.now, placement))
                starts.append(Start(job, placement, "backfill"))

    waiting = [job for job in in_order if job in queue]
    latest, rest = until(head, shadow.start), rest_in_order(waiting, tried, view)
    promise, held = Reservation(max(latest, shadow.start), shadow.placement), shadow
    if overrules is not None:
        profile.book(head, shadow)
        fill(rest)
        profile.lift(head, shadow)
        rest = [job for job in rest if overrules(job) and job not in {start.job for start in starts}]
    if latest > shadow.start:
        then = profile.earliest(head, latest)
        held = then if then is not None and then.start == latest else profile.earliest(head, view.now)
    if overrules is None or latest > shadow.start:
        profile.book(head, held)
        fill(rest)
    return Decision(starts, {head.row: held if overrules is None else promise})
