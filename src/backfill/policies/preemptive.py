"""Preemptive backfilling: gaps are filled without regard to the head, which preempts those jobs if that lets it start.

Source: Snell, Clement and Jackson, JSSPP 2002; Jackson, Snell and Clement, JSSPP 2001 (Maui's PREEMPT).

Slow twin: tests/reference/preemptive.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.plan import book_until_limit, earliest_start, rebuild, settle, swap_plans
from backfill.core.plan.profile import FUTURE, GIVE, TAKE
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, following, rewind
from backfill.core.runs import CHECKPOINT
from backfill.core.verbs import (
    BACKFILL,
    HEAD,
    RESUMED,
    held_back,
    place,
    place_in_both,
    preempt,
    reserve,
    start,
    was_preempted,
)

SECOND = 1e6


@policy(
    "preemptive",
    reserve="the head, at the earliest start beside those that it may not preempt; recomputed at each pass",
    fill="jobs that fit, first fit; those that could delay the head are preempted when that lets it start",
    source="Snell, Clement and Jackson, JSSPP 2002; Maui's PREEMPT, Jackson, Snell and Clement, JSSPP 2001",
    preempts=True,
    params={
        "how": Param.choice(
            "requeue",
            "checkpoint",
            "suspend",
            meaning="what happens to a preempted job: it starts over, continues anywhere, or continues where it was",
        ),
        "overhead": Param(60, 0, 1e9, "s", "time that a checkpoint adds to the remaining run time and walltime"),
    },
    memory={"preemptible": "jobs"},
    forgets="all",
)
def preemptive(state):
    """Start all jobs that fit; a head that does not fit preempts the fewest jobs that were backfilled in its way.

    A backfilled job that could delay the head is preemptible, and only by a head that was before it in the queue. The
    youngest are preempted first.
    Promise: none.
    Cost: O((r + q) log r) per pass, and a search of two plans for each start.
    """
    head, reason = NONE, HEAD
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0 and head < 0:
        if held_back(state, job):
            job = following(state, 0)
            continue
        if place(state, job) or make_way(state, job):
            begin(state, job, reason, 0)
        else:
            reason = BACKFILL
            if reserve_behind(state, job):
                head = job
        if head < 0:
            job = following(state, 0)
    if head >= 0:
        fill(state)


@kernel()
def begin(state, job, reason, preemptible):
    """Start a job at its present placement."""
    state.own.preemptible[job] = preemptible
    start(state, job, RESUMED if state.runs.paused[job] else reason)


@kernel()
def may_preempt(state, job, run):
    """Return whether a run was backfilled in the way of a job that was before it in the queue."""
    return state.own.preemptible[state.runs.job[run]] != 0 and state.runs.job[run] > job


@kernel()
def plan_without_those_behind(state, job):
    """Build a plan of the current runs, without those that a job may preempt. Return how many these are."""
    rebuild(state)
    runs, found = state.runs, 0
    for i in range(runs.active):
        if may_preempt(state, job, runs.by_limit[i]):
            book_until_limit(state, runs.by_limit[i], GIVE)
            found += 1
    return found


@kernel()
def make_way(state, job):
    """Preempt the youngest runs behind a job until it fits, sparing those that need not leave.

    Return whether it fits now.
    """
    if was_preempted(state, job):
        return False
    swap_plans(state)
    found = plan_without_those_behind(state, job)
    enough = found > 0 and earliest_start(state, job, state.now) == state.now
    leaving = choose(state, job, found) if enough else np.empty(0, np.int64)
    swap_plans(state)
    how = np.int64(state.own.how)
    overhead = np.int64(np.rint(state.own.overhead * SECOND)) if how == CHECKPOINT else np.int64(0)
    for i in range(len(leaving)):
        if leaving[i] >= 0:
            preempt(state, leaving[i], how, overhead)
    return enough and place(state, job)


@kernel()
def choose(state, job, found):
    """Return the jobs to preempt for another one, which fits if all `found` runs behind it end; -1 means no job."""
    runs, behind, n = state.runs, np.empty(found, np.int64), 0
    for i in range(runs.active):
        if may_preempt(state, job, runs.by_limit[i]):
            behind[n] = runs.by_limit[i]
            n += 1
    behind = oldest_first(state, behind)
    for i in range(found):  # assume that all leave; the oldest stay as long as the job still fits
        book_until_limit(state, behind[i], TAKE)
    first = found
    while earliest_start(state, job, state.now) > state.now:
        first -= 1
        book_until_limit(state, behind[first], GIVE)
    leaving = np.full(found - first, NONE)
    for i in range(first, found):
        book_until_limit(state, behind[i], TAKE)
        if earliest_start(state, job, state.now) > state.now:
            book_until_limit(state, behind[i], GIVE)
            leaving[i - first] = runs.job[behind[i]]
    return leaving


@kernel()
def oldest_first(state, found):
    """Return the runs by start, then by the position of their jobs in the queue."""
    runs, by_job = state.runs, np.empty(len(found), np.int64)
    for i in range(len(found)):
        by_job[i] = runs.job[found[i]]
    found = found[np.argsort(by_job, kind="mergesort")]
    begun = np.empty(len(found), np.int64)
    for i in range(len(found)):
        begun[i] = runs.start[found[i]]
    return found[np.argsort(begun, kind="mergesort")]


@kernel()
def reserve_behind(state, job):
    """Reserve the earliest start beside those that a job may not preempt, in the other plan.

    Return whether it has one.
    """
    swap_plans(state)
    plan_without_those_behind(state, job)
    t = settle(state, job, state.now)
    swap_plans(state)
    if t < FUTURE:
        reserve(state, job, t)
    return t < FUTURE


@kernel()
def fill(state):
    """Start each job behind the head that fits; one that does not fit beside the reservation is preemptible."""
    job = candidate(state, 0, FUTURE)
    while job >= 0:
        if place_in_both(state, job):
            begin(state, job, BACKFILL, 0)
            swap_plans(state)
            book_until_limit(state, np.int64(state.runs.last[job]), TAKE)
            swap_plans(state)
        elif place(state, job):
            begin(state, job, BACKFILL, 1)
        job = candidate(state, 0, FUTURE)


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {preemptive.name: preemptive}
