"""The compiled policies against their slow twins: equal starts, ends, reasons, nodes and promises."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import policies
from backfill.model.units import SECOND
from tests import compiled
from tests.reference import world
from tests.reference.words import Job, Platform
from tests.reference.workloads import (
    Case,
    chained_cases,
    cloud,
    cluster,
    cluster_cases,
    contended,
    crowd,
    farm,
    general_cases,
    limited_cases,
    pool_cases,
    project_cases,
    rich_pool_cases,
    thread_cases,
    unlimited,
    wide_cases,
)
from tests.shares import LONG, a_share

every_twin = a_share(world.POLICIES, of=4)
# Each pass once, in a static order and in one that changes; the others differ from these in their orders alone.
PASSES = (
    "fcfs",
    "easy",
    "easy-lxf",
    "easy-sjbf",
    "first-fit",
    "k-reservations:k=3,order=lxf,tried=saf",
    "conservative",
    "conservative:every=7",
    "reservation-depth:k=3,every=7",
    "reservation-depth:k=1,order=lxf",
    "bf-mod",
    "bf-unmod",
    "flexible:w_user=10,w_wait=0,w_bypass=4",
    "flexible:w_target_wait=5,target_wait=0.1,w_pe=3,res=-2,backfill=best-fit",
    "flexible:w_target_xf=2,target_xf=3,w_bypass=4,serv=0.5,cred=3,backfill=greedy,depth=3",
    "flexible-fairshare:w_wait=0,fs_interval=0.001,fs_depth=3,fs_decay=0.5",
    "bb:per_event=until_empty",
    "backfill-lowest",
    "ibb",
    "best-fit:fit=tightest",
    "preemptive",
    "preemptive:how=checkpoint,overhead=2",
    "preemptive:how=suspend",
    "relaxed:omega=2,base=walltime,tried=wfp3",
    "dynamic:delta=2,gain=0.4",
    "lookahead:depth=3,objective=processor_seconds",
    "combinational",
    "multi-queue:bound1=20,bound2=5,bound3=inf,high=0.5",
    "selective:rule=differential,order=lxf",
    "slack:sf=1,slack_base=walltime,best=3,compress=false",
    "thread-matrix",
    "thread-matrix:n_max=3,eager=true",
    "partition-fixed:partitions=2",
    "partition-variable:backfill=easy,free=thread",
    "partition-adaptive",
    "partition-dynamic",
    "round-robin:quantum=2,overhead=1",
    "2tsb",
    "2tfb:compress=true,victims=any",
    "2tfb-sf:sf=2,pl=1",
    "2tfb-sf:sf=1,slack=job,movable=unstarted",
    "2tpb",
    "2tpb:sf=2,high=fixed,slack=job",
    "gang-site",
    "gang-span",
    "gang-matrix:mpl=2,quantum=60,switch=7,alternative=false",
    "gang-matrix-backfill",
    "gang-matrix-backfill:mpl=3,repack=false,switch=0",
    "slurm",
    "slurm:bf_interval=2,bf_resolution=1,sched_interval=7,batch_sched_delay=0,epilog=1,estimates=1,"
    "pack_serial_at_end=1",
    "slurm:bf_interval=3,version=26.05,bf_resolution=2,bf_job_part_count_reserve=1,bf_max_job_test=3,"
    "bf_max_job_assoc=2,default_queue_depth=1",
)
EACH_PASS = world.POLICIES if LONG else PASSES
every_pass = a_share(EACH_PASS, of=4)

# Without the order in which a float cannot tell scores of such walltimes apart, and without those that start as late as
# they promised.
NEAR = [
    name
    for name in PASSES
    if "lxf" not in name and not (name.startswith(("2t", "slack")) and "compress=true" not in name)
]
DANGLING = [name for name in world.POLICIES if name.startswith("thread")]
THREADS = [*DANGLING, *(name for name in world.POLICIES if name.startswith(("partition", "round")))]
TWO_TIER = [name for name in world.POLICIES if name.startswith(("2t", "slack"))]
SEEDS = range(12 if LONG else 1)  # of cases that are long


def compare(case: Case, name: str, ties: str = "batch", overrun: str = "kill", rule: str = "power") -> None:
    """rule: where jobs sit."""
    if not compiled.runs_on(name, case):
        return
    jobs, ruled = [replace(job, place=rule) for job in case.jobs], f"{name}{',' if ':' in name else ':'}place={rule}"
    expected = world.run(jobs, case.platform, world.POLICIES[name], ties, overrun)
    for have, want in zip(compiled.run(case.jobs, case.platform, ruled, ties, overrun), expected, strict=True):
        assert have == want, f"{name}, job {want.name}: {have}, the twin says {want}"


@every_pass
@given(seed=st.integers(0, 10**6))
def test_where_limits_hold_jobs_back_every_start_equals_the_twin(name, seed):
    compare(contended(seed), name)


def test_every_policy_has_a_twin():
    assert {*policies.TABLE} <= {*world.POLICIES}
    assert {policies.get(name).decide for name in policies.TABLE} == {
        compiled.policy(name)[0].decide for name in PASSES
    }


@every_twin
@given(case=pool_cases())
def test_on_a_pool_every_start_equals_the_twin(name, case):
    compare(case, name)


@every_pass
@given(case=pool_cases())
def test_on_a_pool_in_steps_every_start_equals_the_twin(name, case):
    compare(case, name, ties="step")


@every_pass
@given(case=pool_cases())
def test_with_overrun_extend_every_start_equals_the_twin(name, case):
    compare(case, name, overrun="extend")


@every_pass
@given(case=rich_pool_cases())
def test_on_a_pool_of_several_resources_every_start_equals_the_twin(name, case):
    compare(case, name)


@every_pass
@given(case=wide_cases())
def test_with_up_to_8_resources_every_start_equals_the_twin(name, case):
    compare(case, name)


@every_twin
@given(case=general_cases())
def test_with_nodes_licences_and_gangs_every_start_equals_the_twin(name, case):
    compare(case, name)


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@a_share(TWO_TIER)
@given(case=project_cases())
def test_with_projects_every_start_equals_the_twin(name, options, case):
    compare(case, name, **options)


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@a_share(TWO_TIER)
@given(case=cluster_cases())
def test_with_projects_on_several_nodes_every_start_equals_the_twin(name, options, case):
    compare(case, name, **options)


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@a_share(THREADS)
@given(case=thread_cases())
def test_with_threads_after_threads_every_start_equals_the_twin(name, options, case):
    compare(case, name, **options)


@a_share(TWO_TIER)
def test_under_contention_every_start_equals_the_twin(name):
    for seed in SEEDS:
        compare(cloud(seed), name)


@pytest.mark.parametrize("rule", ["power", "spread"])
@a_share(TWO_TIER)
def test_under_contention_on_several_nodes_every_start_equals_the_twin(name, rule):
    for seed in SEEDS:
        compare(cluster(seed), name, rule=rule)


@every_pass
@given(case=general_cases())
def test_with_nodes_licences_and_gangs_in_steps_every_start_equals_the_twin(name, case):
    compare(case, name, ties="step")


@every_pass
@given(case=general_cases())
def test_with_nodes_licences_gangs_and_overrun_every_start_equals_the_twin(name, case):
    compare(case, name, overrun="extend")


@every_pass
@given(
    case=st.one_of(pool_cases(), general_cases(), limited_cases()),
    place=st.sampled_from(["pack", "spread", "contiguous"]),
)
def test_by_every_rule_of_placement_every_start_equals_the_twin(name, case, place):
    compare(case, name, rule=place)


@every_pass
@given(case=limited_cases())
def test_with_partitions_and_limits_every_start_equals_the_twin(name, case):
    compare(case, name)


@every_pass
@given(case=chained_cases())
def test_with_jobs_after_jobs_every_start_equals_the_twin(name, case):
    compare(case, name)
    compare(case, name, ties="step")
    compare(case, name, overrun="extend")


def test_equal_scores_go_by_file_order_however_they_are_computed():
    def job(row, length, tasks):
        return Job(row=row, name=f"j{row}", submit=0, runtime=length * SECOND, walltime=length * SECOND, tasks=tasks)

    jobs = [job(0, 5, 27), job(1, 1, 1), job(2, 3, 27)]  # the last two have waited 5 s when the first ends
    compare(Case(jobs, Platform.pool(27)), "easy-wfp3")


# Round robin gives a job of hours a turn of seconds thousands of times.
@pytest.mark.parametrize("overrun", ["kill", "extend"])
@a_share(name for name in EACH_PASS if not name.startswith("round"))
def test_in_a_crowd_of_jobs_from_microseconds_to_hours_every_start_equals_the_twin(name, overrun):
    for seed in SEEDS:
        compare(crowd(seed), name, overrun=overrun)


@pytest.mark.parametrize("overrun", ["kill", "extend"])
@a_share(NEAR, of=6)
def test_where_plans_reach_the_end_of_time_every_start_equals_the_twin(name, overrun):
    """46 walltimes of 10^11 s behind each other reach 2^62 microseconds: who would start later has no promise."""
    for nodes in (1, 2) if LONG else (1 + (overrun == "extend"),):
        compare(unlimited(nodes), name, overrun=overrun)


def test_where_plans_reach_the_end_of_time_a_long_queue_equals_the_twin():
    compare(unlimited(1, jobs=220 if LONG else 150), "conservative")


@every_pass
def test_on_a_farm_of_many_nodes_every_start_equals_the_twin(name):
    for seed in SEEDS:
        compare(farm(seed), name)


@pytest.mark.parametrize("name", ["easy-lxf", "k-reservations:k=3,order=lxf,tried=saf"])
def test_the_expansion_factor_tells_short_waits_apart_beside_walltimes_of_3000_years(name):
    columns = [(0, 10), (6, 10**17), (7, 10**17 // 2)]  # at 10 microseconds: (4 + r) / r and (3 + r / 2) / (r / 2)
    jobs = [
        Job(row=i, name=f"j{i}", submit=submit, walltime=walltime, runtime=10, tasks=2)
        for i, (submit, walltime) in enumerate(columns)
    ]
    compare(Case(jobs, Platform.pool(2)), name)
    assert [row.start for row in compiled.run(jobs, Platform.pool(2), name)] == [0, 20, 10]
