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
    options = {"cache": jit.FOLDER is not None, "error_model": "numpy", "fastmath": False, "forceinline": inline}
    return njit(signature[0](*signature[1:]), **options) if signature else njit(**options)


def record(name: str, fields: Fields, module: dict[str, Any]) -> tuple[Any, Any]:
    """A mutable record with these fields and its numba type (None without the compiler).

    `module` is the globals() of the caller: the type must be importable from there by its name, because numba pickles
    the types of a signature into the key of its disk cache. Arrays are shared memory: Python keeps those it put in.
    """
    names = [field for field, _ in fields]
    if jit.PLAIN:
        return _plain(name, names), None
    from numba.experimental import structref

    @structref.register
    class Type(types.StructRef):  # type: ignore[misc]
        def __init__(self, fields: Any) -> None:
            super().__init__(fields)
            self.name = name  # the default spells out every field, in every symbol of every function

        def preprocess_fields(self, fields: Any) -> Any:
            return tuple((field, types.unliteral(kind)) for field, kind in fields)

    Type.__name__ = Type.__qualname__ = name + "Type"
    Type.__module__ = module["__name__"]
    module[Type.__name__] = Type

    def new(cls: Any, **values: Any) -> Any:
        self = structref.StructRefProxy.__new__(cls, *(values[field] for field in names))
        self.__dict__.update({field: v for field, v in values.items() if isinstance(v, np.ndarray)})
        return self

    members: dict[str, Any] = {
        field: property(_reader(field)) for field, kind in fields if not isinstance(kind, types.Array)
    }
    proxy = type(name, (structref.StructRefProxy,), members | {"__new__": new, "__module__": module["__name__"]})
    structref.define_proxy(proxy, Type, names)
    return proxy, Type(list(fields))


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
