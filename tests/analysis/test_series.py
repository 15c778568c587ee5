import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.series import Steps, held_cpus, waiting_jobs, window
from backfill.model.platform import Platform
from backfill.model.units import SECOND

from .by_hand import scheduled, times, workload

POOL = Platform.pool(4)


def steps(*intervals: tuple[int, int, int]) -> Steps:
    begin, end, weight = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    return Steps.of(begin, end, weight)


def test_processors_and_the_queue_step_at_starts_and_ends():
    log = workload([0, 10, 12], [20, 10, 5], cpus=[4, 2, 9])
    schedule = scheduled(log, POOL, [0, 20, None])
    held = held_cpus(log, schedule)
    assert (held.times // SECOND).tolist() == [0, 20, 30]
    assert held.values.tolist() == [4, 2, 0]
    assert waiting_jobs(schedule).values.tolist() == [0, 1, 0]  # a came and started in one instant
    assert window(schedule) == (0, 30 * SECOND)


def test_bins_hold_the_mean_over_time_and_the_greatest_value():
    binned = steps((0, 4, 2), (2, 3, 5)).binned(0, 8, bins=2)
    assert binned.edges.tolist() == [0, 4, 8]
    assert binned.mean.tolist() == [(2 * 4 + 5 * 1) / 4, 0]
    assert binned.most.tolist() == [7, 0]


def test_a_peak_shorter_than_a_bin_is_not_lost():
    binned = steps((5_000_001, 5_000_002, 9)).binned(0, 10_000_000, bins=100)
    assert binned.most.max() == 9


def test_a_window_cuts_what_reaches_beyond_it():
    binned = steps((0, 10, 1), (20, 30, 2)).binned(5, 25, bins=2)
    assert binned.edges.tolist() == [5, 15, 25]
    assert binned.mean.tolist() == [0.5, 1]


def test_outside_of_all_intervals_the_value_is_zero():
    binned = steps((10, 20, 3)).binned(0, 40, bins=4)
    assert binned.mean.tolist() == [0, 3, 0, 0]


def test_no_more_bins_than_microseconds_and_none_in_an_empty_window():
    assert len(steps((0, 3, 1)).binned(0, 3).mean) == 3
    assert len(steps((0, 3, 1)).binned(3, 3).mean) == 0


def test_time_at_zero_can_be_left_out_of_the_mean():
    binned = steps((0, 2, 6), (3, 4, 3)).binned(0, 12, bins=3, idle=False)
    assert binned.time.tolist() == [3, 0, 0]
    assert binned.mean[0] == (6 * 2 + 3 * 1) / 3
    assert np.isnan(binned.mean[1:]).all()
    assert steps((0, 2, 6)).binned(0, 4, bins=2).time.tolist() == [2, 2]


def test_area_and_the_time_above_zero():
    some = steps((0, 2, 6), (5, 6, 3))
    assert (some.area, some.busy) == (15, 3)


def test_functions_of_the_same_intervals_share_their_times():
    begin, end = np.array([0, 5]), np.array([10, 10])
    one, two = Steps.each(begin, end, [np.array([1, 2]), np.array([4, 0])])
    assert one.times is two.times or one.times.tolist() == two.times.tolist() == [0, 5, 10]
    assert (one.values.tolist(), two.values.tolist()) == ([1, 3, 0], [4, 4, 0])


def test_nobody_ran():
    log = workload([0], [1], cpus=[9])
    schedule = scheduled(log, POOL, [None])
    assert window(schedule) == (0, 0)
    assert held_cpus(log, schedule).binned(0, 10, bins=2).mean.tolist() == [0, 0]


def test_one_window_for_several_schedules():
    log = workload([3], [4])
    assert window(scheduled(log, POOL, [3]), scheduled(log, POOL, [9])) == tuple(times([3, 13]))


intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=12)


@given(intervals, st.integers(1, 30))
def test_thinning_keeps_the_area_and_the_maximum(rows, bins):
    rows = [(begin, begin + length, weight) for begin, length, weight in rows]
    binned = steps(*rows).binned(0, 70, bins)
    slow = [sum(weight for begin, end, weight in rows if begin <= t < end) for t in range(70)]
    area = (binned.mean * np.diff(binned.edges)).sum()
    assert abs(area - sum(slow)) < 1e-6
    for i, (begin, end) in enumerate(zip(binned.edges[:-1], binned.edges[1:], strict=True)):
        assert binned.most[i] == max(slow[begin:end])
