"""Measure the live queue beside what is installed of task-spooler (tsp) and pueue, and beside the bare machine.

    python benchmarks/live/run.py [--quick] [--only NAME ...] [--folder DIR] [--save]

Queues live in a new folder on the disk of DIR. `cpu` is what all processes of the queue used. `--save` writes
results.json beside this file.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backfill.answers.questions import answer as answer_question
from backfill.queue import feed
from backfill.queue.events import Entry, Submit
from backfill.queue.job import Attempt, Job
from backfill.queue.store import Store
from backfill.system import processes
from backfill.worlds.live import Planner, answer

SAVED = Path(__file__).parent / "results.json"
BACKFILL = [sys.executable, "-m", "backfill"]
TICKS = os.sysconf("SC_CLK_TCK")
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
Rows = list[tuple[str, str, float, float | None]]  # what, unit, figure, target


class Queue:
    """A daemon with a connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config.toml").write_text('cpus = 4\npolicy = "easy"\n')
        self.env = {**ENV, "BACKFILL_HOME": str(folder)}
        self.start()
        self.ask("wait", ids=[self.submit(1)[0]])
        while self.ask("ping")["planner"]["kind"] != "compiled" or not self.ask("ping")["planner"]["ready"]:
            time.sleep(0.1)

    def start(self) -> None:
        """Start the daemon, which may be there already, and connect."""
        subprocess.run([*BACKFILL, "serve", "--detach"], env=self.env, check=True)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.folder / "sock"))
        self.file = self.sock.makefile("rb")
        self.pid = int((self.folder / "lock").read_text())

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """One request."""
        self.sock.sendall(json.dumps({"do": what, **more}).encode() + b"\n")
        found: dict[str, Any] = json.loads(self.file.readline())
        assert "error" not in found, found
        return found

    def request(self, held: bool) -> bytes:
        """A submit of 1.3 KB."""
        job = {"need": {"cpus": 1}, "name": "job", "walltime": 60_000_000, "held": held}
        env = {f"VARIABLE_{n}": "some value of it" for n in range(25)}
        told = {"do": "submit", "token": os.urandom(8).hex(), "user": "ana", "job": job,
                "spec": {"argv": ["true"], "cwd": "/tmp", "env": {"PATH": os.defpath, **env}}}  # fmt: skip
        return json.dumps(told).encode() + b"\n"

    def submit(self, count: int, held: bool = False) -> list[int]:
        """Submit in one go."""
        return self.send(b"".join(self.request(held) for _ in range(count)), count)

    def send(self, data: bytes, count: int) -> list[int]:
        """Send so many submits, and read what they are answered."""
        sender = threading.Thread(target=self.sock.sendall, args=(data,))
        sender.start()
        found = [json.loads(self.file.readline())["id"] for _ in range(count)]
        sender.join()
        return found

    def processes(self) -> dict[str, list[int]]:
        """The processes, without jobs."""
        planners = self.ask("ping")["planner"]["pids"].values()
        words = str(self.folder).encode()
        keepers = [
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _is_keeper(entry, words)
        ]
        return {"daemon": [self.pid], "keeper": keepers, "planner": [*planners]}

    def cpu_s(self) -> float:
        """The CPU time of the processes and of all children that they have waited for."""
        return sum(_cpu_s(pid) for some in self.processes().values() for pid in some)

    def end(self) -> None:
        """Stop it, and its keeper."""
        found = self.processes()
        self.file.close()
        self.sock.close()
        subprocess.run([*BACKFILL, "serve", "--stop"], env=self.env, check=True)
        for pid in found["keeper"]:
            processes.send(pid, signal.SIGKILL)


def _is_keeper(entry: Path, folder: bytes) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"-I" in words and folder in words


def _cpu_s(pid: int) -> float:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) / TICKS


def memory_mb(pid: int) -> float:
    """Memory of a process, shared pages by share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def queue(base: Path) -> Iterator[Queue]:
    """A queue in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="backfill-", dir=base))
    made = Queue(folder)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def spans(work: Callable[[], Any], count: int) -> list[float]:
    """How long it takes, in milliseconds, each time, in order of length."""
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        work()
        found.append((time.perf_counter() - begin) * 1e3)
    return sorted(found)


def run(*words: str, env: dict[str, str] | None = None) -> None:
    """A command, without its output."""
    subprocess.run(words, env=env or ENV, check=True, stdout=subprocess.DEVNULL)


def commands(base: Path, quick: bool) -> Rows:
    """One command per submit, in turns."""
    rows: Rows = []
    with queue(base) as one:
        works: dict[str, Callable[[], None]] = {
            "python -c pass": lambda: run(sys.executable, "-c", "pass"),
            "backfill submit": lambda: run(*BACKFILL, "submit", "-q", "-H", "--", "true", env=one.env),
        }
        if shutil.which("tsp"):
            env = {**ENV, "TS_SOCKET": str(one.folder / "tsp"), "TS_MAXFINISHED": "1"}
            run("tsp", "sleep", "600", env=env)
            works["tsp"] = lambda: run("tsp", "-n", "true", env=env)
        if shutil.which("pueue"):
            works["pueue add"] = lambda: run("pueue", "add", "--stashed", "true")
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(10 if quick else 40):
            for name, work in works.items():
                found[name] += spans(work, 1)
        if shutil.which("tsp"):
            subprocess.run(["tsp", "-K"], env=env, check=False)
    for name, some in found.items():
        target = 40.0 if name == "backfill submit" else None
        rows += [(f"{name}, best", "ms", min(some), target), (f"{name}, median", "ms", statistics.median(some), None)]
    return rows


def submits(base: Path, quick: bool) -> Rows:
    """Durable submits over one connection, beside the sync of 4 KB that each needs."""
    count = 500 if quick else 2000
    with queue(base) as one, open(one.folder / "probe", "wb", buffering=0) as file:

        def sync() -> None:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())

        def submit() -> None:
            one.sock.sendall(requests.pop())
            one.file.readline()

        syncs = spans(sync, 300)
        requests = [one.request(True) for _ in range(count)]
        before = one.cpu_s()
        each = spans(submit, count)
        used = (one.cpu_s() - before) / count * 1e3
        best, used_by_many = 0.0, 1e9
        for _ in range(3):
            data = b"".join(one.request(True) for _ in range(2 * count))
            before, begin = one.cpu_s(), time.perf_counter()
            one.send(data, 2 * count)
            best = max(best, 2 * count / (time.perf_counter() - begin))
            used_by_many = min(used_by_many, (one.cpu_s() - before) / 2 / count * 1e3)
    return [
        ("sync of 4 KB, median", "ms", statistics.median(syncs), None),
        ("submit, median", "ms", statistics.median(each), None),
        ("submit, p99", "ms", each[int(0.99 * count)], None),
        ("submits one by one, at the median", "1/s", 1e3 / statistics.median(each), 2000.0),
        ("submits one by one, all", "1/s", 1e3 * count / sum(each), None),
        ("cpu of one", "ms", used, None),
        ("submits pipelined", "1/s", best, 10_000.0),
        ("cpu of one, pipelined", "ms", used_by_many, None),
    ]


def short_jobs(base: Path, quick: bool) -> Rows:
    """Jobs that do nothing, from their submit to the record of their ends."""
    count = 100 if quick else 300
    rows: Rows = []
    with queue(base) as one:
        one.ask("wait", ids=one.submit(20))
        best, used = 0.0, 1e9
        for _ in range(3):
            before, begin = one.cpu_s(), time.perf_counter()
            one.ask("wait", ids=one.submit(count))
            best = max(best, count / (time.perf_counter() - begin))
            used = min(used, (one.cpu_s() - before) / count * 1e3)
    rows += [("short jobs", "1/s", best, 150.0), ("cpu of one", "ms", used, None)]
    if shutil.which("tsp"):
        with tempfile.TemporaryDirectory(dir=base) as folder:
            env = {**ENV, "TS_SOCKET": f"{folder}/tsp", "TS_SLOTS": "4", "TS_MAXFINISHED": "10"}
            begin = time.perf_counter()
            for _ in range(count):
                run("tsp", "-n", "true", env=env)
            run("tsp", "-w", env=env)
            rows.append(("tsp, a command each", "1/s", count / (time.perf_counter() - begin), None))
            run("tsp", "-K", env=env)
    return rows


def deep(base: Path, quick: bool) -> Rows:
    """10,000 jobs queued behind one that has the whole machine; then kill -9."""
    count = 1000 if quick else 10_000
    with queue(base) as one:
        blocker = {"need": {"cpus": 4}, "walltime": 60_000_000, "name": "blocker"}
        spec = {"argv": ["sleep", "1000"], "cwd": "/tmp", "env": {"PATH": os.defpath}}
        (first,) = [one.ask("submit", token="blocker", user="ana", job=blocker, spec=spec)["id"]]
        for _ in range(count // 1000):
            one.submit(1000)
        while len([job for job in one.ask("queue")["jobs"] if job["state"] == "RUNNING"]) < 1:
            time.sleep(0.1)
        found = one.processes()
        memory = memory_mb(found["daemon"][0]) + sum(memory_mb(pid) for pid in found["keeper"])
        answers, passes, daemons, planners = [], [], [], []
        for _ in range(2 if quick else 4):
            os.kill(one.pid, signal.SIGKILL)
            begin = time.perf_counter()
            one.start()
            one.ask("ping")
            answers.append(time.perf_counter() - begin)
            daemons.append(_cpu_s(one.pid))
            while not one.ask("ping")["planner"]["ready"]:
                time.sleep(0.005)
            passes.append(time.perf_counter() - begin)
            planners.append(sum(_cpu_s(pid) for pid in one.processes()["planner"]))
        one.ask("cancel", ids=[first])
        one.ask("wait", ids=[first])
        one.ask("cancel", ids=["all"])
    return [
        (f"daemon and keeper, {count:,} queued", "MB", memory, 60.0),
        (f"kill -9 with {count:,} queued, first answer", "s", min(answers), 0.5),
        ("first pass", "s", min(passes), 1.5),
        ("cpu of the daemon until its first answer", "s", min(daemons), None),
        ("cpu of planners until the first pass", "s", min(planners), None),
    ]


def passes(base: Path, quick: bool) -> Rows:
    """A pass of EASY in a planner, with all that goes through its pipe, when a job ends before 10,000 that wait."""
    count, rounds = (1000, 50) if quick else (10_000, 300)
    facts = {"walltime": 3_600_000_000, "grace": 0, "priority": 0, "user": "a", "project": "", "deadline": None}
    epoch = {"policy": "easy", "resources": {"cpus": 64, "memory": 0, "gpus": 0}, "base": []}
    planner = Planner("easy", epoch)
    now, running = 1_000_000, set()
    told: list[list[Any]] = []
    for job in range(1, count + 65):
        need = {"cpus": 1 + job * 7 % 16}
        told += [["submit", job, {**facts, "need": need}], ["wait", job]]
    running |= {job for job, _ in planner.decide(now, told)["starts"]}
    found = []
    for _ in range(rounds):
        now += 1_000_000
        over = min(running)
        asked = json.dumps({"do": "ask", "now": now, "messages": [["gone", over, "COMPLETED"]]})
        begin = time.perf_counter()
        planner, done = answer(planner, json.loads(asked))
        json.dumps(done)
        found.append((time.perf_counter() - begin) * 1e3)
        running.discard(over)
        running |= {job for job, _ in done["starts"]}
    found.sort()
    return [
        (f"pass of EASY, {count:,} waiting, median", "ms", statistics.median(found), 10.0),
        ("p99", "ms", found[int(0.99 * rounds)], None),
    ]


DAY_US = 86_400_000_000
WALLTIMES_S = (600, 1800, 3600, 14_400, 43_200)


def eta(base: Path, quick: bool) -> Rows:
    """Estimates of all jobs that wait on 64 cpus, in a queue with ten days behind it."""
    count, now = 100 if quick else 1000, 20 * DAY_US
    chance = random.Random(1)
    jobs = []
    for number in range(1, 3 * count + 1):
        walltime = chance.choice(WALLTIMES_S) * 1_000_000
        need = {"cpus": chance.choice((1, 1, 2, 4, 8, 16))}
        jobs.append(Job(number, token=str(number), user=chance.choice("abcd"), name=chance.choice("xyz"), need=need,
                        walltime=walltime, state="PENDING", waits=True))  # fmt: skip
    over, waiting = jobs[: 2 * count], jobs[2 * count :]
    for place, job in enumerate(over):
        job.submit = now - 10 * DAY_US + place * 10 * DAY_US // len(over)
        job.end = job.submit + max(round(job.walltime * chance.random() ** 2), 1)
        job.state, job.waits, job.attempt = "COMPLETED", False, Attempt(1, job.submit)
    for job in waiting:
        job.submit = now
    rows: Rows = []
    for policy in ("easy", "conservative"):
        folder = Path(tempfile.mkdtemp(prefix="backfill-", dir=base))
        store = Store(folder / "store.db")
        planner = Planner(policy, {"policy": policy, "resources": {"cpus": 64, "memory": 0, "gpus": 0}, "base": []})
        told = [[["submit", job.id, feed.planner_facts(job.facts())], ["wait", job.id]] for job in waiting]
        started = planner.decide(now, [message for both in told for message in both])["starts"]
        for number, _ in started:
            job = waiting[number - 2 * count - 1]
            job.state, job.attempt = "RUNNING", Attempt(1, now)
        store.commit([Entry(Submit(job.id, job.brief()), job.submit) for job in jobs], jobs, now)
        answered = answer_question(planner, {"what": "eta", "now": now + 1_000_000, "skew": 0, "folder": str(folder),
                                             "messages": []})  # fmt: skip
        store.close()
        shutil.rmtree(folder)
        for job in waiting:
            job.state, job.attempt = "PENDING", None
        what = f"eta under {policy}, {len(waiting) - len(started):,} waiting"
        rows += [
            (f"{what}: futures", "", answered["futures"], None),
            ("cpu of the answer", "s", answered["cpu_s"], None),
        ]
    return rows


SUITES = {
    "commands": commands, "submits": submits, "short-jobs": short_jobs, "deep": deep, "passes": passes, "eta": eta,
}  # fmt: skip


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=[*SUITES])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    anchors = [name for name in ("tsp", "pueue") if shutil.which(name)]
    print(f"python {platform.python_version()}, {os.cpu_count()} cpus, load {os.getloadavg()[0]:.1f}, "
          f"beside {', '.join(anchors) or 'nothing: neither tsp nor pueue is installed'}")  # fmt: skip
    saved = {}
    for name in given.only:
        rows = SUITES[name](given.folder, given.quick)
        saved[name] = rows
        for what, unit, figure, target in rows:
            least = unit == "1/s"
            verdict = "" if target is None else "met" if (figure >= target) == least or figure == target else "MISSED"
            aim = "" if target is None else f"{'>=' if least else '<='} {target:,g}"
            print(f"{what:<48}{figure:>12,.2f} {unit:<4}{aim:>12}  {verdict}".rstrip(), flush=True)
    if given.save:
        SAVED.write_text(json.dumps({"load": os.getloadavg()[0], "suites": saved}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
