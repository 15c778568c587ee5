"""Paired differences: what their intervals hold, what they are made of, and where there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest

from backfill.analysis.blocks import effective
from backfill.analysis.metrics import Counted
from backfill.analysis.paired import PairedLog, capacity, longest_queue, pairs_of_log, pairs_of_replications
from backfill.api import simulate
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.workloads.lublin import lublin
from tests.analysis.days import DAY, counted, log


def pairs(names, metrics, each: list[Counted], seed: int = 0, procs=None, cpus: int = 0):
    """pairs_of_log for jobs of one processor, on a machine that is never full."""
    return pairs_of_log(names, metrics, each, np.ones(len(each[0]), np.int64) if procs is None else procs, cpus, seed)


def waits(*each: Counted):
    return [{"mean_wait_s": float(one.wait.mean()) / SECOND} for one in each]


def covered(cases: int, **shape) -> tuple[float, float]:
    """Return how often the interval of the relative difference covers the true one, and that of the blocks alone."""
    held = np.zeros(2)
    for seed in range(1000, 1000 + cases):
        b, a = log(seed, **shape)
        found = PairedLog.of(["b", "a"], [b, a], np.ones(len(b), np.int64), 0, seed)
        change = found.change(1, 0, "mean_wait_s")
        low, high = change.interval(found.blocks)
        true = math.log(0.6)
        held += low <= true <= high, low + change.below <= true <= high - change.above
    return tuple(held / cases)


def test_the_interval_of_a_pair_is_the_one_whose_coverage_is_counted():
    b, a = log(1)
    pair = pairs(["b", "a"], waits(b, a), [b, a], seed=1)[0]
    found = PairedLog.of(["b", "a"], [b, a], np.ones(len(b), np.int64), 0, 1)
    ratios = found.change(1, 0, "mean_wait_s").interval(found.blocks)
    assert pair.metric == "mean_wait_s"
    assert [pair.relative_low, pair.relative_high] == pytest.approx([math.expm1(each) for each in ratios])
    assert pair.low < pair.difference < pair.high < 0
    assert -1 < pair.relative_low < pair.relative < pair.relative_high < 0


def test_the_interval_of_the_difference_is_the_lesser_value_times_that_of_the_ratio():
    """The sign of both agrees, and the difference is as uncertain as the ratio and the value together."""
    b, a = log(1)
    found = PairedLog.of(["b", "a"], [b, a], np.ones(len(b), np.int64), 0)
    (low, high), (relative_low, relative_high) = found.intervals(1, 0, "mean_wait_s")
    value = found.values[1]["mean_wait_s"]
    down, up = (math.exp(each) for each in found.blocks.interval(value.pull / value.value))
    differ = effective(value.parts - found.values[0]["mean_wait_s"].parts)
    up *= math.exp(5 * (1 + 6 / differ) * found.demand.sway)
    assert low == pytest.approx(value.value * up * (1 - 1 / (1 + relative_low)))
    assert high == pytest.approx(value.value * down * (1 - 1 / (1 + relative_high)))
    (turned_low, turned_high), _ = found.intervals(0, 1, "mean_wait_s")
    assert (turned_low, turned_high) == (pytest.approx(-high), pytest.approx(-low))


def test_fewer_bursts_of_work_widen_the_interval():
    b, a = log(1)
    few = np.ones(len(b), np.int64)
    few[:: len(b) // 40] = 500
    many, fewer = (pairs(["b", "a"], waits(b, a), [b, a], procs=each)[0] for each in (few * 0 + 1, few))
    bursts = PairedLog.of(["b", "a"], [b, a], few, 0).demand.bursts
    assert 20 < bursts < 60
    assert fewer.relative_high - fewer.relative_low > 2 * (many.relative_high - many.relative_low)


def test_a_ratio_is_widened_away_from_1_where_policies_differ_more_at_a_higher_load():
    b, a = log(1)
    found = PairedLog.of(["b", "a"], [b, a], np.ones(len(b), np.int64), 0)
    less, more = (found.change(x, y, "mean_wait_s") for x, y in ((1, 0), (0, 1)))
    assert less.value == pytest.approx(math.log(a.wait.mean() / b.wait.mean()))
    assert less.below - less.above == pytest.approx(4 * found.demand.sway * -less.value)
    assert (less.below, less.above) == (more.above, more.below)


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says():
    widened, blocks = covered(60)
    assert 0.88 <= blocks < 1
    assert widened >= 0.95


@pytest.mark.long
@pytest.mark.parametrize("weeks", [14, 30, 52])
def test_the_interval_holds_the_true_difference_in_92_to_98_of_100_cases(weeks):
    """Blocks alone are enough here, where days are many and alike."""
    widened, blocks = covered(500, weeks=weeks)
    assert 0.92 <= blocks <= 0.98
    assert widened >= 0.95


def batches(seed: int, jobs: int = 1000, size: int = 5) -> Workload:
    """Batches of similar jobs of one user, at random instants; load 0.8 of 64 cpus on average."""
    random = np.random.default_rng(seed)
    count = jobs // size
    batch = np.repeat(np.arange(count), size)
    procs = (2 ** random.integers(0, 6, count))[batch]
    run = np.rint(900 * np.exp(1.2 * random.standard_normal(count)[batch] + 0.2 * random.standard_normal(jobs)))
    run = np.maximum(1, run).astype(np.int64)
    mean_work = 63 / 6 * 900 * math.exp((1.2**2 + 0.2**2) / 2)
    submit = np.cumsum(random.standard_exponential(count))[batch] * size * mean_work / (64 * 0.8)
    walltime = np.ceil(run * random.uniform(1, 5, jobs)).astype(np.int64)
    return Workload(
        jobs=Jobs(job=np.arange(1, jobs + 1), submit=np.rint(submit).astype(np.int64) * SECOND, runtime=run * SECOND,
                  walltime=walltime * SECOND, tasks=procs),
        name="batches", cpus=64,
    )  # fmt: skip


# Of conservative against easy, over 8 runs of 200,000 jobs (benchmarks/intervals/run.py --truth).
TRUE_OF_BATCHES = {"mean_wait_s": (-4096, -0.225), "mean_bounded_slowdown": (-13.4, -0.377)}


def test_intervals_of_jobs_in_batches_hold_the_long_run_or_there_is_none():
    """Batches count, not jobs: eight blocks of the log alone held these differences in 60 to 75 of 100 logs."""
    given = held = 0
    for seed in range(30):
        made = batches(seed)
        results = [simulate(made, policy=policy) for policy in ("easy", "conservative")]
        seen = [Counted.of(made, each.simulation.schedule) for each in results]
        found = pairs(["easy", "conservative"], [each.metrics for each in results], seen, seed, made.jobs.procs, 64)
        for metric, (difference, relative) in TRUE_OF_BATCHES.items():
            pair = next(each for each in found if each.metric == metric)
            if pair.low is not None:
                given += 1
                held += pair.low <= difference <= pair.high and pair.relative_low <= relative <= pair.relative_high
    assert given >= 12
    assert held >= 0.92 * given - 1


@pytest.mark.long
@pytest.mark.parametrize("load", [0.5, 0.7])
@pytest.mark.parametrize(("jobs", "logs"), [(1000, 100), (2000, 100), (5000, 60), (10_000, 40), (20_000, 40)])
def test_intervals_of_small_logs_hold_the_true_difference_in_90_of_100_cases(jobs, logs, load):
    policies = ["easy", "easy-sjbf", "conservative", "fcfs"]
    made_pairs = []
    for seed in range(logs):
        made = lublin(jobs=jobs, cpus=128, load=load, estimate_factor=5, seed=5000 + seed)
        results = [simulate(made, policy=policy) for policy in policies]
        seen = [Counted.of(each.workload, each.simulation.schedule) for each in results]
        made_pairs += pairs(policies, [each.metrics for each in results], seen, seed, made.jobs.procs, 128)
    for a in policies[1:]:
        for metric in ("mean_wait_s", "mean_bounded_slowdown"):
            these = [pair for pair in made_pairs if (pair.a, pair.b, pair.metric) == (a, "easy", metric)]
            true = sum(pair.difference for pair in these) / len(these)
            found = [pair for pair in these if pair.low is not None]
            inside = sum(pair.low <= true <= pair.high for pair in found)
            assert inside >= 0.9 * len(found) - 1.5 * math.sqrt(0.09 * len(found))  # chance, of so few logs


@pytest.mark.long
@pytest.mark.parametrize(("jobs", "logs"), [(1000, 100), (2000, 100), (5000, 60), (10_000, 40)])
def test_two_policies_that_are_equal_are_seldom_told_apart(jobs, logs):
    """EASY in two random orders: neither is better, and both make other schedules."""
    apart = given = 0
    for seed in range(logs):
        made = lublin(jobs=jobs, cpus=128, load=0.6, estimate_factor=5, seed=9000 + seed)
        results = []
        for draw in range(2):
            priority = np.random.default_rng([seed, draw]).random(jobs)
            drawn = made.with_jobs(made.jobs.replace(priority=priority))
            results.append(simulate(drawn, policy="easy-priority"))
        seen = [Counted.of(each.workload, each.simulation.schedule) for each in results]
        for pair in pairs(["a", "b"], [each.metrics for each in results], seen, seed, made.jobs.procs, 128):
            if pair.metric in ("mean_wait_s", "mean_bounded_slowdown") and pair.relative_low is not None:
                given += 2
                apart += (not pair.low <= 0 <= pair.high) + (not pair.relative_low <= 0 <= pair.relative_high)
    assert apart <= 0.05 * given


def queues(load: float, seed: int):
    """Return the schedules of FCFS and EASY for a log of the model."""
    made = lublin(jobs=20_000, cpus=128, load=load, estimate_factor=5, seed=seed)
    return [simulate(made, policy=policy) for policy in ("fcfs", "easy")]


@pytest.mark.long
@pytest.mark.parametrize(("load", "given"), [(0.45, 40), (0.55, 36), (0.85, 0)])
def test_intervals_hold_the_true_difference_where_queues_last_for_weeks(load, given):
    """Over 160 logs it is 89 to 94 %; where the queue of FCFS grows all along, no interval is given."""
    made_pairs = []
    for seed in range(40):
        results = queues(load, seed)
        seen = [Counted.of(each.workload, each.simulation.schedule) for each in results]
        made_pairs.append(
            pairs(
                ["fcfs", "easy"], [each.metrics for each in results], seen, seed, results[0].workload.jobs.procs, 128
            )[0]
        )
    found = [pair for pair in made_pairs if pair.low is not None]
    assert len(found) >= given
    assert given or not found
    true = sum(pair.difference for pair in made_pairs) / len(made_pairs)
    assert sum(pair.low <= true <= pair.high for pair in found) >= 0.85 * len(found)


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


def test_equal_schedules_differ_by_nothing_and_the_log_does_not_tell_them_apart():
    b, _ = log(5)
    pair = pairs(["b", "a"], waits(b, b), [b, b])[0]
    assert (pair.difference, pair.low, pair.high, pair.relative_low, pair.always_higher) == (0, None, None, None, None)
    assert pair.method == "no 95% interval: no part of the log tells the policies apart"


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    b, a = log(2)
    metrics = [{"mean_wait_s": 1.0}, {"mean_wait_s": 2.0}]
    first, again, other = (pairs(["b", "a"], metrics, [b, a], seed)[0] for seed in (4, 4, 5))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)


@pytest.mark.parametrize(
    ("submit", "method"),
    [
        (np.arange(1001) * DAY // 8, "block bootstrap, 1/8 of the log (15.6 d)"),
        (np.arange(1001) * 36 * SECOND, "block bootstrap, 1/8 of the log (75.0 min)"),
        (np.arange(499) * DAY, "no 95% interval: fewer than 500 jobs"),
        (np.zeros(1000), "no 95% interval: all jobs are submitted at once"),
        (np.repeat([0, 200], 500) * DAY, "no 95% interval: jobs are submitted in fewer than 4 blocks"),
    ],
)
def test_the_method_says_how_long_blocks_are_or_why_there_is_no_interval(submit, method):
    run = np.full(len(submit), SECOND)
    each = [counted(submit, (1 + np.arange(len(submit)) % k) * SECOND, run) for k in (2, 3)]
    found = pairs(["b", "a"], [{"mean_wait_s": 1.0, "makespan_s": 5.0}] * 2, each)
    by_metric = {pair.metric: pair for pair in found}
    assert by_metric["mean_wait_s"].method == method
    assert (by_metric["mean_wait_s"].low is None) == method.startswith("no 95% interval")
    assert (by_metric["makespan_s"].difference, by_metric["makespan_s"].low) == (0, None)


def test_a_queue_that_lasts_for_most_of_the_log_leaves_no_interval():
    day = np.repeat(np.arange(112), 9)
    submit = day * DAY
    quick, slow, slower = (counted(submit, np.minimum(days, 112 - day) * DAY + extra, submit * 0) for days, extra in
                           ((0, 1), (np.where(day % 40 < 30, 2, 0), 2), (np.where(day < 90, 2, 0), 3)))  # fmt: skip
    assert [longest_queue(each) for each in (quick, slow, slower)] == [1, 31 * DAY + 2, 91 * DAY + 3]
    found = pairs(["quick", "slow", "slower"], waits(quick, slow, slower), [quick, slow, slower])
    found = {(pair.b, pair.a): pair for pair in found if pair.metric == "mean_wait_s"}
    assert found["quick", "slow"].low < found["quick", "slow"].difference
    for b in ("quick", "slow"):
        pair = found[b, "slower"]
        assert (pair.low, pair.high, pair.relative_low) == (None, None, None)
        assert pair.method == (
            "no 95% interval: the queue under slower stays non-empty for 91.0 d, too long for a log of 111.0 d"
        )


def test_a_queue_of_half_of_the_log_leaves_no_interval_if_only_one_policy_has_it():
    day = np.repeat(np.arange(112), 9)
    submit = day * DAY
    half, shorter, short = (
        counted(submit, np.where(day < until, 2, 0) * DAY + day % 3 + 1, submit * 0) for until in (60, 45, 20)
    )
    found = pairs(["half", "shorter", "short"], waits(half, shorter, short), [half, shorter, short])
    found = {(pair.b, pair.a): pair for pair in found if pair.metric == "mean_wait_s"}
    assert found["half", "shorter"].low is not None
    assert found["half", "short"].method == (
        "no 95% interval: the queue under half stays non-empty for 61.0 d, too long for a log of 111.0 d and more than "
        "twice the 21.0 d under short"
    )


def test_a_few_jobs_with_most_of_the_work_leave_no_interval():
    b, a = log(1)
    procs = np.ones(len(b), np.int64)
    procs[100:2100:400] = 10**5
    pair = pairs(["b", "a"], waits(b, a), [b, a], procs=procs)[0]
    assert pair.method == ("no 95% interval: the work arrives as unevenly as in 5 independent bursts, fewer than 8")


def test_run_times_with_a_heavy_tail_widen_the_interval():
    """The work of a job is the same in both logs, and so are the bursts."""
    b, a = log(1)
    random = np.random.default_rng(3)
    widths = []
    for exponent in (3.0, 1.5):
        run = (60 * SECOND / random.random(len(b)) ** (1 / exponent)).astype(np.int64)
        two = [counted(each.submit, each.wait, run) for each in (b, a)]
        pair = pairs(["b", "a"], waits(*two), two, procs=np.full(len(b), 10**9) // run)[0]
        widths.append(pair.relative_high - pair.relative_low)
    assert widths[1] > 1.2 * widths[0]


def test_a_difference_that_few_parts_of_the_log_make_has_a_wider_interval():
    """The same difference of every job, on one day of two and on one day of 20."""
    submit = np.arange(4000) * DAY // 20
    below = []
    for days in (2, 20):
        b = counted(submit, np.full(4000, 1000 * SECOND), submit * 0 + SECOND)
        a = counted(submit, b.wait - np.where(submit // DAY % days == 0, 10 * days * SECOND, 0), b.held)
        found = PairedLog.of(["b", "a"], [b, a], np.ones(4000, np.int64), 0)
        below.append(found.change(1, 0, "mean_wait_s").below)
    assert below[1] > 1.5 * below[0]


def test_the_capacity_of_a_policy_is_the_share_of_the_machine_that_is_busy_while_jobs_wait():
    """Of 8 processors 6 are busy for 10 s and 2 for 20 s; one job waits for all of this, one for the last 20 s."""
    submit = np.array([0, 0, 0, 10]) * SECOND
    wait, run = np.array([0, 0, 30, 20]) * SECOND, np.array([10, 30, 5, 5]) * SECOND
    each = counted(submit, wait, run)
    procs = np.array([4, 2, 8, 2])
    assert capacity(each, procs, 8) == pytest.approx((60 + 40 + 40) / (8 * (30 + 20)))
    assert capacity(each, procs, 0) == 1
    assert capacity(counted(submit, 0 * wait, run), procs, 8) == 1


def near_full(capacity: float, better: float = 1.0):
    """From a policy that makes `capacity` of the machine to one whose waits are 2/3 and that makes `better` of it."""
    submit = np.arange(4000) * DAY // 20
    b, a = (
        counted(submit, np.full(4000, wait * 1000 * SECOND) + submit % 7, submit * 0 + DAY // 20) for wait in (3, 2)
    )
    found = PairedLog.of(["b", "a"], [b, a], np.ones(4000, np.int64), 2)
    return replace(found, capacities=[capacity, better]).change(1, 0, "mean_wait_s")


def test_a_policy_whose_queue_nearly_grows_without_end_may_be_much_worse_than_the_log_shows():
    """The load is 0.50; at one that is two standard errors higher, waits become far longer with a capacity of 0.52."""
    far, near = near_full(1.0), near_full(0.52)
    assert far.value == near.value == pytest.approx(math.log(2 / 3), rel=1e-3)
    assert near.below > far.below + 1
    assert near.above < far.above + 0.2  # at a higher load policies that differ differ more, hardly less


def test_two_policies_that_nearly_fill_the_machine_may_differ_by_more_or_less_than_the_log_shows():
    far, near = near_full(1.0), near_full(0.52, 0.52)
    assert near.below - far.below == pytest.approx(near.above - far.above)
    assert 0.1 < near.below - far.below < 0.2


def test_a_difference_of_one_day_leaves_no_interval():
    b, _ = log(1)
    a = counted(b.submit, b.wait + np.where(b.submit // DAY == 100, DAY // 9, 0), b.held)
    pair = pairs(["b", "a"], waits(b, a), [b, a])[0]
    assert pair.difference > 0
    assert pair.method == "no 95% interval: the difference comes from too small a part of the log"


def every_block(factor: float, jobs: int = 400, worst: float = 1.0):
    """Two policies, one of which waits `factor` times as long in every eighth of the log, and `worst` in one."""
    submit = np.arange(jobs) * DAY // 10
    b = counted(submit, (1 + np.arange(jobs) % 7) * 10 * SECOND, submit * 0 + SECOND)
    times = np.where(np.arange(jobs) * 8 // jobs == 5, factor * worst, factor)
    return b, counted(submit, np.rint(b.wait * times), b.held)


def test_where_one_policy_waits_clearly_longer_in_every_block_this_is_said_without_an_interval():
    b, a = every_block(80)
    there, back = (
        pairs(names, waits(*two), list(two))[0] for names, two in ((("b", "a"), (b, a)), (("a", "b"), (a, b)))
    )
    assert (there.low, there.always_higher) == (None, "a")
    assert (back.low, back.always_higher) == (None, "a")
    assert there.method == "no 95% interval: fewer than 500 jobs"


@pytest.mark.parametrize(
    ("two", "why"),
    [
        (every_block(1.2), "the difference is small"),
        (every_block(80, worst=0.01), "one block says otherwise"),
        (every_block(80, jobs=64), "eight jobs per block are few"),
    ],
)
def test_otherwise_nothing_is_said_without_an_interval(two, why):
    assert pairs(["b", "a"], waits(*two), list(two))[0].always_higher is None, why


def test_an_interval_says_enough():
    two = every_block(80, jobs=800)
    pair = pairs(["b", "a"], waits(*two), list(two))[0]
    assert pair.low is not None
    assert pair.always_higher is None


def test_equal_policies_are_never_called_different_in_every_block():
    """Waits that depend on those before, for a quarter of a block: without the factor of 1.25 it would be 2 of 100."""
    said = alike = 0
    for seed in range(400):
        random = np.random.default_rng(seed)
        submit = np.sort(random.integers(0, 80 * DAY, 400))
        moods = np.exp(0.3 * random.standard_normal((2, 32)))[:, np.arange(400) * 32 // 400]
        two = [counted(submit, np.rint(1000 * SECOND * mood), submit * 0 + SECOND) for mood in moods]
        found = PairedLog.of(["b", "a"], two, np.ones(400, np.int64), 0)
        said += found.always_higher(1, 0, "mean_wait_s") is not None
        b, a = (each["mean_wait_s"].parts.reshape(8, 7).sum(axis=1) for each in found.values)
        alike += np.all(a > b) or np.all(b > a)
    assert alike >= 3
    assert said == 0


def test_longest_waits_of_a_few_weeks_leave_no_interval_of_the_95th_percentile():
    submit = np.arange(1120) * DAY // 10
    even = counted(submit, (1 + np.arange(1120) % 20) * SECOND, submit * 0 + SECOND)
    once = counted(submit, (1 + np.arange(1120) // 56) * SECOND, submit * 0 + SECOND)
    metrics = [{"p95_wait_s": float(np.percentile(each.wait, 95)) / SECOND} for each in (even, once, even)]
    found = pairs(["even", "once", "again"], metrics, [even, once, even])
    found = {(pair.b, pair.a): pair for pair in found if pair.metric == "p95_wait_s"}
    assert found["even", "again"].method == "no 95% interval: no part of the log tells the policies apart"
    for two in (("even", "once"), ("once", "again")):
        assert found[two].low is None
        why = "the longest waits under once come from too small a part of the log"
        assert found[two].method == f"no 95% interval: {why}"


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
    nobody = counted(np.arange(1000) * DAY, np.zeros(1000), np.full(1000, SECOND))
    pair = pairs(["b", "a"], [{"mean_wait_s": 0.0}] * 2, [nobody, nobody])[0]
    assert (pair.difference, pair.relative, pair.relative_low, pair.low) == (0, None, None, None)


def test_no_number_is_ever_nan():
    nobody = counted(np.arange(90) * DAY, np.zeros(90), np.zeros(90))
    metrics = {"mean_wait_s": 0.0, "mean_slowdown": None, "mean_bounded_slowdown": 1.0}
    for pair in pairs(["b", "a"], [metrics, metrics], [nobody, nobody]):
        for value in (pair.difference, pair.relative, pair.low, pair.high, pair.relative_low, pair.relative_high):
            assert value is None or math.isfinite(value)
