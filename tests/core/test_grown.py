"""Searches in vain that are remembered: what is said of a node must be true of its plan, whatever grew meanwhile."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.plan import profile as fast
from backfill.core.plan.grown import (
    LEVELS,
    LOGGED,
    MOST,
    measure_stays,
    new_grown,
    note_grown,
    note_vain,
    row_of,
    vain_until,
)
from backfill.core.plan.profile import FUTURE, GIVE, TAKE, new_profile

ONE = np.array([[1]], np.int64)
CPUS, LAST = 5, 90
steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 20), st.integers(1, 15), st.integers(0, 60)),
    max_size=48,
)


def search(plan, t, length, before=FUTURE, units=1):
    return fast.earliest(plan, 0, ONE, 0, units, t, before, FUTURE, length)


@given(steps, st.integers(1, 2))
def test_nothing_starts_while_it_is_said_that_nothing_does(steps, units):
    """A node of 2 units, on which runs of 1 to 20 are booked and given back, is asked for runs of 1 to 15."""
    plan, grown, booked = new_profile(np.array([[2]], np.int64)), new_grown(1, 1), []
    for begins, begin, span, length, t in steps:
        if begins and search(plan, begin, span, begin + 1) == begin:
            fast.book(plan, 0, begin, begin + span, ONE, 0, TAKE)
            booked.append((begin, begin + span))
        elif booked:
            begin, end = booked.pop(begin % len(booked))
            fast.book(plan, 0, begin, end, ONE, 0, GIVE)
            note_grown(grown, 0, begin, end)
            measure_stays(grown, plan, 0)
        row = row_of(grown, 0, length, units)
        until = vain_until(grown, row, 0, length, t)
        assert until == t or search(plan, t, length, until, units) == FUTURE
        note_vain(grown, row, 0, length, t, search(plan, until, length, FUTURE, units))


@given(
    st.lists(st.tuples(st.integers(1, CPUS), st.integers(0, LAST), st.integers(1, 20)), max_size=20),
    st.integers(0, 20),
    st.integers(0, LAST - 20),
    st.integers(1, 20),
)
def test_for_how_long_each_level_stays_free_around_what_was_freed(bookings, now, begin, length):
    """Levels of 0, 1, 2 and 4 of five cpus; what is free beyond the last booking stays so for ever."""
    plan, grown, begin = new_profile(np.array([[CPUS]], np.int64)), new_grown(1, 1), max(begin, now)
    free = np.full(LAST + 21, CPUS)
    for cpus, begins, lasts in bookings:
        if (free[begins : begins + lasts] >= cpus).all():
            fast.book(plan, 0, begins, begins + lasts, ONE, 0, cpus)
            free[begins : begins + lasts] -= cpus
    note_grown(grown, 0, begin, begin + length)
    measure_stays(grown, plan, now)
    stays = grown.stay[:, 0].tolist()
    assert stays[0] == FUTURE
    assert stays[1:4] == [longest(free >= cpus, now, begin, begin + length) for cpus in (1, 2, 4)]
    assert stays[4:] == [0] * (LEVELS - 4)


def longest(free, now, begin, end):
    """How long the longest stretch of free instants from `now` on is that touches [begin, end)."""
    found, since = 0, now
    for t in range(now, len(free)):
        if not free[t]:
            since = t + 1
        elif since < end and t >= begin:
            found = FUTURE if t == len(free) - 1 else max(found, t + 1 - since)
    return found


def test_growth_counts_for_those_alone_for_whom_enough_is_free_long_enough_around_it():
    plan, grown = new_profile(np.array([[4]], np.int64)), new_grown(1, 6)
    rows = [row_of(grown, shape, 11, units) for shape, units in enumerate((1, 2, 4) * 2)]
    fast.book(plan, 0, 0, 100, ONE, 0, 4)
    for row in rows:
        note_vain(grown, row, 0, 10 if row <= 3 else 11, 0, 100)
    fast.book(plan, 0, 50, 60, ONE, 0, -2)
    note_grown(grown, 0, 50, 60)
    measure_stays(grown, plan, 0)
    rows = [row_of(grown, shape, 11, units) for shape, units in enumerate((1, 2, 4) * 2)]
    assert [vain_until(grown, row, 0, 11, 0) for row in rows] == [40, 40, 100, 100, 100, 100]


def test_of_what_is_known_of_a_node_the_longer_part_stays_when_it_grows():
    plan, grown = new_profile(np.array([[1]], np.int64)), new_grown(1, 1)
    row = row_of(grown, 0, 15, 1)
    fast.book(plan, 0, 0, 100, ONE, 0, TAKE)
    note_vain(grown, row, 0, 10, 0, 100)
    assert [vain_until(grown, row, 0, length, 0) for length in (9, 10, 15)] == [0, 100, 100]
    note_grown(grown, 0, 70, 80)
    row_of(grown, 0, 10, 1)
    assert [vain_until(grown, row, 0, 10, t) for t in (0, 55, 56, 90)] == [56, 56, 56, 90]
    note_grown(grown, 0, 20, 25)
    row_of(grown, 0, 10, 1)
    assert [vain_until(grown, row, 0, 10, t) for t in (0, 24, 25, 55)] == [0, 24, 56, 56]


def test_what_is_known_is_forgotten_for_longer_jobs_and_after_more_growth_than_is_logged():
    grown = new_grown(1, 1)
    row = row_of(grown, 0, 10, 1)
    note_vain(grown, row, 0, 10, 0, 100)
    row_of(grown, 0, 11, 1)
    assert vain_until(grown, row, 0, 10, 0) == 0
    for more, until in ((0, 100), (1, 0)):
        note_vain(grown, row, 0, 10, 0, 100)
        for _ in range(LOGGED + more):
            note_grown(grown, 0, 200, 210)
        row_of(grown, 0, 10, 1)
        assert vain_until(grown, row, 0, 10, 0) == until


def test_rows_are_forgotten_where_there_are_too_many():
    grown = new_grown(2, MOST)
    rows = [row_of(grown, shape, 1, 1) for shape in range(MOST - 1)]
    assert rows == list(range(1, MOST))
    note_vain(grown, rows[0], 1, 1, 0, 7)
    assert vain_until(grown, row_of(grown, 0, 1, 1), 1, 1, 0) == 7
    assert row_of(grown, MOST - 1, 1, 1) == 1
    assert vain_until(grown, 1, 1, 1, 0) == 0
