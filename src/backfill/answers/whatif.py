"""Estimates: when jobs start, when jobs not submitted yet would, and what another policy would change."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from backfill.answers.asked import Queue
from backfill.core.plan.promises import NO_TIME
from backfill.model.units import NEVER, seconds
from backfill.model.workload import Ints
from backfill.queue import feed
from backfill.queue.job import Job
from backfill.queue.nodes import FLOATING
from backfill.queue.protocol import ESTIMATED
from backfill.queue.shapes import Estimate, JsonObject, Question, Row
from backfill.queue.states import PENDING, STARTING
from backfill.worlds.blame import blaming
from backfill.worlds.live import Planner
from backfill.worlds.runtimes import Pool

SECOND = 1_000_000
GRAINS = ((120, 1), (3600, 60), (86_400, 300))  # estimates up to (seconds ahead) are rounded to (seconds)


class Three(TypedDict):
    """The estimated start of a job, as in Estimate."""

    guaranteed_s: float | None
    median_s: float | None
    p90_s: float | None


class Switched(TypedDict):
    """A job under another policy; kept: whether its promised start is kept."""

    id: int
    label: str
    name: str
    promise_s: float | None
    kept: bool
    before: Three
    after: Three


class Delayed(TypedDict):
    """A job whose start a submit would delay."""

    id: int
    label: str
    before_s: float
    after_s: float


class Tried(TypedDict):
    """The jobs that a submit would create, at_once of which start now, and the jobs that it would delay."""

    schema: int
    now_s: float
    policy: str
    binds: bool
    at_once: int
    jobs: list[Estimate]
    delayed: list[Delayed]


# ---------------------------------------------------------------------- estimates


def estimate(queue: Queue, job: Job, starts: Any, known: tuple[int, bool] | None = None) -> Estimate:
    """Return the estimate of one job, from its starts in the possible futures.

    known: its fewest_ended_jobs and whether it is wide, see Estimate.
    """
    pool = queue.times.of(job.user, job.name)
    guaranteed = queue.reserved(job.id) if queue.binds and job.waits else None
    estimate: Estimate = {**_without_times(job, pool), "guaranteed_s": seconds(guaranteed)}
    estimate["fewest_ended_jobs"], estimate["wide"] = known or (None, False)
    estimate["misses_deadline"] = job.misses(None if guaranteed is None else guaranteed + queue.skew)
    if job.state == STARTING:
        start = seconds(job.start)
        return {**estimate, "guaranteed_s": start, "median_s": start, "p90_s": start, "misses_deadline": None}
    if job.held or job.never:
        return {**estimate, "why_not": "held" if job.held else "never"}
    found = likely(queue, starts)
    if found is None:
        return {**estimate, "why_not": "far" if job.waits else "blocked"}
    median, p90 = found
    if guaranteed is not None:
        median, p90 = min(median, guaranteed), min(p90, guaranteed)
    p90 = max(median, p90)
    estimate["misses_deadline"] = job.misses(p90 + queue.skew)
    return {**estimate, "median_s": seconds(median), "p90_s": seconds(p90)}


def known_ahead(queue: Queue, starts: Ints, wanted: Sequence[Job]) -> dict[int, tuple[int, bool]]:
    """Return what is known of the run times on which the start of each wanted job depends.

    These are the run times of the jobs that run now, and of those that start before it in most futures: the smallest
    number of ended jobs that give one of them, and whether one is bounded by its walltime only. Jobs that depend on
    none are left out. starts: see Queue.futures.
    """
    rows, pools = queue.planner.rows, {}
    middle = np.median(np.where(starts == NO_TIME, np.iinfo(np.int64).max, starts), axis=0)
    running, later = [(NEVER, 0)], []
    for job in queue.jobs.values():
        whose = job.user, job.name
        if whose not in pools:
            pool = queue.times.of(*whose)
            pools[whose] = len(pool.shares), int(pool.wide)
        if job.state != PENDING:
            running.append(pools[whose])
        elif (starts[:, rows[job.id]] != NO_TIME).any():
            later.append((float(middle[rows[job.id]]), *pools[whose]))
    later.sort()
    jobs, wide = zip(*running, strict=True)
    least = np.minimum.accumulate([min(jobs), *(known for _, known, _ in later)]).tolist()
    any_wide = np.maximum.accumulate([max(wide), *(wide for *_, wide in later)]).tolist()
    ahead = np.searchsorted([start for start, *_ in later], [middle[rows[job.id]] for job in wanted]).tolist()
    return {job.id: (least[i], bool(any_wide[i])) for job, i in zip(wanted, ahead, strict=True) if least[i] != NEVER}


def likely(queue: Queue, times: Ints) -> tuple[int, int] | None:
    """Return the median of a time over the possible futures, and its 90 % bound; None if fewer than 90 % reach it.

    times: in each future; NO_TIME for never.
    """
    now, known = queue.now, np.sort(times[times != NO_TIME])
    if len(known) < 0.9 * len(times) or not len(known):
        return None
    median = int(known[(len(known) - 1) // 2])
    p90 = int(known[min(int(np.ceil(0.9 * len(times))), len(known)) - 1])
    p90 = now + round((p90 - now) * queue.widened) if p90 > now else p90
    return snapped(median, now), snapped(p90, now, up=True)


def _without_times(job: Job, pool: Pool) -> Estimate:
    return {
        "id": job.id, "label": job.label, "name": job.name, "user": job.user,
        "guaranteed_s": None, "median_s": None, "p90_s": None,
        "history": pool.grouped_by, "ended_jobs": len(pool.shares), "fewest_ended_jobs": None, "wide": False,
        "deadline_s": seconds(job.deadline), "misses_deadline": None, "why_not": "",
    }  # fmt: skip


def snapped(t: int, now: int, up: bool = False) -> int:
    """Round a time as precisely as it can be predicted; up: never to an earlier time."""
    ahead = (t - now) / SECOND
    grain = next((grain for most, grain in GRAINS if ahead < most), 3600) * SECOND
    return max((t + (grain - 1 if up else grain // 2)) // grain * grain, now)


def estimates(queue: Queue) -> list[Estimate]:
    """Return the estimates of pending jobs; of more than ESTIMATED, those of the first ones that are not held."""
    pending = [*queue.pending(), *(queue.jobs[number] for number in queue.starting)]
    first = sorted(pending, key=lambda job: bool(job.held or job.never))[:ESTIMATED]
    some = sorted(first, key=lambda job: job.id)
    return estimates_of(queue, some, queue.futures(some))


def estimates_of(queue: Queue, some: Sequence[Job], starts: Ints) -> list[Estimate]:
    """Return the estimates of jobs. starts: see Queue.futures."""
    known, rows = known_ahead(queue, starts, some), queue.planner.rows
    return [estimate(queue, job, starts[:, rows[job.id]], known.get(job.id)) for job in some]


# ---------------------------------------------------------------------- a job that is not there yet


def test(queue: Queue, tasks: list[Row]) -> Tried:
    """Return when the tasks of a submit would start, and which jobs it would delay."""
    return tried(queue, tasks)[0]


def tried(queue: Queue, tasks: list[Row]) -> tuple[Tried, list[Job], Ints]:
    """Return the answer of `test`, the jobs that the tasks would become, and their starts, see Queue.futures."""
    planner = queue.planner
    before = _plans(queue)
    planner.make_room(len(tasks))
    some = [Job.read(facts) for facts in tasks]
    messages: list[Any] = []
    for place, job in enumerate(some):
        job.state, job.submit = PENDING, queue.now
        queue.on_clock(job)
        job.waits = not (job.held or job.never or job.after or (job.begin or 0) > queue.now)
        job.waits &= not (job.throttle and place >= job.throttle)
        job.waits &= not (job.singleton and any((o.user, o.name) == (job.user, job.name) for o in queue.jobs.values()))
        queue.jobs[job.id] = job
        messages.append(["submit", job.id, {**feed.planner_facts(job.facts()), "submit": queue.now}])
        messages += [["wait", job.id]] if job.waits else []
    now = max(queue.now, int(planner.state.now) + 1)
    at_once = {number for number, *_ in planner.decide(now, messages)["starts"]}
    queue.take_stock()
    starts = queue.futures(some)
    found = estimates_of(queue, some, starts)
    after = _plans(queue)
    delayed: list[Delayed] = [
        {"id": number, "label": queue.jobs[number].label, "before_s": then / 1e6, "after_s": now_ / 1e6}
        for number, then in before.items()
        if (now_ := after.get(number, then)) > then + SECOND
    ]
    answer: Tried = {"schema": 1, "now_s": queue.now / 1e6, "policy": planner.spec, "binds": queue.binds,
                   "at_once": sum(job.id in at_once for job in some), "jobs": found, "delayed": delayed}  # fmt: skip
    return answer, some, starts


def _plans(queue: Queue) -> dict[int, int]:
    """Return the reserved start of each job in the policy's queue; for a policy without promises, its start by
    walltimes."""
    some = [job.id for job in queue.pending() if job.waits]
    if queue.binds:
        return {number: t for number in some if (t := queue.reserved(number)) is not None}
    starts, rows = queue.by_walltimes(), queue.planner.rows
    return {number: int(starts[rows[number]]) for number in some if starts[rows[number]] != NO_TIME}


# ---------------------------------------------------------------------- another policy


def switch(queue: Queue, asked: Question) -> JsonObject:
    """Return the effect of another policy on waiting jobs: estimated starts, and the promises that would be broken."""
    other = Planner(asked["policy"], asked["epoch"])
    there = {job.id for job in queue.pending()}
    waiting = [["wait", job.id] for job in queue.pending() if job.waits]
    with blaming(other.policy):
        other.learn(waiting or [["capacity", {}, FLOATING]])  # the other policy decides once in any case
        after = Queue.read(other, asked)
        old = {row["id"]: row for row in estimates(queue)}
        new = {row["id"]: row for row in estimates(after)}
    new |= {job.id: estimate(after, job, None) for job in after.jobs.values() if job.state == STARTING}
    promises = queue.binds
    rows: list[Switched] = []
    for number in sorted(there & new.keys()):
        job, row = queue.jobs[number], new[number]
        promised = job.promise if promises and job.waits else None
        start = row["guaranteed_s"]
        kept = promised is None or (start is not None and start <= promised / 1e6 + 1)
        rows.append({"id": number, "label": job.label, "name": job.name, "promise_s": seconds(promised), "kept": kept,
                     "before": _three(old[number]), "after": _three(row)})  # fmt: skip
    both = [(row["before"]["median_s"], row["after"]["median_s"]) for row in rows]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    return {"schema": 1, "now_s": queue.now / 1e6, "from": queue.planner.spec, "to": other.spec,
            "binds": after.binds, "earlier": sum(b < a for a, b in known), "later": sum(b > a for a, b in known),
            "fall": [row["label"] for row in rows if not row["kept"]], "jobs": rows}  # fmt: skip


def _three(row: Estimate) -> Three:
    return {"guaranteed_s": row["guaranteed_s"], "median_s": row["median_s"], "p90_s": row["p90_s"]}
