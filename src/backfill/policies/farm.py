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
from backfill.core.queue.walk import arrange_by, following, rewind
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
    """Write -P of every waiting job to its score, from the heuristics in docs/reference/heuristics.md.

    Source: Baraglia et al., section 4.
    """
    ask_for_arrived(state)
    own, licences = state.own, state.machine.licences
    asked, scores = own.asked, own.score  # copies that waiting jobs request
    rho, d = np.zeros(licences), 0
    for i in range(licences):
        if asked[i] > 0:
            rho[i] = asked[i] / max(state.machine.copies[i], 1)  # a licence may have no copies for the time being
            d += rho[i] <= 1.0
    shortest = FUTURE
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        shortest = min(shortest, state.jobs.walltime[following(state, 0)])
    least, dear = shortest * SECOND, max(d, 1)
    k, low, high, age, boost = own.k, own.low, own.high, own.age_factor, own.boost
    w_aging, w_deadline, w_licences, w_wait = own.w_aging, own.w_deadline, own.w_licences, own.w_wait
    rewind(state, 0)
    for _ in range(state.queue.waiting):
        job = following(state, 0)
        ex = state.jobs.walltime[job] * SECOND
        wanted = 0.0
        for item in range(state.jobs.licence_first[job], state.jobs.limit_first[job]):
            wanted += licence(rho[state.jobs.licence[item]], dear)
        scores[job] = -rounded(
            w_aging * aging((state.now - state.jobs.submit[job]) * SECOND, age)
            + w_deadline * deadline((state.jobs.deadline[job] - state.now) * SECOND, ex, k, low, high)
            + w_licences * wanted
            + w_wait * wait_minimisation(least, ex, boost)
        )


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
    memory_f={"score": "jobs"},
)
def bf_mod(state):
    """EASY over the queue sorted by the priority P of the farm's heuristics, computed again at every pass.

    Promise: none; a job that gets a higher priority takes the reservation. Only aging prevents starvation.
    Cost: O(m + r + q log q) per pass, with every licence of every waiting job.
    """
    prioritise(state)
    arrange_by(state, 0, state.own.score)
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
    memory_f={"score": "jobs"},
    memory={"asked": "licences", "pinned": 1},
)
def bf_unmod(state):
    """Like bf-mod, but the job that holds the reservation stays first until it starts.

    Promise: the job with the reservation starts no later than the first shadow time it was given, if walltimes hold.
    Cost: as bf-mod.
    """
    prioritise(state)
    pinned = state.own.pinned  # 1 + the job that holds the reservation; 0 for none
    if pinned[0] > 0 and state.queue.waits[pinned[0] - 1]:
        state.own.score[pinned[0] - 1] = -np.inf
    arrange_by(state, 0, state.own.score)
    pinned[0] = backfill_behind_head(state) + 1
    ask_for_started(state)


def family() -> dict[str, Policy]:
    """Return every named member."""
    bf_fcfs = easy.like("bf-fcfs", settable=(), source=f"{SOURCE}, section 7: easy, with machines and licences")
    return {each.name: each for each in (bf_fcfs, bf_mod, bf_unmod)}
