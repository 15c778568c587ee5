"""What machine code is made of. A stamp names a function, all that becomes part of its code, and the records it gets.

numba's own disk cache looks only at the file that defines a function, and not at the helpers that it calls. A stamp is
that of the code which is used: an edit of a comment or of another function leaves it as it is.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.registry import CPUDispatcher

CONSTANTS = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None), type(...), np.generic, np.dtype)


def stamp(function: Callable[..., Any], kinds: tuple[Any, ...], ours: bool) -> str:
    """The stamp of a function that is compiled for arguments of these numba types.

    Kernels apart are called by a symbol: of them their signature counts, so they have been loaded by then. ours: what
    the function refers to is made of what this module knows; else whoever keeps its code looks at its source as well.

    Raises TypeError for a value that no stamp can stand for.
    """
    digest = hashlib.sha256()
    for each, named in parts(function):
        digest.update(_written(each))
        for name, value in named:
            digest.update(f"{name}={_told(value, each, ours)}\0".encode())
    for kind in kinds:
        digest.update(_described(kind).encode())
    return digest.hexdigest()


def parts(function: Any) -> Iterator[tuple[Any, list[tuple[str, Any]]]]:
    """A function and all kernels that become part of its code, each with the names in it and what these stand for."""
    seen, todo = set(), [function]
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        named = [*_meant(each)]
        yield each, named
        todo += [value.py_func for _, value in named if isinstance(value, CPUDispatcher) and not _is_apart(value)]


def _meant(function: Any) -> Iterator[tuple[str, Any]]:
    """What the names in a function stand for, and what the modules among that have."""
    for name, value in _named(function):
        yield name, value
        if isinstance(value, ModuleType):
            for attribute in _names(function.__code__):
                if attribute in vars(value):
                    yield f"{name}.{attribute}", vars(value)[attribute]


def _is_apart(value: Any) -> bool:
    """Whether others call this by its symbol."""
    return hasattr(value, "symbol")


@cache
def _described(kind: Any) -> str:
    """A numba type with the fields of the records in it."""
    if hasattr(kind, "opened"):
        return f"{kind}{_described(kind.opened)}"
    fields = getattr(kind, "fields", None)
    if not isinstance(fields, Mapping):
        return str(kind)
    return f"{kind}({','.join(f'{name}:{_described(field)}' for name, field in fields.items())})"


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in code, and in the functions within."""
    inner = [each for const in code.co_consts if isinstance(const, CodeType) for each in _names(const)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


@cache
def _written(function: Any) -> bytes:
    """The code of a function, without its docstring and its lines."""
    digest = hashlib.sha256(f"{function.__defaults__}{function.__kwdefaults__}".encode())
    _add(digest, function.__code__, function.__doc__)
    return digest.digest()


def _add(digest: Any, code: CodeType, doc: str | None) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)).encode())
    for place, const in enumerate(code.co_consts):
        if isinstance(const, CodeType):
            _add(digest, const, None)
        elif place or const is not doc:  # the first is the docstring, or None
            digest.update(f"{type(const).__name__}{const!r}\0".encode())


def _told(value: Any, user: Any, ours: bool) -> str:
    """What counts of a value that code refers to, but for the code of functions."""
    if isinstance(value, CPUDispatcher):
        if _is_apart(value):
            return f"{value.symbol}{[str(made.signature) for made in value.overloads.values()]}"
        return f"{value.targetoptions}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, CONSTANTS):
        return f"{type(value).__name__}{value!r}"
    if isinstance(value, types.Type):
        return _described(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    known = isinstance(value, ModuleType) or callable(value)  # of a library, or of this package: see jit.key
    if ours and not known:
        raise TypeError(f"{user.__module__}.{user.__qualname__} refers to {value!r}, for which no stamp can stand")
    return getattr(value, "__qualname__", type(value).__qualname__)
