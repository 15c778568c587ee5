"""The farm's schedulers by hand: who holds the reservation, and what each heuristic does to the order.

Where nothing else is said, P = 0.01 x wait + 0.1 (no deadline) + 2 x shortest walltime in the queue / walltime.
"""

from tests.reference.table import check
from tests.reference.words import Node, Platform

BY_DEADLINE = "bf-mod:w_aging=0,w_licences=0,w_wait=0"
BY_LICENCES = "bf-mod:w_aging=0,w_deadline=0,w_wait=0"

# Tables keep the form in which they are easy to read.
# fmt: off


def test_under_bf_mod_a_job_of_higher_priority_takes_the_reservation_over():
    check("bf-mod", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise
          a      0     4     100      100    |   0     -
          b      1     4     100      100    | 115    100     at 2 s: 0.01 + 0.1 + 2 x 10 / 100 = 0.31
          c      2     4      10       10    | 105    100     at 2 s: 0.1 + 2 = 2.1
          d      3     4       5        5    | 100    100     at 3 s: 2.1, and c 0.01 + 0.1 + 2 x 5 / 10 = 1.11
    """)


def test_under_bf_unmod_whoever_has_the_reservation_keeps_it_and_the_highest_priority_is_next():
    check("bf-unmod", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise
          a      0     4     100      100    |   0     -
          b      1     4     100      100    | 100    100     2.1 at 1 s, when it was alone
          c      2     4      10       10    | 205    205     at 100 s: 0.98 + 0.1 + 2 x 5 / 10 = 2.08
          d      3     4       5        5    | 200    200     at 100 s: 0.97 + 0.1 + 2 = 3.07
    """)


def test_a_deadline_that_is_far_counts_as_much_as_none_and_one_that_is_lost_counts_nothing():
    check(BY_DEADLINE, nodes=4, table="""
        # job  submit nodes walltime runtime deadline | start
          a      0     4     100      100        -    |   0
          x      1     4     100      100      150    | 500    0: would end at 200
          n      2     4     100      100        -    | 100    0.1
          f      3     4     100      100      331    | 200    0.1 at 100 s: urgent if it ends after 331 - 130 = 201
          g      4     4     100      100     1000    | 300    0.1
          m      5     4     100      100        -    | 400    0.1
    """)


def test_the_deadline_term_rises_from_1_3_walltimes_before_the_deadline_on():
    check(BY_DEADLINE, nodes=4, table="""
        # job  submit nodes walltime runtime deadline | start
          a      0     4     100      100        -    |   0
          n      1     4     100      100        -    | 210    0.1
          p      2     4     100      100      280    | 110    at 100 s: 0.1 + 9.9 / 130 x (200 - 150) = 3.91
          q      3     4      10       10      115    | 100    at 100 s: 0.1 + 9.9 / 13 x (110 - 102) = 6.19
    """)


def test_of_two_urgent_jobs_that_have_used_equal_shares_of_their_last_1_3_walltimes_the_earlier_goes_first():
    check(BY_DEADLINE, nodes=4, table="""
        # job  submit nodes walltime runtime deadline | start
          a      0     4     100      100        -    |   0
          p      1     4     100      100      280    | 100    (200 - 150) / 130 = 5 / 13
          q      2     4      10       10      118    | 200    (110 - 105) / 13 = 5 / 13
    """)
    check(BY_DEADLINE, nodes=4, table="""
        # job  submit nodes walltime runtime deadline | start
          a      0     4     100      100        -    |   0
          p      1     4     100      100      280    | 110    5 / 13
          q      2     4      10       10      117    | 100    (110 - 104) / 13 = 6 / 13
    """)


def test_a_deadline_that_can_only_just_be_met_goes_first_and_a_second_later_it_is_lost():
    check(BY_DEADLINE, nodes=4, table="""
        # job  submit nodes walltime runtime deadline | start
          a      0     4     100      100        -    |   0
          x      1     4     100      100      199    | 300    0
          n      2     4     100      100        -    | 200    0.1
          u      3     4     100      100      201    | 400    at 100 s: 0.1 + 9.9 / 130 x 129 = 9.92; lost at 200 s
          h      4     4     100      100      200    | 100    at 100 s: 10
    """)


def test_a_scarce_licence_counts_for_more_than_all_the_others_together():
    check(BY_LICENCES, platform=Platform((Node((4,)),), copies=(4, 1, 1, 1)), table="""
        # job  submit cpus walltime runtime licences | start
          a      0     4     100      100      -     |   0
          v      1     4      10       10    1;2;3   | 110    1 + 1 + 1 = 3, one copy asked of each one
          x      2     4      10       10    0;0;0   | 100    5 asked of 4 copies: 3 x 5 / 4 = 3.75
          y      3     4      10       10     0;0    | 120    3.75, and 2 / 4 without x
    """)


def test_licences_that_are_not_scarce_count_their_ratios_and_one_that_is_asked_for_in_full_is_not_scarce():
    check(BY_LICENCES, platform=Platform((Node((4,)),), copies=(1, 4, 4, 4, 1, 1)), table="""
        # job  submit cpus walltime runtime   licences   | start
          a      0     4     100      100       -        |   0
          z      1     4      10       10       -        | 140    0
          y      2     4      10       10       3        | 130    1 / 4
          x      3     4      10       10       0        | 120    1 / 1; were it scarce, 6 x 1
          v      4     4      10       10   1;1;1;2;2;2  | 110    3 / 4 + 3 / 4, once for each licence
          u      5     4      10       10      4;5       | 100    1 / 1 + 1 / 1
    """)


def test_a_job_takes_all_of_its_licences_or_none():
    check(BY_LICENCES, platform=Platform((Node((4,)),), copies=(1, 1)), table="""
        # job  submit cpus walltime runtime licences | start reason
          a      0     1      10       10      1     |   0   head
          b      1     1      10       10     0;1    |  10   head       holds no copy of 0 while it waits for 1
          c      2     1       5        5      0     |   2   backfill   gives it back before b needs it
          d      3     1      20       20      0     |  20   head       would still have it at 10
    """)


def test_a_job_goes_to_the_most_powerful_machine_that_may_host_its_licences():
    farm = Platform((Node((4,), hosts=frozenset({1})), Node((4,), hosts=frozenset({0, 1}))), copies=(2, 2, 1))
    check(BY_LICENCES, platform=farm, table="""
        # job  submit cpus walltime runtime licences | start place
          a      0     2      10       10      0     |   0    1*1
          b      1     4      10       10     0;1    |  10    1*1    machine 0 is free, and may not host 0
          c      2     4       9        9      1     |   2    0*1
          d      3     1       7        7      -     |   3    1*1    gone when b needs the machine
          e      4     1      50       50      2     |   -    -      no machine may host it
          f      5     4      10       10      -     |  11    0*1
    """)


def test_wait_minimisation_lets_the_shorter_go_first():
    check("bf-mod", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4     100      100    |   0
          b      1     4      30       30    | 130    at 100 s: 0.99 + 0.1 + 2 x 10 / 30 = 1.76
          c      2     4      10       10    | 100    at 100 s: 0.98 + 0.1 + 2 = 3.08
          d      3     4      20       20    | 110    at 100 s: 0.97 + 0.1 + 2 x 10 / 20 = 2.07
    """)


def test_by_aging_a_job_overtakes_one_half_as_long_that_came_100_seconds_later():
    check("bf-mod", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4    1000     1000    |    0
          b      1     4     100      100    | 1050    at 1000 s: 9.99 + 0.1 + 2 x 50 / 100 = 11.09
          c    100     4      50       50    | 1000    at 1000 s: 9 + 0.1 + 2 = 11.1
          d    102     4      50       50    | 1150    at 1000 s: 8.98 + 0.1 + 2 = 11.08
    """)
    check("bf-mod:age_factor=0,k=2,w_licences=3", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4    1000     1000    |    0
          b      1     4     100      100    | 1100    0.1 + 1, however long it waits
          c    100     4      50       50    | 1000    0.1 + 2
          d    102     4      50       50    | 1050    0.1 + 2
    """)
