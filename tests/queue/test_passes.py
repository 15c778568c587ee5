"""A log is divided at its passes, for planners and for histories alike."""

from backfill.answers.history import recorded
from backfill.queue.feed import Between, between_passes, passes
from tests.queue.logs import entry

SECOND = 1_000_000
EPOCH = {"why": "first", "policy": "fcfs", "resources": {"cpus": 4}, "base": []}
JOB = {"token": "a", "spec": 1, "name": "j", "user": "u", "need": {"cpus": 1}, "walltime": 100 * SECOND, "id": 1}


def log():
    return [
        entry("epoch", 0, EPOCH, t=1 * SECOND),
        entry("submit", 1, {"job": JOB}, t=2 * SECOND),
        entry("wait", 1, t=2 * SECOND),
        entry("pass", 0, {"now": 3 * SECOND}, t=3 * SECOND),
        entry("start", 1, {"attempt": 1, "start": 3 * SECOND, "why": "head"}, t=4 * SECOND),
        entry("end", 1, {"state": "COMPLETED", "exit_code": 0}, t=8 * SECOND),
    ]


def test_what_happened_lies_between_the_pass_that_decided_it_and_the_one_that_was_told():
    some = log()
    assert [*between_passes(some)] == [Between(0, some[:3], 3 * SECOND), Between(3 * SECOND, some[4:], None)]
    assert [*between_passes([])] == [Between(0, [], None)]


def test_a_planner_and_a_history_date_events_by_the_same_passes():
    some = log()
    (one,), said = passes(some)
    assert (one.now, [message[0] for message in one.messages], one.decided) == (
        3 * SECOND, ["submit", "wait"], [[1, "head"]],
    )  # fmt: skip
    assert [message[0] for message in said] == ["gone", "over"]
    found = recorded(some, [1])
    assert (found.workload.jobs.submit[0], found.started[0]) == (3 * SECOND, 3 * SECOND)
    assert found.workload.jobs.runtime[0] == 5 * SECOND  # no pass was told of the end, so it is dated by the log
