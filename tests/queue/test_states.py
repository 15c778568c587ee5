"""The transition table, and that nothing happens beside it."""

from pathlib import Path

import pytest

from backfill.queue.states import HOLDING, MOVES, NEW, OVER, PENDING, after, diagram


def test_every_state_can_be_reached_and_every_open_one_can_end():
    reached, todo = {NEW}, [NEW]
    while todo:
        state = todo.pop()
        for (begin, _), some in MOVES.items():
            if begin == state:
                todo += set(some) - reached
                reached |= set(some)
    assert reached == {NEW, PENDING, *HOLDING, *OVER}
    for state in (PENDING, *HOLDING):
        assert set(MOVES[state, "end"]) <= set(OVER)


def test_nothing_follows_a_job_that_is_over():
    assert not [move for move in MOVES if move[0] in OVER]


def test_a_move_that_is_not_in_the_table_is_refused():
    with pytest.raises(AssertionError, match="start of a job that is RUNNING"):
        after("RUNNING", "start")
    with pytest.raises(AssertionError, match="end of a job that is PENDING"):
        after("PENDING", "end")


def test_the_diagram_of_the_documentation_is_drawn_from_the_table():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "queue.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}\n```\n" in page
