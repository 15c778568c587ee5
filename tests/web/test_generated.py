"""Generated requests to every operation: whatever is sent, the answer is a document, and no mistake of this program."""

import json
import os

import pytest
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
SLOW = {"/v1/history/workload", "/v1/policy:try", "/v1/policy"}  # a process each, or the compiler
schema = schemathesis.openapi.from_dict(
    {**DOCUMENT, "paths": {path: told for path, told in DOCUMENT["paths"].items() if path not in STREAMS | SLOW}}
)


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
    if isinstance(case.body, dict) and isinstance(case.body.get("job"), dict):
        case.body["job"].pop("notify", None)  # which would run
    answer = case.call(base_url=site.url, headers={"Authorization": f"Bearer {site.token}"}, timeout=PATIENCE_S)
    assert "Traceback" not in answer.text
    busy = answer.status_code == 503 and answer.headers["content-type"] == ["application/problem+json"]
    case.validate_response(answer, checks=[content_type_conformance, *([] if busy else [not_a_server_error])])


def test_the_queue_has_stood_all_of_it(site):
    until(lambda: site.get("/v1/health").json().get("planner") == "ready")
    assert "Traceback" not in (site.live.folder / "daemon.log").read_text()
