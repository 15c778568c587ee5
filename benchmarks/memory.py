"""How many bytes per job a simulation needs beyond the job table. Prints one number; nothing where Linux is missing.

python benchmarks/memory.py LOAD JOBS
"""

import re
import sys
from pathlib import Path

from measure import warm

from backfill import policies
from backfill.model.platform import Platform
from backfill.worlds.simulated import simulate
from workloads import CPUS, synthetic

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(line: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (the most since the mark was cleared)."""
    found = re.search(rf"^{line}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main(load: float, jobs: int) -> None:
    if not CLEAR.exists():
        return
    workload, pool, policy = synthetic(load, jobs), Platform.pool(CPUS), policies.get("easy")
    warm(workload, pool, policy)
    CLEAR.write_text("5")  # forget the peak that building the workload reached
    before = resident("VmRSS")
    done = simulate(workload, pool, policy)
    assert len(done.schedule) == jobs
    print((resident("VmHWM") - before) / jobs)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
