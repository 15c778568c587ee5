"""Lines as numbers that a page can draw."""

import numpy as np
import pytest

from backfill.analysis.series import Binned
from backfill.model.units import SECOND
from backfill.report.chart import cloud_chart, count_chart, ratio_chart, share_chart, table, tail_chart


def binned(means: list[float], length: float = 4 * 3600) -> Binned:
    edges = np.linspace(0, length * SECOND, len(means) + 1).astype(np.int64)
    return Binned(edges, np.array(means), np.ceil(means).astype(np.int64), np.diff(edges).astype(np.float64))


def test_a_share_is_drawn_from_0_to_100_percent():
    chart = share_chart([binned([0, 2, 4, 1])], [4])
    assert chart.paths == ["M125.0 1000.0L375.0 500.0L625.0 0.0L875.0 750.0"]
    assert [tick.text for tick in chart.y_ticks] == ["0%", "25%", "50%", "75%", "100%"]
    assert [(tick.at, tick.text) for tick in chart.x_ticks] == [(25.0 * i, str(i)) for i in range(5)]
    assert chart.x_unit == "hours"


def test_small_shares_have_an_axis_to_a_round_share():
    chart = share_chart([binned([0, 0.3])], [4], highest=0.3 / 4)
    assert [tick.text for tick in chart.y_ticks] == ["0%", "2%", "4%", "6%", "8%"]
    assert chart.paths == ["M250.0 1000.0L750.0 62.5"]  # 7.5 of 8


def known_in(means: list[float]) -> Binned:
    """Bins of which those without a mean have no time that counts."""
    whole = binned([0 if np.isnan(mean) else mean for mean in means])
    return Binned(whole.edges, np.array(means), whole.most, np.where(np.isnan(means), 0, whole.time))


NAN = float("nan")


def test_a_ratio_is_drawn_from_1_and_breaks_where_there_is_none():
    chart = ratio_chart([known_in([1, 1.5, NAN, 3]), known_in([NAN] * 4)])
    assert [tick.text for tick in chart.y_ticks] == ["1", "1.5", "2", "2.5", "3"]
    assert chart.paths == ["M125.0 1000.0L375.0 750.0M875.0 0.0h5", ""]


def test_ratios_of_1_lie_on_the_floor():
    chart = ratio_chart([known_in([1, 1])])
    assert chart.paths == ["M250.0 1000.0L750.0 1000.0"]
    assert chart.y_ticks[-1].text == "1.04"


def test_a_table_says_where_there_is_no_mean_and_leaves_that_time_out():
    rows = table([known_in([NAN] * 20 + [2, NAN] * 10)])  # of 40 bins, two in a row
    assert len(rows) == 20
    assert np.isnan([means[0] for _, means in rows[:10]]).all()
    assert [means[0] for _, means in rows[10:]] == [2] * 10


def test_counts_of_like_size_have_a_plain_axis_to_a_round_number():
    chart = count_chart([binned([0, 35]), binned([30, 5])])
    assert not chart.logarithmic
    assert [tick.text for tick in chart.y_ticks] == ["0", "10", "20", "30", "40"]
    assert chart.paths[0] == "M250.0 1000.0L750.0 125.0"


def test_counts_of_unlike_size_have_a_logarithmic_axis_that_begins_at_0():
    chart = count_chart([binned([0, 900]), binned([9, 0])])
    assert chart.logarithmic
    assert [tick.text for tick in chart.y_ticks] == ["0", "1", "10", "100", "1,000"]
    assert (chart.y_ticks[0].at, chart.y_ticks[-1].at) == (0, 100)
    assert chart.paths[1].startswith("M250.0 66")  # log(10) of log(1001) is a third


@pytest.mark.parametrize(("length", "unit"), [(2, "seconds"), (200, "minutes"), (86_400, "hours"), (10**7, "days")])
def test_the_time_axis_has_a_unit_that_gives_small_numbers(length, unit):
    chart = count_chart([binned([1], length)])
    assert chart.x_unit == unit
    assert 2 <= len(chart.x_ticks) <= 8


def test_nothing_to_draw_is_an_empty_chart():
    empty = Binned(np.zeros(1, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
    assert count_chart([empty]).paths == share_chart([empty], [0]).paths == [""]
    assert count_chart([]).paths == []


def test_a_tail_is_the_share_above_each_value_on_two_logarithmic_axes():
    chart = tail_chart([np.array([0.0] * 90 + [100.0] * 10)], seconds=False)
    assert [(tick.at, tick.text) for tick in chart.x_ticks] == [(0, "1"), (50, "10"), (100, "100")]
    assert [(tick.at, tick.text) for tick in chart.y_ticks] == [(100, "100%"), (50, "10%"), (0, "1%")]
    assert chart.paths[0].startswith("M0.0 500.0L")  # one in ten is above 1


def test_a_tail_of_times_has_marks_of_times():
    chart = tail_chart([np.array([0.0, 30.0, 7200.0])], seconds=True)
    assert [tick.text for tick in chart.x_ticks] == ["1 s", "10 s", "1 min", "10 min", "2.0 h"]


def test_a_tail_ends_at_the_greatest_value():
    values = np.sort(np.append(np.full(9999, 30.0), [900_000.0, 950_000.0]))
    chart = tail_chart([values, values[:-1]], seconds=True)
    assert (chart.x_ticks[-1].at, chart.x_ticks[-1].text) == (100, "11.0 d")
    across, down = map(float, chart.paths[0].split("L")[-1].split())
    assert across == 1000
    assert down == pytest.approx(1000 * 4 / 5, abs=1)  # one of 10,001; the axis ends at 0.001%
    assert float(chart.paths[1].split("L")[-1].split()[0]) < 1000


def test_lines_over_time_are_rows_as_well():
    rows = table([binned([float(i) for i in range(100)], 100 * 3600), binned([2.0] * 100, 100 * 3600)])
    assert len(rows) == 20
    assert rows[0] == ("0", [2.0, 2.0])
    assert rows[1][0] == "0.2083"  # of a day
    assert rows[19][1] == [97.0, 2.0]
    assert [row for _, row in table([binned([1.0, 2.0])])] == [[1.0], [2.0]]
    assert table([]) == table([Binned(np.zeros(1, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))]) == []


def test_a_tail_of_nothing_is_empty():
    assert tail_chart([np.zeros(0)], seconds=True).paths == [""]
    assert tail_chart([], seconds=False).paths == []


@pytest.mark.parametrize(
    ("unit", "long"),
    [
        ("d", ["1 h", "6 h", "1 d", "11.0 d"]),
        ("h", ["1 h", "10 h", "264 h"]),
        ("min", ["100 min", "1,000 min", "15,833 min"]),
    ],
)
def test_long_marks_of_waits_have_the_unit_of_the_page(unit, long):
    chart = tail_chart([np.array([30.0, 950_000.0])], seconds=True, unit=unit)
    assert [tick.text for tick in chart.x_ticks][4:] == long


def test_a_cloud_has_a_dot_for_each_pair_on_equal_axes():
    chart = cloud_chart(np.array([0.0, 10.0, 100.0]), np.array([1.0, 100.0, 10.0]), "s")
    dots, same = chart.paths
    assert dots == "M0.0 1000.0h0M500.0 0.0h0M1000.0 500.0h0"
    assert same == "M0 1000L1000 0"
    assert chart.x_ticks == chart.y_ticks
    assert [(tick.text, round(tick.at)) for tick in chart.x_ticks] == [("1 s", 0), ("10 s", 50), ("100 s", 100)]
