"""With Slurm's accounting, a queue learns of ends that slurmctld has forgotten, and `import` reads outages."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.traces.accounting.slurm_events import read_slurm_events
from backfill.traces.files import Source
from backfill.traces.inventory import read_platform
from backfill.traces.table import read_table
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


def test_what_slurm_recorded_of_its_nodes_and_reserves_becomes_events(cluster, tmp_path):
    def update(node, state):
        cluster.run("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=disk | fan")

    def reserve(name, *what):
        cluster.run("scontrol", "create", "reservation", f"ReservationName={name}", "Duration=60", *what)

    cluster.wait(["sinfo", "-h", "-N", "-o", "%T"], lambda found: {*found.split()} == {"idle"})  # all have registered
    update("n1", "DOWN")
    update("n2", "DRAIN")
    time.sleep(2)
    update("n1", "RESUME")
    update("n2", "RESUME")
    update("n3", "FAIL")
    cluster.run("sacctmgr", "-i", "add", "account", "phys")
    reserve("course", "StartTime=now+1hour", "Nodes=n[1-2]", "Users=root,nobody")
    reserve("cores", "StartTime=now+5hours", "CoreCnt=4", "Nodes=n4", "Accounts=phys", "Flags=DAILY")
    reserve("maint", "StartTime=now+10hours", "Nodes=ALL", "Users=root", "Flags=MAINT,IGNORE_JOBS")
    reserve("lics", "StartTime=now+1hour", "Licenses=lic:2", "Users=root", "Flags=LICENSE_ONLY")
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 3600))
    log = read_table(f"job,submit,runtime,user\n1,{now},60,root\n".encode(), zone=time.tzname[0])
    (tmp_path / "nodes.txt").write_text(cluster.run("scontrol", "-o", "show", "node"))
    shown = ["sacctmgr", "-P", "show", "event", "start=2020-01-01"]
    own = "format=tres,state,stateraw,end,duration,start,nodename,reason,clusternodes"
    for columns, one_line in (([], []), ([], ["-o"]), ([own], [])):
        wanted = cluster.wait([*shown, *columns], lambda found: found.count("disk | fan") == 3)
        wanted += cluster.run("scontrol", *one_line, "show", "reservation")
        found = read_slurm_events(Source.of(wanted.encode()), log, read_platform(tmp_path / "nodes.txt"))
        assert (found.outages, found.drains, found.reservations, found.windows) == (1, 2, 2, 1)
        assert found.left_out["reservations without nodes of the platform"] == 1
        assert found.not_carried == {"DAILY": 1}
        cells = found.events.cells
        rows = [*zip(*(cells[name] for name in ("event", "node", "amount", "user", "group")), strict=True)]
        assert rows[:2] == [("down", "n1", "", "", ""), ("window", "n2", "", "", "")]
        assert {*rows[2:4]} == {("up", "n1", "", "", ""), ("window", "n3", "", "", "")}
        assert rows[4:] == [
            ("reserve", "n1", "", "root;nobody", ""),
            ("reserve", "n2", "", "root;nobody", ""),
            ("reserve", "n4", "4", "", "phys"),
            ("window", "*", "", "", ""),
        ]


def rows(live):
    return live.request("queue")["jobs"]
