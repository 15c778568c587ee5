"""Pages with any query: whatever stands in an address, the answer is a page, and no mistake of this program."""

import re
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patience import until

HTML = {"accept": "text/html"}
PAGES = {  # fields that each page reads
    "/": ("state", "user", "name", "project", "fold", "ended", "after"),
    "/jobs/1": ("done",),
    "/jobs/2": ("time", "cpus", "mem", "try", "done"),
    "/jobs/1/hold": ("done",),
    "/submit": ("command", "time", "cpus", "mem", "licenses", "array", "name"),
    "/use": ("days",),
    "/accuracy": ("days",),
    "/what-if": ("policy", "now"),
    "/login": ("next",),
}
NUMBERS = st.one_of(st.integers(-2, 400), st.integers(-(10**30), 10**30)).map(str)
WORDS = st.sampled_from(
    ["", "0", "1", "RUNNING", "pending", "ana,boris", "1:00:00", "1G", "x:2", "1-3%2", "easy", "cancel"]
)
VALUES = st.one_of(WORDS, NUMBERS, st.text(max_size=20).filter(lambda text: text.isprintable()))


@st.composite
def addresses(draw):
    page = draw(st.sampled_from([*PAGES]))
    fields = draw(st.lists(st.tuples(st.sampled_from([*PAGES[page], "other"]), VALUES), max_size=4))
    return f"{page}?{urlencode(fields)}"


@pytest.fixture(scope="module")
def queue(site):
    """The page of a queue with a job that runs and one that waits for it."""
    until(lambda: site.get("/v1/health").json().get("planner") == "ready")
    for cpus in (3, 2):
        assert site.submit("sleep", "600", need={"cpus": cpus}).status_code == 201
    until(lambda: site.get("/jobs/2", headers=HTML).text.count("Why it waits"))
    return site


@given(addresses())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_query_gets_a_page(queue, address):
    answer = queue.get(address, headers=HTML)
    assert answer.status_code in (200, 303, 400, 404, 409, 503), answer.text  # 503: the daemon is busy, and said so
    assert "Traceback" not in answer.text
    assert answer.status_code == 303 or "<h1" in answer.text


def test_the_chart_has_the_jobs_of_the_users_of_the_table(queue):
    page = queue.get("/", params={"user": "ana, <b>&x"}, headers=HTML).text
    assert 'data-plan="/v1/plan?limit=5000&amp;user=ana%2C%3Cb%3E%26x"' in page
    assert "The plan of the jobs of <bdi>ana,&lt;b&gt;&amp;x</bdi>" in page
    assert 'data-plan="/v1/plan?limit=5000"' in queue.get("/", headers=HTML).text


def test_the_chart_follows_all_filters_but_the_state_and_says_so(queue):
    page = queue.get("/", params={"name": "a b", "project": "x", "state": "PENDING"}, headers=HTML).text
    assert 'data-plan="/v1/plan?limit=5000&amp;name=a%2Cb&amp;project=x"' in page
    assert "The plan of the jobs named <bdi>a,b</bdi> in project <bdi>x</bdi>" in page
    assert "The chart shows jobs in every state" in page
    assert "The chart shows jobs in every state" not in queue.get("/", headers=HTML).text


def test_what_would_help_follows_the_queue_and_what_was_tried_stays(queue):
    page = queue.get("/jobs/2", headers=HTML).text
    (live,) = re.findall(r'<div id="helps" data-live>(.*?)\n</section>', page, re.DOTALL)
    assert 'id="try-heading"' in live
    assert '<div id="tried" role="status" class="tried" data-kept>' in live
    assert "try-heading" not in queue.get("/jobs/1", headers=HTML).text
