"""The table of the backfill loop of `slurm`: its records beside sets of nodes minute by minute."""

import random

import numpy as np
import pytest

from backfill.policies.slurm.bits import NOTHING, Sets, add, has, size
from backfill.policies.slurm.space import (
    EQUAL,
    GAINS,
    LOSES,
    begin_windows,
    is_clear,
    narrow,
    new_table,
    next_chance,
    occupy,
    slide,
    tighten,
)

NO_COPIES = np.zeros(0, np.int64)
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
    table, minutes = (
        new_table(0, MINUTES, as_bits(everything), NO_COPIES, MINUTES + 1),
        [set(everything) for _ in range(MINUTES)],
    )
    known = 0
    for _ in range(25):
        first = dice.randrange(MINUTES - 1)
        last = dice.randrange(first + 1, MINUTES + 1)
        wanted = set(dice.sample(range(NODES), dice.choice([1, 5, 60])))
        free = wanted <= set.intersection(*minutes[first:last])
        assert is_clear(table, first, last, as_bits(wanted), MINUTES, 0) == free
        known += free
        occupy(table, first, last, as_bits(wanted), NO_COPIES, free)
        for minute in range(first, last):
            minutes[minute] -= wanted
        check(table, minutes)
    assert known > 0
    windows(table, minutes, dice)


@pytest.mark.parametrize("seed", range(20))
def test_a_record_counts_at_least_the_nodes_that_have_anything_free(seed):
    dice = random.Random(seed)
    opens = {node: dice.choice([0, 10, 20, 40]) for node in range(NODES)}  # the minute from which it has
    table, fewer = new_table(0, MINUTES, as_bits(set(range(NODES))), NO_COPIES, MINUTES + 1), 0
    for _ in range(25):
        first = dice.randrange(MINUTES - 1)
        last = dice.randrange(first + 1, MINUTES + 1)
        some = [node for node in range(NODES) if opens[node] <= first]
        wanted = as_bits(set(dice.sample(some, dice.choice([1, 5, 20]))))
        occupy(table, first, last, wanted, NO_COPIES, is_clear(table, first, last, wanted, MINUTES, 0))
        for minute in (first, last):
            tighten(table, minute, as_bits({node for node in range(NODES) if opens[node] <= minute}))
        for row in range(table.count):
            place, end = table.line[row], table.times[row, 1]
            there = {node for node in as_set(table.clear[place]) if opens[node] <= end}
            assert len(there) <= table.open[place] <= table.many[place]
            fewer += table.open[place] < table.many[place]
    assert fewer > 100


def check(table, minutes: list[set[int]]) -> None:
    count, times, line, clear, step, many = (
        table.count,
        table.times,
        table.line,
        table.clear,
        table.step,
        table.many,
    )
    assert (times[0, 0], times[count - 1, 1]) == (0, MINUTES)
    for row in range(count):
        here = as_set(clear[line[row]])
        assert all(minutes[minute] == here for minute in range(times[row, 0], times[row, 1]))
        assert many[line[row]] == len(here) == size(clear[line[row]])
        if row + 1 < count:
            assert times[row, 1] == times[row + 1, 0]
            following = as_set(clear[line[row + 1]])
            assert step[row] == (GAINS if following - here else LOSES if here - following else EQUAL)


def windows(table, minutes: list[set[int]], dice: random.Random) -> None:
    """What `slide` finds, window after window, is what `narrow` finds in each of them, and its size."""
    nodes = set(range(NODES)) if dice.random() < 0.5 else set(dice.sample(range(NODES), 120))
    within, none = as_bits(nodes), np.zeros(1, np.int64)
    sets = Sets(up=as_bits(set(range(NODES))), of=within.reshape(1, -1).copy(), known=none)
    begin_windows(table, sets, 0)
    bits = np.empty_like(within)
    after, end, found = 0, dice.randrange(10), set()
    while after < MINUTES:
        many = slide(table, after, end, bits)
        expected = within.copy()
        narrow(table, after, end, expected)
        assert (bits == expected).all()
        assert many == size(expected)
        found.add((bits == NOTHING).all())
        chance(table, minutes, nodes, after, end)
        after += dice.choice([0, 1, 1, 4])
        end = max(end, after + dice.randrange(20))
    assert False in found


def chance(table, minutes: list[set[int]], nodes: set[int], after: int, end: int) -> None:
    """`next_chance` is the first minute at which any of the nodes becomes free, if a record before it begins by `end`.

    Records with equal nodes may follow each other, so only the first such minute is compared.
    """
    at = next_chance(table, after, end, False)
    gained = [t for t in range(after + 1, MINUTES) if (minutes[t] - minutes[t - 1]) & nodes]
    if at >= 0:
        assert at == gained[0]
    else:
        assert not gained or end < gained[0]
