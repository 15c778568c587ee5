"""backfill compare: what it prints, where, and what it refuses."""

import json
import re
import signal
import subprocess
import sys

import pytest

import backfill as bf

from .conftest import FILES
from .test_other_verbs import COMMAND

ON4 = ("--cpus", "4")
TWO = ("--policy", "fcfs", "--policy", "easy")
MODEL = "model:lublin?jobs=200&cpus=64&load=0.9"


def test_table_pairs_losers_waits_and_bounds_in_80_columns(backfill):
    done = backfill("compare", MODEL, *TWO, "--policy", "conservative")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "lublin: 200 jobs on 64 cpus"
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if re.match(r"(fcfs|easy|conservative) +\d", line)] == [
        "fcfs",
        "easy",
        "conservative",
    ]
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["pairs, 95% intervals:", "who loses:", "longest waits:", "lower bounds, for any policy:"]
    assert sum(line.startswith("  ") and "than" in line for line in lines[lines.index(titles[0]) :][:7]) >= 3


def test_messages_go_to_standard_error_with_the_next_command(backfill):
    done = backfill("compare", "tiny.csv", *ON4, *TWO)
    assert done.err.endswith("next: backfill compare tiny.csv --cpus 4 --policy fcfs --policy easy --report out.html\n")
    assert backfill("compare", "tiny.csv", *ON4, *TWO, "--quiet").err == ""


def test_json_is_that_of_the_python_interface(backfill):
    found = json.loads(backfill("compare", MODEL, *TWO, "--json", "-q").out)
    same = bf.compare(bf.generate(MODEL), None, ["fcfs", "easy"]).to_dict()
    assert found["pairs"] == json.loads(json.dumps(same["pairs"]))
    assert [each["metrics"] for each in found["results"]] == [each["metrics"] for each in same["results"]]
    assert {"results", "pairs", "sentences", "fairness", "groups", "longest_waits", "bounds", "gaps"} <= {*found}


def test_replications_and_workers(backfill):
    arguments = (
        "compare",
        MODEL,
        *TWO,
        "--replications",
        "3",
        "--seed",
        "5",
        "--load",
        "1.5",
        "--jobs",
        "150",
        "--json",
    )
    one, two = (json.loads(backfill(*arguments, "--workers", n).out) for n in "12")
    assert one["pairs"] == two["pairs"]
    assert one["pairs"][0]["method"] == "t interval, 3 replications"
    again = [bf.generate(f"{MODEL}&seed={r}").head(150).at_load(1.5) for r in range(3)]
    waits = [bf.simulate(log, None, "easy", seed=5 + r).metrics["mean_wait_s"] for r, log in enumerate(again)]
    assert [each["mean_wait_s"] for each in one["replications"][1]["metrics"]] == waits


def test_a_report_and_a_check(backfill, tmp_path):
    done = backfill("compare", "tiny.csv", *ON4, *TWO, "--report", "out.html", "--verify")
    assert "wrote out.html\nlawful: 2 schedules of 4 jobs checked\n" in done.err
    assert "next:" not in done.err
    page = (tmp_path / "out.html").read_text()
    assert "backfill compare tiny.csv" in page
    assert "fcfs" in page


def test_policies_with_parameters_and_from_a_file(backfill):
    done = backfill(
        "compare", "tiny.csv", *ON4, "--policy", "k-reservations:k=2", "--policy", f"{FILES / 'slow.py'}:slow"
    )
    assert re.search(r"^k-reservations:k=2 +\d", done.out, re.MULTILINE)
    assert re.search(r"^slow +\d", done.out, re.MULTILINE)


def test_one_policy_in_two_orders(backfill):
    done = backfill("compare", "tiny.csv", *ON4, "--policy", "easy:order=saf", "--policy", "easy:order=sjf")
    assert done.code == 0
    assert re.search(r"^easy:order=saf +\d", done.out, re.MULTILINE)
    assert re.search(r"^easy:order=sjf +\d", done.out, re.MULTILINE)


def test_without_policies_usual_ones_are_compared(backfill):
    done = backfill("compare", "tiny.csv", *ON4)
    assert [line.split()[0] for line in done.out.splitlines()[5:9]] == ["fcfs", "easy", "easy-sjbf", "conservative"]
    assert "policies: fcfs, easy, easy-sjbf, conservative; --policy chooses others" in done.err
    assert "`backfill policies` says at its end which policies to compare for which question" in done.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--policy", "easy"), "a comparison needs two policies or more; got 1"),
        (("--policy", "easy", "--policy", "easy"), "policy easy is given twice"),
        ((*TWO, "--policy", "eazy"), "unknown policy 'eazy'; did you mean easy"),
        ((*TWO, "--replications", "0"), "--replications is 0; expected a whole number >= 1"),
        ((*TWO, "--workers", "-1"), "--workers is -1; expected a whole number >= 1"),
        ((*TWO, "--replications", "2"), "--replications 2 needs a generated workload, model:NAME?..."),
        ((*TWO, "--report", "-"), "--report is '-'; expected the name of a file"),
        ((*TWO, "--warmup", "soon"), "--warmup is 'soon'; expected a number of jobs or a span of time"),
        ((*TWO, "--ties", "both"), "--ties is 'both'; expected batch or step"),
    ],
)
def test_options_are_judged_before_the_log_is_read(backfill, words, complaint):
    done = backfill("compare", "no-such-file.swf", *ON4, *words)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.complaint


def test_a_log_that_is_not_there_is_bad_input(backfill):
    assert backfill("compare", "no-such-file.swf", *ON4, *TWO).code == 3


def test_help_shows_examples(backfill):
    assert "backfill compare KTH-SP2.swf.gz --policy fcfs" in backfill("compare", "--help").out


def test_hostile_names_of_jobs_and_users_stay_in_their_lines(backfill, tmp_path):
    evil = "<script>[red]" + "x" * 10_000
    rows = [f'"{evil}{i}",{i},50,60,4,"{evil}{i % 2}"' for i in range(4)]
    (tmp_path / "evil.csv").write_text("\n".join(["job,submit,runtime,walltime,procs,user", *rows]))
    done = backfill("compare", "evil.csv", *ON4, "--policy", "fcfs", "--policy", "easy-ljf", "-q")
    assert done.code == 0
    assert "waited" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert len(done.out) < 5000


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_prints_what_is_done_and_says_what_is_missing(tmp_path, workers):
    slow = f"{FILES / 'slow.py'}:slow"
    words = ["compare", "model:lublin?jobs=20000", *TWO, "--policy", slow, "--workers", workers]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *words], cwd=tmp_path, start_new_session=True, **streams) as process:
        while process.stderr.readline() != "running\n":
            pass
        process.send_signal(signal.SIGINT)
        told = [line for line in process.stderr if line != "running\n"]
        printed = process.stdout.read()
    assert process.returncode == 130
    assert re.match(r"interrupted after [12] of 3 runs; left out: .*slow\n", told[-1])
    assert re.search(r"^(fcfs|easy) +\d", printed, re.MULTILINE)
    assert "\nslow " not in printed


def test_a_file_name_cannot_command_the_terminal(backfill, tmp_path):
    (tmp_path / "tiny.csv").rename(tmp_path / "ev\x1b[31mil\x07.csv")
    done = backfill("compare", "ev\x1b[31mil\x07.csv", *ON4, *TWO)
    assert done.out.startswith("ev?[31mil?: 4 jobs on 4 cpus\n")
    assert "\x1b" not in done.out + done.err


PRESSED_WHILE_COMPARED = """
import os, signal, sys
from backfill import comparison

groups = comparison.groups

def pressed(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return groups(*arguments)

comparison.groups = pressed
from backfill.cli import main
sys.exit(main())
"""


def test_ctrl_c_while_finished_runs_are_compared_loses_none_of_them(tmp_path):
    words = ["compare", MODEL, *TWO, "--report", "out.html", "-q"]
    command = [sys.executable, "-c", PRESSED_WHILE_COMPARED, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert re.search(r"^easy +\d", done.stdout, re.MULTILINE)
    assert (tmp_path / "out.html").exists()
