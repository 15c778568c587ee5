"""backfill import: the table, the copy, what it refuses, and the line about reality under a simulation."""

import gzip
import json
import sys

import numpy as np
import pytest

from backfill.traces.read import read
from tests import schemas
from tests.traces import test_slurm_events as slurm_events
from tests.traces.jobs import same

SWF = """; MaxProcs: 4
1 0 0 100 3 -1 -1 3 100 -1 1 1 1 -1 -1 -1 -1 -1
2 1 99 50 4 -1 -1 4 60 -1 1 2 1 -1 -1 -1 -1 -1
2 1 99 50 4 -1 -1 4 60 -1 1 2 1 -1 -1 -1 -1 -1
3 2 0 98 1 -1 -1 1 98 -1 0 2 1 -1 -1 -1 -1 -1
4 3 147 120 1 -1 -1 -1 -1 -1 5 1 1 -1 -1 -1 -1 -1
5 4 -1 -1 1 -1 -1 1 60 -1 5 1 1 -1 -1 -1 -1 -1
"""
TABLE = """log: 4 jobs of 2 users in 1 week on 4 cpus

                                                              jobs  share  first
────────────────────────────────────────────────────────────────────────────────
read                                                             6
kept                                                             4  66.7%
dropped  run time < 0 or unknown                                 1  16.7%
         duplicate job id                                        1  16.7%
assumed  walltime missing: the run time is used                  1  25.0%
         requested processors missing: the allocated ones        1  25.0%
         are used
odd      cancelled, but with a run time                          1  25.0%  4

status: 50% completed, 25% failed, 25% cancelled
load by week, submitted: 0% of 4 cpus
  ▁
load by week, held: 0% of 4 cpus
  ▁
the waits of this log fit a machine of 4 cpus
"""


@pytest.fixture(autouse=True)
def log(tmp_path):
    (tmp_path / "log.swf").write_text(SWF)


def test_the_table_in_80_columns_with_the_next_command_on_standard_error(backfill):
    done = backfill("import", "swf", "log.swf")
    assert (done.code, done.out) == (0, TABLE)
    # simulate and compare refuse a log in which an id stands twice, so a copy comes first
    assert done.err == "next: backfill import swf log.swf --out log-clean.csv\n"


@pytest.mark.parametrize("name", ["clean.csv", "clean.csv.gz", "clean.parquet", "clean.swf", "clean.swf.gz"])
def test_a_cleaned_copy_says_the_same_of_the_jobs_that_were_kept(backfill, tmp_path, name):
    done = backfill("import", "swf", "log.swf", "--out", name)
    assert (done.code, done.out) == (0, TABLE)
    size = [] if ".swf" in name else ["--cpus", "4"]
    following = " ".join(["next: backfill compare", name, "--policy easy --policy conservative", *size])
    assert done.err.splitlines() == [f"wrote {name}: 4 jobs", following]
    copy = read(tmp_path / name)
    (tmp_path / "once.swf").write_text("".join(dict.fromkeys(SWF.splitlines(keepends=True))))
    assert same(copy, read(tmp_path / "once.swf"))
    assert copy.jobs.status.names == ("completed", "failed", "cancelled")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_size_that_was_given_is_kept_in_the_copy(backfill, tmp_path):
    done = backfill("import", "csv", "tiny.csv", "--cpus", "4", "--out", "clean.swf")
    assert read(tmp_path / "clean.swf").cpus == 4
    assert done.err.endswith("next: backfill compare clean.swf --policy easy --policy conservative\n")


def test_the_partitions_and_queues_of_a_log_are_told_and_kept(backfill, tmp_path):
    rows = [line.split() for line in SWF.splitlines()[1:]]
    named = [
        " ".join([*row[:14], *("-1" if k == 5 else "2", "1" if k < 3 else "3"), *row[16:]])
        for k, row in enumerate(rows)
    ]
    (tmp_path / "parts.swf").write_text("\n".join(["; MaxProcs: 4", "; Partition: 3 debug", *named]))
    done = backfill("import", "swf", "parts.swf", "--out", "parts.csv")
    told = "partitions: 2 (most often 1, 50%), used by 4 jobs\nqueues: 1 (2), used by 4 jobs\nload by week"
    assert (done.code, told in done.out) == (0, True)
    header, *copied = (tmp_path / "parts.csv").read_text().splitlines()
    where = [header.split(",").index(name) for name in ("partition", "queue")]
    assert [[row.split(",")[k] for k in where] for row in copied] == [
        ["1", "2"],
        ["1", "2"],
        ["debug", "2"],
        ["debug", "2"],
    ]
    found = json.loads(backfill("import", "csv", "parts.csv", "--json", "-q").out)
    assert (found["partitions"], found["queues"], found["qos"]) == ({"1": 2, "debug": 2}, {"2": 4}, {})


def test_a_log_that_any_verb_reads_needs_no_copy(backfill, tmp_path):
    done = backfill("import", "csv", "tiny.csv")
    assert done.err == "next: backfill compare tiny.csv --policy easy --policy conservative --cpus N\n"
    (tmp_path / "farm.toml").write_text("[[node]]\ncpus = 4\n")
    done = backfill("import", "csv", "tiny.csv", "--platform", "farm.toml")
    assert done.err.endswith("--policy conservative --platform farm.toml\n")
    assert "on 4 cpus\n" in done.out


def test_the_format_counts_and_not_the_name(backfill, tmp_path):
    (tmp_path / "log.txt").write_bytes(gzip.compress(SWF.encode()))
    done = backfill("import", "swf", "log.txt")
    assert (done.code, done.out) == (0, TABLE.replace("log:", "log.txt:"))
    assert backfill("import", "csv", "log.swf", "-q").complaint.startswith("log.swf:1: no column job")


def test_json_has_it_all(backfill):
    done = backfill("import", "swf", "log.swf", "--json", "--out", "clean.csv", "-q")
    found = json.loads(done.out)
    assert (done.err, found["schema"], found["format"], found["out"]) == ("", 1, "swf", "clean.csv")
    assert (found["read"], found["kept"], found["cpus"], len(found["sha256"])) == (6, 4, 4, 64)
    assert found["dropped"] == {"run time < 0 or unknown": 1, "duplicate job id": 1}
    assert found["odd"] == [{"what": "cancelled, but with a run time", "jobs": 1, "first": "4"}]
    assert found["waits"]["holds"] is True
    assert [week["jobs"] for week in found["weeks"]] == [4]


PBS = "0 0 9 500 64 -1 -1 64 900 1024 1 7 1 -1 -1 -1 -1 -1 {1} q_1d 1:ppn=64:cl_fat\n"


def test_the_machines_of_a_log_are_written_beside_its_copy(backfill, tmp_path):
    (tmp_path / "pbs.swf").write_text(PBS)
    (tmp_path / "pbs.swf.machines").write_text("0 fat 2 80 1 529426432\n")
    done = backfill("import", "mwf", "pbs.swf", "--out", "a.csv")
    assert (done.code, done.err.splitlines()) == (
        0,
        [
            "wrote a.csv: 1 job",
            "wrote a.toml: 2 nodes",
            "next: backfill compare a.csv --policy easy --policy conservative --platform a.toml",
        ],
    )
    ran = [backfill("simulate", *words, "--json", "-q") for words in (("a.csv", "--platform", "a.toml"), ("pbs.swf",))]
    platforms = [json.loads(each.out)["platform"] for each in ran]
    assert platforms[0]["cpus"] == platforms[1]["cpus"] == 160
    own = backfill("import", "mwf", "pbs.swf", "--cpus", "64", "--out", "b.csv")
    assert own.err.splitlines()[0] == "wrote b.csv: 1 job"
    assert not (tmp_path / "b.toml").exists()  # another machine was named
    assert (
        backfill("import", "mwf", "pbs.swf").err
        == "next: backfill compare pbs.swf --policy easy --policy conservative\n"
    )


def test_a_platform_that_is_named_reads_the_node_specs_as_simulate_does(backfill, tmp_path):
    (tmp_path / "pbs.swf").write_text(PBS + PBS.replace("0 0 9 500", "1 5 9 500").replace("cl_fat", "cl_fat#excl"))
    (tmp_path / "own.toml").write_text('[[node]]\nname = "a"\ncount = 2\ncpus = 70\nfeatures = ["cl_fat"]\n')
    (tmp_path / "pbs.swf.machines").write_text("0 thin 9 64 1 529426432\n")  # another machine
    assert backfill("import", "mwf", "pbs.swf", "--platform", "own.toml", "--out", "a.csv", "-q").code == 0
    ran = [json.loads(backfill("simulate", log, "--platform", "own.toml", "--json", "-q").out)["metrics"]
           for log in ("a.csv", "pbs.swf")]  # fmt: skip
    assert ran[0] == ran[1]
    assert (ran[0]["rejected_jobs"], "cl_fat" in (tmp_path / "a.csv").read_text()) == (0, True)


def test_a_platform_file_of_somebody_else_is_not_replaced(backfill, tmp_path):
    (tmp_path / "pbs.swf").write_text(PBS)
    (tmp_path / "m.machines").write_text("0 fat 2 80 1 529426432\n")
    words = ("import", "mwf", "pbs.swf", "--machines", "m.machines", "--out", "a.csv", "-q")
    (tmp_path / "a.toml").write_text("mine = 1\n")
    done = backfill(*words)
    assert (done.code, done.complaint) == (
        2, "a.toml exists and was not written by backfill; give --out another name",
    )  # fmt: skip
    assert not (tmp_path / "a.csv").exists()
    (tmp_path / "a.toml").unlink()
    assert [backfill(*words).code for _ in range(2)] == [0, 0]  # its own it does replace


REFUSED = {
    "format": (
        ("sacctt", "log.swf"),
        2,
        "unknown format 'sacctt'; did you mean sacct?",
    ),
    "suffix": (("swf", "log.swf", "--out", "a.txt"), 2, "--out is 'a.txt'; expected a name that ends in .swf, "),
    "the log": (("swf", "log.swf", "--out", "./log.swf"), 2, "--out ./log.swf is also the log; expected a different"),
    "two machines": (
        ("mwf", "pbs.swf", "--machines", "m", "--platform", "x"),
        2,
        "--machines cannot be combined",
    ),
    "both": (("swf", "log.swf", "--cpus", "4", "--platform", "x"), 2, "--cpus cannot be combined"),
    "no cpus": (("swf", "log.swf", "--cpus", "0"), 2, "--cpus is 0; expected a whole number from 1 to 2^62"),
    "zero run": (("swf", "log.swf", "--zero-run", "x"), 2, "--zero-run is 'x'; expected keep, drop-cancelled, drop"),
    "machines": (("csv", "log.csv", "--machines", "m"), 2, "--machines is 'm'; expected none, as CSV comes without"),
    "no machines": (("mwf", "pbs.swf", "--machines", "m"), 3, "m: cannot be read: No such file or directory"),
    "missing": (("swf", "none.swf"), 3, "none.swf: cannot be read: No such file or directory"),
    "no folder": (("swf", "log.swf", "--out", "no/a.csv"), 1, "no/a.csv: cannot be written: there is no such folder"),
    "bad line": (("swf", "bad.swf"), 3, "bad.swf:2: field 4 (run time) is 'x'; expected a number"),
    "empty": (("swf", "empty.swf"), 3, "empty.swf: is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_one_line_and_leaves_no_file(backfill, tmp_path, case):
    (tmp_path / "bad.swf").write_text("; MaxProcs: 4\n" + SWF.splitlines()[1].replace("1 0 0 100", "1 0 0 x"))
    (tmp_path / "empty.swf").write_text("")
    (tmp_path / "pbs.swf").write_text(PBS)
    (tmp_path / "log.csv").write_text("job,submit,runtime\n")
    before = {path.name for path in tmp_path.iterdir()}
    words, code, complaint = REFUSED[case]
    done = backfill("import", *words, "-q")
    assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1)
    assert done.complaint.startswith(complaint)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_log_that_swf_cannot_hold_leaves_no_copy(backfill, tmp_path):
    (tmp_path / "none.csv").write_text("job,submit,runtime,cpus\na,0,1,0\n")
    done = backfill("import", "csv", "none.csv", "--out", "clean.swf")
    assert (done.code, done.complaint) == (3, "job a holds no cpu, which SWF cannot express")
    assert not (tmp_path / "clean.swf").exists()


def test_hostile_names_do_no_harm_in_the_terminal(backfill, tmp_path):
    names = ["<script>alert(1)</script>", '"quotes, and commas"', "\u202eright to left", "x" * 10_000, "[bold red]a[/]"]
    rows = [f'"{name.replace(chr(34), chr(34) * 2)}",{i},9,1,1' for i, name in enumerate(names) if name.isprintable()]
    (tmp_path / "names.csv").write_text(
        "job,submit,runtime,walltime,procs,\u202euser\n" + "".join(f"{r},\n" for r in rows)
    )
    done = backfill("import", "csv", "names.csv", "--cpus", "1", "--out", "clean.csv")
    assert done.code == 0
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert "\u202e" not in done.out
    for rank in range(len(rows)):  # each one as the first odd job
        (tmp_path / "one.csv").write_text("job,submit,runtime,walltime,procs\n" + rows[rank] + "\n")
        done = backfill("import", "csv", "one.csv")
        assert max(map(len, done.out.splitlines())) <= 80
        assert rows[rank].strip('"')[:8] in done.out


def test_long_logs_have_several_weeks_to_a_bar_and_show_the_first_sentences(backfill, tmp_path):
    week = 604_800
    rows = [f"{i},{i * week // 2},3600,3600,1,u" for i in range(300)]
    rows += [f"s{w}-{i},{w * week + i},60,60,1,eve{w}" for w in range(0, 100, 10) for i in range(9)]
    (tmp_path / "long.csv").write_text("job,submit,runtime,walltime,procs,user\n" + "\n".join(rows) + "\n")
    done = backfill("import", "csv", "long.csv", "--cpus", "1")
    assert "  3 weeks to a bar\n" in done.out
    assert done.out.count("flurry: ") == 6
    assert done.out.endswith("and 4 more; --json has all\n")
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_a_simulation_of_a_log_with_waits_ends_with_what_really_happened(backfill, tmp_path):
    lines = [line for line in SWF.splitlines(keepends=True) if not line.startswith("2")]
    (tmp_path / "once.swf").write_text("".join(lines) + lines[2].replace("3 2 0", "2 1 99"))
    done = backfill("simulate", "once.swf", "-q")
    assert done.out.splitlines()[-2:] == ["", "in reality the mean wait was 61.5 s (easy: -21%)"]
    found = json.loads(backfill("simulate", "once.swf", "-q", "--json").out)["replay"]
    assert (found["recorded_s"], found["explained"]["cpus"]) == (61.5, 4)
    assert "in reality" not in backfill("simulate", "tiny.csv", "--cpus", "4").out
    assert "replay" not in json.loads(backfill("simulate", "tiny.csv", "--cpus", "4", "--json").out)


def test_a_copy_of_a_real_log_gives_the_same_schedule(backfill, tmp_path, shared):
    log = str(shared / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert backfill("import", "swf", log, "--out", "kth.parquet", "-q").code == 0
    first = backfill("simulate", log, "-q", "--schedule", "-").out
    assert backfill("simulate", "kth.parquet", "--cpus", "100", "-q", "--schedule", "-").out == first
    theirs, ours = read(log), read(tmp_path / "kth.parquet")
    assert np.array_equal(theirs.jobs.waited, ours.jobs.waited)
    assert same(theirs, ours)


SACCT = """JobID|State|User|Submit|Start|End|Timelimit|NCPUS|NNodes|NodeList|Partition
1|COMPLETED|ann|1000|1000|1100|00:05:00|4|1|n1|long
2|COMPLETED|bob|1001|1100|1150|00:05:00|4|1|n1|long
3|PERHAPS|bob|1001|1100|1150|00:05:00|4|1|n1|long
"""


def test_from_sacct_to_a_comparison_with_the_machine_that_the_log_shows(backfill, tmp_path):
    (tmp_path / "dump.txt").write_text(SACCT)
    done = backfill("import", "sacct", "dump.txt", "--out", "jobs.csv")
    assert done.code == 0
    assert "dropped  broken line " in done.out
    assert "broken line: dump.txt:4: State is 'PERHAPS'; expected a state of a job" in done.out
    assert done.err.splitlines() == [
        "wrote jobs.csv: 2 jobs",
        "wrote jobs.toml: 1 node",
        "next: backfill compare jobs.csv --policy easy --policy conservative --platform jobs.toml",
    ]
    found = json.loads(backfill("simulate", "jobs.csv", "--platform", "jobs.toml", "--json", "-q").out)
    assert (found["metrics"]["mean_wait_s"], found["metrics"]["rejected_jobs"]) == (49.5, 0)


def test_the_nodes_of_scontrol_serve_as_the_platform_of_any_verb(backfill, tmp_path):
    (tmp_path / "dump.txt").write_text(SACCT)
    (tmp_path / "nodes.txt").write_text("NodeName=n1 CPUTot=8 RealMemory=1000 Partitions=long State=IDLE\n")
    done = backfill("import", "sacct", "dump.txt", "--platform", "nodes.txt", "--out", "jobs.csv")
    assert done.err.splitlines()[1:] == [
        "wrote jobs.toml: 1 node",
        "next: backfill compare jobs.csv --policy easy --policy conservative --platform jobs.toml",
    ]
    for platform in ("jobs.toml", "nodes.txt"):
        found = json.loads(backfill("simulate", "jobs.csv", "--platform", platform, "--json", "-q").out)
        assert (found["metrics"]["mean_wait_s"], found["platform"]["cpus"]) == (0.0, 8)


def test_columns_and_zones_are_named_on_the_command_line(backfill, tmp_path):
    (tmp_path / "own.csv").write_text("job;submit;Elapsed\na;2026-07-01T12:00:00;1h\n")
    words = ("import", "csv", "own.csv", "--column", "runtime=Elapsed", "--timezone", "Europe/Berlin", "--out", "o.csv")
    assert backfill(*words, "-q").code == 0
    assert (tmp_path / "o.csv").read_text() == (
        "job,submit,runtime,walltime,procs,time_zero\na,1782900000,3600,,1,1970-01-01T00:00:00Z[Europe/Berlin]\n"
    )
    done = backfill("import", "csv", "own.csv", "--column", "runtime")
    assert done.complaint == "--column is 'runtime'; expected NAME=HEADER such as runtime=Elapsed"


def test_anonymize_tells_what_it_replaced(backfill, tmp_path):
    (tmp_path / "log.csv").write_text(
        "job,submit,runtime,user,status,path\nx,0,1,ann,OOM in /home/ann,/home/ann\n2,0,1,bob,failed,/home/bob\n"
    )
    done = backfill("anonymize", "log.csv", "--out", "share.csv", "--aliases", "secret.csv")
    assert [line.split() for line in done.out.splitlines()[2:]] == [
        ["job", "1", "1"],
        ["user", "2", "2"],
        ["status", "1", "1"],
        ["left", "out:", "'path'", "2"],
    ]
    assert done.err.splitlines() == [
        "wrote share.csv: 2 jobs",
        "wrote secret.csv: the alias of each name; do not share it",
    ]
    assert (tmp_path / "share.csv").read_text().splitlines()[1:] == [
        "job1,0,1,,1,user1,status1",
        "2,0,1,,1,user2,failed",
    ]
    assert backfill("anonymize", "model:lublin", "--out", "a.csv").code == 2


def test_broken_lines_of_swf_are_named_and_left_out(backfill, tmp_path):
    lines = SWF.splitlines()
    lines[2:2] = ["1 2 3", "7 x" + " 1" * 16, "8 1.5 0 1 0.5" + " 1" * 13]
    (tmp_path / "messy.swf").write_text("\n".join(lines) + "\n")
    done = backfill("import", "swf", "messy.swf", "--json", "-q")
    found = json.loads(done.out)
    assert (done.code, found["kept"], found["dropped"]["broken line"]) == (0, 4, 3)
    assert [note for note in found["remarks"] if note.startswith("broken")] == [
        "broken line: messy.swf:3: 3 fields; expected 18",
        "broken line: messy.swf:4: field 2 (submit time) is 'x'; expected a number",
        "broken line: messy.swf:5: field 5 (allocated processors) is '0.5'; expected a whole number within "
        "+-1099511627776",
    ]


def test_a_line_now_and_then_says_how_far_a_long_import_is(backfill, monkeypatch, tmp_path):
    from backfill.cli import say

    (tmp_path / "dump.psv").write_text("JobID|State|Submit|Start|End|NCPUS\n" + "1|COMPLETED|0|1|2|1\n" * 3)
    monkeypatch.setattr(say, "LINE_S", 0)
    assert "reading dump.psv: 100% done" in backfill("import", "sacct", "dump.psv").err
    assert "done after" not in backfill("import", "sacct", "dump.psv", "--quiet").err


def test_all_files_are_there_before_anything_is_printed(backfill, monkeypatch, tmp_path):
    def gone(lines):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["backfill.cli.import_log"], "print_lines", gone)
    (tmp_path / "dump.txt").write_text(SACCT)
    assert backfill("import", "sacct", "dump.txt", "--out", "jobs.csv").code == 130
    assert "estimated = true" in (tmp_path / "jobs.toml").read_text()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    done = backfill("simulate", "jobs.csv", "--explain", "2", "-q")
    assert "jobs: 2 jobs on 4 cpus, estimated from the log" in done.out
    assert "the machine has 4 cpus, estimated from the log" in " ".join(done.out.split())


def test_outages_and_reservations_of_slurm_become_a_file_that_simulate_takes(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "job,submit,runtime,walltime,procs,user,reservation,time_zero\n"
        "1,0,600,3600,8,ann,course,2026-03-02T07:00:00Z[Europe/Berlin]\n2,60,600,7200,8,bob,,\n"
    )
    (tmp_path / "nodes.txt").write_text("".join(f"NodeName=n{i} CPUTot=16 State=IDLE\n" for i in (1, 2, 3, 4)))
    (tmp_path / "slurm.txt").write_text(slurm_events.EVENTS + slurm_events.RESERVATIONS)
    words = ("import", "slurm-events", "slurm.txt", "--log", "jobs.csv", "--platform", "nodes.txt")
    first = backfill(*words)
    assert (first.code, first.out) == (0, "slurm.txt: 2 outages, 3 drains, 2 reservations, 1 window\n")
    assert first.err.endswith(f"next: backfill {' '.join(words)} --out slurm-events.csv\n")
    (tmp_path / "other.txt").write_text(slurm_events.EVENTS + "soon\n")
    other = backfill(*words[:2], "other.txt", *words[3:], "--json")
    assert schemas.check("import-events", other.out)["left_out"]["broken line"] == 1
    done = backfill(*words, "--out", "events.csv", "--json")
    assert schemas.check("import-events", done.out)["not_carried"]["DAILY"] == 1
    assert "left out: rows of the whole cluster (1), those over before" in done.err
    assert "not carried over from reservations: DAILY (1), Licenses (1), cpus of" in done.err
    after = done.err.splitlines()[-1].removeprefix("next: backfill ").split()
    assert after[:2] == ["compare", "jobs.csv"]
    assert backfill(*after).code == 0
    run = backfill(
        "simulate", "jobs.csv", "--platform", "nodes.txt", "--events", "events.csv", "--verify", "--runs", "-"
    )
    assert run.code == 0
    assert run.out.splitlines()[1].startswith("1,1,21600,22200,COMPLETED,")  # the course begins at 14:00
    for more, said in (
        (("--cpus", "4"), "--cpus cannot be combined with slurm-events"),
        (("--zero-run", "drop"), "--zero-run cannot be combined with slurm-events"),
        (("--out", "events.swf"), "--out is 'events.swf'; expected a name that ends in .csv or .csv.gz"),
    ):
        refused = backfill(*(words[:5] if "--cpus" in more else words), *more)
        assert (refused.code, refused.complaint) == (2, said)
    assert backfill(*words[:3]).complaint.startswith("slurm-events needs --log FILE")
    assert backfill("import", "csv", "jobs.csv", "--log", "jobs.csv").complaint == "--log is for slurm-events"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("swf --timezone=abc", "--timezone is 'abc'; expected none for swf; it is for sacct, pbs, htcondor, csv"),
        ("swf --fields=1e99", "--fields is '1e99'; expected none for swf; it is for sacct"),
        ("swf --column=", "--column is ''; expected none for swf; it is for csv"),
        ("lsf --timezone UTC", "--timezone is 'UTC'; expected none for lsf; it is for sacct, pbs, htcondor, csv"),
    ],
)
def test_an_option_that_the_format_does_not_take_is_refused(backfill, words, said):
    format, *options = words.split()
    done = backfill("import", format, "tiny.csv", *options)
    assert (done.code, done.complaint) == (2, said)
