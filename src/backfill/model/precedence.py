"""The dependencies between jobs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from backfill.model.errors import quote
from backfill.model.workload import Ints, Ragged

SHOWN = 6  # jobs of a circle that a message names


def followers(after: Ragged) -> Ragged:
    """The reverse of `after`: the rows that must come after each row."""
    later = np.repeat(np.arange(len(after)), np.diff(after.first))
    by_earlier = np.argsort(after.items, kind="stable")
    first = np.searchsorted(after.items[by_earlier], np.arange(len(after) + 1))
    return Ragged(first.astype(np.int64), later[by_earlier].astype(np.int64))


def in_order(after: Ragged) -> list[int]:
    """All rows in an order in which each follows its predecessors; without rows in a cycle and those that depend on
    one.
    """
    waits_for = np.diff(after.first)
    return _let_go(np.flatnonzero(waits_for == 0).tolist(), waits_for, followers(after))


def _let_go(free: list[int], waits_for: Ints, later: Ragged) -> list[int]:
    """Append to `free` all rows that come after nothing else. waits_for: how many each comes after; it counts down."""
    for row in free:  # grows
        for follower in later[row].tolist():
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                free.append(follower)
    return free


def circles(after: Ragged) -> Iterator[list[int]]:
    """Rows that come after one another in a circle, the first one again at the end.

    One circle after the other, until none would be left if the first row of each came after nothing. Cost: linear.
    """
    if (after.items < np.repeat(np.arange(len(after)), np.diff(after.first))).all():
        return  # each row comes after rows above it
    waits_for, later = np.diff(after.first), followers(after)
    stuck = np.ones(len(after), np.bool_)
    stuck[_let_go(np.flatnonzero(waits_for == 0).tolist(), waits_for, later)] = False
    cursor = after.first[:-1].copy()  # what stands before in `items` is not stuck
    for begin in np.flatnonzero(stuck).tolist():
        path: dict[int, None] = {begin: None}  # each comes after the next; what is stuck comes after something that is
        while path:
            row = next(reversed(path))
            if not stuck[row]:
                del path[row]
                continue
            while not stuck[after.items[cursor[row]]]:
                cursor[row] += 1
            earlier = int(after.items[cursor[row]])
            if earlier not in path:
                path[earlier] = None
                continue
            circle = [earlier]
            while (row := path.popitem()[0]) != earlier:
                circle.append(row)
            yield [earlier, *reversed(circle)]
            waits_for[earlier] = 0
            stuck[_let_go([earlier], waits_for, later)] = False


def circle(after: Ragged) -> list[int]:
    """The first circle; empty where there is none."""
    return next(circles(after), [])


def circle_text(names: Sequence[Any], rows: Sequence[int]) -> str:
    """A circle for people, shortened where it is long: `'a' after 'c' after 'a'`. names: of all rows."""
    shown = [quote(str(names[row])) for row in rows]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], f"... ({len(rows) - SHOWN} more)", shown[-1]]
    return " after ".join(shown)
