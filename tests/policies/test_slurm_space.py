"""The table of the backfill loop of `slurm`: its records beside sets of nodes minute by minute."""

import random

import numpy as np
import pytest

from backfill.policies.slurm.bits import NOTHING, add, has, size
from backfill.policies.slurm.space import (
    EQUAL,
    GAINS,
    LOSES,
    enlarged,
    is_clear,
    narrow,
    new_table,
    occupy,
    slide,
)

NODES, MINUTES = 130, 60  # three words, the last one hardly used


def as_bits(nodes: set[int]) -> np.ndarray:
    bits = np.zeros(-(-NODES // 64), np.uint64)
    for node in nodes:
        add(bits, node)
    return bits


def as_set(bits: np.ndarray) -> set[int]:
    return {node for node in range(NODES) if has(bits, node)}


@pytest.mark.parametrize("seed", range(20))
def test_a_table_is_that_of_sets_minute_by_minute(seed):
    dice = random.Random(seed)
    everything = set(range(NODES))
    table, minutes = new_table(0, MINUTES, as_bits(everything), 4), [set(everything) for _ in range(MINUTES)]
    known = 0
    for _ in range(25):
        if table[0][0] + 3 > len(table[2]):
            table = enlarged(table)
        first = dice.randrange(MINUTES - 1)
        last = dice.randrange(first + 1, MINUTES + 1)
        wanted = set(dice.sample(range(NODES), dice.choice([1, 5, 60])))
        free = wanted <= set.intersection(*minutes[first:last])
        assert is_clear(*table[:4], first, last, as_bits(wanted), MINUTES, 0) == free
        known += free
        occupy(table, first, last, as_bits(wanted), free)
        for minute in range(first, last):
            minutes[minute] -= wanted
        check(table, minutes)
    assert known > 0
    windows(table, minutes, dice)


def check(table, minutes: list[set[int]]) -> None:
    count, times, line, clear, step, many, _ = table
    assert (times[0, 0], times[count[0] - 1, 1]) == (0, MINUTES)
    for row in range(count[0]):
        here = as_set(clear[line[row]])
        assert all(minutes[minute] == here for minute in range(times[row, 0], times[row, 1]))
        assert many[line[row]] == len(here) == size(clear[line[row]])
        if row + 1 < count[0]:
            assert times[row, 1] == times[row + 1, 0]
            following = as_set(clear[line[row + 1]])
            assert step[row] == (GAINS if following - here else LOSES if here - following else EQUAL)


def windows(table, minutes: list[set[int]], dice: random.Random) -> None:
    """What `slide` finds, window after window, is what `narrow` finds in each of them."""
    count, times, line, clear, _, _, common = table
    within = as_bits(set(dice.sample(range(NODES), 120)))
    front, turn, bits = np.empty_like(within), np.zeros(2, np.int64), np.empty_like(within)
    after, end, found = 0, dice.randrange(10), set()
    while after < MINUTES:
        slide(count, times, line, clear, common, after, end, within, front, turn, bits)
        expected = within.copy()
        narrow(count, times, line, clear, after, end, expected)
        assert (bits == expected).all()
        found.add((bits == NOTHING).all())
        after += dice.choice([0, 1, 1, 4])
        end = max(end, after + dice.randrange(20))
    assert False in found
