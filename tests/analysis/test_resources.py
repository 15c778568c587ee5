"""Balance and fragmentation of resources, worked out by hand."""

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.resources import resource_metrics
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload


def run(demands, runtimes, capacity, submit=None):
    """Jobs (cpus, memory) of one task each under easy; capacity: per node."""
    n = len(demands)
    runtime = np.array(runtimes, np.int64) * SECOND
    jobs = Jobs(
        job=np.arange(n),
        submit=np.array(submit or [0] * n, np.int64) * SECOND,
        runtime=runtime,
        walltime=runtime,
        demand=np.array(demands, np.int64),
    )
    nodes = len(capacity)
    platform = bf.Platform(
        nodes=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpus", "memory"),
        capacity=np.array(capacity, np.int64),
        speed=np.ones(nodes),
        site=np.zeros(nodes, np.int64),
    )
    log = Workload(jobs, resources=("cpus", "memory"))
    schedule = bf.simulate(log, platform, policy="easy").schedule
    return resource_metrics(log, platform, schedule, np.flatnonzero(schedule.ran))


def test_one_job_that_holds_all_cpus_and_half_of_the_memory():
    """U = (1, 0.5): imbalance 1 / 0.75. No cpu is free, so the free half of the memory is of no use."""
    assert run([(4, 5)], [10], [(4, 10)]) == {
        "utilization_memory": 0.5,
        "imbalance": pytest.approx(4 / 3),
        "fragmentation_cpus": 0.0,
        "fragmentation_memory": 0.5,
    }


def test_what_is_free_counts_as_usable_while_the_smallest_job_would_fit():
    """0 to 10 s: 2 of 4 cpus and 8 of 10 memory held; the least memory that anybody asks for is 2, and 2 is free."""
    found = run([(2, 8), (1, 2)], [10, 10], [(4, 10)], submit=[0, 10])
    assert found["fragmentation_cpus"] == found["fragmentation_memory"] == 0.0
    assert found["utilization_memory"] == pytest.approx((8 + 2) / 20)
    assert found["imbalance"] == pytest.approx(((0.8 / 0.65) + (0.25 / 0.225)) / 2)


def test_cpus_are_stranded_where_the_memory_left_is_too_little_for_any_job():
    """Node n0 holds 1 cpu and 9 of 10 memory, and everybody asks for 2 or more: its 3 other cpus are stranded."""
    found = run([(1, 9), (4, 2)], [10, 10], [(4, 10), (4, 10)])
    assert found["fragmentation_cpus"] == pytest.approx(3 / 8)
    assert found["fragmentation_memory"] == pytest.approx(8 / 20)  # n1 has no cpu left beside its 8


def test_time_when_nothing_is_held_does_not_count_for_balance_and_counts_for_use():
    found = run([(4, 10), (4, 10)], [10, 10], [(4, 10)], submit=[0, 30])
    assert (found["imbalance"], found["utilization_memory"]) == (1.0, 0.5)


def test_one_resource_has_no_balance():
    log = bf.generate("lublin?jobs=20&cpus=16")
    result = bf.simulate(log, policy="easy")
    assert resource_metrics(log, result.platform, result.schedule, np.flatnonzero(result.schedule.ran)) == {}


def test_of_no_jobs_nothing_is_known():
    log = Workload(
        Jobs(job=np.arange(1), submit=np.zeros(1, int), runtime=np.ones(1, int), walltime=np.ones(1, int),
             demand=np.ones((1, 2), int)), resources=("cpus", "memory"))  # fmt: skip
    pool = bf.Platform.pool(2, memory=4)
    schedule = bf.simulate(log, pool, policy="easy").schedule
    assert set(resource_metrics(log, pool, schedule, np.zeros(0, int)).values()) == {None}
