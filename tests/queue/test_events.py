"""The events of the log: what an earlier program wrote is read, and written again as it was."""

import json

import pytest

from backfill.queue.book import Book
from backfill.queue.events import KINDS, Entry, Other, decoded

ENDED = {"exit": None, "signal": 9, "maxrss": None, "cpu": 7}
DUE = {"start": 5, "why": "head", "behind": [2]}
BEGAN = {"attempt": 1, "start": 4, "why": "foreign-start", "nodes": [["a", 1]], "cpu_ids": [], "gpu_ids": []}
WRITTEN = [
    ("up", 0, {"pool": "local", "trouble": "daemon-down", "boot": "x", "anchor": 3, "skew": 0, "last_job": 0}),
    ("planner", 0, {}), ("up", 0, {"pool": "fake", "trouble": "daemon-down", "skew": 1, "last_job": 7}),
    ("clock", 0, {"trouble": "machine-suspended", "slept": 5}), ("clock", 0, {"skew": 0}),
    ("capacity", 0, {"resources": {"cpus": 2}, "cpu_ids": [0, 1], "gpu_ids": []}),
    ("capacity", 0, {"resources": {}, "cpu_ids": [], "gpu_ids": [], "platform": "[[node]]", "nodes": {"a": {}}}),
    ("node", 0, {"node": "a", "resources": {"cpus": 0}, "reason": "down"}),
    ("node", 0, {"node": "", "resources": {"matlab": 1}}),
    ("array", 0, {"job": {"id": 3}, "indexes": [1, 2], "after": [["afterok", 2]]}),
    ("epoch", 0, {"policy": "easy", "program": "p", "why": "first", "resources": {}, "base": [], "now": 1}),
    ("pass", 0, {"now": 8}), ("plan", 0, {"plan": [[1, 5, []]]}), ("pause", 0, {}), ("unpause", 0, {}),
    ("shown", 0, {"estimates": [[1, None, 2.0, 3.0, "user", 9]]}), ("backup", 0, {}),
    ("restored", 0, {"first": 3, "found": [], "ended": [1], "closed": [], "lost": [], "counts": {"ended": 1}}),
    ("project", 0, {"project": "p", "user": "ana", "first": 3, "count": 2}),
    ("departure", 0, {"project": "p", "until": None, "left": 2, "job": 0, "counts": [], "cause": "given"}),
    ("departure", 0, {"project": "p", "until": 9, "left": 0, "job": 3, "counts": [3], "cause": "made-way", "by": 7}),
    ("reserve", 0, {"reservation": "r", "begin": 5, "until": 9, "nodes": [["a", {"cpus": 4}, True]], "user": "ana"}),
    ("reserve", 0, {"reservation": "r", "begin": 5, "until": 9, "nodes": [], "group": "g", "token": "x"}),
    ("opened", 0, {"reservation": "r"}),
    ("unreserve", 0, {"reservation": "r"}), ("unreserve", 0, {"reservation": "r", "early": True}),
    ("departed", 0, {"project": "p", "ended": 9}), ("departed", 0, {"project": "p", "ended": 9, "slip": "held"}),
    ("submit", 3, {"job": {"id": 3, "need": {"cpus": 1}}}), ("adopted", 3, {"job": {"id": 3, "attempt": 2}}),
    ("wait", 3, {}), ("wait", 3, {"promised": 9}), ("wait", 3, {"promised": 9, "nodes": [["a", 1]]}),
    ("hold", 3, {"why": "JobHeldUser"}), ("release", 3, {}), ("edit", 3, {"to": {"walltime": 5}}),
    ("edit", 3, {"to": {"name": "x"}, "leaves": False}),
    ("edit", 3, {"to": {"need": {"cpus": 2}}, "leaves": True, "told": {"need": {"cpus": 2}, "submit": 1}}),
    ("promise", 3, {"start": 9}), ("expected", 3, {"start": 9}), ("advised", 3, {}),
    ("advised", 3, {"nodes": [["a", 1]]}),
    ("began", 3, BEGAN | {"told": {"need": {"cpus": 1}}, "processes": {"restarts": 1}}),
    ("start", 3, BEGAN | {"instance": "1"}), ("due", 3, DUE), ("due", 3, DUE | {"nodes": [["a", 1]], "behind": []}),
    ("withdrawn", 3, {}), ("declined", 3, {"why": "head"}), ("declined", 0, {"job": 3, "why": "head", "nodes": []}),
    ("spared", 3, {"for": 4}), ("spared", 0, {"job": 3, "for": 4}),
    ("preempt", 3, {"for": 4}), ("preempt", 3, {"for": 4, "leaves": True}),
    ("preempt", 3, {"for": 4, "how": "checkpoint", "overhead": 7}), ("spared", 3, {"for": 4, "how": "suspend"}),
    ("kept", 3, {"done": 0}), ("kept", 3, {"done": 5, "how": "suspend"}),
    ("preempted", 3, {"for": 0, "leaves": True, "found": True}), ("preempted", 3, {"for": 4}),
    ("start", 3, {"attempt": 1, "start": 4, "why": "head", "cpu_ids": [0], "gpu_ids": []}),
    ("start", 3, BEGAN | {"due": 3, "slip": "job-edited"}), ("began", 3, BEGAN), ("began", 3, BEGAN | {"job": {}}),
    ("spawned", 3, {"processes": {"pid": 5}}), ("stop", 3, {"cause": "cancel"}),
    ("stop", 3, {"cause": "cancel", "leaves": True}), ("suspend", 3, {}), ("resume", 3, {}),
    ("signal", 3, {"number": 10}), ("unstarted", 3, {"launch": False}), ("unstarted", 3, {"launch": True}),
    ("requeue", 3, {}), ("requeue", 3, {"asked": True}), ("requeue", 3, {"retry": 1, "exit": 3, "signal": 0}),
    ("requeue", 3, {"retry": 1, "exit": None, "signal": 9}), ("end", 3, {"state": "CANCELLED", "reason": "Cancelled"}),
    ("end", 3, {"state": "FAILED", "reason": "", **ENDED, "detail": "no such file", "ended": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "job", "data"), WRITTEN)
def test_an_event_is_written_again_as_it_was_read(kind, job, data):
    event = decoded(kind, job, json.loads(json.dumps(data)))
    assert (event.kind, event.column, event.data()) == (kind, job, data)


def test_each_kind_of_event_is_among_these():
    assert {kind for kind, *_ in WRITTEN} == KINDS.keys()


def test_what_is_over_when_it_is_declined_is_an_event_of_the_queue_with_its_job():
    event = decoded("declined", 0, {"job": 3, "why": "head"})
    assert (event.job, event.gone, Entry(event).job) == (3, True, 0)


@pytest.mark.parametrize(("kind", "missing"), [("start", "why"), ("end", "state"), ("pass", "now"), ("submit", "job")])
def test_an_event_that_lacks_a_field_says_which(kind, missing):
    (data, *_) = (data for one, _, data in WRITTEN if one == kind)
    with pytest.raises(KeyError, match=missing):
        decoded(kind, 3, {name: value for name, value in data.items() if name != missing})


def test_fields_and_kinds_of_a_later_program_are_passed_over_unless_they_change_a_job():
    assert decoded("hold", 3, {"why": "x", "more": 1}) == decoded("hold", 3, {"why": "x"})
    book = Book()
    book.apply([Entry(decoded("later", 0, {"what": 1}), 5)])
    assert book.last_t == 5
    book.apply([Entry(decoded("submit", 3, {"job": {"id": 3}}))])
    assert decoded("later", 3, {}) == Other(3, "later")
    with pytest.raises(AssertionError, match="later of a job that is PENDING"):
        book.apply([Entry(decoded("later", 3, {}))])
