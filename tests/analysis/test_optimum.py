"""The exact optimum: against brute force on tiny cases, lawful on any machine, and a bound where time runs out."""

import _thread
import json
import threading
import time
from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")

import backfill as bf
from backfill.analysis.optimum.instance import OBJECTIVES, instance
from backfill.analysis.optimum.solver import costs
from backfill.model.partitions import Limit, Partition
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Labels, Ragged, Workload
from tests.patience import PATIENCE_S

from .by_hand import workload

CPUS, MEMORY, COPIES = 4, 3, 2


def with_memory(log: Workload, memory: list[int]) -> Workload:
    jobs = log.jobs.replace(demand=np.column_stack([log.jobs.demand[:, 0], memory]))
    return Workload(jobs, resources=("cpus", "memory"), licences=("solver",))


def machine(nodes: int = 1) -> Platform:
    pool = Platform.pool(CPUS * nodes, nodes, memory=MEMORY * nodes)
    return Platform(nodes=pool.nodes, resources=pool.resources, capacity=pool.capacity, speed=pool.speed,
                    site=pool.site, licences=("solver",), copies=np.array([COPIES]))  # fmt: skip


def licensed(log: Workload, copies: list[int]) -> Workload:
    return log.with_jobs(log.jobs.replace(licences=Ragged.of([[0] * each for each in copies])))


def fits(placed) -> bool:
    """placed: (start, end, cpus, memory, copies); whether these never hold more than there is."""
    return all(
        sum(job[k] for job in placed if job[0] <= t < job[1]) <= most
        for t, *_ in placed
        for k, most in ((2, CPUS), (3, MEMORY), (4, COPIES))
    )


def by_trying_all_orders(table) -> dict[str, float]:
    """The least of each objective: some order of the jobs, each as early as it then can, gives it."""
    best = dict.fromkeys(OBJECTIVES, float("inf"))
    for order in permutations(range(len(table))):
        placed: list[tuple[int, ...]] = []
        starts = [0] * len(table)
        for j in order:
            submit, run, *needs = table[j]
            candidates = sorted({submit, *(job[1] for job in placed if job[1] >= submit)})
            starts[j] = next(t for t in candidates if fits([*placed, (t, t + run, *needs)]))
            placed.append((starts[j], starts[j] + run, *needs))
        waits = [start - job[0] for start, job in zip(starts, table, strict=True)]
        slow = [max(1, (w + job[1]) / max(job[1], 10)) * job[2] for w, job in zip(waits, table, strict=True)]
        values = {
            "mean-wait": sum(waits) / len(table),
            "makespan": max(job[1] for job in placed) - min(job[0] for job in table),
            "weighted-bounded-slowdown": sum(slow) / sum(job[2] for job in table),
        }
        best = {name: min(best[name], values[name]) for name in best}
    return best


jobs = st.tuples(
    st.integers(0, 12), st.integers(1, 30), st.integers(1, CPUS), st.integers(0, MEMORY), st.integers(0, COPIES)
)


@settings(max_examples=6, deadline=None)
@given(st.lists(jobs, min_size=4, max_size=4))
def test_it_is_the_least_over_all_orders_with_resources_licences_and_releases(table):
    submit, run, cpus, memory, copies = (list(column) for column in zip(*table, strict=True))
    log = licensed(with_memory(workload(submit, run, cpus=cpus), memory), copies)
    expected = by_trying_all_orders(table)
    for objective in OBJECTIVES:
        best = bf.optimum(log, machine(), objective)
        assert best.proven
        assert best.value == pytest.approx(expected[objective], rel=1e-5)
        assert best.bound == pytest.approx(best.value, rel=1e-5)
        assert best.verify() == []


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.integers(0, 3)),
        min_size=3,
        max_size=3,
    )
)
def test_on_several_nodes_tasks_are_placed_exactly(table):
    """Two nodes of 2 cpus: tasks of 2 cpus do not share one with others, which the sum of cpus would allow."""
    submit, run, tasks, cpus, spread = (list(column) for column in zip(*table, strict=True))
    platform = Platform.pool(4, 2)
    log = workload(submit, run, cpus=cpus, tasks=tasks, spread=spread)
    lawful = bf.simulate(log, platform, "fcfs").schedule.finished
    if not lawful.all():
        return
    least = float("inf")
    seats = [
        [n for n in range(t + 1) if not (s == 3 and t == 2 and n != 1) and not (s == 0 and 0 < n < t)]
        for t, s in zip(tasks, spread, strict=True)
    ]
    for start in product(*(range(s, 7) for s in submit)):
        if sum(start) - sum(submit) >= least:
            continue
        for first in product(*seats):
            held = [(n * c, (t - n) * c) for n, t, c in zip(first, tasks, cpus, strict=True)]
            spans = [(s, s + r) for s, r in zip(start, run, strict=True)]
            if all(sum(held[j][k] for j, (b, e) in enumerate(spans) if b <= t < e) <= 2 for t in start for k in (0, 1)):
                least = sum(start) - sum(submit)
                break
    best = bf.optimum(log, platform)
    assert best.verify() == []
    assert best.proven
    assert best.value == pytest.approx(least / len(table))


@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.integers(0, 1)), min_size=3, max_size=3
    ),
    st.integers(1, 4),
)
def test_a_partition_has_its_nodes_and_no_job_that_may_still_run_then_starts_before_a_window(table, begin):
    """Two nodes of 1 cpu: partition `one` has the first of them alone, on which a window lasts 2 s."""
    submit, run, slack, one = (list(column) for column in zip(*table, strict=True))
    walltime = [r + s for r, s in zip(run, slack, strict=True)]
    log = workload(submit, run, walltime=walltime)
    log = log.with_jobs(log.jobs.replace(partition=Labels.of(["one" if each else "both" for each in one])))
    parts = (Partition(name="one", nodes=np.array([0])), Partition(name="both", nodes=np.array([0, 1])))
    platform = replace(Platform.pool(2, 2), partitions=parts)
    closed = [{"time": 0, "event": "window", "node": platform.nodes[0], "value": begin, "until": begin + 2}]
    least = float("inf")
    for nodes in product(*([0] if each else [0, 1] for each in one)):
        for start in product(*(range(s, 16) for s in submit)):
            jobs = [*zip(start, nodes, run, walltime, strict=True)]
            apart = all(a[1] != b[1] or a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] for a, b in combinations(jobs, 2))
            clear = all(n == 1 or t + limit <= begin or t >= begin + 2 for t, n, _, limit in jobs)
            if apart and clear:
                least = min(least, sum(start) - sum(submit))
    best = bf.optimum(log, platform, events=closed)
    assert best.verify() == []
    assert best.proven
    assert best.value == pytest.approx(least / 3)


def test_pooled_capacity_would_be_too_low_on_nodes():
    log = workload([0, 0, 0], [10, 10, 10], cpus=[2, 2, 2], tasks=[1, 1, 1])
    assert bf.optimum(log, Platform.pool(6, 2)).value == pytest.approx(10 / 3)
    assert bf.optimum(log, Platform.pool(6)).value == 0


def test_a_job_that_has_its_node_for_itself_shares_it_with_none():
    log = workload([0, 0], [10, 10], cpus=[1, 1], exclusive=[1, 0])
    log = log.with_jobs(log.jobs.replace(exclusive=np.array([True, False])))
    best = bf.optimum(log, Platform.pool(2))
    assert best.value == 5
    assert best.verify() == []
    assert bf.optimum(log, Platform.pool(4, 2)).value == 0


def test_the_wait_of_a_job_that_comes_after_another_begins_at_its_end():
    log = workload([0, 0, 0], [10, 10, 5], cpus=[2, 2, 2], after=[[], [0], []])
    best = bf.optimum(log, Platform.pool(2))
    assert best.value == pytest.approx(5 / 3)  # c, a, b: only a waits
    assert best.verify() == []


def test_a_job_that_is_too_wide_is_rejected_here_too():
    best = bf.optimum(workload([0, 0], [10, 90], cpus=[4, 9]), Platform.pool(4))
    assert (best.value, best.metrics["rejected_jobs"]) == (0, 1)
    assert best.verify() == []


def test_a_job_is_killed_at_its_walltime_unless_it_may_stay():
    log = workload([0, 0], [10, 10], walltime=[4, 4], cpus=[4, 4])
    assert bf.optimum(log, Platform.pool(4), "makespan").value == 8
    assert bf.optimum(log, Platform.pool(4), "makespan", overrun="extend").value == 20


@pytest.mark.parametrize(("objective", "metric"), [("mean-wait", "mean_wait_s"), ("makespan", "makespan_s")])
def test_the_metrics_of_the_schedule_are_the_objective(objective, metric):
    best = bf.optimum(crowded(8), Platform.pool(8), objective, time_limit=0.1)
    assert best.metrics[metric] == pytest.approx(best.value)
    assert best.verify() == []


def crowded(jobs: int = 40) -> Workload:
    draw = np.random.default_rng(3)
    submit = np.sort(draw.integers(0, 2_000, jobs))
    run, cpus = draw.integers(50, 3_000, jobs), draw.integers(1, 9, jobs)
    log = workload(submit.tolist(), run.tolist(), cpus=cpus.tolist())
    return log.with_jobs(log.jobs.replace(job=np.arange(jobs)))


def test_where_time_runs_out_the_bound_is_proven_and_the_bytes_are_the_same():
    one, two = (bf.optimum(crowded(), Platform.pool(8), time_limit=0.2) for _ in range(2))
    assert not one.proven
    assert 0 < one.bound < one.value <= one.policy_value
    assert one.verify() == []
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert one.schedule.start.tolist() == two.schedule.start.tolist()


def test_ctrl_c_ends_the_search_at_once():
    """It is sent once the search goes on: what it ends would else take many minutes."""
    log = crowded()
    bf.optimum(crowded(3), Platform.pool(8))  # everything is loaded
    threading.Timer(3.0, _thread.interrupt_main).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bf.optimum(log, Platform.pool(8), time_limit=10_000)
    assert time.monotonic() - begin < PATIENCE_S


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_windows_in_sequence_bound_the_whole(objective):
    log, pool = crowded(8), Platform.pool(8)
    whole = bf.optimum(log, pool, objective, time_limit=0.2)
    rolling = bf.optimum(log, pool, objective, window=3, time_limit=0.2)
    assert [each.jobs for each in rolling.windows] == [3, 3, 2]
    assert rolling.bound <= whole.value * (1 + 1e-5)
    assert rolling.bound > 0
    assert (rolling.value, rolling.schedule, rolling.proven) == (None, None, False)
    with pytest.raises(bf.UsageError, match="windows are scheduled each by itself"):
        rolling.write("out.csv")


def test_too_many_places_for_nodes_give_a_bound_and_no_schedule(monkeypatch):
    monkeypatch.setattr("backfill.analysis.optimum.instance.PLACES_MOST", 3)
    log = workload([0, 0, 0], [10, 10, 10], cpus=[2, 2, 2])
    best = bf.optimum(log, Platform.pool(6, 2))
    assert (best.pooled, best.schedule, best.value, best.bound, best.proven) == (True, None, None, 0, False)


def test_jobs_that_run_already_hold_the_machine_and_do_not_count():
    log = workload([0, 3], [10, 5], cpus=[4, 4])
    made = instance(log, Platform.pool(4), np.arange(2), running=[0])
    assert made.counted == [1]
    assert costs(made, "mean-wait", [0, 10 * SECOND // made.unit]) * made.unit == 7 * SECOND


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "fun"}, "objective"),
        ({"window": 0}, "window"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
    ],
)
def test_a_mistake_is_named(given, said):
    with pytest.raises(bf.UsageError, match=said):
        bf.optimum(workload([0], [1]), Platform.pool(1), **given)


def test_what_is_not_modelled_is_named():
    pool = Platform.pool(4, 2)
    uneven = Platform(nodes=pool.nodes, resources=pool.resources, capacity=pool.capacity, speed=np.array([1.0, 2.0]),
                      site=pool.site)  # fmt: skip
    with pytest.raises(bf.UsageError, match="nodes of different speeds"):
        bf.optimum(workload([0], [1]), uneven)
    down = [{"time": 0, "event": "down", "node": pool.nodes[0]}]
    with pytest.raises(bf.UsageError, match="no events but windows of whole nodes"):
        bf.optimum(workload([0], [1]), pool, events=down)
    limited = replace(pool, limits=(Limit(name="few", running_jobs=1),))
    with pytest.raises(bf.UsageError, match="limits on running or queued jobs"):
        bf.optimum(workload([0], [1]), limited)
    with pytest.raises(bf.UsageError, match="no job can run"):
        bf.optimum(workload([0], [1], cpus=[9]), Platform.pool(4))
    with pytest.raises(bf.UsageError, match="201 jobs are too many"):
        bf.optimum(crowded(201), Platform.pool(8))
