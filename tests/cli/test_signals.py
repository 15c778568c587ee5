"""TERM and HUP end a command as Ctrl-C does: what is whole is told, no process stays, no half-written file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from backfill.cli import _interrupts_of_callbacks
from tests.patience import PATIENCE_S, until

CODE = "import sys; from backfill.cli import main; sys.exit(main())"
AS_USUAL = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # whoever runs the tests may ignore it

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts processes as Linux tells of them")


@contextmanager
def started(tmp_path: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """A command in a session of its own, of which nothing is left behind."""
    pipe = subprocess.PIPE
    words = (sys.executable, "-c", AS_USUAL + CODE, *words)
    with subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as command:
        try:
            yield command
        finally:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)


def of_session(leader: int) -> list[int]:
    """The processes of a session that are not over."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if fields[3] == str(leader) and fields[0] != "Z":
            found.append(int(each.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
def test_no_worker_outlives_the_command(tmp_path, number):
    words = ("--policy", "fcfs", "--policy", "easy", "--replications", "400", "--workers", "2", "-q")
    with started(tmp_path, "compare", "model:lublin?jobs=20000", "--cpus", "128", *words) as command:
        until(lambda: len(of_session(command.pid)) >= 4)  # itself, two workers, and who keeps track of what they share
        os.kill(command.pid, number)
        _, err = command.communicate(timeout=PATIENCE_S)  # which ends when nobody holds the pipe any more
        assert command.returncode == 130, err
        assert "interrupted" in err.splitlines()[-1], err
        until(lambda: not of_session(command.pid))


def test_an_interrupt_in_the_definition_of_a_class_is_an_interrupt():
    """Python 3.11 makes a RuntimeError of it."""

    class Field:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), _interrupts_of_callbacks():
        type("Table", (), {"column": Field()})


INTERRUPTED_AT = """
import sys
from backfill.__main__ import main

module = sys.argv.pop(1)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            raise {error}

sys.meta_path.insert(0, Finder())
sys.exit(main())
"""


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "RuntimeError from KeyboardInterrupt()"])
@pytest.mark.parametrize(
    ("module", "verb"),
    [
        ("backfill.client.options", "queue"),
        ("backfill.client.client", "queue"),
        ("backfill.cli", "policies"),
        ("typer", "policies"),
    ],
)
def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path, module, verb, error):
    words = [sys.executable, "-c", INTERRUPTED_AT.format(error=error), module, verb]
    env = {**os.environ, "BACKFILL_HOME": str(tmp_path)}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (130, "backfill: interrupted\n")


def test_an_interrupt_before_a_verb_begins_is_one_line(backfill, monkeypatch):
    def interrupted(ctx):
        raise KeyboardInterrupt

    monkeypatch.setattr("backfill.cli._Verbs.invoke", lambda self, ctx: interrupted(ctx))
    done = backfill("policies")
    assert (done.code, done.err) == (130, "backfill: interrupted\n")


def test_what_is_half_written_is_taken_away(tmp_path):
    with started(tmp_path, "generate", "lublin?jobs=400000", "--out", "log.csv") as command:
        until(lambda: list(tmp_path.glob(".log.csv.*.part")), 0.01)  # that is there for a few tenths of a second
        os.kill(command.pid, signal.SIGTERM)
        assert command.wait(PATIENCE_S) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    """As under nohup."""
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {CODE}"
    words = [sys.executable, "-c", code, "generate", "lublin?jobs=400000", "--out", "log.csv"]
    with subprocess.Popen(words, cwd=tmp_path) as command:
        until(lambda: list(tmp_path.glob(".log.csv.*.part")), 0.01)  # that is there for a few tenths of a second
        os.kill(command.pid, signal.SIGHUP)
        assert command.wait(PATIENCE_S) == 0
