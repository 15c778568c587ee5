"""sprio, squeue --start, sdiag and reservations of a real 22.05 at one moment, and the model beside them."""

from pathlib import Path

import numpy as np
import pytest

from backfill.model.units import SECOND
from backfill.model.workload import SPREAD
from backfill.traces.files import Source
from backfill.traces.slurm_moment import read_reservations, read_sdiag, read_sprio, read_squeue
from backfill.traces.slurm_requests import as_requested, read_requests
from backfill.traces.slurm_site import read_slurm_site
from backfill.worlds.slurm_resync import Happened, planned_alike, ranked_alike, resynchronised
from backfill.worlds.slurm_story import reasons_alike

HERE = Path(__file__).parent / "slurm_moment"


def source_of(text: str) -> Source:
    return Source("dump", text.encode(), "")


@pytest.fixture(scope="module")
def site():
    return read_slurm_site(HERE)


def happened(read) -> Happened:
    logged = [read.requests.logged[str(job)] for job in read.requests.workload.jobs.job.tolist()]
    times = (np.array([getattr(each, name) for each in logged]) for name in ("start", "end"))
    return Happened(*times, [each.nodes for each in logged])


def test_the_model_ranks_the_jobs_as_sprio_does(site):
    ranked = {each.job: (each.priority, each.factors) for each in site.moment.ranked}
    now = site.moment.diagnosed.last_cycle
    found = ranked_alike(site.requests.workload, site.platform, {}, happened(site), ranked, now)
    for factor in ("association", "fair share", "partition", "QOS", "TRES", "nice"):
        assert (found.alike[f"sprio: {factor}"], found.total[f"sprio: {factor}"]) == (49, 49)
    # in an EXCLUSIVE partition three jobs came since the last period; one met its limit after nodes were looked for
    assert (found.alike["sprio: priority"], found.total["sprio: priority"]) == (45, 49)
    others = {each.job: ranked[each.job] for each in site.moment.ranked if each.partition != "whole"}
    found = ranked_alike(site.requests.workload, site.platform, {}, happened(site), others, now)
    assert (found.alike["sprio: priority"], found.total["sprio: priority"]) == (31, 31)
    wrong = {job: (priority + 2, factors) for job, (priority, factors) in ranked.items()}
    found = ranked_alike(site.requests.workload, site.platform, {}, happened(site), wrong, now)
    assert found.alike["sprio: priority"] == 0


def test_the_model_plans_the_starts_of_squeue(site):
    expected = {each.job: each.start for each in site.moment.expected if not each.reason.startswith(("QOS", "Assoc"))}
    now = site.moment.diagnosed.last_cycle
    found = planned_alike(site.requests.workload, site.platform, {}, happened(site), expected, now)
    assert (found.alike["squeue: start"], found.total["squeue: start"]) == (11, 11)
    other = planned_alike(site.requests.workload, site.platform, {"bf_resolution": 600}, happened(site), expected, now)
    assert other.alike["squeue: no plan"] + other.alike["squeue: start"] != sum(found.alike.values())


def test_the_model_gives_the_reasons_of_squeue(site):
    codes = {each.job: each.reason for each in site.moment.expected}
    now = site.moment.diagnosed.last_cycle
    found = reasons_alike(site.requests.workload, site.platform, {}, happened(site), codes, now)
    # the five others wait behind a block, and a limit would stop them, too
    assert (found.alike["squeue: reason"], found.total["squeue: reason"]) == (44, 49)
    assert all("Priority, in the model QOSMaxCpuPerUserLimit" in story for story in found.differences)
    assert {*codes.values()} == {"Priority", "Resources", "ReqNodeNotAvail", "QOSMaxCpuPerUserLimit",
                                 "QOSMaxJobsPerUserLimit"}  # fmt: skip


def test_the_dumps_of_a_moment_are_read_and_damaged_lines_named():
    (one,), _ = read_sprio(source_of("   3 whole root 4293 0 245 0 4000 125 10 0 143 cpu=56,mem=2\n"))
    assert (one.job, one.partition, one.priority) == ("3", "whole", 4293)
    assert one.factors == {"age": 245, "association": 0, "fair share": 4000, "job size": 125, "partition": 10, "QOS": 0,
                           "nice": 143, "TRES": 58}  # fmt: skip
    _, notes = read_sprio(source_of("   3 whole root\n   4 main ann x 0 1 2 3 4 5 6 7\n"))
    assert "dump:1: line is '3 whole root'" in notes[0]
    assert "dump:2: PRIORITY is 'x'" in " ".join(notes)
    rows, notes = read_squeue(source_of("7 N/A 12 (Resources)\n8 soon 3 Priority\n"))
    assert [(each.job, each.start, each.reason) for each in rows] == [("7", None, "Resources")]
    assert "dump:2: START_TIME is 'soon'" in notes[0]
    said, _ = read_sdiag(source_of((HERE / "sdiag.txt").read_text()))
    assert (said.mean_cycle_us, said.mean_tried, said.test_cost_ms) == (3102, 16, pytest.approx(0.194, abs=1e-3))
    said, notes = read_sdiag(source_of("Backfilling stats\n\tMean cycle: 5\n"))
    assert (said, "no 'Depth Mean (try depth)'" in notes[0]) == (None, True)
    (one,), _ = read_reservations(source_of((HERE / "scontrol-show-reservation.txt").read_text()))
    assert (one.name, one.nodes, one.end - one.begin) == ("root_1", ("n4",), 600 * SECOND)
    _, notes = read_reservations(source_of("ReservationName=a StartTime=now EndTime=2026-01-01T00:00:00 Nodes=n1\n"))
    assert "StartTime is 'now'" in notes[0]


def test_from_the_state_of_the_log_the_model_starts_what_the_log_starts():
    read = read_slurm_site(HERE.parent / "slurm_site")
    found = resynchronised(read.requests.workload, read.platform, {}, happened(read))
    assert (found.instants, found.logged) == (12, 53)
    assert found.both > 0.7 * found.logged
    assert found.errors_s[0] <= 2
    wrong = resynchronised(read.requests.workload, read.platform, {"bf_interval": 60}, happened(read))
    assert wrong.both < found.both


def test_jobs_of_a_log_ask_for_what_they_requested_and_what_is_left_out_is_counted(site):
    asked = site.requests
    jobs = asked.workload.jobs
    wrong = asked.workload.__class__(
        jobs.replace(tasks=jobs.tasks * 0 + 1, demand=jobs.demand * 2), name="log", resources=asked.workload.resources
    )
    again = as_requested(wrong, asked).jobs
    assert (again.tasks == jobs.tasks).all()
    assert (again.demand == jobs.demand).all()
    assert asked.left_out(licences=True) == ""
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|cpu=1|sbatch "
    rows = [f"1{line}-p a,b x", f"2_3{line}-n 1 x", f"4{line}-L lic:1 x", f"5{line}--nodelist=n1 x", f"6{line}x"]
    some = read_requests(source_of(head + "\n".join(rows) + "\n"))
    assert some.left_out(licences=True).startswith("20% of the jobs asked for what the model leaves out (")
    assert "licences 20%" in some.left_out(licences=False)


def test_options_in_a_script_are_those_of_reqtres():
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES"
    line = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|"
    tres = ["cpu=64,mem=64G,node=4", "cpu=6,mem=6G,node=1", "cpu=7,mem=7G,node=2"]
    plain = [f"{i}{line}{each}" for i, each in enumerate(tres)]
    for rows in (plain, [f"{row}|sbatch job.sh" for row in plain]):
        columns = head if rows is plain else f"{head}|SubmitLine"
        asked = read_requests(source_of("\n".join([columns, *rows]) + "\n"))
        jobs = asked.workload.jobs
        assert jobs.tasks.tolist() == [4, 6, 7]
        assert jobs.demand[:, 0].tolist() == [16, 1, 1]
        assert [SPREAD[code] for code in jobs.spread.tolist()] == ["distinct", "any", "any"]
        assert asked.nodes == {"0": (4, 0), "1": (1, 0), "2": (2, 0)}
