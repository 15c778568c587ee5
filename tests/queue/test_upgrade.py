"""Another program or another policy takes over while jobs run and wait: nothing is started anew, promises are kept."""

import random
from copy import deepcopy

import numpy as np
import pytest

from backfill.model.platform import Platform
from backfill.queue import engine
from tests.queue.virtual import BEGIN, SECOND, Virtual
from tests.shares import seeds

LATER = """\
import backfill as bf
from backfill.verbs import HEAD, head, place, start, wake

HOUR = 3_600_000_000


@bf.policy("later", reserve="nothing", fill="nothing", source="a test")
def later(state):
    first = head(state)
    while first >= 0 and state.now >= state.jobs.submit[first] + HOUR and place(state, first):
        start(state, first, HEAD)
        first = head(state)
    if first >= 0 and state.now < state.jobs.submit[first] + HOUR:
        wake(state, state.jobs.submit[first] + HOUR)
"""


def three_nodes():
    return Platform(
        nodes=("a", "b", "c"),
        resources=("cpus",),
        capacity=np.array([[4], [4], [2]]),
        speed=np.ones(3),
        site=np.zeros(3, np.int64),
    )


def busy(folder, seed, platform, policy="conservative"):
    """A queue on which jobs run and wait."""
    chance = random.Random(seed)
    queue = Virtual(folder, policy, platform=platform)
    for n in range(40):
        walltime = chance.randint(50, 500)
        queue.submit(chance.randint(1, 4), walltime, chance.randint(5, walltime), name=f"j{n % 5}")
        queue.until(n * 10)
    return queue


def reserved(queue):
    return dict(queue.engine.plan)


@pytest.mark.parametrize("kind", ["machine", "nodes"])
@seeds(8, here=4)
def test_an_upgrade_keeps_what_runs_and_what_is_promised(seed, kind, tmp_path):
    queue = busy(tmp_path, seed, three_nodes() if kind == "nodes" else None)
    jobs = queue.engine.book.jobs
    running = {job.id: job.attempt for job in deepcopy(jobs).values() if job.attempt}
    before, promises = reserved(queue), {job.id: job.promise for job in jobs.values() if job.promise is not None}
    assert running
    assert len(before) > 10
    queue.restart(program="another")
    jobs = queue.engine.book.jobs
    assert {job.id: job.attempt for job in jobs.values() if job.id in running} == running
    after = reserved(queue)
    assert after.keys() == before.keys()
    assert all(after[job] <= before[job] for job in before), "a job has a later start than before"
    queue.drain()
    for number, promise in promises.items():
        job = queue.job(number)
        assert job.start <= promise, f"job {number} was promised {promise} and started {job.start}"
        assert not job.attempt.slip


@pytest.mark.parametrize("kind", ["machine", "nodes"])
def test_what_runs_goes_on_under_a_policy_that_starts_nothing_for_an_hour(kind, tmp_path):
    (tmp_path / "later.py").write_text(LATER)
    queue = busy(tmp_path, 3, three_nodes() if kind == "nodes" else None)
    jobs = [*queue.engine.book.jobs.values()]
    running = {job.id: job.attempt for job in deepcopy(jobs) if job.attempt}
    waiting = [job.id for job in jobs if not job.start]
    assert running
    assert waiting
    queue.restart(program="another", policy=f"{tmp_path}/later.py:later")
    assert "later.py" in queue.engine.book.epoch["policy"]
    jobs = queue.engine.book.jobs
    assert {job.id: job.attempt for job in jobs.values() if job.id in running} == running
    queue.until(3590)
    assert {job.id for job in queue.engine.book.jobs.values() if job.start} <= {*running}
    assert {queue.job(number).attempts for number in running} == {1}
    assert all(queue.job(number).start == attempt.start for number, attempt in running.items())
    queue.drain()
    assert all(queue.job(number).start >= queue.job(number).submit + 3600 * SECOND for number in waiting)


@pytest.mark.parametrize("kind", ["machine", "nodes"])
def test_a_planner_that_would_have_too_much_to_decide_again_begins_with_what_is_promised(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "RELIVED", 20)
    queue = busy(tmp_path, 5, three_nodes() if kind == "nodes" else None)
    before = reserved(queue)
    assert len(before) > 10
    queue.engine.failed("somebody killed it", blame=False)
    queue.flush()
    assert queue.engine.book.epoch["why"] == "restarted"
    assert queue.engine.book.passes < 5
    after = reserved(queue)
    assert after.keys() == before.keys()
    assert all(after[job] <= before[job] for job in before)
    queue.drain()
    assert not any(job.attempt.slip for job in queue.store.jobs())


def test_a_start_that_is_late_since_nobody_decided_says_so(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, walltime=100)
    waits = queue.submit(4, walltime=100)
    assert queue.job(waits).promise == BEGIN + 100 * SECOND
    queue.engine.failed("somebody killed it", blame=False)
    queue.engine.flush()  # another one is being made
    told, queue._answer = queue._answer, None
    queue.until(250)
    assert queue.job(waits).start is None
    queue._answer = told
    queue.flush()
    assert queue.job(waits).attempt.slip == "planner-down"
