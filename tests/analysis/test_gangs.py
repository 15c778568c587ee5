"""The metrics of a grid by hand, and of promises that were kept and broken."""

from dataclasses import replace

import numpy as np
import pytest

from backfill.analysis.gangs import gang_metrics
from backfill.analysis.metrics import metrics
from backfill.analysis.promises import kept_metrics
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Labels
from backfill.workloads.grid import grid_platform
from tests.analysis.by_hand import scheduled, workload

GRID = grid_platform(2, 4)


def by_hand():
    """Local jobs a, b; a gang c of 4; a gang of two tasks d, e that is a project. Submits 0, 0, 0, 2, 2."""
    log = workload([0, 0, 0, 2, 2], [2, 4, 4, 1, 2])
    jobs = log.jobs.replace(
        tasks=np.array([1, 1, 4, 1, 1]),
        site=Labels.of(["site1", "site2", "", "", ""]),
        project=Labels.of(["", "", "", "p", "p"]),
    )
    log = log.with_jobs(jobs)
    return log, scheduled(log, GRID, [0, 1, 4, 3, 3])


def test_means_over_local_jobs_and_means_over_gangs_by_their_processors():
    log, schedule = by_hand()
    found = gang_metrics(log, GRID, schedule, np.arange(5), np.ones(5, np.bool_))
    assert found == {
        "local_jobs": 2,
        "mean_local_response_s": pytest.approx((2 + 5) / 2),
        "mean_local_slowdown": pytest.approx((1 + 5 / 4) / 2),
        "gangs": 2,
        "weighted_response_s": pytest.approx((4 * 8 + 2 * 3) / 6),
        "weighted_slowdown": pytest.approx((4 * 8 / 4 + 2 * 3 / 2) / 6),
        "completed_gangs": 0.0,  # both end after the last submit
    }


def test_a_gang_is_what_the_policies_take_for_one():
    """Several tasks on one site are a gang; jobs of one project that come at different times are several."""
    log, schedule = by_hand()
    jobs = log.jobs.replace(
        tasks=np.array([1, 2, 4, 1, 1]), submit=np.array([0, 0, 0, 1, 2]) * SECOND, site=log.jobs.site
    )
    found = gang_metrics(log.with_jobs(jobs), GRID, schedule, np.arange(5), np.ones(5, np.bool_))
    assert (found["local_jobs"], found["gangs"]) == (1, 4)
    assert found["weighted_response_s"] == pytest.approx((2 * 5 + 4 * 8 + 3 + 3) / 8)


def test_a_workload_that_is_none_of_a_grid_has_none_of_them():
    log, schedule = by_hand()
    assert "gangs" in metrics(log, GRID, schedule)
    assert gang_metrics(log, Platform.pool(8), schedule, np.arange(5), np.ones(5, np.bool_)) == {}


def test_local_jobs_alone_are_a_grid_too():
    log, schedule = by_hand()
    jobs = log.jobs.replace(tasks=np.ones(5, np.int64), site=Labels(np.zeros(5, np.int32), log.jobs.site.names))
    found = gang_metrics(log.with_jobs(jobs), GRID, schedule, np.arange(5), np.ones(5, np.bool_))
    assert (found["local_jobs"], found["gangs"]) == (5, 0)
    assert found["mean_local_response_s"] == pytest.approx(np.mean((schedule.end - log.jobs.submit) / SECOND))
    assert [found[name] for name in ("weighted_response_s", "weighted_slowdown", "completed_gangs")] == [None] * 3


def test_promises_kept_and_broken_and_by_how_much():
    _, schedule = by_hand()
    promise = np.array([0, 0, 3 * SECOND, 3 * SECOND, NO_TIME])
    found = kept_metrics(replace(schedule, promise=promise), np.ones(len(schedule), np.bool_))
    assert found == {"promised_jobs": 4, "kept_promises": 2, "mean_slip_s": 1.0, "max_slip_s": 1.0}
