"""A queue on nodes in the middle of its life: a planner, driven as its daemon would, and the jobs that are open."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from backfill.answers.asked import Queue
from backfill.loading import load
from backfill.model.schedule import REJECTED
from backfill.queue.job import Attempt, Job
from backfill.queue.protocol import FACTS
from backfill.queue.states import PENDING
from backfill.queue.states import RUNNING as RUNS
from backfill.worlds.aside import Present, save
from backfill.worlds.aside import load as load_planner
from backfill.worlds.live import Planner
from backfill.worlds.simulated import simulate
from backfill.worlds.workload import table
from tests.queue.logs import entry
from tests.queue.test_planner import CLUSTER, SECOND, jobs_for_nodes


class Nodes:
    """Jobs come to a cluster, run and end, and nodes go and come; then questions may be asked.

    reservations: see shapes.Grant; what waits for one leaves at its end.
    some: what jobs ask for, as lists of number, submit, run time, facts; by default those of `jobs_for_nodes`.
    """

    def __init__(self, policy, seed=1, count=60, text=CLUSTER, some=None, shut=0.1, reservations=()):
        self.epoch = {"policy": policy, "platform": text, "resources": {}, "base": [], "now": 0}
        self.epoch |= {"reservations": list(reservations)} if reservations else {}
        self.chance = random.Random(f"{policy} {seed}")
        self.planner, self.jobs, self.passes, self.now = Planner(policy, self.epoch), {}, [], 1_000 * SECOND
        self.log, self.wake = [], None
        self.platform, self.runtime, self.shut, self.twin = self.planner.whole, {}, shut, None
        some = jobs_for_nodes(seed, count) if some is None else some
        for row in possible(some, self.planner):
            number, _, runtime, facts = some[row]
            self.step(number, runtime, facts)

    def step(self, number, runtime, facts):
        """One more job, and whatever happens meanwhile."""
        job = Job(number, **facts, name="job", state=PENDING, waits=True)
        self.until(self.now + self.chance.choice([1, 1, 10, 40]) * SECOND)
        messages = self.ends()
        if self.chance.random() < self.shut:
            node = self.chance.randrange(len(self.platform.nodes))
            there = dict(zip(self.platform.resources, self.platform.capacity[node].tolist(), strict=True))
            there["cpus"] = self.chance.choice([0, 0, 2, there["cpus"], there["cpus"]])
            messages.append(["capacity", there, self.platform.nodes[node]])
        job.submit, self.jobs[number], self.runtime[number] = self.now, job, runtime
        self.decide([*messages, *submit(number, facts)])

    def ends(self):
        """The messages of what is over by now."""
        over = [job for job in self.jobs.values() if job.state == RUNS and job.start + self.runtime[job.id] <= self.now]
        ended = {each["reservation"] for each in self.epoch.get("reservations", ()) if each["until"] <= self.now}
        left = [job for job in self.waiting() if job.reservation in ended]
        for job in over + left:
            del self.jobs[job.id]
        gone = [["gone", job.id, "COMPLETED"] for job in over] + [["gone", job.id, "CANCELLED"] for job in left]
        return [message for each in gone for message in (each, ["over", each[1]])]

    def decide(self, messages):
        messages = json.loads(json.dumps(messages))
        self.passes.append((self.now, messages))
        self.log += [*map(event_of, messages), entry("pass", 0, {"now": self.now}, self.now)]
        done = self.planner.decide(self.now, messages)
        self.wake = done["wake"]
        for number, by, *_ in done["preempts"]:
            assert by != number
            self.jobs[number].state, self.jobs[number].attempt = PENDING, None
        for number, why, nodes in done["starts"]:
            job = self.jobs[number]
            job.state, job.attempt, job.waits = RUNS, Attempt(1, self.now, why, nodes=nodes), False
            self.log.append(entry("start", number, {"start": self.now, "why": why, "nodes": nodes}, self.now))

    def drain(self, to_the_end=False):
        """Let it live until nothing more starts, or ends. Returns the start of each job that waited."""
        starts = {}
        while (self.jobs if to_the_end else self.waiting()) and (due := self.due()) is not None:
            waiting, self.now = self.waiting(), due
            self.decide(self.ends())
            starts |= {job.id: job.start for job in waiting if job.state == RUNS}
        return starts

    def due(self):
        """Return the instant of the next event."""
        ends = [job.start + self.runtime[job.id] for job in self.jobs.values() if job.state == RUNS]
        return min([*ends, *([self.wake] if self.wake is not None and self.wake > self.now else [])], default=None)

    def until(self, t):
        """Let it live until shortly before an instant, which is now then."""
        while (due := self.due()) is not None and due < t:
            self.now = due
            self.decide(self.ends())
        self.now = t

    def again(self):
        """Another planner in the same state, as it would be read from the disk."""
        with TemporaryDirectory() as folder:
            save(self.planner, Path(folder) / "planner", {})
            return load_planner(Path(folder) / "planner", self.epoch)

    def queue(self):
        """Return the queue that answers questions."""
        return Queue(self.again(), [Job.read(job.facts()) for job in self.jobs.values()], self.now + SECOND)

    def starts(self, messages):
        """The starts, by job, if this happened a second from now."""
        if self.twin is None:
            self.twin = self.again()
            self.present = Present(self.twin)
        self.done = done = self.twin.decide(self.now + SECOND, json.loads(json.dumps(messages)))
        self.present.restore()
        return {number: nodes for number, _, *nodes in done["starts"]}

    def waiting(self):
        return [job for job in self.jobs.values() if job.state == PENDING]


def event_of(message):
    """The event of the log of which a planner is told so."""
    kind, about, *more = message
    if kind == "submit":
        return entry("submit", about, {"job": {"id": about, "name": "job", **more[0]}})
    if kind == "capacity":
        return entry("node", 0, {"resources": about, "node": more[0]})
    if kind == "gone":
        return entry("end", about, {"state": more[0]})
    return entry({"wait": "wait", "over": "seen"}[kind], about)


def possible(jobs, planner):
    """The places of the jobs that the empty cluster can run."""
    if not jobs:
        return []
    workload = table([(number, {**FACTS, "submit": t, **facts}) for number, t, _, facts in jobs], planner.whole)
    schedule = simulate(workload, planner.whole, *load("fcfs")).schedule
    return np.flatnonzero(schedule.state != REJECTED).tolist()


def submit(number, facts):
    return [["submit", number, facts], ["wait", number]]
