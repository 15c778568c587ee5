"""What a policy can do wrong: compiled code writes numbers into state.trace.error, the Python side has the words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.core.record import kernel
from backfill.model.errors import PolicyError, WorkloadError
from backfill.model.platform import Platform
from backfill.model.units import seconds_text

OK, NOT_WAITING, DOES_NOT_FIT, NO_LICENCE, NOT_PLACED, IN_THE_PAST, NO_REASON, NO_ORDER, ENDLESS, TOO_LATE = (
    np.int64(i) for i in range(10)
)
OVERBOOKED, OVERBOOKED_LICENCE, NOT_STARTED, NO_KEYS = (np.int64(i) for i in range(10, 14))
NO_PREEMPTION, NOT_RUNNING, JUST_STARTED, JUST_PREEMPTED, NO_HOW, NO_OVERHEAD = (np.int64(i) for i in range(14, 20))
NONE = np.int64(-1)


@kernel(inline=True)
def fail(state, code, job, which, asked, available):
    """Write down the first misuse; the loop stops at it."""
    if state.trace.error[0] == OK:
        state.trace.error[0], state.trace.error[1], state.trace.error[2] = code, job, which
        state.trace.error[3], state.trace.error[4], state.trace.error[5] = asked, available, state.now


def raise_misuse(name: str, error: Any, jobs: NDArray[Any], platform: Platform) -> None:
    """Raise PolicyError where state.trace.error says that the policy `name` broke a rule. jobs: ids in queue order."""
    code, job, which, asked, available, now = (int(x) for x in error)
    if code == OK:
        return
    who = f"job {jobs[job]}" if 0 <= job < len(jobs) else f"job number {job}"
    if code == NOT_WAITING:
        what = f"places, starts or reserves for {who}, which is not waiting"
    elif code == DOES_NOT_FIT:
        what = f"starts {who}, which needs {asked} {platform.resources[which]}; free: {available}"
    elif code == NO_LICENCE:
        what = f"starts {who}, which needs {asked} of licence {platform.licences[which]}; free: {available}"
    elif code == NOT_PLACED:
        what = f"starts {who} with {available} of its {asked} tasks placed; call place(state, job) before"
    elif code == NO_REASON:
        what = f"starts {who} for reason {asked}; expected one of HEAD, BACKFILL, RESERVED, FIT ..."
    elif code == IN_THE_PAST:
        verb = f"reserves for {who}" if job >= 0 else "wakes"
        what = f"{verb} at {seconds_text(asked)} s, which is over"
    elif code == NO_ORDER:
        what = f"walks in order number {asked}; it declares {available}, from 0"
    elif code == ENDLESS:
        what = f"has woken {asked:,} times at which nothing happened, while {available} jobs wait"
    elif code == OVERBOOKED:
        what = (
            f"overbooks: {who} starts with {asked} {platform.resources[which]} where the machine has {available} left"
        )
    elif code == OVERBOOKED_LICENCE:
        what = (
            f"overbooks: {who} starts with {asked} of licence {platform.licences[which]}, of which {available} are left"
        )
    elif code == NOT_STARTED:
        what = f"uses the extra for {who}, which it did not start in this pass"
    elif code == NO_KEYS:
        what = f"sorts {available} jobs by {asked} keys; expected a key for each job, memory_f of length 'jobs'"
    elif code == NO_PREEMPTION:
        what = f"preempts {who}; a policy that does declares preempts=True"
    elif code == NOT_RUNNING:
        what = f"preempts {who}, which does not run"
    elif code == JUST_STARTED:
        what = f"preempts {who}, which it started in this pass"
    elif code == JUST_PREEMPTED:
        what = f"starts {who}, which it preempted in this pass"
    elif code == NO_HOW:
        what = f"preempts {who} by {asked}; expected one of REQUEUE, CHECKPOINT, SUSPEND"
    elif code == NO_OVERHEAD:
        what = f"preempts {who} at an overhead of {seconds_text(asked)} s; expected 0 or more"
    elif code == TOO_LATE:
        raise WorkloadError(f"{who} would end more than 30,000 years from now; a run time or a speed must be wrong")
    else:
        raise AssertionError(f"unknown error code {code}")
    raise PolicyError(f"policy {name}, at {seconds_text(now)} s: {what}")
