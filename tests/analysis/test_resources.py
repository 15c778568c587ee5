"""Balance and fragmentation of resources, worked out by hand."""

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.resources import Use, resource_metrics
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload


def simulated(demands, runtimes, capacity, submit=None, second="memory"):
    """Jobs of one task each under easy; demands: (cpus, second resource); capacity: per node."""
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
        resources=("cpus", second),
        capacity=np.array(capacity, np.int64),
        speed=np.ones(nodes),
        site=np.zeros(nodes, np.int64),
    )
    log = Workload(jobs, resources=("cpus", second))
    schedule = bf.simulate(log, platform, policy="easy").schedule
    return log, platform, schedule, np.flatnonzero(schedule.ran)


def run(*what, **more):
    return resource_metrics(*simulated(*what, **more))


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


# Node: 4 cpus, 10 memory. a holds (2, 9) from 0 to 10 s, b (4, 2) from 10 to 20 s, nobody until 30 s, c (1, 5) to 40 s.
# The least that anybody asks for is 1 cpu and 2 memory.
#
#   from            0           10         20    30           40
#   U of cpus       0.5         1          0     0.25
#   U of memory     0.9         0.2        0     0.5
#   max / mean      0.9 / 0.7   1 / 0.6    -     0.5 / 0.375
#   free cpus       2           0          4     3
#   free memory     1           8          10    5
#   unusable        2 cpus      8 memory   -     -
FOUR_PARTS = {"demands": [(2, 9), (4, 2), (1, 5)], "runtimes": [10, 10, 10], "capacity": [(4, 10)],
              "submit": [0, 0, 30]}  # fmt: skip
RATIOS = [0.9 / 0.7, 1 / 0.6, 0.5 / 0.375]


def test_use_imbalance_and_what_is_unusable_step_at_starts_and_ends():
    use = Use.of(*simulated(**FOUR_PARTS))
    assert (use.names, use.whole.tolist(), use.length) == (("cpus", "memory"), [4, 10], 40 * SECOND)
    for steps in (*use.held, *use.unusable, use.imbalance):
        assert (steps.times // SECOND).tolist() == [0, 10, 20, 30, 40]
    assert [each.values.tolist() for each in use.held] == [[2, 4, 0, 1, 0], [9, 2, 0, 5, 0]]
    assert [each.values.tolist() for each in use.unusable] == [[2, 0, 0, 0, 0], [0, 8, 0, 0, 0]]
    assert use.imbalance.values == pytest.approx([*RATIOS[:2], 0, RATIOS[2], 0])


def test_the_metrics_are_the_means_of_the_series():
    assert run(**FOUR_PARTS) == {
        "utilization_memory": pytest.approx((9 + 2 + 5) / 40),
        "imbalance": pytest.approx(sum(RATIOS) / 3),  # not over the ten seconds without a job
        "fragmentation_cpus": pytest.approx(2 * 10 / (4 * 40)),
        "fragmentation_memory": pytest.approx(8 * 10 / (10 * 40)),
    }


def test_a_gpu_is_of_no_use_where_too_few_cpus_are_left_for_a_job_with_gpus():
    """8 cpus, 2 gpus. Until 10 s seven cpus are held; the job with a gpu asks for 4 and waits. Then 4 and 1 are free.

    One cpu is enough for the smallest job, which asks for no gpu, but nobody with a gpu can use it.
    """
    found = run([(6, 0), (1, 0), (4, 1)], [10, 10, 10], [(8, 2)], second="gpus")
    assert found["fragmentation_gpus"] == pytest.approx(0.5)
    assert found["fragmentation_cpus"] == 0


def test_cpus_beside_no_gpu_are_of_use_while_some_job_needs_none():
    found = run([(2, 0), (2, 1)], [10, 10], [(4, 0), (4, 1)], second="gpus")
    assert found["fragmentation_cpus"] == 0


def test_what_nobody_asks_for_is_not_fragmented():
    found = run([(4, 0)], [10], [(4, 2)], second="gpus")
    assert (found["utilization_gpus"], found["fragmentation_gpus"], found["imbalance"]) == (0, 0, 1)


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
