"""Dataclasses and arrays as one zip file, which appears whole or not at all; a copy read from it equals the original.

The file holds `value.json`, and `N.npy` for each array. Unlike a pickle, it runs no code when it is read: only the
dataclasses that the reader lists are made, by their names.
"""

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backfill.model.errors import InputError, at
from backfill.traces.files import written

VALUE = "value.json"
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of zip files; equal values give equal files
_PLAIN = (bool, int, str, type(None))


class PackedError(InputError):
    """A packed file cannot be read, or is damaged."""


def write_packed(path: str | Path, value: Any) -> None:
    """Write a value: dataclasses, tuples, lists, dicts, frozen sets, arrays, numbers and texts, nested at will.

    Raises BackfillError if the file cannot be written, TypeError for a value of another kind.
    """
    arrays: list[Any] = []
    document = json.dumps(_described(value, arrays), allow_nan=False)
    with written(path) as out, zipfile.ZipFile(out, "w") as packed:
        packed.writestr(_entry(VALUE), document)
        for number, array in enumerate(arrays):
            with packed.open(_entry(f"{number}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_packed(path: str | Path, classes: Iterable[type]) -> Any:
    """Return the value in a file that `write_packed` wrote.

    classes: the dataclasses that it may contain. Raises PackedError for a file that is damaged or contains others.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            document = json.loads(packed.read(VALUE))
            names = {name for name in packed.namelist() if name != VALUE}
            arrays = [_array(packed.read(f"{number}.npy")) for number in range(len(names))]
        return _made(document, arrays, {each.__name__: each for each in classes})
    except OSError as problem:
        raise PackedError(at(str(path), None, f"cannot be read: {problem.strerror or problem}")) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, AttributeError, TypeError, ValueError,
            NotImplementedError, InputError) as problem:  # fmt: skip
        raise PackedError(at(str(path), None, f"is damaged: {' '.join(str(problem).split())}")) from None


def digest(value: Any) -> str:
    """Return the SHA-256 of a value that could be packed, as 64 hexadecimal digits."""
    arrays: list[Any] = []
    found = hashlib.sha256(json.dumps(_described(value, arrays)).encode())
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _FIRST_DAY)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _array(data: bytes) -> Any:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _described(value: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON, with its arrays appended to `arrays`."""

    def all_of(values: Iterable[Any]) -> list[Any]:
        return [_described(each, arrays) for each in values]

    if isinstance(value, np.generic):  # before the plain numbers, as some of these are Python's as well
        arrays.append(np.asarray(value))
        return {"scalar": len(arrays) - 1}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"objects": all_of(value.tolist())}
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, list):
        return all_of(value)
    if isinstance(value, tuple):
        return {"tuple": all_of(value)}
    if isinstance(value, frozenset):
        return {"frozenset": all_of(sorted(value))}
    if isinstance(value, Mapping):
        return {"dict": [all_of(pair) for pair in value.items()]}
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: _described(getattr(value, each.name), arrays) for each in fields(value) if each.init}
        return {"of": type(value).__name__, "fields": held}
    raise TypeError(f"{type(value).__name__} cannot be packed")


def _made(document: Any, arrays: list[Any], classes: Mapping[str, type]) -> Any:
    """Return the value that `_described` described."""

    def all_of(documents: Iterable[Any]) -> list[Any]:
        return [_made(each, arrays, classes) for each in documents]

    if isinstance(document, list):
        return all_of(document)
    if not isinstance(document, dict):
        return document
    if "of" in document:
        held = {name: _made(each, arrays, classes) for name, each in document["fields"].items()}
        return classes[document["of"]](**held)
    kind, held = document.popitem()
    if kind == "dict":
        return dict(map(all_of, held))
    if kind == "objects":
        texts = np.empty(len(held), object)
        texts[:] = all_of(held)
        return texts
    if kind in ("tuple", "frozenset"):
        return (tuple if kind == "tuple" else frozenset)(all_of(held))
    if kind == "float":
        return float(held)
    return arrays[held] if kind == "array" else arrays[held][()]
