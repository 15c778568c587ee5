"""The gang matrix by hand: rows take turns, and a job that has one of two rows takes twice as long."""

import numpy as np
import pytest

import backfill as bf
from backfill.core.policy import Policy
from backfill.core.verbs import HEAD, head, place, run_in, start
from backfill.model.errors import PolicyError, UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.policies.gangmatrix import PARAMS
from backfill.worlds.simulated import simulate
from tests.reference.table import check
from tests.reference.world import POLICIES

# Tables keep the form in which they are easy to read.
# fmt: off

TWO_ROWS = "gang-matrix:mpl=2,switch=0"
PLAIN = "gang-matrix:mpl=2,switch=0,repack=false,alternative=false"
assert {TWO_ROWS, PLAIN} <= {*POLICIES}


def test_two_jobs_of_the_whole_machine_take_turns_until_one_has_ended():
    check(TWO_ROWS, nodes=4, table="""
        # job  submit nodes walltime runtime | start end reason
          a      0     4     200      100    |   0   150   head    half of the time until 100, then all of it
          b      0     4     200       50    |   0   100   head
    """)


def test_a_third_job_finds_no_row_and_waits():
    check(TWO_ROWS, nodes=4, table="""
        # job  submit nodes walltime runtime | start end
          a      0     4     200      100    |   0   200
          b      0     4     200       50    |   0   100
          c      0     4     200       50    | 100   200
          d      0     1     200       10    | 200   210    first come first served
    """)


def test_a_switch_costs_a_share_of_each_turn():
    check("gang-matrix:mpl=2", nodes=4, table="""
        # job  submit nodes walltime runtime | start end
          a      0     4     200       95    |   0   200    190 of 200 s, shared by two
          b      0     4     200       95    |   0   200
          c    300     4     200       95    | 300   395    alone, it is not switched
    """)


def test_a_job_runs_in_the_turns_of_other_rows_while_its_processors_are_idle_there():
    table = """
        # job  submit nodes walltime runtime | start end
          a      0     3     200      100    |   0   200
          b      0     3     200      100    |   0   200
          c      0     1     200      100    |   0   {end}
    """
    check(TWO_ROWS, nodes=4, table=table.format(end=100))
    check(PLAIN, nodes=4, table=table.format(end=200))


def test_jobs_move_into_one_row_as_soon_as_they_fit():
    table = """
        # job  submit nodes walltime runtime | start end
          a      0     2     200      100    |   0   {end}
          b      0     2     200       50    |   0   100
          c      0     2     200      100    |   0   {end}
          d      0     2     200       50    |   0   100
    """
    check("gang-matrix:mpl=2,switch=0,alternative=false", nodes=4, table=table.format(end=150))
    check(PLAIN, nodes=4, table=table.format(end=200))


def test_the_walltime_limits_what_a_job_has_computed():
    check(TWO_ROWS, nodes=4, table="""
        # job  submit nodes walltime runtime | start end
          a      0     4      60      100    |   0   120    killed when it has computed for 60 s
          b      0     4     100      100    |   0   160
    """)


def test_the_head_reserves_in_the_row_where_it_may_start_first():
    check("gang-matrix-backfill:mpl=2,switch=0", nodes=4, table="""
        # job  submit nodes walltime runtime | start end promise reason
          a      0     3     100      100    |   0   160   -      head
          b      0     3      50       50    |   0   100   -      head
          h      0     4      10       10    | 100   120   100    head       in the row of b, after 2 x 50 s
          c      0     1      50       50    |   0    50   -      backfill   ends by then at the slowest pace
          d      0     1      60       60    |  50   120   -      backfill   beside a: it may stay for 120 s
    """)


def test_memory_is_held_by_the_jobs_of_all_rows_at_once():
    log = Workload(Jobs(
        job=np.array([1, 2]), submit=np.zeros(2, np.int64), runtime=np.full(2, 100) * SECOND,
        walltime=np.full(2, 100) * SECOND, tasks=np.ones(2, np.int64), demand=np.array([[4, 6], [4, 6]]),
    ), resources=("cpus", "memory"))
    start = bf.simulate(log, Platform.pool(4, memory=11), "gang-matrix").schedule.start
    assert start.tolist() == [0, 100 * SECOND]
    start = bf.simulate(log, Platform.pool(4, memory=12), "gang-matrix").schedule.start
    assert start.tolist() == [0, 0]


def test_metrics_count_the_turns_of_a_job_and_its_run_time_alone():
    log = bf.Workload.from_arrays(
        {"job": [1, 2], "submit": [0, 0], "runtime": [100, 50], "cpus": [4, 4], "walltime": [200, 200]}
    )
    result = bf.simulate(log, Platform.pool(4), "gang-matrix:mpl=2,switch=0")
    found = result.metrics
    wanted = {"utilization": 1, "makespan_s": 150, "mean_wait_s": 0, "mean_response_s": 125, "lost_cpu_hours": 0}
    wanted |= {"mean_slowdown": (1.5 + 2) / 2, "mean_running_jobs": 250 / 150}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert result.verify() == []


# fmt: on


def test_a_log_of_which_no_job_runs_has_metrics():
    log = {"job": [1], "submit": [0], "runtime": [5], "cpus": [9], "walltime": [5], "deadline": [100]}
    found = bf.simulate(bf.Workload.from_arrays(log), Platform.pool(4), "gang-matrix").metrics
    assert (found["rejected_jobs"], found["system_usage"]) == (1, None)


def test_a_switch_takes_less_than_a_turn():
    log = bf.generate("lublin?jobs=5&cpus=64")
    with pytest.raises(UsageError, match="switch is 10; expected less than quantum, 5 s"):
        bf.simulate(log, policy="gang-matrix:quantum=5")


def test_events_that_take_some_cpus_of_a_node_are_refused():
    log = bf.generate("lublin?jobs=5&cpus=64")
    event = [{"time": 5, "event": "capacity", "resource": "cpus", "value": 2}]
    told = "policy gang-matrix with mpl=5: a capacity event takes away some cpus of a node"
    with pytest.raises(UsageError, match=told):
        bf.simulate(log, policy="gang-matrix", events=event)
    assert bf.simulate(log, policy="gang-matrix:mpl=1", events=event).verify() == []


def test_a_job_with_nodes_of_its_own_is_refused():
    log = bf.generate("lublin?jobs=5&cpus=64")
    with pytest.raises(UsageError, match="policy gang-matrix with mpl=5 lets jobs share nodes in turns"):
        bf.simulate(log, Platform.pool(64), policy="gang-matrix:place=exclusive")


def test_waits_are_not_explained():
    log = bf.generate("lublin?jobs=5&cpus=64")
    with pytest.raises(UsageError, match="policy gang-matrix: jobs share processors in turns"):
        bf.simulate(log, policy="gang-matrix").explain("1")


def starts_then(turn):
    def decide(state):
        job = head(state)
        if job >= 0 and place(state, job):
            start(state, job, HEAD)
            turn(state, job)

    return decide


@pytest.mark.parametrize(
    ("decide", "told"),
    [
        (lambda state: run_in(state, 0, 1, 2), "lets job 1 run in rows, which does not run"),
        (starts_then(lambda state, job: run_in(state, job, 4, 2)), r"in rows 100 \(as bits\) of 2; expected .* 5 rows"),
        (starts_then(lambda state, job: run_in(state, job, 1, 6)), r"in rows 1 \(as bits\) of 6; expected .* 5 rows"),
        (starts_then(lambda state, job: run_in(state, job, 0, 1)), r"in rows 0 \(as bits\) of 1"),
    ],
)
def test_turns_that_there_are_not_are_told_with_the_job(decide, told):
    mine = Policy("mine", decide, compiled=False, shares=True, params=PARAMS)
    log = bf.generate("lublin?jobs=2&cpus=64")
    with pytest.raises(PolicyError, match=told):
        simulate(log, Platform.pool(64), mine)


def test_who_shares_says_so():
    log = bf.generate("lublin?jobs=2&cpus=64")
    mine = Policy("mine", starts_then(lambda state, job: run_in(state, job, 1, 1)), compiled=False)
    with pytest.raises(PolicyError, match=r"expected @policy\(..., shares=True\) and mpl above 1"):
        simulate(log, Platform.pool(64), mine)
    with pytest.raises(PolicyError, match="policy mine shares processors; expected the parameters mpl, quantum"):
        Policy("mine", lambda state: None, shares=True)


def test_a_result_says_that_waits_alone_do_not_compare_runs_that_share_processors():
    jobs = Jobs(
        job=np.arange(2), submit=np.zeros(2, np.int64), runtime=np.full(2, 100 * SECOND),
        walltime=np.full(2, 100 * SECOND), tasks=np.full(2, 4), demand=np.ones((2, 1), np.int64),
    )  # fmt: skip
    log, platform = Workload(jobs), Platform.pool(4)
    told = (
        "gang-matrix: runs share processors in turns, so they take longer than alone; compare responses and "
        "slowdowns, not waits"
    )
    assert bf.simulate(log, platform, "gang-matrix").notes == [told]
    assert bf.simulate(log, platform, "easy").notes == []
