"""A planner that can be set back: to look into many futures from one present.

A State is records of numbers and arrays (core/record.py). They are put aside once and copied back after each future. An
array that compiled code has replaced by a longer one is left to it: the record points to the first one again.
"""

import copy
import ctypes
from functools import partial
from typing import Any

import numpy as np

from backfill.queue.planner import Planner


class Present:
    """A planner as it is now."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._plain: list[tuple[Any, str, Any]] = []  # record, field, number or array
        self._payloads: list[tuple[int, bytes]] = []
        self._arrays: list[tuple[Any, Any]] = []  # where it lies, what stood there
        seen: set[int] = set()
        todo = [planner.state]
        while todo:
            record = todo.pop()
            if id(record) in seen:
                continue
            seen.add(id(record))
            todo += self._put_aside(record) if hasattr(record, "address") else self._put_aside_plain(record)
        self._python = _copied(planner)

    def restore(self) -> None:
        """Nothing has happened since."""
        for record, field, value in self._plain:
            setattr(record, field, value)
        for address, payload in self._payloads:
            ctypes.memmove(address, payload, len(payload))
        for array, stood in self._arrays:
            array[...] = stood
        vars(self._planner).update(_copied_values(self._python))

    def _put_aside(self, record: Any) -> list[Any]:
        """Of a compiled record: as numba lays it out, see core/record.py. Returns the records in it."""
        places = {
            name: member.fget.args
            for name, member in vars(type(record)).items()
            if isinstance(member, property) and isinstance(member.fget, partial)
        }
        inner = [value for value in vars(record).values() if hasattr(value, "address")]
        size = 0
        for name, (offset, *shaped) in places.items():
            size = max(size, offset + 8)
            if shaped:
                array = np.array(getattr(record, name), order="C")  # a place that no compiled code gives back
                words = [0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
                told = np.array(words, np.int64)
                ctypes.memmove(record.address + offset, told.ctypes.data, told.nbytes)
                self._arrays.append((array, array.copy()))
                vars(record)["kept"].append(array)
                size = max(size, offset + told.nbytes)
        self._payloads.append((record.address, ctypes.string_at(record.address, size)))
        return inner

    def _put_aside_plain(self, record: Any) -> list[Any]:
        inner = []
        for field in type(record).__slots__:
            value = getattr(record, field)
            if isinstance(value, np.ndarray | np.generic | int):
                self._plain.append((record, field, value))
            else:
                inner.append(value)
            if isinstance(value, np.ndarray):
                self._arrays.append((value, value.copy()))
        return inner


def _copied(planner: Planner) -> dict[str, Any]:
    """What the planner keeps in Python of what it was told."""
    names = [name for name, value in vars(planner).items() if isinstance(value, dict | list | bool | int)]
    return {name: copy.copy(getattr(planner, name)) for name in names}


def _copied_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in values.items()}
