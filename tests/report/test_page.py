import base64
import contextlib
import hashlib
import os
import re
import stat
import threading
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.metrics import metrics
from backfill.analysis.series import Steps
from backfill.model.errors import BackfillError
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Ragged, Workload
from backfill.report.page import Page, PolicyRun, Provenance, render, write_page
from backfill.report.shown import Used

POOL = Platform.pool(4)
COMMAND = "backfill compare log.swf --policy fcfs --policy easy"
MADE = Provenance(version="0.1.0", seed=7, command=COMMAND, hashes={"log.swf": "ab" * 32}, notes=["2 jobs dropped."])


def ran(starts: list[int]) -> tuple[Workload, Schedule]:
    """Jobs of one hour on two of four processors, all submitted at 0."""
    n = len(starts)
    whole = Workload(Jobs(job=np.arange(n), submit=np.zeros(n, np.int64), runtime=np.full(n, 3600 * SECOND),
                          walltime=np.full(n, 3600 * SECOND), demand=np.full((n, 1), 2)))  # fmt: skip
    start = np.array(starts, np.int64) * 3600 * SECOND
    zero = np.zeros(n, np.int8)
    schedule = Schedule(job=whole.jobs.job, submit=whole.jobs.submit, start=start, end=start + whole.jobs.runtime,
                        state=zero, reason=zero, rejected_for=np.array([""] * n), eligible=whole.jobs.submit,
                        promise=np.full(n, NO_TIME), nodes=POOL.nodes, held=Ragged.of([[0, 1]] * n))  # fmt: skip
    return whole, schedule


def page_of(runs: dict[str, list[int]], title: str = "t", made: Provenance = MADE, **more: Any) -> Page:
    """The page of policies, each with the hours at which its jobs start."""
    found = [(policy, *ran(starts)) for policy, starts in runs.items()]
    each = [PolicyRun(policy, metrics(whole, POOL, schedule), schedule) for policy, whole, schedule in found]
    return Page.of(title, each, made, found[0][1] if found else None, POOL, **more)


FIGURES = 5  # waits, slowdowns, utilization, queue, jobs in the system
TWO = {"fcfs": [0, 1, 2], "easy": [0, 0, 1]}


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
        if self.open and self.open[-1] not in ("style", "script") and data.strip():
            self.texts.append(" ".join(data.split()))


def test_the_page_tells_results_and_where_they_come_from():
    page = Parsed(render(page_of(TWO, "Two policies")))
    for text in ("Two policies", "fcfs", "easy", "bounded slowdown", "rejected jobs", "peak 2", "75.0%"):
        assert text in page.texts
    for text in ("backfill 0.1.0, seed 7. Made by", COMMAND, "log.swf", ": SHA-256", "ab" * 32, "2 jobs dropped."):
        assert text in page.texts


def test_each_chart_has_a_line_per_policy_named_in_its_legend():
    page = Parsed(render(page_of(TWO)))
    lines = [attrs["d"] for tag, attrs in page.tags if tag == "path" and (attrs["class"] or "").startswith("line")]
    assert sum(d == "M0 6H32" for d in lines) == 2 * FIGURES  # legends
    assert sum(d != "M0 6H32" for d in lines) == 2 * FIGURES
    assert page.texts.count("hours since the first submit") == 6  # below a figure and above its table


def test_twenty_lines_look_different():
    page = Parsed(render(page_of({f"p{i}": [0, 1, 2] for i in range(20)})))
    looks = {attrs["class"] for tag, attrs in page.tags if tag == "path" and (attrs["class"] or "").startswith("line")}
    assert len(looks) == 20


def test_the_page_needs_nothing_from_outside():
    page = render(page_of(TWO))
    assert {tag for tag, _ in Parsed(page).tags}.isdisjoint({"link", "img", "iframe", "object", "base"})
    assert not re.search(r"https?:|//[a-z]|@import|url\(|\bsrc=|\bhref=\"[^#]|\bon\w+=", page, re.IGNORECASE)


def test_the_page_lets_the_browser_run_its_own_script_and_nothing_else():
    page = render(page_of(TWO))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert policy is not None
    assert len(scripts) == 1
    ours = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert policy[1] == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{ours}'"


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}'
NASTY = [HOSTILE, "</script><script>alert(1)</script>", "\u202egnol\u202c", "x" * 10_000, "'-->]]>\ud800", "עברית"]


@pytest.mark.parametrize("name", NASTY, ids=["html", "script", "rtl mark", "long", "odd", "hebrew"])
def test_hostile_names_are_text(name):
    bad = Provenance(version=name, seed=0, command=name, hashes={name: name}, notes=[name])
    page = page_of({name: [0, 1, 2]}, name, bad)
    whole = page.ran[0]
    labels = Labels.of([name] * 3)
    named = Workload(whole.jobs.replace(user=labels, group=labels, job=np.array([name + str(i) for i in range(3)])))
    page = Page.of(name, page.runs, bad, named, POOL)
    text = render(page)
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.tags} <= {tag for tag, _ in Parsed(render(page_of(TWO))).tags} | {"datalist"}
    assert len(re.findall("<script", text)) == 2
    for _, attrs in parsed.tags:
        assert not any(each.startswith("on") or each == "src" for each in attrs)
        assert (attrs.get("href") or "#").startswith("#")
    assert sum(shown.startswith(name[:10]) for shown in parsed.texts) >= 6


def test_names_stand_in_their_own_direction_and_are_cut():
    text = render(page_of({"x" * 10_000: [0], "\u202egnol": [0]}))
    assert "<bdi>\u202egnol</bdi>" in text
    assert max(map(len, Parsed(text).texts)) < 2000
    assert len(text) < 200_000


def test_a_page_of_nothing_and_a_page_of_no_jobs():
    assert "No results" in Parsed(render(page_of({}, "No results"))).texts
    assert "rejected jobs" in Parsed(render(page_of({"easy": []}))).texts


def test_a_page_of_no_jobs_says_so_and_leaves_out_what_would_be_empty():
    text = render(page_of({"easy": [], "fcfs": []}))
    page = Parsed(text)
    assert "There is no job, so there is nothing to show." in page.texts
    assert [attrs["href"] for tag, attrs in page.tags if tag == "a"] == ["#metrics", "#provenance"]
    assert "-" not in page.texts
    assert {"svg", "canvas", "script"}.isdisjoint(tag for tag, _ in page.tags)
    assert "There is no job" not in render(page_of(TWO))


def test_lines_over_time_stand_in_tables_too_and_are_told():
    page = Parsed(render(page_of(TWO)))
    assert sum(text.endswith(", as a table") for text in page.texts) == 3
    labels = [attrs["aria-label"] for tag, attrs in page.tags if attrs.get("role") == "img"]
    labels = [label for label in labels if not label.startswith("Jobs waiting")]
    assert labels[:4] == [
        "Queue length over time. fcfs: 1.0 on average, at most 2; easy: 0.3 on average, at most 1",
        "Share of jobs that wait longer, by wait. "
        "fcfs: half of the jobs above 60.0 min, at most 120.0 min; "
        "easy: half of the jobs above 0 min, at most 60.0 min",
        "Share of jobs with a greater bounded slowdown, by bounded slowdown. "
        "fcfs: half of the jobs above 2.000, at most 3.000; easy: half of the jobs above 1.000, at most 2.000",
        "Utilization over time. fcfs: 50.0% on average; easy: 50.0% on average",
    ]


def test_every_licence_has_a_curve_and_a_row():
    farm = bf.generate("farm?machines=6&licences=12&jobs=60&interarrival=30")
    results = [bf.simulate(farm, policy=name) for name in ("fcfs", "bf-mod")]
    page = Parsed(
        render(Page.of("t", [PolicyRun(r.name, r.metrics, r.schedule) for r in results], MADE, farm, farm.platform))
    )
    plots = [fields["aria-label"] for tag, fields in page.tags if fields.get("class") == "plot"]
    curves = [label for label in plots if label.startswith("Use of licence")]
    assert len(curves) == 12
    held = [copies_held(r, farm) for r in results]
    span = max(int(r.schedule.end.max()) for r in results) - int(farm.jobs.submit.min())
    for licence, name in enumerate(farm.platform.licences):
        shares = [f"{each[licence] / span / farm.platform.copies[licence]:.1%}" for each in held]
        label = next(label for label in curves if label.startswith(f"Use of licence {name} "))
        assert label.endswith(f" fcfs: {shares[0]} on average; bf-mod: {shares[1]} on average")
        row = page.texts.index(name, page.texts.index("total"))
        assert page.texts[row + 2 : row + 6 : 2] == shares
    assert "4 more, used less" in page.texts


MEMORY = [(1, 9), (4, 2), (1, 1), (2, 6), (1, 2), (4, 4)]  # cpus, memory of each job, an hour long


def with_memory(memory: int = 10) -> tuple[Parsed, list[PolicyRun]]:
    """The page, and the runs, of some jobs on two nodes of 4 cpus and so much memory."""
    n, hour = len(MEMORY), 3600 * SECOND
    jobs = Jobs(job=np.arange(n), submit=np.zeros(n, np.int64), runtime=np.full(n, hour), walltime=np.full(n, hour),
                demand=np.array(MEMORY))  # fmt: skip
    log, pool = Workload(jobs, resources=("cpus", "memory")), Platform.pool(8, nodes=2, memory=2 * memory)
    results = [bf.simulate(log, pool, policy=name) for name in ("easy", "ibb", "bb", "backfill-lowest")]
    runs = [PolicyRun(r.name, r.metrics, r.schedule) for r in results]
    return Parsed(render(Page.of("t", runs, MADE, log, pool))), runs


def labels(page: Parsed) -> list[str | None]:
    return [fields["aria-label"] for _, fields in page.tags if fields.get("class") == "plot"]


def test_use_what_is_unusable_and_imbalance_are_drawn_and_their_means_are_the_metrics():
    page, runs = with_memory()

    def told(name, form):
        return "; ".join(f"{run.policy}: {format(run.metrics[name], form)} on average" for run in runs)

    assert labels(page)[-5:] == [
        "Use of resource cpus over time. " + told("utilization", ".1%"),
        "Free but unusable cpus over time. " + told("fragmentation_cpus", ".1%"),
        "Use of resource memory over time. " + told("utilization_memory", ".1%"),
        "Free but unusable memory over time. " + told("fragmentation_memory", ".1%"),
        "Imbalance of the resources over time. " + told("imbalance", ".3f"),
    ]
    assert page.texts.count("free but unusable") == 2
    assert "nothing is ever free but unusable" not in " ".join(page.texts)


def test_a_resource_that_is_always_usable_has_no_flat_figure_and_a_sentence():
    page, _ = with_memory(memory=1000)
    drawn = [label.split(". ")[0] for label in labels(page)[-4:]]
    assert drawn == [
        "Use of resource cpus over time",
        "Use of resource memory over time",
        "Free but unusable memory over time",
        "Imbalance of the resources over time",
    ]
    assert "Of cpus nothing is ever free but unusable." in " ".join(page.texts)


def test_where_cpus_are_all_there_is_nothing_is_said_of_resources():
    page = Parsed(render(page_of(TWO)))
    assert not any("Imbalance" in text or "unusable" in text for text in page.texts)


def copies_held(result, farm) -> list[int]:
    """Microseconds x copies of each licence."""
    length = result.schedule.end - result.schedule.start
    return [
        sum(int(length[job]) for job in range(len(farm)) if licence in farm.jobs.licences[job])
        for licence in range(len(farm.licences))
    ]


def test_a_licence_counts_as_all_in_use_only_while_every_copy_is():
    held = Steps(np.array([0, 10, 20, 40]), np.array([1, 2, 1, 0]))
    assert Used.of("l", 2, held, (0, 100)).all_held == 0.1
    assert Used.of("l", 1, held, (5, 25)).all_held == 1
    assert Used.of("l", 3, held, (0, 100)).all_held == 0


def test_the_same_results_give_the_same_bytes():
    assert render(page_of(TWO)) == render(page_of(TWO))


def test_a_page_without_schedules_has_tables_only():
    runs = [PolicyRun(run.policy, run.metrics) for run in page_of(TWO).runs]
    page = Parsed(render(Page.of("t", runs, MADE)))
    assert {"canvas", "figure"}.isdisjoint(tag for tag, _ in page.tags)
    assert "bounded slowdown" in page.texts


def test_the_file_is_written_whole_and_alone(tmp_path):
    path = tmp_path / "out.html"
    path.write_text("old")
    write_page(path, page_of(TWO, "Übersicht"))
    assert path.read_text(encoding="utf-8") == render(page_of(TWO, "Übersicht"))
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out.html"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BackfillError, match=r"out\.html: cannot be written: No space left on device"):
        write_page(path, page_of(TWO))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_never_replaced(tmp_path):
    path = tmp_path / "out.html"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    begins: list[bytes] = []
    other = threading.Thread(target=lambda: begins.append(drained(reader)))
    other.start()
    try:
        write_page(path, page_of(TWO))
    finally:
        other.join(10)
        os.close(reader)
    assert begins[0].lower().startswith(b"<!doctype html>")
    assert stat.S_ISFIFO(path.stat().st_mode)


def drained(pipe: int) -> bytes:
    """Return the data of a pipe until the end of a page."""
    seen = b""
    while b"</html>" not in seen:
        with contextlib.suppress(BlockingIOError):
            seen += os.read(pipe, 65_536)
    return seen


def test_a_folder_that_is_not_there_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(BackfillError, match=r"absent/out\.html: cannot be written: there is no such folder"):
        write_page(tmp_path / "absent" / "out.html", page_of(TWO))


# charts
