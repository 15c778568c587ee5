"""Look-ahead by hand: which sets of jobs start beside the head, and the choice itself against all sets."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.policies.lookahead import most_valuable
from tests.reference.table import check

# Tables keep the form in which they are easy to read.
# fmt: off


def test_two_jobs_that_fill_the_hole_start_instead_of_one_that_fits_first():
    check("lookahead", nodes=10, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     6     100      100    |   0   head
          h      1    10     100      100    | 100   head       shadow time 100, no extra
          b      2     3      40       40    |  50   backfill   it would leave one of four nodes idle
          c      2     2      48       48    |   2   backfill
          d      2     2      48       48    |   2   backfill
    """)
    check("easy", nodes=10, table="""
        # job  submit nodes walltime runtime | start
          a      0     6     100      100    |   0
          h      1    10     100      100    | 100
          b      2     3      40       40    |   2
          c      2     2      48       48    |  42
          d      2     2      48       48    |  42
    """)


def test_long_jobs_of_a_set_share_the_extra():
    check("lookahead", nodes=10, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     6     100      100    |   0   head
          h      1     8     100      100    | 100   head       leaves an extra of 2
          b      2     1     200      200    | 200   head       with it 3 nodes at most
          c      2     2     200      200    |   2   backfill
          d      2     2      98       98    |   2   backfill   ends at the shadow time
    """)


def test_equal_sets_go_to_the_earlier_jobs():
    check("lookahead", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     1     100      100    |   0
          h      1     4     100      100    | 100
          b      2     1      90       90    |   2
          c      2     2      90       90    |   2
          d      2     3      90       90    | 200    as many nodes as b and c
    """)


def test_by_processor_seconds_a_long_job_goes_before_an_earlier_short_one():
    table = """
        # job  submit nodes walltime runtime | start
          a      0     1     100      100    |   0
          h      1     4     100      100    | 100
          b      2     1      10       10    |   {b}
          c      2     2      10       10    |  {c}
          d      2     2      80       80    |  {d}
    """
    check("lookahead", nodes=4, table=table.format(b=2, c=2, d=12))
    check("lookahead:depth=3,objective=processor_seconds", nodes=4, table=table.format(b=2, c=82, d=2))


def test_a_combination_is_chosen_among_jobs_that_are_harmless_together():
    table = """
        # job  submit nodes walltime runtime | start
          a      0     6     100      100    |   0
          h      1     8     100      100    | 100
          b      2     1     200      200    |   {b}    takes one of two extra nodes
          c      2     2     200      200    | {c}    does not fit beside b in the extra
          d      2     2      98       98    |   {d}
    """
    check("combinational", nodes=10, table=table.format(b=2, c=200, d=2))
    check("lookahead", nodes=10, table=table.format(b=200, c=2, d=2))
# fmt: on


def by_trying_all(cpus, value, is_long, free, extra):
    """Return the most valuable of all sets that fit; among equals, the one with the earlier items."""
    best, chosen = -1, None
    for taken in product([True, False], repeat=len(cpus)):
        items = [i for i, each in enumerate(taken) if each]
        fits = sum(cpus[i] for i in items) <= free and sum(cpus[i] for i in items if is_long[i]) <= extra
        if fits and sum(value[i] for i in items) > best:
            best, chosen = sum(value[i] for i in items), taken
    return list(chosen)


ITEMS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.booleans()), max_size=7)


@given(items=ITEMS, unit=st.sampled_from([1, 4]), free=st.integers(0, 40), less=st.integers(0, 30), most=st.booleans())
def test_the_set_is_the_best_of_all(items, unit, free, less, most):
    cpus = [each[0] * unit for each in items]
    value = cpus if most else [each[1] for each in items]
    is_long, extra = [each[2] for each in items], max(free - less, 0)
    arrays = (np.array(cpus, np.int64), np.array(value, np.int64), np.array(is_long, np.bool_))
    found = most_valuable(*arrays, np.int64(free), np.int64(extra))
    assert found.tolist() == by_trying_all(cpus, value, is_long, free, extra)


def test_a_wide_machine_needs_no_table_as_wide():
    cpus, wide = np.array([3, 5, 2], np.int64), np.int64(10**13)
    is_long = np.array([True, False, True])
    assert most_valuable(cpus, cpus, is_long, wide, np.int64(4)).tolist() == [True, True, False]
    assert most_valuable(cpus, cpus, is_long, np.int64(6), wide).tolist() == [True, False, True]
