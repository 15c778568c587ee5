"""Jobs that enter a State one by one, at their submits, are decided on as those of a log that was known before."""

import numpy as np
import pytest
from hypothesis import given

from backfill.core.entry import Entry, Room
from backfill.core.journal import CHANGE, SUBMIT
from backfill.core.place import kinds
from backfill.core.plan.planned import use_plan
from backfill.core.setup import new_state, without_accounts
from backfill.core.snapshot import move_into
from backfill.model.workload import Ragged
from backfill.worlds.options import Options
from backfill.worlds.simulated import begin, simulate
from tests.compiled import policy
from tests.core.test_shapes import KINDS, flood_of
from tests.differential.test_twins import EACH_PASS
from tests.living import ON_A_POOL, ON_NODES, feed, journal_of, simulated
from tests.reference.workloads import limited_cases, whole_cases
from tests.shares import a_share


def lived(begun, chosen, params, journal):
    """The journal of a State that has room for next to nothing at first, and gets each job before its submit."""
    jobs, machine, limits = begun.jobs, begun.platform, int(begun.state.machine.licences)
    estimate = begun.state.jobs.walltime.copy()
    alone = without_accounts(machine, limits)
    entry, values = Entry(alone, chosen, machine.is_pool), chosen.values(params)
    room = Room(rows=1, shapes=1, accounts=int(len(machine.licences) > limits))

    def made():
        state = new_state(alone, chosen, values, room, sizes=np.ones(1, np.int64), recorded=chosen.booked, journal=True)
        if begun.bound is not None:
            use_plan(state)
        return state

    def grown(state, row):
        nonlocal room
        first, last = entry.room.rows, int(row[1]) + 1
        if row[0] not in (SUBMIT, CHANGE) or last <= first:  # what changes may be a job that is not submitted yet
            return state
        rows = np.arange(first, last)
        after = Ragged.of([jobs.after[job].tolist() for job in rows])
        some = entry.take(jobs.take(rows).replace(after=after), machine, estimate[first:last])
        if not room.holds(entry.room):
            room = room.doubled_for(entry.room)
            bigger = made()
            move_into(state, bigger, chosen)
            state = bigger
        entry.write(state, some)
        return state

    return journal_of(feed(made(), chosen, journal, grown))


def check(name, happening):
    if case := simulated(name, happening):
        chosen, params, journal, begun = case
        assert np.array_equal(lived(begun, chosen, params, journal), journal)


@a_share(EACH_PASS, of=6)
@given(happening=ON_NODES)
def test_with_nodes_licences_limits_gangs_chains_and_events(name, happening):
    check(name, happening)


@pytest.mark.parametrize("name", ["conservative", "selective:rule=differential,order=lxf", "2tsb"])
@given(case=limited_cases())
def test_with_accounts_of_limits_that_come_up_one_by_one(name, case):
    check(name, (case, []))


@a_share(EACH_PASS, of=6)
@given(case=whole_cases())
def test_with_jobs_that_have_their_nodes_for_themselves(name, case):
    check(name, (case, []))


@a_share(EACH_PASS, of=6)
@given(happening=ON_A_POOL)
def test_on_a_pool(name, happening):
    check(name, happening)


@pytest.mark.parametrize("name", ["easy", "conservative"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [3, pytest.param(kinds.EXACT, marks=pytest.mark.long)])
def test_with_a_deep_queue_and_any_number_of_shapes(kind, name, exact, monkeypatch):
    monkeypatch.setattr(kinds, "EXACT", exact)
    (workload, platform), (chosen, params) = flood_of(kind, jobs=600), policy(name)
    done = simulate(workload, platform, chosen, params, journal=True)
    begun = begin(workload, platform, chosen, params, Options(), None, True)
    assert np.array_equal(lived(begun, chosen, params, np.ascontiguousarray(done.journal)), done.journal)
