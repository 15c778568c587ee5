"""k-reservations for all jobs plans less if nobody reads its plan; that must change neither start nor promise."""

import numpy as np
import pytest
from hypothesis import given

from backfill import loading
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate
from tests.core.test_deep_queue import flood
from tests.reference.workloads import as_model, pool_cases

NAMES = ("k-reservations:k=inf", "k-reservations:k=inf,order=lxf,tried=saf", "k-reservations:k=40")


def alike(workload, platform, name, options=None):
    """Simulate twice, and compare; a journal is read, so then a pass plans everything."""
    policy, params = loading.load(name)
    short, whole = (simulate(workload, platform, policy, params, options, journal=kept) for kept in (False, True))
    for field in ("start", "end", "reason", "promise", "state"):
        assert getattr(short.schedule, field).tolist() == getattr(whole.schedule, field).tolist(), field
    return short.schedule


@pytest.mark.parametrize("overrun", ["kill", "extend"])
@pytest.mark.parametrize("memory", [None, 200])
@pytest.mark.parametrize("name", NAMES)
def test_in_bursts_of_jobs_nothing_changes(name, memory, overrun):
    schedule = alike(flood(jobs=600), Platform.pool(64, memory=memory), name, Options(overrun=overrun))
    assert (schedule.promise > schedule.submit).sum() > 300  # most had to wait


@given(case=pool_cases())
def test_in_small_cases_nothing_changes(case):
    workload, platform, _ = as_model(case.jobs, case.platform)
    for name in NAMES:
        alike(workload, platform, name, Options(ties="step"))


@pytest.mark.parametrize("name", NAMES)
def test_jobs_that_trickle_in_behind_a_full_plan_change_nothing(name):
    """Hundreds of passes at which nothing but an arrival happens, a walltime of 0 among them, long before time 0."""
    r, jobs = np.random.default_rng(3), 400
    runtime = np.where(r.random(jobs) < 0.1, 0, r.integers(5_000, 50_000, jobs))
    table = Jobs(
        job=np.arange(jobs),
        submit=(np.arange(jobs) * 20 - 10**7) * SECOND,
        runtime=runtime * SECOND,
        walltime=runtime * r.integers(1, 4, jobs) * SECOND,
        tasks=r.integers(1, 33, jobs),
        demand=np.ones((jobs, 1), np.int64),
    )
    alike(Workload(table, resources=("cpus",)), Platform.pool(64), name)
