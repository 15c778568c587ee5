"""The grid model: its streams, its sizes of gangs, its platform, and files of it."""

import numpy as np
import pytest

from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.traces.read import read
from backfill.traces.write import write
from backfill.workloads import generate
from backfill.workloads.grid import UNIFORM, grid


def test_streams_and_sizes_have_the_published_distributions():
    log = grid(40_000, local=10, gangs=2, seed=3)
    jobs, seconds = log.jobs, log.jobs.submit.max() / 1e6
    site, size = jobs.site.codes, jobs.tasks[log.jobs.site.codes < 0]
    assert [(site == each).sum() / seconds for each in (0, 1, -1)] == pytest.approx([10, 10, 2], rel=0.03)
    assert (jobs.tasks[site >= 0] == 1).all()
    assert np.unique(size).tolist() == [2, 4, 8, 16]
    assert size.mean() == pytest.approx(7.5, rel=0.03)
    assert (jobs.runtime / 1e6).mean() == pytest.approx(1, rel=0.02)
    assert (jobs.walltime == jobs.runtime).all()
    assert (np.diff(jobs.submit) >= 0).all()
    other = grid(20_000, gangs=5, sizes=UNIFORM, seed=3).jobs
    size = other.tasks[other.site.codes < 0]
    assert (size.min(), size.max(), size.mean()) == (2, 13, pytest.approx(7.5, rel=0.03))


def test_no_run_is_shorter_than_the_unit_of_time_and_much_shorter_means_are_refused():
    short = grid(20_000, service=1e-3).jobs
    assert short.runtime.min() == short.walltime.min() == 1
    assert short.runtime.mean() == pytest.approx(1000, rel=0.03)
    with pytest.raises(UsageError, match=r"grid: service is 1e-06; expected 0\.001 to 1e\+09"):
        grid(10, service=1e-6)


def test_weights_of_sizes():
    jobs = grid(20_000, gangs=10, sizes="16:1,2:3", seed=1).jobs
    size = jobs.tasks[jobs.site.codes < 0]
    assert (size == 2).mean() == pytest.approx(0.75, abs=0.02)


def test_a_site_is_nodes_of_one_cpu():
    log = generate("grid?jobs=100&sites=3&processors=6")
    platform = log.platform
    assert platform.sites == ("site1", "site2", "site3")
    assert (platform.capacity == 1).all()
    assert np.bincount(platform.site).tolist() == [6, 6, 6]
    assert platform.nodes[6] == "s2p1"


def test_tasks_that_end_one_by_one_are_jobs_of_a_project():
    whole, alone = grid(2000, seed=2), grid(2000, seed=2, per_task=1)
    project = alone.jobs.project.codes
    assert (alone.jobs.tasks == 1).all()
    assert np.bincount(project[project >= 0])[np.unique(project[project >= 0])].sum() == (project >= 0).sum()
    gang = whole.jobs.site.codes < 0
    counts = np.bincount(project[project >= 0], minlength=gang.sum())
    assert counts.tolist() == whole.jobs.tasks[gang].tolist()


def test_workloads_that_differ_in_one_argument_share_the_rest():
    one, other = grid(1000, seed=5), grid(1000, seed=5, sizes=UNIFORM)
    assert (one.jobs.submit == other.jobs.submit).all()
    assert (one.jobs.runtime == other.jobs.runtime).all()
    assert one.sha256 != other.sha256


@pytest.mark.parametrize("per_task", [0, 1])
def test_a_file_has_all_of_it(tmp_path, per_task):
    log = grid(300, per_task=per_task, coallocation_overhead=0.25, seed=1)
    write(log, tmp_path / "grid.csv")
    again = read(tmp_path / "grid.csv")
    for column in ("submit", "runtime", "walltime", "tasks"):
        assert (getattr(again.jobs, column) == getattr(log.jobs, column)).all()
    assert [again.jobs.site[i] for i in range(len(log))] == [log.jobs.site[i] for i in range(len(log))]
    assert [again.jobs.project[i] for i in range(len(log))] == [log.jobs.project[i] for i in range(len(log))]
    (tmp_path / "grid.toml").write_text(log.platform.to_toml(), encoding="utf-8")
    assert Platform.read(tmp_path / "grid.toml").sha256 == log.platform.sha256


def test_tasks_that_are_jobs_of_one_site_need_no_walltime_for_several():
    jobs = grid(300, per_task=1, coallocation_overhead=0.5, seed=1).jobs
    assert (jobs.walltime == jobs.runtime).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sites": 0}, r"grid: sites is 0; expected 1 to 1000$"),
        ({"local": 0, "gangs": 0}, r"grid: local and gangs are both 0"),
        ({"sizes": "2-"}, r"grid: sizes is '2-'; expected for instance 2-13"),
        ({"sizes": "2,2"}, r"expected different sizes from 1 to the 32 processors$"),
        ({"sizes": "1-99999999999"}, r"expected different sizes from 1 to the 32 processors$"),
        ({"sizes": "64"}, r"expected different sizes from 1 to the 32 processors$"),
        ({"sizes": "2:0,4"}, r"expected weights > 0$"),
        ({"seed": -1}, r"grid: seed is -1; expected a whole number >= 0$"),
        ({"local": 1e-6, "gangs": 0, "sites": 1, "jobs": 200_000}, r"the last job would come after"),
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        grid(**arguments)
