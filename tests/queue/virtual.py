"""A queue on a virtual clock, with the real engine, store and planner, and jobs that last as long as one says."""

import json

from backfill.daemon.config import platform_facts
from backfill.pools.base import Verdict
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.job import PREEMPT
from backfill.queue.store import Store
from backfill.worlds.live import answer

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND


def _nodes(platform):
    return Capacity({}, [], [], **platform_facts(platform))


class Virtual:
    """Drive it by `submit`, `ask` and `until`; look at `engine`, `planner` and the store in its folder.

    predict: by which predictions it plans. dies: how many seconds an attempt takes to end when it is preempted.
    platform: its nodes, in place of one machine.
    """

    name, speed = "virtual", 1.0
    does = frozenset({"signal", "suspend"})

    def __init__(self, folder, policy="easy", dies=0, platform=None, predict="", **resources):
        self.t = BEGIN
        self.facts = {}  # of a clock that no later daemon carries on
        self.folder = folder
        self.planner = self._answer = None
        self.runtime = {}
        self.dies, self.cut = dies * SECOND, {}  # when each attempt that is preempted ends
        self.store = Store(folder / "store.db")
        self._defaults = {"walltime": 3600 * SECOND, "grace": 0}
        self.engine = self._engine()
        self.resources = {"cpus": 4, "memory": 1 << 34, "gpus": 0, **resources}
        capacity = Capacity(self.resources, [*range(self.resources["cpus"])], [])
        self._capacity, self.predict = capacity if platform is None else _nodes(platform), predict
        self.engine.open(self._capacity, policy, "test", predict)
        self.flush()

    def move_to(self, platform):
        """Another daemon takes over, on other nodes."""
        self._capacity = _nodes(platform)
        self.restart()

    def restart(self, program="test", policy="", kill=False):
        """Another daemon takes over, of another program or policy perhaps. kill: the one before it was killed."""
        if not kill:
            self.engine.stop()
            self.engine.flush()
        policy = policy or self.engine.book.epoch["configured"]
        self.planner = self._answer = None
        self.engine = self._engine()
        self.engine.open(self._capacity, policy, program, self.predict)
        self.flush()

    def _engine(self):
        return Engine(self.store, self, self, self, self._defaults, encode=json.dumps)

    # what the engine takes for its clock, pool and planner

    def now(self):
        return self.t

    def wall(self):
        return self.t

    def slept(self):
        return 0

    def instant(self, record):
        return None  # nobody says when a job ended: it is over when that is known

    def start(self, some):
        pass

    def stop(self, some):
        for run in some:
            if run.attempt.cause == PREEMPT:
                self.cut.setdefault(run.key, self.t + self.dies)
            else:
                self.runtime[run.job.id] = self.t - run.attempt.start

    def signal(self, run, number):
        pass

    def freeze(self, run):
        pass

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        asked = {"do": "begin", "epoch": epoch, "history": [[one.now, one.messages] for one in history]}
        self.planner, self._answer = answer(None, json.loads(json.dumps(asked)))

    def ask(self, now, messages):
        asked = {"do": "ask", "now": now, "messages": messages}
        self.planner, self._answer = answer(self.planner, json.loads(json.dumps(asked)))

    # what a test does

    def request(self, **message):
        found = []
        self.engine.request(message, found.append)
        self.flush()
        (told,) = found
        assert "error" not in told, told
        return told

    def submit(self, cpus=1, walltime=100, runtime=None, user="ana", name="job", licences=(), **job):
        need = {"cpus": cpus, **dict(licences)}
        facts = {"need": need, "walltime": walltime * SECOND, "name": name, **job}
        token = f"token-{self.engine.book.last_job}-{self.t}"
        spec = {"argv": ["true"]}
        number = self.request(do="submit", token=token, user=user, job=facts, spec=spec)["id"]
        for task in range(len(job.get("array", [0]))):
            self.runtime[number + task] = (walltime if runtime is None else runtime) * SECOND
        return number

    def until(self, t):
        """Let it live until then, in seconds since it began."""
        self._live_until(BEGIN + round(t * SECOND))

    def drain(self):
        """Let it live until nothing is open."""
        while self.engine.book.jobs:
            self._live_until(self._next())

    def job(self, number):
        return self.engine.book.jobs.get(number) or self.store.job(number)

    def _next(self):
        ends = [self._end(run) for run in self._running()]
        timer = self.engine.next_timer()
        return max(min([*ends, *([timer] if timer is not None else [])]), self.t)

    def _running(self):
        return self.engine.book.runs()

    def _end(self, run):
        """Return when an attempt ends."""
        return min(run.attempt.start + self.runtime[run.job.id], self.cut.get(run.key, 1 << 62))

    def _live_until(self, end):
        while True:
            over = [run for run in self._running() if self._end(run) <= self.t]
            for run in over:
                cause = run.attempt.cause
                if cause == PREEMPT and run.attempt.start + self.runtime[run.job.id] <= self.t:
                    cause = ""  # it ended by itself before
                record = {"status": 15 if cause else 0, "cause": cause or None}
                self.engine.settled(*run.key, Verdict("ended", record))
            self.engine.tick()
            self.flush()
            if self.t >= end and not over:
                return
            some = self._running() or self.engine.next_timer() is not None
            self.t = min(end, self._next()) if some else end

    def flush(self):
        """Until nothing follows any more."""
        while True:
            self.engine.flush()
            while self.engine.busy:
                self.engine.go_on()
                self.engine.flush()
            if self._answer is None:
                return
            told, self._answer = json.loads(json.dumps(self._answer)), None
            (self.engine.begun if "passes" in told else self.engine.decided)(told)
