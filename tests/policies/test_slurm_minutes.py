"""Limits on minutes and on jobs that grow old: starts as those of the twin, and jobs that never start."""

import random
from dataclasses import replace

import numpy as np
import pytest

from backfill import Result, simulate
from backfill.analysis.verify import verify
from backfill.model.clock import Clock
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, PENDING
from backfill.model.slurm_site import Accrual, Association, Minutes, SitePartition, SiteQos, SlurmSite
from backfill.model.workload import Jobs, Labels, Workload
from tests.reference import world
from tests.reference.minutes import Limits
from tests.reference.slurm import Keys, slurm
from tests.reference.words import Job
from tests.reference.words import Node as Machine
from tests.reference.words import Platform as Machines
from tests.reference.workloads import as_model

SECOND = 10**6
SLURM = "slurm:bf_interval=5,bf_resolution=2"
ACCOUNT = {0: "a0", 1: "a0", 2: "a1"}  # of each user
QOS = {"plain": 1.0, "double": 2.0, "half": 0.5, "free": 0.0}
CONFIG = {
    "prioritytype": "priority/multifactor",
    "accountingstoragetype": "accounting_storage/slurmdbd",
    "accountingstorageenforce": "associations,limits,qos",
    "prioritydecayhalflife": "00:20:00",
    "prioritycalcperiod": "00:01:00",
}


def drawn(seed: int) -> tuple[list[Job], dict[int, str]]:
    dice, at, jobs = random.Random(seed), 0, list[Job]()
    for row in range(60):
        at += dice.choice([0, 1, 7, 40]) * SECOND
        limit = dice.choice([60, 120, 240])
        jobs.append(Job(row=row, name=str(row), submit=at, runtime=dice.randint(1, limit) * SECOND, partition=0,
                        walltime=limit * SECOND, tasks=dice.choice([1, 2, 4, 7]), user=dice.randrange(3)))  # fmt: skip
    return jobs, {job.row: dice.choice([*QOS]) for job in jobs}


def limited(jobs: list[Job], qos: dict[int, str], safe: bool) -> Limits:
    owners = {job.row: (f"u{job.user}", ACCOUNT[job.user], "root") for job in jobs}
    return Limits(
        qos=qos,
        owners=owners,
        group={"a0": 45, "root": 150, "half": 40},
        running={"a1": 40, "u1": 30, "double": 64},
        job={"a1": 28, "u2": 28, "plain": 30},  # what a user inherits is its own
        factor=QOS,
        keeps=frozenset({"half"} if safe else ()),
        careful=frozenset({"double"}),
        safe=safe,
        half_life=1200,
        period=60,
    )


def as_site(limits: Limits, **more: object) -> SlurmSite:
    def of(name: str) -> Minutes:
        tables = (limits.group, limits.running, limits.job)
        return Minutes(*({"cpu": table[name]} if name in table else {} for table in tables))

    def old(**scopes: tuple[str, ...]) -> Accrual:
        return Accrual(**{kind: limits.old.get(scope) for kind, scope in scopes.items()})

    accounts = [Association(name, parent=0, minutes=of(name), accrual=old(group=(name,))) for name in ("a0", "a1")]
    users = [Association(name, f"u{user}", parent=1 + (name == "a1"), minutes=of(f"u{user}"),
                         accrual=old(user=("user", f"u{user}"))) for user, name in ACCOUNT.items()]  # fmt: skip
    enforce = CONFIG["accountingstorageenforce"] + (",safe" if limits.safe else "")
    config = CONFIG | {"accountingstorageenforce": enforce}
    if limits.age[0]:
        config |= {"priorityweightage": f"{limits.age[0]:g}", "prioritymaxage": f"00:{limits.age[1] // 60}:00"}
    if limits.resets:
        config |= {"priorityusageresetperiod": "DAILY"}
    return SlurmSite(
        config=config,
        partitions=(SitePartition("p0"),),
        associations=(Association("root", minutes=of("root"), accrual=old(group=("root",))), *accounts, *users),
        qos=tuple(
            SiteQos(
                name,
                0,
                factor,
                frozenset(
                    flag
                    for flag, of_flag in (
                        ("USAGEFACTORSAFE", limits.careful),
                        ("NODECAY", limits.keeps),
                        ("OVERPARTQOS", limits.over),
                    )
                    if name in of_flag
                ),
                of(name),
                old(group=(name,))
                if ("half", "u0") not in limits.old
                else Accrual(limits.old.get((name,)), None, 1 if name == "half" else None),
            )
            for name, factor in QOS.items()
        ),
        **more,  # type: ignore[arg-type]
    )


def as_log(jobs: list[Job], qos: dict[int, str], parts: int = 1) -> tuple[Workload, Platform]:
    machines = Machines(nodes=tuple(Machine((4,)) for _ in range(4)), partitions=(frozenset(range(4)),) * parts)
    workload, platform, _ = as_model(jobs, machines)
    table = workload.jobs.replace(
        group=Labels.of([ACCOUNT[job.user] for job in jobs]),
        qos=Labels.of([qos[job.row] for job in jobs]),
        partition=Labels.of([f"p{job.partition}" for job in jobs]),
    )
    return workload.with_jobs(table), replace(
        platform, partitions=tuple(replace(part, name=f"p{p}") for p, part in enumerate(platform.partitions))
    )


def test_the_qos_of_a_partition_counts_the_minutes_of_its_jobs_as_in_the_twin():
    """In partition p1; `double` goes before it. The jobs of a second QOS there are those of a job's QOS, too."""
    keys = {"bf_interval": 5, "bf_resolution": 2}
    nodes = frozenset(range(4))
    machines = Machines(nodes=tuple(Machine((4,)) for _ in range(4)), partitions=(nodes, nodes))
    for seed in range(4):
        jobs, qos = drawn(seed)
        jobs = [replace(job, partition=job.row % 2) for job in jobs]
        part_qos = {job.row: "half" for job in jobs if job.partition == 1}
        base = limited(jobs, qos, False)
        limits = replace(base, of_partition=part_qos, over=frozenset({"double"}),
                         running={**base.running, "half": 50}, job={**base.job, "half": 16})  # fmt: skip
        workload, platform = as_log(jobs, qos, 2)
        site = as_site(limits)
        parts = (SitePartition("p0"), SitePartition("p1", qos="half"))
        twin = Keys(**keys, minutes=limits, tiers=(1, 1), factors=(0.0, 0.0))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]
        found = simulate(workload, replace(platform, slurm=replace(site, partitions=parts)), SLURM)
        assert [None if start == NO_TIME else start for start in found.schedule.start.tolist()] == expected, seed
        assert found.verify() == []
        plain = tuple(replace(part, qos="") for part in parts)
        without = simulate(workload, replace(platform, slurm=replace(site, partitions=plain)), SLURM)
        assert (without.schedule.start != found.schedule.start).sum() > 5, "its QOS binds"


def test_jobs_that_may_not_grow_old_wait_as_those_of_the_twin_and_use_is_forgotten_at_midnight():
    keys = {"bf_interval": 5, "bf_resolution": 2}
    machines, midnight = Machines(nodes=tuple(Machine((4,)) for _ in range(4)), partitions=(frozenset(range(4)),)), 420
    apart = {"resets": 0, "old": 0}
    for seed in range(4):
        jobs, qos = drawn(seed)
        old = {
            ("half",): 2,
            **{("half", f"u{user}"): 1 for user in ACCOUNT},
            ("a0",): 3,
            ("user", "u2"): 1,
            ("root",): 5,
        }
        counts = dict[int, list[tuple[str, ...]]]()
        for job in jobs:
            user, mine = f"u{job.user}", qos[job.row]
            scopes = ((mine,), (mine, user), (ACCOUNT[job.user or 0],), ("user", user), ("root",))
            counts[job.row] = [scope for scope in scopes if scope in old]
        limits = replace(limited(jobs, qos, False), resets=(midnight,), age=(5000.0, 1200), old=old, counts=counts)
        workload, platform = as_log(jobs, qos)
        site = as_site(limits, clock=Clock(86_400 - midnight))
        twin = Keys(**keys, minutes=limits, tiers=(1,), factors=(0.0,))
        expected = [row.start for row in world.run(jobs, machines, slurm(twin))]

        def run(platform: Platform) -> list[int | None]:
            found = simulate(workload, platform, SLURM)  # noqa: B023
            assert found.verify() == []
            return [None if start == NO_TIME else start for start in found.schedule.start.tolist()]

        assert run(replace(platform, slurm=site)) == expected, seed
        config = {name: value for name, value in site.config.items() if name != "priorityusageresetperiod"}
        apart["resets"] += run(replace(platform, slurm=replace(site, config=config))) != expected
        always = {**site.config, "priorityflags": "ACCRUE_ALWAYS"}
        apart["old"] += run(replace(platform, slurm=replace(site, config=always))) != expected
    assert min(apart.values()) > 1, apart


@pytest.mark.parametrize("safe", [False, True], ids=["", "safe"])
def test_jobs_wait_for_minutes_as_those_of_the_twin(safe):
    keys = {"bf_interval": 5, "bf_resolution": 2}
    machines, never = Machines(nodes=tuple(Machine((4,)) for _ in range(4)), partitions=(frozenset(range(4)),)), 0
    for seed in range(4):
        jobs, qos = drawn(seed)
        limits = limited(jobs, qos, safe)
        workload, platform = as_log(jobs, qos)
        expected = world.run(jobs, machines, slurm(Keys(**keys, minutes=limits, tiers=(1,), factors=(0.0,))))
        found = simulate(workload, replace(platform, slurm=as_site(limits)), "slurm:bf_interval=5,bf_resolution=2")
        starts = [None if start == NO_TIME else start for start in found.schedule.start.tolist()]
        assert starts == [row.start for row in expected], seed
        never += starts.count(None)
        without = simulate(
            workload, replace(platform, slurm=as_site(Limits({}, {}))), "slurm:bf_interval=5,bf_resolution=2"
        )
        assert (without.schedule.start != found.schedule.start).sum() > 5, "the limits bind"
        assert found.verify() == []
    assert never > 0


def two_jobs(runs_s: int) -> Workload:
    """Of one user in account a0: the second one comes when the first one has ended."""
    return Workload(
        Jobs(
            job=np.array(["1", "2"]),
            submit=np.array([0, 2000]) * SECOND,
            runtime=np.full(2, runs_s * SECOND),
            walltime=np.full(2, 900 * SECOND),
            user=Labels.of(["u0", "u0"]),
            group=Labels.of(["a0", "a0"]),
        )
    )


def rules_broken_if_the_second_waits(result: Result) -> set[str]:
    schedule = result.schedule
    second = {"state": PENDING, "start": NO_TIME, "end": NO_TIME}
    columns = {name: np.array([getattr(schedule, name)[0], value]) for name, value in second.items()}
    return {each.rule for each in verify(result.workload, result.platform, replace(schedule, **columns))}


def test_what_has_been_used_for_good_keeps_a_job_waiting_for_ever():
    limits = Limits({}, {}, group={"a0": 10})
    for period, clock, start in (("NONE", None, None), ("DAILY", Clock(0), 86_400), ("WEEKLY", Clock(0), 3 * 86_400)):
        site = as_site(limits, clock=clock)
        config = {**site.config, "prioritydecayhalflife": "00:00:00", "priorityusageresetperiod": period}
        result = simulate(two_jobs(700), replace(Platform.pool(1), slurm=replace(site, config=config)), "slurm")
        first, second = result.schedule.start.tolist()
        assert first < 10 * SECOND
        if start is None:
            assert result.schedule.state[1] == PENDING
        else:  # 1970 began on a Thursday
            assert start <= second // SECOND <= start + 120
        assert result.verify() == []
        enough = simulate(two_jobs(500), replace(Platform.pool(1), slurm=replace(site, config=config)), "slurm")
        assert enough.schedule.start[1] < 2100 * SECOND, "500 s are 8 min"


def test_a_job_that_waits_although_its_minutes_are_not_used_up_is_not_lawful():
    result = simulate(
        two_jobs(500), replace(Platform.pool(1), slurm=as_site(Limits({}, {}, group={"a0": 10}))), "slurm"
    )
    assert rules_broken_if_the_second_waits(result) == {"state", "rejected"}


def test_only_so_many_waiting_jobs_of_a_user_grow_old():
    def started(accrual: Accrual) -> list[str]:
        config = CONFIG | {"priorityweightage": "100000", "prioritymaxage": "1-00:00:00"}
        site = SlurmSite(
            config=config,
            associations=(
                Association("root"),
                Association("a0", parent=0),
                Association("a0", "u0", parent=1, accrual=accrual),
                Association("a0", "u1", parent=1),
            ),
        )
        count = 4
        jobs = Jobs(
            job=np.array(["first", "old", "young", "other"]),
            submit=np.arange(count) * 10 * SECOND,
            runtime=np.full(count, 1000 * SECOND),
            walltime=np.full(count, 1000 * SECOND),
            user=Labels.of(["u1", "u0", "u0", "u1"]),
            group=Labels.of(["a0"] * count),
        )
        schedule = simulate(Workload(jobs), replace(Platform.pool(1), slurm=site), "slurm").schedule
        return [str(schedule.job[row]) for row in np.argsort(schedule.start)]

    assert started(Accrual()) == ["first", "old", "young", "other"]
    assert started(Accrual(user=1)) == ["first", "old", "other", "young"]
    assert started(Accrual(group=0)) == ["first", "other", "old", "young"]


def test_a_job_without_an_association_is_stopped_by_no_limit_and_charged_to_nobody():
    limits = Limits({}, {}, group={"root": 10, "plain": 10})
    log = two_jobs(700)
    strangers = log.with_jobs(log.jobs.replace(user=Labels.of(["x", "x"]), qos=Labels.of(["plain", "plain"])))
    result = simulate(strangers, replace(Platform.pool(1), slurm=as_site(limits)), "slurm")
    assert (result.schedule.start >= 0).all()
    assert result.verify() == []
    assert rules_broken_if_the_second_waits(result) == {"state", "rejected"}
