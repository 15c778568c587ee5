"""The invariants of the State hold before and after each pass of each policy; a State that breaks one is found."""

import numpy as np
import pytest
from hypothesis import given

from backfill.core.once import decide_once
from backfill.core.plan.promises import NO_TIME
from backfill.model.platform import Platform
from backfill.worlds.simulated import simulate
from tests.compiled import asked, policy, runs_on
from tests.core.test_deep_queue import flood
from tests.differential.test_twins import every_pass
from tests.invariants import check, check_plan
from tests.reference.workloads import (
    cases_with_events,
    chained_cases,
    grids_with_events,
    pool_cases,
    project_cases,
)


def checked(name, every=1, watch=lambda state: None):
    """A policy whose passes are checked before and after, and its parameters. watch: is given the State after them."""
    chosen, params = policy(name)
    passes = 0

    def decide(view):
        nonlocal passes
        passes += 1
        if passes % every == 0:
            check(view._state)
        decide_once(chosen.entry, view._state)
        if passes % every == 0:
            watch(view._state)
            check(view._state)
            if (name == "conservative" or chosen.booked) and not view._state.machine.windows:
                check_plan(view._state, reserved(view._state))

    return chosen.like(chosen.name, decide=decide, compiled=False), params


def reserved(state):
    """Yield each reservation of a waiting job under conservative: job, start, end."""
    for job in np.flatnonzero(state.queue.waits).tolist():
        if (start := int(state.promises.reserved[job])) != NO_TIME:
            yield job, start, start + max(int(state.jobs.walltime[job]), 1)


def run(name, happening, **options):
    case, events = happening
    if not runs_on(name, case, events):
        return
    workload, platform, asks = asked(case.jobs, case.platform, events=events, **options)
    simulate(workload, platform, *checked(name), asks)


@every_pass
@given(happening=cases_with_events(chained_cases()))
def test_with_nodes_licences_gangs_chains_and_events(name, happening):
    run(name, happening)


@pytest.mark.parametrize("name", ["gang-site", "gang-span"])
@given(happening=grids_with_events())
def test_with_gangs_on_sites_and_events(name, happening):
    run(name, happening)


@every_pass
@given(happening=cases_with_events(pool_cases()))
def test_on_a_pool(name, happening):
    run(name, happening, overrun="extend")


@every_pass
@given(happening=cases_with_events(project_cases()))
def test_with_projects(name, happening):
    run(name, happening)


@pytest.mark.parametrize("name", ["easy", "easy-sjbf", "easy-saf", "first-fit"])
def test_under_a_deep_queue(name):
    deep = []
    simulate(flood(), Platform.pool(64), *checked(name, every=1000, watch=lambda state: deep.append(state.queue.deep)))
    assert any(deep)


WRONG = {
    "free.nodes": lambda state: add(state.free.nodes[0], 1),
    "queue.waits": lambda state: add(state.queue.waits[: state.jobs.count], 1),
    "queue.line": lambda state: swap(state.queue.line, state.queue.front[0]),
    "queue.walltime": lambda state: add(state.queue.walltime, 1),
    "queue.need": lambda state: add(state.queue.need, 1),
    "queue.key": lambda state: add(state.queue.key, 1),
    "queue.count": lambda state: add(state.queue.count, 1),
    "queue.tree": lambda state: add(state.queue.tree[1], 1),
    "queue.size": lambda state: add(state.queue.size, 1),
    "queue.block": lambda state: add(state.queue.block, 1),
    "runs.limit": lambda state: add(state.runs.limit, 1),
    "runs.by_limit": lambda state: add(state.runs.by_limit, 1),
    "runs.last": lambda state: add(state.runs.last, 1),
    "runs.how": lambda state: add(state.runs.how, 1),
}


def add(array, n):
    array += array.dtype.type(n)


def swap(array, place):
    array[place], array[place + 1] = array[place + 1], array[place]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_found(wrong):
    def watch(state):
        if state.queue.deep:
            WRONG[wrong](state)

    with pytest.raises(AssertionError, match="counted anew"):
        simulate(flood(), Platform.pool(64), *checked("easy-saf", every=400, watch=watch))


def test_a_wrong_booking_is_found():
    def watch(state):
        add(state.bookings.length, 1)

    with pytest.raises(AssertionError, match=r"bookings.length is .* counted anew"):
        simulate(flood(60), Platform.pool(64), *checked("2tsb", every=20, watch=watch))


def test_a_wrong_plan_is_found():
    def watch(state):
        add(state.plan.nodes.lift, 1)

    with pytest.raises(AssertionError, match=r"^plan at .* counted anew"):
        simulate(flood(60), Platform.pool(64), *checked("conservative", every=20, watch=watch))
