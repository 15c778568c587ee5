"""Calls by address: code that few runs need is compiled only when a run needs it.

Compiling a policy also compiles every separately compiled kernel that it calls. So that announced windows and files of
events do not cost every policy compile time, their code is called through an address in a record, 0 if a run does not
need it.
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

_KNOWN: list[Callable[..., int]] = []  # without the compiler, an address is an index into this list plus 1


def address_of(function: Any) -> int:
    """Return the address of the machine code of a separately compiled kernel (two arguments, returns an int64)."""
    if not jit.PLAIN:
        return int(function.address)
    if function not in _KNOWN:
        _KNOWN.append(function)
    return _KNOWN.index(function) + 1


def call(address: int, first: Any, second: Any) -> int:
    """Call the function at an address and return its int64 result."""
    return _KNOWN[address - 1](first, second)


def ask(address: int, number: int) -> int:
    """Call the Python function at an address with a number and return its result."""
    return _KNOWN[address - 1](number)


def address_outside(function: Callable[[int], int]) -> tuple[int, Any]:
    """Return an address by which compiled code can call a Python function, and the object to keep alive meanwhile."""
    if jit.PLAIN:
        _KNOWN.append(function)
        return len(_KNOWN), function
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)
    return int(ctypes.cast(made, ctypes.c_void_p).value or 0), made


def run(address: int, first: Any) -> None:
    """Call the function of one argument at an address; it returns nothing. Not available without the compiler."""
    raise NotImplementedError


if not jit.PLAIN:

    def _at(result: Any, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Emit a call of the function at the address `arguments[0]` with the other arguments; return its result."""
        kinds, convention = signature.args[1:], context.call_conv
        function = convention.get_function_type(result, kinds).as_pointer()
        callee = builder.inttoptr(arguments[0], function)
        status, found = convention.call_function(builder, callee, result, kinds, arguments[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return found

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        """Call the function at an address and return its int64 result."""
        return int64(int64, first, second), lambda *given: _at(int64, *given)

    @intrinsic
    def ask(typing_context: Any, address: Any, number: Any) -> Any:
        """Call the Python function at an address with a number and return its result."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            callee = builder.inttoptr(arguments[0], ir.FunctionType(word, [word]).as_pointer())
            return builder.call(callee, [arguments[1]])

        return int64(int64, int64), code

    @intrinsic
    def run(typing_context: Any, address: Any, first: Any) -> Any:
        """Call the function of one argument at an address; it returns nothing."""
        return none(int64, first), lambda *given: _at(none, *given)
