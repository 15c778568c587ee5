"""Moves that are merged late give the same list as merging at each move."""

import copy
import pickle
import random

import numpy as np

from backfill.model.promises import CAUSES
from backfill.worlds import moves
from backfill.worlds.moves import Move, Moves
from tests.shares import seeds


def kept_up(known, move):
    """The list of a job with one more move."""
    if known and known[-1].start == move.start:
        return known
    return [*known[:1], *[*known[1:], move][-moves.MOVES :]] if known else [move]


@seeds(20, here=5)
def test_moves_are_those_of_lists_that_are_kept_up(seed, monkeypatch):
    monkeypatch.setattr(moves, "MANY", 30)
    chance, found, lists, waiting = random.Random(seed), Moves(), {}, range(1, 9)
    found._due = 30
    for now in range(300):
        if jobs := [chance.choice(waiting) for _ in range(chance.randint(0, 6))]:
            gone = [chance.randint(1, 99)]
            some = [(chance.randint(0, 3), chance.randrange(len(CAUSES)), chance.choice([0, 77])) for _ in jobs]
            found.note(now, gone, np.array(jobs), *np.array(some).T)
            for job, (start, cause, by) in zip(jobs, some, strict=True):
                lists[job] = kept_up(lists.get(job, []), Move(now, start, CAUSES[cause], by, gone))
        if chance.random() < 0.1:
            job = chance.choice(waiting)
            found.forget(job)
            lists.pop(job, None)
        if found._rows > found._due:
            gone_for_good = chance.choice(waiting)
            lists.pop(gone_for_good, None)
            found.rest(lambda gone=gone_for_good: np.array([job for job in waiting if job != gone]))
            assert found._rows <= (moves.MOVES + 2) * len(waiting)
        if now % 50 == 7:
            before, found = copy.copy(found), pickle.loads(pickle.dumps(found))
            before.note(now, [], np.array([1]), *np.array([[9, 0, 0]]).T)
            assert before.of(1)[-1].start == 9
        assert all(found.of(job) == lists.get(job, []) for job in waiting)
    assert any(len(each) > moves.MOVES / 2 for each in lists.values())
