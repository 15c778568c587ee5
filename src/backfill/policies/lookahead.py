"""Backfilling with look-ahead: of the jobs that cannot delay the head, start the set that fills the machine best.

A job that ends by the shadow time uses free processors only; any other also uses the extra. So the value of a set is
the value of its short jobs plus that of its long jobs, and two one-dimensional tables replace the paper's
two-dimensional one.

Slow twin: tests/reference/lookahead.py, with the table of the paper.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.shadow import place_beside
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, rewind
from backfill.policies.easy import reserve_for_head, start_beside

PROCESSOR_SECONDS = 1  # a value of objective
GREATEST = np.int64(2**62)  # bound of the value of a set
DEPTH = Param(50, 1, math.inf, "jobs", "number of jobs among which a set is chosen; 1 is easy", whole=True)


@policy(
    "lookahead",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="the set of jobs that cannot delay the head and hold most processors together",
    source="Shmueli and Feitelson, JPDC 65(9), 2005 (LOS)",
    binds=True,
    settable=("order", "tried"),
    params={
        "depth": DEPTH,
        "objective": Param.choice(
            "processors", "processor_seconds", meaning="the quantity to maximise: processors, or processors x walltime"
        ),
    },
    forgets="all",
)
def lookahead(state):
    """EASY, but the jobs that start beside the head are chosen together, by dynamic programming.

    Of the first `depth` jobs that could start, the set that holds most processors starts; then the same among the rest.
    Promise: as easy's.
    Cost: that of easy, and O(depth x idle processors) for each set.
    With depth = 1 every start is that of easy.
    """
    first, span = reserve_for_head(state)
    if first < 0:
        return
    jobs = first_candidates(state, span, state.own.depth)
    while len(jobs) > 0:
        start_those(state, jobs, best_set(state, jobs, span, state.own.objective), span)
        jobs = first_candidates(state, span, state.own.depth)


@policy(
    "combinational",
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="the combination of jobs that do not delay the head even together, and hold most processors",
    source="Yi, Wang, Ma, Che, Liang and Huang, ICETC 2010 (CBA)",
    binds=True,
    settable=("order", "tried"),
    params={"depth": DEPTH},
    forgets="all",
)
def combinational(state):
    """EASY, but the jobs that start beside the head are the combination that fills most of the free processors.

    A job is a candidate if it cannot delay the head even beside all candidates before it. Of the first `depth` of them
    the combination of most processors starts, the one of the earliest jobs of equals; then the same among the rest.
    Promise: as easy's.
    Cost: that of easy, and O(depth x idle processors) for each combination.
    With depth = 1 every start is that of easy.
    """
    first, span = reserve_for_head(state)
    if first >= 0:
        start_combinations(state, span, state.own.depth)


@kernel()
def start_combinations(state, span, depth):
    """Start combinations of jobs beside the head until no job is left that could start."""
    jobs = first_candidates(state, span, depth)
    while len(jobs) > 0:
        jobs = harmless_together(state, jobs, span)
        start_those(state, jobs, best_combination(state, jobs), span)
        jobs = first_candidates(state, span, depth)


@kernel()
def harmless_together(state, jobs, span):
    """Return those jobs that leave the head what it needs even if all of them start, the earlier ones first."""
    _, extra = idle_cpus(state)
    count = 0
    for job in jobs:
        used = state.jobs.need[job, 0] if state.jobs.walltime[job] > span else 0
        if used <= extra:
            extra -= used
            jobs[count] = job
            count += 1
    return jobs[:count]


@kernel()
def best_combination(state, jobs):
    """Return the jobs in the combination of most processors, as flags."""
    free, _ = idle_cpus(state)
    cpus = np.empty_like(jobs)
    for i in range(len(jobs)):
        cpus[i] = state.jobs.need[jobs[i], 0]
    return most_valuable(cpus, cpus, np.zeros(len(jobs), np.bool_), free, np.int64(0))


@kernel()
def first_candidates(state, span, depth):
    """Return the first jobs, at most `depth`, each of which could start now without delaying the head."""
    tried = state.queue.slots - 1
    jobs, count = np.empty(int(min(depth, state.queue.waiting)), np.int64), 0
    rewind(state, tried)
    job = candidate(state, tried, span)
    while job >= 0 and count < len(jobs):
        if place_beside(state, job, span):
            jobs[count] = job
            count += 1
        job = candidate(state, tried, span)
    return jobs[:count]


@kernel()
def start_those(state, jobs, chosen, span):
    """Start the chosen jobs. Among nodes, and with resources other than cpus, one may lack what another has taken."""
    for i in range(len(jobs)):
        if chosen[i] and place_beside(state, jobs[i], span):
            start_beside(state, jobs[i], span)


@kernel()
def best_set(state, jobs, span, objective):
    """Return the jobs in the set of greatest value, counted in cpus of all nodes together, as flags."""
    free, extra = idle_cpus(state)
    cpus, value, is_long = np.empty_like(jobs), np.empty_like(jobs), np.zeros(len(jobs), np.bool_)
    for i in range(len(jobs)):
        cpus[i] = value[i] = state.jobs.need[jobs[i], 0]
        if objective == PROCESSOR_SECONDS:
            value[i] *= min(state.jobs.walltime[jobs[i]], GREATEST // max(free, 1))
        is_long[i] = state.jobs.walltime[jobs[i]] > span
    return most_valuable(cpus, value, is_long, free, extra)


@kernel()
def idle_cpus(state):
    """Return the cpus that are free now, and those of them that are not needed at the shadow time."""
    free, extra = np.int64(0), np.int64(0)
    for node in range(state.machine.nodes):
        here = max(state.free.nodes[node, 0], 0)
        free += here
        extra += max(min(here, state.shadow.extra[node, 0]), 0)
    return free, extra


@kernel()
def most_valuable(cpus, value, is_long, free, extra):
    """Return the items of the most valuable set that holds at most `free` cpus, its long items at most `extra`.

    Of two sets of equal value, choose the one with the earlier items.
    """
    chosen = np.ones(len(cpus), np.bool_)
    if cpus.sum() <= free and (cpus * is_long).sum() <= extra:
        return chosen
    unit = common_divisor(cpus)
    cpus, free, extra = cpus // unit, free // unit, extra // unit
    short, long = greatest_values(cpus, value, ~is_long, free), greatest_values(cpus, value, is_long, extra)
    most = greatest_together(short[0], long[0], free, extra)
    for i in range(len(cpus)):
        beside = extra - cpus[i] if is_long[i] else extra
        chosen[i] = False
        if cpus[i] <= free and beside >= 0:
            rest = greatest_together(short[i + 1], long[i + 1], free - cpus[i], beside)
            if value[i] + rest >= most:
                chosen[i], most, free, extra = True, rest, free - cpus[i], beside
    return chosen


@kernel()
def greatest_values(cpus, value, counted, room):
    """Return [i, c]: the greatest value of counted items from i on that together hold at most c cpus.

    c ends at the cpus of all counted items; more make no difference.
    """
    room = min(room, (cpus * counted).sum())
    best = np.zeros((len(cpus) + 1, room + 1), np.int64)
    for i in range(len(cpus) - 1, -1, -1):
        best[i] = best[i + 1]
        if counted[i]:
            for c in range(cpus[i], room + 1):
                best[i, c] = max(best[i + 1, c], best[i + 1, c - cpus[i]] + value[i])
    return best


@kernel()
def greatest_together(short, long, free, extra):
    """Return the greatest value of short and long items; the long ones must fit in the extra, all in the free cpus."""
    most = np.int64(0)
    for c in range(min(free, extra, len(long) - 1) + 1):
        most = max(most, long[c] + short[min(free - c, len(short) - 1)])
    return most


@kernel()
def common_divisor(cpus):
    """Return the greatest common divisor of the items' cpus; 1 if none holds any."""
    unit = np.int64(0)
    for i in range(len(cpus)):
        other = cpus[i]
        while other > 0:
            unit, other = other, unit % other
    return max(unit, 1)


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {each.name: each for each in (lookahead, combinational)}
