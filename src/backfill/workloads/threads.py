"""Jobs of threads: each job is a project, and each of its threads is a row of one processor.

The number of threads is uniform. A job has a mean thread time, uniform too, and the time of each thread lies within a
share of it. With `linked` some threads come after an earlier thread of their job. What the paper on the thread matrix
leaves open, and the readings chosen: docs/decisions/0022-thread-matrix.md.

Each attribute has its own random stream, so workloads that differ in one argument share all other attributes.
"""

import math

import numpy as np

from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Jobs, Labels, Ragged, Workload
from backfill.workloads.uniform import Uniform, digest

VERSION = 1  # increase it whenever the same arguments yield other jobs
MOST = 10**7  # jobs
SIZE, MEAN, TIME, GAP, LINKED, BEFORE = range(6)  # random streams


def threads(
    jobs: int = 3113,
    cpus: int = 128,
    *,
    seed: int = 0,
    most: int = 16,
    shortest: float = 1.76,
    longest: float = 35.2,
    spread: float = 0.1,
    interarrival: float = 0,
    linked: float = 0,
) -> Workload:
    """Return jobs of 1 to `most` threads, with the cluster that they are made for as `platform`; times in seconds.

    cpus:               of the cluster.
    seed:               >= 0.
    shortest, longest:  mean thread time of a job.
    spread:             a thread's time differs from its job's mean by at most this share of the mean.
    interarrival:       mean time between two jobs, which arrive as a Poisson stream; 0: all arrive at once.
    linked:             share of the threads that depend on an earlier one; the first of a job never does.

    The walltime of a thread is its run time. Raises UsageError for arguments out of their bounds.
    """
    _check(jobs, cpus, seed, most, shortest, longest, spread, interarrival, linked)
    sizes = Uniform(seed, SIZE).whole(jobs, 1, most).astype(np.int64)
    job = np.repeat(np.arange(jobs), sizes)
    thread = np.arange(len(job)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    mean = shortest + (longest - shortest) * Uniform(seed, MEAN)(jobs)
    factor = 1 + spread * (2 * Uniform(seed, TIME)(len(job)) - 1)
    runtime = np.rint(mean[job] * factor * SECOND).astype(np.int64)
    arrivals = np.cumsum(-np.log(Uniform(seed, GAP)(jobs)) * interarrival)
    if arrivals[-1] + longest * 2 > TIME_MAX / SECOND:
        raise UsageError("threads: the last job would end after 10^11 s; expected smaller times")
    linked_ones = (thread > 0) & (Uniform(seed, LINKED)(len(job)) < linked)
    before = np.arange(len(job)) - thread + np.floor(Uniform(seed, BEFORE)(len(job)) * thread).astype(np.int64)
    platform = Platform.pool(cpus=cpus)
    arguments = {
        "jobs": jobs, "cpus": cpus, "seed": seed, "most": most, "times": [shortest, longest], "spread": spread,
        "interarrival": interarrival, "linked": linked,
    }  # fmt: skip
    return Workload(
        jobs=Jobs(
            job=np.array([f"{j + 1}.{t + 1}" for j, t in zip(job.tolist(), thread.tolist(), strict=True)]),
            submit=np.rint(arrivals * SECOND).astype(np.int64)[job],
            runtime=runtime,
            walltime=runtime,
            demand=np.ones((len(job), 1), np.int64),
            after=Ragged(np.append(0, np.cumsum(linked_ones)), before[linked_ones]),
            project=Labels(job.astype(np.int32), tuple(str(j + 1) for j in range(jobs))),
        ),
        name="threads",
        resources=platform.resources,
        sha256=digest("threads", VERSION, arguments),
        cpus=cpus,
        platform=platform,
    )


def _check(
    jobs: int,
    cpus: int,
    seed: int,
    most: int,
    shortest: float,
    longest: float,
    spread: float,
    interarrival: float,
    linked: float,
) -> None:
    for name, value, low, high in (
        ("jobs", jobs, 1, MOST), ("cpus", cpus, 1, 10**9), ("most", most, 1, 10**4), ("spread", spread, 0, 1),
        ("linked", linked, 0, 1),
    ):  # fmt: skip
        if not low <= value <= high:
            raise UsageError(f"threads: {name} is {value}; expected {low} to {high}")
    if not 0 <= shortest <= longest < math.inf:
        raise UsageError(f"threads: mean times are {shortest} to {longest}; expected 0 <= shortest <= longest")
    if not 0 <= interarrival < math.inf:
        raise UsageError(f"threads: interarrival is {interarrival}; expected a finite number >= 0")
    if seed < 0:
        raise UsageError(f"threads: seed is {seed}; expected a whole number >= 0")
