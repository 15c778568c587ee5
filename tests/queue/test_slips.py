"""Why a job starts later than promised: what may break promises, and since when it counts."""

from backfill.queue.book import SEEN_LATE, Book
from tests.queue.logs import entry
from tests.queue.virtual import SECOND, Virtual

WALLTIME = 100 * SECOND
JOB = {"token": "a", "spec": 1, "name": "j", "user": "u", "need": {"cpus": 1}, "walltime": WALLTIME}


def book_of(*entries):
    book = Book()
    book.apply([entry("capacity", 0, {"resources": {"cpus": 4}, "cpu_ids": [0, 1, 2, 3], "gpu_ids": []}), *entries])
    return book


def queued(*numbers):
    return [entry("submit", job, {"job": {"id": job, **JOB, "token": str(job)}}) for job in numbers]


def lowered(t):
    return entry("capacity", 0, {"resources": {"cpus": 3}, "cpu_ids": [0, 1, 2], "gpu_ids": []}, t=t)


def test_what_happens_between_a_pass_and_its_answer_was_unknown_to_the_promise():
    promise = entry("promise", 1, {"start": 900}, t=300)
    late = book_of(*queued(1), entry("pass", 0, {"now": 100}), lowered(200), promise)
    assert late.trouble(late.jobs[1].promised, 1000) == "capacity-lowered"
    before = book_of(*queued(1), lowered(50), entry("pass", 0, {"now": 100}), promise)
    assert before.trouble(before.jobs[1].promised, 1000) == ""


def ended(at, seen):
    start = entry("start", 1, t=0)
    end = entry("end", 1, {"state": "COMPLETED", "exit_code": 0, "ended": at}, t=seen)
    return book_of(*queued(1), start, end)


def test_an_end_that_is_seen_after_the_limit_was_an_overrun_until_then():
    assert ended(WALLTIME - 1, WALLTIME).trouble(0, 2 * WALLTIME) == ""
    assert ended(WALLTIME - 1, WALLTIME + 1).trouble(0, 2 * WALLTIME) == SEEN_LATE
    assert ended(WALLTIME + 1, WALLTIME + 1).trouble(0, 2 * WALLTIME) == "overrun-kill-late"


def test_an_end_that_was_seen_late_is_named_if_there_is_nothing_else():
    book = ended(WALLTIME - 1, WALLTIME + 2)
    book.apply([lowered(WALLTIME + 1)])
    assert book.trouble(0, 2 * WALLTIME) == "capacity-lowered"
    assert book.trouble(WALLTIME + 2, 2 * WALLTIME) == SEEN_LATE


def test_the_instant_of_the_last_pass_is_read_from_the_log(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, 50)
    queue.submit(4, 50)
    assert queue.engine.book.passed
    assert queue.store.load().passed == queue.engine.book.passed
