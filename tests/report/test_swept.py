"""The section of a page about estimates that get worse."""

import re

import pytest

import backfill as bf
from backfill.report.page import render
from backfill.report.saved import load
from backfill.report.swept import swept

LOG = bf.generate("lublin?jobs=300&cpus=64&seed=2")


@pytest.fixture(scope="module")
def found():
    return bf.sweep_estimates(LOG, None, ["fcfs", "easy"], ["exact", "under:0.5", "under:1"], overrun="extend")


def test_the_page_tells_who_waits_longer_and_how_far_promises_slip(found, tmp_path):
    found.report(tmp_path / "out.html", "backfill compare ...")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    section = re.search(r'<section id="estimates">.*?</section>', page, re.DOTALL)[0]
    titles = re.findall(r"<h3>(.*?)</h3>", section)
    assert titles == ["Mean wait", "Jobs that start later", "Promises that slip", "How far they slip"]
    assert section.count("<tr>") == 1 + 2 * 3
    assert '<a href="#estimates">wrong estimates</a>' in page
    assert "The rest of this page is about <code>exact</code> estimates." in section
    found.save(tmp_path / "kept", "backfill compare ...")
    assert render(load(tmp_path / "kept")) == page


def test_figures_and_table_have_the_numbers_of_the_sweep(found):
    rows = found.rows()
    told = swept({"kinds": list(found.kinds), "rows": rows}, "s")
    wait, later, _, slip = told["figures"]
    assert slip["notes"] == ["promises no starts", ""]
    assert slip["chart"].paths[0] == ""
    heights = {
        policy: [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", path)]
        for policy, path in zip(["fcfs", "easy"], wait["chart"].paths, strict=True)
    }
    _, top, unit, *names = wait["chart"].scale.split()
    assert (unit, names) == ("s", list(found.kinds))
    for row in rows:
        up = 1 - heights[row["policy"]][names.index(row["estimates"])] / 1000
        assert up * float(top) == pytest.approx(row["mean_wait_s"], rel=0.01)
    assert later["chart"].x_ticks[0].text == "exact"
    last = told["rows"][-1]
    assert last[0] == "easy"
    assert last[2][2] == f"{rows[-1]['later_share']:.1%}"
    assert rows[-1]["worst_class"] in last[3][0]
    assert told["rows"][0][3] == []


def test_without_promises_there_is_no_figure_of_them():
    found = bf.sweep_estimates(LOG, None, ["fcfs", "first-fit"], ["exact", "over:1"])
    told = swept({"kinds": list(found.kinds), "rows": found.rows()}, "min")
    assert [each["title"] for each in told["figures"]] == ["Mean wait", "Jobs that start later"]
