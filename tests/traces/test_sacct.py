"""Dumps of sacct: columns in any order, what sites really have in them, and a hundred jobs of a real Slurm."""

import re
from pathlib import Path

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import UsageError, WorkloadError
from backfill.model.platform_file import parse_platform
from backfill.model.units import SECOND
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.slurm import memory_of, span_of, state_of, task_numbers, tres_of
from backfill.traces.formats import Rules, import_log
from backfill.traces.inventory import read_platform
from tests.traces.jobs import SHARED, needs_logs, same

HERE = Path(__file__).parent / "slurm"
FIELDS = (
    "JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,User,Submit,Eligible,Start,End,Elapsed,ElapsedRaw,Suspended,"
    "ExitCode,State,NNodes,NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,TimelimitRaw,NodeList,Constraints,"
    "SubmitLine,JobName"
)
MIB = 2**20


@pytest.fixture
def dump(tmp_path):
    """Imports a dump of these lines, `JobID ...` in the first."""

    def get(*lines: str, **rules):
        path = tmp_path / "dump.psv"
        path.write_text("\n".join(lines) + "\n")
        return import_log("sacct", str(path), Rules(**rules))

    return get


HEAD = "JobID|State|User|Submit|Start|End|Timelimit|NCPUS|NNodes|ReqMem"
ONE = "1|COMPLETED|ann|2026-03-01T12:00:00|2026-03-01T12:01:00|2026-03-01T12:03:00|01:00:00|8|2|4Gn"


def column(log, name):
    return dict(zip(log.jobs.job.tolist(), getattr(log.jobs, name).tolist(), strict=True))


def label(log, name):
    labels = getattr(log.jobs, name)
    return {job: labels[row] for row, job in enumerate(log.jobs.job.tolist())}


def test_of_several_partitions_the_first_is_taken(dump):
    log = dump(
        HEAD + "|Partition", ONE + "|gpu", ONE.replace("1|", "2|", 1) + "|main,gpu", ONE.replace("1|", "3|", 1) + "|"
    )
    assert label(log, "partition") == {"1": "gpu", "2": "main", "3": ""}
    assert log.assumed["list of partitions: the job is taken to be in the first"] == 1


def test_a_job_of_a_reservation_is_tied_to_the_events_that_make_it(dump):
    two, three = ONE.replace("1|", "2|", 1), ONE.replace("1|", "3|", 1)
    log = dump(HEAD + "|Reservation", ONE + "|course", two + "|", three + "|party")
    assert label(log, "reservation") == {"1": "course", "2": "", "3": "party"}
    told = "2 jobs asked for an advance reservation, which only events make (import slurm-events): course, party"
    assert told in log.notes
    assert not any("reservation" in note for note in dump(HEAD, ONE).notes)
    begin = int(log.jobs.submit.min()) // SECOND
    course = {"time": begin - 60, "event": "reserve", "reservation": "course", "user": "ann", "node": "*",
              "value": begin, "until": begin + 7200}  # fmt: skip
    machine = parse_platform("", "[[node]]\nname = 'n'\ncount = 2\ncpus = 8\n")
    done = bf.simulate(log, machine, "easy", events=[course])
    assert done.schedule.rejected_for.tolist() == ["", "", "reservation"]
    assert done.notes[0].startswith("rejected 1 of 3 jobs, which can never run here: reservation (1)")
    assert bf.simulate(log, machine, "easy").metrics["jobs"] == 3  # without such events the column has no effect


def test_a_line_is_a_job_of_equal_tasks_one_per_node(dump):
    log = dump(HEAD, ONE)
    jobs = log.jobs
    assert (jobs.job.tolist(), jobs.submit.tolist()) == (["1"], [1772366400 * SECOND])
    assert (jobs.runtime.tolist(), jobs.walltime.tolist()) == ([120 * SECOND], [3600 * SECOND])
    assert (jobs.waited.tolist(), jobs.tasks.tolist()) == ([60 * SECOND], [2])
    assert (log.resources, jobs.demand.tolist()) == (("cpus", "memory"), [[4, 4 * 2**30]])
    assert (jobs.user[0], jobs.status[0]) == ("ann", "completed")


def test_the_columns_may_stand_in_any_order_between_any_separators(dump):
    first = dump(HEAD, ONE)
    for order in ([3, 9, 0, 5, 1, 2, 8, 7, 6, 4], [2, 3, 9, 0, 5, 1, 8, 7, 6, 4]):  # also the user first
        for separator in "|;\t":
            turned = [separator.join(line.split("|")[k] for k in order) for line in (HEAD, ONE)]
            assert same(dump(*turned), first)
            assert len(dump(*turned, turned[0])) == 1  # two dumps put together
    assert same(dump(HEAD + "|", ONE + "|"), first)  # sacct --parsable
    assert same(dump(ONE, fields=HEAD.replace("|", ",")), first)


def test_dates_are_those_of_the_zone_that_is_named(dump):
    assert dump(HEAD, ONE, zone="Europe/Berlin").jobs.submit.tolist() == [1772362800 * SECOND]
    summer = ONE.replace("2026-03-01", "2026-07-01")
    assert dump(HEAD, summer, zone="Europe/Berlin").jobs.submit.tolist() == [1782900000 * SECOND]
    assert any("--timezone" in note for note in dump(HEAD, ONE).notes)
    epochs = ONE.replace("2026-03-01T12:00:00", "1772366400").replace("2026-03-01T12:01:00", "1772366460")
    log = dump(HEAD, epochs.replace("2026-03-01T12:03:00", "1772366580"))
    assert log.jobs.waited.tolist() == [60 * SECOND]
    assert not any("--timezone" in note for note in log.notes)
    with pytest.raises(UsageError, match="Europe/Berlin"):
        dump(HEAD, ONE, zone="Mars/Olympus")


def test_a_broken_line_is_named_and_left_out(dump):
    bad = [
        ONE.replace("COMPLETED", "PERHAPS"),
        ONE.replace("2026-03-01T12:00:00", "yesterday"),
        ONE.replace("|8|", "|eight|"),
        "1|COMPLETED",
    ]
    log = dump(HEAD, ONE.replace("1|", "9|", 1), *bad)
    assert (len(log), log.dropped) == (1, {"broken line": 4})
    assert [re.sub(r".*dump", "dump", note) for note in log.notes if "dump.psv" in note] == [
        "dump.psv:3: State is 'PERHAPS'; expected a state of a job such as COMPLETED",
        "dump.psv:4: Submit is 'yesterday'; expected a number of seconds or a date such as 2026-03-01T12:00:00 or "
        "2026-03-01 12:00+01:00",
        "dump.psv:5: NCPUS is 'eight'; expected a whole number from 0 to 1,099,511,627,776",
    ]
    assert "and 1 more broken lines" in log.notes
    with pytest.raises(WorkloadError, match=r"dump\.psv:2: State is 'PERHAPS'"):
        dump(HEAD, *bad)


def test_what_is_no_dump_is_refused(dump):
    with pytest.raises(WorkloadError, match="no column submit; see `sacct --helpformat`"):
        dump("JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode", "1|a|p||2|COMPLETED|0:0")
    with pytest.raises(WorkloadError, match="sacct --parsable2"):
        dump("JobID  JobName  State", "1      a        COMPLETED")
    with pytest.raises(UsageError, match="no header and 10 columns; name them with --fields"):
        dump(ONE)
    with pytest.raises(
        WorkloadError, match=r"dump.psv:1: is JSON; .* \(`backfill import slurm` reads that of sacct --json"
    ):
        dump(*(HERE / "sacct.json").read_text().splitlines())
    with pytest.raises(WorkloadError, match="is JSON"):
        dump('{"meta": {}, "jobs": []}')


def test_jobs_that_wait_or_run_and_steps_are_no_jobs(dump):
    running = ONE.replace("1|COMPLETED", "2|RUNNING").replace("2026-03-01T12:03:00", "Unknown")
    pending = ONE.replace("1|COMPLETED", "3|PENDING").replace("2026-03-01T12:01:00", "Unknown")
    log = dump(HEAD, ONE, running, pending, ONE.replace("1|", "1.batch|", 1), ONE.replace("1|", "1.0|", 1))
    assert log.dropped == {"still waiting or running when the log was written": 2}
    assert "skipped: 2 lines of job steps" in log.notes


def test_a_cancelled_job_that_never_ran_keeps_its_wait(dump):
    old = ONE.replace("1|COMPLETED", "1|CANCELLED by 1000").replace("12:01:00", "12:03:00")
    new = ONE.replace("1|COMPLETED", "2|CANCELLED by 1000").replace("2026-03-01T12:01:00", "None")
    log = dump(HEAD + "|NodeList", old + "|None assigned", new + "|None assigned")
    assert log.jobs.runtime.tolist() == [0, 0]
    assert log.jobs.waited.tolist() == [180 * SECOND] * 2
    assert (log.jobs.status.names, log.never_ran.tolist()) == (("cancelled",), [True, True])


def test_limits_that_are_none(dump):
    lines = [ONE.replace("1|", f"{k}|", 1).replace("01:00:00", limit) for k, limit in enumerate(
        ("UNLIMITED", "Partition_Limit", "", "2-00:00:00"), start=1)]  # fmt: skip
    log = dump(HEAD, *lines)
    assert column(log, "requested") == {"1": True, "2": False, "3": False, "4": True}
    assert column(log, "walltime")["1"] == 365 * 86_400 * SECOND
    assert column(log, "walltime")["4"] == 2 * 86_400 * SECOND
    assert log.assumed["walltime missing: the run time is used"] == 2


def test_a_job_that_was_held_comes_when_it_became_eligible(dump):
    log = dump(HEAD + "|Eligible", ONE + "|2026-03-01T12:00:40")
    assert log.jobs.submit.tolist() == [1772366440 * SECOND]
    assert log.jobs.waited.tolist() == [20 * SECOND]


def test_a_dependency_of_the_command_line_is_kept_with_the_recorded_submit(dump):
    second = ONE.replace("1|", "2|", 1) + "|2026-03-01T12:03:00|sbatch -n 8 --dependency=afterok:1 job.sh"
    log = dump(HEAD + "|Eligible|SubmitLine", ONE + "||", second)
    assert [log.jobs.after[row].tolist() for row in range(2)] == [[], [0]]
    assert column(log, "submit")["2"] == 1772366400 * SECOND
    assert column(log, "waited")["2"] == -1


def test_a_requeued_job_is_several_runs_one_after_the_other(dump):
    again = ONE.replace("COMPLETED", "PREEMPTED")
    then = ONE.replace("12:01:00", "12:10:00").replace("12:03:00", "12:12:00").replace("T12:00:00", "T12:03:00")
    log = dump(HEAD, then, again)
    assert log.jobs.job.tolist() == ["1", "1#2"]
    assert [log.jobs.after[row].tolist() for row in range(2)] == [[], [0]]
    assert log.jobs.waited.tolist() == [60 * SECOND, -1]
    # the same line twice is one run; and without a requeue a number that comes again is another job
    assert dump(HEAD, ONE, ONE).dropped == {"duplicate job id": 1}
    other = dump(HEAD, ONE, then)
    assert other.jobs.job.tolist() == ["1", "1#2"]
    assert len(other.jobs.after.items) == 0


def test_arrays_and_heterogeneous_jobs(dump):
    waiting = ONE.replace("1|COMPLETED", "7_[2-3,9%2]|CANCELLED by 0").replace("2026-03-01T12:01:00", "Unknown")
    log = dump(HEAD, ONE.replace("1|", "7_1|", 1), waiting)
    assert sorted(log.jobs.job.tolist()) == ["7_1", "7_2", "7_3", "7_9"]
    parts = [ONE.replace("1|", "5+0|", 1), ONE.replace("1|", "5+1|", 1).replace("|8|2|4Gn", "|16|1|8Gn")]
    log = dump(HEAD, *parts)
    assert (log.jobs.job.tolist(), log.jobs.procs.tolist(), log.jobs.tasks.tolist()) == (["5"], [24], [3])
    assert log.assumed["heterogeneous job: its components are taken as one job of equal tasks"] == 1


def test_cpus_that_do_not_share_out_are_tasks_of_one_cpu_unless_there_are_gpus(dump):
    log = dump(HEAD + "|AllocTRES", ONE.replace("|8|2|", "|9|2|") + "|cpu=9,mem=8G,node=2")
    assert (log.jobs.tasks.tolist(), log.jobs.procs.tolist()) == ([9], [9])
    log = dump(HEAD + "|AllocTRES", ONE.replace("|8|2|", "|9|2|") + "|cpu=9,gres/gpu=3,mem=8G,node=2")
    assert (log.jobs.tasks.tolist(), log.jobs.demand[:, [0, 2]].tolist()) == ([2], [[5, 2]])


def test_texts_of_users_may_hold_the_separator(dump):
    names = HEAD + "|Constraints|JobName"
    assert same(dump(names, ONE + "||a|b|c"), dump(names, ONE + "||abc"))
    log = dump(names, ONE + "|[fast|x86]|a|b")
    assert log.jobs.constraint.names == ("fast|x86",)


@pytest.mark.parametrize(("text", "told"), [
    ("4000M", (4000 * MIB, "")), ("4Gn", (4096 * MIB, "n")), ("2000Mc", (2000 * MIB, "c")), ("0n", (0, "n")),
    ("62.50G", (64000 * MIB, "")), ("", (0, "")),
    ("2147486648Mn", (3000 * MIB, "c")), (f"{2**63 + 500}Mn", (500 * MIB, "c")),
])  # fmt: skip
def test_memory(text, told):
    assert memory_of(text) == told


@pytest.mark.parametrize(("text", "seconds"), [
    ("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04", 184), ("00:00.123", 0), ("37-14:00:00", 3247200),
])  # fmt: skip
def test_spans(text, seconds):
    assert span_of(text) == seconds * SECOND


def test_node_lists_states_and_trackable_resources():
    assert host_names("n[01-03,7],login") == ("n01", "n02", "n03", "n7", "login")
    assert host_names("r[1-2]n[08-09]x") == ("r1n08x", "r1n09x", "r2n08x", "r2n09x")
    assert host_names("None assigned") == ()
    for bad in ("n[3-1]", "n[a-b]", f"n[1-{10**9}]"):
        with pytest.raises(ValueError, match=r"1$|b$|0$"):
            host_names(bad)
    assert (state_of("CANCELLED by 1000"), state_of("CANCELLED+"), state_of("OUT_OF_ME+")) == (
        "CANCELLED",
        "CANCELLED",
        "OUT_OF_MEMORY",
    )
    tres = tres_of("billing=9,cpu=4,gres/gpu:a100=2,gres/gpu=2,gres/shard=1,license/matlab=3,mem=1.5G,node=2")
    assert (tres.cpus, tres.nodes, tres.memory, tres.gpus, tres.gpu_type) == (4, 2, 1536 * MIB, 2, "a100")
    assert (tres.licences, tres.others) == ("matlab:3", ("gres/shard",))
    assert task_numbers("[1-3,10-20:5%2]") == ["1", "2", "3", "10", "15", "20"]


# --- a hundred jobs of Slurm 22.05, with names replaced -------------------------------------------------------------


def test_a_hundred_jobs_of_a_real_slurm():
    log = import_log("sacct", str(HERE / "sacct.psv"))
    assert (len(log), log.dropped) == (94, {"still waiting or running when the log was written": 1})
    assert log.assumed == {
        "no time limit: planned as 365 days, as Slurm does": 1,
        "held at first, by a user, a begin time or a dependency: submitted when it became eligible": 10,
        "suspended for a while: the run time excludes that": 1,
        "cpus that do not divide evenly among the nodes: taken as tasks of one cpu": 3,
        "heterogeneous job: its components are taken as one job of equal tasks": 1,
        "further run of a requeued or preempted job: starts after the previous one has ended": 3,
    }
    assert (log.resources, log.licences) == (("cpus", "memory", "gpus"), ("lic",))
    runtime = column(log, "runtime")
    assert (runtime["61"], runtime["62"], runtime["62#2"]) == (8 * SECOND, 7 * SECOND, 25 * SECOND)  # 61 was suspended
    assert column(log, "think")["62#2"] == 122 * SECOND  # Slurm holds what it requeues for two minutes
    assert label(log, "constraint") == {
        job: {"53": "fast&x86", "54": "fast|x86"}.get(job, "a100" if job in ("43", "44", "45") else "")
        for job in log.jobs.job.tolist()
    }
    rows = {job: row for row, job in enumerate(log.jobs.job.tolist())}
    assert log.jobs.after[rows["49"]].tolist() == [rows["47"], rows["48"]]
    assert log.licences_of(rows["51"]) == ["lic:2"]
    assert set(log.jobs.user.names) == {"ann", "bob", "cy", "dee"}


def test_without_a_platform_the_machine_is_what_jobs_show_of_it():
    log = import_log("sacct", str(HERE / "sacct.psv"))
    assert log.platform.nodes == ("n1", "n2", "n3", "n4")
    assert log.platform.capacity[:, log.platform.resources.index("gpus")].tolist() == [2, 2, 2, 2]
    assert (log.platform.capacity[:, 0] >= 16).all()
    assert [each.name for each in log.platform.partitions] == ["main", "low", "short"]
    assert any(note.startswith("no platform was given") for note in log.notes)


def test_with_its_nodes_the_same_jobs_run_on_them():
    nodes = read_platform(HERE / "nodes.txt")
    log = import_log("sacct", str(HERE / "sacct.psv"), Rules(machines=nodes))
    assert log.platform is nodes
    assert same(log, import_log("sacct", str(HERE / "sacct.psv")))
    assert not any(note.startswith("no platform was given") for note in log.notes)


def test_a_dump_in_seconds_without_a_header_and_one_with_steps_say_the_same():
    bare = import_log("sacct", str(HERE / "sacct-epoch-no-header.psv"), Rules(fields=FIELDS))
    assert same(bare, import_log("sacct", str(HERE / "sacct.psv")))


def test_json_of_the_same_jobs_says_the_same_as_far_as_it_goes():
    told = import_log("slurm", str(HERE / "sacct.json"))
    dump = import_log("sacct", str(HERE / "sacct.psv"))
    # This version leaves out users, submit lines (and so dependencies), and limits that are none.
    rows = [dump.jobs.job.tolist().index(job) for job in told.jobs.job.tolist()]
    assert len(rows) == 32
    for name in ("runtime", "tasks", "demand"):
        np.testing.assert_array_equal(getattr(told.jobs, name), getattr(dump.jobs, name)[rows], name)
    for name in ("partition", "qos", "status", "constraint"):
        assert label(told, name) == {job: text for job, text in label(dump, name).items() if job in told.jobs.job}


@needs_logs
@pytest.mark.parametrize(("name", "jobs"), [("slurm-sacct", 3), ("slurm-sacct-arrays", 17), ("slurm-sacct-running", 0)])
def test_small_samples(name, jobs):
    assert len(import_log("sacct", str(SHARED / "traces" / "accounting-samples" / f"{name}.psv"))) == jobs


@needs_logs
def test_four_thousand_jobs_of_a_site():
    log = import_log("sacct", str(SHARED / "traces" / "slurm-sacct-phillips.psv.gz"))
    jobs = log.jobs
    assert (len(log), log.dropped) == (4285, {})
    memory = jobs.tasks * jobs.demand[:, 1]
    eights = jobs.procs == 8
    assert np.median(memory[eights]) == 8 * 3000 * MIB  # per cpu, though the dump says 2^31 + 3000 per node
    assert jobs.tasks.max() == 8
    assert (jobs.requested.all(), jobs.waited.min()) == (True, 0)


def test_an_array_behind_an_array_has_no_more_dependencies_than_can_be_held(dump, monkeypatch):
    monkeypatch.setattr("backfill.traces.accounting.records.EDGES_MAX", 7)
    first = [ONE.replace("1|", f"1_{task}|", 1) + "|" for task in range(3)]
    second = [ONE.replace("1|", f"2_{task}|", 1) + "|sbatch --dependency=afterok:1 x.sh" for task in range(3)]
    log = dump(HEAD + "|SubmitLine", *first, *second)
    assert len(log.jobs.after.items) == 6
    assert log.assumed["dependency beyond the first 7 of the log: not waited for"] == 1


def test_lists_of_nodes_have_no_more_names_than_can_be_held(dump, monkeypatch):
    monkeypatch.setattr("backfill.traces.accounting.stays._SEATS_MAX", 9)
    lines = [ONE.replace("1|", f"{job}|", 1) + f"|n[1-{size}]" for job, size in ((1, 4), (2, 4), (3, 5))]
    assert len(dump(HEAD + "|NodeList", *lines)) == 3
    with pytest.raises(WorkloadError, match=r"dump.psv: its different lists of nodes have more than 9 names"):
        dump(HEAD + "|NodeList", *lines, ONE.replace("1|", "4|", 1) + "|n7")
    for text in ("n[1-1000000,1-1000000]", "n[1-2000][1-2000]", "n[0-999999][0-999999]"):
        with pytest.raises(ValueError, match=r"\d-\d"):
            host_names(text)
