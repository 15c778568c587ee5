"""How often a queue looks at a batch system whose jobs it starts: at once when jobs end, and never too often."""

import asyncio
import math
import time
from types import SimpleNamespace

import pytest

from backfill.pools.base import Given
from backfill.pools.controlled import BEAT_S, DEAR, IDLE_S, SAVED_S, Budget, ControlledPool
from backfill.pools.seen import ENDING, RUNNING, WAITING, Asked, Down, JobNow, Snapshot
from backfill.pools.watched import Look
from tests.patience import PATIENCE_S, completed

NODES = {"a": {"cpus": 4}}


class Reader:
    """Shows what it is told."""

    name = "slurm"

    def __init__(self, jobs, cpu, pulses=()):
        self.shown, self.pulses, self.looks = Snapshot("1", [], jobs, cpu=cpu), [*pulses], 0

    def look(self):
        self.looks += 1
        return self.shown

    def pulse(self):
        found = self.pulses.pop(0) if len(self.pulses) > 1 else self.pulses[0] if self.pulses else None
        if found == "silent":
            raise Down("sdiag: No such file or directory")
        return found and (found, 0.0)

    def close(self):
        pass


def job(state, **more):
    return JobNow("7", 1, Asked({"cpus": 1}, 60_000_000), state=state, **more)


WAITS = job(WAITING, managed=True, held=True)


async def watched(folder, reader, then):
    """Call a function with a pool that has read one look and is not to look again by itself."""
    news = asyncio.Event()
    given = Given(folder, NODES, lambda: 0, lambda job: {}, news.set, ended=lambda identity, t: True)
    pool = ControlledPool(given, reader, SimpleNamespace(forgets=True), lambda job: False)
    try:
        await asyncio.wait_for(news.wait(), PATIENCE_S)
        pool.read([])
        return await then(pool)
    finally:
        pool.close()


async def pace(pool):
    """The seconds to the next look at most."""
    pool._silent = math.inf
    pool._conclude(Look(pool._reader.shown, {}, frozenset()), {})
    return pool._sooner()


@pytest.mark.parametrize(
    ("jobs", "cpu", "seconds"),
    [
        ([WAITS], 0.005, 0.3),
        ([WAITS], 0.2, 13.2),  # half of what looks may take; the rest is for those after a pulse
        ([job(WAITING, managed=True, held=True, blocked="Dependency")], 0.01, 1.0),
        ([job(WAITING)], 0.01, 1.0),
        ([job(RUNNING, managed=True)], 0.01, 1.0),
        ([], 0.2, 13.2),
    ],
)
def test_a_queue_looks_often_while_its_jobs_wait(tmp_path, jobs, cpu, seconds):
    assert completed(watched(tmp_path, Reader(jobs, cpu), pace)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("pulses", "jobs", "beats"),
    [
        (["1 ended", "1 ended", "2 ended"], [WAITS], True),
        (["1 ended"], [WAITS], False),
        (["1 ended", "2 ended"], [job(RUNNING, managed=True)], False),  # nobody waits for that end
        (["1 ended", "silent", "2 ended"], [WAITS], False),  # it is asked for no pulse for a while
        ([], [WAITS], False),  # it has none
    ],
)
def test_a_pulse_with_news_has_a_queue_look_at_once(tmp_path, pulses, jobs, beats):
    async def then(pool):
        pool._end = True
        pool._wake.set()
        pool._thread.join(PATIENCE_S)
        pool._wake.clear()
        pool._silent, pool._pulse, pool._reader.pulses = -math.inf, "1 ended", [*pulses]
        woken, begin = pool._rest(0.5), time.monotonic()
        assert not woken
        assert (pool._beat > begin - PATIENCE_S) == beats
        pool._looked(Snapshot("1", [], [job(ENDING)]))  # until its node is free
        soon = pool._sooner()
        pool._looked(Snapshot("1", [], []))
        return soon, pool._sooner()

    soon, later = completed(watched(tmp_path, Reader(jobs, 0.0), then))
    assert soon == (BEAT_S if beats else IDLE_S)
    assert later == IDLE_S


def test_looks_and_pulses_take_no_more_than_their_share(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget, spent = Budget(), 0.0
    budget.share = DEAR
    for _ in range(1_000):
        now[0] += max(budget.wait(), 0.05)
        budget.spend(0.1)
        spent += 0.1
    assert spent <= SAVED_S + 0.1 + (now[0] - 100.0) / DEAR
    now[0] += 1_000.0
    budget.spend(0.0)
    assert budget.wait() == 0.0
