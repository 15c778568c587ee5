"""Queues with real daemons, each in a folder of its own, ended with the test."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill.client import calling, requests
from backfill.client.options import VERBS, ids_of
from backfill.system import processes
from tests import forks
from tests.patience import PATIENCE_S, until

PYTHON = [sys.executable, "-m", "backfill"]
LOADS = {"doctor", "--from"}  # which load the core, unlike the other verbs of a queue that is served


def started(words, folder, environment):
    """Run a command line in a process of its own, whose Python reads the environment."""
    streams = {"capture_output": True, "text": True}
    return subprocess.run([*PYTHON, *words], env=environment, cwd=folder, timeout=PATIENCE_S, **streams)


class Live:
    """A queue with real processes."""

    def __init__(self, folder):
        self.folder = Path(folder)
        # A machine of two cpus, whatever this one has; short sleeps let several jobs share them.
        (self.folder / "config.toml").write_text('cpus = 4\ngrace = "1s"\npolicy = "easy"\n')
        self.env = {**os.environ, **forks.PLAIN, "BACKFILL_HOME": str(self.folder)}

    def configure(self, policy, grace="1s", pool="local"):
        """Settings of a queue that has not begun."""
        text = f'cpus = 4\ngrace = "{grace}"\npolicy = "{policy}"\npool = "{pool}"\n'
        (self.folder / "config.toml").write_text(text)

    def run(self, *words, check=0, **env):
        words = [*map(str, words)]
        serves = self.daemon() > 0 and words[0] in VERBS and not {*words} & LOADS and not env
        anew = any(name.startswith(("PYTHON", "NUMBA")) for name in env)
        done = (started if anew else forks.queue(serves).run)(words, self.folder, self.env | env)
        assert check is None or done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def submit(self, *words, **env):
        return int(self.run("submit", "--parsable", *words, **env).stdout)

    def request(self, what, **more):
        """The answer to a request, whatever dies meanwhile; without a process of its own, unless there is no daemon."""
        while True:
            try:
                queue = calling.Queue(str(self.folder), start=False)
            except calling.Problem:
                self.run("serve", "--detach", check=None)
                continue
            try:
                return queue.ask(what, **more)
            except ConnectionError:
                pass
            finally:
                queue.close()

    def submit_quickly(self, *argv, cpus=1):
        """Submit a command that runs in the folder."""
        facts = {"cwd": str(self.folder), "walltime": 6_000_000_000, "cpus": cpus}
        return self.request("submit", **requests.request_of(facts, [*argv]))["id"]

    def ask(self, request):
        """The answer to one raw request."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.folder / "sock"))
            sock.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(sock.makefile("rb").readline())

    def job(self, number):
        (found,) = self.request("show", ids=ids_of({}, [str(number)]))["jobs"]
        return found

    def jobs(self, ended=1000):
        return self.request("queue", ended=ended, estimates=True)["jobs"]

    def until(self, what):
        """Poll until something holds; returns it."""
        try:
            return until(what)
        except AssertionError as problem:
            log = (self.folder / "daemon.log").read_text()
            raise AssertionError(f"{problem}; daemon.log:\n{log}") from None

    def daemon(self):
        """The daemon's process; 0 if there is none."""
        try:
            pid = int((self.folder / "lock").read_text() or 0)
        except (OSError, ValueError):
            return 0
        return pid if pid and processes.state(pid) not in (b"", b"Z") else 0

    def kill(self, *pids):
        for pid in filter(None, pids):  # 0 is the group of this process
            processes.send(pid, signal.SIGKILL)

    def keepers(self):
        """The keeper and the supervisors, by their command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"-I" in words and str(self.folder).encode() in words:
                    found.append(int(entry.name))
        return found

    def end(self):
        """End every process of this queue, wherever it has gone to."""
        while some := processes.belonging({"BACKFILL_HOME": str(self.folder)}):
            self.kill(*some)
            time.sleep(0.01)


@pytest.fixture
def live(tmp_path):
    queue = Live(tmp_path)
    yield queue
    queue.end()
