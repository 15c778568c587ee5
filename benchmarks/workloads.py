"""The synthetic workload that the speed claims rest on."""

import hashlib
import math

import numpy as np

from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload

CPUS = 1024
LOADS = (0.7, 0.9, 0.95, 1.5)


def synthetic(
    load: float, jobs: int = 1_000_000, cpus: int = CPUS, *, seed: int = 1, largest: int | None = None
) -> Workload:
    """`jobs` rigid jobs at an offered load: sum of procs * runtime / (cpus * last submit). Whole seconds.

    Arrivals: Poisson. Sizes: log-uniform from 1 to `largest` (default cpus / 4), three quarters of them rounded to a
    power of two.
    Run times: lognormal with median 10 min and sigma 1.8, cut at 1 s and 2 days. Walltime: run time x U[1, 5].
    The same seed gives the same jobs at every load; only the submit times are stretched.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    largest = largest or cpus // 4
    log2 = random.uniform(0, math.log2(largest), jobs)
    log2 = np.where(random.random(jobs) < 0.75, np.rint(log2), log2)
    procs = np.rint(np.exp2(log2)).astype(np.int64)
    runtime = np.rint(np.exp(random.normal(math.log(600), 1.8, jobs)).clip(1, 172_800)).astype(np.int64)
    walltime = np.ceil(runtime * random.uniform(1, 5, jobs)).astype(np.int64)
    arrival = np.cumsum(random.exponential(1, jobs))
    last_submit = float((procs * runtime).sum()) / (cpus * load)
    submit = np.floor(arrival * (last_submit / arrival[-1]) + 0.5).astype(np.int64)
    return Workload(
        jobs=Jobs(
            job=np.arange(1, jobs + 1),
            submit=submit * SECOND,
            runtime=runtime * SECOND,
            walltime=walltime * SECOND,
            tasks=procs,
        ),
        name=f"synthetic load={load:g} jobs={jobs} cpus={cpus} largest={largest} seed={seed}",
        # Of the jobs, not of the arguments: numpy may change the streams of its distributions.
        sha256=hashlib.sha256(np.stack([submit, runtime, walltime, procs]).tobytes()).hexdigest(),
        cpus=cpus,
    )


def of_resources(workload: Workload, count: int, *, seed: int = 2) -> Workload:
    """The same jobs with `count` resources: each further one is asked for in proportion to the processors, times a
    lognormal factor of mean 1 and sigma 0.7, in thousandths. Every resource has the same offered load, but for cuts."""
    random = np.random.Generator(np.random.PCG64(seed))
    procs = workload.jobs.procs
    demand = [procs]
    for _ in range(1, count):
        factor = np.exp(random.normal(-0.245, 0.7, len(procs)))
        demand.append(np.rint(1000 * procs * factor).astype(np.int64).clip(1, 1000 * CPUS))
    jobs = workload.jobs.replace(tasks=np.ones_like(procs), demand=np.column_stack(demand))
    names = ("cpus", *(f"r{i}" for i in range(1, count)))
    return Workload(jobs, name=f"{workload.name} resources={count}", resources=names, cpus=CPUS)
