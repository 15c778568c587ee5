"""No schedule beats a bound: against the exact optimum of small cases, and against what policies do to larger ones."""

import random
from heapq import heappop, heappush
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backfill as bf
from backfill.analysis.bounds import _Jobs, _on_squashed_machine, bounds
from backfill.analysis.metrics import Counted, Trim, metrics
from backfill.analysis.squashed import least_wait
from backfill.model.platform import Platform
from backfill.model.units import SECOND

from .by_hand import farm, scheduled, workload

CPUS = 4


def bound(log, platform=None, start=None, overrun="kill", **trims):
    """(makespan, mean wait) in seconds; the starts only say which jobs were rejected."""
    platform = platform or Platform.pool(CPUS)
    counted = Counted.of(log, scheduled(log, platform, start or log.jobs.submit / SECOND), **trims)
    makespan, wait = bounds(log, platform, counted, overrun)
    assert (makespan.metric, wait.metric) == ("makespan_s", "mean_wait_s")
    return makespan.value, wait.value


def fits(jobs, cpus):
    """jobs: (start, end, procs); whether they never hold more than cpus."""
    return all(sum(p for s, e, p in jobs if s <= t < e) <= cpus for t, _, _ in jobs)


def optimum(submit, run, procs, cpus=CPUS):
    """The least makespan and the least summed wait: some order of the jobs, each as early as it then can, gives it."""
    best = [float("inf"), float("inf")]
    for order in permutations(range(len(submit))):
        placed: list[tuple[int, int, int]] = []
        waits = 0
        for j in order:
            candidates = sorted({submit[j], *(e for _, e, _ in placed if e >= submit[j])})
            start = next(t for t in candidates if fits([*placed, (t, t + run[j], procs[j])], cpus))
            placed.append((start, start + run[j], procs[j]))
            waits += start - submit[j]
        best = [min(best[0], max(e for _, e, _ in placed) - min(submit)), min(best[1], waits)]
    return best


jobs = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6), st.integers(1, CPUS)), min_size=1, max_size=5)


@given(jobs)
def test_no_schedule_is_better_than_the_bounds(table):
    submit, run, procs = (list(column) for column in zip(*table, strict=True))
    makespan, wait = bound(workload(submit, run, cpus=procs))
    best = optimum(submit, run, procs)
    assert makespan <= best[0]
    assert wait <= best[1] / len(table) + 1e-12


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=6))
def test_for_jobs_that_need_the_whole_machine_both_are_nearly_the_optimum_with_preemption(table):
    """The makespan is then exact; the wait is, where no job comes while another runs."""
    submit, run = (list(column) for column in zip(*table, strict=True))
    together = workload([0] * len(run), run, cpus=[CPUS] * len(run))
    best = optimum([0] * len(run), run, [CPUS] * len(run))
    assert bound(together) == (best[0], pytest.approx(best[1] / len(run), rel=1e-8))
    log = workload(submit, run, cpus=[CPUS] * len(run))
    assert bound(log)[0] == optimum(submit, run, [CPUS] * len(run))[0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 2)), min_size=2, max_size=3), st.data())
def test_the_wait_of_a_job_that_comes_after_another_begins_later(table, data):
    submit, run, procs = (list(column) for column in zip(*table, strict=True))
    after = [data.draw(st.lists(st.integers(0, j - 1), max_size=1)) if j else [] for j in range(len(table))]
    log = workload(submit, run, cpus=procs, after=after)
    best = [float("inf"), float("inf")]
    for start in product(range(13), repeat=len(table)):
        ends = [s + r for s, r in zip(start, run, strict=True)]
        eligible = [max([submit[j], *(ends[k] for k in after[j])]) for j in range(len(table))]
        waits = [s - e for s, e in zip(start, eligible, strict=True)]
        if min(waits) >= 0 and fits(list(zip(start, ends, procs, strict=True)), 2):
            best = [min(best[0], max(ends) - min(submit)), min(best[1], sum(waits))]
    makespan, wait = bound(log, Platform.pool(2))
    assert makespan <= best[0]
    assert wait <= best[1] / len(table) + 1e-12


@pytest.mark.parametrize(
    ("table", "makespan", "how"),
    [
        ([(0, 9, 1), (5, 9, 1)], 14, "longest job"),
        ([(0, 9, 3), (0, 8, 2), (0, 1, 3)], 46 / 4, "area"),
        ([(0, 1, 1), (5, 4, 2), (6, 4, 4), (6, 4, 4)], 6 + (2 * 3 + 2 * 16) / 4, "head and tail"),
        ([(0, 5, 3), (0, 5, 3), (0, 5, 3)], 15, "jobs wider than half the machine"),
    ],
)
def test_the_argument_that_gives_the_makespan_is_named(table, makespan, how):
    submit, run, procs = (list(column) for column in zip(*table, strict=True))
    log, platform = workload(submit, run, cpus=procs), Platform.pool(CPUS)
    found = bounds(log, platform, Counted.of(log, scheduled(log, platform, submit)))[0]
    assert (found.how, found.value) == (how, makespan)


def test_a_killed_job_counts_with_its_walltime_unless_it_may_stay():
    log = workload([0, 0], [10, 10], walltime=[4, 4], cpus=[CPUS, CPUS])
    assert bound(log) == (8, pytest.approx(2))
    assert bound(log, overrun="extend") == (20, pytest.approx(5))


def test_rejected_and_trimmed_jobs_are_not_there():
    log = workload([0, 0, 50], [10, 90, 5], cpus=[CPUS, 9, CPUS])
    assert bound(log, start=[0, None, 50]) == (55, 0)
    assert bound(log, start=[0, None, 50], warmup=Trim(jobs=2)) == (5, 0)


def test_each_busy_period_is_bounded_by_itself():
    """The narrow jobs of the second period finish at once on a squashed machine; they hide no wait of the first."""
    first = workload([0, 0], [10, 10], cpus=[CPUS, CPUS])
    both = workload([0, 0, *[100] * 4], [10, 10, *[50] * 4], cpus=[CPUS, CPUS, *[1] * 4])
    assert bound(both)[1] * 6 == pytest.approx(bound(first)[1] * 2)
    assert bound(both)[1] > 0


def test_narrow_jobs_do_not_hide_the_wait_of_wide_ones():
    assert bound(workload([0] * 6, [10, 10, *[50] * 4], cpus=[CPUS, CPUS, *[1] * 4]))[1] * 6 >= 10 * (1 - 1e-8)


def test_another_resource_can_be_the_tighter_one():
    log = workload([0, 0], [10, 10], cpus=[1, 1])
    wide = log.jobs.replace(demand=np.array([[1, 3], [1, 3]]))
    log = type(log)(wide, resources=("cpus", "memory"))
    platform = Platform.pool(CPUS, memory=4)
    assert bound(log, platform)[0] == 15


def test_no_jobs_have_no_bound():
    assert bound(workload([0], [1], cpus=[9]), start=[None]) == (None, None)


def test_sums_that_pass_64_bits_stay_exact():
    run = 10.0**10
    log = workload([0.0] * 3, [run] * 3, cpus=[2**40] * 3)
    assert bound(log, Platform.pool(2**40)) == (3 * run, pytest.approx(run))


@given(
    st.integers(0, 10_000),
    st.sampled_from(["fcfs", "easy", "easy-sjbf", "conservative"]),
    st.sampled_from([(1.7, 1.0, 0.6), (4.0, 3.0, 2.0), (0.5, 0.3, 0.1), (2.0, 2.0, 2.0)]),
    st.sampled_from(["kill", "extend"]),
)
def test_no_policy_is_better_on_nodes_of_unequal_speed(seed, policy, speed, overrun):
    random = np.random.default_rng(seed)
    n = 30
    log = workload(
        random.integers(0, 40, n).tolist(),
        random.integers(0, 30, n).tolist(),
        walltime=random.integers(1, 30, n).tolist(),
        cpus=[1] * n,
        tasks=random.integers(1, 5, n).tolist(),
        after=[[int(random.integers(0, j))] if j and random.random() < 0.1 else [] for j in range(n)],
    )
    platform = farm(2, 2, 4, speed=np.array(speed))
    result = bf.simulate(log, platform, policy, overrun=overrun)
    for trim in (Trim(), Trim(jobs=9)):
        makespan, wait = bounds(log, platform, Counted.of(log, result.schedule, trim, trim), overrun)
        found = metrics(log, platform, result.schedule, warmup=trim, cooldown=trim)
        assert makespan.value <= found["makespan_s"]
        assert wait.value <= found["mean_wait_s"]


def squashed(arrivals, by_rest):
    """The squashed machine in plain Python: the sum over its busy periods, exact but for quotients."""
    now, waits, total, left = 0, 0, 0, []  # left: [key, number, area, rest, since]
    for number, (at, area, held) in enumerate([*arrivals, (1 << 200, 0, 0)]):
        while left and now + left[0][3] <= at:
            _, _, whole, rest, since = heappop(left)
            waits += now + rest - since if by_rest else rest / max(whole, 1) * (now - since + rest / 2)
            now += rest
        if left:
            done, first = at - now, left[0]
            first[3] -= done
            if by_rest:
                first[0] -= done
            else:
                waits += done / first[2] * (now - first[4] + done / 2)
        else:
            total, waits = total + max(0, waits), 0
        now = at
        heappush(left, [area, number, area, area, at])
        waits -= held if by_rest else held / 2
    return total


@pytest.mark.parametrize("by_rest", [True, False])
@pytest.mark.parametrize(("capacity", "time"), [(4, 5), (256, 10**9), (10**6, 10**14)])
def test_the_squashed_machine_does_what_its_plain_twin_does(capacity, time, by_rest):
    """Also where processor-microseconds exceed 2^63."""
    dice = random.Random(capacity)
    for _ in range(20):
        size = dice.randint(1, 60)
        release = sorted(dice.randrange(time) for _ in range(size))
        run, need = ([dice.randint(1, most) for _ in range(size)] for most in (max(time // 20, 3), capacity))
        most = [each + dice.randrange(3) for each in run]
        columns = (np.array(column, np.int64) for column in (release, run, most))
        jobs = _Jobs(*columns, np.array(need)[:, None], [capacity], np.arange(size))
        on_machine, unit = _on_squashed_machine(jobs, capacity)
        found = least_wait(on_machine, by_rest) * unit
        rows = zip(release, run, need, most, strict=True)
        exact = squashed([(r * capacity, h * p, m * capacity) for r, h, p, m in rows], by_rest)
        assert found == pytest.approx(exact, rel=1e-9)
        assert unit == 1 or found <= exact * (1 + 1e-12)
        assert (unit > 1) == (time > 10**9)
