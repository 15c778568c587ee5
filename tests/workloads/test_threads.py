"""The model of jobs of threads: sizes, times, what comes after what, one stream of numbers per attribute."""

import numpy as np
import pytest

from backfill.model.errors import UsageError
from backfill.model.units import SECOND
from backfill.workloads import generate
from backfill.workloads.threads import threads


def test_attributes_have_the_distributions_that_were_taken():
    log = threads(20_000, seed=3)
    jobs, job = log.jobs, log.jobs.project.codes
    sizes = np.bincount(job)
    seconds = jobs.runtime / SECOND
    mean = np.bincount(job, seconds) / sizes
    assert (sizes.min(), sizes.max()) == (1, 16)
    assert sizes.mean() == pytest.approx(8.5, abs=0.1)
    assert mean.mean() == pytest.approx((1.76 + 35.2) / 2, rel=0.01)
    assert seconds.min() > 0.9 * 1.76 - 1e-6
    assert seconds.max() < 1.1 * 35.2 + 1e-6
    assert (jobs.walltime == jobs.runtime).all()
    assert (jobs.procs == 1).all()
    assert not jobs.submit.any()
    assert not len(jobs.after.items)
    assert log.platform.cpus == log.cpus == 128
    assert jobs.job[:2].tolist() == ["1.1", "1.2"]


def test_threads_come_after_earlier_threads_of_their_own_job():
    jobs = threads(5_000, seed=1, linked=0.5).jobs
    later = np.repeat(np.arange(len(jobs)), np.diff(jobs.after.first))
    assert (jobs.after.items < later).all()
    assert (jobs.project.codes[jobs.after.items] == jobs.project.codes[later]).all()
    first = np.diff(jobs.project.codes, prepend=-1) > 0
    assert len(later) / (~first).sum() == pytest.approx(0.5, abs=0.02)


def test_jobs_come_as_a_stream_where_that_is_wanted():
    jobs = threads(20_000, seed=1, interarrival=3).jobs
    assert jobs.submit.max() / SECOND / 20_000 == pytest.approx(3, rel=0.03)
    assert (np.diff(jobs.submit)[np.diff(jobs.project.codes) == 0] == 0).all()


def test_workloads_that_differ_in_one_argument_share_the_rest():
    one, other = threads(300, seed=5), threads(300, 64, seed=5, interarrival=10, linked=0.5)
    assert (one.jobs.runtime == other.jobs.runtime).all()
    assert one.sha256 != other.sha256
    assert generate("threads?jobs=300&seed=5").sha256 == one.sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 0}, r"threads: jobs is 0; expected 1 to 10000000$"),
        ({"most": 0}, r"threads: most is 0; expected 1 to 10000$"),
        ({"spread": 1.5}, r"threads: spread is 1.5; expected 0 to 1$"),
        ({"linked": -0.1}, r"threads: linked is -0.1; expected 0 to 1$"),
        ({"shortest": 9, "longest": 3}, r"threads: mean times are 9 to 3; expected 0 <= shortest <= longest$"),
        ({"interarrival": -1}, r"threads: interarrival is -1; expected a finite number >= 0$"),
        ({"interarrival": 1e12}, r"threads: the last job would end after 10\^11 s"),
        ({"seed": -1}, r"threads: seed is -1; expected a whole number >= 0$"),
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        threads(**arguments)
