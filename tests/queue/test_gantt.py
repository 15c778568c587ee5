"""The chart of a plan as text."""

import time

import pytest

from backfill.answers.plan import drawn as begin_of
from backfill.client.gantt import chart, summary

HOUR = 3600
NOW = 1_700_000_000 // 86_400 * 86_400 + 12 * HOUR  # noon
RAN = {"label": "1", "name": "old", "user": "ana", "cpus": 4, "nodes": {"n1": 4}, "licences": {}, "state": "COMPLETED",
       "start_s": NOW - HOUR, "end_s": NOW - HOUR / 2}  # fmt: skip
RUNS = {"label": "2", "name": "runs", "user": "bo", "cpus": 2, "nodes": {"n1": 2}, "licences": {"lic": 1},
        "state": "RUNNING", "start_s": NOW - HOUR / 2, "likely_end_s": NOW + HOUR / 2,
        "latest_end_s": NOW + HOUR}  # fmt: skip
WAITS = {"label": "3", "name": "next", "user": "cy", "cpus": 4, "nodes": {"n1": 4}, "licences": {}, "state": "PENDING",
         "limit_s": HOUR, "guaranteed_s": NOW + HOUR, "planned_s": NOW + HOUR, "median_s": NOW + HOUR / 2,
         "p90_s": NOW + 3 * HOUR / 4, "expected_s": None, "drawn_s": NOW + HOUR, "reason": "Resources"}  # fmt: skip
HELD = {**WAITS, "label": "4", "name": "held", "guaranteed_s": None, "planned_s": None, "median_s": None,
        "p90_s": None, "drawn_s": None, "nodes": {}, "reason": "JobHeldUser"}  # fmt: skip
COURSE = {"reservation": "course", "begin_s": NOW + HOUR / 2, "until_s": NOW + HOUR}
LANES = [
    {"lane": "node", "name": "n1", "amount": 4, "stated": 4, "reason": ""},
    {"lane": "node", "name": "n2", "amount": 2, "stated": 4, "reason": "broken"},
    {"lane": "licence", "name": "lic", "amount": 1, "stated": 1, "reason": ""},
]


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def plan(**more):
    kinds = {"past": [RAN], "running": [RUNS], "pending": [WAITS, HELD], "reservations": [COURSE]}
    omitted = {"past": 0, "running": 0, "pending": 0}
    facts = {"now_s": NOW, "since_s": NOW - 2 * HOUR, "until_s": None, "lanes": LANES, "omitted": omitted}
    return {**facts, "policy": "conservative", "binds": True, "shadow": False, "pool": "local", "planner": "ready",
            "paused": False, **kinds, **more}  # fmt: skip


def drawn(found, width=66, **more):
    return [line.plain.rstrip() for line in chart(found, width, **more)]


def test_nodes_licences_reservations_and_jobs_are_lines_over_time():
    assert drawn(plan()) == [
        "                               12:00            13:00",
        "                     ──────────▼────────────────┴─────────────────",
        "n1     cpus        4 █▇▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▆█████████████████",
        "n2     cpus      2/4           │",
        "lic    copies      1  ▃█████████████████████████▆",
        "course reserved                │        ▚▚▚▚▚▚▚▚▚",
        "JOB    NAME     CPUS",
        "1      old         4 ██        │",
        "2      runs        2  █████████▓▓▓▓▓▓▓▓▓░░░░░░░░░",
        "3      next        4           │        ○···)···◆▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒",
        "4      held        4           │ JobHeldUser",
        "█ ran  ▓ likely goes on  ░ until its limit",
        "▒ waits: from its start to its limit  ○ likely start",
        ") start in nine of ten cases  ◆ guaranteed start  ▚ reservation",
    ]


def test_an_axis_of_more_than_a_year_says_which_year():
    whole = plan(until_s=NOW + 5 * 365 * 24 * HOUR)
    marks = drawn(whole)[0].split()
    assert marks[1::2] == [str(year) for year in range(2024, 2029)][: len(marks) // 2]
    assert marks[::2] == [month for month in marks[::2] if len(month) == 3]
    assert "202" not in drawn(plan(until_s=NOW + 300 * 24 * HOUR))[0]


def test_a_terminal_without_utf_8_gets_ascii_and_a_narrow_one_fewer_columns():
    plain = drawn(plan(), plain=True)
    assert all(line.isascii() for line in plain)
    assert plain[9] == "3      next        4           |        o...)...!:::::::::::::::::"
    narrow = drawn(plan(), width=40)
    assert narrow[9] == "3             │     ○···)··◆▒▒▒▒▒▒▒▒▒▒▒▒"
    assert all(len(line) <= 40 for line in narrow)


def test_a_policy_that_guarantees_nothing_draws_from_its_plan_or_else_from_the_likely_start():
    def line(**more):
        bar = WAITS | {"guaranteed_s": None} | more
        drawn_s = begin_of(bar, NOW)
        (found,) = [line for line in drawn(plan(pending=[bar | {"drawn_s": drawn_s}])) if line.startswith("3 ")]
        return drawn_s - NOW, found

    assert line() == (HOUR, "3      next        4           │        ○···)···▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒")
    assert line(planned_s=None) == (HOUR / 2, "3      next        4           │          ○▒▒▒▒▒)▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒")
    assert line(planned_s=None, median_s=None, expected_s=NOW - HOUR)[0] == 0  # the pool's, which is over


def test_what_does_not_fit_is_named():
    many = [WAITS | {"label": str(number)} for number in range(3, 60)]
    told = drawn(plan(pending=many, lanes=LANES * 9, omitted={"past": 7, "running": 0, "pending": 0}), lines=8)
    assert "and 51 more jobs; --lines N shows more, --user and --until choose" in told
    assert "and 11 more lanes of nodes and licences; --nodes NAME,... chooses" in told
    assert any(line.startswith("7 past jobs were not read") for line in told)
    assert sum(line.startswith(("1 ", "2 ", "3 ")) for line in told) == 3  # the past keeps a line


def test_the_span_can_be_chosen():
    whole = drawn(plan(), whole_past=True)
    assert whole[0].split() == ["10:00", "11:00", "12:00", "13:00"]
    until = drawn(plan(until_s=NOW + HOUR / 2))
    assert until[0].split() == ["12:00", "12:10", "12:20"]


def test_the_last_line_names_the_policy_and_what_it_promises():
    assert summary(plan(), False) == "12:00:00: 1 running, 2 pending. policy conservative guarantees starts"
    told = summary(plan(shadow=True, pool="slurm", paused=True), True)
    assert told.startswith(
        "12:00:00: 1 running, 2 pending in this part. policy conservative only watches slurm. paused"
    )
