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

import numpy as np

from backfill.core.promises import NO_TIME
from backfill.model.errors import BackfillError
from backfill.model.workload import Ints
from backfill.queue.asked import Queue, seconds
from backfill.queue.book import Facts, Job
from backfill.queue.explain import explain
from backfill.queue.planner import Planner

PATIENCE_S = 600  # an answer may need a policy to be compiled
LEAST = 19  # nice: whatever else wants a cpu goes first
SECOND = 1_000_000
GRAINS = ((120, 1), (3600, 60), (86_400, 300))  # up to so many seconds ahead, an estimate is told to so many


def eta(queue: Queue, asked: Facts) -> Facts:
    """When pending jobs start: at the latest, in half of the futures, in nine of ten."""
    starts, planner = queue.futures(), queue.planner
    rows = [estimate(queue, job, starts[:, planner.rows[job.id]]) for job in queue.pending()]
    return {"schema": 1, "now_s": queue.now / 1e6, "policy": planner.policy.name, "binds": queue.binds,
            "futures": len(starts), "jobs": rows}  # fmt: skip


def estimate(queue: Queue, job: Job, starts: Ints) -> Facts:
    """What is told of one job."""
    now, pool = queue.now, queue.times.of(job.user, job.name)
    guaranteed = queue.reserved(job.id) if queue.binds and job.waits else None
    told: Facts = {
        "id": job.id, "label": job.label, "name": job.name, "user": job.user,
        "guaranteed_s": seconds(guaranteed), "median_s": None, "p90_s": None,
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
    return told | {"median_s": seconds(median), "p90_s": seconds(max(median, p90))}


def snapped(t: int, now: int, up: bool = False) -> int:
    """An instant as exactly as it can be foreseen; up: not earlier."""
    ahead = (t - now) / SECOND
    grain = next((grain for most, grain in GRAINS if ahead < most), 3600) * SECOND
    return max((t + (grain - 1 if up else grain // 2)) // grain * grain, now)


ANSWERS: dict[str, Callable[[Queue, Facts], Facts]] = {
    "eta": eta,
    "explain": lambda queue, asked: explain(queue, asked["id"], asked["reason"]),
}


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
        told = ANSWERS[asked["what"]](Queue(planner, asked), asked)
    except BackfillError as error:
        return {"error": {"code": "question", "message": str(error), "field": ""}}
    told["cpu_s"] = round(time.process_time() - begun, 3)
    return told
