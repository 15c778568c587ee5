"""Which jobs come after which."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from backfill.model.errors import quote
from backfill.model.workload import Ragged

SHOWN = 6  # jobs of a circle that a message names


def followers(after: Ragged) -> Ragged:
    """The reverse of `after`: the rows that must come after each row."""
    later = np.repeat(np.arange(len(after)), np.diff(after.first))
    by_earlier = np.argsort(after.items, kind="stable")
    first = np.searchsorted(after.items[by_earlier], np.arange(len(after) + 1))
    return Ragged(first.astype(np.int64), later[by_earlier].astype(np.int64))


def in_order(after: Ragged) -> list[int]:
    """All rows, each behind those that it comes after; without those in a circle and those that come after one."""
    waits_for = np.diff(after.first)
    later = followers(after)
    order = np.flatnonzero(waits_for == 0).tolist()
    for row in order:  # grows
        for follower in later[row].tolist():
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                order.append(follower)
    return order


def circle(after: Ragged) -> list[int]:
    """Rows that come after one another in a circle, the first one again at the end; empty where there are none."""
    if (after.items < np.repeat(np.arange(len(after)), np.diff(after.first))).all():
        return []  # each row comes after rows above it
    stuck = np.ones(len(after), np.bool_)
    stuck[in_order(after)] = False
    if not stuck.any():
        return []
    row = int(np.argmax(stuck))
    path: dict[int, int] = {}  # row -> place; what is stuck comes after something that is
    while row not in path:
        path[row] = len(path)
        row = next(earlier for earlier in after[row].tolist() if stuck[earlier])
    return [*list(path)[path[row] :], row]


def circle_text(names: Sequence[Any], rows: Sequence[int]) -> str:
    """A circle for people, shortened where it is long: `'a' after 'c' after 'a'`. names: of all rows."""
    shown = [quote(str(names[row])) for row in rows]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], f"... ({len(rows) - SHOWN} more)", shown[-1]]
    return " after ".join(shown)
