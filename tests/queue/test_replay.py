"""Replays of recorded histories with everything that people, machines and crashes do to a queue."""

import json
import os
import random
from pathlib import Path

import pytest

from backfill.answers import replay
from backfill.pools.base import Verdict
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.job import PREEMPT
from backfill.queue.states import HOLDING
from backfill.worlds.live import answer
from backfill.worlds.recorded import Closed
from tests.queue.world import SECOND, Clock, FlakyStore, Launcher, Machine

URGENT = str(Path(__file__).with_name("urgent.py"))  # which preempts a lot
RUNS = int(os.environ.get("BACKFILL_FAULT_RUNS", "0"))
LAWS = ("easy", "conservative", "fcfs", "easy-sjbf", "k-reservations:k=3", "2tsb", "preemptive", URGENT,
        "preemptive:how=suspend", "preemptive:how=checkpoint,overhead=2", "round-robin:quantum=30")  # fmt: skip


class Link:
    """The real planner, in this process; an answer comes when it is let."""

    def __init__(self):
        self.todo, self.planner = None, None

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        self.todo = {"do": "begin", "epoch": epoch, "history": [[one.now, one.messages] for one in history]}

    def ask(self, now, messages):
        self.todo = {"do": "ask", "now": now, "messages": messages}

    def answer(self, engine):
        asked, self.todo = self.todo, None
        if asked is None:
            return False
        self.planner, told = answer(self.planner, json.loads(json.dumps(asked)))
        (engine.begun if asked["do"] == "begin" else engine.decided)(json.loads(json.dumps(told)))
        engine.flush()
        return True


class History:
    """A queue on a virtual clock: jobs of all kinds, holds, cancels, edits, other capacity, restarts, a machine that
    sleeps. seed: what happens."""

    def __init__(self, seed, policy, steps=60):
        self.random, self.policy = random.Random(seed), policy
        self.clock, self.store = Clock(), FlakyStore()
        self.machine = Machine(self.random, self.clock, {"machine": {"cpus": 4, "matlab": 2}})
        self.ends, self.told, self.count = {}, set(), 0
        self.capacity = Capacity({"cpus": 4, "matlab": 2}, [0, 1, 2, 3], [])
        self.start()
        for _ in range(steps):
            self.step()
        while self.engine.book.jobs:
            self.engine.request({"do": "release", "ids": [*self.engine.book.jobs]}, lambda told: None)
            self.pass_time(600 * SECOND)

    def start(self):
        self.link = Link()
        self.engine = Engine(self.store, self.clock, Launcher(self.machine), self.link,
                             {"walltime": 60 * SECOND, "grace": 0}, encode=json.dumps)  # fmt: skip
        self.engine.open(self.capacity, self.policy, "1")
        self.settle()

    def settle(self):
        self.engine.tick()
        self.engine.flush()
        self.set_ends()
        while self.link.answer(self.engine):
            self.set_ends()

    def set_ends(self):
        for run in self.engine.book.runs():
            job = run.job
            if run.key not in self.ends:
                length = self.random.choice([job.walltime, job.walltime // 2, self.random.randint(1, job.walltime)])
                self.ends[run.key] = self.clock.t + length
        self.make_way()

    def make_way(self):
        """Attempts that are preempted are over at once, or later, or end by themselves before that."""
        for run in self.engine.book.runs():
            key = run.key
            if run.attempt.yields and key not in self.told and key in self.ends:
                told = self.clock.t + self.random.choice([0, 1, 1000, 20 * SECOND])
                if told < self.ends[key]:
                    self.told.add(key)
                    self.ends[key] = told

    def pass_time(self, span):
        """Let everything happen that is due meanwhile."""
        until = self.clock.t + span
        while True:
            job_ends = [end for (job, attempt), end in self.ends.items() if self.is_open(job, attempt)]
            timer = self.engine.next_timer()
            due = min([*job_ends, *([] if timer is None else [timer]), until])
            self.clock.t = max(due, self.clock.t + 1)
            for (job, attempt), end in [*self.ends.items()]:
                if end <= self.clock.t and self.is_open(job, attempt):
                    kind = "unknown" if self.random.random() < 0.1 else "ended"
                    preempted = (job, attempt) in self.told
                    self.engine.settled(job, attempt, replay_verdict(PREEMPT if preempted else kind))
            self.settle()
            if self.clock.t >= until:
                return

    def is_open(self, job, attempt):
        known = self.engine.book.jobs.get(job)
        return known is not None and known.attempt is not None and known.attempt.number == attempt

    def step(self):
        chance, engine = self.random, self.engine
        known = sorted(engine.book.jobs)
        what = chance.choices(["submit", "change", "capacity", "restart", "sleep"], [10, 4, 1, 1, 1])[0]
        if what == "submit":
            self.count += 1
            job = {"need": {"cpus": chance.choice([1, 1, 2, 4]), "matlab": chance.choice([0, 0, 1, 2])},
                   "walltime": chance.choice([30, 60, 300]) * SECOND, "held": chance.random() < 0.1,
                   "requeue": chance.random() < 0.3, "priority": chance.randint(0, 3)}  # fmt: skip
            if known and chance.random() < 0.3:
                job["after"] = [[chance.choice(["afterany", "after", "afterok"]), chance.choice(known)]]
            if chance.random() < 0.1:
                job["begin"] = self.clock.wall() + chance.randint(1, 500) * SECOND
            if chance.random() < 0.1:
                job |= {"array": [1, 2, 3], "throttle": 1}
            engine.request({"do": "submit", "token": f"t{self.count}", "user": chance.choice("ab"), "job": job,
                            "spec": {"argv": ["true"]}}, lambda told: None)  # fmt: skip
        elif what == "change" and known:
            verb = chance.choice(["cancel", "hold", "release", "edit"])
            to = chance.choice(
                [{"walltime": chance.choice([20, 500]) * SECOND}, {"need": {"cpus": chance.randint(1, 4)}}]
            )
            engine.request({"do": verb, "ids": [chance.choice(known)], "to": to}, lambda told: None)
            for job in engine.book.jobs.values():
                if job.state == "ENDING":
                    self.ends[job.run.key] = self.clock.t + SECOND
        elif what == "capacity":
            engine.set_capacity("machine", {"cpus": 4, "matlab": chance.choice([2, 2, 3])})
        elif what == "restart":
            self.clock.t += chance.choice([1, 400]) * SECOND
            self.start()
        elif what == "sleep":
            self.clock.t += 500 * SECOND
        self.settle()
        self.pass_time(chance.choice([0, 1, 20, 200]) * SECOND)


def replay_verdict(kind):
    if kind == PREEMPT:
        return Verdict("ended", {"status": 15, "cause": PREEMPT})
    return Verdict(kind, {"status": 0} if kind == "ended" else {})


def epochs_of(store, tmp_path):
    store.backup(tmp_path / "store.db")
    return replay.epochs(tmp_path)


@pytest.mark.parametrize("policy", LAWS)
@pytest.mark.parametrize("seed", range(max(RUNS // 250, 1)))
def test_a_history_lived_again_has_the_same_starts_to_the_microsecond(policy, seed, tmp_path):
    some = epochs_of(History(f"{policy} {seed}", policy).store, tmp_path)
    found = replay.check(some)
    assert found.open_loop == []
    assert found.closed_loop == []
    assert found.closed_jobs > 20


def test_a_log_with_another_decision_or_of_another_policy_differs(tmp_path):
    some = epochs_of(History("a", "easy").store, tmp_path)
    assert replay.check(some).open_loop == []
    for one in some:
        one.facts["policy"] = "fcfs"
        again = Closed("fcfs", one.facts, one.passes, one.away)
        again.live(one.passes[-1].now)
        assert any(again.starts[job] != life.starts for job, life in again.lives.items())
    assert replay.check(some).open_loop
    (one, *_) = some = replay.epochs(tmp_path)
    then = next(then for then in one.passes if then.decided)
    later = one.passes[one.passes.index(then) + 1]
    later.decided, then.decided = [*then.decided, *later.decided], []
    assert "in the log" in replay.check(some).open_loop[0]


def test_what_another_policy_would_have_done(tmp_path):
    """Four cpus: 1 has two of them for 100 s, 2 waits for all, 3 could slip in, 4 waits for 3."""
    history = History("none", "fcfs", steps=0)

    def submit(cpus, seconds, **more):
        job = {"need": {"cpus": cpus}, "walltime": seconds * SECOND, **more}
        history.count += 1
        history.engine.request({"do": "submit", "token": f"t{history.count}", "user": "a", "job": job,
                                "spec": {"argv": ["true"]}}, lambda told: None)  # fmt: skip
        history.settle()

    submit(2, 100)
    history.ends[1, 1] = history.clock.t + 100 * SECOND
    submit(4, 100)
    submit(2, 50)
    submit(1, 10, after=[["afterany", 3]])
    for number in (2, 3, 4):
        history.ends[number, 1] = 0
    for _ in range(60):
        history.pass_time(10 * SECOND)
        for number, job in history.engine.book.jobs.items():
            if job.state in HOLDING and not history.ends[number, 1]:
                history.ends[number, 1] = job.start + job.walltime
    found = replay.what_if(epochs_of(history.store, tmp_path), "easy")
    waits = dict(zip(found.jobs, zip(found.was, found.would_be, strict=True), strict=True))
    assert waits[1][1] == 0
    assert waits[2][1] == pytest.approx(100 * SECOND, abs=SECOND)
    assert waits[3] == (pytest.approx(200 * SECOND, abs=2 * SECOND), 0)
    assert waits[4] == (pytest.approx(0, abs=SECOND), pytest.approx(0, abs=SECOND))  # it followed 3
