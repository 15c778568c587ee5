"""The chart of jobs that take turns on the processors: in each row in which they run, for as long as they do."""

import pytest

import backfill as bf
from backfill.report.rows import drawn, lay_out
from tests.report.test_gantt import MOVES, ONE_LICENCE, of_matrix

CHART = "document.getElementById('gantt').section.chart"


def pieces(page):
    return page.evaluate(
        f"""() => {{ const {{ job, low, high, count }} = {CHART}.schedule.pieces;
            return Array.from({{ length: count }}, (_, k) => [job[k], low[k], high[k]]); }}"""
    )


@pytest.fixture
def moves(open_page, tmp_path):
    result = of_matrix(MOVES, "gang-matrix:mpl=2,switch=0,alternative=false", ONE_LICENCE)
    result.report(tmp_path / "out.html")
    return result, open_page(tmp_path / "out.html")


def test_a_job_that_moves_to_another_row_is_found_where_it_ran_when_it_did(moves):
    result, page = moves
    assert pieces(page) == lay_out(result.workload, result.platform, result.schedule).tolist()
    at = f"""([t, row]) => {{ const chart = {CHART}, {{ width, height, scale }} = chart, job = chart.jobAt(
        64 + (t / chart.ticks) * width / scale, (row / chart.rows) * height / scale);
        return job < 0 ? "" : chart.data.jobName(job); }}"""
    assert [page.evaluate(at, [50, row]) for row in (1, 3, 5, 7, 8.5)] == ["1", "2", "3", "4", "3"]
    assert [page.evaluate(at, [125, row]) for row in (1, 3, 5, 7, 8.5)] == ["1", "3", "", "", "3"]


def test_a_job_tells_in_which_rows_it_ran_and_how_long_it_stayed_for_its_run_time(moves):
    from playwright.sync_api import expect

    _, page = moves
    page.locator("input[type=search]").fill("3")
    expect(page.locator("#gantt output")).to_contain_text("took turns in rows 1 and 2; it stayed for 2.5 min")
    expect(page.locator("#gantt output")).to_contain_text("ran 100 s of 3.3 min requested")
    assert "the chart has the processors once for each row" in " ".join(page.locator("#gantt").text_content().split())


def test_the_next_job_is_another_job_also_where_jobs_have_several_boxes(moves):
    _, page = moves
    page.locator("#gantt canvas.front").first.focus()
    seen = []
    for _ in range(4):
        page.keyboard.press("n")
        seen.append(page.evaluate(f"{CHART}.data.jobName({CHART}.chosen)"))
    assert seen == ["3", "1", "2", "4"]  # the box of the licence of job 3 comes first


def test_the_browser_lays_rows_that_take_turns_out_as_the_figures_do_beside_a_policy_without_them(open_page, tmp_path):
    log, platform = bf.generate("lublin?jobs=150&cpus=32&load=1.1&seed=3"), bf.Platform.pool(32, nodes=4)
    compared = bf.compare(log, platform, ["gang-matrix:mpl=3", "easy"])
    compared.report(tmp_path / "out.html")
    page, (matrix, easy) = open_page(tmp_path / "out.html"), compared.results
    for place, result in enumerate((matrix, easy)):
        page.evaluate(f"{CHART}.show({place})")
        assert pieces(page) == lay_out(log, platform, result.schedule).tolist()
    assert len(drawn(matrix.schedule)) > 2 * len(log)
