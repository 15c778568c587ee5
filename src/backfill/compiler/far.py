"""Calls by address: code that most runs never need is compiled where it is first needed.

A policy cannot be compiled without the kernels apart that it calls. What serves announced windows or a file of events
would so be compiled for every policy. It lies behind an address in a record instead, 0 where a run does not need it.
"""

from collections.abc import Callable
from typing import Any

from numba import int64
from numba.core import cgutils
from numba.core.extending import intrinsic
from numba.core.types import none

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


def run(address: int, first: Any) -> None:
    """Call the function of one argument at an address, which returns nothing. There is none without the compiler."""
    raise NotImplementedError


if not jit.PLAIN:

    def _at(result: Any, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """What the function at an address, the first of the arguments, returns for the others."""
        kinds, convention = signature.args[1:], context.call_conv
        function = convention.get_function_type(result, kinds).as_pointer()
        callee = builder.inttoptr(arguments[0], function)
        status, found = convention.call_function(builder, callee, result, kinds, arguments[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return found

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        """What the function at an address returns."""
        return int64(int64, first, second), lambda *given: _at(int64, *given)

    @intrinsic
    def run(typing_context: Any, address: Any, first: Any) -> Any:
        """Call the function of one argument at an address, which returns nothing."""
        return none(int64, first), lambda *given: _at(none, *given)
