"""Searches in vain that are remembered: what is said of a node must be true of its plan, whatever grew meanwhile."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.plan import profile as fast
from backfill.core.plan.grown import MOST, RING, new_grown, note_grown, note_vain, row_of, vain_until
from backfill.core.plan.profile import FUTURE, GIVE, TAKE, new_profile

ONE = np.array([[1]], np.int64)
steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 20), st.integers(1, 15), st.integers(0, 60)),
    max_size=6 * RING,
)


def search(plan, t, length, before=FUTURE):
    return fast.earliest(plan, 0, ONE, 0, TAKE, t, before, FUTURE, length)


@given(steps)
def test_nothing_starts_while_it_is_said_that_nothing_does(steps):
    """A node of 2 units, on which runs of 1 to 20 are booked and given back, is asked for runs of 1 to 15."""
    plan, grown, booked = new_profile(np.array([[2]], np.int64)), new_grown(1, 1), []
    row = row_of(grown, 0, 1)
    for begins, begin, span, length, t in steps:
        if begins and search(plan, begin, span, begin + 1) == begin:
            fast.book(plan, 0, begin, begin + span, ONE, 0, TAKE)
            booked.append((begin, begin + span))
        elif booked:
            begin, end = booked.pop(begin % len(booked))
            fast.book(plan, 0, begin, end, ONE, 0, GIVE)
            note_grown(grown, 0, begin, end)
        until = vain_until(grown, row, 0, length, t)
        assert until == t or search(plan, t, length, until) == FUTURE
        note_vain(grown, row, 0, length, t, search(plan, until, length))


def test_an_entry_is_used_by_longer_jobs_until_the_node_grows_within_their_reach():
    plan, grown = new_profile(np.array([[1]], np.int64)), new_grown(1, 1)
    row = row_of(grown, 0, 10)
    fast.book(plan, 0, 0, 100, ONE, 0, TAKE)
    note_vain(grown, row, 0, 10, 0, 100)
    assert [vain_until(grown, row, 0, length, 0) for length in (9, 10, 15)] == [0, 100, 100]
    note_grown(grown, 0, 50, 60)
    assert [vain_until(grown, row, 0, length, 0) for length in (10, 15)] == [41, 36]
    assert [vain_until(grown, row, 0, 10, t) for t in (40, 41, 59, 60)] == [41, 41, 59, 100]
    for _ in range(RING):
        note_grown(grown, 0, 90, 95)
    assert vain_until(grown, row, 0, 10, 0) == 0


def test_rows_are_forgotten_where_there_are_too_many():
    grown = new_grown(2, MOST)
    rows = [row_of(grown, shape, 1) for shape in range(MOST - 1)]
    assert rows == list(range(1, MOST))
    note_vain(grown, rows[0], 1, 1, 0, 7)
    assert vain_until(grown, row_of(grown, 0, 1), 1, 1, 0) == 7
    assert row_of(grown, MOST - 1, 1) == 1
    assert vain_until(grown, 1, 1, 1, 0) == 0
