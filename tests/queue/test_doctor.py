"""What the machine offers, the queue on a screen, and what the shell completes."""

import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess

import pytest

from backfill.client import doctor
from tests import forks
from tests.patience import until
from tests.queue.conftest import PYTHON
from tests.queue.test_store import filled
from tests.queue.virtual import Virtual


def findings(live, check=0):
    return findings_of(live, check=check)


def findings_of(live, *words, check=0, **env):
    done = live.run("doctor", "--json", *words, check=check, **env)
    told = json.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    return {one["check"]: one for one in told["findings"]}


def test_the_doctor_says_what_is_wrong_and_starts_nothing(live):
    found = findings(live)
    assert found["daemon"]["told"] == "not running"
    assert "4 cpus" in found["settings"]["told"]
    assert live.daemon() == 0
    live.submit("-H", "--", "true")
    live.until(lambda: findings(live)["planner"]["told"].startswith("easy, not compiled, process"))
    assert "1 jobs pending" in findings(live)["store"]["told"]
    assert live.run("doctor").stdout.startswith("ok    versions")
    pid = live.daemon()
    live.kill(pid)
    live.until(lambda: not live.daemon())
    found = findings(live)
    assert found["daemon"]["told"] == "not running"
    assert found["socket"]["verdict"] == "warn"
    (live.folder / "config.toml").write_text("cpus = 4\ngraze = 1\n")
    assert "unknown setting 'graze'" in findings(live, check=1)["settings"]["told"]
    (live.folder / "config.toml").write_text("cpus = 4\n")
    (live.folder / "store.db-wal").unlink()
    (live.folder / "store.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    assert findings(live, check=1)["store"]["verdict"] == "FAIL"


def test_the_doctor_says_0_of_a_disk_that_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(1 << 30, 1 << 30, 0))
    said = [found.told for found in doctor.folder(doctor.Machine(tmp_path)) if found.check == "disk"]
    assert said == ["only 0 are free"]


def test_the_doctor_reads_the_whole_record_again(live):
    assert findings_of(live, "--deep")["record"]["told"] == "nothing is recorded yet"
    filled(live.folder / "store.db").close()
    assert "record" not in findings(live)
    assert "no job ran twice" in findings_of(live, "--deep")["record"]["told"]
    with sqlite3.connect(live.folder / "store.db") as db:
        db.execute("UPDATE job SET facts = json_set(facts, '$.walltime', 99) WHERE id = 2")
    db.close()
    found = findings_of(live, "--deep", check=1)["record"]
    assert (found["verdict"], found["told"]) == ("FAIL", "job 2 differs")
    assert live.run("doctor").returncode == 0


def test_the_doctor_looks_at_who_watches_the_jobs(live):
    assert findings(live)["keeper"]["told"] == "not running"
    number = live.submit("-t", 10, "--wrap", "touch on; sleep 600")
    live.until((live.folder / "on").exists)
    live.until(lambda: "1 of 1 running" in findings(live)["keeper"]["told"])
    watching = json.loads((live.folder / "run" / f"{number}.1" / "proc.json").read_text())["supervisor"]
    (keeping,) = [pid for pid in live.keepers() if pid != watching]
    assert findings(live)["keeper"]["told"] == f"process {keeping}; 1 of 1 running jobs have a supervisor"
    live.kill(keeping)
    live.until(lambda: keeping not in live.keepers())
    found = findings(live)["keeper"]
    assert (found["verdict"], found["told"]) == ("warn", "not running; 1 of 1 running jobs have a supervisor")
    live.kill(watching)
    live.until(lambda: watching not in live.keepers())
    found = findings(live)["keeper"]
    assert (found["verdict"], found["told"].split("; ")[1]) == ("warn", f"without one: {number}")


def test_the_doctor_looks_at_who_decides(live):
    live.submit("-t", 1, "--wait", "--", "true")
    (pid,) = live.ask({"do": "ping"})["planner"]["pids"].values()
    told = findings(live)["planner"]["told"]
    assert told.startswith(f"easy, not compiled, process {pid}, ")
    assert ": median " in told
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "mine.py"\n')
    mine = "import os\nfrom backfill.core import policy\n\n@policy('mine')\ndef mine(state):\n    os._exit(3)\n"
    (live.folder / "mine.py").write_text(mine)
    live.run("serve", "--stop")
    live.run("submit", "-H", "--", "true")
    found = live.until(lambda: (one := findings_of(live, check=None)["planner"]) and one["verdict"] == "FAIL" and one)
    assert "mine" in found["told"]


def test_the_doctor_looks_at_what_is_compiled(live, tmp_path):
    assert "NUMBA_DISABLE_JIT is set" in findings(live)["compiler"]["told"]
    compiler = {"NUMBA_DISABLE_JIT": "0", "BACKFILL_CACHE_DIR": str(tmp_path / "cache")}
    found = findings_of(live, **compiler)["compiler"]
    assert (found["verdict"], found["told"].split("; ")[1]) == ("warn", "easy is not compiled yet")
    (tmp_path / "a file").touch()
    compiler["BACKFILL_CACHE_DIR"] = str(tmp_path / "a file")
    found = findings_of(live, check=1, **compiler)["compiler"]
    assert "cannot be written (Not a directory)" in found["told"]
    assert found["hint"] == "set BACKFILL_CACHE_DIR to a writable folder"
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "easi"\n')
    del compiler["BACKFILL_CACHE_DIR"]
    assert "unknown policy 'easi'" in findings_of(live, check=1, **compiler)["settings"]["told"]


def screen(live, key):
    """Return what `top` draws on a terminal until a key, and its exit code."""
    here, there = pty.openpty()
    words = [*PYTHON, "top", "--every", "1s"]
    env = live.env | {"TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    made = subprocess.Popen(words, stdin=there, stdout=there, stderr=there, env=env, start_new_session=True)
    os.close(there)
    drawn = b""
    while b"pending" not in drawn:
        drawn += os.read(here, 1 << 16)
    os.write(here, key) if key else made.send_signal(signal.SIGINT)
    until(lambda: made.poll() is not None)
    os.close(here)
    return drawn.decode(), made.returncode


def test_top_draws_the_queue_until_it_is_told_to_end(live):
    number = live.submit("-H", "-J", "waits", "--", "true")
    drawn, code = screen(live, b"q")
    assert code == 0
    assert "waits" in drawn
    assert "JobHeldUser" in drawn
    assert screen(live, b"")[1] == 0  # Ctrl-C
    once = live.run("top").stdout.splitlines()
    assert once[0].split() == ["cpus", "." * 24, "0/4"]
    assert str(number) in once[4]
    assert "\x1b" not in "".join(once)
    assert json.loads(live.run("top", "--json").stdout)["jobs"][0]["id"] == number


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cancel ", ["2"]),
        ("show ", ["2", "1"]),
        ("show 1", ["1"]),
        ("cancel --name w", ["waits"]),
        ("serve --policy easy-sj", ["easy-sjf", "easy-sjbf"]),
        ("explai", ["explain"]),
    ],
)
def test_the_shell_completes_jobs_names_and_policies(tmp_path, line, found):
    queue = Virtual(tmp_path)
    queue.submit(4, 10)
    queue.drain()
    queue.submit(1, held=True, name="waits")
    words = ["backfill", *line.split(" ")]
    env = {
        **os.environ, "BACKFILL_HOME": str(tmp_path), "_BACKFILL_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    done = forks.queue(serves=False).run([], tmp_path, env)
    assert done.stdout.split() == found, done.stderr


class Told:
    """A machine of whose daemon this is known."""

    def __init__(self, **daemon):
        self.daemon = daemon


@pytest.mark.parametrize(("held", "verdict"), [(8, doctor.OK), (16, doctor.WARN)])
def test_the_doctor_warns_of_nodes_whose_jobs_hold_more_than_there_is(held, verdict):
    kind = {"names": "n[1-2]", "count": 2, "partitions": ["x"], "stated": {"cpus": 8}, "capacity": {"cpus": 8},
            "held": {"cpus": held}, "out": 0, "out_names": "", "reasons": []}  # fmt: skip
    (found,) = doctor.nodes(Told(queue={"nodes": [kind]}))
    assert found.verdict == verdict
    assert found.told.startswith(f"n[1-2] in x: jobs hold {held} of 8 cpus")


@pytest.mark.parametrize(("value", "text"), [(0.123, "0.12 ms"), (9.5, "9.5 ms"), (1612.3, "1,612 ms")])
def test_the_doctor_writes_times_of_passes_without_exponents(value, text):
    planner = {"pids": {}, "kind": "compiled", "failures": [], "ready": True,
               "passes": {"median_ms": value, "worst_ms": value, "count": 3}}  # fmt: skip
    found = next(doctor._planner({"policy": "easy", "asked_policy": "easy"}, planner))
    assert found.told.endswith(f": median {text}, max {text}")


@pytest.mark.parametrize(("pool", "local"), [("fake:1", False), ("local", True)])
def test_the_doctor_knows_where_jobs_run_though_the_platform_is_wrong(tmp_path, pool, local):
    (tmp_path / "config.toml").write_text(f'pool = "{pool}"\nplatform = "nosuch.toml"\n')
    assert doctor.Machine(tmp_path).local is local
