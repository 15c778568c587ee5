"""Flexible backfilling with Maui's fairshare component: jobs of those who used less than their target come first.

Source: Maui Administrator's Guide, 6.3; where it is silent, MFS.c and MPriority.c of Maui 3.2.
docs/decisions/0060-queues-partitions-and-shares.md records the interpretations.

Slow twin: tests/reference/fairshare.py.
"""

import math

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import waiting_jobs
from backfill.policies.balance import capacities
from backfill.policies.flexible import (
    MOST,
    backfill_by_priority,
    flexible,
    priorities,
    processor_equivalents,
)

HOUR = 3600e6  # in microseconds
EQUIVALENTS, RATIO, FLOOR, CEILING = 1, 1, 1, 2  # values of fs_policy, of fs_by, and of fs_mode


def _weight(default: float, whom: str) -> Param:
    return Param(default, 0, MOST, "points", f"weight of the fairshare of {whom}")


def _target(default: float, whom: str) -> Param:
    return Param(default, 0, 100, "%", f"share of all usage that {whom} should have; 0: none is stated")


@policy(
    "flexible-fairshare",
    order="-P, the weighted sum of flexible's priorities and of the distance from targets of usage",
    reserve=flexible.reserve,
    fill=flexible.fill,
    source="Maui Administrator's Guide, 6.3; Jackson, Snell and Clement, JSSPP 2001",
    sorts=True,
    params={
        **flexible.params,
        "fs": Param(1, 0, MOST, "times", "weight of `w_fs_user`, `w_fs_group` and `w_fs_account` together"),
        "w_fs_user": _weight(10, "users"),
        "w_fs_group": _weight(0, "groups"),
        "w_fs_account": _weight(0, "accounts (projects)"),
        "fs_user_target": _target(25, "a user"),
        "fs_group_target": _target(0, "a group"),
        "fs_account_target": _target(0, "an account"),
        "fs_mode": Param.choice(
            "target",
            "floor",
            "ceiling",
            meaning="a target changes priorities in both directions; a floor only raises, a ceiling only lowers them",
        ),
        "fs_by": Param.choice("difference", "ratio", meaning="target - usage in percent points, or 1 - usage / target"),
        "fs_policy": Param.choice(
            "dedicated-ps", "dedicated-pes", meaning="usage in processor-seconds held, or in processor equivalents"
        ),
        "fs_interval": Param(24, 0.001, 1e6, "h", "length of a window of usage"),
        "fs_depth": Param(7, 1, 24, "windows", "number of windows that count, the present one among them", whole=True),
        "fs_decay": Param(1, 0, 1, "times", "weight of a window in terms of the next one"),
    },
    memory={**flexible.memory, "oldest": 1},
    memory_f={**flexible.memory_f, **dict.fromkeys(("user_target", "group_target", "project_target"), "targets")},
    forgets="no",
)
def flexible_fairshare(state):
    """Flexible backfilling whose priority adds how far user, group and account are from their targets of usage.

    Usage is what their runs have held in the last `fs_depth` windows, as a share of what all runs held.
    Promise: none; a job that gets a higher priority takes the reservation.
    Cost: that of flexible, and O(fs_depth x runs within these windows) per pass.
    With w_fs_user=0 every start is that of flexible.
    """
    backfill_by_priority(state, fair_priorities(state))


@apart(of_policy=True)
def fair_priorities(state):
    """Return P of each job of `waiting_jobs`, (q,)."""
    own, jobs = state.own, state.jobs
    used = weighted_usage(state)
    users = points(state, jobs.user, used, own.w_fs_user, own.fs_user_target, own.user_target)
    groups = points(state, jobs.group, used, own.w_fs_group, own.fs_group_target, own.group_target)
    accounts = points(state, jobs.project, used, own.w_fs_account, own.fs_account_target, own.project_target)
    line = waiting_jobs(state, 0)
    total = priorities(state, line)
    for i in range(len(line)):
        job = line[i]
        share = users[jobs.user[job] + 1] + groups[jobs.group[job] + 1] + accounts[jobs.project[job] + 1]
        total[i] += own.fs * share
    return total


@kernel()
def weighted_usage(state):
    """Return the usage of each run from `oldest` on in each window, weighted by the age of the window."""
    own, runs = state.own, state.runs
    interval, depth = np.int64(math.floor(own.fs_interval * HOUR + 0.5)), np.int64(own.fs_depth)
    present = state.now // interval * interval
    while own.oldest[0] < runs.count and end_so_far(state, own.oldest[0]) <= present - (depth - 1) * interval:
        own.oldest[0] += 1
    used = np.zeros(runs.count - own.oldest[0])
    for i in range(len(used)):
        run, weight = own.oldest[0] + i, 1.0
        for n in range(depth):
            begin = present - n * interval
            length = min(end_so_far(state, run), begin + interval) - max(runs.start[run], begin)
            used[i] += weight * max(length, 0)
            weight *= own.fs_decay
    weigh_by_size(state, used)
    return used


@kernel()
def end_so_far(state, run):
    """Return when a run ended; now if it has not ended."""
    return state.now if state.runs.end[run] == NO_TIME else state.runs.end[run]


@kernel()
def weigh_by_size(state, used):
    """Multiply the usage of each run from `oldest` on by its processors, or its processor equivalents."""
    own = state.own
    capacity = capacities(state) if own.fs_policy == EQUIVALENTS else np.zeros(0)
    for i in range(len(used)):
        job = np.int64(state.runs.job[own.oldest[0] + i])
        if own.fs_policy == EQUIVALENTS:
            used[i] *= processor_equivalents(state, job, capacity)
        else:
            used[i] *= state.jobs.need[job, 0]


@kernel()
def points(state, numbers, used, weight, usual, targets):
    """The points for each user, group or account, by its number + 1; 0 are for jobs that have none.

    numbers: whose each job is. used: by each run from `oldest` on. targets: of the first numbers, -1 for no own one;
    all others have the usual target.
    """
    own, total = state.own, used.sum()
    found = np.zeros(highest(state, numbers) + 2)
    if weight == 0.0 or (usual == 0.0 and len(targets) == 0) or total == 0.0:
        return found
    for i in range(len(used)):
        found[numbers[state.runs.job[own.oldest[0] + i]] + 1] += used[i]
    for i in range(1, len(found)):
        share, target = 100.0 * found[i] / total, usual
        if i <= len(targets) and targets[i - 1] >= 0.0:
            target = targets[i - 1]
        found[i] = 0.0
        if target == 0.0:
            continue
        short = 1.0 - share / target if own.fs_by == RATIO else target - share
        if (own.fs_mode == FLOOR and short < 0.0) or (own.fs_mode == CEILING and short > 0.0):
            short = 0.0
        found[i] = weight * short
    found[0] = 0.0
    return found


@kernel()
def highest(state, numbers):
    """Return the greatest of these numbers among waiting jobs and jobs whose runs count; -1 if there is none."""
    found = np.int64(-1)
    for run in range(state.own.oldest[0], state.runs.count):
        found = max(found, np.int64(numbers[state.runs.job[run]]))
    for job in waiting_jobs(state, 0):
        found = max(found, np.int64(numbers[job]))
    return found


def family() -> dict[str, Policy]:
    """Return the only member."""
    return {flexible_fairshare.name: flexible_fairshare}
