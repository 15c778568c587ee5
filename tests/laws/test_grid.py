"""Laws of gangs on grids: together, on processors of their own, one in a queue, never late without a tolerance."""

import numpy as np
import pytest
from hypothesis import given

from backfill.analysis.gangs import Gangs
from backfill.analysis.verify import verify
from backfill.api import simulate as simulate_result
from backfill.core.once import decide_once
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, REASONS
from backfill.workloads.grid import POWERS, UNIFORM, grid
from backfill.worlds.simulated import Options, simulate
from tests.compiled import asked, policy
from tests.living import feed_back
from tests.reference import world
from tests.reference.workloads import as_model, grid_cases

NAMES = [name for name in world.POLICIES if name.startswith("gang") and not name.startswith("gang-matrix")]
every_name = pytest.mark.parametrize("name", NAMES)
EXACT = [name for name in NAMES if "tolerance" not in name]


def scheduled(case, name, options=None, **more):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return workload, platform, simulate(workload, platform, *policy(name), options=options, **more)


@every_name
@given(case=grid_cases())
def test_every_schedule_is_lawful(name, case):
    for overrun in ("kill", "extend"):
        workload, platform, done = scheduled(case, name, Options(overrun=overrun))
        assert verify(workload, platform, done.schedule, overrun=overrun) == []


@every_name
@given(case=grid_cases())
def test_the_journal_fed_back_gives_every_decision_again(name, case):
    workload, platform, asks = asked(case.jobs, case.platform)
    done = simulate(workload, platform, *policy(name), asks, journal=True)
    assert np.array_equal(feed_back(done.journal, workload, platform, *policy(name), asks), done.journal)


@every_name
@given(case=grid_cases())
def test_a_gang_starts_at_once_on_processors_of_its_own(name, case):
    workload, platform, done = scheduled(case, name)
    schedule, project = done.schedule, workload.jobs.project.codes
    for job in np.flatnonzero(schedule.ran).tolist():
        pairs = schedule.held[job].reshape(-1, 2)
        assert (pairs[:, 1] == 1).all()
        assert len(pairs) == workload.jobs.tasks[job]
    free = np.diff(workload.jobs.after.first) == 0  # those that come after others need not wait from one instant on
    for code in range(len(workload.jobs.project.names)):
        jobs = np.flatnonzero((project == code) & schedule.ran & (schedule.reason == REASONS.index("gang")))
        if free[jobs].all() and len(jobs) <= suiting(workload, platform, jobs):
            assert len(set(schedule.start[jobs].tolist())) <= 1


def suiting(workload, platform, jobs):
    texts = [workload.jobs.constraint[int(job)] for job in jobs]
    allowed = np.ones(len(platform.nodes), np.bool_) if not texts or not texts[0] else platform.allows(texts[0])
    if len(jobs):
        allowed &= (platform.capacity >= workload.jobs.demand[jobs[0]]).all(axis=1)
    return int(allowed.sum())


@pytest.mark.parametrize("name", EXACT)
@given(case=grid_cases(honest=True))
def test_without_a_tolerance_no_gang_starts_later_than_was_known_when_its_processors_were_chosen(name, case):
    workload, platform, done = scheduled(case, name)
    slow = platform.speed.min() < 1  # then a run may be killed at its walltime, which is when it was expected to end
    assert verify(workload, platform, done.schedule, promises_bind=True) == [], slow


@given(case=grid_cases(honest=True))
def test_bounded_a_gang_is_delayed_by_no_more_than_the_tolerance(case):
    _, _, done = scheduled(case, "gang-site:tolerance=2,delay=bounded")
    schedule = done.schedule
    promised = schedule.ran & (schedule.promise != NO_TIME)
    assert (schedule.start[promised] <= schedule.promise[promised] + 2_000_000).all()


@every_name
@given(case=grid_cases())
def test_at_most_one_gang_waits_in_a_queue_and_the_empty_queues_are_counted(name, case):
    chosen, params = policy(name)

    def decide(view):
        decide_once(chosen.entry, view._state)
        own, machine = view.own, view.machine
        for node in range(machine.nodes):
            length, job = 0, own.first[node] - 1
            while job >= 0:
                assert own.where[job] == node + 1
                assert view.queue.waits[job]
                length, job = length + 1, own.after[job] - 1
            assert length == own.length[node]
            if own.gang[node]:
                assert own.where[own.gang[node] - 1] == -2
        waits = np.flatnonzero(view.queue.waits)
        assert (own.where[waits] != 0).all()
        holds = own.gang[own.gang > 0] - 1
        for gang in set(holds.tolist()):
            assert (holds == gang).sum() == own.size[gang]
        for site in machine.sites:
            mine = (machine.site == site) & (machine.capacity[:, 0] > 0)
            assert own.empty[site] == (mine & (own.length == 0) & (own.gang == 0)).sum()

    workload, platform, _ = as_model(case.jobs, case.platform)
    simulate(workload, platform, chosen.like(chosen.name, decide=decide, compiled=False), params)


@pytest.mark.parametrize("name", ["gang-site", "gang-span"])
@pytest.mark.parametrize("sizes", [POWERS, UNIFORM])
def test_no_work_is_lost_and_a_gang_whose_tasks_end_one_by_one_frees_processors_sooner(name, sizes):
    whole, alone = (grid(3000, local=11, sizes=sizes, per_task=each, seed=4) for each in (0, 1))
    for log in (whole, alone):
        result = simulate_result(log, policy=name)
        assert result.verify() == []
        held = result.schedule.end - result.schedule.start
        assert (held == log.jobs.runtime).all()
    jobs = np.flatnonzero(alone.jobs.project.codes >= 0)
    starts = {(int(alone.jobs.project.codes[job]), int(result.schedule.start[job])) for job in jobs}
    assert len(starts) == len(set(alone.jobs.project.codes[jobs].tolist()))
    gangs = Gangs.of(alone, result.schedule, np.arange(len(alone)))
    assert sorted(gangs.procs.tolist()) == sorted(whole.jobs.tasks[whole.jobs.site.codes < 0].tolist())


def test_what_a_gang_costs_more_on_several_sites():
    log = grid(2000, local=12, sizes="12,16", coallocation_overhead=0.5, seed=2)
    result = simulate_result(log, policy="gang-span")
    assert result.verify() == []
    site, jobs = log.platform.site, np.flatnonzero(log.jobs.tasks > 1)
    spans = np.array([len(set(site[result.schedule.held[job][::2]].tolist())) > 1 for job in jobs])
    ratio = (result.schedule.end - result.schedule.start)[jobs] / log.jobs.runtime[jobs]
    assert spans.any()
    assert ratio[spans] == pytest.approx(1.5, abs=1e-4)
    assert ratio[~spans] == pytest.approx(1)


def test_a_platform_of_other_nodes_is_refused_in_one_line():
    log = grid(100)
    with pytest.raises(UsageError, match="gang-site schedules nodes of one cpu each"):
        simulate_result(log, Platform.pool(32), policy="gang-site")


def test_on_one_site_all_jobs_of_one_processor_are_local():
    log = grid(500, sites=1, local=11, gangs=0)
    bare = log.with_jobs(log.jobs.replace(site=None))
    pool = Platform.pool(16, 16)
    one, other = (simulate_result(bare, pool, policy=name).schedule for name in ("gang-site", "gang-span"))
    assert (one.start == other.start).all()
    assert {REASONS[code] for code in one.reason.tolist()} == {"head"}
