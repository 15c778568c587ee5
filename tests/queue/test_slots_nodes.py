"""What fits now among nodes: what is offered starts, and one task more does not."""

from itertools import product

import pytest

from backfill.answers.kinds import choices
from backfill.answers.slots import ALWAYS, slots
from backfill.client.asking import offered
from backfill.model.units import names_text
from tests.queue.nodes import Nodes, submit
from tests.queue.test_planner import SECOND
from tests.shares import LONG

POLICIES = ("easy", "conservative", "first-fit") if LONG else ("conservative", "first-fit")


def facts(one, need, more=0):
    """A job as one slot offers it. more: tasks."""
    walltime = ALWAYS if one["for_s"] is None else one["for_s"] * SECOND
    return {"need": {"cpus": 1, **need}, "tasks": one["tasks"] + more, "spread": "node" if one["on_one"] else "any",
            "partition": one["partition"], "constraint": one["constraint"], "walltime": walltime}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_offered_starts_at_once_and_one_task_more_does_not(policy):
    some = spans = 0
    lives = [Nodes(policy, seed) for seed in range(2 if LONG else 1)]
    for need, queue in product(({}, {"cpus": 2, "memory": 1}, {"gpus": 1}, {"matlab": 1}), lives):
        told = slots(queue.queue(), need, 0)
        assert told["untried"] == []
        for one in told["slots"]:
            starts = queue.starts(submit(10_000, facts(one, need)))
            assert 10_000 in starts, one
            ((nodes,),) = [starts[10_000]]
            inside = queue.platform.nodes_of(one["partition"])
            inside &= queue.platform.allows(one["constraint"]) if one["constraint"] else True
            assert all(inside[queue.platform.nodes.index(node)] for node, *_ in nodes)
            assert len(nodes) == 1 or not one["on_one"]
            assert 10_000 not in queue.starts(submit(10_000, facts(one, need, 1))), one
            some, spans = some + 1, spans + (one["for_s"] is not None)
        assert [*offered(told)]
    assert some > 10
    assert spans or policy == "first-fit"


def test_kinds_of_nodes_are_told_apart_by_features_or_names():
    platform = Nodes("easy", count=0).platform
    found = {
        (one.partition, names_text(platform.nodes[node] for node in one.nodes)): one.constraint
        for one in choices(platform)
    }
    assert found == {
        ("all", "g[1-2], m[1-4], n[1-6]"): "",
        ("all", "g[1-2]"): "a100",
        ("all", "m[1-4]"): "new",
        ("all", "n[1-6]"): "old",
        ("whole", "m[1-4]"): "",
    }
    assert names_text(["a1", "a2", "a5", "b", "c01", "c02"]) == "a[1-2,5], b, c01, c02"


TWO_TYPES = """
[[node]]
name = "h"
count = 2
cpus = 8
gpus = 4
gpu_type = "v100"
[[node]]
name = "g"
count = 3
cpus = 8
gpus = 4
gpu_type = "a100"
"""


@pytest.mark.parametrize(("gpu_type", "count", "nodes"), [("a100", 3, "g[1-3]"), ("v100", 2, "h[1-2]")])
def test_only_nodes_with_gpus_of_the_type_are_offered(gpu_type, count, nodes):
    told = slots(Nodes("easy", text=TWO_TYPES, some=[]).queue(), {"gpus": 2}, 0, gpu_type=gpu_type)
    assert {(one["nodes"], one["constraint"]) for one in told["slots"]} == {(nodes, gpu_type)}
    assert max(one["tasks"] for one in told["slots"]) == 2 * count


def test_floating_licences_are_said_to_be_for_the_whole_job():
    told = slots(Nodes("easy", some=[]).queue(), {"cpus": 2, "matlab": 2}, 0)
    assert (told["per_task"], told["per_job"]) == ({"cpus": 2}, {"matlab": 2})
    assert "each task has 2 cpus, the job as a whole matlab 2" in [*offered(told)]
