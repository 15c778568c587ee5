"""The snapshot that questions run on: a forked planner, restored after each trial, and the open jobs."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backfill.answers.estimates import KINDS, Shown, kept, widening
from backfill.core.plan.promises import NO_TIME
from backfill.core.runs import RUNNING
from backfill.model.workload import Ints
from backfill.queue.job import PREEMPT, Attempt, Job
from backfill.queue.protocol import LEARNED
from backfill.queue.shapes import Question
from backfill.queue.states import PENDING, STARTING
from backfill.queue.store import Store
from backfill.worlds.aside import Present
from backfill.worlds.future import MOST, Arrivals, Links, drawn, links, live_on
from backfill.worlds.live import Planner
from backfill.worlds.runtimes import RunTimes

# Seconds of cpu time after which no more futures are tried; fewer with more than LARGE open jobs, whose reading takes
# most of the time.
BUDGET_S, LARGE, LARGE_BUDGET_S = 3.0, 10_000, 1.0
CUT_S = 0.4  # seconds of cpu time for one future
EVENTS = 20_000  # latest events of the log in which past estimates are evaluated
SAMPLES, FEWEST = 64, 8  # number of futures, and the least that are always tried


class Queue:
    """The snapshot that a question runs on: a planner that may be modified, the open jobs, and facts about past jobs.

    lately: ended jobs, in the order of their submits. shown: recent estimates with the starts that came. skew: calendar
    time minus queue clock. over: finds a job that has ended.
    """

    def __init__(
        self,
        planner: Planner,
        jobs: Iterable[Job],
        now: int,
        lately: Sequence[Job] = (),
        shown: Sequence[Shown] = (),
        skew: int = 0,
        over: Callable[[int], Job | None] = lambda number: None,
    ) -> None:
        self.planner, self.now, self.skew, self.over = planner, now, skew, over
        self._begun = time.process_time()
        self.times = RunTimes(lately)
        self.widened, self.held = widening(shown)  # factor for the 90 % bounds, and the share of recent ones that held
        self.shadow, planner.advises = planner.advises, False
        self.at_once: set[int] = set()  # jobs that the policy would start now, if it only gives advice
        self.starting: set[int] = set()  # jobs that it starts now; the store has them as pending
        if planner.knows_more:
            planner.decide(self.next_pass, [])
        self.jobs = {job.id: job for job in jobs if job.id in planner.rows}
        for job in self.jobs.values():
            self.on_clock(job)
            if job.start is not None:
                self.times.watch(job.user, job.name, max(now - job.start + job.done, 0) / job.walltime)
        self.arrivals = Arrivals.of(lately, now, planner)
        planner.make_room(
            1 + (0 if self.arrivals is None else MOST)
        )  # for the job in question, and for future arrivals
        self.looked = 0  # number of futures tried
        self.runtimes: Ints = np.zeros((0, 0), np.int64)  # run time of each row in each future
        self.take_stock()

    @classmethod
    def read(cls, planner: Planner, asked: Question) -> "Queue":
        """Read the queue whose folder a question names."""
        begun = time.process_time()
        store = Store(Path(asked["folder"]) / "store.db", readonly=True)
        jobs, lately = store.jobs("end_us IS NULL"), store.jobs(limit=LEARNED)
        shown, _ = kept(store.latest(EVENTS, KINDS))
        found = cls(planner, jobs, asked["now"], lately, shown, asked["skew"], store.job)
        found._begun = begun
        return found

    @property
    def next_pass(self) -> int:
        """The time of the planner's next possible decision."""
        return max(self.now, int(self.planner.state.now) + 1)

    @property
    def used_s(self) -> float:
        """The cpu time used for the answer so far, in seconds."""
        return time.process_time() - self._begun

    def on_clock(self, job: Job) -> None:
        """Convert the begin time of a job from the calendar to the queue clock, which everything here uses."""
        job.begin = None if job.begin is None else job.begin - self.skew

    def take_stock(self) -> None:
        """Make the present state of the planner the one to which it is restored."""
        planner, runs = self.planner, self.planner.state.runs
        last = runs.last[: planner.jobs].tolist()
        for number, job in self.jobs.items():
            run = last[planner.rows[number]]
            if job.attempt is not None and job.yields and job.attempt.cause == PREEMPT:  # it is in the queue again
                job.state, job.attempt = PENDING, None
            if job.state != PENDING or run < 0 or runs.how[run] != RUNNING:
                continue
            if self.shadow:
                self.at_once.add(number)
            else:  # the store does not know of this start yet
                self.starting.add(number)
                job.state, job.waits = STARTING, False
                job.attempt = Attempt(job.attempts + 1, int(runs.start[run]))
        self.present = Present(planner)
        self._links: Links | None = None

    @property
    def links(self) -> Links:
        """Everything that jobs wait for before they enter the policy's queue."""
        if self._links is None:
            self._links = links(self.jobs, self.planner.rows, self.now)
        return self._links

    @property
    def binds(self) -> bool:
        """Return whether the policy keeps what it reserves."""
        return not self.shadow and self.planner.binds

    def reserved(self, number: int) -> int | None:
        """Return the start that the policy has reserved for a job; None if it has none.

        A reserved time in the past is ignored for policies that renew their reservations in each pass.
        """
        t = int(self.planner.state.promises.reserved[self.planner.rows[number]])
        return None if t == NO_TIME or (t < self.now and not self.planner.policy.keeps) else t

    def try_out(self, messages: list[Any]) -> tuple[set[int], Ints]:
        """Return the jobs that start at once after these messages, and each row's start if jobs run until their
        walltimes."""
        planner = self.planner
        starts = {number for number, *_ in planner.decide(self.next_pass, messages)["starts"]}
        later = live_on(planner, planner.walltimes, self.links, self.now)
        self.present.restore()
        return starts, later

    def starts_now(self, number: int, messages: list[Any]) -> bool:
        """Return whether a job starts at once after these messages."""
        starts = self.planner.decide(self.next_pass, messages)["starts"]
        self.present.restore()
        return any(started == number for started, *_ in starts)

    def pending(self) -> list[Job]:
        """Return the pending jobs."""
        return [job for job in self.jobs.values() if job.state == PENDING]

    def futures(self, wanted: Iterable[Job]) -> Ints:
        """Return starts in possible futures, shape (futures, rows).

        Only the rows of the wanted jobs, and of others that start before the last of them, are filled.
        """
        planner = self.planner
        rows_wanted = np.array([planner.rows[job.id] for job in wanted], np.int64)
        self.runtimes = runtimes = drawn(
            planner, self.jobs, lambda job: self.times.of(job.user, job.name), self.links.stuck, SAMPLES, self.now
        )
        known, budget = self.by_walltimes(), LARGE_BUDGET_S if len(self.jobs) > LARGE else BUDGET_S
        horizon = max(int(known.max(initial=self.now)) - self.now, 1)
        rows = []
        for done in range(SAMPLES):
            if done >= FEWEST and self.used_s > budget:
                break
            coming = None
            if self.arrivals is not None:
                coming = self.arrivals.coming(np.random.default_rng(done), self.now, horizon)
            found = live_on(planner, runtimes[done], self.links, self.now, CUT_S, coming, rows_wanted)
            rows.append(self._from_now(found))
            self.present.restore(informed=False)
        self.looked = len(rows)
        return np.array(rows)

    def by_walltimes(self) -> Ints:
        """Return the start of each row if every job runs until its walltime."""
        planner = self.planner
        found = live_on(planner, planner.walltimes, self.links, self.now)
        self.present.restore(informed=False)
        return self._from_now(found)

    def _from_now(self, starts: Ints) -> Ints:
        """Return starts by row, in which jobs that the policy would start now start now."""
        starts[[self.planner.rows[number] for number in self.at_once]] = self.now
        return starts
