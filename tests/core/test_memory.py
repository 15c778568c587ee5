"""Records are pointers without reference counts; what Python lets go of must really go."""

import os
import subprocess
import sys

SCRIPT = """
import gc
from numba.core.runtime import rtsys
import numpy as np
from backfill import policies
from backfill.model.platform import Platform
from backfill.model.workload import Jobs, Workload
from backfill.worlds.simulated import simulate

n = 200
jobs = Jobs(job=np.arange(n), submit=np.arange(n), runtime=np.full(n, 50), walltime=np.full(n, 80))
def live():
    simulate(Workload(jobs), Platform.pool(4), policies.get("easy"))
    gc.collect()
    stats = rtsys.get_allocation_stats()
    return stats.mi_alloc - stats.mi_free
first = live()
print(live() - first, live() - first)
"""


def test_a_simulation_leaves_nothing_allocated():
    environment = {**os.environ, "NUMBA_NRT_STATS": "1"}
    found = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "0"]
