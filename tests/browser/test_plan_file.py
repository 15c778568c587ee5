"""The plan of a queue as a file: the chart without a queue or a network."""

import re

import pytest

from backfill.web.offline import page as page_of
from tests.queue.test_gantt import HELD, LANES, RAN, RUNS, WAITS, plan

HOSTILE = "</script><script>alert(1)</script><b a=\"'&amp;"
SECTION = "document.getElementById('plan').section"


@pytest.fixture
def found():
    """A plan whose jobs have all that the page asks for."""
    more = {"project": "", "need": {"cpus": 1}, "array": None, "submit_s": 0.0, "grace_s": 0.0, "promise_s": None,
            "why": "head", "slip": "", "cpu_ids": []}  # fmt: skip
    over = {**more, **RAN, "id": 1, "name": HOSTILE, "limit_s": 3600.0}
    runs = {**more, **RUNS, "id": 2, "limit_s": 3600.0, "suspended": False}
    waits = [
        {**more, **bar, "id": number, "latest_end_s": None, "likely_end_s": None, "misses_deadline": None,
         "begin_s": None, "deadline_s": None}
        for number, bar in ((3, WAITS), (4, HELD))
    ]  # fmt: skip
    waits[0]["latest_end_s"] = waits[0]["planned_s"] + 3600
    found = plan(past=[over], running=[runs], pending=waits, lanes=LANES, estimates=None, seq=7)
    for each in found["reservations"]:
        each.update(nodes=[["n1", {"cpus": 2}, False]], user="ana", group="", project="", open=False)
    return found


def test_the_file_has_all_that_it_needs_and_escapes_what_came_from_outside(found):
    text = page_of(found, False)
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "<script>alert" not in text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


def test_the_chart_of_the_file_tells_of_each_job(open_page, found, tmp_path):
    path = tmp_path / "plan.html"
    path.write_text(page_of(found, False), encoding="utf-8")
    shown = open_page(path, chart=False)
    shown.wait_for_function(f"{SECTION} !== undefined")
    assert shown.evaluate(f"{SECTION}.data.bars.map((bar) => bar.label)") == ["1", "2", "3"]  # 4 has no start yet
    keys = shown.locator("#plan .key").text_content()
    assert all(text in keys for text in ("completed", "runs", "until its limit", "planned", "guaranteed start", "now"))
    shown.locator("#plan canvas.front").press("n")
    told = shown.locator("#plan output").text_content()
    assert "2 runs" in told
    assert "likely until" in told
    assert shown.locator("#plan .chosen").count() == 0  # there is no page of a job
    shown.locator("#plan canvas.front").press("Enter")
    assert shown.url == path.as_uri()
    rows = [row.split() for row in shown.locator("table.jobs tbody tr").all_text_contents()]
    assert len(rows) == 4
    assert shown.locator("table.jobs tbody tr").nth(3).locator("td").first.text_content() == HOSTILE
