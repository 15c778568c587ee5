"""Reservations in a live queue: its planner's platform is divided as that of a simulation is (model/reservations.py).

An epoch names its reservations; one that is made, or cancelled, begins another epoch. What a node or a part of it has
follows from that, from what the pool says that the node has, and from the time.
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

Do = Callable[..., None]  # does a transition: its code, and its numbers


class Lane(NamedTuple):
    """A window on one node, or on one part of a node."""

    node: int
    resource: int  # -1: all that it has
    amount: int
    begin: int
    until: int
    revoked: int

    @property
    def over(self) -> int:
        """When it ends."""
        return min(self.until, self.revoked)


@dataclass(frozen=True, eq=False)
class Reserved:
    """The reservations of an epoch."""

    division: Division
    lanes: list[Lane] = field(init=False)
    own: dict[int, tuple[int, int]] = field(init=False)  # by part: its reservation, and its place among the nodes of it

    def __post_init__(self) -> None:
        division = self.division
        windows = [window for number in range(len(division.reservations)) for window in division.windows(number)]
        lanes = [Lane(node, *window[1:]) for window in windows for node in window.nodes]
        parts = [(number, i) for number, each in enumerate(division.reservations) for i in range(len(each.nodes))]
        object.__setattr__(self, "lanes", lanes)
        object.__setattr__(self, "own", dict(enumerate(parts, len(division.whole.nodes))))

    @classmethod
    def of(cls, platform: Platform, grants: Sequence[Grant], now: int) -> "Reserved | None":
        """Those that were granted; None where there are none."""
        found = of_grants(platform, grants, now)
        return cls(Division(platform, found)) if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each node, and of the node of each part."""
        return tuple(self.division.whole.nodes[node] for node in self.division.node.tolist())

    def place(self, node: int, reservation: str) -> int:
        """Where a job is that asks for a reservation, or for none: on the part of a node, or on the rest of it."""
        number = self.division.number(reservation) if reservation else -1
        parts = self.division.parts(number) if number >= 0 else ()
        return next((part for part in parts if self.division.node[part] == node), node)

    def constrained(self, workload: Workload) -> Workload:
        """The jobs with the constraints that keep them on parts, or off them."""
        jobs = workload.jobs
        return workload.with_jobs(self.division.constrain(jobs, np.ones(len(jobs), np.bool_)))

    # ------------------------------------------------------------------ time goes by

    def begin(self, state: Any, do: Do, now: int) -> None:
        """The policy learns of the windows."""
        for each in self.lanes:
            if each.over > now:
                do(ANNOUNCE, *each[:5])
        for lane in {each.node for each in self.lanes}:
            self.fit(state, do, lane, state.machine.base[lane], now)

    def pass_to(self, state: Any, do: Do, before: int, now: int) -> None:
        """Windows begin and end that do so behind one instant and not behind another."""
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
        """Let a node, or a part, have what windows leave of its base now."""
        if lane in self.own and now >= self.division.reservations[self.own[lane][0]].over:
            base = np.zeros_like(base)
        less, shut = self.taken(lane, now)
        there = np.zeros_like(base) if shut else np.maximum(base - less, 0)
        for k in range(len(base)):
            do(CAPACITY, lane, k, int(there[k]), int(base[k]))

    def follow(self, state: Any, do: Do, node: int, base: Ints, now: int) -> None:
        """A node has more or less than before, and its parts with it, so that nothing is held twice."""
        self.fit(state, do, node, base, now)
        for part, (number, place) in self.own.items():
            if self.division.node[part] == node:
                each = self.division.reservations[number]
                rest = np.minimum(each.amounts[place], np.maximum(base - self.division.beside(number, node), 0))
                self.fit(state, do, part, base if each.whole[place] else rest, now)

    def ahead(self, now: int, until: int) -> list[Reservation]:
        """Those that are there at some instant of [now, until), in the order of their begins."""
        some = (each for each in self.division.reservations if each.meets(now, until))
        return sorted(some, key=lambda each: each.begin)

    def next(self, now: int) -> int | None:
        """When a window begins or ends next."""
        times = (t for each in self.lanes for t in (each.begin, each.over) if now < t < NEVER)
        return min(times, default=None)

    def taken(self, lane: int, now: int) -> tuple[Ints, bool]:
        """What open windows take from a node or a part, and whether one takes all."""
        less, shut = np.zeros(len(self.division.whole.resources), np.int64), False
        for each in self.lanes:
            if each.node == lane and each.begin <= now < each.over:
                shut |= each.resource < 0
                if each.resource >= 0:
                    less[each.resource] += each.amount
        return less, shut
