"""A policy that draws: the seed decides all, in whichever form the policy runs."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.core.policy import Policy
from backfill.core.queue.walk import following, rewind
from backfill.core.random import mix, pick
from backfill.core.setup import state_of
from backfill.core.verbs import FIT, place, start
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.traces.schedules import write_schedule
from backfill.worlds.simulated import Options, simulate
from tests.reference.workloads import as_model, general_cases


def lottery(state):
    """Start one of those that fit, each as likely as the others, until nobody fits."""
    chosen = 0
    while chosen >= 0:
        chosen, fit = -1, 0
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            if place(state, job):
                fit += 1
                if pick(state, fit) == 0:
                    chosen = job
            job = following(state, 0)
        if chosen >= 0:
            place(state, chosen)
            start(state, chosen, FIT)


COMPILED = Policy("lottery", lottery)
PLAIN = Policy("lottery", lottery, compiled=False)


def text(workload, platform, policy, seed, ties="batch"):
    out = io.StringIO()
    write_schedule(simulate(workload, platform, policy, options=Options(ties=ties, seed=seed)).schedule, out)
    return out.getvalue()


@pytest.mark.parametrize("ties", ["batch", "step"])
@given(case=general_cases(), seed=st.integers(0, 2**63 - 1))
def test_one_seed_gives_the_same_bytes_compiled_stepping_and_again(ties, case, seed):
    workload, platform, _ = as_model(case.jobs, case.platform)
    compiled = text(workload, platform, COMPILED, seed, ties)
    assert text(workload, platform, PLAIN, seed, ties) == compiled
    assert text(workload, platform, COMPILED, seed, ties) == compiled


def test_every_seed_gives_a_schedule_of_its_own():
    n = 40
    submit = np.zeros(n, np.int64)
    runtime = np.arange(1, n + 1) * SECOND
    workload = Workload(Jobs(job=np.arange(n), submit=submit, runtime=runtime, walltime=runtime))
    found = {text(workload, Platform.pool(3), COMPILED, seed) for seed in range(20)}
    assert len(found) == 20


none = np.zeros(0, np.int64)
STATE = state_of(
    Jobs(job=none, submit=none, runtime=none, walltime=none),
    Platform.pool(1),
    policies.get("fcfs"),
    np.zeros(0),
    estimate=none,
)


def picked(seed, drawn, n):
    STATE.own.random[:] = seed, drawn
    return pick(STATE, n)


words = st.integers(0, 2**64 - 1)


@given(seed=words, drawn=st.integers(0, 2**40), n=st.integers(1, 2**32))
def test_a_pick_lies_within_its_bounds_and_draws_one_number(seed, drawn, n):
    assert 0 <= picked(seed, drawn, n) < n
    assert STATE.own.random.tolist() == [seed, drawn + 1]


@given(seed=words)
def test_a_pick_of_one_is_0_and_of_2_to_the_32_is_the_upper_half_of_the_word(seed):
    assert picked(seed, 0, 1) == 0
    assert picked(seed, 0, 2**32) == int(mix(np.uint64(seed), 0)) >> 32


def test_each_value_of_a_small_pick_comes():
    assert {picked(3, drawn, 6) for drawn in range(100)} == set(range(6))
