"""compare with other settings of a site's own Slurm: noise floor, jobs that lose, idle nodes, shares, slurm.conf."""

from pathlib import Path

import numpy as np
import pytest

from backfill import Workload, simulate
from backfill.analysis.settings import effect
from backfill.model.slurm_site import SlurmSite
from backfill.model.units import SECOND
from backfill.policies.slurm.conf import lines_of
from backfill.settings import windows_of
from backfill.traces.read import read
from backfill.traces.slurm_site import read_slurm_site
from backfill.worlds.options import Options
from backfill.worlds.slurm_idle import watched
from backfill.worlds.slurm_watch import Windows
from tests import schemas

SITE = Path(__file__).parents[1] / "traces" / "slurm_site"


def test_the_comparison_names_losers_groups_idle_nodes_and_the_line_of_slurm_conf(backfill, tmp_path):
    assert backfill("import", "sacct", str(SITE / "sacct.txt"), "--out", "jobs.csv").code == 0
    words = ["compare", "jobs.csv", "--site", str(SITE), "--policy", "slurm", "--policy", "slurm:bf_interval=-1"]
    done = backfill(*words, "--phases", "3", "--report", "out.html", "--json")
    assert done.code == 0
    told = schemas.check("compare", done.out)["settings"]
    (effect,) = told["effects"]
    assert (told["phases"], len(effect["changes_s"]), effect["clear"]) == (3, 3, True)
    assert effect["slurm_conf"] == ["SchedulerParameters=bf_interval=-1,bf_resolution=10,bf_continue"]
    delays = [each["later_s"] for each in effect["losers"]]
    assert delays == sorted(delays, reverse=True)
    assert {each["by"] for each in effect["groups"]} == {"account", "QOS", "partition", "size", "time limit"}
    with_plan, without = told["idle"]
    assert with_plan["node_hours"]["planned"] > 0
    assert "planned" not in without["node_hours"]
    assert without["node_hours"]["block"] > 0
    assert told["shares"][0]["accounts"] == ["bio", "physics"]
    page = (tmp_path / "out.html").read_text()
    assert "SchedulerParameters=bf_interval=-1,bf_resolution=10,bf_continue" in page
    done = backfill(*words, "--phases", "1")
    assert "one phase of the clocks has no noise floor" in " ".join(done.out.split())
    assert (
        "\nslurm:bf_interval=-1 in slurm.conf:\n  SchedulerParameters=bf_interval=-1,bf_resolution=10,bf_continue\n"
        in done.out
    )
    done = backfill(*words[:4], "--policy", "slurm", "--policy", "easy", "--phases", "2")
    assert (done.code, "--phases needs --site DIR" in done.err) == (2, True)


def test_idle_node_hours_of_all_causes_are_what_the_jobs_did_not_hold(backfill, tmp_path):
    assert backfill("import", "sacct", str(SITE / "sacct.txt"), "--out", "jobs.csv").code == 0
    platform = read_slurm_site(SITE).platform
    workload = read(tmp_path / "jobs.csv", resources=("memory",), machines=platform)
    result = simulate(workload, platform, "slurm")
    found = watched(workload, platform, {}, Options(), windows_of(result))
    schedule, ran = result.schedule, result.schedule.ran
    begin, end = schedule.submit.min(), schedule.end[ran].max()
    held = ((schedule.end - schedule.start)[ran] * _cpus(result)[ran]).sum() / 16
    assert found.idle.watched == 1.0
    assert found.idle.total == pytest.approx(((end - begin) * 4 - held) / 3.6e9)
    some = Windows(int(begin), 20 * SECOND, 6 * SECOND)
    sample = watched(workload, platform, {}, Options(), some)
    assert 0.2 < sample.idle.watched < 0.4
    assert sample.idle.total == pytest.approx(found.idle.total)
    assert sample.idle.node_hours != found.idle.node_hours
    assert (some.before(int(begin) + 26 * SECOND), some.before(int(begin) + 15 * SECOND)) == (12 * SECOND, 6 * SECOND)


@pytest.mark.parametrize(("params", "cause"), [({"bf_max_job_test": 1}, "depth"), ({"bf_window": 1}, "window")])
def test_a_cycle_that_ends_early_is_a_cause(backfill, tmp_path, params, cause):
    assert backfill("import", "sacct", str(SITE / "sacct.txt"), "--out", "jobs.csv").code == 0
    platform = read_slurm_site(SITE).platform
    workload = read(tmp_path / "jobs.csv", resources=("memory",), machines=platform)
    usual, other = (
        watched(workload, platform, given, Options(), Windows(0, 10**15, 10**15)).idle.node_hours
        for given in ({}, params)
    )
    assert other[cause] > usual.get(cause, 0.0)


def _cpus(result) -> np.ndarray:
    """The cpus that each job held: whole nodes, 16 cpus each, in the partition `whole`."""
    jobs = result.workload.jobs
    whole = np.array([jobs.partition[row] == "whole" for row in range(len(jobs))])
    return np.where(whole, 16, jobs.procs)


def test_an_effect_counts_only_beyond_the_distance_of_phases():
    jobs = {"job": ["a", "b", "c"], "submit": [0, 0, 0], "runtime": [1, 1, 1], "cpus": [1, 1, 1]}
    log = Workload.from_arrays({**jobs, "partition": ["x", "x", "y"]})
    before = [np.array([0, 10, 20]) * 1_000_000, np.array([0, 10, 26]) * 1_000_000]
    after = [np.array([0, 40, 24]) * 1_000_000, np.array([0, 40, 24]) * 1_000_000]
    found = effect(log, ("new", "old"), np.arange(3), before, after)
    assert found.changes_s == pytest.approx((34 / 3, 28 / 3))
    assert (found.floor_s, found.is_clear, found.later, found.earlier) == (pytest.approx(2), True, 1, 0)
    assert [(each.job, each.later_s, each.own_s) for each in found.losers] == [("b", 30, 0), ("c", 1, 6)]
    assert [(each.name, each.before_s, each.after_s, each.floor_s) for each in found.groups[:2]] == [
        ("x", 5, 20, 0),
        ("y", 23, 24, 6),
    ]
    assert not effect(log, ("new", "old"), np.arange(3), before, before[::-1]).is_clear


def test_the_line_of_slurm_conf_keeps_what_the_site_has():
    site = SlurmSite(config={"schedulerparameters": "bf_interval=60,BF_Window=1440,bf_continue"})
    assert lines_of(site, {"bf_window": 4320, "bf_continue": 0, "bf_max_job_test": 1000, "tick_phase": 0.5}) == [
        "SchedulerParameters=bf_interval=60,bf_window=4320,bf_max_job_test=1000"
    ]
    assert lines_of(site, {"PriorityDecayHalfLife": 20160, "PriorityWeightAge": 5}) == [
        "PriorityDecayHalfLife=14-00:00:00",
        "PriorityWeightAge=5",
    ]
    assert lines_of(SlurmSite(), {"bf_window": -2}) == []
