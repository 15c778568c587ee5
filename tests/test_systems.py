"""All but the live queue runs where Python has none of what POSIX systems have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill.client import client
from tests.patience import PATIENCE_S

WORKFLOW = Path(__file__).parents[1] / ".github" / "workflows" / "systems.yml"
NOT_POSIX = Path(__file__).parent / "not_posix"
SCRIPT = """
import backfill as bf
from backfill.cli import main

if __name__ == "__main__":
    try:
        import fcntl
        raise SystemExit("fcntl is there")
    except ImportError:
        pass
    log = bf.generate("lublin?jobs=200&cpus=64")
    result = bf.simulate(log, policy="easy")
    assert bf.verify(result) == []
    result.report("result.html")
    bf.write(log, "jobs.csv")
    for words in (
        "simulate jobs.csv --cpus 64 --policy easy --verify --schedule easy.csv",
        "compare jobs.csv --cpus 64 --policy fcfs --policy easy --workers 2 --save saved",
        "report saved --out saved.html",
        "policies",
        "replay --help",
        "submit --help",
    ):
        assert main(words.split()) == 0, words
"""


def test_what_simulates_runs_without_what_posix_has(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(NOT_POSIX), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("result.html", "saved.html"):
        assert "</html>" in (tmp_path / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_the_live_queue_says_in_one_line_that_it_needs_linux(system, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", system)
    assert client.main(["submit", "--time", "5", "--", "true"]) == client.UNREACHABLE
    assert capsys.readouterr().err == (
        f"backfill: the live queue needs Linux; this system is {system}. All verbs that simulate run here\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not WORKFLOW.exists(), reason="the sdist has no workflows")
def test_the_workflow_runs_tests_that_there_are():
    words = WORKFLOW.read_text(encoding="utf-8").split()
    named = [word for word in words if word.startswith("tests/")]
    assert len(named) > 5
    assert [name for name in named if not (WORKFLOW.parents[2] / name).exists()] == []
