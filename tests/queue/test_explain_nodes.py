"""Why a job waits among nodes, and what would help: each claim is held against the State, or tried."""

from itertools import product

import numpy as np
import pytest

from backfill.answers.explain import explain
from backfill.client.asking import explained
from backfill.queue.feed import planner_facts
from tests.queue.nodes import Nodes, submit
from tests.queue.test_planner import SECOND
from tests.shares import LONG

POLICIES = ("easy", "conservative", "fcfs")


@pytest.fixture(scope="module")
def answers():
    """Queues in which jobs wait, and the explanations of some of these."""
    found = []
    for policy, seed in product(POLICIES, range(6 if LONG else 2)):
        queue = Nodes(policy, seed, 80)
        found += [(queue, job, explain(queue.queue(), job.id, "Resources")) for job in queue.waiting()[:6]]
    return found


def alone(queue, job):
    """The messages after which nobody else waits."""
    return [["gone", other.id, "CANCELLED"] for other in queue.waiting() if other.id != job.id]


def test_what_is_said_to_help_helps(answers):
    tried = set()
    for queue, job, found in answers if LONG else answers[::2]:
        assert job.id not in queue.starts([])
        for change in found["would_help"]:
            starts = queue.starts(meant(queue, job, change))
            assert (job.id in starts or 10_000 in starts) == change["now"], change
            tried |= change.keys()
    assert {"resource", "cancel", "tasks", "partition", "constraint", "spread", "node"} <= tried


def test_no_more_tasks_would_start_than_is_said(answers):
    most = 0
    for queue, job, found in answers:
        for change in found["would_help"]:
            if "tasks" in change and change["now"]:
                most += 1
                assert 10_000 not in queue.starts(meant(queue, job, {"tasks": change["tasks"] + 1}))
    assert most


def meant(queue, job, change):
    """The messages that a change means."""
    if "walltime_s" in change:
        return [["change", job.id, {"walltime": change["walltime_s"] * SECOND}]]
    if "cancel" in change:
        return [["gone", change["cancel"], "CANCELLED"]]
    if "node" in change:
        return [back(queue, change["node"])]
    facts = planner_facts(job.facts())
    if "resource" in change:
        facts["need"] = {**job.need, change["resource"]: change["amount"]}
    facts |= {name: value for name, value in change.items() if name in ("tasks", "partition", "constraint", "spread")}
    return [["gone", job.id, "CANCELLED"], *submit(10_000, facts)]


def back(queue, node):
    """The message that a node is in service again."""
    there = queue.platform.capacity[queue.platform.nodes.index(node)].tolist()
    return ["capacity", dict(zip(queue.platform.resources, there, strict=True)), node]


def test_a_job_lacks_nothing_just_when_it_would_start_if_nobody_else_waited(answers):
    lacks = {True: 0, False: 0}
    for queue, job, found in answers:
        assert (job.id in queue.starts(alone(queue, job))) == (not found["lacks"]), (
            found["nodes"],
            found["lacks"],
            job,
        )
        lacks[bool(found["lacks"])] += 1
    assert min(lacks.values()) > 0


def test_with_all_holders_gone_and_all_nodes_back_a_job_would_start(answers):
    some = 0
    for queue, job, found in answers:
        holders, room = found["holders"], found["nodes"]["have_room"] == found["nodes"]["tasks"]
        on_nodes = any(lack["kind"] in ("resource", "scattered") for lack in found["lacks"])
        if found["lacks"] and room != on_nodes and holders["count"] == len(holders["first"]):
            gone = [["gone", one["id"], "CANCELLED"] for one in holders["first"]]
            there = [back(queue, node) for node in queue.platform.nodes]
            assert job.id in queue.starts([*alone(queue, job), *gone, *there])
            some += 1
    assert some > 5


def test_a_full_node_takes_the_job_or_a_task_of_it_when_it_is_said_to_and_not_before(answers):
    some = 0
    for queue, job, found in answers:
        nodes = found["nodes"]
        if any(lack["kind"] in ("limit", "licence") for lack in found["lacks"]) or nodes["whole"]:
            continue
        for one in nodes["full"]["first"]:
            facts = planner_facts(job.facts()) | {"tasks": job.tasks if nodes["alone"] else 1}
            facts["constraint"] = "&".join([*([job.constraint] if job.constraint else []), one["node"]])
            for share, starts in ((1, True), (0, False)):
                ended = [
                    ["gone", each["id"], "COMPLETED"]
                    for each in one["jobs"]
                    if one["opens_s"] is not None and each["latest_end_s"] < one["opens_s"] + share
                ]
                everybody = [["gone", each.id, "CANCELLED"] for each in queue.waiting()]
                began = 10_000 in queue.starts([*ended, *everybody, *submit(10_000, facts)])
                assert began == (starts and one["opens_s"] is not None), one
                some += 1
    assert some > (20 if LONG else 3)


def test_the_nodes_that_a_job_may_use_and_their_room_are_those_of_the_cluster(answers):
    for queue, job, found in answers:
        platform, state, nodes = queue.platform, queue.planner.state, found["nodes"]
        inside = platform.nodes_of(job.partition or "all")
        inside &= platform.allows(job.constraint) if job.constraint else True
        assert (nodes["may_use"], nodes["of"]) == (inside.sum(), len(platform.nodes))
        need = np.array([job.need.get(name, 0) for name in platform.resources])
        if not nodes["whole"]:
            tasks = job.tasks if nodes["alone"] else 1
            assert nodes["open"]["count"] == (state.free.nodes[inside] >= tasks * need).all(axis=1).sum()
            assert nodes["large_enough"] == (platform.capacity[inside] >= tasks * need).all(axis=1).sum()
        assert nodes["open"]["count"] + nodes["full"]["count"] + nodes["shut"]["count"] == nodes["large_enough"]


def test_an_explanation_is_told_in_full(answers):
    kinds = set()
    for _, job, found in answers:
        lines = [*explained(found)]
        assert lines[0].startswith(f"job {job.id} w")
        kinds |= {lack["kind"] for lack in found["lacks"]}
        assert bool(found["lacks"]) == any("waits for" in line for line in lines[:2])
        if found["nodes"]["may_use"] < 12:
            assert any(f"it may run on {found['nodes']['may_use']} of 12 nodes" in line for line in lines)
    assert kinds == {"resource", "scattered", "licence", "limit"}


def test_without_the_job_behind_which_it_waits_a_job_would_start(answers):
    some = 0
    for queue, job, found in answers if LONG else answers[::3]:
        if found["behind"] is not None:
            assert job.id in queue.starts([["gone", found["behind"]["id"], "CANCELLED"]])
            some += 1
    assert some


def test_a_job_that_went_first_elsewhere_took_nothing_that_this_one_could_have_used(answers):
    whys = {True: 0, False: 0}
    for queue, job, found in answers:
        inside = queue.platform.nodes_of(job.partition or "all")
        inside &= queue.platform.allows(job.constraint) if job.constraint else True
        for one in found["went_first"]:
            if (other := queue.jobs.get(one["id"])) is None or not one["runs"]:
                continue
            there = any(inside[queue.platform.nodes.index(node)] for node, *_ in other.attempt.nodes)
            licence = bool(job.need.get("matlab") and other.need.get("matlab")) or job.user == other.user
            licence |= job.qos == other.qos == "urgent"
            assert (one["why"] == "elsewhere") == (not there and not licence), (job, other)
            whys[one["why"] == "elsewhere"] += 1
    assert min(whys.values()) > 3


def test_copies_of_a_licence_that_others_hold_would_help_if_they_came_back():
    queue = Nodes("easy", count=0)
    queue.decide([["capacity", {"matlab": 0}, ""]])
    facts = {"need": {"cpus": 1, "matlab": 1}, "walltime": 600 * SECOND}
    queue.step(1, 60 * SECOND, facts)
    found = explain(queue.queue(), 1, "Resources")
    assert found["lacks"] == [
        {"resource": "matlab", "needs": 1, "free": 0, "capacity": 0, "kind": "licence", "on_one": None}
    ]
    (change,) = found["would_help"]
    assert (change["licence"], change["copies"], change["now"]) == ("matlab", 2, True)
    assert 1 in queue.starts([["capacity", {"matlab": 2}, ""]])
    assert any("all 2 copies of matlab for this queue" in line for line in explained(found))
