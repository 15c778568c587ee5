"""What keeps memory small: freed memory goes back to the operating system, nodes of runs are gathered in stretches."""

import sys
from pathlib import Path

import numpy as np
import pytest

import backfill as bf
from backfill.model.platform import Platform
from backfill.system.memory import give_back
from backfill.worlds import simulated

STATUS = Path("/proc/self/statm")
PAGE, BLOCK = 4_096, 100_000  # bytes; a block is smaller than those that the allocator maps one by one


def resident() -> int:
    return int(STATUS.read_text().split()[1]) * PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in memory")
def test_memory_between_blocks_in_use_is_given_back():
    blocks = [bytearray(BLOCK) for _ in range(1_000)]
    in_use = blocks[::10]
    blocks.clear()
    before = resident()
    give_back()
    assert before - resident() > 500 * BLOCK
    assert len(in_use) == 100


def test_nodes_of_runs_are_the_same_however_many_are_gathered_together(monkeypatch):
    log, pool = bf.generate("lublin?jobs=100&cpus=64"), Platform.pool(32, nodes=8)  # some jobs are too large

    def held():
        return bf.simulate(log, pool, policy="easy").schedule.held

    at_once = held()
    monkeypatch.setattr(simulated, "STRETCH", 7)
    in_stretches = held()
    assert len(at_once.items) > 200
    assert (np.diff(at_once.first) == 0).any()
    assert np.array_equal(in_stretches.first, at_once.first)
    assert np.array_equal(in_stretches.items, at_once.items)
