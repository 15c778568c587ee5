"""Gangs on grids of sites: the compiled policies do what their slow twins do, and what a queueing network does."""

import numpy as np
import pytest
from hypothesis import given

from backfill.workloads.grid import POWERS, UNIFORM, grid
from tests import compiled
from tests.differential import test_events, test_twins
from tests.reference import world
from tests.reference.grid import simulate
from tests.reference.words import Job, Node, Platform
from tests.reference.workloads import cases_with_events, grid_cases, grids_with_events, plain_grid_cases
from tests.shares import a_share

GRID = [name for name in world.POLICIES if name.startswith("gang")]
every_gang_policy = a_share(GRID, of=2)


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@every_gang_policy
@given(case=grid_cases())
def test_every_start_equals_the_twin(name, options, case):
    test_twins.compare(case, name, **options)


@pytest.mark.parametrize("options", [{}, {"lost": "fail"}, {"overrun": "extend"}], ids=["requeue", "fail", "extend"])
@every_gang_policy
@given(happening=grids_with_events())
def test_with_events_every_start_equals_the_twin(name, options, happening):
    test_events.compare(happening, name, **options)


@pytest.mark.parametrize("options", [{}, {"overrun": "extend"}], ids=["kill", "extend"])
@every_gang_policy
@given(happening=cases_with_events(grid_cases(), kinds=("window", "window", "walltime")))
def test_with_announced_windows_every_start_equals_the_twin(name, options, happening):
    test_events.compare(happening, name, **options)


NETWORKS = {
    "gang-site": {"approach": 1},
    "gang-site:tolerance=2": {"approach": 1, "tolerance": 2},
    "gang-site:tolerance=2,delay=bounded": {"approach": 1, "tolerance": 2, "delay": "bounded"},
    "gang-span": {"approach": 2},
    "gang-span:tolerance=3": {"approach": 2, "tolerance": 3},
    "gang-span:tolerance=1,delay=bounded": {"approach": 2, "tolerance": 1, "delay": "bounded"},
    "gang-span:tolerance=inf,cross=idle": {"approach": 2, "tolerance": np.inf, "cross": "idle"},
}


@pytest.mark.parametrize("overrun", ["kill", "extend"])
@pytest.mark.parametrize("name", NETWORKS)
@given(case=plain_grid_cases())
def test_every_start_equals_that_of_a_queueing_network(name, overrun, case):
    expected = simulate(case.jobs, case.platform, **NETWORKS[name], overrun=overrun)
    for have, want in zip(compiled.run(case.jobs, case.platform, name, overrun=overrun), expected, strict=True):
        assert have == want, f"{name}, job {want.name}: {have}, the network says {want}"


@pytest.mark.parametrize(("sizes", "per_task"), [(POWERS, 0), (UNIFORM, 0), (POWERS, 1)])
@pytest.mark.parametrize("name", ["gang-site:tolerance=0.25", "gang-span:tolerance=0.1", "gang-span:cross=idle"])
def test_with_poisson_arrivals_every_start_equals_that_of_a_queueing_network(name, sizes, per_task):
    log = grid(1500, local=12, sizes=sizes, per_task=per_task, seed=3)
    table, site, project = log.jobs, log.jobs.site.codes.tolist(), log.jobs.project
    jobs = [
        Job(
            row=row,
            name=str(table.job[row]),
            submit=int(table.submit[row]),
            runtime=int(table.runtime[row]),
            walltime=int(table.walltime[row]),
            tasks=int(table.tasks[row]),
            site=site[row] if site[row] >= 0 else None,
            project=project[row] or "",
        )
        for row in range(len(table))
    ]
    platform = Platform(tuple(Node((1,), site=each) for each in log.platform.site.tolist()))
    approach, _, given = name.partition(":")
    options = {key: value if key == "cross" else float(value) for key, _, value in [given.partition("=")]}
    expected = simulate(jobs, platform, 1 if approach == "gang-site" else 2, **options)
    found = compiled.run(jobs, platform, name)
    assert [(row.start, row.nodes, row.promise) for row in found] == [(r.start, r.nodes, r.promise) for r in expected]
