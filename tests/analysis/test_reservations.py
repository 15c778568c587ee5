"""Advance reservations on small machines, by hand: who runs where, what is refused, what the checker finds."""

from dataclasses import replace

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.verify import verify
from backfill.model.errors import EventsError
from backfill.model.events import Events
from backfill.model.schedule import STATES
from backfill.model.units import SECOND
from backfill.traces.table import read_table

HEAD = b"job,submit,runtime,procs,user,group,project,reservation\n"
CLUSTER = bf.Platform.pool(cpus=8, nodes=4)
ANN = {"time": 1, "event": "reserve", "reservation": "ann", "user": "ann", "value": 50, "until": 90}


def log(*lines: str):
    return read_table(HEAD + "\n".join(lines).encode())


def fates(result):
    """Start and end of each job in seconds and its state, and where it ran."""
    got = result.schedule
    return {
        str(job): (None if start < 0 else start // SECOND, STATES[state], got.node_text(row))
        for row, (job, start, state) in enumerate(
            zip(got.job.tolist(), got.start.tolist(), got.state.tolist(), strict=True)
        )
    }


JOBS = log("a,0,100,2,bob,,,", "b,2,30,2,ann,,,ann", "c,3,30,1,bob,,,", "d,3,60,1,bob,,,", "e,4,50,1,ann,,,ann")


@pytest.mark.parametrize("policy", ["easy", "conservative", "first-fit", "preemptive"])
def test_four_cpus_of_a_machine_are_kept_for_a_user(policy):
    result = bf.simulate(JOBS, bf.Platform.pool(4), policy, events=[{**ANN, "resource": "cpus", "amount": 2}])
    assert result.verify() == []
    found = fates(result)
    assert found["a"] == (0, "COMPLETED", "pool")
    assert found["b"] == (50, "COMPLETED", "pool")
    assert found["c"][0] == 3  # it ends before the reservation begins
    assert found["d"][0] >= 90  # it does not
    assert found["e"] == (None, "CANCELLED", "")  # it is longer than what is left of the reservation


def test_nodes_are_kept_whole_and_an_amount_has_its_share_of_what_else_there_is():
    jobs = log("a,2,30,2,ann,,,ann", "b,2,60,2,bob,,,", "c,2,60,8,bob,,,", "d,2,10,2,bob,,,")
    whole = bf.simulate(jobs, CLUSTER, "easy", events=[{**ANN, "node": "n[34]"}])
    assert whole.verify() == []
    assert fates(whole)["a"] == (50, "COMPLETED", "n3") or fates(whole)["a"] == (50, "COMPLETED", "n3*2")
    assert fates(whole)["c"][0] == 90
    machine = bf.Platform.pool(cpus=8, memory=80)
    memory = read_table(
        b"job,submit,runtime,cpus,memory,user,reservation\na,2,30,2,20B,ann,ann\nb,2,10,2,21B,ann,ann\n"
    )
    share = bf.simulate(memory, machine, "easy", events=[{**ANN, "resource": "cpus", "amount": 2}])
    assert [fates(share)[job][1] for job in "ab"] == ["COMPLETED", "REJECTED"]


def test_a_node_that_shrinks_leaves_a_reservation_what_others_of_the_same_instant_do_not_have():
    """The second one is over before the first one begins."""
    jobs = log("a,2,30,2,ann,,,ann", "b,2,10,3,bob,,,bob")
    other = {**ANN, "reservation": "bob", "user": "bob", "value": 10, "until": 30, "resource": "cpus", "amount": 3}
    shrinks = {"time": 2, "event": "capacity", "resource": "cpus", "value": 3}
    result = bf.simulate(
        jobs, bf.Platform.pool(4), "easy", events=[{**ANN, "resource": "cpus", "amount": 2}, other, shrinks]
    )
    assert result.verify() == []
    assert [fates(result)[job][0] for job in "ab"] == [50, 10]


def test_several_events_of_a_name_and_a_time_make_one_reservation():
    jobs = log("a,2,30,6,ann,,,ann", "b,2,5,1,bob,,,")
    events = [{**ANN, "node": "n1"}, {**ANN, "node": "n[34]"}]
    assert fates(bf.simulate(jobs, CLUSTER, "easy", events=events))["a"] == (50, "COMPLETED", "n1*2;n3*2;n4*2")
    machine = bf.Platform.pool(cpus=8, memory=80)
    asked = read_table(b"job,submit,runtime,cpus,memory,user,reservation\na,2,30,2,60B,ann,ann\nb,2,60,6,20B,bob,\n")
    events = [{**ANN, "resource": "cpus", "amount": 2}, {**ANN, "resource": "memory", "amount": 60}]
    result = bf.simulate(asked, machine, "easy", events=events)
    assert result.verify() == []
    assert fates(result) == {"a": (50, "COMPLETED", "pool"), "b": (2, "COMPLETED", "pool")}


@pytest.mark.parametrize(
    ("owner", "value", "job"),
    [("group", "lab", "a"), ("project", "p", "b"), ("user", "cid", "c")],
)
def test_a_group_or_a_project_may_own_a_reservation(owner, value, job):
    jobs = log("a,2,5,1,ann,lab,,r", "b,2,5,1,bob,,p,r", "c,2,5,1,cid,,,r")
    event = {"time": 0, "event": "reserve", "reservation": "r", owner: value, "node": "n1", "value": 10, "until": 30}
    result = bf.simulate(jobs, CLUSTER, "easy", events=[event])
    assert result.verify() == []
    for name, fate in fates(result).items():
        assert fate == ((10, "COMPLETED", "n1") if name == job else (None, "REJECTED", ""))
    assert [str(cause) for cause in result.schedule.rejected_for] == ["" if j == job else "reservation" for j in "abc"]


def test_without_a_reservation_of_that_name_a_job_is_rejected():
    jobs = log("a,0,5,1,ann,,,ann", "b,95,5,1,ann,,,ann", "c,2,5,1,ann,,,other")
    too_early_or_late = bf.simulate(jobs, CLUSTER, "easy", events=[{**ANN, "node": "n1"}])
    assert too_early_or_late.verify() == []
    assert {fate[1] for fate in fates(too_early_or_late).values()} == {"REJECTED"}


def test_where_events_make_no_reservation_nobody_waits_for_one():
    result = bf.simulate(JOBS, CLUSTER, "easy", events=[{"time": 0, "event": "down", "node": "n4"}])
    assert result.verify() == []
    assert {fate[1] for fate in fates(result).values()} == {"COMPLETED"}


def test_a_reservation_that_is_ended_gives_its_nodes_back_and_ends_its_jobs():
    jobs = log("a,2,30,2,ann,,,ann", "b,3,60,8,bob,,,", "c,4,5,2,ann,,,ann")
    events = [{**ANN, "node": "n1"}, {"time": 60, "event": "unreserve", "reservation": "ann"}]
    result = bf.simulate(jobs, CLUSTER, "easy", events=events)
    assert result.verify() == []
    assert fates(result) == {
        "a": (50, "CANCELLED", "n1"), "b": (60, "COMPLETED", "n1*2;n2*2;n3*2;n4*2"), "c": (None, "CANCELLED", ""),
    }  # fmt: skip
    early = bf.simulate(jobs, CLUSTER, "easy", events=[events[0], {**events[1], "time": 20}])
    assert early.verify() == []
    assert fates(early)["b"][0] == 20  # a window that is taken back holds nobody up


def test_a_node_that_fails_takes_its_part_of_a_reservation_with_it():
    jobs = log("a,2,20,2,ann,,,ann")
    events = [
        {**ANN, "node": "n1"},
        {"time": 55, "event": "down", "node": "n1"},
        {"time": 60, "event": "up", "node": "n1"},
    ]
    result = bf.simulate(jobs, CLUSTER, "easy", events=events)
    assert result.verify() == []
    assert fates(result)["a"] == (60, "COMPLETED", "n1")
    assert len(result.schedule.all_runs) == 2


def test_a_conservative_promise_moves_for_a_reservation_and_the_record_says_so():
    jobs = log("a,0,40,8,bob,,,", "b,0,30,8,bob,,,")
    result = bf.simulate(jobs, CLUSTER, "conservative", events=[{**ANN, "node": "n1"}], explain="b")
    assert result.verify() == []
    assert fates(result)["b"][0] == 90
    text = " ".join(str(result.explain("b")).split())
    assert "because it would not have ended before reservation ann" in text
    assert "event reserve" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([{**ANN, "node": "n1", "until": 50}], "expected a time after the reservation's begin, 50 s"),
        ([{**ANN}], "expected a node: reserve needs node or resource"),
        ([{**ANN, "node": "n1", "user": ""}], "expected a user, a group or a project, whose reservation it is"),
        ([{**ANN, "node": "n1", "reservation": "a b"}], "reservation is 'a b'; expected"),
        ([{**ANN, "resource": "cpus", "amount": 9}], "events: row 1: reservation ann: only 8 of 9 cpus are free"),
        ([{**ANN, "node": "n1", "resource": "cpus", "amount": 3}], "only 2 of 3 cpus are free on node n1"),
        (
            [{**ANN, "node": "n*"}, {**ANN, "node": "n2", "reservation": "q"}],
            "row 2: reservation q: node n2 is part of",
        ),
        ([{**ANN, "node": "n1"}, {**ANN, "node": "n2", "value": 60}], "row 2: there is another reservation ann"),
        ([{**ANN, "node": "n1"}, {**ANN, "node": "n[12]"}], "row 1: reservation ann: node n1 is in it twice"),
        ([{**ANN, "resource": "cpus", "amount": 0}], "it reserves nothing; expected an amount of 1 or more"),
        ([{"time": 0, "event": "unreserve", "reservation": "x"}], "there is no reservation x to end"),
        ([{**ANN, "node": "n1", "time": 95}], "reservation ann ends before it is made"),
    ],
)
def test_what_cannot_be_reserved_is_refused_in_one_line(more, said):
    with pytest.raises(EventsError) as caught:
        bf.simulate(JOBS, CLUSTER, "easy", events=more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reservations_one_after_the_other_may_have_the_same_node():
    later = {**ANN, "node": "n1", "reservation": "q", "value": 90, "until": 95}
    result = bf.simulate(JOBS, CLUSTER, "easy", events=[{**ANN, "node": "n1"}, later])
    assert result.verify() == []


def test_a_policy_that_moves_promises_heeds_reservations():
    result = bf.simulate(JOBS, bf.Platform.pool(4), "slack", events=[{**ANN, "resource": "cpus", "amount": 2}])
    assert result.verify() == []


def damaged(column: str, value: float, row: int):
    """A lawful schedule in which one thing is not."""
    events = Events.of([{**ANN, "node": "n1"}])
    schedule = bf.simulate(JOBS, CLUSTER, "easy", events=events).schedule
    assert verify(JOBS, CLUSTER, schedule, events=events) == []
    changed = getattr(schedule, column).copy()
    changed[row] = value
    schedule = replace(schedule, **{column: changed}, runs=None)
    return [each for each in verify(JOBS, CLUSTER, schedule, events=events) if each.rule == "reservation"]


def test_the_checker_finds_who_runs_where_it_must_not():
    early = damaged("start", 45 * SECOND, 1)
    assert [(each.job, "expected within ann" in each.text) for each in early] == [("b", True)]
    events = Events.of([{**ANN, "node": "n1"}])
    schedule = bf.simulate(JOBS, CLUSTER, "easy", events=events).schedule
    jobs = JOBS.jobs
    foreign = replace(JOBS, jobs=jobs.replace(user=replace(jobs.user, codes=np.zeros_like(jobs.user.codes))))
    assert any("which it may not use" in each.text for each in verify(foreign, CLUSTER, schedule, events=events))
    nobody = replace(
        JOBS, jobs=jobs.replace(reservation=replace(jobs.reservation, codes=np.full_like(jobs.reservation.codes, -1)))
    )
    found = verify(nobody, CLUSTER, schedule, events=events)
    assert any(
        each.rule == "reservation" and each.text == "runs on node n1, which is reserved as ann" for each in found
    )
    amount = Events.of([{**ANN, "node": "n1", "resource": "cpus", "amount": 1}])
    assert any(
        "its jobs hold 2 cpus of node n1" in each.text for each in verify(JOBS, CLUSTER, schedule, events=amount)
    )
