"""Calls by address: code that most runs never need is compiled where it is first needed.

A policy cannot be compiled without the kernels apart that it calls. What serves announced windows or a file of events
would so be compiled for every policy. It lies behind an address in a record instead, 0 where a run does not need it.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
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


def ask(address: int, number: int) -> int:
    """What the function of Python at an address returns for a number."""
    return _KNOWN[address - 1](number)


def address_outside(function: Callable[[int], int]) -> tuple[int, Any]:
    """Where compiled code can call a function of Python, and what must be kept as long as it may."""
    if jit.PLAIN:
        _KNOWN.append(function)
        return len(_KNOWN), function
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)
    return int(ctypes.cast(made, ctypes.c_void_p).value or 0), made


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
    def ask(typing_context: Any, address: Any, number: Any) -> Any:
        """What the function of Python at an address returns for a number."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            callee = builder.inttoptr(arguments[0], ir.FunctionType(word, [word]).as_pointer())
            return builder.call(callee, [arguments[1]])

        return int64(int64, int64), code

    @intrinsic
    def run(typing_context: Any, address: Any, first: Any) -> Any:
        """Call the function of one argument at an address, which returns nothing."""
        return none(int64, first), lambda *given: _at(none, *given)
