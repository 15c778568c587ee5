"""A queue on nodes in the middle of its life: a planner, driven as its daemon would, and the jobs that are open."""

import json
import random

import numpy as np

from backfill.loading import load
from backfill.model.schedule import REJECTED
from backfill.queue.asked import Queue
from backfill.queue.book import Job
from backfill.queue.feed import FACTS
from backfill.queue.planner import Planner, table
from backfill.queue.rewind import Present
from backfill.queue.states import PENDING
from backfill.queue.states import RUNNING as RUNS
from backfill.worlds.simulated import simulate
from tests.queue.test_planner import CLUSTER, SECOND, jobs_for_nodes


class Nodes:
    """Jobs come to a cluster, run and end, and nodes go and come; then questions may be asked.

    some: what jobs ask for, as lists of number, submit, run time, facts; by default those of `jobs_for_nodes`.
    """

    def __init__(self, policy, seed=1, count=60, text=CLUSTER, some=None, shut=0.1):
        self.epoch = {"policy": policy, "platform": text, "resources": {}, "base": [], "now": 0}
        self.chance = random.Random(f"{policy} {seed}")
        self.planner, self.jobs, self.passes, self.now = Planner(policy, self.epoch), {}, [], 1_000 * SECOND
        self.platform, self.runtime, self.shut, self.twin = self.planner.platform, {}, shut, None
        some = jobs_for_nodes(seed, count) if some is None else some
        for row in possible(some, self.planner):
            number, _, runtime, facts = some[row]
            self.step(number, runtime, facts)

    def step(self, number, runtime, facts):
        """One more job, and whatever happens meanwhile."""
        job = Job(number, **facts, name="job", state=PENDING, waits=True)
        self.now += self.chance.choice([1, 1, 10, 40]) * SECOND
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
        for job in over:
            del self.jobs[job.id]
        return [message for job in over for message in (["gone", job.id, "COMPLETED"], ["over", job.id])]

    def decide(self, messages):
        messages = json.loads(json.dumps(messages))
        self.passes.append((self.now, messages))
        done = self.planner.decide(self.now, messages)
        for number, by, *_ in done["preempts"]:
            assert by != number
            self.jobs[number].state, self.jobs[number].start = PENDING, None
        for number, why, nodes in done["starts"]:
            job = self.jobs[number]
            job.state, job.start, job.why, job.waits = RUNS, self.now, why, False
            job.nodes = nodes
        return done

    def drain(self):
        """Let it live until nothing more starts. Returns the start of each job that waited."""
        starts, wake = {}, None
        while True:
            ends = [job.start + self.runtime[job.id] for job in self.jobs.values() if job.state == RUNS]
            if not self.waiting() or (not ends and wake is None):
                return starts
            self.now = min([*ends, *([] if wake is None or wake <= self.now else [wake])])
            waiting = self.waiting()
            wake = self.decide(self.ends())["wake"]
            starts |= {job.id: job.start for job in waiting if job.state == RUNS}

    def again(self):
        """Another planner that has lived through the same."""
        planner = Planner(self.epoch["policy"], self.epoch)
        for now, messages in self.passes:
            planner.decide(now, messages)
        return planner

    def queue(self):
        """What questions are asked of."""
        return Queue(self.again(), [Job(**job.facts()) for job in self.jobs.values()], self.now + SECOND)

    def starts(self, messages):
        """The starts, by job, if this happened a second from now."""
        if self.twin is None:
            self.twin = self.again()
            self.present = Present(self.twin)
        done = self.twin.decide(self.now + SECOND, json.loads(json.dumps(messages)))
        self.present.restore()
        return {number: nodes for number, _, *nodes in done["starts"]}

    def waiting(self):
        return [job for job in self.jobs.values() if job.state == PENDING]


def possible(jobs, planner):
    """The places of the jobs that the empty cluster can run."""
    workload = table([(number, {**FACTS, "submit": t, **facts}) for number, t, _, facts in jobs], planner.platform)
    schedule = simulate(workload, planner.platform, *load("fcfs")).schedule
    return np.flatnonzero(schedule.state != REJECTED).tolist()


def submit(number, facts):
    return [["submit", number, facts], ["wait", number]]
