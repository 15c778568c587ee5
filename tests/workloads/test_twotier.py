"""The two-tier model: the published distributions, projects as a whole, one stream of numbers per attribute."""

import numpy as np
import pytest

from backfill.model.errors import UsageError
from backfill.workloads import generate
from backfill.workloads.twotier import two_tier


def test_attributes_have_the_published_distributions():
    log = two_tier(20_000, interarrival=80, seed=3)
    jobs, projects = log.jobs, log.jobs.project.codes
    sizes = np.bincount(projects)
    demands = jobs.demand[:, 1:]
    assert sizes.min() >= 1
    assert sizes.mean() == pytest.approx(4.6, abs=0.05)  # the whole part of normal(5, 2) that is at least 1
    assert (jobs.runtime / 1e6).mean() == pytest.approx(500, rel=0.02)
    assert (jobs.walltime == jobs.runtime).all()
    assert demands.mean() == pytest.approx(1.54, rel=0.01)
    assert (demands == 0).mean() == pytest.approx(0.39, abs=0.005)
    assert jobs.submit.max() / 1e6 / 20_000 == pytest.approx(80, rel=0.02)
    assert (log.platform.capacity[0, 1:] >= 20).all()
    assert (log.platform.capacity[0, 1:] <= 40).all()
    assert (demands <= log.platform.capacity[0, 1:]).all()


def test_a_project_is_submitted_as_a_whole_and_its_jobs_follow_each_other():
    jobs = two_tier(500, seed=1, high=0.3).jobs
    same = np.diff(jobs.project.codes) == 0
    assert (np.diff(jobs.project.codes) >= 0).all()
    assert (np.diff(jobs.submit)[same] == 0).all()
    assert (np.diff(jobs.priority)[same] == 0).all()
    assert jobs.job[:2].tolist() == ["1.1", "1.2"]
    high = jobs.priority[np.append(True, ~same)]
    assert high.mean() == pytest.approx(0.3, abs=0.06)


def test_workloads_that_differ_in_one_argument_share_the_rest():
    one, other = two_tier(300, seed=5), two_tier(300, seed=5, interarrival=10, high=0.5)
    assert (one.jobs.runtime == other.jobs.runtime).all()
    assert (one.jobs.demand == other.jobs.demand).all()
    assert np.allclose(one.jobs.submit, 16 * other.jobs.submit, atol=16)
    assert one.sha256 != other.sha256
    assert generate("two-tier?projects=300&seed=5").sha256 == one.sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"high": 1.5}, r"two-tier: high is 1.5; expected 0 to 1$"),
        ({"interarrival": 0}, r"two-tier: interarrival is 0; expected a finite number > 0$"),
        ({"least": 30, "largest": 20}, r"two-tier: largest is 20; expected 30 to"),
        ({"seed": -1}, r"two-tier: seed is -1; expected a whole number >= 0$"),
        ({"interarrival": 1e12}, r"the last project would come after"),
        ({"demand": 1e6, "largest": 21}, r"demands exceed the capacity; expected a smaller demand$"),
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        two_tier(10, **arguments)
