"""Calls by address: code that most runs never need is compiled by itself, where it is first needed.

Whatever a kernel calls becomes part of its machine code, and is compiled with it. What serves announced windows or a
file of events would so be compiled into every policy. It lies behind an address in a record instead, 0 where a run
does not need it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import int64, types
from numba.core.extending import intrinsic

from backfill import jit
from backfill.core.record import kernel

_KNOWN: list[Callable[..., int]] = []  # without the compiler an address is a place in this list


@cache
def address_of(function: Callable[..., int], *arguments: Any) -> int:
    """Where the machine code of a function of two arguments of these numba types lies; it returns an int64."""
    if jit.PLAIN:
        _KNOWN.append(function)
        return len(_KNOWN)
    made = kernel(int64, *arguments)(function)
    result = made.overloads[arguments]
    _KNOWN.append(made)  # it must not go away
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def call(address: int, first: Any, second: Any) -> int:
    """What the function at an address returns."""
    return _KNOWN[address - 1](first, second)


if not jit.PLAIN:

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        """What the function at an address returns."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = [context.get_value_type(kind) for kind in signature.args[1:]]
            function = builder.inttoptr(arguments[0], ir.FunctionType(ir.IntType(64), kinds).as_pointer())
            return builder.call(function, arguments[1:])

        return types.int64(types.int64, first, second), generate
