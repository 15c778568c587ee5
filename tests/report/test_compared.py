"""Sentences and tables of a comparison."""

from dataclasses import replace

import pytest

from backfill.analysis.bounds import BoundGap
from backfill.analysis.groups import Fairness, LongWait
from backfill.analysis.paired import Pair
from backfill.report.compared import compared_table, compared_text
from backfill.report.sentences import chance, loser_sentence, pair_sentence, wait_sentence
from backfill.report.terminal import as_text

FAIR = Fairness(
    a="easy", b="fcfs", jobs=1000, later=61, earlier=500, mean_delay_s=8280.0, max_delay_s=9e4, users=214,
    users_longer=9, worst_user="93", worst_user_s=7500.0, worst_class="65-512 cpus, 6-24 h", worst_class_s=10_900.0,
)  # fmt: skip


def pair(difference=-40.0, relative=-0.41, low=-0.44, high=-0.38, method="block bootstrap, 1 week"):
    return Pair(
        a="easy", b="fcfs", metric="mean_wait_s", difference=difference, relative=relative, low=None, high=None,
        method=method, relative_low=low, relative_high=high,
    )  # fmt: skip


def fair(**changed):
    return replace(FAIR, **changed)


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (pair(), "easy waits 41.0% less than fcfs (95% interval 38.0% to 44.0%)"),
        (pair(5.0, 0.07, 0.02, 0.13), "easy waits 7.0% more than fcfs (95% interval 2.0% to 13.0%)"),
        (
            pair(-5.0, -0.18, -0.36, 0.02),
            "easy waits 18.0% less than fcfs (95% interval -36.0% to +2.0%: no clear difference)",
        ),
        (pair(0.0, 0.0, 0.0, 0.0), "easy waits as long as fcfs"),
        (pair(0.0, None, None, None), "easy and fcfs let no job wait"),
        (pair(90.0, None, None, None), "easy lets jobs wait 90 s on average; under fcfs no job waits"),
        (pair(None, None, None, None), "easy and fcfs have no wait to compare"),
        (
            pair(low=None, high=None, method="no 95% interval: x"),
            "easy waits 41.0% less than fcfs (no 95% interval: x)",
        ),
        (
            replace(pair(low=None, high=None, method="no 95% interval: x"), always_higher="fcfs"),
            "easy waits 41.0% less than fcfs (no 95% interval: x; but fcfs waits longer in each of 8 parts of the log)",
        ),
        (
            pair(-1.0, -0.002, -0.003, 0.0001),
            "easy waits 0.2% less than fcfs (95% interval -0.3% to 0.0%: no clear difference)",
        ),
        (
            pair(5.0, 0.18, -0.02, 0.36),
            "easy waits 18.0% more than fcfs (95% interval -2.0% to +36.0%: no clear difference)",
        ),
        (pair(0.1, 0.0001, -0.0002, 0.002), "easy waits as long as fcfs, within 0.2%"),
        (pair(-0.1, -0.0001, -0.05, 0.01), "easy waits as long as fcfs, within 5.0%"),
        (pair(9.0, 50.7, 40, 60), "easy waits 52 times as long as fcfs (95% interval 41 to 61)"),
        (
            pair(9.0, 0.24, -0.8, 12.3),
            "easy waits 1.24 times as long as fcfs (95% interval 0.20 to 13: no clear difference)",
        ),
        (
            pair(9.0, 2.0, None, None, method="no 95% interval: x"),
            "easy waits 3.00 times as long as fcfs (no 95% interval: x)",
        ),
    ],
)
def test_a_pair_is_a_plain_sentence(pair, sentence):
    assert pair_sentence(pair, fair(users=0), "h") == sentence


def test_users_who_wait_longer_are_counted_where_there_are_several():
    assert pair_sentence(pair(), FAIR, "h").endswith("; 9 of 214 users wait longer")
    assert pair_sentence(pair(), fair(users_longer=1), "h").endswith("; 1 of 214 users waits longer")
    assert pair_sentence(pair(), fair(users_longer=0), "h").endswith("; none of 214 users waits longer")
    assert "users" not in pair_sentence(pair(), fair(users=1), "h")
    assert "users" not in pair_sentence(pair(), fair(later=0, earlier=0), "h")


def test_who_loses():
    assert loser_sentence(FAIR, "h") == (
        "under easy 6.1% of the jobs start later than under fcfs, by 2.3 h on average; user 93 waits 2.1 h longer; "
        "jobs of 65-512 cpus, 6-24 h wait 3.0 h longer"
    )
    assert loser_sentence(fair(worst_user=None, worst_class=None), "h").endswith("by 2.3 h on average")
    assert loser_sentence(fair(later=0), "h") == "under easy no job starts later than under fcfs"


def test_the_longest_wait():
    wait = LongWait(policy="easy", job="7", user="", cpus=1, submit_s=0, wait_s=1e6, run_s=1, reason="head")
    assert (
        wait_sentence(wait, "h")
        == "easy: job 7, 1 cpu, waited 278 h, until it was first in the queue and enough was free for it"
    )
    assert wait_sentence(replace(wait, reason="other"), "h").endswith("waited 278 h, other")


METRICS = {"mean_wait_s": 353943.1, "p95_wait_s": 806040.0, "mean_bounded_slowdown": 6826.0, "utilization": 0.697}


def test_a_gap_stands_beside_its_policy():
    gaps = [
        BoundGap(policy=name, metric=metric, value=1.0, bound=1.0, how="area", ratio=ratio)
        for name, *ratios in (("fcfs", 6.7982, 1.0011), ("easy", 2.5, 1.0))
        for metric, ratio in zip(("mean_wait_s", "makespan_s"), ratios, strict=True)
    ]
    lines = as_text(compared_table(["fcfs", "easy"], [METRICS, METRICS], gaps)).splitlines()
    assert [line.split()[-2:] for line in lines[3:]] == [["6.798", "1.001"], ["2.500", "1.000"]]
    assert max(map(len, lines)) <= 80
    assert compared_text([], [], [], gaps, "h")[-2:] == ["  mean wait 1 s (area)", "  makespan 1.00 s (area)"]


def test_far_from_a_bound_the_ratios_stand_beside_it():
    gaps = [
        BoundGap(policy=name, metric="mean_wait_s", value=1.0, bound=52.1, how="jobs of 4096 or more cpus", ratio=ratio)
        for name, ratio in (("fcfs", 6798.2), ("easy", 2.5))
    ]
    assert "bound" not in as_text(compared_table(["fcfs", "easy"], [METRICS, METRICS], gaps)).replace("bounded", "")
    text = " ".join("\n".join(compared_text([], [], [], gaps, "h")).split())
    assert text.endswith("mean wait 52 s (jobs of 4,096 or more cpus); times the bound: fcfs 6,798, easy 2.500")


def test_a_bound_of_0_says_what_it_means():
    gaps = [BoundGap(policy="easy", metric="mean_wait_s", value=1.0, bound=0.0, how="nothing has to wait", ratio=None)]
    assert "bound" not in as_text(compared_table(["easy"], [METRICS], gaps)).replace("bounded", "")
    assert (
        compared_text([], [], [], gaps, "h")[-1]
        == "  mean wait: the bound is 0: there may be a schedule in which no job waits"
    )


@pytest.mark.parametrize(
    ("intervals", "few"), [(2, "one"), (20, "one"), (30, "one or two"), (45, "about 2"), (100, "about 5")]
)
def test_many_intervals_are_put_in_proportion(intervals, few):
    assert chance(intervals) == (
        "A single interval misses the true difference once in 20 times; "
        f"of these {intervals} intervals {few} may miss it."
    )
    assert chance(1) == ""


def test_without_bounds_there_is_no_column_for_them():
    assert "bound" not in as_text(compared_table(["easy"], [METRICS], [])).replace("bounded", "")


def test_pairs_with_the_first_policy_are_told():
    names = [f"p{i}" for i in range(5)]
    fairness = [fair(a=a, b=b) for i, a in enumerate(names) for b in names[:i]]
    lines = compared_text([f"{each.a} against {each.b}" for each in fairness], fairness, [], [], "h")
    assert [line for line in lines if "against" in line] == [f"  p{i} against p0" for i in range(1, 5)]
    assert lines[-1] == "6 more pairs: --json or --report"


def test_without_a_job_one_line_says_so():
    assert compared_text(["x"], [fair(jobs=0, later=0)], [], [], "h") == ["no job ran, so there is nothing to compare"]


def test_names_that_would_turn_the_terminal_upside_down_do_not_reach_it():
    evil = "\x1b[31m\u202e" + "x" * 10_000
    wait = LongWait(policy=evil, job=evil, user=evil, cpus=1, submit_s=0, wait_s=1, run_s=1, reason="head")
    text = "\n".join(compared_text([evil], [fair(worst_user=evil)], [replace(wait, policy="easy")], [], "h"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "job ?[31m?xxx" in text
