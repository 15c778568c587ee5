"""Policies that suspend jobs, or write checkpoints of them, on a pool that can do that: the fake one."""

import json
import random

import numpy as np
import pytest

from backfill.answers import replay
from backfill.daemon.config import FAKE, platform_facts
from backfill.loading import load
from backfill.model.platform import Platform
from backfill.pools.base import Given, preempts, refusal
from backfill.pools.fake import FakePool
from backfill.pools.local.pool import LocalPool
from backfill.queue import events
from backfill.queue.deep import judge
from backfill.queue.engine import Engine
from backfill.queue.nodes import MACHINE
from backfill.queue.protocol import FACTS
from backfill.queue.states import COMPLETED, PENDING, TIMEOUT
from backfill.worlds.live import machine
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate
from backfill.worlds.workload import table
from tests.queue.virtual import BEGIN, SECOND, Virtual

PAUSES = ("preemptive:how=suspend", "preemptive:how=checkpoint,overhead=7", "round-robin:quantum=30")
THREE = """\
resources = ["cpus"]
[[node]]
name = "a"
cpus = 4
[[node]]
name = "b"
cpus = 4
[[node]]
name = "c"
cpus = 2
"""


class Faked(Virtual):
    """The same with a fake pool, on a clock that stands wherever something happens."""

    def __init__(self, folder, policy, platform=None, cpus=4, **settings):
        self.settings, self.stated = FAKE | settings, {MACHINE: {"cpus": cpus, "memory": 1 << 34, "gpus": 0}}
        if platform is not None:
            self.stated = platform_facts(platform)["nodes"]
        super().__init__(folder, policy, platform=platform, cpus=cpus)
        self.engine.saw(self.engine.pool.read(()))

    def _engine(self):
        given = Given(self.folder, self.stated, self.now, self.spec_of, lambda: None)
        return Engine(self.store, self, FakePool(given, self.settings), self, self._defaults, encode=json.dumps)

    def spec_of(self, job):
        return {"argv": ["true"], "runtime": self.runtime[job.id]}

    def submit(self, cpus=1, walltime=100, runtime=None, **job):
        self.runtime[self.engine.book.last_job + 1] = (walltime if runtime is None else runtime) * SECOND
        return super().submit(cpus, walltime, runtime, **job)

    def instant(self, record):
        return record.get("at")

    def read(self):
        pool, book = self.engine.pool, self.engine.book
        while (seen := pool.read(book.runs())).attempts or seen.nodes:
            self.engine.saw(seen)
            self.engine.tick()
            self.flush()

    def _next(self):
        self.read()
        some = [self.engine.pool.news_at(), self.engine.next_timer()]
        return max(min(one for one in some if one is not None), self.t)

    def _live_until(self, end):
        while True:
            self.read()
            self.engine.tick()
            self.flush()
            self.read()
            if self.t >= end:
                return
            self.t = min(end, self._next())


def some_jobs(seed, count, most, tasks=(1,)):
    """(submit, walltime, run time in seconds, cpus per task, tasks), none of which comes when another one ends."""
    chance, t, found = random.Random(seed), 0, []
    for _ in range(count):
        t += round(chance.choice([1, 2, 15, 40]) + chance.random(), 6)
        walltime = chance.choice([20, 60, 200, 400])
        runtime = chance.choice([walltime, walltime // 2, walltime + 30, chance.randint(1, walltime)])
        found.append((t, walltime, runtime, chance.randint(1, most), chance.choice(tasks)))
    return found


def fed(queue, jobs):
    for t, walltime, runtime, cpus, tasks in jobs:
        queue.until(t)
        queue.submit(cpus, walltime, runtime, **({"tasks": tasks} if tasks > 1 else {}))
    queue.drain()


def simulated(jobs, policy, platform):
    facts = [
        (number, {**FACTS, "submit": BEGIN + round(t * SECOND), "walltime": walltime * SECOND, "need": {"cpus": cpus},
                  "tasks": tasks})
        for number, (t, walltime, _, cpus, tasks) in enumerate(jobs, 1)
    ]  # fmt: skip
    workload = table(facts, platform)
    workload = workload.with_jobs(workload.jobs.replace(runtime=np.array([one[2] * SECOND for one in jobs])))
    return simulate(workload, platform, *load(policy), Options()).schedule


@pytest.mark.parametrize("policy", PAUSES)
@pytest.mark.parametrize("nodes", [False, True])
def test_a_fake_pool_carries_out_what_the_simulation_decides(policy, nodes, tmp_path):
    (tmp_path / "three.toml").write_text(THREE)
    platform = Platform.read(tmp_path / "three.toml") if nodes else None
    jobs = some_jobs(policy, 60, 3 if nodes else 4, (1, 2) if nodes else (1,))
    queue = Faked(tmp_path, policy, platform)
    fed(queue, jobs)
    schedule = simulated(jobs, policy, platform or machine({"cpus": 4}))
    runs, went_on = schedule.all_runs, 0
    for row in range(len(jobs)):
        job, mine = queue.job(row + 1), np.flatnonzero(runs.job == row)
        log = [entry.event for entry in queue.store.events() if entry.event.column == row + 1]
        starts = [event.start for event in log if isinstance(event, events.Start)]
        assert starts == runs.start[mine].tolist(), f"job {row + 1}"
        assert job.end == runs.end[mine[-1]], f"job {row + 1}"
        assert job.state == (TIMEOUT if jobs[row][2] > jobs[row][1] else COMPLETED)
        if nodes:
            names = [[schedule.nodes[node], tasks] for node, tasks in runs.held[mine[-1]].reshape(-1, 2).tolist()]
            assert job.current.nodes == names
        went_on += len(starts) - 1
    assert went_on > 5
    assert judge(queue.store.events()) == []
    found = replay.check(replay.epochs(tmp_path))
    assert (found.open_loop, found.closed_loop, found.left_out) == ([], [], {})
    assert found.simulated_jobs == len(jobs)


def test_nodes_that_fail_lose_no_job_of_a_policy_that_suspends(tmp_path):
    (tmp_path / "three.toml").write_text(THREE)
    platform = Platform.read(tmp_path / "three.toml")
    queue = Faked(tmp_path, "preemptive:how=suspend", platform, failures=1.0, repair=600.0, foreign=20.0)
    for t, walltime, runtime, cpus, tasks in some_jobs("failures", 70, 3, (1, 2)):
        queue.until(60 * t)
        queue.submit(cpus, 60 * walltime, 60 * runtime, tasks=tasks, requeue=True)
    while any(job.user != "root" for job in queue.engine.book.jobs.values()):
        queue._live_until(queue._next())
    kept = [entry.event for entry in queue.store.events() if isinstance(entry.event, events.Kept)]
    assert {event.how for event in kept} == {"", "suspend"}  # some were lost with their nodes
    assert judge(queue.store.events()) == []
    assert {job.state for job in queue.store.jobs()} <= {COMPLETED, TIMEOUT, "RUNNING", "NODE_FAIL"}
    found = replay.check(replay.epochs(tmp_path))
    assert (found.open_loop, found.closed_loop) == ([], [])


def preempted_one(folder, policy):
    """A queue in which a job of 300 s was preempted after 98 s, and waits for one of 200 s that has all cpus."""
    queue = Faked(folder, policy)
    queue.submit(2, 100, 100)
    queue.until(1)
    queue.submit(4, 200, 200)
    queue.until(2)
    behind = queue.submit(2, 300, 300)
    queue.until(101)
    assert queue.job(behind).state == PENDING
    return queue, behind


@pytest.mark.parametrize(
    ("policy", "other", "lasts"),
    [
        ("preemptive:how=suspend", "preemptive:how=suspend", 202),
        ("preemptive:how=checkpoint,overhead=10", "preemptive:how=checkpoint", 212),
        ("preemptive:how=checkpoint,overhead=10", "easy", 212),
        ("preemptive:how=suspend", "easy", 202),
        ("preemptive:how=requeue", "easy", 300),
    ],
)
def test_another_daemon_and_policy_let_a_job_go_on_from_where_it_was(policy, other, lasts, tmp_path):
    queue, behind = preempted_one(tmp_path, policy)
    queue.restart("another program", other)
    queue.drain()
    job = queue.job(behind)
    assert (job.state, job.end - job.start) == (COMPLETED, lasts * SECOND)
    assert job.start == BEGIN + 300 * SECOND


@pytest.mark.parametrize(
    ("to", "lasts"), [({"priority": 3}, 202), ({"deadline": 0}, 202), ({"need": {"cpus": 1}}, 300)]
)
def test_an_edited_job_keeps_its_progress_unless_it_needs_something_else(to, lasts, tmp_path):
    queue, behind = preempted_one(tmp_path, "preemptive:how=suspend")
    queue.request(do="edit", ids=[behind], to=to)
    queue.drain()
    assert queue.job(behind).end - queue.job(behind).start == lasts * SECOND


def test_a_held_job_keeps_its_progress_and_one_that_is_lost_with_its_node_begins_anew(tmp_path):
    queue, behind = preempted_one(tmp_path, "preemptive:how=suspend")
    queue.request(do="hold", ids=[behind])
    queue.until(350)
    queue.request(do="release", ids=[behind])
    queue.until(400)
    assert queue.job(behind).done == 98 * SECOND
    queue.request(do="requeue", ids=[behind])
    queue.drain()
    assert queue.job(behind).end - queue.job(behind).start == 300 * SECOND


def test_the_pool_says_by_what_its_jobs_can_be_preempted():
    assert preempts(FakePool) == ["requeue", "checkpoint", "suspend"]
    assert preempts(LocalPool) == ["requeue"]
    told = refusal(LocalPool, "round-robin", "checkpoint")
    assert told.startswith("policy round-robin preempts jobs by checkpoint; pool local can only end a preempted job")
    assert refusal(FakePool, "round-robin", "checkpoint") == ""
