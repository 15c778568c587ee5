"""A batch system that a queue watches: its jobs are submitted there, and started there. Nothing is ever changed there.

A thread of its own looks at it, as that takes longer than a daemon may be silent; what follows from a look is concluded
by the daemon, from the book as it is then.
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

SOON_S, LATE_S = 1.0, 5.0  # between two looks: after one that brought something new, and at most
GROWTH = 1.5
SHARE, APART = 20, 4  # there is no look for so many times the processor time, and the time, that one takes
DOWN_S = 30.0  # between two looks at most, while there is no answer
WHOLE = 20  # of so many looks one is compared with the book as a whole


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot, and what is known of jobs that were missing in the one before."""

    snapshot: Snapshot
    recalled: dict[Identity, JobNow]
    asked: frozenset[Identity]


class WatchedPool:
    """See pools.base.Pool. It must be made by the thread of the daemon, in its loop."""

    does = frozenset({ELSEWHERE, WATCHES})

    def __init__(self, given: Given, reader: Reader) -> None:
        self.name = reader.name
        self.problem = "not looked at yet"  # why nothing is known of it; empty once something is
        self._given, self._reader, self._nodes = given, reader, Nodes(given.nodes)
        self._watch, self._looks = Watch(), 0
        self._look: Look | None = None  # the last one, of which nothing has been concluded yet
        self._missing: frozenset[Identity] = frozenset()
        self._stirred = True  # the last look brought something new
        self._loop = asyncio.get_running_loop()
        self._end, self._wake = False, threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"looks at {self.name}", daemon=True)
        self._thread.start()

    def read(self, some: Iterable[Run]) -> Seen:
        """What follows from the last look, once. Only open jobs that were submitted there are compared with it."""
        look = self._look
        if look is None or not self._given.quiet():
            return Seen()
        self._look = None
        known = {(job.native, job.native_submit): job for job in self._given.jobs().values() if job.native}
        missing = frozenset(absent(look.snapshot, known))
        if not missing <= look.asked:  # perhaps it remembers how they ended
            self._missing = missing
            return Seen()
        self._looks += 1
        if self._looks % WHOLE == 0:
            self._watch.before = {}
        news = self._conclude(look, known)
        nodes = nodes_seen(look.snapshot, self._nodes, self._avoided())
        self._stirred = bool(news)
        return Seen(nodes=nodes, news=news)

    def _conclude(self, look: Look, known: Mapping[Identity, Job]) -> list[News]:
        return conclude(look.snapshot, known, look.recalled, self._watch, self._given.ended, self._given.skew())

    def _avoided(self) -> Collection[str]:
        """Nodes where nothing is to be started for a while."""
        return ()

    def start(self, some: Sequence[Decision]) -> None:
        """Never."""
        raise AssertionError(f"a queue that watches {self.name} has started {len(some)} jobs")

    def stop(self, some: Sequence[Run]) -> None:
        """Never."""
        raise AssertionError(f"a queue that watches {self.name} has stopped {len(some)} jobs")

    def signal(self, run: Run, number: int) -> None:
        """Never."""
        raise AssertionError(f"a queue that watches {self.name} has sent signal {number} to job {run.job.label}")

    def freeze(self, run: Run) -> None:
        """Never."""
        raise AssertionError(f"a queue that watches {self.name} has suspended job {run.job.label}")

    def news_at(self) -> None:
        """Nobody knows."""

    def hear(self, text: str) -> None:
        """Nobody says anything."""

    def close(self) -> None:
        """Look no more."""
        self._end = True
        self._wake.set()
        self._thread.join(1)  # a look that does not end is left alone

    # ------------------------------------------------------------------ the thread that looks

    def _run(self) -> None:
        wait = 0.0
        while not (self._wake.wait(wait) and self._end):
            self._wake.clear()
            missing = self._missing
            try:
                self._act()
                snapshot = self._reader.look()
                recalled = self._reader.recall(sorted(missing)) if missing else ()
            except Exception as error:  # a mistake of ours must not end the thread: nobody would look any more
                if not isinstance(error, Down):
                    note(traceback.format_exc())
                self._tell(str(error) if isinstance(error, Down) else f"{error!r:.200}; see daemon.log")
                wait = min(max(2 * wait, SOON_S), DOWN_S)
                continue
            self._tell("")
            wait = SOON_S if self._stirred or missing != self._missing else min(GROWTH * max(wait, SOON_S), LATE_S)
            cpu = snapshot.took if snapshot.cpu is None else snapshot.cpu
            wait = max(wait, SHARE * cpu, APART * snapshot.took)
            wait = min(wait, self._sooner())
            self._stirred = False
            self._look = Look(snapshot, {job.identity: job for job in recalled}, missing)
            if not self._end:
                self._loop.call_soon_threadsafe(self._given.news)
        self._reader.close()

    def _act(self) -> None:
        """Do what is to be done before a look. Raises Down."""

    def _sooner(self) -> float:
        """Within how many seconds the next look is wanted."""
        return math.inf

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            note(f"pool {self.name}: {problem}")
        elif self.problem and not problem:
            note(f"pool {self.name}: it answers")
        self.problem = problem
