"""A world in which the engine can be tested without a clock, a file or a process: one seed gives workload and faults.

The store is the real one, in memory; what is not committed is gone at a crash. Attempts go through the steps of the
keeper one by one, and whoever takes them may be killed between any two. Planners answer late, wrong, or die. Those of
every other seed preempt: by requeue, by suspension, or with checkpoints. Every third seed has a cluster of three nodes,
which go down and come back, and on which others start jobs, those of the queue or their own.
"""

import copy
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from backfill.answers.metrics import Counted
from backfill.pools.base import PREEMPTS, Foreign, NodeSeen, Seen, Verdict
from backfill.queue import book, protocol
from backfill.queue.deep import judge
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.job import CHECKPOINT, FOREIGN, PREEMPT, SUSPEND
from backfill.queue.states import HOLDING, OVER, PENDING, RUNNING
from backfill.queue.store import Store, StoreError, StoreLost

SECOND = 1_000_000
CAPACITY = Capacity({"cpus": 4, "memory": 0, "gpus": 1, "matlab": 2}, [0, 1, 2, 3], [0])
NODES = {"a": {"cpus": 4, "gpus": 1}, "b": {"cpus": 4, "gpus": 1}, "c": {"cpus": 2, "gpus": 0}, "": {"matlab": 2}}
THREE = """\
resources = ["cpus", "gpus"]
[[node]]
name = "a"
cpus = 4
gpus = 1
[[node]]
name = "b"
cpus = 4
gpus = 1
[[node]]
name = "c"
cpus = 2
[[licence]]
name = "matlab"
copies = 2
"""
CLUSTER = Capacity({}, [], [], NODES, THREE)
POINTS = ("before-commit", "after-commit", "asked")


class Crash(BaseException):
    """The daemon is killed."""


class Clock:
    """Stands still until it is moved; the calendar may be set to another time, and the machine may sleep."""

    speed = 1.0

    def __init__(self):
        self.facts = {}
        self.t = 1_700_000_000 * SECOND
        self.ahead = 12_345
        self.latest = 0  # that the calendar has ever shown
        self.sleeps = 0

    def now(self):
        return self.t

    def wall(self):
        self.latest = max(self.latest, self.t + self.ahead)
        return self.t + self.ahead

    def slept(self):
        return self.sleeps

    def instant(self, record):
        return record.get("at")


class FlakyStore(Store):
    """The real store, in memory, on a disk that may be full."""

    def __init__(self):
        super().__init__(Path(":memory:"))
        self.full = False
        self.sync_fails = ""  # and what was written is there after all, or is not

    def commit(self, events, jobs, wall):
        if self.sync_fails:
            if self.sync_fails == "there":
                super().commit(events, jobs, wall)
            self.sync_fails = ""
            raise StoreLost("disk I/O error")
        if self.full:
            self._db.execute("ROLLBACK") if self._db.in_transaction else None
            raise StoreError("database or disk is full")
        return super().commit(events, jobs, wall)

    def tokens(self):
        """Return the tokens of the known jobs and of the array that is being entered."""
        arrays = self._db.execute("SELECT data FROM event WHERE kind = 'array'")
        begun = {json.loads(data)["job"]["token"] for (data,) in arrays}
        return begun | {token for (token,) in self._db.execute("SELECT token FROM job")}

    def crash(self):
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


@dataclass
class Attempt:
    """A run folder, its supervisor and its job, as far as they are there."""

    facts: dict
    step: str = "asked"  # then claimed, known, running, over; or lost
    supervisor: bool = True
    keeper: bool = True  # somebody takes over from a killed supervisor
    claim: bool = False
    known: bool = False  # proc.json
    record: dict | None = None
    alive: bool = False  # the job's process
    stop: str = ""
    failed: bool = False  # by itself
    asked: bool = False  # to end, since somebody wants the job to run again
    told: bool = False  # it was alive, and was told to end since it is preempted
    swept: bool = False  # somebody removed its run folder
    executed: int = 0
    foreign: bool = False  # somebody else has started it


@dataclass
class Machine:
    """What outlives the daemon: run folders and processes. nodes: what each has."""

    random: random.Random
    clock: Clock
    nodes: dict
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    executed: dict[int, int] = field(default_factory=dict)

    def running(self):
        return [one for one in self.attempts.values() if one.alive]

    def go_on(self, key):
        """One step of an attempt."""
        one = self.attempts[key]
        if one.step == "asked" and one.supervisor:
            if one.claim:  # revoked
                one.supervisor, one.step = False, "lost"
            else:
                one.claim, one.step = True, "claimed"
        elif one.step == "claimed" and one.supervisor:
            one.known, one.step = True, "known"
        elif one.step == "known" and one.supervisor and one.swept:  # its claim is gone, so it is not released
            one.supervisor, one.step = False, "lost"
        elif one.step == "known" and one.supervisor:
            self.execute(key, one)
        elif one.step == "running":
            if one.stop == PREEMPT and not one.told and self.random.random() < 0.7:
                one.told = True
            else:
                self.end(one)

    def execute(self, key, one):
        one.step, one.alive, one.executed = "running", True, one.executed + 1
        assert one.executed == 1, f"attempt {key} ran twice"
        others = [other for other in self.running() if other is not one]
        assert all(other.facts["id"] != key[0] for other in others), f"two attempts of job {key[0]} run at once"
        self.executed[key[0]] = self.executed.get(key[0], 0) + 1
        before = [self.attempts[key[0], n] for n in range(1, key[1]) if (key[0], n) in self.attempts]
        for other in before:
            again = other.asked or (other.failed and one.facts["retry"])
            assert one.facts["requeue"] or other.told or again or not other.executed, f"job {key[0]} ran twice"
            assert not other.record or other.told or again or not other.executed, f"job {key[0]} runs after its end"
        ran = sum(other.record["at"] - other.facts["start"] for other in before if other.told and other.record)
        known = not any(other.swept for other in before)
        assert 0 <= one.facts["done"] <= ran or not known, f"{key} goes on from {one.facts['done']}, and ran for {ran}"
        there = [one.facts[name] for name in ("nodes", "stood")]
        assert one.facts["keeps"] != SUSPEND or there[0] == there[1], f"job {key[0]} was suspended elsewhere: {there}"
        crowded = {node for other in self.running() if other.foreign for node, *_ in other.facts["nodes"]}
        held = {}
        for other in self.running():
            for place, name, amount in parts(self.nodes, other.facts["need"], other.facts["nodes"]):
                held[place, name] = held.get((place, name), 0) + amount
        for (place, name), amount in held.items():
            there = self.nodes[place][name]
            free = not amount or amount <= there or place in crowded
            assert free or not any(node == place for node, *_ in one.facts["nodes"]), f"{amount} {name} of {place!r}"
        for ids in ("cpu_ids", "gpu_ids"):
            used = [number for other in self.running() for number in other.facts[ids]]
            assert len(used) == len(set(used)), f"{ids} {used} are used twice"

    def end(self, one):
        one.alive = False
        if one.supervisor or one.keeper:
            status = self.random.choice([0, 0, 0, 256])
            stopped = one.stop if one.stop != PREEMPT else PREEMPT if one.told else ""
            cause = stopped or self.random.choice([None, None, "limit"])
            one.record = {"status": 15 if stopped else status, "cause": cause, "at": self.clock.t}
            one.failed = bool(status) and cause is None
        one.supervisor, one.step = False, "over"

    def kill_supervisor(self, one):
        one.supervisor = False
        if one.step in ("asked", "claimed", "known"):
            one.step = "lost"  # its job was never released

    def settle(self, key):
        """As attempts.settle reads it off files."""
        one = self.attempts.setdefault(key, Attempt({}, step="lost", supervisor=False))
        began = {"known": 1} if one.executed else {}
        if one.supervisor and one.step != "asked":
            return Verdict("alive", began)
        if one.record:
            return Verdict("ended", one.record)
        if began:
            return Verdict("orphan", began) if one.alive else Verdict("unknown", {"told": one.told and not one.swept})
        claimed, one.claim = one.claim, True
        return Verdict("unstarted", {"launch": True} if claimed else {})

    def sweep(self, one):
        """Remove a run folder; the witness, which knows whether the attempt has begun, stays."""
        one.claim, one.record, one.swept = False, None, True


def parts(nodes, need, placement):
    """Return what a job holds there: place, resource, amount."""
    floating = nodes.get("", {})
    found = [(node, name, amount * tasks) for node, tasks in placement for name, amount in need.items()]
    found = [one for one in found if one[1] not in floating]
    return found + [("", name, amount) for name, amount in need.items() if name in floating]


class Launcher:
    """The daemon's hand on the machine; dies with it."""

    name = "machine"
    does = frozenset({"signal", "suspend", *PREEMPTS.values()})

    def __init__(self, machine):
        self.machine = machine

    def start(self, some):
        for run in some:
            job = run.job
            assert run.key not in self.machine.attempts
            assert (job.begin or 0) <= self.machine.clock.latest + 2 * SECOND, f"job {job.id} begins before its time"
            self.machine.attempts[run.key] = Attempt(json.loads(json.dumps(job.facts())))

    def signal(self, run, number):
        pass

    def freeze(self, run):
        pass

    def stop(self, some):
        for run in some:
            one = self.machine.attempts.get(run.key)
            if one is not None and one.record is None and not one.stop:
                one.stop = run.attempt.cause
                one.asked = run.attempt.cause == "requeue"


class Planner:
    """Starts, in the order of ids, whoever fits; a replica as the real one is. preempts: who does not fit takes what it
    lacks from those that rank behind it. how: see events.Preempt."""

    def __init__(self, preempts, how):
        self.facts, self.waits, self.runs = {}, set(), set()
        self.how, self.keeps = how, {}
        self.at = {}  # where each job runs
        self.capacity, self.preempts = {}, preempts

    def decide(self, messages):
        for kind, *about in messages:
            getattr(self, kind)(*about)
        starts, preempts, ran = [], [], set(self.runs)
        for job in sorted(self.waits):
            if job in self.waits and not self.fits(job, self.runs) and self.preempts:
                behind = sorted((one for one in ran & self.runs if rank(one) > rank(job)), key=rank)
                stay = set(self.runs)
                while behind and not self.fits(job, stay):
                    stay.discard(behind.pop())
                if self.fits(job, stay):
                    left = sorted(self.runs - stay)
                    preempts += [[one, job, self.how, 0] if self.how else [one, job] for one in left]
                    self.keeps |= {one: self.how for one in left if self.how}
                    self.waits |= self.runs - stay
                    self.runs = stay
            where = self.fits(job, self.runs)
            if where:
                self.runs.add(job)
                self.at[job] = where
                starts.append([job, "fit"] if "machine" in self.capacity else [job, "fit", where])
        self.waits -= self.runs
        return {"starts": starts, "preempts": preempts}

    def fits(self, job, beside):
        """Return where a job would run beside these; None for nowhere. One of two tasks runs on two nodes."""
        used = {}
        for one in beside:
            for place, name, amount in parts(self.capacity, self.facts[one]["need"], self.at[one]):
                used[place, name] = used.get((place, name), 0) + amount
        need, tasks = self.facts[job]["need"], self.facts[job].get("tasks", 1)

        def has_room(placement):
            some = parts(self.capacity, need, placement)
            return all(used.get(one[:2], 0) + one[2] <= self.capacity[one[0]].get(one[1], 0) for one in some if one[2])

        if self.keeps.get(job) == SUSPEND and "machine" not in self.capacity:
            where = [pair[:2] for pair in self.at[job]]
            return where if has_room(where) else None
        nodes = [place for place in self.capacity if place and has_room([[place, 1]])]
        return [[node, 1] for node in nodes[:tasks]] if len(nodes) >= tasks else None

    def submit(self, job, facts):
        self.facts[job] = facts
        self.keeps.pop(job, None)

    def kept(self, job, done, how, nodes=()):
        self.keeps[job] = how
        if nodes:
            self.at[job] = nodes

    def wait(self, job):
        assert job not in self.runs
        self.waits.add(job)

    def promised(self, job, start, nodes):
        self.wait(job)

    def over(self, job):
        assert job not in self.waits | self.runs

    def gone(self, job, how):
        self.waits.discard(job)
        self.runs.discard(job)

    def change(self, job, to):
        self.facts[job] = self.facts[job] | to

    def began(self, job, since, why, nodes):
        assert job not in self.runs
        self.waits.discard(job)
        self.runs.add(job)
        self.at[job] = nodes

    def capacity_(self, resources, place="machine"):
        self.capacity[place] = resources


def rank(job):
    return (job * 37 % 11, job)


class Link:
    """Planners that answer when they are let, greedily or not at all."""

    def __init__(self, world):
        self.world = world
        self.answer = None

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        self.planner = Planner(self.world.preempts, self.world.how)
        stated = json.loads(json.dumps(NODES)) if "platform" in epoch else {"machine": dict(epoch["resources"])}
        self.planner.capacity = stated | epoch.get("nodes", {})
        for kind, *about in _said(protocol.begun(epoch)):
            getattr(self.planner, kind)(*about)
        passes = [protocol.decisions(self._decide(one.messages)) for one in history]
        self.answer = {"passes": passes, "plan": [], "wake": None, "anew": True, "binds": False, "departs": False}

    def ask(self, now, messages):
        done = self._decide(messages)
        if self.world.random.random() < self.world.greed:  # more than fits, twice, and what it does not know
            starts, planner = done["starts"], self.planner
            where = [] if "machine" in planner.capacity else [[["a", 1]]]
            starts = [*starts, *starts, [99_999, "fit", *where]]
            starts += [[job, "fit", *where] for job in sorted(planner.waits)]
            left = sorted(planner.runs)[:2] if planner.preempts else []
            planner.runs, planner.waits = planner.runs - {*left}, planner.waits | {*left}
            done = {"starts": starts, "preempts": [*done["preempts"], [99_999, 1], *([job, 1] for job in left * 2)]}
            self.world.greedy = True
        self.answer = {"now": now, **done, "plan": [], "wake": None, "anew": True}

    def _decide(self, messages):
        return self.planner.decide(_said(messages))


def _said(messages):
    """As a planner hears them."""
    return [["capacity_", *one[1:]] if one[0] == "capacity" else one for one in json.loads(json.dumps(messages))]


class World:
    """Daemon after daemon on one machine, driven by a seed."""

    def __init__(self, seed, greed=0.0):
        self.random = random.Random(seed)
        self.greed, self.greedy, self.preempts = greed, False, seed % 2 == 0
        self.how = ("", SUSPEND, CHECKPOINT)[seed // 2 % 3]
        self.clock, self.store = Clock(), FlakyStore()
        self.cluster = seed % 3 == 1
        self.machine = Machine(self.random, self.clock, NODES if self.cluster else {"machine": CAPACITY.resources})
        self.acknowledged, self.refused, self.open = set(), set(), {}
        self.crash_at = ""
        self.tokens = 0
        self.notes = []
        self.reserves, self.names = 3 * (seed % 5 == 4), 0
        self.store.full = seed % 7 == 3
        book.FEW = 0 if seed % 3 else 100  # of how many dependants all is written down at once
        self.start()

    def start(self):
        self.store.crash()
        self.link = Link(self)
        self.engine = Engine(
            self.store, self.clock, Launcher(self.machine), self.link,
            {"walltime": 60 * SECOND, "grace": 0}, self.fault, json.dumps, slice_=2,
        )  # fmt: skip
        self.engine.open(CLUSTER if self.cluster else CAPACITY, "fake", "1")
        for run in self.engine.book.runs():
            self.settle(run)
        self.flush()

    def fault(self, point):
        if point == self.crash_at:
            self.crash_at = ""
            raise Crash

    def flush(self):
        self.engine.flush()
        while self.engine.busy and self.random.random() < 0.8:  # something else may come between two slices
            self.engine.go_on()
            self.engine.flush()
        self.notes += self.engine.notes
        self.engine.notes.clear()

    def settle(self, run):
        self.engine.settled(*run.key, self.machine.settle(run.key))

    def submit(self, token, request):
        def reply(answer):
            if "error" in answer:
                self.refused.add(token)
            else:
                self.refused.discard(token)
                self.acknowledged.add(token)
                self.open.pop(token, None)

        self.open[token] = request
        self.refused.discard(token)  # until there is an answer, nobody knows
        self.engine.request({"do": "submit", "token": token, **request}, reply)

    def new_job(self):
        random = self.random
        self.tokens += 1
        job = {"need": {"cpus": random.randint(1, 4), "gpus": random.choice([0, 0, 1]), "matlab": random.randint(0, 1)}}
        if self.cluster and random.random() < 0.3:
            job |= {"tasks": 2, "spread": "distinct"}
        known = sorted(self.engine.book.jobs)
        job["requeue"] = random.random() < 0.2
        job["retry"] = random.choice([0, 0, 0, 1, 2])
        job["held"] = random.random() < 0.1
        if known and random.random() < 0.3:
            kind = random.choice(["after", "afterok", "afternotok", "afterany", "aftercorr"])
            job["after"] = [[kind, random.choice(known)] for _ in range(random.randint(1, 2))]
            job["any_of"] = random.random() < 0.3
        if random.random() < 0.1:
            job["begin"] = self.clock.wall() + random.randint(0, 20) * SECOND
        if random.random() < 0.1:
            job["deadline"] = self.clock.wall() + random.randint(60, 90) * SECOND
        if random.random() < 0.1:
            job["array"], job["throttle"] = [*range(random.randint(1, 5))], random.randint(0, 2)
        job["singleton"] = random.random() < 0.1
        there = sorted(self.engine.book.reservations)
        if there and random.random() < 0.5:
            job["reservation"] = random.choice(there)
        return f"token-{self.tokens}", {"user": "ana", "job": job, "spec": {"argv": ["true"]}}

    def new_facts(self, known):
        """Return the new facts of a job that is edited."""
        random = self.random
        some = {
            "walltime": random.randint(1, 99) * SECOND, "priority": random.randint(-2, 2), "name": random.choice("ab"),
            "need": random.choice([{"cpus": random.randint(1, 4)}, {"matlab": random.randint(0, 1)}]),
            "begin": random.choice([0, self.clock.wall() + 20 * SECOND]),
            "deadline": random.choice([0, self.clock.wall() + 200 * SECOND]),
            "after": [["afterany", random.choice(known)] for _ in range(random.randint(0, 2))],
        }  # fmt: skip
        return {name: some[name] for name in random.sample(sorted(some), random.choice([1, 1, 2]))}

    def step(self):
        """Something happens."""
        random, engine = self.random, self.engine
        known = sorted(engine.book.jobs)
        self.clock.t += random.choice([0, 1, 1000, SECOND, 5 * SECOND])
        what = random.choices(
            [
                "submit",
                "again",
                "change",
                "move",
                "settle",
                "answer",
                "lose",
                "kill",
                "planner",
                "full",
                "crash",
                "tick",
                "clock",
                "sync",
                "capacity",
                "switch",
                "sweep",
                "foreign",
                "reserve",
            ],
            [6, 1, 2, 12, 8, 10, 1, 1, 0.3, 0.5, 1.5, 2, 0.5, 0.3, 0.5, 0.5, 0.5, 0.7 * self.cluster, self.reserves],
        )[0]
        if what == "submit":
            self.submit(*self.new_job())
        elif what == "again" and self.open:  # a client that got no answer
            token = random.choice(sorted(self.open))
            self.submit(token, self.open[token])
        elif what == "change" and known:
            verb = random.choice(["cancel", "hold", "release", "edit", "edit", "requeue", "suspend", "resume", "pause"])
            ids = random.sample(known, min(len(known), random.randint(1, 2)))
            request = {"do": verb, "ids": ids}
            if verb == "edit":
                request["to"] = self.new_facts(known)
            elif verb == "pause":
                request = {"do": random.choice(["pause", "unpause", "unpause"])}
            engine.request(request, lambda answer: None)
        elif what == "move" and self.machine.attempts:
            self.machine.go_on(random.choice(sorted(self.machine.attempts)))
        elif what == "settle":
            self.settle_some()
        elif what == "answer":
            self.let_answer()
        elif what in ("lose", "kill"):
            some = [one for one in self.machine.attempts.values() if one.supervisor]
            if some:
                one = random.choice(some)
                one.keeper = what == "kill"
                self.machine.kill_supervisor(one)
        elif what == "sweep" and self.machine.attempts:
            self.machine.sweep(random.choice([*self.machine.attempts.values()]))
        elif what == "planner" and engine.asked is not None:
            self.link.answer = None
            engine.failed("it died")
        elif what == "full":
            self.store.full = not self.store.full
        elif what == "crash":
            self.crash_at = random.choice(POINTS)
        elif what == "tick":
            engine.tick()
        elif what == "sync":
            self.store.sync_fails = random.choice(["there", "not there"])
        elif what == "clock":
            self.step_clock()
        elif what == "switch":
            engine.switch("fake", "1", "switched")
        elif what == "capacity":  # copies of a licence that others take
            self.change_capacity()
        elif what == "foreign":
            self.start_by_others()
        elif what == "reserve":
            self.reserve()
        self.flush()

    def reserve(self):
        """Somebody makes a reservation, or cancels one."""
        random, there = self.random, sorted(self.engine.book.reservations)
        force = random.random() < 0.5
        if there and random.random() < 0.4:
            request = {"do": "unreserve", "reservation": random.choice(there), "force": force}
        else:
            self.names += 1
            place = random.choice(self.engine.book.nodes.names)
            what = random.choice(
                [{"nodes": [place]}, {"amount": {"cpus": 1}}, {"amount": {"cpus": 2}, "nodes": [place]}]
            )
            span = {"begin_ahead": random.choice([0, 5, 30]) * SECOND, "span": random.choice([60, 120, 600]) * SECOND}
            request = {"do": "reserve", "reservation": f"r{self.names}", "token": f"r{self.names}", "user": "ana",
                       "force": force, **what, **span}  # fmt: skip
        self.engine.request(request, lambda answer: None)

    def change_capacity(self):
        """Others take copies of a licence, or a node goes down, or comes back."""
        random, engine = self.random, self.engine
        if not self.cluster:
            engine.set_capacity("machine", {**CAPACITY.resources, "matlab": random.choice([0, 1, 2, 2])})
            return
        place = random.choice([*NODES])
        nothing, now = dict.fromkeys(NODES[place], 0), engine.book.nodes.there[place]
        if now != NODES[place]:
            engine.saw(Seen(nodes=[NodeSeen(place, NODES[place])]))
            return
        for one in self.machine.running() if place else ():
            if any(node == place for node, *_ in one.facts["nodes"]):  # what ran there is lost
                one.alive = one.supervisor = one.keeper = False
                one.step = "over"
        engine.saw(Seen(nodes=[NodeSeen(place, nothing, "down")]))

    def start_by_others(self):
        """An administrator starts a job that waits, or one of his own, wherever he likes."""
        random, book = self.random, self.engine.book
        waiting = sorted(job.id for job in book.jobs.values() if job.state == PENDING and not job.yields)
        node = random.choice([name for name in NODES if name])
        if waiting and random.random() < 0.6:
            number, facts = random.choice(waiting), {}
        else:
            need = {"cpus": random.randint(1, 2)}
            number, facts = 0, {"name": "his", "need": need, "walltime": 60 * SECOND, "requeue": False}
        self.engine.saw(Seen(foreign=[Foreign(number, [[node, 1]], self.clock.t, facts, {"argv": ["his"]})]))
        self.flush()
        for run in self.engine.book.runs():
            job = run.job
            if job.why == FOREIGN and run.key not in self.machine.attempts and job.state == RUNNING:
                one = Attempt(json.loads(json.dumps(job.facts())), "running", claim=True, known=True, foreign=True)
                one.alive, one.executed = True, 1
                self.machine.attempts[run.key] = one
                self.machine.executed[job.id] = self.machine.executed.get(job.id, 0) + 1

    def step_clock(self):
        """Somebody sets the calendar, or the machine sleeps; the daemon looks sooner or later."""
        if self.random.random() < 0.6:
            self.clock.ahead += self.random.choice([-3600, -5, -1, 1, 5, 3600]) * SECOND
        else:
            self.clock.sleeps += 900 * SECOND
            self.clock.t += 900 * SECOND
        if self.random.random() < 0.7:
            self.engine.look_at_clock()

    def let_answer(self):
        answer, self.link.answer = self.link.answer, None
        if answer is not None:
            (self.engine.begun if "passes" in answer else self.engine.decided)(json.loads(json.dumps(answer)))

    def settle_some(self):
        some = self.engine.book.runs()
        if some:
            run = self.random.choice(some)
            if run.job.state == "ENDING":
                self.engine.pool.stop([run])
            self.settle(run)

    def check(self):
        """What holds after every step."""
        stored = self.store.tokens()
        assert self.acknowledged <= stored, f"{self.acknowledged - stored} were acknowledged and are lost"
        assert not (self.refused - self.acknowledged) & stored, "a job was refused and is there"
        book = self.engine.book
        for job in () if self.engine.busy else book.jobs.values():  # who asks for a reservation leaves with it
            assert job.state != PENDING or not job.reservation or job.reservation in book.reservations
        if not self.cluster:
            assert all(there >= book.held.get(name, 0) for name, there in book.capacity.items() if name != "matlab")
        if not self.greedy:
            assert not [note for note in self.notes if "other decisions" in note], self.notes
            self.check_planner()

    def check_planner(self):
        """What the planner believes is what the log says, once it has been told of it."""
        engine, book = self.engine, self.engine.book
        if not engine.ready or engine.asked is not None:
            return
        planner = copy.deepcopy(self.link.planner)
        for kind, *about in _said(engine.outbox):
            getattr(planner, kind)(*about)
        runs = {job.id for job in book.jobs.values() if job.state in HOLDING and not job.yields}
        assert planner.runs == runs | book.due, f"{planner.runs} run; by the book {runs}, due {book.due}"
        assert planner.waits == {job.id for job in book.jobs.values() if job.waits}
        keeps = {job.id: job.keeps for job in book.jobs.values() if job.state == PENDING and job.waits and job.keeps}
        assert keeps == {job: how for job, how in planner.keeps.items() if how and job in keeps}
        for job in book.jobs.values():
            assert not (job.waits and job.due is not None)
            assert not job.yields or job.state == "ENDING"

    def run(self, steps):
        """Steps with faults, then none until all jobs are over."""
        for _ in range(steps):
            self.survive(self.step)
            self.check()
        self.store.full, self.greed = False, 0.0
        self.crash_at = self.store.sync_fails = ""
        self.survive(self.repair)
        for token, request in [*self.open.items()]:
            self.survive(lambda token=token, request=request: (self.submit(token, request), self.flush()))
        for _ in range(3000):
            if not self.engine.book.jobs and not self.engine.busy:
                break
            self.clock.t += 10 * SECOND
            if self.engine.book.paused:
                self.engine.request({"do": "unpause"}, lambda answer: None)
            held = [job.id for job in self.engine.book.jobs.values() if job.held]
            if held:
                self.engine.request({"do": "release", "ids": held}, lambda answer: None)
            for key in sorted(self.machine.attempts):
                self.machine.go_on(key)
            for run in self.engine.book.runs():
                self.settle(run)
            self.engine.look_at_clock()
            self.engine.tick()
            self.let_answer()
            self.flush()
        assert not self.engine.book.jobs, f"stuck: {self.engine.book.jobs}"
        assert not self.machine.running()
        for job in self.store.jobs():
            assert job.state in OVER
            one = self.machine.attempts.get((job.id, job.attempts))
            if one is not None and one.told and not one.swept:
                cancelled = job.attempt is not None and job.attempt.cause == "cancel"
                lost = not cancelled and not (self.cluster and job.keeps == SUSPEND)
                assert job.state != "NODE_FAIL" or not lost, f"job {job.id} was preempted, and is lost"
            if (
                one is not None
                and one.record is not None
                and job.start is not None
                and job.state != "NODE_FAIL"
                and not one.told
            ):
                assert job.end == one.record["at"], (
                    f"job {job.id} ended at {one.record['at']}, by the record at {job.end}"
                )
        assert self.store.differences() == []
        assert judge(self.store.events()) == []
        counted = Counted()
        counted.count(self.store.events())
        assert {labels["rule"] for labels, count in counted.values()["violations_total"] if count} == set()
        assert "bug" not in {job.attempt.slip for job in self.store.jobs() if job.attempt}
        self.check()

    def repair(self):
        """Everything is there again."""
        nodes = NODES if self.cluster else {"machine": CAPACITY.resources}
        for place, there in nodes.items():
            self.engine.set_capacity(place, there)
        self.flush()

    def survive(self, action):
        """Do something; if the daemon dies of it, another one comes."""
        while True:
            try:
                action()
                return
            except (Crash, StoreLost):
                action = self.start
