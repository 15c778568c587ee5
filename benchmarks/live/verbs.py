"""Measure every verb of the live queue with 90,000 open jobs: arrays of 10,000, a chain of 10,000, and diamonds.

    python benchmarks/live/verbs.py [--small] [--folder DIR]

For each request: the wall clock, the processor time of the daemon, of the command, and of the copy of the planner that
answers a question, and the longest time that another client, which asks every 2 ms, waited meanwhile.
"""

import argparse
import json
import os
import resource
import shutil
import socket
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


class Queue:
    """A daemon, a connection to it, and another client that asks all the time."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "BACKFILL_HOME": str(folder)}
        (folder / "config.toml").write_text('cpus = 4\npolicy = "easy"\n')
        subprocess.run([*BACKFILL, "serve", "--detach"], env=self.env, check=True)
        self.path = str(folder / "sock")
        self.sock, self.file = self.connect()
        self.pid = int((folder / "lock").read_text())
        self.longest, self.over, self.tokens = 0.0, False, 0
        threading.Thread(target=self.keep_asking, daemon=True).start()

    def connect(self) -> tuple[socket.socket, Any]:
        """Another connection."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.path)
        return sock, sock.makefile("rb")

    def keep_asking(self) -> None:
        """Ask for little, and note how long that takes."""
        sock, file = self.connect()
        while not self.over:
            begun = time.perf_counter()
            sock.sendall(b'{"do":"ping"}\n')
            if not file.readline():
                return
            self.longest = max(self.longest, time.perf_counter() - begun)
            time.sleep(0.002)

    def cpu(self) -> float:
        """Processor time of the daemon, in seconds."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def ask(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send requests in one go; their answers."""
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        sender = threading.Thread(target=self.sock.sendall, args=(data,))
        sender.start()
        found = [json.loads(self.file.readline()) for _ in lines]
        sender.join()
        assert not [one for one in found if "error" in one], found
        return found

    def job(self, **job: Any) -> dict[str, Any]:
        """A request to submit."""
        self.tokens += 1
        spec = {"argv": ["sleep", "1000"], "cwd": "/tmp", "env": {"PATH": os.defpath}}
        facts = {"need": {"cpus": 1}, "walltime": HOUR, **job}
        return {"do": "submit", "token": f"t{self.tokens}", "user": "ana", "job": facts, "spec": spec}

    def measure(self, name: str, what: Any) -> Any:
        """Do something and print what it cost."""
        self.longest, cpu, begun, used = 0.0, self.cpu(), time.perf_counter(), os.times()
        found = what()
        wall, now = time.perf_counter() - begun, os.times()
        client = now.children_user - used.children_user + now.children_system - used.children_system
        copy = f"{found['cpu_s']:8.2f} s" if isinstance(found, dict) and "cpu_s" in found else f"{'-':>10}"
        others = self.longest * 1e3
        print(f"{name:<44}{wall:8.2f} s {self.cpu() - cpu:8.2f} s {client:8.2f} s {copy} {others:8.0f} ms", flush=True)
        return found

    def submit(self, name: str, **job: Any) -> int:
        """Submit, measured; the number."""
        return int(self.measure(name, lambda: self.ask([self.job(**job)]))[0]["id"])

    def wait(self, number: int, clients: int) -> None:
        """Have so many clients wait for a job, each by a connection of its own, and leave again."""
        line = json.dumps({"do": "wait", "ids": [number]}).encode() + b"\n"
        some = []
        for _ in range(clients):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.path)
            sock.sendall(line)
            some.append(sock)
        while self.ask([{"do": "ping"}])[0]["waiters"] < clients:
            time.sleep(0.01)
        for sock in some:
            sock.close()

    def run(self, *words: str) -> None:
        """A command, measured; with --json what it prints."""

        def ran() -> Any:
            done = subprocess.run([*BACKFILL, *words], env=self.env, capture_output=True)
            return json.loads(done.stdout) if "--json" in words else None

        self.measure(" ".join(words), ran)


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--folder", type=Path, help="where queues are made")
    given = parser.parse_args()
    size = 1_000 if given.small else 10_000
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        queue = Queue(folder)
        print(f"{'':<44}{'wall':>10} {'daemon':>10} {'command':>10} {'copy':>10} {'others':>11}")
        queue.ask([queue.job() for _ in range(4)])
        tasks = [*range(size)]
        first = queue.submit(f"array of {size:,}", array=tasks, held=True)
        second = queue.submit("the same, afterok", array=tasks, after=[["afterok", first]])
        third = queue.submit("the same, aftercorr", array=tasks, after=[["aftercorr", first]])
        queue.submit("a job after three arrays", after=[["afterany", one] for one in (first, second, third)])
        head = queue.submit("a job", held=True)
        chain = [queue.job(after=[["afterok", head + n]]) for n in range(size)]
        queue.measure(f"chain of {size:,}, pipelined", lambda: queue.ask(chain))
        diamond = queue.submit(f"a job after {size:,} jobs", after=[["afterany", head + n] for n in range(size)])
        for _ in range(5):
            queue.submit(f"array of {size:,}", array=tasks, held=True)
        clients = size // 5
        resource.setrlimit(resource.RLIMIT_NOFILE, (size, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        queue.measure(f"{clients:,} clients that wait", lambda: queue.wait(head, clients))
        for words in (
            ["queue"], ["queue", "-n", "20"], ["queue", "--state", "RUNNING"], ["queue", "--json"], ["top", "--once"],
            ["show", f"{first}_5"], ["show", str(first)], ["show", "--json", str(first)], ["show", str(diamond)],
            ["log", f"{first}_5"], ["explain", "--json", f"{second}_5"], ["eta", "--json"], ["slots", "--json"],
            ["submit", "--test-only", "--json", "-t", "60", "--", "true"], ["doctor"],
            ["submit", "-H", "--", "true"], ["hold", str(second)], ["release", str(second)],
            ["edit", "--priority", "3", str(second)], ["edit", "--cpus", "2", str(third)], ["hold", "--name", "job"],
            ["cancel", str(head)], ["cancel", f"{first}_0"], ["cancel", str(first)], ["cancel", "--all"], ["queue"],
            ["history"],
        ):  # fmt: skip
            queue.run(*words)
        queue.over = True
        subprocess.run([*BACKFILL, "serve", "--stop"], env=queue.env, check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
