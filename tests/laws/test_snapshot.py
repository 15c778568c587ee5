"""A State that is put aside at any instant and brought back decides as if nothing had happened in between."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.journal import DECIDE
from backfill.core.snapshot import Snapshot
from tests.differential.test_twins import every_pass
from tests.living import ON_A_POOL, ON_NODES, feed, journal_of, simulated


def check(name, happening, chance):
    case = simulated(name, happening)
    if case is None:
        return
    chosen, _, journal, begun = case
    state, passes = begun.state, np.flatnonzero(journal[:, 0] == DECIDE)
    if not len(passes):
        return
    middle = int(passes[int(chance * len(passes))]) + 1
    feed(state, chosen, journal[:middle])
    aside = Snapshot(state)
    feed(state, chosen, journal[middle:])
    first = journal_of(state)
    aside.restore()
    feed(state, chosen, journal[middle:])
    assert np.array_equal(journal_of(state), first)
    assert np.array_equal(first, journal)


@every_pass
@given(
    happening=ON_NODES,
    chance=st.floats(0, 1, exclude_max=True),
)
def test_with_nodes_licences_limits_gangs_chains_and_events(name, happening, chance):
    check(name, happening, chance)


@every_pass
@given(happening=ON_A_POOL, chance=st.floats(0, 1, exclude_max=True))
def test_on_a_pool(name, happening, chance):
    check(name, happening, chance)
