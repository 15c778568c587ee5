"""Bits of a 64-bit word: instructions of the processor, which loops over words can use for several words at once."""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic, overload


def ones(word: Any) -> int:
    """Return the number of bits that are set in an unsigned word."""
    return int(word).bit_count()


def lowest(word: Any) -> int:
    """Return the number of the lowest bit that is set in an unsigned word; 64 if none is."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


@intrinsic
def _ones(typing: Any, word: Any) -> Any:
    def count(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), count


@intrinsic
def _lowest(typing: Any, word: Any) -> Any:
    def find(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.false_bit)

    return types.int64(types.uint64), find


@overload(ones)
def _ones_of(word: Any) -> Any:
    def of(word: Any) -> Any:
        return _ones(word)

    return of


@overload(lowest)
def _lowest_of(word: Any) -> Any:
    def of(word: Any) -> Any:
        return _lowest(word)

    return of
