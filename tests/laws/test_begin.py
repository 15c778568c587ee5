"""A run that a State is told of (`begin`) leaves the State that the policy's own start of it leaves."""

import numpy as np
from hypothesis import given

from backfill.compiler.record import zeros
from backfill.core.journal import BEGIN, DECIDE, NUMBERS, ON, PREEMPT, PUT, START, TICK
from backfill.core.once import arranger
from backfill.core.transitions import do_again
from backfill.worlds.simulated import begin as begin_simulation
from backfill.worlds.simulated import simulate
from tests.compiled import asked, policy, runs_on
from tests.differential.test_twins import every_pass
from tests.invariants import check as check_state
from tests.living import ON_A_POOL, ON_NODES, decide

PER_RUN = ("job", "start", "limit", "end", "reason", "how")


def transition(state, *numbers):
    row = zeros(NUMBERS)
    row[: len(numbers)] = numbers
    do_again(state, row)


def told(state, now, rows):
    """Tell a State what a policy started at this instant, in the order in which it did."""
    begun = []
    for row in rows:
        if row[0] == START:
            begun.append((int(row[1]), int(row[2]), []))
        elif row[0] == ON:
            begun[-1][2].append((int(row[1]), int(row[2])))
    for job, reason, pairs in begun:
        for number, pair in enumerate(pairs):
            transition(state, PUT, job, number, *pair)
        transition(state, BEGIN, job, now, reason)


def compare(one, other):
    """Compare what both hold, and which jobs wait."""
    count, active = int(one.runs.count), int(one.runs.active)
    assert (int(other.runs.count), int(other.runs.active)) == (count, active)
    for name in PER_RUN:
        assert np.array_equal(getattr(one.runs, name)[:count], getattr(other.runs, name)[:count]), name
    for name in ("by_limit", "limits"):
        assert np.array_equal(getattr(one.runs, name)[:active], getattr(other.runs, name)[:active]), name
    assert np.array_equal(one.runs.last, other.runs.last)
    if not one.machine.pool:
        assert np.array_equal(one.runs.held[: one.runs.held_used], other.runs.held[: other.runs.held_used])
        assert np.array_equal(one.runs.first[:count], other.runs.first[:count])
        assert np.array_equal(one.free.total, other.free.total)
        assert np.array_equal(one.free.licences, other.free.licences)
    assert np.array_equal(one.free.nodes, other.free.nodes)
    assert np.array_equal(one.queue.waits, other.queue.waits)
    assert int(one.queue.waiting) == int(other.queue.waiting)


def check(name, happening):
    case, events = happening
    if not runs_on(name, case, events):
        return
    chosen, params = policy(name)
    if chosen.preempts or chosen.shares:  # what ends a run early, or slows it, is a decision; no State is told of it
        return
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    done = simulate(workload, platform, chosen, params, asks, journal=True)
    assert not (done.journal[:, 0] == PREEMPT).any()
    lived, other = (begin_simulation(workload, platform, chosen, params, asks, None, True).state for _ in "ab")
    arrange, now = arranger(chosen), 0
    for row in np.ascontiguousarray(done.journal):
        now = int(row[1]) if row[0] == TICK else now
        do_again(lived, row)
        do_again(other, row)
        if row[0] != DECIDE:
            continue
        before = int(lived.journal.rows)
        decide(lived, chosen, arrange)
        arrange(other)
        told(other, now, lived.journal.row[before : lived.journal.rows].copy())
        compare(lived, other)
        if not chosen.booked:  # nobody booked anything in a State without a policy
            check_state(other)


@every_pass
@given(happening=ON_NODES)
def test_with_nodes_licences_limits_gangs_chains_and_events(name, happening):
    check(name, happening)


@every_pass
@given(happening=ON_A_POOL)
def test_on_a_pool(name, happening):
    check(name, happening)
