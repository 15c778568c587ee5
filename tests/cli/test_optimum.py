"""`backfill optimum`, and `compare --optimum`."""

import json
import sys

import pytest

JOBS = """job,submit,runtime,walltime,cpus
a,0,100,100,3
b,1,100,120,4
c,2,60,60,1
d,3,150,200,2
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)


def test_without_the_solver_it_says_what_to_install(backfill, jobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    for words in (("optimum", "jobs.csv"), ("compare", "jobs.csv", "--optimum", "1")):
        done = backfill(*words, "--cpus", "4")
        assert (done.code, done.out) == (2, "")
        assert "pip install 'backfill[optimum]'" in done.err


def test_the_schedule_is_written_and_passes_the_checker(backfill, jobs):
    pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")
    done = backfill("optimum", "jobs.csv", "--cpus", "4", "--schedule", "best.csv", "--json")
    told = json.loads(done.out)
    assert (told["proven"], told["value"]) == (True, told["bound"])
    assert told["value"] <= told["policy"]["value"]
    assert backfill("verify", "jobs.csv", "best.csv", "--cpus", "4").code == 0


def test_windows_print_a_bound(backfill, jobs):
    pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")
    done = backfill("optimum", "jobs.csv", "--cpus", "4", "--window", "2", "--objective", "makespan")
    assert "(from 2 windows, 2 solved to the end)" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--objective", "fun"), "--objective"),
        (("--window", "0"), "--window"),
        (("--time-limit", "0"), "--time-limit"),
        (("--window", "2", "--schedule", "out.csv"), "--schedule needs one instance"),
    ],
)
def test_a_mistake_of_optimum_costs_one_line(backfill, jobs, words, said):
    done = backfill("optimum", "jobs.csv", "--cpus", "4", *words)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_the_command_prints_it_and_the_page_and_json_have_it(backfill, jobs, tmp_path):
    pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")
    words = ("compare", "model:lublin?jobs=60&cpus=64", "--policy", "fcfs", "--policy", "easy", "--optimum", "1")
    done = backfill(*words, "--report", "out.html")
    assert done.code == 0, done.err
    assert "above the best possible:" in done.out
    page = (tmp_path / "out.html").read_text()
    assert "windows of 40 jobs" in page
    told = json.loads(backfill(*words, "--json").out)["optimum"]
    assert [each["policy"] for each in told] == ["fcfs", "easy"]


@pytest.mark.parametrize(
    ("words", "said"), [(("--optimum", "0"), "--optimum"), (("--optimum", "9"), "at most 1 windows")]
)
def test_a_mistake_of_compare_costs_one_line(backfill, words, said):
    pytest.importorskip("ortools", reason="needs the extra optimum: pip install 'backfill[optimum]'")
    done = backfill("compare", "model:lublin?jobs=60&cpus=64", *words)
    assert done.code == 2
    assert said in done.err
