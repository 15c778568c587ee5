"""Advance reservations: the compiled policies do what their slow twins do, on the nodes that a slow look grants."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backfill.model.errors import EventsError
from backfill.model.events import Events
from backfill.model.reservations import reservations_of
from backfill.worlds.simulated import Options, simulate
from tests import compiled
from tests.differential.test_twins import PASSES, every_pass
from tests.reference import reserved, world
from tests.reference.dice import DICE
from tests.reference.workloads import as_model, chained_cases, general_cases, limited_cases, pool_cases, rich_pool_cases
from tests.shares import a_share


def compare(told, name, lost="requeue"):
    chosen, case = compiled.policy(name)[0], told.case
    if chosen.processors or compiled.shares(name):  # shares refuse that some cpus go
        return
    if "fairshare" in name or "_assoc" in name:  # their twins do not know the users drawn with the reservations
        return
    granted = reserved.grants(told)
    workload, platform, estimates = as_model(case.jobs, case.platform)
    workload, events = told.of_model(workload), Events.of(told.table())
    if granted is None:
        with pytest.raises(EventsError):
            reservations_of(events.bind(workload, platform), platform)
        return
    options = Options(events=events, lost=lost, estimates=compiled.Given(workload.jobs, estimates))
    schedule = simulate(workload, platform, *compiled.policy(name), options).schedule
    expected = reserved.run(told, world.POLICIES[name], lost, granted)
    for have, want in zip(compiled.rows_of(schedule, [row.name for row in expected]), expected, strict=True):
        if want.state in ("CANCELLED", None) and want.eligible is None:
            have.eligible = None  # it never was; a schedule has the submit there
        assert have == want, f"{name}, job {want.name}: {have}, the twin says {want}; {told}"


def drawn(cases):
    return st.builds(reserved.happening, DICE, cases)


@a_share(PASSES, of=2)
@given(told=drawn(st.one_of(pool_cases(), rich_pool_cases())))
def test_on_a_machine_of_one_node_every_start_equals_the_twin(name, told):
    compare(told, name)


@every_pass
@given(told=drawn(general_cases()))
def test_on_several_nodes_every_start_equals_the_twin(name, told):
    compare(told, name)


@pytest.mark.parametrize("name", ["easy", "conservative", "preemptive:how=suspend"])
@pytest.mark.parametrize("lost", ["requeue", "fail"])
@given(told=drawn(st.one_of(chained_cases(), limited_cases(), general_cases())))
def test_with_chains_limits_and_lost_jobs_every_start_equals_the_twin(name, lost, told):
    compare(told, name, lost)


@given(told=drawn(st.one_of(general_cases(), pool_cases())))
def test_the_nodes_of_a_reservation_are_those_that_a_slow_look_finds(told):
    granted = reserved.grants(told)
    assume(granted is not None)
    workload, platform, _ = as_model(told.case.jobs, told.case.platform)
    made = reservations_of(Events.of(told.table()).bind(told.of_model(workload), platform), platform)
    found = {each.name: dict(zip(each.nodes, map(tuple, each.amounts.tolist()), strict=True)) for each in made}
    assert found == {each.name: amounts for each, amounts in zip(told.reserved, granted, strict=True)}
