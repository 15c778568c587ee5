"""Parse texts with digits at fixed positions, such as dates and clock times, a whole column at a time."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from backfill.model.workload import Ints


class Texts:
    """A column of texts; those of the same form are processed together."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.length = np.fromiter(map(len, texts), np.int64, len(texts))

    def digits(self, form: str) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the rows whose text has this form, and their digits, shape (rows, zeros in the form).

        form: such as `0000-00-00`; 0 matches any digit and every other character itself.
        """
        zeros, marks = _places(form)
        fits = self.length == len(form)
        rows = np.flatnonzero(fits)
        texts = self.texts if len(rows) == len(fits) else compress(self.texts, fits.tolist())
        cells = np.frombuffer("".join(texts).encode("ascii", "replace"), np.uint8).reshape(len(rows), len(form))
        digits = cells[:, zeros] - np.uint8(ord("0"))  # characters below "0" wrap to large values
        good = (digits < 10).all(axis=1)
        for place in marks:
            good &= cells[:, place] == ord(form[place])
        return (rows, digits) if good.all() else (rows[good], digits[good])


@lru_cache(maxsize=64)
def _places(form: str) -> tuple[list[int], list[int]]:
    """Return the positions of digits, and those of other characters."""
    zeros = [place for place, mark in enumerate(form) if mark == "0"]
    return zeros, [place for place, mark in enumerate(form) if mark != "0"]


def number(digits: NDArray[np.uint8]) -> Ints:
    """Return the number that the digits of each row form, at most 18 digits; shape (rows,)."""
    numbers = np.zeros(len(digits), np.int64)
    for column in digits.T:
        numbers *= 10
        numbers += column
    return numbers


def whole_numbers(texts: Sequence[str], most: int) -> tuple[Ints, list[int]]:
    """Parse whole numbers of at most `most` digits, -1 for empty texts; also return the rows that are not numbers."""
    numbers, fixed = np.full(len(texts), -1), Texts(texts)
    left = fixed.length > 0
    for length in np.unique(fixed.length).tolist():
        if 0 < length <= most:
            rows, digits = fixed.digits("0" * length)
            numbers[rows], left[rows] = number(digits), False
    return numbers, np.flatnonzero(left).tolist()
