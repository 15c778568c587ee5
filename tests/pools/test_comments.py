"""The queue's part of the comment of a job in Slurm: it tells a promised start, and leaves the rest as it is."""

import time

import pytest

from backfill.pools.comments import part_of, published, with_part
from backfill.pools.seen import RUNNING, WAITING, Asked, JobNow
from backfill.queue.job import Job

MINUTE = 60_000_000
NOW = 1_795_622_400_000_000  # a whole minute


def seen(comment="", state=WAITING, managed=True):
    return JobNow("7", 1, Asked({"cpus": 1}, MINUTE), state=state, managed=managed, comment=comment)


def told(now, promise, job=None, skew=0):
    known = {("7", 1): job or Job(3, state="PENDING")}
    return dict(published([now], known, {} if promise is None else {3: promise}, skew))


def stamp(instant):
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(instant / 1e6))


def test_a_promise_stands_behind_what_the_user_has_written():
    found = told(seen("my words"), NOW + 1)
    assert found == {"7": f"my words[backfill:start={stamp(NOW + MINUTE)}]"}  # the minute that is not before it
    assert told(seen(found["7"]), None) == {"7": "my words"}


@pytest.mark.parametrize(("moved", "again"), [(0, False), (MINUTE, False), (-MINUTE, False), (2 * MINUTE, True)])
def test_a_promise_is_written_again_only_if_it_moves_by_more_than_a_minute(moved, again):
    before = seen(f"[backfill:start={stamp(NOW)}]")
    assert (told(before, NOW + moved) != {}) is again


def test_the_promise_of_a_job_that_runs_or_is_held_is_removed():
    before = f"x[backfill:start={stamp(NOW)}]"
    assert told(seen(before, RUNNING), NOW) == {"7": "x"}
    assert told(seen(before), NOW, Job(3, state="PENDING", held="Dependency")) == {"7": "x"}
    assert told(seen(before), NOW, Job(3, state="STARTING")) == {"7": "x"}


def test_comments_of_others_and_holds_of_users_stay():
    assert told(seen("x", managed=False), NOW) == {}
    assert told(seen("x[backfill:held]"), NOW) == {}


def test_a_promise_is_told_by_the_calendar():
    assert told(seen(), NOW, skew=5 * MINUTE) == {"7": f"[backfill:start={stamp(NOW + 5 * MINUTE)}]"}


@pytest.mark.parametrize("part", ["", "held", "start=soon"])
def test_a_part_is_read_as_it_was_written(part):
    assert part_of(with_part("mine [x]", part)) == part
    assert with_part(with_part("mine [x]", part), "") == "mine [x]"


def test_a_start_that_nobody_can_read_is_written_anew():
    assert told(seen("[backfill:start=soon]"), NOW) == {"7": f"[backfill:start={stamp(NOW)}]"}
