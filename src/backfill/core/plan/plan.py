"""The plan: what nodes and licences will hold, and the placements of the jobs in it.

A plan has a lane per node, one per licence, and one for all nodes together.
"""

from typing import Any

import numpy as np
from numba import int8, int32, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import SMALL, column, doubled_rows, record, zeros
from backfill.compiler.wall import verb
from backfill.core.errors import BY_EARLIEST_START, BY_FITS_NOW, BY_SETTLE, IN_THE_PAST, NONE, fail
from backfill.core.place.seating import POWER, seat_by_rule
from backfill.core.plan.bookings import forget_soonest
from backfill.core.plan.grown import GrownT, new_grown
from backfill.core.plan.outline import OutlineT, draw_booking, new_outline
from backfill.core.plan.profile import (
    FUTURE,
    GIVE,
    PAST,
    TAKE,
    ProfileT,
    book,
    clear,
    earliest,
    earliest_of_many,
    least_over,
    new_profile,
    trim,
)
from backfill.core.plan.rooms import BUCKETS, FEW, FINEST, forget_rooms, join_level, open_place
from backfill.core.plan.search import (
    NOT_KEPT,
    ONLY,
    earliest_as_before,
    earliest_on_one_node,
    is_as_hard,
    sits_from_now,
    span,
)
from backfill.core.plan.several import earliest_of_gang
from backfill.core.queue.walk import is_waiting
from backfill.core.runs import is_suspended
from backfill.model.platform import Platform
from backfill.model.workload import Ints

LEVELS = 16  # at most this many
BY_WINDOW, BY_JOB = np.int8(1), np.int8(2)  # why a node is uneven

PLAN = [
    ("nodes", ProfileT),  # availability of nodes, kept by the policies that plan
    ("licences", ProfileT),
    ("total", ProfileT),  # of all nodes together, an upper bound for searches; unused on a pool
    # if windows are announced (planned.py)
    ("live", int64),  # 1: it holds the runs and the announced windows, and each start is booked at once
    ("fits", int64),  # address of `fits`
    ("hold_place", int64),  # of `hold_place`
    ("book_start", int64),  # of `book_start`
    ("refused", int64),  # the last job of this pass that did not fit from now on; -1 none
    ("refused_released", int64),  # `nodes.released` then
    ("kept", int64),  # 1: beside these it holds nothing but one reservation, so the next pass may go on with it
    ("uneven", int8[::1]),  # (m,): what is free on a node may shrink later, by a window (BY_WINDOW) or a planned job
    ("overheld", int8[::1]),  # (m,): 1: runs hold more than the capacity of a node, so `total` counts all of it as free
    # placements in the plan: pairs (node, tasks), job j has `many[j]` from `first[j]`; unused on a pool
    ("first", int64[::1]),  # (n,)
    ("many", int32[::1]),  # (n,)
    ("heeded", int64[::1]),  # (n,): growths of the plan that the last turn of a gang has considered
    ("pairs", int64[:, ::1]),
    ("pairs_used", int64),
    # where availability grew, for two rounds
    ("grown", GrownT),  # among nodes
    ("outline", OutlineT),  # among nodes, if many gangs wait; what follows is for a pool
    ("rooms_until", int64[::1]),  # (2,): no free capacity appeared beyond this instant
    ("rooms_kept", int64),
    ("rooms", int64[:, :, ::1]),  # (2, levels, buckets): longest free time of a level up to an instant of a bucket
    ("rooms_marked", int64[:, ::1]),  # (levels, 2): begin and end of the interval marked last; FUTURE: none
    ("rooms_need", int64[::1]),  # (levels,): the need that defines a level, of the first resource
    ("rooms_since", int64[::1]),  # (levels,): scratch
    ("rooms_level", int8[::1]),  # (n,): level of a planned job
    ("rooms_low", int64),  # lowest level of such a waiting job,
    ("rooms_high", int64),  # and highest level
    ("rooms_origin", int64),  # where bucket 0 begins
    ("rooms_shift", int64),  # a bucket is 2**rooms_shift microseconds long
    ("rooms_last", int64),  # number of the last bucket, which is unbounded
]
FIXED = ("nodes", "licences", "total", "fits", "hold_place", "book_start", "grown", "outline")
Plan, PlanT = record("Plan", PLAN, globals(), fixed=FIXED)


def new_plan(platform: Platform, simple: bool, jobs: int, copies: Ints, shapes: int, need: Ints) -> Any:
    """Return the plan of an idle platform, with capacity for this many jobs and shapes.

    simple: whether it is a pool. copies: of licences and accounts, shape (l, 1). need: of whole jobs, of the first
    resource, for the choice of levels.
    """
    levels = _levels(need) if simple else zeros(1)
    return Plan(
        nodes=new_profile(column(platform.capacity)),
        licences=new_profile(copies),
        total=new_profile(column(platform.capacity.sum(axis=0, keepdims=True))),
        live=0,
        fits=0,
        hold_place=0,
        book_start=0,
        refused=NONE,
        refused_released=0,
        kept=0,
        uneven=np.zeros(len(platform.nodes), np.int8),
        overheld=np.zeros(len(platform.nodes), np.int8),
        first=zeros(1 if simple else jobs),
        many=np.zeros(1 if simple else jobs, np.int32),
        heeded=zeros(1 if simple else jobs),
        pairs=zeros(SMALL, 2),
        pairs_used=0,
        grown=new_grown(1 if simple else len(platform.nodes), shapes),
        outline=new_outline(len(platform.resources)),
        rooms_until=np.full(2, PAST),
        rooms_kept=1,
        rooms=zeros(2, len(levels), BUCKETS),
        rooms_marked=np.full((len(levels), 2), FUTURE),
        rooms_need=levels,
        rooms_since=zeros(len(levels)),
        rooms_level=np.zeros(jobs, np.int8),
        rooms_low=0,
        rooms_high=len(levels) - 1,
        rooms_origin=int(FUTURE),
        rooms_shift=FINEST,
        rooms_last=FEW - 1,
    )


def _levels(need: Ints) -> Ints:
    """Return the most frequent needs and the smallest one, ascending, at most LEVELS."""
    if not len(need):
        return np.zeros(1, np.int64)
    values, counts = np.unique(need[:: max(len(need) // 4096, 1)], return_counts=True)
    often = values[np.argsort(-counts, kind="stable")[: LEVELS - 1]]
    found: Ints = np.unique(np.append(often, need.min()))
    return found


@kernel()
def book_job(state, job, begin, end, sign):
    """Book (sign 1) or release (-1) what a waiting job holds in the plan, on [begin, end)."""
    if state.plan.live:
        _mark_uneven(state, job)
    if state.machine.pool:
        book(state.plan.nodes, ONLY, begin, end, state.jobs.need, job, sign)
        return
    book_pairs(state, job, state.plan.pairs, state.plan.first[job], np.int64(state.plan.many[job]), begin, end, sign)


@kernel()
def _mark_uneven(state, job):
    """Note that a waiting job is booked on its nodes in the plan of this pass."""
    plan = state.plan
    plan.kept = 0
    if not state.machine.pool:
        for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
            plan.uneven[plan.pairs[pair, 0]] |= BY_JOB


@kernel()
def book_run(state, run, begin, end, sign):
    """Book (sign 1) or release (-1) what a run holds, on [begin, end)."""
    job = np.int64(state.runs.job[run])
    if state.machine.pool:
        book(state.plan.nodes, ONLY, begin, end, state.jobs.need, job, sign)
        return
    book_pairs(state, job, state.runs.held, state.runs.first[run], np.int64(state.runs.many[run]), begin, end, sign)


@kernel()
def book_pairs(state, job, pairs, first, many, begin, end, sign):
    """Book (sign 1) or release (-1) what a job holds on the nodes in `many` pairs (node, tasks) from `first` on."""
    counted = int64(0)
    for pair in range(first, first + many):
        if not state.plan.overheld[pairs[pair, 0]]:
            counted += pairs[pair, 1]
    book(state.plan.total, ONLY, begin, end, state.jobs.demand, job, sign * counted)
    for pair in range(first, first + many):
        book(state.plan.nodes, pairs[pair, 0], begin, end, state.jobs.demand, job, sign * pairs[pair, 1])
    if state.plan.outline.kept:
        draw_booking(state, job, pairs, first, many, begin, end, sign)
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        book(state.plan.licences, state.jobs.licence[item], begin, end, state.jobs.licence_count, item, sign)


@kernel()
def keep_place(state, job):
    """Copy the present placement to the job's own list of (node, tasks) in the plan."""
    keep_pairs(state, job, state.placed.pairs, np.int64(0), state.placed.count)


@kernel()
def keep_pairs(state, job, pairs, first, many):
    """Copy `many` pairs from `first` on to the job's own list of (node, tasks) in the plan."""
    plan = state.plan
    if plan.many[job] < many:
        while plan.pairs_used + many > len(plan.pairs):
            plan.pairs = doubled_rows(plan.pairs)
        plan.first[job] = plan.pairs_used
        plan.pairs_used += many
    plan.many[job] = many
    for pair in range(many):
        plan.pairs[plan.first[job] + pair, 0] = pairs[first + pair, 0]
        plan.pairs[plan.first[job] + pair, 1] = pairs[first + pair, 1]


@verb()
def earliest_start(state, job, begin):
    """Return the first instant from `begin` at which the plan has capacity for a job; the placement is in `placed`."""
    if not is_waiting(state, job, BY_EARLIEST_START):
        return FUTURE
    if begin < state.now:
        fail(state, IN_THE_PAST, job, NONE, begin, state.now)
        return FUTURE
    if begin >= FUTURE:
        return FUTURE
    t = earliest_by_power(state, job, begin)
    if t == state.now and state.jobs.place[job] != POWER and not state.machine.pool and not is_suspended(state, job):
        place_from_now(state, job)
    state.placed.may = job if t == state.now else NONE
    return t


@verb()
def earliest_before(state, job, begin, before):
    """Return the first instant of [begin, before) at which the plan of a pool has capacity for a job; FUTURE if none.

    Nothing is placed.
    """
    if not is_waiting(state, job, BY_EARLIEST_START):
        return FUTURE
    length = span(state, job)
    return earliest_of_many(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, begin, before, FUTURE, length)


@kernel()
def place_from_now(state, job):
    """Place a job that fits in the plan from now on, by its placement rule."""
    room, end = state.scratch.room, state.now + span(state, job)
    for node in range(state.machine.nodes):
        least_over(state.plan.nodes, node, state.now, end, room, node)
    seat_by_rule(state, job, room)


@kernel()
def earliest_by_power(state, job, begin):
    """Like `earliest_start`, on the most powerful nodes that are free then."""
    if state.machine.pool:
        return earliest_of_many(
            state.plan.nodes, ONLY, state.jobs.need, job, TAKE, begin, FUTURE, FUTURE, span(state, job)
        )
    if is_suspended(state, job):
        return earliest_as_before(state, job, begin)
    if begin == state.now and not state.runs.preempts:
        if sits_from_now(state, job):
            return begin
        begin += 1
    if state.jobs.alone[job]:
        return earliest_on_one_node(state, job, begin)
    return earliest_of_gang(state, job, begin, FUTURE, FUTURE, NOT_KEPT)


@verb()
def settle(state, job, begin):
    """Book a job at its earliest start from `begin`; return that start, FUTURE if it has none."""
    if not is_waiting(state, job, BY_SETTLE):
        return FUTURE
    t = earliest_start(state, job, begin)
    if t == FUTURE:
        return t
    if not state.machine.pool:
        keep_place(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
    if state.machine.pool and state.plan.rooms_kept:
        join_level(state, job)
    return t


@verb()
def unsettle(state, job, t):
    """Undo the booking that `settle` made for a job at t in this pass."""
    book_job(state, job, t, t + span(state, job), GIVE)


@verb()
def fits_now(state, job):
    """Return whether a job fits in the plan from now on."""
    return is_waiting(state, job, BY_FITS_NOW) and fits_from_now(state, job)


@apart()
def fits_from_now(state, job):
    """Return whether a waiting job fits in the plan from now on; it is placed, and may start."""
    pool, now = state.machine.pool, state.now
    if pool:
        found = (
            earliest(state.plan.nodes, ONLY, state.jobs.need, job, TAKE, now, now + 1, FUTURE, span(state, job)) == now
        )
    else:
        found = _fits_among_nodes(state, job)
    state.placed.may = job if found else NONE
    return found


@kernel()
def _fits_among_nodes(state, job):
    """Return whether a job fits from now on, and place it.

    Of the jobs that do not, the last one is remembered: until something is released, or the next pass, none that is as
    hard to place fits.
    """
    plan = state.plan
    if state.runs.preempts or is_suspended(state, job):
        return earliest_start(state, job, state.now) == state.now
    if plan.refused != NONE and plan.refused_released == plan.nodes.released and is_as_hard(state, job, plan.refused):
        return False
    found = sits_from_now(state, job)
    if not found:
        plan.refused, plan.refused_released = job, plan.nodes.released
    elif state.jobs.place[job] != POWER:
        place_from_now(state, job)
    return found


@verb()
def forget_past(state):
    """Drop the part of the plan before now, which is not read again."""
    trim(state.plan.nodes, state.now)
    if not state.machine.pool:
        trim(state.plan.licences, state.now)
        trim(state.plan.total, state.now)


@verb()
def give_back(state):
    """Release what jobs that ended now had booked beyond now; at least this instant, if they were overdue."""
    runs = state.runs
    for i in range(state.batch.ends):
        run = state.batch.ended[i]
        end = runs.limit[run]
        book_run(state, run, state.now, end, GIVE)
        open_place(state, runs.held, runs.first, runs.many, run, state.now, max(end, state.now + 1))


@verb()
def book_overdue(state, sign):
    """Book the runs at or beyond their limit for this instant, since their ends are unknown; or release them (sign -1).

    Runs of walltime 0 that start in this pass are among them when it ends. Return their number.
    """
    overdue = 0
    while overdue < state.runs.active and state.runs.limits[overdue] <= state.now:
        book_run(state, state.runs.by_limit[overdue], state.now, state.now + 1, sign)
        overdue += 1
    return overdue


@verb()
def lift(state, job):
    """Take the reservation of a job out of the plan."""
    book_job(state, job, state.promises.reserved[job], state.promises.reserved[job] + span(state, job), GIVE)
    plan, begin = state.plan, state.promises.reserved[job]
    open_place(state, plan.pairs, plan.first, plan.many, job, begin, begin + span(state, job))


@verb()
def book_reserved(state, job):
    """Put the reservation of a job back into the plan."""
    book_job(state, job, state.promises.reserved[job], state.promises.reserved[job] + span(state, job), TAKE)


@verb()
def fits_where_held(state, job, t):
    """Return whether a job fits in the plan at t on the nodes that its reservation names."""
    end = t + span(state, job)
    if state.machine.pool:
        least_over(state.plan.nodes, ONLY, t, end, state.scratch.room, ONLY)
        for k in range(state.machine.resources):
            few_turns()
            if 0 < state.jobs.need[job, k] > state.scratch.room[0, k]:
                return False
        return True
    for pair in range(state.plan.first[job], state.plan.first[job] + state.plan.many[job]):
        node = state.plan.pairs[pair, 0]
        least_over(state.plan.nodes, node, t, end, state.scratch.room, node)
        for k in range(state.machine.resources):
            few_turns()
            if 0 < state.plan.pairs[pair, 1] * state.jobs.demand[job, k] > state.scratch.room[node, k]:
                return False
    for item in range(state.jobs.licence_first[job], state.jobs.licence_first[job + 1]):
        least_over(state.plan.licences, state.jobs.licence[item], t, end, state.scratch.least, ONLY)
        if state.scratch.least[0, 0] < state.jobs.licence_count[item, 0]:
            return False
    return True


@verb()
def place_where_held(state, job):
    """Place a job on the nodes that its reservation names, for `start`."""
    if state.promises.reserved[job] == state.now:
        state.placed.may = job
    if state.machine.pool:
        return
    if state.jobs.place[job] != POWER and not is_suspended(state, job) and state.promises.reserved[job] == state.now:
        lift(state, job)
        place_from_now(state, job)
        keep_place(state, job)
        book_reserved(state, job)
        forget_soonest(state)
        return
    state.placed.count, state.placed.job = state.plan.many[job], job
    for pair in range(state.placed.count):
        state.placed.pairs[pair, 0] = state.plan.pairs[state.plan.first[job] + pair, 0]
        state.placed.pairs[pair, 1] = state.plan.pairs[state.plan.first[job] + pair, 1]


@verb()
def rebuild(state):
    """Rebuild the plan from the runs and the announced windows."""
    book_running(state)
    book_overdue(state, TAKE)


@verb()
def book_running(state):
    """Like `rebuild`, without the runs that are overdue."""
    forget_rooms(state)
    book_again(state)


@kernel()
def book_again(state):
    """Clear the plan and book the runs and the announced windows."""
    state.plan.live = state.plan.kept = state.plan.outline.kept = 0
    clear(state.plan.nodes, state.machine.base)
    clear(state.plan.licences, state.machine.base_copies)
    _clear_total(state)
    for i in range(state.runs.active):
        book_run(state, state.runs.by_limit[i], state.now, state.runs.limits[i], TAKE)
    if state.machine.windows > 0:
        _book_windows(state)


@kernel()
def _clear_total(state):
    total = np.zeros((1, state.machine.resources), np.int64)
    for node in range(state.machine.nodes):
        state.plan.overheld[node] = 0
        for k in range(state.machine.resources):
            few_turns()
            total[0, k] += state.machine.base[node, k]
            if state.free.nodes[node, k] < 0:
                state.plan.overheld[node] = 1
    clear(state.plan.total, total)


@apart()
def _book_windows(state):
    """Book the announced windows, lane by lane; capacity does not fall below zero.

    The sum of all nodes stays as it is: a window takes what a run that extends into it still holds, so the sum would
    subtract that amount twice, and be no upper bound any more.
    """
    machine = state.machine
    by_lane = np.argsort(machine.window[: machine.windows, 0], kind="mergesort")
    first = 0
    while first < machine.windows:
        last = first
        while last < machine.windows and machine.window[by_lane[last], 0] == machine.window[by_lane[first], 0]:
            last += 1
        _book_lane(state, machine.window[by_lane[first:last]])
        first = last


@kernel()
def _book_lane(state, window):
    """Book the windows of one lane (a node or, counted down from -1, a licence), from the given window on."""
    machine = state.machine
    instants = np.empty(2 * len(window), np.int64)
    for i in range(len(window)):
        instants[2 * i], instants[2 * i + 1] = max(window[i, 3], state.now), max(window[i, 4], state.now)
    instants.sort()
    lane, columns = window[0, 0], machine.resources if window[0, 0] >= 0 else 1
    gone = np.empty((1, columns), np.int64)
    for i in range(len(instants) - 1):
        begin, until = instants[i], instants[i + 1]
        if begin == until:
            continue
        for k in range(columns):
            base = machine.base[lane, k] if lane >= 0 else machine.base_copies[-1 - lane, 0]
            less = np.int64(0)
            for row in range(len(window)):
                if window[row, 3] <= begin < window[row, 4]:
                    if window[row, 1] < 0:
                        less = base
                    elif window[row, 1] == k:
                        less += window[row, 2]
            gone[0, k] = min(less, base)
        if lane >= 0:
            book(state.plan.nodes, lane, begin, until, gone, ONLY, TAKE)
        else:
            book(state.plan.licences, -1 - lane, begin, until, gone, ONLY, TAKE)


@verb()
def swap_plans(state):
    """Swap this plan and the other one.

    There are two plans if the policy may preempt; `start` books in this one.
    """
    state.plan, state.other = state.other, state.plan
    state.plan.refused = NONE


@verb()
def book_until_limit(state, run, sign):
    """Book (sign 1) or release (-1) what a run holds from now until its limit, at least one microsecond."""
    book_run(state, run, state.now, max(state.runs.limit[run], state.now + 1), sign)
