"""A matrix of one row is the machine: every start is that of the policy without rows. Progress is exact in any."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.schedule import COMPLETED, TIMEOUT
from backfill.worlds.simulated import Options, simulate
from tests.compiled import asked, policy, runs_on
from tests.reference.workloads import (
    as_model,
    cases_with_events,
    chained_cases,
    contended,
    general_cases,
    limited_cases,
    pool_cases,
)

ONE_ROW = [("gang-matrix", "fcfs"), ("gang-matrix-backfill", "easy")]
ROWS = ["gang-matrix", "gang-matrix:mpl=3,alternative=false", "gang-matrix-backfill:mpl=2,quantum=7,switch=3"]


def schedule_of(case, name, options=None):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return simulate(workload, platform, *policy(name), options=options).schedule


def alike(one, other):
    columns = ("start", "end", "state", "reason", "promise")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


@pytest.mark.parametrize("options", [Options(), Options(ties="step"), Options(overrun="extend")])
@pytest.mark.parametrize(("name", "other"), ONE_ROW)
@given(case=st.one_of(pool_cases(), general_cases(), limited_cases(), chained_cases()))
def test_with_one_row_every_start_is_that_without_rows(name, other, options, case):
    assert alike(schedule_of(case, f"{name}:mpl=1", options), schedule_of(case, other, options))


@pytest.mark.parametrize(("name", "other"), ONE_ROW)
@given(seed=st.integers(0, 10**6))
def test_also_where_limits_hold_jobs_back(name, other, seed):
    assert alike(schedule_of(contended(seed), f"{name}:mpl=1"), schedule_of(contended(seed), other))


@pytest.mark.parametrize(("name", "other"), ONE_ROW)
@given(happening=cases_with_events(general_cases()))
def test_also_with_events(name, other, happening):
    case, events = happening
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    one, two = (simulate(workload, platform, *policy(each), asks).schedule for each in (f"{name}:mpl=1", other))
    assert alike(one, two)


@pytest.mark.parametrize("name", ROWS)
@given(case=st.one_of(pool_cases(), general_cases(), limited_cases()))
def test_a_job_has_computed_for_its_run_time_to_the_microsecond_when_it_ends(name, case):
    workload, platform, _ = as_model(case.jobs, case.platform)
    if (platform.speed != 1).any() or platform.coallocation_overhead:
        return
    runs, jobs = simulate(workload, platform, *policy(name)).schedule.all_runs, workload.jobs
    over = np.isin(runs.state, (COMPLETED, TIMEOUT))
    assert (runs.progress == np.minimum(jobs.runtime, jobs.walltime)[runs.job])[over].all()


@pytest.mark.parametrize("name", ROWS)
@given(happening=cases_with_events(general_cases()))
def test_a_job_has_turns_in_every_instant_of_its_run_and_all_agree_on_how_many_rows_there_are(name, happening):
    case, events = happening
    if not runs_on(name, case, events):
        return
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    spans = simulate(workload, platform, *policy(name), asks).schedule.all_runs.spans
    instants = np.unique(np.concatenate([spans.start, spans.end]))
    for begin, end in pairwise(instants.tolist()):
        there = (spans.start <= begin) & (spans.end >= end)
        assert len({*spans.of[there].tolist()}) <= 1
        rows = spans.rows[there]
        assert all(any(bits >> row & 1 for bits in rows.tolist()) for row in range(int(spans.of[there].max(initial=0))))
