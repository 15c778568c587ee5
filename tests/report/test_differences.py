"""Differences and losers as the page tells them."""

import re
from dataclasses import replace

import pytest

from backfill.analysis.bounds import BoundGap
from backfill.analysis.groups import Groups
from backfill.analysis.paired import Pair
from backfill.report.differences import Differences, Table
from backfill.report.losers import by_name, crossings, gap_rows
from backfill.report.values import BOUND_0


def pair(relative=None, low=None, high=None, a="easy", b="fcfs", metric="mean_wait_s", difference=-60.0) -> Pair:
    interval = {"low": None if low is None else -120.0, "high": None if high is None else 30.0}
    return Pair(a=a, b=b, metric=metric, difference=difference, relative=relative, method="block bootstrap, 1 week",
                relative_low=low, relative_high=high, **interval)  # fmt: skip


VALUES = {"fcfs": {"mean_wait_s": 120.0}, "easy": {"mean_wait_s": 60.0}}


def test_a_difference_is_told_in_the_unit_of_the_metric_and_in_percent():
    (row,) = Table.of([pair(-0.5, -0.6, 0.02)], VALUES).rows
    assert (row.value_b, row.value_a, row.difference) == ("120.0 s", "60.0 s", "−60.0 s")
    assert (row.interval, row.relative, row.relative_interval) == ("−120.0 s to +30.0 s", "−50%", "−60% to +2.0%")


def test_without_an_interval_there_is_a_dash_and_nothing_to_draw():
    (row,) = Table.of([pair(-0.5)], VALUES).rows
    assert (row.interval, row.relative_interval) == ("-", "-")
    assert (row.drawn.low, row.drawn.high) == (None, None)


def test_without_an_interval_it_is_said_which_policy_is_always_higher():
    (row,) = Table.of([replace(pair(-0.5), always_higher="fcfs")], VALUES).rows
    assert (row.interval, row.relative_interval) == ("fcfs higher in each of 8 parts",) * 2
    assert row.why == "block bootstrap, 1 week"
    assert Table.of([pair(-0.5, -0.6, 0.02)], VALUES).rows[0].why == ""


@pytest.mark.parametrize(("share", "text"), [(0.034, "+3.4%"), (-0.984, "−98%"), (31.5, "× 32.5"), (0.0, "0%")])
def test_changes_of_any_size_are_readable(share, text):
    assert Table.of([pair(share)], VALUES).rows[0].relative == text


def test_equal_is_the_middle_of_the_axis_and_half_lies_as_far_as_double():
    half, double, same = Table.of([pair(-0.5), pair(1.0), pair(0.0)], VALUES).rows
    assert same.drawn.at == 50
    assert half.drawn.at + double.drawn.at == 100
    assert 0 <= half.drawn.at < 50


def test_what_cannot_be_placed_lies_at_the_end():
    (row,) = Table.of([pair(-0.9, -1.4, 0.1)], VALUES).rows
    assert row.drawn.low == 0


def test_of_many_pairs_those_with_the_first_policy_are_shown_at_once():
    three = [pair(0.1), pair(0.2, a="x"), pair(0.3, a="x", b="easy")]
    found = Differences.of(three, {**VALUES, "x": {}}, "fcfs")
    assert [(row.a, row.b) for row in found.main.rows] == [("easy", "fcfs"), ("x", "fcfs")]
    assert len(found.pairs) == 3


GROUPS = [
    Groups(by="user", names=("u", "v"), jobs=(30, 4), cpu_hours=(12.0, 1.0),
           mean_wait_s=((100.0, 7200.0), (200.0, 60.0)), mean_bounded_slowdown=((1.0, 1.0), (1.0, 1.0))),
    Groups(by="size x run time", names=("1 cpu, up to 1 min", "2-8 cpus, 1-6 h"), jobs=(30, 4), cpu_hours=(12.0, 1.0),
           mean_wait_s=((100.0, 7200.0), (200.0, 60.0)), mean_bounded_slowdown=((1.0, 1.0), (1.0, 1.0))),
]  # fmt: skip


def test_who_waits_longer_than_under_the_first_policy_is_marked():
    (users,) = by_name(GROUPS, "min")
    assert [(name, [(cell.text, cell.worse) for cell in cells]) for name, _, _, cells in users.rows] == [
        ("u", [("1.7 min", False), ("3.3 min", True)]),
        ("v", [("120 min", False), ("1.0 min", False)]),
    ]


def test_classes_cross_in_a_table_per_policy():
    counts, (first, second) = crossings(GROUPS, ["fcfs", "easy"], "h")
    assert first.columns == ["up to 1 min", "1-6 h"]
    assert [size for size, _ in first.rows] == ["1 cpu", "2-8 cpus"]
    assert [[cell and cell.text for cell in cells] for _, cells in counts.rows] == [["30", None], [None, "4"]]
    assert (first.rows[1][1][1].text, second.rows[1][1][1].text) == ("2.0 h", "<0.1 h")


def test_gaps_stand_beside_their_bound():
    gaps = [BoundGap(policy=p, metric="mean_wait_s", value=v, bound=30.0, how="area", ratio=v / 30) for p, v in
            (("fcfs", 120.0), ("easy", 60.0))]  # fmt: skip
    assert gap_rows(gaps, "min") == [
        ("mean wait", "0.50 min", "area", [("2.00 min", "4.000 ×"), ("1.00 min", "2.000 ×")])
    ]
    none = [BoundGap(policy="easy", metric="mean_wait_s", value=60.0, bound=0.0, how="nothing has to wait", ratio=None)]
    assert gap_rows(none, "s") == [("mean wait", "0 s", BOUND_0, [("60.0 s", "")])]


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9, 1.8, 4, 9, 19, 49, 99, 900, 5000, 5e5, 1e9])
def test_the_marks_of_the_axis_are_round_factors(share):
    ticks = Table.of([pair(share)], VALUES).ticks
    assert [tick.at for tick in ticks] == sorted(100 - tick.at for tick in ticks)
    assert ticks[len(ticks) // 2].text == "equal"
    assert all(
        re.fullmatch(r"equal|[×÷] (1\.[125]|[1235](0{0,3}|0,000|00,000|,000|,000,000))", tick.text) for tick in ticks
    )
