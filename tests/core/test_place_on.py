"""Placing a job on given nodes: what fits there, what does not, and what is a misuse."""

import numpy as np
import pytest

from backfill.core.policy import Policy
from backfill.core.queue.walk import following, rewind
from backfill.core.verbs import FIT, place_on, start
from backfill.model.errors import PolicyError
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from backfill.worlds.simulated import Options, simulate

NODES = Platform(
    nodes=("n1", "n2", "n3"),
    resources=("cpus",),
    capacity=np.array([[2], [2], [1]]),
    speed=np.ones(3),
    site=np.array([0, 0, 1]),
    sites=("a", "b"),
)


def log(tasks, **more):
    seconds = np.array([0, 1]) * SECOND
    run = np.array([5, 5]) * SECOND
    jobs = Jobs(job=np.array(["x", "y"]), submit=seconds, runtime=run, walltime=run, tasks=np.array(tasks), **more)
    return Workload(jobs)


def asked(workload, nodes, platform=NODES, compiled=False, **options):
    """Return the result of place_on for each waiting job, and the nodes on which the jobs ran."""
    said = []
    first, second = (np.array(each, np.int64) for each in nodes)

    def decide(state):
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            found = place_on(state, job, first if job == 0 else second)
            if not compiled:
                said.append((int(job), int(state.now) // SECOND, bool(found)))
            if found:
                start(state, job, FIT)
            job = following(state, 0)

    done = simulate(workload, platform, Policy("mine", decide, compiled=compiled), options=Options(**options))
    return said, [each.reshape(-1, 2).tolist() for each in map(done.schedule.held.__getitem__, range(2))]


def test_tasks_sit_where_they_are_put_and_wait_for_room_there_alone():
    said, held = asked(log([3, 2]), ([0, 0, 2], [0, 1]))
    assert held == [[[0, 2], [2, 1]], [[0, 1], [1, 1]]]
    assert said == [(0, 0, True), (1, 1, False), (1, 5, True)]


@pytest.mark.parametrize(
    ("more", "nodes", "fits"),
    [
        ({"spread": np.array([1, 1], np.int8)}, [0, 2], False),
        ({"spread": np.array([1, 1], np.int8)}, [0, 1], True),
        ({"spread": np.array([0, 0], np.int8)}, [0, 1], False),
        ({"spread": np.array([0, 0], np.int8)}, [1, 1], True),
        ({"site": Labels.of(["a", "a"])}, [0, 2], False),
        ({"constraint": Labels.of(["!n2", "!n2"])}, [0, 1], False),
        ({}, [2, 2], False),
    ],
)
def test_spread_site_constraint_and_room_are_heeded(more, nodes, fits):
    workload = log([2, 2], **more)
    if fits:
        said, _ = asked(workload, (nodes, nodes))
        assert said[0] == (0, 0, True)
        return
    with pytest.raises(PolicyError, match="never start"):
        asked(workload, (nodes, nodes))


def test_a_job_does_not_start_where_a_window_comes_before_its_end():
    window = [{"time": 0, "event": "window", "node": "n1", "value": 3, "until": 9}]
    said, _ = asked(log([1, 1]), ([0], [1]), events=Events.of(window))
    assert said[:2] == [(0, 0, False), (0, 1, False)]
    assert (1, 1, True) in said
    assert said[-1] == (0, 9, True)


@pytest.mark.parametrize("nodes", [[0], [0, 1, 2], [1, 0], [-1, 0], [1, 3]])
def test_other_nodes_than_there_are_or_another_number_of_them_is_a_misuse(nodes):
    with pytest.raises(
        PolicyError, match=rf"places job x on {len(nodes)} nodes; expected 2, one for each task, from 0"
    ):
        asked(log([2, 1]), (nodes, [0]))


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="nodes is int; expected an array with a node for each task"):
        simulate(log([1, 1]), NODES, Policy("mine", lambda state: place_on(state, 0, 5), compiled=False))
