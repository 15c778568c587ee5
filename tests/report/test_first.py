"""The first screen: which policy, by how much, how sure, who pays."""

import re
from dataclasses import replace
from html import unescape

import pytest

from backfill.analysis.groups import Fairness
from backfill.analysis.metrics import Metrics
from backfill.analysis.paired import Pair
from backfill.report.findings import Findings
from backfill.report.first import First
from backfill.report.page import Page, PolicyRun, Provenance, render

HOUR = 3600.0
MADE = Provenance(version="1", seed=0, command="")


def metrics(wait, **more):
    return Metrics({"jobs": 100, "mean_wait_s": wait, "median_wait_s": 0.0, "p95_wait_s": 5 * (wait or 0),
                    "max_wait_s": 9 * (wait or 0), "utilization": 0.7, "max_queue": 12, **more})  # fmt: skip


def pair(a, b, relative, low=None, high=None, method="block bootstrap"):
    return Pair(a=a, b=b, metric="mean_wait_s", difference=-1.0, relative=relative, low=None, high=None, method=method,
                relative_low=low, relative_high=high)  # fmt: skip


def fair(a, b, longer=9, users=214, later=6):
    return Fairness(a=a, b=b, jobs=100, later=later, earlier=50, mean_delay_s=600.0, max_delay_s=HOUR, users=users,
                    users_longer=longer, worst_user="93" if users else None, worst_user_s=2 * HOUR,
                    worst_class="513+ cpus, 6-24 h", worst_class_s=3 * HOUR)  # fmt: skip


def first(waits, pairs=(), fairness=(), **more) -> First:
    found = Findings([], [], pairs, fairness)
    return First.of(list(waits), [metrics(wait, **more) for wait in waits.values()], found, None, "h")


def said(text) -> str:
    return unescape(re.sub("<[^>]*>", "", str(text)))


TWO = {"fcfs": 10 * HOUR, "easy": 2 * HOUR}


def test_the_headline_says_which_policy_by_how_much_how_sure_and_who_pays():
    found = first(TWO, [pair("easy", "fcfs", -0.8, -0.85, -0.7)], [fair("easy", "fcfs")])
    assert said(found.headline) == (
        "easy shortens the mean wait by 80.0% compared with fcfs (95% interval 70.0% to 85.0%); "
        "9 of 214 users wait longer."
    )
    assert (found.best, found.other) == (1, 0)
    assert [said(each) for each in found.more] == [
        "Hit most: user 93 waits 2.0 h longer on average, and jobs of 513+ cpus, 6-24 h wait 3.0 h longer "
        "(who waits longer)."
    ]


def test_a_difference_that_may_be_chance_is_no_victory():
    found = first({"fcfs": 10 * HOUR, "easy": 9 * HOUR}, [pair("easy", "fcfs", -0.1, -0.3, 0.05)])
    assert said(found.headline) == (
        "easy has the shortest mean wait, 10.0% below fcfs, but the difference is not clear "
        "(95% interval \N{MINUS SIGN}30.0% to +5.0%)."
    )


def test_where_there_is_no_interval_the_small_print_says_why():
    found = first(TWO, [pair("easy", "fcfs", -0.8, method="no 95% interval: fewer than 500 jobs")])
    assert said(found.headline) == "easy has the shortest mean wait, 80.0% below fcfs (no 95% interval)."
    assert said(found.more[0]) == "There is no 95% interval: fewer than 500 jobs."


def test_where_there_is_no_interval_the_small_print_says_what_is_certain():
    found = first(TWO, [replace(pair("easy", "fcfs", -0.8, method="no 95% interval: x"), always_higher="fcfs")])
    assert said(found.more[0]) == "There is no 95% interval: x; but fcfs waits longer in each of 8 parts of the log."


def test_where_the_first_policy_is_the_best_it_is_compared_with_the_next():
    found = first({"easy": 2 * HOUR, "fcfs": 10 * HOUR, "sjf": 4 * HOUR}, [pair("sjf", "easy", 1.0, 0.6, 1.5)])
    assert (found.best, found.other) == (0, 2)
    assert said(found.headline) == (
        "easy shortens the mean wait by 50.0% compared with sjf (95% interval 37.5% to 60.0%)."
    )


def test_the_second_best_is_named_with_its_interval():
    found = first({**TWO, "sjf": 3 * HOUR}, [pair("easy", "fcfs", -0.8), pair("sjf", "easy", 0.5, -0.1, 0.9)])
    assert said(found.more[-1]) == (
        "sjf comes second with 3.0 h, 50.0% more (95% interval \N{MINUS SIGN}10.0% to +90.0%); "
        "the difference is not clear."
    )


def test_policies_that_wait_the_same_win_together():
    found = first({**TWO, "conservative": 2 * HOUR})
    assert said(found.headline).startswith("easy and conservative have the shortest mean wait, 80.0% below fcfs")
    alike = first({"fcfs": HOUR, "easy": HOUR})
    assert said(alike.headline) == "fcfs and easy give the same mean wait, 1.00 h."


@pytest.mark.parametrize(
    ("fairness", "end"),
    [
        (fair("easy", "fcfs", longer=1), "1 of 214 users waits longer."),
        (fair("easy", "fcfs", longer=0), "none of 214 users waits longer."),
        (fair("easy", "fcfs", users=0), "6.0% of the jobs start later."),
        (fair("easy", "fcfs", users=0, later=0), "no job starts later."),
    ],
)
def test_who_pays(fairness, end):
    assert said(first(TWO, [pair("easy", "fcfs", -0.8)], [fairness]).headline).endswith("; " + end)


def test_nobody_waits():
    assert said(first({"fcfs": 0.0, "easy": 0.0}).headline) == "No job waits, neither under easy nor under fcfs."


def test_a_single_policy_tells_its_waits():
    found = first({"easy": 2 * HOUR})
    assert said(found.headline) == "Under easy, jobs wait 2.0 h on average, and 95 in 100 wait 10.0 h at most."
    assert [(tile.label, tile.value) for tile in found.tiles] == [
        ("Mean wait", "2.0 h"),
        ("95 in 100 jobs wait at most", "10.0 h"),
        ("Utilization", "70.0%"),
        ("Longest queue", "12"),
    ]


def test_four_tiles_beside_the_policy_compared_with():
    found = first(TWO, [pair("easy", "fcfs", -0.8)], [fair("easy", "fcfs")])
    assert [(tile.label, tile.value, said(tile.note)) for tile in found.tiles] == [
        ("Mean wait", "2.0 h", "with easy; fcfs: 10.0 h"),
        ("95 in 100 jobs wait at most", "10.0 h", "with easy; fcfs: 50.0 h"),
        ("Utilization", "70.0%", "with easy; fcfs: 70.0%"),
        ("Users who wait longer", "9 of 214", "most: 93, +2.0 h"),
    ]


def test_where_jobs_have_deadlines_a_tile_tells_which_are_missed():
    found = first(TWO, out_deadline=0.25)
    assert ("Missed deadlines", "25.0%") in [(tile.label, tile.value) for tile in found.tiles]


def test_hostile_names_are_text():
    found = first({"<b>x</b>": 10 * HOUR, "<i>y</i>": HOUR})
    assert "<b>" not in found.headline + found.tiles[0].note
    assert "<i>" not in found.headline + found.tiles[0].note


def test_the_first_screen_stands_before_all_else():
    runs = [PolicyRun(name, metrics(wait)) for name, wait in TWO.items()]
    page = render(Page.of("t", runs, MADE))
    order = [page.index(each) for each in ('class="headline"', 'class="tiles"', 'id="summary"', 'id="metrics"')]
    assert order == sorted(order)
