"""A record in compiled code is a bare pointer to its fields, without reference counts.

numba counts a reference whenever a structref is passed to a function or one of its arrays is read: an atomic increment
and decrement each time, more than half of the time of the simulator and of its compilation. So the structref stays in
Python, which owns it; kernels get a pointer to its payload, and read an array field as a view that owns nothing.

A record that a kernel makes itself is such a structref too. Its references are counted in the kernel that holds it; the
kernels that do the work get it as an argument and `borrow` its pointer, which lasts as long as their call.

This is safe because the Python object outlives every call it is passed to, and no kernel keeps a view of a field across
an assignment to that field.

Such a view is a Column: an array without negative indices, so that the address of an item takes one addition. TBAA
metadata tells LLVM that items, records and different fields never overlap; otherwise LLVM would reload every field
after each write.
"""

import operator
from collections.abc import Sequence
from inspect import Parameter, Signature
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.errors import TypingError
from numba.core.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
    overload,
    unbox,
)
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.experimental.jitclass.base import imp_dtor
from numba.np import arrayobj

from backfill.compiler import jit


class Column(types.Array):
    """The type of an array field of a record in kernels."""

    def __init__(self, kind: types.Array) -> None:
        super().__init__(kind.dtype, kind.ndim, kind.layout, name=f"column({kind.dtype}, {kind.ndim}d)")


register_default(Column)(models.ArrayModel)


def pointer_type(name: str, owner: Any, module: dict[str, Any], fixed_fields: Sequence[str]) -> Any:
    """Return the numba type, importable from `module`, of a pointer to the payload of `owner`, a StructRef.

    fixed_fields: those that no kernel writes.
    """

    class Pointer(types.Type):
        record = name
        held_as = owner
        fields = owner.field_dict
        fixed = frozenset(fixed_fields)
        payload = owner.get_data_type()

        def __init__(self) -> None:
            super().__init__(name)

    Pointer.__name__ = Pointer.__qualname__ = name + "Type"
    Pointer.__module__ = module["__name__"]
    module[Pointer.__name__] = Pointer
    register_default(Pointer)(models.OpaqueModel)

    @unbox(Pointer)
    def from_python(typ: Any, obj: Any, c: Any) -> Any:
        held = c.pyapi.object_getattr_string(obj, "_meminfo")
        kind = types.MemInfoPointer(types.voidptr)
        meminfo = c.unbox(kind, held).value
        data = c.context.nrt.meminfo_data(c.builder, meminfo)
        c.context.nrt.decref(c.builder, kind, meminfo)  # unboxing counted a reference; undo it
        c.pyapi.decref(held)
        return NativeValue(c.builder.bitcast(data, cgutils.voidptr_t))

    @infer_getattr
    class Attributes(AttributeTemplate):
        key = Pointer

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            kind = Pointer.fields.get(attr)
            return Column(kind) if isinstance(kind, types.Array) else kind

    @lower_getattr_generic(Pointer)
    def read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        return read_field(context, builder, Pointer, value, attr)

    @lower_setattr_generic(Pointer)
    def write(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
        if attr in Pointer.fixed:
            raise TypingError(f"{name}.{attr} is declared as fixed, so no kernel may write it")
        kind, place = Pointer.fields[attr], _place(context, builder, Pointer, args[0], attr)
        value = context.cast(builder, args[1], sig.args[1], kind)
        old = _load(builder, place, f"{name}.{attr}")
        context.nrt.incref(builder, kind, value)
        _store(builder, value, place, f"{name}.{attr}")
        context.nrt.decref(builder, kind, old)

    return Pointer()


def read_field(context: Any, builder: Any, pointer: Any, value: Any, attr: str) -> Any:
    """Emit code that reads a field of a record through its pointer; an array field becomes a view that owns nothing."""
    kind, place = pointer.fields[attr], _place(context, builder, pointer, value, attr)
    tag = f"{pointer.record}.{attr}"
    if not isinstance(kind, types.Array):
        value = _load(builder, place, tag)
        if attr in pointer.fixed:  # so it need not be read again after a call of a function that LLVM does not see
            value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value
    model = context.data_model_manager[kind]

    def part(name: str, *axis: int) -> Any:
        return _load(builder, cgutils.gep_inbounds(builder, place, 0, model.get_field_position(name), *axis), tag)

    array = array_of(context, builder, kind)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [part("shape", axis) for axis in range(kind.ndim)]
    strides = [context.get_constant(types.intp, size)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    array.data, array.nitems = part("data"), part("nitems")
    array.itemsize = context.get_constant(types.intp, size)
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    return array._getvalue()


def array_of(context: Any, builder: Any, kind: Any, value: Any = None) -> Any:
    """Return the parts of an array that owns nothing, copied from `value` if it is given."""
    array = context.make_array(kind)(context, builder, value=value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array


def let_kernels_make(made: Any, owner: Any) -> None:
    """Let kernels call a record class with its fields as keywords. They get the structref `owner`."""
    fields, payload = owner.field_dict, owner.get_data_type()
    keywords = Signature([Parameter(field, Parameter.POSITIONAL_OR_KEYWORD) for field in fields])

    class Made(AbstractTemplate):
        key = made

        def generic(self, args: Any, kws: Any) -> Any:
            return signature(owner, *fields.values()).replace(pysig=keywords)

    infer_global(made, types.Function(Made))

    @lower_builtin(made, *fields.values())
    def make(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.data_model_manager[payload].get_value_type()
        size = context.get_constant(types.uintp, context.get_abi_sizeof(kind))
        meminfo = context.nrt.meminfo_alloc_dtor(builder, size, imp_dtor(context, builder.module, owner))
        values = cgutils.create_struct_proxy(payload)(context, builder)
        for (field, held), value in zip(fields.items(), args, strict=True):
            context.nrt.incref(builder, held, value)
            setattr(values, field, value)
        data = builder.bitcast(context.nrt.meminfo_data(builder, meminfo), kind.as_pointer())
        builder.store(values._getvalue(), data)
        record = context.make_helper(builder, owner)
        record.meminfo = meminfo
        return record._getvalue()


def held(pointer: Any) -> Any:
    """Return the type of a record that a kernel holds, from that of its pointer; None without the compiler."""
    return getattr(pointer, "held_as", None)


def borrow(record: Any) -> Any:
    """Return a record that a kernel has made, and that its caller holds until this call ends, without counting."""
    return record


@overload(borrow)
def _borrow(record: Any) -> Any:
    def pointer(record: Any) -> Any:
        return _pointer_to(record)

    return pointer


@intrinsic
def _pointer_to(typing: Any, record: Any) -> Any:
    def point(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        meminfo = context.make_helper(builder, record, value=args[0]).meminfo
        return builder.bitcast(context.nrt.meminfo_data(builder, meminfo), cgutils.voidptr_t)

    return record.pointer(record), point


def _place(context: Any, builder: Any, pointer: Any, value: Any, attr: str) -> Any:
    """Return the address of a field."""
    data = builder.bitcast(value, context.data_model_manager[pointer.payload].get_value_type().as_pointer())
    proxy = cgutils.create_struct_proxy(pointer.payload)(context, builder, ref=data)
    return proxy._get_ptr_by_name(attr)


def _load(builder: Any, place: Any, tag: str) -> Any:
    value = builder.load(place)
    value.set_metadata("tbaa", _apart(builder.module, tag))
    return value


def _store(builder: Any, value: Any, place: Any, tag: str) -> None:
    builder.store(value, place).set_metadata("tbaa", _apart(builder.module, tag))


def _apart(module: Any, name: str) -> Any:
    """Return TBAA metadata by which an access does not alias accesses with other names."""
    root = module.add_metadata([ir.MetaDataString(module, "backfill")])
    zero = ir.Constant(ir.IntType(64), 0)
    kind = module.add_metadata([ir.MetaDataString(module, name), root, zero])
    return module.add_metadata([kind, kind, zero])


ITEM = "item"


def item_access(module: Any) -> Any:
    """Return TBAA metadata of an access to items of columns."""
    return _apart(module, ITEM)


@lower_builtin(operator.getitem, Column, types.Integer)
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if sig.args[0].ndim > 1:
        return arrayobj.getitem_arraynd_intp(context, builder, sig, args)
    return _load(builder, _address(context, builder, sig.args[0], args[0], sig.args[1:2], args[1:2]), ITEM)


@lower_builtin(operator.getitem, Column, types.BaseTuple)
def _get_item_at(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if not _is_item(sig.args[0], sig.args[1]):
        return arrayobj.getitem_array_tuple(context, builder, sig, args)
    index = cgutils.unpack_tuple(builder, args[1], len(sig.args[1]))
    return _load(builder, _address(context, builder, sig.args[0], args[0], sig.args[1], index), ITEM)


@lower_builtin(operator.setitem, Column, types.Any, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    column, kind, given = sig.args
    if not _is_item(column, kind):
        return arrayobj.setitem_array(context, builder, sig, args)
    several = isinstance(kind, types.BaseTuple)
    index = cgutils.unpack_tuple(builder, args[1], len(kind)) if several else [args[1]]
    place = _address(context, builder, column, args[0], kind if several else [kind], index)
    _store(builder, context.cast(builder, args[2], given, column.dtype), place, ITEM)
    return context.get_dummy_value()


def _is_item(column: Column, kind: Any) -> bool:
    """Return whether an index of this type selects a single item."""
    kinds = tuple(kind) if isinstance(kind, types.BaseTuple) else (kind,)
    return len(kinds) == column.ndim and all(isinstance(each, types.Integer) for each in kinds)


def _address(context: Any, builder: Any, kind: Column, value: Any, kinds: Any, index: Any) -> Any:
    """Return the address of an item of a column."""
    array = context.make_array(kind)(context, builder, value=value)
    shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    at = context.get_constant(types.intp, 0)
    for axis in range(kind.ndim):
        number = context.cast(builder, index[axis], kinds[axis], types.intp)
        if jit.CHECKED:  # as an unsigned number, a negative index is very large
            with cgutils.if_unlikely(builder, builder.icmp_unsigned(">=", number, shape[axis])):
                context.call_conv.return_user_exc(builder, IndexError, ("the core reads or writes beyond a column",))
        at = builder.add(builder.mul(at, shape[axis]), number) if axis else number
    return builder.gep(array.data, [at], inbounds=True)


@lower_cast(types.Array, Column)
@lower_cast(Column, types.Array)
def _as_it_is(context: Any, builder: Any, kind: Any, other: Any, value: Any) -> Any:
    return value
