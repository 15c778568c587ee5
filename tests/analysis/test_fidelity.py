"""How far a model is from observed starts, on numbers that can be counted by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis import fidelity
from backfill.analysis.fidelity import Fidelity, Model, Observed, against, fit, pairs_above
from backfill.model.units import SECOND
from backfill.model.workload import Labels

SMALL = st.integers(0, 8)


def observed(eligible, start, run=10, procs=1, user="ana"):
    """Jobs in seconds."""
    n = len(start)
    eligible, start = (np.array(each, np.int64) * SECOND for each in (eligible, start))
    users = [user] * n if isinstance(user, str) else user
    run, procs = np.broadcast_to(np.int64(run), n) * SECOND, np.broadcast_to(np.int64(procs), n)
    return Observed(np.arange(n), eligible, eligible, start, run, procs, Labels.of(users))


def against_them(jobs, start):
    return Fidelity.of(jobs, (jobs.eligible, np.array(start, np.int64) * SECOND))


@given(st.lists(st.tuples(SMALL, SMALL), max_size=12), st.lists(st.tuples(SMALL, SMALL), max_size=12))
def test_pairs_are_counted_as_they_would_be_one_by_one(some, others):
    (key_a, a), (key_b, b) = (np.array(each, np.int64).reshape(-1, 2).T for each in (some, others))
    expected = sum(x <= y and v > w for x, v in some for y, w in others)
    assert pairs_above(key_a, a, key_b, b) == expected


@given(st.lists(st.tuples(SMALL, SMALL, SMALL), min_size=2, max_size=12))
def test_pairs_in_order_are_those_that_no_scheduler_turned_round(rows):
    eligible, start, simulated = ([], [], [])
    for at, wait, then in rows:
        eligible.append(at)
        start.append(at + wait)
        simulated.append(then + at)
    found = against_them(observed(eligible, start), simulated)
    pairs = [*combinations(range(len(rows)), 2)]
    turned = {(i, j) for i, j in pairs if (start[i] - start[j]) * (simulated[i] - simulated[j]) < 0}
    assert found.in_order == pytest.approx(1 - len(turned) / len(pairs))
    both = [
        (i, j) for i, j in pairs if max(eligible[i], eligible[j]) < min(start[i], start[j])
        and start[i] > eligible[i] and start[j] > eligible[j]
    ]  # fmt: skip
    expected = None if not both else 1 - len(turned & {*both}) / len(both)
    assert found.chosen_in_order == (None if expected is None else pytest.approx(expected))


def test_means_errors_and_quantiles_are_those_of_the_jobs():
    found = against_them(observed([0, 0, 10, 10], [0, 4, 12, 20]), [0, 8, 12, 18])
    assert (found.jobs, found.waited) == (4, 3)
    assert found.observed_s == pytest.approx(16 / 4)
    assert found.simulated_s == pytest.approx(18 / 4)
    assert found.relative == pytest.approx(2 / 16)
    assert found.apart_s == pytest.approx(6 / 4)
    assert found.difference_s == pytest.approx(np.quantile([-2, 0, 0, 4], fidelity.QUANTILES))


def test_classes_have_the_waits_of_their_own_jobs():
    jobs = observed([0, 0, 0], [0, 10, 20], procs=[1, 4, 4], user=["ana", "bob", "bob"])
    found = {(each.by, each.label): each for each in against_them(jobs, [0, 10, 50]).classes}
    assert found["size", "1 cpu"].jobs == 1
    assert found["size", "2-8 cpus"].observed_s == 15
    assert found["size", "2-8 cpus"].simulated_s == 30
    assert found["user", "bob"].relative == pytest.approx(1.0)
    assert ("size", "9-64 cpus") not in found


def waiting(count, wait=100, every=20):
    """Jobs of which several always wait at one time."""
    at = np.arange(count) * every
    return observed(at, at + wait)


def test_a_model_that_starts_all_when_they_started_is_conclusive():
    jobs = waiting(60)
    found = against_them(jobs, jobs.start // SECOND)
    assert (found.in_order, found.chosen_in_order, found.score) == (1, 1, 0)
    assert against(found, found) == []


def test_too_few_jobs_say_nothing():
    few, many = waiting(fidelity.FEWEST - 1), waiting(60)
    found, fitted = against_them(few, few.start // SECOND), against_them(many, many.start // SECOND)
    (reason,) = against(found, fitted)
    assert "only 19 of the 19 jobs submitted in the second half waited" in reason


def test_a_mean_wait_that_is_far_off_is_told_with_its_causes():
    jobs = observed(np.arange(60) * 20, np.arange(60) * 20 + 100, procs=[16] * 10 + [1] * 50)
    late = jobs.start // SECOND
    late[:10] += 200
    found, good = against_them(jobs, late), against_them(jobs, jobs.start // SECOND)
    first, *causes = against(found, good)
    assert first == (
        "the simulated mean wait, 133.3 s, is 33.3% longer than the observed one, 100.0 s; a model may be 10% off"
    )
    told = "; ".join(causes)
    assert "only 60 were submitted in the second half" in told
    assert "jobs of 9-64 cpus are off most: they waited 100.0 s on average, in the simulation 300.0 s" in told


def test_long_jobs_that_dominate_are_named():
    jobs = observed(np.arange(100) * 20, np.arange(100) * 20 + 100, run=[10_000] * 5 + [10] * 95)
    off = against_them(jobs, jobs.start // SECOND + 50)
    assert "long jobs dominate: 5% of the jobs hold 98% of the processor time" in against(off, off)
    jobs = waiting(100)
    late = jobs.start // SECOND
    late[:5] += 1000
    off = against_them(jobs, late)
    assert "few jobs dominate: 5% of the jobs make 100% of all differences" in against(off, off)


def test_a_mean_that_agrees_by_chance_is_not_conclusive():
    jobs = waiting(200)
    shuffled = np.random.default_rng(1).permuted((jobs.start // SECOND).reshape(-1, 10), axis=1).ravel()
    found = against_them(jobs, shuffled)
    assert abs(found.relative) < 0.01
    (reason,) = against(found, found)
    assert "start in the observed order" in reason
    off, good = against_them(jobs, jobs.start // SECOND + 50), against_them(jobs, jobs.start // SECOND)
    (reason,) = against(good, off)
    assert reason.startswith("in the first half, by which the model was chosen, the simulated mean wait, 150.0 s")


def test_no_wait_in_reality_has_no_relative_error():
    jobs = observed(range(40), range(40))
    found = against_them(jobs, range(40))
    assert (found.relative, found.score, found.chosen_in_order) == (None, 0, None)
    assert "only 0 of the 40 jobs submitted in the second half waited" in against(found, found)[0]


def test_the_fit_finds_policy_dead_time_and_delay():
    truth = Model("b", 1_500_000, 500_000)
    at = np.arange(200, dtype=np.int64) * 30 * SECOND
    runs = np.full(200, 40 * SECOND)

    def waits(model):
        """Each job waits for the first look, most of them behind others, and under each policy behind other ones."""
        place = np.arange(200)
        queued = 8 * model.dead_time + place % (7 if model.policy == "a" else 3) * SECOND
        return at, at + model.delay + np.where(place % 4 == 0, 0, queued)

    _, start = waits(truth)
    users = Labels.of(["ana"] * 200)
    jobs = Observed(np.arange(200), at, at, start, runs, np.ones(200, np.int64), users)
    told = []
    found = fit(jobs, ["a", "b"], waits, lambda done, of: told.append((done, of)))
    assert (found.model.policy, found.model.delay) == ("b", 500_000)
    assert found.model.dead_time == pytest.approx(1_500_000, abs=60_000)
    assert (found.fitted.jobs, found.judged.jobs) == (100, 100)
    assert [model.policy for model, _ in found.tried] == ["b", "a"]
    assert told[-1][0] == told[-1][1]
    assert all(done <= of for done, of in told)


def test_the_judges_have_no_part_in_the_choice():
    """With the second half turned upside down the same model is chosen."""
    at = np.arange(200, dtype=np.int64) * 30 * SECOND

    def waits(model):
        return at, at + 5 * model.dead_time + np.arange(200) % 5 * SECOND

    _, start = waits(Model("a", SECOND))
    other = start.copy()
    other[100:] += 3600 * SECOND
    users = Labels.of(["ana"] * 200)
    args = np.full(200, 40 * SECOND), np.ones(200, np.int64), users
    one, two = (fit(Observed(np.arange(200), at, at, each, *args), ["a"], waits) for each in (start, other))
    assert one.model == two.model == Model("a", SECOND)
    assert one.fitted == two.fitted
    assert one.conclusive
    assert not two.conclusive


def test_numbers_of_an_empty_half_are_finite():
    jobs = observed([0], [5])
    found = fit(jobs, ["a"], lambda model: (jobs.eligible, jobs.start))
    assert found.judged.jobs == 0
    assert not found.conclusive
    told = found.to_dict()
    assert all(math.isfinite(value) for value in (told["judged"]["observed_s"], told["fitted"]["simulated_s"]))
