"""Questions of people to the planner: when a job starts, why not yet, what fits now, and what another policy would do.

They are answered by copies of the planner (forecast.py), at low priority, so that decisions never wait for an answer.
"""

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from backfill.core.promises import NO_TIME
from backfill.core.runs import RUNNING
from backfill.model.errors import BackfillError
from backfill.model.workload import Ints
from backfill.queue.book import Facts, Job
from backfill.queue.forecast import LEARNED, RunTimes, drawn, links, live_on
from backfill.queue.planner import Planner
from backfill.queue.rewind import Present
from backfill.queue.states import PENDING
from backfill.queue.store import Store

BUDGET_S, MOST_S = 3.0, 20.0  # of cpu time for the futures of one estimate; for the fewest that say something
SAMPLES, FEWEST = 64, 8
PATIENCE_S = 600  # an answer may need a policy to be compiled
LEAST = 19  # nice: whatever else wants a cpu goes first
SECOND = 1_000_000
GRAINS = ((120, 1), (3600, 60), (86_400, 300))  # up to so many seconds ahead, an estimate is told to so many


class Queue:
    """What a question is asked of: a planner that may be used up, the open jobs, and what is known of others."""

    def __init__(self, planner: Planner, asked: Facts) -> None:
        self.planner, self.now = planner, asked["now"]
        store = Store(Path(asked["folder"]) / "store.db", readonly=True)
        self.jobs = {job.id: job for job in store.jobs("end_us IS NULL")}
        self.times = RunTimes(store.ended(LEARNED))
        self.store = store
        if asked["messages"]:  # what it would have been told next
            planner.decide(max(self.now, int(planner.state.now) + 1), asked["messages"])
        self.jobs = {number: job for number, job in self.jobs.items() if number in planner.rows}
        self.present = Present(planner)

    @property
    def binds(self) -> bool:
        """Whether the policy keeps what it reserves."""
        return self.planner.policy.binds and self.planner.policy.keeps

    def reserved(self, number: int) -> int | None:
        """The start that the policy has in mind for a job."""
        t = int(self.planner.state.promises.reserved[self.planner.rows[number]])
        return None if t == NO_TIME else t

    def pending(self) -> list[Job]:
        """Those that wait for something."""
        runs, rows = self.planner.state.runs, self.planner.rows
        last = runs.last[[rows[number] for number in self.jobs]]
        starting = (last >= 0) & (runs.how[np.maximum(last, 0)] == RUNNING)  # which the store does not know yet
        return [
            job for job, begun in zip(self.jobs.values(), starting, strict=True) if job.state == PENDING and not begun
        ]

    def futures(self) -> Ints:
        """Starts in possible futures, shape (futures, rows)."""
        planner = self.planner
        linked = links(self.jobs, planner.rows, self.now)
        pools = {number: self.times.of(job.user, job.name) for number, job in self.jobs.items()}
        runtimes = drawn(planner, self.jobs, pools, SAMPLES, self.now)
        # The first few are spread over all of them: a budget that is used up early leaves a fair picture.
        order = [sample for first in range(FEWEST) for sample in range(first, SAMPLES, FEWEST)]
        order.sort(key=lambda sample: (sample % (SAMPLES // FEWEST), sample))
        rows, begun = [], time.process_time()
        for done, sample in enumerate(order):
            if done and time.process_time() - begun > (BUDGET_S if done >= FEWEST else MOST_S):
                break
            rows.append(live_on(planner, runtimes[sample], linked, self.now))
            self.present.restore()
        return np.array(rows)

    def by_walltimes(self) -> Ints:
        """Starts by row if every job runs until its walltime."""
        planner = self.planner
        walltime = planner.state.jobs.walltime[: planner.jobs].copy()
        linked = links(self.jobs, planner.rows, self.now)
        found = live_on(planner, walltime, linked, self.now)
        self.present.restore()
        return found


def eta(planner: Planner, asked: Facts) -> Facts:
    """When pending jobs start: at the latest, in half of the futures, in nine of ten."""
    queue = Queue(planner, asked)
    starts = queue.futures()
    rows = [estimate(queue, job, starts[:, planner.rows[job.id]]) for job in queue.pending()]
    return {"schema": 1, "now_s": queue.now / 1e6, "policy": planner.policy.name, "binds": queue.binds,
            "futures": len(starts), "jobs": rows}  # fmt: skip


def estimate(queue: Queue, job: Job, starts: Ints) -> Facts:
    """What is told of one job."""
    now, pool = queue.now, queue.times.of(job.user, job.name)
    guaranteed = queue.reserved(job.id) if queue.binds and job.waits else None
    told: Facts = {
        "id": job.id, "label": job.label, "name": job.name, "user": job.user,
        "guaranteed_s": _seconds(guaranteed), "median_s": None, "p90_s": None,
        "history": pool.told, "ended_jobs": len(pool.shares), "why_not": "",
    }  # fmt: skip
    if job.held or job.never:
        return told | {"why_not": "held" if job.held else "never"}
    known = np.sort(starts[starts != NO_TIME])
    if len(known) < 0.9 * len(starts) or not len(known):
        return told | {"why_not": "blocked"}
    median = int(known[(len(known) - 1) // 2])
    p90 = int(known[min(int(np.ceil(0.9 * len(starts))), len(known)) - 1])
    median, p90 = snapped(median, now), snapped(p90, now, up=True)
    if guaranteed is not None:
        median, p90 = min(median, guaranteed), min(p90, guaranteed)
    return told | {"median_s": _seconds(median), "p90_s": _seconds(max(median, p90))}


def snapped(t: int, now: int, up: bool = False) -> int:
    """An instant as exactly as it can be foreseen; up: not earlier."""
    ahead = (t - now) / SECOND
    grain = next((grain for most, grain in GRAINS if ahead < most), 3600) * SECOND
    return max((t + (grain - 1 if up else grain // 2)) // grain * grain, now)


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6


ANSWERS: dict[str, Callable[[Planner, Facts], Facts]] = {"eta": eta}


def aside(planner: Planner | None, asked: Facts) -> int:
    """Have a question answered by a copy of this process, into the pipe with the name asked["to"]; its number.

    Returns 0 if the system has no room for another process.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        pid = os.fork()
    except OSError:
        return 0
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(PATIENCE_S)
        os.nice(LEAST)
        with open(asked["to"], "w", encoding="utf-8") as out:
            out.write(json.dumps(answer(planner, asked["question"])))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def answer(planner: Planner | None, asked: Facts) -> Facts:
    """What is told of a question, which may use up the planner."""
    assert planner is not None
    begun = time.process_time()
    try:
        told = ANSWERS[asked["what"]](planner, asked)
    except BackfillError as error:
        return {"error": {"code": "question", "message": str(error), "field": ""}}
    told["cpu_s"] = round(time.process_time() - begun, 3)
    return told
