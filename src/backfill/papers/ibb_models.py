"""The generated workloads of the IBB paper's reproduction: jobs of K resources, and Lublin's with a memory demand."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backfill.api import Result, run_spec
from backfill.model.errors import BackfillError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Jobs, Workload
from backfill.papers import nas
from backfill.papers.sweep import Numbers
from backfill.spec import RunSpec
from backfill.workloads.lublin import lublin
from backfill.workloads.uniform import Uniform

CAPACITY = 1000  # of each of the K resources
SMALLEST, LARGEST = 0.01, 0.5  # share of a resource that a job holds
RUN_S = 3600  # mean run time
LOAD = 0.7  # of each resource
UNIT = 1000  # of memory; as many in total for each cpu
PER_CPU = (0.25, 0.5, 1.0, 2.0)  # units, equally likely
SIGMA = 1.0  # of the logarithm of the units per cpu, whose mean is 1
KEPT = ("mean_wait_s", "mean_response_s", "mean_slowdown", "mean_running_jobs")


def several(count: int, seed: int, jobs: int = 1000) -> Workload:
    """Generate jobs that hold `count` resources, an independent, log-uniform share of each.

    Poisson arrivals at a mean offered load of LOAD of each resource, exponential run times, exact walltimes.
    """
    gaps, runs, *shares = (Uniform(seed, stream)(jobs) for stream in range(2 + count))
    spread = math.log(LARGEST / SMALLEST)
    demand = [np.rint(CAPACITY * SMALLEST * np.exp(each * spread)).astype(np.int64) for each in shares]
    runtime = np.maximum(1, np.rint(-np.log(runs) * RUN_S)).astype(np.int64) * SECOND
    between = RUN_S * (LARGEST - SMALLEST) / spread / LOAD
    names = ("cpus", *(f"r{k}" for k in range(1, count)))
    return Workload(
        Jobs(
            job=np.arange(1, jobs + 1),
            submit=np.rint(np.cumsum(-np.log(gaps) * between)).astype(np.int64) * SECOND,
            runtime=runtime,
            walltime=runtime,
            demand=np.column_stack(demand),
        ),
        name=f"{count} resources",
        resources=names,
        platform=Platform.pool(CAPACITY, **dict.fromkeys(names[1:], CAPACITY)),
    )


def lublin_with_memory(memory: str, load: float, seed: int, jobs: int = 2500, cpus: int = 256) -> Workload:
    """Generate Lublin's jobs with `discrete` or `lognormal` memory per cpu; there is one unit of memory per cpu."""
    log = lublin(jobs, cpus, seed=seed, load=load)
    first, second = (Uniform(seed, stream)(jobs) for stream in (100, 101))
    units: Floats = (
        np.array(PER_CPU)[(first * len(PER_CPU)).astype(np.int64)]
        if memory == "discrete"
        else np.exp(SIGMA * np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second) - SIGMA**2 / 2)
    )
    procs = log.jobs.procs
    held = np.rint(UNIT * units * procs).clip(1, UNIT * cpus).astype(np.int64)
    return Workload(
        log.jobs.replace(tasks=np.ones_like(procs), demand=np.column_stack([procs, held])),
        name=f"{log.name}, {memory} memory",
        resources=("cpus", "memory"),
        platform=Platform.pool(cpus, memory=UNIT * cpus),
    )


def of_jobs(result: Result) -> Numbers:
    """Return the wait, response and slowdown of each of the 54 jobs, by name, and the unevenness of the slowdowns."""
    jobs, schedule = result.workload.jobs, result.schedule
    return of_times(jobs, schedule.start, schedule.end)


def of_times(jobs: Jobs, start: Ints, end: Ints) -> Numbers:
    """Return the same numbers from the starts and ends of the 54 jobs."""
    wait, response = start - jobs.submit, end - jobs.submit
    slowdown = response / jobs.runtime
    each = {"wait": wait / SECOND, "response": response / SECOND, "slowdown": slowdown}
    by_job = {
        f"{what} {name}": float(value)
        for what, values in each.items()
        for name, value in zip(jobs.job.tolist(), values, strict=True)
    }
    largest = [by_job[f"wait {name}"] for name in nas.LARGEST]
    return by_job | {
        "unevenness": float(slowdown.std() / slowdown.mean()),
        "wait_of_largest": math.fsum(largest) / len(largest),
    }


@dataclass(frozen=True, slots=True)
class Drawn:
    """A generated workload under several policies. Its functions are module-level, so it can be sent to any process."""

    source: Callable[[int], Workload]  # by seed
    seed: int
    specs: Mapping[str, RunSpec]  # by policy
    more: Callable[[Result], Numbers] | None = None

    @classmethod
    def of(
        cls,
        source: Callable[[int], Workload],
        seed: int,
        policies: Sequence[str],
        more: Callable[[Result], Numbers] | None = None,
    ) -> "Drawn":
        """Build the task for a seed, under policies with their usual options."""
        return cls(source, seed, {text: RunSpec.of(text) for text in policies}, more)

    def carry_out(self) -> dict[str, Numbers]:
        """Return the metrics of each policy."""
        log = self.source(self.seed)
        return {policy: self._numbers(log, policy, spec) for policy, spec in self.specs.items()}

    def _numbers(self, log: Workload, policy: str, spec: RunSpec) -> Numbers:
        result = run_spec(log, None, spec)
        numbers: Numbers = {}
        for name in KEPT:
            if (value := result.metrics[name]) is None:
                raise BackfillError(f"{log.name} with seed {self.seed}, {policy}: {name} has no value")
            numbers[name] = float(value)
        return numbers if self.more is None else numbers | self.more(result)
