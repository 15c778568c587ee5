import math
from dataclasses import replace

import numpy as np
import pytest

from backfill.analysis.metrics import Counted, Trim, in_common, metrics
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.schedule import BACKFILL, CANCELLED, COMPLETED, FIT, HEAD, NODE_FAIL, PREEMPTED
from backfill.model.units import SECOND, TIME_MAX

from .by_hand import oracle, scheduled, several, times, workload

POOL = Platform.pool(4)

NAMES = """jobs mean_wait_s median_wait_s p95_wait_s max_wait_s mean_response_s mean_slowdown mean_bounded_slowdown
utilization makespan_s throughput_jobs_per_h mean_running_jobs max_queue backfilled_jobs killed_jobs rejected_jobs"""


def test_a_schedule_worked_out_by_hand():
    #       submit runtime cpus | start end | wait  response/run, bounded by 10 s
    #   a      0     20      4  |   0    20 |   0   1      1
    #   b     10     10      2  |  20    30 |  10   2      2
    #   c     10      5      2  |  20    25 |  10   3      1.5
    #   d     12      5      9  | rejected
    log = workload([0, 10, 10, 12], [20, 10, 5, 5], cpus=[4, 2, 2, 9])
    got = metrics(log, POOL, scheduled(log, POOL, [0, 20, 20, None], reason=np.array([HEAD, FIT, BACKFILL, -1])))
    assert got == {
        "jobs": 3,
        "mean_wait_s": 20 / 3,
        "median_wait_s": 10.0,
        "p95_wait_s": 10.0,
        "max_wait_s": 10.0,
        "mean_response_s": 55 / 3,
        "mean_slowdown": 2.0,
        "mean_bounded_slowdown": 1.5,
        "utilization": (20 * 4 + 10 * 2 + 5 * 2) / (4 * 30),
        "makespan_s": 30.0,
        "throughput_jobs_per_h": 360.0,
        "mean_running_jobs": 35 / 30,
        "max_queue": 2,
        "backfilled_jobs": 1,
        "killed_jobs": 0,
        "rejected_jobs": 1,
    }


@pytest.mark.parametrize("starts", [[], [None, None]])
def test_where_no_job_ran_counts_are_zero_and_the_rest_is_none_never_nan(starts):
    log = workload([0.0] * len(starts), [1.0] * len(starts), cpus=[9] * len(starts))
    got = metrics(log, POOL, scheduled(log, POOL, starts))
    assert list(got) == NAMES.split()
    counts = {"jobs": 0, "max_queue": 0, "backfilled_jobs": 0, "killed_jobs": 0, "rejected_jobs": len(starts)}
    assert {name: value for name, value in got.items() if value is not None} == counts


def test_a_run_of_zero_length_is_left_out_of_the_slowdown_but_not_of_the_bounded_one():
    log = workload([0, 0], [30, 0], cpus=[4, 4])
    got = metrics(log, POOL, scheduled(log, POOL, [0, 30]))
    assert got["mean_slowdown"] == 1.0
    assert got["mean_bounded_slowdown"] == (1 + 30 / 10) / 2


def test_a_run_without_any_length_has_no_rates():
    log = workload([5], [0])
    got = metrics(log, POOL, scheduled(log, POOL, [5]))
    assert got["makespan_s"] == 0.0
    assert (got["utilization"], got["throughput_jobs_per_h"], got["mean_slowdown"]) == (None, None, None)


def test_a_killed_job_counts_with_the_time_it_really_held():
    log = workload([0], [100], walltime=[40], cpus=[4])
    got = metrics(log, POOL, scheduled(log, POOL, [0]))
    assert (got["killed_jobs"], got["makespan_s"], got["utilization"]) == (1, 40.0, 1.0)


def test_the_wait_begins_when_the_job_is_eligible():
    log = workload([0, 0], [50, 10], after=[[], [0]])
    schedule = scheduled(log, POOL, [0, 60], eligible=times([0, 50]))
    got = metrics(log, POOL, schedule)
    assert (got["max_wait_s"], got["mean_response_s"], got["max_queue"]) == (10.0, (50 + 20) / 2, 1)


def test_a_job_that_starts_when_the_next_is_submitted_is_not_in_the_queue_with_it():
    log = workload([0, 1, 2], [9, 9, 9])
    assert metrics(log, POOL, scheduled(log, POOL, [1, 2, 3]))["max_queue"] == 1
    assert metrics(log, POOL, scheduled(log, POOL, [1, 3, 3]))["max_queue"] == 2
    assert metrics(log, POOL, scheduled(log, POOL, [0, 1, 2]))["max_queue"] == 0


def test_waits_add_up_exactly_where_64_bits_would_overflow():
    log = workload([0.0] * 100, [1.0] * 100)
    start = TIME_MAX - np.arange(100)
    assert int(start.sum()) < 0  # the plain sum wraps
    schedule = replace(scheduled(log, POOL, [0.0] * 100), start=start, end=start + SECOND)
    assert metrics(log, POOL, schedule)["mean_wait_s"] == sum(start.tolist()) / (100 * SECOND)


@pytest.mark.parametrize(
    ("warmup", "cooldown", "kept"),
    [
        ("0", "0", "abcde"),
        ("2", "0", "bce"),  # in submit order, not in file order: d and a go
        ("0", "1", "abcd"),
        ("10s", "0", "abce"),  # d was submitted at 0, a at 10
        ("00:00:11", "0", "bce"),
        ("0", "10s", "abcd"),
        ("2", "2", "b"),  # b and c were submitted at once; c is later in the file
        ("9", "9", ""),
        ("1d", "0", ""),
    ],
)
def test_warmup_and_cooldown_leave_jobs_out_of_every_metric(warmup, cooldown, kept):
    log = workload([10, 20, 20, 0, 35], [1, 2, 4, 8, 16])
    schedule = scheduled(log, Platform.pool(9), [10, 20, 20, 0, 35])
    runs = dict(zip("abcde", [1, 2, 4, 8, 16], strict=True))
    got = metrics(log, POOL, schedule, warmup=Trim.parse(warmup), cooldown=Trim.parse(cooldown))
    expected = sum(runs[job] for job in kept) / len(kept) if kept else None
    assert (got["jobs"], got["mean_response_s"]) == (len(kept), expected)


def test_a_rejected_job_that_is_left_out_is_not_counted():
    log = workload([0, 5], [1, 1], cpus=[9, 1])
    schedule = scheduled(log, POOL, [None, 5])
    assert metrics(log, POOL, schedule, warmup=Trim(jobs=1))["rejected_jobs"] == 0


@pytest.mark.parametrize(
    ("text", "trim"),
    [
        ("200", Trim(jobs=200)),
        (" 0 ", Trim()),
        ("2d", Trim(span=2 * 86_400 * SECOND)),
        ("1-12:00:00", Trim(span=36 * 3600 * SECOND)),
        ("200s", Trim(span=200 * SECOND)),
    ],
)
def test_a_whole_number_is_jobs_and_a_unit_or_colon_makes_a_span(text, trim):
    assert Trim.parse(text) == trim


@pytest.mark.parametrize("text", ["", "1.5", "-3", "two days", "²"])
def test_what_is_neither_jobs_nor_a_span_is_a_usage_error(text):
    with pytest.raises(UsageError, match="expected a number of jobs or a span of time"):
        Trim.parse(text)


@pytest.mark.parametrize(
    ("log", "policy", "wait", "bounded", "tolerance"),
    [
        ("kth", "easy.pyss", 6836.872090165373, 92.576539733629, 1e-13),
        ("kth", "conservative.pyss", 7310.5512, 88.997275, 1e-8),
        ("kth", "fcfs.pyss", 353776, 6814.97, 2e-6),
        ("sdsc", "easy.pyss", 20497.761, 87.8703, 1e-6),
        ("sdsc", "conservative.pyss", 21889.3020, 89.656291, 1e-8),
    ],
)
def test_published_means_come_out_of_published_schedules(log, policy, wait, bounded, tolerance):
    got = metrics(*oracle(log, policy))
    assert math.isclose(got["mean_wait_s"], wait, rel_tol=tolerance)
    assert math.isclose(got["mean_bounded_slowdown"], bounded, rel_tol=tolerance)


# runs


def test_jobs_that_ran_more_than_once_worked_out_by_hand():
    #       submit runtime cpus | runs                          | response wait run  slowdown, bounded by 10 s
    #   a      0     20      2  | 0-6 lost, 16-36               |    36     10  20   1.8       1.8
    #   b      4     12      2  | 6-10 preempted, 4 kept, 16-24 |    20      8  12   5/3       5/3
    #   c      5     30      4  | 40-45 cancelled
    #   d      6      9      1  | 10-13 lost with its node for good
    #   e      7      9      4  | cancelled before it started
    log = workload([0, 4, 5, 6, 7], [20, 12, 30, 9, 9], cpus=[2, 2, 4, 1, 4])
    state = np.array([COMPLETED, COMPLETED, CANCELLED, NODE_FAIL, CANCELLED])
    schedule = several(
        scheduled(log, POOL, [0, 6, 40, 10, None], state=state, rejected_for=np.array([""] * 5, object)),
        (0, 0, 6, NODE_FAIL), (0, 16, 36, COMPLETED), (1, 6, 10, PREEMPTED), (1, 16, 24, COMPLETED),
        (2, 40, 45, CANCELLED), (3, 10, 13, NODE_FAIL),
    )  # fmt: skip
    held = (6 + 20) * 2 + (4 + 8) * 2 + 5 * 4 + 3 * 1
    expected = {
        "jobs": 2,
        "mean_wait_s": 9.0,
        "median_wait_s": 9.0,
        "p95_wait_s": 9.9,
        "max_wait_s": 10.0,
        "mean_response_s": 28.0,
        "mean_slowdown": (36 / 20 + 20 / 12) / 2,
        "mean_bounded_slowdown": (36 / 20 + 20 / 12) / 2,
        "utilization": held / (4 * 45),
        "makespan_s": 45.0,
        "throughput_jobs_per_h": 2 * 3600 / 45,
        "mean_running_jobs": (26 + 12 + 5 + 3) / 45,
        "max_queue": 3,  # a, b and c at 10; e is not known to have waited
        "backfilled_jobs": 0,
        "killed_jobs": 0,
        "rejected_jobs": 0,
        "lost_cpu_hours": (6 * 2 + 3 * 1) / 3600,
        "requeues": 2,
        "cancelled_jobs": 2,
        "failed_jobs": 1,
        "pending_jobs": 0,
    }
    assert metrics(log, POOL, schedule) == pytest.approx(expected, rel=1e-12)


def test_what_a_checkpoint_cost_is_lost_and_no_run_time():
    log = workload([0], [20])
    schedule = several(scheduled(log, POOL, [0]), (0, 0, 12, PREEMPTED), (0, 15, 28, COMPLETED), progress=[10, 10])
    got = metrics(log, POOL, schedule)
    assert (got["mean_wait_s"], got["mean_response_s"], got["mean_slowdown"]) == (3.0, 28.0, 28 / 20)
    assert (got["lost_cpu_hours"], got["requeues"]) == (5 / 3600, 1)
    assert got["utilization"] == 25 / (4 * 28)


def test_time_without_progress_is_held_and_not_lost_also_where_its_run_was_lost():
    """Job b comes after a, which ends at 10: its first run dangles from 4 to 8, the second until 10, and then works."""
    log = workload([0, 0], [10, 5], after=[[], [0]])
    schedule = several(
        scheduled(log, POOL, [0, 9]),
        (0, 0, 10, COMPLETED), (1, 4, 8, NODE_FAIL), (1, 9, 13, NODE_FAIL), (1, 20, 25, COMPLETED),
        progress=[10, 0, 0, 5],
    )  # fmt: skip
    got = metrics(log, POOL, schedule)
    assert got["dangling_cpu_hours"] == (4 + 1) / 3600
    assert got["lost_cpu_hours"] == 3 / 3600


def test_a_job_cancelled_while_it_waited_again_counts_as_requeued():
    log = workload([0, 0], [20, 5])
    schedule = several(scheduled(log, POOL, [0, 0]), (0, 0, 6, NODE_FAIL), (1, 0, 5, COMPLETED))
    got = metrics(log, POOL, replace(schedule, state=np.array([CANCELLED, COMPLETED])))
    assert (got["jobs"], got["requeues"], got["cancelled_jobs"], got["failed_jobs"]) == (1, 1, 1, 0)


def test_metrics_of_events_are_there_only_where_there_were_any():
    log = workload([0], [1])
    schedule = scheduled(log, POOL, [0])
    assert list(metrics(log, POOL, schedule)) == NAMES.split()
    more = ["lost_cpu_hours", "requeues", "cancelled_jobs", "failed_jobs", "pending_jobs"]
    told = metrics(log, POOL, several(schedule, (0, 0, 1, COMPLETED)))
    assert [told[name] for name in more] == [0, 0, 0, 0, 0]
    for state in (CANCELLED, NODE_FAIL):
        assert set(more) < set(metrics(log, POOL, replace(schedule, state=np.array([state]))))


def test_warmup_and_cooldown_leave_out_the_runs_of_a_job_as_well():
    log = workload([0, 1, 2], [10, 10, 10])
    whole = several(
        scheduled(log, POOL, [0, 1, 2]),
        (0, 0, 5, NODE_FAIL), (0, 20, 30, COMPLETED), (1, 1, 4, NODE_FAIL), (1, 6, 16, COMPLETED),
        (2, 2, 12, COMPLETED),
    )  # fmt: skip
    got = metrics(log, POOL, whole, warmup=Trim(jobs=1))
    assert (got["jobs"], got["requeues"], got["lost_cpu_hours"]) == (2, 1, 3 / 3600)
    assert (got["mean_wait_s"], got["makespan_s"], got["utilization"]) == (1.0, 15.0, 23 / (4 * 15))


def test_policies_are_compared_on_the_jobs_that_finished_under_all_of_them():
    log = workload([0, 1, 2], [10, 10, 10])
    plain = scheduled(log, POOL, [0, 1, 2])
    lost = several(plain, (0, 0, 5, NODE_FAIL), (1, 1, 4, NODE_FAIL), (1, 6, 16, COMPLETED), (2, 2, 12, COMPLETED))
    a, b = in_common([Counted.of(log, plain), Counted.of(log, lost)])
    assert a.rows.tolist() == b.rows.tolist() == [1, 2]
    assert (a.wait.tolist(), b.wait.tolist()) == ([0, 0], [2 * SECOND, 0])
    assert [times.tolist() for times in b.waits] == [[SECOND, 4 * SECOND, 2 * SECOND], [SECOND, 6 * SECOND, 2 * SECOND]]
