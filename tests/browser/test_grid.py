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


JOINED = """() => {
    const canvas = document.querySelector('#gantt canvas.front'), scale = canvas.width / canvas.clientWidth;
    const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, longest = [];
    for (let x = Math.round(70 * scale); x < canvas.width - 2 * scale; x++) {  // beside the axis and the frame
        let run = 0, most = 0;
        for (let y = 0; y < canvas.height; y++) {
            const at = 4 * (y * canvas.width + x);
            run = all[at + 3] > 200 && all[at] < 100 ? run + 1 : 0;  // of the colour of the text
            most = Math.max(most, run);
        }
        longest.push(most / scale);
    }
    return Math.max(...longest);
}"""


@pytest.mark.parametrize("per_task", [0, 1])
def test_the_processors_of_a_gang_are_joined_also_where_its_tasks_end_one_by_one(open_page, tmp_path, per_task):
    """An upright line from the first processor to the last one: on 3 of the 4 processors, so 2 of 4 rows long."""

    def drawn(gangs):
        path = tmp_path / f"{gangs}.html"
        log = bf.generate(f"grid?jobs=40&local=1&gangs={gangs}&sizes=3&sites=2&processors=2&per_task={per_task}&seed=3")
        bf.simulate(log, policy="gang-span").report(path)
        page = open_page(path)
        return page.evaluate(JOINED), page.locator("#gantt canvas.front").evaluate("each => each.clientHeight")

    none, _ = drawn(0)
    joined, high = drawn(1)
    assert joined > 0.4 * high > none


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
