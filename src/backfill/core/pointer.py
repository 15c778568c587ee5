"""A record inside compiled code is a bare pointer to its fields: nothing there counts references.

numba counts a reference whenever a structref is handed to a function or one of its arrays is read: an atomic increment
and decrement each time, more than half of the time of the simulator and of its compilation. So the structref stays
with Python, which owns it; kernels get a pointer to its payload, and read an array field as a view that owns nothing.
What makes this safe: the Python object outlives every call it is passed to, and no kernel keeps a view of a field
across an assignment to that field.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    lower_setattr_generic,
    unbox,
)
from numba.core.typing.templates import AttributeTemplate


def pointer_type(name: str, owner: Any, module: dict[str, Any]) -> Any:
    """The numba type, importable from `module`, of a pointer to the payload of `owner`, a StructRef."""

    class Pointer(types.Type):
        fields = owner.field_dict
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
        c.context.nrt.decref(c.builder, kind, meminfo)  # unboxing counted one; the Python object keeps its own
        c.pyapi.decref(held)
        return NativeValue(c.builder.bitcast(data, cgutils.voidptr_t))

    @infer_getattr
    class Attributes(AttributeTemplate):
        key = Pointer

        def generic_resolve(self, typ: Any, attr: str) -> Any:
            return Pointer.fields.get(attr)

    @lower_getattr_generic(Pointer)
    def read(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        return read_field(context, builder, Pointer, value, attr)

    @lower_setattr_generic(Pointer)
    def write(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
        data = _payload(context, builder, Pointer, args[0])
        value = context.cast(builder, args[1], sig.args[1], Pointer.fields[attr])
        old = getattr(data, attr)
        context.nrt.incref(builder, Pointer.fields[attr], value)
        setattr(data, attr, value)
        context.nrt.decref(builder, Pointer.fields[attr], old)

    return Pointer()


def read_field(context: Any, builder: Any, pointer: Any, value: Any, attr: str) -> Any:
    """The field of a record behind a pointer; an array as a view that owns nothing."""
    field = getattr(_payload(context, builder, pointer, value), attr)
    if not isinstance(pointer.fields[attr], types.Array):
        return field
    view = array_of(context, builder, pointer.fields[attr], field)
    return view._getvalue()


def array_of(context: Any, builder: Any, kind: Any, value: Any = None) -> Any:
    """The parts of an array that owns nothing, from another one where it is given."""
    array = context.make_array(kind)(context, builder, value=value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array


def _payload(context: Any, builder: Any, pointer: Any, value: Any) -> Any:
    data = builder.bitcast(value, context.data_model_manager[pointer.payload].get_value_type().as_pointer())
    return cgutils.create_struct_proxy(pointer.payload)(context, builder, ref=data)
