"""What the page of a live queue costs: before it is seen, and in a tab that stays open."""

import os
import time
from pathlib import Path

import pytest

from backfill.web.safety import SESSION_S, Token
from tests.browser.visiting import chart_of, see, soon
from tests.patience import until

pytest.importorskip("fastapi", reason="needs the extra web")

SECTION = "document.getElementById('plan').section"
HOUR = 3_600_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(*pids):
    """The processor time of processes, in seconds."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS


def batch(site, count, **more):
    """Queue simulated jobs."""
    job = {"job": {"need": {"cpus": 1}, "walltime": HOUR}, "spec": {"argv": ["true"], **more}}
    answer = site.client.post("/v1/jobs:batch", json={"jobs": [job] * count})
    assert answer.json()["queued"] == count


def test_the_first_paint_with_ten_thousand_jobs_takes_little(own, visit):
    visitor = visit(own(pool="fake:1"))
    site = visitor.site
    for _ in range(10):
        batch(site, 1000, runtime=HOUR)
    page = visitor.log_in("/submit")
    pids = site.process.pid, site.live.daemon()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    begin = cpu_s(*pids)
    page.goto(f"{site.url}/", wait_until="commit")
    page.wait_for_selector("#job-4")
    spent = cpu_s(*pids) - begin
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    soon(page, painted)
    blocking = page.evaluate(
        "performance.getEntriesByType('resource').filter((each) => each.renderBlockingStatus === 'blocking')"
        ".map((each) => [each.name, each.decodedBodySize])"
    )
    (html,) = page.evaluate("performance.getEntriesByType('navigation').map((each) => each.decodedBodySize)")
    assert all("/static/" in name for name, _ in blocking)
    assert len(blocking) <= 2  # style sheets
    assert html < 200_000
    assert sum(size for _, size in blocking) < 50_000
    assert spent < 1.5  # with its scripts and what the chart has asked for so far; 0.4 s on a busy machine
    chart_of(page)


def test_a_tab_that_is_open_for_thousands_of_events_keeps_its_memory(own, visit):
    site = own(pool="fake:60")
    page = visit(site).log_in("/")
    chart_of(page)
    tools = page.context.new_cdp_session(page)
    done = 0

    def heap():
        for _ in range(3):
            tools.send("HeapProfiler.collectGarbage")
        return tools.send("Runtime.getHeapUsage")["usedSize"]

    sizes = []
    for count in (300, 300, 900):
        done += count
        batch(site, count, runtime=1_000_000)
        until(lambda: site.get("/v1/jobs?limit=1").json()["jobs"] == [])
        page.evaluate("document.dispatchEvent(new Event('queue'))")
        soon(page, f"{SECTION}.data.bars.length === {done}")
        see(page, "#table", "No job runs or waits")
        sizes.append(heap())
    assert page.evaluate(f"{SECTION}.data.told.seq") > 4 * done
    # The chart has 900 runs more; half a kilobyte for each of the 4,000 events between would be 2 MB.
    assert sizes[2] - sizes[1] < 1_500_000, sizes


def test_a_session_that_expires_while_the_page_is_open(own, visit):
    visitor = visit(own())
    site = visitor.site
    page = visitor.log_in("/")
    chart_of(page)
    (cookie,) = visitor.context.cookies()
    old = Token(site.live.folder / "web.token").session(time.time() - SESSION_S)  # over since now
    until(lambda: not Token(site.live.folder / "web.token").proves(old, time.time()))
    visitor.away = True
    visitor.context.add_cookies([{**cookie, "value": old}])
    page.evaluate("LIVE.soon(0)")
    see(page, "#state", "Your session has ended")
    streams = page.evaluate("LIVE.stream.readyState")
    assert streams == 2  # closed, and not opened again
    page.click("text=Log in again")
    page.fill("input[name=token]", site.token)
    page.click("button")
    page.wait_for_url(f"{site.url}/")
    chart_of(page)
