"""Moves of many items within an array, by the library's `memmove`: a loop over them would be longer, and slower for
few."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic, overload

from backfill.compiler import jit
from backfill.compiler.pointer import Column, item_access


def move_items(array: Any, begin: int, count: int, to: int) -> None:
    """Move `count` items of an array, none if it is negative, from index `begin` to index `to`.

    Indices count through all rows.
    """
    if count > 0:
        flat = array.reshape(-1)
        flat[to : to + count] = flat[begin : begin + count].copy()


@intrinsic
def _move(typing: Any, array: Any, begin: Any, count: Any, to: Any) -> Any:
    def move(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind, word = sig.args[0], context.get_value_type(types.int64)
        items = context.make_array(kind)(context, builder, value=args[0])
        size = context.get_constant(types.int64, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        begin, count, to = args[1:]
        some = builder.icmp_signed(">", count, ir.Constant(word, 0))
        if jit.CHECKED:
            last = builder.add(cgutils.smax(builder, begin, to), count)
            with cgutils.if_unlikely(builder, builder.and_(some, builder.icmp_unsigned(">", last, items.nitems))):
                context.call_conv.return_user_exc(builder, IndexError, ("the core moves items beyond an array",))
        pointer = ir.PointerType(ir.IntType(8))
        places = [builder.bitcast(builder.gep(items.data, [index]), pointer) for index in (to, begin)]
        moving = builder.module.declare_intrinsic("llvm.memmove", [pointer, pointer, word])
        with builder.if_then(some):
            done = builder.call(moving, [*places, builder.mul(count, size), cgutils.false_bit])
            if isinstance(kind, Column):
                done.set_metadata("tbaa", item_access(builder.module))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), move


@overload(move_items)
def _move_items(array: Any, begin: Any, count: Any, to: Any) -> Any:
    def move(array: Any, begin: Any, count: Any, to: Any) -> Any:
        _move(array, begin, count, to)

    return move
