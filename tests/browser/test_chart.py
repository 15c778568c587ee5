"""The chart of every job, used as people use it."""

import re
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import backfill as bf
from backfill.model.events import Events
from backfill.model.units import NEVER
from backfill.model.workload import Jobs, Labels, Workload
from backfill.report.page import write_page
from backfill.report.rows import boxes, lay_out
from backfill.report.saved import load
from tests.patience import PATIENCE_S
from tests.report.test_runs import LOG, SCHEDULE, TWO

CUT = """[...document.querySelectorAll(".wide")].filter((table) => table.scrollWidth > table.clientWidth + 1)
    .map((table) => table.ariaLabel)"""
FRONT = "#gantt .one:first-child canvas.front"
TIP = "#gantt .one:first-child .tip"
CHART = "document.getElementById('gantt').section.chart"


def window(page):
    return page.evaluate(f"(({{from, ticks, row, rows}}) => [from, ticks, row, rows])({CHART})")


def drawn(page):
    """Once the next frame is on the screen."""
    page.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")


def told(page):
    return page.locator("output").text_content()


def tells(page, begin):
    """Wait until the line below the chart begins so."""
    from playwright.sync_api import expect

    expect(page.locator("output")).to_have_text(re.compile(f"^{re.escape(begin)}"))


def soon(page, truth):
    """Wait until something holds; playwright's own way needs `eval`, which the page forbids."""
    end = time.monotonic() + PATIENCE_S
    while not page.evaluate(truth):
        assert time.monotonic() < end, truth
        page.wait_for_timeout(100)


def find(page, text):
    page.locator("input[type=search]").fill(text)


def middle_of(page, job):
    """Return where on the screen the middle of a job's first piece is."""
    return page.evaluate(
        f"""(wanted) => {{
          const chart = {CHART}, {{ pieces, start, end }} = chart.schedule;
          let job = 0; while (chart.data.jobName(job) !== wanted) job++;
          const k = pieces.of[job], {{ left, top }} = chart.front.getBoundingClientRect();
          const t = (start[job] + end[job]) / 2, row = (pieces.low[k] + pieces.high[k]) / 2;
          return [left + 64 + ((t - chart.from) / chart.ticks) * chart.width / chart.scale,
                  top + ((row - chart.row) / chart.rows) * chart.height / chart.scale];
        }}""",
        job,
    )


@pytest.fixture
def page(open_page, small):
    page = open_page(small)
    page.locator(FRONT).scroll_into_view_if_needed()
    return page


def test_the_page_opens_and_shows_every_job(page, results):
    assert page.locator(".instead").count() == 0
    assert page.evaluate(f"{CHART}.data.count") == 400
    assert window(page) == [0, page.evaluate(f"{CHART}.data.length"), 0, 64]
    assert page.locator(".range").text_content() == "easy: all of the time; all processors."


def test_the_browser_knows_each_schedule_to_the_second(page, results):
    for policy, result in enumerate(results):
        names, start, end = page.evaluate(
            f"""() => {{ const data = {CHART}.data, {{ start, end }} = data.schedule({policy});
                return [Array.from(start, (_, job) => data.jobName(job)), Array.from(start), Array.from(end)]; }}"""
        )
        begin = result.schedule.submit.min()
        assert names == [str(job) for job in result.schedule.job]
        assert start == ((result.schedule.start - begin) // 10**6).tolist()
        assert end == ((result.schedule.end - begin) // 10**6).tolist()


@pytest.mark.parametrize("nodes", [1, 4, "farm"])
def test_the_browser_lays_jobs_out_as_the_figures_do(open_page, tmp_path, nodes):
    log = bf.generate("farm?jobs=300&machines=20" if nodes == "farm" else "lublin?jobs=300&cpus=32&load=0.9&seed=2")
    platform = None if nodes == "farm" else bf.Platform.pool(32, nodes=nodes)
    result = bf.simulate(log, platform, policy="easy")
    result.report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    pieces = page.evaluate(
        f"""() => {{ const {{ job, low, high, count }} = {CHART}.schedule.pieces;
            return Array.from({{ length: count }}, (_, k) => [job[k], low[k], high[k]]); }}"""
    )
    assert pieces == lay_out(log, result.platform, result.schedule).tolist()


@pytest.fixture
def several_runs(open_page, tmp_path):
    found = bf.simulate(LOG, TWO, policy="easy")
    simulation = replace(found.simulation, schedule=SCHEDULE)
    replace(found, simulation=simulation).report(tmp_path / "runs.html")
    return open_page(tmp_path / "runs.html")


def test_every_run_of_a_job_has_its_box(several_runs):
    rank = np.argsort(LOG.jobs.submit, kind="stable").tolist()
    pieces = several_runs.evaluate(
        f"""() => {{ const {{ job, low, high, count }} = {CHART}.schedule.pieces;
            return Array.from({{ length: count }}, (_, k) => [{CHART}.schedule.jobOf(job[k]), low[k], high[k]]); }}"""
    )
    jobs = boxes(SCHEDULE).job.tolist()
    assert [[rank[job], low, high] for job, low, high in pieces] == [
        [jobs[box], low, high] for box, low, high in lay_out(LOG, TWO, SCHEDULE).tolist()
    ]


def test_a_search_for_a_job_tells_all_of_its_runs(several_runs):
    find(several_runs, "c")
    tells(several_runs, "job c")
    said = told(several_runs)
    assert "wait 17 s" in said
    assert "before day 0 00:00:00, 4 s, lost with its node" in said
    assert "before day 0 00:00:10, 5 s, preempted" in said
    find(several_runs, "b")
    tells(several_runs, "job b; size 2 cpus; never ran cancelled before it started")
    find(several_runs, "d")
    tells(several_runs, "job d")
    assert "ran 5 s of 30 s requested, cancelled" in told(several_runs)


def test_outages_are_shaded_in_the_chart(open_page, tmp_path):
    bf.simulate(LOG, TWO, policy="easy").save(tmp_path / "saved")
    outage = [{"time": 10, "event": "down", "node": "m2"}, {"time": 20, "event": "up", "node": "m2"}]
    write_page(tmp_path / "away.html", replace(load(tmp_path / "saved"), events=Events.of(outage).bind(LOG, TWO)))
    page = open_page(tmp_path / "away.html")
    assert page.evaluate(f"{CHART}.data.away") == [[2, 4, 10, 20]]
    page.evaluate(f"{CHART}.look(10, 5, 2, 2)")
    drawn(page)


def test_an_earlier_run_is_found_under_the_pointer(several_runs):
    across, down = several_runs.evaluate(
        f"""() => {{ const chart = {CHART}, {{ pieces, start, end }} = chart.schedule, box = chart.data.count;
            const k = pieces.of[box], t = (start[box] + end[box]) / 2, row = (pieces.low[k] + pieces.high[k]) / 2;
            const {{ width, height, scale }} = chart;
            return [64 + (t / chart.ticks) * width / scale, (row / chart.rows) * height / scale]; }}"""
    )
    job = several_runs.evaluate(f"([x, y]) => {CHART}.data.jobName({CHART}.jobAt(x, y))", [across, down])
    assert job == "c"


def test_the_wheel_scrolls_the_page_until_the_chart_has_the_focus(page):
    whole = window(page)
    page.locator(FRONT).hover(position={"x": 300, "y": 100})
    page.mouse.wheel(0, -50)
    page.wait_for_timeout(300)
    assert window(page) == whole


def test_the_wheel_zooms_where_the_pointer_is(page):
    whole = window(page)
    front = page.locator(FRONT)
    front.focus()
    width = front.bounding_box()["width"] - 64
    front.hover(position={"x": 64 + width / 4, "y": 100})
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, -400)
    soon(page, f"{CHART}.ticks < {0.6 * whole[1]}")
    begin, ticks, _, rows = window(page)
    assert abs(begin + ticks / 4 - whole[1] / 4) < 0.01 * whole[1]
    assert (rows, page.evaluate("scrollY")) == (64, before)


def test_two_fingers_zoom(open_page, small):
    page = open_page(small, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    front = page.locator(FRONT)
    front.scroll_into_view_if_needed()
    box = front.bounding_box()
    touch = page.context.new_cdp_session(page)

    def fingers(kind, *across):
        points = [{"x": box["x"] + x, "y": box["y"] + 100, "id": i} for i, x in enumerate(across)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    whole = window(page)
    fingers("touchStart", 180)
    fingers("touchStart", 180, 240)
    for apart in (20, 40, 60):
        fingers("touchMove", 180 - apart, 240 + apart)
    fingers("touchEnd")
    drawn(page)
    assert window(page)[1] == pytest.approx(whole[1] / 3, rel=0.05)


def test_shift_and_wheel_make_the_rows_taller(page):
    page.locator(FRONT).click(position={"x": 300, "y": 100})
    page.keyboard.down("Shift")
    page.mouse.wheel(0, -400)
    soon(page, f"{CHART}.rows < 40")
    page.keyboard.up("Shift")


def test_dragging_moves_what_is_in_sight(page):
    page.locator("[data-do=in]").click()
    before = window(page)
    box = page.locator(FRONT).bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 100, steps=4)
    page.mouse.up()
    drawn(page)
    moved = (window(page)[0] - before[0]) / before[1]
    assert moved == pytest.approx(200 / (box["width"] - 64), rel=0.02)
    assert page.evaluate(f"{CHART}.chosen") == -1  # a drag is not a click


def test_moving_sideways_gives_the_same_picture_as_drawing_anew(page):
    page.evaluate(f"{CHART}.zoom(4)")
    for share in (0.2, -0.05, 0.013, 0.4, -0.3):
        page.evaluate(f"{CHART}.pan({share})")
        drawn(page)
    same = page.evaluate(
        f"""() => {{ const chart = {CHART}, canvas = chart.raster.canvas, see = () =>
              canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const moved = see(); chart.drawn = null; chart.draw(); const anew = see();
            return moved.every((value, i) => Math.abs(value - anew[i]) <= 1); }}"""
    )
    assert same


def test_keys_move_zoom_and_choose(page):
    front = page.locator(FRONT)
    front.focus()
    whole = window(page)
    front.press("+")
    front.press("+")
    front.press("ArrowRight")
    drawn(page)
    zoomed = window(page)
    assert zoomed[1] == pytest.approx(whole[1] / 2.25)
    assert zoomed[0] > (whole[1] - zoomed[1]) / 2
    front.press("t")
    front.press("Shift+ArrowDown")
    assert window(page)[2] > 0
    front.press("Home")
    assert window(page)[0] == 0
    front.press("0")
    assert window(page) == whole
    front.press("n")
    assert told(page).startswith("job 1; ")
    front.press("n")
    assert told(page).startswith("job 2; ")
    front.press("p")
    assert told(page).startswith("job 1; ")
    front.press("Escape")
    assert told(page) == ""


def test_pointing_at_a_job_tells_its_wait_and_why(page, results):
    page.locator("input[value='1']").check()
    easy = results[1].schedule
    row = int(np.argmax(easy.reason == 1))  # the first backfilled job
    name = str(easy.job[row])
    find(page, f"job {name}")
    tells(page, f"job {name}; ")
    drawn(page)
    page.mouse.move(*middle_of(page, name))
    facts = dict(
        zip(page.locator(f"{TIP} dt").all_text_contents(), page.locator(f"{TIP} dd").all_text_contents(), strict=True)
    )
    assert facts["job"] == name
    assert facts["size"].startswith(str(results[1].workload.jobs.procs[row]))
    assert facts["started because"] == "it filled a hole that no earlier job could use"
    tells(page, "job")
    assert "it filled a hole" in told(page)


def test_search_finds_a_job_and_goes_to_it(page):
    find(page, "257")
    tells(page, "job 257; ")
    assert window(page)[1] < page.evaluate(f"{CHART}.data.length")
    find(page, "nobody")
    tells(page, "No job")


SECOND = "document.getElementById('gantt').section.panes[1].chart"


def test_the_policy_of_interest_comes_first_and_the_baseline_below_it(page):
    assert page.locator(".whose").all_text_contents() == ["easy", "fcfs"]
    assert page.evaluate(f"[{CHART}.schedule.name, {SECOND}.schedule.name]") == ["easy", "fcfs"]


def test_two_policies_share_one_axis_of_time(page):
    page.evaluate(f"{CHART}.zoom(5)")
    assert page.evaluate(f"(({{from, ticks, row, rows}}) => [from, ticks, row, rows])({SECOND})") == window(page)
    page.evaluate(f"{SECOND}.pan(0.3, 0)")
    assert page.evaluate(f"(({{from, ticks, row, rows}}) => [from, ticks, row, rows])({SECOND})") == window(page)
    left, right = (page.locator("canvas.back").nth(i).bounding_box() for i in (0, 1))
    assert (left["x"], left["width"]) == (right["x"], right["width"])


def test_the_policy_below_can_be_another_one_or_none(page):
    page.locator("[name=with]").select_option("conservative")
    assert page.locator(".whose").all_text_contents() == ["easy", "conservative"]
    page.locator("input[value='2']").check()  # the two change places
    assert page.locator(".whose").all_text_contents() == ["conservative", "easy"]
    page.locator("[name=with]").select_option("")
    assert page.locator(".one").nth(1).is_hidden()


def test_pointing_at_a_job_tells_its_wait_under_the_policy_below(page, results):
    page.evaluate(f"{CHART}.choose(299, true)")
    drawn(page)
    page.mouse.move(*middle_of(page, "300"))
    told = dict(zip(page.locator(f"{TIP} dt").all_text_contents(), page.locator(f"{TIP} dd").all_text_contents(),
                    strict=True))  # fmt: skip
    fcfs = results[0].schedule
    row = fcfs.job.tolist().index(300)
    assert told["job"] == "300"
    amount, unit = told["under fcfs"].split()
    size = {"s": 1, "min": 60, "h": 3600}[unit]
    assert float(amount) * size == pytest.approx((fcfs.start - fcfs.submit)[row] / 10**6, abs=0.06 * size)


def counts(page):
    return page.evaluate(f"() => {CHART}.dim === null ? -1 : Array.from({CHART}.dim).filter((off) => !off).length")


def test_filters_find_the_jobs_that_fit_all_of_them(page, results):
    easy, procs = results[1].schedule, results[1].workload.jobs.procs
    waited = (easy.start - easy.submit) // 10**6
    page.locator("[name=waited]").select_option("3600")
    page.locator("[name=size]").select_option("9")
    expected = int(((waited > 3600) & (procs >= 9)).sum())
    tells(page, f"Jobs that fit the filters: {expected} jobs, ")
    assert counts(page) == expected
    assert page.evaluate(f"Array.from({SECOND}.dim).filter((off) => !off).length") > counts(page)  # fcfs: longer waits
    page.locator("[data-do=next]").click()
    assert told(page).startswith("1 of ")
    page.locator("[data-do=clear]").click()
    soon(page, f"{CHART}.dim === null")


def test_a_search_without_a_hit_stays_where_it_is_on_enter(page):
    page.evaluate(f"{CHART}.zoom(4)")
    before = window(page)
    field = page.locator("#gantt input[type=search]")
    field.fill("nobody")
    field.press("Enter")
    field.press("Enter")
    tells(page, "No job or user is called nobody.")
    page.locator("[data-do=next]").click()
    assert window(page) == before
    assert page.evaluate(f"{CHART}.chosen") == -1


def test_the_answer_to_a_search_is_in_sight_although_two_charts_fill_the_window(open_page, small):
    page = open_page(small)
    page.set_viewport_size({"width": 1280, "height": 600})
    page.evaluate("document.getElementById('gantt').scrollIntoView()")
    hidden = "(() => document.querySelector('output').getBoundingClientRect().bottom > innerHeight)()"
    assert page.evaluate(hidden)
    for text, answer in {"nobody": "No job or user is called nobody.", "job 257": "1 of 1: job 257; "}.items():
        find(page, text)
        page.locator("input[type=search]").press("Enter")
        tells(page, answer)
        assert not page.evaluate(hidden), text


def test_enter_goes_to_what_was_typed_last_without_a_wait(page):
    field = page.locator("#gantt input[type=search]")
    field.fill("job 257")
    field.press("Enter")
    tells(page, "1 of 1: job 257; ")


def test_the_address_holds_the_view(open_page, small, page):
    page.locator("input[value='2']").check()
    page.locator("[name=with]").select_option("easy")
    page.locator("[name=colour]").select_option("why")
    page.locator("[name=waited]").select_option("600")
    page.evaluate(f"{CHART}.zoom(8, 0.25)")
    soon(page, "location.hash.includes('from=')")
    address = page.evaluate("location.hash")
    assert address.startswith("#gantt?policy=conservative&with=easy&")
    context = page.context.browser.new_context(viewport={"width": 1280, "height": 900})
    other = context.new_page()
    other.goto(small.as_uri() + address)
    other.wait_for_selector("#gantt[data-ready]")
    assert other.locator(".whose").all_text_contents() == ["conservative", "easy"]
    assert window(other) == pytest.approx(window(page), abs=1)
    assert (other.evaluate(f"{CHART}.scheme"), counts(other)) == ("why", counts(page))
    assert other.locator("#gantt h2").bounding_box()["y"] < 300
    context.close()


def test_a_page_that_nobody_touched_keeps_its_address(page):
    page.wait_for_timeout(500)
    assert page.evaluate("location.hash") == ""


def test_rows_below_the_chart_are_jobs_waiting_and_each_resource_in_use(open_page, tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "job,submit,runtime,cpus,memory\na,0,100,1,8\nb,0,50,1,2\nc,10,40,2,6\nd,20,10,1,1\n"
    )
    (tmp_path / "node.toml").write_text('[[node]]\nname = "n"\ncpus = 2\nmemory = 10\n')
    log = bf.read(tmp_path / "jobs.csv")
    result = bf.simulate(log, bf.Platform.read(tmp_path / "node.toml"), policy="fcfs")
    result.report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    at = "Object.fromEntries(rows.map((row) => [row.name, [5, 15, 60, 105].map((t) => row.steps.at(t))]))"
    found = page.evaluate(
        f"() => {{ const rows = document.getElementById('gantt').section.panes[0].use.rows(); return {at}; }}"
    )
    start, end = result.schedule.start // 10**6, result.schedule.end // 10**6
    submit, memory = result.schedule.submit // 10**6, log.jobs.demand[:, 1]
    times = (5, 15, 60, 105)
    assert found["jobs waiting"] == [int(((submit <= t) & (t < start)).sum()) for t in times]
    assert found["memory"] == [int(memory[(start <= t) & (t < end)].sum()) for t in times]


def test_policies_share_one_window_and_the_chosen_job(page, results):
    find(page, "job 300")
    tells(page, "job 300; ")
    find(page, "")
    soon(page, "document.querySelector('output').textContent === ''")
    page.evaluate(f"{CHART}.zoom(3)")
    before = window(page)
    page.locator("input[value='2']").check()
    assert window(page) == before
    assert page.locator(".range").text_content().startswith("conservative: ") or drawn(page) is None
    assert page.evaluate(f"{CHART}.schedule.name") == "conservative"


@pytest.fixture(scope="module")
def farm() -> bf.Result:
    return bf.simulate(bf.generate("farm?machines=10&licences=4&jobs=120&interarrival=50&seed=2"), policy="bf-mod")


@pytest.fixture
def farm_page(open_page, farm, tmp_path):
    farm.report(tmp_path / "out.html")
    return open_page(tmp_path / "out.html")


def test_deadlines_decide_the_colours_where_there_are_any(farm_page, farm):
    due, end = farm.workload.jobs.deadline, farm.schedule.end
    expected = np.where(due == NEVER, 2, np.where(end > due, 1, 0))
    assert farm_page.locator("#gantt [name=colour]").input_value() == "due"
    assert farm_page.evaluate(f"Array.from({CHART}.shade)") == expected.tolist()
    assert farm_page.locator(".key").text_content() == "met its deadlinemissed its deadlinehas none"


def test_a_search_for_missed_goes_through_the_jobs_that_missed_their_deadlines(farm_page, farm):
    missed = int((farm.schedule.end > farm.workload.jobs.deadline).sum())
    find(farm_page, "missed")
    tells(farm_page, f"Jobs that missed their deadlines: {missed} jobs, ")
    farm_page.locator("[data-do=next]").click()
    tells(farm_page, f"1 of {missed}: job ")
    assert re.search(r"licences l\d.*deadline day \d+ [\d:]+: missed by ", told(farm_page))


def test_licences_are_rows_below_the_machines(farm_page, farm):
    cpus, copies = farm.platform.cpus, int(farm.platform.copies.sum())
    assert window(farm_page)[2:] == [0, cpus + copies]
    assert farm_page.locator(".range").text_content() == "bf-mod: all of the time; all processors and licences."
    farm_page.evaluate(f"{CHART}.look(0, {CHART}.ticks, {cpus}, {copies})")
    drawn(farm_page)
    assert farm_page.locator(".range").text_content() == "bf-mod: all of the time; licences."


def test_late_jobs_are_marked_whatever_the_colours_tell(farm_page, farm):
    late = int(np.flatnonzero(farm.schedule.end > farm.workload.jobs.deadline)[0])
    for scheme in ("due", "wait"):
        farm_page.locator("#gantt [name=colour]").select_option(scheme)
        drawn(farm_page)
        marked = farm_page.evaluate(
            f"""() => {{ const c = {CHART}, ink = c.ink.late, found = [];
                const context = c.front.getContext('2d'), fill = context.fillRect;
                context.fillRect = function (...box) {{ found.push(this.fillStyle); fill.apply(this, box); }};
                c.bring({late}); c.draw();
                delete context.fillRect;
                return found.filter((colour) => colour === ink).length; }}"""
        )
        assert marked >= 1, scheme


def test_colours_are_named_in_words(page):
    for scheme in ("wait", "why", "user"):
        page.locator("#gantt [name=colour]").select_option(scheme)
        assert page.locator(".key li").count() >= 1
        assert all(text for text in page.locator(".key li").all_text_contents()), scheme


@pytest.mark.parametrize("act", ["search", "zoom", "pan", "step"])
def test_what_is_told_beside_the_pointer_goes_once_something_else_is_shown(page, act):
    front, tip = page.locator(FRONT), page.locator(TIP)
    page.mouse.move(*middle_of(page, "200"))
    assert tip.is_visible()
    if act == "search":
        find(page, "job 300")
        tells(page, "job 300; ")
    else:
        front.focus()
        page.keyboard.press({"zoom": "+", "pan": "ArrowRight", "step": "n"}[act])
        if act == "pan":
            page.keyboard.press("+")
    drawn(page)
    assert tip.is_hidden()
    page.mouse.move(*middle_of(page, "300"))
    assert act in ("zoom", "pan", "step") or tip.locator("dd").first.text_content() == "300"


HOSTILE = ['"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>", "x" * 10_000, "\u202egnol"]


def test_hostile_names_of_jobs_and_users_are_shown_as_they_are(open_page, tmp_path):
    second = 10**6
    log = Workload(
        Jobs(
            job=np.array(HOSTILE, object),
            submit=np.arange(4) * second,
            runtime=np.full(4, 100 * second),
            walltime=np.full(4, 100 * second),
            user=Labels.of(HOSTILE),
        )
    )
    bf.simulate(log, bf.Platform.pool(2), policy="easy").report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    page.locator(FRONT).focus()
    for name in HOSTILE:
        page.keyboard.press("n")
        page.mouse.move(*middle_of(page, name if len(name) < 80 else name[:79] + "…"))
        assert page.locator(f"{TIP} dd").first.text_content() == (name if len(name) < 80 else name[:79] + "…")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


FARM = """
[[node]]
name = "gpu"
count = 2
cpus = {cpus}
gpus = 4
"""


@pytest.mark.parametrize(
    ("jobs", "cpus"),
    [
        ("job,submit,runtime\na,5,0\n", 1),
        ("job,submit,runtime,cpus,gpus\na,0,10,0,4\nb,0,10,0,4\nc,1,5,0,1\n", 1),
        ("job,submit,runtime,after\na,0.25,10,\nb,0.5,1.125,a\n", 2),
    ],
    ids=["no time", "no cpus", "fractions"],
)
def test_odd_results_have_a_chart_too(open_page, tmp_path, jobs, cpus):
    (tmp_path / "jobs.csv").write_text(jobs)
    (tmp_path / "farm.toml").write_text(FARM.format(cpus=cpus))
    log = bf.read(tmp_path / "jobs.csv", resources=["gpus"])
    bf.simulate(log, bf.Platform.read(tmp_path / "farm.toml")).report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    page.locator(FRONT).focus()
    for key in ("n", "+", "+", "t", "ArrowRight", "p", "-", "0"):
        page.keyboard.press(key)
    page.locator(FRONT).hover(position={"x": 300, "y": 100})
    drawn(page)
    assert all(isinstance(value, int | float) for value in window(page))


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        ("job,submit,runtime\n", "There is no job"),
        ("job,submit,runtime,procs\na,0,10,99\n", "No job ran: 1 was rejected."),
    ],
    ids=["no job", "rejected"],
)
def test_where_nothing_ran_a_sentence_says_so(open_page, tmp_path, jobs, sentence):
    (tmp_path / "jobs.csv").write_text(jobs)
    bf.simulate(bf.read(tmp_path / "jobs.csv"), bf.Platform.pool(2)).report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html", chart=False)
    assert page.locator("main > p").text_content().startswith(sentence)
    assert page.locator("main section").count() == 1


def test_an_old_browser_is_told_what_it_lacks(open_page, small, browser):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(small.as_uri())
    assert "too old" in page.locator(".instead").text_content()
    assert page.locator(".place").first.is_hidden()
    context.close()


def test_without_javascript_tables_and_figures_are_there(open_page, small):
    page = open_page(small, chart=False, java_script_enabled=False)
    assert page.locator("table").count() >= 4
    assert page.locator(".plot svg").count() == 5
    assert page.locator(".instead").is_visible()
    assert page.locator(".place").first.is_hidden()


@pytest.mark.parametrize(
    "more",
    [{}, {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}, {"color_scheme": "dark"}],
    ids=["desktop", "phone", "dark"],
)
def test_nothing_sticks_out_of_the_page(open_page, small, more):
    page = open_page(small, **more)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_no_table_is_cut_on_a_desktop(open_page, compared):
    page = open_page(compared)
    for width in (1024, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT) == [], width


def test_on_a_phone_a_shadow_shows_that_a_table_goes_on_and_names_stay(open_page, compared):
    page = open_page(compared, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate(CUT)
    table = page.locator("#summary .wide")
    name = table.locator("tbody th").first
    left = name.bounding_box()["x"]
    table.evaluate("(it) => { it.scrollLeft = 100; }")
    assert name.bounding_box()["x"] == left
    assert table.evaluate("(it) => getComputedStyle(it).backgroundAttachment") == "local, scroll"


def test_marks_of_the_differences_do_not_overlap(open_page, compared):
    page = open_page(compared)
    for width in (390, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        axes = page.evaluate(
            """[...document.querySelectorAll("td.axis div")].map((axis) => [...axis.children]
                .map((mark) => mark.getBoundingClientRect()).filter((box) => box.width)
                .map((box) => [box.left, box.right]))"""
        )
        marks = [axis for axis in axes if axis]  # of the tables that are open
        assert marks
        for axis in marks:
            assert len(axis) >= 3
            assert all(right < left for (_, right), (left, _) in pairwise(axis)), width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_every_policy_has_its_chart_in_light_colours(open_page, compared, scheme):
    page = open_page(compared, color_scheme=scheme)
    before = page.evaluate(f"{CHART}.ink.background[0]")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert [text.split(":")[0] for text in page.locator(".printed p").all_text_contents()] == [
        "fcfs",
        "easy",
        "easy-sjbf",
    ]
    corners = page.locator(".printed canvas").evaluate_all(
        "(all) => all.map((one) => one.getContext('2d').getImageData(one.width - 8, 8, 1, 1).data[0])"
    )
    assert min(corners) > 100
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".printed").count() == 0
    assert page.evaluate(f"{CHART}.ink.background[0]") == before
    assert page.evaluate(f"{CHART}.schedule.name") == "easy-sjbf"  # the policy of interest, as before


def test_dark_pages_have_a_dark_chart(open_page, small):
    def background(scheme):
        return open_page(small, color_scheme=scheme).evaluate(f"{CHART}.ink.background[0]")

    assert background("dark") < 64 < 192 < background("light")


def test_every_control_can_be_reached_and_has_a_name(page):
    controls = page.locator("#gantt :is(button, input, select, canvas.front)")
    for control in controls.all():
        assert control.evaluate("(it) => it.tabIndex") == 0
        assert control.evaluate("(it) => it.ariaLabel || it.labels?.[0]?.textContent.trim() || it.textContent.trim()")


def test_a_chosen_job_tells_why_it_waited(open_page, tmp_path):
    log = bf.generate("lublin?jobs=400&cpus=64&load=0.9&seed=5")
    plain = bf.simulate(log, policy="easy").schedule
    longest = str(plain.job[np.argmax(plain.start - plain.submit)])
    short = str(plain.job[np.argmin(plain.start - plain.submit)])
    result = bf.simulate(log, policy="easy", explain=longest)
    result.report(tmp_path / "out.html")
    page = open_page(tmp_path / "out.html")
    why = page.locator(".why")
    tells(page, f"job {longest}; ")  # it is chosen at first
    assert why.text_content() == str(result.explain(longest))
    find(page, short)
    tells(page, f"job {short}; ")
    assert not why.is_visible()
    waits = np.argsort(plain.submit - plain.start, kind="stable")
    second = str(plain.job[waits[1]])
    find(page, second)
    tells(page, f"job {second}; ")
    assert why.text_content().startswith(f"Job {second} waited ")
    page.locator(FRONT).focus()
    page.keyboard.press("Escape")
    assert not why.is_visible()
