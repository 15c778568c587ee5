"""Records and kernels: one field table gives a compiled record and, without the compiler, a plain class."""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import njit, types

from backfill import jit

Fields = Sequence[tuple[str, Any]]  # (name, numba type)


def kernel(*signature: Any, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile for the disk cache; without the compiler leave the function as it is.

    With a signature (result, arguments ...) it is compiled where it is defined: for what Python calls. Without one it
    is compiled into whatever calls it, so that importing a module costs nothing for its helpers. `inline` insists that
    the machine code has no call: for small functions on the path of every event.
    """
    if jit.PLAIN:
        return lambda function: function
    options: Any = {"cache": jit.FOLDER is not None, "error_model": "numpy", "fastmath": False, "forceinline": inline}
    make: Callable[[Any], Any] = njit(signature[0](*signature[1:]), **options) if signature else njit(**options)
    return make


def record(name: str, fields: Fields, module: dict[str, Any]) -> tuple[Any, Any]:
    """A mutable record with these fields, made from keywords, and its numba type (None without the compiler).

    `module` is the globals() of the caller: types must be importable from there by their names, because numba pickles
    the types of a signature into the key of its disk cache. Arrays are shared memory: Python keeps those it put in.
    A field may be another record; Python keeps that one too.
    """
    names = [field for field, _ in fields]
    if jit.PLAIN:
        return _plain(name, names), None
    from numba.experimental import structref

    from backfill.core.pointer import pointer_type

    @structref.register
    class Owner(types.StructRef):
        def preprocess_fields(self, fields: Any) -> Any:
            return tuple((field, types.unliteral(kind)) for field, kind in fields)

    Owner.__name__ = Owner.__qualname__ = name + "Owner"
    Owner.__module__ = module["__name__"]
    module[Owner.__name__] = Owner

    def new(cls: Any, **values: Any) -> Any:
        for field, kind in fields:  # the compiled constructor takes any types and lays them out as they come
            if numba.typeof(values[field]) != kind:
                raise TypeError(f"{name}.{field} is {numba.typeof(values[field])}; expected {kind}")
        self = structref.StructRefProxy.__new__(cls, *(values[field] for field in names))
        kept = {field: v for field, v in values.items() if isinstance(v, np.ndarray | structref.StructRefProxy)}
        self.__dict__.update(kept)
        return self

    members: dict[str, Any] = {
        field: property(_reader(field)) for field, kind in fields if isinstance(kind, types.Number)
    }
    pointer = pointer_type(name, Owner(list(fields)), module)
    members |= {"__new__": new, "__module__": module["__name__"], "_numba_type_": pointer}
    proxy = type(name, (structref.StructRefProxy,), members)
    structref.define_proxy(proxy, Owner, names)
    return proxy, pointer


def _plain(name: str, names: list[str]) -> Any:
    def init(self: Any, **values: Any) -> None:
        for field in names:
            setattr(self, field, values[field])

    return type(name, (), {"__slots__": names, "__init__": init})


def _reader(field: str) -> Any:
    scope: dict[str, Any] = {"njit": numba.njit}
    exec(f"@njit\ndef read(record):\n    return record.{field}\n", scope)  # compiled at its first use only
    return scope["read"]


@kernel()
def doubled(array):
    """A copy of a 1-d array with twice the length."""
    bigger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        bigger[i] = array[i]
    return bigger


@kernel()
def doubled_rows(array):
    """A copy of a 2-d array with twice the rows."""
    rows, columns = array.shape
    bigger = np.empty((2 * rows, columns), array.dtype)
    for i in range(rows):
        for c in range(columns):
            bigger[i, c] = array[i, c]
    return bigger


@kernel()
def doubled_columns(array):
    """A copy of a 2-d array with twice the columns."""
    rows, columns = array.shape
    bigger = np.empty((rows, 2 * columns), array.dtype)
    for i in range(rows):
        for c in range(columns):
            bigger[i, c] = array[i, c]
    return bigger
