"""Mistakes of a policy: compiled code writes numbers into state.trace.error; this module turns them into messages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.compiler.kernel import kernel
from backfill.model.clock import Clock, exact_text, zone_text
from backfill.model.errors import PolicyError, WorkloadError, at
from backfill.model.platform import Platform
from backfill.model.schedule import CANCELLED, COMPLETED, NO_TIME, NODE_FAIL, STATES, TIMEOUT
from backfill.model.units import TIME_MAX, seconds_text

OK, NOT_WAITING, DOES_NOT_FIT, NO_LICENCE, NOT_PLACED, IN_THE_PAST, NO_REASON, NO_ORDER, ENDLESS, TOO_LATE = (
    np.int64(i) for i in range(10)
)
OVERBOOKED, OVERBOOKED_LICENCE, NOT_STARTED, NO_KEYS, NEVER, NO_CHOICE = (np.int64(i) for i in range(10, 16))
NO_PREEMPTION, NOT_RUNNING, JUST_STARTED, JUST_PREEMPTED, NO_HOW, NO_OVERHEAD = (np.int64(i) for i in range(16, 22))
NO_SUCH_NODES, NO_SUCH_ROWS, NO_SHARING, NOT_TURNING = (np.int64(i) for i in range(22, 26))
NOT_BOOKED, NO_PROJECT = (np.int64(i) for i in range(26, 28))
NONE = np.int64(-1)
UNIX = Clock(0)  # the clock of the live queue
# verbs that are named in the message when their job is not waiting
BY = ("place", "start", "reserve", "shadow_time", "place_beside", "earliest_start", "settle", "fits_now", "is_first",
      "withdraw", "held_back", "predecessor",
      "place_on", "is_ready", "settle_with_moves", "settle_at_least_cost", "allow_until")  # fmt: skip
(BY_PLACE, BY_START, BY_RESERVE, BY_SHADOW_TIME, BY_PLACE_BESIDE, BY_EARLIEST_START, BY_SETTLE, BY_FITS_NOW,
 BY_IS_FIRST, BY_WITHDRAW, BY_HELD_BACK, BY_PREDECESSOR, BY_PLACE_ON, BY_IS_READY, BY_SETTLE_WITH_MOVES,
 BY_SETTLE_AT_LEAST_COST, BY_ALLOW_UNTIL) = (
    np.int64(i) for i in range(len(BY))
)  # fmt: skip
ENDED = {COMPLETED: "completed", TIMEOUT: "killed at its limit", CANCELLED: "cancelled", NODE_FAIL: "lost its nodes"}


@kernel(inline=True)
def fail(state, code, job, which, asked, available):
    """Record a mistake unless there already is one; the loop stops at it."""
    if state.trace.error[0] == OK:
        state.trace.error[0], state.trace.error[1], state.trace.error[2] = code, job, which
        state.trace.error[3], state.trace.error[4], state.trace.error[5] = asked, available, state.now


def raise_misuse(
    name: str,
    state: Any,
    jobs: NDArray[Any],
    platform: Platform,
    file: str = "",
    line: int | None = None,
    *,
    clock: Clock | None = UNIX,
) -> None:
    """Raise PolicyError if state.trace.error says that the policy `name` broke a rule.

    jobs: ids in queue order. file, line: position in the source of the policy, as far as it is known. clock: for the
    times of the State; None if their dates are not known.
    """
    code, job, which, asked, available, now = (int(x) for x in state.trace.error)
    if code == OK:
        return
    who = f"job {jobs[job]}" if 0 <= job < len(jobs) else f"job number {job}"
    if code == NOT_WAITING:
        what = f"calls {BY[which]} for {who}, which is not waiting"
    elif code == DOES_NOT_FIT:
        what = f"starts {who}, which needs {asked} {platform.resources[which]}; free: {available}"
    elif code == NO_LICENCE:
        what = f"starts {who}, which needs {asked} of {_counted(state, platform, which)}; free: {available}"
    elif code == NOT_PLACED:
        what = f"starts {who} with {available} of its {asked} tasks placed; call place(state, job) before"
    elif code == NO_REASON:
        what = f"starts {who} for reason {asked}; expected one of HEAD, BACKFILL, RESERVED, FIT ..."
    elif code == IN_THE_PAST:
        verb = f"reserves for {who}" if job >= 0 else "wakes"
        what = f"{verb} at {exact_text(asked, clock)}, which is in the past"
    elif code == NO_ORDER:
        what = f"uses order slot {asked}, but declares only slot{' 0' if available == 1 else 's 0 and 1'}"
    elif code == ENDLESS:
        what = f"requested {asked:,} idle passes in a row, while {available} jobs wait"
    elif code == OVERBOOKED:
        what = (
            f"overbooks: {who} starts with {asked} {platform.resources[which]} where the machine has {available} left"
        )
    elif code == OVERBOOKED_LICENCE:
        what = (
            f"overbooks: {who} starts with {asked} of {_counted(state, platform, which)}, of which {available} are left"
        )
    elif code == NOT_STARTED:
        what = f"uses the extra for {who}, which it did not start in this pass"
    elif code == NO_KEYS:
        what = f"sorts {available} jobs by {asked} keys; expected a key for each job"
    elif code == NEVER:
        what = "calls wake with FUTURE; expected an instant before it"
    elif code == NO_CHOICE:
        what = f"calls pick with {asked}; expected 1 to 4,294,967,296"
    elif code == NO_PREEMPTION:
        what = f"preempts {who}; expected @policy(..., preempts=True)"
    elif code == NOT_RUNNING:
        what = f"preempts {who}, which does not run"
    elif code == JUST_STARTED:
        what = f"preempts {who}, which it started in this pass"
    elif code == JUST_PREEMPTED:
        what = f"starts {who}, which it preempted in this pass"
    elif code == NO_HOW:
        what = f"preempts {who} by {asked}; expected one of REQUEUE, CHECKPOINT, SUSPEND"
    elif code == NO_OVERHEAD:
        most = seconds_text(TIME_MAX)
        what = f"preempts {who} at an overhead of {seconds_text(asked)} s; expected 0 to {most}"
    elif code == NO_SUCH_NODES:
        tasks = int(state.jobs.tasks[job])
        what = f"places {who} on {asked} nodes; expected {tasks}, one for each task, from 0 to {available}, ascending"
    elif code == NO_SHARING:
        what = f"lets {who} run in rows; expected @policy(..., shares=True) and mpl above 1"
    elif code == NOT_TURNING:
        what = f"lets {who} run in rows, which does not run"
    elif code == NO_SUCH_ROWS:
        known = int(state.runs.rows)
        what = f"lets {who} run in rows {asked:b} (as bits) of {available}; expected some of 1 to {known} rows"
    elif code == NOT_BOOKED:
        what = "moves promised starts; expected @policy(..., booked=True)"
    elif code == NO_PROJECT:
        what = f"asks for project number {asked}; expected 0 to {available}"
    elif code == TOO_LATE:
        cause = "a run time, a walltime or a speed must be wrong"
        raise WorkloadError(f"{who} would end more than 30,000 years from now; {cause}")
    else:
        raise AssertionError(f"unknown error code {code}")
    told = f"policy {name}, at {exact_text(now, clock)}{zone_text(clock)}: {what}"
    if 0 <= job < len(jobs):
        told += f" ({story(state, job, jobs, clock)})"
    raise PolicyError(at(file, line, told) if line is not None else told)


def _counted(state: Any, platform: Platform, which: int) -> str:
    return f"{'licence' if which < state.machine.licences else 'limit'} {platform.licences[which]}"


def story(state: Any, job: int, jobs: NDArray[Any], clock: Clock | None) -> str:
    """Return the history of a job so far: `job 7: submitted at day 0 00:00:00, started at day 0 00:00:12`.

    jobs: ids.
    """
    if job >= state.jobs.count:
        return f"job {jobs[job]}: not submitted yet"
    runs, waits = state.runs, bool(state.queue.waits[job])
    events = [f"submitted at {exact_text(int(state.jobs.submit[job]), clock)}"]
    if (promise := int(state.promises.first[job])) != NO_TIME:
        events.append(f"promised to start at {exact_text(promise, clock)}")
    for run in np.flatnonzero(runs.job[: runs.count] == job).tolist():
        events.append(f"started at {exact_text(int(runs.start[run]), clock)}")
        if (how := int(runs.how[run])) >= 0:
            events.append(f"{ENDED.get(how, STATES[how].lower())} at {exact_text(int(runs.end[run]), clock)}")
    if waits:
        events.append("waiting")
    elif len(events) == 1:
        events.append("not in the queue: it depends on another job, was cancelled or can never run here")
    return f"job {jobs[job]}: {', '.join(events)}"
