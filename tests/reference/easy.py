"""The EASY family: an order of the queue x an order in which the rest is tried x how many jobs hold reservations.

Sources: Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; k reservations: Chiang et al., JSSPP 2002.
Why a job starts: `head` when no earlier job of the order stays waiting at that moment, else `backfill`; where nobody
holds a reservation a job that overtakes says `fit`.
"""

import math
from collections import deque
from dataclasses import dataclass

from .limits import held_back, holds_turn, in_turn, keep_turn
from .orders import ranked
from .placement import held, licence_slot, minus, node_slots, place, place_to_start, plus
from .profile import Profile
from .words import Decision, Job, Placement, Platform, Policy, Reservation, Room, Running, Start, Time, View

ALL = math.inf


def easy(order: str = "fcfs", tried: str | None = None, reservations: float = 1) -> Policy:
    """A member of the family. `tried` orders the jobs that hold no reservation; default: as in the queue."""

    def decide(view: View) -> Decision:
        queue = ranked(view.queue, order, view)
        if reservations == 0:
            return first_fit(view, rest_in_order(queue, tried, view))
        if reservations == 1:
            return one_reservation(view, queue, tried)
        return several_reservations(view, queue, tried, reservations)

    return decide


def rest_in_order(jobs: list[Job], tried: str | None, view: View) -> list[Job]:
    """As they are in the queue, or by another score."""
    return jobs if tried is None else ranked(jobs, tried, view)


def first_fit(view: View, queue: list[Job]) -> Decision:
    """Everything that fits starts, in order.

    `fit` says that an earlier job has no room, and that it is no limit that holds it back.
    """
    profile, starts, reason = Profile.of_running(view), [], "head"
    for job in queue:
        if placement := profile.place_now(job):
            starts.append(Start(job, placement, reason))
            profile.book(job, Reservation(view.now, placement))
        elif not profile.held_back(job):
            reason = "fit"
    return Decision(starts)


def any_waits(jobs: list[Job], profile: Profile) -> bool:
    """Some of them wait, and not because of limits."""
    return not all(profile.held_back(job) for job in jobs)


def one_reservation(view: View, in_order: list[Job], tried: str | None) -> Decision:
    """Start the head while it fits, then whatever cannot delay the next head.

    A head that would not fit if everything ended lacks capacity for the time being: it is passed over. Where windows
    are known the reservation is booked in a profile.
    Promise: the head starts no later than its first shadow time, if walltimes hold.
    """
    if view.windows:
        return several_reservations(view, in_order, tried, 1)
    starts, blocked = start_heads(view, in_order)
    if blocked is None:
        return Decision(starts)
    starts += blocked.fill(rest_in_order(blocked.rest, tried, view))
    return Decision(starts, promises={blocked.head.row: blocked.shadow})


def start_heads(view: View, in_order: list[Job]) -> tuple[list[Start], "Blocked | None"]:
    """Start the head while it fits; says who blocks the others then."""
    platform, now = view.platform, view.now
    queue, running, free = deque(in_turn(view, in_order)), list(view.running), view.free
    starts, reason = [], "head"
    while queue:
        head = queue.popleft()
        if placement := place_to_start(platform, head, free):
            running.append(Running(head, now, placement, held(platform, head, placement)))
            starts.append(Start(head, placement, reason))
            free = minus(free, running[-1].held)
        elif holds_turn(view, head) or not held_back(platform, head, free):
            reason = "backfill"
            if reservation := shadow_time(view, head, running, free):
                keep_turn(view, in_order, head, free)
                rest = [job for job in in_order if job in queue]
                return starts, Blocked(view, head, rest, running, free, *reservation)
    return starts, None


@dataclass
class Blocked:
    """The head waits for its reservation, and others may start beside it."""

    view: View
    head: Job
    rest: list[Job]  # behind it, in order
    running: list[Running]  # with those that were started in this pass
    free: Room
    shadow: Reservation
    then: Room  # free at the shadow time

    def fill(self, jobs: list[Job]) -> list[Start]:
        """Start whatever cannot delay the head."""
        platform, now = self.view.platform, self.view.now
        extra = minus(self.then, held(platform, self.head, self.shadow.placement))
        watched, starts = slots_of(platform, self.head, self.shadow.placement), []
        for job in jobs:
            ends_before_shadow = now + job.estimate <= self.shadow.start
            room = self.free if ends_before_shadow else capped(self.free, extra, watched)
            if placement := place_to_start(platform, job, room):
                starts.append(Start(job, placement, "backfill"))
                self.running.append(Running(job, now, placement, held(platform, job, placement)))
                self.free = minus(self.free, self.running[-1].held)
                if not ends_before_shadow:
                    extra = minus(extra, self.running[-1].held)
        return starts


def shadow_time(view: View, head: Job, running: list[Running], free: Room) -> tuple[Reservation, Room] | None:
    """The earliest time at which the head is sure to fit, its place there, and all that is free at that time.

    None where it would not fit if everything ended.

    Ties count: every job that ends at the shadow time adds to the room. Overdue jobs count as ending now.
    """
    limits: dict[Time, list[Running]] = {}
    for r in running:
        limits.setdefault(max(r.limit, view.now), []).append(r)
    for limit in sorted(limits):
        for r in limits[limit]:
            free = plus(free, r.held)
        if placement := place(view.platform, head, free):
            return Reservation(limit, placement), free
    return None


def slots_of(platform: Platform, head: Job, placement: Placement) -> set[int]:
    """Return where a job may be in the head's way: on its nodes, and in the licences that it needs."""
    nodes = {slot for node, _ in placement for slot in node_slots(platform, node)}
    return nodes | {licence_slot(platform, licence) for licence in head.licences}


def capped(free: Room, extra: Room, watched: set[int]) -> Room:
    """Return what is free now, at most the extra amount if the head will need the rest."""
    return [min(free[i], extra[i]) if i in watched else free[i] for i in range(len(free))]


def several_reservations(view: View, in_order: list[Job], tried: str | None, count: float) -> Decision:
    """The first `count` blocked jobs reserve, one after the other; the others start if nobody minds.

    A job that starts is booked like one that runs, so it minds too. All reservations are made anew at each pass. Those
    that have no start for want of capacity are passed over.
    """
    profile = Profile.of_running(view)
    queue, starts, promises, waiting = deque(in_turn(view, in_order)), [], {}, []
    while queue and len(promises) < count:
        job = queue.popleft()
        if profile.held_back(job) and not holds_turn(view, job):
            waiting.append(job)
            continue
        earliest = profile.earliest(job, view.now)
        overtakes = any_waits(waiting, profile) or any(holds_turn(view, other) for other in waiting)
        reason = "backfill" if overtakes else "head"
        if earliest is not None:
            profile.book(job, earliest)
        if earliest is not None and earliest.start == view.now:
            starts.append(Start(job, earliest.placement, reason))
        else:
            waiting.append(job)
            if earliest is not None:
                if not promises:
                    keep_turn(view, in_order, job, profile.rooms[0])
                promises[job.row] = earliest
    for job in rest_in_order([job for job in in_order if job in queue], tried, view):
        if placement := profile.place_now(job):
            profile.book(job, Reservation(view.now, placement))
            starts.append(Start(job, placement, "backfill"))
    return Decision(starts, promises)
