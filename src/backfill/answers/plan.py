"""The plan of a live queue as plain data: jobs that ran, that run, and that wait, on nodes and licences over time.

The store has all of it but the reserved and the likely starts, which only the daemon knows; it is read beside the
daemon, so that a look at the plan costs the daemon little. Times in the answer are seconds of the calendar.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.model.units import seconds
from backfill.queue import reserving
from backfill.queue.book import Book
from backfill.queue.commands import unusual
from backfill.queue.job import Facts, Job
from backfill.queue.nodes import FLOATING, MACHINE, ON_NODES, Amounts
from backfill.queue.protocol import BARS, LEARNED, PLANNED
from backfill.queue.shapes import JsonObject
from backfill.queue.states import HOLDING, PENDING
from backfill.queue.store import Store
from backfill.worlds.runtimes import RunTimes

LAST = 2**62  # after every end
PAST_S = 7200.0  # seconds before now at which a plan begins
AGAIN = {"preempted": "PREEMPTED", "requeue": "REQUEUED"}  # events after which a job runs again: state of that bar


@dataclass(frozen=True)
class Window:
    """The part of a plan that is wanted. Times are seconds of the calendar; empty fields select everything.

    most: bars of each kind; of more, the latest runs that are over, and the first jobs that run or wait, are kept.
    ended_by_s: runs that are over were so by then: the next ones behind an answer that had too many. kinds: of BARS.
    """

    since_s: float | None = None
    until_s: float | None = None
    users: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    most: int = PLANNED
    names: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    ended_by_s: float | None = None
    kinds: tuple[str, ...] = BARS


@dataclass(frozen=True)
class _Reader:
    """The inputs of bars: the machine, the run times of ended jobs, and the window, in queue microseconds.

    last: the latest end of a run that is over.
    """

    book: Book
    times: RunTimes
    skew: int
    now: int
    since: int
    until: int | None
    last: int
    window: Window

    def bar(self, job: Job, placement: Sequence[Sequence[Any]]) -> Facts:
        """Return a bar without its times. placement: see nodes.Placement; empty if it is not known."""
        cpus, licences = self._held(job, placement)
        facts: Facts = {name: getattr(job, name) for name in ("id", "label", "name", "user", "project", "state")}
        facts |= {"array": job.array or None, "need": job.need, **unusual(job), "cpus": sum(cpus.values())}
        facts |= {"nodes": cpus if placement else {}, "licences": licences}
        facts |= {name: seconds(t, self.skew) for name, t in (("submit_s", job.submit), ("promise_s", job.promise))}
        return {**facts, "limit_s": job.walltime / 1e6, "grace_s": job.grace / 1e6}

    def run(self, job: Job, start: int, nodes: Sequence[Sequence[Any]], **more: object) -> Facts:
        """Return the bar of a run, which is over or not. more: why it started, and when it ends."""
        return {**self.bar(job, nodes or [[MACHINE, job.tasks]]), "start_s": seconds(start, self.skew), **more}

    def _held(self, job: Job, placement: Sequence[Sequence[Any]]) -> tuple[Amounts, Amounts]:
        """Return the cpus of a job on each node, and its copies of each licence."""
        nodes = self.book.nodes
        cpus, licences = Amounts(), Amounts()
        for node, tasks, *_ in placement or ():
            cpus.setdefault(node, 0 if node in nodes.stated else job.need.get("cpus", 0) * tasks)
        for node, what, amount in nodes.parts(job.need, placement):
            if what == "cpus" and node in nodes.stated:
                cpus[node] = cpus.get(node, 0) + amount
            elif what not in ON_NODES:
                licences[what] = licences.get(what, 0) + amount
        if not placement:
            cpus[""] = job.need.get("cpus", 0) * job.tasks
            licences |= {what: amount * (1 if what in nodes.stated.get(FLOATING, {}) else job.tasks)
                         for what, amount in job.need.items() if what not in ON_NODES and amount}  # fmt: skip
        return cpus, licences

    def wanted(self, bar: Facts) -> bool:
        """Return whether a bar is on one of the wanted nodes; one whose nodes are not known is."""
        return not self.window.nodes or not bar["nodes"] or any(node in bar["nodes"] for node in self.window.nodes)

    def within(self, begin: int | None) -> bool:
        """Return whether a bar that begins then is before the end of the window; one without a start is."""
        return begin is None or self.until is None or begin < self.until

    def likely_runs(self, jobs: Iterable[Job]) -> dict[int, int]:
        """Return the median of how long each job runs from its start, in microseconds, by what ended jobs used."""
        groups: dict[tuple[str, str], list[Job]] = {}
        for job in jobs:
            groups.setdefault((job.user, job.name), []).append(job)
        found: dict[int, int] = {}
        for (user, name), some in groups.items():
            walltime = np.array([job.walltime for job in some], np.float64)
            done = np.array([job.done for job in some], np.float64)
            here = np.array([0 if job.start is None else max(self.now - job.start, 0) for job in some], np.float64)
            share = self.times.of(user, name).draw(np.full(len(some), 0.5), (done + here) / walltime)
            lasts = np.clip(share * walltime - done, here, np.maximum(walltime - done, here))
            found.update(zip((job.id for job in some), lasts.astype(np.int64).tolist(), strict=True))
        return found


def plan(store: Store, answer: Mapping[str, Any], window: Window = Window()) -> JsonObject:
    """Return the plan of a queue: its lanes, its bars, its advance reservations, and how many bars are left out.

    store: of the queue, opened for reading. answer: the daemon's answer to a `plan` request.
    """
    with store.still():
        return _plan(store, answer, window)


def _plan(store: Store, answer: Mapping[str, Any], window: Window) -> JsonObject:
    skew, now = round(answer["skew_s"] * 1e6), round((answer["now_s"] - answer["skew_s"]) * 1e6)
    since_s = answer["now_s"] - PAST_S if window.since_s is None else window.since_s
    since, until, last = (
        None if t is None else round(t * 1e6) - skew for t in (since_s, window.until_s, window.ended_by_s)
    )
    book = store.machine()
    times = RunTimes(store.jobs(limit=LEARNED))
    reader = _Reader(book, times, skew, now, since or 0, until, LAST if last is None else last, window)
    past, left_past, since_end = _past(store, reader) if "past" in window.kinds else ([], 0, reader.since)
    running, left_running = _running(store, reader) if "running" in window.kinds else ([], 0)
    pending, left_pending = _pending(store, reader, answer) if "pending" in window.kinds else ([], 0)
    begins = store.first_t()
    return {
        "schema": 1,
        "now_s": answer["now_s"],
        "since_s": since_s,
        "until_s": window.until_s,
        "begins_s": seconds(begins, skew) if begins else None,
        "past_since_s": since_s if since_end == reader.since else seconds(since_end, skew),
        "seq": store.seq,
        **{
            name: answer[name]
            for name in ("policy", "binds", "predict", "pool", "shadow", "paused", "planner", "estimates")
        },
        "lanes": [*_lanes(book, window)],
        "past": past,
        "running": running,
        "pending": pending,
        "reservations": [
            {**reserving.row(each), "open": name in book.opened} for name, each in book.reservations.items()
        ],
        "omitted": {
            "past": left_past,
            "running": left_running,
            "pending": left_pending + (answer["more"] if "pending" in window.kinds else 0),
        },
    }


def _lanes(book: Book, window: Window) -> Iterable[Facts]:
    """Yield the wanted nodes with their cpus, and the licences with their copies; stated: if nothing is drained."""
    nodes = book.nodes
    for name in nodes.names:
        if not window.nodes or name in window.nodes:
            there, stated = (places.get(name, {}).get("cpus", 0) for places in (nodes.there, nodes.stated))
            yield {"lane": "node", "name": name, "amount": there, "stated": stated,
                   "reason": nodes.reasons.get(name, "")}  # fmt: skip
    for name, copies in nodes.there.get(FLOATING if book.platform else MACHINE, {}).items():
        if name not in ON_NODES:
            stated = nodes.stated[FLOATING if book.platform else MACHINE].get(name, copies)
            yield {"lane": "licence", "name": name, "amount": copies, "stated": stated, "reason": ""}


def _chosen(window: Window) -> tuple[str, list[Any]]:
    """Return the condition of SQL that selects jobs, to be appended to another one, and its values."""
    where, values = "", list[Any]()
    for column, some in (("user", window.users), ("name", window.names), ("project", window.projects)):
        if some:
            where, values = f"{where} AND {column} IN ({', '.join('?' * len(some))})", [*values, *some]
    return where, values


def _past(store: Store, reader: _Reader) -> tuple[list[Facts], int, int]:
    """Return the runs that are over, in the order of their ends, how many jobs with such runs were not read, and since
    when all that ended are there.

    An attempt that was preempted, or run again, is a bar of its own; of a job that goes on, too.
    """
    most, (of_some, some) = reader.window.most, _chosen(reader.window)
    where, values = f"end_us BETWEEN ? AND ? AND start_us IS NOT NULL{of_some}", [reader.since, reader.last, *some]
    if reader.until is not None:
        where, values = f"{where} AND start_us < ?", [*values, reader.until]
    jobs = store.jobs(where, values, most, order="end_us, id")
    left = store.count(where, values) - len(jobs) if len(jobs) == most else 0
    since = jobs[0].end or reader.since if left else reader.since  # the rest of those with this end may be missing
    later = f"(end_us IS NULL OR end_us > ?) AND json_extract(facts, '$.attempt') > 1{of_some}"
    again = store.jobs(later, [reader.last, *some], most)
    found = []
    for job in jobs:
        attempt = job.current
        more = {"why": job.why, "slip": attempt.slip, "cpu_ids": attempt.cpu_ids}
        found.append(reader.run(job, attempt.start, attempt.nodes, end_s=seconds(job.end, reader.skew), **more))
    for job in (*(job for job in jobs if job.attempts > 1), *again):
        found += _earlier(store, reader, job)
    since_s = seconds(since, reader.skew)
    found = sorted(
        (bar for bar in found if bar["end_s"] >= since_s and reader.wanted(bar)), key=lambda bar: bar["end_s"]
    )
    if len(found) > most:
        left, since = left + len(found) - most, round(found[-most]["end_s"] * 1e6) - reader.skew
    return found[-most:], left, since


def _earlier(store: Store, reader: _Reader, job: Job) -> Iterable[Facts]:
    """Yield the runs of a job before its last one."""
    begun: tuple[int, Facts] | None = None
    for t, kind, data in store.story(job.id):
        if kind in ("start", "began"):
            begun = data.get("start", t), data
        elif kind == "unstarted":
            begun = None
        elif kind in AGAIN and begun is not None:
            start, data = begun
            begun = None
            if reader.since <= t <= reader.last and reader.within(start):
                why: Facts = {
                    "why": data.get("why", ""),
                    "slip": data.get("slip", ""),
                    "cpu_ids": data.get("cpu_ids", []),
                }
                over = {"end_s": seconds(t, reader.skew), "state": AGAIN[kind]}
                yield reader.run(job, start, data.get("nodes", []), **why, **over)


def _running(store: Store, reader: _Reader) -> tuple[list[Facts], int]:
    """Return the attempts that hold resources, in the order of their starts, with their latest and likely ends."""
    of_some, some = _chosen(reader.window)
    jobs = store.jobs(f"end_us IS NULL AND state IN ({', '.join('?' * len(HOLDING))}){of_some}", [*HOLDING, *some])
    lasts, found = reader.likely_runs(jobs), []
    for job in jobs:
        attempt = job.current
        if not reader.within(attempt.start):
            continue
        more: Facts = {"why": job.why, "slip": attempt.slip, "cpu_ids": attempt.cpu_ids, "suspended": attempt.suspended}
        ends = {"latest_end_s": attempt.start + job.left + job.grace, "likely_end_s": attempt.start + lasts[job.id]}
        ends_s = {name: seconds(t, reader.skew) for name, t in ends.items()}
        found.append(reader.run(job, attempt.start, attempt.nodes, **more, **ends_s))
    found = sorted(filter(reader.wanted, found), key=lambda bar: bar["start_s"])
    return found[: reader.window.most], max(len(found) - reader.window.most, 0)


def drawn(bar: Facts, now_s: float) -> float | None:
    """Return where the bar of a waiting job begins, in seconds of the calendar; None if no start is known.

    At the start that the policy has planned, for which its nodes are chosen, else at the likely one, not before now.
    """
    begin = next(iter(_starts(bar)), None)
    return None if begin is None else max(begin, now_s)


def _starts(bar: Facts) -> list[float]:
    """Return the starts of a waiting job that are known: the planned one, the likely one, that of its pool."""
    return [bar[name] for name in ("planned_s", "median_s", "expected_s") if bar[name] is not None]


def _pending(store: Store, reader: _Reader, answer: Mapping[str, Any]) -> tuple[list[Facts], int]:
    """Return the waiting jobs, those with the earliest starts first, with their reserved and likely starts."""
    rows = {row["id"]: row for row in answer["jobs"]}
    of_some, some = _chosen(reader.window)
    where = f"end_us IS NULL AND state = ? AND id BETWEEN ? AND ?{of_some}"
    span = (min(rows), max(rows)) if rows else (0, -1)
    jobs = [job for job in store.jobs(where, [PENDING, *span, *some]) if job.id in rows]
    lasts, found = reader.likely_runs(jobs), []
    for job in jobs:
        row = rows[job.id]
        begin = min(_starts(row), default=None)
        if not reader.within(None if begin is None else round(begin * 1e6) - reader.skew):
            continue
        bar = reader.bar(job, row["nodes"])
        likely = row["median_s"]
        found.append(bar | {name: row[name] for name in ("reason", "guaranteed_s", "planned_s", "median_s", "p90_s",
                                                         "expected_s", "misses_deadline")} | {
            "drawn_s": drawn(row, answer["now_s"]),
            "latest_end_s": None if row["planned_s"] is None else row["planned_s"] + (job.left + job.grace) / 1e6,
            "begin_s": seconds(job.begin), "deadline_s": seconds(job.deadline),
            "likely_end_s": None if likely is None else likely + lasts[job.id] / 1e6,
        })  # fmt: skip
    found = sorted(filter(reader.wanted, found), key=lambda bar: (min(_starts(bar), default=math.inf), bar["id"]))
    return found[: reader.window.most], max(len(found) - reader.window.most, 0)
