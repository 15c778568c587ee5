"""The chart of a grid: sites are parted, and colours tell at first why jobs started."""

import pytest

import backfill as bf


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid") / "out.html"
    bf.simulate(bf.generate("grid?jobs=300&local=12&seed=5"), policy="gang-span").report(path)
    return path


def test_the_chart_begins_with_why_jobs_started_and_says_how_sites_and_gangs_are_drawn(open_page, busy):
    page = open_page(busy)
    assert page.locator("#gantt [name=colour]").input_value() == "why"
    words = page.locator("#gantt .key").inner_text()
    assert "backfilled" in words
    assert "gang" in words
    assert "the processors of a gang are joined" in page.locator("#gantt > p").first.inner_text()


def test_sites_are_parted_by_a_line_across_the_chart(open_page, busy):
    page = open_page(busy)
    dark = page.evaluate(
        """() => {
        const canvas = document.querySelector('#gantt canvas.front'), scale = canvas.width / canvas.clientWidth;
        const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, rows = new Set();
        const left = Math.round(70 * scale), right = canvas.width - 70, bottom = canvas.height - 40 * scale;
        for (let y = 3; y < bottom; y++) {
            let strong = 0;
            for (let at = 4 * (y * canvas.width + left); at < 4 * (y * canvas.width + right); at += 4) {
                strong += all[at + 3] > 200 && all[at] < 100;  // of the colour of the text, unlike the lines of lanes
            }
            if (strong > 0.95 * (right - left)) rows.add(Math.round(y / scale / 4));
        }
        return rows.size;
    }"""
    )
    assert 1 <= dark <= 2
