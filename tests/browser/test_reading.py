"""What the page tells under the pointer and by the keyboard: values of curves, tables that sort, dates."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import backfill as bf
from backfill.model.clock import Clock
from backfill.model.units import SECOND
from backfill.model.workload import Labels
from backfill.report.dates import Dates
from backfill.report.page import _static
from backfill.report.saved import rewrite

QUEUE = ".first .plot"


def tip(page):
    return page.locator(f"{QUEUE} .tip")


def told(page) -> dict[str, str]:
    names = page.locator(f"{QUEUE} .tip dt:not(.title)").all_text_contents()
    return dict(zip(names, page.locator(f"{QUEUE} .tip dd").all_text_contents(), strict=True))


def test_a_curve_tells_the_values_of_all_policies_under_the_pointer(open_page, small, results):
    page = open_page(small)
    box = page.locator(QUEUE).bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.505, box["y"] + 50)
    found = told(page)
    assert list(found) == ["fcfs", "easy", "conservative"]
    end = max(int(result.schedule.end.max()) for result in results)
    begin = min(int(result.schedule.submit.min()) for result in results)
    for result in results:
        low, high = (begin + (end - begin) * share // 100 for share in (50, 51))
        wait = result.schedule.start.clip(low, high) - result.schedule.submit.clip(low, high)
        assert float(found[result.name].replace(",", "")) == pytest.approx(
            wait.sum() / (high - low), rel=0.02, abs=0.06
        )
    page.mouse.move(box["x"] + 10, box["y"] - 100)
    assert tip(page).is_hidden()


def test_arrow_keys_move_through_a_curve_and_it_is_said_aloud(open_page, small):
    page = open_page(small)
    page.locator(QUEUE).focus()
    page.keyboard.press("ArrowRight")
    first = page.locator(".aloud").text_content()
    assert re.match(r"day \d+ \d\d:\d\d: fcfs [\d.,]+; easy [\d.,]+; conservative [\d.,]+$", first)
    page.keyboard.press("ArrowRight")
    assert page.locator(".aloud").text_content() != first
    page.keyboard.press("Escape")
    assert tip(page).is_hidden()


def test_the_curve_of_waits_tells_the_share_of_jobs_that_wait_longer(open_page, small, results):
    page = open_page(small)
    plot = page.locator("#distributions .plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 50)
    title = plot.locator(".tip .title").text_content()
    amount, unit = re.fullmatch(r"wait above ([\d.]+) (\w+)", title).groups()
    seconds = float(amount) * {"s": 1, "min": 60, "h": 3600, "d": 86_400}[unit]
    for result, text in zip(results, plot.locator(".tip dd").all_text_contents(), strict=True):
        share = ((result.schedule.start - result.schedule.submit) / SECOND > seconds).mean()
        assert float(text.removesuffix("% of the jobs")) == pytest.approx(100 * share, abs=2)


def column(page, number):
    return page.locator(f"#summary tbody tr > :nth-child({number})").all_text_contents()


def test_a_table_sorts_by_a_click_on_a_heading_and_comes_back(open_page, small):
    page = open_page(small)
    before = column(page, 2)
    waits = [float(text.split()[0].replace(",", "")) for text in before]
    head = page.locator("#summary thead th").nth(1)
    for order, expected in (("descending", sorted(waits, reverse=True)), ("ascending", sorted(waits))):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        assert [float(text.split()[0].replace(",", "")) for text in column(page, 2)] == expected
    head.locator("button").click()
    assert (column(page, 2), head.get_attribute("aria-sort")) == (before, None)
    page.locator("#summary thead th button").first.focus()
    page.keyboard.press("Enter")
    assert column(page, 1) == sorted(column(page, 1))


USERS = 40


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A page of jobs of many users."""
    log = bf.generate("lublin?jobs=400&cpus=64&load=0.9&seed=5")
    users = Labels.of([f"u{row * row % USERS if row > USERS else row % USERS}" for row in range(len(log))])
    path = tmp_path_factory.mktemp("crowd") / "out.html"
    bf.simulate(replace(log, jobs=log.jobs.replace(user=users)), policy="fcfs").report(path)
    return path


def test_all_users_are_shown_on_demand_and_sort_with_the_others(open_page, crowd):
    page, users = open_page(crowd), USERS
    table = page.locator("#losers details table").first
    assert table.locator("tbody tr:visible").count() == 15
    page.locator("#losers [data-all]").first.click()
    assert table.locator("tbody tr:visible").count() == users
    table.locator("thead button").nth(3).click()
    waits = [float(text.split()[0].strip("<").replace(",", "")) for text in
             table.locator("tbody tr > :nth-child(4)").all_text_contents()]  # fmt: skip
    assert waits == sorted(waits, reverse=True)


def test_without_javascript_all_users_are_there(open_page, crowd):
    page = open_page(crowd, chart=False, java_script_enabled=False)
    assert page.locator("#losers details table").first.locator("tbody tr:visible").count() == USERS


def test_a_filter_by_user_finds_the_jobs_of_that_user(open_page, crowd):
    page = open_page(crowd)
    page.locator("#gantt [name=user]").fill("U7")
    page.keyboard.press("Enter")
    said = page.locator("#gantt output").text_content()
    assert re.match(r"1 of \d+: job \d+; user u7; ", said)


START = int(datetime(1996, 9, 23, 12, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("zone", ["UTC", "Europe/Stockholm", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_the_browser_and_python_put_the_same_marks_on_an_axis(browser, zone):
    clock, page = Clock(START, zone), browser.new_page()
    whole = Dates.of(clock, 0, 800 * 86_400 * SECOND)
    assert whole is not None
    page.set_content(f'<main data-zone="{zone}" data-epoch="{START}" data-offsets="{whole.packed}"></main>')
    page.evaluate(
        _static("dates.js") + "\nwindow.marks = (from, length, least) => marksOf(from, length, least, CALENDAR.epoch);"
    )
    for begin, length, most in [
        (0, 800, 9),
        (30, 10, 7),
        (33.5, 1, 8),
        (33.9, 0.2, 5),
        (34.02, 0.002, 6),
        (180, 60, 11),
    ]:
        first, last = round(begin * 86_400), round((begin + length) * 86_400)
        found = page.evaluate("([a, b, c]) => marks(a, b, c)", [first, last - first, (last - first) / most])
        expected = whole.marks(first * SECOND, last * SECOND, most)
        assert [(round(at), text) for at, text in found] == [(round(at / SECOND), text) for at, text in expected]
    page.close()


def test_a_log_with_a_calendar_has_dates_on_axes_and_in_what_is_told(open_page, tmp_path):
    log = bf.generate("lublin?jobs=300&cpus=32&load=0.9&seed=3")
    log = replace(log, clock=Clock(START, "Europe/Stockholm"))
    result = bf.simulate(log, policy="easy")
    result.save(tmp_path / "kept")
    result.report(tmp_path / "out.html")
    rewrite(tmp_path / "kept", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "out.html").read_bytes()
    page = open_page(tmp_path / "out.html")
    assert page.locator(".first figcaption").text_content() == "date (Europe/Stockholm)"
    job = str(result.schedule.job[0])
    page.locator("#gantt input[type=search]").fill(f"job {job}")
    page.keyboard.press("Enter")
    submitted = clock_text(int(log.jobs.submit[0]))
    from playwright.sync_api import expect

    expect(page.locator("output")).to_contain_text(f"submitted {submitted}")
    page.evaluate(f"document.querySelector('{QUEUE}').focus()")
    page.keyboard.press("ArrowRight")
    assert re.match(r"199\d-\d\d-\d\d \d\d:\d\d: easy ", page.locator(".aloud").text_content())


def clock_text(time: int) -> str:
    return Clock(START, "Europe/Stockholm").date(time).strftime("%Y-%m-%d %H:%M:%S")
