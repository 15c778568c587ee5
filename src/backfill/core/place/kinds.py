"""Assign shapes (shapes.py) to jobs: jobs with the same request to nodes share a shape, numbered as they become known.

Shapes are exact, licences included, as long as there are few. If jobs have more than MOST shapes, the amounts of a
whole log are rounded down to fewer and fewer of its requested amounts; amounts of jobs that come one by one are rounded
down to powers of two and half of three times one. Then jobs of one shape may differ in their requests, and each
placement checks the exact request.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from backfill.core.jobs import LicenceItems
from backfill.core.numbers import Numbers, Remembers, by_appearance, first_of_each, in_order
from backfill.core.place.placement import ANY, DISTINCT, NODE, SITE
from backfill.model.workload import Ints, Jobs

ROUGH = 4  # shapes reserved for jobs of which only the spread is distinguished
CODES = 127  # shapes are int8, and 127 means none
MOST = CODES - ROUGH
EXACT = 64  # jobs that come one by one get exact shapes up to this number of shapes
FINE = 4  # below this many amounts per resource, fewer resources with more amounts each are better
GRADES = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # amounts per resource, tried until there are few enough shapes
Asked = tuple[int, tuple[int, ...], int, int]  # spread, unit, set of nodes (-1 all), number of the licences (0 none)


class Kinds(Remembers):
    """The shapes of the jobs that are known so far; empty on a pool."""

    def __init__(self, capacity: Ints, pool: bool) -> None:
        self.exact = True
        self._capacity, self._pool = capacity, pool
        self._licences = Numbers()
        self._licences.of(np.zeros(1, np.int64), [b""])
        self._codes: dict[Asked, int] = {}
        self._asked: list[Asked] = []
        self._first: list[int] = []

    def __len__(self) -> int:
        return len(self._first)

    def of(self, row: int, jobs: Jobs, need: Ints, bound: Ints, licences: LicenceItems) -> Ints:
        """Return the shapes of jobs whose rows begin at `row`. need: of whole jobs. bound: -1 for all nodes."""
        if self._pool or not len(jobs):
            return np.zeros(0 if self._pool else len(jobs), np.int64)
        kind = np.where(jobs.tasks > 1, jobs.spread, ANY)
        unit = np.where((kind == NODE)[:, None], need, jobs.demand)
        items = self._licences.of(*_licence_lists(licences))
        if self._first or len(jobs) == 1:
            asked = zip(kind.tolist(), map(tuple, unit.tolist()), bound.tolist(), items.tolist(), strict=True)
            return np.array([self._one(row + i, each) for i, each in enumerate(asked)], np.int64)
        codes, unit, self.exact, bounds = _find(kind, unit, bound, items, self._capacity)
        for i in first_of_each(codes).tolist():
            there = int(bound[i]) if bounds else -1
            self._add(row + i, (int(kind[i]), tuple(unit[i].tolist()), there, int(items[i]) if self.exact else 0))
        return codes

    def forget(self, kept: Ints) -> None:
        """Renumber the first job of each shape after rows were compacted."""
        self._first = np.searchsorted(kept, self._first).tolist()

    def _one(self, row: int, asked: Asked) -> int:
        """Return the shape of one more job."""
        if self.exact and (asked in self._codes or len(self) < EXACT):
            return self._add(row, asked)
        self.exact = False
        kind, unit, bound, _ = asked
        rounded = kind, tuple(map(_rounded, unit)), bound, -1
        if rounded in self._codes or len(self) < MOST:
            return self._add(row, rounded)
        return self._add(row, (kind, (0,) * len(unit), -1, -1))

    def _add(self, row: int, asked: Asked) -> int:
        code = self._codes.setdefault(asked, len(self._codes))
        if code == len(self._first):
            self._first.append(row)
            self._asked.append(asked)
        return code

    def write(self, shapes: Any) -> None:
        """Write these shapes into the record of a State that has the capacity for them."""
        n = len(self)
        if shapes.count == n and shapes.exact == self.exact:
            return
        kinds, units, bounds, licences = (list(column) for column in zip(*self._asked, strict=True))
        kind, unit, bound = np.array(kinds), np.array(units, np.int64), np.array(bounds)
        anywhere = bound < 0
        if self.exact:
            anywhere &= np.array(licences) == 0
        single, together = (kind == NODE) | (kind == DISTINCT), kind == SITE
        below = (unit[:, None] <= unit).all(axis=2) & anywhere[:, None]
        below &= (single[:, None] <= single) & (together[:, None] <= together) & ~np.eye(n, dtype=np.bool_)
        shapes.single[:n], shapes.together[:n], shapes.unit[:n], shapes.anywhere[:n] = single, together, unit, anywhere
        shapes.first[:n], shapes.below[:n, :n] = self._first, below
        shapes.order[:n] = np.argsort(below.sum(axis=0), kind="stable")
        if shapes.exact != self.exact:
            shapes.seen[:] = -1
        shapes.count, shapes.exact = n, int(self.exact)


def _rounded(amount: int) -> int:
    """Return the greatest power of two, or half of three times one, that is at most this amount."""
    power = 1 << max(amount.bit_length() - 1, 0)
    return min(amount, power + power // 2 if amount >= power + power // 2 else power)


def _licence_lists(licences: LicenceItems) -> tuple[Ints, list[bytes]]:
    """Return the licences of each job as indices into a list of licence sets; limits are not licences."""
    first, items, counts, limits = licences
    places, codes = {b"": 0}, np.zeros(len(first) - 1, np.int64)
    for job in np.flatnonzero(limits > first[:-1]).tolist():
        begin, end = first[job], limits[job]
        codes[job] = places.setdefault(items[begin:end].tobytes() + counts[begin:end].tobytes(), len(places))
    return codes, [*places]


def _find(kind: Any, unit: Ints, bound: Ints, licences: Ints, capacity: Ints) -> tuple[Ints, Ints, bool, bool]:
    """Return the shape of each job; its unit (n, k) as rounded; whether shapes are exact; whether node sets are exact.

    Exact: all jobs of a shape request the same; node sets: all jobs of a shape are bound to the same nodes.
    """
    for exact, bounds, columns in _coarser(kind, unit, bound, licences, capacity):
        codes = np.zeros(len(kind), np.int64)
        for values in columns:
            found, place = in_order(values)
            many, codes = in_order(codes * found + place)
            if many > MOST:
                break
        else:
            return by_appearance(codes), np.stack(columns[1 : 1 + unit.shape[1]], axis=1), exact, bounds
    raise AssertionError("four kinds and nothing else are more than there is room for")


def _coarser(
    kind: Any, unit: Ints, bound: Ints, licences: Ints, capacity: Ints
) -> Iterator[tuple[bool, bool, list[Any]]]:
    """Yield the criteria that distinguish jobs, finest first: kind, unit, then where they may run; see `_find`."""
    yield True, True, [kind, *unit.T, bound, licences]
    yield False, True, [kind, *unit.T, bound]
    wanted = np.argsort(-(unit.sum(axis=0, dtype=np.float64) / np.maximum(capacity.sum(axis=0), 1)), kind="stable")
    # Keep the most requested resources; the others count as not requested.
    for bounds, resources in ((True, unit.shape[1]), (False, unit.shape[1]), (False, 2)):
        if not bounds and resources == unit.shape[1]:
            yield False, False, [kind, *unit.T]
        for most in GRADES:
            if most >= FINE or (resources <= 2 and not bounds):
                columns = np.zeros_like(unit)
                for k in wanted[:resources]:
                    columns[:, k] = _rounded_down(unit[:, k], most)
                yield False, bounds, [kind, *columns.T, *([bound] if bounds else [])]


def _rounded_down(amounts: Ints, most: int) -> Ints:
    """Return the amounts rounded down to at most `most` values, each of which covers about equally many jobs."""
    kept = np.unique(np.sort(amounts)[np.arange(most) * len(amounts) // most])
    found: Ints = kept[np.searchsorted(kept, amounts, side="right") - 1]
    return found
