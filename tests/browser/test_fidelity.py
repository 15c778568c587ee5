"""The page of a pool in a browser: it begins with the fidelity of the model, drawn and in numbers."""

import pytest

from backfill.pool_report import pool_report
from tests.test_pool_report import POOL, short_jobs, started_by


@pytest.fixture(scope="session")
def pool_page(tmp_path_factory):
    log = short_jobs(4)
    found = pool_report(log, POOL, started_by(log, "easy"), ["easy-sjbf", "conservative"])
    path = tmp_path_factory.mktemp("pool") / "pool.html"
    found.report(path)
    return path, found.fit


def test_waits_are_drawn_as_two_lines_and_as_a_dot_for_each_job(open_page, pool_page):
    path, fit = pool_page
    page = open_page(path)
    first = page.locator("main section").first
    assert first.get_attribute("id") == "fidelity"
    assert first.locator(".headline").inner_text().startswith("Conclusive: easy with")
    dots = first.locator(".dots")
    assert dots.get_attribute("d").count("M") == fit.judged.jobs
    box, frame = dots.bounding_box(), first.locator(".plot").last.bounding_box()
    assert box["width"] > frame["width"] / 4
    wide = 12  # pixels that dots at the edge may stand out
    assert frame["x"] - wide <= box["x"]
    assert box["x"] + box["width"] <= frame["x"] + frame["width"] + wide
    plot = first.locator(".plot[data-scale]")
    size = plot.bounding_box()
    plot.hover(position={"x": 0.3 * size["width"], "y": 20})
    tip = plot.locator(".tip").inner_text()
    assert "observed" in tip
    assert "simulated" in tip


def test_the_links_at_the_top_are_in_the_order_of_the_page(open_page, pool_page):
    page = open_page(pool_page[0])
    links = [link.get_attribute("href") for link in page.locator("nav a").all()]
    assert links[:3] == ["#fidelity", "#losers", "#summary"]
    places = [page.locator(link).bounding_box()["y"] for link in links if page.locator(link).count()]
    assert places[:3] == sorted(places[:3])
