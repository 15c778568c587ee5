"""Whatever is killed while a queue starts the jobs of a real Slurm: what the jobs themselves wrote down is the judge.

Jobs come held by the queue's submit filter, so that nobody but the queue may start one.

BACKFILL_SLURM_JOBS is the number of jobs, BACKFILL_SLURM_KILLS the times that daemon, planner and slurmctld are killed
each; a slurmd is killed a quarter as often. `pytest -s` prints the figures.
"""

import json
import os
import random
import signal
import sqlite3
import statistics
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from backfill.queue.job import UNCERTAIN
from backfill.system import processes
from tests.patience import until
from tests.real import slurm
from tests.real.users import User, install

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing(accounting=False) != "", reason=f"a real Slurm {slurm.missing(False)}"),
]

JOBS = int(os.environ.get("BACKFILL_SLURM_JOBS", "24"))
KILLS = int(os.environ.get("BACKFILL_SLURM_KILLS", "1"))
SEED = int(os.environ.get("BACKFILL_SLURM_SEED", "1"))
SETTLED_S = 60.0 + JOBS  # in which all of it is over
LEFT = (UNCERTAIN, "BeforeRestart", "NotAdopted", "launch failed requeued held")  # for an operator
SHAPES = (
    (["-c", "4"], 4),
    (["-c", "8"], 8),
    (["-c", "16"], 16),
    (["-N", "2", "--ntasks-per-node=1", "-c", "6"], 6),
    (["-c", "2", "-L", "lic:1"], 2),
)


class Workload:
    """Jobs that write down on which nodes they begin and end; what was submitted, and what was done to it."""

    def __init__(self, cluster, chance):
        self.cluster, self.chance = cluster, chance
        self.log = cluster.folder / "ran"
        self.log.touch()
        self.log.chmod(0o666)
        self.user = User(cluster)
        self.cpus = {}  # on each of its nodes, by what the job is called
        self.cancelled = set()
        self.held = []
        self.after = {}  # the job that each job with a dependency waits for

    def submit(self):
        """One job, or a small array."""
        chance = self.chance
        shape, cpus = chance.choice(SHAPES)
        more, tasks, after = [], [""], None
        what = chance.random()
        if what < 0.15:
            more, tasks = ["--array=1-4"], ["_1", "_2", "_3", "_4"]
        elif what < 0.25 and self.cpus:
            after = chance.choice([*self.cpus])
            more = [f"--dependency=afterany:{after}"]
        elif what < 0.3:
            more = ["-H"]
        name = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
        line = f"{name} $SLURM_JOB_NODELIST ${{SLURM_RESTART_COUNT:-0}} $(date +%s.%N) >> {self.log}"
        script = f"echo B {line}; sleep {chance.randint(1, 5)}; echo E {line}"
        try:
            number = self.user.submit(*shape, *more, "-t", "1", "--wrap", script)
        except AssertionError:  # there is no controller by now
            return
        self.cpus |= {number + task: cpus for task in tasks}
        if after:
            self.after[number] = after
        if more == ["-H"]:
            self.held.append(number)
        if chance.random() < 0.05:
            self.user.run("scancel", number)
            self.cancelled |= {number + task for task in tasks}

    def is_left(self, row, rows):
        """Return whether an operator has to look at a job, or at the one that it waits for."""
        after = self.after.get(row["label"]) if row["reason"] == "Dependency" else None
        return self.is_left(rows[after], rows) if after in rows else row["reason"] in LEFT

    def lines(self, what):
        """Yield the lines that jobs wrote: name, nodes, number of requeues, time."""
        for line in self.log.read_text().splitlines():
            kind, name, nodes, restarts, t = line.split()
            if kind == what:
                yield name, frozenset(nodes_of(nodes)), int(restarts), float(t)


def nodes_of(text):
    """n[1-2,4]"""
    base, _, rest = text.rstrip("]").partition("[")
    if not rest:
        yield base
    for part in rest.split(",") if rest else ():
        first, _, last = part.partition("-")
        yield from (f"{base}{i}" for i in range(int(first), int(last or first) + 1))


def strike(who, cluster, live, chance):
    """Kill one of them, and start it again where nobody else does."""
    if who == "daemon":
        live.kill(live.request("ping")["pid"])  # which starts one if the last kill left none
        live.run("serve", "--detach", check=None)
    elif who == "planner":
        live.kill(*live.until(lambda: processes.children(live.request("ping")["pid"])))
    elif who == "slurmctld":
        time.sleep(chance.choice([0, 6]))  # it writes its state down every 5 s
        os.kill(int((cluster.folder / "slurmctld.pid").read_text()), signal.SIGKILL)
        time.sleep(0.3)
        cluster.start_controller()
    elif who == "slurmd":
        name = f"n{chance.randint(1, slurm.NODES)}"
        os.kill(int((cluster.folder / f"slurmd.{name}.pid").read_text()), signal.SIGKILL)
        time.sleep(0.3)
        cluster.start_node(name)


def repair(cluster):
    """Open the nodes again that Slurm has drained, as it does when it has begun a job twice."""
    with suppress(AssertionError):  # there is no controller by now, or the node is open again
        for node in cluster.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split():
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume")


def overbooked(work, without):
    """Return where jobs held more than the capacity; jobs without a recorded end are not counted.

    without: jobs that a slurmctld without its last seconds forgot as they ran, or began again, as if nodes were free.
    """
    ends = Counter()
    times = {}
    for name, nodes, restarts, t in work.lines("E"):
        times.setdefault((name, nodes, restarts), []).append(t)
    steps = []
    for name, nodes, restarts, t in work.lines("B"):
        if name in without:
            continue
        later = [end for end in times.get((name, nodes, restarts), []) if end >= t]
        for node in nodes if later else ():
            steps += [(t, 1, node, work.cpus[name]), (min(later), 0, node, -work.cpus[name])]
    found = []
    for t, _, node, cpus in sorted(steps):
        ends[node] += cpus
        if ends[node] > slurm.CPUS:
            found.append((node, t, ends[node]))
    return found


def has_come_held(cluster, user):
    """Return whether slurmctld has read the filter by now."""
    job = user.submit("-H", "--wrap", "true")
    told = cluster.run("squeue", "-h", "-j", job, "-O", "admin_comment:|")
    user.run("scancel", job)
    return "/submit" in told


@pytest.mark.long
def test_nothing_is_lost_twice_overbooked_or_elsewhere_whatever_is_killed(cluster, live, tmp_path):
    chance = random.Random(SEED)
    work = Workload(cluster, chance)
    if JOBS > 100:
        live.env.pop("NUMBA_DISABLE_JIT")
    live.run("serve", "--pool", "slurm", "--detach")
    install(cluster, live)
    until(lambda: has_come_held(cluster, work.user))
    kills = [who for who in ("daemon", "planner", "slurmctld") for _ in range(KILLS)] + ["slurmd"] * (KILLS // 4)
    chance.shuffle(kills)
    struck = {(number + 1) * JOBS // (len(kills) + 1): [] for number in range(len(kills))}
    for number, who in enumerate(kills):
        struck[(number + 1) * JOBS // (len(kills) + 1)].append(who)
    begin, submitted = time.monotonic(), 0
    while len(work.cpus) < JOBS:
        work.submit()
        while submitted <= len(work.cpus):
            for who in struck.get(submitted, ()):
                repair(cluster)
                strike(who, cluster, live, chance)
                time.sleep(chance.uniform(0, 1))
            submitted += 1
        if work.held and chance.random() < 0.3:
            work.user.run("scontrol", "release", work.held.pop())
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        repair(cluster)
        held = cluster.run("squeue", "-h", "-o", "%i %r").split("\n")
        for number, _, reason in (line.partition(" ") for line in held):
            if reason == "JobHeldUser":  # a release may have found no controller; of others it is denied
                work.user.run("scontrol", "release", number)
        rows = {row["label"]: row for row in live.request("queue")["jobs"]}
        there = set(cluster.run("squeue", "-h", "-r", "-o", "%i").split())  # all of them, before and behind
        if there == rows.keys() and all(work.is_left(row, rows) for row in rows.values()):
            break
        time.sleep(1)
    judge(cluster, live, tmp_path, work, rows, kills, time.monotonic() - begin)


def started(folder):
    """The jobs that the queue has started, by their names in Slurm, also those that slurmctld forgot meanwhile."""
    with sqlite3.connect(f"file:{folder}/store.db?mode=ro", uri=True) as db:
        query = "SELECT data FROM event WHERE kind = 'submit' AND job IN (SELECT job FROM event WHERE kind = 'start')"
        return {json.loads(data)["job"]["native"] for (data,) in db.execute(query)}


def judge(cluster, live, folder, work, rows, kills, took):
    """Assert that the queue did nothing wrong, and print the figures."""
    known = {row["label"]: row for row in live.jobs(100_000)}
    begun, ended = Counter(name for name, *_ in work.lines("B")), {name for name, *_ in work.lines("E")}
    seen = set(cluster.run("squeue", "-h", "-r", "-t", "all", "-o", "%i").split())
    waits = set(cluster.run("squeue", "-h", "-r", "-t", "PD", "-o", "%i").split())
    lost, by_slurm, twice, by_others, elsewhere, latencies = [], [], [], [], [], []
    for name in work.cpus:
        if name in ended or name in work.cancelled or name in rows:
            continue
        if name in begun or name not in seen or known.get(name, {}).get("reason") == "LostByPool":
            by_slurm.append(name)  # it was killed as it ran, or its controller forgot that it was submitted
        elif name not in known or name in waits:
            lost.append(name)
    first = {}
    for name, nodes, _, t in work.lines("B"):
        first.setdefault(name, (nodes, t))
    for name, (nodes, t) in first.items():
        if name not in known:
            continue
        events = live.job(name)["events"]
        starts = [(at, data) for at, kind, data in events if kind == "start"]
        if begun[name] > 1:
            again = [kind for _, kind, _ in events if kind in ("unstarted", "requeue")]
            (twice if len(starts) > 1 + len(again) else by_others).append(name)
        began = [data for _, kind, data in events if kind == "began"]
        if starts and not began and begun[name] == 1:
            latencies.append(t - starts[-1][0])
            if frozenset(node[0] for node in starts[-1][1]["nodes"]) != nodes:
                elsewhere.append(name)
    began = [name for name in begun if name in known and any(k == "began" for _, k, _ in live.job(name)["events"])]
    foreign = [name for name in began if name not in started(folder)]
    over = overbooked(work, {*by_slurm, *by_others})
    print(
        f"\n{len(work.cpus)} jobs in {took:.0f} s, kills {dict(Counter(kills))}: {len(begun)} began, {len(ended)} ended"
    )
    print(f"by the queue: lost {lost}, twice {twice}, overbooked {over}, elsewhere {elsewhere}")
    print(f"by Slurm: lost or cut short {by_slurm}, begun twice {by_others}; begun by others {foreign}")
    print(f"left: {Counter(row['reason'] or row['state'] for row in rows.values())}")
    if latencies:
        worst = sorted(latencies)[-1]
        print(
            f"decision to running: median {statistics.median(latencies):.2f} s, max {worst:.2f} s of {len(latencies)}"
        )
    notes = (Path(folder) / "daemon.log").read_text()
    assert not lost
    assert not twice
    assert not over
    assert not elsewhere
    assert not foreign
    assert "Traceback" not in notes
    assert "gave other decisions" not in notes
    waits = [(row["label"], row["state"], row["reason"]) for row in rows.values() if not work.is_left(row, rows)]
    assert not waits
    assert len(begun) > JOBS / 2
