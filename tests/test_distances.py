"""How far policies are above the best possible schedule, on windows of a log."""

import re

import numpy as np
import pytest

pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")

import backfill as bf
from backfill.analysis.distance import Distance, interval
from backfill.distances import _drawn, distances
from backfill.report.distances import distance_rows
from tests.analysis.by_hand import workload


def crowded(jobs: int):
    draw = np.random.default_rng(5)
    submit, run = np.cumsum(draw.integers(0, 120, jobs)), draw.integers(20, 900, jobs)
    log = workload(submit.tolist(), run.tolist(), cpus=draw.integers(1, 9, jobs).tolist())
    return log.with_jobs(log.jobs.replace(job=np.arange(jobs)))


@pytest.fixture(scope="module")
def results():
    return [bf.simulate(crowded(60), bf.Platform.pool(8), policy) for policy in ("fcfs", "easy")]


def test_a_window_begins_with_what_runs_and_has_the_jobs_that_come_next(results):
    first = results[0]
    for window in _drawn(first, 3, 6):
        jobs = window.log.jobs
        now = jobs.submit[window.running :].min()
        by_id = {job: k for k, job in enumerate(first.workload.jobs.job.tolist())}
        rows = np.array([by_id[job] for job in jobs.job.tolist()])
        start, end = first.schedule.start[rows], first.schedule.end[rows]
        assert ((start < now) & (now < end))[: window.running].all()
        assert (jobs.submit[: window.running] == start[: window.running]).all()
        assert len(jobs) - window.running == 6
        assert (start[window.running :] >= now).all()
        busy = (first.schedule.start < now) & (now < first.schedule.end)
        assert window.running == busy.sum()


def test_no_policy_is_better_than_the_best_and_the_windows_are_the_same_again(results):
    found = distances(results, ["fcfs", "easy"], 3, jobs=6, time_limit=0.2)
    for each in found:
        assert each.bound_s <= each.best_s <= each.value_s
        assert each.best_s > 0
        assert (each.windows, each.jobs) == (3, 6)
    assert found[1].value_s < found[0].value_s
    assert found == distances(results, ["fcfs", "easy"], 3, jobs=6, time_limit=0.2)


def test_a_policy_that_interrupts_jobs_is_refused(results):
    preempts = bf.simulate(crowded(60), bf.Platform.pool(8), "round-robin")
    with pytest.raises(bf.UsageError, match="cannot judge round-robin"):
        distances([results[0], preempts], ["fcfs", "round-robin"], 2, jobs=6, time_limit=0.1)


def test_windows_must_not_overlap(results):
    with pytest.raises(bf.UsageError, match="expected a log of 40 jobs or more, a window; this one has 39"):
        bf.compare(crowded(39), bf.Platform.pool(8), ["easy", "fcfs"], optimum=1)
    with pytest.raises(bf.UsageError, match="at most 1 windows of 40 jobs"):
        distances(results, ["fcfs", "easy"], 2)


def of(values, best, bound=None, proven=None):
    return Distance.of("easy", values, best, bound or best, 40, len(values) if proven is None else proven)


def test_the_sentence_tells_the_interval_and_what_is_not_solved():
    values, best = [112.0, 113, 111, 112, 114, 110], [100.0] * 6
    assert re.fullmatch(
        r"easy is 12% \[1[01], 1[34]\] above the best possible mean wait on 6 windows of 40 jobs",
        of(values, best).sentence,
    )
    half = of(values, best, [80.0] * 6, 4).sentence
    assert half.endswith("; at most 40% above the best possible (4 of 6 windows solved to the end)")
    assert of(values[:3], best[:3]).sentence == "easy is 12% above the best possible mean wait on 3 windows of 40 jobs"
    assert of([0.0, 0.0], [0.0, 0.0]).sentence == "under easy no job waits on 2 windows of 40 jobs"
    assert of([1.0, 0.0], [0.0, 0.0]).above is None


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Relative distances that do not depend on the wait; decision 0056 has the measured shares."""
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        best = np.exp(draw.standard_normal(20))
        low, high = interval(best * (1 + 0.2 * np.exp(0.5 * draw.standard_normal(20))), best) or (0, np.inf)
        held += low <= 0.2 * np.exp(0.125) <= high
    assert 0.9 * 300 <= held <= 0.99 * 300


def test_few_windows_that_make_the_waits_have_no_interval():
    assert interval([100.0, 1, 1, 1, 1, 1], [90.0, 1, 1, 1, 1, 1]) is None
    assert interval([1.0] * 3, [1.0] * 3) is None


def test_the_rows_of_a_page_share_an_axis():
    rows = distance_rows([of([150.0] * 5, [100.0] * 5), of([110.0] * 5, [100.0] * 5)])
    assert [row.at for row in rows] == [99, pytest.approx(19.8)]
