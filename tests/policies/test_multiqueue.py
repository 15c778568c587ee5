"""Multiple-queue backfilling by hand: what partitions, loans and priorities do to the starts."""

from tests.reference.table import check

# Six processors for three queues: walltimes to 5 s, to 20 s, and longer ones. Each has a partition of 2.
THREE = "multi-queue:bound1=20,bound2=5,bound3=inf,high=0.5"

# Tables keep the form in which they are easy to read.
# fmt: off


def test_what_comes_free_goes_to_the_queue_that_uses_less_than_its_partition():
    table = """
        # job  submit nodes walltime runtime | start
          p      0     4      60       60    |   0    two of them lent
          q      0     2      10       10    |   0
          l      1     2      60       60    | {l}    its queue has all of its partition
          s      2     2       5        5    | {s}    a short job
    """
    check(THREE, nodes=6, table=table.format(l=15, s=10))
    check("easy", nodes=6, table=table.format(l=10, s=60))


def test_a_job_starts_at_once_with_processors_that_others_do_not_need():
    check(THREE, nodes=6, table="""
        # job  submit nodes walltime runtime | start reason   promise
          a      0     5      60       60    |   0   head       -
          s      1     2       5        5    |  60   head       60       its partition is lent
          m      2     1      60       60    |   2   backfill   -        the head needs two of five then
    """)


def test_a_job_of_the_whole_machine_is_not_passed_for_ever():
    check(THREE, nodes=6, table="""
        # job  submit nodes walltime runtime | start
          a      0     3      30       30    |   0
          w      1     6       5        5    |  30
          b      2     3       5        5    |   2    over before w starts
          c      3     3      28       28    |  35    would end at 35
          d      4     3       5        5    |   7
    """)


def test_a_job_of_high_priority_goes_ahead_in_its_queue():
    check(THREE, nodes=6, table="""
        # job  submit nodes walltime runtime priority | start
          a      0     6      10       10       0     |   0
          x      1     6      10       10       0     |  20
          y      2     6      10       10       1     |  10
    """)


def test_every_queue_has_a_reservation():
    check(THREE, nodes=6, table="""
        # job  submit nodes walltime runtime | start promise
          a      0     6      30       30    |   0     -
          s      1     2       5        5    |  30    30
          m      2     2      20       20    |  30    30
          l      3     2      60       60    |  30    30
          t      4     2       5        5    |  35    35       behind s in its queue
    """)
# fmt: on
