"""Fifty-four jobs on four nodes: shapes of the NAS Parallel Benchmarks, as the IBB paper prints no table of its own.

Six benchmarks x three classes x three numbers of processes. Operations and memory are of the order of NASA's
reports for the classes A and B (Bailey et al., RNR-94-007 and NAS-95-020); class C is class B times the growth of
its grid. Nodes, speed and rounding are ours: docs/decisions/0011-ibb-readings.md.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Jobs, Workload
from backfill.workloads.uniform import Uniform

NODES, CORES, NODE_MB = 4, 8, 4096
GRAIN = 128  # MB: HTCondor rounds the memory of a job up to multiples of it
RATE = 0.2  # 10^9 operations per second of one process; all processes of a job share its operations evenly
PROCESSES = (4, 8, 16)
CLASSES = "ABC"
TABLE = {  # benchmark -> (10^9 operations, total MB) of each class
    "EP": ((26.7, 8), (101, 8), (404, 8)),
    "MG": ((3.9, 460), (18.8, 470), (150, 3800)),
    "CG": ((1.5, 80), (54.9, 780), (143, 2000)),
    "FT": ((5.6, 470), (71.4, 1300), (308, 5200)),
    "IS": ((0.8, 210), (3.2, 910), (12.6, 3600)),
    "LU": ((64.6, 240), (320, 980), (1280, 3900)),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A job of the experiment."""

    name: str  # benchmark.class.processes
    cpus: int
    memory: int  # MB
    runtime: int  # s

    @property
    def work(self) -> int:
        """The work in cpu seconds."""
        return self.cpus * self.runtime


def shapes() -> list[Shape]:
    """Return all shapes, by work."""
    jobs = [
        Shape(f"{benchmark}.{letter}.{processes}", processes, memory, math.ceil(operations / RATE / processes))
        for benchmark, classes in TABLE.items()
        for letter, (operations, memory) in zip(CLASSES, classes, strict=True)
        for processes in PROCESSES
    ]
    return sorted(jobs, key=lambda shape: (shape.work, shape.cpus, shape.name))


SHAPES = shapes()
LARGEST = tuple(s.name for s in SHAPES if s.name.endswith(f"{CLASSES[-1]}.{PROCESSES[-1]}"))  # in class and processes


def pool() -> Platform:
    """Return the four nodes as one pool: the paper states no placement rule."""
    return Platform.pool(NODES * CORES, memory=NODES * NODE_MB * 2**20)


def drawn(seed: int) -> list[Shape]:
    """Return the shapes in a random order."""
    return [SHAPES[i] for i in np.argsort(Uniform(seed)(len(SHAPES)), kind="stable")]


def jobs(seed: int) -> Workload:
    """Return the jobs, submitted a second apart in a random order; walltimes are exact."""
    ordered = drawn(seed)
    runtime = np.array([shape.runtime for shape in ordered]) * SECOND
    demand = np.array([(shape.cpus, shape.memory * 2**20) for shape in ordered])
    return _submitted(ordered, "54 NAS benchmarks", pool(), runtime=runtime, demand=demand)


def on_nodes(seed: int, platform: Platform, scale: float) -> Workload:
    """Return the jobs on nodes: a process is a task with its share of the memory, rounded up to GRAIN as in HTCondor.

    scale: of the run times, which are at least a second. The memory of a job is the same share of a node as in `pool`.
    """
    ordered, node_mb = drawn(seed), int(platform.capacity[0, platform.resources.index("memory")]) / 2**20
    runtime = np.array([max(round(shape.runtime * scale * SECOND), SECOND) for shape in ordered])
    grains = [math.ceil(shape.memory / shape.cpus / NODE_MB * node_mb / GRAIN) for shape in ordered]
    demand, tasks = np.array([(1, count * GRAIN * 2**20) for count in grains]), np.array([one.cpus for one in ordered])
    return _submitted(ordered, "54 NAS benchmarks on nodes", platform, runtime=runtime, demand=demand, tasks=tasks)


def _submitted(some: list[Shape], name: str, platform: Platform, runtime: Ints, **more: Any) -> Workload:
    """Return the workload of these jobs, submitted a second apart."""
    job, submit = np.array([shape.name for shape in some]), np.arange(len(some)) * SECOND
    jobs = Jobs(job=job, submit=submit, runtime=runtime, walltime=runtime, **more)
    return Workload(jobs, name=name, resources=("cpus", "memory"), platform=platform)
