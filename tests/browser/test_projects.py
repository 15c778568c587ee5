"""The chart of projects, used as people use it."""

import pytest

import backfill as bf

SIGHT = "document.querySelector('#projects .sight')"


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    log = bf.generate("two-tier?projects=60&interarrival=120&seed=4")
    path = tmp_path_factory.mktemp("busy") / "out.html"
    bf.compare(log, log.platform, ["2tsb", "2tfb-sf"]).report(path)
    return path


def share(page):
    """Return the visible part of the time: its begin and its length."""
    return page.evaluate(f"[{SIGHT}.scrollLeft / {SIGHT}.scrollWidth, {SIGHT}.clientWidth / {SIGHT}.scrollWidth]")


def marks(page):
    return page.locator("#projects .axis").first.locator("span").all_text_contents()


def test_buttons_and_keys_zoom_and_move_and_the_axis_follows(open_page, busy):
    page = open_page(busy)
    assert share(page) == [0, 1]
    before = marks(page)
    page.locator("#projects [data-do=in]").first.click()
    assert share(page) == pytest.approx([0.25, 0.5], abs=0.01)
    page.locator("#projects [data-do=left]").first.click()
    assert share(page) == pytest.approx([0, 0.5], abs=0.01)
    assert marks(page) != before
    page.locator("#projects .sight").first.press("0")
    assert share(page) == [0, 1]
    assert marks(page) == before


def test_a_click_brings_a_project_into_sight_and_a_key_the_next(open_page, busy):
    page = open_page(busy)
    for _ in range(5):
        page.locator("#projects [data-do=in]").first.click()
    page.locator("#projects .names li").nth(29).click()
    chosen = page.locator("#projects .chosen").first
    seen, bar = page.locator("#projects .sight").first.bounding_box(), chosen.locator(".bar").bounding_box()
    assert bar["x"] + bar["width"] > seen["x"]
    assert bar["x"] < seen["x"] + seen["width"]
    name = chosen.locator("title").first.text_content()
    page.locator("#projects .sight").first.press("n")
    assert page.locator("#projects .chosen title").first.text_content() != name
    page.locator("#projects .sight").first.press("Escape")
    assert page.locator("#projects .chosen").count() == 0


def test_the_rows_are_there_without_a_script(open_page, busy):
    page = open_page(busy, chart=False, java_script_enabled=False)
    assert page.locator("#projects .bar:visible").count() == 30
    assert not page.locator("#projects .tools").first.is_visible()


def test_the_chart_of_a_policy_that_was_folded_away_fits_its_place(open_page, busy):
    page = open_page(busy)
    page.locator("#projects summary").nth(1).click()
    second = page.locator("#projects .sight").nth(1)
    wide = second.bounding_box()["width"]
    assert second.locator(".span").bounding_box()["width"] == pytest.approx(wide, abs=3)
    assert len(second.locator(".axis span").all_text_contents()) > 2
