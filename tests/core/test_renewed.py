"""A plan of nodes that is made anew: where it has more than before is noted, and nowhere else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.core.plan import profile as fast
from backfill.core.plan.grown import FRESH
from backfill.core.plan.profile import TAKE
from backfill.core.plan.renewed import note_renewed, renew_running
from backfill.core.setup import state_of
from backfill.model.platform import Platform
from tests.core.test_deep_queue import flood

NODES, CPUS, NOW, LAST = 3, 4, 10, 60
ONE = np.array([[1]], np.int64)
bookings = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, LAST), st.integers(1, 20)), max_size=60)


def state_on_nodes():
    table = flood(1).jobs
    jobs = table.replace(demand=np.ascontiguousarray(table.demand[:, :1]))
    platform = Platform(
        nodes=tuple(f"n{i}" for i in range(NODES)),
        resources=("cpus",),
        capacity=np.full((NODES, 1), CPUS),
        speed=np.ones(NODES),
        site=np.zeros(NODES, np.int64),
    )
    policy = policies.get("conservative")
    return state_of(jobs, platform, policy, policy.values({}), estimate=jobs.walltime.copy())


def free_after(plan, booked):
    """Return the free amounts of each node at each instant after these bookings."""
    free = np.full((NODES, LAST + 40), CPUS)
    for node, begin, length in booked:
        fast.book(plan, node, begin, begin + length, ONE, 0, TAKE)
        free[node, begin : begin + length] -= 1
    return free


@given(bookings, bookings)
def test_a_node_grew_from_the_first_instant_at_which_it_has_more_to_the_last(before, after):
    state = state_on_nodes()
    plan, grown = state.plan.nodes, state.plan.grown
    was = free_after(plan, before)
    state.now = NOW
    fast.trim(plan, NOW)
    renew_running(state)
    more = free_after(plan, after) > was
    note_renewed(state)
    expected = {}
    for node in range(NODES):
        instants = np.flatnonzero(more[node, NOW:]) + NOW
        if len(instants):
            expected[node] = (instants[0], instants[-1] + 1)
    found = [int(node) for node in grown.node[FRESH, : grown.count[FRESH]]]
    assert {node: (grown.since[FRESH, node], grown.until[FRESH, node]) for node in found} == expected
    assert grown.unknown[FRESH] == 0
