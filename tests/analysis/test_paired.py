"""Paired differences: what their intervals hold, what they are made of, and where there is none."""

import math

import numpy as np
import pytest

from backfill.analysis.metrics import Counted
from backfill.analysis.paired import PARTS, Blocks, Sample, pairs_of_log, pairs_of_replications, resampled
from backfill.model.units import SECOND

DAY = 86_400 * SECOND


def counted(submit, wait, run) -> Counted:
    submit = np.asarray(submit, np.int64)
    start = submit + np.asarray(wait, np.int64)
    return Counted(np.arange(len(submit)), submit, submit, start, start + np.asarray(run, np.int64))


def log(seed: int, weeks: int = 30, a_day: int = 12):
    """A log whose mean waits are known: 1000 s under b, 400 s less under a; and what each policy made of it.

    What a day adds to the waits of its jobs depends on the day before, and not to the same extent under both policies.
    """
    random = np.random.default_rng(seed)
    days = 7 * weeks
    shocks = random.standard_exponential(days) - 1
    day = np.zeros(days)
    for i in range(1, days):
        day[i] = 0.3 * day[i - 1] + shocks[i]
    jobs = random.poisson(a_day, days)
    of_day = np.repeat(np.arange(days), jobs)
    submit = of_day * DAY + np.sort(random.integers(0, DAY, len(of_day)))
    own = random.standard_exponential(len(of_day)) - 1
    b = 1000 + 200 * day[of_day] + 300 * own
    a = 600 + 90 * day[of_day] + 200 * own
    run = np.full(len(of_day), 100 * SECOND)
    return [counted(np.sort(submit), np.rint(w * SECOND), run) for w in (b, a)]


def wait_interval(b: Counted, a: Counted, seed: int):
    """What `pairs_of_log` does for the mean wait, without the other metrics."""
    blocks = Blocks.of(b.submit, seed)
    in_b, in_a = (blocks.mean(each.wait / SECOND, np.ones(len(each))) for each in (b, a))
    return blocks.interval(in_a - in_b)


def covered(cases: int, **shape) -> float:
    intervals = [wait_interval(*log(seed, **shape), seed) for seed in range(1000, 1000 + cases)]
    return sum(low <= -400 <= high for low, high in intervals) / cases


def test_the_interval_of_a_pair_is_the_one_whose_coverage_is_counted():
    b, a = log(1)
    metrics = [{"mean_wait_s": float(each.wait.mean()) / SECOND} for each in (b, a)]
    pair = pairs_of_log(["b", "a"], metrics, [b, a], seed=1)[0]
    assert (pair.metric, pair.low, pair.high) == ("mean_wait_s", *wait_interval(b, a, 1))
    assert pair.low < pair.difference < pair.high < 0
    assert -1 < pair.relative_low < pair.relative < pair.relative_high < 0


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says():
    assert 0.88 <= covered(60) < 1


def test_weeks_that_depend_on_each_other_make_the_interval_wider():
    blocks = Blocks.of(np.arange(700) * DAY)
    slow, quick = (np.cos(2 * np.pi * np.arange(700) / period) for period in (70, 10))
    ratio = [np.subtract(*blocks.interval(Sample(blocks.mean(x, np.ones(700)).values, y))) for x, y in
             ((slow, slow), (slow, 0 * slow), (quick, quick), (quick, 0 * quick))]  # fmt: skip
    assert 1.15 < ratio[0] / ratio[1] < 1.2
    assert ratio[2] / ratio[3] == 1


@pytest.mark.long
@pytest.mark.parametrize("weeks", [6, 12, 30, 52])
def test_the_interval_holds_the_true_difference_in_92_to_98_of_100_cases(weeks):
    """Over 2,000 cases each it is 93.5 to 94.4 %."""
    assert 0.92 <= covered(500, weeks=weeks) <= 0.98


@pytest.mark.long
def test_the_t_interval_holds_the_true_difference_in_92_to_98_of_100_cases():
    random = np.random.default_rng(1)
    inside = inside_relative = 0
    for _ in range(500):
        b = 100 + 20 * random.standard_normal(10)
        a = 0.6 * b + 5 * random.standard_normal(10)
        tables = [[{"mean_wait_s": x} for x in values.tolist()] for values in (b, a)]
        pair = pairs_of_replications(["b", "a"], tables)[0]
        inside += pair.low <= -40 <= pair.high
        inside_relative += pair.relative_low <= -0.4 <= pair.relative_high
    assert 460 <= inside <= 490
    assert 460 <= inside_relative <= 490


def test_common_draws_make_the_interval_of_the_difference_narrower_than_that_of_each():
    b, a = log(3)
    blocks = Blocks.of(b.submit)
    of_b, of_a = (resampled(blocks, each)["mean_wait_s"].values for each in (b, a))
    assert (of_a - of_b).std() < 0.7 * math.hypot(of_a.std(), of_b.std())


def test_equal_schedules_differ_by_exactly_nothing():
    b, _ = log(5)
    pair = pairs_of_log(["b", "a"], [{"mean_wait_s": 9.0}] * 2, [b, b])[0]
    assert (pair.difference, pair.low, pair.high, pair.relative_low, pair.relative_high) == (0, 0, 0, 0, 0)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    b, a = log(2)
    metrics = [{"mean_wait_s": 1.0}, {"mean_wait_s": 2.0}]
    first, again, other = (pairs_of_log(["b", "a"], metrics, [b, a], seed)[0] for seed in (4, 4, 5))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)


def test_the_draws_are_the_same_on_every_machine():
    """The numbers of PCG64(SeedSequence(0)), whose stream numpy guarantees, written down once."""
    blocks = Blocks.of(np.arange(100) * DAY, resamples=2)
    assert (blocks.parts, blocks.starts.shape) == (100, (14, 2))
    assert blocks.starts[:3].tolist() == [[71, 17], [24, 33], [71, 94]]


def test_a_resample_is_made_of_whole_weeks_that_begin_on_any_day():
    submit = np.arange(63) * DAY
    blocks = Blocks.of(submit, resamples=1)
    drawn = np.array([blocks.mean((np.arange(63) == day).astype(float), np.ones(63)).values[0] for day in range(63)])
    expected = np.zeros(63)
    for start in blocks.starts[:, 0]:
        expected[(start + np.arange(7)) % 63] += 1
    assert (63 * drawn).tolist() == pytest.approx(expected.tolist())
    assert expected.sum() == 63


def test_the_means_of_a_resample_are_those_of_the_drawn_jobs():
    b, _ = log(7)
    blocks = Blocks.of(b.submit, resamples=3)
    found = {name: sample.values for name, sample in resampled(blocks, b).items()}
    for r in range(3):
        days = (blocks.starts[:, r, None] + np.arange(PARTS)).ravel() % blocks.parts
        rows = np.concatenate([np.flatnonzero(blocks.part == day) for day in days])
        wait, held = b.wait[rows] / SECOND, b.held[rows] / SECOND
        assert found["mean_wait_s"][r] == pytest.approx(wait.mean())
        assert found["mean_response_s"][r] == pytest.approx((wait + held).mean())
        assert found["mean_slowdown"][r] == pytest.approx(((wait + held) / held).mean())
        assert found["mean_bounded_slowdown"][r] == pytest.approx(b.bounded_slowdown[rows].mean())
        ranked = np.sort(wait)
        low, high = ranked[int(0.949 * len(rows))], ranked[int(0.9525 * len(rows)) + 1]
        assert low <= found["p95_wait_s"][r] <= high


@pytest.mark.parametrize(
    ("submit", "method"),
    [
        (np.arange(100) * DAY, "block bootstrap, 1 week"),
        (np.arange(100) * 3600 * SECOND, "block bootstrap, 1/8 of the log (12.4 h)"),
        (np.arange(29) * DAY, "no interval: fewer than 30 jobs"),
        (np.zeros(40), "no interval: all jobs are submitted at once"),
        (np.repeat([0, 200], 40) * DAY, "no interval: jobs are submitted in fewer than 4 blocks"),
        (np.arange(40) * 400 * DAY, "no interval: the log is longer than forty years"),
    ],
)
def test_the_method_says_how_long_blocks_are_or_why_there_is_no_interval(submit, method):
    each = counted(submit, np.full(len(submit), SECOND), np.full(len(submit), SECOND))
    pairs = pairs_of_log(["b", "a"], [{"mean_wait_s": 1.0, "makespan_s": 5.0}] * 2, [each, each])
    by_metric = {pair.metric: pair for pair in pairs}
    assert by_metric["mean_wait_s"].method == method
    assert (by_metric["mean_wait_s"].low is None) == method.startswith("no interval")
    assert (by_metric["makespan_s"].difference, by_metric["makespan_s"].low) == (0, None)


def test_the_later_policy_is_compared_with_each_before_it():
    values = [[{"mean_wait_s": x}, {"mean_wait_s": x + 2}] for x in (10.0, 4.0, 7.0)]
    pairs = [p for p in pairs_of_replications(["x", "y", "z"], values) if p.metric == "mean_wait_s"]
    assert [(p.a, p.b, p.difference) for p in pairs] == [("y", "x", -6), ("z", "x", -3), ("z", "y", 3)]
    assert (pairs[0].low, pairs[0].high) == (-6, -6)
    assert pairs[0].relative == pytest.approx(-6 / 11)
    assert pairs[0].method == "t interval, 2 replications"


def test_the_t_interval_is_the_one_of_the_book():
    b, a = [10.0, 12.0, 9.0], [7.0, 8.0, 8.0]
    pair = pairs_of_replications(["b", "a"], [[{"mean_wait_s": x} for x in values] for values in (b, a)])[0]
    half = 4.302653 * np.std([-3, -4, -1], ddof=1) / math.sqrt(3)
    assert (pair.low, pair.high) == (pytest.approx(-8 / 3 - half), pytest.approx(-8 / 3 + half))
    assert pair.relative == pytest.approx(-8 / 31)


@pytest.mark.parametrize(("a", "b"), [(None, 1.0), (1.0, None), (None, None)])
def test_what_is_not_defined_has_no_difference(a, b):
    pair = pairs_of_replications(["b", "a"], [[{"mean_wait_s": b}] * 3, [{"mean_wait_s": a}] * 3])[0]
    assert (pair.difference, pair.relative, pair.low, pair.high) == (None, None, None, None)


def test_nothing_to_compare_with_has_no_relative_difference():
    pair = pairs_of_replications(["b", "a"], [[{"mean_wait_s": 0.0}] * 3, [{"mean_wait_s": 5.0}] * 3])[0]
    assert (pair.difference, pair.relative, pair.relative_low, pair.low) == (5, None, None, 5)
    nobody = counted(np.arange(90) * DAY, np.zeros(90), np.full(90, SECOND))
    pair = pairs_of_log(["b", "a"], [{"mean_wait_s": 0.0}] * 2, [nobody, nobody])[0]
    assert (pair.difference, pair.relative, pair.relative_low, pair.low) == (0, None, None, 0)


def test_no_number_is_ever_nan():
    nobody = counted(np.arange(90) * DAY, np.zeros(90), np.zeros(90))
    metrics = {"mean_wait_s": 0.0, "mean_slowdown": None, "mean_bounded_slowdown": 1.0}
    for pair in pairs_of_log(["b", "a"], [metrics, metrics], [nobody, nobody]):
        for value in (pair.difference, pair.relative, pair.low, pair.high, pair.relative_low, pair.relative_high):
            assert value is None or math.isfinite(value)
