"""Metrics of projects and of promises, by hand."""

import numpy as np
import pytest

from backfill.analysis.projects import project_metrics
from backfill.analysis.promises import history, promise_metrics
from backfill.analysis.series import idle_while_waiting
from backfill.model.errors import UsageError
from backfill.model.promises import CAUSES, Promises, subject
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Labels

from .by_hand import farm, scheduled, workload

GIVEN, MOVED, CHANGED = (CAUSES.index(name) for name in ("given", "moved", "changed"))


def log_of_projects(*names):
    #       submit runtime | start end
    #   0      0      2    |   0    2
    #   1      0      6    |   4   10
    #   2      1      1    |   7    8
    log = workload([0, 0, 1], [2, 6, 1])
    return log.with_jobs(log.jobs.replace(project=Labels.of(names)))


def test_a_project_waits_for_its_first_start_and_ends_with_its_last_job():
    log = log_of_projects("p", "p", "q")
    schedule = scheduled(log, farm(9), [0, 4, 7])
    assert project_metrics(log, schedule, np.arange(3)) == {
        "projects": 2,
        "mean_project_turnaround_s": (10 + 7) / 2,
        "mean_project_wait_s": (0 + 6) / 2,
        "mean_project_run_s": (10 + 1) / 2,
        "mean_project_job_turnaround_s": ((2 + 10) / 2 + 7) / 2,
        "first_projects_turnaround_s": 10,
        "last_projects_turnaround_s": 7,
        "projects_per_h": 2 * 3600 / 10,
    }


def test_the_first_and_the_last_tenth_of_the_projects_are_those_in_order_of_submit():
    log = workload([5, 0, *[1] * 18], [1] * 20)
    log = log.with_jobs(log.jobs.replace(project=Labels.of([f"p{i}" for i in range(20)])))
    start = [9, 3, *range(10, 28)]  # of the second, which is first, and the third; the first one came last
    found = project_metrics(log, scheduled(log, farm(9), start), np.arange(20))
    assert found["first_projects_turnaround_s"] == ((3 + 1 - 0) + (10 + 1 - 1)) / 2
    assert found["last_projects_turnaround_s"] == ((27 + 1 - 1) + (9 + 1 - 5)) / 2


def test_processors_are_idle_while_a_job_waits_only_where_one_waits():
    waits, runs = (np.array([0, 0]), np.array([4, 7])), (np.array([4, 7]), np.array([10, 8]))
    #  0 to 4: all 3 are idle; 4 to 7: 2 of 3, while the second job waits; from 7 on nobody waits
    assert idle_while_waiting(waits, runs, np.array([1, 2]), 3) == 4 * 3 + 3 * 2


def test_a_project_of_which_a_job_is_left_out_and_jobs_without_a_project_do_not_count():
    log = log_of_projects("p", "p", "")
    schedule = scheduled(log, farm(9), [0, 4, 7])
    assert project_metrics(log, schedule, np.array([0, 2])) == {
        "projects": 0,
        **dict.fromkeys(
            [
                "mean_project_turnaround_s",
                "mean_project_wait_s",
                "mean_project_run_s",
                "mean_project_job_turnaround_s",
                "first_projects_turnaround_s",
                "last_projects_turnaround_s",
            ]
        ),
        "projects_per_h": 0,
    }
    assert project_metrics(log_of_projects("", "", ""), schedule, np.arange(3)) == {}


PROMISES = Promises(
    at=np.array([0, 0, 1, 1, 2]) * SECOND,
    job=np.array([0, 1, 1, 2, 2]),
    start=np.array([0, 3 * SECOND, 4 * SECOND, 7 * SECOND, NO_TIME]),
    end=np.array([2 * SECOND, 9 * SECOND, 10 * SECOND, 8 * SECOND, NO_TIME]),
    cause=np.array([GIVEN, GIVEN, MOVED, GIVEN, CHANGED]),
    by=np.array([-1, -1, 2, -1, -1]),
    kept=True,
)


def test_a_promise_that_is_taken_back_says_so():
    log = log_of_projects("p", "p", "q")
    taken_back = history(PROMISES, 2)[1]
    why = "capacity, walltimes or jobs changed"
    assert taken_back.sentence(log, False) == f"at day 0 00:00:02 no longer promised to start: {why}"
    assert taken_back.to_dict(log, False) == {"at_s": 2, "start_s": None, "cause": "changed"}


def test_promises_moved_and_kept():
    log = log_of_projects("p", "p", "q")
    schedule = scheduled(log, farm(9), [0, 4, 7])
    schedule.promise[:] = np.array([0, 3, 7]) * SECOND
    found = promise_metrics(PROMISES, schedule, np.ones(len(schedule), np.bool_))
    assert (found["promised_jobs"], found["kept_promises"], found["max_slip_s"]) == (3, 2, 1)
    assert (found["moved_promises"], found["moved_jobs"], found["made_way_jobs"]) == (2, 2, 1)


def test_promises_to_jobs_in_the_warm_up_or_cool_down_do_not_count():
    log = log_of_projects("p", "p", "q")
    schedule = scheduled(log, farm(9), [0, 4, 7])
    schedule.promise[:] = np.array([0, 3, 6]) * SECOND
    found = promise_metrics(PROMISES, schedule, np.array([True, False, True]))
    assert (found["promised_jobs"], found["kept_promises"], found["max_slip_s"]) == (2, 1, 1)
    assert (found["moved_promises"], found["moved_jobs"], found["made_way_jobs"]) == (1, 1, 0)
    found = promise_metrics(PROMISES, schedule, np.zeros(3, np.bool_))
    assert set(found.values()) == {0, None}


def test_a_name_is_that_of_a_job_or_a_project():
    log = log_of_projects("p", "p", "q")
    assert subject(log, str(log.jobs.job[2]))[0] == 2
    row, rows = subject(log, "p")
    assert row is None
    assert rows.tolist() == [0, 1]
    with pytest.raises(UsageError, match="one of the 3 jobs or 2 projects"):
        subject(log, "nobody")
