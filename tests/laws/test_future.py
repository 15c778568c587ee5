"""What is not yet submitted decides nothing: no policy gains from jobs to come, whatever its order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.compiler.view import READABLE, readable
from backfill.core.once import decide_once
from backfill.core.policy import policy as make_policy
from backfill.core.queue.places import DEEP
from backfill.core.queue.walk import head
from backfill.core.verbs import HEAD, place, start, start_heads
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import NEVER, SECOND
from backfill.worlds.simulated import Options, simulate
from tests.compiled import policy, runs_on
from tests.core.test_deep_queue import flood
from tests.reference.dice import DICE
from tests.reference.words import Job
from tests.reference.words import Platform as TwinPlatform
from tests.reference.workloads import (
    Case,
    as_model,
    demands,
    general_cases,
    grid_cases,
    limited_cases,
    pool_cases,
    project_cases,
    rich_pool_cases,
    times,
    wide_cases,
)
from tests.shares import a_share, share


def those_for(case):
    """A share of the policies that schedule the platform of a case, another one for each case."""
    return share(repr(case.jobs), [name for name in policies.TABLE if runs_on(name, case)])


def decided(workload, platform, name, until, **options):
    """All that was decided before an instant: job -> start, reason, nodes, and what it had been promised by then."""
    schedule = simulate(workload, platform, *policy(name), options=Options(**options)).schedule
    return {
        job: (
            *(int(column[job]) for column in (schedule.start, schedule.reason, schedule.promise)),
            *schedule.held[job],
        )
        for job in np.flatnonzero((schedule.start != NO_TIME) & (schedule.start < until)).tolist()
    }


@st.composite
def two_futures(draw, cases):
    """A case, an instant, and the case again with other jobs from that instant on."""
    case, dice = draw(cases), draw(DICE)
    now = dice.of(sorted({job.submit for job in case.jobs})) + dice.below(2)
    jobs = [job if job.submit < now else another(dice, job, case.platform, now) for job in case.jobs]
    return case, Case(jobs, case.platform), now


def another(dice, job, platform, now):
    """A job of the same name with another size, time, priority and submit, no earlier than `now`."""
    changes = times(dice, "walltime", 30) | demands(dice, platform)
    later = -(-now // SECOND) * SECOND
    changes["submit"] += later
    changes["deadline"] = min(changes["deadline"] + later, NEVER)
    if len(platform.nodes) == 1:
        changes["tasks"] = dice.between(1, platform.nodes[0].capacity[0])
    if job.project:
        changes["project"] = dice.of(["p0", "p1", "another"])
    if platform.limits:
        changes |= {"user": dice.of([None, 0, 1, 2]), "partition": dice.of([None, *range(len(platform.partitions))])}
    return replace(job, **changes)


def compare(futures, **options):
    """With many policies: the same cases serve for all, as they take longer to make than to run."""
    case, other, now = futures
    workload, platform, _ = as_model(case.jobs, case.platform)
    scrambled, _, _ = as_model(other.jobs, other.platform)
    for name in those_for(case):
        before = decided(workload, platform, name, now, **options)
        assert decided(scrambled, platform, name, now, **options) == before, name


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@given(futures=two_futures(st.one_of(pool_cases(), project_cases())))
def test_on_a_pool_other_jobs_in_the_future_change_no_decision(options, futures):
    compare(futures, **options)


@given(futures=two_futures(st.one_of(general_cases(), limited_cases())))
def test_with_nodes_licences_limits_and_gangs_other_jobs_in_the_future_change_no_decision(futures):
    compare(futures)


@a_share(name for name in policies.TABLE if runs_on(name, Case([], TwinPlatform.pool(64))))
def test_under_a_deep_queue_other_jobs_in_the_future_change_no_decision(name):
    """The tree and the table of rooms are laid out by all jobs of the log; that may cost time, never change a start."""
    workload, platform = flood(), Platform.pool(64)
    jobs = workload.jobs
    now = int(np.median(jobs.submit))
    later, r = jobs.submit >= now, np.random.default_rng(5)
    assert (~later).sum() > 2 * DEEP
    scrambled = workload.with_jobs(
        jobs.replace(
            walltime=np.where(later, r.integers(1, 100_000, len(jobs)) * SECOND, jobs.walltime),
            tasks=np.where(later, r.integers(1, 65, len(jobs)), jobs.tasks),
            priority=np.where(later, r.integers(0, 99, len(jobs)), jobs.priority),
        )
    )
    before = decided(workload, platform, name, now)
    assert len(before) > 500
    assert decided(scrambled, platform, name, now) == before


def cut(case, now):
    """The same log without the jobs that come after an instant."""
    kept = [job for job in case.jobs if job.submit <= now]
    return Case([replace(job, row=row) for row, job in enumerate(kept)], case.platform)


@st.composite
def logs_and_instants(draw):
    """A log on a pool, on nodes with licences and limits, or with up to 8 resources; and the submit of a job of it."""
    on_nodes = (general_cases(chains=False), limited_cases(chains=False))
    case = draw(st.one_of(pool_cases(), project_cases(), grid_cases(), *on_nodes, wide_cases(), rich_pool_cases()))
    return case, draw(st.sampled_from(sorted({job.submit for job in case.jobs})))


@given(drawn=logs_and_instants())
def test_without_the_jobs_to_come_every_start_is_the_same(drawn):
    case, now = drawn
    full, platform, _ = as_model(case.jobs, case.platform)
    shorter, _, _ = as_model(cut(case, now).jobs, case.platform)
    names = [job.name for job in case.jobs if job.submit <= now]
    for name in those_for(case):
        expected = decided_by_name(full, platform, name, now + 1, names)
        assert decided_by_name(shorter, platform, name, now + 1, names) == expected, name


def decided_by_name(workload, platform, name, until, names):
    found = decided(workload, platform, name, until)
    return {str(workload.jobs.job[job]): what for job, what in found.items() if str(workload.jobs.job[job]) in names}


@a_share(name for name in policies.TABLE if runs_on(name, Case([], TwinPlatform.pool(64))))
def test_under_a_deep_queue_every_start_is_the_same_without_the_jobs_to_come(name):
    workload, platform = flood(), Platform.pool(64)
    now = int(np.median(workload.jobs.submit))
    kept = np.flatnonzero(workload.jobs.submit <= now)
    expected = decided(workload, platform, name, now + 1)
    assert len(expected) > 500
    assert decided(workload.with_jobs(workload.jobs.take(kept)), platform, name, now + 1) == expected


@pytest.mark.parametrize("name", ["bb", "ibb", "backfill-lowest"])
def test_a_resource_that_only_later_jobs_ask_for_decides_nothing(name):
    """Pool 10/10/10, (5, 5, 0) held, the head needs all; C (4, 0, 0) or D (1, 1, 0) may start beside it."""
    demands = [(5, 5, 0), (10, 0, 0), (4, 0, 0), (1, 1, 0), (1, 1, 9)]
    submits = [0, 1, 1, 1, 10**6]
    rows = range(5)
    jobs = [
        Job(
            row=r,
            name="abcde"[r],
            submit=submits[r] * SECOND,
            runtime=50 * SECOND,
            walltime=50 * SECOND,
            demand=demands[r],
        )
        for r in rows
    ]
    case = Case(jobs, TwinPlatform.pool(10, 10, 10))
    full, platform, _ = as_model(case.jobs, case.platform)
    shorter, _, _ = as_model(case.jobs[:4], case.platform)
    assert decided(full, platform, name, 40 * SECOND) == decided(shorter, platform, name, 40 * SECOND)


def everything_read(workload, platform, until):
    """All that a policy can read at each pass before an instant, while it starts whoever is first."""
    seen = []

    @make_policy("reader", compiled=False, memory={"marks": "jobs"}, memory_f={"weights": "jobs"})
    def reader(state):
        if state.now < until:
            rooms = [getattr(state, room) for room in READABLE]
            fields = [getattr(at, field) for room, at in zip(READABLE, rooms, strict=True) for field in readable(room)]
            seen.append([(np.shape(value), np.asarray(value).tolist()) for value in fields])
            seen.append([len(state.own.marks), len(state.own.weights)])
        while head(state) >= 0 and place(state, head(state)):
            start(state, head(state), HEAD)

    simulate(workload, platform, reader)
    return seen


@given(drawn=logs_and_instants())
def test_all_that_can_be_read_is_the_same_without_the_jobs_to_come(drawn):
    case, now = drawn
    full, platform, _ = as_model(case.jobs, case.platform)
    shorter, _, _ = as_model(cut(case, now).jobs, case.platform)
    assert everything_read(full, platform, now) == everything_read(shorter, platform, now)


@make_policy("measured", memory={"marks": "jobs"})
def measured(state):
    """Return the first job, unless an array with a row for each job reveals how many are to come."""
    known = state.jobs.count
    if (
        len(state.own.marks) == len(state.queue.waits) == len(state.jobs.submit) == known
        and len(state.jobs.demand) == len(state.jobs.licence_first) - 1 == len(state.runs.last) == known
        and len(state.promises.first) == len(state.promises.reserved) == known
        and len(state.runs.job) == state.runs.count
        and len(state.runs.limits) == state.runs.active
        and len(state.batch.arrived) == state.batch.arrivals
        and len(state.batch.ended) == state.batch.ends
        and len(state.batch.left) == len(state.batch.dropped) == state.batch.leaves
    ):
        start_heads(state)


def test_in_compiled_code_no_length_tells_how_many_jobs_are_to_come():
    workload, platform = flood(), Platform.pool(64)
    schedule = simulate(workload, platform, measured).schedule
    assert (schedule.start != NO_TIME).all()


POISON = {"submit": -(2**40), "walltime": 2**40, "tasks": 2**30, "demand": -7, "need": -7, "deadline": 1, "user": -5}


def poisoned(name):
    """A policy that decides while every row to come holds nonsense, and its parameters."""
    chosen, params = policy(name)

    def decide(view):
        jobs = view._state.jobs
        count = int(jobs.count)
        rows = {column: getattr(jobs, column)[count:] for column in (*POISON, "priority", "alone", "bound", "spread")}
        kept = {column: row.copy() for column, row in rows.items()}
        for column, row in rows.items():
            row[...] = POISON.get(column, 99)
        decide_once(chosen.entry, view._state)
        for column, row in rows.items():
            row[...] = kept[column]

    return chosen.like(chosen.name, decide=decide, compiled=False), params


@given(case=st.one_of(pool_cases(), general_cases(), wide_cases()))
def test_nonsense_in_the_rows_to_come_changes_no_decision(case):
    workload, platform, _ = as_model(case.jobs, case.platform)
    for name in those_for(case):
        expected = simulate(workload, platform, *policy(name), journal=True).journal
        assert np.array_equal(simulate(workload, platform, *poisoned(name), journal=True).journal, expected), name
