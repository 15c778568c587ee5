from backfill.data import EAGLE, EAGLE_CPUS, EAGLE_LOAD
from backfill.traces.read import read


def test_the_bundled_log_is_what_its_page_says():
    log = read(EAGLE)
    jobs = log.jobs
    assert (len(log), log.name, log.dropped, log.resources) == (1000, "eagle-sample", {}, ("cpus",))
    assert (jobs.submit[0], jobs.submit.min(), jobs.procs.max()) == (0, 0, 12_960)
    assert (jobs.runtime >= jobs.walltime).sum() == 15
    assert (jobs.runtime - jobs.walltime).max() == 29 * 10**6
    assert sum(job.startswith("532939_") for job in jobs.job) == 452
    assert log.notes == ("ran longer than the walltime: 14 of 1,000 jobs",)


def test_the_pool_of_the_demo_holds_every_job_and_is_busy_but_not_swamped():
    log = read(EAGLE).at_load(EAGLE_LOAD)
    held = log.jobs.procs * log.jobs.runtime.clip(max=log.jobs.walltime)
    offered = held.sum() / (log.jobs.submit.max() - log.jobs.submit.min()) / EAGLE_CPUS
    assert log.jobs.procs.max() <= EAGLE_CPUS
    assert 0.7 < offered < 0.9
