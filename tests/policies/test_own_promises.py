"""A two-tier policy of one's own: the example of the documentation is `2tfb-sf`, compiled and in plain Python."""

import re
from pathlib import Path

import numpy as np
import pytest

from backfill.core.policy import Policy
from backfill.loading import load
from backfill.model.errors import PolicyError
from backfill.model.promises import CAUSES
from backfill.verbs import (
    ANY,
    FROM_NOW,
    NO_TIME,
    PER_TIME,
    PROMISES,
    allow_until,
    await_promises,
    begin_moves,
    by_project,
    end_of_project,
    following,
    has_begun,
    keep_promises,
    project_end,
    promise_at,
    rewind,
    settle_at_least_cost,
    settle_with_moves,
    start_promised,
)
from backfill.worlds.simulated import simulate
from tests.compiled import policy
from tests.reference.workloads import as_model, cloud, cluster

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"
PROMISING = {"keeps": True, "booked": True, "projects": True, "memory": PROMISES}


def run(case, chosen, params):
    workload, platform, _ = as_model(case.jobs, case.platform)
    found = simulate(workload, platform, chosen, params)
    return found.schedule.start.tolist(), found.schedule.reason.tolist(), [*found.promises.rows()]


@pytest.fixture(scope="module")
def of_the_page(tmp_path_factory):
    """The policy that the page shows."""
    (source,) = re.findall(r"^```python\n(# file: mine.py\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(source)
    return load(f"{path}:make_way")


@pytest.mark.parametrize("make", [cloud, cluster])
def test_the_example_of_the_page_is_the_bundled_policy(make, of_the_page):
    moved = 0
    for seed in range(12):
        found = run(make(seed), *of_the_page)
        assert found == run(make(seed), *policy("2tfb-sf")), seed
        moved += sum(cause == CAUSES.index("moved") for *_, cause, _ in found[2])
    assert moved > 50


def by_slack(state):
    """`slack` with a walltime of slack and the cheapest of three starts, in a walk over the queue."""
    keep_promises(state, False)
    rewind(state, 0)
    job = following(state, 0)
    while job >= 0:
        if state.promises.reserved[job] == NO_TIME:
            begin_moves(state)
            promise_at(state, job, settle_at_least_cost(state, job, 3))
            if state.promises.reserved[job] != NO_TIME:
                allow_until(state, job, state.promises.reserved[job] + state.jobs.walltime[job])
            start_promised(state)
        job = following(state, 0)
    await_promises(state)


def in_place_once_begun(state):
    """`2tfb-sf:movable=unstarted,victims=any` without slack, of projects that are all asked whether they have begun."""
    new = by_project(state, keep_promises(state, False))
    first = 0
    while first < len(new):
        last, project = end_of_project(state, new, first), state.projects.of[new[first]]
        keep_begun(state)
        begin_moves(state)
        for i in range(first, last):
            promise_at(state, new[i], settle_with_moves(state, new[i], -1, ANY, FROM_NOW))
        end = project_end(state, project)
        for i in range(first, last):
            if state.promises.reserved[new[i]] != NO_TIME and not has_begun(state, project):
                allow_until(state, new[i], end - max(state.jobs.walltime[new[i]], 1))
        start_promised(state)
        first = last
    await_promises(state)


def keep_begun(state):
    for job in range(state.jobs.count):
        if state.queue.waits[job] and has_begun(state, state.projects.of[job]):
            allow_until(state, job, state.now)


PLAIN = [
    (by_slack, "slack:sf=1,slack_base=walltime,best=3,compress=false"),
    (in_place_once_begun, "2tfb-sf:sf=0,movable=unstarted,victims=any"),
]


@pytest.mark.parametrize("make", [cloud, cluster])
@pytest.mark.parametrize(("decide", "bundled"), PLAIN, ids=["slack", "unstarted"])
def test_variants_in_plain_python_are_the_bundled_ones(decide, bundled, make):
    chosen = Policy("mine", decide, compiled=False, **PROMISING)
    for seed in range(2):
        case = make(seed)
        for job in case.jobs:  # as the example has it; `slack` knows no project
            object.__setattr__(job, "priority", 0.0)
        assert run(case, chosen, {}) == run(case, *policy(bundled)), seed


def settles_at_the_start_of_time(state):
    settle_with_moves(state, 10**9, -1, PER_TIME, FROM_NOW)


def settles_nobody_at_least_cost(state):
    settle_at_least_cost(state, -1, 1)


def allows_nobody(state):
    allow_until(state, 10**9, state.now)


def asks_for_no_project(state):
    project_end(state, -1)


def asks_whether_no_project_has_begun(state):
    has_begun(state, 10**9)


MISUSES = [
    (settles_at_the_start_of_time, "calls settle_with_moves for job number 1000000000, which is not waiting"),
    (settles_nobody_at_least_cost, "calls settle_at_least_cost for job number -1, which is not waiting"),
    (allows_nobody, "calls allow_until for job number 1000000000, which is not waiting"),
    (asks_for_no_project, r"asks for project number -1; expected 0 to \d+"),
    (asks_whether_no_project_has_begun, r"asks for project number 1000000000; expected 0 to \d+"),
]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(("decide", "message"), MISUSES, ids=[decide.__name__ for decide, _ in MISUSES])
def test_a_misuse_is_told_with_names(decide, message, compiled):
    with pytest.raises(PolicyError, match=f"policy careless, at .*: {message}"):
        run(cluster(0), Policy("careless", decide, compiled=compiled, **PROMISING), {})


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("decide", [settles_nobody_at_least_cost, allows_nobody, asks_for_no_project])
def test_who_moves_promises_declares_that_they_are_booked(decide, compiled):
    with pytest.raises(PolicyError, match=r"moves promised starts; expected @policy\(..., booked=True\)"):
        run(cluster(0), Policy("careless", decide, compiled=compiled, keeps=True, memory=PROMISES), {})


def asks_by_a_fraction(state):
    settle_with_moves(state, 0, np.inf, PER_TIME, FROM_NOW)


def test_a_number_of_projects_that_is_no_whole_number_is_refused():
    with pytest.raises(TypeError, match="most is inf; expected a whole number"):
        run(cluster(0), Policy("careless", asks_by_a_fraction, compiled=False, **PROMISING), {})
