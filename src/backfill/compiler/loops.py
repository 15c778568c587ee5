"""A word to LLVM about a loop."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic, overload


def few_turns() -> None:
    """Say that the loop around this call makes few turns.

    LLVM assumes many, and prepares for vectors and for several turns at once; for one or two that takes longer than the
    work.
    """


@intrinsic
def _few_turns(typing: Any) -> Any:
    def mark(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        nothing = builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], True)
        nothing.attributes.update(("convergent", "nounwind", "readnone"))  # stays in its loop, and changes no memory
        return context.get_dummy_value()

    return types.void(), mark


@overload(few_turns)
def _few_turns_of() -> Any:
    def mark() -> Any:
        _few_turns()

    return mark
