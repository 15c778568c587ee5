"""What it means for a job that an attempt of it is over, as `settle` found it."""

from backfill.pools.base import Verdict
from backfill.queue import reserving
from backfill.queue.events import End, Requeue
from backfill.queue.job import PREEMPT, REQUEUE, Job
from backfill.queue.reserving import BEGAN, OVER
from backfill.queue.shapes import Record
from backfill.queue.states import CANCELLED, COMPLETED, ENDING, FAILED, OUT_OF_MEMORY, TIMEOUT

STATES = {
    "limit": TIMEOUT,
    "cancel": CANCELLED,
    PREEMPT: CANCELLED,  # of a job that was cancelled while it made way
    BEGAN: CANCELLED,
    OVER: CANCELLED,
    REQUEUE: CANCELLED,  # or while it was ended to run again
    "memory": OUT_OF_MEMORY,
    "output": FAILED,
    "exec": FAILED,
}
REASONS = {"output": "Output", "exec": "Command", **reserving.REASONS}


def made_way(job: Job, verdict: Verdict) -> bool:
    """Whether an attempt is over since the job was preempted.

    One that had ended before it was told to has just ended. Of one whose end nobody saw it must be known that it was
    told to, or the job must be one that may run twice.
    """
    asked = job.current.cause == PREEMPT
    if verdict.kind == "ended":
        cause = verdict.record.get("cause")
        return cause == PREEMPT or (cause == REQUEUE and job.yields)
    if verdict.kind == "unstarted":
        return asked
    return verdict.kind == "unknown" and (bool(verdict.record.get("told")) or (job.requeue and asked))


def end_of(record: Record, number: int) -> End:
    """The end of a job, by what its supervisor wrote down, or by what its batch system calls it (`state`)."""
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
    """Why a job is to run again whose attempt has ended; None if it is not. now: by the calendar."""
    if job.current.cause != "cancel" and record.get("cause") == REQUEUE:
        return Requeue(job.id, asked=True)
    failed = end.state == FAILED and not end.reason and not record.get("cause")
    late = job.deadline is not None and now + job.walltime > job.deadline
    if failed and job.retries < job.retry and job.state != ENDING and not late:
        return Requeue(job.id, retry=job.retries + 1, exit=end.exit, signal=end.signal)
    return None
