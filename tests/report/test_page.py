import os
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from backfill.analysis.metrics import metrics
from backfill.analysis.series import Binned
from backfill.model.errors import BackfillError
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Ragged, Workload
from backfill.report.chart import count_chart, share_chart
from backfill.report.page import Provenance, render, write_page
from backfill.report.shown import Shown

POOL = Platform.pool(4)
COMMAND = "backfill compare log.swf --policy fcfs --policy easy"
MADE = Provenance(version="0.1.0", seed=7, command=COMMAND, hashes={"log.swf": "ab" * 32}, notes=["2 jobs dropped."])


def shown(policy: str, starts: list[int]) -> Shown:
    """Jobs of one hour on two of four processors, all submitted at 0."""
    n = len(starts)
    whole = Workload(Jobs(job=np.arange(n), submit=np.zeros(n, np.int64), runtime=np.full(n, 3600 * SECOND),
                          walltime=np.full(n, 3600 * SECOND), demand=np.full((n, 1), 2)))  # fmt: skip
    start = np.array(starts, np.int64) * 3600 * SECOND
    zero = np.zeros(n, np.int8)
    schedule = Schedule(job=whole.jobs.job, submit=whole.jobs.submit, start=start, end=start + whole.jobs.runtime,
                        state=zero, reason=zero, rejected_for=np.array([""] * n), eligible=whole.jobs.submit,
                        promise=np.full(n, NO_TIME), nodes=POOL.nodes, held=Ragged.of([[0, 1]] * n))  # fmt: skip
    return Shown.of(policy, metrics(whole, POOL, schedule), whole, POOL, schedule)


FIGURES = 5  # waits, slowdowns, utilization, queue, jobs in the system
RESULTS = [shown("fcfs", [0, 1, 2]), shown("easy", [0, 0, 1])]


class Parsed(HTMLParser):
    """The page as a browser sees it; its tags must close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "path", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style" and data.strip():
            self.texts.append(" ".join(data.split()))


def test_the_page_tells_results_and_where_they_come_from():
    page = Parsed(render("Two policies", RESULTS, MADE))
    for text in ("Two policies", "fcfs", "easy", "bounded slowdown", "rejected jobs", "most 2", "75.0%"):
        assert text in page.texts
    for text in ("backfill 0.1.0, seed 7. Made by", COMMAND, "log.swf", ": SHA-256", "ab" * 32, "2 jobs dropped."):
        assert text in page.texts


def test_each_chart_has_a_line_per_policy_named_in_its_legend():
    page = Parsed(render("t", RESULTS, MADE))
    lines = [attrs["d"] for tag, attrs in page.tags if tag == "path" and (attrs["class"] or "").startswith("line")]
    assert sum(d == "M0 6H32" for d in lines) == 2 * FIGURES  # legends
    assert sum(d != "M0 6H32" for d in lines) == 2 * FIGURES
    assert page.texts.count("hours since the first submit") == 3


def test_twenty_lines_look_different():
    page = Parsed(render("t", [RESULTS[0]] * 20, MADE))
    looks = {attrs["class"] for tag, attrs in page.tags if tag == "path" and (attrs["class"] or "").startswith("line")}
    assert len(looks) == 20


def test_the_page_needs_nothing_from_outside_and_runs_nothing():
    page = render("t", RESULTS, MADE)
    assert {tag for tag, _ in Parsed(page).tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bsrc=|\bhref=\"[^#]|\bon\w+=", page, re.IGNORECASE)


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}'


def test_hostile_names_are_text():
    bad = Provenance(version=HOSTILE, seed=0, command=HOSTILE, hashes={HOSTILE: HOSTILE}, notes=[HOSTILE])
    odd = replace(RESULTS[0], policy=HOSTILE, metrics=RESULTS[0].metrics | {HOSTILE: 1})
    page = Parsed(render(HOSTILE, [odd], bad))
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in Parsed(render("t", RESULTS, MADE)).tags}
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in page.tags for name in attrs)
    assert page.texts.count(HOSTILE) >= 6


def test_a_page_of_nothing_and_a_page_of_no_jobs():
    assert "No results" in Parsed(render("No results", [], MADE)).texts
    assert "-" in Parsed(render("t", [shown("easy", [])], MADE)).texts


def test_the_same_results_give_the_same_bytes():
    assert render("t", RESULTS, MADE) == render("t", RESULTS, MADE)


def test_the_file_is_written_whole_and_alone(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("old")
    write_page(path, "Übersicht", RESULTS, MADE)
    assert path.read_text(encoding="utf-8") == render("Übersicht", RESULTS, MADE)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BackfillError, match=r"out\.html: cannot be written: No space left on device"):
        write_page(path, "t", RESULTS, MADE)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_never_replaced(tmp_path):
    path = tmp_path / "out.html"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_page(path, "t", RESULTS[:1], MADE)
        assert os.read(reader, 15).lower() == b"<!doctype html>"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_folder_that_is_not_there_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(BackfillError, match=r"absent/out\.html: cannot be written: there is no such folder"):
        write_page(tmp_path / "absent" / "out.html", "t", RESULTS, MADE)


# charts


def binned(means: list[float], length: float = 4 * 3600) -> Binned:
    edges = np.linspace(0, length * SECOND, len(means) + 1).astype(np.int64)
    return Binned(edges, np.array(means), np.ceil(means).astype(np.int64))


def test_a_share_is_drawn_from_0_to_100_percent():
    chart = share_chart([binned([0, 2, 4, 1])], [4])
    assert chart.paths == ["M125.0 1000.0L375.0 500.0L625.0 0.0L875.0 750.0"]
    assert [tick.text for tick in chart.y_ticks] == ["0%", "25%", "50%", "75%", "100%"]
    assert [(tick.at, tick.text) for tick in chart.x_ticks] == [(25.0 * i, str(i)) for i in range(5)]
    assert chart.x_unit == "hours"


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
    empty = Binned(np.zeros(1, np.int64), np.zeros(0), np.zeros(0, np.int64))
    assert count_chart([empty]).paths == share_chart([empty], [0]).paths == [""]
    assert count_chart([]).paths == []
