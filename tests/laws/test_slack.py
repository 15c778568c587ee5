"""Reservations that may slip: at the ends of their parameters, and how late a start may come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.units import SECOND
from backfill.worlds.simulated import simulate
from tests.compiled import policy
from tests.reference.words import Job, Platform
from tests.reference.workloads import (
    Case,
    as_model,
    cluster_cases,
    general_cases,
    pool_cases,
    project_cases,
    rich_pool_cases,
)

SAME = {
    "relaxed:omega=0": "easy",
    "relaxed:omega=0,base=walltime,tried=sjf": "easy-sjbf",
    "relaxed:omega=inf": "first-fit",
    "dynamic:delta=0": "easy",
    "dynamic:delta=1,gain=1,order=sjf": "easy-sjf",
    "selective:rule=fixed,threshold=1": "conservative",
    "selective:rule=fixed,threshold=inf": "first-fit",
    "reservation-depth:k=inf": "conservative",
    "reservation-depth:k=inf,every=7": "conservative:every=7",
    "reservation-depth:k=0": "first-fit",
    "slack:sf=0": "conservative",
    "slack:sf=0,compress=false": "2tsb",
}
on_one_node = st.one_of(pool_cases(honest=True), rich_pool_cases(), project_cases(exact=True))
anywhere = st.one_of(on_one_node, general_cases(honest=True))


def scheduled(case, name):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return workload, simulate(workload, platform, *policy(name)).schedule


@pytest.mark.parametrize("name", SAME)
@given(data=st.data())
def test_at_the_ends_of_their_parameters_they_are_older_policies(name, data):
    alone = st.one_of(pool_cases(honest=True), rich_pool_cases(), general_cases(honest=True))  # of no project
    case = data.draw(alone if "compress" in name else anywhere)
    if name == "slack:sf=0":  # else a job that moved up may be moved back
        case = data.draw(project_cases(exact=True))
    if "gain=1" in name:  # a job that fills all processors does so only when nothing runs
        case = data.draw(pool_cases(honest=True))
    assert scheduled(case, name)[1].start.tolist() == scheduled(case, SAME[name])[1].start.tolist()


@given(case=st.one_of(pool_cases(honest=True), rich_pool_cases(), general_cases(honest=True, chains=False)))
def test_without_slack_no_job_starts_later_than_first_promised(case):
    _, schedule = scheduled(case, "slack:sf=0")
    assert (schedule.start <= schedule.promise)[schedule.ran].all()


def test_without_slack_a_job_that_moved_up_may_be_moved_back_to_its_first_promise():
    """e is promised 15, moves up to 11 when b ends early, and is moved back for f, which ends in time."""
    columns = [(2, 6, 3, 3), (2, 3, 3, 2), (0, 6, 5, 3), (3, 8, 8, 4), (6, 9, 9, 1)]
    jobs = [
        Job(row=row, name="bcdef"[row], submit=s * SECOND, walltime=w * SECOND, runtime=r * SECOND, tasks=n)
        for row, (s, w, r, n) in enumerate(columns)
    ]
    case = Case(jobs, Platform.pool(4))
    _, slack = scheduled(case, "slack:sf=0")
    _, conservative = scheduled(case, "conservative")
    assert [int(t) // SECOND for t in slack.start] == [5, 8, 0, 15, 6]
    assert [int(t) // SECOND for t in conservative.start] == [5, 8, 0, 11, 19]
    assert int(slack.promise[3]) == int(conservative.promise[3]) == 15 * SECOND


@pytest.mark.parametrize("base", ["walltime", "turnaround"])
@given(case=st.one_of(pool_cases(honest=True), project_cases(exact=True), cluster_cases(exact=True)))
def test_slack_starts_no_job_later_than_promised_and_its_slack(base, case):
    workload, schedule = scheduled(case, f"slack:sf=2,slack_base={base}")
    jobs, ran = workload.jobs, np.flatnonzero(schedule.ran)
    span = schedule.promise - jobs.submit if base == "turnaround" else 0
    most = (1 - np.clip(jobs.priority, 0, 1)) * 2 * (span + jobs.walltime)
    assert (schedule.start[ran] <= (schedule.promise + most)[ran]).all()
