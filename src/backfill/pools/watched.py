"""A batch system that a queue only watches: jobs are submitted and started there, and the queue changes nothing.

A separate thread looks at it, since a look takes longer than the daemon may be blocked; the daemon draws the
conclusions from a look, with its records at that time.
"""

import asyncio
import math
import threading
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill.pools.base import ELSEWHERE, WATCHES, Decision, Given, Identity, News, Seen
from backfill.pools.conclude import Watch, absent, conclude, nodes_seen
from backfill.pools.seen import Down, JobNow, Reader, Snapshot
from backfill.queue.job import Job, Run
from backfill.queue.nodes import Nodes
from backfill.system.log import note

SOON_S, LATE_S = 1.0, 5.0  # intervals of looks: after a look with news, and at most
GROWTH = 1.5
SHARE, APART = 20, 4  # pause after a look, in multiples of its processor time and of its duration
DOWN_S = 30.0  # longest interval of looks while there is no answer
WHOLE = 20  # every 20th look is compared with all records of the queue


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot, and what is known of jobs that were missing in the previous one."""

    snapshot: Snapshot
    recalled: dict[Identity, JobNow]
    asked: frozenset[Identity]


class WatchedPool:
    """See pools.base.Pool. It must be created in the thread of the daemon, in its event loop."""

    does = frozenset({ELSEWHERE, WATCHES})

    def __init__(self, given: Given, reader: Reader) -> None:
        self.name = reader.name
        self.problem = "not looked at yet"  # why its state is not known; empty once it is
        self._given, self._reader, self._nodes = given, reader, Nodes(given.nodes)
        self._watch, self._looks = Watch(), 0
        self._look: Look | None = None  # the last look, if it has not been evaluated yet
        self._missing: frozenset[Identity] = frozenset()
        self._stirred = True  # whether the last look brought news
        self._loop = asyncio.get_running_loop()
        self._end, self._wake = False, threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"looks at {self.name}", daemon=True)
        self._thread.start()

    @property
    def instance(self) -> str:
        """See BatchSystem. Empty: a queue that only watches starts nothing that could be forgotten."""
        return ""

    def read(self, some: Iterable[Run]) -> Seen:
        """Return what follows from the last look, once. It is compared with the open jobs that were submitted there."""
        look = self._look
        if look is None or not self._given.quiet():
            return Seen()
        self._look = None
        known = {(job.native, job.native_submit): job for job in self._given.jobs().values() if job.native}
        missing = frozenset(absent(look.snapshot, known))
        if not missing <= look.asked:  # the batch system may remember how they ended
            self._missing = missing
            return Seen()
        self._looks += 1
        if self._looks % WHOLE == 0:
            self._watch.before = {}
        news = self._conclude(look, known)
        nodes = nodes_seen(look.snapshot, self._nodes, self._watch, self._avoided())
        self._stirred = bool(news)
        return Seen(nodes=nodes, news=news)

    def _conclude(self, look: Look, known: Mapping[Identity, Job]) -> list[News]:
        return conclude(look.snapshot, known, look.recalled, self._watch, self._given.ended, self._given.skew())

    def _avoided(self) -> Collection[str]:
        """Return nodes where nothing is to be started for a while."""
        return ()

    def start(self, some: Sequence[Decision]) -> None:
        """Not supported: raises AssertionError."""
        raise AssertionError(f"a queue that watches {self.name} has started {len(some)} jobs")

    def stop(self, some: Sequence[Run]) -> None:
        """Not supported: raises AssertionError."""
        raise AssertionError(f"a queue that watches {self.name} has stopped {len(some)} jobs")

    def signal(self, run: Run, number: int) -> None:
        """Not supported: raises AssertionError."""
        raise AssertionError(f"a queue that watches {self.name} has sent signal {number} to job {run.job.label}")

    def freeze(self, run: Run) -> None:
        """Not supported: raises AssertionError."""
        raise AssertionError(f"a queue that watches {self.name} has suspended job {run.job.label}")

    def news_at(self) -> None:
        """Return None: news is not known in advance."""

    def hear(self, text: str) -> None:
        """Do nothing: there are no hints."""

    def close(self) -> None:
        """Stop looking."""
        self._end = True
        self._wake.set()
        self._thread.join(1)  # a look that does not end is abandoned

    # ------------------------------------------------------------------ the thread that looks

    def _run(self) -> None:
        wait = 0.0
        while not (self._rest(wait) and self._end):
            self._wake.clear()
            missing = self._missing
            try:
                self._act()
                snapshot = self._reader.look()
                recalled = self._reader.recall(sorted(missing)) if missing else ()
            except Exception as error:  # a bug must not end the thread, since nothing else looks
                if not isinstance(error, Down):
                    note(traceback.format_exc())
                self._tell(str(error) if isinstance(error, Down) else f"{error!r:.200}; see daemon.log")
                wait = min(max(2 * wait, SOON_S), DOWN_S)
                continue
            self._tell("")
            wait = SOON_S if self._stirred or missing != self._missing else min(GROWTH * max(wait, SOON_S), LATE_S)
            cpu = snapshot.took if snapshot.cpu is None else snapshot.cpu
            wait = max(wait, SHARE * cpu, APART * snapshot.took)
            self._looked(snapshot)
            wait = min(wait, self._sooner())
            self._stirred = False
            self._look = Look(snapshot, {job.identity: job for job in recalled}, missing)
            if not self._end:
                self._loop.call_soon_threadsafe(self._given.news)
        self._reader.close()

    def _rest(self, wait: float) -> bool:
        """Wait for the next look, this long at most; return whether the thread was woken up."""
        return self._wake.wait(wait)

    def _act(self) -> None:
        """Carry out pending actions before a look. Raises Down."""

    def _sooner(self) -> float:
        """Return the longest wait before the next look, in seconds."""
        return math.inf

    def _looked(self, snapshot: Snapshot) -> None:
        """Note what a look has cost, and what it says about the time of the next one."""

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            note(f"pool {self.name}: {problem}")
        elif self.problem and not problem:
            note(f"pool {self.name}: it answers")
        self.problem = problem
