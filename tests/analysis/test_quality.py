"""The quality of a log, on logs with known answers and on the real ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.quality import quality
from backfill.analysis.weeks import DAY, WEEK, Flurry, Weeks, flurries, gaps
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from backfill.traces.formats import Rules, import_log
from backfill.traces.table import read_table

from .by_hand import times, workload

HEADER = "; MaxProcs: 8\n"
#      id  submit wait run procs . . req time . status user group
LINES = """
 1      0      0    10    4 -1 -1  4   100 -1 1 1 1
 2      5      0    90    4 -1 -1 -1   -1  -1 1 2 1
 3      4     -1     0    1 -1 -1  1   60  -1 1 1 1
 3      9      0     9    1 -1 -1  1   60  -1 1 1 1
 4     10      0   121    1 -1 -1  1   60  -1 0 -1 1
 5     11      0    61    9 -1 -1  9   60  -1 5 1 1
 6     12     -1    -1    1 -1 -1  1   60  -1 5 1 1
 7     13     -1     5    0 -1 -1  0   60  -1 1 1 1
 8     14     -3     0    1 -1 -1  1   60  -1 5 1 -1
"""


@pytest.fixture
def swf(tmp_path):
    path = tmp_path / "odd.swf"
    path.write_text(HEADER + "".join(f"{line} -1 -1 -1 -1 -1\n" for line in LINES.strip().splitlines()))
    return path


def test_what_was_kept_dropped_assumed_and_is_odd(swf):
    found = quality(import_log("swf", str(swf)))
    assert (found.name, found.read, found.kept, found.cpus) == ("odd", 9, 6, 8)
    assert (found.users, found.groups, found.span) == (2, 1, 14 * SECOND)
    assert found.status == {"completed": 3, "failed": 1, "cancelled": 2}
    assert found.rows() == [
        ("read", "", 9, None, ""),
        ("kept", "", 6, 6 / 9, ""),
        ("dropped", "run time < 0 or unknown", 1, 1 / 9, ""),
        ("dropped", "processors <= 0", 1, 1 / 9, ""),
        ("dropped", "duplicate job id", 1, 1 / 9, ""),
        ("assumed", "walltime missing: the run time is used", 1, 1 / 6, ""),
        ("assumed", "requested processors missing: the allocated ones are used", 1, 1 / 6, ""),
        ("assumed", "negative wait: taken as unknown", 1, 1 / 6, ""),
        ("odd", "submitted before the previous job", 1, 1 / 6, "3"),
        ("odd", "run time longer than the walltime", 2, 2 / 6, "4"),
        ("odd", "of these, by more than a minute", 1, 1 / 6, "4"),
        ("odd", "needs more cpus than the machine has", 1, 1 / 6, "5"),
        ("odd", "run time 0", 2, 2 / 6, "3"),
        ("odd", "run time 0, but completed", 1, 1 / 6, "3"),
        ("odd", "cancelled, but with a run time", 1, 1 / 6, "5"),
        ("odd", "no user, although others have one", 1, 1 / 6, "4"),
        ("odd", "no group, although others have one", 1, 1 / 6, "8"),
        ("odd", "no recorded wait, although others have one", 2, 2 / 6, "3"),
    ]
    cancelled = (
        "cancelled before they ran, kept as jobs of 0 s: 1 of 6 jobs; with --cancelled leave they leave the queue"
    )
    assert found.remarks == (cancelled,)


def test_partitions_queues_and_qos_are_counted_by_name():
    table = read_table(
        b"job,submit,runtime,partition,queue,qos\na,0,1,batch,,\nb,0,1,debug,,\nc,0,1,batch,fast,\nd,0,1,,,\n"
    )
    found = quality(table)
    assert found.named() == [
        "partitions: 2 (most often batch, 67%), used by 3 jobs",
        "queues: 1 (fast), used by 1 job",
    ]
    said = found.to_dict()
    assert [said[what] for what in ("partitions", "queues", "qos")] == [{"batch": 2, "debug": 1}, {"fast": 1}, {}]
    assert {each.what: (each.jobs, each.first) for each in found.of("odd")} == {
        "no partition, although others have one": (1, "d"),
        "no queue, although others have one": (3, "a"),
    }


def test_the_platform_goes_before_what_the_log_says(swf):
    log = import_log("swf", str(swf))
    assert not [f for f in quality(log, Platform.pool(9)).of("odd") if f.what.startswith("needs more cpus")]
    assert quality(log, Platform.pool(9)).cpus == 9


def test_zero_runs_go_by_the_rule(swf):
    log = import_log("swf", str(swf), Rules(zero_run="drop-cancelled"))
    assert quality(log).rows()[4] == ("dropped", "run time 0, cancelled", 1, 1 / 9, "")


def test_what_readers_say_beyond_counts_stays_a_sentence(tmp_path):
    (tmp_path / "a.csv").write_text("job,submit,runtime,colour\na,5,1,red\nb,0,1,blue\n")
    found = quality(import_log("csv", str(tmp_path / "a.csv")))
    assert found.remarks == ("columns ignored: 'colour'",)
    assert found.sentences() == ["columns ignored: 'colour'"]
    assert [f.what for f in found.findings] == [
        "walltime missing: the run time is used",
        "processors missing: taken as 1",
        "submitted before the previous job",
    ]


def test_without_a_size_of_the_machine_nothing_is_judged_by_it():
    found = quality(workload([0], [10], cpus=[5], waited=times([0])))
    assert (found.cpus, found.explained, found.of("odd")) == (None, None, [])


def test_jobs_that_hold_nothing_or_may_not_run_are_odd():
    odd = quality(workload([0, 0], [5, 5], walltime=[0, 5], cpus=[1, 0])).of("odd")
    assert [(f.what, f.first) for f in odd][-2:] == [
        ("walltime 0: killed at the start", "a"),
        ("no cpus", "b"),
    ]


def test_an_empty_log_has_nothing_to_say():
    found = quality(workload([], []), Platform.pool(4))
    assert found.rows() == [("read", "", 0, None, ""), ("kept", "", 0, None, "")]
    assert (found.sentences(), len(found.weeks), found.span) == ([], 0, 0)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["weeks"] == []


def by_users(submit_weeks: list[float], users: list[str]) -> Workload:
    submit = (np.array(submit_weeks) * WEEK).astype(np.int64)
    minute = np.full(len(submit), 60 * SECOND)
    jobs = Jobs(job=np.arange(len(submit)), submit=submit, runtime=minute, walltime=minute, user=Labels.of(users))
    return Workload(jobs)


def test_weeks_count_jobs_users_and_work():
    # week 1: a runs 1 week on 2 cpus, b half a week on 4; week 3: c runs 2 days; the log recorded their starts
    week = WEEK / SECOND
    log = workload([0, 10, 2 * week], [week, week / 2, week * 2 / 7], cpus=[2, 4, 1], waited=times([week, 0, 0]))
    weeks = Weeks.of(log)
    assert weeks.jobs.tolist() == [2, 0, 1]
    assert weeks.work.tolist() == pytest.approx([4, 0, 2 / 7])
    assert weeks.held.tolist() == pytest.approx([2, 2, 2 / 7])
    assert weeks.users.tolist() == [0, 0, 0]


def test_a_log_that_spans_more_than_a_century_has_a_wrong_clock_and_no_weeks():
    assert len(Weeks.of(workload([0, 99 * 52 * 604_800], [1, 1]))) == 99 * 52 + 1
    wrong = workload([0, 101 * 52 * 604_800], [1, 1])
    assert len(Weeks.of(wrong)) == 0
    assert quality(wrong).sentences() == ["the submits span 101 years: too long for a chart of load by week"]


def test_a_flurry_is_most_of_a_week_and_twice_what_is_usual():
    quiet = [(week + i / 10, "ann" if i % 2 else "bob") for week in range(5) for i in range(4)]
    surge = [(week + i / 100, "eve") for week in (2, 3) for i in range(20)]
    later = [(5 + i / 100, "eve") for i in range(9)]  # most of the week, but not twice the usual
    log = by_users(*map(list, zip(*quiet, *surge, *later, strict=True)))
    weeks = Weeks.of(log)
    assert weeks.jobs.tolist() == [4, 4, 24, 24, 4, 9]
    assert [log.jobs.user.names[code] for code in weeks.top_user[2:4]] == ["eve", "eve"]
    assert (weeks.users.tolist(), weeks.top_jobs.tolist()) == ([2, 2, 3, 3, 2, 1], [2, 2, 20, 20, 2, 9])
    assert flurries(weeks, log.jobs.user.names) == [Flurry("eve", 3, 4, 40, 48)]
    assert quality(log).sentences() == ["flurry: user eve submits 40 of 48 jobs in week 3 to 4"]


def test_jobs_of_nobody_make_no_flurry():
    log = by_users([0, 1, 2, *[3] * 50], ["a", "b", "c", *[""] * 50])
    assert flurries(Weeks.of(log), log.jobs.user.names) == []


def test_a_gap_is_a_day_and_more_than_chance_explains():
    hourly = np.arange(200) * 3600.0
    log = workload([*hourly, 200 * 3600 + 100_000.0], [1] * 201)
    assert gaps(workload(hourly.tolist(), [1] * 200)) == []
    assert [(g.begin, g.end - g.begin, g.next_job) for g in gaps(log)] == [
        (199 * 3600 * SECOND, 103_600 * SECOND, str(log.jobs.job[200]))
    ]
    assert quality(log).sentences()[0].startswith("gaps: 1 gap of 29 h without a submit, before job ")
    sparse = workload((np.arange(30) * 2 * DAY / SECOND).tolist(), [1] * 30)
    assert gaps(sparse) == []  # every interval is two days: that is its pace


def test_the_page_has_a_line_on_each_finding(swf):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "quality.md").read_text(encoding="utf-8")
    found = quality(import_log("swf", str(swf))).findings
    more = quality(workload([0, 0], [5, 5], walltime=[0, 5], cpus=[1, 0])).findings
    for finding in (*found, *more):
        assert finding.what.partition(", although")[0] in page, finding.what


def test_hostile_names_are_cut_short():
    log = by_users([0, 1, 2, *[3] * 50], ["a", "b", "c", *["x" * 10_000] * 50])
    assert len(quality(log).sentences()[0]) < 200


@pytest.mark.parametrize(
    ("name", "kept", "odd", "gaps", "flurries"),
    [
        ("KTH-SP2-1996-2.1-cln", 28_475, {"run time longer than the walltime": 475, "run time 0": 8}, 0, 0),
        ("CEA-Curie-2011-2.1-cln", 312_807, {"run time 0": 17_267}, 3, 0),
        ("LLNL-Atlas-2006-2.1-cln", 39_207, {"run time longer than the walltime": 3_351}, 2, 0),
        ("LANL-CM5-1994-4.1-cln", 122_057, {"run time longer than the walltime": 40_180}, 2, 0),
        ("METACENTRUM-2009-2", 103_656, {"run time 0": 3_712}, 5, 1),
    ],
)
def test_real_logs(shared, name, kept, odd, gaps, flurries):
    found = bf.quality(bf.import_log("swf", str(shared / "traces" / f"{name}.swf.gz")))
    assert found.kept == kept
    assert odd.items() <= {finding.what: finding.jobs for finding in found.of("odd")}.items()
    assert (len(found.gaps), len(found.flurries)) == (gaps, flurries)
    assert found.weeks.jobs.sum() == kept


def test_what_is_asked_for_of_each_resource_and_what_no_node_has():
    table = read_table(
        b"job,submit,runtime,cpus,memory,gpus,constraint\na,0,9,4,1G,,y\nb,0,9,8,3G,1,x\nc,0,9,1,9G,,x\n"
    )
    platform = replace(Platform.pool(16, 2, memory=8 * 2**30), features=(("x",), ()))
    found = quality(table, platform)
    assert [(a.resource, a.jobs, a.median, a.most) for a in found.asked] == [
        ("cpus", 3, 4, 8), ("memory", 3, 3 * 2**30, 9 * 2**30), ("gpus", 1, 1, 1),
    ]  # fmt: skip
    assert {each.what: (each.jobs, each.first) for each in found.of("odd")} == {
        "needs more memory per task than any node has": (1, "c"),
        "needs more gpus per task than any node has": (1, "b"),
        "constraint that no node meets": (1, "a"),
    }
    assert found.sentences()[:2] == [
        "per task: cpus by 3 jobs, 4 at the median and 8 at most; memory by 3 jobs, 3 GiB at the median and 9 GiB at "
        "most; gpus by 1 job, 1 at the median and 1 at most",
        "constraints: 3 jobs may run only on some of the nodes",
    ]
    assert quality(replace(table, platform=platform)).of("odd") == found.of("odd")
