"""The model of a pool: a scheduler that is known is recovered, and one that no model has is not believed."""

import heapq
import json
import random
from dataclasses import replace

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import InputError
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.pool_report import Watched, fit_model, models_for, pool_report

CPUS = 64
POOL = bf.Platform.pool(CPUS)


def short_jobs(seed, jobs=400):
    """A workload of seconds and minutes, whose waits a second of dead time changes."""
    chance = np.random.default_rng(seed)
    log = bf.generate(f"lublin?jobs={jobs}&cpus={CPUS}&seed={seed}&load=0.9")
    runtime = np.maximum(log.jobs.runtime // 60, 2 * SECOND)
    walltime = np.maximum((runtime * chance.uniform(1, 3, len(log))).astype(np.int64), 5 * SECOND)
    table = log.jobs.replace(submit=log.jobs.submit // 60, runtime=runtime, walltime=walltime)
    return replace(log, jobs=table, platform=None)


def started_by(log, policy, dead=SECOND, noise=0.3, seed=1):
    """Return when jobs start on a pool with this scheduler, dead time, and dead times that vary (seconds)."""
    vary = (np.random.default_rng(seed).normal(0, noise, len(log)) * SECOND).astype(np.int64)
    held = log.with_dead_time(dead)
    held = held.with_jobs(held.jobs.replace(runtime=np.maximum(held.jobs.runtime + vary, 1)))
    return bf.simulate(held, POOL, policy, overrun="extend").schedule.start


def started_in_any_order(log, seed):
    """Return when jobs start if at each instant any waiting job that fits may be next."""
    chance = random.Random(seed)
    rows = sorted(range(len(log)), key=lambda row: log.jobs.submit[row])
    start, ends, waiting, free, now, came = np.zeros(len(log), np.int64), [], [], CPUS, 0, 0
    while came < len(rows) or waiting:
        upcoming = [int(log.jobs.submit[rows[came]])] if came < len(rows) else []
        now = min([*upcoming, *([ends[0][0]] if ends else [])])
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while came < len(rows) and log.jobs.submit[rows[came]] <= now:
            waiting.append(rows[came])
            came += 1
        while fits := [row for row in waiting if log.jobs.procs[row] <= free]:
            row = chance.choice(fits)
            waiting.remove(row)
            start[row] = now
            free -= int(log.jobs.procs[row])
            heapq.heappush(ends, (now + int(log.jobs.runtime[row]), int(log.jobs.procs[row])))
    return start


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_scheduler_and_its_dead_time_are_recovered(seed):
    log = short_jobs(seed)
    found = fit_model(Watched.of(log, POOL, started_by(log, "k-reservations:k=10", seed=seed)), models_for(log))
    assert found.conclusive, found.reasons
    assert abs(found.judged.relative) < 0.1
    assert found.model.dead_time == pytest.approx(SECOND, abs=SECOND / 4)
    assert found.model.policy.startswith("k-reservations")
    assert found.sentence.startswith(f"conclusive: {found.model.policy} with")


def test_without_a_dead_time_the_same_model_is_too_optimistic():
    log = short_jobs(5)
    watched = Watched.of(log, POOL, started_by(log, "easy", dead=4 * SECOND, noise=0))
    found = fit_model(watched, ["easy"])
    assert found.model.dead_time == 4 * SECOND
    assert found.judged.relative == 0
    without = bf.simulate(log, POOL, "easy", overrun="extend")
    seen = watched.observed
    assert (without.schedule.start[seen.rows] - seen.submit).mean() < 0.9 * (seen.start - seen.submit).mean()


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_scheduler_of_another_kind_is_not_conclusive(seed):
    log = short_jobs(seed)
    found = fit_model(Watched.of(log, POOL, started_in_any_order(log, seed)), models_for(log))
    assert not found.conclusive
    assert found.sentence.startswith("not conclusive: ")


@pytest.fixture(scope="module")
def reported():
    log = short_jobs(4)
    return pool_report(log, POOL, started_by(log, "easy"), ["easy-sjbf", "conservative"])


def test_the_same_observation_gives_the_same_bytes(reported):
    log = short_jobs(4)
    again = pool_report(log, POOL, started_by(log, "easy"), ["easy-sjbf", "conservative"])
    texts = [json.dumps(_timeless(one.to_dict()), sort_keys=True) for one in (reported, again)]
    assert texts[0] == texts[1]


def _timeless(told):
    """Without the time that simulations took."""
    for each in told["results"]:
        del each["elapsed_s"], each["jobs_per_s"]
    return told


def test_other_policies_are_compared_with_the_model_on_its_workload(reported):
    assert reported.comparison.names == ["easy", "easy-sjbf", "conservative"]
    told = reported.to_dict()
    assert told["fidelity"]["conclusive"]
    assert told["fidelity"]["model"]["policy"] == "easy"
    assert {each["options"]["dead_time_s"] for each in told["results"]} == {told["fidelity"]["model"]["dead_time_s"]}
    assert {(pair["a"], pair["b"]) for pair in told["pairs"]} >= {("easy-sjbf", "easy"), ("conservative", "easy")}
    (first, *_) = told["results"]
    assert first["replay"]["recorded_s"] == pytest.approx(first["replay"]["simulated_s"], rel=0.1)


def test_its_page_begins_with_fidelity_and_with_those_who_lose(reported, tmp_path):
    reported.report(tmp_path / "pool.html")
    page = (tmp_path / "pool.html").read_text()
    places = [page.index(f'id="{name}"') for name in ("fidelity", "losers", "summary", "differences")]
    assert places == sorted(places)
    assert page.count('id="losers"') == 1
    assert "Conclusive: easy with" in page


def test_a_page_of_a_model_that_is_not_conclusive_says_so_first(tmp_path):
    log = short_jobs(4)
    found = pool_report(log, POOL, started_in_any_order(log, 4), ["fcfs", "easy"])
    found.report(tmp_path / "pool.html")
    page = (tmp_path / "pool.html").read_text()
    assert page.index("Not conclusive.") < page.index('id="losers"')
    assert "does not start jobs as the pool does" in page
    assert any("the differences between policies may not hold on the pool" in note for note in found.to_dict()["notes"])


def arrays(**columns):
    return bf.Workload.from_arrays({"job": [*range(1, len(columns["submit"]) + 1)], **columns})


def test_jobs_that_ran_when_the_pool_was_seen_first_hold_their_nodes_and_judge_nothing():
    log = arrays(submit=[10, 10, 20], runtime=[40, 5, 5], procs=[4, 4, 4])
    watched = Watched.of(log, bf.Platform.pool(4), np.array([-20, 20, 25]) * SECOND)
    assert watched.running == 1
    assert watched.observed.rows.tolist() == [1, 2]
    result = bf.simulate(watched.workload, watched.platform, "fcfs")
    assert result.schedule.start.tolist() == [10 * SECOND - 1, 20 * SECOND - 1, 25 * SECOND - 1]


def test_a_job_that_waits_for_another_one_waits_from_the_end_of_that():
    log = arrays(submit=[0, 0], runtime=[40, 5], after=["", "1"])
    watched = Watched.of(log, bf.Platform.pool(4), np.array([0, 43]) * SECOND)
    assert (watched.observed.start - watched.observed.eligible).tolist() == [0, 3 * SECOND]


def test_nothing_is_said_of_a_pool_that_started_nothing():
    log = arrays(submit=[0, 0], runtime=[40, 5])
    with pytest.raises(InputError, match="no job was seen to start"):
        Watched.of(log, POOL, np.array([NO_TIME, NO_TIME]))


def test_a_job_that_ran_where_the_platform_has_no_room_is_told():
    log = arrays(submit=[0, 0], runtime=[40, 5], procs=[100, 1])
    watched = Watched.of(log, POOL, np.array([0, 0]))
    with pytest.raises(InputError, match="1 job of the pool cannot run on its platform; the first is 1"):
        fit_model(watched, ["easy"])


def test_policies_by_priority_are_tried_where_jobs_have_priorities():
    log = arrays(submit=[0, 0], runtime=[40, 5])
    assert "easy-priority" not in models_for(log)
    assert "easy-priority" in models_for(arrays(submit=[0, 0], runtime=[40, 5], priority=[1, 2]))
    assert models_for(log, ["best-fit", "easy"])[:2] == ["best-fit", "easy"]
    assert models_for(log, ["easy"]).count("easy") == 1
