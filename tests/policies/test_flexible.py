"""Flexible backfilling by hand: what each of the three priorities does to the order."""

from tests.reference.table import check

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
