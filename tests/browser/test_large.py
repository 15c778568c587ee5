"""A log of 300,000 jobs: drawn in under 2 s, moved at 30 frames a second or better; the best of a few tries counts, as
other work may share the processors."""

from pathlib import Path

import numpy as np
import pytest

import backfill as bf
from backfill.model.workload import Jobs, Labels, Workload
from backfill.report.outcome import Outcome
from backfill.report.write import write_report
from tests.browser.test_chart import soon

CHART = "document.getElementById('gantt').section.chart"
JOBS = 300_000
TRIES = 3


def many_jobs() -> Workload:
    """Jobs of many sizes and lengths on a machine of 20,000 processors that is about four fifths busy."""
    draw = np.random.default_rng(1)
    procs = np.minimum(2 ** draw.integers(0, 12, JOBS), 2048)
    run = np.exp(draw.normal(6.5, 1.8, JOBS)).astype(np.int64).clip(1, 86_400)
    length = int((procs * run).sum() / 20_000 / 0.8)
    return Workload(
        Jobs(
            job=np.arange(1, JOBS + 1),
            submit=np.sort(draw.integers(0, length, JOBS)) * 10**6,
            runtime=run * 10**6,
            walltime=(run * draw.uniform(1, 5, JOBS)).astype(np.int64) * 10**6,
            demand=procs[:, None].astype(np.int64),
            user=Labels.of([f"u{n}" for n in draw.integers(0, 400, JOBS)]),
        ),
        name="many",
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "out.html"
    log, pool = many_jobs(), bf.Platform.pool(20_000)
    policies = ("fcfs", "easy", "easy-sjbf", "easy-sjf")
    write_report(path, Outcome.of([bf.simulate(log, pool, policy=policy) for policy in policies]))
    return path


def test_300_000_jobs_under_four_policies_are_below_10_mb(large):
    assert large.stat().st_size < 10_000_000


@pytest.mark.long  # how fast it is, is a matter of the machine and of what else it does
def test_300_000_jobs_draw_in_under_2_seconds(open_page, large):
    took = []
    for _ in range(TRIES):
        page = open_page(large)
        took.append(int(page.get_attribute("#gantt", "data-ready")))
        page.close()
        if took[-1] < 2000:
            break
    assert min(took) < 2000, took


# Frames a second while something moves there and back for sixty of them.
FRAMES = """(how) => new Promise((done) => {
  const chart = document.getElementById('gantt').section.chart, times = [];
  const moves = {
    sideways: (there) => chart.pan(there ? 0.01 : -0.01),
    down: (there) => chart.pan(0, there ? 0.01 : -0.01),
    zoom: (there) => chart.zoom(there ? 1.03 : 1 / 1.03),
  };
  let n = 0;
  const frame = (now) => {
    times.push(now);
    if (n++ === 60) return done(1000 * 60 / (times[60] - times[0]));
    moves[how](n % 30 < 15);
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["sideways", "down", "zoom"])
@pytest.mark.parametrize("zoom", [1.2, 20, 400])
def test_300_000_jobs_move_at_30_frames_a_second(open_page, large, zoom, how):
    page = open_page(large)
    page.evaluate(f"{CHART}.zoom({zoom}, 0.5, 1.2)")
    rates = []
    for _ in range(TRIES):
        rates.append(page.evaluate(FRAMES, how))
        if rates[-1] >= 30:
            break
    print(f"{how} at {zoom:g}: {max(rates):.0f} frames a second")
    assert max(rates) >= 30, rates


def test_a_picture_that_was_stretched_becomes_exact(open_page, large):
    page = open_page(large)
    page.evaluate(f"() => {{ const chart = {CHART}; chart.took = 1000; chart.zoom(1.3); }}")
    page.wait_for_timeout(600)
    soon(page, f"{CHART}.stretched === null")
    assert page.evaluate(
        f"""() => {{ const chart = {CHART}, canvas = chart.raster.canvas, see = () =>
              canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const settled = see(); chart.drawn = null; chart.draw(); const anew = see();
            return chart.stretched === null && settled.every((value, i) => value === anew[i]); }}"""
    )


def test_a_chart_is_laid_out_and_drawn_once_as_the_page_opens(browser, large):
    session = (context := browser.new_context(viewport={"width": 1280, "height": 900})).new_page()
    profiler = context.new_cdp_session(session)
    profiler.send("Profiler.enable")
    profiler.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": False})
    session.goto(large.as_uri())
    session.wait_for_selector("#gantt[data-ready]")
    session.wait_for_timeout(300)
    calls = {
        function["functionName"]: function["ranges"][0]["count"]
        for script in profiler.send("Profiler.takePreciseCoverage")["result"]
        for function in script["functions"]
    }
    context.close()
    assert (calls["layOut"], calls["put"]) == (1, 1)  # one of the four policies is shown at first; `put` is a picture
