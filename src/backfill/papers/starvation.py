"""A job that a scheduler with priorities starves, unless it ages."""

import numpy as np

from backfill.api import simulate
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload

NARROW, EVERY, LENGTH = 400, 50, 100  # jobs, and seconds between them and of each


def stream() -> Workload:
    """Return one job that needs both cpus of a node, then a stream of short narrow jobs that keeps one of them busy."""
    submit = np.concatenate([[0, 1], EVERY * np.arange(1, NARROW)]) * SECOND
    runtime = np.concatenate([[LENGTH, 3 * LENGTH], np.full(NARROW - 1, LENGTH)]) * SECOND
    return Workload(
        Jobs(
            job=np.array(["first", "wide", *(f"narrow{i}" for i in range(1, NARROW))]),
            submit=submit,
            runtime=runtime,
            walltime=runtime,
            tasks=np.concatenate([[1, 2], np.ones(NARROW - 1, np.int64)]).astype(np.int64),
        ),
        name="starvation",
    )


def waits_of_the_starved() -> tuple[float, float, float]:
    """Return the wide job's wait in seconds under bf-mod with age_factor 0 and 1, and the longest wait of the others.

    The others' wait is the longer of the two runs.
    """
    log, pool = stream(), Platform.pool(2)
    waits = [
        (result.schedule.start - log.jobs.submit) / SECOND
        for result in (simulate(log, pool, "bf-mod", params={"age_factor": factor}) for factor in (0.0, 1.0))
    ]
    narrow = max(float(np.delete(each, 1).max()) for each in waits)
    return float(waits[0][1]), float(waits[1][1]), narrow
