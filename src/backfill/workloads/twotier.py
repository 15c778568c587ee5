"""The two-tier cloud: projects of independent jobs, each submitted as a whole, on one node of several resource types.

Projects arrive as a Poisson stream. The number of jobs is normal, its whole part taken; service times are exponential,
and known exactly; the demand for each type is exponential, its whole part taken, and may be 0. The capacity of a type
is uniform. Source: Lin, Thai, Wang and Lai, JNCA 52, 2015, Table 6; docs/decisions/0020-two-tier-readings.md records
the readings of what the text leaves open.

Each attribute has its own random stream, so workloads that differ in one argument share all other attributes.
"""

import math

import numpy as np

from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import SPREAD, Floats, Ints, Jobs, Labels, Workload
from backfill.workloads.uniform import Uniform, digest

VERSION = 1  # increase it whenever the same arguments yield other jobs
MOST = 10**7  # projects
TRIES = 1000  # rounds of redrawing values out of bounds
GAP, SIZE, SERVICE, DEMAND, CAPACITY, HIGH = range(6)  # random streams


def two_tier(
    projects: int = 1000,
    types: int = 5,
    *,
    seed: int = 0,
    interarrival: float = 160,
    jobs_mean: float = 5,
    jobs_sd: float = 2,
    service: float = 500,
    demand: float = 2,
    least: int = 20,
    largest: int = 40,
    high: float = 0,
) -> Workload:
    """Return a stream of projects, with the node that it was made for as its `platform`; times in seconds.

    types:              resource types, `r0` to `r<types - 1>`; the node has one cpu, which no job holds.
    seed:               >= 0; of the node and of its projects.
    interarrival:       mean time between two projects.
    jobs_mean, jobs_sd: of the normal number of jobs of a project; values below 1 are redrawn.
    service:            mean run time of a job, which is also its walltime.
    demand:             mean of the exponential demand before its whole part is taken; values above the capacity
                        are redrawn.
    least, largest:     capacity of a type.
    high:               share of the projects with priority 1; the others have 0.

    Raises UsageError for arguments out of their bounds.
    """
    _check(projects, types, seed, interarrival, jobs_mean, jobs_sd, service, demand, least, largest, high)
    capacity = Uniform(seed, CAPACITY).whole(types, least, largest).astype(np.int64)
    arrivals = np.cumsum(-np.log(Uniform(seed, GAP)(projects)) * interarrival)
    if arrivals[-1] > TIME_MAX / SECOND:
        raise UsageError("two-tier: the last project would come after 10^11 s; expected a smaller interarrival")
    sizes = _sizes(seed, projects, jobs_mean, jobs_sd)
    project = np.repeat(np.arange(projects), sizes)
    number = np.arange(len(project)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    seconds = -np.log(Uniform(seed, SERVICE)(len(project))) * service
    runtime = np.rint(np.minimum(seconds, TIME_MAX / SECOND) * SECOND).astype(np.int64)
    priority = (Uniform(seed, HIGH)(projects) < high).astype(np.float64)
    platform = Platform(
        nodes=("cloud",),
        resources=("cpus", *(f"r{k}" for k in range(types))),
        capacity=np.append(1, capacity).reshape(1, -1),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        name="two-tier",
    )
    arguments = {
        "projects": projects, "types": types, "seed": seed, "interarrival": interarrival,
        "jobs": [jobs_mean, jobs_sd], "service": service, "demand": demand, "capacity": [least, largest], "high": high,
    }  # fmt: skip
    return Workload(
        jobs=Jobs(
            job=np.array([f"{p + 1}.{j + 1}" for p, j in zip(project.tolist(), number.tolist(), strict=True)]),
            submit=np.rint(arrivals * SECOND).astype(np.int64)[project],
            runtime=runtime,
            walltime=runtime,
            demand=np.column_stack([np.zeros(len(project), np.int64), _demands(seed, len(project), demand, capacity)]),
            spread=np.full(len(project), SPREAD.index("node"), np.int8),
            priority=priority[project],
            project=Labels(project.astype(np.int32), tuple(str(p + 1) for p in range(projects))),
        ),
        name="two-tier",
        resources=platform.resources,
        sha256=digest("two-tier", VERSION, arguments),
        cpus=platform.cpus,
        platform=platform,
    )


def _check(
    projects: int,
    types: int,
    seed: int,
    interarrival: float,
    jobs_mean: float,
    jobs_sd: float,
    service: float,
    demand: float,
    least: int,
    largest: int,
    high: float,
) -> None:
    for name, value, low, high_end in (
        ("projects", projects, 1, MOST), ("types", types, 1, 100), ("least", least, 1, 10**9),
        ("largest", largest, least, 10**9), ("jobs_mean", jobs_mean, 1, 10**4), ("jobs_sd", jobs_sd, 0, 10**4),
        ("demand", demand, 0, 10**6), ("high", high, 0, 1),
    ):  # fmt: skip
        if not low <= value <= high_end:
            raise UsageError(f"two-tier: {name} is {value}; expected {low} to {high_end}")
    for name, value in (("interarrival", interarrival), ("service", service)):
        if not 0 < value < math.inf:
            raise UsageError(f"two-tier: {name} is {value}; expected a finite number > 0")
    if seed < 0:
        raise UsageError(f"two-tier: seed is {seed}; expected a whole number >= 0")


def _sizes(seed: int, projects: int, mean: float, deviation: float) -> Ints:
    """Return the number of jobs of each project, from normal numbers by Box and Muller, one of each pair."""
    sizes = np.zeros(projects)
    few = np.arange(projects)
    for attempt in range(TRIES):
        # Every round draws all projects and uses some, so a project's numbers do not depend on other redraws.
        one, other = Uniform(seed, SIZE, attempt)(2 * projects).reshape(2, projects)
        normal = np.sqrt(-2 * np.log(one)) * np.cos(2 * np.pi * other)
        sizes[few] = np.floor(mean + deviation * normal)[few]
        few = few[sizes[few] < 1]
        if not len(few):
            return sizes.astype(np.int64)
    raise UsageError(f"two-tier: after {TRIES} draws {len(few)} projects have no job; expected a larger jobs_mean")


def _demands(seed: int, jobs: int, mean: float, capacity: Ints) -> Ints:
    """Return the demand of each job for each type, shape (jobs, types)."""
    demands: Floats = np.zeros((jobs, len(capacity)))
    many = np.ones(demands.shape, np.bool_)
    for attempt in range(TRIES):
        drawn = np.floor(-np.log(Uniform(seed, DEMAND, attempt)(demands.size)) * mean).reshape(demands.shape)
        demands[many] = drawn[many]
        many = demands > capacity
        if not many.any():
            return demands.astype(np.int64)
    raise UsageError(
        f"two-tier: after {TRIES} draws {many.sum()} demands exceed the capacity; expected a smaller demand"
    )
