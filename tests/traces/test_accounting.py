"""Accounting logs of PBS, LSF, Grid Engine and HTCondor."""

import json
from pathlib import Path

import pytest

from backfill.model.errors import UsageError, WorkloadError
from backfill.model.units import SECOND
from backfill.traces.formats import FORMATS, Rules, import_log
from backfill.traces.inventory import read_platform
from tests.traces.jobs import SHARED, needs_logs

SAMPLES = SHARED / "traces" / "accounting-samples"
REAL = Path(__file__).parent / "htcondor"  # what a pool of two machines printed, without what names its host
MIB, GIB = 2**20, 2**30


@pytest.fixture
def log(tmp_path):
    def get(format: str, text: str, **rules):
        (tmp_path / "log").write_text(text)
        return import_log(format, str(tmp_path / "log"), Rules(**rules))

    return get


def rows(found):
    jobs = found.jobs
    return {
        str(job): (int(jobs.tasks[k]), *map(int, jobs.demand[k]), int(jobs.runtime[k]) // SECOND)
        for k, job in enumerate(jobs.job.tolist())
    }


# --- PBS ------------------------------------------------------------------------------------------------------------

E = (
    "03/01/2026 12:10:00;E;{id}.srv;user=ann group=phys queue=q ctime=100 qtime=100 etime={etime} start=160 {more} "
    "end=400 Exit_status={code}"
)


def pbs(id="1", more="exec_vnode=(n1:ncpus=4:mem=8gb) Resource_List.walltime=01:00:00", etime=100, code=0):
    return E.format(id=id, more=more, etime=etime, code=code) + "\n"


def test_pbs_where_a_job_ran_tells_what_it_held(log):
    found = log("pbs", pbs("1", "exec_vnode=(n1:ncpus=4:mem=8388608kb:ngpus=1)+(n2:ncpus=4:mem=8gb:ngpus=1)")
                + pbs("2", "exec_host=n1/0-3+n2/7+n2/6+n2/5+n2/4 Resource_List.mem=2gb")
                + pbs("3", "exec_host=c1/0*13+c2/0*13 Resource_List.ncpus=26 Resource_List.walltime=90"))  # fmt: skip
    assert rows(found) == {"1": (2, 4, 8 * GIB, 1, 240), "2": (2, 4, GIB, 0, 240), "3": (2, 13, 0, 0, 240)}
    assert found.jobs.walltime.tolist() == [240 * SECOND, 240 * SECOND, 90 * SECOND]
    assert (found.jobs.user[0], found.jobs.group[0], found.jobs.queue[0]) == ("ann", "phys", "q")
    assert found.jobs.waited.tolist() == [60 * SECOND] * 3
    assert found.platform.nodes == ("c1", "c2", "n1", "n2")


def test_pbs_holds_dependencies_and_wishes(log):
    spec = "Resource_List.nodes=2:ppn=4:gpus=1:avx Resource_List.walltime=60 exec_host=n1/0-3+n2/0-3"
    found = log("pbs", pbs("1", spec, etime=130) + pbs("2", spec + " depend=afterok:1.srv", code=271))
    jobs = found.jobs
    assert sorted(jobs.constraint.names) == ["avx"]
    assert {str(j): jobs.after[k].tolist() for k, j in enumerate(jobs.job)}["2"] == [jobs.job.tolist().index("1")]
    assert dict(zip(jobs.job.tolist(), jobs.submit.tolist(), strict=True)) == {"1": 130 * SECOND, "2": 100 * SECOND}
    assert {str(j): jobs.status[k] for k, j in enumerate(jobs.job)} == {"1": "completed", "2": "timeout"}


def test_pbs_a_rerun_a_deleted_and_a_running_job(log):
    start = "03/01/2026 12:01:00;S;{}.srv;user=ann ctime=100 start=120 exec_host=n1/0 Resource_List.ncpus=1\n"
    found = log("pbs", start.format(1) + "03/01/2026 12:02:00;R;1.srv;end=150\n" + pbs("1", "exec_host=n1/0")
                + "03/01/2026 12:00:00;Q;2.srv;user=bob ctime=100 Resource_List.ncpus=2 queue=q\n"
                + "03/01/2026 12:05:00;D;2.srv;requestor=bob@n\n" + start.format(3)
                + "03/01/2026 12:05:00;L;license;floating license\n")  # fmt: skip
    assert found.jobs.job.tolist() == ["1", "1#2", "2"]
    assert [found.jobs.status[k] for k in range(3)] == ["requeued", "completed", "cancelled"]
    assert found.dropped == {"still waiting or running when the log was written": 1}
    assert any(note.startswith("skipped: 1 record") for note in found.notes)


def test_pbs_broken_lines(log):
    found = log(
        "pbs", pbs() + "nonsense\n" + pbs("2").replace("ctime=100", "ctime=soon") + pbs("3", "exec_host=n1/x-y")
    )
    assert found.dropped == {"broken line": 3}
    assert [note.rpartition("log:")[2] for note in found.notes if "log:" in note][1].startswith("3: ctime is 'soon'")


# --- LSF ------------------------------------------------------------------------------------------------------------

RUSAGE = "0.1 0.2 " + "-1 " * 17
LSF = (
    '"JOB_FINISH" "10.1" {end} 7 1000 0 4 100 {begin} 0 {start} "ann" "q" "" "{depends}" "" "m" "" "" "" "" "f" '
    '0 2 "2*n1" "2*n2" {status} 60.0 "name" "echo ""a b"" ; x" ' + RUSAGE + '"" "proj" 0 4 "" "" {idx} 0 0 '
    '"" "" "" "" 0 "" {why} "" -1 "" "" "" "" -1 "" "" 16 "" 160 "" "" 0 0 3600 0 4096 '
    '"select[type == any] rusage[mem=2000.00,ngpus_physical=1.00]" "" -1\n'
)


def lsf(end=400, begin=0, start=160, depends="", status=64, idx=0, why=0):
    return LSF.format(end=end, begin=begin, start=start, depends=depends, status=status, idx=idx, why=why)


def test_lsf(log):
    found = log("lsf", lsf() + lsf(idx=3, status=32, why=5) + lsf(idx=4, begin=130, depends="done(8)"))
    assert rows(found) == dict.fromkeys(("7", "7[3]", "7[4]"), (2, 2, 2000 * MIB, 1, 240))
    jobs = found.jobs
    assert jobs.walltime.tolist() == [3600 * SECOND] * 3
    assert (jobs.user[0], jobs.group[0], jobs.queue[0]) == ("ann", "proj", "q")
    assert {str(j): jobs.status[k] for k, j in enumerate(jobs.job)}["7[3]"] == "timeout"
    assert found.assumed["depends on a job that is not in the log: not waited for"] == 1
    assert found.platform.nodes == ("n1", "n2")


def test_lsf_a_job_that_never_started_and_broken_records(log):
    found = log("lsf", lsf(start=0, status=32) + '"JOB_FINISH" "10.1" x\n"EVENT_ADRSV_FINISH" "10.1" 1\n')
    assert (found.jobs.runtime.tolist(), found.jobs.waited.tolist()) == ([0], [300 * SECOND])
    assert (found.never_ran.tolist(), found.dropped) == ([True], {"broken line": 1})


@pytest.mark.parametrize(("field", "told"), [
    ("end", "event time is '9223372036854775808'; expected a whole number from 0 to 100,000,000,000"),
    ("start", "startTime is '9223372036854775808'; expected a whole number from 0 to 100,000,000,000"),
    ("idx", "idx is '9223372036854775808'; expected a whole number from 0 to 1,099,511,627,776"),
])  # fmt: skip
def test_lsf_numbers_that_no_job_can_have_break_their_line(log, field, told):
    found = log("lsf", lsf() + lsf(**{field: 2**63}))
    assert (len(found), found.dropped) == (1, {"broken line": 1})
    assert any(f"/log:2: {told}" in note for note in found.notes)
    slots = lsf().replace('"2*n1"', f'"{2**63}*n1"')
    with pytest.raises(WorkloadError, match="log:1: execHosts is '9223372036854775808'; expected a whole number"):
        log("lsf", slots)
    with pytest.raises(WorkloadError, match="log:1: mem is '9999"):
        log("lsf", lsf().replace("mem=2000.00", "mem=" + "9" * 400))


# --- Grid Engine ----------------------------------------------------------------------------------------------------


def sge(job=1, category="-l h_rt=3600,h_vmem=2G -pe smp 4", slots=4, failed=0, code=0, unit=1, task=0, pe="NONE"):
    fields = ["q", "n1", "phys", "ann", "name", str(job), "sge", "0", *(str(t * unit) for t in (100, 160, 400)),
              str(failed), str(code), "240", *["0"] * 17, "NONE", "dep", "smp", str(slots), str(task), "1", "1", "1",
              category, "0", pe, "5", "0", "0"]  # fmt: skip
    return ":".join(fields) + "\n"


def test_sge(log):
    found = log("sge", "# a comment\n" + sge() + sge(2, "-l h_rt=100,gpu=1", 1, 100, 137) + sge(3, "NONE", 1, task=5)
                + sge(4, pe="1.n2") + sge(5, "-u ann", 1, 25) + sge(5, "-u ann", 1))  # fmt: skip
    assert rows(found) == {
        "1": (4, 1, 2 * GIB, 0, 240),
        "2": (1, 1, 0, 1, 240),
        "3.5": (1, 1, 0, 0, 240),
        "5": (1, 1, 0, 0, 240),
    }
    assert {str(j): found.jobs.status[k] for k, j in enumerate(found.jobs.job)}["2"] == "timeout"
    assert found.dropped == {"duplicate job id": 1}
    assert any("skipped: 1 record of tasks of parallel jobs" in note for note in found.notes)


def test_univa_counts_milliseconds(log):
    now = 1_652_111_621_000
    line = sge(1).replace(":100:160:400:", f":{now}:{now + 1500}:{now + 61500}:")
    found = log("sge", line)
    assert (found.jobs.waited.tolist(), found.jobs.runtime.tolist()) == ([1_500_000], [60 * SECOND])


# --- HTCondor -------------------------------------------------------------------------------------------------------


def ad(proc=0, **more):
    return {"ClusterId": 5, "ProcId": proc, "QDate": 100, "JobCurrentStartDate": 160, "CompletionDate": 400,
            "JobStatus": 4, "RequestCpus": 2, "RequestMemory": 2048, "Owner": "ann", "AcctGroup": "phys", "JobPrio": 3,
            "LastRemoteHost": "slot1_1@n1", "ExitCode": 0, "JobUniverse": 5} | more  # fmt: skip


def long(ads):
    def value(v):
        return json.dumps(v) if isinstance(v, str | bool) else str(v)

    return "\n\n".join("\n".join(f"{name} = {value(v)}" for name, v in each.items()) for each in ads) + "\n"


ADS = [
    ad(),
    ad(1, JobStatus=3, CompletionDate=0, JobCurrentStartDate=0, EnteredCurrentStatus=300, LastRemoteHost=""),
    ad(2, AllowedExecuteDuration=600, ConcurrencyLimits="lic:2,other", RequestGPUs=1, ExitCode=1),
    ad(3, JobUniverse=7),
    ad(4, JobStatus=2, CompletionDate=0),
    ad(5, DAGManJobId=9, DAGNodeName="A"),
    ad(6, DAGManJobId=9, DAGNodeName="B", DAGParentNodeNames="A"),
]


@pytest.mark.parametrize(
    "text",
    [json.dumps(ADS), "\n".join(map(json.dumps, ADS)), long(ADS)],
    ids=["json", "lines of json", "long"],
)
def test_htcondor_history(log, text):
    found = log("htcondor", text)
    assert rows(found) == {
        "5.0": (1, 2, 2 * GIB, 0, 240),
        "5.1": (1, 2, 2 * GIB, 0, 0),  # removed before it had a slot
        "5.2": (1, 2, 2 * GIB, 1, 240),
        "5.5": (1, 2, 2 * GIB, 0, 240),
        "5.6": (1, 2, 2 * GIB, 0, 240),
    }
    jobs = found.jobs
    place = {str(job): k for k, job in enumerate(jobs.job.tolist())}
    assert found.licences_of(place["5.2"]) == ["lic:2", "other:1"]
    assert jobs.after[place["5.6"]].tolist() == [place["5.5"]]
    assert (jobs.status[place["5.1"]], jobs.status[place["5.2"]]) == ("cancelled", "failed")
    assert (jobs.waited[place["5.1"]], jobs.priority[0]) == (200 * SECOND, 3.0)
    assert (jobs.user[0], jobs.group[0]) == ("ann", "phys")
    assert found.dropped == {"still waiting or running when the log was written": 1}
    assert any("skipped: 1 job of the scheduler" in note for note in found.notes)


@pytest.mark.parametrize(("more", "told"), [
    ({"QDate": 2**63}, "QDate is '9223372036854775808'; expected seconds since 1970"),
    ({"CompletionDate": 10**400}, f"CompletionDate is '1{'0' * 56}...'; expected seconds since 1970"),
    ({"RequestCpus": 2**63}, "RequestCpus is '9223372036854775808'; expected a number up to 1,099,511,627,776"),
    ({"RequestMemory": 2**40, "MaxHosts": 2, "JobUniverse": 11},
     "memory is '2305843009213693952'; expected 0 to 1,152,921,504,606,846,976"),
    ({"MaxRuntime": 10**12}, "MaxRuntime is '1000000000000'; expected a number up to 100,000,000,000"),
    ({"ConcurrencyLimits": "lic:many"}, "ConcurrencyLimits is 'many'; expected a whole number from 0 to"),
])  # fmt: skip
@pytest.mark.parametrize("write", [long, lambda ads: json.dumps(ads, indent=0)], ids=["long", "json"])
def test_htcondor_numbers_that_no_job_can_have_break_their_line(log, more, told, write):
    found = log("htcondor", write([ad(), ad(1, **more)]))
    assert (len(found), found.dropped) == (1, {"broken line": 1})
    assert any(f"/log:{len(ad()) + (2 if write is long else 4)}: {told}" in note for note in found.notes), found.notes


def test_htcondor_walltimes_by_expressions(log):
    too_long = "JobStatus == 2 && time() - EnteredCurrentStatus > "
    found = log("htcondor", json.dumps([
        ad(PeriodicRemove=f"/Expr(NumJobStarts > 3 || {too_long}2 * 3600)/"),
        ad(1, PeriodicHold=f"{too_long}MY.Longest", Longest=900),
        ad(2, PeriodicRemove=f"{too_long}Longest", Longest=10**15),
        ad(3, BFWallTime=500),
    ]))  # fmt: skip
    assert found.jobs.walltime.tolist() == [7200 * SECOND, 900 * SECOND, 240 * SECOND, 500 * SECOND]
    assert found.jobs.requested.tolist() == [True, True, False, True]


def test_htcondor_broken_ads(log):
    found = log("htcondor", json.dumps([ad(), {"ProcId": 1}, ad(2, QDate="soon")]))
    assert (len(found), found.dropped) == (1, {"broken line": 2})
    with pytest.raises(WorkloadError, match="is not JSON of ClassAds"):
        log("htcondor", '[{"ClusterId": 5,')
    with pytest.raises(WorkloadError, match="no ClassAd"):
        log("htcondor", "hello\n")


@pytest.mark.parametrize("file", ["history.json", "history.ads"])
def test_what_condor_history_23_9_printed(file):
    slots = read_platform(REAL / "slots.json")  # by condor_status -json of the same version
    assert (slots.nodes, slots.capacity[:, :2].tolist()) == (
        ("n1@pool.example.org", "n2@pool.example.org"),
        [[4, 4000 * MIB]] * 2,
    )
    found = import_log("htcondor", str(REAL / file), Rules(machines=slots))
    jobs = found.jobs
    assert rows(found) == {"1.2": (1, 2, 256 * MIB, 2), "2.0": (1, 1, 256 * MIB, 0), "3.0": (1, 1, 200 * MIB, 0)}
    assert [jobs.status[k] for k in range(3)] == ["completed", "failed", "cancelled"]
    assert (jobs.waited // SECOND).tolist() == [10, 13, 15]
    assert (jobs.walltime // SECOND).tolist() == [600] * 3
    assert (jobs.user[0], jobs.group[0], jobs.priority.tolist()) == ("kim", "phys", [3.0] * 3)
    assert [found.licences_of(k) for k in range(3)] == [["lic:2"]] * 3
    assert found.dropped == {}


EVENTS = """000 (012.000.000) 2026-03-01 12:00:00 Job submitted from host: <10.0.0.1:9618?alias=s>
...
001 (012.000.000) 2026-03-01 12:00:10 Job executing on host: <10.0.0.2:9618?addrs=10.0.0.2&alias=n1&noUDP>
...
004 (012.000.000) 2026-03-01 12:00:30 Job was evicted.
...
001 (012.000.000) 2026-03-01 12:01:00 Job executing on host: <10.0.0.2:9618>
\tSlotName: slot1_2@n2
...
005 (012.000.000) 2026-03-01 12:02:00 Job terminated.
\t(1) Normal termination (return value 0)
\tPartitionable Resources :    Usage  Request Allocated
\t   Cpus                 :        0        1         2
\t   Memory (MB)          :      322     2048      2048
...
000 (013.000.000) 2026-03-01 12:00:00 Job submitted from host: <10.0.0.1:9618?alias=s>
...
009 (013.000.000) 2026-03-01 12:05:00 Job was aborted.
...
"""


def test_htcondor_event_log(log):
    found = log("htcondor", EVENTS, zone="Europe/Berlin")
    assert rows(found) == {"12.0": (1, 1, 0, 20), "12.0#2": (1, 2, 2 * GIB, 60), "13.0": (1, 1, 0, 0)}
    assert found.jobs.submit.tolist() == [1772362800 * SECOND] * 3
    assert [found.jobs.status[k] for k in range(3)] == ["requeued", "completed", "cancelled"]
    assert (found.jobs.waited.tolist(), found.clock.zone) == ([10 * SECOND, -1, 300 * SECOND], "Europe/Berlin")


# --- all ------------------------------------------------------------------------------------------------------------


@needs_logs
@pytest.mark.parametrize(("format", "name", "jobs"), [
    ("pbs", "pbs-accounting.log", 8), ("lsf", "lsb.acct", 1), ("sge", "sge-accounting.log", 1),
    ("sge", "uge-accounting.log", 2), ("htcondor", "htcondor-eventlog-group_failed_1.log", 26),
    ("htcondor", "htcondor-eventlog-noop_failed_1.log", 28), ("htcondor", "htcondor-eventlog-tiny_running.log", 1),
    ("htcondor", "htcondor-eventlog-tiny_success.log", 6),
])  # fmt: skip
def test_real_samples(format, name, jobs):
    found = import_log(format, str(SAMPLES / name))
    assert len(found) == jobs
    assert "broken line" not in found.dropped
    assert (found.jobs.procs > 0).all()
    assert found.platform.cpus >= found.jobs.procs.max()


@pytest.mark.parametrize("format", [name for name in FORMATS if name not in ("swf", "mwf", "alibaba", "csv")])
@pytest.mark.parametrize("text", ["xyz", "1|2|3", "[1, 2]", "{}", '{"jobs": [1]}', "a:b:c\n" * 3, '"JOB_FINISH"'])
def test_rubbish_gets_one_line(log, format, text):
    with pytest.raises((WorkloadError, UsageError)) as caught:
        log(format, text)
    assert "\n" not in str(caught.value)
