"""The command line: parse arguments, call the verb, print messages."""

import _thread
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import Any

import typer

from backfill.cli import say
from backfill.cli.anonymize import anonymize
from backfill.cli.commands import Commands
from backfill.cli.compare import compare
from backfill.cli.demo import demo
from backfill.cli.generate import generate
from backfill.cli.history import history
from backfill.cli.import_log import import_log
from backfill.cli.live import light, replay
from backfill.cli.optimum import optimum
from backfill.cli.options import Verbose
from backfill.cli.policies import policies
from backfill.cli.pool import pool
from backfill.cli.report import report
from backfill.cli.reproduce import reproduce
from backfill.cli.simulate import simulate
from backfill.cli.stream import stream
from backfill.cli.verify import verify
from backfill.client.client import main as queue_verb
from backfill.client.options import VERBS as QUEUE
from backfill.client.options import unknown_option
from backfill.model.errors import BackfillError, UsageError, os_error_text

_Misuse: Any = typer.BadParameter.__base__  # base class of typer's errors about a command line


class _Interrupted(BackfillError):
    exit_code = 130


@contextmanager
def _interrupts_of_callbacks() -> Iterator[None]:
    """Raise KeyboardInterrupt for a Ctrl-C that Python dropped in a callback of the compiler, or made another error of.

    The compiler then fails with some other error, and a class whose definition was interrupted with a RuntimeError.
    """
    dropped: list[Timer] = []
    before = sys.unraisablehook

    def keep(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            # Sent again from a thread: raised in this hook it would be dropped once more.
            dropped.append(Timer(0.05, _thread.interrupt_main))
            dropped[-1].daemon = True
            dropped[-1].start()
        else:
            before(unraisable)

    sys.unraisablehook = keep
    try:
        yield
    except Exception as error:
        if dropped or isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        for timer in dropped:
            timer.cancel()
        sys.unraisablehook = before


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, unless they are ignored in this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        wanted = signal.getsignal(signal.SIGINT)  # ignored if a shell started us in the background
        (wanted if callable(wanted) else signal.default_int_handler)(signal.SIGINT, frame)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in map(signal.Signals.__getitem__, names) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _unwritten(error: OSError) -> BaseException:
    """Return what an error of standard output becomes; those of files are handled elsewhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # the reader of our output has closed it
        return SystemExit(1)
    return BackfillError(os_error_text(error))


class _Verbs(Commands):
    """Turns unexpected exceptions in any verb into errors that `main` can print in one line."""

    begun = False  # a verb says itself what Ctrl-C has left out

    def invoke(self, ctx: Any) -> Any:
        _Verbs.begun = True
        try:
            with _interrupts_of_callbacks():
                try:
                    return super().invoke(ctx)
                finally:
                    sys.stdout.flush()
        except KeyboardInterrupt:
            raise _Interrupted("interrupted") from None
        except MemoryError as error:
            raise BackfillError(f"out of memory: {error}" if str(error) else "out of memory") from error
        except OSError as error:
            raise _unwritten(error) from error


# rich_markup_mode None: help is plain text, needs no import of rich and looks the same everywhere.
app = typer.Typer(
    cls=_Verbs,
    name="backfill",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 bad input, 4 the queue is not reachable, "
    "5 the schedule did not pass verification, 130 interrupted. "
    "Results go to standard output, messages to standard error.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from backfill import __version__

        print(f"backfill {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: Verbose = False,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """A batch-job scheduler built around backfilling: simulate and compare policies on your own log, run them live."""


for verb in (demo, simulate, stream, compare, optimum, report, verify, generate, policies, reproduce):
    app.command(epilog=verb.examples)(verb)
app.command("import", epilog=import_log.examples)(import_log)
app.command(epilog=anonymize.examples)(anonymize)
for name in QUEUE:
    app.command(name)(light(name))
app.command(epilog=history.examples)(history)
app.command(epilog=replay.examples)(replay)
app.add_typer(pool, name="pool")


def _open_streams() -> None:
    """Replace closed streams by ones that discard output; characters that a stream cannot encode become `?`."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for opened in (sys.stdout, sys.stderr):
        if isinstance(opened, io.TextIOWrapper):
            opened.reconfigure(errors="replace")


def _app(words: list[str]) -> Any:
    """Run the verb, or print the help or the version, which typer does before any verb."""
    try:
        code = app(args=words, prog_name="backfill", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        raise _unwritten(error) from error
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Only bugs of this program end in a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verbs = words[1:] if words[:1] == ["--verbose"] else words
    if verbs and verbs[0] in QUEUE:
        return queue_verb(verbs)
    say.begin(words)
    _open_streams()
    warnings.showwarning = say.warning
    try:
        with _ended_as_by_ctrl_c():
            _Verbs.begun = False
            code = _app(words)
            if code == _Interrupted.exit_code and not _Verbs.begun:  # typer says nothing of it
                raise _Interrupted("interrupted")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except _Misuse as misuse:
        if not words:
            misuse.show()  # the help
        else:
            verb = misuse.ctx.command_path if misuse.ctx else "backfill"
            if name := getattr(misuse, "option_name", "") if type(misuse).__name__ == "NoSuchOption" else "":
                known = [option for each in misuse.ctx.command.params for option in each.opts]
                say.error(UsageError(unknown_option(name, known, verb)))
                return UsageError.exit_code
            message = " ".join(misuse.format_message().split()).rstrip(".")
            say.error(UsageError(f"{message}; see {verb} --help"))
        return UsageError.exit_code
    except BackfillError as error:
        say.error(error)
        return error.exit_code
    return code if isinstance(code, int) else 0
