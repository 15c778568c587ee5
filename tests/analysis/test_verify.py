import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backfill.analysis.verify import SHOWN, Violation, verify
from backfill.model.clock import Clock
from backfill.model.platform import Platform
from backfill.model.schedule import COMPLETED, NO_TIME, REJECTED, TIMEOUT, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import SPREAD, Ragged, Workload

from .by_hand import farm, oracle, scheduled, times, workload

POOL = Platform.pool(4)
NODE, SITE = SPREAD.index("node"), SPREAD.index("site")


def broken(log: Workload, platform: Platform, schedule: Any, **options: Any) -> list[str]:
    return [str(violation) for violation in verify(log, platform, schedule, **options)]


def loose(job: list[str], start: list[float | None], **columns: Any) -> SimpleNamespace:
    """Return the content of another tool's file; times in seconds."""
    made = dict.fromkeys(["submit", "end", "state", "reason", "node", "runs"]) | {"start": start} | columns
    for name in ("submit", "start", "end"):
        if made[name] is not None:
            made[name] = np.array([NO_TIME if t is None else round(t * SECOND) for t in made[name]], np.int64)
    texts = {k: np.array(v, object) for k, v in made.items() if k in ("state", "reason", "node") and v is not None}
    return SimpleNamespace(job=np.array(job, object), **(made | texts))


TWO = workload([0, 1], [10, 10], cpus=[3, 2])  # they cannot run together on POOL


def test_a_lawful_schedule_breaks_nothing():
    assert broken(TWO, POOL, scheduled(TWO, POOL, [0, 10])) == []


def test_violations_have_dates_where_the_log_knows_them():
    log = replace(TWO, clock=Clock(1_772_362_800, "Europe/Berlin"))  # 2026-03-01 12:00
    assert broken(log, POOL, scheduled(log, POOL, [0, 0.5]))[0] == (
        "start: job b at 2026-03-01 12:00:00.5: starts before its submit at 2026-03-01 12:00:01"
    )


def test_an_empty_schedule_of_an_empty_workload_is_lawful():
    empty = workload([], [])
    assert broken(empty, POOL, scheduled(empty, POOL, [])) == []
    assert broken(empty, farm(1, 1), loose([], [])) == []


# jobs


def test_a_job_that_is_missing_doubled_or_unknown_is_caught():
    found = broken(TWO, POOL, loose(["a", "a", "z"], [0, 20, 30]))
    assert found == [
        "jobs: job z: is not in the workload",
        "jobs: job a: is in the schedule more than once",
        "jobs: job b: is not in the schedule",
    ]


def test_lines_may_come_in_any_order_and_ids_may_be_numbers():
    numbered = TWO.with_jobs(TWO.jobs.replace(job=np.array([7, 8])))
    assert broken(numbered, POOL, loose(["8", "7"], [10, 0], end=[20, 10])) == []


# start, after, submit


def test_a_start_before_the_submit_is_caught():
    assert broken(TWO, POOL, scheduled(TWO, POOL, [10.5, 0.5])) == [
        "start: job b at day 0 00:00:00.5: starts before its submit at day 0 00:00:01"
    ]


def test_a_start_before_the_job_is_eligible_is_caught():
    schedule = scheduled(TWO, POOL, [0, 10], eligible=times([0, 11]))
    assert broken(TWO, POOL, schedule) == [
        "start: job b at day 0 00:00:10: starts before it is eligible at day 0 00:00:11"
    ]


def test_a_start_before_the_end_of_what_it_comes_after_is_caught():
    log = workload([0, 0], [10, 10], after=[[], [0]])
    assert broken(log, POOL, scheduled(log, POOL, [0, 10])) == []
    assert broken(log, POOL, scheduled(log, POOL, [0, 9])) == [
        "start: job b at day 0 00:00:09: starts before the end of job a, which it depends on"
    ]


def test_a_job_may_not_start_after_one_that_never_ran():
    log = workload([0, 0], [10, 10], cpus=[9, 1], after=[[], [0]])
    assert broken(log, POOL, scheduled(log, POOL, [None, None])) == []
    assert broken(log, POOL, scheduled(log, POOL, [None, 5])) == [
        "start: job b at day 0 00:00:05: starts before the end of job a, which it depends on, and which never ran"
    ]


def test_a_submit_that_differs_from_the_workload_is_caught():
    assert broken(TWO, POOL, loose(["a", "b"], [0, 10], submit=[0, 1])) == []
    assert broken(TWO, POOL, loose(["a", "b"], [0, 10], submit=[0, 2])) == [
        "submit: job b at day 0 00:00:02: was submitted at day 0 00:00:01"
    ]


# end


def test_an_end_that_is_not_start_plus_run_time_is_caught():
    schedule = scheduled(TWO, POOL, [0, 10])
    late = replace(schedule, end=schedule.end + np.array([0, 1]))
    assert broken(TWO, POOL, late) == [
        "end: job b at day 0 00:00:20.000001: ends 10.000001 s after its start; expected 10 s"
    ]


def test_a_killed_job_ends_at_its_walltime_and_an_extended_one_does_not():
    log = workload([0], [100], walltime=[40])
    killed = scheduled(log, POOL, [0])
    extended = replace(killed, end=times([100]), state=np.array([COMPLETED]))
    assert broken(log, POOL, killed) == []
    assert broken(log, POOL, extended, overrun="extend") == []
    assert len(broken(log, POOL, extended)) == 2  # the end and the state
    assert len(broken(log, POOL, killed, overrun="extend")) == 2


def test_a_gang_runs_at_the_pace_of_its_slowest_node_rounded_up():
    log = workload([0], [1], tasks=[2])
    platform = farm(1, 1, speed=np.array([3.0, 1.5]))
    schedule = scheduled(log, platform, [0], held=[[(0, 1), (1, 1)]])
    assert schedule.end.tolist() == [666_667]
    assert broken(log, platform, schedule) == []
    assert len(broken(log, platform, replace(schedule, end=np.array([333_334])))) == 1


def test_the_slowest_node_may_be_the_first():
    log = workload([0], [10], tasks=[2])
    platform = farm(1, 1, speed=np.array([1.0, 2.0]))
    assert broken(log, platform, loose(["a"], [0], end=[10], node=["m1*1;m2*1"])) == []
    assert len(broken(log, platform, loose(["a"], [0], end=[5], node=["m1*1;m2*1"]))) == 1


def test_where_the_node_is_not_known_any_pace_of_the_platform_will_do():
    log = workload([0], [10])
    platform = farm(1, 1, speed=np.array([2.0, 1.0]))
    for end, count in ((4, 1), (5, 0), (10, 0), (11, 1)):
        assert len(broken(log, platform, loose(["a"], [0], end=[end]))) == count


def test_a_start_without_an_end_and_an_end_without_a_start_are_caught():
    log = workload([0, 0], [1, 1], cpus=[1, 9])
    assert broken(log, POOL, loose(["a", "b"], [0, None], end=[None, 3])) == [
        "end: job a at day 0 00:00:00: has a start but no end",
        "end: job b at day 0 00:00:03: has an end but no start",
    ]


# state, reason, rejected


def test_only_a_job_cut_at_its_walltime_is_a_timeout():
    log = workload([0, 0, 0], [5, 10, 11], walltime=[10, 10, 10])
    schedule = scheduled(log, POOL, [0, 0, 0])
    assert schedule.state.tolist() == [COMPLETED, COMPLETED, TIMEOUT]
    assert broken(log, POOL, schedule) == []
    assert broken(log, POOL, replace(schedule, state=np.array([TIMEOUT, TIMEOUT, COMPLETED]))) == [
        "state: job a: is TIMEOUT; expected COMPLETED",
        "state: job b: is TIMEOUT; expected COMPLETED",
        "state: job c: is COMPLETED; expected TIMEOUT",
    ]


def test_states_and_reasons_of_other_tools_are_read_as_text():
    assert broken(TWO, POOL, loose(["a", "b"], [0, 10], state=["COMPLETED", ""], reason=["head", ""])) == []
    found = broken(TWO, POOL, loose(["a", "b"], [0, 10], state=["COMPLETED", "FINE"], reason=["whim", "head"]))
    assert [text.split(",")[0] for text in found] == [
        "state: job b: is not one of the known states; expected COMPLETED",
        "reason: job a: its reason is not one of head",
    ]


def test_a_rejected_job_has_no_start():
    schedule = scheduled(TWO, POOL, [0, 10], state=np.array([COMPLETED, REJECTED]))
    assert broken(TWO, POOL, schedule) == ["state: job b: is REJECTED; expected COMPLETED"]


def test_a_job_without_a_start_is_rejected():
    log = workload([0], [1], cpus=[9])
    assert broken(log, POOL, scheduled(log, POOL, [None])) == []
    assert broken(log, POOL, scheduled(log, POOL, [None], state=np.array([COMPLETED]))) == [
        "state: job a: is COMPLETED; expected REJECTED"
    ]


def test_a_job_that_the_platform_can_run_may_not_be_rejected():
    assert broken(TWO, POOL, scheduled(TWO, POOL, [0, None])) == [
        "rejected: job b: never starts, although the platform can run it"
    ]


SITES = {"site": np.array([0, 0, 1]), "sites": ("x", "y")}


@pytest.mark.parametrize(
    ("lawful", "columns"),
    [
        (False, {"tasks": [4], "cpus": [2]}),  # two on m1 and one on each other node
        (True, {"tasks": [5], "cpus": [2]}),
        (False, {"tasks": [2], "cpus": [2], "spread": [NODE]}),
        (True, {"tasks": [3], "cpus": [2], "spread": [NODE]}),
        (False, {"tasks": [3], "cpus": [2], "spread": [SITE]}),
        (True, {"tasks": [4], "cpus": [2], "spread": [SITE]}),
        (False, {"tasks": [2], "cpus": [1], "site": ["y"]}),
        (True, {"tasks": [3], "cpus": [1], "site": ["y"]}),
        (True, {"site": ["nowhere"]}),
        (True, {"constraint": ["tape"]}),
        (False, {"constraint": ["m1"]}),
        (False, {"tasks": [6], "cpus": [1], "constraint": ["!m3"]}),
        (True, {"tasks": [7], "cpus": [1], "constraint": ["!m3"]}),
        (False, {"licences": ["l"], "asks": [[0, 0]], "cpus": [2]}),
        (True, {"licences": ["l"], "asks": [[0, 0, 0]]}),
        (True, {"licences": ["l"], "asks": [[0]], "cpus": [3]}),  # only m2 and m3 may host it
        (True, {"licences": ["other"], "asks": [[0]]}),
        (False, {"cpus": [0]}),
    ],
)
def test_a_rejection_is_lawful_exactly_where_the_job_can_never_run(lawful, columns):
    hosts, features = np.array([[0], [1], [1]], bool), (("gpu",), (), ())
    platform = farm(4, 2, 2, **SITES, licences=("l",), copies=np.array([2]), hosts=hosts, features=features)
    log = workload([0], [1], **columns)
    assert (broken(log, platform, scheduled(log, platform, [None])) == []) == lawful


# node, spread, site, host


def test_tasks_on_nodes_add_up_to_the_tasks_of_the_job():
    log = workload([0], [1], tasks=[3])
    platform = farm(2, 2)
    assert broken(log, platform, scheduled(log, platform, [0], held=[[(0, 2), (1, 1)]])) == []
    for held in ([(0, 2)], [(0, 2), (1, 2)], [], [(0, 2), (1, 2), (1, -1)], [(0, 2), (7, 1)]):
        schedule = scheduled(log, platform, [0], held=[[(0, 2), (1, 1)]])
        schedule = replace(schedule, held=Ragged.of([list(itertools.chain(*held))]), nodes=(*platform.nodes, *"34567x"))
        found = broken(log, platform, schedule)
        assert len(found) == 1
        assert found[0].startswith("node: job a at day 0 00:00:00: sits on ")
        assert found[0].endswith("; expected 3 tasks on nodes of the platform")


@pytest.mark.parametrize("text", ["m1*2;m2*1", "m2*2;m1*1", "m1*1;m1*1;m2*1"])
def test_a_spread_gang_is_read_from_text(text):
    log = workload([0], [1], tasks=[3])
    assert broken(log, farm(2, 2), loose(["a"], [0], node=[text])) == []


@pytest.mark.parametrize("text", ["", "m3", "m1*2", "m1*2;m2", "m1*2;m2*0", "m1*2;zz*1", "m1*x", "m1*2;m2*-1", "*3"])
def test_a_text_that_does_not_place_all_tasks_is_caught(text):
    log = workload([0], [1], tasks=[3])
    assert broken(log, farm(2, 2), loose(["a"], [0], node=[text])) == [
        f"node: job a at day 0 00:00:00: sits on {text!r}; expected 3 tasks on nodes of the platform"
    ]


def test_a_name_alone_holds_all_the_tasks():
    log = workload([0, 0], [1, 1], tasks=[2, 1])
    assert broken(log, farm(2, 2), loose(["a", "b"], [0, 0], node=["m1", "m2"])) == []
    assert broken(log, farm(2, 2), loose(["a", "b"], [0, 0], node=["m1", "m1"])) == [
        "capacity: job b at day 0 00:00:00: node m1 holds 3 cpus of 2"
    ]


def test_a_gang_of_one_node_or_one_site_stays_together():
    platform = farm(1, 1, 1, **SITES)
    near, far = [(0, 1), (1, 1)], [(1, 1), (2, 1)]
    for spread, held, what in ((NODE, near, "node"), (SITE, near, ""), (SITE, far, "site"), (2, far, "")):
        log = workload([0], [1], tasks=[2], spread=[spread])
        expected = [f"spread: job a at day 0 00:00:00: is spread over more than one {what}"] if what else []
        assert broken(log, platform, scheduled(log, platform, [0], held=[held])) == expected


def test_tasks_that_want_a_node_each_get_one():
    platform, log = farm(2, 2), workload([0], [1], tasks=[2], spread=[3])
    for held, what in (([(0, 1), (1, 1)], []), ([(0, 2)], ["more"]), ([(0, 1), (0, 1)], ["more"])):
        expected = [f"spread: job a at day 0 00:00:00: has {each} than one task on a node" for each in what]
        assert broken(log, platform, scheduled(log, platform, [0], held=[held])) == expected


def test_a_pinned_job_sits_on_its_site():
    platform, log = farm(1, 1, 1, **SITES), workload([0], [1], site=["y"])
    assert broken(log, platform, scheduled(log, platform, [0], held=[[(2, 1)]])) == []
    assert broken(log, platform, scheduled(log, platform, [0], held=[[(1, 1)]])) == [
        "site: job a at day 0 00:00:00: sits on node m2; expected site y"
    ]
    nowhere = workload([0], [1], site=["z"])
    assert len(broken(nowhere, platform, scheduled(nowhere, platform, [0]))) == 1


def test_a_job_sits_only_where_its_constraint_lets_it():
    platform = farm(1, 1, 1, features=(("gpu",), ("gpu", "old"), ()))
    log = workload([0], [1], constraint=["gpu&!old|m3"])
    for node, what in (
        (0, []),
        (2, []),
        (1, ["constraint: job a at day 0 00:00:00: sits on node m2; expected gpu&!old|m3"]),
    ):
        assert broken(log, platform, scheduled(log, platform, [0], held=[[(node, 1)]])) == what


def test_a_node_hosts_only_licences_that_it_may_host():
    platform = farm(1, 1, licences=("l",), copies=np.array([1]), hosts=np.array([[True], [False]]))
    log = workload([0], [1], licences=["l"], asks=[[0]])
    assert broken(log, platform, scheduled(log, platform, [0], held=[[(0, 1)]])) == []
    assert broken(log, platform, scheduled(log, platform, [0], held=[[(1, 1)]])) == [
        "host: job a at day 0 00:00:00: sits on node m2, which may not host licence l"
    ]


# capacity, licence


def test_more_than_a_pool_has_is_caught_at_the_instant_it_begins():
    assert broken(TWO, POOL, scheduled(TWO, POOL, [0, 9])) == [
        "capacity: job b at day 0 00:00:09: node pool holds 5 cpus of 4"
    ]


def test_each_stretch_of_time_over_the_capacity_is_one_violation():
    log = workload([0, 0, 0, 0], [10, 1, 1, 1], cpus=[3, 2, 2, 1])
    found = verify(log, POOL, scheduled(log, POOL, [0, 2, 5, 8]))
    assert [(violation.job, violation.time) for violation in found] == [("b", 2 * SECOND), ("c", 5 * SECOND)]


def test_a_job_holds_until_the_end_that_the_schedule_states():
    schedule = loose(["a", "b"], [0, 10], end=[12, 20])
    assert [text.split(":")[0] for text in broken(TWO, POOL, schedule)] == ["end", "capacity"]


def test_the_violation_names_a_job_that_holds_the_resource():
    log = workload([0, 1, 1], [10, 10, 10], cpus=[3, 2, 0])
    assert [violation.job for violation in verify(log, POOL, scheduled(log, POOL, [0, 1, 1]))] == ["b"]


def test_a_job_of_no_length_holds_nothing():
    log = workload([0, 0], [10, 0], cpus=[4, 4])
    assert broken(log, POOL, scheduled(log, POOL, [0, 5])) == []


def test_a_job_of_no_length_must_have_been_able_to_run():
    log = workload([0, 0], [10, 0], cpus=[4, 5])
    told = "capacity: job b at day 0 00:00:05: could not run even if it had the whole platform to itself"
    assert broken(log, POOL, scheduled(log, POOL, [0, 5])) == [told]


def test_very_slow_nodes_and_starts_beyond_the_times_of_a_log_are_checked_as_the_rest():
    log = workload([0, 0], [9e10, 10], walltime=[1e11, 1e11])
    crawls = replace(POOL, speed=np.array([1e-6]))
    schedule = loose(["a", "b"], [0, 2e11], end=[1e11, 2e11 + 1e7])
    assert broken(log, crawls, schedule) == []
    told = "end: job a at day 1157407 09:46:40: ends 100000000000 s after its start; expected 1152921504606.846976 s"
    assert broken(log, crawls, schedule, overrun="extend")[0] == told


def test_each_node_is_counted_alone_where_nodes_are_known():
    log = workload([0, 0], [10, 10], cpus=[2, 2])
    platform = farm(2, 2)
    assert broken(log, platform, scheduled(log, platform, [0, 0], held=[[(0, 1)], [(1, 1)]])) == []
    assert broken(log, platform, scheduled(log, platform, [0, 0], held=[[(1, 1)], [(1, 1)]])) == [
        "capacity: job b at day 0 00:00:00: node m2 holds 4 cpus of 2"
    ]


def test_where_nodes_are_not_known_only_the_sums_are_compared():
    log = workload([0, 0], [10, 10], cpus=[3, 1])
    assert broken(log, farm(2, 2), loose(["a", "b"], [0, 0])) == []
    log = workload([0, 0], [10, 10], cpus=[3, 2])
    assert broken(log, farm(2, 2), loose(["a", "b"], [0, 0])) == [
        "capacity: job b at day 0 00:00:00: the platform holds 5 cpus of 4"
    ]


def test_without_ends_the_run_times_of_the_workload_say_how_long_a_job_holds():
    assert broken(TWO, POOL, loose(["a", "b"], [0, 10])) == []
    assert broken(TWO, POOL, loose(["a", "b"], [0, 9])) == [
        "capacity: job b at day 0 00:00:09: node pool holds 5 cpus of 4"
    ]


def test_every_resource_counts_by_its_name_and_a_memory_that_is_not_stated_is_unlimited():
    log = workload([0, 0], [1, 1])
    wide = np.array([[7, 1, 2**40], [7, 1, 2**40]])
    log = replace(log, jobs=log.jobs.replace(demand=wide), resources=("gpus", "cpus", "memory"))
    for memory, count in ((2**40, 1), (2**41, 0), (None, 0)):
        platform = Platform.pool(cpus=4, memory=memory, gpus=14)
        assert len(broken(log, platform, scheduled(log, platform, [0, 0]))) == count


def test_a_resource_that_the_platform_does_not_have_cannot_be_held():
    log = workload([0, 9], [1, 1])
    log = replace(log, jobs=log.jobs.replace(demand=np.array([[1, 7], [1, 0]])), resources=("cpus", "gpus"))
    assert broken(log, POOL, scheduled(log, POOL, [0, 9])) == [
        "capacity: job a at day 0 00:00:00: node pool holds 7 gpus of 0"
    ]
    assert broken(log, POOL, scheduled(log, POOL, [None, 9])) == []


def test_sums_beyond_64_bits_are_still_caught():
    n = 16
    log = workload([0] * n, [1] * n, cpus=[2**60] * n)  # together 2^64, which wraps to 0
    platform = Platform.pool(2**60)
    assert broken(log, platform, scheduled(log, platform, list(range(n)))) == []
    held = f"capacity: job p at day 0 00:00:00: node pool holds {2**64} cpus of {2**60}"
    assert broken(log, platform, scheduled(log, platform, [0] * n)) == [held]


def test_a_licence_is_not_held_beyond_its_copies():
    platform = farm(9, 9, licences=("other", "l"), copies=np.array([9, 2]))
    log = workload([0, 0], [10, 10], licences=["l"], asks=[[0, 0], [0]])
    held = [[(0, 1)], [(1, 1)]]
    assert broken(log, platform, scheduled(log, platform, [0, 10], held=held)) == []
    for schedule in (scheduled(log, platform, [0, 9], held=held), loose(["a", "b"], [0, 9])):
        assert broken(log, platform, schedule) == ["licence: job b at day 0 00:00:09: 3 copies of l are held of 2"]


def test_a_licence_that_the_platform_does_not_have_cannot_be_held():
    log = workload([0], [1], licences=["l"], asks=[[0]])
    assert broken(log, POOL, scheduled(log, POOL, [0])) == [
        "licence: job a at day 0 00:00:00: 1 copies of l are held of 0"
    ]


# promise


def test_a_promise_binds_where_the_policy_says_so():
    schedule = scheduled(TWO, POOL, [0, 10], promise=np.array([NO_TIME, 9 * SECOND]))
    assert broken(TWO, POOL, schedule) == []
    assert broken(TWO, POOL, schedule, promises_bind=True) == [
        "promise: job b at day 0 00:00:10: was promised to start at day 0 00:00:09"
    ]
    kept = replace(schedule, promise=times([0, 10]))
    assert broken(TWO, POOL, kept, promises_bind=True) == []


# the report


def test_after_twenty_violations_of_a_rule_the_rest_is_counted():
    n = SHOWN + 5
    log = workload([1] * n, [1] * n, cpus=[0] * n)
    found = verify(log, POOL, scheduled(log, POOL, [0] * n))
    assert len(found) == SHOWN + 1
    assert found[-1] == Violation("start", "", None, "and 5 more")
    assert str(found[-1]) == "start: and 5 more"


def test_two_ways_to_break_a_rule_share_its_twenty_lines():
    n = SHOWN - 5
    log = workload([1] * n + [0] * n, [1] * n * 2, cpus=[0] * n * 2, after=[[]] * n + [[0]] * n)
    found = verify(log, POOL, scheduled(log, POOL, [0] * n * 2))
    assert len(found) == SHOWN + 1
    assert str(found[-1]) == "start: and 10 more"


def test_a_violation_is_one_line_even_where_an_id_is_not():
    assert str(Violation("end", "a\nb\x1b[31m", 1, "odd")) == "end: job a?b?[31m at day 0 00:00:00.000001: odd"


# mutations


@st.composite
def lawful_schedules(draw: st.DrawFn) -> tuple[Workload, Schedule]:
    """Each job at the first instant at which it fits for its whole run beside those before it."""
    n = draw(st.integers(2, 8))
    small = st.integers(1, 6)
    submit, runtime = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), [draw(small) for _ in range(n)]
    cpus = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    held: dict[int, int] = {}
    start = []
    for job in range(n):
        t = next(t for t in itertools.count(submit[job])
                 if all(held.get(t + k, 0) + cpus[job] <= 4 for k in range(runtime[job])))  # fmt: skip
        start.append(t)
        for k in range(runtime[job]):
            held[t + k] = held.get(t + k, 0) + cpus[job]
    log = workload(submit, runtime, cpus=cpus)
    return log, scheduled(log, POOL, start)


@given(lawful_schedules(), st.data())
def test_a_lawful_schedule_passes_and_one_start_moved_earlier_into_the_others_is_caught(case, data):
    log, schedule = case
    assert verify(log, POOL, schedule) == []
    row = data.draw(st.integers(0, len(log) - 1))
    start, end = schedule.start[row], schedule.end[row]
    earlier = data.draw(st.integers(0, max(0, int(start // SECOND) - 1))) * SECOND
    assume(earlier < start)
    others = np.arange(len(log)) != row
    length = end - start

    def held_at(t: int) -> int:
        return int(log.jobs.procs[others & (schedule.start <= t) & (t < schedule.end)].sum())

    crowded = any(held_at(t) + log.jobs.procs[row] > 4 for t in range(earlier, earlier + length, SECOND))
    moved_start, moved_end = schedule.start.copy(), schedule.end.copy()
    moved_start[row], moved_end[row] = earlier, earlier + length
    rules = {violation.rule for violation in verify(log, POOL, replace(schedule, start=moved_start, end=moved_end))}
    expected = ({"capacity"} if crowded else set()) | ({"start"} if earlier < log.jobs.submit[row] else set())
    assert rules == expected


@pytest.mark.parametrize("policy", ["kth.easy.pyss", "kth.conservative.pyss", "sdsc.conservative.pyss"])
def test_schedules_of_other_simulators_are_lawful_and_a_job_moved_to_its_submit_is_not(policy):
    log, platform, schedule = oracle(*policy.split(".", 1))
    assert verify(log, platform, schedule) == []
    row = int(np.argmax(schedule.start - schedule.submit))
    start, end = schedule.start.copy(), schedule.end.copy()
    end[row] -= start[row] - schedule.submit[row]
    start[row] = schedule.submit[row]
    assert {violation.rule for violation in verify(log, platform, replace(schedule, start=start, end=end))} == {
        "capacity"
    }
