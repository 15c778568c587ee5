"""A batch system whose jobs a queue starts: they are held there, and released on the nodes that the policy has chosen.

The thread that looks at the batch system carries out the queue's actions, before its next look. If the daemon is killed
between a decision and its action, the next daemon finds the job held, and repeats the action.
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from backfill.pools.base import ELSEWHERE, Decision, Given, Identity, News
from backfill.pools.comments import published
from backfill.pools.conclude import Control, conclude
from backfill.pools.seen import ENDING, Down, Hands, JobNow, Reader, Snapshot
from backfill.pools.watched import DOWN_S, Look, WatchedPool
from backfill.queue.job import Job, Run
from backfill.system.processes import read_json, write_whole

QUICK_S, QUICKLY_S = 0.2, 2.0  # interval of looks after an action if there are no pulses, and how long it lasts
PULSE_S = 0.1  # interval of pulses while jobs wait
BEAT_S, BEATING_S = 0.05, 1.0  # interval of looks while jobs are ending, and how long it lasts after a pulse with news
BUSY_S, IDLE_S = 0.3, 1.0  # interval of all other looks while jobs wait and there are no pulses, else
# Looks and pulses take one part in so many of a processor, saved up to so many seconds of it: where a look is cheap, in
# seconds of processor time, and elsewhere.
CHEAP_S, CHEAP, DEAR, SAVED_S = 0.03, 10, 33, 1.0
PUBLISH_S, COMMENTS = 10.0, 200  # seconds between rounds of publishing promises, and comments written per round
LOOKED = "looked"  # file with the controller as last seen; its time is that of the last look
GUARDED = "guarded"  # file whose time is that of the last run of the watchdog
REQUEUES = ("requeue", "preempt")  # causes after which a job waits again


class Budget:
    """Processor time that looks may take: a share of the time that passes, and what was saved of it before."""

    def __init__(self) -> None:
        self.share = CHEAP
        self._saved, self._at = SAVED_S, time.monotonic()

    def spend(self, cpu: float) -> None:
        """Take off processor time, in seconds."""
        now = time.monotonic()
        self._saved = min(self._saved + (now - self._at) / self.share, SAVED_S) - cpu
        self._at = now

    def wait(self) -> float:
        """Return in how many seconds nothing will be overdrawn."""
        return max(self._at - self._saved * self.share - time.monotonic(), 0.0)


class ControlledPool(WatchedPool):
    """See pools.base.Pool. mine: whether a waiting job is to be adopted. publish: show users the promised starts."""

    does = frozenset({ELSEWHERE})

    def __init__(
        self, given: Given, reader: Reader, hands: Hands, mine: Callable[[JobNow], bool], publish: bool = False
    ) -> None:
        self._hands, self._control = hands, Control(mine, hands.forgets)
        self._publish_at = time.monotonic() if publish else math.inf
        self._recall(given.home / LOOKED)
        self._acts: deque[tuple[str, Callable[[], None]]] = deque()  # with the instance each was decided for
        self._acted = 0.0
        self._pace = math.inf  # longest interval between looks
        self._budget = Budget()
        self._waits = False  # whether jobs wait for the queue to start them
        self._pulse, self._beat = "", -math.inf  # the last pulse, and when it changed
        self._ending = False  # whether the last look showed jobs that end: no pulse tells when their nodes are free
        self._silent = -math.inf  # until when there is no pulse
        super().__init__(given, reader)

    @property
    def instance(self) -> str:
        """The controller's instance as last seen."""
        return self._control.instance

    def _recall(self, file: Path) -> None:
        """Load what the previous daemon knew of the controller."""
        saved = read_json(str(file))
        if saved is not None:
            self._control.instance, self._control.since = saved["instance"], saved["since"]

    def start(self, some: Sequence[Decision]) -> None:
        """See Pool."""
        for one in some:
            self._control.requested[one.key] = time.monotonic()
        self._do_start([one.job for one in some])

    def stop(self, some: Sequence[Run]) -> None:
        """See Pool."""
        ends = [(run.job.native, run.attempt.cause in REQUEUES) for run in some]
        self._do(lambda: self._hands.stop(ends))

    def _conclude(self, look: Look, known: Mapping[Identity, Job]) -> list[News]:
        control = self._control
        control.now, control.wall = time.monotonic(), time.time_ns() // 1000
        given, before = self._given, control.instance
        found = conclude(look.snapshot, known, look.recalled, self._watch, given.ended, given.skew(), control)
        waits = any(job.managed and job.held and not job.blocked for job in look.snapshot.jobs)
        self._waits = waits
        least = BUSY_S if waits and time.monotonic() < self._silent else IDLE_S
        self._pace = max(least, 2 * self._budget.share * (look.snapshot.cpu or 0.0))
        if before != control.instance:
            write_whole(str(given.home / LOOKED), {"instance": control.instance, "since": control.since})
        with suppress(OSError):  # on a full disk the watchdog will think that no daemon looks
            os.utime(given.home / LOOKED)
        if adopt := [*control.adopt]:
            self._do(lambda: self._hands.adopt(adopt))
        if give_back := [*control.give_back]:
            self._do(lambda: self._hands.release(give_back))
        if undo := [job.native for job in control.undo]:
            self._do(lambda: self._hands.undo(undo))
        if control.tell:
            for job in control.tell:
                control.requested[job.run.key] = control.now
            self._do_start([*control.tell])
        control.adopt.clear()
        control.undo.clear()
        control.give_back.clear()
        control.tell.clear()
        if control.now >= self._publish_at:
            self._publish(look, known)
        return found

    def _publish(self, look: Look, known: Mapping[Identity, Job]) -> None:
        """Write the starts that are promised now into the comments of jobs."""
        self._publish_at = time.monotonic() + PUBLISH_S
        given = self._given
        if some := published(look.snapshot.jobs, known, given.promises(), given.skew())[:COMMENTS]:
            self._do(lambda: self._hands.comment(some))

    def _avoided(self) -> Collection[str]:
        """See WatchedPool."""
        return self._control.avoided()

    def _do_start(self, jobs: Sequence[Job]) -> None:
        some = [(job.native, [name for name, *_ in job.current.nodes]) for job in jobs]
        self._do(lambda: self._hands.start(some))

    def _do(self, act: Callable[[], None]) -> None:
        self._acts.append((self.instance, act))
        self._wake.set()

    def _act(self) -> None:
        """See WatchedPool. After a failure or a restart of the controller, pending actions are dropped.

        The next look decides about them: a job that was released may have run, and been forgotten.
        """
        try:
            while self._acts:
                instance, act = self._acts.popleft()
                if instance != self._hands.instance():
                    raise Down("another controller answers")
                act()
                self._acted = time.monotonic()
        except Down:
            self._acts.clear()
            raise

    def _sooner(self) -> float:
        """See WatchedPool."""
        now = time.monotonic()
        quick = QUICK_S if now < self._silent and now - self._acted < QUICKLY_S else self._pace
        quick = min(quick, BEAT_S) if self._ending and now - self._beat < BEATING_S else quick
        return max(quick, self._budget.wait())

    def _looked(self, snapshot: Snapshot) -> None:
        """See WatchedPool."""
        cpu = snapshot.cpu or 0.0
        self._budget.share = CHEAP if cpu < CHEAP_S else DEAR
        self._budget.spend(cpu)
        self._ending = any(job.state == ENDING for job in snapshot.jobs)

    def _rest(self, wait: float) -> bool:
        """See WatchedPool. While jobs wait, a pulse with news ends it: the end of another job makes room for them."""
        until = time.monotonic() + wait
        while (left := until - (now := time.monotonic())) > 0:
            pulses = now >= self._silent and (self._waits or now - self._acted < QUICKLY_S)
            if self._wake.wait(min(left, max(PULSE_S, self._budget.wait())) if pulses else left):
                return True
            if pulses and self._beats():
                return False
        return self._wake.is_set()

    def _beats(self) -> bool:
        """Return whether a job was submitted, has begun or has ended since the last pulse."""
        try:
            found = self._reader.pulse()
        except Down:  # the next look tells why
            self._silent = time.monotonic() + DOWN_S
            return False
        if found is None:
            self._silent = math.inf
            return False
        before, (self._pulse, cpu) = self._pulse, found
        self._budget.spend(cpu)
        if self._pulse == before:
            return False
        self._beat = time.monotonic()
        return True
