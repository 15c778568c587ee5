"""Blocks of a log: what values are made of, and the bootstrap of eight long blocks."""

import math

import numpy as np
import pytest

from backfill.analysis.blocks import BLOCKS, PARTS, Blocks, effective
from backfill.analysis.paired import values_of
from backfill.model.units import SECOND
from tests.analysis.days import DAY, log


def test_the_draws_are_the_same_on_every_machine():
    """The numbers of PCG64(SeedSequence(0)), whose stream numpy guarantees, written down once."""
    blocks = Blocks.of(np.arange(1000) * DAY, resamples=2)
    assert blocks.starts.shape == (BLOCKS, 2)
    assert blocks.starts[:3].tolist() == [[7, 25], [8, 5], [27, 22]]


def test_what_the_parts_of_a_log_add_to_a_metric_adds_up_to_the_metric():
    b, _ = log(7)
    blocks = Blocks.of(b.submit, resamples=3)
    wait, held = b.wait / SECOND, b.held / SECOND
    found = values_of(blocks, b)
    for name, of_jobs in (
        ("mean_wait_s", wait),
        ("mean_response_s", wait + held),
        ("mean_slowdown", (wait + held) / held),
        ("mean_bounded_slowdown", b.bounded_slowdown),
    ):
        value = found[name]
        assert value.value == pytest.approx(of_jobs.mean())
        assert value.pull.sum() == pytest.approx(0, abs=1e-9 * value.value)
        assert value.pull[3] * len(b) == pytest.approx((of_jobs - of_jobs.mean())[blocks.part == 3].sum())


def test_a_job_above_the_95th_percentile_moves_it_by_how_far_apart_waits_lie_there():
    blocks = Blocks.of(np.arange(1000) * DAY)
    value = blocks.p95(np.arange(1000.0))
    assert value.value == pytest.approx(949.05)
    assert value.sources == pytest.approx(50**2 / (14**2 + 18**2 + 18**2))  # the last 50 days
    assert value.pull.sum() == pytest.approx(0, abs=1e-9)
    # One day more above it, of 1000, moves it by a day.
    assert value.pull[0] == pytest.approx(-18 * 0.05, rel=0.01)
    assert value.pull[-2] == pytest.approx(18 * 0.95, rel=0.01)


@pytest.mark.parametrize(("period", "wider"), [(56, (1.15, 1.2)), (9, (1, 1))])
def test_the_interval_is_that_of_the_studentized_draws_and_wider_where_blocks_depend_on_each_other(period, wider):
    pull = np.cos(2 * np.pi * np.arange(56) / period)
    pull -= pull.mean()
    blocks = Blocks.of(np.arange(1120) * DAY)
    sums = np.array([pull[(start + np.arange(PARTS)) % 56].sum() for start in range(56)])
    drawn = sums[blocks.starts]
    errors = np.sort(drawn.sum(axis=0) / (drawn.std(axis=0, ddof=1) * math.sqrt(BLOCKS)))
    error = sums.std() * BLOCKS / math.sqrt(BLOCKS - 1)
    for found, without in zip(blocks.interval(pull), (-errors[1949] * error, -errors[50] * error), strict=True):
        assert wider[0] <= round(found / without, 9) <= wider[1]


def test_the_interval_of_the_difference_is_narrower_than_that_of_each():
    b, a = log(3)
    blocks = Blocks.of(b.submit)
    of_b, of_a = (values_of(blocks, each)["mean_wait_s"].pull for each in (b, a))
    both, *each = (-np.subtract(*blocks.interval(pull)) for pull in (of_a - of_b, of_a, of_b))
    assert both < 0.7 * math.hypot(*each)


def test_equal_amounts_count_one_each_and_a_great_one_hides_the_others():
    assert effective(np.ones(5)) == 5
    assert effective(np.array([3.0, -3, 0, 0])) == 2
    assert effective(np.array([100.0, 1, 1])) == pytest.approx(102**2 / 10_002)
    assert effective(np.zeros(3)) == 0
