"""The chart of a live queue: what is in sight is loaded, each run once, however long the log and whatever happens."""

import json
import random
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.browser.visiting import chart_of, soon
from tests.patience import until

pytest.importorskip("fastapi", reason="needs the extra web")

SOURCE = "document.getElementById('plan').section.data"
RUNS = f"{SOURCE}.bars.map((bar) => [bar.id, bar.start_s, bar.end_s ?? null])"


def few(page, limit):
    """Let the server give a page of the plan few bars at a time; return the requests."""
    asked = []

    def change(route):
        parts = urlsplit(route.request.url)
        fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
        asked.append(fields)
        route.continue_(url=parts._replace(query=urlencode({**fields, "limit": limit})).geturl())

    page.route("**/v1/plan?*", change)
    return asked


def test_what_is_in_sight_is_loaded_each_run_once(own, visit):
    visitor = visit(own())
    live, site = visitor.site.live, visitor.site
    live.submit("-a", "1-40", "--", "true")
    until(lambda: site.state(40) == "COMPLETED")
    running = live.submit("--", "sleep", "600")
    until(lambda: site.state(running) == "RUNNING")
    page = visitor.log_in("/submit")
    asked = few(page, 7)
    visitor.open("/", page)
    chart_of(page)
    soon(page, f"{SOURCE}.bars.length === 41")
    past = [each for each in asked if each.get("kind") == "past"]
    assert len({each["ended_by"] for each in past}) >= 5
    live.submit("-a", "1-8", "--", "true")
    until(lambda: site.state(49) == "COMPLETED")
    page.evaluate("document.dispatchEvent(new Event('queue'))")
    soon(page, f"{SOURCE}.bars.filter((bar) => bar.end_s).length === 48")
    truth = {(job["id"], job["start_s"], job["end_s"]) for job in site.get("/v1/history").json()["jobs"]}
    runs = [tuple(each) for each in page.evaluate(RUNS)]
    assert len(runs) == len({*runs})
    assert {each for each in runs if each[2] is not None} == truth
    assert page.evaluate(f"{SOURCE}.away.length") == 0 or page.evaluate(
        f"{SOURCE}.past.from <= {SOURCE}.told.now_s - 60"
    )


def bar(number, start, end):
    """A run that is over, of a job with one cpu."""
    facts = {"id": number, "label": str(number), "name": "job", "user": "ana", "project": "", "state": "COMPLETED"}
    return {**facts, "cpus": 1, "nodes": {"machine": 1}, "licences": {}, "start_s": start, "end_s": end, "why": "head"}


def answered(log, now, fields):
    """The answer of the server to a request for a plan, from all runs that are over, in the order of their ends."""
    since, last = fields.get("since", now - 7200), fields.get("ended_by", now)
    found = [each for each in log if since <= each["end_s"] <= last]
    kept = found[-fields["limit"] :]
    complete = since if len(kept) == len(found) else kept[0]["end_s"]
    omitted = {"past": len(found) - len(kept), "running": 0, "pending": 0}
    times = {"now_s": now, "since_s": since, "past_since_s": complete, "seq": now}
    return {**times, "past": kept, "running": [], "pending": [], "omitted": omitted}


def test_any_order_of_looks_and_loads_gives_each_run_once(own, visit):
    page = visit(own()).log_in("/")
    chart_of(page)
    draw = random.Random(5)
    for _ in range(30):
        now, log = 100_000, []
        steps = page.evaluate_handle("new Past()")
        looked = False
        for _ in range(25):
            now += draw.choice((1, 60, 3000, 9000))
            for _ in range(draw.choice((0, 3, 30))):  # some are found out late
                end = now - draw.choice((0, 0, 0, 10, 20_000))
                log.append(bar(len(log) + 1, end - draw.choice((5, 5000)), end))
            log.sort(key=lambda each: each["end_s"])
            late = {each["id"] for each in log}
            if not looked or draw.random() < 0.5:
                told = answered(log, now, {"limit": draw.choice((5, 40))})
                open_ = [{"id": number} for number in range(len(log) + 1, len(log) + 200)]  # run, and end later
                page.evaluate("([past, told]) => past.renew(told)", [steps, {**told, "running": open_}])
                seen, looked = late, True
            else:
                log = [each for each in log if each["id"] in seen]  # the log as it was at the last look
                at = page.evaluate("(past) => past.from", steps)
                told = answered(log, now, {"since": at - draw.choice((100, 20_000)), "ended_by": at, "limit": 40})
                page.evaluate("([past, told]) => past.extend(told)", [steps, told])
            found = page.evaluate("(past) => ({ from: past.from, ids: past.bars.map((bar) => bar.id) })", steps)
            truth = [each["id"] for each in log if each["end_s"] > found["from"]]
            assert len(found["ids"]) == len({*found["ids"]})
            assert {*truth} <= {*found["ids"]}


def test_a_chart_has_a_hundred_thousand_bars_and_says_what_is_missing(own, visit):
    visitor = visit(own())
    page = visitor.log_in("/submit")
    begun = visitor.site.get("/v1/plan").json()
    count, now = 120_000, begun["now_s"]
    log = [
        bar(number, now - 2 * (count - number) - 60, now - 2 * (count - number) - 2) for number in range(1, count + 1)
    ]
    frame = {**begun, "begins_s": log[0]["start_s"]}

    def answer(route):
        fields = {name: float(values[0]) for name, values in parse_qs(urlsplit(route.request.url).query).items()
                  if name in ("since", "ended_by", "limit")}  # fmt: skip
        told = answered(log, now, {**fields, "limit": int(fields["limit"])})
        route.fulfill(body=json.dumps({**frame, **told}), content_type="application/json")

    page.route("**/v1/plan?*", answer)
    visitor.open("/", page)
    chart = chart_of(page)
    soon(page, f"{SOURCE}.bars.length >= 3600")
    for _ in range(8):
        page.evaluate(f"{chart}.zoom(0.25, 1)")
        soon(page, "(() => { const [from] = document.getElementById('plan').section.sight, past = " + SOURCE + ".past;"
             " return past.full || past.from <= from || past.from <= " + SOURCE + ".told.begins_s; })()")  # fmt: skip
    soon(page, f"{SOURCE}.past.full")
    runs = page.evaluate(f"{SOURCE}.bars.map((bar) => bar.id)")
    assert sorted(runs) == [*range(count - len(runs) + 1, count + 1)]
    assert 90_000 <= len(runs) <= 100_000
    assert "earlier runs, which are not in the chart" in page.text_content("#plan .key")
