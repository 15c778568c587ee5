"""The terms of the farm's priority, branch by branch, against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from numba import types

from backfill.compiler.kernel import kernel
from backfill.core.queue.walk import take_in, waiting_jobs
from backfill.core.setup import state_of
from backfill.core.state import PolicyT, StateT
from backfill.core.transitions import release, submit, tick
from backfill.model.platform import Platform
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Jobs, Ragged
from backfill.policies import get
from backfill.policies.farm import prioritise
from backfill.policies.heuristics import aging, deadline, licence, wait_minimisation

# ex 100 s, now 0, k 2, low 0, high 10: over 200
BRANCHES = {  # deadline -> term
    250: 2.5,  # te 100, ts 50, alpha 0.05
    100: 10.0,  # can only just be met
    99: 0.0,  # lost
    301: 0.0,  # ts 101 > te: not urgent, low
    300: 0.0,  # ts = te: low + 0
    200: 5.0,
}


@pytest.mark.parametrize(("due", "term"), BRANCHES.items())
def test_the_deadline_term_branch_by_branch(due, term):
    assert deadline(float(due), 100.0, 2.0, 0.0, 10.0) == pytest.approx(term, abs=1e-12)


def test_the_deadline_term_at_its_edges():
    assert deadline(1000.0, 100.0, 2.0, 0.25, 10.0) == 0.25
    assert deadline(NEVER / SECOND, 100.0, 2.0, 0.25, 10.0) == 0.25
    assert deadline(100.0, 100.0, 2.0, 0.25, 10.0) == 10.0
    assert deadline(300.0, 100.0, 2.0, 0.25, 10.0) == 0.25
    assert deadline(0.0, 0.0, 2.0, 0.25, 10.0) == 10.0  # a walltime of 0, at its deadline
    assert deadline(1.0, 0.0, 2.0, 0.25, 10.0) == 0.25
    assert deadline(-1.0, 0.0, 2.0, 0.25, 10.0) == 0.0


def test_the_other_terms():
    assert aging(50.0, 0.01) == pytest.approx(0.5)
    assert licence(1.0, 7) == 1.0
    assert licence(1.5, 7) == 10.5
    assert licence(0.25, 7) == 0.25
    assert wait_minimisation(10.0, 40.0, 2.0) == pytest.approx(0.5)
    assert wait_minimisation(10.0, 10.0, 2.0) == 2.0
    assert wait_minimisation(0.0, 0.0, 2.0) == 2.0
    assert wait_minimisation(0.0, 5.0, 2.0) == 0.0


def waiting(asks, copies, **params):
    """The state and table of jobs of 100 s, each asking for these licences, that bf-mod will look at."""
    n, policy = len(asks), PRIORITISE.like("plain", compiled=False)
    jobs = Jobs(
        job=np.arange(n),
        submit=np.zeros(n, np.int64),
        runtime=np.full(n, 100 * SECOND),
        walltime=np.full(n, 100 * SECOND),
        licences=Ragged.of(asks),
    )
    platform = Platform(
        nodes=("m",),
        resources=("cpus",),
        capacity=np.array([[0]]),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        licences=tuple("abc"[: len(copies)]),
        copies=np.array(copies),
    )
    state = state_of(jobs, platform, policy, policy.values(params), estimate=jobs.walltime)
    return state, jobs


@kernel()
def let_all_wait(state):
    """All jobs are submitted, and become eligible, at 0."""
    tick(state, np.int64(0))
    for _ in range(state.jobs.rows):
        release(state, submit(state))
    take_in(state)


@kernel(types.void, PolicyT, StateT)
def ask_policy(decide, state):
    decide(state)


def licence_terms(asks, copies):
    """P of every job, all of them waiting."""
    state, jobs = waiting(asks, copies, w_aging=0, w_deadline=0, w_wait=0)
    let_all_wait(state)
    ask_policy(PRIORITISE.entry, state)
    return (-state.own.memory_float[: len(jobs)]).tolist()


@kernel()
def note_priorities(state):
    line, points = waiting_jobs(state, 0), prioritise(state)
    for i in range(len(line)):
        state.own.noted[line[i]] = points[i]


PRIORITISE = replace(get("bf-mod"), decide=lambda state: note_priorities(state), memory_f={"noted": "jobs"})


def test_three_asked_of_two_copies_is_critical():
    """a: 3 asked of 2 copies (rho 1.5), b: 1 of 4 (0.25), c: 2 of 4 (0.5); d = 2."""
    found = licence_terms([[0, 1], [0], [0], [2], [2]], [2, 4, 4])
    assert found == pytest.approx([3.25, 3.0, 3.0, 0.5, 0.5])
    assert licence_terms([[0, 1], [1, 2], [0], [0], [2]], [2, 8, 4])[1] == pytest.approx(0.75)


def test_the_licence_term_rule_by_rule():
    assert licence_terms([[], []], [1]) == [0.0, 0.0]  # nobody asks
    assert licence_terms([[0]], [1]) == [1.0]  # as many asked as there are is not critical
    assert licence_terms([[0], [0]], [1]) == [2.0, 2.0]  # all critical: d is 1 all the same
    assert licence_terms([[0, 0], [1]], [1, 4]) == pytest.approx(
        [2.0, 0.25]
    )  # two copies count twice as asked, once as term
    assert licence_terms([[0], [0], [1, 2]], [1, 1, 2]) == pytest.approx([4.0, 4.0, 1.5])  # d = 2: b and c
