"""Numbers for names, in order of first appearance, so that no number reveals anything about later jobs."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from backfill.model.workload import Ints

DENSE = 4  # a range of values that is at most so many times as long as their list is dense


class Remembers:
    """Base class of numberings. A copy continues independently."""

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        vars(new).update({name: copy.copy(value) for name, value in vars(self).items()})
        return new


class Numbers(Remembers):
    """A numbering of names."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}
        self.count = 0

    def of(self, codes: Any, names: Sequence[Any] | None = None, alone: bool = False) -> Ints:
        """Return the number of each job's name. New names get the next numbers.

        codes: shape (jobs,), the index of each job's name in `names`, -1 for a job without one; without `names`, the
        codes are the names. alone: whether a job without a name gets a number of its own instead of -1.
        """
        own = len(names or ())
        if names is not None and not own:
            if not alone:
                return np.full(len(codes), -1, np.int32)
            self.count += len(codes)
            return np.arange(self.count - len(codes), self.count)
        if alone:
            codes = np.where(codes >= 0, codes.astype(np.int64), own + np.arange(len(codes)))
        local = by_appearance(codes)
        first = first_of_each(local)
        number, new = np.empty(len(first), np.int64), np.ones(len(first), np.bool_)
        appeared = codes[first]
        some = np.flatnonzero(appeared < own) if alone else np.arange(len(first))
        named = [(i, code if names is None else names[code])
                 for i, code in zip(some.tolist(), appeared[some].tolist(), strict=True)]  # fmt: skip
        for i, name in named:
            if (known := self.known.get(name)) is not None:
                number[i], new[i] = known, False
        number[new] = self.count + np.arange(new.sum())
        self.count += int(new.sum())
        self.known.update((name, int(number[i])) for i, name in named)
        found: Ints = np.append(number, -1)[local]
        return found

    def of_one(self, name: str, alone: bool = False) -> int:
        """Return the number of the name of one job, or of none; see `of`."""
        if not name and not alone:
            return -1
        number = self.known.get(name, self.count) if name else self.count
        if number == self.count:
            self.count += 1
            if name:
                self.known[name] = number
        return number

    def forget(self, kept: Ints) -> None:
        """Renumber the kept names, ascending, and forget the others."""
        place = {number: i for i, number in enumerate(kept.tolist())}
        self.known = {name: place[number] for name, number in self.known.items() if number in place}
        self.count = len(kept)


def by_appearance(codes: Any) -> Any:
    """Return the codes renumbered by first appearance; -1 stays."""
    before = np.maximum.accumulate(np.append(-1, codes))[:-1]
    if (codes <= before + 1).all():
        return codes
    count, place = in_order(codes)
    first = np.empty(count, np.int64)
    first[place[::-1]] = np.arange(len(codes))[::-1]
    number = np.full(count, -1)
    some = codes[first] >= 0
    number[some] = np.argsort(np.argsort(first[some]))
    return number[place]


def first_of_each(numbers: Any) -> Ints:
    """Return where each number occurs first, if they are numbered by first appearance."""
    return np.flatnonzero(numbers > np.maximum.accumulate(np.append(-1, numbers))[:-1])


def in_order(values: Any) -> tuple[int, Ints]:
    """Return how many different values there are, and the place of each value among these in ascending order."""
    if not len(values):
        return 0, np.zeros(0, np.int64)
    values = values.astype(np.int64, copy=False)
    least, span = values.min(), int(values.max()) - int(values.min())
    if span > DENSE * len(values):
        known, place = np.unique(values, return_inverse=True)
        return len(known), place
    there = np.zeros(span + 1, np.bool_)  # a table of all values between them is faster than sorting
    there[values - least] = True
    places = np.cumsum(there) - 1
    return int(places[-1]) + 1, places[values - least]
