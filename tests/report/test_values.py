import pytest

from backfill.report.values import heading, headline, number, texts


def test_times_that_compare_share_a_unit():
    assert texts("mean_wait_s", [353776.4, 6836.9, 5771.0]) == ["5,896.3 min", "113.9 min", "96.2 min"]
    assert texts("max_wait_s", [90.0, 0.0]) == ["90.0 s", "0 s"]


def test_times_too_far_apart_for_one_unit_have_their_own():
    assert texts("mean_wait_s", [0.5, 400_000.0]) == ["0.5 s", "4.6 d"]


def test_what_is_not_defined_is_a_dash():
    assert texts("mean_wait_s", [None, 4.0, None]) == ["-", "4.0 s", "-"]
    assert texts("mean_wait_s", [None]) == texts("utilization", [None]) == texts("max_queue", [None]) == ["-"]


def test_shares_are_percent_and_counts_whole():
    assert texts("utilization", [0.6856, 1.0]) == ["68.6%", "100.0%"]
    assert texts("max_queue", [1002, 0]) == ["1,002", "0"]


@pytest.mark.parametrize(
    ("value", "text"), [(92.5765, "92.58"), (89.0, "89.00"), (0.12, "0.1200"), (999.97, "1,000"), (6814.97, "6,815")]
)
def test_numbers_have_at_least_four_digits(value, text):
    assert number(value) == text


def test_headings_are_words():
    assert [heading(name) for name in ("mean_wait_s", "mean_bounded_slowdown", "out_deadline")] == [
        "mean wait",
        "bounded slowdown",
        "out deadline",
    ]


def test_killed_and_rejected_jobs_are_told_where_there_are_any():
    assert headline([{"killed_jobs": 0}, {"killed_jobs": 2}])[-1] == "killed_jobs"
    assert "rejected_jobs" not in headline([{"rejected_jobs": 0}])
