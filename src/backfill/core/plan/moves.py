"""Moves: find a start for a job by moving reservations that may start later, one job of a project after the other.

A reservation may be moved up to its latest start (`allow_until`). The job is tried at each instant at which the free
resources change and it fits. If some later instant of its run becomes overbooked, other jobs make way (way.py). If that
is too late for one of them, the instant is rejected.

Among nodes, the job takes the most powerful ones that have capacity for it at the instant, and would have it for its
whole walltime if all jobs that may start later were out of the plan. The other plan is this plan without these jobs.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015: Table 5.
Slow twin: tests/reference/twotier.py.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.wall import verb
from backfill.core.errors import BY_SETTLE_AT_LEAST_COST, BY_SETTLE_WITH_MOVES, NONE
from backfill.core.place.placement import licences_free
from backfill.core.plan.bookings import are_booked
from backfill.core.plan.plan import book_job, book_pairs, earliest_by_power, keep_place, swap_plans
from backfill.core.plan.profile import (
    BLOCK,
    FUTURE,
    GIVE,
    PAST,
    TAKE,
    available,
    book,
    change_after,
    copy_profile,
    entry_after,
    find,
    least_for,
    least_over,
)
from backfill.core.plan.rooms import join_level
from backfill.core.plan.search import ONLY, span
from backfill.core.plan.way import (
    ANY,
    FROM_NOW,
    keep_moves,
    make_way,
    may_make_way,
    next_overbooked,
    restore_plan,
    save_plan,
    victim_at,
)
from backfill.core.queue.walk import following, is_waiting, resume, rewind, standing
from backfill.core.verbs import place_by_power


@verb()
def begin_moves(state):
    """Begin the moves on behalf of one project; `most` of `settle_with_moves` counts from here."""
    state.bookings.moves = 0


@verb()
def settle_with_moves(state, job, most, victims, rebook):
    """Book a job at the first instant at which it fits once others are moved; return it, FUTURE if there is none.

    most: number of projects whose last end may become later since `begin_moves`, -1 any number. victims, rebook: see
    way.py.
    Cost: a search of the plan for each instant that is tried; among nodes also a copy of the plan and a check of each
    waiting job.
    """
    if not are_booked(state) or not is_waiting(state, job, BY_SETTLE_WITH_MOVES):
        return FUTURE
    state.bookings.singly = 0
    return _settle(state, job, most, victims, rebook, np.int64(1))


@verb()
def settle_at_least_cost(state, job, among):
    """Book a job at the cheapest of the first `among` instants at which it fits once others are moved.

    Any number may move, including jobs of its own project. A delay costs delay x processors x walltime; the delay of
    the job counts from now, that of the others from their previous starts. Ties go to the first instant. Return that
    start, FUTURE if there is none.
    """
    if not are_booked(state) or not is_waiting(state, job, BY_SETTLE_AT_LEAST_COST):
        return FUTURE
    state.bookings.singly = 1
    return _settle(state, job, NONE, ANY, FROM_NOW, max(among, 1))


@kernel()
def _settle(state, job, most, victims, rebook, among):
    if not state.machine.pool:
        return _settle_among_nodes(state, job, most, victims, rebook, among)
    return _settle_on_pool(state, job, most, victims, rebook, among)


@kernel()
def _settle_on_pool(state, job, most, victims, rebook, among):
    profile, length = state.plan.nodes, span(state, job)
    if state.plan.rooms_kept:
        join_level(state, job)
    t, short, victim = state.now, PAST, NONE
    best, least, found = FUTURE, np.inf, 0
    d, e = find(profile, ONLY, t)
    while t < FUTURE:
        if _fits(state, job, d, e):
            if short <= t:
                short = _next_short(state, job, d, e)
                victim = _victim_before(state, job, short, victims)
            if short == FUTURE or short - t >= length:
                if _cost(state, job, t - state.now) >= least:
                    break
                book(profile, ONLY, t, t + length, state.jobs.need, job, TAKE)
                return t
            if victim >= 0:
                marks = save_plan(state)
                book(profile, ONLY, t, t + length, state.jobs.need, job, TAKE)
                if make_way(state, job, t, ONLY, short, victim, most, victims, rebook):
                    if among == 1:
                        keep_moves(state, job)
                        return t
                    cost = _cost_of_all(state, job, t)
                    if cost < least:
                        best, least = t, cost
                    found += 1
                restore_plan(state, marks)
                if found == among:
                    break
                d, e = find(profile, ONLY, t)  # entries may have moved
        d, e = entry_after(profile, ONLY, d, e)
        t = FUTURE if e == NONE else profile.time[e]
    if best < FUTURE:
        save_plan(state)
        book(profile, ONLY, best, best + length, state.jobs.need, job, TAKE)
        _make_way_from(state, job, best, most, victims, rebook)
        keep_moves(state, job)
    return best


@kernel()
def _make_way_from(state, job, begin, most, victims, rebook):
    """Move the jobs that are in the way of a job booked at `begin`. Return whether that succeeded."""
    lane, t = next_overbooked(state, job, begin, begin + span(state, job))
    victim = NONE
    if t < begin + span(state, job):
        victim = victim_at(state, job, lane, t, victims)
    return make_way(state, job, begin, lane, t, victim, most, victims, rebook)


@kernel(inline=True)
def _cost(state, job, delay):
    return float(delay) * float(state.jobs.need[job, 0]) * float(state.jobs.walltime[job])


@kernel()
def _cost_of_all(state, job, t):
    """Return the cost of starting a job at t, including the delays of the jobs moved for it."""
    bookings, cost = state.bookings, _cost(state, job, t - state.now)
    for i in range(bookings.tries):
        other = bookings.tried[i, 0]
        cost += _cost(state, other, bookings.tried[i, 1] - bookings.begin[other])
    return cost


@kernel(inline=True)
def _fits(state, job, d, e):
    for k in range(state.machine.resources):
        few_turns()
        if available(state.plan.nodes, ONLY, d, e, k) < least_for(state.jobs.need, job, k, TAKE):
            return False
    return True


@kernel()
def _next_short(state, job, d, e):
    """Return the first instant after an entry at which a job does not fit; FUTURE if there is none."""
    profile, need = state.plan.nodes, state.jobs.need
    d, e = entry_after(profile, ONLY, d, e)
    while e != NONE:
        b = profile.lane[ONLY, d]
        everywhere = True
        for k in range(profile.columns):
            few_turns()
            everywhere = everywhere and profile.least[k, b] >= least_for(need, job, k, TAKE)
        if everywhere:
            e = b * BLOCK + profile.count[b] - 1
        elif not _fits(state, job, d, e):
            return profile.time[e]
        d, e = entry_after(profile, ONLY, d, e)
    return FUTURE


@kernel()
def _victim_before(state, job, t, victims):
    """Return the first job to be moved for a job that is not booked yet; -1 if there is none."""
    if t == FUTURE:
        return NONE
    d, e = find(state.plan.nodes, ONLY, t)
    for k in range(state.machine.resources):
        few_turns()
        there = available(state.plan.nodes, ONLY, d, e, k)
        state.bookings.lack[k] = least_for(state.jobs.need, job, k, TAKE) - there
    return victim_at(state, job, ONLY, t, victims)


@apart()
def _settle_among_nodes(state, job, most, victims, rebook, among):
    """Book a job at an instant at which others can make way, or at its earliest start if that is first."""
    last = earliest_by_power(state, job, state.now)
    best, least, found = FUTURE, np.inf, 0
    t = state.now if last > state.now and _leave_out(state, job) else last
    while found < among:
        t = _next_gap(state, job, t, last)
        if t >= last:
            break
        marks = save_plan(state)
        if _take_gap(state, job, t, most, victims, rebook):
            if among == 1:
                keep_moves(state, job)
                return t
            cost = _cost_of_all(state, job, t)
            if cost < least:
                best, least = t, cost
            found += 1
        restore_plan(state, marks)
        t = _next_change(state, t)
    if found < among and last < FUTURE and _cost(state, job, last - state.now) < least:
        if last > state.now:  # the trials have placed it elsewhere
            earliest_by_power(state, job, last)
        _book_placed(state, job, last)
        return last
    if best < FUTURE:
        save_plan(state)
        _place_in_gap(state, job, best)
        _take_gap(state, job, best, most, victims, rebook)
        keep_moves(state, job)
    return best


@kernel()
def _leave_out(state, job):
    """Build the other plan: this one without the jobs that may make way for a job. Return whether there are any."""
    plan, many = state.plan, 0
    stand = standing(state)
    rewind(state, 0)
    other = following(state, 0)
    while other >= 0:
        if may_make_way(state, job, other):
            if many == 0:
                _copy_plan(state)
            many += 1
            begin = state.bookings.begin[other]
            swap_plans(state)
            end = begin + span(state, other)
            book_pairs(state, other, plan.pairs, plan.first[other], np.int64(plan.many[other]), begin, end, GIVE)
            swap_plans(state)
        other = following(state, 0)
    resume(state, stand)
    return many > 0


@kernel()
def _copy_plan(state):
    """Copy this plan to the other plan."""
    plan, other = state.plan, state.other
    copy_profile(plan.nodes, other.nodes)
    copy_profile(plan.licences, other.licences)
    copy_profile(plan.total, other.total)
    for node in range(state.machine.nodes):
        other.overheld[node] = plan.overheld[node]


@kernel()
def _next_gap(state, job, t, last):
    """Return the first instant of [t, last) at which free resources change and a job fits; fill `placed`.

    t: now, or such an instant. Return `last` if there is none.
    """
    while t < last:
        swap_plans(state)
        sure = earliest_by_power(state, job, t)
        swap_plans(state)
        if sure > t:
            t = _next_change(state, sure - 1) if sure < last else last
        elif _place_in_gap(state, job, t):
            return t
        else:
            t = _next_change(state, t)
    return last


@kernel()
def _next_change(state, t):
    """Return the first instant after t at which the free amount of a node or licence changes; FUTURE if none."""
    plan, first = state.plan, FUTURE
    for node in range(state.machine.nodes):
        first = min(first, change_after(plan.nodes, node, t))
    for licence in range(len(state.machine.copies)):
        first = min(first, change_after(plan.licences, licence, t))
    return first


@kernel()
def _place_in_gap(state, job, t):
    """Place a job on nodes that are free at t, and would stay free without the jobs that may make way."""
    plan, other, scratch, end = state.plan, state.other, state.scratch, t + span(state, job)
    now = np.empty((1, state.machine.resources), np.int64)
    for node in range(state.machine.nodes):
        least_over(other.nodes, node, t, end, scratch.room, node)
        least_over(plan.nodes, node, t, t + 1, now, np.int64(0))
        for k in range(state.machine.resources):
            few_turns()
            scratch.room[node, k] = min(scratch.room[node, k], now[0, k])
    for licence in range(len(state.machine.copies)):
        least_over(other.licences, licence, t, end, scratch.least, np.int64(0))
        least = scratch.least[0, 0]
        least_over(plan.licences, licence, t, t + 1, scratch.least, np.int64(0))
        scratch.licences[licence] = min(least, scratch.least[0, 0])
    begin, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    if not licences_free(scratch.licences, state.jobs.licence, state.jobs.licence_count, begin, last):
        return False
    return place_by_power(state, job, scratch.room)


@kernel()
def _take_gap(state, job, t, most, victims, rebook):
    """Book a job at t with its present placement, and move the jobs in its way. Return whether that succeeded."""
    total, need, end = state.plan.total, state.jobs.need, t + span(state, job)
    _book_placed(state, job, t)
    # While a node is overbooked, the total over all nodes is no bound for a search; without this job it is one.
    book(total, ONLY, t, end, need, job, GIVE)
    done = _make_way_from(state, job, t, most, victims, rebook)
    book(total, ONLY, t, end, need, job, TAKE)
    return done


@kernel()
def _book_placed(state, job, t):
    """Book a job at t with its present placement."""
    keep_place(state, job)
    book_job(state, job, t, t + span(state, job), TAKE)
