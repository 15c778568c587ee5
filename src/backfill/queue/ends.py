"""Consequences for a job of the state of its attempt, as determined by its pool: it runs, is over, or never began."""

from collections.abc import Iterator
from dataclasses import replace

from backfill.pools.base import WAITED, Verdict
from backfill.queue import feed, progress, reserving
from backfill.queue.events import Edit, End, Event, Hold, Preempted, Requeue, Spawned, Unstarted
from backfill.queue.job import NEVER, PREEMPT, REQUEUE, UNCERTAIN, Job
from backfill.queue.reserving import BEGAN, OVER
from backfill.queue.shapes import Record
from backfill.queue.states import CANCELLED, COMPLETED, ENDING, FAILED, NODE_FAIL, OUT_OF_MEMORY, TIMEOUT

LAUNCHES, RESTARTS = 3, 3  # failed launches in a row after which a job is held; number of restarts of a lost job
WITHDRAWALS = 20  # attempts in a row that never began, or declined starts, after which a job is held

STATES = {
    "limit": TIMEOUT,
    "cancel": CANCELLED,
    PREEMPT: CANCELLED,  # for a job that was cancelled while its preempted attempt was ending
    BEGAN: CANCELLED,
    OVER: CANCELLED,
    REQUEUE: CANCELLED,  # or while it was ended to run again
    "memory": OUT_OF_MEMORY,
    "output": FAILED,
    "exec": FAILED,
}
REASONS = {"output": "Output", "exec": "Command", **reserving.REASONS}


def events_of(job: Job, verdict: Verdict, now: int, skew: int, ended: int | None) -> Iterator[Event]:
    """Yield the events that follow from the state of a job's attempt. Enter each before requesting the next one.

    skew: how far the calendar is ahead of the queue clock. ended: when the attempt ended, if that is known.
    """
    attempt, number = job.current, job.id
    cause, seen = attempt.cause, attempt.spawned is not None
    if verdict.kind == "unstarted" and seen:  # it was running, whatever is left of it
        verdict = Verdict("unknown")
    if verdict.kind in ("alive", "orphan"):
        if verdict.record and not seen:
            yield Spawned(number, verdict.record)
    elif cause != "cancel" and made_way(job, verdict):
        found = cause != PREEMPT  # the preemption is missing in the log
        kept = progress.kept(job, verdict, found, now if ended is None else ended)
        yield Preempted(number, job.preempted_for, leaves=not attempt.yields, found=found)
        if kept is not None:
            yield kept
    elif verdict.kind in ("requeued", "uncertain"):
        yield Requeue(number, asked=True)
        if verdict.kind == "uncertain":
            yield Hold(number, UNCERTAIN)
        if job.exclusive or job.outside:  # to the planner it is a running job
            yield Edit(number, {}, leaves=False, told=feed.planner_facts(job.facts()))
        if job.outside and verdict.kind != "uncertain":
            yield Hold(number, NEVER)
    elif verdict.kind == "ended":
        end = end_of(verdict.record, number)
        if ended is not None:  # the daemon may have been down since then
            end = replace(end, ended=min(max(ended, attempt.start), now))
        yield again_after(job, verdict.record, end, now + skew) or end
    elif verdict.kind == "unstarted" and job.state == ENDING and cause != REQUEUE:
        yield End(number, CANCELLED, "Cancelled")
    elif verdict.kind == "unstarted":
        waited = verdict.record.get(WAITED)
        yield Unstarted(number, bool(verdict.record) and waited is None, waited or "")
        if job.failures >= LAUNCHES or job.withdrawn >= WITHDRAWALS:
            yield Hold(number, "LaunchFailed")
    elif cause == REQUEUE:
        yield Requeue(number, asked=True)
    elif job.requeue and job.restarts < RESTARTS and job.state != ENDING:
        yield Requeue(number)
    else:
        yield End(number, NODE_FAIL, "NodeFail")


def made_way(job: Job, verdict: Verdict) -> bool:
    """Return whether an attempt is over because the job was preempted.

    An attempt that ended before it was signalled ended normally. Without an exit record it counts as preempted only if
    the signal was delivered or the job may be requeued.
    """
    asked = job.current.cause == PREEMPT
    if verdict.kind == "ended":
        cause = verdict.record.get("cause")
        return cause == PREEMPT or (cause == REQUEUE and job.yields)
    if verdict.kind == "unstarted":
        return asked
    return verdict.kind == "unknown" and (bool(verdict.record.get("told")) or (job.requeue and asked))


def end_of(record: Record, number: int) -> End:
    """Return the end of a job, by its supervisor's record, or by the name that its batch system gives it (`state`)."""
    if "state" in record:
        state, signal = record["state"], record.get("signal", 0)
        return End(number, state, record.get("reason", ""), None if signal else record.get("exit"), signal)
    cause, status = record.get("cause"), record["status"]
    code, signal = (status >> 8) & 255, status & 127
    state = STATES.get(cause or "", COMPLETED if status == 0 else FAILED)
    return End(
        number,
        state,
        REASONS.get(cause or "", ""),
        None if signal else code,
        signal,
        record.get("maxrss"),
        record.get("cpu"),
        record.get("detail") or "",
    )


def again_after(job: Job, record: Record, end: End, now: int) -> Requeue | None:
    """Return the requeue of a job whose attempt has ended, with its reason; None if it does not run again.

    now: by the calendar.
    """
    if job.current.cause != "cancel" and record.get("cause") == REQUEUE:
        return Requeue(job.id, asked=True)
    failed = end.state == FAILED and not end.reason and not record.get("cause")
    late = job.misses(now)
    if failed and job.retries < job.retry and job.state != ENDING and not late:
        return Requeue(job.id, retry=job.retries + 1, exit=end.exit, signal=end.signal)
    return None
