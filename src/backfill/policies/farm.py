"""The schedulers of the computational farm: EASY around the job with the highest priority.

Source of BF_MOD and BF_UNMOD: Baraglia et al., CoreGRID 2007, sections 4 to 6; docs/decisions/0009-farm-readings.md
records the interpretations where the text is silent.

Slow twin: tests/reference/farm.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.order import rounded
from backfill.core.queue.walk import arrange_waiting, taken, waiting_jobs, waiting_times, waiting_walltimes
from backfill.policies.easy import backfill_behind_head, easy
from backfill.policies.heuristics import aging, deadline, licence, wait_minimisation

SECOND = 1e-6
SOURCE = "Baraglia et al., CoreGRID 2007"
WEIGHT = (0, 1e9)

HEURISTICS = {
    "age_factor": Param(0.01, *WEIGHT, "points per s", "points for a second of waiting"),
    "k": Param(1.3, 1, 1e9, "walltimes", "how long before the deadline a job becomes urgent"),
    "low": Param(0.1, *WEIGHT, "points", "deadline term of a job that is not urgent, or has no deadline"),
    "high": Param(10, *WEIGHT, "points", "deadline term of a job that can only just meet its deadline"),
    "boost": Param(2, *WEIGHT, "points", "wait minimisation term of the shortest waiting job"),
    "w_aging": Param(1, *WEIGHT, "times", "weight of aging"),
    "w_deadline": Param(1, *WEIGHT, "times", "weight of the deadline"),
    "w_licences": Param(1, *WEIGHT, "times", "weight of the licences"),
    "w_wait": Param(1, *WEIGHT, "times", "weight of wait minimisation"),
}


@kernel()
def ask(state, job, sign):
    """Add the copies of each licence that a job requests to state.own.asked, or subtract them."""
    for item in range(state.jobs.licence_first[job], state.jobs.limit_first[job]):
        state.own.asked[state.jobs.licence[item]] += sign * state.jobs.licence_count[item, 0]


@kernel()
def ask_for_arrived(state):
    """Update the requested copies for the jobs that arrived or left at this instant."""
    for i in range(state.batch.arrivals):
        ask(state, state.batch.arrived[i], 1)
    for i in range(state.batch.leaves):
        ask(state, state.batch.left[i], -1)


@kernel()
def ask_for_started(state):
    """Subtract the requested copies of jobs that have started."""
    for i in range(state.batch.starts):
        ask(state, state.runs.job[state.batch.started[i]], -1)


@kernel()
def prioritise(state):
    """Return -P of each job of `waiting_jobs`, from the heuristics in docs/reference/heuristics.md.

    Source: Baraglia et al., section 4.
    """
    ask_for_arrived(state)
    own, licences = state.own, state.machine.licences
    asked = own.asked  # copies that waiting jobs request
    rho, d = np.zeros(licences), 0
    for i in range(licences):
        if asked[i] > 0:
            rho[i] = asked[i] / max(state.machine.copies[i], 1)  # a licence may have no copies for the time being
            d += rho[i] <= 1.0
    line, jobs, now = waiting_jobs(state, 0), state.jobs, state.now
    wait, due, walltime = waiting_times(state, 0), taken(jobs.deadline, line), waiting_walltimes(state, 0)
    k, low, high, age, boost = own.k, own.low, own.high, own.age_factor, own.boost
    w_aging, w_deadline, w_licences, w_wait = own.w_aging, own.w_deadline, own.w_licences, own.w_wait
    points, shortest, longest, soonest, dear = np.empty(len(line)), FUTURE, np.int64(0), FUTURE, max(d, 1)
    for i in range(len(line)):
        shortest, longest, soonest = min(shortest, walltime[i]), max(longest, walltime[i]), min(soonest, due[i])
    urgent = (soonest - now) * SECOND <= (k + 2.0) * (longest * SECOND)  # else no job is, whatever is rounded
    for i in range(len(line)):
        term = deadline((due[i] - now) * SECOND, walltime[i] * SECOND, k, low, high) if urgent else low
        points[i] = w_aging * aging(wait[i] * SECOND, age) + w_deadline * term
    for i in range(len(line) if licences > 0 else 0):
        wanted = 0.0
        for item in range(jobs.licence_first[line[i]], jobs.limit_first[line[i]]):
            wanted += licence(rho[jobs.licence[item]], dear)
        points[i] += w_licences * wanted
    least = shortest * SECOND
    for i in range(len(line)):
        points[i] = -rounded(points[i] + w_wait * wait_minimisation(least, walltime[i] * SECOND, boost))
    return points


@policy(
    "bf-mod",
    forgets="all",
    order="-P, the sum of the farm's heuristics",
    reserve="the job of the highest priority, at its shadow time; another one as soon as its priority is higher",
    fill="jobs that cannot delay it, by priority",
    source=f"{SOURCE}, section 6",
    sorts=True,
    params=HEURISTICS,
    memory={"asked": "licences"},
)
def bf_mod(state):
    """EASY over the queue sorted by the priority P of the farm's heuristics, computed again at every pass.

    Promise: none; a job that gets a higher priority takes the reservation. Only aging prevents starvation.
    Cost: O(m + r + q log q) per pass, with every licence of every waiting job.
    """
    arrange_waiting(state, 0, prioritise(state))
    backfill_behind_head(state)
    ask_for_started(state)


@policy(
    "bf-unmod",
    order="-P, the sum of the farm's heuristics, behind the job that holds the reservation",
    reserve="the job of the highest priority, at its shadow time; it keeps that until it starts",
    fill="jobs that cannot delay it, by priority",
    source=f"{SOURCE}, section 5",
    binds=True,
    sorts=True,
    params=HEURISTICS,
    memory={"asked": "licences", "pinned": 1},  # `pinned`: 1 + the job that holds the reservation; 0 for none
)
def bf_unmod(state):
    """Like bf-mod, but the job that holds the reservation stays first until it starts.

    Promise: the job with the reservation starts no later than the first shadow time it was given, if walltimes hold.
    Cost: as bf-mod.
    """
    line, keys, pinned = waiting_jobs(state, 0), prioritise(state), state.own.pinned
    for i in range(len(line)):
        if line[i] == pinned[0] - 1:
            keys[i] = -np.inf
    arrange_waiting(state, 0, keys)
    pinned[0] = backfill_behind_head(state) + 1
    ask_for_started(state)


def family() -> dict[str, Policy]:
    """Return every named member."""
    bf_fcfs = easy.like("bf-fcfs", settable=(), source=f"{SOURCE}, section 7: easy, with machines and licences")
    return {each.name: each for each in (bf_fcfs, bf_mod, bf_unmod)}
