"""Backfilling with K resources by hand: the scores of formula (1), the test (2), and who starts."""

import numpy as np
import pytest

from backfill.core.errors import NONE
from backfill.core.setup import state_of
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs
from backfill.policies import get
from backfill.policies.balance import balance_score
from tests import compiled
from tests.reference.words import Job
from tests.reference.words import Platform as Pool
from tests.reference.world import POLICIES, run


def scores(used, demands, capacity=10, fullness=True):
    """BB beside each job on a pool of so much of every resource; NONE for what is used now."""
    k, n = len(used), len(demands)
    jobs = Jobs(
        job=np.arange(n),
        submit=np.zeros(n, np.int64),
        runtime=np.full(n, SECOND),
        walltime=np.full(n, SECOND),
        demand=np.array(demands, np.int64),
    )
    names = ("cpus", *(f"r{i}" for i in range(1, k)))
    pool = Platform(
        nodes=("pool",), resources=names, capacity=np.full((1, k), capacity), speed=np.ones(1), site=np.zeros(1, int)
    )
    policy = get("bb").like("plain", compiled=False)
    state = state_of(jobs, pool, policy, policy.values({}), estimate=jobs.walltime)
    share, there = np.array(used, float) / capacity, np.full(k, float(capacity))
    return [balance_score(state, there, share, job, fullness) for job in [*range(n), NONE]]


def test_the_scores_of_a_half_full_machine():
    """The check of the reconstruction: the larger, worse balanced job wins because it nearly fills the machine."""
    assert scores([5, 5], [(1, 1), (5, 4), (3, 0)]) == pytest.approx(
        [0.4, 0.052631578947368, 0.430769230769231, 0.5], abs=1e-12
    )
    assert scores([5, 5], [(1, 1), (5, 4), (3, 0)], fullness=False) == pytest.approx(
        [1, 1 / 0.95, 0.8 / 0.65, 1], abs=1e-12
    )


def test_nothing_used_scores_1_and_one_resource_scores_what_is_left():
    assert scores([0, 0], [(0, 0)]) == [1, 1]
    assert scores([4], [(2,), (6,)]) == pytest.approx([0.4, 0, 0.6], abs=1e-12)
    assert scores([0, 0], [(0, 0)], fullness=False) == [1, 1]


POOL = Pool.pool(10, 10)
# The head h (10 cpus) waits for a until 100 s; the others end by then, so that whoever fits is a candidate.
RUNS = ("a", 0, 100, (5, 5))
HEAD = ("h", 0, 100, (10, 1))


def starts(policy, *others):
    rows = [RUNS, HEAD, *others]
    jobs = [
        Job(row=i, name=name, submit=s * SECOND, runtime=r * SECOND, walltime=r * SECOND, demand=d)
        for i, (name, s, r, d) in enumerate(rows)
    ]
    found = compiled.run(jobs, POOL, policy)
    assert found == run(jobs, POOL, POLICIES[policy])
    return {row.name: row.start // SECOND for row in found if row.name not in "ah"}


SMALL, LARGE, LOPSIDED = ("s", 1, 40, (1, 1)), ("l", 1, 50, (5, 4)), ("x", 1, 45, (3, 0))


def test_bb_starts_the_least_score_first_and_one_per_event():
    """l scores 0.05, s 0.40, x 0.43. Nothing fits beside l; at its end s goes first, and x is too late then."""
    assert starts("bb", SMALL, LOPSIDED, LARGE) == {"l": 1, "s": 51, "x": 200}
    assert starts("bb:per_event=until_empty", SMALL, LOPSIDED, LARGE) == {"l": 1, "s": 51, "x": 51}


def test_backfill_lowest_fills_the_resource_used_least():
    """Both are used half: the first, cpus, counts as the lowest. Then memory is."""
    wide, deep = ("w", 1, 50, (3, 1)), ("d", 1, 50, (1, 4))
    assert starts("backfill-lowest", deep, wide, SMALL) == {"w": 1, "d": 1, "s": 51}
    assert starts("backfill-lowest", ("m", 1, 50, (1, 2)), ("n", 1, 45, (2, 1)), wide) == {"w": 1, "m": 1, "n": 51}


def test_ibb_lets_pass_who_does_not_worsen_the_balance():
    """BB is 0.5 with a alone: x (0.43) passes by fullness, and by balance alone it does not."""
    assert starts("ibb", LOPSIDED, SMALL) == {"x": 1, "s": 1}
    assert starts("ibb:test=balance", LOPSIDED, SMALL) == {"x": 200, "s": 1}


def test_best_fit_takes_the_first_or_the_largest_and_nobody_is_promised_anything():
    late = ("z", 1, 500, (2, 2))
    assert starts("best-fit", SMALL, late, LARGE)["z"] == 1
    assert starts("best-fit:fit=tightest", SMALL, late, LARGE) == {"l": 1, "s": 51, "z": 51}
