"""A queue that starts the jobs of a real Slurm: where it decided, once, whatever is killed."""

import os
import signal
import time
from collections import Counter

import pytest

from tests.patience import until
from tests.real import slurm

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing(accounting=False) != "", reason=f"a real Slurm {slurm.missing(False)}"),
]


class Log:
    """What the jobs themselves write down: number, node, and B or E at the begin and the end."""

    def __init__(self, folder):
        self.path = folder / "ran"
        self.path.touch()

    def script(self, seconds):
        line = f"$SLURM_JOB_ID $(echo $SLURM_JOB_NODELIST) $SLURM_RESTART_COUNT >> {self.path}"
        return f"echo B {line}; sleep {seconds}; echo E {line}"

    def begun(self):
        return Counter(line.split()[1] for line in self.path.read_text().splitlines() if line.startswith("B"))

    def nodes(self):
        return {line.split()[1]: line.split()[2] for line in self.path.read_text().splitlines() if line.startswith("B")}


def rows(live):
    return {row["label"]: row for row in live.request("queue")["jobs"]}


def over(live, names):
    return {name: live.job(name) for name in names}


def test_jobs_run_where_the_queue_decided_though_it_is_killed(cluster, live, tmp_path):
    log = Log(tmp_path)
    live.run("serve", "--pool", "slurm", "--adopt", "--detach")
    some = []
    for i in range(18):
        shape = [["-c", "8"], ["-n", "20"], ["-N", "2", "--ntasks-per-node=1", "-c", "6"], ["-c", "16"]][i % 4]
        some.append(cluster.submit(*shape, "-t", "2", "--wrap", log.script(1 + i % 3)))
        if i % 6 == 5:
            live.kill(live.daemon())  # wherever it is by now
            live.run("serve", "--detach", check=None)
    held = cluster.submit("-H", "-t", "2", "--wrap", "true")
    until(lambda: live.request("queue")["jobs"] and rows(live).keys() == {held})
    assert rows(live)[held]["reason"] == "JobHeldUser"
    assert log.begun() == dict.fromkeys(some, 1)
    for place, job in enumerate(over(live, some).values()):
        assert job["state"] == "COMPLETED", job
        assert job["attempt"] == 1 or place % 4 == 1, job  # tasks of -n are not spread as the queue decided
    notes = (tmp_path / "daemon.log").read_text()
    assert "Traceback" not in notes
    assert "gave other decisions" not in notes
    told = cluster.run("squeue", "-h", "-o", "%i %r")
    assert told.strip() == f"{held} JobHeldUser"


def test_what_others_do_in_slurm_is_followed(cluster, live, tmp_path):
    log = Log(tmp_path)
    live.run("serve", "--pool", "slurm", "--adopt", "--detach")
    long = cluster.submit("-c", "16", "-N", "1", "-t", "5", "--requeue", "--wrap", "sleep 100")
    until(lambda: rows(live).get(long, {}).get("state") == "RUNNING")
    number = rows(live)[long]["id"]
    cluster.run("scontrol", "requeue", long)  # it has another submit then, waits again, and is taken over again
    until(lambda: rows(live).get(long, {}).get("state") == "PENDING")
    assert rows(live)[long]["id"] == number
    cluster.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    until(lambda: any("drain" in kind["reasons"] for kind in live.request("queue", nodes=True)["nodes"]))
    some = [cluster.submit("-c", "8", "-t", "2", "--wrap", log.script(1)) for _ in range(4)]
    until(lambda: {*some} <= log.begun().keys())
    assert "n1" not in log.nodes().values()
    foreign = cluster.submit("-H", "-c", "4", "-t", "2", "--wrap", log.script(3))
    cluster.run("scontrol", "release", foreign)  # by an operator, who need not ask the queue
    until(lambda: foreign in log.begun())
    cluster.run("scontrol", "update", "nodename=n1", "state=resume")
    cluster.run("scancel", long)
    until(lambda: not rows(live))
    assert live.job(long)["state"] == "CANCELLED"
    assert live.job(foreign)["state"] == "COMPLETED"
    assert "this queue starts the jobs of slurm" in live.run("submit", "--", "true", check=1).stderr


def test_a_controller_that_forgets_has_nothing_begun_twice_by_the_queue(cluster, live, tmp_path):
    log = Log(tmp_path)
    live.run("serve", "--pool", "slurm", "--adopt", "--detach")
    later = ("--begin", "now+4")  # so that nobody but the queue starts them
    some = [cluster.submit(*later, "-c", "8", "-t", "5", "--wrap", log.script(20)) for _ in range(4)]
    until(lambda: {*some} <= log.begun().keys(), 0.05)
    stands = int((cluster.folder / "slurmctld.pid").read_text())
    os.kill(stands, signal.SIGKILL)  # what it has not saved of these starts is lost
    time.sleep(0.5)
    cluster.start_controller()
    until(lambda: not live.request("queue")["problem"])
    until(lambda: all(row["state"] != "RUNNING" for row in rows(live).values()))
    for row in rows(live).values():
        assert row["reason"] in ("Uncertain", "NotAdopted", "JobHeldAdmin", "BeginTime"), row  # BeginTime: requeued
    for name, times in log.begun().items():  # Slurm itself may begin again what its saved state calls released
        kinds = Counter(kind for _, kind, _ in live.job(name)["events"])
        assert kinds["start"] <= 1 + kinds["unstarted"] + kinds["requeue"], (name, times, kinds)
