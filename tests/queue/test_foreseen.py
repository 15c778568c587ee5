"""Estimates beside the queue: made when somebody looks, in the background, and not too often."""

import json
import time

import pytest

from backfill.client.printing import age_text, starts_shown, why_text
from backfill.daemon.foreseen import Foreseen
from backfill.daemon.shown import _foreseen
from tests.queue.logs import of_kind
from tests.queue.virtual import SECOND, Virtual


class Asked:
    """A queue of which estimates are asked for; `reply` is how the copy of the planner answers."""

    def __init__(self, folder, policy="easy"):
        self.queue = Virtual(folder, policy)
        self.queue.submit(4, 100)
        self.waiting = self.queue.submit(4, 50)
        self.rounds = []
        self.foreseen = Foreseen(self.queue.engine, self.rounds.append)

    @property
    def now_s(self):
        return self.queue.t / SECOND

    def reply(self, after_s=60.0, cpu_s=0.1):
        row = {
            "id": self.waiting, "guaranteed_s": None, "median_s": self.now_s + after_s,
            "p90_s": self.now_s + 2 * after_s, "history": "none", "ended_jobs": 0,
        }  # fmt: skip
        self.rounds[-1]({"now_s": self.now_s, "jobs": [row], "futures": 64, "cpu_s": cpu_s})

    def later(self, seconds):
        self.queue.t += round(seconds * SECOND)

    def told(self):
        self.queue.flush()
        return [event.estimates for event in of_kind(self.queue.store.events(), "shown")]


def test_a_look_has_estimates_made_for_the_next_one(tmp_path):
    asked = Asked(tmp_path)
    assert asked.foreseen.glance(True) == ({}, {"coming": True})
    assert asked.foreseen.glance(True) == ({}, {"coming": True})
    assert len(asked.rounds) == 1
    asked.reply()
    assert asked.told() == []  # nobody has seen them yet
    asked.later(5)
    starts, known = asked.foreseen.glance(True)
    assert starts == {asked.waiting: (asked.now_s + 55, asked.now_s + 115)}
    assert known == {"age_s": 5.0, "futures": 64, "current": True, "coming": False, "wide_from_jobs": None}
    assert len(asked.rounds) == 1  # nothing has happened since
    assert [row[0] for (row,) in asked.told()] == [asked.waiting]
    asked.foreseen.glance(True)
    assert len(asked.told()) == 1


def test_a_bound_behind_a_deadline_marks_the_job_in_the_queue(tmp_path):
    asked = Asked(tmp_path)
    late = asked.queue.engine.book.jobs[asked.waiting]
    late.deadline = asked.queue.t + 120 * SECOND
    asked.foreseen.glance(True)
    asked.reply(after_s=40.0)  # in 80 s at the bound, and it may run for 50 s
    starts, _ = asked.foreseen.glance(False)
    row = _foreseen(asked.queue.engine, late, asked.queue.t, starts)
    assert (row["misses_deadline"], row["p90_s"]) == (True, asked.now_s + 80)
    assert why_text(row) == "Resources, deadline at risk"
    late.deadline += 10 * SECOND
    row = _foreseen(asked.queue.engine, late, asked.queue.t, starts)
    assert (row["misses_deadline"], why_text(row)) == (False, "Resources")
    late.deadline = None
    assert _foreseen(asked.queue.engine, late, asked.queue.t, starts)["misses_deadline"] is None


def test_rounds_are_as_rare_as_they_are_dear(tmp_path):
    asked = Asked(tmp_path)
    asked.foreseen.glance(True)
    asked.reply(cpu_s=3.0)
    asked.queue.submit(1, 10)
    asked.later(59)
    assert asked.foreseen.glance(True)[1]["current"] is False
    assert len(asked.rounds) == 1
    asked.later(1)
    asked.foreseen.glance(False)  # somebody who does not want them
    assert len(asked.rounds) == 1
    asked.foreseen.glance(True)
    assert len(asked.rounds) == 2
    asked.rounds[-1]({"error": {"code": "question", "message": "killed", "field": ""}})
    asked.later(29)
    asked.foreseen.glance(True)
    assert len(asked.rounds) == 2
    asked.later(1)
    asked.foreseen.glance(True)
    assert len(asked.rounds) == 3


def test_an_empty_queue_and_one_without_a_planner_ask_nothing(tmp_path):
    asked = Asked(tmp_path)
    asked.queue.engine.ready = False
    assert asked.foreseen.glance(True) == ({}, None)
    asked.queue.engine.ready = True
    asked.queue.drain()
    assert asked.foreseen.glance(True) == ({}, None)
    assert asked.rounds == []


def test_who_asks_meanwhile_gets_the_same_answer(tmp_path):
    asked = Asked(tmp_path)
    found = []
    asked.foreseen.glance(True)
    asked.foreseen.eta(found.append)
    asked.foreseen.eta(found.append)
    assert len(asked.rounds) == 1
    asked.reply()
    asked.foreseen.eta(found.append)
    assert [told["futures"] for told in found] == [64] * 3
    assert len(asked.told()) == 1
    asked.queue.submit(1, 10)
    asked.foreseen.eta(found.append)
    assert len(asked.rounds) == 2


def test_an_old_estimate_is_never_before_now_nor_after_the_promise_and_ends_with_its_policy(tmp_path):
    asked = Asked(tmp_path, "conservative")
    asked.foreseen.glance(True)
    asked.reply(after_s=90.0)
    promised = asked.queue.engine.plan[asked.waiting] / SECOND
    starts, _ = asked.foreseen.glance(False)
    assert starts[asked.waiting] == (asked.now_s + 90, pytest.approx(promised))
    asked.later(95)
    starts, _ = asked.foreseen.glance(False)
    assert starts[asked.waiting] == (asked.now_s, pytest.approx(promised))
    asked.queue.request(do="hold", ids=[asked.waiting])
    assert asked.foreseen.glance(False)[0] == {}
    asked.queue.request(do="release", ids=[asked.waiting])
    assert asked.foreseen.glance(False)[0].keys() == {asked.waiting}
    asked.queue.engine.switch("easy", "test", "switched")
    asked.queue.flush()
    assert asked.foreseen.glance(False) == ({}, None)


def test_estimates_of_long_ago_are_not_shown(tmp_path):
    asked = Asked(tmp_path)
    asked.foreseen.glance(True)
    asked.reply(after_s=5_000)
    asked.later(601)
    assert asked.foreseen.glance(False) == ({}, None)


def test_the_age_of_estimates_is_told_where_it_matters():
    def told(**known):
        return age_text({"estimates": known or None})

    assert told() == ""
    assert told(coming=True) == ". estimates come in a moment"
    assert told(age_s=4.2, current=True) == ""
    assert told(age_s=4.2, current=False) == ". estimates 4 s old"
    assert told(age_s=25.0, current=True) == ". estimates 25 s old"
    assert list(starts_shown({"jobs": [{"median_s": None}, {}]}).values()) == ["GUARANTEED"]


def test_the_queue_is_shown_with_likely_starts(live):
    compiled = {"NUMBA_DISABLE_JIT": "0"}
    live.submit("-c", 4, "-t", "24:00:00", "--", "sleep", 80000, **compiled)
    waiting = live.submit("-c", 4, "-t", 10, "--", "true")
    planner = lambda: live.ask({"do": "ping"})["planner"]  # noqa: E731
    live.until(lambda: planner()["ready"] and planner()["kind"] == "compiled")
    estimates = lambda: json.loads(live.run("queue", "--json").stdout)["estimates"]  # noqa: E731
    live.until(lambda: (estimates() or {"coming": True})["coming"] is False)  # there may be none at first
    found = json.loads(live.run("queue", "--json").stdout)
    row = {job["id"]: job for job in found["jobs"]}[waiting]
    # The bound is the walltime, rounded up as far starts are.
    assert time.time() < row["median_s"] <= row["p90_s"] <= time.time() + 90_000
    head, *rows, _ = live.run("queue").stdout.splitlines()
    assert head.split()[-5:] == ["GUARANTEED", "LIKELY", "90", "%", "WHY"]
    assert [line.split()[-3] == "-" for line in rows] == [True, False]
    assert "LIKELY" in live.run("top").stdout
    kinds = [event[1] for event in live.job(waiting)["events"]]
    assert "shown" not in kinds  # it is of no job: nothing follows from it
