"""A policy that breaks a rule is stopped at once, with names and units."""

import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from backfill.api import run_spec
from backfill.core.policy import Param, Policy
from backfill.core.policy import policy as make_policy
from backfill.core.runs import CHECKPOINT, REQUEUE, SUSPEND
from backfill.core.verbs import preempt
from backfill.model.clock import Clock
from backfill.model.errors import PolicyError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Counted, Jobs, Workload
from backfill.spec import RunSpec
from backfill.verbs import (
    FUTURE,
    HEAD,
    arrange_by,
    arrange_waiting,
    candidate,
    earliest_start,
    fits_now,
    following,
    head,
    is_first,
    pick,
    place,
    place_beside,
    rebuild,
    reserve,
    rewind,
    settle,
    shadow_time,
    start,
    start_heads,
    use_extra,
    waiting_jobs,
    waiting_times,
    waiting_walltimes,
    wake,
)
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


def starts_twice(state):
    start(state, 0, HEAD)
    start(state, 0, HEAD)


def starts_too_large(state):
    if state.queue.waiting == 2:
        start(state, 0, HEAD)
        start(state, 1, HEAD)


def starts_what_has_ended(state):
    if state.now == 0 or state.batch.ends:
        start(state, 0, HEAD)


def invents_a_reason(state):
    start(state, 0, 99)


def reserves_for_nobody(state):
    reserve(state, 10**9, state.now)


def reserves_in_the_past(state):
    reserve(state, 0, state.now - 1)


def wakes_in_the_past(state):
    wake(state, state.now)


def wakes_never(state):
    wake(state, FUTURE)


def places_nobody(state):
    place(state, -1)


def places_beside_nobody(state):
    place_beside(state, -(10**12), 5)


def asks_when_nobody_fits(state):
    shadow_time(state, 2)


def asks_whether_nobody_is_first(state):
    is_first(state, -1)


def asks_whether_nobody_fits(state):
    fits_now(state, 10**15)


def plans_for_nobody(state):
    rebuild(state)
    earliest_start(state, -(10**15), state.now)


def plans_in_the_past(state):
    rebuild(state)
    earliest_start(state, 0, -(2**63))


def settles_nobody(state):
    rebuild(state)
    settle(state, 99, state.now)


def uses_the_extra_for_nobody(state):
    use_extra(state, -5)


def uses_the_extra_before_the_start(state):
    use_extra(state, 0)


def draws_from_nothing(state):
    pick(state, 0)


def draws_from_too_much(state):
    pick(state, 2**62)


def walks_in_an_order_that_it_has_not(state):
    rewind(state, 1)


def follows_an_order_that_it_has_not(state):
    following(state, -1)


def tries_an_order_that_it_has_not(state):
    candidate(state, 7, 0)


def looks_at_an_order_that_it_has_not(state):
    waiting_jobs(state, 3)


def sorts_an_order_that_it_has_not(state):
    arrange_by(state, 2**40, state.own.score)


def sorts_by_too_few(state):
    arrange_by(state, 0, state.own.score[:0])


def sorts_those_that_wait_by_too_few(state):
    arrange_waiting(state, 0, state.own.score[:0])


def asks_how_long_jobs_of_no_order_waited(state):
    waiting_times(state, 1)


def asks_for_walltimes_of_no_order(state):
    waiting_walltimes(state, 1)


def wakes_for_ever(state):
    wake(state, state.now + 1)


def sleeps(state):
    pass


MISUSES = [
    (starts_the_future, "at day 0 00:00:00: calls start for job b, which is not waiting (job b: not submitted yet)"),
    (
        starts_twice,
        "at day 0 00:00:00: calls start for job a, which is not waiting "
        "(job a: submitted at day 0 00:00:00, started at day 0 00:00:00)",
    ),
    (
        starts_what_has_ended,
        "at day 0 00:00:05: calls start for job a, which is not waiting "
        "(job a: submitted at day 0 00:00:00, started at day 0 00:00:00, completed at day 0 00:00:05)",
    ),
    (
        starts_too_large,
        "at day 0 00:00:10: starts job b, which needs 9 cpus; free: 6 (job b: submitted at day 0 00:00:10, waiting)",
    ),
    (invents_a_reason, "at day 0 00:00:00: starts job a for reason 99"),
    (reserves_for_nobody, "calls reserve for job number 1000000000, which is not waiting"),
    (reserves_in_the_past, "reserves for job a at day -1 23:59:59.999999, which is in the past"),
    (wakes_in_the_past, "at day 0 00:00:00: wakes at day 0 00:00:00, which is in the past"),
    (wakes_never, "calls wake with FUTURE; expected an instant before it"),
    (places_nobody, "calls place for job number -1, which is not waiting"),
    (places_beside_nobody, "calls place_beside for job number -1000000000000, which is not waiting"),
    (asks_when_nobody_fits, "calls shadow_time for job number 2, which is not waiting"),
    (asks_whether_nobody_is_first, "calls is_first for job number -1, which is not waiting"),
    (asks_whether_nobody_fits, "calls fits_now for job number 1000000000000000, which is not waiting"),
    (plans_for_nobody, "calls earliest_start for job number -1000000000000000, which is not waiting"),
    (plans_in_the_past, "for job a at day -106751992 19:59:05.224192, which is in the past"),
    (settles_nobody, "calls settle for job number 99, which is not waiting"),
    (uses_the_extra_for_nobody, "uses the extra for job number -5, which it did not start in this pass"),
    (uses_the_extra_before_the_start, "uses the extra for job a, which it did not start in this pass"),
    (draws_from_nothing, "calls pick with 0; expected 1 to 4,294,967,296"),
    (draws_from_too_much, "calls pick with 4611686018427387904; expected 1 to 4,294,967,296"),
    (walks_in_an_order_that_it_has_not, "uses order slot 1, but declares only slot 0"),
    (follows_an_order_that_it_has_not, "uses order slot -1, but declares only slot 0"),
    (tries_an_order_that_it_has_not, "uses order slot 7, but declares only slot 0"),
    (looks_at_an_order_that_it_has_not, "uses order slot 3, but declares only slot 0"),
    (sorts_an_order_that_it_has_not, "uses order slot 1099511627776, but declares only slot 0"),
    (sorts_by_too_few, "sorts 1 jobs by 0 keys; expected a key for each job"),
    (sorts_those_that_wait_by_too_few, "sorts 1 jobs by 0 keys; expected a key for each job"),
    (asks_how_long_jobs_of_no_order_waited, "uses order slot 1, but declares only slot 0"),
    (asks_for_walltimes_of_no_order, "uses order slot 1, but declares only slot 0"),
    (sleeps, "2 jobs never start (the first is job a: submitted at day 0 00:00:00, waiting)"),
]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_misuse_is_told_with_dates_where_the_log_knows_them(compiled):
    berlin = Clock(1_772_362_800, "Europe/Berlin")  # 2026-03-01 12:00
    with pytest.raises(PolicyError) as caught:
        simulate(Workload(JOBS, clock=berlin), Platform.pool(9), careless(starts_too_large, compiled))
    told = "at 2026-03-01 12:00:10 (Europe/Berlin): starts job b, which needs 9 cpus; free: 6 "
    assert told + "(job b: submitted at 2026-03-01 12:00:10, waiting)" in str(caught.value)


def careless(decide, compiled):
    return Policy("careless", decide, compiled=compiled, sorts=True, memory_f={"score": "jobs"})


@pytest.mark.parametrize("platform", [Platform.pool(9), Platform.pool(9, nodes=3)], ids=["pool", "nodes"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(("decide", "message"), MISUSES, ids=[decide.__name__ for decide, _ in MISUSES])
def test_a_misuse_is_told_with_names(decide, message, compiled, platform):
    if platform.capacity.shape[0] > 1 and decide in (starts_twice, starts_too_large, starts_what_has_ended):
        return  # there `start` wants a `place` before
    with pytest.raises(PolicyError, match=r"policy careless") as caught:
        simulate(Workload(JOBS), platform, careless(decide, compiled))
    assert message in str(caught.value)
    if decide is not sleeps:
        line = decide.__code__.co_firstlineno
        assert str(caught.value).startswith(tuple(f"{__file__}:{line + i}: policy careless, at " for i in range(6)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda state: place(state, 0.5), "job is 0.5; expected a whole number"),
        (lambda state: place(state, 2**70), "job is 1180591620717411303424; expected a whole number"),
        (lambda state: wake(state, None), "t is None; expected a whole number"),
        (lambda state: arrange_by(state, 0, [1.0]), "keys is list; expected an array with a number for each job"),
    ],
)
def test_an_argument_of_another_kind_is_an_error_in_its_line(call, message):
    policy = careless(call, compiled=False)
    with pytest.raises(PolicyError) as caught:
        run_spec(Workload(JOBS), Platform.pool(9), RunSpec.of(policy))
    assert str(caught.value) == f"{__file__}:{call.__code__.co_firstlineno}: policy careless: TypeError: {message}"


FOR_SECONDS = 12_000_000_000  # times; not for ever: the thread of a compiled pass goes on after it is given up


def hangs(state):
    for _ in range(FOR_SECONDS):
        rewind(state, 0)


def hangs_on_a_mistake(state):
    for _ in range(FOR_SECONDS):
        start(state, head(state), 99)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_pass_that_does_not_return_is_named(compiled):
    policy = Policy("hasty", hangs, compiled=compiled, patience=1)
    with pytest.raises(
        PolicyError, match="policy hasty has not returned from its pass at day 0 00:00:00 for 1 s"
    ) as caught:
        simulate(Workload(JOBS), Platform.pool(9), policy)
    if not compiled:
        line = hangs.__code__.co_firstlineno
        assert str(caught.value).startswith((f"{__file__}:{line + 1}: ", f"{__file__}:{line + 2}: "))


def test_a_policy_may_take_longer_to_compile_than_a_pass(monkeypatch):
    def fcfs(state):
        start_heads(state)

    policy = Policy("slow-to-compile", fcfs, patience=1)
    compiles = Policy.entry.func

    def slowly(policy):
        time.sleep(1.5)
        return compiles(policy)

    monkeypatch.setattr(Policy.entry, "func", slowly)
    assert simulate(Workload(JOBS), Platform.pool(9), policy).schedule.start.tolist() == [0, 10 * SECOND]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_pass_that_does_not_return_after_a_misuse_is_told_the_misuse(compiled):
    with pytest.raises(PolicyError, match="starts job a for reason 99"):
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", hangs_on_a_mistake, compiled=compiled))


def test_nobody_can_swallow_what_stops_a_pass():
    def stubborn(state):
        while True:
            try:
                place(state, -1)
            except:  # noqa: E722
                time.sleep(0.01)

    with pytest.raises(
        PolicyError, match=r"test_misuse.py:\d+: policy stubborn, at day 0 00:00:00: calls place for job number -1"
    ):
        simulate(Workload(JOBS), Platform.pool(9), Policy("stubborn", stubborn, compiled=False))


def test_a_slow_pass_is_not_stopped():
    def thinks(state):
        for _ in range(4):
            time.sleep(0.2)
        start_heads(state)

    simulate(Workload(JOBS), Platform.pool(9), Policy("slow", thinks, compiled=False, patience=20))


def test_a_policy_that_wakes_for_ever_is_stopped():
    with pytest.raises(PolicyError, match="requested 10,000,000 idle passes in a row, while 2 jobs wait"):
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
        ({"memory": {"a": "job"}}, "memory a is 'job'; expected a number or one of jobs, licences, nodes, sites"),
        ({"patience": 0}, "patience is 0; expected seconds above 0"),
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


def preempts_for_ever(state):
    start_heads(state)
    if state.now > 0:
        preempt(state, 0, CHECKPOINT, 2**62)


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
        (preempts_who_waits, "at day 0 00:00:00: preempts job a, which does not run"),
        (preempts_nobody, "at day 0 00:00:00: preempts job number -1, which does not run"),
        (preempts_what_it_just_started, "at day 0 00:00:00: preempts job a, which it started in this pass"),
        (
            preempts_in_no_known_way,
            "at day 0 00:00:03: preempts job a by 3; expected one of REQUEUE, CHECKPOINT, SUSPEND",
        ),
        (
            preempts_at_a_gain,
            "at day 0 00:00:03: preempts job a at an overhead of -0.000001 s; expected 0 to 100000000000",
        ),
        (preempts_for_ever, "preempts job a at an overhead of 4611686018427.387904 s; expected 0 to 100000000000"),
        (starts_what_it_just_preempted, "at day 0 00:00:03: starts job a, which it preempted in this pass"),
    ],
)
def test_a_wrong_preemption_is_told_with_names(decide, message, compiled):
    jobs = JOBS.replace(submit=np.array([0, 3]) * SECOND)
    with pytest.raises(PolicyError, match=r"policy careless") as caught:
        simulate(Workload(jobs), Platform.pool(9), Policy("careless", decide, preempts=True, compiled=compiled))
    assert message in str(caught.value)


def test_a_policy_says_that_it_preempts():
    with pytest.raises(PolicyError, match=r"preempts job a; expected @policy\(..., preempts=True\)"):
        simulate(Workload(JOBS), Platform.pool(9), Policy("careless", preempts_who_waits, compiled=False))


# Writing behind the walls, by an address that numba does not check.


@intrinsic
def pointer(context, address):
    def make(context, builder, signature, given):
        return builder.inttoptr(given[0], cgutils.voidptr_t)

    return types.voidptr(types.uintp), make


@make_policy("liar")
def liar(state):
    n = len(state.jobs.walltime)
    need = carray(pointer(state.jobs.need.ctypes.data), (n, 1), np.int64)
    tasks = carray(pointer(state.jobs.tasks.ctypes.data), (n,), np.int64)
    for i in range(n):
        need[i, 0] = tasks[i] = 1
    start_heads(state)


@make_policy("scribbler", compiled=False)
def scribbler(state):
    jobs = state._state.jobs
    jobs.need[:], jobs.tasks[:], jobs.demand[:] = 1, 1, 1
    jobs.walltime[:], jobs.submit[:], jobs.deadline[:], jobs.user[:] = 1, 0, 7, 9
    jobs.licence_count[:] = 0
    start_heads(state)


@pytest.mark.parametrize("name", ["liar", "scribbler"])
def test_a_policy_that_writes_to_the_table_of_jobs_is_found_by_the_book(name):
    policy = {"liar": liar, "scribbler": scribbler}[name]
    with pytest.raises(PolicyError, match="overbooks: job b starts with 9 cpus where the machine has 7 left"):
        simulate(Workload(JOBS.replace(submit=np.zeros(2, np.int64))), Platform.pool(10), policy)


@pytest.mark.parametrize("platform", [Platform.pool(20), Platform.pool(20, nodes=2)])
def test_what_a_policy_writes_to_the_table_of_jobs_reaches_neither_the_world_nor_the_workload(platform):
    jobs = JOBS.replace(licences=Counted.of_items(2, np.array([0]), np.array([0]), np.array([1])))
    workload, machine = (
        Workload(jobs, licences=("l",)),
        replace(platform, licences=("l",), copies=np.array([1]), hosts=np.ones((len(platform.nodes), 1), np.bool_)),
    )
    kept = {name: np.array(getattr(jobs, name)) for name in ("submit", "walltime", "tasks", "demand", "deadline")}
    with suppress(PolicyError):
        schedule = simulate(workload, machine, scribbler).schedule
        assert schedule.start.tolist() == [0, 10 * SECOND]  # not before it was submitted
    assert all((getattr(jobs, name) == values).all() for name, values in kept.items())
    assert jobs.licences.counts.tolist() == [1]
