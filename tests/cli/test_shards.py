"""compare --shard and --save: what is kept, goes on and is merged, and what is refused."""

import json
import os
import re
import shutil
import signal
import warnings
from pathlib import Path

import pytest

from tests.cli.test_signals import started
from tests.patience import PATIENCE_S, until
from tests.schemas import check

LOG = "model:lublin?jobs=150&cpus=64&seed=3"
SWEEP = (
    "compare",
    LOG,
    "--policy",
    "fcfs",
    "--policy",
    "easy",
    "--sweep",
    "exact,lognormal:0.5,requested",
    "--seed",
    "2",
)
PAIR = ("compare", "tiny.csv", "--cpus", "4", "--policy", "fcfs", "--policy", "easy")
DRAWN = ("compare", LOG, "--policy", "fcfs", "--policy", "easy:order=sjf", "--replications", "4", "--load", "0.8")
COMMANDS = {"sweep": SWEEP, "pair": PAIR, "drawn": DRAWN}


@pytest.fixture
def still(monkeypatch):
    """Simulations that take no time, so that their times do not differ."""
    monkeypatch.setattr("backfill.worlds.simulated.time.perf_counter", lambda: 0.0)


def runs_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("run-"))


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("folders", [("a", "a", "a"), ("a", "b", "c")], ids=["one folder", "three folders"])
def test_merged_shards_equal_one_run_byte_for_byte(backfill, tmp_path, still, command, folders):
    whole = backfill(*command, "--report", "out.html")
    page = (tmp_path / "out.html").read_bytes()
    document = backfill(*command, "--json")
    for number, folder in enumerate(folders, 1):
        assert backfill(*command, "--shard", f"{number}/3", "--save", folder).code == 0
    merged = backfill("report", *folders, "--out", "out.html")
    assert (merged.code, merged.out) == (0, whole.out)
    assert merged.err.endswith("wrote out.html\n")
    assert (tmp_path / "out.html").read_bytes() == page
    assert backfill("report", *folders, "--json").out == document.out
    if len(set(folders)) == 1:  # the command without a shard compares without running anything
        again = backfill(*command, "--save", "a", "--json")
        assert again.out == document.out
        assert re.search(r"^a: (\d+) of \1 runs were there already$", again.err, re.MULTILINE)


def test_shards_divide_the_runs_evenly(backfill, tmp_path):
    for number in range(1, 5):
        done = backfill(*SWEEP, "--shard", f"{number}/4", "--save", f"s{number}")
        assert (done.code, done.out) == (0, "")
    found = [runs_of(tmp_path / f"s{number}") for number in range(1, 5)]
    assert sorted(name for each in found for name in each) == [f"run-{number}.zip" for number in range(1, 7)]
    assert {len(each) for each in found} == {1, 2}
    done = backfill(*PAIR, "--shard", "3/9", "--save", "more")
    assert (done.code, runs_of(tmp_path / "more")) == (0, [])
    assert done.err.endswith("shard 3/9: 0 of 2 runs, kept in more\n")


def test_a_shard_says_what_it_ran(backfill):
    first, second = (backfill(*PAIR, "--shard=1/1", "--save", "a", "--json") for _ in range(2))
    told = check("compare-shard", first.out)
    assert told == {"schema": 1, "shard": "1/1", "runs": 2, "before": 0, "folder": "a"}
    assert json.loads(second.out)["before"] == 2
    assert "a: 2 of 2 runs were there already\n" in second.err
    assert "next: " in second.err
    assert "backfill report a\n" in second.err


LONG = ["compare", "model:lublin?jobs=20000&cpus=64", "--policy", "easy", "--policy", "fcfs", "--replications", "60"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_an_interrupted_sweep_goes_on_where_it_stopped(backfill, tmp_path, number):
    with started(tmp_path, *LONG, "--save", "a") as command:
        until(lambda: (tmp_path / "a").exists() and len(runs_of(tmp_path / "a")) >= 3)
        os.kill(command.pid, number)
        _, err = command.communicate(timeout=PATIENCE_S)
    before = runs_of(tmp_path / "a")
    assert 3 <= len(before) < 120
    if number == signal.SIGTERM:
        assert command.returncode == 130
        assert f"interrupted: {len(before)} of 120 runs are kept in a; the same command goes on\n" in err
        assert not list((tmp_path / "a").glob(".*"))
    assert not (tmp_path / "a" / "result.json").exists()
    kept = {name: (tmp_path / "a" / name).stat().st_mtime_ns for name in before}
    done = backfill(*LONG, "--shard", "1/30", "--save", "a")  # the first four runs
    assert done.code == 0
    assert re.search(r"^a: [34] of 4 runs were there already$", done.err, re.MULTILINE)
    assert {name: (tmp_path / "a" / name).stat().st_mtime_ns for name in before} == kept


def test_an_interrupted_shard_is_told(tmp_path):
    with started(tmp_path, *LONG, "--save", "a", "--shard", "1/2") as command:
        until(lambda: (tmp_path / "a").exists() and runs_of(tmp_path / "a"))
        os.kill(command.pid, signal.SIGTERM)
        out, err = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out) == (130, "")
    assert re.search(r"^interrupted: \d+ of 60 runs are kept in a; the same command goes on$", err, re.MULTILINE)


@pytest.mark.parametrize("shard", ["0/3", "4/3", "x", "1/0", "-1/3", "1/2/3", "1.0/3", "", "٣/٥"])
def test_what_is_no_shard_is_refused(backfill, tmp_path, shard):
    done = backfill(*PAIR, "--shard", shard, "--save", "a")
    told = f"--shard is {shard!r}; expected I/N with 1 <= I <= N, for instance 3/20"
    assert (done.code, done.complaint) == (2, told)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("more", [("--report", "x.html"), ("--verify",), ("--figures", "f"), ("--optimum", "2")])
def test_what_needs_all_runs_is_refused_for_a_shard(backfill, more):
    done = backfill(*SWEEP, "--shard", "1/2", "--save", "a", *more)
    assert done.code == 2
    told = f"{more[0]} needs all runs and cannot be combined with --shard; give it when they are done"
    assert done.complaint == told


def test_a_shard_needs_a_folder_that_can_be_written(backfill, tmp_path):
    done = backfill(*PAIR, "--shard", "1/2")
    assert (done.code, done.complaint) == (2, "--shard needs --save DIR, a folder for its runs")
    done = backfill(*PAIR, "--shard", "1/2", "--save", "tiny.csv/a")
    assert (done.code, done.complaint) == (1, "tiny.csv/a: cannot be written: Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_is_told_before_the_work(backfill, tmp_path):
    (tmp_path / "a").mkdir(mode=0o500)
    done = backfill("compare", "nothing.csv", "--shard", "1/2", "--save", "a")
    assert done.code == 1
    assert "cannot be written: Permission denied" in done.complaint


def test_a_folder_of_another_question_is_refused(backfill, tmp_path):
    assert backfill(*PAIR, "--shard", "1/2", "--save", "a").code == 0
    (tmp_path / "other.csv").write_text((tmp_path / "tiny.csv").read_text().replace("b,1,50", "b,1,51"))
    others = {
        "the seed there is 0, here 1": (*PAIR, "--seed", "1"),
        "not the same workload": ("compare", "other.csv", *PAIR[2:]),
        "not the same platform": ("compare", "tiny.csv", "--cpus", "5", *PAIR[4:]),
        "not the same policies": (*PAIR, "--policy", "easy:order=sjf"),
        "not the same options": (*PAIR, "--overrun", "extend"),
        "not the same kinds of estimates": (*PAIR, "--sweep", "exact,requested"),
    }
    for differs, command in others.items():
        done = backfill(*command, "--save", "a", "--shard", "2/2")
        told = f"a has the runs of another question ({differs}); expected another folder"
        assert (done.code, done.complaint) == (2, told)
    assert backfill(*others["not the same workload"], "--shard", "2/2", "--save", "b").code == 0
    done = backfill("report", "a", "b")
    told = "b has the runs of another question (not the same workload); expected another folder"
    assert (done.code, done.complaint) == (2, told)


def test_a_policy_in_a_file_that_changed_asks_another_question(backfill, tmp_path):
    source = (Path(__file__).parent / "files" / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(source)
    command = (*PAIR[:-1], "mine.py:plain")
    assert backfill(*command, "--shard", "1/2", "--save", "a").code == 0
    (tmp_path / "mine.py").write_text(source + "\n# changed\n")
    done = backfill(*command, "--shard", "2/2", "--save", "a")
    assert (done.code, done.complaint.count("not the same files of policies")) == (2, 1)


def test_missing_shards_are_named_with_their_command(backfill):
    assert backfill(*SWEEP, "--shard", "2/4", "--save", "a", "--workers", "1", "-q").code == 0
    done = backfill("report", "a")
    command = "backfill compare --shard=1/4 --save=a 'model:lublin?jobs=150&cpus=64&seed=3' " + " ".join(SWEEP[2:])
    told = f"a: 4 of 6 runs are missing (shards 1,3-4 of 4); run {command}, and likewise for the other shards"
    assert (done.code, done.complaint) == (3, told)
    assert backfill(*SWEEP, "--shard", "3/4", "--save", "a").code == 0
    assert backfill(*SWEEP, "--shard", "4/4", "--save", "a").code == 0
    assert f"(shard 1 of 4); run {command}" in backfill("report", "a").complaint


def test_a_damaged_run_is_named_and_repeated(backfill, tmp_path, still):
    whole = backfill(*SWEEP, "--save", "a")
    file = tmp_path / "a" / "run-4.zip"
    data = file.read_bytes()
    (tmp_path / "a" / "result.json").unlink()
    for damage in (data[: len(data) // 2], data[:300] + b"\0\1\2\3" + data[304:], b"", b"not a zip file"):
        file.write_bytes(damage)
        done = backfill("report", "a")
        assert done.code == 3
        assert done.complaint.startswith("a/run-4.zip: is damaged: ")
        assert "; run backfill compare --save=a " in done.complaint
        assert done.complaint.endswith(", which repeats its run")
    with warnings.catch_warnings(action="default"):
        done = backfill(*SWEEP, "--save", "a")
    assert "warning: a/run-4.zip: is damaged: File is not a zip file; its run is repeated\n" in done.err
    assert (done.code, done.out) == (0, whole.out)
    assert file.read_bytes() == data


def test_a_run_in_the_place_of_another_is_not_taken_for_it(backfill, tmp_path):
    assert backfill(*SWEEP, "--shard", "1/1", "--save", "a").code == 0
    shutil.copy(tmp_path / "a" / "run-1.zip", tmp_path / "a" / "run-2.zip")
    done = backfill("report", "a")
    assert done.code == 3
    assert done.complaint.startswith("a/run-2.zip: is not run 2 of the question in question.json beside it; run ")


def test_what_is_no_folder_of_runs_is_refused(backfill, tmp_path):
    assert backfill(*PAIR, "--shard", "1/1", "--save", "a").code == 0
    done = backfill("report", "a", "nothing")
    assert (done.code, done.complaint) == (3, "nothing/question.json: cannot be read: No such file or directory")
    for text in ("{}", "[1]", "hm", '{"schema": 2}'):
        (tmp_path / "a" / "question.json").write_text(text)
        for command in (("report", "a"), (*PAIR, "--shard", "1/1", "--save", "a")):
            done = backfill(*command)
            told = "is damaged, or from another version of backfill; expected what --save writes"
            assert (done.code, done.complaint) == (3, f"a/question.json: {told}")


def test_inputs_of_another_question_are_refused(backfill, tmp_path):
    assert backfill(*PAIR, "--shard", "1/1", "--save", "a").code == 0
    assert backfill(*SWEEP, "--shard", "1/1", "--save", "b").code == 0
    shutil.copy(tmp_path / "b" / "inputs.zip", tmp_path / "a" / "inputs.zip")
    done = backfill("report", "a")
    assert (done.code, done.complaint) == (3, "a/inputs.zip: has other inputs than those of question.json beside it")


def test_a_comparison_with_events_and_predictions_is_merged(backfill, tmp_path, still):
    (tmp_path / "events.csv").write_text("time,event,resource,value\n10,capacity,cpus,1\n30,capacity,cpus,4\n")
    command = (
        *PAIR,
        "--policy",
        "conservative",
        "--events",
        "events.csv",
        "--sweep",
        "requested,average2",
        "--warmup",
        "1",
    )
    whole = backfill(*command, "--json")
    for number in (1, 2):
        assert backfill(*command, "--save", "a", "--shard", f"{number}/2").code == 0
    (tmp_path / "events.csv").unlink()
    (tmp_path / "tiny.csv").unlink()  # a folder of runs holds its inputs
    assert backfill("report", "a", "--json").out == whole.out
