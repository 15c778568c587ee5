"""A batch system that only a test has, and a queue that watches it: one seed gives jobs, faults and looks."""

import json
import random
from dataclasses import dataclass, field

from backfill.pools.base import ELSEWHERE, WATCHES, Seen
from backfill.pools.conclude import AGAIN_S, BEGIN, LONG_S, Control, Watch, absent, conclude, nodes_seen
from backfill.pools.seen import DOWN, DRAIN, OVER, RUNNING, UNKNOWN, UP, WAITING, Asked, JobNow, NodeNow, Snapshot
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.nodes import Nodes
from backfill.queue.states import CANCELLED, COMPLETED, FAILED, HOLDING, TIMEOUT
from backfill.worlds.live import answer
from tests.queue.world import Clock, FlakyStore

SECOND = 1_000_000
NODES = {"a": {"cpus": 4, "memory": 8}, "b": {"cpus": 4, "memory": 8}, "c": {"cpus": 2, "memory": 4}, "": {"lic": 2}}
TEXT = """\
[[node]]
name = "a"
cpus = 4
memory = 8
[[node]]
name = "b"
cpus = 4
memory = 8
[[node]]
name = "c"
cpus = 2
memory = 4
[[licence]]
name = "lic"
copies = 2
"""
ROUNDS = 25  # of a second, in which what was told to begin does so or is taken back
REASONS = ("JobHeldUser", "Dependency", "QOSMaxJobsPerUserLimit", "")


@dataclass
class Native:
    """A job as its batch system has it."""

    number: str
    submit: int
    asked: Asked
    blocked: str = ""
    state: str = WAITING
    start: int | None = None
    end: int | None = None
    nodes: list = field(default_factory=list)
    ended: str = ""
    runtime: int = 0
    estimate: int | None = None
    managed: bool = False
    held: bool = False
    pin: tuple = ()
    restarts: int = 0
    begin: int | None = None  # before which it may not be let go: it was put back
    let_go: set = field(default_factory=set)  # instances of the controller on which it was released since it was held
    forgotten: bool = False  # it has run, and its controller does not know

    def now(self):
        return JobNow(
            self.number, self.submit, self.asked, user="ann", state=self.state, blocked=self.blocked, begin=self.begin,
            start=self.start, estimate=self.estimate, nodes=[[*each] for each in self.nodes],
            managed=self.managed, held=self.held and self.state == WAITING, restarts=self.restarts,
            end=self.end, ended=self.ended, exit=0 if self.ended == COMPLETED else 1 if self.ended else None,
        )  # fmt: skip


class Controller:
    """Starts whoever fits, in any order; forgets, drains, requeues; keeps those that are over for a while."""

    name = "native"
    filtered = 0.0  # share of the jobs that a submit filter has marked and held
    forgets = True

    def __init__(self, chance, clock):
        self.random, self.clock = chance, clock
        self.jobs = {}
        self.states = dict.fromkeys("abc", UP)
        self.strangers = {}  # cpus that jobs hold which it does not show
        self.last, self.instance = 0, 1
        self.history = {}  # those that were over, for ever
        self.saved = None

    def wall(self):
        return self.clock.wall() // SECOND * SECOND

    def submit(self):
        chance = self.random
        self.last += 1
        tasks = chance.choice([1, 1, 1, 2, 3])
        need = {"cpus": chance.choice([1, 1, 2, 4 if tasks == 1 else 2]), "memory": chance.randint(0, 2)}
        if chance.random() < 0.2:
            need["lic"] = 1
        spread = "distinct" if tasks > 1 and chance.random() < 0.5 else "any"
        asked = Asked(need, chance.randint(1, 60) * SECOND, tasks, spread=spread, exclusive=chance.random() < 0.1)
        job = Native(str(self.last), self.wall(), asked, runtime=chance.randint(0, 60) * SECOND)
        if chance.random() < 0.25:
            job.blocked = chance.choice(REASONS)
        if self.filtered and chance.random() < self.filtered:
            job.managed = job.held = True
        self.jobs[job.number, job.submit] = job

    def free(self):
        nodes = Nodes(NODES)
        for job in self.running():
            nodes.take(nodes.parts(job.asked.need, job.nodes))
        for name, cpus in self.strangers.items():
            nodes.take([(name, "cpus", cpus)])
        return nodes

    def running(self):
        return [job for job in self.jobs.values() if job.state == RUNNING]

    def waiting(self):
        return [job for job in self.jobs.values() if job.state == WAITING]

    def start(self, job):
        nodes = self.free()
        there = [name for name in job.pin or "abc" if self.states[name] == UP]
        if not job.pin:
            self.random.shuffle(there)
        placed = []
        for _ in range(job.asked.tasks):
            for name in there:
                if job.asked.spread == "distinct" and any(name == one for one, *_ in placed):
                    continue
                if job.asked.exclusive and any(nodes.held[name].values()) and not any(name == o for o, *_ in placed):
                    continue
                trial = [*placed]
                known = next((one for one in trial if one[0] == name), None)
                if known:
                    trial = [[n, t + (n == name)] for n, t in trial]
                else:
                    trial.append([name, 1])
                if nodes.free().holds(nodes.parts(job.asked.need, trial)):
                    placed = trial
                    break
        if sum(tasks for _, tasks in placed) == job.asked.tasks:
            job.nodes = [[n, t, True] for n, t in placed] if job.asked.exclusive else placed
            if not nodes.free().holds(nodes.parts(job.asked.need, job.nodes)):
                job.nodes = []
                return
            job.state, job.start, job.blocked, job.begin = RUNNING, self.wall(), "", None

    def over(self, job, ended):
        job.state, job.ended, job.end = OVER, ended, max(self.wall(), job.start or 0)
        self.history[job.number, job.submit] = job.now()

    def requeue(self, job):
        """Slurm has a job wait again that its node or somebody has put back: it is not held then."""
        job.state, job.start, job.nodes, job.restarts, job.forgotten = WAITING, None, [], job.restarts + 1, False
        job.let_go.clear()
        if self.random.random() < 0.5:
            job.blocked, job.begin = BEGIN, self.wall() + self.random.randint(10, 120) * SECOND

    def step(self):
        """Something happens."""
        chance = self.random
        for job in self.waiting():
            if job.begin is not None and job.begin <= self.wall():
                job.blocked, job.begin = "" if job.blocked == BEGIN else job.blocked, None
        for job in self.running():
            if self.wall() >= job.start + min(job.runtime, job.asked.walltime):
                self.over(job, TIMEOUT if job.runtime > job.asked.walltime else chance.choice([COMPLETED, FAILED]))
        what = chance.random()
        waiting, running = self.waiting(), self.running()
        if what < 0.35:
            self.submit()
        elif what < 0.65 and waiting:
            for job in chance.sample(waiting, min(3, len(waiting))):
                if not job.blocked and not job.held:
                    self.start(job)
        elif what < 0.7 and waiting:
            job = chance.choice(waiting)
            job.blocked, job.begin = chance.choice(REASONS), None
        elif what < 0.74 and waiting:
            job = chance.choice(waiting)
            job.asked = Asked(
                {**job.asked.need, "cpus": chance.randint(1, 2)}, chance.randint(1, 60) * SECOND, job.asked.tasks,
                spread=job.asked.spread,
            )  # fmt: skip
        elif what < 0.78 and (waiting or running):
            self.over(chance.choice([*waiting, *running]), CANCELLED)
        elif what < 0.82 and running:
            self.requeue(chance.choice(running))
        elif what < 0.86:
            self.states[chance.choice("abc")] = chance.choice([UP, UP, DRAIN, UNKNOWN])
        elif what < 0.88:
            name = chance.choice("abc")
            self.states[name] = DOWN
            for job in running:
                if any(node == name for node, *_ in job.nodes):
                    self.requeue(job) if chance.random() < 0.5 else self.over(job, "NODE_FAIL")
        elif what < 0.9:
            self.saved = json.dumps(
                [[k, [v.state, v.held, v.pin, v.managed, v.restarts]] for k, v in self.jobs.items()]
            )
        elif what < 0.92 and self.saved:
            self.forget()
        elif what < 0.95:
            name = chance.choice("abc")
            left = self.free().free().of(name, "cpus") + self.strangers.get(name, 0)
            self.strangers[name] = chance.randint(0, max(left, 0))
        elif waiting:
            chance.choice(waiting).estimate = self.wall() + chance.randint(1, 99) * SECOND
        gone = [k for k, job in self.jobs.items() if job.state == OVER and chance.random() < 0.05]
        for key in gone:
            del self.jobs[key]

    def forget(self):
        """It is killed, and comes back with an older state: submits since then are lost, and their numbers come again;
        what has started since then waits again."""
        before = {tuple(key): state for key, state in json.loads(self.saved)}
        self.saved, self.instance = None, self.instance + 1
        for key, job in [*self.jobs.items()]:
            if key not in before:
                del self.jobs[key]
                self.history.pop(key, None)
                continue
            state, held, pin, managed, restarts = before[key]
            if state == WAITING and job.state == RUNNING:
                job.state, job.start, job.nodes, job.forgotten = WAITING, None, [], True
                job.let_go.clear()
            if job.state == WAITING:
                job.held, job.pin, job.managed, job.restarts = held, tuple(pin), managed, restarts
        self.last = max((int(number) for number, _ in self.jobs), default=0)
        self.clock.t += SECOND  # so that what is submitted next has another submit

    def look(self):
        held = self.free().held
        nodes = [
            NodeNow(name, NODES[name], self.states[name], held={k: v for k, v in held[name].items() if v})
            for name in "abc"
        ]
        jobs = [job.now() for job in self.jobs.values()]
        complete = self.random.random() > 0.15
        if not complete:
            self.random.shuffle(jobs)
            jobs = jobs[: len(jobs) // 2]
        return Snapshot(str(self.instance), nodes, jobs, {"lic": 2}, complete)

    # what a queue does here that starts its jobs, see seen.Hands

    def _of(self, native):
        return [job for job in self.waiting() if job.number == native][-1:]

    def adopt(self, some):
        for one in some:
            for job in self._of(one.native):
                job.managed = job.held = True
                job.let_go.clear()

    def start_on(self, some):
        for native, nodes in some:
            for job in self._of(native):
                job.pin = tuple(nodes)
                assert not job.held or not job.forgotten, f"job {native} may have run, and is let go again"
                assert not job.held or self.instance not in job.let_go, f"job {native} is let go twice"
                assert not job.held or (job.begin or 0) <= self.wall(), f"job {native} is let go before its begin time"
                if job.held:
                    job.let_go.add(self.instance)
                job.held = False

    def undo(self, some):
        for native in some:
            for job in self._of(native):
                job.held, job.pin = True, ()
                job.let_go.clear()

    def recall(self, some):
        return {one: self.history[one] for one in some if one in self.history and self.random.random() < 0.9}


class Durable(Controller):
    """One as HTCondor is: it forgets nothing, and what it has let go starts once."""

    forgets = False

    def requeue(self, job):
        """It waits, and its pin holds no more."""
        super().requeue(job)
        job.held, job.pin = job.managed, ()
        job.blocked, job.begin = "", None  # it may start again at once

    def forget(self):
        """It is killed, and finds some of its jobs again; the others wait."""
        self.saved, self.instance = None, self.instance + 1
        for job in self.running():
            if self.random.random() < 0.3:
                self.requeue(job)

    def release(self, some):
        for one in some:
            for job in self._of(one.native):
                job.held = job.managed = False
                job.pin = ()


class Link:
    """A planner in this process, which answers when it is let."""

    def __init__(self, world):
        self.world, self.planner, self.answer = world, None, None

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        asked = {"do": "begin", "epoch": epoch, "history": [(one.now, one.messages) for one in history]}
        self.planner, found = answer(None, asked)
        self.answer = lambda engine: engine.begun(found)

    def ask(self, now, messages):
        found = self.planner.decide(now, json.loads(json.dumps(messages)))
        self.world.advised += len(found["starts"])
        self.answer = lambda engine: engine.decided(found)


class Acts:
    """The pool as the engine has it: whatever it does is wrong."""

    name = "native"
    does = frozenset({ELSEWHERE, WATCHES})

    def __getattr__(self, name):
        raise AssertionError(f"a queue that watches has called {name}")


class Watched:
    """Daemon after daemon that watch one batch system."""

    control = None
    kind = Controller

    def pool(self):
        return Acts()

    def __init__(self, seed, policy):
        self.random, self.policy, self.advised = random.Random(seed), policy, 0
        self.clock, self.store = Clock(), FlakyStore()
        self.system = self.kind(self.random, self.clock)
        self.notes, self.seen = [], set()
        self.start()

    def start(self):
        self.store.crash()
        first = self.store.first_t() or self.clock.now()
        self.link = Link(self)
        self.engine = Engine(
            self.store, self.clock, self.pool(), self.link, {"walltime": SECOND, "grace": 0},
        )  # fmt: skip
        self.engine.open(Capacity({}, [], [], NODES, TEXT), self.policy, "program")
        self.begun, self.watch = first, Watch()
        self.engine.flush()

    def look(self, snapshot=None):
        """Conclude from a look, as WatchedPool.read does."""
        engine = self.engine
        if engine.asked is not None:
            return
        snapshot = snapshot or self.system.look()
        known = {(job.native, job.native_submit): job for job in engine.book.jobs.values()}
        recalled = self.system.recall(absent(snapshot, known))
        if self.random.random() < 0.1:
            self.watch.before = {}

        def ended(identity, t):
            return t < self.begun or engine.has_been(identity)

        if self.control is not None:
            self.control.now, self.control.wall = self.clock.t / SECOND, self.clock.wall()
        news = conclude(snapshot, known, recalled, self.watch, ended, engine.book.skew, self.control)
        self.carry_out(snapshot)
        avoided = self.control.avoided() if self.control is not None else ()
        engine.saw(Seen(nodes=nodes_seen(snapshot, engine.book.nodes, self.watch, avoided), news=news))
        engine.flush()
        self.seen |= {job.identity for job in snapshot.jobs}

    def carry_out(self, snapshot):
        """Do what was concluded."""

    def let_planner_answer(self):
        told, self.link.answer = self.link.answer, None
        if told is not None:
            told(self.engine)
            self.engine.flush()

    def step(self):
        self.clock.t += self.random.randint(0, 5 * SECOND)
        self.engine.tick()
        self.engine.flush()
        for _ in range(self.random.randint(0, 3)):
            self.system.step()
        if self.random.random() < 0.6:
            self.look()
        if self.random.random() < 0.7:
            self.let_planner_answer()
        if self.random.random() < 0.02:
            self.start()
        self.notes += self.engine.notes
        self.engine.notes.clear()

    def settle(self):
        """Look at all of it, and let the planner answer."""
        while self.engine.asked is not None or self.engine.busy or not self.engine.ready:
            self.let_planner_answer()
            self.engine.go_on()
            self.engine.flush()
        snapshot = self.system.look()
        while not snapshot.complete:
            snapshot = self.system.look()
        self.look(snapshot)
        while self.engine.asked is not None or self.engine.busy:
            self.let_planner_answer()
            self.engine.go_on()
            self.engine.flush()
        return snapshot

    def begins(self, job):
        """Return whether a job was told to start, and its start has not been seen."""
        return job.attempt is not None and job.attempt.spawned is None

    def check_held(self, job, now):
        blocked = "" if now.blocked == BEGIN and now.begin is not None else now.blocked
        assert job.held == blocked or (job.held == "BadConstraints" and not blocked)

    def check(self):
        """Compare the queue with the batch system."""
        snapshot, book = self.settle(), self.engine.book
        there = {job.identity: job for job in snapshot.jobs if job.state != OVER}
        known = {(job.native, job.native_submit): job for job in book.jobs.values()}
        assert there.keys() == known.keys()
        for identity, now in there.items():
            job = known[identity]
            if self.begins(job):
                continue
            assert (job.state in HOLDING) == (now.state == RUNNING), identity
            assert job.need == now.asked.need or now.state == RUNNING
            if now.state == RUNNING:
                assert [[*one] for one in job.attempt.nodes] == [[*one] for one in now.nodes]
                began = job.attempt.processes.get("since", job.start)  # after it was decided, if we did
                assert abs(began + book.skew - now.start) < SECOND
            else:
                self.check_held(job, now)
        held = self.system.free()
        for name in "abc":
            soon = [job for job in known.values() if self.begins(job)]
            parts = [part for job in soon for part in book.parts(job)]
            mine = book.nodes.held[name].get("cpus", 0)
            mine -= sum(amount for place, what, amount in parts if (place, what) == (name, "cpus"))
            assert mine == held.held[name].get("cpus", 0) - self.system.strangers.get(name, 0), name
        for one in self.store.jobs("end_us IS NOT NULL"):
            last = self.system.history.get((one.native, one.native_submit))
            if last is not None and one.reason != "LostByPool":
                assert one.state == last.ended, one.native
        return snapshot


class Hand:
    """The pool as the engine has it: what it is told is done later, twice, or not at all."""

    name = "native"
    does = frozenset({ELSEWHERE})

    def __init__(self, world):
        self.world, self.acts = world, []

    @property
    def instance(self):
        return self.world.control.instance

    def start(self, some):
        for one in some:
            self.world.control.requested[one.key] = self.world.clock.t / SECOND
        self.tell([one.job for one in some])

    def tell(self, jobs):
        some = [(job.native, [name for name, *_ in job.current.nodes]) for job in jobs]
        self.acts.append((self.instance, lambda: self.world.system.start_on(some)))

    def stop(self, some):
        raise AssertionError(f"{some} are stopped, and nobody has asked for that")


class Controlled(Watched):
    """Daemon after daemon that start the jobs of one batch system; every other one has a submit filter."""

    def __init__(self, seed, policy):
        super().__init__(seed, policy)
        self.system.filtered = seed % 4 // 2 * 0.5

    def pool(self):
        kept = (self.control.instance, self.control.since) if self.control else ("", 0)
        self.control = Control(
            lambda job: int(job.native) % 5 > 0, self.kind.forgets, instance=kept[0], since=kept[1]
        )  # fmt: skip
        self.hand = Hand(self)
        return self.hand

    def look(self, snapshot=None):
        """See Watched. What was forgotten before anybody of the queue looked is not the queue's: who starts one with
        `adopt` takes over what waits, as by `pool adopt`."""
        if not self.control.instance:
            for job in self.system.jobs.values():
                job.forgotten = False
        super().look(snapshot)

    def carry_out(self, snapshot):
        control, hand = self.control, self.hand
        some, undo, tell = [*control.adopt], [job.native for job in control.undo], [*control.tell]
        acts = [lambda: self.system.adopt(some)] * bool(some) + [lambda: self.system.undo(undo)] * bool(undo)
        hand.acts += [(self.control.instance, act) for act in acts]
        for job in tell:
            control.requested[job.run.key] = control.now
        if tell:
            hand.tell(tell)
        for each in (control.adopt, control.undo, control.tell):
            each.clear()

    def step(self):
        if self.random.random() < 0.7:
            self.act()
        super().step()

    def act(self):
        """What is to be done is done, by the controller for which it was decided; an answer may be lost."""
        acts, self.hand.acts = self.hand.acts, []
        for instance, act in acts:
            if instance != str(self.system.instance):
                return
            act()
            if self.random.random() < 0.1:
                return

    def check_held(self, job, now):
        ours = now.managed and now.held
        blocked = "" if now.blocked == BEGIN and now.begin is not None else now.blocked
        expected = blocked if ours else blocked or "NotAdopted"
        if expected == "NotAdopted" and now.submit <= self.control.since:
            expected = "BeforeRestart"
        assert job.held in (expected, "Uncertain") or (
            job.held in ("BadConstraints", "StartsDeclined", "LaunchFailed") and not blocked
        ), job.native

    def check(self):
        """Check that each job told to start has begun or was taken back; then compare as for a queue that watches."""
        for name, state in self.system.states.items():
            self.system.states[name] = UP if state == UNKNOWN else state  # else nothing is taken back
        for _ in range(ROUNDS):
            self.clock.t += SECOND
            self.act()
            for job in self.system.waiting():
                if job.pin and not job.held and not job.blocked:
                    self.system.start(job)
            self.settle()
            holding = [self.engine.book.jobs[number] for number in self.engine.book.holding]
            if all(job.current.spawned is not None for job in holding):
                break
        self.check_uncertain()
        for job in self.engine.book.jobs.values():
            if self.begins(job):
                since = self.control.requested.get(job.run.key, self.control.now)
                assert self.control.now - since < LONG_S + AGAIN_S, f"job {job.native} neither begins nor is taken back"
        return super().check()

    def check_uncertain(self):
        """What may have run is held there, but by its user, so that its controller does not run it again."""
        for _ in range(10):  # acts are carried out after the look that shows it, and some are lost
            jobs = self.engine.book.jobs.values()
            unsure = {(job.native, job.native_submit) for job in jobs if job.held == "Uncertain"}
            waiting = [job for job in self.system.waiting() if (job.number, job.submit) in unsure]
            free = [job.number for job in waiting if not job.held and job.blocked != "JobHeldUser"]
            if not free:
                return
            self.act()
            self.settle()
        raise AssertionError(f"jobs {free} may have run, and are not held")


class ControlledDurable(Controlled):
    """The same of a batch system that forgets nothing: of no job it is uncertain whether it has run."""

    kind = Durable

    def check_held(self, job, now):
        assert job.held != "Uncertain", job.native
        super().check_held(job, now)
