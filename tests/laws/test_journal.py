"""The journal of a simulation, fed back transition by transition, gives every decision again to the microsecond."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.core.journal import START
from backfill.worlds.simulated import simulate
from tests.compiled import asked, policy, runs_on
from tests.differential.test_twins import every_pass
from tests.living import feed_back
from tests.reference.workloads import cases_with_events, chained_cases, general_cases, limited_cases, pool_cases


def check(name, happening, **options):
    case, events = happening
    if not runs_on(name, case, events):
        return
    workload, platform, asks = asked(case.jobs, case.platform, events=events, **options)
    chosen, params = policy(name)
    done = simulate(workload, platform, chosen, params, asks, journal=True)
    assert (done.journal[:, 0] == START).sum() == len(done.schedule.all_runs)
    again = feed_back(done.journal, workload, platform, chosen, params, asks)
    assert np.array_equal(again, done.journal)


@every_pass
@given(happening=cases_with_events(st.one_of(chained_cases(), limited_cases())))
def test_with_nodes_licences_limits_gangs_chains_and_events(name, happening):
    check(name, happening)


@pytest.mark.parametrize(
    "options", [{"ties": "step"}, {"overrun": "extend"}, {"lost": "fail"}], ids=["step", "extend", "fail"]
)
@every_pass
@given(happening=cases_with_events(general_cases()))
def test_with_other_options(name, options, happening):
    case, events = happening
    check(name, (case, [] if "ties" in options else events), **options)


@every_pass
@given(happening=cases_with_events(pool_cases()))
def test_on_a_pool(name, happening):
    check(name, happening)
