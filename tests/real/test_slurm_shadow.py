"""A queue that watches a real Slurm: what it says is what Slurm says, and Slurm does not notice."""

import json
import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.pools.seen import OVER, RUNNING, WAITING
from backfill.pools.slurm import SlurmReader
from tests.docs.examples import WATCHED, run_page
from tests.patience import until
from tests.queue.conftest import Live
from tests.real import slurm

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing(accounting=False) != "", reason=f"a real Slurm {slurm.missing(False)}"),
]
SECOND = 1_000_000


@pytest.fixture(scope="module")
def cluster():
    with TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder), accounting=False) as found:
        yield found


@pytest.fixture(autouse=True)
def _no_job_is_left(cluster):
    yield
    cluster.run("scancel", "-u", "root")
    cluster.wait(["squeue", "-h"], lambda found: not found.strip())


@pytest.fixture
def reader(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
    return SlurmReader(cluster.folder)


def test_a_look_at_slurm_tells_what_was_submitted(cluster, reader):
    before = int(time.time())
    failed = cluster.submit("-t", "5", "--wrap", "exit 3")
    distinct = cluster.submit(
        "-N", "2", "--ntasks-per-node=1", "-c", "3", "-t", "5", "-J", "a|b ArrayTaskId=3", "--wrap", "sleep 60"
    )
    spread = cluster.submit("-n", "40", "-t", "5", "--mem-per-cpu=10", "--wrap", "sleep 60")  # not evenly spread
    held = cluster.submit(
        "-H", "-t", "7", "-c", "2", "-L", "lic:2", "-C", "[fast|x86]", "-p", "short", "--wrap", "true"
    )
    array = cluster.submit("-a", "1-3%1", "-t", "5", "--wrap", "sleep 60")
    after = cluster.submit("-d", f"afterok:{distinct}", "-t", "5", "--wrap", "true")
    later = cluster.submit("--begin=now+1hour", "-t", "UNLIMITED", "--wrap", "true")
    wide = cluster.submit("-N", "4", "--exclusive", "-t", "5", "--wrap", "true")
    cluster.wait(["squeue", "-h", "-t", "R", "-o", "%i"], lambda found: {distinct, spread} <= {*found.split()})
    cluster.wait(["squeue", "-h", "-t", "F", "-o", "%i"], lambda found: failed in found.split())
    # A reason is given by the next pass of Slurm's scheduler, not by the submission.
    cluster.wait(
        ["squeue", "-h", "-r", "-j", array, "-t", "PD", "-o", "%r"], lambda found: "JobArrayTaskLimit" in found
    )
    snapshot = reader.look()
    seen = {job.native: job for job in snapshot.jobs}
    assert seen.keys() == {distinct, spread, held, *(f"{array}_{i}" for i in (1, 2, 3)), after, later, wide, failed}
    one = seen[distinct]
    assert (one.name, one.state, one.asked.need["cpus"], one.asked.walltime) == (
        "a|b ArrayTaskId=3",
        RUNNING,
        3,
        300 * SECOND,
    )
    assert sorted(tasks for _, tasks in one.nodes) == [1, 1]
    assert one.submit // SECOND in range(before, before + 60)
    assert one.start >= one.submit
    many = seen[spread]
    cpus = {name: tasks * many.asked.need["cpus"] for name, tasks in many.nodes}
    told = cluster.run("scontrol", "-d", "-o", "show", "job", spread)
    assert sum(cpus.values()) == 40
    assert "NumCPUs=40" in told
    waits = seen[held]
    assert (waits.state, waits.blocked, waits.asked.need["lic"], waits.asked.need["cpus"]) == (
        WAITING,
        "JobHeldUser",
        2,
        2,
    )
    assert (waits.asked.constraint, waits.asked.partition) == ("[fast|x86]", "short")
    assert seen[f"{array}_3"].blocked == "JobArrayTaskLimit"
    assert seen[after].blocked == "Dependency"
    assert seen[later].begin is not None
    assert seen[later].blocked == "BeginTime"
    assert (seen[wide].blocked, seen[wide].asked.exclusive, seen[wide].asked.tasks) == ("", True, 4)
    assert (seen[failed].state, seen[failed].ended, seen[failed].exit) == (OVER, "FAILED", 3)
    held_there = {node.name: node.held.get("cpus", 0) for node in snapshot.nodes}
    mine = dict.fromkeys(held_there, 0)
    for job in snapshot.jobs:
        for name, tasks, *_ in job.nodes if job.state == RUNNING else ():
            mine[name] += tasks * job.asked.need["cpus"]
    assert mine == held_there
    again = {job.native: job for job in reader.look().jobs}
    assert again[held] is waits  # what is the same is not read anew


def test_a_queue_that_watches_slurm_says_what_slurm_says(cluster, tmp_path):
    live = Live(tmp_path)
    (tmp_path / "config.toml").unlink()
    live.env["SLURM_CONF"] = str(cluster.folder / "slurm.conf")
    try:
        live.run("serve", "--pool", "slurm", "--shadow", "--detach")
        log = tmp_path / "ran"
        script = f"echo $SLURM_JOB_ID $SLURMD_NODENAME >> {log}; sleep"
        some = [
            cluster.submit("-c", str(4 + 4 * (i % 4)), "-t", "5", "--wrap", f"{script} {1 + i % 3}") for i in range(12)
        ]
        held = cluster.submit("-H", "-t", "5", "--wrap", "true")
        long = cluster.submit("-c", "16", "-t", "5", "--requeue", "--wrap", "sleep 100")
        until(lambda: held in _rows(live))
        told = live.run("cancel", "--all", check=1).stderr
        assert "only watches slurm" in told
        assert "JobHeldUser" in live.run("explain", held).stdout
        live.kill(live.daemon())  # and another one goes on
        live.until(lambda: live.daemon() == 0)
        live.run("serve", "--detach")
        until(lambda: _rows(live).get(long, {}).get("state") == "RUNNING")
        where = _rows(live)[long]["nodes"][0][0]
        assert cluster.run("squeue", "-h", "-j", long, "-o", "%N").strip() == where
        number = _rows(live)[long]["id"]
        cluster.run("scontrol", "requeue", long)  # which gives it another submit
        until(lambda: _rows(live).get(long, {}).get("state") == "PENDING")
        assert _rows(live)[long]["id"] == number
        cluster.run("scontrol", "update", "nodename=n4", "state=drain", "reason=test")
        until(lambda: any("drain" in kind["reasons"] for kind in live.request("queue", nodes=True)["nodes"]))
        cluster.run("scontrol", "update", "nodename=n4", "state=resume")
        cluster.run("scancel", long, held)
        until(lambda: not _rows(live))
        over = {row["label"]: row for row in json.loads(live.run("history", "--json").stdout)["jobs"]}
        assert {*some} <= over.keys()
        ran = dict(line.split() for line in log.read_text().splitlines())
        for number in some:
            assert over[number]["state"] == "COMPLETED"
            assert [name for name, *_ in over[number]["nodes"]] == [ran[number]]
        notes = (tmp_path / "daemon.log").read_text()
        assert "Traceback" not in notes
        assert "gave other decisions" not in notes
    finally:
        live.run("serve", "--stop", check=None)


def test_slurm_that_does_not_answer_is_said_and_waited_for(cluster, tmp_path):
    live = Live(tmp_path)
    (tmp_path / "config.toml").unlink()
    live.env["SLURM_CONF"] = str(cluster.folder / "slurm.conf")
    stands = int((cluster.folder / "slurmctld.pid").read_text())
    try:
        live.run("serve", "--pool", "slurm", "--shadow", "--detach")
        until(lambda: not live.request("queue")["problem"])
        os.kill(stands, signal.SIGSTOP)
        until(lambda: "squeue" in live.request("queue")["problem"])
    finally:
        os.kill(stands, signal.SIGCONT)
    try:
        until(lambda: not live.request("queue")["problem"])
    finally:
        live.run("serve", "--stop", check=None)


def test_the_page_about_a_slurm_that_is_watched(tmp_path, monkeypatch):
    with TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder), accounting=False) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
        monkeypatch.setenv("USER", "root")
        for ran in run_page(WATCHED.read_text(encoding="utf-8"), tmp_path):
            assert ran.matches, f"$ {ran.command}\n{ran.printed}--- the page says\n{ran.expected}"


def _rows(live):
    return {row["label"]: row for row in live.request("queue")["jobs"]}
