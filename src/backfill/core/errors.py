"""Words for what a policy did wrong: the compiled side writes numbers, this side has the names."""

from typing import Any

from numpy.typing import NDArray

from backfill.core.verbs import DOES_NOT_FIT, IN_THE_PAST, NO_LICENCE, NO_REASON, NOT_PLACED, NOT_WAITING, OK
from backfill.model.errors import PolicyError
from backfill.model.platform import Platform
from backfill.model.units import seconds_text


def raise_misuse(name: str, error: Any, jobs: NDArray[Any], platform: Platform) -> None:
    """Raise PolicyError where state.error says that the policy `name` broke a rule. jobs: ids in queue order."""
    code, job, which, asked, available, now = (int(x) for x in error)
    if code == OK:
        return
    who = f"job {jobs[job]}" if 0 <= job < len(jobs) else f"job number {job}"
    if code == NOT_WAITING:
        what = f"starts or reserves for {who}, which is not waiting"
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
    else:
        raise AssertionError(f"unknown error code {code}")
    raise PolicyError(f"policy {name}, at {seconds_text(now)} s: {what}")
