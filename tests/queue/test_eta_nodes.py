"""When jobs start among nodes of several speeds, some of them out of service."""

import numpy as np
import pytest

from backfill.core.promises import NO_TIME
from backfill.queue.book import Job
from backfill.queue.forecast import Arrivals, live_on
from backfill.queue.whatif import estimates
from tests.queue.nodes import Nodes
from tests.queue.test_planner import SECOND


@pytest.mark.parametrize("seed", range(4))
def test_if_all_jobs_run_until_their_walltimes_reserved_starts_come_true(seed):
    queue = Nodes("conservative", seed).queue()
    starts, rows = queue.by_walltimes(), queue.planner.rows
    reserved = {job.id: queue.reserved(job.id) for job in queue.pending()}
    assert sum(start is not None for start in reserved.values()) > 3
    assert {number: int(starts[rows[number]]) for number in reserved if reserved[number]} == {
        number: start for number, start in reserved.items() if start
    }


@pytest.mark.parametrize("policy", ["easy", "conservative", "fcfs"])
def test_the_future_with_the_true_run_times_is_what_comes(policy):
    life, some = Nodes(policy, 3), 0
    planner = life.again()
    runtime = planner.state.jobs.walltime[: planner.jobs].copy()
    for number, row in planner.rows.items():
        runtime[row] = life.runtime[number]
    starts, now = live_on(planner, runtime, life.queue().links, life.now), life.now
    for number, start in life.drain().items():
        assert starts[planner.rows[number]] == start
        some += 1
    assert (starts[: planner.jobs] != NO_TIME).sum() == some > 3
    assert life.now > now


def test_estimates_of_jobs_among_nodes_are_in_order():
    queue = Nodes("conservative", 2).queue()
    rows = estimates(queue)
    assert len(rows) > 5
    known = [row for row in rows if row["median_s"] is not None]
    assert known
    for row in known:
        assert queue.now / 1e6 <= row["median_s"] <= row["p90_s"] <= row["guaranteed_s"]


def test_jobs_that_the_cluster_would_not_take_any_more_do_not_come_again():
    life = Nodes("easy", 1)
    some, now = [], life.now + 10_000 * SECOND
    for number in range(1, 41):
        gone = {"partition": "gone"} if number % 2 else {}
        some.append(
            Job(number, need={"cpus": 1}, walltime=60 * SECOND, submit=life.now + 250 * number * SECOND, **gone)
        )
    arrivals = Arrivals.of(some, now, life.planner)
    coming = arrivals.coming(np.random.default_rng(1), now, 5_000 * SECOND)
    assert arrivals.many == 20
    assert 0 < len(coming.jobs) < 20
