"""A queue that watches a batch system knows what is true there, whatever happens to either, and never acts."""

import os

import pytest

from backfill.queue.states import OVER
from tests.pools.controller import Controlled, ControlledDurable, Watched

RUNS = int(os.environ.get("BACKFILL_FAULT_RUNS", "6"))


@pytest.mark.parametrize("first", range(0, RUNS, 20))
def test_a_queue_that_watches_knows_what_is_true(first):
    advised = 0
    for seed in range(first, min(first + 20, RUNS)):
        world = Watched(seed, "conservative" if seed % 2 else "easy")
        for step in range(120):
            world.step()
            if step % 30 == 29:
                world.check()
        assert not [note for note in world.notes if "bug" in note or "Traceback" in note or "other decisions" in note]
        ended = {(job.native, job.native_submit) for job in world.store.jobs("end_us IS NOT NULL")}
        assert all(job.state in OVER for job in world.store.jobs("end_us IS NOT NULL"))
        known = {(job.native, job.native_submit) for job in world.engine.book.jobs.values()}
        assert world.seen <= ended | known
        advised += world.advised
    assert advised > 0


@pytest.mark.parametrize("kind", [Controlled, ControlledDurable])
@pytest.mark.parametrize("first", range(0, RUNS, 20))
def test_a_queue_that_starts_the_jobs_of_a_batch_system_knows_what_is_true(first, kind):
    started = checked = 0
    for seed in range(first, min(first + 20, RUNS)):
        world = kind(seed, "conservative" if seed % 2 else "easy")
        for step in range(150):
            world.step()
            if step % 30 == 29:
                checked += world.check() is not None
        notes = [*world.notes, *world.engine.notes]
        assert not [note for note in notes if "bug" in note or "Traceback" in note or "other decisions" in note]
        over = world.store.jobs("end_us IS NOT NULL")
        assert world.seen <= {(job.native, job.native_submit) for job in [*over, *world.engine.book.jobs.values()]}
        started += sum(job.attempt is not None and job.attempt.instance != "" for job in over)
    assert started > 20
    assert checked > 20
