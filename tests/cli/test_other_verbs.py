"""demo, verify, generate, policies, and what holds for every verb."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backfill.cli import main, say
from backfill.policies import TABLE, get
from backfill.traces.read import read
from tests.patience import PATIENCE_S

from .conftest import FILES

COMMAND = [sys.executable, "-c", "import sys; from backfill.cli import main; sys.exit(main())"]
LAWFUL = "job,start,end\na,0,100\nb,100,150\nc,2,100\nd,150,249\n"


def test_demo_prints_a_table_and_writes_a_page(backfill, tmp_path):
    done = backfill("demo", "--out", str(tmp_path))
    assert done.code == 0
    for name in ("fcfs", "easy", "easy-sjbf", "conservative"):
        assert f"\n{name} " in done.out
    page = (tmp_path / "backfill-demo.html").read_text()
    assert "conservative" in page
    assert f"wrote {tmp_path / 'backfill-demo.html'}: open it in a browser\n" in done.err
    assert "112 processors are assumed" in done.err
    assert "112 processors are assumed" in page


def test_the_next_command_is_found_by_the_shell(tmp_path, capsys, monkeypatch):
    log, program = tmp_path / "tiny.csv", tmp_path / "a b" / "backfill"
    log.write_text("job,submit,runtime\na,0,5\n")
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    for folders, called in {str(tmp_path): f"'{program}'", str(program.parent): "backfill"}.items():
        monkeypatch.setenv("PATH", folders)
        assert main(["import", "csv", str(log)]) == 0
        printed = capsys.readouterr()
        assert printed.out.startswith("tiny: 1 job in 1 week\n")
        assert printed.err.startswith(f"next: {called} compare {log} ")


def test_demo_makes_a_folder_but_not_those_above(backfill):
    done = backfill("demo", "--out", "no/where")
    assert (done.code, done.complaint) == (1, "no/where: cannot be written: No such file or directory")
    assert backfill("demo", "--out", "new").code == 0
    assert (Path("new") / "backfill-demo.html").is_file()


def test_verify_accepts_a_lawful_schedule_of_any_tool(backfill, tmp_path):
    (tmp_path / "out.csv").write_text(LAWFUL)
    done = backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "-q")
    assert (done.code, done.out, done.err) == (0, "lawful: 4 jobs checked\n", "")


def test_verify_tells_what_is_wrong_and_exits_5(backfill, tmp_path):
    (tmp_path / "out.csv").write_text(LAWFUL.replace("c,2", "c,1").replace("100,150", "99,149"))
    done = backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "-q")
    assert done.code == 5
    assert "start: job c" in done.out
    assert "capacity: " in done.out
    assert done.complaint.startswith("out.csv did not pass verification")
    found = json.loads(backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "--json").out)
    assert (found["lawful"], len(found["violations"])) == (False, len(done.out.splitlines()))


def test_verify_knows_both_rules_of_overrun(backfill, tmp_path):
    (tmp_path / "out.csv").write_text(LAWFUL.replace("249", "270"))
    assert backfill("verify", "tiny.csv", "out.csv", "--cpus", "4").code == 5
    assert backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "--overrun", "extend").code == 0


def test_verify_and_report_know_runs_that_wait_for_what_their_jobs_come_after(backfill, tmp_path):
    lines = ["job,submit,runtime,project,after", "a1,0,5,A,", "a2,0,5,A,a1", "b1,0,3,B,"]
    (tmp_path / "threads.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = ("--schedule", "out.csv", "--runs", "runs.csv", "--save", "kept", "--report", "a.html")
    done = backfill("simulate", "threads.csv", "--cpus", "2", "--policy", "thread-matrix", "--verify", *files)
    assert "--runs runs.csv --dangles" in done.err
    assert "a2,0,3,10," in (tmp_path / "out.csv").read_text(encoding="utf-8")
    asked = ("verify", "threads.csv", "out.csv", "--cpus", "2")
    assert backfill(*asked, "--dangles", "--runs", "runs.csv").code == 0
    assert backfill(*asked, "--dangles").code == 0
    assert "start: job a2 at day 0 00:00:03: starts before the end of job a1" in backfill(*asked).out
    assert backfill("report", "kept", "--out", "b.html").code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_verify_refuses_bad_input(backfill, tmp_path):
    (tmp_path / "out.csv").write_text("job,start\na,soon\n")
    done = backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "-q")
    assert done.code == 3
    assert done.complaint.startswith("out.csv:2: start is 'soon'")
    assert backfill("verify", "tiny.csv", "missing.csv", "--cpus", "4").code == 3
    assert backfill("verify", "-", "-").code == 2
    assert backfill("verify", "tiny.csv", "out.csv", "--overrun", "maybe").code == 2
    assert backfill("verify", "tiny.csv", "out.csv").code == 2


@pytest.mark.parametrize("name", ["jobs.swf", "jobs.swf.gz", "jobs.csv", "jobs.parquet"])
def test_generate_writes_by_suffix(backfill, tmp_path, name):
    done = backfill("generate", "lublin", "--jobs", "40", "--cpus", "64", "--seed", "3", "--out", name)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[0] == f"wrote {name}: 40 jobs"
    assert len(read(tmp_path / name)) == 40
    words = done.err.splitlines()[1].removeprefix("next: backfill ").split()
    assert backfill(*words).code == 0


def test_generate_prints_and_takes_arguments_of_the_model(backfill, tmp_path):
    done = backfill("generate", "lublin", "--jobs", "40", "--set", "estimate_factor=5", "--out", "-", "-q")
    assert (done.code, done.err) == (0, "")
    (tmp_path / "out.swf").write_text(done.out)
    backfill("generate", "lublin?estimate_factor=5", "--jobs", "40", "--out", "jobs.swf")
    assert (tmp_path / "jobs.swf").read_text() == done.out


def test_generate_refuses(backfill, tmp_path):
    for words in (
        ("lublin", "--jobs", "5", "--out", "jobs.txt"),
        ("lubin", "--jobs", "5", "--out", "jobs.swf"),
        ("lublin", "--out", "jobs.swf"),
        ("lublin", "--jobs", "5", "--set", "size", "--out", "jobs.swf"),
        ("lublin", "--jobs", "0", "--out", "jobs.swf"),
    ):
        done = backfill("generate", *words)
        assert (done.code, done.out) == (2, "")
        assert done.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.csv"]


def test_policies_lists_them_all(backfill):
    done = backfill("policies")
    table, rest = done.out.split("\nparameters\n")
    names = [
        line.split()[0]
        for line in table.splitlines()
        if line[:1].strip() and line[:1] == line[:1].lower() and line[0] not in "─" and "," not in line[:8]
    ]
    assert names[1:] == [*TABLE]
    assert "  k-reservations: k = 4 jobs, from 0 to inf" in rest
    assert "  easy-sjbf: Tsafrir, Etsion and Feitelson" in rest.split("\nsources\n")[1]
    assert done.out.count("(dynamic)") == sum(get(name).dynamic for name in TABLE)
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_policies_ends_with_questions_of_which_each_policy_answers_one(backfill):
    questions = json.loads(backfill("policies", "--json").out)["questions"]
    assert sorted(name for names in questions.values() for name in names) == sorted(TABLE)
    shown = " ".join(backfill("policies").out.split("\nquestions, ")[1].split())
    assert all(f"{question} {', '.join(names)}" in shown for question, names in questions.items())


def test_policies_as_json(backfill):
    found = {p["name"]: p for p in json.loads(backfill("policies", "--json").out)["policies"]}
    assert list(found) == list(TABLE)
    assert found["k-reservations"]["params"]["k"] == {
        "default": 4,
        "low": 0,
        "high": "inf",
        "whole": True,
        "unit": "jobs",
        "meaning": "number of waiting jobs that hold reservations; 0 is first-fit, 1 is easy, inf is all of them",
    }
    assert found["easy-wfp3"]["dynamic"]
    assert all(p["source"] and p["reserve"] and p["fill"] and p["place"] for p in found.values())


@pytest.mark.parametrize("name", TABLE)
def test_every_policy_is_told_in_full(backfill, name):
    done = backfill("policies", name)
    assert done.code == 0
    told = [line.split()[0] for line in done.out.splitlines()[:5]]
    assert told[:2] == ["policy", "order"]
    assert "Cost: " in done.out


def test_one_policy_in_full(backfill):
    out = backfill("policies", "k-reservations").out
    assert "parameter  k = 4 jobs, from 0 to inf: number of waiting jobs that hold reservations; 0 is first-fit" in out
    assert "Promise: " in out
    assert "longest candidate" in backfill("policies", f"{FILES / 'mine.py'}:mine").out
    assert backfill("policies", "eazy").code == 2


@pytest.mark.parametrize("verb", ["demo", "simulate", "verify", "generate", "policies"])
def test_help_has_examples(backfill, verb):
    done = backfill(verb, "--help")
    assert done.code == 0
    assert f"\n    backfill {verb}" in done.out


def test_version_and_help(backfill):
    from backfill import __version__

    assert backfill("--version").out == f"backfill {__version__}\n"
    assert "simulate" in backfill("--help").out
    assert backfill().code == 2


def test_help_compiles_and_loads_nothing():
    code = "import sys; from backfill.cli import main; main(['-h']); print({'numba', 'numpy', 'rich'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("\nset()\n")


def test_policies_are_completed():
    words = {
        "_BACKFILL_COMPLETE": "complete_bash",
        "COMP_WORDS": "backfill simulate x --policy cons",
        "COMP_CWORD": "4",
    }
    done = subprocess.run(COMMAND, env=os.environ | words, capture_output=True, text=True)
    assert done.stdout.split() == ["conservative"]


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    words = ["generate", "lublin", "--jobs", "20000", "--out", "-"]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("; ")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 1


def test_ctrl_c_ends_at_once_and_leaves_nothing_behind(tmp_path):
    words = [
        "simulate",
        "model:lublin?jobs=20000",
        "--policy",
        f"{FILES / 'slow.py'}:slow",
        "--schedule",
        "out.csv",
        "-q",
    ]
    with subprocess.Popen([*COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        told = [*process.stderr]
    assert process.returncode == 130
    assert told[-1] == "backfill: interrupted\n"
    assert {*told[:-1]} <= {"running\n"}
    assert len(told) < 1000  # a pass takes 0.01 s
    assert list(Path(tmp_path).iterdir()) == []


def cpu_s(process):
    """The seconds of cpu time that a process has used, also one that is over as long as nobody has waited for it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


TELLS_WHEN_IT_IS_INSIDE = """
import sys
from backfill.worlds import virtual

advance = virtual.advance

def told(*arguments):
    print("inside", file=sys.stderr, flush=True)
    return advance(*arguments)

virtual.advance = told
from backfill.cli import main
sys.exit(main())
"""


LOOPS = """
from backfill import policy
from backfill.verbs import head

@policy("loops")
def loops(state):
    n = 0
    while head(state) >= 0:
        n += 1
"""


def test_ctrl_c_ends_a_compiled_pass_that_never_returns(tmp_path):
    (tmp_path / "loops.py").write_text(LOOPS)
    words = ["simulate", "model:lublin?jobs=100", "--policy", "loops.py", "--schedule", "out.csv", "-q"]
    command = [sys.executable, "-c", TELLS_WHEN_IT_IS_INSIDE, *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "inside\n"
        before = cpu_s(process)
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
        assert cpu_s(process) - before < 10
    assert (process.returncode, told) == (130, "backfill: interrupted\n")
    assert not (tmp_path / "out.csv").exists()


def test_ctrl_c_ends_a_compiled_policy_too_though_its_passes_are_slow(tmp_path):
    """At three times what 64 processors can take the queue only grows, and with it the time of a pass that sorts it."""
    words = [
        "simulate",
        "model:lublin?jobs=300000&cpus=64&load=3",
        "--policy",
        "easy-lxf",
        "--schedule",
        "out.csv",
        "-q",
    ]
    command = [sys.executable, "-c", TELLS_WHEN_IT_IS_INSIDE, *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(8):  # by now it handles many passes at a time
            assert process.stderr.readline() == "inside\n"
        before = cpu_s(process)
        process.send_signal(signal.SIGINT)
        told = [line for line in process.stderr if line != "inside\n"]
        assert cpu_s(process) - before < 10
    assert process.returncode == 130
    assert told == ["backfill: interrupted\n"]
    assert list(Path(tmp_path).iterdir()) == []


def test_generate_writes_the_farm_beside_its_jobs(backfill, tmp_path):
    done = backfill("generate", "farm", "--jobs", "50", "--set", "machines=5", "--out", "jobs.csv")
    assert "wrote jobs.toml: 5 nodes, 20 licences" in done.err
    assert done.err.endswith("next: backfill simulate jobs.csv --platform jobs.toml\n")
    words = ("--policy", "bf-mod", "--json", "-q")
    from_files = json.loads(backfill("simulate", "jobs.csv", "--platform", "jobs.toml", *words).out)
    drawn = json.loads(backfill("simulate", "model:farm?jobs=50&machines=5", *words).out)
    assert from_files["metrics"] == drawn["metrics"]
    assert from_files["platform"]["sha256"] == drawn["platform"]["sha256"]
    assert {"out_deadline", "system_usage", "licence_usage"} < {*drawn["metrics"]}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("farm", "--out", "jobs.swf"), "model farm produces resources or licences, which SWF cannot hold"),
        (("lublin", "--jobs", "5", "--out", "a.csv", "--platform", "a.toml"), "has no platform of its own"),
    ],
)
def test_generate_refuses_what_cannot_be_written(backfill, words, complaint):
    done = backfill("generate", *words)
    assert done.code == 2
    assert complaint in done.complaint


def test_where_there_is_no_terminal_a_line_says_now_and_then_how_far_it_is(monkeypatch, capsys):
    clock = iter([0.0, 4.0, 30.5, 42.0, 61.0])
    monkeypatch.setattr(say.time, "monotonic", lambda: next(clock))
    say.begin([])
    with say.bar("easy", 200) as progress:
        for done in (50, 100, 110, 190):
            progress(done)
    assert capsys.readouterr().err == "easy: 50% done after 30 s\neasy: 95% done after 61 s\n"
