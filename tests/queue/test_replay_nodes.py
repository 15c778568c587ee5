"""The record of a queue on nodes: replayed, as a workload, and under another policy."""

import copy

import numpy as np
import pytest

from backfill.answers.history import recorded
from backfill.answers.replay import Epoch, check, what_if
from backfill.api import simulate
from backfill.model.platform import Platform
from backfill.queue import events
from backfill.queue.events import Began, Entry
from backfill.queue.feed import passes
from backfill.traces.read import read
from backfill.traces.write import write
from backfill.worlds.recorded import Closed
from tests.queue.logs import of_kind
from tests.queue.nodes import Nodes
from tests.queue.test_planner import SECOND

POLICIES = ("easy", "conservative", "fcfs")


def lived(policy, seed, shut=0.0, count=50, **more):
    """A queue that has run empty, and the only epoch of its log."""
    queue = Nodes(policy, seed, count, shut=shut, **more)
    queue.drain(to_the_end=True)
    one = Epoch(queue.epoch, queue.log, passes(queue.log)[0])
    return queue, one


@pytest.mark.parametrize("policy", POLICIES)
def test_a_log_of_nodes_lived_again_has_the_same_starts_on_the_same_nodes(policy):
    _, one = lived(policy, 1)
    found = check([one])
    assert (found.open_loop, found.closed_loop, found.left_out) == ([], [], {})
    assert found.closed_jobs == found.simulated_jobs > 30


@pytest.mark.parametrize("policy", POLICIES)
def test_a_log_in_which_nodes_come_and_go_is_lived_again(policy):
    queue, one = lived(policy, 2, shut=0.15)
    assert len(of_kind(queue.log, "node")) > 3
    found = check([one])
    assert (found.open_loop, found.closed_loop) == ([], [])
    assert found.closed_jobs > 30
    assert found.simulated_jobs == 0


def test_a_start_on_another_node_than_in_the_log_is_a_difference():
    _, one = lived("easy", 1)
    changed = copy.deepcopy(one)
    then = next(then for then in changed.passes if then.decided)
    then.decided[0][2][0][0] = "n6" if then.decided[0][2][0][0] != "n6" else "n5"
    assert "in the log" in check([changed]).open_loop[0]
    again = Closed("easy", changed.facts, changed.passes, [])
    again.live(changed.passes[-1].now)
    assert sum(life.nodes != again.nodes[job] for job, life in again.lives.items()) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_simulation_of_the_history_starts_every_job_when_and_where_it_started(policy, tmp_path):
    queue, one = lived(policy, 3)
    ids = [event.job for event in of_kind(queue.log, "submit")]
    found = recorded([Entry(events.Epoch(one.facts)), *one.events], ids)
    assert (found.left_out, len(found.events)) == ({}, 0)
    write(found.workload, tmp_path / "week.csv")
    (tmp_path / "week.toml").write_text(found.platform.to_toml())
    platform = Platform.read(tmp_path / "week.toml")
    log = read(tmp_path / "week.csv", resources=platform.resources)
    schedule = simulate(log, platform, policy, overrun="extend").schedule
    starts = {event.job: event for event in of_kind(queue.log, "start")}
    assert len(starts) > 30
    assert any(queue.platform.speed[queue.platform.nodes.index(each.nodes[0][0])] != 1 for each in starts.values())
    for row, job in enumerate(schedule.job.tolist()):
        start = starts[int(job)]
        assert schedule.start[row] == start.start
        held = schedule.held[row].reshape(-1, 2).tolist()
        assert [[platform.nodes[node], tasks] for node, tasks in held] == [one[:2] for one in start.nodes]


def test_capacity_of_nodes_and_starts_of_others_are_told_with_the_workload():
    queue, one = lived("easy", 2, shut=0.15)
    ids = [event.job for event in of_kind(queue.log, "submit")]
    log = [Entry(events.Epoch(one.facts)), *one.events]
    place = next(place for place, (event, *_) in enumerate(log) if event.kind == "start")
    start, t, _ = log[place]
    log[place] = Entry(Began(start.job, 1, start.start, start.why, start.nodes, [], []), t)
    found = recorded(log, ids)
    cells = found.events.cells
    told = {(*row,) for row in zip(cells["node"], cells["resource"], cells["value"], strict=True)}
    for event in of_kind(queue.log, "node"):
        if event.resources["cpus"] == 0:
            assert (event.node, "cpus", "0") in told
    assert [count for why, count in found.left_out.items() if "outside the queue" in why] == [1]


def test_the_policy_of_the_log_changes_no_wait_and_a_run_on_a_slow_node_takes_longer():
    _, one = lived("easy", 4)
    same = what_if([copy.deepcopy(one)], "easy")
    assert same.was == same.would_be
    assert len(same.jobs) > 30
    assert what_if([copy.deepcopy(one)], "conservative").jobs == same.jobs
    fast = [[1, 0, 60 * SECOND, {"need": {"cpus": 1}, "walltime": 100 * SECOND, "constraint": "fast"}]]
    queue, one = lived("easy", 1, some=fast)
    (message,) = [message for then in one.passes for message in then.messages if message[0] == "submit"]
    message[2]["constraint"] = "old"
    again = Closed("easy", one.facts, one.passes, [])
    again.live()
    (start,) = again.starts[1]
    assert again.nodes[1][0][0][0].startswith("n")
    assert again._ends[1] - start == 90 * SECOND
    assert np.isclose(queue.platform.speed[queue.platform.nodes.index("m1")], 1.5)
