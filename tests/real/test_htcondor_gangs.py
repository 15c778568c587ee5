"""Gangs on a real HTCondor run on the nodes chosen for them, their ends are seen, and none is left behind."""

import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from backfill import gang_run
from backfill.model.errors import UsageError
from backfill.model.units import SECOND
from backfill.papers import nas
from backfill.papers.ibb_claims import IBB
from backfill.pools.htcondor_gangs import Gang, GangFailed, HTCondorGangs
from tests.real import htcondor

pytestmark = [
    pytest.mark.long,
    pytest.mark.htcondor,
    pytest.mark.skipif(htcondor.missing() != "", reason=f"a real HTCondor {htcondor.missing()}"),
    pytest.mark.skipif(find_spec("htcondor2") is None, reason="needs the extra htcondor"),
]
MACHINES = ("n1", "n2")
MIB = 2**20
FEW = 6  # of the 54 jobs


@pytest.fixture(scope="module")
def pool():
    folder = TemporaryDirectory(prefix="htcondor-", dir="/tmp")
    with folder as name, htcondor.running(Path(name), MACHINES) as found:
        found.token("nobody")
        yield found


@pytest.fixture
def gangs(pool, monkeypatch, tmp_path):
    monkeypatch.setenv("CONDOR_CONFIG", str(pool.folder / "condor_config"))
    found = HTCondorGangs(tmp_path)
    found.platform()
    yield found
    found.remove()
    until_idle(found)
    found.close()


def until_idle(gangs):
    begin = time.monotonic()
    while why := gangs.occupied():
        assert time.monotonic() - begin < htcondor.PATIENCE_S, why
        time.sleep(0.2)


def look_until(gangs, holds):
    begin = time.monotonic()
    while not holds(seen := gangs.look()):
        assert time.monotonic() - begin < htcondor.PATIENCE_S, seen
        time.sleep(0.1)
    return seen


def names(gangs):
    return gang_run.platform_of(gangs).nodes


def test_a_gang_runs_on_its_nodes_with_its_tasks_on_each(pool, gangs):
    first, second = names(gangs)
    gangs.start([Gang("wide", 600, {first: 3, second: 5}, 128 * MIB), Gang("slim", 600, {second: 2}, 256 * MIB)])
    look_until(gangs, lambda seen: sorted(seen[0]) == ["slim", "wide"])
    told = pool.run("condor_q", "-allusers", "-af", "RemoteHost", "RequestCpus", "RequestMemory", "JobStatus")
    found = [(host.partition("@")[2], *rest) for host, *rest in (line.split() for line in told.splitlines())]
    assert sorted(found) == sorted([(first, "3", "384", "2"), (second, "5", "640", "2"), (second, "2", "512", "2")])
    with pytest.raises(UsageError, match="not idle"):
        gang_run.check_idle(gangs)


def test_the_end_of_a_gang_is_told_once_and_that_of_one_that_is_removed_is_a_failure(pool, gangs):
    first, second = names(gangs)
    gangs.start([Gang("short", 1, {first: 1, second: 1}, 128 * MIB)])
    look_until(gangs, lambda seen: seen[1] == ["short"])
    assert gangs.look() == ([], [])
    gangs.start([Gang("long", 600, {first: 1, second: 1}, 128 * MIB)])
    look_until(gangs, lambda seen: seen[0] == ["long"])
    pool.run("condor_rm", "-all")
    with pytest.raises(GangFailed, match="of long did not run to its end: cancelled"):
        look_until(gangs, lambda seen: False)


def test_a_policy_runs_a_few_of_the_54_jobs(gangs):
    platform = gang_run.platform_of(gangs)
    log = nas.on_nodes(0, platform, 0.001)
    log = log.with_jobs(log.jobs.take(np.arange(FEW)))
    clock = gang_run.WallClock()
    dead = gang_run.probe(gangs, platform, clock)
    ran = gang_run.run(gangs, log, IBB, dead, 0, gang_run.WallClock())
    assert (ran.decided >= log.jobs.submit).all()
    assert (ran.running >= ran.decided).all()
    assert (ran.noticed - ran.decided >= SECOND).all()
    assert dead > 0
    gang_run.check_idle(gangs)
