"""The checker's rules about runs and events, each broken once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backfill.analysis.verify import verify
from backfill.model.platform import Platform
from backfill.model.schedule import (
    CANCELLED,
    COMPLETED,
    NO_TIME,
    NODE_FAIL,
    PENDING,
    PREEMPTED,
    REJECTED,
    TIMEOUT,
    Schedule,
)
from backfill.model.units import SECOND
from backfill.model.workload import Workload
from backfill.policies import get
from backfill.traces.events import Events
from backfill.traces.schedules import read_runs, read_schedule
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate

from .by_hand import farm, scheduled, several, times, workload

POOL = Platform.pool(4)
TWO = farm(2, 2)


def event(time: float, kind: str, **cells: Any) -> dict[str, Any]:
    return {"time": time, "event": kind, **cells}


def broken(log: Workload, platform: Platform, schedule: Any, *events: dict[str, Any], **options: Any) -> list[str]:
    happened = Events.of(list(events)) if events else None
    return [str(violation) for violation in verify(log, platform, schedule, events=happened, **options)]


def rules(found: list[str]) -> set[str]:
    return {text.split(":")[0] for text in found}


ONE = workload([0], [20])
DOWN, UP = event(6, "down", node="m1"), event(10, "up", node="m1")
ON_M1 = scheduled(ONE, TWO, [0])


def requeued(*runs: tuple[int, float, float, int], **more: Any) -> Schedule:
    return several(ON_M1, *runs, **more)


LOST = requeued((0, 0, 6, NODE_FAIL), (0, 10, 30, COMPLETED))


def test_a_job_that_is_lost_and_runs_again_breaks_nothing():
    assert broken(ONE, TWO, LOST, DOWN, UP) == []
    elsewhere = requeued((0, 0, 6, NODE_FAIL), (0, 6, 26, COMPLETED), held=[[(0, 1)], [(1, 1)]])
    assert broken(ONE, TWO, elsewhere, DOWN, UP) == []


# lost


def test_a_run_is_lost_only_where_and_when_capacity_goes_away():
    for events in ([event(6, "down", node="m2")], [event(7, "down", node="m1"), event(8, "up", node="m1")]):
        found = broken(ONE, TWO, LOST, *events)
        assert "lost: job a at day 0 00:00:06: is lost, although no capacity that it holds was taken away" in found
    assert "state: job a at day 0 00:00:00: this run is NODE_FAIL; expected COMPLETED" in broken(ONE, TWO, LOST)


def test_a_lost_run_did_not_last_longer_than_its_job_runs():
    late, back = event(60, "down", node="m1"), event(70, "up", node="m1")
    found = broken(ONE, TWO, requeued((0, 0, 60, NODE_FAIL), (0, 70, 90, COMPLETED)), late, back)
    assert "end: job a at day 0 00:01:00: ends 60 s after its start; expected 20 s" in found


def test_a_run_does_not_outlive_its_node():
    assert broken(ONE, TWO, ON_M1, DOWN, UP) == [
        "lost: job a at day 0 00:00:06: continues, although capacity that it holds was taken away",
        "capacity: job a at day 0 00:00:06: node m1 holds 1 cpus of 0",
    ]
    assert broken(ONE, TWO, ON_M1, event(20, "down", node="m1")) == []  # it ends first
    assert broken(ONE, TWO, ON_M1, event(6, "up", node="m1")) == []


def test_of_those_that_hold_a_resource_the_last_to_start_is_lost_of_equal_ones_the_higher_job():
    log = workload([0, 0, 0], [20, 20, 20])
    shrinks = event(6, "capacity", resource="cpus", value=2)
    back = event(10, "capacity", resource="cpus", value=4)
    for starts, victim in (([0, 0, 0], 2), ([0, 1, 0], 1), ([2, 1, 0], 0)):
        for lost in range(3):
            runs = [(job, start, start + 20, COMPLETED) for job, start in enumerate(starts) if job != lost]
            runs += [(lost, starts[lost], 6, NODE_FAIL), (lost, 10, 30, COMPLETED)]
            schedule = several(scheduled(log, POOL, starts), *sorted(runs))
            assert (broken(log, POOL, schedule, shrinks, back) == []) == (lost == victim)


def test_a_job_that_holds_none_of_what_goes_away_stays():
    log = workload([0, 0], [20, 20])
    log = replace(log, jobs=log.jobs.replace(demand=np.array([[1, 1], [1, 0]])), resources=("cpus", "gpus"))
    platform = farm(4, resources=("cpus", "gpus"), capacity=np.array([[4, 2]]))
    runs = ((0, 0, 6, NODE_FAIL), (0, 8, 28, COMPLETED))
    events = [event(6, "capacity", resource="gpus", value=0), event(8, "capacity", resource="gpus", value=2)]
    schedule = several(scheduled(log, platform, [0, 0]), *runs, (1, 0, 20, COMPLETED))
    assert broken(log, platform, schedule, *events) == []
    both = several(scheduled(log, platform, [0, 0]), *runs, (1, 0, 6, NODE_FAIL), (1, 8, 28, COMPLETED))
    found = broken(log, platform, both, *events)
    assert "lost: job b at day 0 00:00:06: is lost, although no capacity that it holds was taken away" in found


def test_a_gang_is_lost_with_any_of_its_nodes_and_gives_back_all_of_them():
    log = workload([0, 0], [20, 20], tasks=[2, 1])
    gang = [(0, 1), (1, 1)]
    schedule = several(
        scheduled(log, TWO, [0, 0], held=[gang, [(1, 1)]]),
        (0, 0, 6, NODE_FAIL), (0, 10, 30, COMPLETED), (1, 0, 20, COMPLETED),
    )  # fmt: skip
    assert broken(log, TWO, schedule, DOWN, UP) == []
    shrinks, grows = (event(t, "capacity", resource="cpus", node="m2", value=v) for t, v in ((6, 1), (8, 2)))
    assert broken(log, TWO, schedule, DOWN, UP, shrinks, grows) == []  # the gang has gone, so there is room on m2
    assert rules(broken(log, TWO, schedule, shrinks, DOWN, UP, grows)) == {"lost"}  # the gang had not gone: b goes


def test_a_job_that_asks_for_nothing_starts_on_no_closed_node():
    log = workload([0], [20])
    log = replace(log, jobs=log.jobs.replace(demand=np.array([[0]])))
    window = event(0, "window", node="m1", value=6, until=10)
    for events in ([DOWN, UP], [window]):
        late = several(scheduled(log, TWO, [0]), (0, 0, 6, NODE_FAIL), (0, 8, 28, COMPLETED))
        assert "capacity: job a at day 0 00:00:08: starts on node m1, which is closed" in broken(
            log, TWO, late, *events
        )
        again = several(scheduled(log, TWO, [0]), (0, 0, 6, NODE_FAIL), (0, 10, 30, COMPLETED))
        assert broken(log, TWO, again, *events) == []


def test_a_job_that_asks_for_nothing_waits_for_ever_where_all_nodes_are_closed():
    log = workload([8], [20])
    log = replace(log, jobs=log.jobs.replace(demand=np.array([[0]])))
    both = [DOWN, event(6, "down", node="m2")]
    schedule = simulate(log, TWO, get("easy"), options=Options(events=Events.of(both))).schedule
    assert schedule.state.tolist() == [PENDING]
    assert broken(log, TWO, schedule, *both) == []
    assert rules(broken(log, TWO, schedule, DOWN)) == {"pending"}


def test_copies_of_a_licence_go_away_likewise():
    platform = farm(9, licences=("l",), copies=np.array([2]))
    log = workload([0, 0], [20, 20], licences=["l"], asks=[[0], [0]])
    events = [event(6, "capacity", resource="l", value=1), event(9, "capacity", resource="l", value=2)]
    plain = scheduled(log, platform, [0, 0])
    assert broken(log, platform, plain, *events) == [
        "lost: job b at day 0 00:00:06: continues, although capacity that it holds was taken away",
        "licence: job b at day 0 00:00:06: 2 copies of l are held of 1",
    ]
    for start, count in ((9, 0), (8, 1)):
        runs = ((0, 0, 20, COMPLETED), (1, 0, 6, NODE_FAIL), (1, start, start + 20, COMPLETED))
        found = broken(log, platform, several(plain, *runs), *events)
        assert found == [f"licence: job b at day 0 00:00:0{start}: 2 copies of l are held of 1"] * count


# capacity over time


def test_nothing_is_held_on_a_node_that_is_down_or_in_its_window():
    outage = event(6, "down", node="m1")
    window = event(6, "window", node="m1", value=6, until=10)
    for start, events, what in (
        (8, [outage, UP], ["capacity: job a at day 0 00:00:08: node m1 holds 1 cpus of 0"]),
        (10, [outage, UP], []),
        (8, [window], ["capacity: job a at day 0 00:00:08: node m1 holds 1 cpus of 0"]),
        (10, [window], []),
        (8, [outage, event(7, "down", node="m1"), event(8, "up", node="*")], []),
    ):
        assert broken(ONE, TWO, scheduled(ONE, TWO, [start]), *events) == what


def test_capacity_may_grow_beyond_what_the_platform_has():
    log = workload([0, 0], [10, 10], cpus=[3, 6])
    grows = [event(5, "capacity", resource="cpus", value=6), event(30, "capacity", resource="cpus", value=4)]
    assert broken(log, POOL, scheduled(log, POOL, [0, 10]), *grows) == []
    assert broken(log, POOL, scheduled(log, POOL, [0, 3]), *grows) == [
        "capacity: job b at day 0 00:00:03: node pool holds 9 cpus of 4"
    ]
    assert broken(log, POOL, scheduled(log, POOL, [0, 5]), *grows) == [
        "capacity: job b at day 0 00:00:05: node pool holds 9 cpus of 6"
    ]


def test_windows_of_an_amount_add_up_and_end():
    log = workload([0, 0], [3, 3], cpus=[2, 2])
    both = [event(0, "window", resource="cpus", amount=1, value=10, until=until) for until in (20, 15)]
    assert broken(log, POOL, scheduled(log, POOL, [10, 13]), *both) == []
    found = broken(log, POOL, scheduled(log, POOL, [10, 12]), *both)
    assert found == ["capacity: job b at day 0 00:00:12: node pool holds 4 cpus of 2"]
    assert broken(log, POOL, scheduled(log, POOL, [20, 20]), *both) == []


def test_where_nodes_are_not_known_the_sum_of_what_is_there_counts():
    log = workload([0, 0], [10, 10], cpus=[2, 2])
    text = b"job,start,end\na,0,10\nb,0,10\n"
    assert broken(log, TWO, read_schedule(text)) == []
    found = broken(log, TWO, read_schedule(text), event(0, "down", node="m1"))
    assert found == ["capacity: job b at day 0 00:00:00: the platform holds 4 cpus of 2"]


# windows known before


KNOWN = event(2, "window", resource="cpus", amount=2, value=10, until=20)


def known_window(start: list[float], walltime: float = 9, cpus: int = 3, *events: dict[str, Any], **more: Any):
    n = len(start)
    log = workload([0] * n, [1] * n, walltime=[walltime] * n, cpus=[cpus] * n)
    return broken(log, POOL, scheduled(log, POOL, start), *(events or (KNOWN,)), **more)


def test_no_job_may_by_its_walltime_hold_what_a_known_window_takes():
    assert known_window([1]) == []  # not known yet
    assert known_window([1], walltime=8) == []  # ends as it begins
    assert known_window([2], walltime=8) == []
    assert known_window([2], cpus=2) == []  # fits beside it
    assert known_window([2]) == [
        "window: job a at day 0 00:00:02: may run into the window at day 0 00:00:10, "
        "announced at day 0 00:00:02: by their walltimes jobs hold 3 cpus of node pool then; available: 2"
    ]
    assert known_window([20], walltime=90) == []  # it is over
    assert len(known_window([2], seen=times([9]), walltime=90)) == 1
    assert known_window([2], seen=times([8]), walltime=90) == []


def test_what_is_held_then_by_others_counts_also_where_they_started_before_it_was_known():
    assert known_window([1, 2], cpus=1, walltime=20) == []
    found = known_window([1, 1.5, 5], cpus=1, walltime=20)
    assert found == []  # the others have ended by 5
    log = workload([0] * 3, [7] * 3, walltime=[20] * 3, cpus=[1] * 3)
    found = broken(log, POOL, scheduled(log, POOL, [1, 1.5, 5]), KNOWN)
    assert [text.split(" may")[0] for text in found] == ["window: job c at day 0 00:00:05:"]


def test_a_run_of_no_time_may_be_over_before_another_starts_at_its_instant():
    def both(runtime: float) -> list[str]:
        log = workload([0, 0], [runtime, 9], walltime=[9, 9], cpus=[2, 2])
        return broken(log, POOL, scheduled(log, POOL, [2, 2]), KNOWN)

    assert both(0) == []
    assert [text.split(" may")[0] for text in both(1)] == ["window: job b at day 0 00:00:02:"]
    log = workload([0], [0], walltime=[9], cpus=[3])
    assert rules(broken(log, POOL, scheduled(log, POOL, [2]), KNOWN)) == {"window"}


def test_a_new_walltime_counts_from_when_it_is_known():
    longer, shorter = event(1, "walltime", job="a", value=90), event(1, "walltime", job="a", value=3)
    assert len(known_window([2], 3, 3, KNOWN, longer)) == 1
    assert known_window([2], 90, 3, KNOWN, shorter) == []


def test_a_window_of_whole_nodes_or_of_a_licence_takes_these():
    log = workload([0, 0], [1, 1], walltime=[9, 9], licences=["l"], asks=[[0], []])
    platform = farm(2, 2, licences=("l",), copies=np.array([1]))
    schedule = scheduled(log, platform, [2, 2], held=[[(0, 1)], [(1, 1)]])
    for cells, job in (({"node": "m1"}, "a"), ({"node": "m2"}, "b"), ({"resource": "l", "amount": 1}, "a")):
        found = broken(log, platform, schedule, event(0, "window", value=10, until=20, **cells))
        assert [text.split(" at")[0] for text in found] == [f"window: job {job}"]
    assert broken(log, platform, schedule, event(0, "window", value=11, until=20, node="*")) == []


# cancelled


CANCEL = event(5, "cancel", job="a")


def state(schedule: Schedule, *states: int) -> Schedule:
    return replace(schedule, state=np.array(states, np.int8))


def test_a_running_job_ends_when_it_is_cancelled():
    ended = several(ON_M1, (0, 0, 5, CANCELLED))
    assert broken(ONE, TWO, ended, CANCEL) == []
    assert broken(ONE, TWO, replace(ended, runs=None), CANCEL) == []
    assert broken(ONE, TWO, ON_M1, CANCEL) == [
        "cancel: job a at day 0 00:00:00: continues to run although it was cancelled at day 0 00:00:05"
    ]
    assert broken(ONE, TWO, ON_M1, event(20, "cancel", job="a")) == []  # it has ended
    later = replace(ended, runs=None, end=times([6]))
    assert "state: job a: is CANCELLED; expected COMPLETED" in broken(ONE, TWO, later, CANCEL)
    assert broken(ONE, TWO, replace(ended, runs=None)) == ["state: job a: is CANCELLED; expected COMPLETED"]


def test_on_a_fast_node_a_job_may_end_by_itself_as_it_is_cancelled():
    fast = farm(2, speed=np.array([2.0]))
    for state in (COMPLETED, CANCELLED):
        alone = several(scheduled(ONE, fast, [0]), (0, 0, 10, state))
        assert broken(ONE, fast, alone, event(10, "cancel", job="a")) == []
    assert rules(
        broken(ONE, fast, several(scheduled(ONE, fast, [0]), (0, 0, 9, COMPLETED)), event(9, "cancel", job="a"))
    )


def test_a_waiting_job_never_starts_once_it_is_cancelled():
    gone = state(scheduled(ONE, TWO, [None]), CANCELLED)
    assert broken(ONE, TWO, gone, CANCEL) == []
    assert broken(ONE, TWO, gone) == [
        "state: job a: is CANCELLED; expected REJECTED",
        "rejected: job a: never starts, although the platform can run it",
    ]
    assert broken(ONE, TWO, scheduled(ONE, TWO, [5]), CANCEL)[0] == (
        "cancel: job a at day 0 00:00:05: starts although it was cancelled at day 0 00:00:05"
    )


def test_a_job_that_can_never_run_is_rejected_unless_it_was_cancelled_before_it_came():
    log = workload([5], [1], cpus=[9])
    rejected, gone = scheduled(log, POOL, [None]), state(scheduled(log, POOL, [None]), CANCELLED)
    for time, lawful in ((4, gone), (5, gone), (6, rejected)):
        for schedule in (rejected, gone):
            found = broken(log, POOL, schedule, event(time, "cancel", job="a"))
            assert (found == []) == (schedule is lawful)


def test_a_job_is_rejected_only_where_it_never_could_run_whatever_comes():
    log = workload([0, 0], [1, 1], cpus=[6, 1], after=[[], [0]])
    rejected = scheduled(log, POOL, [None, None])
    assert broken(log, POOL, rejected) == []
    grows = event(50, "capacity", resource="cpus", value=6)
    assert broken(log, POOL, rejected, grows) == ["rejected: job a: never starts, although the platform can run it"]


def test_jobs_start_after_those_that_were_cancelled_or_failed():
    log = workload([0, 0], [20, 1], after=[[], [0]])
    gone = state(scheduled(log, POOL, [None, 5]), CANCELLED, COMPLETED)
    assert broken(log, POOL, gone, CANCEL) == []
    early = state(scheduled(log, POOL, [None, 4]), CANCELLED, COMPLETED)
    assert broken(log, POOL, early, CANCEL) == [
        "start: job b at day 0 00:00:04: starts before the end of job a, which it depends on"
    ]
    again = several(scheduled(log, TWO, [0, 6]), (0, 0, 6, NODE_FAIL), (0, 10, 30, COMPLETED), (1, 6, 7, COMPLETED))
    again = replace(again, held=again.held, runs=replace(again.all_runs))
    found = broken(log, TWO, again, DOWN, UP)
    assert "start: job b at day 0 00:00:06: starts before the end of job a, which it depends on" in found


# walltimes


@pytest.mark.parametrize(
    ("events", "end", "ends"),
    [
        ([(3, 8)], 8, TIMEOUT),
        ([(3, 2)], 3, TIMEOUT),  # that has passed
        ([(3, 30)], 20, COMPLETED),
        ([(3, 20)], 20, COMPLETED),
        ([(3, 8), (5, 30)], 20, COMPLETED),
        ([(3, 8), (9, 30)], 8, TIMEOUT),  # it has ended
        ([(-1, 8)], 8, TIMEOUT),
    ],
)
def test_a_walltime_that_is_changed_cuts_a_job_or_spares_it(events: list[tuple[int, int]], end: int, ends: int):
    changes = [event(time, "walltime", job="a", value=value) for time, value in events]
    lawful = replace(state(ON_M1, ends), end=times([end]))
    assert broken(ONE, TWO, lawful, *changes) == []
    assert len(broken(ONE, TWO, replace(lawful, end=times([end + 1])), *changes)) == 1
    assert len(broken(ONE, TWO, state(lawful, TIMEOUT if ends == COMPLETED else COMPLETED), *changes)) == 1
    spared = broken(ONE, TWO, ON_M1, *changes, overrun="extend")
    assert spared == []


def test_a_job_that_was_lost_runs_up_to_its_new_walltime():
    cut = requeued((0, 0, 6, NODE_FAIL), (0, 10, 18, TIMEOUT))
    assert broken(ONE, TWO, cut, DOWN, event(7, "walltime", job="a", value=8), UP) == []
    assert len(broken(ONE, TWO, cut, DOWN, UP)) == 3  # its end, its state and that of its run


# runs


def test_runs_of_a_job_do_not_overlap():
    found = broken(ONE, TWO, requeued((0, 0, 6, NODE_FAIL), (0, 5, 25, COMPLETED), held=[[(0, 1)], [(1, 1)]]), DOWN, UP)
    assert found == ["runs: job a at day 0 00:00:05: starts before its previous run ends at day 0 00:00:06"]


def test_a_job_that_has_ended_does_not_run_again():
    assert broken(ONE, TWO, requeued((0, 0, 20, COMPLETED), (0, 30, 50, COMPLETED))) == [
        "end: job a at day 0 00:00:50: ends 20 s after its start; expected 0 s",
        "runs: job a at day 0 00:00:20: runs again although it was COMPLETED",
    ]
    assert broken(ONE, TWO, LOST, DOWN, UP, lost="fail") == [
        "runs: job a at day 0 00:00:06: runs again although it was NODE_FAIL"
    ]


def test_a_job_that_was_lost_runs_again_or_is_over_as_was_asked():
    failed = requeued((0, 0, 6, NODE_FAIL))
    assert broken(ONE, TWO, failed, DOWN, lost="fail") == []
    assert broken(ONE, TWO, replace(failed, runs=None), DOWN, lost="fail") == []
    again = ["runs: job a at day 0 00:00:06: never runs again after it was NODE_FAIL"]
    assert broken(ONE, TWO, failed, DOWN) == again
    assert broken(ONE, TWO, replace(failed, runs=None), DOWN) == again
    while_waiting = state(failed, CANCELLED)
    assert broken(ONE, TWO, while_waiting, DOWN, event(8, "cancel", job="a")) == []
    assert broken(ONE, TWO, while_waiting, DOWN) == ["state: job a: is CANCELLED; expected NODE_FAIL", *again]


def test_the_row_of_a_job_is_about_its_last_run():
    for column, values in (("start", times([0])), ("end", times([6]))):
        found = broken(ONE, TWO, replace(LOST, **{column: values}), DOWN, UP)
        assert found == [
            "runs: job a at day 0 00:00:10: the row of the job does not describe this run, which is its last"
        ]
    assert "runs: job a: has a run but no start" in broken(ONE, TWO, replace(LOST, start=np.array([NO_TIME])), DOWN, UP)
    none = replace(ON_M1, runs=several(ON_M1, (0, 0, 20, COMPLETED)).all_runs.take(np.zeros(0, np.int64)))
    assert "runs: job a: has a start but no run" in broken(ONE, TWO, none)


def test_every_run_keeps_the_rules_of_a_start_and_a_place():
    log = workload([5], [20], tasks=[2])
    runs = ((0, 4, 6, NODE_FAIL), (0, 10, 30, COMPLETED))
    schedule = several(scheduled(log, TWO, [10], held=[[(0, 2)]]), *runs, held=[[(0, 1)], [(0, 3)]])
    found = broken(log, TWO, schedule, DOWN, UP)
    assert found[0] == "start: job a at day 0 00:00:04: starts before its submit at day 0 00:00:05"
    assert [text.split(": sits")[0] for text in found[1:3]] == [
        "node: job a at day 0 00:00:04",
        "node: job a at day 0 00:00:10",
    ]


def test_a_promise_is_about_the_first_run():
    promised = replace(LOST, promise=times([0]))
    assert broken(ONE, TWO, promised, DOWN, UP, promises_bind=True) == []
    late = several(scheduled(ONE, TWO, [1]), (0, 1, 6, NODE_FAIL), (0, 10, 30, COMPLETED))
    late = replace(late, promise=times([0]))
    assert broken(ONE, TWO, late, DOWN, UP, promises_bind=True) == [
        "promise: job a at day 0 00:00:01: was promised to start at day 0 00:00:00"
    ]


# progress and preemption


def preempted(*progress: float, end: float = 32, second: int = COMPLETED) -> Schedule:
    return requeued((0, 0, 8, PREEMPTED), (0, 20, end, second), progress=progress)


def test_a_preempted_job_goes_on_where_it_was():
    assert broken(ONE, TWO, preempted(8, 12)) == []
    assert broken(ONE, TWO, preempted(0, 20, end=40)) == []
    assert broken(ONE, TWO, preempted(8, 12, end=35), overhead=3 * SECOND) == []
    assert rules(broken(ONE, TWO, preempted(8, 12, end=35))) == {"end", "progress"}
    assert rules(broken(ONE, TWO, preempted(8, 15, end=35), overhead=3 * SECOND)) == {"progress"}
    assert rules(broken(ONE, TWO, preempted(5, 12))) == {"end"}


def test_a_preempted_job_has_the_walltime_that_is_left():
    log = workload([0], [20], walltime=[15])
    for end, count in ((27, 0), (28, 1)):
        schedule = several(
            scheduled(log, TWO, [0]), (0, 0, 8, PREEMPTED), (0, 20, end, TIMEOUT), progress=[8, end - 20]
        )
        assert len(broken(log, TWO, schedule)) == count


def test_a_preempted_job_runs_again():
    cut = several(ON_M1, (0, 0, 8, PREEMPTED))
    assert "runs: job a at day 0 00:00:08: never runs again after it was PREEMPTED" in broken(ONE, TWO, cut)
    assert rules(broken(ONE, TWO, replace(cut, runs=None))) == {"end", "state"}


def test_no_run_keeps_more_than_it_did_and_a_lost_one_nothing():
    assert rules(broken(ONE, TWO, preempted(9, 12))) >= {"progress"}
    assert rules(broken(ONE, TWO, preempted(-1, 12))) >= {"progress"}
    kept = requeued((0, 0, 6, NODE_FAIL), (0, 10, 24, COMPLETED), progress=[6, 14])
    assert broken(ONE, TWO, kept, DOWN, UP) == ["progress: job a at day 0 00:00:00: keeps 6 s of a run that is lost"]


def test_a_job_that_goes_on_at_another_pace_does_the_rest_there():
    platform = farm(1, 1, speed=np.array([1.0, 2.0]))
    runs = ((0, 0, 8, PREEMPTED), (0, 20, 26, COMPLETED))
    schedule = several(scheduled(ONE, platform, [0]), *runs, held=[[(0, 1)], [(1, 1)]])
    assert broken(ONE, platform, schedule) == []
    schedule = several(scheduled(ONE, platform, [0]), *runs, held=[[(1, 1)], [(0, 1)]])
    assert rules(broken(ONE, platform, schedule)) == {"end"}


# files of other tools


def test_runs_are_read_from_a_file():
    rows = read_schedule(b"job,start,end,state,node\na,10,30,COMPLETED,m1\n")
    text = b"job,run,start,end,state,node\na,1,0,6,NODE_FAIL,m1\na,2,10,30,COMPLETED,m1\n"
    assert broken(ONE, TWO, replace(rows, runs=read_runs(text)), DOWN, UP) == []
    assert rules(broken(ONE, TWO, replace(rows, runs=read_runs(text)))) == {"state", "runs"}
    strange = read_runs(text + b"z,1,0,6,COMPLETED,m1\n")
    assert broken(ONE, TWO, replace(rows, runs=strange), DOWN, UP) == [
        "jobs: job z at day 0 00:00:00: a run of a job that is not in the workload"
    ]
    unknown = read_runs(text.replace(b"NODE_FAIL", b"GONE"))
    assert "state: job a at day 0 00:00:00: this run is not one of the known states; expected COMPLETED" in broken(
        ONE, TWO, replace(rows, runs=unknown), DOWN, UP
    )


def test_a_rejected_job_stays_rejected_where_there_are_events():
    log = workload([0, 0], [1, 1], cpus=[9, 1])
    schedule = scheduled(log, POOL, [None, 0])
    assert schedule.state.tolist() == [REJECTED, COMPLETED]
    assert broken(log, POOL, schedule, event(0, "priority", job="b", value=3)) == []
