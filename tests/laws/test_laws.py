"""What must hold for every registered policy, now and later, on any workload."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.analysis.resources import Use
from backfill.analysis.verify import verify
from backfill.core.policy import Policy
from backfill.core.queue.walk import following, is_first, rewind
from backfill.core.verbs import FIT, HEAD, place, start
from backfill.model.schedule import NO_TIME
from backfill.traces.schedules import write_schedule
from backfill.worlds.simulated import Options, simulate
from tests import compiled
from tests.compiled import policy
from tests.reference.workloads import (
    Case,
    as_model,
    cases_with_events,
    contended,
    general_cases,
    limited_cases,
    pool_cases,
    project_cases,
    whole_cases,
    wide_cases,
)
from tests.shares import LONG, a_share

GOING_ON = ["preemptive:how=checkpoint,overhead=2", "preemptive:how=checkpoint,overhead=0", "preemptive:how=suspend"]
ON_POOLS = [name for name in policies.TABLE if not policies.get(name).processors]
ANYWHERE = [*ON_POOLS, *GOING_ON]
# those that run a job which has its nodes for itself
ALONE = [name for name in ANYWHERE if not policy(name)[0].shares]
every_policy = a_share(ANYWHERE, of=4)
BINDING = [name for name in policies.TABLE if policies.get(name).binds]
TIES = [Options(), Options(ties="step")]


def overhead(name):
    chosen, params = policy(name)
    return chosen.overhead(chosen.in_full(params))


def allowed(name):
    """Return the properties of a policy that the checker has to know."""
    chosen, params = policy(name)
    sharing = chosen.sharing(chosen.in_full(params))
    return {"overhead": overhead(name), "dangles": chosen.dangles, "sharing": sharing}


def scheduled(case, name, options=None):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return workload, platform, simulate(workload, platform, *policy(name), options=options).schedule


@every_policy
@given(case=general_cases())
def test_every_schedule_is_lawful(name, case):
    workload, platform, schedule = scheduled(case, name)
    assert verify(workload, platform, schedule, **allowed(name)) == []


@every_policy
@given(case=limited_cases())
def test_every_schedule_is_lawful_beside_partitions_and_limits(name, case):
    workload, platform, schedule = scheduled(case, name)
    assert verify(workload, platform, schedule, **allowed(name)) == []


@a_share(ALONE)
@given(case=whole_cases())
def test_every_schedule_is_lawful_where_jobs_have_their_nodes_for_themselves(name, case):
    workload, platform, schedule = scheduled(case, name)
    assert verify(workload, platform, schedule, **allowed(name)) == []


@pytest.mark.parametrize("name", ["easy", "conservative", "preemptive"])
@given(case=whole_cases())
def test_where_every_job_asks_for_whole_nodes_each_runs_as_where_jobs_are_placed_so(name, case):
    first = case.platform.nodes[0]
    alike = replace(case.platform, nodes=tuple(replace(n, capacity=first.capacity) for n in case.platform.nodes))
    asked, whole = ([replace(job, exclusive=every) for job in case.jobs] for every in (True, False))
    starts = [
        scheduled(Case(jobs, alike), f"{name}:place={rule}")[2].start.tolist()
        for jobs, rule in ((asked, "power"), (whole, "exclusive"))
    ]
    assert starts[0] == starts[1]


@pytest.mark.parametrize("name", ["easy", "conservative", "gang-matrix", "gang-matrix-backfill", *GOING_ON])
@given(
    happening=cases_with_events(st.one_of(general_cases(), limited_cases(), pool_cases()), most=8),
    lost=st.sampled_from(["fail", "requeue"]),
)
def test_every_schedule_with_outages_is_lawful(name, happening, lost):
    case, events = happening
    if not compiled.runs_on(name, case, events):
        return
    workload, platform, options = compiled.asked(case.jobs, case.platform, events=events, lost=lost)
    schedule = simulate(workload, platform, *policy(name), options=options).schedule
    seen = options.estimates.of(workload.jobs, 0)
    more = {"events": options.events, "lost": lost, "seen": seen, **allowed(name)}
    assert verify(workload, platform, schedule, **more) == []


@every_policy
@given(case=general_cases())
def test_every_schedule_is_lawful_when_jobs_outlive_their_walltime(name, case):
    workload, platform, schedule = scheduled(case, name, Options(overrun="extend"))
    assert verify(workload, platform, schedule, overrun="extend", **allowed(name)) == []


@a_share(ON_POOLS)
@given(case=project_cases())
def test_every_schedule_of_projects_is_lawful(name, case):
    workload, platform, schedule = scheduled(case, name)
    assert verify(workload, platform, schedule, **allowed(name)) == []


@every_policy
@given(case=pool_cases())
def test_every_schedule_is_lawful_in_steps(name, case):
    workload, platform, schedule = scheduled(case, name, Options(ties="step"))
    assert verify(workload, platform, schedule, **allowed(name)) == []


@every_policy
@given(case=limited_cases())
def test_every_schedule_under_limits_is_lawful_in_steps(name, case):
    workload, platform, schedule = scheduled(case, name, Options(ties="step"))
    assert verify(workload, platform, schedule, ties="step", **allowed(name)) == []


@every_policy
@given(case=pool_cases())
def test_the_same_seed_gives_the_same_bytes(name, case):
    def text():
        out = io.StringIO()
        write_schedule(scheduled(case, name, Options(seed=7))[2], out)
        return out.getvalue()

    assert text() == text()


@given(case=general_cases())
def test_a_plain_python_policy_gives_the_schedule_of_the_compiled_one(case):
    workload, platform, compiled = scheduled(case, "first-fit")

    def first_fit(state):
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            if place(state, job):
                start(state, job, HEAD if is_first(state, job) else FIT)
            job = following(state, 0)

    plain = simulate(workload, platform, Policy("mine", first_fit, compiled=False)).schedule
    assert plain.start.tolist() == compiled.start.tolist()
    assert plain.reason.tolist() == compiled.reason.tolist()


@given(case=pool_cases())
def test_fcfs_starts_in_submit_order(case):
    workload, _, schedule = scheduled(case, "fcfs")
    order = np.argsort(workload.jobs.submit, kind="stable")
    starts = schedule.start[order][schedule.start[order] != NO_TIME]
    assert (np.diff(starts) >= 0).all()


@given(case=pool_cases(), cut=st.floats(0, 1))
def test_under_fcfs_later_submits_change_nothing_for_earlier_jobs(case, cut):
    workload, platform, schedule = scheduled(case, "fcfs")
    order = np.argsort(workload.jobs.submit, kind="stable")
    kept = order[: round(cut * len(order))]
    shorter = workload.with_jobs(workload.jobs.take(kept))
    alone = simulate(shorter, platform, *policy("fcfs")).schedule
    assert alone.start.tolist() == schedule.start[kept].tolist()


@a_share(BINDING)
@pytest.mark.parametrize("options", TIES, ids=["batch", "step"])
@given(case=general_cases(honest=True, chains=False))
def test_a_promise_that_binds_is_kept(name, options, case):
    workload, platform, schedule = scheduled(case, name, options)
    assert verify(workload, platform, schedule, promises_bind=True, **allowed(name)) == []


@pytest.mark.parametrize("name", [*BINDING, "relaxed:omega=2,base=walltime", "dynamic:delta=2,gain=0"])
def test_a_promise_that_binds_is_kept_where_limits_hold_jobs_back(name):
    for seed in range(60 if LONG else 12):
        workload, platform, schedule = scheduled(contended(seed), name)
        assert verify(workload, platform, schedule, promises_bind=True, **allowed(name)) == [], seed


@given(seed=st.integers(0, 10**6))
def test_the_ends_of_the_families_are_easy_also_where_limits_hold_jobs_back(seed):
    starts = scheduled(contended(seed), "easy")[2].start.tolist()
    for name in ("k-reservations:k=1", "relaxed:omega=0", "dynamic:delta=0", "bf-fcfs"):
        assert scheduled(contended(seed), name)[2].start.tolist() == starts, name


@every_policy
@given(case=wide_cases(), there=st.booleans())
def test_a_resource_that_nobody_asks_for_changes_nothing(name, case, there):
    """Neither one of which there is some, nor one of which there is nothing."""
    nodes = tuple(replace(node, capacity=(*node.capacity, 5 * there)) for node in case.platform.nodes)
    jobs = [replace(job, demand=(*job.demand, 0)) for job in case.jobs]
    _, _, before = scheduled(case, name)
    workload, platform, after = scheduled(Case(jobs, replace(case.platform, nodes=nodes)), name)
    assert (after.start == before.start).all()
    found, without = (
        Use.of(w, p, after, np.flatnonzero(after.ran))
        for w, p in ((workload, platform), (as_model(case.jobs, case.platform)[:2]))
    )
    assert (found.imbalance.values == without.imbalance.values).all()


@pytest.mark.parametrize("name", ["bb", "backfill-lowest", "ibb"])
@given(case=wide_cases())
def test_a_job_that_can_never_run_changes_no_balance(name, case):
    nodes = tuple(replace(node, capacity=(*node.capacity, 3)) for node in case.platform.nodes)
    jobs = [replace(job, demand=(*job.demand, 0)) for job in case.jobs]
    hopeless = replace(jobs[0], row=len(jobs), name="hopeless", demand=(*(0 for _ in nodes[0].capacity[1:]), 4))
    _, _, without = scheduled(Case(jobs, replace(case.platform, nodes=nodes)), name)
    _, _, found = scheduled(Case([*jobs, hopeless], replace(case.platform, nodes=nodes)), name)
    assert not found.ran[-1]
    assert (found.start[:-1] == without.start).all()


def test_who_binds_itself():
    fair = {"easy", "easy-sjbf", "conservative", "bf-fcfs", "bf-unmod", "bb", "backfill-lowest", "ibb"}
    fair |= {"relaxed", "dynamic", "lookahead", "combinational", "selective", "2tsb", "reservation-depth"}
    fair |= {"gang-matrix-backfill"}
    assert set(BINDING) == fair
    assert not policy("easy:order=sjf")[0].binds


@pytest.mark.parametrize("name", ["conservative", "conservative:every=7"])
@pytest.mark.parametrize("options", TIES, ids=["batch", "step"])
@given(case=general_cases(honest=True))
def test_conservative_promises_every_job_a_start_and_keeps_it_whoever_waits_for_whom(options, name, case):
    workload, platform, schedule = scheduled(case, name, options)
    assert verify(workload, platform, schedule, promises_bind=True) == []
    assert (schedule.promise[schedule.start != NO_TIME] != NO_TIME).all()


@given(case=pool_cases())
def test_no_reservation_is_first_fit_and_one_is_easy(case):
    for k, name in ((0, "first-fit"), (1, "easy")):
        workload, platform, expected = scheduled(case, name)
        got = simulate(workload, platform, policy("k-reservations")[0], {"k": k}).schedule
        assert got.start.tolist() == expected.start.tolist()


@pytest.mark.parametrize("name", ["preemptive", *GOING_ON])
@given(case=pool_cases(honest=True))
def test_preempted_work_is_done_once_more_or_kept_and_a_checkpoint_adds_its_overhead(name, case):
    workload, _, schedule = scheduled(case, name)
    jobs, runs = workload.jobs, schedule.all_runs
    count = np.bincount(runs.job, minlength=len(jobs))
    done = runs.length * (runs.number == count[runs.job]) if name == "preemptive" else runs.length
    found = np.bincount(runs.job, done, minlength=len(jobs))
    wanted = np.minimum(jobs.runtime, jobs.walltime) + overhead(name) * (count - 1)
    assert found[schedule.ran].tolist() == wanted[schedule.ran].tolist()
