"""A policy that breaks a rule is stopped at once, with names and units."""

import numpy as np
import pytest

from backfill.core.policy import Param, Policy
from backfill.core.queue import candidate, following, rewind
from backfill.core.runs import CHECKPOINT, REQUEUE, SUSPEND
from backfill.core.verbs import HEAD, place, preempt, reserve, start, start_heads, wake
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


def places_nobody(state):
    place(state, -1)


def walks_in_an_order_that_it_has_not(state):
    rewind(state, 1)


def follows_an_order_that_it_has_not(state):
    following(state, -1)


def tries_an_order_that_it_has_not(state):
    candidate(state, 7, 0)


def wakes_for_ever(state):
    wake(state, state.now + 1)


def sleeps(state):
    pass


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (starts_the_future, "at 0 s: places, starts or reserves for job b, which is not waiting"),
        (starts_too_large, "at 0 s: places, starts or reserves for job a, which is not waiting"),
        (invents_a_reason, "at 0 s: starts job a for reason 99"),
        (reserves_for_nobody, "reserves for job number 1000000000, which is not waiting"),
        (reserves_in_the_past, "at 0 s: reserves for job a at -0.000001 s, which is over"),
        (wakes_in_the_past, "at 0 s: wakes at 0 s, which is over"),
        (places_nobody, "places, starts or reserves for job number -1, which is not waiting"),
        (walks_in_an_order_that_it_has_not, "walks in order number 1; it declares 1, from 0"),
        (follows_an_order_that_it_has_not, "walks in order number -1; it declares 1, from 0"),
        (tries_an_order_that_it_has_not, "walks in order number 7; it declares 1, from 0"),
        (sleeps, "leaves 2 jobs waiting for ever; the first is a"),
    ],
)
def test_a_misuse_is_told_with_names(decide, message, compiled):
    with pytest.raises(PolicyError, match=r"policy careless") as caught:
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", decide, compiled=compiled))
    assert message in str(caught.value)


def test_a_policy_that_wakes_for_ever_is_stopped():
    with pytest.raises(PolicyError, match="has woken 10,000,000 times at which nothing happened, while 2 jobs wait"):
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", wakes_for_ever))


def test_timers_end_with_the_jobs():
    def works_and_wakes(state):
        start_heads(state)
        wake(state, state.now + 1000 * SECOND)

    done = simulate(Workload(JOBS), Platform.pool(9), Policy("careful", works_and_wakes, compiled=False))
    assert done.passes == 4


def starts_where_another_was_placed(state):
    if state.queue.waiting == 2:
        place(state, 0)
        start(state, 1, HEAD)


def test_what_was_placed_for_one_job_does_not_serve_another():
    jobs = Jobs(
        job=np.array(["a", "b"]),
        submit=np.zeros(2, np.int64),
        runtime=np.array([5, 5]) * SECOND,
        walltime=np.array([5, 5]) * SECOND,
        tasks=np.array([2, 2]),
    )
    with pytest.raises(PolicyError, match="starts job b with 0 of its 2 tasks placed"):
        simulate(Workload(jobs), Platform.pool(4, nodes=2), Policy("careless", starts_where_another_was_placed))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"params": {"k": Param(5, 1, 2)}}, "the default of k lies outside its bounds"),
        ({"memory_i": {"a": "job"}}, "memory a is 'job'; expected a number, 'jobs' or 'licences'"),
        ({"decide": lambda state, other: None}, "takes 2 arguments; expected one, the state"),
    ],
)
def test_a_declaration_is_checked(answers, message):
    with pytest.raises(PolicyError, match=message):
        Policy(**{"name": "careless", "decide": sleeps} | answers)


def preempts_who_waits(state):
    preempt(state, 0, REQUEUE, 0)


def preempts_nobody(state):
    preempt(state, -1, REQUEUE, 0)


def preempts_what_it_just_started(state):
    if place(state, 0):
        start(state, 0, HEAD)
        preempt(state, 0, REQUEUE, 0)


def preempts_in_no_known_way(state):
    start_heads(state)
    if state.now > 0:
        preempt(state, 0, 3, 0)


def preempts_at_a_gain(state):
    start_heads(state)
    if state.now > 0:
        preempt(state, 0, CHECKPOINT, -1)


def starts_what_it_just_preempted(state):
    start_heads(state)
    if state.now > 0:
        preempt(state, 0, SUSPEND, 0)
        if not place(state, 0):
            start(state, 0, HEAD)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (preempts_who_waits, "at 0 s: preempts job a, which does not run"),
        (preempts_nobody, "at 0 s: preempts job number -1, which does not run"),
        (preempts_what_it_just_started, "at 0 s: preempts job a, which it started in this pass"),
        (preempts_in_no_known_way, "at 3 s: preempts job a by 3; expected one of REQUEUE, CHECKPOINT, SUSPEND"),
        (preempts_at_a_gain, "at 3 s: preempts job a at an overhead of -0.000001 s; expected 0 or more"),
        (starts_what_it_just_preempted, "at 3 s: starts job a, which it preempted in this pass"),
    ],
)
def test_a_wrong_preemption_is_told_with_names(decide, message, compiled):
    jobs = JOBS.replace(submit=np.array([0, 3]) * SECOND)
    with pytest.raises(PolicyError, match=r"policy careless") as caught:
        simulate(Workload(jobs), Platform.pool(9), Policy("careless", decide, preempts=True, compiled=compiled))
    assert message in str(caught.value)


def test_a_policy_says_that_it_preempts():
    with pytest.raises(PolicyError, match=r"preempts job a; a policy that does declares preempts=True"):
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", preempts_who_waits, compiled=False))
