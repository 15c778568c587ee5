"""A simulated cluster: what it says of jobs and nodes follows from what it is told, and from the seed."""

from pathlib import Path

import pytest

from backfill.pools.base import Decision, Given
from backfill.pools.fake import DAY, DOWN, FakePool
from backfill.queue.job import Attempt, Job, Run

SECOND = 1_000_000
NODES = {"a": {"cpus": 4}, "b": {"cpus": 4}, "": {"matlab": 1}}
STILL = {"speed": 1.0, "failures": 0.0, "repair": 3600.0, "foreign": 0.0, "seed": 0.0}


class Clock:
    """Stands where it is put."""

    def __init__(self, t=1_700_000_000 * SECOND):
        self.t = t

    def now(self):
        return self.t


def pool_of(clock, runtime=None, **settings):
    spec = {} if runtime is None else {"runtime": runtime}
    return FakePool(Given(Path("/"), NODES, clock.now, lambda job: spec, lambda: None), STILL | settings)


def run_on(node, clock, number=1, walltime=600, cause=""):
    job = Job(number, need={"cpus": 2}, walltime=walltime * SECOND)
    return Run(job, Attempt(1, clock.t, nodes=[[node, 1]], cause=cause))


def start(pool, *some):
    pool.start([Decision(run.job, run.attempt, {}) for run in some])


def verdicts(seen):
    return [
        (one.job, one.verdict.kind, one.verdict.record.get("cause"), one.verdict.record.get("at"))
        for one in seen.attempts
    ]


@pytest.mark.parametrize(("runtime", "cause", "lasts"), [(100, None, 100), (700, "limit", 600), (600, None, 600)])
def test_a_job_runs_for_its_run_time_and_never_longer_than_its_walltime(runtime, cause, lasts):
    clock = Clock()
    pool, begin = pool_of(clock, runtime * SECOND), clock.t
    run = run_on("a", clock)
    start(pool, run)
    assert verdicts(pool.read(())) == [(1, "alive", None, None)]
    assert pool.news_at() == begin + lasts * SECOND
    clock.t = begin + lasts * SECOND - 1
    assert verdicts(pool.read([run])) == []
    clock.t = begin + 5000 * SECOND  # the daemon was slow
    assert verdicts(pool.read(())) == [(1, "ended", cause, begin + lasts * SECOND)]


def test_a_job_that_is_started_twice_runs_once():
    clock = Clock()
    pool, run = pool_of(clock, 100 * SECOND), run_on("a", clock)
    for _ in range(2):
        start(pool, run)
        pool.read([run])
    clock.t += 200 * SECOND
    assert [kind for _, kind, *_ in verdicts(pool.read(()))] == ["ended"]
    start(pool, *(run_on("a", clock, number) for number in (2, 3)))  # 2 cpus each: no more is held
    assert not [run for run in pool.read(()).foreign if run.nodes[0][0] == "a"]


def test_another_daemon_finds_the_same_run():
    clock = Clock()
    runs = [run_on("a", clock, number) for number in range(1, 30)]
    ends = []
    for pool in (pool_of(clock), pool_of(clock)):
        pool.read(runs)
        clock.t += DAY
        ends.append(verdicts(pool.read(()))[-29:])
        clock.t -= DAY
    assert ends[0] == ends[1]
    spans = [end - clock.t for *_, end in ends[0]]
    assert len(set(spans)) == 29
    assert min(spans) >= 30 * SECOND
    assert max(spans) <= 600 * SECOND


def test_a_job_that_is_stopped_ends_at_once_and_for_that_reason():
    clock = Clock()
    pool = pool_of(clock)
    run = run_on("a", clock, cause="cancel")
    pool.read([run])
    clock.t += 5 * SECOND
    pool.stop([run])
    pool.stop([run])  # again is harmless
    assert {*verdicts(pool.read(()))} == {(1, "ended", "cancel", clock.t)}
    assert pool.news_at() > clock.t + DAY


def test_nodes_fail_and_come_back_and_lose_what_runs_on_them():
    clock = Clock()
    begin, lost, told, alive = clock.t, set(), {"a": "", "b": ""}, {}
    pool = pool_of(clock, 300 * DAY, failures=0.5, repair=7200.0)
    changes = 0
    while clock.t < begin + 60 * DAY:
        for name in NODES:
            if name and not told[name] and name not in alive.values():
                number = changes * 2 + (name == "b") + 1
                alive[number] = name
                start(pool, run_on(name, clock, number, walltime=400 * 86_400))
        clock.t = max(pool.news_at(), clock.t + 1)
        seen = pool.read(())
        for node in seen.nodes:
            changes += node.reason != told[node.name]
            told[node.name] = node.reason
            assert node.there == ({"cpus": 0} if node.reason == DOWN else NODES[node.name])
        for one in seen.attempts:
            if one.verdict.kind == "unknown":
                assert told[alive.pop(one.job)] == DOWN
                lost.add(one.job)
    assert len(lost) == pytest.approx(60, abs=25)  # half a failure for each node and day
    other = pool_of(clock, failures=0.5, repair=7200.0)
    assert {node.name: node.reason for node in other.read(()).nodes} == told  # for another daemon as well


def test_others_start_jobs_where_a_cpu_is_to_spare():
    clock = Clock()
    pool = pool_of(clock, 10 * DAY, foreign=24.0)
    begin, found = clock.t, []
    pool.read([run_on("a", clock, number, walltime=20 * 86_400) for number in (1, 2)])  # node a is full
    while clock.t < begin + 10 * DAY:
        clock.t = pool.news_at()
        found += pool.read(()).foreign
    assert len(found) == pytest.approx(240, abs=60)
    assert {run.nodes[0][0] for run in found} == {"b"}
