"""Slack-based backfilling: every job is promised a start that may be moved later, within a slack of its own.

Slow twin: tests/reference/slack.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.bookings import allow_until
from backfill.core.plan.moves import begin_moves, settle_at_least_cost
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Param, Policy, policy
from backfill.policies.promising import PROMISES, await_promises, keep_promises, promise_at, start_promised
from backfill.policies.twotier import COMPRESS, MOST

AVERAGE_WAIT, WALLTIME = np.int64(0), np.int64(1)


@policy(
    "slack",
    reserve="every job at its submit, at the first start for which others can make way within their slack",
    fill="jobs whose reserved start has come",
    source="Talby and Feitelson, IPPS 1999",
    keeps=True,
    index=False,
    booked=True,
    params={
        "sf": Param(
            3, 0, 1e9, "times", "slack: how far a start may be moved, in multiples of `slack_base`, for a priority of 0"
        ),
        "slack_base": Param.choice(
            "average_wait",
            "walltime",
            "turnaround",
            meaning="the mean wait before all runs so far, the walltime of the job, or its promised turn-around",
        ),
        "best": Param(
            1, 1, math.inf, "starts", "number of starts to compare by cost; 1 takes the first one", whole=True
        ),
        "compress": Param.choice("true", "false", meaning=COMPRESS.meaning),
    },
    memory={**PROMISES, "noted": 1, "waited": 1},
)
def slack(state):
    """Promise each job, at its submit, a start for which others may have to make way, each within its own slack.

    The slack of a job is (1 - priority) sf times `slack_base`, with the priority within 0 and 1, and counts from its
    first promised start. The cost of a start is the delays it causes, weighted by processors and walltime.
    Promise: no start is later than the first promised one plus this slack, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    With sf = 0, compress=false every start is that of 2tsb.
    With sf = 0 alone a job that moved up may be moved back to its first promised start, which conservative never does.
    """
    new = keep_promises(state, state.own.compress == 0.0)
    for i in range(len(new)):
        note_waits(state)
        begin_moves(state)
        promise_at(state, new[i], settle_at_least_cost(state, new[i], most_looks(state.own.best)))
        if state.promises.reserved[new[i]] != NO_TIME:
            allow_until(state, new[i], state.promises.reserved[new[i]] + slack_of(state, new[i]))
        start_promised(state)
    await_promises(state)


@kernel(inline=True)
def most_looks(best):
    """Return the number of starts of which the cheapest is taken."""
    return np.int64(min(best, MOST))


@kernel()
def note_waits(state):
    """Add up the waits of all runs so far."""
    own = state.own
    while own.noted[0] < state.runs.count:
        run = own.noted[0]
        own.waited[0] += state.runs.start[run] - state.jobs.submit[state.runs.job[run]]
        own.noted[0] += 1


@kernel()
def slack_of(state, job):
    """Return how far the start of a job may be moved, in microseconds."""
    own = state.own
    if own.slack_base == AVERAGE_WAIT:
        base = float(own.waited[0]) / float(max(own.noted[0], 1))
    elif own.slack_base == WALLTIME:
        base = float(state.jobs.walltime[job])
    else:
        base = float(state.promises.reserved[job] + state.jobs.walltime[job] - state.jobs.submit[job])
    priority = min(max(state.jobs.priority[job], 0.0), 1.0)
    return np.int64(np.rint(min((1.0 - priority) * own.sf * base, MOST)))


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {slack.name: slack}
