import pytest

from backfill.model.schedule import REASONS
from backfill.model.units import brief, span
from backfill.report.values import (
    UNTIL,
    WHY,
    best,
    grouped,
    headline,
    number,
    share_text,
    texts,
    wait_unit,
)


def test_times_that_compare_share_a_unit():
    assert texts("mean_wait_s", [353776.4, 6836.9, 5771.0, 7320.0]) == ["98.27 h", "1.90 h", "1.60 h", "2.03 h"]
    assert texts("p95_wait_s", [806_040.0, 37_800.0]) == ["223.9 h", "10.5 h"]
    assert texts("p95_wait_s", [879_120.0, 89_280.0]) == ["244.2 h", "24.8 h"]
    assert texts("makespan_s", [21_975_156.0, 21_975_150.0]) == ["254.3 d", "254.3 d"]
    assert texts("max_wait_s", [90.0, 0.0]) == ["90.0 s", "0 s"]


def test_a_time_below_one_unit_still_shows_two_digits():
    assert texts("mean_wait_s", [400 * 86_400.0, 43_200.0]) == ["400.00 d", "0.50 d"]
    assert texts("mean_wait_s", [1.5, 0.5]) == ["1.50 s", "0.50 s"]


def test_times_far_apart_have_one_unit_all_the_same():
    assert texts("mean_wait_s", [0.5, 400_000.0]) == ["<0.01 h", "111.11 h"]
    assert texts("mean_wait_s", [20 * 86_400.0, 1800.0]) == ["20.00 d", "0.02 d"]


def test_what_is_not_defined_is_a_dash():
    assert texts("mean_wait_s", [None, 4.0, None]) == ["-", "4.0 s", "-"]
    assert texts("mean_wait_s", [None]) == texts("utilization", [None]) == texts("max_queue", [None]) == ["-"]


def test_shares_are_percent_and_counts_whole():
    assert texts("utilization", [0.6856, 1.0]) == ["68.6%", "100.0%"]
    assert texts("max_queue", [1002, 0]) == ["1,002", "0"]


def test_numbers_in_a_text_have_commas():
    assert grouped("mean busy time, jobs of 4096 or more cpus") == "mean busy time, jobs of 4,096 or more cpus"
    assert grouped("1/8 of 512, 1.2345, node1024") == "1/8 of 512, 1.2345, node1024"


def test_every_reason_has_words():
    assert set(WHY) == set(UNTIL) == set(REASONS)


@pytest.mark.parametrize(
    ("value", "text"), [(92.5765, "92.58"), (89.0, "89.00"), (0.12, "0.1200"), (999.97, "1,000"), (6814.97, "6,815")]
)
def test_numbers_have_at_least_four_digits(value, text):
    assert number(value) == text


def test_the_best_of_several_values_is_known_where_one_direction_is_better():
    two = [{"mean_wait_s": 2.0, "utilization": 0.5, "jobs": 1}, {"mean_wait_s": 3.0, "utilization": 0.6, "jobs": 2}]
    assert [best(name, two) for name in ("mean_wait_s", "utilization", "jobs")] == [
        [True, False], [False, True], [False, False]]  # fmt: skip
    assert best("mean_wait_s", [{}, {"mean_wait_s": None}, *two, {"mean_wait_s": 2.0}]) == [
        False, False, True, False, True]  # fmt: skip
    assert best("mean_wait_s", [two[0], two[0], {}]) == [False] * 3  # nothing to choose between


def test_killed_and_rejected_jobs_are_told_where_there_are_any():
    assert headline([{"killed_jobs": 0}, {"killed_jobs": 2}])[-1] == "killed_jobs"
    assert "rejected_jobs" not in headline([{"rejected_jobs": 0}])


def test_the_utilization_of_cpus_has_a_column_unless_jobs_hold_other_resources_alone():
    assert "utilization" in headline([{"utilization": 0.0}])
    assert "utilization" in headline([{"utilization": 0.0, "utilization_r0": 0.5}, {"utilization": 0.1}])
    assert "utilization" not in headline([{"utilization": 0.0, "utilization_r0": 0.5}])


def metrics(*means):
    return [{"mean_wait_s": mean, "p95_wait_s": p95} for mean, p95 in means]


@pytest.mark.parametrize(
    ("waits", "unit"),
    [
        ([(6836.9, 37_800.0)], "h"),
        ([(353_776.4, 806_040.0), (5771.0, 34_900.0)], "h"),
        ([(19_362.0, 41_328.0), (222.0, 0.0)], "min"),
        ([(400_000.0, 900_000.0)], "d"),
        ([(0.5, 400_000.0)], "h"),
        ([(0.0, 0.0), (None, None)], "s"),
    ],
)
def test_all_waits_of_a_page_have_one_unit(waits, unit):
    assert wait_unit(metrics(*waits)) == unit


def test_in_a_given_unit_times_are_never_mixed():
    assert texts("max_wait_s", [0.5, 400_000.0, 0.0, None], "h") == ["<0.01 h", "111.11 h", "0 h", "-"]
    assert texts("makespan_s", [0.5, 400_000.0], "h") == ["<0.01 h", "111.11 h"]
    assert [brief(seconds, "h") for seconds in (174_600, 5000, 60, 0)] == ["48 h", "1.4 h", "<0.1 h", "0 h"]
    assert brief(174_600, "min") == "2,910 min"


def test_in_a_sentence_a_short_wait_has_a_smaller_unit_and_a_long_one_no_larger():
    assert [span(seconds, "h") for seconds in (42, 1200, 7200, 604_800)] == ["42 s", "0.33 h", "2.0 h", "168 h"]


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (0.0001, "<0.1%"), (0.0005, "0.1%"), (0.289, "28.9%"), (1, "100.0%")]
)
def test_a_share_that_is_not_0_does_not_read_as_0(share, text):
    assert share_text(share) == text
