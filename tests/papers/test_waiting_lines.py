"""Sites without gangs against queueing theory: M/M/1, the chain of two queues, and bounds for sixteen.

Every mean is that of independent replications, and its 95% interval is what is compared.
"""

from bisect import bisect_left, bisect_right
from random import Random

import numpy as np
import pytest

from backfill.analysis.interval import Estimate
from backfill.api import simulate
from backfill.papers.grid_runs import mser_5
from backfill.papers.waiting_lines import draws, join_shortest_queue, mean_wait
from backfill.workloads.grid import grid

WARMUP = 1_000  # of the jobs of each site


def waits(replications, jobs, processors, local):
    """The mean wait at each of two sites in each replication, in s: shape (replications, 2)."""
    found = []
    for seed in range(replications):
        log = grid(jobs, processors=processors, local=local, gangs=0, seed=seed)
        schedule = simulate(log, policy="gang-site", seed=seed).schedule
        wait = (schedule.start - log.jobs.submit) / 1e6
        found.append([wait[log.jobs.site.codes == site][WARMUP:].mean() for site in range(2)])
    return np.array(found)


def test_erlangs_formula_for_one_server_and_for_two():
    assert mean_wait(0.5, 1, 1) == pytest.approx(1)
    assert mean_wait(1, 1, 2) == pytest.approx(1 / 3)


def test_one_server_is_a_queue_in_order_of_arrival():
    assert join_shortest_queue([0, 1, 2], [5, 1, 4], [0] * 3, [1], draws(0, 3)) == [0, 4, 4]
    assert join_shortest_queue([0, 1, 2, 3], [5, 5, 1, 1], [0] * 4, [2], draws(0, 4))[:2] == [0, 0]
    assert join_shortest_queue([0, 0, 1], [5, 1, 1], [0, 1, 0], [1, 1], draws(0, 3)) == [0, 0, 4]


@pytest.mark.parametrize("load", [pytest.param(0.5, marks=pytest.mark.long), 0.7])
def test_a_site_of_one_processor_is_m_m_1(load):
    """Wait load / (1 - load) and response 1 / (1 - load), as the mean service is 1 s."""
    found = Estimate.of(waits(30, 12_000, 1, load).mean(axis=1).tolist())
    wait = load / (1 - load)
    assert found.low < wait < found.high
    assert found.high - found.low < 0.1 * wait
    assert found.low + 1 < 1 / (1 - load) < found.high + 1


def two_queues(rate, longest=40):
    """The mean wait of two exponential servers of rate 1 whose shorter queue is joined: the chain of both lengths."""
    size = longest + 1
    flow = np.zeros((size * size, size * size))
    for a in range(size):
        for b in range(size):
            state, to = a * size + b, []
            least = min(a, b)
            shorter = [(a + (a == least), b)] if a < b else [(a, b + 1)] if b < a else [(a + 1, b), (a, b + 1)]
            to += [(x, y, rate / len(shorter)) for x, y in shorter if max(x, y) <= longest]
            to += [(a - 1, b, 1)] * (a > 0) + [(a, b - 1, 1)] * (b > 0)
            for x, y, speed in to:
                flow[state, x * size + y] += speed
                flow[state, state] -= speed
    flow[:, 0] = 1
    share = np.linalg.solve(flow.T, np.eye(size * size)[0]).reshape(size, size)
    waiting = np.maximum(np.arange(size) - 1, 0)
    return float((share * (waiting[:, None] + waiting)).sum() / rate)  # Little's law


def test_two_processors_are_two_queues_of_which_the_shorter_is_joined():
    expected, one_queue = two_queues(1.4, 25), mean_wait(1.4, 1, 2)
    found = Estimate.of(waits(30, 12_000, 2, 1.4).mean(axis=1).tolist())
    assert expected > 1.1 * one_queue  # so that the two can be told apart
    assert found.low < expected < found.high
    assert found.high - found.low < 0.1 * expected


def chain_of_lengths(rate, servers, steps, seed):
    """The mean wait where the shortest queue is joined, from the chain of all lengths: no job has a service time here.

    In each state the expected time until the next step is counted.
    """
    random, lengths = Random(seed), [0] * servers  # ascending
    area = time = 0.0
    for step in range(steps):
        busy = servers - bisect_right(lengths, 0)
        if step > steps // 10:
            time += 1 / (rate + busy)
            area += (sum(lengths) - busy) / (rate + busy)
        if random.random() * (rate + busy) < rate:
            lengths[bisect_right(lengths, lengths[0]) - 1] += 1
        else:
            at = servers - busy + int(random.random() * busy)
            lengths[bisect_left(lengths, lengths[at])] -= 1
    return area / time / rate


@pytest.mark.parametrize("local", [pytest.param(11, marks=pytest.mark.long), 13])
def test_sixteen_processors_are_queues_of_which_the_shortest_is_joined(local):
    """Both sites for themselves; and between one queue for all, in which no server is idle while somebody waits, and
    a queue for each that is drawn by lot: with exponential services joining the shortest is best among all rules that
    do not know them (Winston, J. Appl. Prob. 14, 1977).
    """
    found = waits(12, 24_000, 16, local)
    reference = Estimate.of([chain_of_lengths(local, 16, 60_000, seed) for seed in range(12)])
    for site in range(2):
        mine = Estimate.of(found[:, site].tolist())
        apart = mine.less(reference)
        assert apart.low < 0 < apart.high
        assert apart.high - apart.low < 0.25 * reference.mean
        assert mean_wait(local, 1, 16) < mine.low
        assert mine.high < mean_wait(local / 16, 1, 1)


def test_sites_do_not_disturb_each_other():
    """Without ties nothing is drawn, and a site does what it does alone."""
    log = grid(3000, processors=1, local=0.8, gangs=0, seed=5)
    both = simulate(log, policy="gang-span").schedule.start
    for site in range(2):
        rows = np.flatnonzero(log.jobs.site.codes == site)
        alone = simulate(log.with_jobs(log.jobs.take(rows)), log.platform, policy="gang-span").schedule.start
        assert (alone == both[rows]).all()


def test_mser_5_leaves_out_what_is_unlike_the_rest():
    rest = np.random.default_rng(1).normal(5, 1, 5000)
    assert mser_5(rest) < 500
    assert 400 <= mser_5(np.concatenate([np.linspace(0, 5, 500), rest])) < 700
    assert mser_5(np.arange(100.0)) == 50  # it never settles: half of it is the most that is left out
