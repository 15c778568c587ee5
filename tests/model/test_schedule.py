from dataclasses import fields, replace

import numpy as np

from backfill.model.schedule import (
    BACKFILL,
    CANCELLED,
    COMPLETED,
    FIT,
    NO_TIME,
    NODE_FAIL,
    PENDING,
    PREEMPTED,
    REJECTED,
    RESUMED,
    STATES,
    TIMEOUT,
    Runs,
    Schedule,
)
from backfill.model.workload import Ragged


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def codes(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


# Job a is lost once and then completed, b never starts, c runs once, d is preempted and resumed.
RUNS = Runs(
    job=ints(0, 0, 2, 3, 3),
    start=ints(0, 20, 5, 7, 30),
    end=ints(10, 40, 6, 9, 34),
    state=codes(NODE_FAIL, COMPLETED, TIMEOUT, PREEMPTED, COMPLETED),
    reason=codes(FIT, BACKFILL, FIT, FIT, RESUMED),
    held=Ragged.of([[0, 1], [1, 1], [0, 1], [0, 1, 1, 1], [1, 2]]),
    progress=ints(0, 20, 1, 2, 4),
)
SEVERAL = Schedule(
    job=np.array(list("abcd"), object),
    submit=ints(0, 0, 0, 0),
    start=ints(20, NO_TIME, 5, 30),
    end=ints(40, NO_TIME, 6, 34),
    state=codes(COMPLETED, CANCELLED, TIMEOUT, COMPLETED),
    reason=codes(BACKFILL, -1, FIT, RESUMED),
    rejected_for=np.array([""] * 4, object),
    eligible=ints(0, 0, 0, 0),
    promise=np.full(4, NO_TIME),
    nodes=("m1", "m2"),
    held=Ragged.of([[1, 1], [], [0, 1], [1, 2]]),
    runs=RUNS,
)


def table(runs: Runs) -> dict[str, list]:
    """Runs as lists, so that two can be compared."""
    found = {column.name: getattr(runs, column.name) for column in fields(runs)}
    lists = [runs.held[row].tolist() for row in range(len(runs))]
    return {name: lists if name == "held" else values.tolist() for name, values in found.items() if values is not None}


def test_the_states_have_their_codes():
    assert [STATES[code] for code in (COMPLETED, TIMEOUT, REJECTED, CANCELLED, NODE_FAIL, PREEMPTED, PENDING)] == list(
        STATES
    )


def test_runs_know_their_number_their_length_and_what_was_lost():
    assert RUNS.number.tolist() == [1, 2, 1, 1, 2]
    assert RUNS.length.tolist() == [10, 20, 1, 2, 4]
    assert RUNS.lost.tolist() == [10, 0, 0, 0, 0]
    assert RUNS.total(RUNS.length, 4).tolist() == [30, 0, 1, 6]


def test_where_each_job_ran_once_the_runs_are_those_of_the_jobs():
    once = replace(SEVERAL, runs=None, state=codes(COMPLETED, REJECTED, NODE_FAIL, TIMEOUT))
    assert table(once.all_runs) == {
        "job": [0, 2, 3],
        "start": [20, 5, 30],
        "end": [40, 6, 34],
        "state": [COMPLETED, NODE_FAIL, TIMEOUT],
        "reason": [BACKFILL, FIT, RESUMED],
        "held": [[1, 1], [0, 1], [1, 2]],
        "progress": [20, 0, 4],
    }
    assert SEVERAL.all_runs is RUNS


def test_the_runs_go_with_their_jobs():
    taken = SEVERAL.take(ints(3, 1, 0))
    assert taken.job.tolist() == ["d", "b", "a"]
    assert taken.held[0].tolist() == [1, 2]
    assert taken.runs is not None
    assert table(taken.runs) == {
        "job": [0, 0, 2, 2],
        "start": [7, 30, 0, 20],
        "end": [9, 34, 10, 40],
        "state": [PREEMPTED, COMPLETED, NODE_FAIL, COMPLETED],
        "reason": [FIT, RESUMED, FIT, BACKFILL],
        "held": [[0, 1, 1, 1], [1, 2], [0, 1], [1, 1]],
        "progress": [2, 4, 0, 20],
    }
    assert len(SEVERAL.take(ints()).all_runs) == len(SEVERAL.take(ints(1)).all_runs) == 0
    assert replace(SEVERAL, runs=None).take(ints(0)).runs is None


def test_lists_of_rows_can_be_taken_in_any_order_and_more_than_once():
    lists = Ragged.of([[1, 2], [], [3]])
    for rows in ([], [2, 0], [1], [0, 0, 1, 2]):
        taken = lists.take(np.array(rows, np.int64))
        assert [taken[i].tolist() for i in range(len(taken))] == [lists[row].tolist() for row in rows]
