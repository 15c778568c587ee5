"""A policy that breaks a rule is stopped at once, with names and units."""

import numpy as np
import pytest

from backfill.core.policy import Param, Policy
from backfill.core.verbs import HEAD, reserve, start, wake
from backfill.model.errors import PolicyError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.worlds.simulated import simulate

JOBS = Jobs(
    job=np.array(["a", "b"]),
    submit=np.array([0, 10]) * SECOND,
    runtime=np.array([5, 5]) * SECOND,
    walltime=np.array([5, 5]) * SECOND,
    tasks=np.array([3, 9]),
)


def starts_the_future(state):
    start(state, 1, HEAD)


def starts_too_large(state):
    start(state, 0, HEAD)
    start(state, 0, HEAD)


def invents_a_reason(state):
    start(state, 0, 99)


def reserves_for_nobody(state):
    reserve(state, 10**9, state.now)


def reserves_in_the_past(state):
    reserve(state, 0, state.now - 1)


def wakes_in_the_past(state):
    wake(state, state.now)


def sleeps(state):
    pass


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (starts_the_future, "at 0 s: starts or reserves for job b, which is not waiting"),
        (starts_too_large, "at 0 s: starts or reserves for job a, which is not waiting"),
        (invents_a_reason, "at 0 s: starts job a for reason 99"),
        (reserves_for_nobody, "reserves for job number 1000000000, which is not waiting"),
        (reserves_in_the_past, "at 0 s: reserves for job a at -0.000001 s, which is over"),
        (wakes_in_the_past, "at 0 s: wakes at 0 s, which is over"),
        (sleeps, "leaves 2 jobs waiting for ever; the first is a"),
    ],
)
def test_a_misuse_is_told_with_names(decide, message, compiled):
    with pytest.raises(PolicyError, match=r"policy careless") as caught:
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", decide, compiled=compiled))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"params": {"k": Param(5, 1, 2)}}, "the default of k lies outside its bounds"),
        ({"memory_i": {"a": "job"}}, "memory a is 'job'; expected a number or 'jobs'"),
        ({"decide": lambda state, other: None}, "takes 2 arguments; expected one, the state"),
    ],
)
def test_a_declaration_is_checked(answers, message):
    with pytest.raises(PolicyError, match=message):
        Policy(**{"name": "careless", "decide": sleeps} | answers)
