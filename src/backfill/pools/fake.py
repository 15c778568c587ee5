"""A simulated cluster: jobs start no process and end after their run time, by a clock that may run at any speed.

Everything follows from the queue's records of a job and from the seed, so nothing has to be kept, and a restarted
daemon finds the same cluster.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from backfill.pools.base import PREEMPTS, Decision, Foreign, Given, NodeSeen, Seen, Sighting, Verdict
from backfill.queue.job import Job, Run
from backfill.queue.nodes import Nodes
from backfill.queue.shapes import ClockFacts, Record
from backfill.queue.states import ENDING

SECOND = 1_000_000
DAY, FAR = 86_400 * SECOND, 2**62
SHORTEST = 0.05  # smallest share of its walltime that a job without a run time runs
LOOKED_AHEAD = 400  # days
DOWN = "down"

Key = tuple[int, int]  # job number and attempt number


class VirtualClock:
    """A clock that runs `speed` times as fast as real time, from the call of `run`; see queue/around.py.

    It stands still while there is no daemon, and until a new daemon's planner is ready: otherwise hours would pass
    meanwhile. It begins at the calendar of this machine, rounded down to the hour, and is the calendar of the queue.
    """

    def __init__(self, last: int, speed: float) -> None:
        self.speed = speed
        self._first = last + 1 if last else int(time.time()) // 3600 * 3600 * SECOND
        self._begun: float | None = None

    def run(self) -> None:
        """Start the clock, unless it runs already."""
        if self._begun is None:
            self._begun = time.monotonic()

    @property
    def facts(self) -> ClockFacts:
        """No facts: the last time in the log is enough to continue."""
        return {}

    def now(self) -> int:
        """Return the time, in microseconds."""
        if self._begun is None:
            return self._first
        return self._first + int((time.monotonic() - self._begun) * self.speed * SECOND)

    def wall(self) -> int:
        """Return the calendar of the queue, which is this clock."""
        return self.now()

    def slept(self) -> int:
        """Return 0: this clock never sleeps."""
        return 0

    def instant(self, record: Record) -> int | None:
        """Return when an attempt ended."""
        found = record.get("at")
        return found if isinstance(found, int) else None


class FakePool:
    """See pools.base.Pool. Each job runs for the `runtime` of its spec, or else for a random share of its walltime.

    The share depends on the job number and the seed; no job runs longer than its walltime. For a preempted job the
    queue knows how much has been done. Nodes fail, and jobs of others start, at random.
    """

    name = "fake"
    does = frozenset(PREEMPTS.values())

    def __init__(self, given: Given, settings: Mapping[str, float]) -> None:
        """Create the pool. settings: those of config.FAKE."""
        self._given, self._settings, self._nodes = given, settings, Nodes(given.nodes)
        self._runs: dict[Key, Run] = {}
        self._held: dict[Key, list[tuple[str, str, int]]] = {}
        self._ends: list[tuple[int, Key]] = []  # a heap; may have entries of attempts that are over
        self._seen: list[Sighting] = []
        now = given.now()
        self._changes = [(self._state_of(name, now)[1], name) for name in self._nodes.names]  # a heap
        self._down = {name for name in self._nodes.names if self._state_of(name, now)[0]}
        heapify(self._changes)
        self._reported = False  # whether the nodes that are down at the start of the daemon were reported
        self._visit = self._next_visit(now)

    def read(self, some: Iterable[Run]) -> Seen:
        """See Pool."""
        now = self._given.now()
        for run in some:
            self._begin(run)
        nodes = self._look_at_nodes(now)
        while self._ends and self._ends[0][0] <= now:
            end, key = heappop(self._ends)
            if key in self._runs:
                job = self._runs[key].job
                late = self._runtime(job) > job.walltime
                self._end(
                    key, Verdict("ended", {"status": 15 if late else 0, "cause": "limit" if late else None, "at": end})
                )
        foreign = self._look_for_others(now)
        seen, self._seen = self._seen, []
        return Seen(seen, nodes, foreign)

    def start(self, some: Sequence[Decision]) -> None:
        """Start attempts at the time at which they were decided."""
        for one in some:
            self._begin(one)

    def stop(self, some: Sequence[Run]) -> None:
        """End attempts at once."""
        for run in some:
            ended = {"status": 15, "cause": run.attempt.cause, "at": self._given.now()}
            self._end(run.key, Verdict("ended", ended))

    def signal(self, run: Run, number: int) -> None:
        """Do nothing: there are no processes."""

    def freeze(self, run: Run) -> None:
        """Do nothing: there are no processes."""

    def hear(self, text: str) -> None:
        """Do nothing: there are no hints."""

    def news_at(self) -> int | None:
        """Return the time of the next end of a job, change of a node, or start of another user's job."""
        while self._ends and self._ends[0][1] not in self._runs:
            heappop(self._ends)
        some = [heap[0][0] for heap in (self._ends, self._changes) if heap]
        return min([*some, self._visit])

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # ------------------------------------------------------------------

    def _begin(self, run: Run) -> None:
        job, attempt, key = run.job, run.attempt, run.key
        if key in self._runs:
            return
        if job.state == ENDING:  # the previous daemon was about to stop it, or has stopped it
            self.stop([run])
            return
        self._runs[key] = run
        self._held[key] = [*self._nodes.parts(job.need, attempt.nodes)]
        self._nodes.take(self._held[key])
        heappush(self._ends, (attempt.start + max(min(self._runtime(job), job.walltime) - job.done, 0), key))
        self._seen.append(Sighting(*key, Verdict("alive", {"pool": self.name})))
        self._given.news()

    def _end(self, key: Key, verdict: Verdict) -> None:
        if self._runs.pop(key, None) is not None:
            self._nodes.take(self._held.pop(key), -1)
        self._seen.append(Sighting(*key, verdict))
        self._given.news()

    def _runtime(self, job: Job) -> int:
        """Return how long a job runs if it is not killed, in microseconds."""
        given = self._given.spec_of(job).get("runtime")
        share = random.Random(f"{self._settings['seed']:g} {job.id}").uniform(SHORTEST, 1)
        return int(job.walltime * share if given is None else given)

    def _look_at_nodes(self, now: int) -> list[NodeSeen]:
        """Return the nodes that went down or came back; attempts on nodes that went down are lost."""
        changed = set() if self._reported else {*self._nodes.names}
        self._reported = True
        while self._changes and self._changes[0][0] <= now:
            _, name = heappop(self._changes)
            down, until = self._state_of(name, now)
            heappush(self._changes, (until, name))
            if down != (name in self._down):
                self._down ^= {name}
                changed ^= {name}
        lost = changed & self._down
        for key, run in [*self._runs.items()] if lost else ():
            if any(node[0] in lost for node in run.attempt.nodes):
                self._end(key, Verdict("unknown"))
        stated = self._nodes.stated
        return [
            NodeSeen(name, dict.fromkeys(stated[name], 0), DOWN) if name in self._down else NodeSeen(name, stated[name])
            for name in sorted(changed)
        ]

    def _state_of(self, node: str, now: int) -> tuple[bool, int]:
        """Return whether a node is down, and when that changes. In each span of DAY it fails at most once."""
        rate, repair = self._settings["failures"], self._settings["repair"] * SECOND
        if not rate:
            return False, FAR
        first = now // DAY - 1
        for day in range(first, first + LOOKED_AHEAD):
            chance = random.Random(f"{self._settings['seed']:g} {node} {day}")
            if chance.random() >= rate:
                continue
            down = day * DAY + int(chance.random() * DAY)
            up = down + min(int(chance.expovariate(1 / repair)) + SECOND, DAY)
            if now < down:
                return False, down
            if now < up:
                return True, up
        return False, (first + LOOKED_AHEAD) * DAY

    def _next_visit(self, now: int) -> int:
        """Return when another user's job is started next."""
        rate = self._settings["foreign"]
        if not rate:
            return FAR
        return now + SECOND + int(random.Random(f"{self._settings['seed']:g} {now}").expovariate(rate / DAY))

    def _look_for_others(self, now: int) -> list[Foreign]:
        """Return a job that another user starts, if it is due, on a node with a free cpu."""
        if now < self._visit:
            return []
        chance = random.Random(f"{self._settings['seed']:g} {self._visit}")
        self._visit = self._next_visit(now)
        free = self._nodes.free()
        some = [name for name in self._nodes.names if name not in self._down and free.of(name, "cpus") > 0]
        if not some:
            return []
        runtime = chance.randint(600, 7200) * SECOND
        facts = {"name": "other", "user": "root", "need": {"cpus": 1}, "walltime": 2 * runtime}
        return [Foreign(0, [[chance.choice(some), 1]], now, facts, {"argv": ["true"], "runtime": runtime})]
