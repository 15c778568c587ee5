"""The checker's rules about runs that share processors in turns, each broken once."""

import re
from dataclasses import replace

import pytest

from backfill.analysis.verify import verify
from backfill.model.platform import Platform
from backfill.model.schedule import COMPLETED
from backfill.model.units import SECOND
from backfill.model.workload import Ragged

from .by_hand import scheduled, several, times, workload

POOL = Platform.pool(4)
TWO = workload([0, 0], [100, 50], tasks=[4, 4])  # take turns until 100 s, then the first is alone
RUNS = several(scheduled(TWO, POOL, [0, 0]), (0, 0, 150, COMPLETED), (1, 0, 100, COMPLETED))
HALF, OTHER, ALONE = (0, 0b1, 2), (0, 0b10, 2), (100, 1, 1)


def broken(first, second, sharing=(2, 0), **columns):
    items = [[number for t, *turn in turns for number in (t * SECOND, *turn)] for turns in (first, second)]
    runs = replace(RUNS.runs, turns=Ragged.of(items), progress=times([100, 50]))
    schedule = replace(RUNS, runs=replace(runs, **columns))
    return [str(each) for each in verify(TWO, POOL, schedule, sharing=sharing)]


def test_two_rows_of_the_whole_machine_are_lawful():
    assert broken([HALF, ALONE], [OTHER]) == []


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ([HALF, ALONE], [HALF], "capacity: job b .* row 1 of node pool holds 8 cpus of 4"),
        ([(0, 1, 1)], [OTHER], "turns: job b .* takes turns of 2 rows, while job a does of 1"),
        ([(5, 1, 2), ALONE], [OTHER], "turns: job a .* has no turns from its start on"),
        ([], [OTHER], "turns: job a .* has no turns from its start on"),
        ([HALF, ALONE, (60, 1, 1)], [OTHER], "turns: job a .* its turns are not in order of time"),
        ([HALF, ALONE, (160, 1, 1)], [OTHER], "turns: job a .* begin after its end"),
        ([HALF, ALONE], [(0, 0b100, 2)], "turns: job b .* has turns in rows that do not exist; expected some of 2"),
        ([(0, 0b1, 3), ALONE], [OTHER], "turns: job a .* has turns in rows that do not exist; expected some of 2"),
        ([HALF, (120, 1, 1)], [OTHER], "end: job a .* ends 150 s after its start; expected 160 s"),
        ([HALF, ALONE], [(0, 0b10, 2), (50, 0b11, 2)], "end: job b .* ends 100 s after its start; expected 75 s"),
    ],
)
def test_wrong_turns_are_found(first, second, told):
    found = broken(first, second)
    assert any(re.match(told, text) for text in found), found


def test_without_rows_nobody_takes_turns():
    assert any(text.startswith("end: ") for text in broken([HALF, ALONE], [OTHER], sharing=(1, 0)))


def test_a_switch_makes_runs_longer():
    assert any("expected 152.5 s" in text for text in broken([HALF, ALONE], [OTHER], sharing=(2, 50_000)))


def test_progress_is_what_the_turns_allow():
    found = broken([HALF, ALONE], [OTHER], progress=times([99, 50]))
    assert any("completes with 99 s of progress; expected 100 s" in text for text in found)
