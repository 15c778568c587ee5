"""Platforms that are built from Python are held to the same rules as those of a file."""

from dataclasses import replace

import numpy as np
import pytest

from backfill import policies
from backfill.model.constraint import alternatives
from backfill.model.errors import PlatformError
from backfill.model.partitions import Limit
from backfill.model.platform import Platform
from backfill.model.workload import Jobs, Labels, Workload
from backfill.worlds.simulated import simulate

TWO = {
    "nodes": ("a", "b"),
    "resources": ("cpus",),
    "capacity": np.array([[4], [2]]),
    "speed": np.ones(2),
    "site": np.zeros(2, np.int64),
    "licences": ("x",),
    "copies": np.array([1]),
    "hosts": np.ones((2, 1), np.bool_),
}


def test_a_platform_of_two_nodes():
    assert Platform(**TWO).cpus == 6


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("capacity", np.array([[4]]), r"capacity has shape \(1, 1\); expected \(2, 1\)"),
        ("speed", np.ones(1), r"speed has shape \(1,\); expected \(2,\)"),
        ("site", np.zeros(3, np.int64), r"site has shape \(3,\); expected \(2,\)"),
        ("copies", np.array([1, 2]), r"copies has shape \(2,\); expected \(1,\)"),
        ("hosts", np.ones((1, 3), np.bool_), r"hosts has shape \(1, 3\); expected \(2, 1\)"),
        ("nodes", ("a", "a"), "two of a, a have the same name"),
        ("site", np.array([0, 7]), "sites must be places in"),
        ("copies", np.array([-1]), "copies 0 or more"),
        ("speed", np.array([1, 0.0]), "speeds from 1e-6 to 1e6"),
        ("capacity", np.array([[4], [-2]]), "capacities must be from 0"),
        ("features", (("ssd",),), "features of 1 nodes; expected 2"),
        ("features", ((), ("a b",)), "'a b' is not a feature; expected a text without spaces"),
        ("features", ((), ("!ssd",)), "'!ssd' is not a feature"),
        (
            "limits",
            (Limit(name="few", running={"gpu": 1}),),
            "limit 'few': 'gpu' is not a resource of a node; expected cpus",
        ),
    ],
)
def test_what_cannot_be_is_refused(column, value, message):
    with pytest.raises(PlatformError, match=message):
        Platform(**{**TWO, column: value})


@pytest.mark.parametrize(
    ("constraint", "allowed"),
    [
        ("gpu", "ab"), ("gpu&ssd", "a"), ("ssd | tape", "ac"), ("!gpu", "c"), ("!b", "ac"), ("a|c", "ac"),
        ("gpu&!ssd|tape", "bc"), ("!ssd & !tape", "b"), ("nothing", ""), ("!nothing", "abc"),
    ],
)  # fmt: skip
def test_which_nodes_a_constraint_allows(constraint, allowed):
    platform = replace(Platform.pool(3, 3), nodes=("a", "b", "c"), features=(("gpu", "ssd"), ("gpu",), ("tape",)))
    assert "".join(np.array(platform.nodes)[platform.allows(constraint)]) == allowed


def test_a_platform_that_states_no_features_judges_only_names_of_nodes():
    platform = Platform.pool(3, 3)
    assert [platform.allows(text).tolist() for text in ("gpu", "!gpu", "gpu&n2", "!n1|n1&gpu")] == [
        [True] * 3, [True] * 3, [False, True, False], [True] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "constraint", ["", "&", "a&", "|a", "a b", "!", "!!a", "a&!a", "a;b", "a\x07", "(a|b)&c", "[a|b]", "a*2"]
)
def test_what_is_no_constraint(constraint):
    with pytest.raises(ValueError, match=r"expected features joined by & and \|"):
        alternatives(constraint)


def test_a_job_whose_nodes_do_not_exist_is_told_so():
    platform = replace(Platform.pool(4), features=(("gpu",),))
    jobs = Jobs(
        job=np.arange(3), submit=np.zeros(3, np.int64), runtime=np.ones(3, np.int64), walltime=np.ones(3, np.int64),
        constraint=Labels.of(["gpu", "!gpu", ""]),
    )  # fmt: skip
    schedule = simulate(Workload(jobs), platform, policies.get("fcfs")).schedule
    assert (schedule.ran.tolist(), schedule.rejected_for[1]) == ([True, False, True], "constraint")
