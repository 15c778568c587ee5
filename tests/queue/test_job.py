"""A job, its attempt and its row: what runs no more leaves nothing behind, and the row is that of earlier versions."""

import json

import pytest

from backfill.pools.base import Verdict
from backfill.queue.deep import check_deep
from backfill.queue.job import USUAL, Attempt, DueStart, Job, whole
from tests.queue.virtual import Virtual

KEYS = {  # of a row, in the store and in `show`: others read them
    *("id", "token", "spec", "name", "user", "group", "project", "priority", "need", "tasks", "ntasks", "spread"),
    *("site", "constraint", "gpu_type", "partition", "qos", "exclusive", "walltime", "grace", "submit", "begin"),
    *("deadline", "requeue", "array", "index", "throttle", "after", "any_of", "singleton", "never", "held", "state"),
    *("reason", "waits", "due", "yields", "preemptions", "preempted_for", "attempt", "failures", "withdrawn"),
    *("restarts", "retry", "retries", "notify", "suspended", "why", "promise", "promised", "start", "ran", "spawned"),
    *("processes", "end", "nodes", "due_nodes", "cpu_ids", "gpu_ids", "cause", "exit", "signal", "maxrss", "cpu"),
    *("slip", "native", "native_submit", "outside", "expected", "advised", "done", "keeps", "stood", "instance"),
    "reservation",
}
RUNS = Attempt(2, 70, "fit", "bug", [["n1", 2]], [0, 1], [3], 80, {"pid": 9}, True, True, "preempt")
OVER = Attempt(1, 70, "fit", nodes=[["n1", 2]], spawned=80, exit=3, signal=0, maxrss=5, cpu=6)
DUE = DueStart(90, "head", [["n2", 1]])


@pytest.mark.parametrize(
    "job",
    [
        Job(1, need={"cpus": 2}, state="PENDING", waits=True, promise=9, after=[["afterok", 3]]),
        Job(1, state="PENDING", attempts=2, restarts=1, ran=40),
        Job(1, state="PENDING", due=DUE),
        Job(1, state="ENDING", attempt=RUNS, attempts=2, preempted_for=3),
        Job(1, state="FAILED", attempt=OVER, attempts=1, end=100),
    ],
)
def test_the_row_of_a_job_is_flat_and_read_back(job):
    brief = json.loads(json.dumps(job.brief()))
    assert brief.keys() <= job.facts().keys() == USUAL.keys() == KEYS
    assert whole(brief) == job.facts()
    assert Job.read(brief) == Job.read(job.facts()) == job


def test_a_start_that_is_due_says_why_in_the_row_of_an_attempt_that_makes_way():
    row = Job(1, state="ENDING", attempt=RUNS, attempts=2, due=DUE).facts()
    assert (row["why"], row["start"], row["due"]) == ("head", 70, 90)
    assert Job.read(row).facts() == row


def test_a_row_of_an_earlier_version_says_nothing_of_an_attempt_that_is_over():
    left = {"processes": {"pid": 9}, "slip": "bug", "why": "fit", "yields": True, "spawned": 80}
    assert Job.read({"id": 1, "attempt": 2, "state": "PENDING", **left}) == Job(1, attempts=2, state="PENDING")
    assert Job.read({"id": 1, "due_nodes": [["n1", 1]]}) == Job(1)


def test_a_job_that_waits_again_has_nothing_of_the_attempt_that_is_over(tmp_path):
    queue = Virtual(tmp_path)
    number = queue.submit(2)
    queue.engine.settled(number, 1, Verdict("alive", {"pid": 9}))
    queue.request(do="requeue", ids=[number])
    queue.request(do="pause")
    queue.engine.settled(number, 1, Verdict("ended", {"status": 15, "cause": "requeue"}))
    queue.flush()
    row = queue.store.job(number).facts()
    assert {key: row[key] for key in KEYS if row[key] != USUAL[key]}.keys() <= {
        *("id", "token", "spec", "name", "user", "need", "walltime", "grace", "submit", "state", "attempt", "waits")
    }
    assert row["attempt"] == 1
    earlier = "UPDATE job SET facts = json_set(facts, '$.processes', json('{\"pid\":9}'), '$.why', 'fit')"
    queue.store._db.execute(earlier)  # what an earlier version has left there
    assert check_deep(tmp_path) == []
    queue.request(do="unpause")
    queue.drain()
    assert queue.store.job(number).attempts == 2


def test_an_attempt_that_is_over_before_it_could_be_stopped_is_left_alone(tmp_path, monkeypatch):
    queue, stopped = Virtual(tmp_path), []
    monkeypatch.setattr(queue, "stop", stopped.extend)
    number, other = queue.submit(2), queue.submit(2)
    queue.engine.request({"do": "requeue", "ids": [number, other]}, lambda answer: None)
    queue.engine.settled(number, 1, Verdict("ended", {"status": 15, "cause": "requeue"}))
    queue.flush()
    assert [run.key for run in stopped] == [(other, 1)]
