"""The waiting jobs as plain sorted lists, and the walk over them."""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

Place = tuple[float, int]  # key, job
BEFORE_ALL: Place = (float("-inf"), -1)
BEHIND_ALL: Place = (float("inf"), 2**62)


@dataclass(frozen=True)
class Asked:
    """What a walk asks of a job."""

    walltime: int
    needs: tuple[int, ...]


class Queue:
    """Jobs in one or more orders. A walk stands behind the place that it gave last, wherever jobs come and go."""

    def __init__(self, orders: list[Callable[[int], float]]) -> None:
        self.orders = orders
        self.lines: list[list[Place]] = [[] for _ in orders]
        self.passed = [BEFORE_ALL for _ in orders]
        self.asked: dict[int, Asked] = {}

    def enqueue(self, job: int, asked: Asked) -> None:
        self.asked[job] = asked
        for order, line in zip(self.orders, self.lines, strict=True):
            insort(line, (order(job), job))

    def dequeue(self, job: int) -> None:
        del self.asked[job]
        self.lines = [[place for place in line if place[1] != job] for line in self.lines]

    def head(self) -> int:
        return self.lines[0][0][1] if self.lines[0] else -1

    def rewind(self, slot: int) -> None:
        self.passed[slot] = BEFORE_ALL

    def following(self, slot: int, fits: Callable[[Asked], bool] = lambda asked: True) -> int:
        """The next job of the walk that fits; -1 at the end."""
        later = (place for place in self.lines[slot] if place > self.passed[slot] and fits(self.asked[place[1]]))
        self.passed[slot] = next(later, BEHIND_ALL)
        return -1 if self.passed[slot] == BEHIND_ALL else self.passed[slot][1]

    def candidate(self, slot: int, free: tuple[int, ...], extra: tuple[int, ...], span: int) -> int:
        """The next job of the walk that fits in what is free, and ends in time or fits in the extra as well."""

        def fits(asked: Asked) -> bool:
            return within(asked.needs, free) and (asked.walltime <= span or within(asked.needs, extra))

        return self.following(slot, fits)


def within(needs: tuple[int, ...], bounds: tuple[int, ...]) -> bool:
    return all(need <= bound for need, bound in zip(needs, bounds, strict=True))
