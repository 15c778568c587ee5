"""A cluster of three kinds of nodes at work while processes are killed, others start jobs, nodes go down and come back,
and another program and another policy take over.

The judge reads nothing but the log of events and the platform. `make test` sends a few jobs through, and
BACKFILL_CLUSTER_JOBS=20000 as many as that.
"""

import json
import os
import random
import shutil
import sqlite3
import time
from collections import Counter, defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path

import backfill
from backfill.queue.deep import check_deep
from backfill.system import processes
from tests.queue.test_cluster import CLUSTER

JOBS = int(os.environ.get("BACKFILL_CLUSTER_JOBS", "60"))
SPEED, LOAD, PAUSE_S = 1500, 0.85, 0.5
STARTED = JOBS // (15 if JOBS < 1000 else 200)  # jobs that are started, or end, between two kills
KINDS = {"a": (6, 16, 64), "b": (4, 32, 128), "g": (2, 16, 128)}  # nodes, cpus, GB
GPUS, COPIES = 4, 3
AMOUNTS = ("cpus", "memory", "gpus")
PLATFORM = (
    CLUSTER.replace('memory = "64G"', 'memory = "64G"\nfeatures = ["ib"]')
    + """\
[[partition]]
name = "batch"
nodes = ["a[1-6]", "b[1-4]"]
default = true
[[partition]]
name = "gpu"
nodes = ["g[1-2]"]
[[limit]]
name = "each user"
per = "user"
running_jobs = 40
"""
)


def job_lines(count, seed):
    """Jobs of many kinds: gangs, of distinct nodes too, whole nodes, features, GPUs, licences, dependencies."""
    chance, t, lines = random.Random(seed), 0.0, []
    cpus = sum(nodes * cpus for nodes, cpus, _ in KINDS.values())
    for n in range(1, count + 1):
        tasks, per_task, walltime = 1, chance.choice([1, 1, 2, 4, 8, 16]), chance.choice([600, 1800, 3600, 7200])
        runtime = walltime if chance.random() < 0.1 else chance.randint(30, walltime)
        facts = dict.fromkeys(("spread", "exclusive", "constraint", "licences", "after"), "")
        partition, gpus, memory = "batch", 0, per_task * chance.choice([1, 2])
        what = chance.random()
        if what < 0.15:
            tasks, per_task = chance.randint(2, 12), chance.choice([1, 2, 4])
        elif what < 0.3:
            tasks, per_task, facts["spread"] = chance.randint(2, 6), chance.choice([4, 8, 16]), "distinct"
        elif what < 0.35:
            tasks, facts["exclusive"], facts["constraint"] = chance.randint(1, 3), "yes", "ib"
        elif what < 0.45:
            partition, gpus, per_task = "gpu", chance.randint(1, 4), chance.choice([1, 2, 4])
        elif what < 0.52:
            facts["licences"] = f"matlab:{chance.randint(1, 2)}"
        elif what < 0.6:
            facts["constraint"] = "ib"
        elif what < 0.65 and n > 20:
            facts["after"] = str(n - chance.randint(1, 20))
        t += chance.expovariate(1) * tasks * per_task * runtime / (LOAD * cpus)
        user = f"u{chance.randint(1, 9)}"
        row = (n, round(t), runtime, walltime, tasks, per_task, f"{memory}G", gpus, partition, user, *facts.values())
        lines.append(",".join(map(str, row)))
    names = f"job,submit,runtime,walltime,tasks,cpus,memory,gpus,partition,user,{','.join(facts)}"
    return "\n".join([names, *lines, ""])


def test_a_cluster_loses_nothing_whatever_is_killed(live):
    chance = random.Random(7)
    (live.folder / "cluster.toml").write_text(PLATFORM)
    (live.folder / "jobs.csv").write_text(job_lines(JOBS, 5))
    pool = f'pool = "fake:speed={SPEED},failures=0.5,repair=7200,foreign=24,seed=3"'
    (live.folder / "config.toml").write_text(f'policy = "conservative"\nplatform = "cluster.toml"\n{pool}\n')
    if JOBS > 1000:
        live.env.pop("NUMBA_DISABLE_JIT")
    done = live.run("submit", "--from", "jobs.csv", "--json", check=None)
    assert done.stdout, done.stderr
    fed = json.loads(done.stdout)
    assert (fed["queued"], fed["refused"]) == (JOBS, {}), done.stdout
    kills, upgraded, switched = Counter(), False, False

    def states():
        return live.request("queue", limit=1)["states"]

    waiting = JOBS
    while waiting or not switched:
        waiting = live.until(partial(decided, states, waiting)).get("PENDING", 0)
        time.sleep(chance.random() * PAUSE_S)
        left, daemon = sum(states().values()), live.daemon()
        planners = processes.children(daemon) if daemon else []
        who, some = chance.choice([("daemon", [daemon]), ("planner", planners), ("both", [daemon, *planners])])
        if not upgraded and left < JOBS * 0.7:
            upgraded, who = True, ""
            another_program(live)
        elif upgraded and not switched and left < JOBS * 0.4:
            switched, who = True, ""
            live.run("serve", "--policy", "easy-sjf", "--drop-promises", check=None)
        if who and any(some):
            kills[who] += 1
            live.kill(*(pid for pid in some if pid))
    looked = live.until(lambda: nothing_left(live, states))
    live.run("serve", "--stop", check=None)  # it may have been killed
    assert check_deep(live.folder) == []
    assert "Traceback" not in (live.folder / "daemon.log").read_text()
    told = Judge(live.folder).verdict(looked)
    print(f"{JOBS} jobs, kills {dict(kills)}, {told}")
    assert told["jobs"] == JOBS
    assert told["lost"] == told["twice"] == told["beyond"] == told["elsewhere"] == told["bug"] == 0, told


def decided(states, waiting):
    """The states if some jobs were started since so many were waiting, or none is left; None if not."""
    now = states() or {"PENDING": 0}
    return now if now.get("PENDING", 0) <= max(waiting - STARTED, 0) else None


def nothing_left(live, states):
    """The number of events in the log, read before a look that finds no job in the queue; None if one is found."""
    with closing(sqlite3.connect(f"file:{live.folder}/store.db?mode=ro", uri=True)) as db:
        (count,) = db.execute("SELECT count(*) FROM event").fetchone()
    return None if states() else count


def another_program(live):
    """Have a program of other sources serve this queue from now on."""
    package = Path(backfill.__file__).parent
    shutil.copytree(package, live.folder / "upgrade" / "backfill", ignore=shutil.ignore_patterns("__pycache__"))
    with (live.folder / "upgrade" / "backfill" / "policies" / "__init__.py").open("a") as source:
        source.write("# another release\n")
    live.env["PYTHONPATH"] = str(live.folder / "upgrade")
    live.run("serve", "--stop", check=None)  # it may have been killed


class Judge:
    """What the log says of the jobs, added up node by node."""

    def __init__(self, folder):
        self.platform = {
            f"{kind}{n}": {"cpus": cpus, "memory": memory << 30, "gpus": GPUS if kind == "g" else 0}
            for kind, (nodes, cpus, memory) in KINDS.items()
            for n in range(1, nodes + 1)
        }
        with sqlite3.connect(f"file:{folder}/store.db?mode=ro", uri=True) as db:
            query = "SELECT kind, job, data, t_us FROM event ORDER BY seq"
            self.events = [(kind, job, json.loads(data), t) for kind, job, data, t in db.execute(query)]
            self.slips = Counter(json.loads(facts).get("slip", "") for (facts,) in db.execute("SELECT facts FROM job"))

    def verdict(self, looked):
        """Return how many jobs were lost, ran twice, ran on other nodes, or exceeded the capacity.

        looked: the number of events before the look that found no job. Others may have started one since; it runs on.
        """
        told = Counter(jobs=0, lost=0, twice=0, beyond=0, elsewhere=0, foreign=0, nodes=0, again=0)
        facts, runs, starts, ends, later = {}, {}, Counter(), Counter(), set()
        there = dict(self.platform)
        held, licences = defaultdict(int), 0
        for number, (kind, job, data, _) in enumerate(self.events):
            if kind == "began" and number >= looked:
                later.add(job)
            if "job" in data and job:
                facts[job] = data["job"]
                told["jobs" if kind == "submit" else "foreign"] += 1
            elif kind == "node":
                there[data["node"]] = data["resources"]
                told["nodes"] += 1
            elif kind in ("start", "began"):
                told["twice"] += job in runs
                starts[job] += 1
                runs[job] = data["nodes"]
                self.hold(held, facts[job], data["nodes"], 1)
                licences += facts[job]["need"].get("matlab", 0)
                if kind == "start":
                    told["beyond"] += licences > COPIES or any(
                        held[name, what] > there[name].get(what, 0) for name, *_ in data["nodes"] for what in AMOUNTS
                    )
                    told["elsewhere"] += not self.allowed(facts[job], data["nodes"])
            elif kind in ("end", "requeue", "unstarted", "preempted") and job in runs:
                self.hold(held, facts[job], runs.pop(job), -1)
                licences -= facts[job]["need"].get("matlab", 0)
                told["again"] += kind != "end"
            if kind == "end":
                ends[job] += 1
        told["lost"] = sum(ends[job] != 1 and not (job in later and job in runs) for job in facts)
        told["bug"] = self.slips["bug"]
        return dict(told) | {"slips": {why: count for why, count in self.slips.items() if why}}

    def hold(self, held, facts, nodes, sign):
        """Enter what a job holds on its nodes, or does not hold any more."""
        for name, tasks, *whole in nodes:
            for what in AMOUNTS:
                mine = self.platform[name][what] if any(whole) else tasks * facts["need"].get(what, 0)
                held[name, what] += sign * mine

    def allowed(self, facts, nodes):
        """Return whether a job may run there, with all of its tasks."""
        names = [name for name, *_ in nodes]
        kinds = {name[0] for name in names}
        right = kinds <= ({"g"} if facts.get("partition") == "gpu" else {"a", "b"})
        right = right and (facts.get("constraint") != "ib" or kinds == {"a"})
        right = right and len({*names}) == len(names)
        if facts.get("spread") == "distinct":
            right = right and all(tasks == 1 for _, tasks, *_ in nodes)
        return right and (facts.get("exclusive") or sum(tasks for _, tasks, *_ in nodes) == facts.get("tasks", 1))
