"""What two-tier scheduling promises: to whom a promise may become another one, how far, and what the record says of it.

Run times are exact here, as the paper has them: F4.10 of the claims.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.departures import departures
from backfill.core.plan import promises as core
from backfill.model.promises import CAUSES
from backfill.worlds.simulated import simulate
from tests.compiled import policy
from tests.reference.workloads import as_model, cloud, cluster, cluster_cases, project_cases

GIVEN, MOVED = CAUSES.index("given"), CAUSES.index("moved")
SEEDS = st.integers(0, 10**6)
on_one_node = st.one_of(project_cases(exact=True), SEEDS.map(lambda seed: cloud(seed, 12)))
on_nodes = st.one_of(cluster_cases(exact=True), SEEDS.map(lambda seed: cluster(seed, honest=True)))
exact_cases = st.one_of(on_one_node, on_nodes)


def run(case, name):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return workload, simulate(workload, platform, *policy(name))


def given_departures(workload, promises):
    """Return the departure promised to each project at its submit: the last end of its jobs."""
    found = {}
    for _, job, start, cause, _ in promises.rows():
        if cause == GIVEN:
            project, end = workload.jobs.project[job], start + max(int(workload.jobs.walltime[job]), 1)
            found[project] = max(found.get(project, end), end)
    return found


def latest_ends(workload, promises):
    """The latest end that any job of a project was ever promised."""
    found = {}
    for _, job, start, _, _ in promises.rows():
        project, end = workload.jobs.project[job], start + max(int(workload.jobs.walltime[job]), 1)
        found[project] = max(found.get(project, end), end)
    return found


@given(case=on_nodes)
def test_on_several_nodes_2tsb_never_changes_a_promise(case):
    assert (run(case, "2tsb")[1].promises.cause == GIVEN).all()


@given(case=on_one_node)
def test_2tsb_never_changes_a_promise_and_is_conservative_backfilling(case):
    workload, found = run(case, "2tsb")
    assert (found.promises.cause == GIVEN).all()
    if not has_gaps(case):
        assert found.schedule.start.tolist() == run(case, "conservative")[1].schedule.start.tolist()
    for project in workload.jobs.project.names:
        rows = np.flatnonzero(workload.jobs.project.codes == workload.jobs.project.names.index(project))
        assert len(departures(found.promises, rows, len(workload))) <= 1


def has_gaps(case):
    """Whether the jobs of two projects that come at one instant alternate in the file, or one has no walltime."""
    orders = {}
    for job in case.jobs:
        orders.setdefault(job.submit, []).append(job.project)
    alternate = any(
        len(set(names)) < sum(a != b for a, b in zip(["", *names], names, strict=False)) for names in orders.values()
    )
    return alternate or any(job.walltime == 0 for job in case.jobs)


@given(case=exact_cases)
def test_2tfb_never_moves_a_departure(case):
    workload, found = run(case, "2tfb")
    assert latest_ends(workload, found.promises) == given_departures(workload, found.promises)


@pytest.mark.parametrize("sf", [0.2, 1, 3])
@given(case=exact_cases)
def test_2tfb_sf_moves_no_departure_beyond_its_slack(sf, case):
    workload, found = run(case, f"2tfb-sf:sf={sf}")
    latest = latest_ends(workload, found.promises)
    for project, departure in given_departures(workload, found.promises).items():
        submit = workload.jobs.submit[workload.jobs.project.codes == workload.jobs.project.names.index(project)].min()
        assert latest[project] <= departure + round((departure - int(submit)) * float(sf))


@given(case=exact_cases)
def test_2tpb_never_delays_a_project_of_priority_1(case):
    workload, found = run(case, "2tpb")
    latest, first = latest_ends(workload, found.promises), given_departures(workload, found.promises)
    for project in {workload.jobs.project[job] for job in np.flatnonzero(workload.jobs.priority == 1).tolist()}:
        assert latest.get(project) == first.get(project)


@pytest.mark.parametrize("name", ["2tfb", "2tfb-sf", "2tpb", "2tfb-sf:victims=any,rebook=later_only"])
@given(case=exact_cases)
def test_every_start_is_the_last_promise_on_record_and_who_moved_made_way_for_another_project(name, case):
    workload, found = run(case, name)
    last = {job: start for _, job, start, _, _ in found.promises.rows()}
    ran = np.flatnonzero(found.schedule.ran).tolist()
    assert last == {job: int(found.schedule.start[job]) for job in ran}
    for _, job, _, cause, by in found.promises.rows():
        assert (cause, by) == (GIVEN, -1) or cause == MOVED
        assert by == -1 or workload.jobs.project[job] != workload.jobs.project[by]


def test_causes_are_those_of_the_core():
    for number, name in enumerate(("GIVEN", "RENEWED", "UP", "MOVED", "OVERRUN", "CHANGED")):
        assert getattr(core, name) == number
        assert CAUSES[number].endswith(name.lower())


def test_the_cases_do_move_reservations():
    for make, enough in ((cloud, 50), (cluster, 15)):
        moves = sum((run(make(seed), "2tfb-sf")[1].promises.cause == MOVED).sum() for seed in range(4))
        assert moves > enough
