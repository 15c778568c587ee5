"""What one look means to a queue that starts the jobs of a batch system."""

from dataclasses import replace

import pytest

from backfill.pools.base import Arrived, Blocked, Edited, Settled
from backfill.pools.conclude import AVOIDED, BEGIN, LONG_S, Control, Watch, conclude, nodes_seen
from backfill.pools.seen import EXCLUDES, Asked, JobNow, NodeNow, Snapshot
from backfill.pools.slurm import _folded, _own_by_job
from backfill.queue.job import UNCERTAIN, Attempt, Job
from backfill.queue.nodes import Nodes
from backfill.queue.states import PENDING, RUNNING, STARTING

SECOND = 1_000_000
CPUS = {"cpus": 4}
ASKED = Asked({"cpus": 1}, 60 * SECOND)


def now(**more):
    return JobNow("7", 5, ASKED, **more)


def known(state=PENDING, **more):
    attempt = None
    if state != PENDING:
        attempt = Attempt(1, 0, nodes=[["a", 1]], instance="1")
    facts = {"native": "7", "native_submit": 5, "need": dict(ASKED.need), "walltime": ASKED.walltime}
    return Job(id=1, state=state, attempt=attempt, attempts=bool(attempt), **facts, **more)


def look(control, job, mine, watch=None):
    snapshot = Snapshot("1", [NodeNow("a", CPUS), NodeNow("b", CPUS)], [job])
    jobs = {} if mine is None else {("7", 5): mine}
    return conclude(snapshot, jobs, {}, watch or Watch(), lambda identity, t: False, 0, control)


def control(**more):
    return Control(lambda job: True, instance="1", **more)


def taken_back(mine):
    """Return the known facts after an attempt of this job was taken back."""
    found = control(wall=100 * SECOND, requested={(1, 1): 0.0}, now=LONG_S + 1)
    assert look(found, now(managed=True, waits="Licenses"), mine) == []
    assert found.undo == [mine]
    return found, look(found, now(managed=True, held=True), mine)


def test_nodes_on_which_a_job_did_not_begin_are_avoided_for_a_minute():
    found, news = taken_back(known(STARTING))
    assert [one.verdict.kind for one in news if isinstance(one, Settled)] == ["unstarted"]
    assert news[0].verdict.record == {"waited": "Licenses"}
    assert found.avoided() == {"a"}
    nodes = Nodes({"a": CPUS, "b": CPUS})
    snapshot = Snapshot("1", [NodeNow("a", CPUS), NodeNow("b", CPUS)], [])
    seen = {one.name: one for one in nodes_seen(snapshot, nodes, Watch(), found.avoided())}
    assert (seen["a"].there, seen["a"].reason) == ({"cpus": 0}, AVOIDED)
    assert seen["b"].there == CPUS
    found.wall += 61 * SECOND
    assert found.avoided() == set()


def test_what_no_job_explains_is_taken_away_if_the_look_before_did_not_explain_it_either():
    nodes, watch, one, less = Nodes({"a": CPUS}), Watch(), {"cpus": 1}, {"cpus": 3}

    def room(*jobs, held=one):
        (seen,) = nodes_seen(Snapshot("1", [NodeNow("a", CPUS, held=held)], [*jobs]), nodes, watch)
        return seen.there, seen.reason

    assert room() == (less, "others")  # what ran before the first look
    assert room(held={}) == (CPUS, "")
    assert room() == (CPUS, "")  # a job may have begun after jobs were read and before nodes were
    assert room(now(state=RUNNING, nodes=[["a", 1]])) == (CPUS, "")
    assert room() == (CPUS, "")
    assert room() == (less, "others")


def test_a_job_that_does_not_begin_elsewhere_either_is_set_aside_and_no_node_is():
    found, news = taken_back(known(STARTING, withdrawn=1))
    assert found.avoided() == set()
    assert news[1:] == [Edited(1, {"begin": 160 * SECOND})]


@pytest.mark.parametrize(("restarts", "kind"), [(1, "requeued"), (0, "unstarted")])
def test_a_job_whose_begin_time_is_later_now_is_not_told_to_start_again(restarts, kind):
    found = control(wall=100 * SECOND, now=LONG_S + 1)
    later = now(managed=True, held=True, blocked=BEGIN, begin=200 * SECOND, restarts=restarts)
    news = look(found, later, known(STARTING))
    assert [one.verdict.kind for one in news if isinstance(one, Settled)] == [kind]
    assert Edited(1, {"begin": 200 * SECOND}) in news
    assert found.tell == []


def test_a_job_that_may_have_run_is_held_again_unless_an_operator_has_given_it_back():
    for job, held in [(now(), True), (now(managed=True), True), (now(returned=True), False), (now(held=True), True)]:
        found = control(since=10)
        assert look(found, job, known(held=UNCERTAIN)) == []
        assert found.adopt == [job] * held
    found = control()
    look(found, now(managed=True, held=True), known(held=UNCERTAIN))
    assert found.adopt == []


def test_a_job_that_was_put_back_is_held_before_its_begin_time():
    found = control()
    job = now(managed=True, blocked=BEGIN, begin=200 * SECOND)
    look(found, job, known())
    assert found.adopt == [job]


def test_a_job_that_was_put_back_before_it_was_seen_to_run_waits_again():
    mine = known(STARTING)
    job = JobNow("7", 9, ASKED, managed=True, restarts=1, blocked="launch failed requeued held")
    first, *_, last = look(control(), job, mine, Watch(instance="1"))
    assert (first.attempt, first.verdict.kind) == (1, "requeued")
    assert last == Edited(1, {"native_submit": 9})


def test_a_job_that_was_put_back_and_began_again_on_its_nodes_within_a_second_did_both():
    mine, ran = known(RUNNING), now(state=RUNNING, nodes=[["a", 1]], start=1, restarts=1)
    mine.attempt.spawned, mine.attempt.processes = 1, {"instance": "1", "restarts": 0, "since": 0}
    first, again = look(control(), ran, mine)
    assert (first.attempt, first.verdict.kind) == (1, "requeued")
    assert (again.job, again.record["restarts"]) == (1, 1)
    assert look(control(forgets=False), ran, mine) == []  # HTCondor counts a start late
    later = replace(ran, start=SECOND)  # its instants are whole seconds, so another one is another start
    assert look(control(forgets=False), later, mine)[0].verdict.kind == "requeued"


def test_a_job_of_before_a_restart_says_so_and_is_not_adopted():
    found = control(since=10)
    (news,) = look(found, now(), None)
    assert isinstance(news, Arrived)
    assert news.blocked == "BeforeRestart"
    assert found.adopt == []


def test_a_job_that_is_held_again_by_a_controller_that_went_back_may_have_run():
    found, loose, held = control(), now(managed=True), now(managed=True, held=True)
    look(found, loose, known())
    assert look(found, held, known()) == []  # the queue held it, on the controller on which it waited unheld
    look(found, loose, known())
    back = Snapshot("2", [NodeNow("a", CPUS)], [held])
    news = conclude(back, {("7", 5): known(held="NotAdopted")}, {}, Watch(), lambda identity, t: False, 0, found)
    assert news == [Blocked(1, UNCERTAIN)]


def test_a_job_that_only_its_batch_system_can_place_says_why():
    found = control()
    assert look(found, now(own=EXCLUDES), known()) == [Blocked(1, EXCLUDES)]
    assert found.adopt == []


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("JobId=7 JobName=a ReqNodeList=(null) ExcNodeList=n3 NodeList=", "ExcNodes"),
        ("JobId=7 JobName=a ExcNodeList=n1 ReqNodeList=(null) ExcNodeList=(null) NodeList=", ""),
        ("JobId=9 ArrayJobId=7 ArrayTaskId=1-9%2 ArrayTaskThrottle=2 JobName=a ExcNodeList=(null)", "ArrayLimit"),
    ],
)
def test_what_squeue_does_not_tell_of_a_job_is_read_from_scontrol(line, own):
    assert dict(_own_by_job(line)) == {"7": own}


def test_tasks_of_an_array_are_changed_in_ranges():
    assert _folded(["3", "12_5", "12_2", "12_1", "4_7"]) == ["3", "12_[1-2,5-5]", "4_[7-7]"]
    whole = _folded([f"5_{task}" for task in range(1, 1001)])
    assert whole == ["5_[1-500]", "5_[501-1000]"]
