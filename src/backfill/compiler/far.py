"""Calls by address: code that most runs never need is compiled where it is first needed.

A policy cannot be compiled without the kernels apart that it calls. What serves announced windows or a file of events
would so be compiled for every policy. It lies behind an address in a record instead, 0 where a run does not need it.
"""

from collections.abc import Callable
from typing import Any

from numba import int64
from numba.core import cgutils
from numba.core.extending import intrinsic

from backfill.compiler import jit

_KNOWN: list[Callable[..., int]] = []  # without the compiler an address is a place in this list


def address_of(function: Any) -> int:
    """Where the machine code of a kernel apart of two arguments lies; it returns an int64."""
    if not jit.PLAIN:
        return int(function.address)
    if function not in _KNOWN:
        _KNOWN.append(function)
    return _KNOWN.index(function) + 1


def call(address: int, first: Any, second: Any) -> int:
    """What the function at an address returns."""
    return _KNOWN[address - 1](first, second)


if not jit.PLAIN:

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        """What the function at an address returns."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds, convention = signature.args[1:], context.call_conv
            function = convention.get_function_type(int64, kinds).as_pointer()
            callee = builder.inttoptr(arguments[0], function)
            status, result = convention.call_function(builder, callee, int64, kinds, arguments[1:])
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return int64(int64, first, second), generate
