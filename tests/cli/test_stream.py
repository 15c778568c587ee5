"""`backfill stream`: its messages, its folder and its JSON."""

import json
import sys
from pathlib import Path

import pytest

from tests.schemas import check

MODEL = "model:lublin?jobs=400&cpus=64"


def test_it_says_where_the_schedule_is_and_what_to_do_next(backfill):
    done = backfill("stream", "tiny.csv", "--cpus", "4", "-o", "out", "--part", "3")
    assert done.code == 0
    assert "2 files of the schedule and stream.json in out" in done.out
    assert done.err.splitlines()[-1].endswith(
        "stream tiny.csv --cpus 4 --part 3 -o out-conservative --policy conservative"
    )
    backfill("simulate", "tiny.csv", "--cpus", "4", "--schedule", "whole.csv")
    first, second = (Path(f"out/schedule-{n:06}.csv").read_text().splitlines() for n in (1, 2))
    assert [*first, *second[1:]] == Path("whole.csv").read_text().splitlines()


def test_its_json_is_stream_json_and_notes_are_printed_once(backfill):
    done = backfill("stream", MODEL, "-o", "out", "--part", "100", "--json")
    assert check("stream", done.out) == json.loads(Path("out/stream.json").read_text())
    assert done.err.count("the model has no user estimates") == 1


def test_options_of_simulate_count(backfill):
    options = ["--events", "e.csv", "--overrun", "extend", "--estimates", "uniform:2", "--place", "pack"]
    Path("e.csv").write_text("time,event,value,until,node\n0,window,50,90,n1\n")
    machine = ["--cpus", "8", "--nodes", "2"]
    done = backfill("stream", "tiny.csv", *machine, "-o", "out", "--part", "2", *options)
    assert done.code == 0, done.err
    backfill("simulate", "tiny.csv", *machine, "--schedule", "whole.csv", *options)
    first, second = (Path(f"out/schedule-{n:06}.csv").read_text().splitlines() for n in (1, 2))
    assert [*first, *second[1:]] == Path("whole.csv").read_text().splitlines()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((MODEL, "--jobs", "10"), 2, "--jobs is for logs; model:lublin is drawn part by part: expected its keys"),
        ((MODEL, "--part", "0"), 2, "part is 0; expected a number of jobs from 1"),
        (("model:lublin?jobs=0",), 2, "lublin: jobs is 0"),
        (("tiny.csv", "--cpus", "4", "--policy", "flexible-fairshare"), 2, "asks about jobs that are over"),
        (("tiny.csv", "--cpus", "4", "--format", "xml"), 2, "format"),
        (("missing.csv",), 3, "missing.csv: cannot be read"),
    ],
)
def test_mistakes_are_told_in_one_line_and_leave_no_folder(backfill, words, code, told):
    done = backfill("stream", *words, "-o", "out")
    assert done.code == code
    assert told in done.complaint
    assert not Path("out").exists()


def test_a_folder_with_files_is_refused_before_the_log_is_read(backfill):
    Path("out").mkdir()
    Path("out/mine").touch()
    done = backfill("stream", "missing.csv", "-o", "out")
    assert done.code == 1
    assert done.complaint == "out: the folder is not empty; expected a new or an empty one"


def test_a_missing_package_is_told_before_the_log_is_read(backfill, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    done = backfill("stream", "missing.csv", "-o", "out", "--format", "parquet")
    assert done.code == 2
    assert done.complaint.startswith("writing Parquet needs an optional package")
    assert not Path("out").exists()
