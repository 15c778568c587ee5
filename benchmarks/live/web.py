"""Measure the queue over HTTP with 10,000 queued jobs: the first paint of its page in a browser, submits with
keep-alive, and passes beside 50 readers.

    python benchmarks/live/web.py [--queued N] [--submits N] [--clients N] [--seconds S]

The queue is on a fake pool, so jobs take no processor time of this machine. Wall clock counts only on an idle machine;
the processor time of both processes for each submit is printed as well, and the load.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

BACKFILL = [sys.executable, "-m", "backfill"]
TICKS = os.sysconf("SC_CLK_TCK")
HOUR = 3_600_000_000


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Client:
    """An HTTP client with keep-alive that costs little: the servers are measured."""

    def __init__(self, port: int, token: str) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._sock.makefile("rb")
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._sock.sendall(head.encode() + body)
        status, length = int(self._file.readline().split()[1]), 0
        while (line := self._file.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, self._file.read(length)


class Site:
    """A queue on a fake pool, and its page."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "BACKFILL_HOME": str(folder)}
        (folder / "config.toml").write_text('cpus = 64\npolicy = "easy"\npool = "fake:1"\n')
        subprocess.run([*BACKFILL, "serve", "--detach"], env=self.env, check=True)
        words = [*BACKFILL, "serve", "--web", "--listen", "127.0.0.1:0"]
        self.web = subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, text=True)
        assert self.web.stdout is not None
        self.port = int(self.web.stdout.readline().split()[1].rstrip(";").rpartition(":")[2])
        self.token = (folder / "web.token").read_text().strip()
        self.daemon = int((folder / "lock").read_text())

    def client(self) -> Client:
        """Return another client."""
        return Client(self.port, self.token)

    def passes(self) -> dict[str, Any]:
        """Return the durations of the last passes."""
        found: dict[str, Any] = json.loads(self.client().ask("GET", "/v1/health")[1])["passes"]
        return found

    def end(self) -> None:
        """End both processes."""
        self.web.send_signal(signal.SIGTERM)
        self.web.wait()
        subprocess.run([*BACKFILL, "serve", "--stop"], env=self.env, check=True)


def new_job(**more: Any) -> dict[str, Any]:
    """Return a job that runs for an hour."""
    return {"job": {"need": {"cpus": 1}, "walltime": HOUR, **more}, "spec": {"argv": ["true"], "runtime": HOUR}}


def submits(site: Site, count: int, clients: int) -> None:
    """Submit jobs one after the other from each client, and print how long that takes."""
    body, took = json.dumps(new_job(held=True)).encode(), list[float]()

    def work() -> None:
        client = site.client()
        for _ in range(count // clients):
            begin = time.perf_counter()
            status, answer = client.ask("POST", "/v1/jobs", body)
            took.append(time.perf_counter() - begin)
            assert status == 201, answer

    threads = [threading.Thread(target=work) for _ in range(clients)]
    before = cpu_s(site.web.pid), cpu_s(site.daemon), time.process_time()
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - begin
    spent = [now - then for now, then in zip((cpu_s(site.web.pid), cpu_s(site.daemon), time.process_time()), before,
                                             strict=True)]  # fmt: skip
    web, daemon, own = (1000 * each / len(took) for each in spent)
    took.sort()
    at = [1000 * took[int(share * len(took))] for share in (0.5, 0.99)]
    rate = f"{len(took):,} submits: {len(took) / wall:,.0f} a second"
    print(f"{clients} clients, {rate}, median {at[0]:.2f} ms, p99 {at[1]:.2f} ms")
    print(f"  processor time of each: page {web:.2f} ms, daemon {daemon:.2f} ms, client {own:.2f} ms")


def passes(site: Site, seconds: float, readers: int) -> None:
    """Print how long passes take while readers list jobs, each twice a second, as pages do."""
    over, reads = threading.Event(), list[float]()

    def read() -> None:
        client = site.client()
        while not over.wait(0.5):
            begin = time.perf_counter()
            status, answer = client.ask("GET", "/v1/jobs?limit=100")
            assert status == 200, answer
            reads.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    client, end, took = site.client(), time.monotonic() + seconds, list[float]()
    body, begun = json.dumps(new_job()).encode(), cpu_s(site.daemon)
    while time.monotonic() < end:  # each submit is a pass
        begin = time.perf_counter()
        client.ask("POST", "/v1/jobs", body)
        took.append(time.perf_counter() - begin)
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    found = site.passes()
    told = f", a read takes {1000 * statistics.median(reads):.1f} ms" if reads else ""
    used = f"daemon {100 * (cpu_s(site.daemon) - begun) / seconds:.0f} % of a core"
    print(f"{readers} readers: pass median {found['median_ms']:.2f} ms, max {found['worst_ms']:.2f} ms")
    print(f"  submit median {1000 * statistics.median(took):.2f} ms, {used}{told}")


def paint(site: Site, times: int) -> None:
    """Print how soon a browser paints the page of the queue, if there is one."""
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if browser is None or importlib.util.find_spec("playwright") is None:
        print("first paint: not measured; it needs Chromium and the extra browser")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = running.new_page()
        page.goto(f"http://127.0.0.1:{site.port}/submit")
        page.fill("input[name=token]", site.token)
        page.click("button")
        painted, charted, spent = list[float](), list[float](), list[float]()
        for _ in range(times):
            before = cpu_s(site.web.pid) + cpu_s(site.daemon)
            page.goto(f"http://127.0.0.1:{site.port}/")
            page.wait_for_selector("#plan[data-ready]")
            charted.append(page.evaluate("performance.now()"))
            painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            spent.append(1000 * (cpu_s(site.web.pid) + cpu_s(site.daemon) - before))
        running.close()
    medians = [statistics.median(each) for each in (painted, charted, spent)]
    print("first paint {:.0f} ms, chart {:.0f} ms after the request (medians)".format(*medians[:2]))
    print(f"  processor time of page and daemon until then: {medians[2]:.0f} ms")


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--submits", type=int, default=5_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    site = Site(folder)
    try:
        client = site.client()
        for _ in range(given.queued // 1000):
            status, answer = client.ask("POST", "/v1/jobs:batch", json.dumps({"jobs": [new_job()] * 1000}).encode())
            assert status == 200, answer
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {given.queued:,} jobs queued")
        paint(site, 5)
        submits(site, given.submits, given.clients)
        submits(site, given.submits, 1)
        for readers in (0, 50):
            passes(site, given.seconds, readers)
    finally:
        site.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
