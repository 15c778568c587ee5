"""What a reader says of a real HTCondor is what was done there: submits, holds, ends, a drain, daemons that die."""

import os
import re
import signal
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.model.platform_file import parse_platform
from backfill.pools.htcondor import HTCondorReader
from backfill.pools.seen import DRAIN, OVER, RUNNING, UP, WAITING, Down
from tests.real import htcondor

pytestmark = [
    pytest.mark.htcondor,
    pytest.mark.skipif(htcondor.missing() != "", reason=f"a real HTCondor {htcondor.missing()}"),
    pytest.mark.skipif(find_spec("htcondor2") is None, reason="needs the extra htcondor"),
]
SECOND, MIB = 1_000_000, 2**20
SLEEPS = "executable = /bin/sleep\narguments = 600\nshould_transfer_files = NO\n"
SUBMITS = {  # clusters 1 to 9
    "runs": SLEEPS + "request_cpus = 2\nrequest_memory = 256\nallowed_execute_duration = 3600\npriority = 3\n"
    "accounting_group = phys\naccounting_group_user = ann\nqueue\n",
    "held": SLEEPS + "request_memory = 128\nhold = True\nqueue 2\n",
    "licence": SLEEPS + "request_memory = 128\nconcurrency_limits = lic:3\nqueue 2\n",
    "large": SLEEPS + "request_cpus = 17\nrequest_memory = 128\nbatch_name = too large\nqueue\n",
    "done": "executable = /bin/true\nrequest_memory = 128\nshould_transfer_files = NO\nqueue\n",
    "fails": "executable = /bin/sh\narguments = \"-c 'exit 3'\"\nrequest_memory = 128\n"
    "should_transfer_files = NO\nqueue\n",
    "killed": "executable = /bin/sh\narguments = \"-c 'kill -9 $$'\"\nrequest_memory = 128\n"
    "should_transfer_files = NO\nqueue\n",
    "removed": SLEEPS + "request_memory = 128\nqueue\n",
    "again": SLEEPS + "request_memory = ifthenelse(MemoryUsage =!= undefined, MemoryUsage, 512)\nqueue\n",
}


@pytest.fixture(scope="module")
def pool():
    with TemporaryDirectory(prefix="htcondor-", dir="/tmp") as folder, htcondor.running(Path(folder)) as found:
        yield found


@pytest.fixture
def reader(pool, monkeypatch):
    monkeypatch.setenv("CONDOR_CONFIG", str(pool.folder / "condor_config"))
    found = HTCondorReader(walltime=77 * SECOND, timeout=30)
    yield found
    found.close()


def look_until(reader, holds, over=None):
    """Look until something holds of the jobs, by their numbers. over: what has ended is kept there."""
    begin = time.monotonic()
    while True:
        try:
            seen = reader.look()
        except Down as down:
            seen = down
        else:
            jobs = {job.native: job for job in seen.jobs}
            if over is not None:
                over |= {native: job for native, job in jobs.items() if job.state == OVER}
                jobs |= over
            if holds(jobs):
                return seen, jobs
        assert time.monotonic() - begin < htcondor.PATIENCE_S, seen
        time.sleep(0.2)


def schedd(pool):
    """The process of the schedd."""
    started = re.findall(r'condor_schedd", pid and pgroup = (\d+)', (pool.folder / "log" / "MasterLog").read_text())
    return int(started[-1])


def test_a_look_says_what_was_done(pool, reader):
    platform = parse_platform("text", reader.platform())
    assert platform.capacity.tolist() == [[htcondor.CPUS, htcondor.MEMORY * MIB]]
    assert dict(zip(platform.licences, platform.copies.tolist(), strict=True)) == {"lic": 4}
    (machine,) = platform.nodes
    first = reader.look()
    assert ([*first.jobs], dict(first.licences), first.complete) == ([], {"lic": 4}, True)

    for name, text in SUBMITS.items():
        pool.submit(name, text)
    ends = ("5.0", "6.0", "7.0")
    over = {}

    def settled(jobs):
        running = sum(job.state == RUNNING and len(job.nodes) == 1 for job in jobs.values())
        return running == 4 and all(end in jobs and jobs[end].state == OVER for end in ends)

    _, jobs = look_until(reader, settled, over)
    assert jobs.keys() == {"1.0", "2.0", "2.1", "3.0", "3.1", "4.0", "5.0", "6.0", "7.0", "8.0", "9.0"}
    runs = jobs["1.0"]
    assert (runs.state, list(runs.nodes), runs.restarts) == (RUNNING, [[machine, 1]], 0)
    assert runs.asked.need == {"cpus": 2, "memory": 256 * MIB}
    assert (runs.asked.walltime, runs.asked.priority) == (3600 * SECOND, 3)
    assert (runs.name, runs.group) == ("sleep", "phys")
    assert runs.submit <= runs.start <= runs.submit + htcondor.PATIENCE_S * SECOND
    assert {(jobs[name].state, jobs[name].blocked != "") for name in ("2.0", "2.1")} == {(WAITING, True)}
    assert sorted(jobs[name].state for name in ("3.0", "3.1")) == [RUNNING, WAITING]  # 4 copies, of which each asks 3
    assert jobs["3.0"].asked.need == {"cpus": 1, "memory": 128 * MIB, "lic": 3}
    assert (jobs["4.0"].state, jobs["4.0"].blocked, jobs["4.0"].name) == (WAITING, "", "too large")
    assert jobs["4.0"].asked.walltime == 77 * SECOND
    assert jobs["9.0"].asked.need["memory"] == 512 * MIB
    told = [(jobs[name].ended, jobs[name].exit, jobs[name].signal) for name in ends]
    assert told == [("COMPLETED", 0, None), ("FAILED", 3, None), ("FAILED", None, 9)]
    for name in ends:
        assert jobs[name].submit <= jobs[name].start <= jobs[name].end
        assert list(jobs[name].nodes) == [[machine, 1]]

    last = reader.look()
    assert not {*ends} & {job.native for job in last.jobs}  # an end is told once
    (node,) = last.nodes
    assert (node.name, node.state, node.held["cpus"]) == (machine, UP, 5)

    pool.run("condor_rm", "8.0", "2.0")
    pool.run("condor_vacate_job", "-fast", "9.0")
    _, jobs = look_until(
        reader,
        lambda jobs: {"2.0", "8.0"} <= over.keys() and jobs["9.0"].state == RUNNING and jobs["9.0"].restarts == 1,
        over,
    )
    assert (over["8.0"].ended, list(over["8.0"].nodes), over["8.0"].exit) == ("CANCELLED", [[machine, 1]], None)
    assert (over["2.0"].ended, over["2.0"].start, list(over["2.0"].nodes)) == ("CANCELLED", None, [])

    again = HTCondorReader(walltime=77 * SECOND, timeout=30)
    try:
        assert {job.native for job in again.look().jobs} == {"1.0", "2.1", "3.0", "3.1", "4.0", "9.0"}
        wanted = [over["5.0"].identity, over["8.0"].identity, ("6.0", over["6.0"].submit - SECOND), ("99.0", 1)]
        recalled = {job.identity: job for job in again.recall(wanted)}
        assert recalled.keys() == set(wanted[:2])
        assert recalled[wanted[0]] == over["5.0"]
    finally:
        again.close()


@pytest.mark.long
def test_a_long_queue_is_seen_as_by_somebody_who_looks_for_the_first_time(pool, reader):
    pool.submit("long", SLEEPS + "request_cpus = 17\nrequest_memory = 128\nqueue 600\n")
    odd = SLEEPS.encode() + b"request_cpus = 17\nrequest_memory = 128\nbatch_name = \xff\xfe\nqueue 2\n"
    (pool.folder / "odd.sub").write_bytes(odd)
    reader.look()
    time.sleep(6)  # until no submit is a new one any more
    reader.look()
    pool.run("condor_submit", "-terse", str(pool.folder / "odd.sub"))
    pool.run("condor_hold", "10.3")
    pool.run("condor_rm", "10.5", "10.6")
    found = {job.identity: job for job in reader.look().jobs}
    other = HTCondorReader(walltime=77 * SECOND, timeout=30)
    try:
        first = {job.identity: job for job in other.look().jobs}
    finally:
        other.close()
    left = {job.native for identity, job in found.items() if identity not in first}
    assert left <= {"10.5", "10.6"}
    assert {identity: job for identity, job in found.items() if job.native not in left} == first
    states = {job.native: (job.state, bool(job.blocked)) for job in first.values()}
    assert (len(states), states["10.3"], states["10.4"]) == (606, (WAITING, True), (WAITING, False))
    assert states["11.0"] == states["11.1"] == (WAITING, False)  # a name that is no text is left out
    pool.run("condor_rm", "10", "11")
    look_until(reader, lambda jobs: not any(name.startswith(("10.", "11.")) for name in jobs))


@pytest.mark.long
def test_a_schedd_that_hangs_or_dies_is_down_and_comes_back_as_another_instance(pool, reader):
    before = reader.look()
    stopped = schedd(pool)
    os.kill(stopped, signal.SIGSTOP)
    try:
        reader._timeout = 1.0
        begin = time.monotonic()
        with pytest.raises(Down):
            reader.look()
        assert time.monotonic() - begin < 30
    finally:
        os.kill(stopped, signal.SIGCONT)
        reader._timeout = 30.0
    same, _ = look_until(reader, lambda jobs: True)
    assert same.instance == before.instance
    assert [job.identity for job in same.jobs] == [job.identity for job in before.jobs]

    os.kill(stopped, signal.SIGKILL)
    with pytest.raises(Down):
        reader.look()
    after, _ = look_until(reader, lambda jobs: True)
    assert after.instance != before.instance
    assert {job.identity for job in after.jobs} == {job.identity for job in before.jobs}


def test_a_machine_that_is_drained_says_so(pool, reader):
    (machine,) = (node.name for node in reader.look().nodes)
    pool.run("condor_drain", "-fast", machine)
    begin = time.monotonic()
    while (node := reader.look().nodes[0]).state != DRAIN:
        assert time.monotonic() - begin < htcondor.PATIENCE_S, node
        time.sleep(0.2)
    assert node.there == {"cpus": htcondor.CPUS, "memory": htcondor.MEMORY * MIB}
    assert node.reason
