"""What must hold of advance reservations under every policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.analysis.verify import verify
from backfill.model.errors import EventsError
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.reservations import divide
from backfill.model.schedule import NO_TIME
from backfill.traces.table import read_table
from backfill.worlds.simulated import Options, simulate
from tests import compiled
from tests.compiled import policy
from tests.laws.test_laws import allowed, every_policy
from tests.living import feed_back
from tests.reference import reserved
from tests.reference.dice import DICE
from tests.reference.workloads import (
    KINDS,
    as_model,
    general_cases,
    grid_cases,
    limited_cases,
    pool_cases,
    thread_cases,
    whole_cases,
)

PLAIN = tuple(kind for kind in KINDS if kind != "capacity")
ON_PROCESSORS = [name for name in policies.TABLE if policies.get(name).processors]


def run(told, name, lost="requeue"):
    """The workload, its platform, the options of the run and its schedule; None if a reservation is not granted."""
    workload, platform, estimates = as_model(told.case.jobs, told.case.platform)
    workload, events = told.of_model(workload), Events.of(told.table())
    try:
        divide(workload, platform, events.bind(workload, platform))
    except EventsError:
        return None
    options = Options(events=events, lost=lost, estimates=compiled.Given(workload.jobs, estimates))
    return workload, platform, options, simulate(workload, platform, *policy(name), options).schedule


def check(told, name, lost="requeue"):
    if compiled.shares(name):  # it refuses that some cpus of a node go
        return
    if (made := run(told, name, lost)) is not None:
        workload, platform, options, schedule = made
        more = {"events": options.events, "lost": lost, "seen": options.estimates.of(workload.jobs, 0)}
        assert verify(workload, platform, schedule, **more, **allowed(name)) == []


def drawn(cases, kinds=KINDS, whole=False):
    return st.builds(reserved.happening, DICE, cases, st.just(kinds), st.just(whole))


def test_a_reservation_may_have_several_owners():
    jobs = read_table(b"job,submit,runtime,user,reservation\n1,0,9,ann,x\n2,0,9,bob,x\n3,0,9,eve,x\n")
    pool = Platform.pool(4, nodes=2)
    shared = {"time": 0, "event": "reserve", "reservation": "x", "node": "n2", "value": 0, "until": "1h"}
    events = Events.of([{**shared, "user": "ann; bob"}])
    allows = {"events": events, "lost": "requeue"}
    schedule = simulate(jobs, pool, *policy("easy"), Options(events=events)).schedule
    assert [schedule.nodes[schedule.held[row][0]] for row in (0, 1)] == ["n2", "n2"]
    assert schedule.start[2] == NO_TIME
    assert verify(jobs, pool, schedule, **allows) == []
    with pytest.raises(EventsError, match="user is ';'; expected a user, a group or a project"):
        Events.of([{**shared, "user": ";"}])


@every_policy
@given(
    told=drawn(st.one_of(general_cases(), limited_cases(), pool_cases(), whole_cases()), PLAIN),
    lost=st.sampled_from(["requeue", "fail"]),
)
def test_none_but_its_owner_runs_in_a_reservation(name, told, lost):
    check(told, name, lost)


@pytest.mark.parametrize("name", ["easy", "conservative", "preemptive"])
@given(told=drawn(st.one_of(general_cases(), pool_cases())))
def test_none_but_its_owner_runs_in_a_reservation_while_nodes_shrink_and_grow(name, told):
    check(told, name)


@pytest.mark.parametrize("name", ON_PROCESSORS)
@given(told=drawn(st.one_of(grid_cases(), thread_cases()), PLAIN, whole=True))
def test_none_but_its_owner_runs_in_a_reservation_of_processors(name, told):
    if compiled.runs_on(name, told.case, told.events):
        check(told, name)


@pytest.mark.parametrize("name", ["easy", "conservative", "fcfs"])
@given(told=drawn(st.one_of(general_cases(), limited_cases(), pool_cases())))
def test_the_journal_of_a_run_with_reservations_gives_every_decision_again(name, told):
    if (made := run(told, name)) is not None:
        workload, platform, options, _ = made
        journal = simulate(workload, platform, *policy(name), options, journal=True).journal
        assert np.array_equal(feed_back(journal, workload, platform, *policy(name), options), journal)
