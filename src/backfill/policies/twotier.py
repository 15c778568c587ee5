"""Two-tier scheduling: projects of jobs whose departure is promised when they are submitted.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015. docs/decisions/0020-two-tier-readings.md records what the text leaves
open.

Slow twin: tests/reference/twotier.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.bookings import allow_until
from backfill.core.plan.moves import begin_moves, settle_with_moves
from backfill.core.plan.plan import settle
from backfill.core.plan.profile import PAST
from backfill.core.plan.promises import NO_TIME
from backfill.core.plan.way import has_begun, project_end
from backfill.core.policy import Param, Policy, policy
from backfill.policies.promising import (
    PROMISES,
    await_promises,
    by_project,
    end_of_project,
    keep_promises,
    promise_at,
    start_promised,
)

SOURCE = "Lin, Thai, Wang and Lai, JNCA 52, 2015"
MOST = 2.0**61  # bound of a slack, in microseconds
RESERVE = "every job at its submit"
FILL = "jobs whose reserved start has come"
COMPRESS = Param.choice("false", "true", meaning="whether every end lets each waiting job, in queue order, move up")
MOVES = {
    "victims": Param.choice(
        "per_time",
        "any",
        "one",
        meaning="number of reservations that a job may move: one for each instant, any, or one",
    ),
    "rebook": Param.choice(
        "from_now", "later_only", meaning="new start of a moved job: its earliest one, or the first after its own"
    ),
    "compress": COMPRESS,
    "movable": Param.choice(
        "all", "unstarted", meaning="projects whose reservations may move: all, or those of which no job has started"
    ),
}
SF = Param(0.5, 0, 1e9, "turn-around times", "slack: how far a departure may be moved, in turn-around times")
PL = Param(math.inf, 0, math.inf, "projects", "number of other projects whose departure a project may move", whole=True)
OWN = Param.choice(
    "project", "job", meaning="turn-around time that sf multiplies: that of the project, or that of the job that moves"
)
SLACK = {"sf": SF, "pl": PL, "slack": OWN}
EARLIEST = f"{RESERVE}, at its earliest start"
MAKE_WAY = f"{RESERVE}, at the first start for which others can make way within their slack"


@policy(
    "2tsb",
    reserve=f"{EARLIEST}; kept",
    fill=FILL,
    source=f"{SOURCE}, Algorithm 1",
    binds=True,
    keeps=True,
    index=False,
    booked=True,
    projects=True,
    params={"compress": COMPRESS},
    memory=PROMISES,
    forgets="alone",
)
def two_tier_sb(state):
    """Promise each job of a project, one after the other, its earliest start beside all promises, and keep them.

    Promise: no start is later than the one promised at submit, and so no departure, if walltimes hold.
    Cost: a search of the profile for each job.
    """
    new = by_project(state, keep_promises(state, state.own.compress != 0.0))
    first = 0
    while first < len(new):
        last = end_of_project(state, new, first)
        promise_project(state, new, first, last)
        start_promised(state)
        first = last
    await_promises(state)


@policy(
    "2tfb",
    reserve=MAKE_WAY,
    fill=FILL,
    source=f"{SOURCE}, Algorithm 2 with SF = 0 and PL = 0",
    keeps=True,
    index=False,
    booked=True,
    projects=True,
    params=MOVES,
    memory=PROMISES,
    forgets="alone",
)
def two_tier_fb(state):
    """Like 2tsb, but a job may move others, as long as no project ends later than it was promised.

    Promise: no project departs later than promised at its submit, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = by_project(state, keep_promises(state, state.own.compress != 0.0))
    keep_begun(state, state.own.movable)
    first = 0
    while first < len(new):
        last = end_of_project(state, new, first)
        promise_with_moves(state, new, first, last, np.int64(0), state.own.victims, state.own.rebook)
        give_slack(state, new, first, last, 0.0, 0.0, state.own.movable)
        start_promised(state)
        keep_begun(state, state.own.movable)
        first = last
    await_promises(state)


@policy(
    "2tfb-sf",
    reserve=MAKE_WAY,
    fill=FILL,
    source=f"{SOURCE}, Algorithm 2",
    keeps=True,
    index=False,
    booked=True,
    projects=True,
    params={**SLACK, **MOVES},
    memory=PROMISES,
    forgets="alone",
)
def two_tier_fb_sf(state):
    """Like 2tfb, but the departure of a project may also be moved, by at most sf times its turn-around time.

    Promise: no project departs later than promised at its submit plus sf times its turn-around time, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = by_project(state, keep_promises(state, state.own.compress != 0.0))
    keep_begun(state, state.own.movable)
    first = 0
    while first < len(new):
        last = end_of_project(state, new, first)
        promise_with_moves(state, new, first, last, most_of(state.own.pl), state.own.victims, state.own.rebook)
        give_slack(state, new, first, last, state.own.sf, state.own.slack, state.own.movable)
        start_promised(state)
        keep_begun(state, state.own.movable)
        first = last
    await_promises(state)


@policy(
    "2tpb",
    reserve=f"{MAKE_WAY}, if the project has a high priority; else at its earliest start",
    fill=FILL,
    source=f"{SOURCE}, Algorithm 3",
    keeps=True,
    index=False,
    booked=True,
    projects=True,
    params={
        **SLACK,
        "high_at": Param(0.5, 0, 1, "priority", "the priority, from 0 to 1, from which a project may move others"),
        "high": Param.choice(
            "movable", "fixed", meaning="whether jobs of such a project may move within its slack, or never"
        ),
        **MOVES,
    },
    memory=PROMISES,
    forgets="alone",
)
def two_tier_pb(state):
    """Like 2tfb-sf, but projects of low priority move no others, and the slack of a project depends on its priority.

    The slack is 1 - priority of the project, which is the highest priority of its jobs, within 0 and 1.
    Promise: no project departs later than promised plus (1 - priority) sf turn-around times, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = by_project(state, keep_promises(state, state.own.compress != 0.0))
    keep_begun(state, state.own.movable)
    first = 0
    while first < len(new):
        last = end_of_project(state, new, first)
        priority = priority_of(state, new, first, last)
        if priority >= state.own.high_at:
            promise_with_moves(state, new, first, last, most_of(state.own.pl), state.own.victims, state.own.rebook)
        else:
            promise_project(state, new, first, last)
        if priority >= state.own.high_at and state.own.high != 0.0:
            keep_in_place(state, new, first, last)
        else:
            factor = (1.0 - priority) * state.own.sf
            give_slack(state, new, first, last, factor, state.own.slack, state.own.movable)
        start_promised(state)
        keep_begun(state, state.own.movable)
        first = last
    await_promises(state)


@kernel(inline=True)
def most_of(pl):
    """Return the number of projects whose departure may be moved; -1 for all."""
    return NONE if pl == np.inf else np.int64(pl)


@kernel()
def keep_begun(state, unstarted):
    """Fix the reservations of projects that start now, if only `unstarted` projects make way."""
    for i in range(state.batch.starts if unstarted != 0.0 else 0):
        project = state.projects.of[state.runs.job[state.batch.started[i]]]
        job = state.projects.first[project]
        while job >= 0:
            if state.queue.waits[job]:
                allow_until(state, job, PAST)
            job = state.projects.next[job]


@kernel()
def promise_project(state, new, first, last):
    """Promise the new jobs of a project, from first to last, their earliest starts, one after the other."""
    for i in range(first, last):
        promise_at(state, new[i], settle(state, new[i], state.now))


@kernel()
def promise_with_moves(state, new, first, last, most, victims, rebook):
    """Like `promise_project`, at the first starts for which others make way. most: see `settle_with_moves`."""
    begin_moves(state)
    for i in range(first, last):
        t = settle_with_moves(state, new[i], most, np.int64(victims), np.int64(rebook))
        promise_at(state, new[i], t)


@kernel()
def give_slack(state, new, first, last, factor, own, unstarted):
    """Allow the jobs of a project that were just promised their starts to be moved up to their latest starts.

    The project may depart later by `factor` times its turn-around time, or for each job by its `own`; these are not
    updated when it does.
    """
    project = state.projects.of[new[first]]
    departure, submit = project_end(state, project), state.projects.submit[project]
    if unstarted != 0.0 and has_begun(state, project):
        keep_in_place(state, new, first, last)
        return
    for i in range(first, last):
        start = state.promises.reserved[new[i]]
        if start != NO_TIME:
            booked = max(state.jobs.walltime[new[i]], 1)  # booked time in the plan, at least one microsecond
            end = start + booked if own != 0.0 else departure
            slack = np.rint(min(float(end - submit) * factor, MOST))
            allow_until(state, new[i], max(departure + np.int64(slack) - booked, start))


@kernel()
def keep_in_place(state, new, first, last):
    """Fix the starts that the jobs of a project were just promised: they make way for no other job."""
    for i in range(first, last):
        if state.promises.reserved[new[i]] != NO_TIME:
            allow_until(state, new[i], PAST)


@kernel()
def priority_of(state, new, first, last):
    """Return the highest priority of the new jobs of a project, between 0 and 1."""
    highest = 0.0
    for i in range(first, last):
        highest = max(highest, state.jobs.priority[new[i]])
    return min(highest, 1.0)


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {each.name: each for each in (two_tier_sb, two_tier_fb, two_tier_fb_sf, two_tier_pb)}
