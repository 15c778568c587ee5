"""Backfilling with K resources: BB, BL, IBB and best-fit, one decision at a time, in exact fractions.

Source: docs/reference/balance.md. Scores are compared in steps of 2**-30, so that rounding does not decide.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from .easy import capped, first_fit, shadow_time, slots_of
from .placement import held, minus, place
from .words import Decision, Job, Platform, Policy, Reservation, Room, Running, Start, View

Shares = dict[int, Fraction]  # resource -> how much of it is held


def bb(per_event: str = "1") -> Policy:
    """The least score first."""

    def key(job: Job, used: Shares, platform: Platform) -> int:
        return steps(balance(beside(used, job, platform)))

    return one_by_one(key, 1 if per_event == "1" else math.inf)


def backfill_lowest() -> Policy:
    """The largest demand for the resource used least first."""

    def key(job: Job, used: Shares, platform: Platform) -> int:
        lowest = min(used, key=lambda resource: (used[resource], resource), default=0)
        return -job.tasks * job.demand[lowest]

    return one_by_one(key, math.inf)


def one_by_one(key: Callable[[Job, Shares, Platform], Fraction | int], most: float) -> Policy:
    """So many times a pass: start the candidate of least key, ties in queue order."""

    def decide(view: View) -> Decision:
        room = Beside.of(view)
        while room.head is not None and most > len(room.backfilled):
            used = utilizations(view, room.free)
            candidates = [job for job in room.waiting if room.fits(job)]
            if not candidates:
                break
            room.start(min(candidates, key=lambda job: key(job, used, view.platform)))
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
            if steps(measure(beside(used, job, view.platform))) <= now and room.fits(job):
                room.start(job)
        return room.decision

    return decide


def best_fit(fit: str = "first") -> Policy:
    """Without reservations: in order, or the job of most cpus that fits, again and again."""

    def decide(view: View) -> Decision:
        if fit == "first":
            return first_fit(view, view.queue)
        waiting, free, starts = list(view.queue), view.free, []
        while waiting and (placement := place(view.platform, waiting[0], free)):
            job = waiting.pop(0)
            starts.append(Start(job, placement, "head"))
            free = minus(free, held(view.platform, job, placement))
        while fitting := [job for job in waiting if place(view.platform, job, free)]:
            job = max(fitting, key=lambda each: each.procs)
            waiting.remove(job)
            placement = place(view.platform, job, free)
            starts.append(Start(job, placement, "fit"))
            free = minus(free, held(view.platform, job, placement))
        return Decision(starts)

    return decide


class Beside:
    """A pass after the heads have started: who waits, and what may be taken without delaying the next head."""

    def __init__(self, view: View):
        self.view, self.free, self.waiting = view, view.free, list(view.queue)
        self.decision, self.backfilled, self.head = Decision(), [], None
        self.extra: Room = []
        self.shadow: Reservation | None = None
        self.watched: set[int] = set()

    @classmethod
    def of(cls, view: View) -> "Beside":
        self = cls(view)
        running = list(view.running)
        while self.waiting and (placement := place(view.platform, self.waiting[0], self.free)):
            job = self.waiting.pop(0)
            running.append(Running(job, view.now, placement, held(view.platform, job, placement)))
            self.decision.starts.append(Start(job, placement, "head"))
            self.free = minus(self.free, running[-1].held)
        if self.waiting:
            self.head = self.waiting.pop(0)
            self.shadow, room_then = shadow_time(view, self.head, running, self.free)
            self.extra = minus(room_then, held(view.platform, self.head, self.shadow.placement))
            self.watched = slots_of(view.platform, self.head, self.shadow.placement)
            self.decision.promises[self.head.row] = self.shadow
        return self

    def outlasts(self, job: Job) -> bool:
        return self.view.now + job.estimate > self.shadow.start

    def fits(self, job: Job):
        """Where it may start now without delaying the head; None where nowhere."""
        room = capped(self.free, self.extra, self.watched) if self.outlasts(job) else self.free
        return place(self.view.platform, job, room)

    def start(self, job: Job) -> None:
        placement = self.fits(job)
        taken = held(self.view.platform, job, placement)
        self.waiting.remove(job)
        self.backfilled.append(job)
        self.decision.starts.append(Start(job, placement, "backfill"))
        self.free = minus(self.free, taken)
        if self.outlasts(job):
            self.extra = minus(self.extra, taken)


def capacities(platform: Platform) -> list[int]:
    return [sum(node.capacity[k] for node in platform.nodes) for k in range(len(platform.nodes[0].capacity))]


def utilizations(view: View, free: Room) -> Shares:
    """S_i: what is held of each resource over all nodes, as a share; of those that there are and that are asked for."""
    k, nodes = len(view.platform.nodes[0].capacity), range(len(view.platform.nodes))
    whole = capacities(view.platform)
    return {i: 1 - Fraction(sum(free[node * k + i] for node in nodes), whole[i]) for i in view.asked if whole[i]}


def beside(used: Shares, job: Job, platform: Platform) -> Shares:
    """U_i = S_i + R_i."""
    whole = capacities(platform)
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
