"""The policy slurm: shares and priorities against their twins, and its decisions against a recorded slurmctld."""

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.compiler.view import View
from backfill.core.transitions import submit
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.model.slurm_site import PARENT, Association, SitePartition, SlurmSite
from backfill.model.workload import Jobs, Workload
from backfill.policies import get
from backfill.policies.slurm.fairshare import rank_all
from backfill.policies.slurm.priority import points_of
from backfill.traces.slurm_requests import read_requests
from backfill.traces.slurm_site import read_slurm_site
from backfill.traces.slurmctld_log import read_slurmctld_log
from backfill.worlds.options import Options
from backfill.worlds.simulated import begin, simulate
from backfill.worlds.slurm_truth import agreement, priorities
from tests import compiled
from tests.reference import world
from tests.reference.fairtree import Node, classic, fair_tree
from tests.reference.slurm import Keys, slurm
from tests.reference.words import Job
from tests.reference.words import Node as Machine
from tests.reference.words import Platform as Machines
from tests.reference.workloads import as_model

HERE = Path(__file__).parents[1] / "traces" / "slurm_site"
SLURM = get("slurm")
SECOND = 10**6


def view_of(site: SlurmSite) -> View:
    jobs = Jobs(job=np.array(["1"]), submit=np.zeros(1, np.int64), runtime=np.full(1, 60), walltime=np.full(1, 60))
    platform = replace(Platform.pool(4), slurm=site)
    return View(begin(Workload(jobs), platform, SLURM, {}, Options(), None, False).state, SLURM.layout)


def shares_of(people: tuple[Association, ...], flags: str = "") -> np.ndarray:
    config = {"accountingstoragetype": "accounting_storage/slurmdbd", "priorityflags": flags}
    view = view_of(SlurmSite(config=config, associations=people))
    rank_all(view)
    return view.own.share.copy()


@st.composite
def trees(draw):
    """A tree of accounts with users, few different shares and usages so that many tie; some have `parent` shares."""
    count = draw(st.integers(1, 14))
    parents, users, shares, own = [-1], [False], [1], [0]
    for i in range(1, count + 1):
        accounts = [j for j in range(i) if not users[j]]
        parents.append(draw(st.sampled_from(accounts)))
        users.append(draw(st.booleans()))
        shares.append(draw(st.sampled_from([None, 0, 1, 1, 2, 5])))
        own.append(draw(st.sampled_from([0, 0, 8, 16, 64])) if users[i] else 0)
    usage = list(own)
    for i in range(count, 0, -1):
        usage[parents[i]] += usage[i]
    return [Node(*each) for each in zip(parents, users, shares, map(Fraction, usage), strict=True)]


def as_people(tree: list[Node]) -> tuple[Association, ...]:
    return tuple(
        Association(
            account=f"a{i if not node.user else node.parent}" if i else "root",
            user=f"u{i}" if node.user else "",
            parent=node.parent,
            shares=PARENT if node.shares is None else node.shares,
            usage=float(node.usage),
        )
        for i, node in enumerate(tree)
    )


@given(trees())
def test_fair_tree_ranks_users_as_its_twin(tree):
    found = shares_of(as_people(tree))
    assert {i: found[i] for i in fair_tree(tree)} == pytest.approx({i: float(x) for i, x in fair_tree(tree).items()})


@given(trees())
def test_the_classic_factor_is_that_of_its_twin(tree):
    found, expected = shares_of(as_people(tree), "NO_FAIR_TREE"), classic(tree)
    assert {i: found[i] for i in expected} == pytest.approx(expected)


@pytest.mark.parametrize("dump", ["sshare.txt", "sshare-later.txt"])
def test_fair_tree_ranks_users_as_slurm_does(dump, tmp_path):
    for file in HERE.glob("s*.txt"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "sshare.txt").write_text((HERE / dump).read_text())
    site = read_slurm_site(tmp_path).site
    shares = shares_of(site.associations)
    rows = [[cell.strip() for cell in line.split("|")] for line in (HERE / dump).read_text().splitlines()[1:]]
    stated = {(row[0], row[1]): float(row[7]) for row in rows if row[1]}
    if not any(stated[key] for key in stated if key != ("root", "root")):
        stated = {}  # new associations have a factor of 0 until the first PriorityCalcPeriod is over
    mine = {(each.account, each.user): shares[i] for i, each in enumerate(site.associations) if each.user}
    assert {key: mine[key] for key in stated} == pytest.approx(stated, abs=1e-6)
    assert stated or dump == "sshare.txt"


def test_a_priority_is_truncated_and_at_least_1():
    site = SlurmSite(
        config={
            "accountingstoragetype": "accounting_storage/slurmdbd",
            "prioritytype": "priority/multifactor",
            "priorityweightage": "10",
            "prioritymaxage": "1-00:00:00",
        },
        partitions=(),
    )
    view = view_of(replace(site, partitions=(SitePartition("main"),)))
    submit(view._state)
    view = View(view._state, SLURM.layout)
    view.own.since[0] = 0
    hours = {hour: points_of(view, 0, hour * 3600 * SECOND) for hour in (0, 2, 3, 23, 24, 48)}
    assert hours == {0: 1, 2: 1, 3: 1, 23: 9, 24: 10, 48: 10}


def recorded():
    asked = read_requests(HERE / "sacct.txt")
    platform = read_slurm_site(HERE).platform
    return read_slurmctld_log(HERE / "slurmctld.log.gz"), asked.workload, platform


def test_every_priority_at_submit_is_that_of_slurm():
    found = priorities(*recorded())
    assert found.differences == []
    assert found.alike["priority at submit"] == found.total["priority at submit"] == 77


def test_at_each_pass_of_slurm_the_same_jobs_start_on_the_same_nodes():
    found = agreement(*recorded())
    alike = {kind: (found.alike[kind], total) for kind, total in found.total.items()}
    assert alike == {
        "main: jobs started": (71, 71),
        "main: nodes of a start": (27, 27),
        "backfill: jobs started": (49, 49),
        "backfill: nodes of a start": (30, 30),
        "backfill: no plan": (810, 810),
        "backfill: begin of a plan": (450, 450),
        "backfill: nodes of a plan": (450, 450),
    }


def test_the_rules_of_another_version_plan_otherwise():
    log, workload, platform = recorded()
    found = agreement(log, workload, platform, {"version": 25.05})
    assert found.alike["backfill: begin of a plan"] < 300


def test_a_start_beyond_the_window_is_no_plan_and_counts_as_none():
    jobs = [
        Job(row=row, name=str(row), submit=(row > 1) * SECOND, runtime=limit * SECOND, walltime=limit * SECOND,
            tasks=tasks, demand=(cpus,), spread="distinct")
        for row, (tasks, cpus, limit) in enumerate([(1, 1, 40), (1, 2, 1000), (2, 2, 300), (1, 2, 300), (1, 1, 300)])
    ]  # fmt: skip
    platform = Machines((Machine((2,)), Machine((2,))))
    once = "slurm:bf_interval=1,bf_resolution=1,batch_sched_delay=0,bf_job_part_count_reserve=1,bf_window="
    within, beyond = (
        {row.name: row.start for row in compiled.run(jobs, platform, f"{once}{minutes}")} for minutes in (60, 1)
    )
    assert within["4"] < within["3"], "the wide job has the one reservation"
    assert beyond["3"] < beyond["4"], "its start lies beyond the window, and the next one has it"


def test_a_value_that_slurm_does_not_know_is_refused():
    workload = Workload(Jobs(job=np.array(["1"]), submit=np.zeros(1, np.int64), runtime=np.ones(1, np.int64),
                             walltime=np.ones(1, np.int64)))  # fmt: skip
    with pytest.raises(
        UsageError, match="bf_interval is 0; expected 1 to 10800, -1 for never, or -2 for that of the site"
    ):
        simulate(workload, Platform.pool(4), SLURM, {"bf_interval": 0})


PARTS = (frozenset({0, 1, 2, 3}), frozenset({2, 3, 4, 5}), frozenset({4, 5}))  # nodes
LISTS = ((0, 1), (2, 0), (0, 1, 2))
TIERS, FACTORS = (1, 2, 1), (1, 5, 3)


def in_lists(seed: int) -> list[Job]:
    dice, at, jobs = random.Random(seed), 0, list[Job]()
    for row in range(40):
        at += dice.choice([0, 0, 1, 5, 20]) * SECOND
        limit = dice.choice([20, 60, 120, 300])
        part, tasks = dice.choice([0, 1, 2, 3, 3, 4, 5]), dice.choice([1, 2, 4, 7, 10])
        where = dice.choice(["", "", "", "!n3", "n2" if part != 2 else "n4"])  # nodes that it excludes, or alone wants
        tasks = min(tasks, 3) if where in ("n2", "n4") else tasks
        jobs.append(Job(row=row, name=str(row), submit=at, runtime=dice.randint(1, limit) * SECOND, user=row % 3,
                        walltime=limit * SECOND, tasks=min(tasks, 8 if part == 2 else 10), partition=part,
                        constraint=where,
                        admin_priority=float(dice.choice([0, 0, 40, 150]))))  # fmt: skip
    return jobs


def named_by(jobs: list[Job], seed: int) -> dict[int, frozenset[int]]:
    """Row of a job -> nodes that it names: those of its constraint are all that it may use, others it may add."""
    dice, found = random.Random(seed), dict[int, frozenset[int]]()
    for job in jobs:
        if job.constraint[:1] == "n":
            found[job.row] = frozenset({int(job.constraint[1:])})
        elif not job.constraint and dice.random() < 0.4:
            part = job.partition if job.partition < len(PARTS) else dice.choice(LISTS[job.partition - len(PARTS)])
            found[job.row] = frozenset(dice.sample(sorted(PARTS[part]), min(job.tasks, dice.choice([1, 2]))))
    return found


@pytest.mark.parametrize(
    "keys",
    [
        {"bf_interval": 5, "bf_resolution": 2, "estimates": 1},
        {
            "bf_interval": 5,
            "bf_window": 3,
            "bf_resolution": 10,
            "bf_one_resv_per_job": 1,
            "bf_max_job_part": 5,
            "least_loaded": (1,),
        },
    ],
    ids=["", "one-reservation-and-lln"],
)
def test_a_job_in_several_partitions_starts_as_its_twin(keys):
    given, loaded = {key: value for key, value in keys.items() if key != "least_loaded"}, keys.get("least_loaded", ())
    lists = {len(PARTS) + i: each for i, each in enumerate(LISTS)}
    machines = Machines(
        nodes=tuple(Machine((cpus,)) for cpus in (4, 4, 8, 4, 8, 4)),
        partitions=(*PARTS, *(frozenset().union(*(PARTS[part] for part in each)) for each in LISTS)),
    )
    names = ["p0", "p1", "p2", *(",".join(f"p{part}" for part in each) for each in LISTS)]
    through = set[str]()
    for seed in range(4):
        jobs = in_lists(seed)
        named = named_by(jobs, seed)
        more = {row: row % 2 if jobs[row].constraint == "" else 0 for row in named}
        least = {row: min(len(nodes) + more[row], jobs[row].tasks) for row, nodes in named.items()}
        most = {  # every third job wants as many nodes as it may have
            job.row: least.get(job.row, 1) + 2
            for job in jobs
            if job.row % 3 == 0 and not job.constraint and job.tasks < 6
        }
        workload, platform, _ = as_model(jobs, machines)
        labels = workload.jobs.partition
        workload = workload.with_jobs(
            workload.jobs.replace(partition=replace(labels, names=tuple(names[int(name[1:])] for name in labels.names)))
        )
        site = SlurmSite(
            config={"prioritytype": "priority/multifactor", "priorityweightpartition": "100"},
            named={str(row): tuple(f"n{n}" for n in sorted(nodes)) for row, nodes in named.items()},
            nodes={str(job.row): (least.get(job.row, 0), most.get(job.row, 0)) for job in jobs},
            partitions=tuple(
                SitePartition(f"p{p}", TIERS[p], FACTORS[p], least_loaded=p in loaded) for p in range(len(PARTS))
            ),
        )
        parts = tuple(replace(part, name=name) for part, name in zip(platform.partitions, names, strict=True))
        platform = replace(platform, slurm=site, partitions=parts)
        factors = tuple(100 * factor / max(FACTORS) for factor in FACTORS)
        twin = Keys(**keys, named=named, least=least, most=most, lists=lists, tiers=TIERS, factors=factors)
        expected = world.run(jobs, machines, slurm(twin))
        found = simulate(workload, platform, SLURM, given).schedule
        assert found.start.tolist() == [row.start for row in expected], seed
        assert [tuple(map(tuple, found.held[row].reshape(-1, 2).tolist())) for row in range(len(jobs))] == [
            row.nodes for row in expected
        ], seed
        if "estimates" in keys:
            promised = [None if promise == NO_TIME else promise for promise in found.promise.tolist()]
            assert promised == [row.promise for row in expected], seed
        through |= {
            f"{jobs[row].partition} {part}"
            for row, each in enumerate(expected)
            for part in LISTS[jobs[row].partition - 3]
            if jobs[row].partition > 2 and {n for n, _ in each.nodes} <= PARTS[part]
        }
    assert len(through) == 7  # through every partition of every list
