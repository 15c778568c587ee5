"""Whole jobs of threads in partitions, and round robin: small cases by hand, for the twin and the compiled policies."""

import pytest

from backfill.model.units import SECOND
from tests import compiled

from . import world
from .limits import Limit
from .table import check as check_table
from .table import read, shown
from .words import Event, Job, Node, Platform

# Tables keep the form in which they are easy to read.
# fmt: off


def check(policy, table, cpus):
    check_table(policy, table, nodes=cpus)


WHOLE = """
        # job  submit project walltime runtime | start
          a1     0      A        9       4     |   0
          a2     0      A        9       6     |   0
          b1     0      B        9       2     |  {b}    B needs 3 processors, and one is idle
          b2     0      B        9       2     |  {b}
          b3     0      B        9       2     |  {b}
          c1     0      C        9       9     |  {c}
          d1     0      D        5       5     |  {d}
"""


def test_a_whole_job_starts_when_every_thread_has_a_processor_and_holds_them_to_its_last_end():
    check("partition-variable", WHOLE.format(b=6, c=8, d=8), cpus=3)


def test_whoever_fits_goes_ahead_by_first_fit():
    check("partition-variable:backfill=first-fit", WHOLE.format(b=11, c=0, d=6), cpus=3)


def test_whoever_delays_the_first_in_line_does_not_go_ahead_by_easy():
    table = WHOLE.replace("c1     0      C        9", "c1     0      C       10")
    check("partition-variable:backfill=easy", table.format(b=6, c=8, d=0), cpus=3)


def test_who_ends_with_the_reservation_goes_ahead_by_easy():
    check("partition-variable:backfill=easy", WHOLE.format(b=9, c=0, d=11), cpus=3)


def test_a_processor_is_free_with_its_thread_where_that_is_wanted():
    check("partition-variable:free=thread", """
        # job  submit project walltime runtime | start
          a1     0      A        9       4     |   0
          a2     0      A        9       6     |   0
          b1     0      B        9       2     |   4    a1's processor, and the third
          b2     0      B        9       2     |   4
    """, cpus=3)


def test_threads_that_come_after_others_run_in_the_partition_of_their_job():
    check("partition-variable", """
        # job  submit project walltime runtime after | start
          a1     0      A        9       4      -    |   0
          a2     0      A        9       6      a1   |   4    A holds two processors all along
          b1     0      B        9       2      -    |   0
          c1     0      C        9       2      -    |  10
          c2     0      C        9       2      -    |  10
    """, cpus=3)


def test_fixed_partitions_are_equal_and_a_small_job_leaves_the_rest_of_its_own_idle():
    check("partition-fixed:partitions=2", """
        # job  submit project walltime runtime | start
          a1     0      A        9       4     |   0
          b1     0      B        9       2     |   0
          b2     0      B        9       2     |   0
          b3     0      B        9       2     |   2    two processors for three threads
          c1     0      C        9       1     |   4    both B and A end then
    """, cpus=4)


def test_adaptive_partitions_share_what_is_idle_among_those_that_wait():
    check("partition-adaptive", """
        # job  submit project walltime runtime | start
          a1     0      A        9       3     |   0    4 processors for 2 jobs: 2 each
          a2     0      A        9       3     |   0
          a3     0      A        9       3     |   3
          b1     0      B        9       4     |   0
          b2     0      B        9       4     |   0
          c1     5      C        9       2     |   5    B is over: 2 processors for one job
          c2     5      C        9       2     |   5
    """, cpus=4)


def test_dynamic_partitions_are_equal_shares_that_follow_arrivals_and_ends():
    check("partition-dynamic", """
        # job  submit project walltime runtime | start
          a1     0      A        9       4     |   0    A is alone
          a2     0      A        9       6     |   0
          a3     0      A        9       4     |   0
          a4     0      A        9       6     |   0
          a5     0      A        9       3     |   6    A has more than its share until 4, and its share until 6
          b1     1      B        9       3     |   4    no thread is stopped for B
          b2     1      B        9       3     |   4
          b3     1      B        9       3     |   6    then A can use but one
    """, cpus=4)


def test_a_dynamic_partition_has_room_for_the_widest_thread_of_its_job():
    check("partition-dynamic", """
        # job  submit cpus project walltime runtime | start
          a1     0     1      A        9       2     |   0
          a2     0     1      A        9       2     |   2
          b1     0     3      B        9       2     |   0    needs three of four processors
          c1     0     1      C        9       2     |   2    three jobs need five
    """, cpus=4)


@pytest.mark.parametrize(
    "name", ["partition-fixed:partitions=2", "partition-variable", "partition-adaptive", "partition-dynamic"]
)
def test_a_wide_thread_that_is_over_needs_nothing_of_what_an_outage_left(name):
    jobs = [
        Job(row=row, name=each, submit=submit * SECOND, walltime=9 * SECOND, runtime=3 * SECOND, project=each[0],
            demand=(cpus,))
        for row, (each, submit, cpus) in enumerate([("a1", 0, 4), ("a2", 6, 1), ("b1", 6, 1)])
    ]
    outage = Event(time=5 * SECOND, kind="capacity", nodes=(0,), resource=0, value=2)
    for rows in both(jobs, Platform.pool(4), name, [outage]):
        assert [row.start // SECOND for row in rows] == [0, 6, 6]


def test_by_round_robin_who_has_run_for_a_quantum_leaves_for_who_waits():
    check("round-robin:quantum=2", """
        # job  submit project walltime runtime | start end
          a      0      A        9       5     |   8    9    runs 0 to 2, 4 to 6, 8 to 9
          b      0      B        9       4     |   6    8    runs 2 to 4, 6 to 8
    """, cpus=1)


def test_by_round_robin_nobody_leaves_while_nobody_waits():
    check("round-robin:quantum=2", """
        # job  submit project walltime runtime | start end
          a      0      A        9       9     |   0    9
          b      0      B        9       4     |   0    4
    """, cpus=2)


def test_a_thread_that_is_rejected_needs_no_processor():
    check("partition-variable", """
        # job  submit nodes project walltime runtime after | start
          a1     0      1     A        9       4      -    |   0
          a2     0      9     A        9       4      -    |   -    there are 3
          a3     0      1     A        9       4      a2   |   -    comes after one that is rejected
          b1     0      1     B        9       2      -    |   0
          b2     0      1     B        9       2      -    |   0
    """, cpus=3)


def test_a_thread_that_is_cancelled_before_it_waited_needs_no_processor():
    scenario = read("""
        # job  submit project walltime runtime after | start
          a1     0      A        9       9      -    |   0
          a2     0      A        9       9      a1   |   -
          b1     0      B        9       2      -    |   1    when a2 is cancelled
    """)
    cancel = Event(time=SECOND, kind="cancel", job=1)
    for rows in both(scenario.jobs, Platform.pool(2), "partition-variable:free=thread", [cancel]):
        assert {row.name: {"start": shown(row, "start")} for row in rows} == scenario.expected


def test_a_job_that_a_limit_holds_back_keeps_its_turn():
    jobs = [
        Job(row=row, name=name, submit=0, walltime=9 * SECOND, runtime=runtime * SECOND, project=name, user=user)
        for row, (name, runtime, user) in enumerate([("a", 5, 0), ("b", 3, 0), ("c", 2, 1), ("e", 1, 0)])
    ]
    one_each = Platform((Node((3,)),), limits=(Limit(per_user=True, running_jobs=1),))
    for rows in both(jobs, one_each, "partition-fixed:partitions=2"):
        assert {row.name: row.start // SECOND for row in rows} == {"a": 0, "b": 5, "c": 0, "e": 8}


def both(jobs, platform, policy, events=()):
    return (
        world.run(jobs, platform, world.POLICIES[policy], events=events),
        compiled.run(jobs, platform, policy, events=events),
    )
