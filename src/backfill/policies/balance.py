"""Backfilling with K resources: choose candidates behind the head by how evenly they fill the machine.

Source of the formulas: Leinberger, Karypis and Kumar, SC'99 (BL, BB); Liu, Luan, Wang and Qian, NPC 2016 (IBB).
docs/reference/balance.md separates what is published from what is reconstructed.

Slow twin: tests/reference/balance.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.shadow import place_beside
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, rewind
from backfill.core.verbs import FIT, place, start, start_heads
from backfill.policies.easy import reserve_for_head, start_all_that_fit, start_beside

UNTIL_EMPTY = 1  # a value of per_event
FULLNESS = 0  # a value of test
REFRESHED = 0  # a value of refresh
FIRST = 0  # a value of fit
GRAIN = 2.0**30  # scores are compared in steps of 1 / GRAIN, so that rounding does not decide
SOURCE = "Leinberger, Karypis and Kumar, SC'99"


@kernel()
def capacities(state):
    """Return the capacity of each resource over all nodes, (K,); 0 for resources that are not in play."""
    found = np.zeros(state.machine.resources)
    for node in range(state.machine.nodes):
        for k in range(state.machine.resources):
            few_turns()
            if state.machine.in_play[k]:
                found[k] += state.machine.capacity[node, k]
    return found


@kernel()
def utilizations(state, capacity, used):
    """Write the share of each resource that is in use now to used (K,)."""
    for k in range(state.machine.resources):
        few_turns()
        free = state.free.nodes[0, k] if state.machine.pool else state.free.total[k]
        used[k] = (capacity[k] - free) / capacity[k] if capacity[k] > 0.0 else 0.0


@kernel(inline=True)
def balance_score(state, capacity, used, job, fullness):
    """Return BB(U) = max U / mean U x (1 - mean U), for the utilizations U after a job has started, or now for NONE.

    Without fullness: B(U) = max U / mean U. If nothing is in use, both are 1.
    """
    top, total, kinds = 0.0, 0.0, 0
    for k in range(state.machine.resources):
        few_turns()
        if capacity[k] > 0.0:
            u = used[k]
            if job != NONE:
                u += state.jobs.need[job, k] / capacity[k]
            top = max(top, u)
            total += u
            kinds += 1
    if total == 0.0:
        return 1.0
    mean = total / kinds
    return top / mean * (1.0 - mean) if fullness else top / mean


@kernel(inline=True)
def steps(score):
    """Return a score in whole steps, for comparisons."""
    return np.rint(score * GRAIN)


@kernel()
def used_least(capacity, used):
    """Return the least used resource in play, the first of equals."""
    found, least = 0, np.inf
    for k in range(len(used)):
        if capacity[k] > 0.0 and used[k] < least:
            found, least = k, used[k]
    return found


@kernel()
def start_least(state, span, capacity, used, lowest):
    """Start the candidate with the least score: BB's, or with `lowest` minus its demand for the least used resource.

    Return whether there was one.
    """
    resource = used_least(capacity, used)
    best, least = NONE, np.inf
    rewind(state, 0)
    job = candidate(state, 0, span)
    while job >= 0:
        score = (
            -float(state.jobs.need[job, resource]) if lowest else steps(balance_score(state, capacity, used, job, True))
        )
        if score < least and place_beside(state, job, span):
            best, least = job, score
        job = candidate(state, 0, span)
    if best == NONE:
        return False
    place_beside(state, best, span)
    start_beside(state, best, span)
    return True


@kernel()
def start_by_least(state, lowest, per_event):
    """Run one pass of BB, or with `lowest` of BL."""
    first, span = reserve_for_head(state)
    if first < 0:
        return
    capacity, used = capacities(state), np.empty(state.machine.resources)
    utilizations(state, capacity, used)
    while start_least(state, span, capacity, used, lowest) and per_event == UNTIL_EMPTY:
        utilizations(state, capacity, used)


@policy(
    "bb",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="the job that cannot delay the head and has the least score of balance and fullness",
    source=SOURCE,
    binds=True,
    params={
        "per_event": Param.choice("1", "until_empty", meaning="how many jobs may go ahead of the head in one pass")
    },
    forgets="all",
)
def bb(state):
    """Backfill Balanced: start the candidate after whose start the resources are used most evenly, or most fully.

    Promise: as easy's.
    Cost: O(r + K q) per pass, and as much again for each further start.
    """
    start_by_least(state, False, state.own.per_event)


@policy(
    "backfill-lowest",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="the job that cannot delay the head and requests most of the least used resource",
    source=SOURCE,
    binds=True,
    forgets="all",
)
def backfill_lowest(state):
    """Backfill Lowest: repeatedly start the candidate that requests most of the least used resource.

    Promise: as easy's.
    Cost: O(r + K q) per pass, and as much again for each further start.
    """
    start_by_least(state, True, UNTIL_EMPTY)


@policy(
    "ibb",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="jobs that cannot delay the head and do not worsen the balance, first fit",
    source="Liu, Luan, Wang and Qian, NPC 2016",
    binds=True,
    params={
        "test": Param.choice(
            "fullness", "balance", meaning="the measure that must not grow: BB(U), or max U / mean U alone"
        ),
        "refresh": Param.choice(
            "true", "false", meaning="whether it is compared with the utilization after each start"
        ),
    },
    forgets="all",
)
def ibb(state):
    """Improved Backfill Balanced: in one traversal, start every candidate that does not worsen the balance.

    Promise: as easy's.
    Cost: O(r + K q) per pass; a deep queue costs O(log q) per candidate.
    """
    first, span = reserve_for_head(state)
    if first < 0:
        return
    fullness = state.own.test == FULLNESS
    capacity, used = capacities(state), np.empty(state.machine.resources)
    utilizations(state, capacity, used)
    now = steps(balance_score(state, capacity, used, NONE, fullness))
    rewind(state, 0)
    job = candidate(state, 0, span)
    while job >= 0:
        if steps(balance_score(state, capacity, used, job, fullness)) <= now and place_beside(state, job, span):
            start_beside(state, job, span)
            utilizations(state, capacity, used)
            if state.own.refresh == REFRESHED:
                now = steps(balance_score(state, capacity, used, NONE, fullness))
        job = candidate(state, 0, span)


@policy(
    "best-fit",
    fill="jobs that fit, in order, or the job that leaves the fewest cpus idle",
    source="HTCondor's dedicated scheduler, as Liu, Luan, Wang and Qian, NPC 2016, describe it; large jobs may starve",
    params={"fit": Param.choice("first", "tightest", meaning="in order, or the largest that fits, again and again")},
    forgets="all",
)
def best_fit(state):
    """Start all jobs that fit, skipping those that do not; no job gets a reservation.

    Cost: O(q) per pass; with tightest as much again for each start.
    """
    if state.own.fit == FIRST:
        start_all_that_fit(state)
        return
    start_heads(state)
    best = largest_that_fits(state)
    while best >= 0:
        place(state, best)
        start(state, best, FIT)
        best = largest_that_fits(state)


@kernel()
def largest_that_fits(state):
    """Return the job with most cpus, the first of equals, that fits into what is free now; -1 if none does."""
    best = NONE
    rewind(state, 0)
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        if (best == NONE or state.jobs.need[job, 0] > state.jobs.need[best, 0]) and place(state, job):
            best = job
        job = candidate(state, 0, FUTURE)
    return best


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {each.name: each for each in (bb, backfill_lowest, ibb, best_fit)}
