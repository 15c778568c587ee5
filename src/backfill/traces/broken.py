"""Lines of a log that cannot be read: they are counted and reported, and do not stop the reader."""

from collections.abc import Callable
from typing import TypeVar

from backfill.model.errors import InputError, WorkloadError, at, quote

BROKEN = "broken line"  # reason why a job is dropped
COUNT_MAX = 2**40  # of a job's nodes, cpus, GPUs and the like
_SHOWN = 3  # broken lines quoted in messages
_KEPT = 1 << 16  # cached values of a field
Value = TypeVar("Value")


class BrokenLine(ValueError):
    """A field of a line has an invalid value."""

    def __init__(self, field: str, value: str, expected: str) -> None:
        super().__init__(f"{field} is {quote(value)}; expected {expected}")


def whole(name: str, text: str, most: int = COUNT_MAX) -> int:
    """Parse a whole number from 0 to `most` in the field `name`. Raises BrokenLine."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise BrokenLine(name, text, f"a whole number from 0 to {most:,}")
    return int(text)


class Field(dict[str, Value]):
    """The parsed values of a field, by text. Each distinct text is parsed once, because logs repeat most of them."""

    def __init__(self, name: str, parse: Callable[[str], Value], expected: str) -> None:
        """parse: raises ValueError for an invalid text. expected: the expected form, in words."""
        super().__init__()
        self._name, self._parse, self._expected = name, parse, expected

    def __missing__(self, text: str) -> Value:
        """Parse a new text. Raises BrokenLine."""
        try:
            value = self._parse(text)
        except ValueError:
            raise BrokenLine(self._name, text, self._expected) from None
        if len(self) < _KEPT:
            self[text] = value
        return value


class BrokenLines:
    """The number of broken lines of a file, and the messages for the first few."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._first: list[str] = []
        self.count = 0

    def add(self, line: int | None, what: object) -> None:
        """Count one more broken line. what: a sentence such as `Submit is 'x'; expected a date`."""
        self.count += 1
        if len(self._first) < _SHOWN:
            self._first.append(at(self._file, line, str(what)))

    @property
    def dropped(self) -> dict[str, int]:
        """The row of the quality table; empty where no line is broken."""
        return {BROKEN: self.count} if self.count else {}

    @property
    def notes(self) -> list[str]:
        """Return the messages for the first few, and the number of the others."""
        more = self.count - len(self._first)
        return [
            *(f"{BROKEN}: {message}" for message in self._first),
            *([f"and {more:,} more broken lines"] if more else []),
        ]

    def refuse_all(self, error: type[InputError] = WorkloadError) -> None:
        """Raise the error with the first message, for a log without a readable line."""
        if self.count:
            raise error(self._first[0])
