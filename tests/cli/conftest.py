"""Commands run inside this process: what they return and print."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from backfill.cli import main
from tests.forks import Forks

FILES = Path(__file__).parent / "files"  # policies of a user; compiled once, as their place does not change

# Four processors. a runs; b needs them all and waits; c may go ahead of it, d may not.
TINY = """job,submit,runtime,walltime,procs
a,0,100,100,3
b,1,50,60,4
c,2,98,98,1
d,3,120,99,1
"""


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that says what went wrong, with --json as an object."""
        last = self.err.splitlines()[-1]
        assert "Traceback" not in self.err
        if last.startswith("{"):
            return json.loads(last)["error"]["message"]
        assert last.startswith("backfill: ")
        return last.removeprefix("backfill: ")


@pytest.fixture(scope="session")
def processes() -> Iterator[Forks]:
    """Runs command lines in processes of their own."""
    with closing(Forks("simulate")) as forks:
        yield forks


@pytest.fixture
def backfill(capsys, tmp_path, monkeypatch) -> Callable[..., Done]:
    """Runs a command line in an empty folder that holds nothing but tiny.csv."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.csv").write_text(TINY)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        sys.stdout.flush()
        return Done(code, *capsys.readouterr())

    return run
