"""With Slurm's accounting, a queue learns of ends that slurmctld has forgotten, and `import` reads outages."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.traces.accounting.slurm_events import read_slurm_events
from backfill.traces.files import Source
from backfill.traces.inventory import read_platform
from backfill.traces.table import read_table
from tests import forks
from tests.patience import PATIENCE_S, until
from tests.real import slurm
from tests.real.users import User

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
    time.sleep(2)  # of the events of a node that begin in one second the database keeps the first
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


class Account:
    """The commands of a queue, run by an account of its own that is not root."""

    def __init__(self, cluster, name, home):
        who = pwd.getpwnam(name)
        shutil.chown(home, name)
        reads = "+dac_read_search"  # the Python of the tests may be in a folder of root's
        self.become = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups",
                       f"--inh-caps={reads}", f"--ambient-caps={reads}"]  # fmt: skip
        self.env = os.environ | forks.PLAIN | {"HOME": str(home), "USER": name, "BACKFILL_HOME": str(home)}
        self.env["SLURM_CONF"] = str(cluster.folder / "slurm.conf")

    def run(self, *words, check=0):
        program = [sys.executable, "-P", "-m", "backfill"]
        done = subprocess.run(
            [*self.become, *program, *words], env=self.env, cwd="/", capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert check is None or done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def rows(self):
        return {row["label"]: row for row in json.loads(self.run("queue", "--json"))["jobs"]}

    def rights(self):
        found = json.loads(self.run("doctor", "--json", check=None))["findings"]
        return next(one["verdict"] for one in found if one["check"] == "rights")


def test_an_administrator_of_accounting_who_is_not_root_starts_the_jobs_of_others(cluster):
    with TemporaryDirectory(prefix="queue-", dir="/tmp") as home:
        queue, user = Account(cluster, "daemon", Path(home)), User(cluster)
        cluster.run("sacctmgr", "-i", "add", "user", "daemon", "account=root", "adminlevel=Operator")
        cluster.wait(["sacctmgr", "-n", "show", "user", "daemon", "format=admin"], lambda found: "Operator" in found)
        (Path(home) / "config.toml").write_text("publish = true\n")
        queue.run("serve", "--pool", "slurm", "--detach")
        try:
            assert queue.rights() == "FAIL"  # an operator may not mark jobs
            cluster.run("sacctmgr", "-i", "modify", "user", "daemon", "set", "adminlevel=Administrator")
            assert queue.rights() == "ok"
            (cluster.folder / "job_submit.lua").write_text(queue.run("pool", "setup", "--print", "--part", "filter"))
            with (cluster.folder / "slurm.conf").open("a") as conf:
                conf.write("JobSubmitPlugins=lua\n")
            cluster.run("scontrol", "reconfigure")
            fill = [user.submit("-c", "16", "--wrap", "sleep 600") for _ in range(4)]
            until(lambda: all(queue.rows().get(job, {}).get("state") == "RUNNING" for job in fill), 0.5)
            nodes = cluster.run("squeue", "-h", "-o", "%i %N").split()
            assert dict(zip(nodes[::2], nodes[1::2], strict=True)) == {
                job: queue.rows()[job]["nodes"][0][0] for job in fill
            }
            waits = user.submit("-c", "16", "--wrap", "sleep 600")
            cluster.wait(["squeue", "-h", "-j", waits, "-o", "%k"], lambda told: "[backfill:start=" in told)
            cluster.run("scontrol", "requeue", fill[0])  # the queue holds it before its begin time
            held = ["squeue", "-h", "-j", fill[0], "-O", "Reason:40"]
            cluster.wait(held, lambda told: "JobHeldAdmin" in told)
            until(lambda: queue.rows()[waits]["state"] == "RUNNING", 0.5)
            user.run("scancel", *fill[1:], waits)
            until(lambda: {*queue.rows()} == {fill[0]}, 0.5)
        finally:
            queue.run("serve", "--stop", check=None)
        assert fill[0] in queue.run("pool", "release-all")
        cluster.wait(["squeue", "-h", "-j", fill[0], "-O", "Reason:40"], lambda told: "JobHeld" not in told)


def rows(live):
    return live.request("queue")["jobs"]
