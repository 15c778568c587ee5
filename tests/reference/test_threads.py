"""Threads of several jobs in one line: the blocks of the paper's figures, and each case of the dangler rule by hand."""

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.units import SECOND
from tests import compiled

from . import world
from .table import RUNNERS
from .table import check as check_table
from .threads import blocks, square
from .words import Event, Job, Platform

FIGURES = [5, 3, 6, 2, 1, 4, 2, 3]  # threads of J1 to J8 in figures 1 to 3
SQUARE = "1.1 2.1 3.1 4.1 5.1 6.1 1.2 2.2 3.2 4.2 6.2 1.3 2.3 3.3 6.3 1.4 3.4 6.4 1.5 3.5 3.6"
NEXT = "7.1 8.1 7.2 8.2 8.3"

# Tables keep the form in which they are easy to read.
# fmt: off


def threads_of(sizes):
    return [
        Job(row=0, name=f"{job}.{thread}", submit=0, walltime=SECOND, runtime=SECOND, project=f"J{job}")
        for job, size in enumerate(sizes, 1)
        for thread in range(1, size + 1)
    ]


def test_the_square_grows_until_no_job_in_it_has_more_threads_than_it_has_columns():
    columns = [[None] * size for size in FIGURES]
    assert square(columns[:1]) == 1
    assert square(columns) == 6
    assert square(columns, n_max=4) == 4


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("parameters", ["", ":eager=true"])
def test_the_threads_of_the_figures_start_in_the_order_that_the_paper_prints(runner, parameters):
    jobs = [Job(**{**vars(job), "row": row, "submit": 0}) for row, job in enumerate(threads_of(FIGURES))]
    run = RUNNERS[runner]
    rows = run(jobs, Platform.pool(1), f"thread-matrix{parameters}", "batch", "kill")
    assert " ".join(row.name for row in sorted(rows, key=lambda row: row.start)) == f"{SQUARE} {NEXT}"


@given(sizes=st.lists(st.integers(1, 9), max_size=30), n_max=st.sampled_from([1, 3, inf]))
def test_blocks_hold_every_thread_once_and_all_threads_of_the_jobs_in_them(sizes, n_max):
    columns = [[100 * job + thread for thread in range(size)] for job, size in enumerate(sizes)]
    found = [*blocks(columns, n_max)]
    assert sorted(row for block in found for row in block) == [row for column in columns for row in column]
    if n_max == 1:
        assert found == columns
    jobs = [{row // 100 for row in block} for block in found]
    assert all(max(before) < min(after) for before, after in pairwise(jobs))


def check(table, cpus, parameters=""):
    check_table(f"thread-matrix{parameters}", table, nodes=cpus)


def test_a_thread_whose_predecessor_has_ended_runs_at_once():
    check(cpus=1, table="""
        # job  submit project walltime runtime after | start end
          y      0      A        9       5      -    |   0    5
          x      0      A        9       5      y    |   5   10
    """)


def test_a_thread_whose_predecessor_runs_elsewhere_holds_its_processor_until_that_ends():
    check(cpus=2, parameters=":n_max=1", table="""
        # job  submit project walltime runtime after | start end
          y      0      A        9       5      -    |   0    5
          x      0      A        9       4      y    |   0    9    dangles until 5
          z      0      B        9       1      -    |   5    6    y's processor; x's is held
    """)


def test_while_a_thread_dangles_its_walltime_does_not_pass():
    check(cpus=2, table="""
        # job  submit project walltime runtime after | start end
          y      0      A        9       9      -    |   0    9
          x      0      A        4       6      y    |   0   13    killed after 4 s of progress
    """)


def test_a_predecessor_that_was_not_dispatched_gets_priority_and_the_thread_follows_it_on_its_processor():
    check(cpus=1, table="""
        # job  submit project walltime runtime after | start end
          x      0      A        9       2      y    |   3    5    the first of the line asks for y
          b      0      B        9       1      -    |   5    6
          y      0      C        9       3      -    |   0    3
    """)


def test_the_other_processors_go_on_with_the_line_while_a_predecessor_runs():
    check(cpus=2, parameters=":n_max=1", table="""
        # job  submit project walltime runtime after | start end
          x      0      A        9       2      y    |   3    5
          b      0      B        9       1      -    |   0    1
          c      0      C        9       9      -    |   1   10
          d      0      D        9       1      -    |   5    6    x took y's processor at 3
          y      0      E        9       3      -    |   0    3
    """)


def test_a_chain_of_three_runs_on_one_processor_the_last_one_first():
    check(cpus=2, parameters=":n_max=1", table="""
        # job  submit project walltime runtime after | start end
          x      0      A        9       1      y    |   5    6
          y      0      A        9       2      z    |   3    5
          b      0      B        9       9      -    |   0    9
          z      0      C        9       3      -    |   0    3
          d      0      D        9       1      -    |   6    7
    """)


def test_a_thread_behind_another_one_is_not_dispatched_yet_and_can_be_called_to_a_second_processor():
    check(cpus=2, parameters=":n_max=1", table="""
        # job  submit project walltime runtime after | start end
          w      0      A        9       1      z;y  |   4    5    follows z; at 4 y is over
          v      0      B        9       1      y    |   2    3    takes y to its own processor
          y      0      C        9       2      -    |   0    2
          z      0      C        9       4      -    |   0    4
          d      0      D        9       1      -    |   3    4
    """)


def test_a_thread_of_two_jobs_ago_holds_up_a_thread_that_runs_beside_it():
    check(cpus=3, table="""
        # job  submit project walltime runtime after | start end
          a      0      A        9       2      -    |   0    2
          b      0      B        9       3      a    |   0    5    dangles until 2
          c      0      C        9       1      b    |   0    6    dangles until 5
    """)


def test_a_thread_waits_until_all_that_it_comes_after_are_known():
    check(cpus=2, table="""
        # job  submit project walltime runtime after | start end eligible
          x      0      A        9       2      y    |  12   14     7    behind y on its processor
          y      7      A        9       5      -    |   7   12     7
    """)


def test_no_processor_is_idle_while_a_thread_waits():
    check(cpus=2, table="""
        # job  submit project walltime runtime | start end
          a1     0      A        9       4     |   0    4
          a2     0      A        9       4     |   1    5
          b1     0      B        9       1     |   0    1
    """)


def test_later_jobs_wait_for_the_next_block_unless_it_is_eager():
    lazy = """
        # job  submit project walltime runtime | start
          a1     0      A        9       2     |   0
          a2     0      A        9       2     |   2
          a3     0      A        9       2     |   4
          b1     1      B        9       2     |   6
          b2     1      B        9       2     |   8
          c1     3      C        9       2     |  10    after b2: b and c form one block of 2 columns, unless eager
    """
    mixed = lazy.replace("|   8", "|  10").replace("|  10    after", "|   8    after")
    check(cpus=1, table=mixed)
    check(cpus=1, parameters=":eager=true", table=lazy)


def test_of_several_predecessors_that_wait_only_the_first_goes_ahead_the_others_keep_their_turns():
    check(cpus=3, table="""
        # job  submit project walltime runtime after | start end
          r      0      A        9       1      a;b;c  |   5    6    asks for a, and follows it
          a      0      A        9       5      -      |   0    5
          b      0      A        9       5      -      |   0    5
          c      0      A        9       5      -      |   0    5
    """)


def test_the_next_predecessor_goes_ahead_where_its_turn_has_not_come():
    check(cpus=1, parameters=":n_max=1", table="""
        # job  submit project walltime runtime after | start end
          r      0      A        9       1      a;b    |   5    6    asks for a, then for b
          d      0      A        9       9      -      |   6   15
          a      0      B        9       2      -      |   0    2
          b      0      B        9       3      -      |   2    5
    """)


def test_a_chain_that_two_threads_end_in_goes_on_for_whoever_is_urgent():
    check(cpus=2, table="""
        # job  submit project walltime runtime after | start end
          x      0      A        9       1      b      |   4    7    dangles until 6: y has b on its processor
          y      0      A        9       1      b      |   6    7
          a      0      A        9       4      -      |   0    4
          b      0      A        9       2      a      |   0    6    taken from x at 0, dangles until 4
    """)


@pytest.mark.parametrize(("amount", "runtime", "expected"), [
    (2, 8, {"y": 0, "x": 8, "z": 0}),  # x is passed over until it is ready: its walltime then ends before the window
    (1, 30, {"y": 0, "x": 15, "z": 0}),  # y has the processor that is left, so x waits until the window is over
])
def test_a_thread_that_would_dangle_into_a_window_waits_and_others_go_on(amount, runtime, expected):
    jobs = [
        Job(row=0, name="y", submit=0, walltime=runtime * SECOND, runtime=runtime * SECOND, project="A"),
        Job(row=1, name="x", submit=0, walltime=SECOND, runtime=SECOND, project="A", after=(0,)),
        Job(row=2, name="z", submit=0, walltime=5 * SECOND, runtime=5 * SECOND, project="A"),
    ]
    window = Event(time=0, kind="window", nodes=(0,), resource=0, amount=amount, value=10 * SECOND, until=15 * SECOND)
    pool = Platform.pool(2)
    for rows in (
        world.run(jobs, pool, world.POLICIES["thread-matrix"], events=[window]),
        compiled.run(jobs, pool, "thread-matrix", events=[window]),
    ):
        assert {row.name: row.start // SECOND for row in rows} == expected
        assert all(len(row.runs) == 1 for row in rows)  # nothing is lost
