"""Generated requests to every operation: whatever is sent, the answer is a document, and no mistake of this program."""

import json
import os

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance

from backfill.web.rest import OPENAPI
from tests.patience import PATIENCE_S, until
from tests.queue.conftest import Live
from tests.web.conftest import Site


def small(part):
    """A description with lists and texts that are quickly made, at their longest as well."""
    if isinstance(part, list):
        return [small(one) for one in part]
    if not isinstance(part, dict):
        return part
    most = {"maxItems": 3, "maxProperties": 3, "maxLength": 60}
    return {
        key: min(value, most[key]) if key in most and isinstance(value, int) else small(value)
        for key, value in part.items()
    }


DOCUMENT = small(json.loads(OPENAPI.read_text(encoding="utf-8")))
STREAMS = {path for path in DOCUMENT["paths"] if path.endswith("/events")}  # which do not end
SLOW = {"/v1/history/workload", "/v1/policy:try", "/v1/policy"}  # a process each, or the compiler: fewer requests
POLICIES = ("easy", "fcfs", "k-reservations:k=2")  # those that are compiled already, or soon; others are mistakes


def of(chosen, **phases):
    """The operations of some paths."""
    return schemathesis.openapi.from_dict(
        {**DOCUMENT, "paths": {path: told for path, told in DOCUMENT["paths"].items() if chosen(path)}},
        config=schemathesis.Config.from_dict({"phases": phases}),
    )


schema, streams = of(lambda path: path not in STREAMS | SLOW), of(STREAMS.__contains__)
slow = of(SLOW.__contains__, coverage={"enabled": False})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A queue whose jobs are only simulated: what is generated must not run."""
    live = Live(tmp_path_factory.mktemp("queue"))
    os.chmod(live.folder, 0o700)
    live.configure("easy", pool="fake:60")
    found = Site(live)
    yield found
    said = found.end()
    live.end()
    assert "Traceback" not in said


@schema.parametrize()
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_gets_a_document(site, case):
    answered(site, case)


@slow.parametrize()
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_for_a_policy_or_a_workload_gets_a_document(site, case):
    name = case.body.get("policy") if isinstance(case.body, dict) else None
    if isinstance(name, str) and len(name) % 2:
        case.body["policy"] = POLICIES[len(name) % len(POLICIES)]
    answered(site, case)


def answered(site, case):
    """Send a request and check its answer."""
    if isinstance(case.body, dict) and isinstance(case.body.get("job"), dict):
        case.body["job"].pop("notify", None)  # which would run
    answer = case.call(base_url=site.url, headers={"Authorization": f"Bearer {site.token}"}, timeout=PATIENCE_S)
    assert b"Traceback" not in answer.content
    busy = answer.status_code == 503 and answer.headers["content-type"] == ["application/problem+json"]
    case.validate_response(answer, checks=[content_type_conformance, *([] if busy else [not_a_server_error])])


@streams.parametrize()
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_for_events_gets_a_stream_or_a_document(site, case):
    asked = case.as_transport_kwargs(base_url=site.url, headers={"Authorization": f"Bearer {site.token}"})
    with requests.request(**asked, timeout=PATIENCE_S, stream=True) as answer:
        kind = answer.headers["content-type"].partition(";")[0]
        begin = next(answer.iter_content(None))
        assert answer.status_code < 500, begin
        assert kind == ("text/event-stream" if answer.status_code == 200 else "application/problem+json")
        if answer.status_code == 200:
            assert begin.startswith((b"retry: 1000\nid: ", b"event: reset\n"))
        else:
            assert json.loads(begin)["status"] == answer.status_code


def test_every_operation_is_tried():
    paths = [path for some in (schema, slow, streams) for path in some.raw_schema["paths"]]
    assert sorted(paths) == sorted(DOCUMENT["paths"])


def test_the_queue_has_stood_all_of_it(site):
    until(lambda: site.get("/v1/health").json().get("planner") == "ready")
    assert "Traceback" not in (site.live.folder / "daemon.log").read_text()
