"""sprio, squeue --start, sdiag and reservations of a real 22.05 at one moment, and the model beside them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backfill.model.platform import Platform
from backfill.model.slurm_site import SlurmSite
from backfill.model.units import SECOND
from backfill.model.workload import SPREAD
from backfill.traces.files import Source
from backfill.traces.slurm_moment import read_reservations, read_sdiag, read_sprio, read_squeue
from backfill.traces.slurm_requests import as_requested, read_requests
from backfill.traces.slurm_site import read_slurm_site
from backfill.worlds.slurm_resync import Happened, Window, planned_alike, ranked_alike, resynchronised
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
    # one has met its limit in an earlier cycle, which no dump tells
    assert (found.alike["squeue: reason"], found.total["squeue: reason"]) == (46, 49), found.differences
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


def test_in_resynchronised_hours_no_job_starts_that_would_run_into_a_reservation():
    read = read_slurm_site(HERE.parent / "slurm_site")
    known, log = (read.requests.workload, read.platform, {}), happened(read)
    busy = int(np.median(log.start[log.start > 0]))
    free = resynchronised(*known, log)
    later = Window(busy, busy + 3600 * SECOND, tuple(read.platform.nodes))
    closed = resynchronised(*known, replace(log, reserved=[later]))
    assert closed.both < free.both, "most jobs would run into it"
    assert closed.model - closed.both <= free.model - free.both
    past = Window(1, busy - 86_400 * SECOND, tuple(read.platform.nodes))
    assert resynchronised(*known, replace(log, reserved=[past])) == free


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
    rows = [
        f"1{line}-p a,b x",
        f"2_3{line}--switches=1 x",
        f"4{line}-L lic:1 x",
        f"5{line}--nodelist=n1 x",
        f"6{line}x",
    ]
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


def test_damaged_requests_are_named_and_left_out():
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|"
    rows = [
        f"1{line}cpu=zz|",
        f"2{line}cpu=1|sbatch --mem=much x",
        f"3{line}cpu=1|sbatch - -n 2",
        f"4{line[:-2]}x|cpu=1|",
    ]
    asked = read_requests(source_of(head + "\n".join(rows) + "\n"))
    assert asked.workload.jobs.job.tolist() == ["3"]
    assert [
        note.split(": ", 2)[2] if note.startswith("broken") else note.split(": ", 1)[1] for note in asked.notes
    ] == [
        "ReqTRES is 'cpu=zz'; expected amounts such as cpu=8,mem=32G",
        "memory is 'much'; expected an amount such as 4G",
        "Timelimit is '01:00:0x'; expected a span such as 1-02:03:04",
    ]


def test_tasks_of_an_array_that_wait_together_are_jobs():
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|cpu=1|sbatch"
    asked = read_requests(
        source_of(head + f"7_[2-4,9%2]{line} --array=1-9%2 x\n7_1{line} --array=1-9%2 x\n8_[1...]{line}\n")
    )
    assert sorted(asked.workload.jobs.job.tolist()) == ["7_1", "7_2", "7_3", "7_4", "7_9", "8_[1...]"]
    assert asked.on_site(SlurmSite()).throttles == {"7": 2}


def test_licences_and_least_limits_are_those_that_a_job_asked_for():
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    line = "|a|u|p|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|"
    asked = read_requests(source_of(
        f"{head}1{line}00:10:00|cpu=1,license/b=3|sbatch -L a:1 x\n2{line}00:10:00|cpu=1|sbatch -L a:2,b@db,c x\n"
        f"3{line}00:10:00|cpu=1|sbatch -L 'a|b' x\n4{line}00:10:00|cpu=1|sbatch --time-min=10 -t 1-0 x\n"
        f"5{line}00:20:00|cpu=1|sbatch --time-min 0:10:00 x\n"
    ))  # fmt: skip
    counts = [asked.workload.jobs.licences.counts_of(row) for row in range(5)]
    names = asked.workload.licences
    assert [{names[item]: n for item, n in each.items()} for each in counts] == [
        {"b": 3}, {"a": 2, "b": 1, "c": 1}, {}, {}, {}]  # fmt: skip
    limits = dict(zip(asked.workload.jobs.job.tolist(), asked.workload.jobs.walltime.tolist(), strict=True))
    assert (limits["4"], limits["5"]) == (86_400 * SECOND, 1200 * SECOND)
    site = asked.on_site(SlurmSite())
    assert site.least_limits == {"4": 600 * SECOND, "5": 600 * SECOND}
    assert site.lowered == {"4": 600 * SECOND}  # as the log says
    log = asked.workload.with_jobs(asked.workload.jobs.replace(walltime=np.full(5, 600 * SECOND)))
    assert as_requested(log, asked).jobs.walltime.tolist() == [600 * SECOND] * 3 + [86_400 * SECOND, 1200 * SECOND]
    platform = replace(Platform.pool(4), licences=("b",), copies=np.array([2]), hosts=np.ones((1, 1), np.bool_))
    on = asked.on(platform)[0].workload
    assert on.licences == ("b",)
    assert [on.jobs.licences.counts_of(row) for row in range(5)] == [{0: 3}, {0: 1}, {}, {}, {}]


@pytest.mark.parametrize(("line", "said"), [
    (f"cpu=1|sbatch -n {'9' * 25} x", "--ntasks is '9999999999999999999999999'; expected a whole number from 0 to"),
    (f"|sbatch -n {'9' * 5000} x", "--ntasks is '9999"),
    (f"|sbatch -N {'9' * 25} x", "--nodes is '9999999999999999999999999'; expected a whole number from 0 to"),
    (f"|sbatch --gpus={'9' * 25} x", "--gpus is"),
    (f"|sbatch -L a:{'9' * 25} x", "--licenses is"),
    (f"|sbatch --array=1-5%{'9' * 25} x", "--array is"),
    ("cpu=1|sbatch --time-min=soon x", "--time-min is 'soon'; expected a time such as minutes, H:M:S, D-H:M:S"),
    ("cpu=1|sbatch --time-min=1 -t x:y x", "--time is 'x:y'; expected a time such as minutes, H:M:S, D-H:M:S"),
    (f"|sbatch -n {2**40} -c {2**40} --gres=gpu:1 x", "number of CPUs is"),
    (f"|sbatch -N {2**40} -n 1 --gres=gpu:{2**40} x", "number of GPUs is"),
    ("|sbatch -c8 --mem-per-cpu=4000000T x", "memory is '35184372088832000000'; expected at most"),
])  # fmt: skip
def test_a_damaged_time_and_a_number_beyond_its_bound_are_said(line, said):
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    job = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|"
    assert said in read_requests(source_of(f"{head}1{job}cpu=1|sbatch x\n2{job}{line}\n")).notes[0]


def test_what_a_command_line_may_say_is_read():
    head = "JobID|Account|User|Partition|Submit|Start|End|Timelimit|ReqTRES|SubmitLine\n"
    job = "|a|u|p|2026-01-01T00:00:00|Unknown|Unknown|01:00:00|"
    lines = ["cpu=1|sbatch --gres=nvme x", "cpu=1|sbatch --gres=gpu:a:2,gpu:b:1 x", "cpu=1|sbatch --nice=--5 x",
             "cpu=1|sbatch --time-min=1:30 -t UNLIMITED x", "cpu=8,node=2,gres/gpu=2|sbatch -n 8 x",
             "cpu=4,node=1,gres/gpu=6|sbatch -n 4 --gpus=6 x", "cpu=1|sbatch -L 'a|b' x"]  # fmt: skip
    asked = read_requests(source_of(head + "".join(f"{i}{job}{line}\n" for i, line in enumerate(lines))))
    jobs, site = asked.workload.jobs, asked.on_site(SlurmSite())
    assert asked.notes == ()
    assert (jobs.tasks * jobs.demand[:, -1]).tolist() == [0, 3, 0, 0, 2, 8, 0]
    assert (jobs.tasks[4], jobs.tasks[5]) == (2, 4)  # one part on each node; as many GPUs for each task
    assert (site.least_limits["3"], jobs.walltime[3]) == (120 * SECOND, 365 * 86_400 * SECOND)
    assert "a choice of licences 14%" in asked.left_out(licences=True)
