"""A State that is put aside at any instant and brought back decides as if nothing had happened in between."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.journal import DECIDE
from backfill.core.snapshot import Snapshot
from backfill.worlds.simulated import begin, simulate
from tests.compiled import asked, policy, runs_on
from tests.differential.test_twins import every_pass
from tests.living import feed, journal_of
from tests.reference.workloads import cases_with_events, chained_cases, general_cases, limited_cases, pool_cases


def check(name, happening, chance):
    case, events = happening
    if not runs_on(name, case, events):
        return
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    chosen, params = policy(name)
    journal = np.ascontiguousarray(simulate(workload, platform, chosen, params, asks, journal=True).journal)
    state = begin(workload, platform, chosen, params, asks, None, True).state
    passes = np.flatnonzero(journal[:, 0] == DECIDE)
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
    happening=cases_with_events(st.one_of(chained_cases(), limited_cases(), general_cases())),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_with_nodes_licences_limits_gangs_chains_and_events(name, happening, chance):
    check(name, happening, chance)


@every_pass
@given(happening=cases_with_events(pool_cases()), chance=st.floats(0, 1, exclude_max=True))
def test_on_a_pool(name, happening, chance):
    check(name, happening, chance)
