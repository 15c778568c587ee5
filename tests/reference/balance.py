"""Backfilling with K resources: BB, BL, IBB and best-fit, one decision at a time, in exact fractions.

Source: docs/reference/balance.md. Scores are compared in steps of 2**-30, so that rounding does not decide.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from .easy import capped, first_fit, rest_in_order, shadow_time, slots_of
from .fcfs import fcfs
from .limits import held_back, holds_turn, in_turn, keep_turn
from .placement import held, minus, place_to_start
from .profile import Profile
from .words import Decision, Job, Placement, Policy, Reservation, Room, Running, Start, View

Shares = dict[int, Fraction]  # resource -> how much of it is held


def bb(per_event: str = "1") -> Policy:
    """The least score first."""

    def key(job: Job, used: Shares, view: View) -> int:
        return steps(balance(beside(used, job, view)))

    return one_by_one(key, 1 if per_event == "1" else math.inf)


def backfill_lowest() -> Policy:
    """The largest demand for the resource used least first."""

    def key(job: Job, used: Shares, view: View) -> int:
        lowest = min(used, key=lambda resource: (used[resource], resource), default=0)
        return -job.tasks * job.demand[lowest]

    return one_by_one(key, math.inf)


def one_by_one(key: Callable[[Job, Shares, View], Fraction | int], most: float) -> Policy:
    """So many times a pass: start the candidate of least key, ties in queue order."""

    def decide(view: View) -> Decision:
        room = Beside.of(view)
        while room.head is not None and most > len(room.backfilled):
            used = utilizations(view, room.free)
            candidates = [job for job in room.waiting if room.fits(job)]
            if not candidates:
                break
            room.start(min(candidates, key=lambda job: key(job, used, view)))
        return room.decision

    return decide


def ibb(test: str = "fullness", refresh: str = "true") -> Policy:
    """One traversal; whoever does not worsen the score starts."""
    measure = balance if test == "fullness" else imbalance

    def decide(view: View) -> Decision:
        room = Beside.of(view)
        if room.head is None:
            return room.decision
        now = steps(measure(utilizations(view, room.free)))
        for job in list(room.waiting):
            used = utilizations(view, room.free)
            if refresh == "true":
                now = steps(measure(used))
            if steps(measure(beside(used, job, view))) <= now and room.fits(job):
                room.start(job)
        return room.decision

    return decide


def best_fit(fit: str = "first") -> Policy:
    """Without reservations: in order, or the job of most cpus that fits, again and again."""

    def decide(view: View) -> Decision:
        if fit == "first":
            return first_fit(view, view.queue)
        waiting, profile, starts = list(view.queue), Profile.of_running(view), fcfs(view).starts
        for start in starts:
            waiting.remove(start.job)
            profile.book(start.job, Reservation(view.now, start.placement))
        while fitting := [job for job in waiting if profile.place_now(job)]:
            job = max(fitting, key=lambda each: each.procs)
            waiting.remove(job)
            placement = profile.place_now(job)
            starts.append(Start(job, placement, "fit"))
            profile.book(job, Reservation(view.now, placement))
        return Decision(starts)

    return decide


class Beside:
    """A pass after the heads have started: who waits, and what may be taken without delaying the next head.

    A head that would not fit if everything ended is passed over. Where windows are known, the head's reservation and
    all that starts are booked in a profile.
    """

    def __init__(self, view: View, in_order: list[Job]):
        self.view, self.free, self.waiting = view, view.free, in_turn(view, in_order)
        self.in_order = in_order
        self.decision, self.backfilled, self.head = Decision(), [], None
        self.extra: Room = []
        self.shadow: Reservation | None = None
        self.watched: set[int] = set()

    @classmethod
    def of(cls, view: View, in_order: list[Job] | None = None, tried: str | None = None) -> "Beside":
        self = cls(view, view.queue if in_order is None else in_order)
        self.running, self.profile = list(view.running), Profile.of_running(view) if view.windows else None
        reason = "head"
        while self.waiting and self.head is None:
            job = self.waiting.pop(0)
            if placement := self.seat(job):
                self.take(job, placement, reason)
            elif holds_turn(view, job) or not held_back(view.platform, job, self.free):
                reason = "backfill"
                self.reserve(job)
        self.waiting = rest_in_order([job for job in self.in_order if job in self.waiting], tried, view)
        return self

    def seat(self, job: Job) -> Placement | None:
        """Return where it may start now."""
        return self.profile.place_now(job) if self.profile else place_to_start(self.view.platform, job, self.free)

    def reserve(self, job: Job) -> None:
        """Make it the head, unless it has no start for want of capacity."""
        if self.profile:
            self.shadow = self.profile.earliest(job, self.view.now)
            if self.shadow is None:
                return
            self.profile.book(job, self.shadow)
        else:
            found = shadow_time(self.view, job, self.running, self.free)
            if found is None:
                return
            self.shadow, room_then = found
            self.extra = minus(room_then, held(self.view.platform, job, self.shadow.placement))
            self.watched = slots_of(self.view.platform, job, self.shadow.placement)
        self.head = job
        keep_turn(self.view, self.in_order, job, self.profile.rooms[0] if self.profile else self.free)
        self.decision.promises[job.row] = self.shadow

    def outlasts(self, job: Job) -> bool:
        return self.view.now + job.estimate > self.shadow.start

    def fits(self, job: Job):
        """Return where it may start now without delaying the head; None if nowhere."""
        if self.profile:
            return self.profile.place_now(job)
        room = capped(self.free, self.extra, self.watched) if self.outlasts(job) else self.free
        return place_to_start(self.view.platform, job, room)

    def start(self, job: Job) -> None:
        placement = self.fits(job)
        self.waiting.remove(job)
        self.backfilled.append(job)
        self.take(job, placement, "backfill")
        if not self.profile and self.outlasts(job):
            self.extra = minus(self.extra, self.running[-1].held)

    def take(self, job: Job, placement: Placement, reason: str) -> None:
        self.decision.starts.append(Start(job, placement, reason))
        self.running.append(Running(job, self.view.now, placement, held(self.view.platform, job, placement)))
        self.free = minus(self.free, self.running[-1].held)
        if self.profile:
            self.profile.book(job, Reservation(self.view.now, placement))


def amounts(view: View, room: Room) -> list[int]:
    """Over all nodes, of each resource."""
    k, nodes = len(view.platform.nodes[0].capacity), range(len(view.platform.nodes))
    return [sum(room[node * k + i] for node in nodes) for i in range(k)]


def utilizations(view: View, free: Room) -> Shares:
    """S_i: what is held of each resource over all nodes, as a share; of those that there are and that are asked for."""
    whole, left = amounts(view, view.capacity[0][1]), amounts(view, free)
    return {i: 1 - Fraction(left[i], whole[i]) for i in view.asked if whole[i]}


def beside(used: Shares, job: Job, view: View) -> Shares:
    """U_i = S_i + R_i."""
    whole = amounts(view, view.capacity[0][1])
    return {i: u + Fraction(job.tasks * job.demand[i], whole[i]) for i, u in used.items()}


def imbalance(u: Shares) -> Fraction:
    """B(U) = max U / mean U."""
    return max(u.values()) / mean(u) if mean(u) else Fraction(1)


def balance(u: Shares) -> Fraction:
    """BB(U) = B(U) x (1 - mean U)."""
    return imbalance(u) * (1 - mean(u)) if mean(u) else Fraction(1)


def mean(u: Shares) -> Fraction:
    return sum(u.values(), Fraction(0)) / max(len(u), 1)


def steps(score: Fraction) -> int:
    return round(score * 2**30)
