"""Room for a job by moving reservations that may start later: one job of a project after the other, on one node.

A reservation may be moved up to its latest start (`allow_until`). For a start at b, with the job booked there: where an
instant of [b, b + walltime) has too little of a resource, of the waiting jobs that have this instant booked, ask for
what is short, belong to another project and may start later, the one with the greatest latest start (of equals the one
that was submitted last) is taken out and put back at its earliest start. If that is too late for it, b is no start.

Source: Lin, Thai, Wang and Lai, JNCA 52, 2015: `check` of Table 5.
Slow twin: tests/reference/twotier.py.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import doubled_rows
from backfill.compiler.wall import verb
from backfill.core.errors import NONE
from backfill.core.plan.bookings import OPENINGS, booked_at
from backfill.core.plan.profile import (
    BLOCK,
    FUTURE,
    GIVE,
    PAST,
    TAKE,
    available,
    book,
    commit,
    earliest_of_many,
    entry_after,
    find,
    least_for,
    rollback,
    savepoint,
)
from backfill.core.plan.promises import MOVED
from backfill.core.plan.rooms import forget_rooms, join_level
from backfill.core.plan.search import ONLY, span
from backfill.core.runs import RUNNING
from backfill.core.verbs import promise_start

PER_TIME, ANY, ONE = (np.int64(i) for i in range(3))  # who may be moved: one for each instant, as many as needed, one
FROM_NOW, LATER_ONLY = (np.int64(i) for i in range(2))  # where it goes: to its earliest start, or not before it was


@verb()
def begin_moves(state):
    """From here reservations are moved for one project; `most` of `settle_with_moves` counts anew."""
    state.bookings.moves = 0


@verb()
def settle_with_moves(state, job, most, victims, rebook):
    """Book a job at the first instant at which it fits once others were moved; returns that start, FUTURE for none.

    most: of how many projects the last end may become later since `begin_moves`, -1 as many as there are. victims,
    rebook: see above. Cost: a search of the plan for each instant that is tried in earnest.
    """
    state.bookings.singly = 0
    return _settle(state, job, most, victims, rebook, np.int64(1))


@verb()
def settle_at_least_cost(state, job, among):
    """Book a job where it costs least, of the first so many instants at which it fits once others were moved.

    Any number may move, those of its own project too. A delay costs delay x processors x walltime: that of the job
    since now, that of the others since the starts which they held. Of equal costs the first instant is taken. Returns
    that start, FUTURE for none.
    """
    state.bookings.singly = 1
    return _settle(state, job, NONE, ANY, FROM_NOW, among)


@kernel()
def _settle(state, job, most, victims, rebook, among):
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
                mark = savepoint(profile)
                if _make_way(state, job, t, short, victim, most, victims, rebook):
                    if among == 1:
                        _keep(state, job, mark)
                        return t
                    cost = _cost_of_all(state, job, t)
                    if cost < least:
                        best, least = t, cost
                    found += 1
                rollback(profile, mark)
                state.bookings.tries = 0
                if found == among:
                    break
                d, e = find(profile, ONLY, t)  # entries may be elsewhere
        d, e = entry_after(profile, ONLY, d, e)
        t = FUTURE if e == NONE else profile.time[e]
    if best < FUTURE:
        d, e = find(profile, ONLY, best)
        short = _next_short(state, job, d, e)
        victim = _victim_before(state, job, short, victims)
        mark = savepoint(profile)
        _make_way(state, job, best, short, victim, most, victims, rebook)
        _keep(state, job, mark)
    return best


@kernel(inline=True)
def _cost(state, job, delay):
    return float(delay) * float(state.jobs.need[job, 0]) * float(state.jobs.walltime[job])


@kernel()
def _cost_of_all(state, job, t):
    """What it costs to start a job at t, and those that it has moved where they would start then."""
    bookings, cost = state.bookings, _cost(state, job, t - state.now)
    for i in range(bookings.tries):
        other = bookings.tried[i, 0]
        cost += _cost(state, other, bookings.tried[i, 1] - bookings.begin[other])
    return cost


@kernel()
def _keep(state, job, mark):
    """What was tried for a job is done."""
    bookings = state.bookings
    commit(state.plan.nodes, mark)
    for i in range(bookings.tries):
        _keep_move(state, bookings.tried[i, 0], bookings.tried[i, 1], job)
    bookings.tries = 0
    forget_rooms(state)


@kernel(inline=True)
def _fits(state, job, d, e):
    for k in range(state.machine.resources):
        if available(state.plan.nodes, ONLY, d, e, k) < least_for(state.jobs.need, job, k, TAKE):
            return False
    return True


@kernel()
def _next_short(state, job, d, e):
    """The first instant behind an entry from which a job does not fit; FUTURE where there is none."""
    profile, need = state.plan.nodes, state.jobs.need
    d, e = entry_after(profile, ONLY, d, e)
    while e != NONE:
        b = profile.lane[ONLY, d]
        everywhere = True
        for k in range(profile.columns):
            everywhere = everywhere and profile.least[k, b] >= least_for(need, job, k, TAKE)
        if everywhere:
            e = b * BLOCK + profile.count[b] - 1
        elif not _fits(state, job, d, e):
            return profile.time[e]
        d, e = entry_after(profile, ONLY, d, e)
    return FUTURE


@kernel()
def _victim_before(state, job, t, victims):
    """Who would be moved first for a job that is not booked yet; -1 for nobody."""
    if t == FUTURE:
        return NONE
    d, e = find(state.plan.nodes, ONLY, t)
    for k in range(state.machine.resources):
        there = available(state.plan.nodes, ONLY, d, e, k)
        state.bookings.lack[k] = least_for(state.jobs.need, job, k, TAKE) - there
    return _victim(state, job, t, victims)


@kernel()
def _victim(state, job, t, victims):
    """Who is moved, since `lack` is short at t; -1 for nobody, and where one must be enough and is not."""
    bookings, need, best = state.bookings, state.jobs.need, NONE
    for i in range(booked_at(state, t)):
        other = bookings.found[i]
        latest = bookings.latest[other]
        if (
            latest > bookings.begin[other]
            and (bookings.singly or state.projects.of[other] != state.projects.of[job])
            and (best < 0 or latest > bookings.latest[best] or (latest == bookings.latest[best] and other > best))
            and _asks_for_what_lacks(state, other)
            and not _was_tried(state, other)
        ):
            best = other
    if best >= 0 and victims != ANY:
        for k in range(state.machine.resources):
            if bookings.lack[k] > 0 and need[best, k] < bookings.lack[k]:
                return NONE
    return best


@kernel(inline=True)
def _asks_for_what_lacks(state, job):
    for k in range(state.machine.resources):
        if state.bookings.lack[k] > 0 and state.jobs.need[job, k] > 0:
            return True
    return False


@kernel(inline=True)
def _was_tried(state, job):
    for i in range(state.bookings.tries):
        if state.bookings.tried[i, 0] == job:
            return True
    return False


@apart()
def _make_way(state, job, begin, t, victim, most, victims, rebook):
    """Book a job at `begin`, and move who is in its way, `victim` at t first. Whether that has worked out."""
    profile, bookings, end = state.plan.nodes, state.bookings, begin + span(state, job)
    bookings.tries = 0
    book(profile, ONLY, begin, end, state.jobs.need, job, TAKE)
    while t < end:
        if (
            victim < 0
            or not _move(state, victim, rebook == LATER_ONLY, begin)
            or (most >= 0 and _delayed(state) > most)
        ):
            return False
        t = _next_overbooked(state, job, t, end)
        if t < end:
            victim = NONE if victims == ONE else _victim(state, job, t, victims)
    return True


@kernel()
def _move(state, job, later, booked):
    """Take a job out of the plan and put it back at its earliest start. Whether that is not too late for it.

    later: not before the start that it has. booked: where the job is booked for which it moves.
    """
    profile, bookings, need, length = state.plan.nodes, state.bookings, state.jobs.need, span(state, job)
    held = bookings.begin[job]
    book(profile, ONLY, held, held + length, need, job, GIVE)
    begin, before = _soonest(state, job), bookings.latest[job] + 1
    t = earliest_of_many(profile, ONLY, need, job, TAKE, max(begin, held) if later else begin, before, length)
    if not later:
        _note_soonest(state, job, booked, min(t, before))
    if t == FUTURE:
        return False
    book(profile, ONLY, t, t + length, need, job, TAKE)
    if bookings.tries == len(bookings.tried):
        bookings.tried = doubled_rows(bookings.tried)
    bookings.tried[bookings.tries, 0], bookings.tried[bookings.tries, 1] = job, t
    bookings.tries += 1
    return True


@kernel()
def _soonest(state, job):
    """No start of a job that is taken out of the plan lies before this instant."""
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
    """A job had no start before t, beside another one that is `booked` and those that were moved for that."""
    bookings = state.bookings
    first = booked
    for i in range(bookings.tries):
        first = min(first, bookings.tried[i, 1])
    bookings.soonest[job] = min(t, first - span(state, job) + 1)
    bookings.since[job] = bookings.openings


@kernel()
def _note_opening(state, t):
    """Room appeared in the plan from t on."""
    bookings = state.bookings
    bookings.opened[bookings.openings % OPENINGS] = t
    bookings.openings += 1


@verb()
def forget_soonest(state):
    """Room may have appeared anywhere in the plan."""
    state.bookings.openings += OPENINGS + 1


@kernel()
def _next_overbooked(state, job, t, end):
    """The first instant of [t, end) at which there is less than nothing of what a job asks for; `end` for none.

    So much lacks then stands in `lack`.
    """
    profile, lack = state.plan.nodes, state.bookings.lack
    d, e = find(profile, ONLY, t)
    while e != NONE and t < end:
        over = False
        for k in range(state.machine.resources):
            lack[k] = -available(profile, ONLY, d, e, k) if state.jobs.need[job, k] > 0 else np.int64(0)
            over = over or lack[k] > 0
        if over:
            return t
        d, e = entry_after(profile, ONLY, d, e)
        t = FUTURE if e == NONE else profile.time[e]
    return end


@kernel()
def _keep_move(state, job, t, by):
    """A move is made."""
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
    """How many projects would end later than before `begin_moves`, with what was moved and what is tried."""
    bookings, count = state.bookings, 0
    for i in range(bookings.moves + bookings.tries):
        if _is_first_of_its_project(state, i):
            project = state.projects.of[_touched(bookings, i)]
            count += _last_end(state, project, True) > _last_end(state, project, False)
    return count


@kernel(inline=True)
def _touched(bookings, i):
    """One of the jobs that were moved, and those that are tried behind them."""
    return bookings.moved[i, 0] if i < bookings.moves else bookings.tried[i - bookings.moves, 0]


@kernel()
def _is_first_of_its_project(state, i):
    for j in range(i):
        if state.projects.of[_touched(state.bookings, j)] == state.projects.of[_touched(state.bookings, i)]:
            return False
    return True


@kernel()
def _last_end(state, project, now):
    """When the last job of a project ends that has a start: with all moves, or before `begin_moves`."""
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
    """When the last job of a project ends by its reserved start or its limit; of jobs that have ended, when they did.

    Jobs without a start do not count; NO_TIME where none has one.
    """
    return _last_end(state, project, True)


@verb()
def has_begun(state, project):
    """Whether a job of a project runs, or has run and does not wait again."""
    job = state.projects.first[project]
    while job >= 0:
        if np.int64(state.runs.last[job]) >= 0 and not state.queue.waits[job]:
            return True
        job = state.projects.next[job]
    return False
