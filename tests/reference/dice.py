"""Choices by bytes: hypothesis draws a whole case at once, as a draw of its own for each field takes ten times as long.

A smaller byte is an earlier choice, so that a case that fails becomes simple as its bytes become small.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

BYTES = 768  # more than any case needs
T = TypeVar("T")


class Dice:
    """A choice for each byte."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, n: int) -> int:
        """0 to n - 1, for n up to 256."""
        return next(self._data) * n >> 8

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def of(self, values: Sequence[T]) -> T:
        """One of these values."""
        return values[self.below(len(values))]


DICE = st.binary(min_size=BYTES, max_size=BYTES).map(Dice)


def drawn(make: Callable[..., T], *given: Any, **named: Any) -> st.SearchStrategy[T]:
    """Return what a function makes of dice and these arguments."""
    return DICE.map(lambda some: make(some, *given, **named))
