"""Records are pointers without reference counts; what Python lets go of must really go."""

import os
import subprocess
import sys

import numpy as np
import pytest

from backfill import policies
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate

SCRIPT = """
import gc, sys
from numba.core.runtime import rtsys
import numpy as np
from backfill import policies
from backfill.model.platform import Platform
from backfill.model.workload import Jobs, Workload
from backfill.worlds.simulated import simulate

n = 200
jobs = Jobs(job=np.arange(n), submit=np.arange(n), runtime=np.full(n, 50), walltime=np.full(n, 80))
def live():
    simulate(Workload(jobs), Platform.pool(4), policies.get(sys.argv[1]))
    gc.collect()
    stats = rtsys.get_allocation_stats()
    return stats.mi_alloc - stats.mi_free
first = live()
print(live() - first, live() - first)
"""


@pytest.mark.parametrize("policy", ["easy", "slurm"])
def test_a_simulation_leaves_nothing_allocated(policy):
    environment = {**os.environ, "NUMBA_NRT_STATS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, policy], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["0", "0"]


def test_no_array_of_a_schedule_lies_in_memory_of_the_core():
    """Each job ran once, in order, so that the table of runs has nothing to sort; on nodes, with events."""
    n = 50
    jobs = Jobs(job=np.arange(n), submit=SECOND * np.arange(n), runtime=np.full(n, 5), walltime=np.full(n, 8))
    events = Events.of([{"time": 0, "event": "down", "node": "n4"}])
    for platform in (Platform.pool(8, nodes=4), Platform.pool(8)):
        options = Options(events=events if len(platform.nodes) > 1 else None)
        schedule = simulate(Workload(jobs), platform, policies.get("easy"), None, options).schedule
        runs = schedule.all_runs
        arrays = [schedule.start, schedule.end, schedule.held.items, schedule.held.first]
        arrays += [schedule.promise, schedule.eligible]
        for array in [*arrays, runs.start, runs.end, runs.state, runs.progress, runs.held.items, runs.held.first]:
            while isinstance(array.base, np.ndarray):
                array = array.base
            assert array.base is None
