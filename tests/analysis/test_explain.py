"""Why a job waited, on cases small enough to be followed by hand. Jobs are a, b, c ... and times are seconds."""

from dataclasses import replace

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.explain import Rules, explain
from backfill.model.clock import Clock
from backfill.model.errors import PolicyError, UsageError
from backfill.model.partitions import Limit, Partition
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Labels
from tests.analysis.by_hand import farm, workload

POOL = Platform.pool(4)


def explained(log, pool, job, policy="easy", **more):
    return bf.simulate(log, pool, policy, **more).explain(job)


def spans(found):
    """(begin, until, kind, what was lacking or who stood before) of each."""
    jobs = found.record.schedule.job
    return [
        (
            span.begin // SECOND,
            span.until // SECOND,
            span.kind,
            [lack.name for lack in span.lacks] or (jobs[span.who] if span.who >= 0 else None),
        )
        for span in found.spans
    ]


def after_heading(found, title):
    """The lines of a section."""
    rest = found.lines[found.lines.index(title) + 1 :]
    return [line.strip() for line in rest[: rest.index("") if "" in rest else None]]


def test_a_resource_of_a_pool_and_who_held_it():
    log = workload([0, 0, 1], [100, 60, 10], cpus=[2, 1, 3])
    log = log.with_jobs(log.jobs.replace(user=Labels.of(["ann", "ann", "bob"])))
    found = explained(log, POOL, "c")
    assert spans(found) == [(1, 100, "resource", ["cpus"])]
    (cause,), (held,) = found.causes, found.held
    assert (cause.lacks[0].needed, cause.lacks[0].free_least, cause.lacks[0].free_most) == (3, 1, 2)
    assert [(log.jobs.job[each.job], each.amounts, each.time // SECOND) for each in held.largest] == [
        ("a", (2,), 99),
        ("b", (1,), 59),
    ]
    assert held.largest[0].share == pytest.approx(2 * 99 / (2 * 99 + 59))
    assert held.users == (("ann", 1.0),)
    assert found.sentence == (
        "Job c of user bob waited 99 s for cpus. It needs 3 cpus, and at most 2 of 4 were free at that time. "
        "Job a of user ann held 2 cpus all that time."
    )


def test_the_parts_of_a_wait_are_in_the_unit_of_the_waits_of_the_log():
    log = workload([0, 0, 2, 4, 6, 8, 10, 12], [216_000, *[1] * 7], cpus=[3, *[1] * 6, 4])
    found = explained(log, POOL, "h")  # mean and 95th percentile read in hours, the only wait by itself in days
    assert found.sentence.startswith("Job h waited 60.0 h for cpus.")
    assert after_heading(found, "waited") == [
        "60.0 h  100%  for cpus",
        "job a held 3 cpus for 60.0 h (100%, limit day 2 12:00:00)",
    ]
    assert explain(found.record, found.row, Rules("easy")).sentence.startswith("Job h waited 2.5 d")


def test_enough_cpus_in_all_but_on_no_node():
    log = workload([0, 0, 1], [50, 80, 10], cpus=[3, 3, 2])
    found = explained(log, farm(4, 4), "c")
    assert spans(found) == [(1, 50, "scattered", ["cpus"])]
    lack = found.causes[0].lacks[0]
    assert (lack.needed, lack.free_most, lack.there, lack.on_one) == (2, 2, 8, 1)
    assert "It needs 2 cpus on one node, and no node had more than 1 cpu free at that time." in found.sentence


def test_room_for_some_tasks_of_a_gang():
    log = workload([0, 0, 1], [50, 80, 10], cpus=[2, 3, 3], tasks=[1, 1, 2])
    found = explained(log, farm(5, 5), "c")  # 5 are free, but 6 are needed; from 50 on 7, and 2 of them beside b
    assert spans(found) == [(1, 50, "resource", ["cpus"]), (50, 80, "scattered", ["cpus"])]
    assert found.causes[0].lacks[0].needed == 6
    assert found.causes[1].seated == 1
    assert "cpus: room for at most 1 task at once" in str(found)


def test_the_only_node_that_a_constraint_allows():
    platform = farm(4, 4, features=((), ("fast",)))
    log = workload([0, 1], [50, 10], cpus=[3, 2], constraint=["fast", "fast"])
    found = explained(log, platform, "b")
    assert spans(found) == [(1, 50, "resource", ["cpus"])]
    assert found.sentence.startswith("Job b waited 49 s for cpus on m2, the only node that it may use.")
    assert found.lines[0] == "job b: 2 cpus; may run on m2 only (constraint fast); walltime 10 s"
    assert found.as_dict()["asks"]["node_names"] == ["m2"]


def test_a_licence():
    platform = farm(8, licences=("matlab",), copies=np.array([3]))
    log = workload([0, 1], [50, 10], licences=["matlab"], asks=[[0, 0], [0, 0]])
    found = explained(log, platform, "b")
    assert spans(found) == [(1, 50, "licence", ["matlab"])]
    assert found.sentence == (
        "Job b waited 49 s for licence matlab. It needs 2 copies of matlab, and at most 1 of 3 were free at that time. "
        "Job a held 2 copies of matlab all that time."
    )


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_limit_of_a_user(policy):
    log = workload([0, 1, 2], [50, 10, 10], cpus=[2, 1, 1])
    log = log.with_jobs(log.jobs.replace(user=Labels.of(["ann", "ann", "bob"])))
    limit = Limit(name="students", per="user", running_jobs=1)
    found = explained(log, replace(POOL, limits=(limit,)), "b", policy)
    assert spans(found) == [(1, 50, "limit", ["students: running_jobs of ann"])]
    assert found.sentence == (
        "Job b of user ann waited 49 s for limit students (running_jobs of ann). It needs 1 of limit students, "
        "and none of 1 were left at that time. Job a of user ann held 1 of limit students all that time."
    )
    assert [each[2] for each in spans(explained(log, replace(POOL, limits=(limit,)), "c", policy))] == []


def test_the_first_of_the_queue_is_nobody_that_a_limit_holds_back():
    log = workload([0, 1, 2, 3], [100, 10, 10, 10], cpus=[1, 1, 4, 1])
    log = log.with_jobs(log.jobs.replace(user=Labels.of(["ann", "ann", "bob", "cid"])))
    pool = replace(POOL, limits=(Limit(name="one", per="user", running_jobs=1),))
    found = explained(log, pool, "d", "fcfs")  # b waits for a; it is not b that keeps d waiting
    assert spans(found) == [(3, 110, "order", "c"), (110, 120, "resource", ["cpus"])]


def test_a_partition():
    platform = replace(farm(4, 4), partitions=(Partition(name="fast", nodes=np.array([1])),))
    log = workload([0, 1], [50, 10], cpus=[3, 2])
    log = log.with_jobs(log.jobs.replace(partition=Labels.of(["fast", "fast"])))
    found = explained(log, platform, "b")
    assert found.sentence.startswith("Job b waited 49 s for cpus on m2, the only node that it may use.")
    assert found.lines[0] == "job b: 2 cpus; may run on m2 only (partition fast); walltime 10 s"


def test_whole_nodes():
    log = workload([0, 1], [50, 10], cpus=[1, 1], tasks=[1, 5])
    found = explained(log, farm(4, 4), "b", "easy:place=exclusive")
    assert spans(found) == [(1, 50, "resource", ["cpus"])]
    assert found.lines[0] == "job b: 2 whole nodes; walltime 10 s"
    assert "It needs 2 whole nodes. Job a held 4 cpus all that time." in found.sentence


def test_the_reservation_of_the_head_under_easy():
    log = workload([0, 1, 2, 3], [100, 10, 200, 20], cpus=[2, 4, 2, 2])
    found = explained(log, POOL, "c")  # would outlast the reserved start of b; d does not, and passes it
    assert spans(found) == [(2, 3, "reservation", "b"), (3, 23, "resource", ["cpus"]), (23, 100, "reservation", "b"),
                            (100, 110, "resource", ["cpus"])]  # fmt: skip
    assert found.passed.why == {"in-time-ahead": 1}
    assert "78 s behind reserved starts of other jobs, although it would have fitted; 30 s for cpus." in found.sentence
    assert after_heading(found, "passed by 1 later job") == [
        "1  due to end before the reserved start of a job ahead of it",
        "job d, 2 cpus from day 0 00:00:03 for 20 s: due to end before the",
        "reserved start of a job ahead of it",
    ]


def test_the_reservation_that_a_job_would_run_into_under_conservative():
    log = workload([0, 1, 2, 3], [100, 10, 30, 200], cpus=[3, 2, 4, 1])
    found = explained(log, POOL, "d", "conservative")  # b is reserved for 100, c for 110: d fits beside b, not beside c
    assert spans(found) == [(3, 110, "reservation", "c"), (110, 140, "resource", ["cpus"])]


def test_the_first_of_the_queue_under_fcfs():
    log = workload([0, 1, 2, 3], [100, 10, 10, 10], cpus=[2, 4, 4, 1])
    found = explained(log, POOL, "d", "fcfs")
    assert spans(found) == [(3, 100, "order", "b"), (100, 120, "resource", ["cpus"])]
    assert found.sentence == (
        "Job d waited 117 s: 97 s behind earlier jobs of the queue, although it would have fitted; 20 s for cpus. "
        "First in the queue was job b."
    )


def test_a_policy_that_lets_a_job_wait_without_a_reason_that_is_on_record():
    def late(state):
        if state.now >= 50 * SECOND:
            while state.queue.waiting:
                bf_start_first(state)
        elif state.queue.waiting:
            from backfill.verbs import wake

            wake(state, 50 * SECOND)

    def bf_start_first(state):
        from backfill.verbs import FIT, head, place, start

        job = head(state)
        place(state, job)
        start(state, job, FIT)

    found = explained(workload([0], [10]), POOL, "a", late)
    assert spans(found) == [(0, 50, "policy", None)]
    assert found.sentence == "Job a waited 50 s held back by late, although it would have fitted."


def test_the_jobs_that_the_policy_preferred_are_named():
    from backfill.verbs import start_heads

    shortest = bf.policy("shortest", order="sjf", compiled=False)(start_heads)
    log = workload([0, 1, 2, 2, 3], [100, 10, 20, 60, 90], cpus=[3, 4, 4, 1, 4])
    found = explained(log, POOL, "d", shortest)
    assert spans(found) == [(2, 100, "policy", None), (100, 130, "resource", ["cpus"])]
    assert [[(log.jobs.job[job], time // SECOND) for job, time in each.first] for each in found.ahead] == [
        [("b", 98), ("c", 98)],  # not e, which starts later, and not a, which runs
        [],
    ]
    assert "2 jobs waited beside it and started no later; job b for the longest time (1.63 min)." in found.sentence
    assert "ahead of it: job c, for 1.63 min" in after_heading(found, "waited")
    (cause, other) = found.as_dict()["causes"]
    assert cause["ahead"] == {
        "count": 2,
        "first": [{"job": "b", "user": None, "time_s": 98.0}, {"job": "c", "user": None, "time_s": 98.0}],
    }
    assert "ahead" not in other


def test_a_job_on_other_nodes_or_one_that_left_is_not_ahead():
    from backfill.verbs import start_heads

    shortest = bf.policy("shortest", order="sjf", compiled=False)(start_heads)
    log = workload([0, 1, 1, 2], [100, 10, 20, 60], cpus=[3, 4, 4, 1])
    events = bf.Events.of([{"time": 50, "event": "cancel", "job": "b"}])
    found = explained(log, POOL, "d", shortest, events=events)
    assert [log.jobs.job[job] for each in found.ahead for job, _ in each.first] == ["c"]


def test_a_window_that_was_announced():
    window = {"time": 0, "event": "window", "node": "m1", "value": 60, "until": 90}
    found = explained(workload([1], [100]), farm(4), "a", events=[window])
    assert spans(found)[0][:3] == (1, 60, "window")
    assert spans(found)[1] == (60, 90, "outage", ["cpus"])
    assert "window from day 0 00:01:00 to day 0 00:01:30" in str(found)
    assert found.as_dict()["spans"][0]["window"] == {"begin_s": 60, "until_s": 90}


def test_a_node_that_is_down():
    down = [{"time": 0, "event": "down", "node": "m2"}, {"time": 40, "event": "up", "node": "m2"}]
    found = explained(workload([0, 1], [100, 10], cpus=[4, 2]), farm(4, 4), "b", events=down)
    assert spans(found) == [(1, 40, "outage", ["cpus"])]
    assert found.sentence.startswith("Job b waited 39 s for m2 to come back from an outage or a window.")


def test_what_came_before_a_job_was_eligible():
    log = workload([0, 0, 1], [30, 50, 10], after=[[], [], [0, 1]], think=[0, 0, 5 * SECOND])
    found = explained(log, POOL, "c")
    assert [(s.begin // SECOND, s.until // SECOND, s.kind) for s in found.before] == [
        (1, 30, "dependency"),
        (30, 50, "dependency"),
        (50, 55, "think"),
    ]
    assert found.spans == []
    assert found.sentence == ("Job c did not wait: it started at once, because it was first in the queue.")
    assert after_heading(found, "before it was eligible") == [
        "day 0 00:00:01      29 s  until job a ended",
        "day 0 00:00:30      20 s  until job b ended",
        "day 0 00:00:50       5 s  until its think time was over",
    ]


def test_jobs_that_never_started():
    log = workload([0, 1, 2], [100, 10, 10], cpus=[4, 4, 9])
    result = bf.simulate(log, POOL, events=[{"time": 31, "event": "cancel", "job": "b"}])
    assert spans(result.explain("b")) == [(1, 31, "resource", ["cpus"])]
    assert result.explain("b").sentence.endswith("It was cancelled before it started.")
    assert result.explain("c").sentence == "Job c was rejected and never ran: cpus."
    gone = bf.simulate(log.head(2), farm(4), events=[{"time": 100, "event": "down", "node": "m1"}])
    assert gone.explain("b").sentence.endswith("It waits for capacity that never comes back.")
    assert [span[2] for span in spans(gone.explain("b"))] == ["resource"]


def test_a_job_that_ran_twice_waited_twice():
    events = [{"time": 20, "event": "down", "node": "m1"}, {"time": 50, "event": "up", "node": "m1"}]
    found = explained(workload([0, 5], [10, 100], cpus=[4, 4]), farm(4), "b", events=events)
    assert spans(found) == [(5, 10, "resource", ["cpus"]), (20, 50, "outage", ["cpus"])]


def test_what_moves_a_promise():
    log = workload([0, 1, 2], [60, 10, 10], walltime=[100, 10, 10], cpus=[3, 4, 4])
    found = explained(log, POOL, "c", "conservative")
    assert [(each.at // SECOND, each.start // SECOND) for each in found.promised] == [(2, 110), (60, 70)]
    assert after_heading(found, "reserved starts") == [
        "day 0 00:00:02  reserved for day 0 00:01:50: it was submitted",
        "day 0 00:01:00  moved to day 0 00:01:10, 40 s earlier, when job b reaches its",
        "limit: job a ended 40 s before its limit",
    ]
    first = found.as_dict()["reserved"][1]
    assert first["moved_by"] == [{"what": "ended-early", "jobs": ["a"], "count": 1, "early_s": 40.0}]
    assert explained(log, POOL, "b", "conservative").as_dict()["reserved"][0]["limit_of"] == "a"


@pytest.mark.parametrize(
    ("policy", "why"), [("easy", {"in-time": 1, "elsewhere": 1}), ("first-fit", {"smaller": 2})], ids=["easy", "fit"]
)
def test_why_later_jobs_pass_among_nodes(policy, why):
    log = workload([0, 1, 2, 3], [100, 10, 90, 120], cpus=[6, 8, 1, 1], constraint=["", "m1", "", ""])
    assert explained(log, farm(8, 2), "b", policy).passed.why == why


def test_why_later_jobs_pass_a_job_with_a_reservation():
    log = workload([0, 1, 2, 3], [100, 10, 200, 50], cpus=[2, 3, 1, 1])
    assert explained(log, POOL, "b").passed.why == {"in-time": 1, "beside": 1}


def test_a_job_that_comes_first_in_the_order_of_the_policy_passes():
    log = workload([0, 1, 2, 3], [10, 100, 5, 6], cpus=[4, 4, 4, 4])  # at 10 d is next, and b has no reservation yet
    found = explained(log, POOL, "b", "easy-sjf")
    assert found.passed.why == {"in-time": 1, "first": 1}
    assert [(log.jobs.job[each.job], each.why) for each in found.passed.largest] == [("d", "in-time"), ("c", "first")]


def test_times_are_those_of_the_calendar_where_the_log_has_one():
    log = replace(workload([0, 1], [100, 10], cpus=[4, 4]), clock=Clock(843480031, "Europe/Stockholm"))
    found = explained(log, POOL, "b")
    assert found.lines[1].startswith("submitted 1996-09-23 14:00:32, started 1996-09-23 14:02:11 (Europe/Stockholm),")
    told = found.as_dict()
    assert (told["zone"], told["start_s"], told["start"]) == ("Europe/Stockholm", 100, "1996-09-23T14:02:11+02:00")
    without = explained(log.at_load(2), POOL, "b").as_dict()
    assert without["zone"] is None
    assert "start" not in without


def test_a_result_without_a_record_of_promises_is_simulated_once_more():
    log = workload([0, 1, 2, 3], [100, 10, 200, 20], cpus=[2, 4, 2, 2])
    asked, other = bf.simulate(log, POOL, explain="c"), bf.simulate(log, POOL)
    assert len(other.simulation.journal) == 0
    assert asked.to_dict()["explanation"] == other.explain("c").as_dict()
    assert "explanation" not in other.to_dict()
    with pytest.raises(UsageError, match="explain is 'x'; expected the id of one of the 4 jobs of jobs"):
        other.explain("x")


def test_a_policy_that_decides_otherwise_when_it_runs_again_is_not_explained():
    runs = iter([0, 5])

    def fickle(state):
        from backfill.verbs import FIT, head, place, start, wake

        nonlocal begin
        if state.now == 0:
            begin = next(runs) * SECOND
        if state.now < begin:
            wake(state, begin)
        elif state.queue.waiting:
            job = head(state)
            place(state, job)
            start(state, job, FIT)

    begin = 0
    result = bf.simulate(workload([0], [10]), POOL, fickle)
    with pytest.raises(
        PolicyError, match="policy fickle made other decisions when it ran again; expected the same ones"
    ):
        result.explain("a")
