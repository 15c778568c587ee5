import pytest

from backfill.data import SAMPLES
from backfill.model.errors import UsageError
from backfill.traces.read import read


def test_the_log_of_eagle_is_what_its_page_says():
    log = read("sample:eagle")
    jobs = log.jobs
    assert (len(log), log.name, log.dropped, log.resources) == (1000, "eagle-sample", {}, ("cpus",))
    assert (jobs.submit[0], jobs.submit.min(), jobs.procs.max()) == (0, 0, 12_960)
    assert (jobs.runtime >= jobs.walltime).sum() == 15
    assert (jobs.runtime - jobs.walltime).max() == 29 * 10**6
    assert sum(job.startswith("532939_") for job in jobs.job) == 452
    assert log.notes[1:-1] == ("run time longer than the walltime: 14 of 1,000 jobs",)


def test_the_pool_of_eagle_holds_every_job_and_is_busy_but_not_swamped():
    log = read("sample:eagle").at_load(5)
    held = log.jobs.procs * log.jobs.runtime.clip(max=log.jobs.walltime)
    offered = held.sum() / (log.jobs.submit.max() - log.jobs.submit.min()) / SAMPLES["eagle"].cpus
    assert log.jobs.procs.max() <= log.platform.cpus
    assert 0.7 < offered < 0.9


def test_the_log_of_the_training_cluster_is_what_its_page_says():
    log = read("sample:itp")
    jobs = log.jobs
    held = (jobs.procs * jobs.runtime).sum() / jobs.submit.max()
    assert (len(log), log.platform.cpus, jobs.procs.max()) == (5778, 112, 64)
    assert (jobs.submit[0], jobs.runtime.min()) == (0, 600 * 10**6)
    assert 86 <= held < 87
    assert 0.7 < held / log.platform.cpus < 0.8


def test_an_unknown_sample_is_named():
    with pytest.raises(UsageError, match="sample:kth is unknown; expected sample:itp or sample:eagle"):
        read("sample:kth")
