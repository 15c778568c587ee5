"""Run gangs on a real pool as a policy starts them: a planner decides, and each gang is a pinned job per node."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from backfill.model.errors import BackfillError, UsageError
from backfill.model.platform import Platform
from backfill.model.platform_file import parse_platform
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Workload
from backfill.pools.htcondor_gangs import Gang, GangFailed, HTCondorGangs
from backfill.pools.seen import Down
from backfill.queue.states import COMPLETED
from backfill.worlds.live import Planner

POLL = SECOND // 10  # between two checks
PATIENCE = 600 * SECOND  # a gang may need longer than its run time
LOST_S = 30.0  # for how long a pool that does not answer is asked again
PROBES = 3  # gangs over the whole pool, to measure the dead time beforehand
MIB = 2**20


class Gangs(Protocol):
    """A pool that runs gangs; see pools.htcondor_gangs."""

    def version(self) -> str: ...  # noqa: D102
    def platform(self) -> str: ...  # noqa: D102
    def occupied(self) -> str: ...  # noqa: D102
    def start(self, some: Sequence[Gang]) -> None: ...  # noqa: D102
    def look(self) -> tuple[list[str], list[str]]: ...  # noqa: D102
    def remove(self) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def htcondor(home: Path) -> Gangs:
    """Return the HTCondor that the environment's CONDOR_CONFIG names. home: a folder that identifies its jobs.

    Raises MissingExtra.
    """
    return HTCondorGangs(home)


@contextmanager
def ended(pool: Gangs) -> Iterator[None]:
    """Remove all jobs at the end of the block, whatever happens. Errors of the pool become a BackfillError."""
    try:
        yield
    except (Down, GangFailed) as problem:
        raise BackfillError(str(problem)) from None
    finally:
        with suppress(Down):  # the reason for the end is reported; this one is probably the same
            pool.remove()


def platform_of(pool: Gangs) -> Platform:
    """Return the platform of the pool. Raises PlatformError, Down."""
    return parse_platform("the pool", pool.platform())


def check_idle(pool: Gangs) -> None:
    """Raise UsageError if the pool has jobs of others. Raises Down."""
    if why := pool.occupied():
        raise UsageError(f"the pool is not idle: {why}; expected one in which nothing else runs")


@dataclass(frozen=True, eq=False, slots=True)
class Ran:
    """The times at which each job was started, all its parts ran, it ended, and its end was seen, in microseconds."""

    decided: Ints
    running: Ints
    ended: Ints
    noticed: Ints

    def dead(self, log: Workload) -> int:
        """Return the mean time for which a job holds its nodes beyond its run time."""
        return round(float((self.noticed - self.decided - log.jobs.runtime).mean()))

    @property
    def launch(self) -> int:
        """Return the mean time from the decision to the start."""
        return round(float((self.running - self.decided).mean()))


@dataclass
class WallClock:
    """Real time, in microseconds since the creation of this clock."""

    def __post_init__(self) -> None:
        self._begin = time.monotonic()

    def now(self) -> int:
        """Return the time that has passed."""
        return round((time.monotonic() - self._begin) * SECOND)

    def sleep(self, span: int) -> None:
        """Wait for this span."""
        time.sleep(span / SECOND)


def probe(pool: Gangs, platform: Platform, clock: Any) -> int:
    """Measure the mean dead time of gangs over the whole pool. Raises Down, GangFailed."""
    dead: list[int] = []
    for number in range(PROBES):
        begin = clock.now()
        nodes = dict(zip(platform.nodes, platform.capacity[:, 0].tolist(), strict=True))
        pool.start([Gang(f"probe {number}", 1.0, nodes, MIB)])
        while not pool.look()[1]:
            clock.sleep(POLL)
        dead.append(clock.now() - begin - SECOND)
    return round(sum(dead) / PROBES)


def run(
    gangs: Gangs,
    log: Workload,
    policy: str,
    dead: int,
    cycle: int,
    clock: Any,
    progress: Callable[[int], None] = lambda over: None,
) -> Ran:
    """Submit the jobs one after the other, and start those that the policy starts.

    dead: how much longer than their run time the policy expects jobs to hold their nodes. cycle: time between two
    passes, if there is only one per cycle. Raises Down, GangFailed, BackfillError.
    """
    planner = Planner(policy, {"resources": {}, "base": [], "platform": log.platform.to_toml()})
    jobs = log.jobs
    count, rows = len(jobs), {str(job): row for row, job in enumerate(jobs.job)}
    decided, running, noticed = (np.full(count, -1) for _ in range(3))
    submits, open_, messages = deque(range(count)), set[int](), list[list[Any]]()
    tick, over = -1, 0
    while over < count:
        if open_:
            for job in _look(gangs, running, decided, rows, clock):
                row = rows[job]
                noticed[row] = clock.now()
                open_.discard(row)
                messages += [["gone", row + 1, COMPLETED], ["over", row + 1]]
                over += 1
                progress(over)
        now = clock.now()
        while submits and jobs.submit[submits[0]] <= now:
            row = submits.popleft()
            messages += [["submit", row + 1, _facts(log, row, dead)], ["wait", row + 1]]
        before, tick = tick, now // cycle if cycle else tick + 1
        if messages and tick > before:
            decisions, messages = planner.decide(now, messages)["starts"], []
            started = [_gang(log, job - 1, nodes) for job, _, nodes in decisions]
            for job, *_ in decisions:
                decided[job - 1] = now
                open_.add(job - 1)
            if started:
                gangs.start(started)
        _check(log, open_, decided, now)
        wakes = [now + POLL, *(int(jobs.submit[row]) for row in [*submits][:1])]
        clock.sleep(max(min([*wakes, (tick + 1) * cycle] if cycle else wakes) - clock.now(), 0))
    running = np.where(running < 0, np.maximum(noticed - jobs.runtime, decided), running)
    return Ran(decided, running, running + jobs.runtime, noticed)


def _look(gangs: Gangs, running: Ints, decided: Ints, rows: dict[str, int], clock: Any) -> list[str]:
    """Return the gangs that have ended; record which have begun."""
    begin = time.monotonic()
    while True:
        try:
            runs, over = gangs.look()
            break
        except Down:
            if time.monotonic() - begin > LOST_S:
                raise
            clock.sleep(SECOND)
    now = clock.now()
    for job in runs:
        if running[rows[job]] < 0 and job not in over:  # of a job that is over already, only its end is known
            running[rows[job]] = now
    return over


def _facts(log: Workload, row: int, dead: int) -> dict[str, Any]:
    """Return the facts of a job for a policy."""
    jobs = log.jobs
    need = dict(zip(log.resources, jobs.demand[row].tolist(), strict=True))
    return {"need": need, "tasks": int(jobs.tasks[row]), "walltime": int(jobs.walltime[row]) + dead}


def _gang(log: Workload, row: int, nodes: Sequence[Sequence[Any]]) -> Gang:
    jobs = log.jobs
    memory = int(jobs.demand[row, log.resources.index("memory")])
    return Gang(str(jobs.job[row]), int(jobs.runtime[row]) / SECOND, {name: n for name, n, *_ in nodes}, memory)


def _check(log: Workload, open_: set[int], decided: Ints, now: int) -> None:
    for row in open_:
        if now - decided[row] > log.jobs.runtime[row] + PATIENCE:
            late = PATIENCE // SECOND
            raise BackfillError(f"the pool did not run {log.jobs.job[row]} to its end within {late} s of its run time")
