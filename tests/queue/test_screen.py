"""What `top` and `queue` show on a terminal of some width, and what keys do."""

import io

import pytest
from rich.console import Console

from backfill.client.printing import SPARED, fitting, print_queue
from backfill.client.top import View, frame

ALL = ["JOB", "NAME", "USER", "STATE", "NEEDS", "ELAPSED", "LEFT", "GUARANTEED", "LIKELY", "90", "%", "WHY"]


def job(number, **facts):
    return {
        "label": f"{number}_[0-99]", "name": "fit", "user": "ana", "state": "PENDING", "need": {"cpus": 1},
        "start_s": None, "end_s": None, "limit_s": 60.0, "guaranteed_s": None,
        "median_s": 90.0, "p90_s": 120.0, "reason": "Resources",
    } | facts  # fmt: skip


def queue(jobs):
    return {"now_s": 1.0, "jobs": jobs, "held": {}, "capacity": {"cpus": 4}, "policy": "easy", "asked_policy": "easy",
            "planner": "ready", "estimates": {"age_s": 12.0, "current": True}, "states": {"PENDING": len(jobs)},
            "more": 0, "licences": {}, "paused": False}  # fmt: skip


def drawn(columns, count=1, lines=30, view=None):
    console = Console(width=columns, file=io.StringIO())
    console.print(frame(queue([job(i) for i in range(count)]), lines, columns, view))
    return console.file.getvalue().splitlines()


def test_columns_that_do_not_fit_are_left_out_and_those_that_stay_are_whole():
    assert drawn(120)[2].split() == ALL
    assert drawn(84)[2].split() == [head for head in ALL if head not in ("USER", "NEEDS")]
    for columns in range(44, 120):
        lines = drawn(columns)
        assert max(map(len, lines)) <= columns
        assert lines[3].split()[0] == "0_[0-99]"
    assert drawn(44)[2].split()[:2] == ["JOB", "STATE"]
    assert "estimates 12 s old" in drawn(80)[-1]


def test_a_table_without_a_terminal_keeps_all_columns():
    lines = [["JOB", *SPARED, "WHY"], ["1", *("x" * 40 for _ in SPARED), "Resources"]]
    assert fitting(lines, None) == [*range(len(SPARED) + 2)]
    assert [lines[0][column] for column in fitting(lines, 20)] == ["JOB", "WHY"]


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_the_queue_fits_the_terminal_and_says_what_it_leaves_out(capsys, monkeypatch, columns):
    monkeypatch.setattr("backfill.client.printing.terminal_width", lambda: columns)
    print_queue(queue([job(7)]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines[0]) <= columns
    assert lines[1].split()[0] == "7_[0-99]"
    assert lines[2].startswith("left out on a terminal this narrow: ") == ("MEM" in lines[2]) == (columns < 100)


def test_keys_scroll_and_never_beyond_the_ends():
    view = View()
    first = []
    for key in ("\x1b[B", "j", "\x1b[6~", "\x1b[A", "G", " ", "k", "g", "k", "\x1b[5~"):
        assert view.press(key, 20)
        drawn(120, 100, 20, view)
        first.append(view.first)
    assert first == [1, 2, 12, 11, 87, 87, 86, 0, 0, 0]
    assert not view.press("q", 20)


def test_a_filter_chooses_jobs_by_any_of_their_words():
    view = View()
    for key in ("/", "A", "n", "x", "\x7f"):
        assert view.press(key, 20)
    assert view.filters().startswith("/An_")
    jobs = [job(1), job(2, user="bob"), job(3, user="bob", reason="JobHeldUser and")]
    assert [one["label"][0] for one in view.chosen(jobs)] == ["1", "3"]
    assert view.press("\r", 20)
    assert view.filters().startswith("only 'An'")
    assert view.press("\x1b", 20)
    assert len(view.chosen(jobs)) == 3


def test_q_is_a_letter_of_a_filter():
    view = View()
    assert view.press("/", 20)
    assert view.press("q", 20)
    assert view.wanted == "q"
