"""Reservations in a live queue: its planner's platform is divided like that of a simulation (model/reservations.py).

An epoch lists its reservations; creating or cancelling one begins another epoch. The capacity of a node or a part of it
follows from this list, from the node's capacity in the pool, and from the time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from backfill.core.journal import ANNOUNCE, CAPACITY, CLOSE, REVOKE
from backfill.model.platform import Platform
from backfill.model.reservations import Division, Reservation, of_grants
from backfill.model.units import NEVER
from backfill.model.workload import Ints, Workload
from backfill.queue.shapes import Grant

Do = Callable[..., None]  # applies a transition: its code, and its numbers


class Lane(NamedTuple):
    """A window on one node, or on one part of a node."""

    node: int
    resource: int  # -1: all of the node
    amount: int
    begin: int
    until: int
    revoked: int

    @property
    def over(self) -> int:
        """Return when it ends."""
        return min(self.until, self.revoked)


@dataclass(frozen=True, eq=False)
class Reserved:
    """The reservations of an epoch."""

    division: Division
    lanes: list[Lane] = field(init=False)
    own: dict[int, tuple[int, int]] = field(init=False)  # by part: its reservation, and the index of its node there

    def __post_init__(self) -> None:
        division = self.division
        windows = [window for number in range(len(division.reservations)) for window in division.windows(number)]
        lanes = [Lane(node, *window[1:]) for window in windows for node in window.nodes]
        parts = [(number, i) for number, each in enumerate(division.reservations) for i in range(len(each.nodes))]
        object.__setattr__(self, "lanes", lanes)
        object.__setattr__(self, "own", dict(enumerate(parts, len(division.whole.nodes))))

    @classmethod
    def of(cls, platform: Platform, grants: Sequence[Grant], now: int) -> "Reserved | None":
        """Return the reservations that were granted; None if there are none."""
        found = of_grants(platform, grants, now)
        return cls(Division(platform, found)) if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each node, and of the node of each part."""
        return tuple(self.division.whole.nodes[node] for node in self.division.node.tolist())

    def place(self, node: int, reservation: str) -> int:
        """Return the index for a job with or without a reservation: the part of a node, or the rest of the node."""
        number = self.division.number(reservation) if reservation else -1
        parts = self.division.parts(number) if number >= 0 else ()
        return next((part for part in parts if self.division.node[part] == node), node)

    def constrained(self, workload: Workload) -> Workload:
        """Return the jobs with constraints that keep them on parts, or off them."""
        jobs = workload.jobs
        return workload.with_jobs(self.division.constrain(jobs, np.ones(len(jobs), np.bool_)))

    # ------------------------------------------------------------------ passing time

    def begin(self, state: Any, do: Do, now: int) -> None:
        """Announce the windows to the policy."""
        for each in self.lanes:
            if each.over > now:
                do(ANNOUNCE, *each[:5])
        for lane in {each.node for each in self.lanes}:
            self.fit(state, do, lane, state.machine.base[lane], now)

    def pass_to(self, state: Any, do: Do, before: int, now: int) -> None:
        """Begin and end the windows that do so after one instant and no later than another."""
        ended = [each for each in self.lanes if before < each.over <= now]
        for each in ended:
            if each.revoked < each.until:
                do(REVOKE, *each[:5])
        if any(each.until <= each.revoked for each in ended):
            do(CLOSE)
        begun = [each for each in self.lanes if before < each.begin <= now]
        for lane in dict.fromkeys(each.node for each in (*ended, *begun)):
            self.fit(state, do, lane, state.machine.base[lane], now)

    def fit(self, state: Any, do: Do, lane: int, base: Ints, now: int) -> None:
        """Set the capacity of a node, or a part, to what windows now leave of its base."""
        if lane in self.own and now >= self.division.reservations[self.own[lane][0]].over:
            base = np.zeros_like(base)
        less, shut = self.taken(lane, now)
        there = np.zeros_like(base) if shut else np.maximum(base - less, 0)
        for k in range(len(base)):
            do(CAPACITY, lane, k, int(there[k]), int(base[k]))

    def follow(self, state: Any, do: Do, node: int, base: Ints, now: int) -> None:
        """Change the capacity of a node and of its parts, so that no resource is counted twice."""
        self.fit(state, do, node, base, now)
        for part, (number, place) in self.own.items():
            if self.division.node[part] == node:
                each = self.division.reservations[number]
                rest = np.minimum(each.amounts[place], np.maximum(base - self.division.beside(number, node), 0))
                self.fit(state, do, part, base if each.whole[place] else rest, now)

    def ahead(self, now: int, until: int) -> list[Reservation]:
        """Return the reservations that exist at some instant of [now, until), in the order of their begins."""
        some = (each for each in self.division.reservations if each.meets(now, until))
        return sorted(some, key=lambda each: each.begin)

    def next(self, now: int) -> int | None:
        """Return when the next window begins or ends."""
        times = (t for each in self.lanes for t in (each.begin, each.over) if now < t < NEVER)
        return min(times, default=None)

    def taken(self, lane: int, now: int) -> tuple[Ints, bool]:
        """Return what open windows take from a node or a part, and whether one takes all."""
        less, shut = np.zeros(len(self.division.whole.resources), np.int64), False
        for each in self.lanes:
            if each.node == lane and each.begin <= now < each.over:
                shut |= each.resource < 0
                if each.resource >= 0:
                    less[each.resource] += each.amount
        return less, shut
