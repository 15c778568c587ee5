"""Stamps: digests that identify compiled functions by the code they are made of and the records they receive.

numba's own disk cache checks only the file that defines a function, not the helpers that the function calls. A stamp
covers the code that is used: editing a comment or another function does not change it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.registry import CPUDispatcher

CONSTANTS = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None), type(...), np.generic, np.dtype)


def stamp(function: Callable[..., Any], kinds: tuple[Any, ...], ours: bool) -> str:
    """Return the stamp of a function compiled for arguments of these numba types.

    Separately compiled kernels are called through a symbol and count by their signature only, for which they are
    loaded. If `ours` is set, everything that the function refers to must be covered by the stamp; otherwise the cache
    checks the source of the function as well. Raises TypeError for a value that a stamp cannot cover.
    """
    digest = hashlib.sha256()
    for each, named in parts(function):
        digest.update(_written(each))
        for name, value in named:
            digest.update(f"{name}={_told(value, each, ours, kinds)}\0".encode())
    for kind in kinds:
        digest.update(_described(kind).encode())
    return digest.hexdigest()


def parts(function: Any) -> Iterator[tuple[Any, list[tuple[str, Any]]]]:
    """Yield a function and all kernels compiled into it, each with the names it uses and their values."""
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
    """Yield the names in a function with their values, and those attributes of modules that the function uses."""
    for name, value in _named(function):
        yield name, value
        if isinstance(value, ModuleType):
            for attribute in _names(function.__code__):
                if attribute in vars(value):
                    yield f"{name}.{attribute}", vars(value)[attribute]


def view_in(kinds: Iterable[Any]) -> Any:
    """Return the type of the view of a policy among types of arguments; None if there is none."""
    return next((kind for kind in kinds if hasattr(kind, "opened")), None)


def _is_apart(value: Any) -> bool:
    """Return whether this is a separately compiled kernel, called through a symbol."""
    return hasattr(value, "symbol")


@cache
def _described(kind: Any) -> str:
    """Describe a numba type, including the fields of the records in it, and which of them are fixed."""
    if hasattr(kind, "opened"):
        return f"{kind}{_described(kind.opened)}"
    fields = getattr(kind, "fields", None)
    if not isinstance(fields, Mapping):
        return str(kind)
    fixed = getattr(kind, "fixed", ())
    told = (f"{name}{'!' if name in fixed else ''}:{_described(field)}" for name, field in fields.items())
    return f"{kind}({','.join(told)})"


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names of globals and attributes in code, including nested functions."""
    inner = [each for const in code.co_consts if isinstance(const, CodeType) for each in _names(const)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


@cache
def _written(function: Any) -> bytes:
    """Return a digest of the code of a function, without its docstring and line numbers."""
    digest = hashlib.sha256(f"{function.__defaults__}{function.__kwdefaults__}".encode())
    _add(digest, function.__code__, function.__doc__)
    return digest.digest()


def _add(digest: Any, code: CodeType, doc: str | None) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)).encode())
    for place, const in enumerate(code.co_consts):
        if isinstance(const, CodeType):
            _add(digest, const, None)
        elif place or const is not doc:  # the first constant is the docstring, or None
            digest.update(f"{type(const).__name__}{const!r}\0".encode())


def _told(value: Any, user: Any, ours: bool, kinds: tuple[Any, ...]) -> str:
    """Describe a value that code refers to, as far as it matters for the stamp; the code of functions is left out.

    kinds: of the arguments of the function that is stamped.
    """
    if isinstance(value, CPUDispatcher):
        if _is_apart(value):
            view = view_in(kinds)
            return f"{value.symbol(view)}{[str(value.load(view).signature)]}"
        return f"{value.targetoptions}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, CONSTANTS):
        return f"{type(value).__name__}{value!r}"
    if isinstance(value, types.Type):
        return _described(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    known = isinstance(value, ModuleType) or callable(value)  # part of a library or of this package: see jit.key
    if ours and not known:
        raise TypeError(f"{user.__module__}.{user.__qualname__} refers to {value!r}, for which no stamp can stand")
    return getattr(value, "__qualname__", type(value).__qualname__)
