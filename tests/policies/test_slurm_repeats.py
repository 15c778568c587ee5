"""Plans that a backfill cycle of `slurm` takes over from the one before: decisions are those of cycles without them."""

import random
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from backfill.core.policy import Facts
from backfill.policies import get
from backfill.policies.slurm import backfill
from backfill.policies.slurm.repeats import (
    FIRST,
    HEAD,
    NO_TIME,
    NOW,
    PLANNED,
    TESTED,
    is_equal,
    is_repeated,
    leaves_equal_tables,
    read,
    write,
)
from backfill.policies.slurm.space import new_table, occupy
from backfill.worlds.simulated import simulate
from tests.reference.words import Job, Node, Platform
from tests.reference.workloads import as_model

SLURM, SECOND = get("slurm"), 10**6


def without_memory(params, platform, jobs, asked):
    found = SLURM.facts(params, platform, jobs, asked)
    assert len(found.memory["kept"]) > 0
    return Facts(found.params, {name: values for name, values in found.memory.items() if name != "kept"})


FORGETFUL = replace(SLURM, facts=without_memory)


def crowd(seed: int, count: int, whole: bool) -> list[Job]:
    """Jobs that come every few seconds, run for minutes and wait for long."""
    dice, at, jobs = random.Random(seed), 0, list[Job]()
    for row in range(count):
        at += dice.choice([0, 1, 3, 10, 30]) * SECOND
        limit = dice.choice([30, 60, 90, 200, 400, 900])
        tasks = dice.choice([1, 1, 2, 3, 4, 6, 9, 14])
        jobs.append(Job(row=row, name=str(row), submit=at, runtime=dice.randint(limit // 3, limit) * SECOND,
                        walltime=limit * SECOND, tasks=tasks if whole else 2 * tasks, user=row % 3,
                        spread="distinct" if whole else "any"))  # fmt: skip
    return jobs


KEYS = [
    {"bf_interval": 5, "bf_resolution": 1, "bf_window": 20, "estimates": 1},
    {"bf_interval": 3, "bf_resolution": 10, "bf_window": 5},
    {"bf_interval": 7, "bf_resolution": 60, "bf_window": 60, "bf_max_job_test": 15, "bf_max_job_user": 8},
    {"bf_interval": 2, "bf_resolution": 4, "bf_window": 10, "bf_node_space_size": 12, "bf_min_age_reserve": 60},
    {"bf_interval": 4, "bf_resolution": 5, "bf_window": 15, "version": 24.11, "estimates": 1},
    {"bf_interval": 4, "bf_resolution": 3, "bf_window": 30, "version": 25.05, "bf_job_part_count_reserve": 20},
]


@pytest.mark.parametrize("keys", KEYS, ids=[" ".join(f"{k}={v}" for k, v in keys.items()) for keys in KEYS])
@pytest.mark.parametrize("whole", [True, False], ids=["whole-nodes", "shared-nodes"])
def test_taken_over_plans_change_no_decision(keys, whole):
    machines = Platform(tuple(Node((1 if whole else 3,)) for _ in range(20)))
    waited = 0
    for seed in range(6):
        workload, platform, _ = as_model(crowd(seed, 250, whole), machines)
        found, expected = (simulate(workload, platform, policy, keys).schedule for policy in (SLURM, FORGETFUL))
        for name in ("start", "promise", "reason"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist(), (seed, name)
        for row in range(len(found.start)):
            assert found.held[row].tolist() == expected.held[row].tolist()
        waited += (found.start - found.eligible).sum()
    assert waited > 0


def test_plans_are_taken_over(monkeypatch):
    """In plain Python, so that they can be counted."""
    taken, tested = list[int](), list[int]()
    for seen, name, place in ((taken, "repeat", 1), (tested, "plan_one", 1)):
        of = getattr(backfill, name)

        def counted(*given, of=of, seen=seen, place=place):
            seen.append(given[place])
            return of.py_func(*given)

        monkeypatch.setattr(backfill, name, counted)
    workload, platform, _ = as_model(crowd(0, 60, True), Platform(tuple(Node((1,)) for _ in range(8))))
    simulate(workload, platform, replace(SLURM, compiled=False), KEYS[0])
    assert len(taken) > len(tested) / 10
    assert len(tested) > 60


NO_COPIES = np.zeros(0, np.int64)
NODES = 70
OWN = partial(SimpleNamespace, _state=None, bf_resolution=60.0, bf_window=100.0, version=22.05)


def state_with(before: int) -> SimpleNamespace:
    kept = np.zeros(FIRST + 2 * (HEAD + 2), np.int64)
    kept[0], kept[NOW] = 1, before * SECOND
    return SimpleNamespace(_state=None, own=OWN(kept=kept), machine=SimpleNamespace(nodes=NODES))


def bits(*nodes: int) -> np.ndarray:
    found = np.zeros(2, np.uint64)
    for node in nodes:
        found[node // 64] |= np.uint64(1) << np.uint64(node % 64)
    return found


def test_an_entry_is_read_as_it_was_written():
    state, chosen = state_with(0), bits()
    write.py_func(state, 0, 7, 2, 50, PLANNED, 900, bits(3, 63, 64, 69))
    assert read.py_func(state, 0, chosen) == (PLANNED, 900)
    assert chosen.tolist() == bits(3, 63, 64, 69).tolist()
    assert is_equal.py_func(state, 0, 50, PLANNED, 900, chosen)
    assert not is_equal.py_func(state, 0, 50, PLANNED, 900, bits(3, 63, 64))
    assert not is_equal.py_func(state, 0, 50, PLANNED, 901, chosen)


@pytest.mark.parametrize(
    ("what", "begin", "length", "now", "repeated"),
    [
        (PLANNED, 500, 100, 110, True),
        (PLANNED, 105, 100, 110, False),  # it would begin now
        (PLANNED, 500, 1090, 105, True),
        (PLANNED, 500, 1090, 110, False),  # at 1,200 a record begins, and now the job does not end before
        (PLANNED, 500, 1090, 115, False),
        (PLANNED, 500, 1101, 115, True),  # nor did it then
        (TESTED, 6_105, 100, 110, False),  # the window reaches further
        (TESTED, 6_300, 100, 110, True),
        (TESTED, None, 100, 110, True),
    ],
)
def test_the_time_that_has_passed_may_change_a_plan(what, begin, length, now, repeated):
    state = state_with(100)
    write.py_func(state, 0, 7, 2, length * SECOND, what, NO_TIME if begin is None else begin * SECOND, bits(1))
    table = new_table(60 * SECOND, 6_060 * SECOND, bits(*range(NODES)), NO_COPIES, 9)
    occupy(table, 1_200 * SECOND, 1_800 * SECOND, bits(5), NO_COPIES, True)
    assert is_repeated.py_func(state, 0, now * SECOND, length * SECOND, table) == repeated
    assert not is_repeated.py_func(state, 0, now * SECOND, (length + 1) * SECOND, table)


@pytest.mark.parametrize(
    ("begin", "length", "now", "equal"),
    [
        (500, 600, 110, True),
        (130, 600, 119, True),
        (130, 600, 121, False),  # its record begins with both tables, not behind them
        (500, 5_600, 119, True),  # the tables end at 6,060
        (500, 5_600, 121, False),  # the second ends at 6,120, behind the plan
        (500, 5_640, 121, True),  # the plan ends there too
        (6_061, 600, 119, True),
        (6_061, 600, 121, False),
    ],
)
def test_the_bounds_of_the_table_may_cut_a_plan(begin, length, now, equal):
    state = state_with(100)
    write.py_func(state, 0, 7, 2, length * SECOND, PLANNED, begin * SECOND, bits(1))
    assert leaves_equal_tables.py_func(state, 0, now * SECOND) == equal
