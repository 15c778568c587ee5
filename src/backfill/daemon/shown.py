"""The queue as clients see it, as plain data. Instants are those of the calendar as it is set now."""

import os
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, cast

from backfill.model.units import folded_labels, names_text, numbers_text, seconds
from backfill.pools.base import Evidence
from backfill.queue import commands, reserving
from backfill.queue.book import Book
from backfill.queue.engine import Engine
from backfill.queue.job import PREEMPT, Attempt, Facts, Job
from backfill.queue.shapes import JsonObject, PlanRequest, QueueRequest
from backfill.queue.states import PENDING
from backfill.queue.store import Store, encode
from backfill.queue.words import WHOLE

PART = 50  # jobs that are processed in one step
MOST = 1000  # default number of rows of an answer
CHOSEN_BY = ("state", "user", "name", "project")  # fields by which requests select jobs; in plural in a request
BY_HAND = (
    "JobHeldUser",
    "LaunchFailed",
    "StartsDeclined",
    "BadConstraints",
)  # reasons that a user has to act on

# Fields of answers that are instants; all others that end with _s are spans.
INSTANTS = {
    *("now_s", "t_s", "begin_s", "start_s", "reserved_s", "promise_s", "latest_end_s", "likely_s", "by_walltimes_s"),
    *("guaranteed_s", "median_s", "p90_s", "before_s", "after_s", "opens_s", "promised_s", "expected_s", "until_s"),
}
SPANS = ("walltime", "grace", "cpu", "slept", "overhead", "done")  # fields of events that are spans
EVENT_INSTANTS = ("start", "due", "ended", "begin", "deadline")


def row(engine: Engine, job: Job, now: int) -> Facts:
    """Return a job, times in seconds."""
    at = partial(seconds, skew=engine.book.skew)
    facts: Facts = {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "reason": job.reason or _why(engine, job, now),
        "need": job.need,
        **commands.unusual(job),
        "limit_s": job.walltime / 1e6,
        "submit_s": at(job.submit),
        "start_s": at(job.start),
        "end_s": at(job.end),
        "guaranteed_s": None,
        "array": job.array or None,
        "index": job.index,
        "throttle": job.throttle,
        "exit_code": None,
        "signal": None,
    }
    if (attempt := job.attempt) is not None:
        facts |= {"exit_code": attempt.exit_code, "signal": attempt.signal}
        facts |= {"nodes": attempt.nodes} if attempt.nodes and engine.book.platform else {}
    if job.native:
        facts |= {
            "native": job.native,
            "expected_s": _expected(engine, job),
            "advised_s": at(job.advised),
        }
    return facts | _planned(engine, job) if job.state == PENDING else facts


def _expected(engine: Engine, job: Job) -> float | None:
    """Return when the pool expects a job of its own to start; None if it does not say."""
    return seconds(engine.expected.get(job.id, job.expected), engine.book.skew)


def _planned(engine: Engine, job: Job) -> Facts:
    """Return the start of a pending job that is guaranteed, and the one that the policy has planned."""
    planned_s = seconds(engine.plan.get(job.id), engine.book.skew)
    return {"guaranteed_s": planned_s if engine.binds else None, "planned_s": planned_s}


def brief(engine: Engine, job: Job, now: int) -> Facts:
    """Return the fields of a job that change while a client follows its output."""
    return {**row(engine, job, now), "dependency": dependency_text(engine, job), "begin_s": seconds(job.begin)}


class Rows:
    """The rows of a long answer as JSON, encoded part by part."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0

    def add(self, rows: list[Facts]) -> None:
        """Append rows."""
        if rows:
            self.parts.append((("," if self.count else "") + encode(rows)[1:-1]).encode())
            self.count += len(rows)


def queue_rows(
    engine: Engine, store: Store, now: int, asked: QueueRequest, starts: Mapping[int, tuple[float, float]]
) -> Generator[None, None, Facts]:
    """Return open jobs, the last jobs that ended, and the state of the machine. starts: see Foreseen.

    Of many jobs only the first ones, and how many `more` there are; a request with `after`, the last `id`, continues
    behind them. With `by_id` all rows are in the order of their ids, so that pages of any length miss none. With
    `fold`, the pending tasks of an array with the same request are one row, with `tasks`. A long answer is computed in
    steps: each row shows its job at that time. `jobs` are Rows.
    """
    book = engine.book
    jobs: list[Job] = []
    after, by_id = asked.get("after", 0), asked.get("by_id", False)
    if "after" not in asked or by_id:
        jobs = store.ended(asked.get("ended", 0)) if asked.get("ended") else []
    if by_id:
        opened = [job for job in book.jobs.values() if job.id > after]
        jobs = sorted([*(job for job in jobs if job.id > after), *opened], key=lambda job: job.id)
    elif "after" not in asked:
        jobs += (book.jobs[number] for number in sorted(book.holding))
    yield
    pending = [] if by_id else sorted(job.id for job in book.jobs.values() if job.state == PENDING and job.id > after)
    yield
    wanted = _wanted(asked)
    rows, some, fold = Rows(), list[Facts](), asked.get("fold")
    groups: dict[tuple[Any, ...], Facts] = {}
    limit, more = asked.get("limit", MOST), 0
    for place, job in enumerate(chain(jobs, (book.jobs.get(number) for number in pending))):
        if place % PART == 0:
            if not fold:  # a row of folded tasks may change until the last one
                rows.add(some)
                some = []
            yield
        if job is None or not _is_wanted(job, wanted):
            continue
        key = _alike(job) if fold and job.state == PENDING and job.index is not None else None
        if key is not None and key in groups:
            _fold(groups[key], _waits(engine, job, now, starts))
            continue
        if rows.count + len(some) >= limit:
            more += 1
            continue
        found = _foreseen(engine, job, now, starts)
        if key is not None:
            groups[key] = found | {"tasks": [job.index], "reasons": {found["reason"]: None}}
            found = groups[key]
        some.append(found)
    for first in range(0, len(some), PART):
        rows.add([_unfolded(found) for found in some[first : first + PART]])
        yield
    states = Counter(job.state for job in book.jobs.values())
    return {
        "schema": 1,
        "now_s": seconds(now, engine.book.skew),
        "more": more,
        "states": states,
        "paused": book.paused,
        "capacity": book.capacity,
        "held": {name: amount for name, amount in book.held.items() if amount},
        "held_elsewhere": book.nodes.held_elsewhere,
        **({"nodes": node_rows(book)} if asked.get("nodes") and book.platform else {}),
        "policy": book.epoch.get("policy", ""),
        "asked_policy": book.epoch.get("asked", ""),
        "predict": book.epoch.get("predict", ""),
        "predict_after": [each["reservation"] for each in book.epoch.get("reservations", ())],
        "pool": engine.pool.name,
        "shadow": engine.shadow,
        "problem": "" if engine.batch is None else engine.batch.problem,
        "reservations": [reserving.row(each) for each in book.reservations.values()],
        "planner": "ready" if engine.ready or engine.changing else "starting",
        "jobs": rows,
    }


def _wanted(asked: QueueRequest | PlanRequest) -> list[tuple[str, frozenset[str]]]:
    """Return by which fields a request selects jobs, and the values that it wants."""
    fields = cast(Mapping[str, Any], asked)
    return [(name, frozenset(fields[f"{name}s"])) for name in CHOSEN_BY if f"{name}s" in fields]


def _is_wanted(job: Job, wanted: Sequence[tuple[str, frozenset[str]]]) -> bool:
    return not wanted or all(getattr(job, name) in those for name, those in wanted)


def plan_rows(
    engine: Engine, now: int, asked: PlanRequest, starts: Mapping[int, tuple[float, float]]
) -> Generator[None, None, Facts]:
    """Return what only the daemon knows of the plan: reserved and likely starts, and nodes; see answers/plan.py.

    Of many pending jobs only the first ones, and how many `more` there are. `jobs` are Rows; starts: see Foreseen.
    """
    book, wanted, limit = engine.book, _wanted(asked), asked.get("limit", MOST)
    pending = sorted(job.id for job in book.jobs.values() if job.state == PENDING and _is_wanted(job, wanted))
    yield
    rows, names = Rows(), ("reason", "guaranteed_s", "planned_s", "median_s", "p90_s", "misses_deadline")
    for first in range(0, min(len(pending), limit), PART):
        some = []
        for job in (book.jobs.get(number) for number in pending[first : min(first + PART, limit)]):
            if job is not None and job.state == PENDING:
                found = _waits(engine, job, now, starts)
                expected_s = _expected(engine, job) if job.native else None
                more = {"expected_s": expected_s, "nodes": engine.places.get(job.id, [])}
                some.append({"id": job.id, **{name: found[name] for name in names}, **more})
        rows.add(some)
        yield
    return {
        "now_s": seconds(now, book.skew),
        "skew_s": book.skew / 1e6,
        "more": max(len(pending) - limit, 0),
        "policy": book.epoch.get("policy", ""),
        "predict": book.epoch.get("predict", ""),
        "binds": engine.binds,
        "pool": engine.pool.name,
        "shadow": engine.shadow,
        "paused": book.paused,
        "planner": "ready" if engine.ready or engine.changing else "starting",
        "jobs": rows,
    }


def node_rows(book: Book) -> list[Facts]:
    """Return the nodes of a cluster by kind: capacity, stated capacity and held amounts of each resource.

    Nodes that have less than is stated are listed with the reasons given.
    """
    nodes, rows = book.nodes, []
    for partitions, names in _kinds(book.platform):
        sums: list[Counter[str]] = [Counter(), Counter(), Counter()]
        for total, places in zip(sums, (nodes.stated, nodes.there, nodes.held), strict=True):
            for name in names:
                total.update(places.get(name, {}))
        out = [name for name in names if nodes.there.get(name) != nodes.stated.get(name)]
        stated, there, held = ({name: amount for name, amount in total.items() if amount} for total in sums)
        rows.append({
            "names": names_text(names), "count": len(names), "partitions": partitions, "stated": stated,
            "capacity": there, "held": held, "out": len(out), "out_names": names_text(out),
            "reasons": sorted({nodes.reasons[name] for name in out if name in nodes.reasons}),
        })  # fmt: skip
    return rows


@lru_cache(maxsize=2)
def _kinds(platform: str) -> list[tuple[list[str], list[str]]]:
    """Return the partitions and the names of the nodes of each kind. platform: the text of its file."""
    from backfill.answers.kinds import kinds
    from backfill.model.platform_file import parse_platform  # few queues need it, and it loads numpy

    found = parse_platform("the platform of the queue", platform)
    inside = {each.name: found.nodes_of(each.name) for each in found.partitions}
    return [
        ([name for name, mask in inside.items() if mask[nodes[0]]], [found.nodes[node] for node in nodes])
        for nodes in kinds(found)
    ]


def parts(answer: JsonObject) -> list[bytes]:
    """Return an answer as it is sent, a line, in parts that are not long if its rows are Rows."""
    rows = answer.get("jobs")
    if not isinstance(rows, Rows):
        return [encode(answer).encode() + b"\n"]
    head = encode({name: value for name, value in answer.items() if name != "jobs"})[:-1]
    return [f'{head},"jobs":['.encode(), *rows.parts, b"]}\n"]


def _alike(job: Job) -> tuple[Any, ...]:
    """Return the key by which pending tasks of an array are shown as one."""
    asked = *sorted(job.need.items()), None, *sorted(commands.unusual(job).items())
    return job.array, job.walltime, job.held in BY_HAND, *asked


def _fold(first: Facts, found: Facts) -> None:
    """Add another task to the row of the first one: keep the earliest start, and all reasons."""
    first["tasks"].append(found["index"])
    first["reasons"][found["reason"]] = None
    first["misses_deadline"] = first["misses_deadline"] or found["misses_deadline"]
    for name in ("guaranteed_s", "median_s", "p90_s"):
        first[name] = min((one for one in (first[name], found[name]) if one is not None), default=None)


def _unfolded(found: Facts) -> Facts:
    """Return a row as it is sent: with the label of all its tasks, and their number."""
    tasks = found.pop("tasks", None)
    if tasks is None:
        return found
    reasons = found.pop("reasons")
    if len(tasks) > 1:
        throttle = f"%{found['throttle']}" if found["throttle"] else ""
        found["label"] = f"{found['array']}_[{numbers_text(tasks)}{throttle}]"
        found["reason"] = ",".join(reasons)
    return found | {"tasks": len(tasks)}


def _waits(engine: Engine, job: Job, now: int, starts: Mapping[int, tuple[float, float]]) -> Facts:
    """Return what `_foreseen` tells of a pending job alone: why it waits, and its starts."""
    planned = _planned(engine, job)
    facts = {"index": job.index, "reason": job.reason or _why(engine, job, now), **planned}
    return facts | _ahead(engine, job, planned["guaranteed_s"], starts)


def _foreseen(engine: Engine, job: Job, now: int, starts: Mapping[int, tuple[float, float]]) -> Facts:
    """Return the row of a job with its likely start and its bound, and whether it may be too late."""
    found = row(engine, job, now)
    return found | _ahead(engine, job, found["guaranteed_s"], starts)


def _ahead(engine: Engine, job: Job, guaranteed_s: float | None, starts: Mapping[int, tuple[float, float]]) -> Facts:
    """Return the likely start of a job and its bound, if they are known, and whether it may be too late.

    misses_deadline: whether the job cannot end by its deadline if it starts at the bound, or if no bound is known, at
    its guaranteed start; None if it has no deadline or neither is known.
    """
    skew = engine.book.skew / 1e6
    likely, bound = (None if t is None else t + skew for t in starts.get(job.id) or (None, None))
    latest = guaranteed_s if bound is None else bound
    misses = job.misses(None if latest is None else round(latest * 1e6)) if job.state == PENDING else None
    late = {"deadline_s": seconds(job.deadline), "misses_deadline": misses}
    return {"median_s": likely, "p90_s": bound, **late}


def story(engine: Engine, store: Store, evidence: Evidence, job: Job, now: int) -> Facts:
    """Return a job with its history."""
    spec, skew, facts = store.spec(job.spec), engine.book.skew, job.facts()
    return {
        **row(engine, job, now),
        **{name: facts[name] for name in ("project", "priority", "attempt", "why", "maxrss", "slip", "after")},
        **{name: facts[name] for name in ("preemptions", "preempted_for", "keeps", "requeue", "restarts", "any_of")},
        "done_s": seconds(job.done),
        **{name: facts[name] for name in ("retry", "retries", "suspended", "notify")},
        "dependency": dependency_text(engine, job),
        "promise_s": seconds(job.promise, skew),
        "begin_s": seconds(job.begin),  # these two are instants of the calendar
        "deadline_s": seconds(job.deadline),
        "grace_s": seconds(job.grace),
        "cpu_s": seconds(facts["cpu"]),
        "cpu_ids": facts["cpu_ids"],
        "gpu_ids": facts["gpu_ids"],
        "argv": spec.get("argv", []),
        "cwd": spec.get("cwd"),
        **evidence.files(job, spec),
        "node": os.uname().nodename,
        "events": [[seconds(t, skew), kind, event_data(data, skew)] for t, kind, data in store.story(job.id)],
    }


def dependency_text(engine: Engine, job: Job) -> str:
    """Return what a job still waits for, as for `--dependency`: afterok:12_[3-7],afterany:9; empty for nothing."""
    kinds: dict[str, list[tuple[int, int, int | None]]] = {}
    for kind, number in job.after:
        other = engine.book.jobs.get(number)
        if kind.endswith(WHOLE):
            kinds.setdefault(kind.removesuffix(WHOLE), []).append((number, 0, None))
        elif other is not None:
            kinds.setdefault(kind, []).append((number, other.array, other.index))
    parts = [":".join([kind, *folded_labels(some)]) for kind, some in kinds.items()]
    return ("?" if job.any_of else ",").join([*parts, *(["singleton"] if job.singleton else [])])


def on_calendar(answer: Any, skew: int) -> Any:
    """Return an answer with instants of the queue clock replaced by those of the calendar."""
    if isinstance(answer, dict):
        return {
            name: (value if value is None else value + skew / 1e6) if name in INSTANTS else on_calendar(value, skew)
            for name, value in answer.items()
        }
    return [on_calendar(one, skew) for one in answer] if isinstance(answer, list) else answer


def event_data(data: Facts, skew: int) -> Facts:
    """Return the data of an event without the job itself, its times in seconds: calendar instants, and spans."""
    found: Facts = {}
    for name, value in data.items():
        if name in ("told", "leaves"):  # facts for the planner
            continue
        if name == "processes":
            found |= {who: value.get(who) for who in ("pid", "supervisor")}
            found |= {"memory_by": value["memory_by"]} if "memory_by" in value else {}
        elif isinstance(value, dict) and name != "job":
            found[name] = event_data(value, skew)
        elif name in SPANS or name in EVENT_INSTANTS:
            shift = skew if name in ("start", "due", "ended") else 0
            found[f"{name}_s"] = seconds(value, shift)
        elif name != "job":
            found[name] = value
    return found


def _why(engine: Engine, job: Job, now: int) -> str:
    """Return why a pending job does not run, or why a running one is being ended."""
    if job.due is not None and job.state == PENDING:
        return "Preempting"
    if job.state != PENDING:
        return "" if job.attempt is None else _why_not(job.attempt)
    blocked = engine.book.blocked(job, now)
    if blocked:
        return blocked
    if engine.book.paused:
        return "Paused"
    if not (engine.ready or engine.changing):
        return "Planner"
    if job.reservation in engine.book.reservations and job.reservation not in engine.book.opened:
        return "Reservation"
    return _wants(engine.book, job)


def _wants(book: Book, job: Job) -> str:
    """Return whether a job in the policy's queue lacks resources, is kept back by a limit, or waits for its turn."""
    if not book.platform:
        return "Priority" if book.might_fit(job) else "Resources"
    from backfill.answers.fitting import FITS, LIMITED, fitting  # loads numpy, which a queue of one node does not need

    lacks = fitting(book).lacks(job)
    return "Priority" if lacks == FITS else "Limit" if lacks == LIMITED else "Resources"


def _why_not(attempt: Attempt) -> str:
    """Return why an attempt does not continue; empty if it does."""
    return "Preempted" if attempt.cause == PREEMPT else "Suspended" if attempt.suspended else ""
