"""The dependencies between jobs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from backfill.model.errors import quote
from backfill.model.workload import Ints, Ragged

SHOWN = 6  # jobs of a cycle that a message names


def followers(after: Ragged) -> Ragged:
    """Invert `after`: the rows that depend on each row."""
    later = np.repeat(np.arange(len(after)), np.diff(after.first))
    by_earlier = np.argsort(after.items, kind="stable")
    first = np.searchsorted(after.items[by_earlier], np.arange(len(after) + 1))
    return Ragged(first.astype(np.int64), later[by_earlier].astype(np.int64))


def in_order(after: Ragged) -> list[int]:
    """Return all rows in a topological order, without rows in a cycle and those that depend on one."""
    waits_for = np.diff(after.first)
    return _let_go(np.flatnonzero(waits_for == 0).tolist(), waits_for, followers(after))


def _let_go(free: list[int], waits_for: Ints, later: Ragged) -> list[int]:
    """Append to `free` the rows whose dependencies are all free. waits_for: open dependencies, which count down."""
    for row in free:  # grows during the loop
        for follower in later[row].tolist():
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                free.append(follower)
    return free


def circles(after: Ragged) -> Iterator[list[int]]:
    """Yield cycles of rows that depend on one another, each list closed by its first row.

    Each cycle is found after the first row of every earlier one is freed from its dependencies. Cost: linear.
    """
    if (after.items < np.repeat(np.arange(len(after)), np.diff(after.first))).all():
        return  # each row depends on earlier rows only
    waits_for, later = np.diff(after.first), followers(after)
    stuck = np.ones(len(after), np.bool_)
    stuck[_let_go(np.flatnonzero(waits_for == 0).tolist(), waits_for, later)] = False
    cursor = after.first[:-1].copy()  # items before the cursor are resolved
    for begin in np.flatnonzero(stuck).tolist():
        path: dict[int, None] = {begin: None}  # each depends on the next, and so does an unresolved row
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
    """Return the first cycle; empty if there is none."""
    return next(circles(after), [])


def circle_text(names: Sequence[Any], rows: Sequence[int]) -> str:
    """Format a cycle for a message, shortened if it is long: `'a' after 'c' after 'a'`. names: of all rows."""
    shown = [quote(str(names[row])) for row in rows]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], f"... ({len(rows) - SHOWN} more)", shown[-1]]
    return " after ".join(shown)
