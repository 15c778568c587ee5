"""A queue that starts the jobs of a real HTCondor: where it decided, once, whatever is killed."""

import json
import os
import random
import signal
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.pools.htcondor_setup import htcondor_setup
from tests.patience import until
from tests.queue.conftest import Live
from tests.real import htcondor
from tests.real.judged import Judged

pytestmark = [
    pytest.mark.htcondor,
    pytest.mark.skipif(htcondor.missing() != "", reason=f"a real HTCondor {htcondor.missing()}"),
    pytest.mark.skipif(find_spec("htcondor2") is None, reason="needs the extra htcondor"),
]
MACHINES, CPUS = [f"n{i}" for i in range(1, 5)], 4
JOBS = int(os.environ.get("BACKFILL_HTCONDOR_JOBS", "12"))
KILLS = int(os.environ.get("BACKFILL_HTCONDOR_KILLS", "1"))  # of the daemon, the planner, the schedd and the negotiator
SCRIPT = """#!/bin/sh
slot=$(sed -n 's/^Name = "\\(.*\\)"/\\1/p' "$_CONDOR_MACHINE_AD")
echo "B $1 ${{slot#*@}} $(date +%s.%N)" >> {log}
sleep $2
echo "E $1 ${{slot#*@}} $(date +%s.%N)" >> {log}
"""
SUBMIT = """executable = {folder}/job.sh
arguments = "$(Cluster).$(Process) {seconds}"
transfer_executable = False
should_transfer_files = NO
request_cpus = {cpus}
request_memory = {memory}
allowed_execute_duration = 120
{more}
queue {count}
"""


class Site:
    """A pool, the queue that starts its jobs, and what the jobs themselves write down."""

    def __init__(self, pool, live):
        self.pool, self.live, self.folder = pool, live, pool.folder
        self.log = self.folder / "ran"
        self.log.touch()
        self.log.chmod(0o666)
        script = self.folder / "job.sh"
        script.write_text(SCRIPT.format(log=self.log))
        script.chmod(0o755)

    def submit(self, cpus=1, seconds=1, memory=128, more="", count=1):
        text = SUBMIT.format(
            folder=self.folder, cpus=cpus, seconds=seconds, memory=memory, more=more, count=count
        )  # fmt: skip
        (self.folder / "job.sub").write_text(text)
        told = self.pool.run("condor_submit", "-terse", str(self.folder / "job.sub"))
        first, last = (each.strip() for each in told.split("-"))
        cluster = first.partition(".")[0]
        return [f"{cluster}.{i}" for i in range(int(last.partition(".")[2]) + 1)]

    def lines(self, kind):
        return [line.split()[1:] for line in self.log.read_text().splitlines() if line.startswith(kind)]

    def begun(self):
        """Return how often each job has begun."""
        names = [job for job, *_ in self.lines("B")]
        return {name: names.count(name) for name in names}

    def nodes(self):
        return {job: node for job, node, _ in self.lines("B")}

    def over(self):
        """Those that are over, as the queue knows them."""
        return {row["label"]: row for row in json.loads(self.live.run("history", "--json").stdout)["jobs"]}

    def rows(self):
        return {row["label"]: row for row in self.live.request("queue")["jobs"]}

    def submit_again(self, **what):
        """Submit a job even if the schedd dies meanwhile; it may have got it then all the same."""
        while True:
            try:
                return self.submit(**what)
            except AssertionError:
                time.sleep(1)

    def end_ours(self, what):
        """Kill the daemon, or its planner, wherever it is by now."""
        if what == "daemon":
            self.live.kill(self.live.daemon())
        else:
            self.live.kill(*self.live.request("ping")["planner"]["pids"].values())

    def clear(self):
        if self.pool.run("condor_q", "-allusers", "-af", "ClusterId").strip():  # else it is an error
            self.pool.run("condor_rm", "-all")
        until(lambda: not self.rows())
        self.log.write_text("")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    home = tmp_path_factory.mktemp("queue")
    extra = "".join(htcondor_setup(home).values())
    with (
        TemporaryDirectory(prefix="htcondor-", dir="/tmp") as folder,
        htcondor.running(Path(folder), MACHINES, CPUS, extra) as pool,
    ):
        pool.token("nobody")
        live = Live(home)
        if KILLS > 1:
            del live.env["NUMBA_DISABLE_JIT"]  # a planner starts sooner once its policy is compiled
        (home / "config.toml").write_text('policy = "easy"\n')
        live.env["CONDOR_CONFIG"] = str(pool.folder / "condor_config")
        live.run("serve", "--pool", "htcondor", "--adopt", "--detach")
        try:
            until(lambda: not live.request("queue")["problem"])
            yield Site(pool, live)
        finally:
            live.run("serve", "--stop", check=None)


@pytest.fixture(autouse=True)
def nothing_left(site):
    yield
    site.clear()
    notes = (site.live.folder / "daemon.log").read_text()
    assert "Traceback" not in notes
    assert "gave other decisions" not in notes


def check_placed(site, some):
    """Each job ran once, to its end, on the node that was decided."""
    ran, over = site.nodes(), site.over()
    assert {job: count for job, count in site.begun().items() if job in some} == dict.fromkeys(some, 1)
    for name in some:
        assert over[name]["state"] == "COMPLETED", over[name]
        assert [node for node, *_ in over[name]["nodes"]] == [ran[name]]


def test_jobs_run_where_the_queue_decided_though_it_is_killed(site):
    some = []
    for i in range(20):
        some += site.submit(cpus=1 + i % 4, seconds=1 + i % 3)
        if i % 10 == 9:
            site.live.kill(site.live.daemon())  # wherever it is by now
            site.live.run("serve", "--detach", check=None)
    (held,) = site.submit(more="hold = True")
    until(lambda: site.rows().keys() == {held})
    assert "hold" in site.rows()[held]["reason"]
    check_placed(site, some)
    site.pool.run("condor_release", held)  # by its user, whose hold it is
    until(lambda: not site.rows())
    check_placed(site, [held])


@pytest.mark.long
def test_a_schedd_that_is_killed_has_no_job_begun_twice(site):
    some = site.submit(cpus=4, seconds=6, count=6)
    until(lambda: len(site.begun()) >= 2, 0.05)
    site.pool.kill("schedd")
    until(lambda: not site.rows())
    check_placed(site, some)


def test_what_others_do_in_htcondor_is_followed(site):
    (long,) = site.submit(cpus=4, seconds=100)
    until(lambda: site.rows().get(long, {}).get("state") == "RUNNING")
    site.pool.run("condor_vacate_job", "-fast", long)  # HTCondor itself does not start it again
    until(lambda: site.begun().get(long) == 2)
    until(lambda: site.rows().get(long, {}).get("state") == "RUNNING")
    assert site.live.job(long)["attempt"] == 2
    drained = next(name for name in MACHINES if not site.nodes()[long].startswith(name))
    slots = site.pool.run("condor_status", "-af", "Name").split()
    (host,) = (name for name in slots if name.startswith(f"slot1@{drained}@"))
    site.pool.run("condor_drain", "-graceful", host)
    until(lambda: any("drain" in kind["reasons"] for kind in site.live.request("queue", nodes=True)["nodes"]))
    some = site.submit(cpus=3, seconds=1, count=6)
    until(lambda: {*some} <= site.begun().keys())
    assert not any(node.startswith(drained) for node in site.nodes().values())
    site.pool.run("condor_drain", "-cancel", host)
    site.pool.run("condor_rm", long)
    until(lambda: not site.rows())
    assert site.live.job(long)["state"] == "CANCELLED"
    assert "this queue starts the jobs of htcondor" in site.live.run("submit", "--", "true", check=1).stderr


@pytest.mark.long
def test_users_cannot_move_a_guard_and_their_requirements_are_kept(site):
    until(lambda: not site.live.request("queue")["problem"])
    fill = site.submit(cpus=4, seconds=100, count=4)
    until(lambda: site.begun().keys() >= {*fill})
    (waits,) = site.submit(cpus=4, seconds=1)
    until(lambda: waits in site.rows())
    refused = site.pool.folder / "pinned.sub"
    refused.write_text(
        SUBMIT.format(folder=site.folder, cpus=1, seconds=1, memory=128, more='+BFTarget = "x"', count=1)
    )
    with pytest.raises(AssertionError, match="BFTarget is set by the queue"):
        site.pool.run("condor_submit", str(refused))
    site.pool.run("condor_rm", fill[0])
    until(lambda: waits in site.begun())
    site.clear()
    assert site.live.job(waits)["attempt"] == 1


def test_what_an_operator_starts_and_what_only_htcondor_can_place_is_followed(site):
    site.live.run("pause")
    try:
        short, foreign = *site.submit(cpus=1, seconds=1), *site.submit(cpus=2, seconds=6)
        until(lambda: {short, foreign} <= site.rows().keys())
        (slot,) = (name for name in site.pool.run("condor_status", "-af", "Name").split() if "slot1@n3@" in name)
        stands = site.live.daemon()  # which would take a pin back that is not its own, before HTCondor starts the job
        os.kill(stands, signal.SIGSTOP)
        for job in (short, foreign):
            site.pool.run("condor_qedit", job, "BFTarget", f'"0 {slot}"')  # by an operator
        until(lambda: foreign in site.begun() and [short] in [line[:1] for line in site.lines("E")])
        os.kill(stands, signal.SIGCONT)
        until(lambda: site.rows().get(foreign, {}).get("state") == "RUNNING")
        chosen = 'requirements = regexp("^n2@", TARGET.Name) || regexp("@n2@", TARGET.Name)'
        (own,) = site.submit(cpus=1, seconds=3, more=chosen)
        until(lambda: own in site.begun())  # which needs no decision of the queue
        until(lambda: not site.rows())
    finally:
        site.live.run("resume")
    some = [short, foreign, own]
    check_placed(site, some)
    over = site.over()
    assert {name: over[name]["why"] for name in some} == dict.fromkeys(some, "foreign-start")
    assert [site.nodes()[name].partition("@")[0] for name in some] == ["n3", "n3", "n2"]
    fill = site.submit(cpus=4, seconds=60, count=4)
    until(lambda: {*fill} <= site.begun().keys())
    (waits,) = site.submit(cpus=1, seconds=1, more=chosen)
    until(lambda: site.rows().get(waits, {}).get("reason") == "Requirements")
    site.pool.run("condor_rm", next(name for name in fill if site.nodes()[name].startswith("n2@")))
    until(lambda: waits in site.begun())


@pytest.mark.long
def test_the_way_back_needs_no_daemon(site):
    fill = site.submit(cpus=4, seconds=100, count=4)
    until(lambda: site.begun().keys() >= {*fill})
    some = site.submit(cpus=2, seconds=1, count=2)
    until(lambda: {*some} <= site.rows().keys())
    site.live.run("serve", "--stop")
    told = site.live.run("pool", "release-all").stdout
    assert all(name in told for name in some)
    site.pool.run("condor_rm", *fill)
    until(lambda: {*some} <= site.begun().keys())  # HTCondor starts them
    site.live.run("serve", "--detach")


@pytest.mark.long
def test_whatever_is_killed_each_job_runs_once_where_it_was_decided(site):
    chance = random.Random(7)
    ours, theirs = ["daemon", "planner"] * KILLS, ["schedd", "negotiator"] * KILLS
    some, begin, begun = [], time.monotonic(), {"ours": -1, "theirs": 0}
    at = {"ours": begin, "theirs": begin}
    chance.shuffle(ours)
    waiting = True
    while len(some) < JOBS or ours or theirs or waiting:
        waiting, now = site.rows(), time.monotonic()  # which has another daemon begin where there is none
        if len(some) < JOBS:
            cpus, memory = chance.randint(1, 4), 128 * chance.randint(1, 8)
            some += site.submit_again(cpus=cpus, seconds=chance.randint(1, 6), memory=memory)
        so_far = len(site.lines("B"))
        due = [who for who in at if now > at[who] and (so_far > begun[who] or now > at[who] + 60)]
        if theirs and "theirs" in due:
            site.pool.kill(theirs.pop())
        if ours and "ours" in due:
            site.end_ours(ours.pop())
        for who in due:  # another job is to begin until the next one
            at[who], begun[who] = now + chance.uniform(0, 8), so_far
        time.sleep(chance.uniform(0, 1))
    told = Judged(site.log, some, site.over(), CPUS)
    print(f"{time.monotonic() - begin:.0f} s: {told}")
    for job in {*told.twice, *told.elsewhere, *told.lost}:
        print(job, [line for line in site.log.read_text().splitlines() if f" {job} " in line], site.live.job(job))
    assert told.lost == told.twice == told.elsewhere == told.overbooked == []


@pytest.mark.long
def test_a_daemon_that_stands_still_misses_nothing(site):
    until(lambda: not site.live.request("queue")["problem"])
    stands = site.live.daemon()
    os.kill(stands, signal.SIGSTOP)
    some = site.submit(cpus=2, seconds=1, count=3)
    time.sleep(2)
    assert not site.begun()  # nobody else starts them
    os.kill(stands, signal.SIGCONT)
    until(lambda: not site.rows() and len(site.begun()) == 3)
    check_placed(site, some)
