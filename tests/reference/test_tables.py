"""Hand-worked scenarios: one behaviour each, with its answer on the screen."""

from .table import check
from .words import Node, Platform

# Tables keep the form in which they are easy to read.
# fmt: off


def test_the_first_job_that_does_not_fit_blocks_the_rest():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     3      10       10    |   0   head
          b      0     2      10       10    |  10   head
          c      0     1       1        1    |  10   head     one node is free all the time
    """)


def test_a_job_that_runs_beyond_its_walltime_is_killed():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime | start end
          a      0     4      10       25    |   0    10
          b      1     4      10        3    |  10    13
    """)


def test_a_job_that_can_never_fit_is_rejected_and_holds_up_nobody():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime | start end reason
          a      0     5      10       10    |   -    -   -
          b      0     4      10       10    |   0   10   head
    """)


def test_jobs_of_one_instant_are_queued_in_file_order_and_others_by_submit():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      5     4      10       10    |  25
          b      0     4      10       10    |   0
          c      0     4      10       10    |  10
          d      5     4      10       10    |  35
          e      4     4       5        5    |  20
    """)


def test_a_job_joins_the_queue_at_the_end_of_what_it_comes_after_at_the_place_of_its_submit():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime after | start eligible
          a      0     1      10       10     -    |   0      0
          b      0     1      10       10     a    |  10     10
          c      1     4      10       10     -    |  20      1     behind b, which was submitted earlier
          d      2     1      10       10     a;b  |  30     20
    """)


def test_a_job_after_a_rejected_one_is_rejected_too():
    check("fcfs", nodes=4, table="""
        # job  submit nodes walltime runtime after | start
          a      5     5      10       10     -    |   -
          b      0     1      10       10     a    |   -
          c      0     1      10       10     b    |   -
          d      0     1      10       10     -    |   0
    """)


def test_a_job_that_outlives_the_hole_waits_even_if_it_fits_now():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     3     100      100    |   0
          b      1     4      50       50    | 100    head: needs all nodes, shadow time 100
          c      2     1      98       98    |   2    ends exactly at the shadow time
          d      3     1      99       99    | 150    would end at 102, and extra nodes = 0
    """)


def test_a_long_job_takes_extra_nodes_and_uses_them_up():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     2      10       10    |   0   head
          b      1     3      10       10    |  10   head       at 10 it leaves one node
          c      1     1      50       50    |   1   backfill   which c takes
          d      1     1      50       50    |  20   head
    """)


def test_all_jobs_that_end_at_the_shadow_time_count_towards_the_extra_nodes():
    check("easy", nodes=5, table="""
        # job  submit nodes walltime runtime | start
          a      0     2      10       10    |   0
          b      0     2      10       10    |   0
          c      1     3       5        5    |  10    the end of a alone would do
          d      1     1      50       50    |   1    thanks to the end of b
    """)


def test_an_early_end_brings_the_head_forward():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise
          a      0     3     100       20    |   0     -
          b      1     4      10       10    |  20   100
    """)


def test_easy_lets_a_job_delay_those_behind_the_head():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     3      10       10    |   0
          b      1     3      10       10    |  10
          c      1     4       5        5    |  31    could have started at 20
          d      1     1      30       30    |   1    in the extra node
    """)


def test_a_job_that_outlives_its_estimate_counts_as_ending_now():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime estimate | start promise
          a      0     3      20       20      10     |   0     -
          b      1     4       5        5       5     |  20    10
          c      1     1       9        9       9     |   1     -
          d     11     1       5        5       5     |  25    25     shadow time 11, extra nodes = 0
    """)


def test_a_job_that_may_overrun_stays_and_its_limit_counts_as_now():
    check("easy", nodes=4, overrun="extend", table="""
        # job  submit nodes walltime runtime | start end
          a      0     3      10       25    |   0    25
          b      1     4       5        5    |  25    30
          c      1     1      20       20    |  30    50
    """)


def test_the_limit_of_a_job_that_overruns_is_an_event():
    check("easy", nodes=4, overrun="extend", table="""
        # job  submit nodes walltime runtime | start
          a      0     2      10       50    |   0
          x      0     1      12       50    |   0
          b      1     3       5        5    |  50    shadow time 10, then always now
          c      1     1     100      100    |  12    both count as ending at 12: one extra node
    """)


def test_an_order_sorts_the_whole_queue():
    check("easy-sjf", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     4      10       10    |   0
          b      1     4       8        8    |  15
          c      2     4       5        5    |  10    the shortest is the head
    """)


def test_sjbf_keeps_the_head_and_tries_the_rest_shortest_first():
    check("easy-sjbf", nodes=4, table="""
        # job  submit nodes walltime runtime | start
          a      0     3      20       20    |   0
          b      1     4       5        5    |  20    head by submit
          c      1     1      10       10    |   7
          d      1     1       6        6    |   1    shorter than c
    """)


def test_the_highest_priority_goes_first():
    check("easy-priority", nodes=4, table="""
        # job  submit nodes walltime runtime priority | start
          a      0     4      10       10       0     |   0
          b      1     4      10       10       1     |  20
          c      2     4      10       10       2     |  10
          d      3     4      10       10       1     |  30    ties by submit
    """)


def test_without_reservations_all_that_fits_starts_and_a_wide_job_starves():
    check("first-fit", nodes=4, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     3      10       10    |   0   head
          b      1     4       5        5    |  40   head
          c      1     1      20       20    |   1   fit
          d      2     3      30       30    |  10   fit
    """)


def test_reservations_protect_the_second_blocked_job_too():
    check("k-reservations", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise
          a      0     3      10       10    |   0     -
          b      1     3      10       10    |  10    10
          c      1     4       5        5    |  20    20
          d      1     1      30       30    |  25    25
    """)


def test_two_reservations_do_not_protect_the_third_blocked_job():
    check("k-reservations:k=2", nodes=4, table="""
        # job  submit nodes walltime runtime | start reason
          a      0     3      10       10    |   0   head
          b      1     3      10       10    |  10   head
          c      1     3      10       10    |  20   head
          d      1     4       5        5    | 101   head
          e      1     1     100      100    |   1   backfill
    """)


def test_nobody_may_delay_a_reservation():
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     3      10       10    |   0     0     head
          b      1     3      10       10    |  10    10     head
          c      1     4       5        5    |  20    20     head
          d      1     1      30       30    |  25    25     head
          e      2     1       8        8    |   2     2     backfill
    """)


def test_an_early_end_moves_reservations_up_in_queue_order():
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     4     100       30    |   0     0     head
          b      1     4      10       10    |  30   100     moved-up
          c      2     4      10       10    |  40   110     head
    """)


def test_an_exact_end_moves_reservations_up_as_well():
    # At 30 x ends early: a looks first, b is in its way until 100; then b moves to 30. At 60 y ends exactly at its
    # limit, nothing is given back, but a looks again and finds the place that b has left.
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise reason
          x      0     3     100       30    |   0     0     head
          y      0     1      60       60    |   0     0     head
          a      1     4      50       50    |  70   100     head
          b      2     1      40       40    |  30    60     moved-up
    """)


def test_compression_is_one_round_so_a_new_job_may_take_what_a_later_one_left():
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise reason
          x      0     3     100       30    |   0     0     head
          y      0     1      60       60    |   0     0     head
          a      1     4      50       50    | 100   100     head       a second round at 30 would promise 70
          b      2     1      40       40    |  30    60     moved-up
          c     35     4      30       30    |  70    70     reserved   in the hole before a
    """)


def test_refreshed_every_7_seconds_freed_capacity_serves_new_jobs_until_then():
    # At 33 b ends early, 3 s after the refresh at 30; d takes what is free then, and c moves up at 37.
    check("conservative:every=7", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     4     100       30    |   0     0     head
          b      1     4      10        3    |  30   100     moved-up
          c      2     4      10       10    |  37   110     moved-up
          d     34     1       2        2    |  34    34     backfill
    """)


def test_a_job_whose_place_is_held_beyond_an_estimate_is_tried_again_at_the_next_pass():
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime estimate | start promise reason
          a      0     1      40       20      40     |   0     0     head
          b      0     2      30       30      10     |   0     0     head
          c      1     2      10       10      10     |  20    10     head    b is still there at 10, a leaves at 20
    """)


def test_an_overrun_breaks_a_promise_and_the_job_is_tried_again_at_each_pass():
    check("conservative", nodes=4, overrun="extend", table="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     4      10       25    |   0     0     head
          b      1     4       5        5    |  25    10     head
    """)


def test_jobs_of_walltime_zero_do_not_ask_for_a_pass_in_every_time_unit_of_an_overrun():
    check("conservative", nodes=4, overrun="extend", table="""
        # job  submit nodes walltime runtime | start promise   reason
          a      0     4      10       25    |   0     0       head
          b      1     4       0        0    |  25    10       head
          c      1     4       0        0    |  25    10.000001 moved-up
    """)


def test_a_promise_that_an_overrun_breaks_is_tried_at_every_pass():
    # At 10 b no longer fits in front of c and goes behind it, without asking for a pass; at 15 c breaks as well and
    # b, which comes first in the queue, goes first. At 25 a ends.
    check("conservative", nodes=4, overrun="extend", table="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     4      10       25    |   0     0     head
          b      1     4       5        5    |  25    10     head
          c      2     4       5        5    |  30    15     head
    """)


def test_a_job_of_zero_run_time_ends_in_a_batch_of_its_own():
    check("easy", nodes=4, table="""
        # job  submit nodes walltime runtime | start end promise
          a      0     4      10        0    |   0     0    -
          b      0     4      10       10    |   0    10   10     promised in the first pass, started in the second
    """)


def test_a_walltime_of_zero_is_booked_so_that_its_promise_can_be_kept():
    check("conservative", nodes=4, table="""
        # job  submit nodes walltime runtime | start promise   reason
          a      0     4      10       10    |   0     0       head
          b      1     4       0        0    |  10    10       head
          c      1     4       5        5    |  10    10.000001 moved-up
    """)


def test_in_batch_an_end_comes_before_a_submit_of_the_same_instant():
    check("easy", nodes=4, ties="batch", table="""
        # job  submit nodes walltime runtime | start
          a      0     3      20       10    |   0
          b      1     4       5        5    |  10
          c     10     1       8        8    |  15
    """)


def test_in_step_a_submit_comes_before_an_early_end_of_the_same_instant():
    check("easy", nodes=4, ties="step", table="""
        # job  submit nodes walltime runtime | start
          a      0     3      20       10    |   0
          b      1     4       5        5    |  18
          c     10     1       8        8    |  10    backfilled while a still seems to run until 20
    """)


def test_in_step_a_job_that_ends_at_its_limit_is_gone_before_its_end():
    check("easy", nodes=4, ties="step", table="""
        # job  submit nodes walltime runtime | start reason
          a      0     3      10       10    |   0   head
          b      1     4       5        5    |  10   head
          c     10     1       8        8    |  15   head
    """)


def test_a_long_job_may_run_beside_the_head_on_another_node():
    check("easy", platform=Platform((Node((4,)), Node((2,)))), table="""
        # job  submit nodes walltime runtime spread | start place
          a      0     3      10       10     node  |   0    0*3
          b      1     4       5        5     node  |  10    0*4
          c      1     1      50       50     any   |   1    1*1    no extra processor where b will be
          d      1     1       9        9     any   |   1    0*1
    """)


def test_the_reservation_of_a_gang_leaves_extra_processors_on_each_of_its_nodes():
    check("easy", platform=Platform((Node((3,)), Node((3,)))), table="""
        # job  submit nodes walltime runtime | start place
          a      0     2      10       10    |   0    0*2
          x      0     2     100      100    |   0    0*1;1*1
          y      0     1      10       10    |   0    1*1
          b      1     3       5        5    |  10    0*2;1*1    leaves none on node 0 and one on node 1
          c      1     1      50       50    |   1    1*1
    """)


def test_the_reservation_of_a_gang_may_take_all_of_its_nodes():
    check("easy", platform=Platform((Node((3,)), Node((3,)))), table="""
        # job  submit nodes walltime runtime | start place
          a      0     2      10       10    |   0    0*2
          x      0     2     100      100    |   0    0*1;1*1
          y      0     1      10       10    |   0    1*1
          b      1     4       5        5    |  10    0*2;1*2
          c      1     1      50       50    |  15    0*1
    """)


def test_a_constraint_binds_a_job_to_nodes_with_features():
    nodes = (Node((4,), features=("old",)), Node((4,), features=("gpu", "ssd")), Node((4,), features=("gpu",)))
    check("easy", platform=Platform(nodes), table="""
        # job  submit nodes walltime runtime constraint | start reason   place
          a      0     2      10       10     gpu       |   0   head     1*2
          b      0     4      10       10     gpu&ssd   |  10   head     1*4
          c      0     4      10       10     gpu&!ssd  |   0   backfill 2*4
          d      0     3       5        5     -         |   0   backfill 0*3
          e      0     2       5        5     old|ssd   |   0   backfill 0*1;1*1
          f      0     1       5        5     tape      |   -   -        -
    """)  # fmt: skip


def test_a_gang_stays_on_one_site_if_its_rule_says_so():
    check("fcfs", platform=Platform((Node((2,), site=0), Node((2,), site=1), Node((2,), site=1))), table="""
        # job  submit nodes walltime runtime spread site | start place
          a      0     1      10       10     site   -   |   0   0*1
          b      0     2      10       10     site   -   |   0   1*2
          c      0     2       5        5     site   0   |  10   0*2
          d      0     3       5        5     site   -   |  10   1*2;2*1
          e      0     3       5        5     node   -   |   -   -
    """)


def test_a_long_job_may_not_take_the_licence_that_the_head_waits_for():
    check("easy", platform=Platform((Node((4,)),), copies=(2,)), table="""
        # job  submit nodes walltime runtime licences | start
          a      0     1      10       10      0      |   0
          b      1     1       5        5      0;0    |  10
          c      1     1      50       50      0      |  15
          d      1     1       9        9      0      |   1
          e      1     1      50       50      -      |   1
    """)


def test_a_reservation_is_the_earliest_over_all_nodes_and_prefers_the_more_powerful():
    check("conservative", platform=Platform((Node((2,)), Node((2,)), Node((2,)))), table="""
        # job  submit nodes walltime runtime spread | start place promise
          a      0     2      20       20     node  |   0    0*2    0
          b      0     2      10       10     node  |   0    1*2    0
          c      0     2      10       10     node  |   0    2*2    0
          d      1     2      10       10     node  |  10    1*2   10
          e      1     2      10       10     node  |  10    2*2   10
          f      1     2      10       10     node  |  20    0*2   20
    """)


def test_a_gang_runs_as_slowly_as_the_slowest_of_its_nodes():
    check("fcfs", platform=Platform((Node((1,), speed=2.0), Node((1,), speed=0.5))), table="""
        # job  submit nodes walltime runtime | start end
          a      0     2     100       10    |   0    20
          b      0     1     100       10    |  20    25
    """)


def test_jobs_that_are_set_free_in_one_instant_get_their_places_in_queue_order():
    check("conservative", nodes=8, table="""
        # job  submit nodes walltime runtime after | start promise
          a      0     1       4        4      -   |   0    0
          b      1     1       3        3      -   |   1    1
          c      2     6      10       10      b   |   4    4     b ends with a, though it started later
          d      3     3      10       10      a   |  14   14
    """)
