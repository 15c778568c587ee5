"""Making way: book a job on top of other bookings, then move jobs that may start later, one after the other.

A *spot* is an instant of a lane: of the pool, of a node, or of a licence, which is counted down from -1. If a spot is
overbooked, consider the waiting jobs that have it booked, hold some of the missing resource there and may start later:
the one with the greatest latest start (ties go to the one submitted last) is taken out of the plan and booked at its
earliest start. All of these moves are kept or undone together.

Slow twin: tests/reference/twotier.py, check.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import doubled_rows
from backfill.compiler.wall import verb
from backfill.core.errors import NO_PROJECT, NONE, fail
from backfill.core.plan.bookings import OPENINGS, are_booked, booked_at
from backfill.core.plan.plan import book_job, book_pairs, earliest_by_power, keep_pairs
from backfill.core.plan.profile import (
    FUTURE,
    GIVE,
    PAST,
    TAKE,
    available,
    commit,
    earliest_of_many,
    entry_after,
    find,
    rollback,
    savepoint,
)
from backfill.core.plan.promises import MOVED
from backfill.core.plan.rooms import forget_rooms
from backfill.core.plan.search import ONLY, span
from backfill.core.runs import RUNNING
from backfill.core.verbs import promise_start

PER_TIME, ANY, ONE = (np.int64(i) for i in range(3))  # who may be moved: one job per spot, as many as needed, only one
FROM_NOW, LATER_ONLY = (np.int64(i) for i in range(2))  # its new start: the earliest, or not before the old one


@kernel()
def save_plan(state):
    """Start recording bookings. Return the marks for `restore_plan` and `keep_moves`."""
    plan = state.plan
    state.bookings.tries = state.bookings.seated = 0
    return savepoint(plan.nodes), savepoint(plan.licences), savepoint(plan.total)


@kernel()
def restore_plan(state, marks):
    """Undo every booking since these marks."""
    plan = state.plan
    rollback(plan.nodes, marks[0])
    rollback(plan.licences, marks[1])
    rollback(plan.total, marks[2])
    state.bookings.tries = state.bookings.seated = 0


@kernel()
def keep_moves(state, job):
    """Keep the moves that were tried for a job since the plan was saved."""
    bookings, plan = state.bookings, state.plan
    commit(plan.nodes)
    commit(plan.licences)
    commit(plan.total)
    for i in range(bookings.tries):
        other = bookings.tried[i, 0]
        if not state.machine.pool:
            keep_pairs(state, other, bookings.seats, bookings.tried[i, 2], bookings.tried[i, 3])
        _keep_move(state, other, bookings.tried[i, 1], job)
    bookings.tries = bookings.seated = 0
    forget_rooms(state)


@apart()
def make_way(state, job, begin, lane, t, victim, most, victims, rebook):
    """Move the jobs in the way of a job that is booked at `begin`, `victim` at the spot (lane, t) first.

    most: number of projects whose last end may become later since `begin_moves`, -1 any number. Return whether that
    succeeded.
    """
    end = begin + span(state, job)
    while t < end:
        if victim < 0 or not _move(state, victim, rebook == LATER_ONLY, begin):
            return False
        if most >= 0 and _delayed(state) > most:
            return False
        lane, t = next_overbooked(state, job, t, end)
        if t < end:
            victim = NONE if victims == ONE else victim_at(state, job, lane, t, victims)
    return True


@kernel()
def next_overbooked(state, job, begin, end):
    """Return the first spot (lane, instant) of a booked job on [begin, end) that is overbooked in what the job holds.

    Return `end` as the instant if there is none. Of one instant nodes come first, in order of power. The missing
    amounts are written to `lack`.
    """
    plan, jobs = state.plan, state.jobs
    if state.machine.pool:
        lane, t = ONLY, _first_lack(plan.nodes, ONLY, jobs.need, job, begin, end)
    else:
        lane, t = ONLY, end
        for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
            node = plan.pairs[pair, 0]
            first = _first_lack(plan.nodes, node, jobs.demand, job, begin, t)
            if first < t:
                lane, t = node, first
        for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
            licence = np.int64(jobs.licence[item])
            first = _first_lack(plan.licences, licence, jobs.licence_count, item, begin, t)
            if first < t:
                lane, t = -1 - licence, first
    if t < end:
        _note_lack(state, job, lane, t)
    return lane, t


@kernel()
def _first_lack(profile, lane, matrix, row, begin, before):
    """Return the first instant of [begin, before) at which a requested resource is overbooked; else `before`."""
    d, e = find(profile, lane, begin)
    t = begin
    while e != NONE and t < before:
        for c in range(profile.columns):
            few_turns()
            if matrix[row, c] > 0 and available(profile, lane, d, e, c) < 0:
                return t
        d, e = entry_after(profile, lane, d, e)
        t = FUTURE if e == NONE else profile.time[e]
    return before


@kernel()
def _note_lack(state, job, lane, t):
    """Write the overbooked amounts at a spot, of resources that a job holds there, to `lack`."""
    profile, row = state.plan.nodes, lane
    if lane < 0:
        profile, row = state.plan.licences, -1 - lane
    d, e = find(profile, row, t)
    for k in range(state.machine.resources):
        few_turns()
        asked = k < profile.columns and _held(state, job, lane, k) > 0
        state.bookings.lack[k] = -available(profile, row, d, e, k) if asked else np.int64(0)


@kernel()
def _held(state, job, lane, k):
    """Return the amount of resource k that a job holds in a lane of the plan; copies of a licence."""
    jobs, plan = state.jobs, state.plan
    if state.machine.pool:
        return jobs.need[job, k]
    if lane < 0:
        for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
            if jobs.licence[item] == -1 - lane and k == 0:
                return jobs.licence_count[item, 0]
        return np.int64(0)
    for pair in range(plan.first[job], plan.first[job] + plan.many[job]):
        if plan.pairs[pair, 0] == lane:
            return plan.pairs[pair, 1] * jobs.demand[job, k]
    return np.int64(0)


@kernel()
def may_make_way(state, job, other):
    """Return whether a waiting job may start later for the sake of another one."""
    bookings = state.bookings
    later = bookings.begin[other] > PAST and bookings.latest[other] > bookings.begin[other]
    return later and (bookings.singly == 1 or state.projects.of[other] != state.projects.of[job])


@kernel()
def victim_at(state, job, lane, t, victims):
    """Return the job to move for the shortage `lack` at a spot.

    -1: there is none, or one job must suffice and none does.
    """
    bookings, best = state.bookings, NONE
    for i in range(booked_at(state, t)):
        other = bookings.found[i]
        latest = bookings.latest[other]
        if (
            may_make_way(state, job, other)
            and (best < 0 or latest > bookings.latest[best] or (latest == bookings.latest[best] and other > best))
            and _holds_what_lacks(state, other, lane)
            and not _was_tried(state, other)
        ):
            best = other
    if best >= 0 and victims != ANY:
        for k in range(state.machine.resources):
            few_turns()
            if bookings.lack[k] > 0 and _held(state, best, lane, k) < bookings.lack[k]:
                return NONE
    return best


@kernel(inline=True)
def _holds_what_lacks(state, job, lane):
    for k in range(state.machine.resources):
        few_turns()
        if state.bookings.lack[k] > 0 and _held(state, job, lane, k) > 0:
            return True
    return False


@kernel(inline=True)
def _was_tried(state, job):
    for i in range(state.bookings.tries):
        if state.bookings.tried[i, 0] == job:
            return True
    return False


@kernel()
def _move(state, job, later, booked):
    """Take a job out of the plan and book it at its earliest start. Return whether that is not too late for it.

    later: not before its present start. booked: start of the job for which it moves.
    """
    bookings, length = state.bookings, span(state, job)
    held = bookings.begin[job]
    book_job(state, job, held, held + length, GIVE)
    begin, before = _soonest(state, job), bookings.latest[job] + 1
    t = _earliest(state, job, max(begin, held) if later else begin, before)
    if not later:
        _note_soonest(state, job, booked, min(t, before))
    if t == FUTURE:
        return False
    _note_try(state, job, t)
    return True


@kernel()
def _earliest(state, job, begin, before):
    """Return the first start of a job on [begin, before), FUTURE if there is none; the placement is in `placed`."""
    if state.machine.pool:
        need, length = state.jobs.need, span(state, job)
        return earliest_of_many(state.plan.nodes, ONLY, need, job, TAKE, begin, before, FUTURE, length)
    t = earliest_by_power(state, job, begin) if begin < before else FUTURE
    return t if t < before else FUTURE


@kernel()
def _note_try(state, job, t):
    """Book a job at t with its present placement, as a trial that is kept or undone later."""
    bookings, placed, length = state.bookings, state.placed, span(state, job)
    if bookings.tries == len(bookings.tried):
        bookings.tried = doubled_rows(bookings.tried)
    first, many = bookings.seated, np.int64(0)
    if state.machine.pool:
        book_job(state, job, t, t + length, TAKE)
    else:
        many = placed.count
        while first + many > len(bookings.seats):
            bookings.seats = doubled_rows(bookings.seats)
        for pair in range(many):
            bookings.seats[first + pair, 0] = placed.pairs[pair, 0]
            bookings.seats[first + pair, 1] = placed.pairs[pair, 1]
        book_pairs(state, job, bookings.seats, first, many, t, t + length, TAKE)
    row = bookings.tries
    bookings.tried[row, 0], bookings.tried[row, 1] = job, t
    bookings.tried[row, 2], bookings.tried[row, 3] = first, many
    bookings.tries, bookings.seated = row + 1, first + many


@kernel()
def _soonest(state, job):
    """Return a lower bound of the starts of a job that is taken out of the plan."""
    bookings = state.bookings
    if bookings.openings - bookings.since[job] > OPENINGS:
        return state.now
    t = bookings.soonest[job]
    for i in range(bookings.since[job], bookings.openings):
        t = min(t, bookings.opened[i % OPENINGS] - span(state, job) + 1)
    for i in range(bookings.tries):
        t = min(t, bookings.begin[bookings.tried[i, 0]] - span(state, job) + 1)
    return max(t, state.now)


@kernel()
def _note_soonest(state, job, booked, t):
    """Record that a job has no start before t, beside the job booked at `booked` and the jobs moved for it."""
    bookings = state.bookings
    first = booked
    for i in range(bookings.tries):
        first = min(first, bookings.tried[i, 1])
    bookings.soonest[job] = min(t, first - span(state, job) + 1)
    bookings.since[job] = bookings.openings


@kernel()
def _note_opening(state, t):
    """Record that free capacity appeared in the plan from t on."""
    bookings = state.bookings
    bookings.opened[bookings.openings % OPENINGS] = t
    bookings.openings += 1


@kernel()
def _keep_move(state, job, t, by):
    """Make a tried move permanent."""
    bookings = state.bookings
    _note_opening(state, bookings.begin[job])
    known = False
    for i in range(bookings.moves):
        known = known or bookings.moved[i, 0] == job
    if not known:
        if bookings.moves == len(bookings.moved):
            bookings.moved = doubled_rows(bookings.moved)
        bookings.moved[bookings.moves, 0], bookings.moved[bookings.moves, 1] = job, bookings.begin[job]
        bookings.moves += 1
    promise_start(state, job, t, MOVED, by)


@kernel()
def _delayed(state):
    """Return how many projects would end later than before `begin_moves`, given the moves made and tried."""
    bookings, count = state.bookings, 0
    for i in range(bookings.moves + bookings.tries):
        if _is_first_of_its_project(state, i):
            project = state.projects.of[_touched(bookings, i)]
            count += _last_end(state, project, True) > _last_end(state, project, False)
    return count


@kernel(inline=True)
def _touched(bookings, i):
    """Return the i-th job among the moved ones, followed by the tried ones."""
    return bookings.moved[i, 0] if i < bookings.moves else bookings.tried[i - bookings.moves, 0]


@kernel()
def _is_first_of_its_project(state, i):
    for j in range(i):
        if state.projects.of[_touched(state.bookings, j)] == state.projects.of[_touched(state.bookings, i)]:
            return False
    return True


@kernel()
def _last_end(state, project, now):
    """Return the last end of the jobs of a project that have a start: with all moves, or before `begin_moves`."""
    end, job = PAST, state.projects.first[project]
    while job >= 0:
        end = max(end, _end_of(state, job, now))
        job = state.projects.next[job]
    return end


@kernel()
def _end_of(state, job, now):
    bookings, runs = state.bookings, state.runs
    if bookings.begin[job] > PAST:
        begin = bookings.begin[job]
        for i in range(bookings.moves):
            if not now and bookings.moved[i, 0] == job:
                begin = bookings.moved[i, 1]
        for i in range(bookings.tries):
            if now and bookings.tried[i, 0] == job:
                begin = bookings.tried[i, 1]
        return begin + span(state, job)
    run = np.int64(runs.last[job])
    if run < 0 or state.queue.waits[job]:
        return PAST
    return runs.limit[run] if runs.how[run] == RUNNING else runs.end[run]


@verb()
def project_end(state, project):
    """Return when the last job of a project ends, by reserved start, limit, or actual end.

    Jobs without a start do not count; NO_TIME if none has one.
    """
    return _last_end(state, project, True) if are_booked(state) and _is_project(state, project) else PAST


@kernel(inline=True)
def _is_project(state, project):
    """Return whether this is the number of a project; any other is a mistake of the policy."""
    if 0 <= project < state.projects.count:
        return True
    fail(state, NO_PROJECT, NONE, NONE, project, state.projects.count - 1)
    return False


@verb()
def has_begun(state, project):
    """Return whether a job of a project runs, or has run and does not wait again."""
    job = state.projects.first[project] if _is_project(state, project) else NONE
    while job >= 0:
        if np.int64(state.runs.last[job]) >= 0 and not state.queue.waits[job]:
            return True
        job = state.projects.next[job]
    return False
