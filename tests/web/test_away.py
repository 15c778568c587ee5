"""Each process may die, stand still or be flooded: the page says so and is back by itself, the queue never notices."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading

import pytest

from backfill.system import processes
from tests.patience import PATIENCE_S, until
from tests.web.conftest import SERVE


def away(answer):
    found = answer.json()
    return (answer.status_code, found["type"]) == (503, "urn:backfill:problem:away")


def test_a_daemon_that_is_killed_is_said_to_be_away_until_the_next_one_serves(own):
    site = own()
    number = site.submit("sleep", "1000").json()["id"]
    site.live.kill(site.live.daemon())
    until(lambda: not site.live.daemon())
    answer = site.get("/v1/jobs")
    assert away(answer)
    assert answer.headers["retry-after"]
    assert not site.live.daemon()  # a read starts none
    site.live.run("serve", "--detach")
    assert site.get("/v1/jobs").json()["jobs"][0]["id"] == number


def test_a_submit_starts_the_daemon_as_the_command_line_does(own):
    site = own()
    site.live.run("serve", "--stop")
    assert away(site.get("/v1/health"))
    assert site.submit("true").status_code == 201
    assert site.get("/v1/health").status_code == 200


def test_a_daemon_that_stands_still_is_said_to_be_away_and_answers_later(own):
    site = own()
    daemon = site.live.daemon()
    processes.send(daemon, signal.SIGSTOP)
    try:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(site.get("/v1/jobs"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert site.get("/login").status_code == 200  # what needs no daemon is answered meanwhile
        for thread in threads:
            thread.join(PATIENCE_S)
        assert all(away(answer) for answer in answers)
        assert len(answers) == 3
    finally:
        processes.send(daemon, signal.SIGCONT)
    assert site.get("/v1/jobs").status_code == 200


def test_the_queue_does_not_notice_a_page_that_is_killed_or_stands_still(own):
    site = own()
    first = site.submit("true").json()["id"]
    processes.send(site.process.pid, signal.SIGSTOP)
    second = site.live.submit("--", "true")
    site.live.until(lambda: site.live.job(second)["state"] == "COMPLETED")
    site.process.kill()
    site.process.wait()
    third = site.live.submit("--", "true")
    site.live.until(lambda: site.live.job(third)["state"] == "COMPLETED")
    assert site.live.job(first)["state"] == "COMPLETED"
    assert "Traceback" not in (site.live.folder / "daemon.log").read_text()


def test_a_flood_of_connections_and_readers_leaves_the_queue_alone(own):
    site = own()
    address = ("127.0.0.1", int(site.url.rpartition(":")[2]))
    half = [socket.create_connection(address, PATIENCE_S) for _ in range(150)]  # which never end their requests
    for each in half:
        each.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n")
    codes, over = [], threading.Event()

    def read():
        with site.new_client() as client:
            while not over.is_set():
                codes.append(client.get("/v1/jobs").status_code)

    readers = [threading.Thread(target=read) for _ in range(20)]
    for reader in readers:
        reader.start()
    until(lambda: len(codes) > 100)
    number = site.live.submit("--", "true")
    site.live.until(lambda: site.live.job(number)["state"] == "COMPLETED")
    clients = os.listdir(f"/proc/{site.live.daemon()}/fd")
    over.set()
    for reader in readers:
        reader.join(PATIENCE_S)
    for each in half:
        each.close()
    assert {*codes} <= {200, 503}  # an answer that takes too long on a busy machine is an honest 503
    assert 200 in codes
    assert len(clients) < 100  # however many clients the page has
    assert site.live.request("ping")["pid"] == site.live.daemon()


def test_a_read_only_page_changes_nothing_and_its_token_opens_no_other(own):
    site, display = own(), own("--read-only")
    assert display.token != site.token
    number = site.submit("sleep", "1000", held=True).json()["id"]
    assert display.get(f"/v1/jobs/{number}").status_code == 200
    body = {"job": {"need": {"cpus": 1}}, "spec": {"argv": ["true"]}}
    requests = [
        ("POST", "/v1/jobs", body), ("DELETE", f"/v1/jobs/{number}", None), ("POST", "/v1/queue:pause", None),
        ("PUT", "/v1/policy", {"policy": "fcfs"}), ("POST", "/v1/jobs:cancel", {"ids": ["all"]}),
        ("POST", "/v1/jobs:batch", {"jobs": [body]}), ("DELETE", "/v1/reservations/x", None),
    ]  # fmt: skip
    for method, path, sent in requests:
        answer = display.client.request(method, path, json=sent)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:backfill:problem:read-only"), path
    assert display.client.post("/v1/jobs:test", json=body).status_code == 200
    site.client.headers["Authorization"] = f"Bearer {display.token}"
    assert site.get("/v1/jobs").status_code == 401
    assert site.live.job(number)["state"] == "PENDING"


def test_a_new_token_ends_what_had_the_old_one(own):
    site = own()
    login = site.client.post("/login", data={"token": site.token, "next": "//evil.example"})
    assert (login.status_code, login.headers["location"]) == (303, "/")
    assert site.get("/v1/jobs").status_code == 200
    other = own("--new-token")
    assert other.token != site.token
    assert site.get("/v1/jobs").status_code == 401
    with other.new_client(cookies=site.client.cookies) as bare:
        del bare.headers["Authorization"]
        assert bare.get("/v1/jobs").status_code == 401
    assert "not the token" in site.client.post("/login", data={"token": site.token}).text


def test_wrong_tokens_are_counted_by_connection_whatever_a_header_says(own):
    site = own()
    codes = []
    with site.new_client() as client:
        for i in range(30):
            headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"10.0.0.{i}"}
            codes.append(client.get("/v1/jobs", headers=headers).status_code)
    assert 429 in codes


def test_a_unix_socket_is_for_its_user_alone(own, tmp_path):
    import httpx

    site = own()
    path = tmp_path / "page.sock"
    words = [*SERVE[:-1], f"unix:{path}"]
    process = subprocess.Popen(words, env=site.live.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("serving")
        assert path.stat().st_mode & 0o777 == 0o600
        headers = {"Authorization": f"Bearer {site.token}"}
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), headers=headers, timeout=PATIENCE_S) as client:
            assert client.get("http://localhost/v1/health").status_code == 200
            assert client.get("http://evil.example/v1/health").status_code == 421
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_what_cannot_be_served_is_said_in_one_line(own, tmp_path):
    site = own()
    port = site.url.rpartition(":")[2]

    def said(*options, code):
        words = [sys.executable, "-m", "backfill", "serve", *options]
        done = subprocess.run(words, env=site.live.env, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == code, done.stderr
        (line,) = done.stderr.splitlines()
        return line

    assert "Address already in use; expected" in said("--web", "--listen", f"127.0.0.1:{port}", code=1)
    assert "expected --tls-cert and --tls-key, or --insecure" in said("--web", "--listen", "0.0.0.0:0", code=2)
    assert "'nowhere' is no address; expected HOST:PORT or unix:PATH" in said("--web", "--listen", "nowhere", code=2)
    assert "--tls-cert and --tls-key belong together" in said("--web", "--tls-cert", "x", code=2)
    assert "No such file" in said("--web", "--tls-cert", "x", "--tls-key", "y", code=1)
    assert "--read-only belongs to --web" in said("--read-only", code=2)
    os.chmod(site.live.folder / "web.token", 0o644)
    assert "mode 644; expected 600" in said("--web", "--listen", "127.0.0.1:0", code=2)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes a certificate, is not installed")
def test_with_a_certificate_it_serves_https_and_cookies_for_it_alone(own, tmp_path):
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run([*words, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=PATIENCE_S)
    site = own("--tls-cert", str(cert), "--tls-key", str(key))
    assert site.url.startswith("https://127.0.0.1:")
    trusts = ssl.create_default_context(cafile=cert)
    with site.new_client(verify=trusts) as client:
        assert client.get("/v1/health").status_code == 200
        login = client.post("/login", data={"token": site.token}, headers={"Origin": site.url})
        assert "Secure" in login.headers["set-cookie"]


def test_a_missing_extra_is_named_with_its_command(tmp_path):
    without = "import sys; sys.modules['uvicorn'] = None"
    code = f"{without}; from backfill.client.client import main; sys.exit(main(['serve', '--web']))"
    words = [sys.executable, "-c", code]
    env = {**os.environ, "BACKFILL_HOME": str(tmp_path)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert done.stderr == (
        "backfill: serve --web needs an optional package; install it with: pip install 'backfill[web]'\n"
    )
