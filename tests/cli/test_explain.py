"""backfill simulate --explain: what it prints, and what of it is in JSON and on the page."""

import json

import pytest

ON4 = ("--cpus", "4")

# Four cpus: a and c hold all of them until 100, then b does.
TEXT = """
job d: 1 cpu; walltime 99 s
submitted day 0 00:00:03, started day 0 00:02:30, because it was first in the
  queue

Job d waited 2.5 min for cpus. It needs 1 cpu, and none of 4 were free at that
time. Meanwhile 3 jobs held cpus.

waited
   2.5 min  100%  for cpus
                    job a held 3 cpus for 1.62 min (49%, limit day 0 00:01:40)
                    job b held 4 cpus for 0.83 min (34%, limit day 0 00:02:40)
                    job c held 1 cpu for 1.62 min (16%, limit day 0 00:01:40)

reserved starts
  day 0 00:01:40  reserved for day 0 00:02:40, when job b reaches its limit: job
                  b started
"""


def test_the_explanation_stands_below_the_table(backfill):
    done = backfill("simulate", "tiny.csv", *ON4, "--explain", "d", "-q")
    assert (done.code, done.err) == (0, "")
    table, explanation = done.out.split("\n\njob d", 1)
    assert table == backfill("simulate", "tiny.csv", *ON4, "-q").out.rstrip("\n")
    assert f"\njob d{explanation}" == TEXT


def test_json_has_the_documented_fields(backfill):
    whole = json.loads(backfill("simulate", "tiny.csv", *ON4, "--explain", "b", "--json", "-q").out)
    found = whole["explanation"]
    assert list(found) == [
        "job", "user", "sentence", "zone", "submit_s", "eligible_s", "start_s", "end_s", "state", "reason",
        "rejected_for", "policy", "waited_s", "asks", "causes", "before", "spans", "passed", "reserved", "text",
    ]  # fmt: skip
    assert (found["job"], found["submit_s"], found["start_s"], found["waited_s"]) == ("b", 1, 100, 99)
    assert found["spans"] == [
        {
            "begin_s": 1,
            "until_s": 100,
            "kind": "resource",
            "lacks": [
                {"kind": "resource", "name": "cpus", "needed": 4, "free_least": 0, "free_most": 1, "there": 4}
            ],
        }
    ]  # fmt: skip
    assert found["passed"]["why"] == {"in-time": 1}
    assert found["reserved"] == [
        {"at_s": 1, "start_s": 100, "before_s": None, "limit_of": "a", "moved_by": [{"what": "submitted", "jobs": [],
                                                                                     "count": 0}]}
    ]  # fmt: skip
    assert found["text"][0] == "job b: 4 cpus; walltime 60 s"
    assert "explanation" not in json.loads(backfill("simulate", "tiny.csv", *ON4, "--json", "-q").out)


def test_an_unknown_job_is_refused_before_the_work_begins(backfill):
    done = backfill("simulate", "tiny.csv", *ON4, "--explain", "x", "-q")
    assert (done.code, done.out) == (2, "")
    assert done.complaint == "--explain is 'x'; expected the id of one of the 4 jobs of tiny"


@pytest.mark.parametrize("more", [(), ("--policy", "conservative"), ("--ties", "step"), ("--overrun", "extend")])
def test_the_page_of_a_saved_explanation_is_that_of_the_run(backfill, tmp_path, more):
    words = ("simulate", "tiny.csv", *ON4, "--explain", "d", *more)
    done = backfill(*words, "--save", "kept", "--report", "fresh.html", "-q")
    assert done.code == 0
    assert backfill("report", "kept", "--out", "again.html", "-q").code == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "fresh.html").read_bytes()


def test_a_log_with_unix_times_is_told_in_dates(backfill, tmp_path):
    (tmp_path / "unix.csv").write_text("job,submit,runtime\na,1359535301,100\nb,1359535302,5\n")
    done = backfill("simulate", "unix.csv", "--cpus", "1", "--explain", "b", "-q")
    assert "submitted 2013-01-30 08:41:42, started 2013-01-30 08:43:21 (UTC), because" in done.out
