"""The chart of jobs of threads: by project, and where a processor is held and not busy."""

import re

import pytest

import backfill as bf
from backfill.model.units import SECOND

CHART = "document.getElementById('gantt').section.chart"


@pytest.fixture(scope="module")
def result():
    log = bf.generate("threads?jobs=12&cpus=8&linked=0.5&seed=3")
    return bf.simulate(log, log.platform, "thread-matrix")


@pytest.fixture
def page(open_page, result, tmp_path):
    path = tmp_path / "out.html"
    result.report(path)
    return open_page(path)


def test_colours_tell_projects_and_the_legend_what_is_pale(page):
    page.locator("#gantt select[name=colour]").select_option("project")
    legend = page.locator("#gantt .key").text_content()
    assert "different colours: different projects" in legend
    assert "held but not busy" in legend


def test_a_dangling_thread_is_held_until_what_it_comes_after_is_over(page, result):
    from playwright.sync_api import expect

    runs = result.schedule.runs
    held = runs.dangled(result.schedule.ready(result.workload.jobs))
    row = int(held.argmax())
    assert held[row] > SECOND
    page.locator("input[type=search]").fill(str(result.workload.jobs.job[runs.job[row]]))
    expect(page.locator("#gantt output")).to_contain_text("held")
    told = page.locator("#gantt output").text_content()
    assert re.search(r"held [\d.]+ (s|min), until its predecessors had ended", told)
    browser = page.evaluate(f"{CHART}.schedule.dangled[{CHART}.chosen] * {CHART}.data.tick")
    assert browser == pytest.approx(held[row] / SECOND, abs=0.01)


def test_a_held_box_is_paler_than_a_busy_one(page, result):
    """At the middle of what is held, and of what is busy, of the thread that is held longest."""
    row = int(result.schedule.runs.dangled(result.schedule.ready(result.workload.jobs)).argmax())
    mean = f"""(half) => {{
      const chart = {CHART}, {{ schedule, data }} = chart, name = {str(result.workload.jobs.job[row])!r};
      let box = 0; while (data.jobName(box) !== name) box++;
      const start = schedule.start[box], since = start + schedule.dangled[box];
      const [from, to] = half ? [since, schedule.end[box]] : [start, since];
      const k = schedule.pieces.of[box], canvas = chart.raster.canvas;
      const x = Math.round((((from + to) / 2 - chart.from) / chart.ticks) * canvas.width);
      const y = Math.round(((schedule.pieces.low[k] + 0.5 - chart.row) / chart.rows) * canvas.height);
      const [r, g, b] = chart.raster.context.getImageData(x, y, 1, 1).data;
      return r + g + b;
    }}"""
    assert page.evaluate(mean, False) > page.evaluate(mean, True) + 30
