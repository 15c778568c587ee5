"""Nonsense on the command line: one line that says what was expected, before any work, and never a traceback."""

import io
import json
import math
import resource
import subprocess
import time
from types import SimpleNamespace

import pytest

from backfill.core.policy import Param
from backfill.policies import get

from .conftest import TINY
from .test_other_verbs import COMMAND

ON4 = ("simulate", "tiny.csv", "--cpus", "4")
HUGE = "1" + "0" * 30

USAGE = {
    "seed": (("--seed", HUGE), f"--seed is {HUGE}; expected a whole number from 0 to 2^64 - 1"),
    "negative seed": (("--seed", "-1"), "--seed is -1; expected a whole number from 0 to 2^64 - 1"),
    "cpus": (("--cpus", HUGE), f"--cpus is {HUGE}; expected a whole number from 1 to 2^62"),
    "nodes": (
        ("--cpus", HUGE[:12], "--nodes", HUGE[:12]),
        f"--nodes is {HUGE[:12]}; expected 1 to 1000000 nodes that share {HUGE[:12]} cpus evenly",
    ),
    "memory": (("--memory", "9999999P"), "--memory is '9999999P'; expected a whole number below 2^62 that may carry"),
    "no memory": (("--memory", "0"), "--memory is 0; expected a whole number from 1 to 2^62"),
    "slow load": (("--load", "1e-300"), "--load is 1e-300; expected a factor that leaves every submit time below"),
    "no load": (("--load", "0"), "--load is 0.0; expected a finite number > 0"),
    "long trim": (("--warmup", HUGE + "d"), f"--warmup is '{HUGE}d'; expected a number of jobs or a span of time"),
    "many digits": (("--cooldown", "9" * 5000), "...'; expected a number of jobs or a span of time"),
    "half": (("--policy", "k-reservations:k=2.5"), "k is 2.5; expected a whole number from 0 to inf"),
    "page": (("--report", "-"), "--report is '-'; expected the name of a file"),
    "log as output": (("--schedule", "tiny.csv"), "--schedule tiny.csv is also the log; expected a different file"),
    "one output": (
        ("--schedule", "o", "--report", "./o"),
        "--report ./o is also --schedule; expected a different file",
    ),
    "too much": (("more",), "Got unexpected extra argument(s) (more); see backfill simulate --help"),
    "text": (("--jobs", "many"), "Invalid value for '--jobs': "),
}


@pytest.mark.parametrize("case", USAGE)
def test_nonsense_is_one_line_and_exit_2(backfill, tmp_path, case):
    words, complaint = USAGE[case]
    done = backfill(*ON4, *words, "-q")
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert complaint in done.complaint
    assert (tmp_path / "tiny.csv").read_text() == TINY


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--ties", "both"),
        ("--overrun", "maybe"),
        ("--estimates", "inflate:0"),
        ("--predict", "average2:correct=late"),
        ("--seed", "-1"),
        ("--warmup", "soon"),
        ("--cooldown", "1.5"),
        ("--set", "k"),
        ("--zero-run", "all"),
        ("--load", "-1"),
        ("--jobs", "0"),
    ],
)
def test_options_are_judged_before_the_log_is_read(backfill, option, value):
    done = backfill("simulate", "missing.swf", "--cpus", "4", option, value)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert done.complaint.startswith(f"{option} is ")
    assert value in done.complaint
    assert "; expected " in done.complaint


@pytest.mark.parametrize("words", [("--policy", "eazy"), ("--policy", "easy:k=1"), ("--set", "k=1")])
def test_a_policy_and_its_parameters_are_judged_before_the_log_is_read(backfill, words):
    assert backfill("simulate", "missing.swf", "--cpus", "4", *words).code == 2


def test_the_parameters_of_a_file_are_judged_before_it_is_compiled(backfill, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from backfill import policy\n@policy('mine')\ndef mine(state):\n    pass\n")
    monkeypatch.setattr("backfill.core.policy.kernel", lambda *_: pytest.fail("was compiled"))
    done = backfill(*ON4, "--policy", "mine.py", "--set", "k=1")
    assert (done.code, done.complaint) == (2, "policy mine has no parameter 'k'; known: place")


@pytest.mark.parametrize("option", ["--schedule", "--report"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".", "it is a folder"),
        ("new/", "it is a folder"),
        ("", "not a file name"),
        ("none/out", "there is no such folder"),
        ("tiny.csv/out", "there is no such folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_told_before_the_log_is_read(backfill, tmp_path, option, path, why):
    done = backfill("simulate", "missing.swf", option, path)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert f"cannot be written: {why}" in done.complaint
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.csv"]


def test_a_promise_to_nobody_is_told_before_the_run(backfill, monkeypatch):
    monkeypatch.setattr("backfill.cli.run.run", lambda *_, **__: pytest.fail("was run"))
    assert backfill(*ON4, "--promise", "z", "-q").code == 2


def test_what_was_read_from_standard_input_is_not_asked_for_again(backfill, monkeypatch):
    for words in ((), ("--schedule", "out.csv")):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TINY.encode())))
        assert "next:" not in backfill("simulate", "-", "--cpus", "4", *words).err


def test_a_hint_can_be_typed_as_it_stands(backfill):
    hint = backfill("simulate", "--cpus", "4", "--", "tiny.csv").err.splitlines()[-1]
    assert hint == "next: backfill simulate --cpus 4 --report out.html -- tiny.csv"
    hint = backfill("generate", "lublin", "--jobs", "5", "--out", "a b.csv").err.splitlines()[-1]
    assert hint == "next: backfill simulate 'a b.csv' --cpus 256"


def test_a_log_without_projects_is_noted_where_they_are_scheduled(backfill, tmp_path):
    (tmp_path / "single.csv").write_text("job,submit,runtime\na,0,10\nb,0,10\n")
    note = "no job has a project: 2tsb treats each job as a project of its own"
    assert note in backfill("simulate", "single.csv", "--cpus", "4", "--policy", "2tsb").err
    assert "project" not in backfill("simulate", "single.csv", "--cpus", "4", "--policy", "easy").err


ASKING = """job,submit,runtime,gpus,memory,licences
a,0,10,1,6G,
b,0,10,,8G,matlab
c,0,10,0,8G,
d,0,10,0,,
"""


def test_a_job_that_asks_for_what_the_platform_does_not_have_is_rejected(backfill, tmp_path):
    (tmp_path / "asking.csv").write_text(ASKING)
    done = backfill("simulate", "asking.csv", "--cpus", "4", "--verify", "--schedule", "out.csv")
    assert done.code == 0
    assert "rejected 2 of 4 jobs, which can never run here: gpus (1), matlab (1)\n" in done.err
    assert "memory is not limited: the platform does not state how much it has\n" in done.err
    states = [line.split(",")[4:6] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert states == [["REJECTED", "gpus"], ["REJECTED", "matlab"], ["COMPLETED", "head"], ["COMPLETED", "head"]]
    assert backfill("verify", "asking.csv", "out.csv", "--cpus", "4").code == 0
    done = backfill("simulate", "asking.csv", "--cpus", "4", "--memory", "7G", "--verify")
    assert "rejected 3 of 4 jobs, which can never run here: gpus (1), matlab (1), memory (1)\n" in done.err
    assert "memory is not limited" not in done.err


def test_a_trim_that_leaves_no_job_is_said(backfill):
    done = backfill(*ON4, "--warmup", "3", "--cooldown", "2d")
    assert "warmup 3 and cooldown 172800s leave no job in the metrics\n" in done.err
    assert "leave no job" not in backfill(*ON4, "--warmup", "3").err


def test_a_log_without_jobs_has_an_empty_result(backfill, tmp_path):
    (tmp_path / "head.swf").write_text("; MaxProcs: 8\n")
    done = backfill("simulate", "head.swf", "--policy", "conservative", "--verify", "--json")
    found = json.loads(done.out)
    assert (done.code, found["violations"], found["metrics"]["mean_wait_s"]) == (0, [], None)


def test_the_rule_about_zero_runs_holds_for_models_too(backfill):
    arguments = ("simulate", "model:lublin?jobs=50", "--json", "-q", "--zero-run")
    assert json.loads(backfill(*arguments, "drop").out)["options"]["zero_run"] == "drop"
    assert backfill(*arguments, "all").code == 2


def test_running_out_of_memory_is_one_line_and_exit_1(backfill, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("backfill.worlds.simulated.simulate", full)
    done = backfill(*ON4, "-q")
    assert (done.code, done.complaint) == (1, "out of memory: Unable to allocate 7 TiB")


@pytest.mark.parametrize("fails_at_once", [True, False])
def test_an_interrupt_that_a_callback_drops_is_told_as_one(backfill, monkeypatch, fails_at_once):
    class Dropping:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def compiling(*_: object, **__: object) -> None:
        callback = Dropping()
        del callback
        for _ in range(0 if fails_at_once else 10_000):
            time.sleep(0.001)
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr("backfill.worlds.simulated.simulate", compiling)
    done = backfill(*ON4, "-q")
    assert (done.code, done.complaint) == (130, "interrupted")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["policies easy", "--help", "--version", "simulate --help", "submit --help"])
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_1(monkeypatch, words, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "backfill: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["generate", "lublin", "--jobs", "3000", "--out", "out.parquet"], "out.parquet"),
        (["generate", "lublin", "--jobs", "3000", "--out", "out.csv.gz"], "out.csv.gz"),
        (["simulate", "model:lublin?jobs=3000", "--policy", "fcfs", "--schedule", "out.csv"], "out.csv"),
        (["simulate", "model:lublin?jobs=3000", "--policy", "fcfs", "--save", "out"], "out/jobs.csv.gz"),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(backfill, tmp_path, words, name):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))  # a write beyond it fails as on a full disk
    try:
        done = backfill(*words, "-q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (done.code, done.complaint) == (1, f"{name}: cannot be written: File too large")
    assert [*tmp_path.iterdir()] == [tmp_path / "tiny.csv"]


def test_a_whole_number_may_be_infinite_where_its_bound_is():
    every = Param(math.inf, 1, math.inf, whole=True)
    assert [every.allows(value) for value in (1, 3.0, math.inf, 2.5, 0, math.nan)] == [True] * 3 + [False] * 3
    assert get("k-reservations").params["k"].allows(math.inf)
    assert not Param(1, 1, 9, whole=True).allows(math.inf)


LICENCES = """
[[node]]
name = "m"
count = 2
cpus = 4
licences = []
node_licences = {abaqus = 1}
[[node]]
name = "n"
cpus = 4
licences = ["matlab"]
[[licence]]
name = "matlab"
copies = 1
[[licence]]
name = "none"
copies = 0
[[licence]]
name = "nowhere"
copies = 3
"""


def test_jobs_that_can_never_have_their_licences_are_rejected_with_the_reason(backfill, tmp_path):
    (tmp_path / "farm.toml").write_text(LICENCES)
    asks = [
        "matlab:1",
        "abaqus:1",
        "none:1",
        "matlab:2",
        "abaqus:2",
        "unknown:1",
        "matlab:1;abaqus:1",
        "abaqus:1",
        "nowhere:1",
    ]
    rows = [f"j{i},0,10,{2 if i == 7 else 1},{each}" for i, each in enumerate(asks)]
    (tmp_path / "jobs.csv").write_text("\n".join(["job,submit,runtime,tasks,licences", *rows]))
    for policy in ("fcfs", "bf-fcfs", "bf-mod", "bf-unmod", "conservative"):
        done = backfill(
            "simulate", "jobs.csv", "--platform", "farm.toml", "--policy", policy, "--verify", "--schedule", "-"
        )
        assert done.code == 0
        cells = [line.split(",") for line in done.out.splitlines()[1:]]
        assert [(row[4], row[5] if row[4] == "REJECTED" else row[6]) for row in cells] == [
            ("COMPLETED", "n"),
            ("COMPLETED", "m1"),
            ("REJECTED", "none"),
            ("REJECTED", "matlab"),
            ("REJECTED", "abaqus"),
            ("REJECTED", "unknown"),
            ("REJECTED", "nodes"),
            ("REJECTED", "abaqus"),
            ("REJECTED", "nowhere"),
        ]


def test_deadlines_before_the_submit_are_bad_input(backfill, tmp_path):
    (tmp_path / "late.csv").write_text("job,submit,runtime,deadline\na,100,10,50\n")
    done = backfill("simulate", "late.csv", "--cpus", "4")
    assert done.code == 3
    assert done.complaint == "late.csv:2: deadline is '50'; expected the submit, 100 s, or a later time"


def test_on_very_slow_nodes_bounds_lie_below_what_comes_out(backfill, tmp_path):
    (tmp_path / "slow.toml").write_text('[[node]]\nname = "a"\ncpus = 4\nspeed = 0.000001\n')
    (tmp_path / "short.csv").write_text("job,submit,runtime,walltime,procs\n0,0,60,100,4\n1,0,60,1e8,4\n2,0,5,5,1\n")
    args = ("short.csv", "--platform", "slow.toml", "--policy", "easy", "--policy", "fcfs", "--verify", "--json", "-q")
    found = json.loads(backfill("compare", *args).out)
    metrics = [result["metrics"] for result in found["results"]]
    assert {bound["metric"] for bound in found["bounds"]} == {"makespan_s", "mean_wait_s"}
    assert all(bound["value"] <= each[bound["metric"]] for bound in found["bounds"] for each in metrics)
    assert metrics[0]["makespan_s"] > 60_000_000  # 60 s of work


def test_a_schedule_beyond_the_largest_time_of_a_log_is_read_and_checked(backfill, tmp_path):
    (tmp_path / "long.csv").write_text("job,submit,runtime,procs\n" + "".join(f"{i},0,6e10,4\n" for i in range(3)))
    backfill("simulate", "long.csv", "--cpus", "4", "--policy", "fcfs", "--schedule", "s.csv", "-q")
    assert "2,0,120000000000,180000000000," in (tmp_path / "s.csv").read_text()
    assert backfill("verify", "long.csv", "s.csv", "--cpus", "4").out == "lawful: 3 jobs checked\n"
