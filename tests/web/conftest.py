"""A real queue with a page: a daemon and a web process, each in a folder of its own, ended with the test."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.patience import PATIENCE_S, until
from tests.queue.conftest import Live

SERVE = [sys.executable, "-m", "backfill", "serve", "--web", "--listen", "127.0.0.1:0"]


class Site:
    """A queue and its page."""

    def __init__(self, live, *options):
        self.live, self.token = live, ""
        self.process = subprocess.Popen(
            [*SERVE, *options], env=live.env, cwd=live.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("serving http"), self.process.communicate()
        self.url = line.split()[1].rstrip(";")
        self.token = Path(line.rstrip().rpartition(" ")[2]).read_text().strip()
        self.client = self.new_client()
        if self.url.startswith("http:"):  # a busy machine starts the planner slowly
            until(lambda: self.get("/v1/health").json().get("planner") == "ready")

    def new_client(self, **more):
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, trust_env=False, **more)

    def get(self, path, **more):
        return self.client.get(path, **more)

    def submit(self, *argv, **job):
        body = {"job": {"need": {"cpus": 1}, "walltime": 6_000_000_000, **job}, "spec": {"argv": [*argv]}}
        return self.client.post("/v1/jobs", json=body)

    def state(self, number):
        (job,) = self.get(f"/v1/jobs/{number}").json()["jobs"]
        return job["state"]

    def end(self):
        """End the web process, and return what it wrote to standard error."""
        self.client.close()
        self.process.terminate()
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return said


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """One queue and its page for the tests of a file."""
    live = Live(tmp_path_factory.mktemp("queue"))
    os.chmod(live.folder, 0o700)
    found = Site(live)
    yield found
    said = found.end()
    live.end()
    assert "Traceback" not in said


@contextmanager
def sites_of(live):
    """Make pages of a queue, which end with it."""
    os.chmod(live.folder, 0o700)
    made = []

    def make(*options):
        made.append(Site(live, *options))
        return made[-1]

    yield make
    for each in made:
        each.end()
    live.end()


@pytest.fixture
def own(tmp_path):
    """Make pages of a queue of this test alone."""
    with sites_of(Live(tmp_path)) as make:
        yield make
