"""With Slurm's accounting, a queue learns how a job ended of which slurmctld knows nothing any more."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.patience import until
from tests.real import slurm

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing() != "", reason=f"a real Slurm with accounting {slurm.missing()}"),
]


@pytest.fixture
def cluster():
    with TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder), more="MinJobAge=2\n") as found:
        yield found


def test_an_end_that_nobody_saw_is_the_one_that_accounting_has(cluster, live):
    live.run("serve", "--pool", "slurm", "--adopt", "--detach")
    wraps = ("sleep 4", "sleep 4; exit 3", "sleep 100")
    some = [cluster.submit("-c", "4", "-t", "5", "--wrap", wrap) for wrap in wraps]
    waits = cluster.submit("-H", "-t", "5", "--wrap", "true")
    until(lambda: all(row["state"] == "RUNNING" for row in rows(live) if row["label"] in some) and len(rows(live)) == 4)
    live.kill(live.daemon())
    cluster.run("scancel", some[2], waits)
    cluster.wait(["squeue", "-h", "-t", "all"], lambda found: not found.strip())  # MinJobAge has passed
    live.run("serve", "--detach")
    until(lambda: not rows(live))
    asked = ["sacct", "-X", "-n", "-P", f"--jobs={','.join([*some, waits])}", "--format=JobID,End"]
    told = cluster.run(*asked, SLURM_TIME_FORMAT="%s")
    ends = {name: int(end) for name, end in (line.split("|") for line in told.splitlines())}
    found = {name: live.job(name) for name in (*some, waits)}
    assert [found[name]["state"] for name in some] == ["COMPLETED", "FAILED", "CANCELLED"]
    assert [found[name]["exit_code"] for name in some[:2]] == [0, 3]
    assert {name: job["end_s"] for name, job in found.items()} == ends
    assert (found[waits]["state"], found[waits]["reason"]) == ("CANCELLED", "")


def rows(live):
    return live.request("queue")["jobs"]
