"""Two-tier scheduling: projects of jobs that are promised a departure when they are submitted.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015. docs/decisions/0020-two-tier-readings.md has what the text leaves open.

Slow twin: tests/reference/twotier.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.errors import NONE
from backfill.core.plan.bookings import allow_until, forget_soonest, next_booked, next_due, renew_booking
from backfill.core.plan.moves import begin_moves, settle_with_moves
from backfill.core.plan.plan import book_overdue, settle
from backfill.core.plan.profile import FUTURE, GIVE, PAST
from backfill.core.plan.promises import GIVEN, NO_TIME
from backfill.core.plan.way import has_begun, project_end
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import BACKFILL, MOVED_UP, reserve_because, wake
from backfill.policies.conservative import conservative, keep_up, start_where_held

SOURCE = "Lin, Thai, Wang and Lai, JNCA 52, 2015"
MOST = 2.0**61  # microseconds of slack
WANTS_ONE, HAS_ONE = np.int64(1), np.int64(2)
RESERVE = "every job at its submit"
FILL = "jobs whose reserved start has come"
MEMORY = {
    **conservative.memory,
    "new": "jobs",  # WANTS_ONE: is to get a promise in this pass; HAS_ONE: got it
}
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
    memory=MEMORY,
    forgets="alone",
)
def two_tier_sb(state):
    """Promise each job of a project, one after the other, its earliest start beside all promises, and keep them.

    Promise: no start is later than the one promised at submit, and so no departure, if walltimes hold.
    Cost: a search of the profile for each job.
    """
    new = begin_pass(state, state.own.compress, 0.0)
    for i in range(len(new)):
        if state.own.new[new[i]] == WANTS_ONE:
            promise_project(state, new[i])
            start_new(state, 0.0)
    end_pass(state)


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
    memory=MEMORY,
    forgets="alone",
)
def two_tier_fb(state):
    """Like 2tsb, but a job may move others, as long as no project ends later than it was promised.

    Promise: no project departs later than promised at its submit, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = begin_pass(state, state.own.compress, state.own.movable)
    for i in range(len(new)):
        if state.own.new[new[i]] == WANTS_ONE:
            promise_with_moves(state, new[i], np.int64(0), state.own.victims, state.own.rebook)
            give_slack(state, new[i], 0.0, 0.0, state.own.movable)
            start_new(state, state.own.movable)
    end_pass(state)


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
    memory=MEMORY,
    forgets="alone",
)
def two_tier_fb_sf(state):
    """Like 2tfb, but the departure of a project may be moved by sf times its turn-around time, too.

    Promise: no project departs later than promised at its submit and sf times its turn-around time, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = begin_pass(state, state.own.compress, state.own.movable)
    for i in range(len(new)):
        if state.own.new[new[i]] == WANTS_ONE:
            promise_with_moves(state, new[i], most_of(state.own.pl), state.own.victims, state.own.rebook)
            give_slack(state, new[i], state.own.sf, state.own.slack, state.own.movable)
            start_new(state, state.own.movable)
    end_pass(state)


@policy(
    "2tpb",
    reserve=f"{MAKE_WAY}, where the project has a high priority; else at its earliest start",
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
    memory=MEMORY,
    forgets="alone",
)
def two_tier_pb(state):
    """Like 2tfb-sf, but projects of a low priority move nobody, and the slack of a project is 1 - priority of its own.

    The priority of a project is the highest of its jobs, within 0 and 1.
    Promise: no project departs later than promised and (1 - priority) sf turn-around times, if walltimes hold.
    Cost: a search of the profile for each start that is tried.
    """
    new = begin_pass(state, state.own.compress, state.own.movable)
    for i in range(len(new)):
        if state.own.new[new[i]] == WANTS_ONE:
            priority = priority_of(state, new[i])
            if priority >= state.own.high_at:
                promise_with_moves(state, new[i], most_of(state.own.pl), state.own.victims, state.own.rebook)
            else:
                promise_project(state, new[i])
            if priority >= state.own.high_at and state.own.high != 0.0:
                keep_in_place(state, new[i])
            else:
                give_slack(state, new[i], (1.0 - priority) * state.own.sf, state.own.slack, state.own.movable)
            start_new(state, state.own.movable)
    end_pass(state)


@kernel(inline=True)
def most_of(pl):
    """Number of projects whose departure may be moved; -1 for all."""
    return NONE if pl == np.inf else np.int64(pl)


@kernel()
def begin_pass(state, compress, unstarted):
    """Keep the promises that there are, start what is due. Returns the jobs without a promise, in queue order.

    unstarted: other than 0 where a project of which a job has started makes way no longer.
    """
    batch, own = state.batch, state.own
    if batch.changes + batch.leaves > 0:
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            renew_booking(state, job)
            job = following(state, 0)
    overdue = keep_up(state, compress != 0.0)
    if overdue == 0 and own.any_late[0] > 0:
        rely_on_late(state)
    if overdue > 0 or compress != 0.0 or batch.changes + batch.leaves > 0 or ended_early(state):
        forget_soonest(state)
    start_booked(state, unstarted)
    many = state.queue.waiting if own.unpromised[0] > 0 else batch.arrivals
    new, n = np.empty(many, np.int64), 0
    if own.unpromised[0] > 0:
        own.unpromised[0] = 0
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            if state.promises.reserved[job] == NO_TIME:
                new[n] = job
                n += 1
            job = following(state, 0)
    else:
        for i in range(batch.arrivals):
            new[i] = batch.arrived[i]
        n = batch.arrivals
    for i in range(n):
        own.new[new[i]] = WANTS_ONE
    return new[:n]


@kernel()
def ended_early(state):
    """Whether a run ended at this instant that had booked more."""
    early = False
    for i in range(state.batch.ends):
        early = early or state.runs.limit[state.batch.ended[i]] > state.now
    return early


@kernel()
def rely_on_late(state):
    """Nobody is overdue any more: the starts of those whose promises were broken come as they are reserved."""
    own = state.own
    own.any_late[0] = 0
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if own.late[job] == 1:
            own.late[job] = 0
            renew_booking(state, job)
        job = following(state, 0)


@kernel()
def start_booked(state, unstarted):
    """Start the jobs whose reserved start is now, in queue order."""
    job = next_due(state)
    while job >= 0:
        start_one(state, job, unstarted)
        job = next_due(state)


@kernel()
def start_new(state, unstarted):
    """Start who was promised this instant just now, and those that were moved to it."""
    job = next_due(state)
    while job >= 0:
        if state.own.why[job] != BACKFILL:
            state.own.why[job] = MOVED_UP
        start_one(state, job, unstarted)
        job = next_due(state)


@kernel()
def start_one(state, job, unstarted):
    """Start a job; where only `unstarted` projects make way, the others of its project stay in place from now on."""
    start_where_held(state, job)
    if unstarted != 0.0:
        other = state.projects.first[state.projects.of[job]]
        while other >= 0:
            allow_until(state, other, PAST)
            other = state.projects.next[other]


@kernel()
def promise_project(state, first):
    """Give the new jobs of a project, of which this is the first, their earliest starts, one after the other."""
    job = first
    while job >= 0:
        if state.own.new[job] == WANTS_ONE:
            promise_booked(state, job, settle(state, job, state.now))
        job = state.projects.next[job]


@kernel()
def promise_with_moves(state, first, most, victims, rebook):
    """Like `promise_project`, at the first starts for which others make way. most: see `settle_with_moves`."""
    begin_moves(state)
    job = first
    while job >= 0:
        if state.own.new[job] == WANTS_ONE:
            promise_booked(state, job, settle_with_moves(state, job, most, np.int64(victims), np.int64(rebook)))
        job = state.projects.next[job]


@kernel()
def promise_booked(state, job, t):
    """Promise a job the start at which it was booked. One that has none waits without, and is asked again."""
    if t == FUTURE:
        state.own.new[job] = 0
        state.own.unpromised[0] += 1
        return
    state.own.new[job] = HAS_ONE
    reserve_because(state, job, t, GIVEN, NONE)
    allow_until(state, job, t)
    if t == state.now:
        state.own.why[job] = BACKFILL


@kernel()
def give_slack(state, first, factor, own, unstarted):
    """Let the jobs of a project that were promised their starts now be moved up to their latest starts.

    The project may depart later by `factor` times its turn-around time, or for each job by its `own`; these are not
    computed anew when it does.
    """
    project = state.projects.of[first]
    departure, submit = project_end(state, project), state.projects.submit[project]
    if departure == NO_TIME:
        return
    if unstarted != 0.0 and has_begun(state, project):
        keep_in_place(state, first)
        return
    job = first
    while job >= 0:
        if state.own.new[job] == HAS_ONE:
            state.own.new[job] = 0
            booked = max(state.jobs.walltime[job], 1)  # for so long a job is in the plan, of 0 s too
            end = state.promises.reserved[job] + booked if own != 0.0 else departure
            slack = np.rint(min(float(end - submit) * factor, MOST))
            allow_until(state, job, max(departure + np.int64(slack) - booked, state.promises.reserved[job]))
        job = state.projects.next[job]


@kernel()
def keep_in_place(state, first):
    """The jobs of a project that were promised their starts now make way for nobody."""
    job = first
    while job >= 0:
        if state.own.new[job] == HAS_ONE:
            state.own.new[job] = 0
            allow_until(state, job, PAST)
        job = state.projects.next[job]


@kernel()
def priority_of(state, first):
    """The highest priority of the jobs of a project that are new, within 0 and 1."""
    highest, job = 0.0, first
    while job >= 0:
        if state.own.new[job] == WANTS_ONE:
            highest = max(highest, state.jobs.priority[job])
        job = state.projects.next[job]
    return min(highest, 1.0)


@kernel()
def end_pass(state):
    """Ask for a pass at the next reserved start."""
    state.own.next_due[0] = next_booked(state)
    if state.own.next_due[0] < FUTURE:
        wake(state, state.own.next_due[0])
    book_overdue(state, GIVE)


def family() -> dict[str, Policy]:
    """Every named member."""
    return {each.name: each for each in (two_tier_sb, two_tier_fb, two_tier_fb_sf, two_tier_pb)}
