"""Job arrays under `slurm`: one entry of the queue each, with a throttle; starts as those of the twin."""

import random
from dataclasses import replace

import numpy as np
import pytest

from backfill import Result, simulate
from backfill.model.platform import Platform
from backfill.model.slurm_site import SitePartition, SlurmSite
from backfill.model.workload import Workload
from tests.reference import world
from tests.reference.slurm import Keys, slurm
from tests.reference.words import Job
from tests.reference.words import Node as Machine
from tests.reference.words import Platform as Machines
from tests.reference.workloads import as_model

SECOND = 10**6
PARTS = (frozenset(range(4)), frozenset(range(2, 6)))
CASES = [
    {"bf_interval": 5, "bf_resolution": 10},
    {
        "bf_interval": 4,
        "bf_max_job_test": 3,
        "bf_node_space_size": 500,
        "default_queue_depth": 2,
        "bf_max_job_array_resv": 2,
    },
    {"bf_interval": 4, "bf_max_job_part": 2, "sched_max_job_start": 2, "bf_max_job_array_resv": 0, "version": 24.11},
]


def drawn(seed: int) -> tuple[list[Job], dict[int, str], dict[str, int]]:
    """Jobs, the array of each task, and how many tasks of some arrays may run at once."""
    dice, at, jobs, arrays = random.Random(seed), 0, list[Job](), dict[int, str]()
    for number in range(18):
        at += dice.choice([0, 1, 5, 20]) * SECOND
        limit, tasks, part = dice.choice([20, 60, 100]), dice.choice([1, 2, 3, 6]), dice.randrange(2)
        priority = float(dice.randrange(4))
        for _ in range(dice.choice([1, 1, 4, 7])):
            row = len(jobs)
            arrays[row] = str(number)
            jobs.append(Job(row=row, name=str(row), submit=at, runtime=dice.randint(1, limit) * SECOND, partition=part,
                            walltime=limit * SECOND, tasks=tasks, admin_priority=priority))  # fmt: skip
    sizes = {number: [*arrays.values()].count(number) for number in arrays.values()}
    arrays = {row: number for row, number in arrays.items() if sizes[number] > 1}
    return jobs, arrays, {number: dice.randint(1, 3) for number in sorted({*arrays.values()}) if dice.random() < 0.4}


def as_log(jobs: list[Job], arrays: dict[int, str], throttles: dict[str, int]) -> tuple[Workload, Platform, Machines]:
    machines = Machines(nodes=tuple(Machine((4,)) for _ in range(6)), partitions=PARTS)
    workload, platform, _ = as_model(jobs, machines)
    names = np.array([f"{arrays[job.row]}_{job.row}" if job.row in arrays else f"x{job.row}" for job in jobs])
    site = SlurmSite(
        config={"prioritytype": "priority/multifactor"},
        partitions=tuple(SitePartition(part.name) for part in platform.partitions),
        throttles=throttles,
    )
    return workload.with_jobs(workload.jobs.replace(job=names)), replace(platform, slurm=site), machines


@pytest.mark.parametrize("keys", CASES, ids=["", "depths", "none-planned"])
def test_tasks_of_arrays_start_as_those_of_the_twin(keys):
    apart = {"arrays": 0, "throttles": 0}
    for seed in range(4):
        jobs, arrays, throttles = drawn(seed)
        workload, platform, machines = as_log(jobs, arrays, throttles)
        twin = Keys(**keys, arrays=arrays, throttles=throttles, tiers=(1, 1), factors=(0.0, 0.0))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]
        words = ",".join(f"{name}={value}" for name, value in keys.items())

        def run(workload: Workload, platform: Platform) -> Result:
            return simulate(workload, platform, f"slurm:{words}")  # noqa: B023

        found = run(workload, platform)
        assert found.schedule.start.tolist() == expected, seed
        assert found.verify() == []
        site = replace(platform.slurm, throttles={})
        free = run(workload, replace(platform, slurm=site)).schedule.start.tolist()
        apart["throttles"] += free != expected
        alone = workload.with_jobs(workload.jobs.replace(job=np.array([str(job.row) for job in jobs])))
        apart["arrays"] += run(alone, replace(platform, slurm=site)).schedule.start.tolist() != free
    assert apart["throttles"] > 1
    assert apart["arrays"] > 0 or len(keys) == 2, "depths count an array as one entry"
