"""The order `multifactor` for other policies: the queue by a site's tiers and multifactor priority.

Without a site the priority is that of the workload.

Slow twin: tests/reference/multifactor.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import MULTIFACTOR, Facts, Policy, policy
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Jobs
from backfill.policies.easy import SOURCE, backfill_behind_head, k_reservations, start_all_that_fit
from backfill.policies.slurm.facts import MEMORY, MEMORY_F, PARAMS, facts
from backfill.policies.slurm.priority import prioritise, wake_for_period

MINE = (*(name for name in PARAMS if name.startswith("Priority")), "FairShareDampeningFactor", "version")
_PARAMS = {name: PARAMS[name] for name in MINE}
_BY = "tier of the partition, then multifactor priority"


def _facts(params: Mapping[str, float], platform: Platform, jobs: Jobs | None, asked: Ints | None) -> Facts:
    """Return what `slurm` knows of a site, with the parameters of the order."""
    found = facts({name: param.default for name, param in PARAMS.items()} | dict(params), platform, jobs, asked)
    numbers = dict(zip(PARAMS, found.params.tolist(), strict=True))
    return Facts(np.array([numbers[name] for name in MINE], np.float64), found.memory)


@kernel()
def arrange(state):
    """Give waiting jobs their priorities and sort the queue by them."""
    own = state.own
    if own.begun[0] == 0:
        own.begun[0], own.accounted[0] = 1, NO_TIME
    prioritise(state)


@policy(
    "easy",
    order=_BY,
    reserve="the head, at its shadow time; recomputed at each pass",
    fill="jobs that cannot delay the head, first fit",
    source=f"{SOURCE}; order: priority/multifactor of Slurm",
    sorts=True,
    params=_PARAMS,
    memory=MEMORY,
    memory_f=MEMORY_F,
    facts=_facts,
    settable=("tried",),
)
def easy_multifactor(state):
    """Run EASY over the queue by multifactor priority.

    Promise: none; a head may lose its place to a job of higher priority.
    Cost: O(r + q log q) per pass, for r running and q waiting jobs.
    """
    arrange(state)
    backfill_behind_head(state)
    wake_for_period(state)


@policy(
    "first-fit",
    order=_BY,
    fill="jobs that fit, in order",
    source="algorithm without reservations; order: priority/multifactor of Slurm",
    sorts=True,
    params=_PARAMS,
    memory=MEMORY,
    memory_f=MEMORY_F,
    facts=_facts,
)
def first_fit_multifactor(state):
    """Start every job that fits, by multifactor priority.

    Cost: O(q log q) per pass.
    """
    arrange(state)
    start_all_that_fit(state)
    wake_for_period(state)


_reserve_for_k = kernel()(k_reservations.decide)


def _k_facts(params: Mapping[str, float], platform: Platform, jobs: Jobs | None, asked: Ints | None) -> Facts:
    """Return the same, with k before the parameters of the order."""
    found = _facts({name: params[name] for name in MINE}, platform, jobs, asked)
    return Facts(np.concatenate([[params["k"]], found.params]), found.memory)


@policy(
    "k-reservations",
    order=_BY,
    reserve="the first k jobs; recomputed at each pass",
    fill="jobs that delay none of them, first fit",
    source="Chiang, Arpaci-Dusseau and Vernon, JSSPP 2002; order: priority/multifactor of Slurm",
    sorts=True,
    params={**k_reservations.params, **_PARAMS},
    memory={**k_reservations.memory, **MEMORY},
    memory_f=MEMORY_F,
    facts=_k_facts,
    settable=("tried",),
)
def k_reservations_multifactor(state):
    """Reserve for the first k jobs of the queue by multifactor priority.

    Promise: none.
    Cost: O((r + q) log (r + q)) per pass.
    """
    arrange(state)
    _reserve_for_k(state)
    wake_for_period(state)


_OF = {each.name: each for each in (easy_multifactor, first_fit_multifactor, k_reservations_multifactor)}


def multifactor(policy: Policy) -> Policy:
    """Return a policy with the order `multifactor`. Raises UsageError if it has none."""
    if policy.name not in _OF or "order" not in policy.settable:
        raise UsageError(f"policy {policy.name} takes no order={MULTIFACTOR}; expected {', '.join(_OF)}")
    return _ordered(policy.name, policy.place, tuple(policy.given.items()))


@cache
def _ordered(name: str, place: str, given: tuple[tuple[str, str], ...]) -> Policy:
    return replace(_OF[name], place=place, given={**dict(given), "order": MULTIFACTOR})
