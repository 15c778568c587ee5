"""A deep queue is searched by a tree; that must change no start, only the work."""

import numpy as np
import pytest

from backfill import policies
from backfill.analysis.series import waiting_jobs
from backfill.core.queue.places import DEEP, SHALLOW
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.worlds.simulated import simulate
from tests.shares import a_share

STATIC = [name for name in policies.TABLE if policies.get(name).index and not policies.get(name).dynamic]


GIB = 2**30


def flood(jobs=3_000, seed=1, unit=1):
    """Far more than 64 processors can take, in bursts, so that the queue grows deep, drains and grows again."""
    r = np.random.default_rng(seed)
    submit = np.sort(r.integers(0, 4, jobs) * 150_000 + r.integers(0, 2_000, jobs))
    runtime = np.ceil(r.lognormal(5, 1.2, jobs)).astype(np.int64)
    table = Jobs(
        job=np.arange(jobs),
        submit=submit * SECOND,
        runtime=runtime * SECOND,
        walltime=np.ceil(runtime * r.uniform(1, 4, jobs)).astype(np.int64) * SECOND,
        tasks=r.integers(1, 33, jobs),
        demand=np.stack([np.ones(jobs, np.int64), unit * r.integers(0, 5, jobs)], axis=1),
        priority=r.integers(0, 9, jobs).astype(float),
    )
    return Workload(table, resources=("cpus", "memory"))


@a_share([*STATIC])
@pytest.mark.parametrize("memory", [None, 200])
def test_the_tree_changes_no_start(name, memory):
    workload, platform, policy = flood(), Platform.pool(64, memory=memory), policies.get(name)
    searched = simulate(workload, platform, policy)
    walked = simulate(workload, platform, policy.like(name, index=False))
    waiting = waiting_jobs(searched.schedule).values
    assert waiting.max() > DEEP
    assert waiting[waiting.argmax() :].min() < SHALLOW  # and it was an array again
    assert searched.schedule.start.tolist() == walked.schedule.start.tolist()
    assert searched.schedule.reason.tolist() == walked.schedule.reason.tolist()
    if name == "easy":
        assert searched.looks < walked.looks / 2


@pytest.mark.parametrize("name", ["easy", "first-fit"])
def test_needs_in_bytes_are_searched_like_needs_in_gigabytes(name):
    """The tree keeps ten leading bits of a large need, rounded down, and looks once more at what it finds."""
    policy = policies.get(name)
    whole, rounded = flood(), flood(unit=GIB - 1)
    small = simulate(whole, Platform.pool(64, memory=200), policy)
    large = simulate(rounded, Platform.pool(64, memory=200 * (GIB - 1)), policy)
    assert small.schedule.start.tolist() == large.schedule.start.tolist()
    assert large.looks < 1.5 * small.looks
