"""Save and restore a State, or move it into one with more or fewer rows in the job table.

Both work on the fields of its records (record.py) without knowing their meaning. Records hold numbers, arrays and other
records; one record may be reached in two ways (State.plan and State.other).
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from backfill.compiler.record import fields_of, replace_array
from backfill.core.compact import Kept
from backfill.core.plan.profile import BLOCK, Profile, add_lanes
from backfill.core.policy import Policy
from backfill.core.queue.deep import lay_out


class Snapshot:
    """A saved State.

    Its arrays are replaced by copies that belong to Python: compiled code may replace an array by a longer one, but
    does not free it.
    """

    def __init__(self, state: Any) -> None:
        self._numbers: list[tuple[Any, str, int]] = []
        self._arrays: list[tuple[Any, str, Any, Any]] = []  # record, field, its array, the saved content
        for record, _ in _pairs(state, state):
            for field in fields_of(record):
                value = getattr(record, field)
                if isinstance(value, np.ndarray):
                    own = value.copy()
                    replace_array(record, field, own)
                    self._arrays.append((record, field, own, own.copy()))
                elif _is_number(value):
                    self._numbers.append((record, field, value))

    def restore(self) -> None:
        """Restore the saved State."""
        for record, field, value in self._numbers:
            setattr(record, field, value)
        for record, field, array, stood in self._arrays:
            replace_array(record, field, array)
            array[...] = stood


def values_of(state: Any) -> list[Any]:
    """Return the numbers and arrays of a State in the order of its records and fields; the arrays are not copies."""
    values = [getattr(record, field) for record, _ in _pairs(state, state) for field in fields_of(record)]
    return [value for value in values if _is_plain(value)]


def fill(state: Any, values: list[Any]) -> None:
    """Fill a new State of the same kind with these values."""
    left = iter(values)
    for record, _ in _pairs(state, state):
        for field in fields_of(record):
            value = getattr(record, field)
            if isinstance(value, np.ndarray):
                replace_array(record, field, next(left))
            elif _is_number(value):
                setattr(record, field, int(next(left)))


def move_into(old: Any, new: Any, policy: Policy, kept: Kept | None = None) -> None:
    """Move the content of an old State into a new one with enough capacity. The old one stays as it is.

    Each array of the new State gets the content of the old one, at the same positions, and at least its size; the
    memory of the policy, the heads of bookings and the lanes of plans, which have their own layout, are moved by their
    owners. kept: what is kept, if not everything is.
    """
    rows = new.jobs.rows
    memories = [(kind, _parts(old, kind), _parts(new, kind)) for kind in ("int", "float")]
    for here, there in _pairs(old, new):
        known, amounts = 0, None
        if isinstance(here, Profile):  # a new lane starts with all copies of a licence, since none is booked yet
            known = len(here.blocks)
            amounts = there.room[:, there.lane[known:, 0] * BLOCK].T.copy()
        for field in fields_of(here):
            value = getattr(here, field)
            if kept is not None and _is_plain(value):
                value = kept.field(here, field, value)
            if isinstance(value, np.ndarray):
                longer = value.copy() if amounts is not None else _at_least(value, getattr(there, field))
                replace_array(there, field, longer)
            elif _is_number(value):
                setattr(there, field, value)
        if amounts is not None:
            add_lanes(there, amounts)
    new.jobs.rows = rows
    new.plan.kept = new.other.kept = 0  # runs may have other numbers now
    for (kind, before, after), sizes in zip(memories, (policy.memory, policy.memory_f), strict=True):
        if kept is not None:
            several = zip(before, sizes.values(), strict=True)
            before = [part[kept.jobs] if size == "jobs" else part for part, size in several]
        parts = [_at_least(part, room) for part, room in zip(before, after, strict=True)]
        memory = getattr(new.own, f"memory_{kind}")
        replace_array(new.own, f"memory_{kind}", np.concatenate([memory[:0], *parts]))
        at = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)
        replace_array(new.own, f"at_{kind}", at)
    head = old.bookings.head
    replace_array(new.bookings, "head", head.copy() if kept is None else kept.field(old.bookings, "head", head))
    if new.queue.deep:  # it is laid out by shapes, and there may be more of them now
        replace_array(new.queue, "size", np.zeros(0, np.int8))
        lay_out(new, np.int64(new.queue.places), np.int64(1))


def _at_least(value: Any, room: Any) -> Any:
    """Return an array as long as the longer of two in each dimension, filled from the first, then the second."""
    shape = tuple(max(sizes) for sizes in zip(value.shape, room.shape, strict=True))
    found = np.zeros(shape, value.dtype)
    found[tuple(slice(size) for size in room.shape)] = room
    found[tuple(slice(size) for size in value.shape)] = value
    return found


def _parts(state: Any, kind: str) -> list[Any]:
    """Return the named memories of a policy, one by one."""
    memory, at = getattr(state.own, f"memory_{kind}"), getattr(state.own, f"at_{kind}").tolist()
    return [memory[begin:end].copy() for begin, end in pairwise(at)]


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each record of a State once, with its counterpart in another State."""
    seen: set[int] = set()
    todo = [(one, other)]
    while todo:
        here, there = todo.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here, there
        for field in fields_of(here):
            value = getattr(here, field, None)
            if value is not None and not _is_plain(value):
                todo.append((value, getattr(there, field)))
