"""Flexible backfilling: EASY over a queue sorted by administrative, user and scheduler priority, each with its weight.

Source: the three priorities: Talby and Feitelson, IPPS 1999, as described by Baraglia et al., CoreGRID 2007, section 2;
the terms of the scheduler's priority: the priority factors of Maui, Jackson, Snell and Clement, JSSPP 2001.

Slow twin: tests/reference/flexible.py.
"""

import math

import numpy as np
from numba import float64

from backfill.compiler.kernel import apart, kernel
from backfill.core.errors import NONE
from backfill.core.plan.shadow import place_beside
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.order import rounded
from backfill.core.queue.walk import arrange_waiting, candidate, rewind, taken, waiting_jobs, waiting_times
from backfill.core.verbs import BACKFILL
from backfill.policies.balance import capacities
from backfill.policies.easy import reserve_for_head, start_all_beside, start_beside
from backfill.policies.lookahead import start_combinations

MINUTE, HOUR = 60e6, 3600e6  # in microseconds
TENTH = 0.1e6  # replaces a walltime of 0, as in the orders of the queue
MOST = 1e9  # bound of a weight
BEST_FIT, GREEDY = 1, 2  # values of `backfill`


@kernel()
def priorities(state, line):
    """Return P of each job of `waiting_jobs`, (q,): the weighted sum of its priorities.

    Each priority has a loop of its own over arrays that lie side by side, and its weights are read before. What has no
    weight is left out, as it would add nothing.
    """
    points, wait = np.zeros(len(line)), waiting_times(state, 0)
    add_credentials(state, line, points)
    add_service(state, line, wait, points)
    add_targets(state, line, wait, points)
    add_resources(state, line, points)
    return points


@kernel()
def add_credentials(state, line, points):
    """Add the priorities that administrators and the user give; QoS and partition add to the user's."""
    own = state.own
    cred, w_admin, w_user = own.cred, own.w_admin, own.w_user
    if cred == 0.0 or (w_admin == 0.0 and w_user == 0.0):
        return
    administrators, users = taken(state.jobs.admin_priority, line), taken(state.jobs.priority, line)
    for i in range(len(line)):
        points[i] += cred * (w_admin * administrators[i] + w_user * users[i])


@kernel()
def add_service(state, line, wait, points):
    """Add points for the wait, by itself and relative to the walltime, and for the number of bypasses."""
    own, bypassed = state.own, state.own.bypassed
    serv, w_wait, w_xf, w_bypass = own.serv, own.w_wait, own.w_xf, own.w_bypass
    if serv == 0.0:
        return
    if w_xf == 0.0 and w_bypass == 0.0:
        for i in range(len(wait)):
            points[i] += serv * (w_wait * (wait[i] / MINUTE))
        return
    for i in range(len(line)):
        expanded = w_xf * expansion(state, line[i], wait[i]) if w_xf != 0.0 else 0.0
        points[i] += serv * (w_wait * (wait[i] / MINUTE) + expanded + w_bypass * bypassed[line[i]])


@kernel()
def add_targets(state, line, wait, points):
    """Add points for closeness to the target wait and the target expansion factor."""
    own = state.own
    weight, w_wait, w_xf = own.target, own.w_target_wait, own.w_target_xf
    most, xf = own.target_wait * MINUTE, own.target_xf
    if weight == 0.0 or (w_wait == 0.0 and w_xf == 0.0):
        return
    for i in range(len(line)):
        found = 0.0
        if w_wait != 0.0:
            found += w_wait * urgency(wait[i] / most)
        if w_xf != 0.0:
            found += w_xf * urgency(expansion(state, line[i], wait[i]) / xf)
        points[i] += weight * found


@kernel()
def add_resources(state, line, points):
    """Add points for the request."""
    own, need, walltime = state.own, state.jobs.need, state.jobs.walltime
    res, w_procs, w_pe, w_walltime = own.res, own.w_procs, own.w_pe, own.w_walltime
    if res == 0.0 or (w_procs == 0.0 and w_pe == 0.0 and w_walltime == 0.0):
        return
    capacity = capacities(state)
    for i in range(len(line)):
        equivalents = w_pe * processor_equivalents(state, line[i], capacity) if w_pe != 0.0 else 0.0
        points[i] += res * (w_procs * need[line[i], 0] + equivalents + w_walltime * (walltime[line[i]] / HOUR))


@kernel(inline=True)
def expansion(state, job, wait):
    """Return (wait + walltime) / walltime."""
    walltime = float(state.jobs.walltime[job])
    return 1.0 + wait / (walltime if walltime > 0.0 else TENTH)


@kernel(inline=True)
def urgency(share):
    """Return u / (1 - u)^2 for the used share u of a target, with 1 - u at least a hundredth.

    It is small at first, grows a thousandfold near the target, and in proportion to u behind it.
    """
    left = max(1.0 - share, 0.01)
    return share / (left * left)


@kernel()
def processor_equivalents(state, job, capacity):
    """Return the largest share that the job requests of any resource in play, as a number of processors."""
    share = 0.0
    for k in range(len(capacity)):
        if capacity[k] > 0.0:
            share = max(share, state.jobs.need[job, k] / capacity[k])
    return share * capacity[0]


@kernel()
def count_bypasses(state):
    """Count a bypass of every waiting job for each job, submitted after it, that was backfilled in this pass."""
    line = waiting_jobs(state, 0)
    for i in range(state.batch.starts):
        run = state.batch.started[i]
        started = state.runs.job[run]
        if state.runs.reason[run] == BACKFILL:
            for job in line:
                if job < started:
                    state.own.bypassed[job] += 1


@kernel()
def start_tightest(state, span):
    """Repeatedly start the largest job that cannot delay the head, the longest of equals."""
    job = tightest(state, span)
    while job >= 0:
        place_beside(state, job, span)
        start_beside(state, job, span)
        job = tightest(state, span)


@kernel()
def tightest(state, span):
    """Return the job with most processors, then with the longest walltime, that cannot delay the head; -1 if none."""
    best, need, walltime = NONE, state.jobs.need, state.jobs.walltime
    rewind(state, 0)
    job = candidate(state, 0, span)
    while job >= 0:
        more = best == NONE or need[job, 0] > need[best, 0]
        longer = best != NONE and need[job, 0] == need[best, 0] and walltime[job] > walltime[best]
        if (more or longer) and place_beside(state, job, span):
            best = job
        job = candidate(state, 0, span)
    return best


@policy(
    "flexible",
    order="-P, the weighted sum of the administrative, the user's and the scheduler's priority",
    reserve="the job of the highest priority, at its shadow time; another one as soon as its priority is higher",
    fill="jobs that cannot delay it, by priority; or the largest first, or the combination that fills most",
    source="Jackson, Snell and Clement, JSSPP 2001 (Maui); Talby and Feitelson, IPPS 1999",
    sorts=True,
    params={
        "w_admin": Param(1, -MOST, MOST, "times", "weight of the administrative priority"),
        "w_user": Param(1, -MOST, MOST, "times", "weight of the user's priority"),
        "w_wait": Param(1, 0, MOST, "points per min", "points for a minute of waiting"),
        "w_xf": Param(0, 0, MOST, "points", "weight of the expansion factor, 1 + wait / walltime"),
        "w_bypass": Param(0, 0, MOST, "points", "points for each job that was backfilled past it"),
        "w_target_wait": Param(0, 0, MOST, "points", "weight of how near the wait is to `target_wait`"),
        "target_wait": Param(60, 0.001, MOST, "min", "wait that a job should not exceed"),
        "w_target_xf": Param(0, 0, MOST, "points", "weight of how near the expansion factor is to `target_xf`"),
        "target_xf": Param(10, 1, MOST, "times", "expansion factor that a job should not exceed"),
        "w_procs": Param(0, -MOST, MOST, "points", "points for a processor; below 0 small jobs go first"),
        "w_pe": Param(0, -MOST, MOST, "points", "points for a processor equivalent: the largest share of any resource"),
        "w_walltime": Param(0, -MOST, MOST, "points per h", "points for an hour of walltime"),
        "cred": Param(1, -MOST, MOST, "times", "weight of `w_admin` and `w_user` together"),
        "serv": Param(1, 0, MOST, "times", "weight of `w_wait`, `w_xf` and `w_bypass` together"),
        "target": Param(1, 0, MOST, "times", "weight of `w_target_wait` and `w_target_xf` together"),
        "res": Param(1, -MOST, MOST, "times", "weight of `w_procs`, `w_pe` and `w_walltime` together"),
        "backfill": Param.choice(
            "first-fit",
            "best-fit",
            "greedy",
            meaning="which jobs go ahead: by priority, the largest (then longest) first, or the best combination",
        ),
        "depth": Param(50, 1, math.inf, "jobs", "number of jobs among which greedy chooses", whole=True),
    },
    memory={"bypassed": "jobs"},
    forgets="all",
)
def flexible(state):
    """EASY over the queue sorted by a weighted sum of three priorities, computed again at every pass.

    Promise: none; a job that gets a higher priority takes the reservation.
    Cost: O(m + r + q log q) per pass; O(q) more per backfilled job with best-fit, or if w_bypass is not 0; with greedy
    O(depth x idle processors) for each combination.
    """
    backfill_by_priority(state, priorities(state, waiting_jobs(state, 0)))


@apart(of_policy=True, points=float64[::1])
def backfill_by_priority(state, points):
    """Run one pass of EASY over the queue by priority, with the rule of `backfill`.

    points (q,): P of each job of `waiting_jobs`, which is overwritten.
    """
    for i in range(len(points)):
        points[i] = -rounded(points[i])
    arrange_waiting(state, 0, points)
    first, span = reserve_for_head(state)
    if first >= 0:
        fill(state, span)
    if state.own.w_bypass != 0.0:
        count_bypasses(state)


@kernel()
def fill(state, span):
    """Start jobs that cannot delay the head, by the rule of `backfill`."""
    if state.own.backfill == BEST_FIT:
        start_tightest(state, span)
    elif state.own.backfill == GREEDY:
        start_combinations(state, span, state.own.depth)
    else:
        start_all_beside(state, span)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {"flexible": flexible}
