"""One error class per party at fault; every message can be acted on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

QUOTED = 60  # characters of a bad value that a message shows


class BackfillError(Exception):
    """Root of all errors that backfill raises on purpose. `exit_code` is what the command line returns."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, to another process: a class may take more to make one than its message."""
        return _again, (type(self), self.args, vars(self))


def _again(kind: type[BackfillError], args: tuple[Any, ...], more: Mapping[str, Any]) -> BackfillError:
    error = kind.__new__(kind, *args)
    vars(error).update(more)
    return error


class UsageError(BackfillError):
    """The call is at fault: an unknown name, an option out of its bounds, options that cannot be combined."""

    exit_code = 2


class BadArgument(UsageError):
    """An argument of a call has a value that it cannot have. The command line shows it as the option of that name."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        shown = quote(value) if isinstance(value, str) else quote(value).strip("'")
        what = f"is {shown}; expected {expected}"
        super().__init__(f"{name} {what}")
        self.option = f"--{name.replace('_', '-')} {what}"


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, needed_for: str, extra: str) -> None:
        super().__init__(f"{needed_for} needs an optional package; install it with: pip install 'backfill[{extra}]'")


class InputError(BackfillError):
    """The input is at fault. The message names file, line, field, value and what was expected, as far as known."""

    exit_code = 3


class WorkloadError(InputError):
    """A workload cannot be read or makes no sense."""


class PlatformError(InputError):
    """A platform cannot be read or makes no sense."""


class ScheduleError(InputError):
    """A schedule file cannot be read."""


class EventsError(InputError):
    """A table of events cannot be read or does not fit the workload and the platform."""


class NotLawful(BackfillError):
    """A schedule did not pass verification."""

    exit_code = 5

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} did not pass verification")


class PolicyError(BackfillError):
    """The policy is at fault: it broke a rule of the core, or does not compile."""


def quote(value: object) -> str:
    """What was found, for a message: quoted, control characters escaped, at most about sixty characters."""
    shown = repr(str(value)[: QUOTED + 1])
    return shown if len(shown) <= QUOTED + 2 else shown[: QUOTED - 2] + "..." + shown[0]


def printable(text: str) -> str:
    """Without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def at(file: str, line: int | None, what: str) -> str:
    """`file:line: what`, the form of every message about an input."""
    place = file or "''"
    return f"{place}:{line}: {what}" if line is not None else f"{place}: {what}"


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Put the file's name in front of what is said of an input that was made from it."""
    try:
        yield
    except InputError as error:
        raise type(error)(at(file, None, str(error))) from None
