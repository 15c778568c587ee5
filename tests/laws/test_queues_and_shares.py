"""What holds for queues with partitions, dynamic partitions, and fairshare, on any workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.units import SECOND
from backfill.worlds.simulated import simulate
from tests.compiled import policy
from tests.reference.words import Job
from tests.reference.workloads import (
    Case,
    as_model,
    general_cases,
    limited_cases,
    pool_cases,
    rich_pool_cases,
    thread_cases,
)


def scheduled(case, name):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return workload, platform, simulate(workload, platform, *policy(name)).schedule


def starts(case, name):
    return scheduled(case, name)[2].start.tolist()


@given(case=st.one_of(pool_cases(), rich_pool_cases(), general_cases()))
def test_with_a_single_queue_every_start_is_that_of_easy(case):
    case = Case([job_of(job, priority=0.0) for job in case.jobs], case.platform)
    assert starts(case, "multi-queue:bound1=inf,bound2=inf,bound3=inf") == starts(case, "easy")


def job_of(job, **changes):
    return Job(**{**vars(job), **changes})


@given(case=pool_cases(honest=True))
def test_a_job_of_the_whole_machine_that_is_first_starts_as_promised_whatever_comes(case):
    cpus = case.platform.nodes[0].capacity[0]
    length = 7 * SECOND
    whole = [
        Job(row=row, name=name, submit=0, walltime=length, runtime=length, tasks=cpus)
        for row, name in enumerate(("before", "whole"))
    ]
    behind = [
        job_of(job, row=i + 2, submit=job.submit + 1, priority=0.0, after=tuple(row + 2 for row in job.after))
        for i, job in enumerate(case.jobs)
    ]
    _, _, schedule = scheduled(Case([*whole, *behind], case.platform), "multi-queue:bound1=3,bound2=10,bound3=30")
    assert schedule.start[:2].tolist() == [0, length]
    assert schedule.promise[1] == length


@pytest.mark.parametrize("backfill", ["first-fit", "best-fit", "greedy"])
@given(case=st.one_of(pool_cases(), rich_pool_cases(), general_cases(), limited_cases()))
def test_without_its_weight_fairshare_changes_no_start(backfill, case):
    plain = f"backfill={backfill},w_bypass=2"
    assert starts(case, f"flexible-fairshare:w_fs_user=0,{plain}") == starts(case, f"flexible:{plain}")


@given(case=thread_cases(linked=False))
def test_under_dynamic_partitions_no_processor_is_idle_while_a_thread_waits(case):
    workload, platform, schedule = scheduled(case, "partition-dynamic")
    submit, start, end = workload.jobs.submit, schedule.start, schedule.end
    for t in {*submit.tolist(), *end.tolist()}:
        if ((submit <= t) & (start > t)).any():
            assert ((start <= t) & (end > t)).sum() == platform.cpus
