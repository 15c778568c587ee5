"""Flexible backfilling by hand: what each of the three priorities does to the order."""

from backfill.model.units import SECOND
from tests import compiled
from tests.reference.table import check
from tests.reference.words import Job, Platform
from tests.reference.world import POLICIES, run

# Tables keep the form in which they are easy to read.
# fmt: off


def test_priorities_of_administrators_and_users_and_minutes_of_waiting_add_up():
    check("flexible", nodes=4, table="""
        # job  submit nodes walltime runtime admin_priority priority | start promise
          a      0     4     600      600           0           0    |   0     -
          b     60     4      60       60           0           3    | 660    600    3 + 9 min at 600 s
          c    120     4      60       60           8           0    | 600    600    8 + 8 min: takes the reservation
          d    540     4      60       60           0           6    | 720    720    6 + 1 min
    """)


def test_small_and_short_jobs_go_first_where_processors_and_walltime_weigh_against():
    check("flexible:w_wait=30,w_procs=-1,w_walltime=-600", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4      60       60    |   0
          b      1     4      60       60    |  90    -4 - 10, and half a point less for each second later
          c      3     3      60       60    | 150    -3 - 10 - 1: behind b, beside nobody
          d      5     2      30       30    |  60    -2 - 5 - 2
    """)


def test_a_job_that_was_bypassed_often_enough_goes_before_one_of_higher_priority():
    check("flexible:w_user=10,w_wait=0,w_bypass=4", nodes=4, table="""
        # job  submit nodes walltime runtime priority | start reason
          a      0     3     100      100       0     |   0   head
          w      0     4     100      100       0     | 200   head       4 points at 100 s: bypassed by b
          b      1     1      50       50       0     |   1   backfill
          c     60     4     100      100       0.5   | 100   head       5 points
    """)
    check("flexible:w_user=10,w_wait=0,w_bypass=4", nodes=4, table="""
        # job  submit nodes walltime runtime priority | start reason
          a      0     3     100      100       0     |   0   head
          w      0     4     100      100       0     | 100   head       8 points: bypassed by b and d
          b      1     1      50       50       0     |   1   backfill
          d     55     1      40       40       0     |  55   backfill
          c     60     4     100      100       0.5   | 200   head       5 points
    """)


def test_by_its_expansion_factor_a_short_job_overtakes_a_long_one_that_waits_longer():
    check("flexible:w_admin=-2,w_wait=0,w_xf=3,w_bypass=1.5", nodes=4, table="""
        # job  submit nodes walltime runtime admin_priority | start
          a      0     4     100      100           0       |   0
          b      0     4     100      100           0       | 120    3 x (1 + 100 / 100) = 6
          c     80     4      10       10           0       | 100    3 x (1 + 20 / 10) = 9
          d     80     4      10       10           1       | 110    9 - 2 = 7, and 10 at 110 s
    """)


def test_by_best_fit_the_largest_jobs_go_ahead_and_of_equal_ones_the_longest():
    check("flexible:backfill=best-fit", nodes=6, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     1     100      100    |   0   head
          h      1     6     100      100    | 100   head
          b      2     2      40       40    |  52   backfill
          c      2     3      50       50    | 200   head
          d      2     3      60       60    |   2   backfill   five are free: d is longer than c
          e      2     2      50       50    |   2   backfill   and longer than b
    """)


def test_greedy_starts_the_combination_that_fills_most():
    check("flexible:backfill=greedy", nodes=5, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     1     100      100    |   0   head
          h      1     5     100      100    | 100   head
          b      2     3      40       40    |  52   backfill   it would leave one of four nodes idle
          c      2     2      50       50    |   2   backfill
          d      2     2      50       50    |   2   backfill
    """)


def test_a_job_whose_wait_comes_near_its_target_is_urgent():
    check("flexible:w_wait=0,w_target_wait=1,target_wait=1", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4      55       55    |   0
          b     10     4      10       10    |  55    three quarters of its minute are over: 0.75 / 0.25^2 = 12
          c     20     4      10       10    |  65    35 of 60 s: 3.4; and 45 of 60 s at 65 s
    """)


def test_by_processor_equivalents_the_job_that_asks_for_most_of_any_resource_goes_first():
    demands = [(8, 10), (1, 60), (4, 10), (2, 90)]  # shares of 8 cpus and 100 units: 1, 0.6, 0.5, 0.9
    jobs = [
        Job(row=i, name=f"j{i}", submit=min(i, 1), tasks=1, demand=demand, walltime=10 * SECOND, runtime=10 * SECOND)
        for i, demand in enumerate(demands)
    ]
    name = "flexible:w_wait=0,w_pe=1"
    twin = run(jobs, Platform.pool(8, 100), POLICIES[name])
    assert [row.start for row in twin] == [0, 20 * SECOND, 10 * SECOND, 10 * SECOND]
    assert compiled.run(jobs, Platform.pool(8, 100), name) == twin
