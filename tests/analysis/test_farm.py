"""Metrics of the farm by hand: deadlines, cpus against what the jobs in the system ask for, licences."""

import numpy as np
import pytest

from backfill.analysis.farm import farm_metrics
from backfill.model.units import NEVER, SECOND

from .by_hand import farm, scheduled, workload


def deadlines(*seconds):
    return [NEVER if s is None else s * SECOND for s in seconds]


def licensed(*cpus, **copies):
    return farm(*cpus, licences=tuple(copies), copies=np.array(list(copies.values()), np.int64))


def found(log, platform, start):
    schedule = scheduled(log, platform, start)
    return farm_metrics(log, platform, schedule, np.flatnonzero(schedule.ran))


def test_of_three_deadlines_one_is_met_at_its_very_second_and_two_are_missed():
    #       submit runtime deadline | start end
    #   a      0      10       10   |   0    10   ends exactly at its deadline
    #   b      0      10       19   |  10    20   a second late
    #   c      0      10        -   |  20    30   has none
    #   d      0      10       25   |  30    40
    log = workload([0, 0, 0, 0], [10, 10, 10, 10], deadline=deadlines(10, 19, None, 25))
    assert found(log, farm(1), [0, 10, 20, 30])["out_deadline"] == 2 / 3


def test_a_killed_job_meets_its_deadline_or_misses_it_by_when_it_was_killed():
    #       submit runtime walltime deadline | start end
    #   a      0     100      10       10    |   0    10   would have ended at 100
    #   b      0     100      10       19    |  10    20
    log = workload([0, 0], [100, 100], walltime=[10, 10], deadline=deadlines(10, 19))
    assert found(log, farm(1), [0, 10])["out_deadline"] == 1 / 2


def test_a_rejected_job_neither_meets_nor_misses_its_deadline():
    log = workload([0, 0], [10, 10], cpus=[1, 9], deadline=deadlines(9, 10))
    assert found(log, farm(1), [0, None])["out_deadline"] == 1.0
    assert found(log, farm(1), [None, None])["out_deadline"] is None


def test_cpus_held_over_cpus_asked_for_to_the_last_submit_to_the_last_end_and_as_printed():
    #       submit runtime cpus | start end
    #   a      0     10     3   |   0    10
    #   b      2      4     2   |  10    14
    #   c      8      6     1   |   8    14
    #   d     20      4     1   |  22    26
    #
    #             held  asked, at most 4  jobs
    #    0 ..  2    3          3            1
    #    2 ..  8    3          4            2     5 are asked for
    #    8 .. 10    4          4            3     6 are asked for
    #   10 .. 14    3          3            2
    #   14 .. 20    0          0            0     does not count
    #   20 .. 22    0          1            1     after the last submit
    #   22 .. 26    1          1            1
    log = workload([0, 2, 8, 20], [10, 4, 6, 4], cpus=[1, 2, 1, 1], tasks=[3, 1, 1, 1])
    got = found(log, licensed(3, 1, x=1), [0, 10, 8, 22])
    to_last_submit = 2 * 3 / 3 + 6 * 3 / 4 + 2 * 4 / 4 + 4 * 3 / 3
    assert got["system_usage"] == pytest.approx(to_last_submit / 14)
    assert got["system_usage_to_end"] == pytest.approx((to_last_submit + 2 * 0 / 1 + 4 * 1 / 1) / 20)
    assert got["system_usage_printed"] == pytest.approx((2 * 3 / 1 + 6 * 3 / 2 + 2 * 4 / 3 + 4 * 3 / 2) / 14)


def test_as_printed_no_more_jobs_count_than_there_are_cpus():
    #       submit runtime cpus | start end
    #   a      0     10     1   |   0    10
    #   b      0     10     1   |  10    20
    #   c      0     10     1   |  20    30
    #   d     10     10     1   |  30    40   from 0 to 10 a runs, and two of three jobs count
    log = workload([0, 0, 0, 10], [10, 10, 10, 10])
    assert found(log, licensed(2, x=1), [0, 10, 20, 30])["system_usage_printed"] == 1 / 2


def test_where_all_is_submitted_at_once_only_the_usage_to_the_last_end_is_defined():
    log = workload([5, 5], [5, 5])
    assert found(log, licensed(1, x=1), [10, 15]) == {
        "system_usage": None,
        "system_usage_to_end": (5 * 0 + 10 * 1) / 15,
        "system_usage_printed": None,
        "licence_usage": None,
    }


def test_where_no_job_ran_nothing_is_defined():
    log = workload([0], [5], deadline=deadlines(10))
    assert set(found(log, licensed(1, x=1), [None]).values()) == {None}


def test_licence_usage_is_the_mean_over_licences_that_have_copies_even_if_nobody_asks_for_one():
    #       submit runtime licences | start end
    #   a      0     10     x;x     |   0    10
    #   b      0     20     x;key   |  10    30   key is no floating licence
    #   c     20     10     w       |  30    40   starts after the last submit
    #
    #   From 0 to 20: x 2 of 2 copies for 10 s and 1 of 2 for 10 s, w and z 0 of 1; y has no copy and does not count.
    log = workload([0, 0, 20], [10, 20, 10], licences=("key", "x", "w"), asks=[[1, 1], [1, 0], [2]])
    got = found(log, licensed(4, y=0, x=2, z=1, w=1), [0, 10, 30])
    assert got["licence_usage"] == (30 / 40 + 0 / 20 + 0 / 20) / 3


def test_licences_without_a_single_copy_have_no_usage():
    log = workload([0, 10], [10, 10])
    assert found(log, licensed(2, x=0), [0, 10])["licence_usage"] is None


def test_without_deadlines_and_licences_there_is_no_metric_of_the_farm():
    assert found(workload([0, 5], [10, 10]), farm(2), [0, 5]) == {}


@pytest.mark.parametrize(
    ("log", "platform", "names"),
    [
        (workload([0, 5], [10, 10], deadline=deadlines(20, None)), farm(2), "out_deadline"),
        (workload([0, 5], [10, 10], licences=["key"], asks=[[0], []]), farm(2), ""),
        (workload([0, 5], [10, 10]), licensed(2, x=1), "licence_usage"),
    ],
    ids=["a deadline", "a licence of a node", "a floating licence that nobody asks for"],
)
def test_any_deadline_or_licence_brings_the_system_usages(log, platform, names):
    usages = {"system_usage", "system_usage_to_end", "system_usage_printed"}
    assert set(found(log, platform, [0, 5])) == usages | set(names.split())
