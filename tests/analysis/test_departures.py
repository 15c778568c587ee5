"""Promised departures of projects: by hand, against the obvious way to find them, and at size."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.departures import Departures, departure_metrics, departures, farthest, project_promises
from backfill.model.promises import CAUSES, MOVED, Promises
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Labels

from .by_hand import farm, scheduled, workload

GIVEN, UP, CHANGED = (CAUSES.index(name) for name in ("given", "moved-up", "changed"))


def promises(*rows):
    """Rows (at, job, start or None, cause, by), in seconds."""
    at, job, start, cause, by = zip(*rows, strict=True)
    start = np.array([NO_TIME if each is None else each * SECOND for each in start])
    job = np.array(job)
    end = np.where(start == NO_TIME, NO_TIME, start + LENGTHS[job])
    return Promises(np.array(at) * SECOND, job, start, end, np.array(cause), np.array(by), kept=True)


LENGTHS = np.array([2, 6, 1, 3, 4, 1]) * SECOND

#            submit runtime project | start end
#   0  a        0      2       p    |   0    2
#   1  b        0      6       p    |   4   10
#   2  c        1      1       q    |   7    8
#   3  d        1      3            |   9   12
#   4  e        2      4       r    |  12   16
#   5  f        2      1       s    |   -    -     rejected
LOG = workload([0, 0, 1, 1, 2, 2], (LENGTHS // SECOND).tolist())
LOG = LOG.with_jobs(LOG.jobs.replace(project=Labels.of(["p", "p", "q", "", "r", "s"])))
ALL = np.ones(len(LOG), np.bool_)
RAN = scheduled(LOG, farm(9), [0, 4, 7, 9, 12, None])
MADE = promises(
    (0, 0, 0, GIVEN, -1), (0, 1, 3, GIVEN, -1),  # p: 9
    (1, 2, 5, GIVEN, -1), (1, 1, 4, MOVED, 2),  # q: 6; p: 10, for q
    (1, 3, 9, GIVEN, -1),
    (2, 4, 8, GIVEN, -1), (2, 2, 9, MOVED, 4),  # r: 12; q: 10, for r
    (3, 2, 7, UP, -1), (3, 5, 3, GIVEN, -1), (3, 5, None, CHANGED, -1),  # q: 8; s is promised nothing in the end
    (4, 4, 10, MOVED, 3),  # r: 14, for d, which has no project
)  # fmt: skip


def found_of(made=MADE, log=LOG):
    return Departures.of(made, log.jobs.project.codes)


def test_a_departure_is_the_last_promised_end_and_says_for_whom_it_was_moved():
    found = departures(MADE, np.array([0, 1]), len(LOG))
    assert [each.sentence(LOG, True) for each in found] == [
        "at day 0 00:00:00 promised to depart at day 0 00:00:09",
        "at day 0 00:00:01 promised to depart at day 0 00:00:10: job b made way for job c of project q",
    ]
    assert found[1].to_dict(LOG, True) == {
        "at_s": 1, "departure_s": 10, "cause": "moved", "job": "b", "for": "c", "for_project": "q",
    }  # fmt: skip
    assert departures(MADE, np.array([5]), len(LOG)) == []


def test_how_often_and_how_far_departures_moved_and_how_many_were_kept():
    # p moved by 1 and q by 4 and back by 2, r by 2. p ends at 10 (promised 9, then 10), q at 8 (6, then 8), r at 16.
    assert departure_metrics(found_of(), LOG, RAN, ALL) == {
        "promised_projects": 3,
        "moved_departures": 4,
        "moved_projects": 3,
        "made_way_projects": 3,
        "mean_departure_move_s": (1 + 4 + 2 + 2) / 4,
        "max_departure_move_s": 4,
        "kept_departures": 0,
        "kept_last_departures": 2,
        "mean_departure_slip_s": (1 + 2 + 4) / 3,
        "max_departure_slip_s": 4,
    }


def test_a_project_counts_only_if_none_of_its_jobs_is_in_the_warm_up_or_cool_down():
    there = ALL.copy()
    there[[0, 5]] = False  # a job of p, which has another one, and the one of s
    found = departure_metrics(found_of(), LOG, RAN, there)
    assert (found["promised_projects"], found["moved_departures"], found["moved_projects"]) == (2, 3, 2)
    assert (found["mean_departure_move_s"], found["kept_last_departures"]) == ((4 + 2 + 2) / 3, 1)
    assert found["mean_departure_slip_s"] == (2 + 4) / 2


def test_a_departure_that_is_later_for_more_jobs_of_the_project_is_no_move():
    made = promises((0, 0, 0, GIVEN, -1), (5, 1, 7, GIVEN, -1), (6, 1, 6, UP, -1))
    assert found_of(made).until.tolist() == [2 * SECOND, 13 * SECOND, 12 * SECOND]
    assert found_of(made).moves.tolist() == [0, 0, -SECOND]


def test_a_promise_between_which_there_was_none_is_no_move():
    made = promises((0, 2, 5, GIVEN, -1), (2, 2, None, CHANGED, -1), (4, 2, 8, CHANGED, -1), (5, 2, None, CHANGED, -1))
    found = found_of(made)
    assert found.until.tolist() == [6 * SECOND, NO_TIME, 9 * SECOND, NO_TIME]
    assert not found.moves.any()
    assert [each.tolist() for each in found.promised] == [[6 * SECOND], [9 * SECOND]]


def told_of(found, **more):
    return project_promises(found, LOG, RAN, farthest([(found, RAN)], LOG, **more))


def test_projects_are_told_in_order_of_submit_those_that_moved_most_if_there_are_many():
    told = told_of(found_of())
    assert (told["promised"], told["first_submit_s"]) == (3, 0)
    assert [(each["project"], each["jobs"], each["result"]) for each in told["shown"]] == [
        ("p", 2, "later"), ("q", 1, "later"), ("r", 1, "late"),
    ]  # fmt: skip
    q = told["shown"][1]
    assert (q["submit_s"], q["start_s"], q["end_s"]) == (1, 7, 8)
    assert [each["departure_s"] for each in q["promises"]] == [6, 10, 8]
    few = told_of(found_of(), most=2)
    assert [each["project"] for each in few["shown"]] == ["q", "r"]
    assert few["promised"] == 3


def test_of_several_runs_the_projects_are_those_that_moved_most_in_any():
    other = found_of(promises((0, 0, 0, GIVEN, -1), (1, 0, 9, MOVED, 2), (2, 5, 3, GIVEN, -1)))
    codes = farthest([(found_of(), RAN), (other, RAN)], LOG, most=2)
    assert [LOG.jobs.project.names[code] for code in codes] == ["p", "q"]  # by 9 and by 6
    assert [each["project"] for each in project_promises(other, LOG, RAN, codes)["shown"]] == ["p"]


def test_a_project_of_which_a_job_never_ran_has_no_result():
    found = found_of(promises((2, 5, 3, GIVEN, -1)))
    (told,) = told_of(found)["shown"]
    assert (told["start_s"], told["end_s"], told["result"]) == (None, None, None)
    assert departure_metrics(found, LOG, RAN, ALL)["promised_projects"] == 0


def slow_departures(made, rows, seen):
    """Change by change: what each job of a project is promised now, and the last end of these after each instant."""
    ends, found = {}, []
    mine = [row for row in made.rows() if row[1] in rows]
    for at, changes in groupby(mine, key=lambda row: row[0]):
        for _, job, start, _, _ in changes:
            ends.pop(job, None)
            if start != NO_TIME:
                ends[job] = start + int(seen[job])
        until = max(ends.values(), default=NO_TIME)
        if until != (found[-1][1] if found else NO_TIME):
            found.append((at, until))
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.none() | st.integers(0, 20), st.sampled_from([0, 2, 3]))
    )
)
def test_all_departures_at_once_are_those_of_each_project(rows):
    at = np.cumsum([row[0] for row in rows]).tolist()
    made = (
        promises(*((t, job, start, cause, -1) for t, (_, job, start, cause) in zip(at, rows, strict=True)))
        if (rows)
        else promises((0, 3, 0, GIVEN, -1))
    )
    found = found_of(made)
    for row, project in enumerate(found.project[found.first[:-1]].tolist()):
        mine = set(np.flatnonzero(LOG.jobs.project.codes == project).tolist())
        slow = slow_departures(made, mine, LOG.jobs.walltime)
        assert [(each.at, each.until) for each in found.changes(row)] == slow


@pytest.mark.parametrize("jobs", [5, 500_000], ids=["100,000 projects", "one project of 500,000 jobs"])
def test_many_promises(jobs):
    rng = np.random.default_rng(1)
    n = 500_000
    codes = np.arange(n) // jobs
    job = np.concatenate([np.arange(n), rng.integers(0, n, n)])
    start = rng.integers(0, 10**12, 2 * n)
    made = Promises(np.sort(rng.integers(0, 10**12, 2 * n)), job, start, start + 10**6,
                    np.repeat([GIVEN, MOVED], n), np.full(2 * n, -1), kept=True)  # fmt: skip
    found = Departures.of(made, codes)
    assert len(found.first) == n // jobs + 1
