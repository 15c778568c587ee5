"""Flexible backfilling: EASY over a queue sorted by administrative, user and scheduler priority, each with its weight.

Source: the three priorities: Talby and Feitelson, IPPS 1999, as Baraglia et al., CoreGRID 2007, section 2, describe
them; the terms of the scheduler's: the priority factors of Maui, Jackson, Snell and Clement, JSSPP 2001.

Slow twin: tests/reference/flexible.py.
"""

from backfill.compiler.kernel import kernel
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.order import rounded
from backfill.core.queue.walk import arrange_by, following, rewind
from backfill.core.verbs import BACKFILL
from backfill.policies.easy import backfill_behind_head

MINUTE, HOUR = 60e6, 3600e6  # in microseconds
TENTH = 0.1e6  # stands for a walltime of 0, as in the orders of the queue
MOST = 1e9  # of a weight


@kernel()
def prioritise(state):
    """Write -P of every waiting job to its score."""
    own = state.own
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        wait, walltime = float(state.now - state.jobs.submit[job]), float(state.jobs.walltime[job])
        own.score[job] = -rounded(
            own.w_admin * state.jobs.admin_priority[job]
            + own.w_user * state.jobs.priority[job]
            + own.w_wait * (wait / MINUTE)
            + own.w_xf * (1.0 + wait / (walltime if walltime > 0.0 else TENTH))
            + own.w_bypass * own.bypassed[job]
            + own.w_procs * state.jobs.need[job, 0]
            + own.w_walltime * (walltime / HOUR)
        )


@kernel()
def count_bypasses(state):
    """Every waiting job has one bypass more for each job, submitted after it, that was backfilled in this pass."""
    for i in range(state.batch.starts):
        run = state.batch.started[i]
        started = state.runs.job[run]
        if state.runs.reason[run] == BACKFILL:
            rewind(state, 0)
            for _ in range(state.queue.waiting):
                job = following(state, 0)
                if job < started:
                    state.own.bypassed[job] += 1


@policy(
    "flexible",
    order="-P, the weighted sum of the administrative, the user's and the scheduler's priority",
    reserve="the job of the highest priority, at its shadow time; another one as soon as its priority is higher",
    fill="jobs that cannot delay it, by priority",
    source="Jackson, Snell and Clement, JSSPP 2001 (Maui); Talby and Feitelson, IPPS 1999",
    sorts=True,
    params={
        "w_admin": Param(1, -MOST, MOST, "times", "weight of the administrative priority"),
        "w_user": Param(1, -MOST, MOST, "times", "weight of the user's priority"),
        "w_wait": Param(1, 0, MOST, "points per min", "points for a minute of waiting"),
        "w_xf": Param(0, 0, MOST, "points", "weight of the expansion factor, 1 + wait / walltime"),
        "w_bypass": Param(0, 0, MOST, "points", "points for each job that was backfilled past it"),
        "w_procs": Param(0, -MOST, MOST, "points", "points for a processor; below 0 small jobs go first"),
        "w_walltime": Param(0, -MOST, MOST, "points per h", "points for an hour of walltime"),
    },
    memory={"bypassed": "jobs"},
    memory_f={"score": "jobs"},
    forgets="all",
)
def flexible(state):
    """EASY over the queue sorted by a weighted sum of three priorities, computed anew at every pass.

    Promise: none; a job that gets a higher priority takes the reservation.
    Cost: O(m + r + q log q) per pass; O(q) more per backfilled job where w_bypass is not 0.
    """
    prioritise(state)
    arrange_by(state, 0, state.own.score)
    backfill_behind_head(state)
    if state.own.w_bypass != 0.0:
        count_bypasses(state)


def family() -> dict[str, Policy]:
    """Its only member."""
    return {"flexible": flexible}
