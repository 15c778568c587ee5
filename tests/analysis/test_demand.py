"""How much the work of one log tells about other logs of the same users."""

import math

import numpy as np
import pytest

from backfill.analysis.demand import Demand
from backfill.model.units import SECOND

DAY = 86_400 * SECOND


def even(jobs: int, seed: int = 0):
    """Poisson arrivals of equal jobs for 100 days."""
    return np.sort(np.random.default_rng(seed).integers(0, 100 * DAY, jobs))


def demand(submit, work, run=None, cpus=0) -> Demand:
    return Demand.of(submit, np.asarray(work, np.float64), np.ones(len(submit)) if run is None else run, cpus)


def test_equal_jobs_at_random_instants_are_nearly_as_many_bursts_as_jobs():
    found = np.array([demand(even(4000, seed), np.ones(4000)).bursts for seed in range(20)])
    assert 1500 < np.median(found) <= 4000
    assert (found <= 4000).all()


@pytest.mark.parametrize("size", [5, 20])
def test_batches_are_bursts_and_not_their_jobs(size):
    found = [demand(np.repeat(even(4000 // size, seed), size), np.ones(4000)).bursts for seed in range(20)]
    assert 0.35 * 4000 / size < np.median(found) <= 1.05 * 4000 / size


def test_jobs_of_a_session_spread_over_hours_are_one_burst():
    """They are hours apart, and the log is cut into 128 blocks of 19 hours and fewer."""
    random = np.random.default_rng(1)
    submit = np.sort(np.repeat(even(100), 40) + random.integers(0, DAY // 6, 4000))
    assert 30 < demand(submit, np.ones(4000)).bursts < 110


def test_a_user_who_works_every_other_month_makes_few_bursts():
    random = np.random.default_rng(2)
    submit = np.sort(random.integers(0, 50 * DAY, 4000))
    assert demand(submit // (25 * DAY) * 25 * DAY + submit, np.ones(4000)).bursts < 20


def test_a_job_with_half_of_the_work_is_nearly_all_there_is():
    work = np.ones(1001)
    work[500] = 1000
    assert demand(np.arange(1001) * DAY, work).bursts == pytest.approx(2000**2 / (1000**2 + 1000), rel=0.1)


def test_the_tail_is_the_exponent_of_a_pareto_distribution():
    run = 60 * SECOND * np.random.default_rng(1).random(100_000) ** (-1 / 1.5)
    assert demand(even(100_000), run, run).tail == pytest.approx(1.5, rel=0.1)
    assert demand(even(100), np.ones(100)).tail == math.inf  # equal run times


def test_run_times_that_reach_a_limit_have_no_heavy_tail():
    run = 60 * SECOND * np.random.default_rng(1).random(10_000) ** (-1 / 1.2)
    assert demand(even(10_000), run, run).tail == pytest.approx(1.2, rel=0.15)
    assert demand(even(10_000), run, np.minimum(run, np.sort(run)[-100])).tail > 10


def test_jobs_of_no_processor_count_alike():
    assert demand(even(4000), np.zeros(4000)).bursts == demand(even(4000), np.ones(4000)).bursts


def test_a_heavy_tail_adds_to_the_error_of_the_load():
    assert Demand(bursts=100.0, tail=3.0).sway == pytest.approx(0.1)
    assert Demand(bursts=100.0, tail=2.0).sway == pytest.approx(0.1 * 1.5)


def test_a_higher_load_makes_waits_longer_by_more_where_less_of_the_machine_can_be_used():
    """The load is 0.6, and 0.72 two standard errors higher."""
    found = Demand(bursts=100.0, tail=3.0, load=0.6).rises([1.0, 0.8])
    assert found == [pytest.approx(math.log(0.4 / 0.28)), pytest.approx(math.log(0.2 / 0.08))]
    assert Demand(bursts=100.0, tail=3.0, load=0.0).rises([1.0, 0.8]) == [0, 0]


def test_a_queue_that_grows_without_end_at_the_higher_load_has_a_limit():
    """Without the limit its wait would have none, nor would there be one for the other policy."""
    assert Demand(bursts=100.0, tail=3.0, load=0.7).rises([1.0, 0.8]) == [
        pytest.approx(math.log(0.3 / 0.208)),
        pytest.approx(math.log(0.1 / 0.008)),
    ]
    assert Demand(bursts=100.0, tail=3.0, load=0.85).rises([1.0, 0.8]) == [0, 0]


def test_the_load_is_that_of_the_span_of_the_submits():
    submit = np.arange(101) * SECOND
    assert demand(submit, np.full(101, 8 * SECOND), cpus=16).load == pytest.approx(101 * 8 / (16 * 100))
