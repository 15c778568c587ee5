"""What the plan of `slurm` has beside nodes: licences, whole nodes of running jobs, and limits by --time-min."""

import random
from dataclasses import replace

import pytest

from backfill import simulate
from backfill.model.partitions import Rules
from backfill.model.slurm_site import SitePartition, SiteQos, SlurmSite
from backfill.model.workload import Labels
from tests.reference import world
from tests.reference.slurm import Keys, slurm
from tests.reference.words import Job
from tests.reference.words import Node as Machine
from tests.reference.words import Platform as Machines
from tests.reference.workloads import as_model

SECOND = 10**6
PARTS = (frozenset(range(4)), frozenset(range(2, 6)))
CASES = [
    {"bf_interval": 5, "bf_resolution": 10, "bf_licenses": 1},
    {"bf_interval": 4, "bf_licenses": 1, "version": 24.11, "estimates": 1},
    {"bf_interval": 4, "bf_licenses": 1, "bf_node_space_size": 6, "bf_job_part_count_reserve": 2},
    {"bf_interval": 5, "bf_resolution": 5, "bf_running_job_reserve": 1, "version": 26.05},
    {"bf_interval": 3, "bf_running_job_reserve": 1, "bf_node_space_size": 8},
]
LICENCES = {"bf_licenses", "bf_running_job_reserve"}


def drawn(seed: int) -> list[Job]:
    dice, at, jobs = random.Random(seed), 0, list[Job]()
    for row in range(50):
        at += dice.choice([0, 1, 5, 20]) * SECOND
        limit, whole = dice.choice([20, 60, 100]), dice.random() < 0.3
        tasks = dice.choice([1, 2] if whole else [1, 2, 3, 6])
        licences = tuple(sorted(dice.choices(range(2), k=dice.choice([0, 0, 1, 2]))))
        jobs.append(Job(row=row, name=str(row), submit=at, runtime=dice.randint(1, limit) * SECOND,
                        partition=dice.randrange(2), walltime=limit * SECOND, tasks=tasks, demand=(4 if whole else 1,),
                        licences=licences, exclusive=whole, admin_priority=float(dice.randrange(4))))  # fmt: skip
    return jobs


@pytest.mark.parametrize("keys", CASES, ids=["", "24.11", "small", "whole", "whole-small"])
def test_the_starts_are_those_of_the_twin(keys):
    apart = 0
    for seed in range(6):
        jobs = drawn(seed)
        machines = Machines(nodes=tuple(Machine((4,)) for _ in range(6)), copies=(2, 3), partitions=PARTS)
        workload, platform, _ = as_model(jobs, machines)
        site = SlurmSite(
            config={"prioritytype": "priority/multifactor"},
            partitions=tuple(SitePartition(part.name) for part in platform.partitions),
        )
        platform = replace(platform, slurm=site)
        whole = frozenset(job.row for job in jobs if job.exclusive)
        twin = Keys(**keys, whole=whole, tiers=(1, 1), factors=(0.0, 0.0))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]

        def starts(words: dict[str, float]) -> list[int]:
            text = ",".join(f"{name}={value}" for name, value in words.items())
            found = simulate(workload, platform, f"slurm:{text}")  # noqa: B023
            assert found.verify() == []
            return found.schedule.start.tolist()

        assert starts(keys) == expected, seed
        apart += starts({name: value for name, value in keys.items() if name not in LICENCES}) != expected
    assert apart > 2


def test_jobs_below_the_priority_of_their_qos_hold_back_nobody():
    apart = 0
    for seed in range(6):
        jobs = [replace(job, licences=()) for job in drawn(seed)]
        machines = Machines(nodes=tuple(Machine((4,)) for _ in range(6)), partitions=PARTS)
        workload, platform, _ = as_model(jobs, machines)
        names = ["low" if job.row % 3 else "high" for job in jobs]
        workload = workload.with_jobs(workload.jobs.replace(qos=Labels.of(names)))
        site = SlurmSite(
            config={"prioritytype": "priority/multifactor", "accountingstorageenforce": "limits"},
            partitions=tuple(SitePartition(part.name) for part in platform.partitions),
            qos=(SiteQos("low", reserves_from=3), SiteQos("high")),
        )
        platform = replace(platform, qos=(Rules(name="low"), Rules(name="high")))
        least = {job.row: 3 for job in jobs if job.row % 3}
        twin = Keys(bf_interval=5, bf_min_prio_reserve=2, reserves_from=least, tiers=(1, 1), factors=(0.0, 0.0))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]

        def starts(site: SlurmSite) -> list[int]:
            text = "slurm:bf_interval=5,bf_min_prio_reserve=2"
            return simulate(workload, replace(platform, slurm=site), text).schedule.start.tolist()  # noqa: B023

        assert starts(site) == expected, seed
        apart += starts(replace(site, config={"prioritytype": "priority/multifactor"})) != expected
    assert apart > 2


@pytest.mark.parametrize("keys", [{}, {"version": 24.11, "bf_interval": 5}], ids=["", "24.11"])
def test_a_job_with_a_least_limit_is_planned_by_it(keys):
    apart = 0
    for seed in range(6):
        jobs = [replace(job, licences=()) for job in drawn(seed)]
        dice = random.Random(seed)
        least = {job.row: dice.randint(5, job.walltime // SECOND) * SECOND for job in jobs if dice.random() < 0.6}
        machines = Machines(nodes=tuple(Machine((4,)) for _ in range(6)), partitions=PARTS)
        workload, platform, _ = as_model(jobs, machines)
        parts = tuple(SitePartition(part.name) for part in platform.partitions)
        site = SlurmSite(config={"prioritytype": "priority/multifactor"}, partitions=parts)
        twin = Keys(**keys, least_limits=least, tiers=(1, 1), factors=(0.0, 0.0))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]
        text = f"slurm:{','.join(f'{name}={value}' for name, value in keys.items())}".rstrip(":")

        def starts(site: SlurmSite) -> list[int]:
            found = simulate(workload, replace(platform, slurm=site), text)  # noqa: B023
            assert found.verify() == []
            return found.schedule.start.tolist()

        assert starts(replace(site, least_limits={str(row): limit for row, limit in least.items()})) == expected, seed
        apart += starts(site) != expected
    assert apart > 2
