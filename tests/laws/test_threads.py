"""What must hold where jobs may start before what they come after is over."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.metrics import metrics
from backfill.analysis.verify import verify
from backfill.model.platform import Platform
from backfill.model.workload import Jobs, Labels, Ragged, Workload
from backfill.worlds.simulated import simulate
from tests.compiled import asked, policy
from tests.differential.test_twins import DANGLING
from tests.laws.test_journal import check
from tests.reference.workloads import cases_with_events, thread_cases

threads = pytest.mark.parametrize("name", DANGLING)


def scheduled(case, name, events=(), **options):
    workload, platform, asks = asked(case.jobs, case.platform, events=events, **options)
    return workload, platform, asks, simulate(workload, platform, *policy(name), asks).schedule


@threads
@given(case=thread_cases(), overrun=st.sampled_from(["kill", "extend"]))
def test_every_schedule_is_lawful(name, case, overrun):
    workload, platform, _, schedule = scheduled(case, name, overrun=overrun)
    assert verify(workload, platform, schedule, overrun=overrun, dangles=True) == []


@threads
@given(happening=cases_with_events(thread_cases()), lost=st.sampled_from(["requeue", "fail"]))
def test_every_schedule_with_events_is_lawful(name, happening, lost):
    case, events = happening
    workload, platform, asks, schedule = scheduled(case, name, events, lost=lost)
    assert verify(workload, platform, schedule, events=asks.events, lost=lost, dangles=True) == []


@threads
@given(happening=cases_with_events(thread_cases()))
def test_the_journal_gives_every_decision_again(name, happening):
    check(name, happening)


@threads
@given(case=thread_cases(linked=False))
def test_no_processor_is_idle_while_a_thread_waits(name, case):
    workload, platform, _, schedule = scheduled(case, name)
    submit, start, end = workload.jobs.submit, schedule.start, schedule.end
    for t in np.unique(np.concatenate([submit, end])).tolist():
        if ((submit <= t) & (start > t)).any():
            assert ((start <= t) & (end > t)).sum() == platform.cpus
    assert metrics(workload, platform, schedule).get("idle_while_waiting_cpu_hours", 0) == 0


@threads
@given(case=thread_cases())
def test_no_processor_is_idle_while_a_thread_waits_that_could_run(name, case):
    workload, platform, _, schedule = scheduled(case, name)
    jobs, start, end = workload.jobs, schedule.start, schedule.end
    ready = np.maximum(jobs.submit, schedule.ready(jobs))
    for t in np.unique(np.concatenate([jobs.submit, end])).tolist():
        if ((ready <= t) & (start > t)).any():
            assert ((start <= t) & (end > t)).sum() == platform.cpus


@given(case=thread_cases(linked=False))
def test_whole_jobs_start_at_once_unless_they_are_wider_than_the_machine(case):
    for name in ("partition-variable", "partition-variable:backfill=easy,free=thread"):
        workload, platform, _, schedule = scheduled(case, name)
        codes = workload.jobs.project.codes
        for project in np.unique(codes[codes >= 0]):
            mine = codes == project
            if mine.sum() <= platform.cpus and len(set(workload.jobs.submit[mine].tolist())) == 1:
                assert len(set(schedule.start[mine].tolist())) == 1


@given(case=thread_cases())
def test_at_most_as_many_jobs_run_as_there_are_fixed_partitions(case):
    workload, platform, _, schedule = scheduled(case, "partition-fixed:partitions=2")
    codes, start, end = workload.jobs.project.codes, schedule.start, schedule.end
    for t in np.unique(start).tolist():
        running = (start <= t) & (end > t)
        assert len(set(codes[running].tolist())) <= min(2, platform.cpus)


@given(case=thread_cases(linked=False))
def test_of_one_column_each_the_blocks_are_first_come_first_served(case):
    """Where the threads of each job stand together in the log."""
    _, _, _, expected = scheduled(case, "fcfs")
    _, _, _, found = scheduled(case, "thread-matrix:n_max=1")
    assert found.start.tolist() == expected.start.tolist()


@given(case=thread_cases())
def test_a_thread_makes_progress_once_all_that_it_comes_after_is_over(case):
    workload, _, _, schedule = scheduled(case, "thread-matrix", overrun="extend")
    runs, jobs = schedule.all_runs, workload.jobs
    for row in range(len(jobs)):
        since = max([runs.start[row], *schedule.end[jobs.after[row]].tolist()])
        assert runs.end[row] == since + jobs.runtime[row]
        assert runs.progress[row] == jobs.runtime[row]


@pytest.mark.parametrize("after", [
    [[i + 50_000] for i in range(50_000)] + [[]] * 50_000,  # each listed above the one that it comes after
    [[2], [2]] + [[i + 1] for i in range(2, 15_999)] + [[]],  # two threads claim one chain in turn
], ids=["listed-above", "one-chain-for-two"])  # fmt: skip
def test_long_dependencies_do_not_take_quadratic_time(after):
    second = np.full(len(after), 10**6)
    project = Labels(np.zeros(len(after), np.int32), ("a",))
    jobs = Jobs(job=np.arange(len(after)), submit=0 * second, runtime=second, walltime=second, project=project,
                after=Ragged.of(after))  # fmt: skip
    log = Workload(jobs=jobs, name="long")
    simulate(replace(log, jobs=jobs.take(np.arange(0))), Platform.pool(2), *policy("thread-matrix"))  # compiled
    begin = time.process_time()
    simulate(log, Platform.pool(2), *policy("thread-matrix"))
    assert time.process_time() - begin < 3
