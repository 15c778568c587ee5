"""Outages, windows, cancelled jobs and changed walltimes: the compiled policies do what their slow twins do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.verify import verify
from backfill.core.journal import DECIDE, TICK
from backfill.model.units import SECOND
from backfill.worlds.simulated import simulate
from tests import compiled
from tests.differential.test_twins import SEEDS, THREADS, every_pass
from tests.reference import world
from tests.reference.words import Event, Job, Node, Platform
from tests.reference.workloads import (
    Case,
    cases_with_events,
    chained_cases,
    cluster_cases,
    general_cases,
    limited_cases,
    pool_cases,
    project_cases,
    rich_pool_cases,
    thread_cases,
    throng,
)
from tests.shares import a_share


def compare(happening, name, lost="requeue", overrun="kill"):
    case, events = happening
    if not compiled.runs_on(name, case, events):
        return
    policy = world.POLICIES[name]
    expected = world.run(case.jobs, case.platform, policy, overrun=overrun, events=events, lost=lost)
    found = compiled.run(case.jobs, case.platform, name, overrun=overrun, events=events, lost=lost)
    for have, want in zip(found, expected, strict=True):
        if want.state in ("CANCELLED", None) and want.eligible is None:
            have.eligible = None  # it never was; a schedule has the submit there
        assert have == want, f"{name}, job {want.name}: {have}, the twin says {want}; {events}"


@every_pass
@given(happening=cases_with_events(pool_cases()))
def test_on_a_pool_every_start_equals_the_twin(name, happening):
    compare(happening, name)


@every_pass
@given(happening=cases_with_events(rich_pool_cases()))
def test_on_a_pool_of_several_resources_every_start_equals_the_twin(name, happening):
    compare(happening, name)


@every_pass
@given(happening=cases_with_events(general_cases()))
def test_with_nodes_licences_and_gangs_every_start_equals_the_twin(name, happening):
    compare(happening, name)


@every_pass
@given(happening=cases_with_events(st.one_of(project_cases(), cluster_cases())))
def test_with_projects_every_start_equals_the_twin(name, happening):
    compare(happening, name)


@pytest.mark.parametrize("name", ["easy", "conservative", "selective", "reservation-depth:k=2"])
def test_in_a_throng_on_nodes_that_go_and_come_every_start_equals_the_twin(name):
    for seed in SEEDS:
        compare(throng(seed), name)


def test_when_a_job_that_was_cancelled_before_its_submit_would_have_come_there_is_a_pass():
    compare(throng(1294), "selective")


def test_a_job_that_starts_at_once_is_not_among_the_first_that_hold_promises():
    compare(throng(1006), "reservation-depth:k=2")
    compare(throng(1029), "reservation-depth:k=3,every=7")


@pytest.mark.parametrize("lost", ["requeue", "fail"])
@every_pass
@given(happening=cases_with_events(st.one_of(chained_cases(), limited_cases())))
def test_with_chains_limits_and_lost_jobs_every_start_equals_the_twin(name, lost, happening):
    compare(happening, name, lost=lost)


@every_pass
@given(happening=cases_with_events(st.one_of(chained_cases(), project_cases())))
def test_with_overrun_extend_every_start_equals_the_twin(name, happening):
    compare(happening, name, overrun="extend")


@pytest.mark.parametrize("lost", ["requeue", "fail"])
@a_share(THREADS)
@given(happening=cases_with_events(thread_cases()))
def test_with_threads_after_threads_every_start_equals_the_twin(name, lost, happening):
    compare(happening, name, lost=lost)


@pytest.mark.parametrize("name", ["bf-mod", "bf-unmod"])
def test_a_licence_of_which_there_is_none_for_the_time_being_counts_as_if_there_were_one(name):
    def job(row, walltime, licences):
        walltime *= SECOND
        return Job(row=row, name=f"j{row}", submit=0, walltime=walltime, runtime=walltime, licences=licences)

    case = Case([job(0, 100, (0,)), job(1, 5, ())], Platform((Node((2,)),), copies=(0,)))
    compare((case, [Event(time=SECOND, kind="capacity", licence=0, value=1)]), name)


def test_a_window_that_takes_what_a_run_holds_leaves_the_other_nodes_their_room():
    def job(row, submit, walltime, tasks, constraint=""):
        times = {"submit": submit * SECOND, "walltime": walltime * SECOND, "runtime": walltime * SECOND}
        return Job(row=row, name=f"j{row}", tasks=tasks, constraint=constraint, **times)

    platform = Platform((Node((3,)), Node((2,))))
    jobs = [job(0, 0, 12, 4), job(1, 2, 3, 1, "n1")]
    event = Event(time=SECOND, kind="window", nodes=(0,), value=4 * SECOND, until=20 * SECOND)
    for name in ("easy", "conservative"):
        compare((Case(jobs, platform), [event]), name)


def test_a_job_of_no_cpus_is_lost_with_its_node_and_starts_on_no_closed_one():
    def job(row, cpus, **more):
        times = {"submit": SECOND * row, "walltime": 9 * SECOND, "runtime": 9 * SECOND}
        return Job(row=row, name=f"j{row}", demand=(cpus,), **times, **more)

    platform = Platform((Node((2,)), Node((2,))), copies=(1,))
    jobs = [job(0, 0), job(1, 1), job(2, 0, licences=(0,), constraint="n0"), job(3, 0, tasks=3)]
    down = [Event(time=5 * SECOND, kind="down", nodes=(0,)), Event(time=30 * SECOND, kind="up", nodes=(0,))]
    window = [Event(time=0, kind="window", nodes=(0,), value=5 * SECOND, until=30 * SECOND)]
    for name in ("easy", "conservative", "first-fit", "bb"):
        for events in (down, window):
            compare((Case(jobs, platform), events), name)
            workload, machine, options = compiled.asked(jobs, platform, events=events)
            schedule = simulate(workload, machine, *compiled.policy(name), options).schedule
            assert verify(workload, machine, schedule, events=options.events) == []
            assert schedule.start[2] == 30 * SECOND
    alone = Case([job(0, 0)], Platform.pool(1))
    compare((alone, down), "easy")
    assert [row.start for row in compiled.run(alone.jobs, alone.platform, "easy", events=down)] == [30 * SECOND]


@pytest.mark.parametrize("name", ["easy", "easy-lxf"])
def test_an_event_about_a_job_that_is_to_come_makes_no_pass(name):
    def job(row, submit, walltime, after=()):
        times = {"submit": submit * SECOND, "walltime": walltime * SECOND, "runtime": walltime * SECOND}
        return Job(row=row, name=f"j{row}", after=after, **times)

    case = Case([job(0, 0, 10), job(1, 40, 10), job(2, 40, 10), job(3, 0, 10, (1,)), job(4, 50, 9)], Platform.pool(1))
    unnoticed = [
        Event(time=5 * SECOND, kind="walltime", job=1, value=3 * SECOND),
        Event(time=6 * SECOND, kind="priority", job=1, value=3.0),
        Event(time=7 * SECOND, kind="cancel", job=2),
    ]
    lets_go = Event(time=30 * SECOND, kind="cancel", job=1)

    def instants(events):
        compare((case, events), name)
        workload, machine, options = compiled.asked(case.jobs, case.platform, events=events)
        journal = simulate(workload, machine, *compiled.policy(name), options, journal=True).journal
        ticks, decides = (journal[journal[:, 0] == code] for code in (TICK, DECIDE))
        assert len(ticks) == len(decides)
        return {int(t) // SECOND for t in ticks[:, 1]}

    assert instants(unnoticed).isdisjoint({5, 6, 7})
    assert instants([*unnoticed, lets_go]) & {5, 6, 7, 30} == {30}
