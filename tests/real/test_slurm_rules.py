"""The policy slurm decides as a slurmctld does by one rule after another, each of which most of the jobs meet."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.real.test_slurm_limits import judged

pytestmark = [pytest.mark.slurm, pytest.mark.long]
ACCOUNTS = ("add account bio fairshare=1", "add user root account=bio fairshare=1")
HIGH = ("add qos high priority=10 minpriothresh=2350", "modify user root set qos=normal,high")
LEAST = "PartitionName=least Nodes=n[1-4] MaxTime=60 LLN=YES DefMemPerCPU=1\n"


def common(dice: random.Random, *parts: str) -> list[str]:
    """The options that all have. parts: partitions."""
    words = ["-A", "bio", "-p", dice.choice(parts or ("main", "main", "high", "short")), "-t", str(dice.randint(1, 4))]
    return [*words, f"--nice={dice.randint(0, 300)}"]


def plain(dice: random.Random) -> list[str]:
    return [*common(dice), "-n", str(dice.randint(1, 24))]


def with_licences(dice: random.Random) -> list[str]:
    words = [*common(dice), "-n", str(dice.randint(1, 16))]
    return [*words, "-L", f"lic:{dice.randint(1, 3)}"] if dice.random() < 0.5 else words


def on_whole_nodes(dice: random.Random) -> list[str]:
    return [*common(dice, "whole", "main"), "--exclusive", "-N", "1"] if dice.random() < 0.5 else plain(dice)


def with_a_least_limit(dice: random.Random) -> list[str]:
    return [*plain(dice), "--time-min=1"] if dice.random() < 0.6 else plain(dice)


def on_the_least_loaded(dice: random.Random) -> list[str]:
    return [*common(dice, "least", "least", "main", "high"), "-n", str(dice.randint(1, 20))]


def with_gpus(dice: random.Random) -> list[str]:
    kind = dice.randrange(6)
    sizes = {
        0: ["-n", str(dice.randint(1, 8)), f"--gres=gpu:{dice.randint(1, 2)}", "-N", "1"],
        1: ["-n", "2", "-N", "2", "--ntasks-per-node=1", f"--gres=gpu:{dice.randint(1, 2)}"],
        2: ["-n", str(dice.randint(1, 4)), "--gpus-per-task=1"],
        3: ["-n", "1", "-c", str(dice.randint(1, 8)), "--gres=gpu:1"],
    }
    return [*common(dice), *sizes.get(kind, ["-n", str(dice.randint(1, 20))])]


def in_a_qos(dice: random.Random) -> list[str]:
    return [*plain(dice), "--qos", dice.choice(["normal", "high"])]


# name -> the options of a job, and what the site has
RULES: dict[str, tuple[Callable[[random.Random], list[str]], Mapping[str, Any]]] = {
    "a-plan-of-few-records": (plain, {"more": "bf_node_space_size=6"}),
    "licences-in-the-plan": (with_licences, {"more": "bf_licenses"}),
    "whole-nodes-of-running-jobs": (on_whole_nodes, {"more": "bf_running_job_reserve"}),
    "time-min": (with_a_least_limit, {}),
    "least-loaded-nodes": (on_the_least_loaded, {"lines": LEAST}),
    "past-the-limit": (plain, {"lines": "OverTimeLimit=1\n", "longest_s": 110, "rest_s": 230}),
    "gpus": (with_gpus, {"gpus": 2}),
    "MinPrioThresh": (in_a_qos, {"accounts": (*ACCOUNTS, *HIGH), "more": "bf_min_prio_reserve=250"}),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_that_of_slurm(rule, tmp_path):
    jobs, site = RULES[rule]
    found = judged(tmp_path, 5, "limits", jobs, **{"accounts": ACCOUNTS, "rest_s": 150, **site})
    assert found.total["backfill: jobs started"] > 10
    assert found.total["backfill: begin of a plan"] > 40
    alike = sum(found.alike.values()) / sum(found.total.values())
    assert alike > 0.97, found.differences  # without the rule: 0.3 to 0.96
