"""The farm model: the published distributions, one seed one farm, and no job that nobody can host."""

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import UsageError
from backfill.model.units import NEVER, SECOND
from backfill.workloads.farm import farm


def test_attributes_follow_the_published_distributions():
    log = farm(20_000, 2000, 20, seed=3)
    jobs, platform = log.jobs, log.platform
    assert platform.capacity[:, 0].min() == 1
    assert platform.capacity[:, 0].max() == 8
    assert (np.diff(platform.capacity[:, 0]) <= 0).all()
    assert platform.hosts.mean() == pytest.approx(0.9, abs=0.01)
    ratio = platform.copies / platform.hosts.sum(axis=0)
    assert (ratio > 0.49).all()
    assert (ratio <= 0.7).all()
    assert np.bincount(jobs.demand[:, 0])[1:] == pytest.approx(np.full(8, 2500), rel=0.1)
    assert np.diff(jobs.licences.first).mean() == pytest.approx(6, abs=0.1)
    assert (jobs.runtime.min(), jobs.runtime.max()) == (500 * SECOND, 3000 * SECOND)
    assert (jobs.runtime == jobs.walltime).all()
    assert np.diff(jobs.submit).mean() / SECOND == pytest.approx(12, rel=0.03)
    some = jobs.deadline < NEVER
    assert some.mean() == pytest.approx(0.7, abs=0.02)
    margin = (jobs.deadline - jobs.submit - jobs.runtime)[some] / SECOND
    assert (margin.min(), margin.max()) == (pytest.approx(30, abs=1), pytest.approx(250, abs=1))


def test_the_same_seed_gives_the_same_farm_and_another_seed_another():
    one, two, other = farm(seed=1), farm(seed=1), farm(seed=2)
    assert one.jobs.submit.tolist() == two.jobs.submit.tolist()
    assert one.platform.sha256 == two.platform.sha256
    assert one.sha256 == two.sha256 != other.sha256
    assert one.platform.sha256 != other.platform.sha256


def test_farms_that_differ_in_one_argument_share_all_else():
    calm, busy, percent = farm(interarrival=24), farm(interarrival=4), farm(interarrival=4, margin="percent")
    assert calm.jobs.submit / busy.jobs.submit == pytest.approx(np.full(1000, 6), rel=1e-6)
    assert calm.jobs.demand.tolist() == busy.jobs.demand.tolist()
    assert calm.platform.sha256 == busy.platform.sha256
    margin = busy.jobs.deadline - busy.jobs.submit - busy.jobs.runtime
    share = percent.jobs.deadline - percent.jobs.submit - percent.jobs.runtime
    some = busy.jobs.deadline < NEVER
    assert share[some] == pytest.approx(margin[some] / SECOND / 100 * busy.jobs.runtime[some], rel=1e-3)
    scarce = farm(ratio_low=0.1, ratio_high=0.2)
    assert scarce.platform.hosts.tolist() == busy.platform.hosts.tolist()
    assert (scarce.platform.copies < busy.platform.copies).all()


def test_every_job_can_run_somewhere():
    log = farm(2000, 5, 20, need=0.4, suitability=0.7)
    result = bf.simulate(log)
    assert result.metrics["rejected_jobs"] == 0
    assert result.verify() == []


def test_a_load_stretches_the_arrivals():
    log = farm(5000, load=0.9)
    asked = float((log.jobs.demand[:, 0] * log.jobs.runtime).sum())
    assert asked / (log.platform.cpus * log.jobs.submit.max()) == pytest.approx(0.9, rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("jobs=0", "jobs is 0; expected 1 to"),
        ("seed=-1", "seed is -1"),
        ("need=1.5", "need is 1.5; expected 0 to 1"),
        ("need=1&suitability=0", "after 1000 draws no machine can host"),
        ("interarrival=0", "interarrival is 0.0; expected a finite number > 0"),
        ("interarrival=4&load=1", "interarrival and load cannot be combined"),
        ("margin=days", "margin is 'days'; expected time or percent"),
        ("longest=3", "longest is 3; expected 500"),
        ("ratio_low=0.9", "expected ratio_low <= ratio_high"),
        ("interarrival=1e12", "the last job would come after 10\\^11 s"),
    ],
)
def test_arguments_out_of_their_bounds_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        bf.generate(f"farm?machines=3&{arguments}")


def test_replications_draw_a_farm_each():
    found = bf.compare("farm?jobs=80&machines=10", None, ["fcfs", "bf-fcfs"], replications=3)
    assert found.replicated[0][0] != found.replicated[0][1]
    alone = [bf.simulate(bf.generate(f"farm?jobs=80&machines=10&seed={r}"), policy="fcfs", seed=r) for r in range(3)]
    assert [each["out_deadline"] for each in found.replicated[0]] == [each.metrics["out_deadline"] for each in alone]
