"""The error classes, by cause (the call, the input, the policy); every message says what to change."""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

QUOTED = 60  # characters of a bad value shown in a message


class BackfillError(Exception):
    """Root of all errors that backfill raises on purpose; `exit_code` is that of the command line.

    >>> import backfill as bf
    >>> try:
    ...     bf.read("missing.csv")
    ... except bf.BackfillError as error:
    ...     print(error, error.exit_code)
    missing.csv: cannot be read: No such file or directory 3
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes as they are, because a subclass may need more than the message."""
        return _again, (type(self), self.args, vars(self))


def error_json(message: str, exit_code: int, **more: str) -> str:
    """Format an error as one line of JSON, as commands with --json print it; empty texts are left out.

    >>> error_json("no job 7", 1, kind="", field="job")
    '{"schema": 1, "error": {"message": "no job 7", "exit_code": 1, "field": "job"}}'
    """
    return json.dumps(
        {
            "schema": 1,
            "error": {"message": message, "exit_code": exit_code} | {name: text for name, text in more.items() if text},
        }
    )


def os_error_text(error: OSError) -> str:
    """Format an error of the operating system as `file: reason`.

    Without the name of a file it is one of standard output, if one can get it in writing, or of a deleted folder.

    >>> os_error_text(OSError(28, "No space left on device"))
    'standard output: No space left on device'
    """
    nameless = {errno.ENOENT: "the current folder"} | dict.fromkeys(_OF_WRITING, "standard output")
    place = error.filename or nameless.get(error.errno or 0)
    reason = error.strerror or str(error)
    return f"{place}: {reason}" if place else reason


_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _again(kind: type[BackfillError], args: tuple[Any, ...], more: Mapping[str, Any]) -> BackfillError:
    error = kind.__new__(kind, *args)
    vars(error).update(more)
    return error


class UsageError(BackfillError):
    """The call is wrong: an unknown name, an option out of its bounds, options that cannot be combined.

    >>> import backfill as bf
    >>> try:
    ...     bf.generate("lublin?job=5")
    ... except bf.UsageError as error:
    ...     print(str(error)[:32])
    model lublin: unknown key 'job';
    """

    exit_code = 2


class BadArgument(UsageError):
    """An argument has an invalid value. The command line shows it as the option of that name.

    >>> import backfill as bf
    >>> try:
    ...     bf.generate("lublin?jobs=5").at_load(0)
    ... except bf.BadArgument as error:
    ...     print(error)
    load is 0; expected a finite number > 0
    """

    def __init__(self, name: str, value: object, expected: str) -> None:
        shown = quote(value) if isinstance(value, str) else quote(value).strip("'")
        what = f"is {shown}; expected {expected}"
        super().__init__(f"{name} {what}")
        self.option = f"--{name.replace('_', '-')} {what}"


class MissingExtra(UsageError):
    """An optional dependency is not installed.

    >>> import backfill as bf
    >>> issubclass(bf.MissingExtra, bf.UsageError)
    True
    """

    def __init__(self, needed_for: str, extra: str) -> None:
        super().__init__(f"{needed_for} needs an optional package; install it with: pip install 'backfill[{extra}]'")


class QueueError(BackfillError):
    """A queue refuses a request, or does not answer.

    >>> import backfill as bf
    >>> issubclass(bf.QueueError, bf.BackfillError)
    True
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class InputError(BackfillError):
    """The input is wrong. The message names file, line, field, value and what was expected, as far as known.

    >>> import backfill as bf
    >>> issubclass(bf.WorkloadError, bf.InputError)
    True
    """

    exit_code = 3


class WorkloadError(InputError):
    """A workload cannot be read or makes no sense.

    >>> import backfill as bf
    >>> try:
    ...     bf.Workload.from_arrays({"job": [1], "submit": ["soon"], "runtime": [60]})
    ... except bf.WorkloadError as error:
    ...     print(str(error)[:45])
    arrays:2: submit is 'soon'; expected a number
    """


class PlatformError(InputError):
    """A platform cannot be read or makes no sense.

    >>> import backfill as bf
    >>> try:
    ...     bf.read_platform("missing.toml")
    ... except bf.PlatformError as error:
    ...     print(error)
    missing.toml: cannot be read: No such file or directory
    """


class ScheduleError(InputError):
    """A schedule file cannot be read.

    >>> import backfill as bf
    >>> issubclass(bf.ScheduleError, bf.InputError)
    True
    """


class EventsError(InputError):
    """A table of events cannot be read or does not fit the workload and the platform.

    >>> import backfill as bf
    >>> try:
    ...     bf.Events.of([{"time": 0, "event": "fire"}])
    ... except bf.EventsError as error:
    ...     print(str(error)[:40])
    events: row 1: event is 'fire'; expected
    """


class NotLawful(BackfillError):
    """A schedule did not pass verification.

    >>> import backfill as bf
    >>> print(bf.NotLawful("the schedule of easy"))
    the schedule of easy did not pass verification
    """

    exit_code = 5

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} did not pass verification")


class PolicyError(BackfillError):
    """The policy is at fault: it broke a rule of the core, or does not compile.

    >>> import backfill as bf
    >>> try:
    ...     bf.policy("mine", orders="fcfs")
    ... except bf.PolicyError as error:
    ...     print(error)
    policy mine: unknown answer 'orders'; did you mean order?
    """


def wrong_type(name: str, value: object, expected: str) -> UsageError:
    """Return the error for an argument of the wrong type."""
    return UsageError(f"{name} is {type(value).__name__}; expected {expected}")


def check_path(name: str, value: object) -> None:
    """Raise UsageError unless an argument is a path; a number would be used as an open file's descriptor."""
    if not isinstance(value, str | PathLike):
        raise wrong_type(name, value, "a path")


def quote(value: object) -> str:
    """Quote a value for a message: control characters escaped, cut to about sixty characters."""
    shown = repr(str(value)[: QUOTED + 1])
    return shown if len(shown) <= QUOTED + 2 else shown[: QUOTED - 2] + "..." + shown[0]


def at(file: str, line: int | None, what: str) -> str:
    """Format `file:line: what`, the form of every message about an input."""
    place = file or "''"
    return f"{place}:{line}: {what}" if line is not None else f"{place}: {what}"


def not_utf8(file: str, problem: UnicodeDecodeError) -> str:
    """Format the message about a whole file that is not text in UTF-8."""
    line = problem.object.count(b"\n", 0, problem.start) + 1
    return at(file, line, f"is not UTF-8 text: byte {problem.object[problem.start]:#04x}")


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Prefix the file's name to input errors raised within the block."""
    try:
        yield
    except InputError as error:
        raise type(error)(at(file, None, str(error))) from None
