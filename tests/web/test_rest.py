"""REST against a real daemon: the answers are those of the verbs, as their published schemas describe them."""

import json
import re
import socket
import zipfile
from io import BytesIO

import pytest
from tools.openapi import text as described

from backfill.web.problems import STATUS
from backfill.web.rest import OPENAPI
from tests import schemas
from tests.docs.examples import ROOT
from tests.patience import PATIENCE_S, until


def checked(name, response, status=200):
    assert response.status_code == status, response.text
    return schemas.check(name, response.text)


def refused(response, status, field=""):
    found = response.json()
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), found
    assert found["status"] == status
    assert found.get("field", "") == field
    return found["detail"]


def test_the_description_is_as_the_tool_writes_it(site):
    assert OPENAPI.read_text(encoding="utf-8") == described()
    assert site.get("/v1/openapi.json").json() == json.loads(described())


def test_a_job_is_submitted_runs_and_its_output_is_read_in_parts(site):
    answer = site.submit("/bin/sh", "-c", "echo hello; echo world", name="greets")
    found = checked("submit", answer, 201)
    assert answer.headers["location"] == f"/v1/jobs/{found['id']}"
    until(lambda: site.state(found["id"]) == "COMPLETED")
    path = f"/v1/jobs/{found['id']}/log"
    whole = site.get(path)
    assert (whole.text, whole.headers["backfill-state"]) == ("hello\nworld\n", "COMPLETED")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    part = site.get(path, headers={"Range": "bytes=6-"})
    assert (part.status_code, part.text, part.headers["content-range"]) == (206, "world\n", "bytes 6-11/12")
    assert site.get(path, headers={"Range": "bytes=-3"}).text == "ld\n"
    assert site.get(path, headers={"Range": "bytes=0-4"}).text == "hello"
    beyond = site.get(path, headers={"Range": "bytes=12-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */12")
    checked("history", site.get("/v1/history"))
    assert site.get("/v1/history.csv").text.splitlines()[0].startswith("id,label,name,user")


def test_a_repeated_key_queues_no_second_job(site):
    body = {"job": {"need": {"cpus": 1}, "held": True}, "spec": {"argv": ["true"]}}
    first, second = (site.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "once"}) for _ in range(2))
    assert first.json()["id"] == second.json()["id"]
    batch = {"jobs": [body, {**body, "job": {"need": {"cpus": 1000}}}]}
    found = [site.client.post("/v1/jobs:batch", json=batch, headers={"Idempotency-Key": "both"}) for _ in range(2)]
    checked("web-batch", found[0])
    (good, bad), again = (each.json()["jobs"] for each in found)
    assert again[0]["id"] == good["id"]
    assert bad["error"]["code"] == "impossible"


def test_pages_of_jobs_miss_none_whatever_runs(site):
    ids = [site.submit("sleep", "1000", name="paged").json()["id"] for _ in range(9)]  # some run, on four cpus
    until(lambda: site.state(ids[0]) == "RUNNING")
    seen, path = [], "/v1/jobs?name=paged&limit=2"
    while path:
        answer = site.get(path)
        seen += [row["id"] for row in answer.json()["jobs"]]
        path = answer.links.get("next", {}).get("url")
    assert seen == ids
    assert site.get("/v1/jobs", params={"name": "paged", "state": "RUNNING"}).json()["jobs"]
    assert not site.get("/v1/jobs", params={"user": "nobody-of-that-name"}).json()["jobs"]
    assert refused(site.get("/v1/jobs?state=SLEEPY"), 400, "state").startswith("state is 'SLEEPY'; expected ")
    checked("queue", site.get("/v1/jobs"))
    answer = site.client.post("/v1/jobs:cancel", json={"ids": [{"name": "paged"}]})
    assert len(checked("cancel", answer)["ids"]) == 9


def test_a_job_is_changed_held_released_and_cancelled(site):
    number = site.submit("sleep", "1000", held=True).json()["id"]
    path = f"/v1/jobs/{number}"
    checked("release", site.client.post(f"{path}/release"))
    until(lambda: site.state(number) == "RUNNING")
    checked("suspend", site.client.post(f"{path}/suspend"))
    checked("resume", site.client.post(f"{path}/resume"))
    checked("requeue", site.client.post(f"{path}/requeue"))
    until(lambda: site.state(number) == "RUNNING")
    checked("cancel", site.client.post(f"{path}/signal", json={"signal": 15}))
    other = site.submit("sleep", "1000", held=True).json()["id"]
    changed = checked("edit", site.client.patch(f"/v1/jobs/{other}", json={"walltime": 60_000_000, "name": "short"}))
    assert changed["ids"] == [other]
    checked("hold", site.client.post(f"/v1/jobs/{other}/hold"))
    assert checked("cancel", site.client.delete(f"/v1/jobs/{other}"))["ids"] == [other]
    assert checked("cancel", site.client.delete(f"/v1/jobs/{other}"))["ids"] == []  # repeated: nothing happens
    story = checked("show", site.get(f"/v1/jobs/{other}"))["jobs"][0]
    assert (story["state"], story["name"], story["limit_s"]) == ("CANCELLED", "short", 60)


def test_questions_are_answered_as_the_verbs_do(site):
    runs = [site.submit("sleep", "1000").json()["id"] for _ in range(4)]
    waits = site.submit("sleep", "1000", need={"cpus": 2}).json()["id"]
    until(lambda: site.state(runs[-1]) == "RUNNING")
    checked("explain", site.get(f"/v1/jobs/{waits}/explain"))
    checked("explain", site.client.post(f"/v1/jobs/{waits}/explain", json={"walltime": 60_000_000}))
    assert [row["id"] for row in checked("eta", site.get(f"/v1/jobs/{waits}/eta"))["jobs"]] == [waits]
    assert refused(site.get(f"/v1/jobs/{runs[0]}/eta"), 409, "id")
    checked("eta", site.get("/v1/eta"))
    checked("slots", site.get("/v1/slots?mem=1G"))
    assert refused(site.get("/v1/slots?mem=many"), 400)
    checked("eta-accuracy", site.get("/v1/accuracy"))
    body = {"job": {"need": {"cpus": 1}, "walltime": 60_000_000}, "spec": {"argv": ["true"]}}
    checked("submit-test", site.client.post("/v1/jobs:test", json=body))
    site.client.post("/v1/jobs:cancel", json={"ids": [*runs, waits]})


def test_the_queue_as_a_whole(site):
    checked("web-health", site.get("/v1/health"))
    checked("plan", site.get("/v1/plan"))
    checked("web-nodes", site.get("/v1/nodes"))
    assert checked("web-policy", site.get("/v1/policy"))["policy"] == "easy"
    assert checked("pause", site.client.post("/v1/queue:pause"))["paused"]
    assert not checked("pause", site.client.post("/v1/queue:resume"))["paused"]
    checked("reservations", site.get("/v1/reservations"))


def test_another_policy_is_tried_and_takes_over(site):
    tried = checked("serve", site.client.post("/v1/policy:try", json={"policy": "fcfs"}))
    assert not tried["switched"]
    assert site.get("/v1/policy").json()["asked_policy"] == "easy"
    assert checked("serve", site.client.put("/v1/policy", json={"policy": "fcfs"}))["switched"]
    until(lambda: site.get("/v1/policy").json()["policy"] == "fcfs")
    assert "no-such" in refused(site.client.put("/v1/policy", json={"policy": "no-such"}), 400, "policy")


def test_what_was_becomes_a_workload(site):
    number = site.submit("true").json()["id"]
    until(lambda: site.state(number) == "COMPLETED")
    answer = site.get("/v1/history/workload")
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(BytesIO(answer.content)) as files:
        assert {"history.csv", "history.toml"} <= {*files.namelist()}
        assert b"backfill simulate history.csv" in files.read("README.txt")
    nothing = site.get("/v1/history/workload?user=nobody-of-that-name")
    assert nothing.status_code in (200, 422)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("GET", "/v1/jobs/999999", None, 404, "ids"),
        ("GET", "/v1/jobs/last", None, 400, "id"),
        ("GET", "/v1/nothing", None, 404, ""),
        ("PUT", "/v1/jobs", {}, 405, ""),
        ("GET", "/v1/events?kind=foo", None, 400, "kind"),
        ("GET", "/v1/plan?since=5&until=4", None, 400, "until"),
        ("GET", "/v1/jobs?limit=0", None, 400, "limit"),
        ("GET", "/v1/jobs?limit=many", None, 400, "limit"),
        ("POST", "/v1/jobs", {"job": {}, "spec": {"argv": ["true"]}}, 400, "need"),
        ("POST", "/v1/jobs", {"job": {"need": {"cpus": 1}}}, 400, "spec"),
        ("POST", "/v1/jobs", {"job": {"need": {"cpus": -1}}, "spec": {"argv": ["true"]}}, 400, "cpus"),
        ("POST", "/v1/jobs", {"job": {"need": {"cpus": 99}}, "spec": {"argv": ["true"]}}, 422, "cpus"),
        ("POST", "/v1/jobs", {"do": "stop", "job": {}, "spec": {}}, 400, "job"),
        ("POST", "/v1/jobs:hold", {"ids": [1], "v": 1}, 400, "hold"),
        ("PATCH", "/v1/jobs/1", {"color": "red"}, 400, "change"),
        ("PUT", "/v1/policy", {"policy": "easy", "do": "stop"}, 400, "policy"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(site, method, path, body, status, field):
    answer = site.client.request(method, path, json=body)
    detail = refused(answer, status, field)
    assert detail
    assert "Traceback" not in detail


def test_a_body_that_is_not_json_is_refused(site):
    assert refused(site.client.post("/v1/jobs", content=b"{", headers={"Content-Type": "application/json"}), 400)
    deep = b"[" * 100_000
    assert refused(site.client.post("/v1/jobs", content=deep, headers={"Content-Type": "application/json"}), 400)
    assert refused(site.client.post("/v1/jobs", data={"job": "1"}), 415)


def test_names_and_outputs_that_attack_are_only_text(site):
    name = "<script>alert(1)</script>"
    number = site.submit("/bin/sh", "-c", "printf '<script>alert(1)</script>\\033[31m'", name=name).json()["id"]
    until(lambda: site.state(number) == "COMPLETED")
    answer = site.get(f"/v1/jobs/{number}/log")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert refused(site.submit("true", name="bell\a"), 400, "name")
    body = {"job": {"need": {"cpus": 1}}, "spec": {"argv": ["printf", "\udcff"]}}  # a byte that is not UTF-8
    odd = site.client.post("/v1/jobs", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert odd.status_code == 201


def test_the_output_of_a_job_that_is_no_ordinary_file_is_refused(site):
    body = {"job": {"need": {"cpus": 1}}, "spec": {"argv": ["true"], "output": "/dev/zero"}}
    number = site.client.post("/v1/jobs", json=body).json()["id"]
    until(lambda: site.state(number) not in ("PENDING", "RUNNING", "ENDING"))
    assert "is not an ordinary file" in refused(site.get(f"/v1/jobs/{number}/log"), 409)


def test_a_head_that_does_not_end_closes_its_connection(site):
    address = ("127.0.0.1", int(site.url.rpartition(":")[2]))
    with socket.create_connection(address, PATIENCE_S) as sock:
        sock.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX: ")

        def is_closed():
            try:
                sock.sendall(b"x" * 10_000)
            except OSError:
                return True
            return False

        until(is_closed)
    assert site.get("/v1/jobs").status_code == 200


@pytest.mark.parametrize(
    "then", ["//evil.example", "/\\evil.example", "https://evil.example", "/x\r\nSet-Cookie: a=b", "/\u00e9", "x", ""]
)
def test_a_login_leads_only_to_pages_of_this_server(site, then):
    with site.new_client() as client:
        answer = client.post("/login", data={"token": site.token, "next": then})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "a=b" not in answer.headers["set-cookie"]
        shown = client.get("/login", params={"next": '"><script>alert(1)</script>'})
        assert "<script>" not in shown.text
        assert client.post("/login", content=b"token=" + b"x" * 100_000).status_code == 413


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_behind_a_proxy_the_cookie_is_for_https_alone(site, scheme):
    with site.new_client() as client:
        headers = {"Origin": site.url.replace("http", scheme)}
        answer = client.post("/login", data={"token": site.token}, headers=headers)
        assert ("Secure" in answer.headers["set-cookie"]) == (scheme == "https")


PAGE = (ROOT / "docs" / "reference" / "web.md").read_text(encoding="utf-8")


def test_the_reference_page_names_every_operation():
    for path, operations in json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"].items():
        text = path.removeprefix("/v1").replace("{id}", "ID").replace("{name}", "NAME")
        verb = re.split("[/:]", text)[-1]
        for method in map(str.upper, operations):
            assert f"{method} {text}" in PAGE or f"`{verb}`" in PAGE or f":{verb}`" in PAGE, f"{method} {path}"


def test_the_bodies_of_the_reference_page_are_accepted(site):
    bodies = [json.loads(found) for found in re.findall(r'({"job": .*?"spec": {[^}]*}})', PAGE)]
    assert len(bodies) == 2
    for body in bodies:
        assert site.client.post("/v1/jobs:test", json=body).status_code == 200


def test_every_status_of_a_refusal_is_on_the_reference_page():
    table = PAGE.partition("## Errors")[2].partition("## Events")[0]
    assert {kind for kind, status in STATUS.items() if status < 500} - {"shadow"} <= {*re.findall(r"`([\w-]+)`", table)}
    assert all(str(status) in table for status in STATUS.values() if status != 500)
