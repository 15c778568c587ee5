"""Messages of a command while it works: on standard error, so that standard output carries only the result."""

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill.model.errors import BackfillError, BadArgument, error_json
from backfill.system.bar import terminal_bar

PATIENCE_S = 1.0  # seconds after which longer work prints a message
LINE_S = 30.0  # without a terminal for a bar, interval of progress messages in seconds


@dataclass
class _Manner:
    quiet: bool = False
    verbose: bool = False
    arguments: list[str] = field(default_factory=list)


_manner = _Manner()


def begin(arguments: Sequence[str]) -> None:
    """Reset the settings for a new command line: neither quiet nor verbose."""
    _manner.quiet = _manner.verbose = False
    _manner.arguments = list(arguments)


def command(*more: str) -> str:
    """Return the command line as it can be typed again, with additional words."""
    return joined(with_options(_manner.arguments, *more))


def joined(words: Sequence[str]) -> str:
    """Return a command line as it can be typed."""
    return shlex.join(["backfill", *words])


def with_options(words: Sequence[str], *more: str) -> list[str]:
    """Return the words of a command line with additional options, before `--` if that is among the words."""
    end = list(words).index("--") if "--" in words else len(words)
    return [*words[:end], *more, *words[end:]]


def command_without(options: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return the words of the command line without these options, which have values, and flags, which have none."""
    words, kept = iter(_manner.arguments), list[str]()
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        if word in options:
            next(words, None)
        elif word not in flags and word.partition("=")[0] not in options:
            kept.append(word)
    return kept


def path(name: str) -> str:
    """Return the name of a file in a form that is safe in a command line."""
    return f"./{name}" if name.startswith("-") else name


def be_quiet(wanted: bool) -> bool:
    """Print errors only."""
    _manner.quiet = _manner.quiet or wanted
    return wanted


def be_verbose(wanted: bool) -> bool:
    """Print errors with their full cause."""
    _manner.verbose = _manner.verbose or wanted
    return wanted


def note(text: str) -> None:
    """Print one line, unless --quiet is given."""
    if not _manner.quiet:
        _line(text)


def following(text: str) -> None:
    """Print the command that is useful next, with the program name that works in this shell."""
    note(f"next: {_program()}{text.removeprefix('backfill')}")


def _program() -> str:
    """Return `backfill`, or the path by which it was started if it is not on the PATH."""
    started = sys.argv[0]
    by_path = Path(started).stem == "backfill" and shutil.which("backfill") is None
    return shlex.quote(started) if by_path else "backfill"


def error(problem: BackfillError) -> None:
    """Print an error in one line, with --json as JSON; with --verbose also its cause."""
    text = problem.option if isinstance(problem, BadArgument) else str(problem)
    _line(error_json(text, problem.exit_code) if "--json" in _manner.arguments else f"backfill: {text}")
    if _manner.verbose:
        import traceback

        sys.stderr.write("".join(traceback.format_exception(problem)))


def problem(text: str) -> None:
    """Print one line that --quiet does not silence."""
    _line(text)


def warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a Python warning as one line."""
    note(f"warning: {message}")


def _line(text: str) -> None:
    sys.stdout.flush()  # keeps the lines of both streams in order if they go to one place
    clean = "".join(c if c.isprintable() else " " for c in text)
    print(clean, file=sys.stderr, flush=True)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Print a message if the block takes longer than a second."""
    timer = threading.Timer(PATIENCE_S, note, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def bar(text: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar after a second, or a line from time to time; yields a function that takes the steps done."""
    if _manner.quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines(text, total)
        return
    with terminal_bar(text, total) as progress:
        yield progress


def _lines(text: str, total: int) -> Callable[[int], None]:
    begin = last = time.monotonic()

    def progress(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_S:
            last = now
            note(f"{text}: {done / max(total, 1):.0%} done after {now - begin:.0f} s")

    return progress
