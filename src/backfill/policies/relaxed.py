"""EASY whose head may be delayed, within bounds, for the first jobs that fit or for jobs that fill much of the machine.

Slow twin: tests/reference/relaxed.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.shadow import place_beside, shadow_from
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import candidate, rewind
from backfill.core.verbs import reserve
from backfill.policies.easy import find_head, start_all_beside, start_all_that_fit, start_beside

MOST = 2.0**61  # bound of a delay, in microseconds
WALLTIME = np.int64(1)
SHADOW = {"known": "jobs", "shadow": "jobs"}  # whether a job was the head, and its earliest shadow time as such


@policy(
    "relaxed",
    reserve="the head, at the latest start to which it may be delayed",
    fill="jobs that let the head start by then, first fit",
    source="Ward, Mahood and West, JSSPP 2002",
    binds=True,
    settable=("order", "tried"),
    synonyms={"pick": {"submit": ("tried", "fcfs"), "score": ("tried", "wfp3")}},
    params={
        "omega": Param(0.5, 0, math.inf, "times", "how far the head may be delayed, in multiples of `base`; 0 is easy"),
        "base": Param.choice("wait", "walltime", meaning="the wait of the head until its shadow time, or its walltime"),
    },
    memory=SHADOW,
    forgets="all",
)
def relaxed(state):
    """EASY with a reservation that may slip, by omega times the head's wait until its shadow time, or its walltime.

    Promise: in submit order, the head starts no later than the end of that slack, if walltimes hold.
    Cost: that of easy.
    With omega = 0 every start is that of easy, with omega = inf of first-fit.
    """
    if state.own.omega == math.inf:
        start_all_that_fit(state)
        return
    first, shadow = find_head(state)
    if first < 0:
        return
    begin = earliest_shadow(state, first, shadow)
    base = state.jobs.walltime[first] if state.own.base == WALLTIME else begin - state.jobs.submit[first]
    until = at_most(begin, state.own.omega * float(base))
    if until > shadow:
        shadow = shadow_from(state, first, until)
    reserve(state, first, shadow)
    start_all_beside(state, shadow - state.now)


@kernel()
def earliest_shadow(state, job, shadow):
    """Return the earliest shadow time that the job has had as head so far."""
    own = state.own
    if own.known[job] == 0 or shadow < own.shadow[job]:
        own.known[job], own.shadow[job] = 1, shadow
    return own.shadow[job]


@kernel()
def at_most(begin, delay):
    """Return an instant later by `delay`, within the range of times."""
    return min(begin + np.int64(np.rint(min(delay, MOST))), FUTURE - 1)


@policy(
    "dynamic",
    reserve="the head, at the latest start to which it may be delayed",
    fill="jobs that cannot delay the head, first fit; then jobs that delay it within bounds and fill a large share",
    source="Feitelson, Rudolph and Schwiegelshohn, JSSPP 2004, in the form of Lin et al., JNCA 52, 2015, section 2.3",
    binds=True,
    settable=("order", "tried"),
    params={
        "delta": Param(0.05, 0, math.inf, "walltimes", "how far the head may be delayed, as a share of its walltime"),
        "gain": Param(0.1, 0, 1, "machines", "share of all processors that a job must fill to delay the head"),
    },
    memory={**SHADOW, "cpus": 1},
    forgets="all",
)
def dynamic(state):
    """EASY whose reservation may be overruled: by a slight delay, for a job that fills much of the machine now.

    Promise: in submit order, the head starts no later than delta walltimes after its shadow time, if walltimes hold.
    Cost: twice that of easy.
    With delta = 0 every start is that of easy.
    """
    first, shadow = find_head(state)
    if first < 0:
        return
    until = at_most(earliest_shadow(state, first, shadow), state.own.delta * float(state.jobs.walltime[first]))
    reserve(state, first, max(shadow, until))
    start_all_beside(state, shadow - state.now)
    if until <= shadow:
        return
    span = shadow_from(state, first, until) - state.now
    least = state.own.gain * float(all_cpus(state))
    tried = state.queue.slots - 1
    rewind(state, tried)
    job = candidate(state, tried, span)
    while job >= 0:
        if float(state.jobs.need[job, 0]) >= least and place_beside(state, job, span):
            start_beside(state, job, span)
        job = candidate(state, tried, span)


@kernel()
def all_cpus(state):
    """Return the number of cpus of all nodes, whether in play or not."""
    own = state.own
    if own.cpus[0] == 0:
        for node in range(state.machine.nodes):
            own.cpus[0] += state.machine.capacity[node, 0]
    return own.cpus[0]


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {relaxed.name: relaxed, dynamic.name: dynamic}
