"""When jobs start among nodes of several speeds, some of them out of service."""

import numpy as np
import pytest

from backfill.answers import asked
from backfill.answers.whatif import estimates
from backfill.answers.whatif import test as tried
from backfill.core.plan.promises import NO_TIME
from backfill.queue.feed import begins_with
from backfill.queue.job import Job
from backfill.worlds.future import Arrivals, live_on
from backfill.worlds.live import Planner
from tests.queue.nodes import Nodes, possible, submit
from tests.queue.test_eta import ask
from tests.queue.test_planner import CLUSTER, SECOND, cluster, jobs_for_nodes
from tests.queue.virtual import Virtual
from tests.shares import seeds


@seeds(4, here=2)
def test_if_all_jobs_run_until_their_walltimes_reserved_starts_come_true(seed):
    queue = Nodes("conservative", seed).queue()
    starts, rows = queue.by_walltimes(), queue.planner.rows
    reserved = {job.id: queue.reserved(job.id) for job in queue.pending()}
    assert sum(start is not None for start in reserved.values()) > 1
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


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_job_that_is_only_tried_starts_as_if_it_were_submitted(policy, monkeypatch):
    monkeypatch.setattr(asked, "SAMPLES", 4)  # futures, which say nothing of now
    life, some = Nodes(policy, 2), {True: 0, False: 0}
    for number, _, _, facts in jobs_for_nodes(5, 20):
        job = Job(10_000 + number, **facts, name="job")
        if not possible([(number, 0, 1, facts)], life.planner):
            continue
        told = tried(life.queue(), [job.facts()])
        (row,) = told["jobs"]
        starts = life.starts(submit(10_000 + number, facts))
        assert told["at_once"] == (10_000 + number in starts)
        some[bool(told["at_once"])] += 1
        if policy == "conservative" and not told["at_once"] and row["guaranteed_s"] is not None:
            plan = {number: start for number, start, *_ in life.done["plan"]}
            assert row["guaranteed_s"] == plan[10_000 + number] / 1e6
    assert min(some.values()) > 0


def test_another_policy_goes_on_where_jobs_run_and_nodes_are_out_of_service(tmp_path):
    queue = Virtual(tmp_path, "conservative", platform=cluster(tmp_path, CLUSTER))
    queue.engine.set_capacity("m1", {"cpus": 0, "memory": 16, "abaqus": 2})
    queue.flush()
    big = [queue.submit(8, 600 + number, user="abc"[number % 3]) for number in range(9)]
    small = [queue.submit(4, 300, user="abc"[number % 3]) for number in range(9)]
    running = {run.job.id: run.attempt.nodes for run in queue.engine.book.runs()}
    assert 4 < len(running) < 15
    book = queue.engine.book
    epoch = {"policy": "easy-sjf", **begins_with(book), "now": queue.t}
    after = Planner("easy-sjf", epoch)
    after.decide(queue.t + 1, [])
    state = after.state
    active = state.runs.by_limit[: state.runs.active]
    held = state.runs.held[state.runs.first[active], 0]
    names = {after.ids[row]: after.platform.nodes[node] for row, node in zip(state.runs.job[active], held, strict=True)}
    assert names == {number: nodes[0][0] for number, nodes in running.items()}
    told = ask(queue, "switch", policy="easy-sjf", epoch=epoch)
    rows = {row["id"]: row for row in told["jobs"]}
    assert rows.keys() == {*big, *small} - running.keys()
    assert told["fall"]
    same = ask(queue, "switch", policy="conservative", epoch={**epoch, "policy": "conservative"})
    assert same["fall"] == []
    assert all(row["before"]["guaranteed_s"] == row["after"]["guaranteed_s"] for row in same["jobs"])
