"""The dead time of a pool: nodes are held longer than jobs run, and metrics know which is which."""

import pytest

import backfill as bf
from backfill.analysis.recorded import Recorded
from backfill.model.errors import UsageError
from backfill.model.units import SECOND
from backfill.policies import TABLE

ONE = {"job": [1, 2, 3], "submit": [0, 0, 0], "runtime": [10, 20, 5], "walltime": [20, 20, 20]}


def test_runs_follow_each_other_after_their_dead_time():
    log = bf.Workload.from_arrays(ONE).with_dead_time(3 * SECOND)
    result = bf.simulate(log, bf.Platform.pool(1), "fcfs")
    assert (result.schedule.start // SECOND).tolist() == [0, 13, 36]
    assert result.metrics["mean_wait_s"] == pytest.approx((13 + 36) / 3)
    assert result.metrics["mean_response_s"] == pytest.approx((10 + 33 + 41) / 3), "without what is held after the run"
    assert result.metrics["mean_slowdown"] == pytest.approx((1 + 33 / 20 + 41 / 5) / 3)
    assert result.metrics["utilization"] == pytest.approx(1.0), "the machine is held all the time"
    assert result.metrics["makespan_s"] == 44
    assert result.verify() == []


def test_the_same_jobs_are_killed():
    killed = {"job": [1, 2], "submit": [0, 0], "runtime": [21, 20], "walltime": [20, 20]}
    log = bf.Workload.from_arrays(killed)
    for each in (log, log.with_dead_time(5 * SECOND)):
        assert bf.simulate(each, bf.Platform.pool(1), "fcfs").metrics["killed_jobs"] == 1


def test_the_real_runs_of_a_log_are_without_it():
    log = bf.Workload.from_arrays({**ONE, "waited": [0, 13, 36]})
    held = [Recorded.of(each) for each in (log, log.with_dead_time(3 * SECOND))]
    assert (held[0].end == held[1].end).all()


def test_dead_times_add_up_and_none_changes_nothing():
    log = bf.Workload.from_arrays(ONE)
    assert log.with_dead_time(0) is log
    twice = log.with_dead_time(SECOND).with_dead_time(2 * SECOND)
    assert twice.dead_time == 3 * SECOND
    assert (twice.jobs.runtime - log.jobs.runtime).tolist() == [3 * SECOND] * 3
    with pytest.raises(UsageError, match="dead_time is -1; expected"):
        log.with_dead_time(-1)


@pytest.mark.parametrize(
    "policy", [name for name in ("fcfs", "easy", "conservative", "2tpb", "slack") if name in TABLE]
)
def test_schedules_with_a_dead_time_are_lawful(policy):
    log = bf.generate("lublin?jobs=150&cpus=32&seed=4").with_dead_time(60 * SECOND)
    result = bf.simulate(log, policy=policy)
    assert result.verify() == []
    assert result.to_dict()["options"]["dead_time_s"] == 60


def test_a_preempted_job_has_its_dead_time_once():
    columns = {"job": [1, 2, 3], "submit": [0, 0, 0], "runtime": [50, 100, 120], "walltime": [50, 100, 200]}
    log = bf.Workload.from_arrays({**columns, "procs": [2, 4, 2]}).with_dead_time(10 * SECOND)
    result = bf.simulate(log, bf.Platform.pool(4), "preemptive")
    assert result.metrics["requeues"] == 1
    first, second, third = (result.schedule.start // SECOND).tolist()
    assert (first, second, third) == (0, 60, 170)
    assert result.metrics["mean_response_s"] == pytest.approx((50 + 160 + 290) / 3)
    assert result.metrics["mean_wait_s"] == pytest.approx((60 + 110) / 3), "the lost run is no wait"
