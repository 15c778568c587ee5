"""What clients are shown of the queue, as plain data. Instants are those of the calendar as it is set now."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from backfill.queue.book import ONE_FAILED, PREEMPT, Facts, Job
from backfill.queue.engine import Engine
from backfill.queue.launcher import files
from backfill.queue.states import HOLDING, PENDING
from backfill.queue.store import Store
from backfill.queue.words import folded_labels

# what is an instant in the answers to questions; all else that ends with _s is a span
INSTANTS = {
    *("now_s", "t_s", "begin_s", "start_s", "reserved_s", "promise_s", "latest_end_s", "likely_s", "by_walltimes_s"),
    *("guaranteed_s", "median_s", "p90_s", "before_s", "after_s"),
}
SPANS = ("walltime", "grace", "cpu", "slept")  # in the data of events
EVENT_INSTANTS = ("start", "due", "ended", "begin", "deadline")


def row(engine: Engine, job: Job, now: int) -> Facts:
    """One job, times in seconds."""
    at = partial(_seconds, skew=engine.book.skew)
    facts: Facts = {
        "id": job.id,
        "label": job.label,
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "reason": job.reason or _why(engine, job, now),
        "need": job.need,
        "limit_s": job.walltime / 1e6,
        "submit_s": at(job.submit),
        "start_s": at(job.start),
        "end_s": at(job.end),
        "guaranteed_s": None,
        "array": job.array or None,
        "index": job.index,
        "throttle": job.throttle,
        "exit_code": None if job.signal else job.exit,
        "signal": job.signal,
    }
    if job.state == PENDING:
        plan = engine.plan.get(job.id)
        facts["guaranteed_s"] = at(plan if engine.binds else None)
        facts["planned_s"] = at(plan)
    return facts


def queue_rows(engine: Engine, store: Store, now: int, ended: int, starts: Mapping[int, tuple[float, float]]) -> Facts:
    """All open jobs, those that ended last, and the state of the machine. starts: see Foreseen."""
    book = engine.book
    jobs = [*store.ended(ended)] if ended else []
    order = {state: place for place, state in enumerate((*HOLDING, PENDING))}
    jobs += sorted(book.jobs.values(), key=lambda job: (order[job.state] if job.state == PENDING else 0, job.id))
    return {
        "schema": 1,
        "now_s": _seconds(now, engine.book.skew),
        "jobs": [row(engine, job, now) | _estimate(starts.get(job.id), book.skew) for job in jobs],
        "capacity": book.capacity,
        "held": {name: amount for name, amount in book.held.items() if amount},
        "policy": book.epoch.get("policy", ""),
        "asked_policy": book.epoch.get("asked", ""),
        "planner": "ready" if engine.ready or engine.changing else "starting",
    }


def _estimate(known: tuple[float, float] | None, skew: int) -> Facts:
    """The likely start and its bound, where they are known."""
    likely, bound = (None, None) if known is None else (t + skew / 1e6 for t in known)
    return {"median_s": likely, "p90_s": bound}


def story(engine: Engine, store: Store, job: Job, now: int) -> Facts:
    """A job with all that happened to it."""
    spec, skew = store.spec(job.spec), engine.book.skew
    return {
        **row(engine, job, now),
        **{name: getattr(job, name) for name in ("project", "priority", "attempt", "why", "maxrss", "slip", "after")},
        **{name: getattr(job, name) for name in ("preemptions", "preempted_for", "requeue", "restarts", "any_of")},
        "dependency": dependency_text(engine, job),
        "promise_s": _seconds(job.promise, skew),
        "begin_s": _seconds(job.begin),  # these two are instants of the calendar
        "deadline_s": _seconds(job.deadline),
        "grace_s": _seconds(job.grace),
        "cpu_s": _seconds(job.cpu),
        "cpu_ids": job.cpu_ids,
        "gpu_ids": job.gpu_ids,
        "argv": spec["argv"],
        "cwd": spec.get("cwd"),
        **files(store.path.parent, job, spec),
        "node": os.uname().nodename,
        "events": [
            [_seconds(event.t, skew), event.kind, _event_data(event.data, skew)] for event in store.events(0, job.id)
        ],
    }


def dependency_text(engine: Engine, job: Job) -> str:
    """What a job still waits for, as `--dependency` takes it: afterok:12_[3-7],afterany:9; empty for nothing."""
    kinds: dict[str, list[Job]] = {}
    for kind, number in job.after:
        other = engine.book.jobs.get(number)
        if other is not None:
            kinds.setdefault("afternotok" if kind == ONE_FAILED else kind, []).append(other)
    parts = []
    for kind, some in kinds.items():
        parts.append(":".join([kind, *folded_labels((one.id, one.array, one.index) for one in some)]))
    return ("?" if job.any_of else ",").join([*parts, *(["singleton"] if job.singleton else [])])


def on_calendar(answer: Any, skew: int) -> Any:
    """An answer in instants of the queue clock, with those of the calendar in their place."""
    if isinstance(answer, dict):
        return {
            name: (value if value is None else value + skew / 1e6) if name in INSTANTS else on_calendar(value, skew)
            for name, value in answer.items()
        }
    return [on_calendar(one, skew) for one in answer] if isinstance(answer, list) else answer


def _event_data(data: Facts, skew: int) -> Facts:
    """The data of an event without the job itself, its times in seconds: instants of the calendar, and spans."""
    found: Facts = {}
    for name, value in data.items():
        if name == "processes":
            found |= {who: value.get(who) for who in ("pid", "supervisor")}
        elif isinstance(value, dict) and name != "job":
            found[name] = _event_data(value, skew)
        elif name in SPANS or name in EVENT_INSTANTS:
            shift = skew if name in ("start", "due", "ended") else 0
            found[f"{name}_s"] = _seconds(value, shift)
        elif name != "job":
            found[name] = value
    return found


def _why(engine: Engine, job: Job, now: int) -> str:
    """Why a pending job does not run, or one that runs is being ended."""
    if job.due is not None and job.state == PENDING:
        return "Preempting"
    if job.state != PENDING:
        return "Preempted" if job.cause == PREEMPT else ""
    blocked = engine.book.blocked(job, now)
    if blocked:
        return blocked
    if not (engine.ready or engine.changing):
        return "Planner"
    return "Priority" if engine.book.fits(job) else "Resources"


def _seconds(micros: int | None, skew: int = 0) -> float | None:
    """Seconds, of an instant of the queue clock as the calendar has it."""
    return None if micros is None else (micros + skew) / 1e6
