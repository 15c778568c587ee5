"""Jobs of one shape are counted together; that must change no start, however many shapes there are."""

import numpy as np
import pytest

from backfill import policies
from backfill.analysis.series import waiting_jobs
from backfill.core.place.kinds import MOST
from backfill.core.queue.places import DEEP
from backfill.core.setup import state_of
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Ragged, Workload
from backfill.verbs import FIT, following, place, rewind, start
from backfill.worlds.simulated import simulate
from tests.core.test_check import add, checked
from tests.core.test_deep_queue import flood
from tests.shares import LONG

KINDS = {
    "few shapes": 1,
    "a shape each": 0,
    "sites, constraints and licences": 1,
    "all of that": 0,
}  # and whether exact


def flood_of(kind, jobs=3_000):
    """A queue that grows deep on 16 nodes of 4 processors in 4 sites, and those nodes."""
    base, r = flood(jobs), np.random.default_rng(7)
    table = base.jobs.replace(tasks=np.minimum(base.jobs.tasks, 24))
    platform = Platform(
        nodes=tuple(f"n{i}" for i in range(16)),
        resources=("cpus", "memory"),
        capacity=np.tile([4, 1000], (16, 1)),
        speed=np.ones(16),
        site=np.repeat([2, 0, 1, 3], 4),
        sites=("a", "b", "c", "d"),
        licences=("l",),
        copies=np.array([5]),
        features=tuple(("odd",) if i % 2 else () for i in range(16)),
    )
    if kind in ("a shape each", "all of that"):
        table = table.replace(demand=np.column_stack([table.demand[:, 0], r.permutation(jobs) % 997]))
    if kind in ("sites, constraints and licences", "all of that"):
        table = table.replace(
            tasks=np.minimum(table.tasks, 8 if kind != "all of that" else 4),
            demand=table.demand if kind == "all of that" else np.ones((jobs, 2), np.int64),
            spread=r.integers(KINDS[kind], 3, jobs).astype(np.int8),
            constraint=Labels(r.integers(-1, 2, jobs).astype(np.int32), ("odd", "!odd")),
            licences=Ragged.of([[0] * int(n) for n in np.maximum(r.integers(-4, 3, jobs), 0)]),
        )
    return Workload(table, resources=("cpus", "memory"), licences=("l",)), platform


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "first-fit", "ibb"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_changes_no_start_among_nodes(kind, name):
    (workload, platform), policy = flood_of(kind), policies.get(name)
    searched = simulate(workload, platform, policy)
    walked = simulate(workload, platform, policy.like(name, index=False))
    assert waiting_jobs(searched.schedule).values.max() > DEEP
    assert searched.schedule.start.tolist() == walked.schedule.start.tolist()
    if name == "easy":
        assert searched.looks < walked.looks


@pytest.mark.parametrize("name", ["easy", "first-fit", "conservative"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_what_fits(kind, name):
    workload, platform = flood_of(kind, jobs=300)
    simulate(workload, platform, *checked(name, every=25 if LONG else 75))


WRONG = {
    "units": lambda state: add(state.free.shapes.units, 1),
    "beside": lambda state: add(state.free.shapes.spare, 1),
    "by site": lambda state: add(state.free.shapes.by_site, 1),
    "left by site": lambda state: add(state.free.shapes.spare_by_site, 1),
    "left for one job": lambda state: add(state.free.shapes.beside, 1),
    "by block": lambda state: add(state.free.shapes.sums, 1),
    "for one job": lambda state: add(state.free.shapes.all, 1),
    "free than their bound": lambda state: add(state.free.shapes.top, -2000),
    "free than the largest amount": lambda state: setattr(state.free.shapes, "largest", -1),
    "later.nodes": lambda state: add(state.later.nodes, 1),
    "later.licences": lambda state: add(state.later.licences, 1),
    "later.sums": lambda state: add(state.later.tasks, 1),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_counted_wrong_is_found(wrong):
    def watch(state):
        if state.later.job >= 0:
            WRONG[wrong](state)

    workload, platform = flood_of("few shapes", jobs=400)
    with pytest.raises(AssertionError, match=wrong):
        simulate(workload, platform, *checked("easy", every=50, watch=watch))


def first_fit(state, job):
    """The nodes of a job by the rule, and its tasks on each; nothing if it does not fit."""
    jobs, free = state.jobs, np.asarray(state.free.nodes)
    asked, left = np.asarray(jobs.demand[job]), int(jobs.tasks[job])
    fit = (free[:, asked > 0] // asked[asked > 0]).min(axis=1)
    if jobs.bound[job] >= 0:
        fit = np.where(np.asarray(state.machine.allowed[jobs.bound[job]]) != 0, fit, 0)
    fit = np.where(fit >= left, left, 0) if jobs.alone[job] else np.minimum(fit, jobs.most[job])
    found = []
    for node in np.flatnonzero(fit).tolist():
        found.append((node, min(int(fit[node]), left)))
        left -= found[-1][1]
        if left == 0:
            return found
    return []


def test_a_job_of_a_shape_that_is_not_counted_gets_the_same_nodes():
    """1,100 nodes of kinds that lie side by side, and about as many jobs of a hundred shapes that fill them."""
    r, n, nodes = np.random.default_rng(5), 900, 1_100
    tried = {True: 0, False: 0}

    def fill(state):
        rewind(state, 0)
        while (job := following(state, 0)) >= 0:
            expected, fits = first_fit(state, job), place(state, job)
            pairs = np.asarray(state.placed.pairs[: state.placed.count]) if fits else []
            assert [*map(tuple, np.asarray(pairs).tolist())] == expected
            tried[fits] += 1
            if fits:
                start(state, job, FIT)

    tasks = np.where(r.random(n) < 0.5, 1, r.integers(1, 90, n))
    runtime = r.integers(20, 900, n) * SECOND
    jobs = Jobs(
        job=np.arange(n),
        submit=np.sort(r.integers(0, 600, n)) * SECOND,
        runtime=runtime,
        walltime=runtime,
        tasks=tasks,
        demand=np.column_stack([2 ** r.integers(0, 4, n), r.integers(1, 6, n)]),
        spread=r.choice([0, 2, 3], n).astype(np.int8),
        constraint=Labels(r.integers(-1, 3, n).astype(np.int32), ("late", "odd", "!odd")),
    )
    kind = np.arange(nodes) * 5 // nodes
    platform = Platform(
        nodes=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpus", "memory"),
        capacity=np.array([[4, 24], [8, 8], [16, 16], [12, 48], [32, 32]])[kind],
        speed=np.ones(nodes),
        site=np.zeros(nodes, np.int64),
        features=tuple(("late",) * (k > 2) + ("odd",) * (i % 2) for i, k in enumerate(kind.tolist())),
    )
    jobs = jobs.replace(tasks=np.where(jobs.spread == 0, 1 + jobs.tasks % 3, jobs.tasks))
    workload = Workload(jobs, resources=("cpus", "memory"))
    simulate(workload, platform, policies.get("first-fit").like("fill", decide=fill, compiled=False, settable=()))
    assert min(tried.values()) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_few_shapes_and_none_asks_for_more_than_its_jobs(kind):
    workload, platform = flood_of(kind)
    jobs = workload.jobs
    state = state_of(jobs, platform, policies.get("easy"), np.zeros(0), estimate=jobs.walltime.copy())
    shapes, of = state.free.shapes, np.asarray(state.jobs.shape)
    assert shapes.count <= MOST
    assert shapes.exact == KINDS[kind]
    asked = np.where((jobs.spread == 0)[:, None], jobs.tasks[:, None], 1) * jobs.demand
    assert (shapes.unit[of] <= asked).all()
    assert (np.diff(np.unique(of, return_index=True)[1]) > 0).all()  # numbered as they first come up
