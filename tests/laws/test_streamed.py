"""A stream, which gets its jobs part by part and forgets those that are over, has the schedule of `simulate`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import backfill as bf
from backfill.loading import load
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Ragged, Workload
from backfill.policies import TABLE
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate
from backfill.worlds.streamed import OF_JOBS, Over, Stream, check_streams, parts_of
from tests.compiled import asked, policy, runs_on
from tests.reference.workloads import (
    Case,
    cases_with_events,
    general_cases,
    limited_cases,
    pool_cases,
    rich_pool_cases,
    whole_cases,
)
from tests.shares import a_share

FORGETFUL = [name for name in TABLE if load(name)[0].forgets != "no"]
SOME = ("easy", "conservative", "lookahead", "preemptive:how=suspend", "preemptive:how=checkpoint,overhead=1", "2tsb")
KINDS = tuple(bf.model.events.EVENTS[kind] for kind in OF_JOBS)
COLUMNS = ("job", "submit", "start", "end", "state", "reason", "rejected_for", "eligible", "promise")
ON_NODES = cases_with_events(st.one_of(limited_cases(), general_cases()))


def streamed(log: Workload, platform: Platform, name: str, size: int, options: Options) -> tuple[Stream, list[Over]]:
    chosen, params = policy(name)
    check_streams(chosen, options, log)
    bound = None if options.events is None else options.events.bind(log, platform)
    stream = Stream(platform, chosen, params, options, log.calendar, bound)
    return stream, list(stream.over(parts_of(log, size)))


def alike(mine: Ragged, theirs: Ragged) -> bool:
    return np.array_equal(mine.first, theirs.first) and np.array_equal(mine.items, theirs.items)


def check(log: Workload, platform: Platform, name: str, size: int, options: Options) -> Stream:
    chosen, params = policy(name)
    whole = simulate(log, platform, chosen, params, options).schedule
    stream, several = streamed(log, platform, name, size, options)
    assert sorted(np.concatenate([some.rows for some in several]).tolist()) == list(range(len(log)))
    for some in several:
        compare(some.schedule, whole.take(some.rows))
    return stream


def compare(mine: Schedule, theirs: Schedule) -> None:
    for name in COLUMNS:
        assert getattr(mine, name).tolist() == getattr(theirs, name).tolist(), name
    assert alike(mine.held, theirs.held)
    if theirs.runs is None:
        theirs = replace(theirs, runs=theirs.all_runs)
    runs, others = mine.all_runs, theirs.all_runs
    for name in ("job", "start", "end", "state", "reason", "progress"):
        assert getattr(runs, name).tolist() == getattr(others, name).tolist(), f"{name} of runs"
    assert alike(runs.held, others.held)


def of_nodes_only(case: Case, events: list[Any]) -> tuple[Case, list[Any]]:
    """The case without chains of jobs, and without events of jobs."""
    jobs = [replace(job, after=()) for job in case.jobs]
    return replace(case, jobs=jobs), [event for event in events if event.kind not in KINDS]


def check_case(name: str, happening: Any, size: int, **how: Any) -> None:
    case, events = of_nodes_only(*happening)
    assume(runs_on(name, case, events))
    if events or policy(name)[0].processors:
        assume(all(any(job.demand) for job in case.jobs))
    if policy(name)[0].forgets == "alone":
        case = replace(case, jobs=[replace(job, project="") for job in case.jobs])
    log, platform, options = asked(case.jobs, case.platform, events=events, **how)
    check(log, platform, name, size, options)


@a_share([*FORGETFUL, *SOME], of=6)
@given(happening=ON_NODES, size=st.integers(1, 6))
def test_with_nodes_licences_limits_gangs_and_windows(name, happening, size):
    check_case(name, happening, size)


@a_share([*FORGETFUL, *SOME], of=6)
@given(case=whole_cases(), size=st.integers(1, 6))
def test_with_jobs_that_have_their_nodes_for_themselves(name, case, size):
    check_case(name, (case, []), size)


@a_share([*FORGETFUL, *SOME])
@given(
    happening=st.one_of(cases_with_events(pool_cases()), st.tuples(rich_pool_cases(), st.just([]))),
    size=st.integers(1, 6),
    overrun=st.sampled_from(["kill", "extend"]),
)
def test_on_a_pool(name, happening, size, overrun):
    check_case(name, happening, size, overrun=overrun)


@a_share(SOME)
@given(case=pool_cases(), size=st.integers(1, 6))
def test_event_by_event(name, case, size):
    check_case(name, (case, []), size, ties="step")


@pytest.mark.parametrize("name", ["easy", "conservative", "preemptive"])
def test_rows_do_not_grow_with_the_number_of_jobs(name):
    """Thousands wait at times; the rows of those that are over are used again."""
    few, many = (bf.generate(f"lublin?jobs={jobs}&cpus=256") for jobs in (4_000, 16_000))
    rows = [check(log, Platform.of(log), name, 500, Options()).most_rows for log in (few, many)]
    assert max(rows) < 1_500
