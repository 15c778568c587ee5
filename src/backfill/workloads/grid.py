"""A grid of sites: a stream of local jobs at each site, and a stream of gangs for all of them.

All streams are Poisson streams. A local job has one task, and is bound to its site; the tasks of a gang start together.
Service times are exponential, and known exactly. Source: Dimitriadou and Karatza, CISIS 2010;
docs/decisions/0026-grid-readings.md records the readings of what the text leaves open.

Each attribute of each stream has its own random stream, so workloads that differ in one argument share all
other attributes.
"""

import math

import numpy as np

from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Floats, Ints, Jobs, Labels, Workload
from backfill.workloads.uniform import Uniform, digest

VERSION = 3  # increase it whenever the same arguments yield other jobs
MOST = 10**7  # jobs
SHORTEST = 1e-3  # mean run time in seconds: a thousand times the unit of time
POWERS, UNIFORM = "2,4,8,16", "2-13"  # the two distributions of the paper, both with mean 7.5
GANGS = 0  # index of the stream of gangs; those of local jobs count from 1
GAP, SERVICE, SIZE = range(3)  # random streams


def grid(
    jobs: int = 20_000,
    sites: int = 2,
    processors: int = 16,
    *,
    seed: int = 0,
    local: float = 10,
    gangs: float = 0.5,
    service: float = 1,
    sizes: str = POWERS,
    per_task: int = 0,
    coallocation_overhead: float = 0,
) -> Workload:
    """Return the first jobs of all streams, with the grid that they were made for as `platform`; times in seconds.

    jobs:       local jobs and gangs together.
    processors: of each site; each is a node of one cpu.
    seed:       >= 0.
    local:      local jobs per second, at each site.
    gangs:      gangs per second, at all sites together.
    service:    mean run time of a local job, and of a gang, at least 1 ms; no run is shorter than 1 us.
    sizes:      of gangs: `2-13` for equally likely whole numbers, or a list of these, `2,4,8,16`, optionally each
                with a weight, `2:3,16:1`.
    per_task:   1: each task of a gang has its own run time and ends independently. Then a gang is a project of jobs
                of one task each.
    coallocation_overhead: relative increase of the run time of a gang on several sites. Its walltime allows for that.
                With per_task it has no effect: each task is then a job on one site.

    Raises UsageError for arguments out of their bounds.
    """
    _check(jobs, sites, processors, seed, local, gangs, service, per_task, coallocation_overhead)
    values, shares = _distribution(sizes, sites * processors if gangs else MOST)
    stream, number, submit = _arrivals(seed, jobs, [gangs, *[local] * sites])
    gang = stream == GANGS
    size = np.ones(jobs, np.int64)
    size[gang] = _sizes(values, shares, Uniform(seed, GANGS, SIZE)(int(gang.sum())))
    width = int(values[-1]) if per_task else 1
    first = np.zeros(jobs, np.int64)  # index of each job's run times, which are concatenated: a gang has `width`
    first[1:] = np.cumsum(np.where(gang, width, 1))[:-1]
    runtime = np.empty(jobs + int(gang.sum()) * (width - 1), np.int64)
    for each in range(sites + 1):
        mine, columns = stream == each, width if each == GANGS else 1
        drawn = -np.log(Uniform(seed, each, SERVICE)(int(mine.sum()) * columns)) * service
        times = np.maximum(np.rint(np.minimum(drawn, TIME_MAX / SECOND / (1 + coallocation_overhead)) * SECOND), 1)
        runtime[(first[mine][:, None] + np.arange(columns)).ravel()] = times
    copies = np.where(gang, size, 1) if per_task else np.ones(jobs, np.int64)
    row = np.repeat(np.arange(jobs), copies)
    task = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
    run = runtime[first[row] + (task if per_task else 0)]
    spread = gang[row] & (not per_task)
    walltime = np.where(spread, np.ceil(run * (1 + coallocation_overhead)), run).astype(np.int64)
    names = ["g", *(f"s{site + 1}." for site in range(sites))]
    ids = [f"{names[s]}{n + 1}" for s, n in zip(stream[row].tolist(), number[row].tolist(), strict=True)]
    several = (copies > 1)[row]
    ids = [
        f"{name}.{t + 1}" if split else name
        for name, t, split in zip(ids, task.tolist(), several.tolist(), strict=True)
    ]
    project = np.where(several, number[row], -1).astype(np.int32)
    platform = grid_platform(sites, processors, coallocation_overhead)
    arguments = {
        "jobs": jobs, "sites": sites, "processors": processors, "seed": seed, "local": local, "gangs": gangs,
        "service": service, "sizes": sizes, "per_task": per_task, "coallocation_overhead": coallocation_overhead,
    }  # fmt: skip
    return Workload(
        jobs=Jobs(
            job=np.array(ids),
            submit=submit[row],
            runtime=run,
            walltime=walltime,
            tasks=np.ones(len(row), np.int64) if per_task else size,
            demand=np.ones((len(row), 1), np.int64),
            user=Labels(stream[row].astype(np.int32), ("grid", *platform.sites)),
            site=Labels(stream[row].astype(np.int32) - 1, platform.sites),
            project=Labels(project, tuple(f"g{n + 1}" for n in range(int(gang.sum()) * per_task))),
        ),
        name="grid",
        resources=platform.resources,
        sha256=digest("grid", VERSION, arguments),
        cpus=platform.cpus,
        platform=platform,
    )


def grid_platform(sites: int, processors: int, coallocation_overhead: float = 0) -> Platform:
    """Return sites of equal processors, each a node of one cpu."""
    nodes = sites * processors
    return Platform(
        nodes=tuple(f"s{s + 1}p{p + 1}" for s in range(sites) for p in range(processors)),
        resources=("cpus",),
        capacity=np.ones((nodes, 1), np.int64),
        speed=np.ones(nodes),
        site=np.repeat(np.arange(sites), processors),
        sites=tuple(f"site{s + 1}" for s in range(sites)),
        name="grid",
        coallocation_overhead=coallocation_overhead,
    )


def _check(
    jobs: int, sites: int, processors: int, seed: int, local: float, gangs: float, service: float, per_task: int,
    overhead: float,
) -> None:  # fmt: skip
    for name, value, low, high in (
        ("jobs", jobs, 1, MOST), ("sites", sites, 1, 1000), ("processors", processors, 1, 100_000),
        ("per_task", per_task, 0, 1), ("coallocation_overhead", overhead, 0, 1000),
        ("local", local, 0, 1e6), ("gangs", gangs, 0, 1e6), ("service", service, SHORTEST, 1e9),
    ):  # fmt: skip
        if not low <= value <= high:
            raise UsageError(f"grid: {name} is {value}; expected {low:g} to {high:g}")
    if local + gangs <= 0:
        raise UsageError("grid: local and gangs are both 0; expected jobs of at least one kind")
    if sites * processors > 100_000:
        raise UsageError(f"grid: {sites} sites of {processors} processors; expected at most 100,000 processors")
    if seed < 0:
        raise UsageError(f"grid: seed is {seed}; expected a whole number >= 0")


def _distribution(sizes: str, most: int) -> tuple[Ints, Floats]:
    """Return the sizes in a text, in ascending order, and the probability of each. Raises UsageError."""
    try:
        low, dash, high = sizes.partition("-")
        if dash:
            values = list(range(int(low), min(int(high), most + 1) + 1))  # one size too large is enough to fail
            weights = [1.0] * len(values)
        else:
            pairs = [each.partition(":") for each in sizes.split(",")]
            values, weights = [int(value) for value, _, _ in pairs], [float(w) if c else 1.0 for _, c, w in pairs]
    except ValueError:
        raise UsageError(f"grid: sizes is {sizes!r}; expected for instance 2-13, 2,4,8,16 or 2:3,16:1") from None
    if not values or min(values) < 1 or max(values) > most or len(set(values)) < len(values):
        raise UsageError(f"grid: sizes is {sizes!r}; expected different sizes from 1 to the {most} processors")
    if not all(0 < weight < math.inf for weight in weights):
        raise UsageError(f"grid: sizes is {sizes!r}; expected weights > 0")
    order = np.argsort(values)
    share = np.array(weights)[order]
    return np.array(values, np.int64)[order], share / share.sum()


def _sizes(values: Ints, shares: Floats, uniform: Floats) -> Ints:
    drawn: Ints = values[np.minimum(np.searchsorted(np.cumsum(shares), uniform, "right"), len(values) - 1)]
    return drawn


def _arrivals(seed: int, jobs: int, rates: list[float]) -> tuple[Ints, Ints, Ints]:
    """Return the stream, the index in it and the submit of the first jobs of all streams, in order of time."""
    total = sum(rates)
    streams, numbers, times = [], [], []
    for stream, rate in enumerate(rates):
        if rate == 0:
            continue
        mean = jobs * rate / total
        count = min(jobs, math.ceil(mean + 10 * math.sqrt(mean) + 20))  # fewer arrive with probability 10^-20
        times.append(np.cumsum(-np.log(Uniform(seed, stream, GAP)(count)) / rate))
        streams.append(np.full(count, stream))
        numbers.append(np.arange(count))
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")[:jobs]
    if time[order[-1]] > TIME_MAX / SECOND:
        raise UsageError("grid: the last job would come after 10^11 s; expected larger rates")
    submit = np.rint(time[order] * SECOND).astype(np.int64)
    return np.concatenate(streams)[order], np.concatenate(numbers)[order], submit
