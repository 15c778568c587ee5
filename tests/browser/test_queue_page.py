"""The page of a live queue, used as people use it: a real daemon, a real web process, a real browser."""

import signal
from urllib.parse import urlsplit

import pytest

from tests.browser.visiting import chart_of, see, soon
from tests.patience import until

pytest.importorskip("fastapi", reason="needs the extra web")

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202egnp.exe {{7*7}}'
NODES = "document.querySelectorAll('*').length"


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_job_is_submitted_seen_to_start_and_cancelled(own, visit, scripts):
    visitor = visit(own(), java_script_enabled=scripts)
    page = visitor.log_in("/submit")
    page.fill("[name=command]", "echo begun; sleep 600")
    page.fill("[name=name]", "mine")
    page.fill("[name=cpus]", "2")
    page.click("text=Only show when it would start")
    see(page, ".answer", r"Would start now[\s\S]*Nothing has been submitted")
    page.click("button:text-is('Submit')")
    page.wait_for_url("**/jobs/1?done=submit")
    see(page, ".done", "Job 1 is queued")
    until(lambda: visitor.site.state(1) == "RUNNING")
    if not scripts:
        page.reload()
    see(page, "#status", "Running since")
    if not scripts:
        until(lambda: "begun" in visitor.site.get("/v1/jobs/1/log").text)
        page.reload()
    see(page, "#log", "begun")
    visitor.open("/", page)
    see(page, "#job-1", "mine.*running")
    page.click("#job-1 a")
    page.click("text=Cancel")
    see(page, "main", "Cancel job 1.*Its processes are ended now")
    page.click("button:text-is('Cancel job 1')")
    see(page, ".done", "Cancelled job 1")
    until(lambda: visitor.site.state(1) == "CANCELLED")
    if not scripts:
        page.reload()
    see(page, "#status", "Cancelled")
    assert page.locator(".verbs").count() == 0


def test_a_form_that_is_sent_twice_submits_once(own, visit):
    visitor = visit(own())
    page = visitor.log_in("/submit")
    form = {"command": "true", "token": page.input_value("[name=token]"), "do": "submit"}
    for _ in range(2):
        answer = page.request.post(f"{visitor.site.url}/submit", form=form, headers={"origin": visitor.site.url})
        assert urlsplit(answer.url).path == "/jobs/1"


def test_mistakes_are_said_at_their_field_and_keep_what_was_typed(own, visit):
    visitor = visit(own(), java_script_enabled=False)
    visitor.away = True  # a refusal has status 400
    page = visitor.log_in("/submit")
    page.fill("[name=command]", "true")
    page.fill("[name=time]", "soon")
    page.click("button:text-is('Submit')")
    see(page, "[role=alert]", "--time: 'soon'")
    assert page.get_attribute("[name=time]", "aria-invalid") == "true"
    assert page.input_value("[name=command]") == "true"
    page.fill("[name=time]", "1m")
    page.fill("[name=cpus]", "9")
    page.click("button:text-is('Submit')")
    see(page, "[role=alert]", "9")
    assert page.get_attribute("[name=cpus]", "aria-invalid") == "true"


def test_holding_and_trying_a_shorter_limit(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-c", "3", "-t", "1h", "--", "sleep", "600")
    live.submit("-c", "4", "-t", "1h", "--", "true")
    third = live.submit("-c", "1", "-t", "2h", "--", "true")
    page = visitor.log_in(f"/jobs/{third}")
    see(page, "#why", "waits behind job 2")
    assert page.locator("#why a[href='/jobs/2']").count()
    page.click("text=put into the form >> nth=0")
    see(page, ".tried", "would start now instead of")
    page.fill("[name=time]", "3:00:00")
    live.submit("-c", "4", "-t", "1h", "--", "true")
    page.evaluate("LIVE.soon(0)")
    soon(page, "LIVE.took > 0 && !LIVE.waiting")
    assert page.input_value("[name=time]") == "3:00:00"  # and the answer stays
    see(page, ".tried", "would start now instead of")
    page.click("text=Show the start it would get")
    see(page, ".tried", "would start (?!now)")
    page.fill("[name=cpus]", "many")
    page.click("text=Show the start it would get")
    see(page, ".tried", "cpus")
    visitor.open(f"/jobs/{third}", page)
    page.click("text=Hold")
    page.click(f"button:text-is('Hold job {third}')")
    see(page, "#status", "it is held|It is held|Waits: it is held")
    page.click("text=Release")
    page.click(f"button:text-is('Release job {third}')")
    see(page, "#status", "jobs that go first")


def test_a_daemon_that_is_killed_and_comes_back(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("--", "sleep", "600")
    page = visitor.log_in("/")
    chart_of(page)
    see(page, "#job-1", "running")
    visitor.away = True
    live.kill(live.daemon())
    page.evaluate("LIVE.soon(0)")
    see(page, "#state", "has not answered since")
    see(page, "#job-1", "running")  # the state of then remains
    assert live.submit("--", "sleep", "600") == 2  # starts it again
    see(page, "#job-2", "sleep")
    see(page, "#state", "^(The queue answers again.)?$")
    visitor.away = False
    assert live.submit("--", "sleep", "600") == 3
    see(page, "#job-3", "sleep")


def test_a_page_that_is_opened_while_no_daemon_answers_says_so_and_comes_back(own, visit):
    visitor = visit(own(), java_script_enabled=False)
    page = visitor.log_in("/")
    visitor.away = True
    visitor.site.live.run("serve", "--stop")
    until(lambda: visitor.open("/", page).locator("#problem-text").count())  # it may answer what it has read
    see(page, "main", r"does not answer now[\s\S]*tries again")
    visitor.site.live.submit("--", "sleep", "600")
    see(page, "#summary", "policy conservative")  # by itself
    page.reload()
    see(page, "#job-1", "sleep")


def test_a_web_process_that_dies_is_told_as_well(own, visit):
    visitor = visit(own())
    page = visitor.log_in("/")
    chart_of(page)
    visitor.away = True
    visitor.site.process.send_signal(signal.SIGKILL)
    visitor.site.process.wait()
    page.evaluate("LIVE.soon(0)")
    see(page, "#state", "has not answered since")


def test_two_tabs_show_the_same(own, visit):
    visitor = visit(own())
    first = visitor.log_in("/")
    chart_of(first)
    second = visitor.open("/submit")
    second.fill("[name=command]", "sleep 600")
    second.click("button:text-is('Submit')")
    see(first, "#job-1", "running")
    second.click("text=Cancel")
    second.click("button:text-is('Cancel job 1')")
    see(first, "#table", "No job runs or waits")
    see(first, "#summary", "0 jobs run, 0 wait")


def look_away(page, hidden):
    """Let a tab be hidden, or seen again: without a window every tab counts as seen."""
    page.evaluate(
        """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""",
        hidden,
    )


def test_many_tabs_follow_the_queue_each_while_it_is_seen(own, visit):
    visitor = visit(own())
    tabs = [visitor.log_in("/")]
    for _ in range(7):  # a browser has six connections to a server
        soon(tabs[-1], "LIVE.stream.readyState === EventSource.OPEN")
        look_away(tabs[-1], True)
        tabs.append(visitor.open("/"))
    soon(tabs[-1], "LIVE.stream.readyState === EventSource.OPEN")
    assert tabs[0].evaluate("LIVE.stream.readyState === EventSource.CLOSED")
    visitor.site.live.submit("--", "sleep", "600")
    see(tabs[-1], "#job-1", "sleep")
    assert tabs[0].locator("#job-1").count() == 0
    look_away(tabs[-1], True)
    look_away(tabs[0], False)
    see(tabs[0], "#job-1", "sleep")


def test_a_session_that_ends_leads_to_the_token_and_back(own, visit):
    visitor = visit(own())
    site = visitor.site
    page = visitor.log_in("/?user=nobody")
    chart_of(page)
    visitor.away = True
    new = "f" * 64
    path = site.live.folder / "web.token"
    half = path.with_name("half")
    half.write_text(new)
    half.chmod(0o600)
    half.rename(path)
    page.evaluate("LIVE.soon(0)")
    see(page, "#state", "Your session has ended")
    page.click("text=Log in again")
    page.fill("input[name=token]", new)
    page.click("button")
    page.wait_for_url("**/?user=nobody")


def test_hostile_names_and_outputs_are_text(own, visit):
    visitor = visit(own())
    site = visitor.site
    text = "<b>bold</b><script>alert(3)</script>\x1b[31mred\x1b[0m </pre>"
    (site.live.folder / "evil").write_text(text)
    answer = site.submit("cat", str(site.live.folder / "evil"), name=HOSTILE.replace("\u202e", ""), project="</title>")
    assert answer.status_code == 201, answer.text
    site.submit("sleep", "600", name="x" * 250, walltime=60_000_000)
    site.live.submit("--wrap", "printf '\\377\\376\\000'; sleep 600", "--comment" if False else "-J", "<i>")
    until(lambda: site.state(1) == "COMPLETED")
    page = visitor.log_in("/?ended=1")
    chart_of(page)
    see(page, "#job-1", "<script>alert")
    visitor.open("/jobs/1", page)
    see(page, "#log", "<script>alert\\(3\\)</script>")
    see(page, "h1", "<img src=x onerror")
    visitor.open("/jobs/3", page)
    see(page, "h1", "<i>")
    for path in ("/jobs/%3Cscript%3E", "/?user=%3Cscript%3Ealert(4)%3C/script%3E", "/jobs/1?done=%3Cimg%3E",
                 "/what-if?policy=%3Cscript%3Ealert(5)%3C/script%3E", "/jobs/1/%3Cb%3E"):  # fmt: skip
        visitor.away = True
        visitor.open(path, page)
        assert page.evaluate("document.scripts.length") == page.evaluate(
            "document.querySelectorAll('head > script[src]').length"
        )


def test_no_inline_script_can_run(own, visit):
    visitor = visit(own())
    page = visitor.log_in("/")
    policy = visitor.site.get("/", headers={"accept": "text/html"}).headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy
    visitor.away = True
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
    }""")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in one for one in visitor.complaints)
    visitor.complaints.clear()


def test_ten_thousand_jobs_are_some_rows(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-c", "4", "-t", "1h", "--", "sleep", "600")
    live.submit("-a", "1-10000", "-t", "10m", "--", "true")
    page = visitor.log_in("/")
    see(page, "#table", r"2_\[1-10000\]")
    assert page.evaluate("document.querySelectorAll('#table tbody tr').length") == 2
    visitor.open("/?fold=0", page)
    assert page.evaluate("document.querySelectorAll('#table tbody tr').length") == 200
    assert page.evaluate(NODES) < 6000
    chart = chart_of(page)
    soon(page, f"{chart}.data.count === 5001")
    see(page, "#plan .key", "5,000 more are not in the chart")
    page.click("text=Show the next ones")
    see(page, "#job-300", "2_299")


def test_a_tab_that_stays_open_does_not_grow(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-c", "3", "--", "sleep", "600")
    page = visitor.log_in("/")
    chart_of(page)
    see(page, "#job-1", "running")
    page.evaluate("""() => {
        window.shown = 0;
        const show = LIVE.show;
        LIVE.show = function (page) { window.shown++; show.call(this, page); };
    }""")
    last, before = 1, 0
    for _ in range(6):
        last = live.submit("-a", "1-8", "--", "true") + 7
        until(lambda last=last: visitor.site.state(last) == "COMPLETED")
        shown = page.evaluate("window.shown")
        page.evaluate("LIVE.soon(0)")
        soon(page, f"window.shown > {shown}")
        soon(page, "document.querySelectorAll('#table tbody tr').length === 1")
        before = before or page.evaluate(NODES)  # with all parts that a page of this queue has
    soon(page, "document.querySelectorAll('#table tbody tr').length === 1")
    assert page.evaluate(NODES) <= before + 20
    plan = "document.getElementById('plan').section"
    soon(page, f"{plan}.data.bars.length >= {last}")  # the chart has all of them, the document none
    assert page.evaluate(NODES) <= before + 20


def test_the_chart_says_who_why_and_until_when_by_keys_alone(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-c", "3", "-t", "1h", "-J", "first", "--", "sleep", "600")
    live.submit("-c", "4", "-t", "1h", "-J", "second", "--", "true")
    page = visitor.log_in("/")
    chart = chart_of(page)
    soon(page, f"[...{chart}.data.kind].includes(3)")
    for _ in range(60):
        if page.evaluate("document.activeElement.matches('canvas.front')"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("n")
    see(page, "#plan output", "job 1 first; .*state running; .*at the latest")
    page.keyboard.press("n")
    see(page, "#plan output", "job 2 second; .*state pending; .*guaranteed by")
    now = page.evaluate(f"{chart}.data.now")
    soon(page, f"{chart}.data.now > {now}")  # it moves
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/2")


def test_filters_are_in_the_address(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-J", "one", "--", "sleep", "600")
    live.submit("-J", "two", "--hold", "--", "true")
    page = visitor.log_in("/")
    page.fill("[name=name]", "two")
    page.select_option("[name=state]", "PENDING")
    page.click("button:text-is('Filter')")
    page.wait_for_url(lambda url: "name=two" in urlsplit(url).query and "state=PENDING" in url)
    see(page, "#job-2", "two")
    assert page.locator("#job-1").count() == 0
    page.click("text=Clear")
    see(page, "#job-1", "one")


def test_a_page_that_only_shows_has_no_forms_that_change(own, visit):
    site = own("--read-only")
    site.live.submit("--", "sleep", "600")
    visitor = visit(site)
    page = visitor.log_in("/jobs/1")
    assert page.locator(".verbs").count() == 0
    assert page.locator("form[method=post]").count() == 1  # to log out
    assert page.locator("a[href='/submit']").count() == 0
    assert site.client.post("/jobs/1/cancel").status_code == 403


PAGES = (
    *("/", "/?fold=0&ended=1", "/jobs/1", "/jobs/2", "/jobs/2?time=0:10:00&try=1", "/jobs/2/cancel", "/submit"),
    *("/accuracy", "/use", "/what-if", "/jobs/99999"),
)


def test_every_page_at_every_width_is_within_reach_of_all(own, visit):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    site = own()
    live = site.live
    live.submit("-c", "3", "-t", "1h", "--wrap", "echo out; sleep 600")
    live.submit("-c", "4", "-t", "1h", "-J", "w" * 64, "--", "true")
    live.submit("-a", "1-3", "--", "true")
    for width, scheme in ((390, "light"), (1280, "dark"), (2560, "light")):
        visitor = visit(site, viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = visitor.log_in("/")
        for path in PAGES:
            visitor.away = path.endswith("99999")
            visitor.open(path, page)
            if path == "/":
                chart_of(page)
            found = axe.run(page).response["violations"]
            assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], (path, width)
            for between in (width, 820, 1024) if width == 1280 else (width,):
                page.set_viewport_size({"width": between, "height": 900})
                wider = "each => each.scrollWidth - each.clientWidth"
                assert page.eval_on_selector("html", wider) <= 0, (path, between)
                if path == "/" and between > 390:
                    assert page.eval_on_selector(".wide", wider) <= 0, between


def test_another_policy_on_the_last_week(own, visit):
    visitor = visit(own())
    live = visitor.site.live
    live.submit("-c", "3", "-t", "1m", "--", "sleep", "0.2")
    live.submit("-c", "4", "-t", "1m", "--", "sleep", "0.2")
    last = live.submit("-c", "1", "-t", "1m", "--", "true")
    until(lambda: visitor.site.state(2) == visitor.site.state(last) == "COMPLETED")
    page = visitor.log_in("/what-if")
    page.fill("[name=policy]", "fcfs")
    page.click("text=Repeat the week")
    see(page, "#whatif", r"Under fcfs, \d of 3 jobs would have waited longer")
    page.fill("[name=policy]", "nonsense")
    page.click("text=Repeat the week")
    see(page, "#whatif .wrong", "nonsense")
    visitor.open("/use", page)
    see(page, "main", "3 jobs have ended")
    visitor.open("/accuracy", page)
    see(page, "main", "promised")
