"""The pages without a browser: what is asked, what is escaped, and who may see it."""

import asyncio
import os
import re
from itertools import pairwise

import pytest

from backfill.queue.words import Unreadable
from backfill.web import pages_job, pages_past, pages_queue, pages_submit, pages_whatif
from backfill.web.pages import STATIC, VERSION
from tests.patience import completed, until

HTML = {"accept": "text/html"}


def test_the_axis_is_in_order_and_its_marks_have_room():
    for until_s in (10, 600, 5000, 86_400, 40 * 86_400):
        axis = pages_queue.Axis(until_s)
        places = [axis.at(share * max(until_s, 60) / 20) for share in range(21)]
        assert (places[0], places[-1]) == (0, 100)
        assert places == sorted(places)
        marks = [at for at, _ in axis.marks]
        assert all(b - a >= pages_queue.APART for a, b in pairwise(marks))
    assert pages_queue.Axis(600).at(-5) == 0
    assert pages_queue.Axis(600).at(9999) == 100


def test_filters_of_an_address_become_a_request():
    asked = pages_queue.asked({"state": "pending", "user": "ana,boris", "after": "17", "fold": "0"})
    assert (asked["states"], asked["users"], asked["after"], asked["fold"]) == (
        ["PENDING"],
        ["ana", "boris"],
        17,
        False,
    )
    assert pages_queue.asked({"state": "RUNNING"})["states"] == [*pages_queue.HOLDING]
    assert pages_queue.address({"user": "a&b", "after": "1"}, state="PENDING") == "/?user=a%26b&state=PENDING"


def test_jobs_in_texts_are_links_and_all_else_is_escaped():
    text = pages_job.linked("waits behind job 12_3 <b>, and jobs 4, 5_1 of <i>; 30 jobs")
    assert text == (
        'waits behind job <a href="/jobs/12_3">12_3</a> &lt;b&gt;, and jobs <a href="/jobs/4">4</a>, '
        '<a href="/jobs/5_1">5_1</a> of &lt;i&gt;; 30 jobs'
    )
    held = pages_job.linked("held by 112 <train>: 8 cpus until 17:35 at the latest")
    assert held == 'held by <a href="/jobs/112">112</a> &lt;train&gt;: 8 cpus until 17:35 at the latest'


def test_the_form_of_a_change_reads_as_the_command_does():
    found = pages_job.change_of({"time": "1:30:00", "cpus": "2", "mem": "1G"})
    assert found == {"walltime": 5_400_000_000, "need": {"cpus": 2, "memory": 1 << 30}}
    assert pages_job.change_of({"time": " ", "cpus": ""}) == {}
    with pytest.raises(Unreadable, match="--cpus"):
        pages_job.change_of({"cpus": "many"})


def test_the_form_of_a_job_reads_as_the_command_does():
    fields = pages_submit.DEFAULTS | {"command": "echo 'a b'", "licenses": "matlab:2", "array": "1-3%2"}
    found = pages_submit.request_of(fields)
    assert found["spec"]["argv"] == ["/bin/sh", "-c", "echo 'a b'"]
    assert (found["job"]["name"], found["job"]["need"]) == ("echo", {"cpus": 1, "matlab": 2})
    assert (found["job"]["array"], found["job"]["throttle"]) == ([1, 2, 3], 2)
    for name, text in (("time", "soon"), ("cpus", "x"), ("array", "1-"), ("command", " ")):
        with pytest.raises(Unreadable) as refused:
            pages_submit.request_of(fields | {name: text})
        assert pages_submit.field_of(refused.value) == name


def test_pages_need_the_token_and_files_do_not(site):
    anonymous = site.new_client()
    del anonymous.headers["authorization"]
    answer = anonymous.get("/jobs/1?done=hold", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs%2F1%3Fdone%3Dhold")
    for name in STATIC:
        answer = anonymous.get(f"/static/{name}?v={VERSION}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert "immutable" not in anonymous.get("/static/live.js?v=other").headers["cache-control"]
    assert anonymous.get("/static/..%2Fpages.py").status_code in (401, 404)
    anonymous.close()


def test_scripts_come_from_files_and_every_page_forbids_others(site):
    for path in ("/", "/submit", "/accuracy", "/use", "/what-if", "/jobs/77"):
        answer = site.get(path, headers=HTML)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["script-src"] == "'self'", path
        assert re.findall(r"<script(?! src=\"/static/[a-z]+\.js\?v=\w+\" defer></script>)", answer.text) == [], path
        assert not re.search(r"\son\w+=", answer.text), path


def test_an_unknown_job_or_verb_is_a_page_that_says_so(site):
    for path in ("/jobs/77", "/jobs/x", "/jobs/77/cancel", "/nothing"):
        answer = site.get(path, headers=HTML)
        assert answer.status_code == 404
        assert "<h1>Not found</h1>" in answer.text
    number = site.submit("true").json()["id"]
    assert site.get(f"/jobs/{number}/explode", headers=HTML).status_code == 404
    assert site.client.post(f"/jobs/{number}/explode").status_code == 404


def test_a_page_tells_only_a_verb_whose_effect_is_there(site):
    number = site.submit("true", held=True).json()["id"]
    for verb, told in (("hold", True), ("cancel", False), ("release", False)):
        text = site.get(f"/jobs/{number}?done={verb}", headers=HTML).text
        assert ('class="done"' in text) == told, verb
    site.client.delete(f"/v1/jobs/{number}")
    assert f"Cancelled job {number}." in site.get(f"/jobs/{number}?done=cancel", headers=HTML).text


def test_no_page_waits_for_the_names_of_policies(tmp_path, monkeypatch):
    async def output(words, folder):
        await asyncio.sleep(0)
        return '{"policies": [{"name": "easy"}]}'

    async def work():
        monkeypatch.setattr(pages_whatif, "_output", output)
        trials = pages_whatif.Trials(tmp_path)
        trials.find_names()
        assert trials.names == []
        await trials._finding
        assert trials.names == ["easy"]

    completed(work())


def test_use_of_a_queue_in_which_nothing_ran(own):
    page = own()
    assert pages_past.use(page.live.folder, 7, "UTC")["figures"] == []
    assert pages_past.sentence(pages_past.accuracy(page.live.folder)) == "No start was promised so far"
    assert "No job has run in this time" in page.get("/use", headers=HTML).text


def test_a_form_is_bounded(site):
    for path in ("/submit", "/what-if", "/login"):
        for form, status in ((b"command=" + 600_000 * b"x", 413), (b"a=1&" * 200, 400)):
            answer = site.client.post(path, content=form, headers=HTML)
            assert (answer.status_code, "xpected a form of at most" in answer.text) == (status, True), path


def test_only_the_spans_of_the_page_are_offered():
    assert [pages_past.days_of(text) for text in ("1", "365", "0365" + 18 * "9", "٧", "", "2")] == [1, 365, 7, 7, 7, 7]


def test_losers_come_first(tmp_path, site):
    done = [site.submit("true").json()["id"] for _ in range(3)]
    waits = {"jobs": [*done, 10**6], "was": [5_000_000, 0, 9_000_000, 1], "would_be": [6_500_000, 8_000_000, 0, 1]}
    found = pages_whatif.compared(site.live.folder, waits)
    assert [row[0] for row in found["losers"]] == [str(done[1]), str(done[0])]
    assert [row[0] for row in found["winners"]] == [str(done[2])]
    assert (found["jobs"], found["counts"]) == (3, [2, 0, 1])


def test_an_output_that_is_no_ordinary_file_is_said_and_not_waited_for(site, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)  # so that the job finds a reader, and the page a pipe that stays open
    body = {"job": {"need": {"cpus": 1}}, "spec": {"argv": ["true"], "output": str(path)}}
    number = site.client.post("/v1/jobs", json=body).json()["id"]
    until(lambda: site.state(number) not in ("PENDING", "STARTING", "RUNNING", "ENDING"))
    os.close(end)
    assert "is not an ordinary file" in site.get(f"/jobs/{number}", headers=HTML).text
