"""What clients are shown of the queue, as plain data. Instants are those of the calendar as it is set now."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from backfill.queue.book import PREEMPT, Facts, Job
from backfill.queue.engine import Engine
from backfill.queue.states import HOLDING, PENDING
from backfill.queue.store import Store

# what is an instant in the answers to questions; all else that ends with _s is a span
INSTANTS = {
    *("now_s", "t_s", "begin_s", "start_s", "reserved_s", "promise_s", "latest_end_s", "likely_s", "by_walltimes_s"),
    *("guaranteed_s", "median_s", "p90_s", "before_s", "after_s"),
}
WORDS = {
    "JobHeldUser": "held",
    "LaunchFailed": "held: three launches failed",
    "BeginTime": "its begin time has not come",
    "Dependency": "waits for other jobs",
    "JobArrayTaskLimit": "its array has as many tasks running as it may",
    "Preempting": "the policy has started it, and jobs that make way for it are being ended",
    "Preempted": "it makes way for another job, and runs anew later",
}


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
        "exit_code": job.exit,
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
    spec = store.spec(job.spec)
    return {
        **row(engine, job, now),
        **{name: getattr(job, name) for name in ("project", "priority", "attempt", "why", "maxrss", "slip", "after")},
        **{name: getattr(job, name) for name in ("preemptions", "preempted_for")},
        "promise_s": _seconds(job.promise, engine.book.skew),
        "cpu_s": _seconds(job.cpu),
        "cpu_ids": job.cpu_ids,
        "gpu_ids": job.gpu_ids,
        "argv": spec["argv"],
        "cwd": spec.get("cwd"),
        "output": spec.get("output"),
        "error": spec.get("error"),
        "events": [
            [_seconds(event.t, engine.book.skew), event.kind, _told(event.data)] for event in store.events(0, job.id)
        ],
    }


def on_calendar(answer: Any, skew: int) -> Any:
    """An answer in instants of the queue clock, with those of the calendar in their place."""
    if isinstance(answer, dict):
        return {
            name: (value if value is None else value + skew / 1e6) if name in INSTANTS else on_calendar(value, skew)
            for name, value in answer.items()
        }
    return [on_calendar(one, skew) for one in answer] if isinstance(answer, list) else answer


def _told(data: Facts) -> Facts:
    return {name: value for name, value in data.items() if name != "job"}


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
