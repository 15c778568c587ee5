"""Records: one table of fields defines a compiled record and, without the compiler, a plain class."""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import types

from backfill.compiler import jit, kept
from backfill.compiler.items import move_items
from backfill.compiler.kernel import kernel

Fields = Sequence[tuple[str, Any]]  # (name, numba type)

allocators: list[Any] = []  # compiled at the first record of each class


def record(name: str, fields: Fields, module: dict[str, Any], *, fixed: Sequence[str] = ()) -> tuple[Any, Any]:
    """Return a mutable record class with these fields, constructed from keywords, and its numba type.

    The type is None without the compiler. `module` is the globals() of the caller: types must be importable from there
    by their names, because numba pickles the types of a signature into the key of its disk cache. A field may be
    another record. Python reads fields from the memory that compiled code writes, so it sees every change; do not keep
    an array that was read while compiled code may replace it by a longer one. `fixed` are the numbers and
    records that no kernel writes, so that they need not be read again; Python may write them between calls of kernels.

    A kernel constructs a record of numbers and arrays in the same way, and gets one whose references are counted. It
    hands it to another kernel, which reads and writes it through `borrow`.
    """
    names = [field for field, _ in fields]
    if not {*fixed} <= {*names}:
        raise TypeError(f"{name} has no {min({*fixed} - {*names})}, which is to be fixed")
    if jit.PLAIN:
        return _plain(name, names), None
    from numba.experimental import structref

    from backfill.compiler.pointer import let_kernels_make, pointer_type

    @structref.register
    class Owner(types.StructRef):
        def preprocess_fields(self, fields: Any) -> Any:
            return tuple((field, types.unliteral(kind)) for field, kind in fields)

    Owner.__name__ = Owner.__qualname__ = name + "Owner"
    Owner.__module__ = module["__name__"]
    module[Owner.__name__] = Owner

    owner = Owner(list(fields))
    written = [(field, kind, _item(kind)) for field, kind in fields]

    def allocate() -> Any:
        return structref.new(owner)

    allocate = kept.compiled(allocate)
    allocators.append(allocate)

    def new(cls: Any, **values: Any) -> Any:
        self = allocate()
        address = self._meminfo.data
        _write(address, [_words(name, field, kind, item, values[field]) for field, kind, item in written])
        records = {f: v for f, v in values.items() if isinstance(v, structref.StructRefProxy)}
        arrays = {f: v for f, v in values.items() if isinstance(v, np.ndarray)}
        self.__dict__.update(records, address=address, _arrays=arrays, _inner=[*records.values()])
        return self

    members: dict[str, Any] = {}
    offset, places = 0, {}
    for field, kind in fields:
        if isinstance(kind, types.Array):
            members[field] = property(partial(_array_at, offset, kind.ndim, _item(kind)))
        elif isinstance(kind, types.Number):
            members[field] = property(partial(_number_at, offset), partial(_set_number, offset))
        places[field] = name, kind, _item(kind), offset
        offset += 8 * (5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1)
    pointer = pointer_type(name, owner, module, fixed)
    members |= {"__new__": new, "__module__": module["__name__"], "_numba_type_": pointer, "__places__": places}
    members["_fields"] = tuple((field, str(kind)) for field, kind in fields)  # for stamps of kernels that make one
    members["__getattr__"] = _address
    proxy = type(name, (structref.StructRefProxy,), members)
    structref.define_boxing(Owner, proxy)
    Owner.pointer = pointer
    let_kernels_make(proxy, owner)
    return proxy, pointer


# numba's own constructor and field readers would be compiled again in each process, for two seconds. So fields are
# written and read from here, in numba's layout: a number is a word, a record the address of its payload, an array
# (owner, parent, items, bytes per item, address, shape, strides). The owner is null: Python keeps the arrays that it
# stored, and the record keeps those that compiled code made.


def _item(kind: Any) -> Any:
    """Return the numpy type of an array field's items; None if the field is not an array."""
    return np.dtype(str(kind.dtype)) if isinstance(kind, types.Array) else None


def _address(record: Any, name: str) -> int:
    """Return the address of the fields of a record that a kernel has made, at the first look."""
    if name != "address":
        raise AttributeError(f"{type(record).__name__} has no {name}")
    record.address = int(record._meminfo.data)
    return int(record.address)


def _words(name: str, field: str, kind: Any, item: Any, value: Any) -> list[int]:
    if item is not None:
        if not (
            isinstance(value, np.ndarray) and value.dtype == item and value.ndim == kind.ndim and value.flags.carray
        ):
            expected = f"a C-contiguous, writeable {kind.dtype} array, {kind.ndim}d"
            raise TypeError(f"{name}.{field} is {_told(value)}; expected {expected}")
        return [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
    if kind == types.int64 and isinstance(value, int | np.int64) and not isinstance(value, bool):
        return [int(value)]
    if getattr(value, "_numba_type_", None) != kind:
        raise TypeError(f"{name}.{field} is {_told(value)}; expected {kind}")
    return [value._meminfo.data]


def _told(value: Any) -> str:
    return f"an array of {value.dtype}, {value.ndim}d" if isinstance(value, np.ndarray) else repr(value)


def _write(address: int, words: list[list[int]]) -> None:
    flat = np.array([word for field in words for word in field], np.int64)
    ctypes.memmove(address, flat.ctypes.data, flat.nbytes)


def _number_at(offset: int, record: Any) -> int:
    return ctypes.c_int64.from_address(record.address + offset).value


def _set_number(offset: int, record: Any, value: int) -> None:
    ctypes.c_int64.from_address(record.address + offset).value = value


def _array_at(offset: int, dimensions: int, kind: Any, record: Any) -> Any:
    address, *shape = (ctypes.c_int64 * (1 + dimensions)).from_address(record.address + offset + 32)
    size = kind.itemsize
    for length in shape:
        size *= length
    if not size:
        return np.zeros(shape, kind)
    return np.frombuffer((ctypes.c_char * size).from_address(address), kind).reshape(shape)


def fields_of(record: Any) -> list[str]:
    """Return the names of the fields of a record, in the order of its table."""
    return list(type(record).__slots__ if jit.PLAIN else type(record).__places__)


def replace_array(record: Any, field: str, array: Any) -> None:
    """Replace an array field by another array of the same type and number of dimensions. The record shares the new
    array.

    An array that compiled code had made for the field is leaked, not freed: its references are not counted.
    """
    if jit.PLAIN:
        setattr(record, field, array)
        return
    name, kind, item, offset = type(record).__places__[field]
    _write(record.address + offset, [_words(name, field, kind, item, array)])
    record._arrays[field] = array


def kept_array(record: Any, field: str) -> Any:
    """Return an array field so that it outlives the record: the array itself if Python keeps it, else a copy."""
    array = getattr(record, field)
    own = array if jit.PLAIN else getattr(record, "_arrays", {}).get(field)
    return own if own is not None and own.ctypes.data == array.ctypes.data else array.copy()


def _plain(name: str, names: list[str]) -> Any:
    def init(self: Any, **values: Any) -> None:
        for field in names:
            setattr(self, field, values[field])

    return type(name, (), {"__slots__": names, "__init__": init})


SMALL = 8  # initial size of arrays that grow


def column(values: Any, dtype: Any = np.int64) -> Any:
    """Return values as an array of this type that a record can hold, copied only if necessary."""
    return np.require(values, dtype, ["C", "W", "A"])


def zeros(*shape: int) -> Any:
    """Return an int64 array of zeros."""
    return np.zeros(shape, np.int64)


@kernel()
def doubled(array):
    """Return a copy of a 1-d array with twice the length."""
    bigger = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        bigger[i] = array[i]
    return bigger


@kernel()
def doubled_rows(array):
    """Return a copy of a 2-d array with twice the rows."""
    rows, columns = array.shape
    bigger = np.empty((2 * rows, columns), array.dtype)
    for i in range(rows):
        for c in range(columns):
            bigger[i, c] = array[i, c]
    return bigger


@kernel()
def doubled_columns(array):
    """Return a copy of a 2-d array with twice the columns."""
    rows, columns = array.shape
    bigger = np.empty((rows, 2 * columns), array.dtype)
    for i in range(rows):
        for c in range(columns):
            bigger[i, c] = array[i, c]
    return bigger


@kernel(inline=True)
def shift_back(array, begin, end):
    """Move the items at indices begin to end - 1 one index up."""
    move_items(array, begin, end - begin, begin + 1)


@kernel(inline=True)
def shift_forward(array, begin, end):
    """Move the items at indices begin + 1 to end - 1 one index down."""
    move_items(array, begin + 1, end - begin - 1, begin)


@kernel(inline=True)
def shift_rows_back(array, begin, end):
    """Do the same as `shift_back` in every row."""
    rows, columns = array.shape
    for first in range(0, rows * columns, columns):
        move_items(array, first + begin, end - begin, first + begin + 1)


@kernel(inline=True)
def shift_rows_forward(array, begin, end):
    """Do the same as `shift_forward` in every row."""
    rows, columns = array.shape
    for first in range(0, rows * columns, columns):
        move_items(array, first + begin + 1, end - begin - 1, first + begin)
