"""How often a queue looks at a batch system whose jobs it starts: often while jobs wait for others to end."""

import asyncio
from types import SimpleNamespace

import pytest

from backfill.pools.base import Given
from backfill.pools.controlled import ControlledPool
from backfill.pools.seen import RUNNING, WAITING, Asked, JobNow, Snapshot
from tests.patience import PATIENCE_S

NODES = {"a": {"cpus": 4}}


class Reader:
    """Shows what it is told."""

    name = "slurm"

    def __init__(self, jobs, cpu):
        self.shown = Snapshot("1", [], jobs, cpu=cpu)

    def look(self):
        return self.shown

    def close(self):
        pass


def job(state, **more):
    return JobNow("7", 1, Asked({"cpus": 1}, 60_000_000), state=state, **more)


async def pace(folder, jobs, cpu):
    """The seconds to the next look at most, once one has been read."""
    news = asyncio.Event()
    given = Given(folder, NODES, lambda: 0, lambda job: {}, news.set, ended=lambda identity, t: True)
    pool = ControlledPool(given, Reader(jobs, cpu), SimpleNamespace(forgets=True), lambda job: False)
    try:
        await asyncio.wait_for(news.wait(), PATIENCE_S)
        pool.read([])
        return pool._sooner()
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("jobs", "cpu", "seconds"),
    [
        ([job(WAITING, managed=True, held=True)], 0.01, 0.3),
        ([job(WAITING, managed=True, held=True)], 0.2, 2.0),  # a tenth of a processor is for looks
        ([job(WAITING, managed=True, held=True, blocked="Dependency")], 0.01, 1.0),
        ([job(WAITING)], 0.01, 1.0),
        ([job(RUNNING, managed=True)], 0.01, 1.0),
        ([], 0.2, 4.0),
    ],
)
def test_a_queue_looks_often_while_its_jobs_wait(tmp_path, jobs, cpu, seconds):
    assert asyncio.run(pace(tmp_path, jobs, cpu)) == pytest.approx(seconds)
