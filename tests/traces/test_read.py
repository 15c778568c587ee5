import gzip
import hashlib
import io
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from backfill.model.errors import BackfillError, MissingExtra, UsageError, WorkloadError, quote
from backfill.traces.files import written
from backfill.traces.read import read
from backfill.traces.table import write_parquet

SWF = b"; MaxProcs: 8\n1 0 -1 0 1 -1 -1 1 9 -1 5 -1 -1 -1 -1 -1 -1 -1\n2 5 -1 3 1 -1 -1 1 9 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
CSV = b"job,submit,runtime,tape\n1,0,0,3\n2,5,3,4\n"


@pytest.mark.parametrize(("name", "data"), [("log.swf", SWF), ("log.csv", CSV)])
@pytest.mark.parametrize("packed", [False, True])
def test_the_suffix_says_the_format_and_the_name_goes_without_it(name: str, data: bytes, packed: bool, tmp_path: Path):
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
    workload = read(path)
    assert workload.name == "log"
    assert [str(job) for job in workload.jobs.job] == ["1", "2"]
    assert workload.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_parquet_is_read_too(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(CSV)
    write_parquet(read(tmp_path / "a.csv", resources=["tape"]), tmp_path / "b.parquet")
    workload = read(str(tmp_path / "b.parquet"), resources=["tape"])
    assert (workload.name, workload.resources, workload.jobs.demand.tolist()) == (
        "b",
        ("cpus", "tape"),
        [[1, 3], [1, 4]],
    )


@pytest.mark.parametrize(
    "data", [SWF, SWF[14:], gzip.compress(SWF, mtime=0), CSV, gzip.compress(CSV, mtime=0), b"\n" + SWF[14:]]
)
def test_standard_input_is_recognised(data: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    workload = read("-")
    assert (len(workload), workload.name) == (2, "stdin")
    assert workload.sha256 == hashlib.sha256(data).hexdigest()


def test_a_table_that_begins_with_a_number_is_not_taken_for_swf(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"1,2,3\n4,5,6\n")))
    with pytest.raises(WorkloadError, match="<stdin>:1: no column job; the columns are '1,2,3'"):
        read("-")


def test_zero_run_holds_for_tables_as_far_as_they_can_say(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "a.swf").write_bytes(SWF)
    for name in ("a.csv", "a.swf"):
        dropped = read(tmp_path / name, zero_run="drop")
        assert (len(dropped), dropped.dropped) == (1, {"run time 0": 1})
    assert len(read(tmp_path / "a.swf", zero_run="drop-cancelled")) == 1
    kept = read(tmp_path / "a.csv", zero_run="drop-cancelled")
    assert len(kept) == 2
    assert kept.notes[-1] == "the log does not state which jobs were cancelled: those with run time 0 are kept"
    (tmp_path / "b.csv").write_text("job,submit,runtime,status\na,0,0,CANCELLED by 7\nb,0,0,completed\nc,0,0,\n")
    fewer = read(tmp_path / "b.csv", zero_run="drop-cancelled")
    assert (fewer.jobs.job.tolist(), fewer.dropped) == (["b", "c"], {"run time 0, cancelled": 1})
    with pytest.raises(UsageError, match="zero_run is 'no'"):
        read(tmp_path / "a.csv", zero_run="no")


def test_files_that_are_not_there_or_of_no_known_kind_are_refused(tmp_path: Path):
    with pytest.raises(WorkloadError, match=r"unknown suffix; expected \.swf, \.swf\.gz, \.csv, .*, or - for stdin"):
        read(tmp_path / "jobs.txt")
    with pytest.raises(WorkloadError, match="cannot be read: No such file or directory"):
        read(tmp_path / "jobs.swf")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(WorkloadError, match="cannot be read: Is a directory"):
        read(tmp_path / "folder.csv")
    with pytest.raises(WorkloadError, match=r"'a\\x00.csv' is not a file name"):
        read("a\0.csv")
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(WorkloadError, match="is empty"):
        read(tmp_path / "empty.parquet")
    (tmp_path / "no.parquet").write_bytes(CSV)
    with pytest.raises(WorkloadError, match="cannot be read as Parquet"):
        read(tmp_path / "no.parquet")


def test_parquet_without_polars_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "a.csv").write_bytes(CSV)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"reading Parquet needs an optional package.*backfill\[data\]"):
        read(tmp_path / "a.parquet")
    with pytest.raises(MissingExtra, match="writing Parquet"):
        write_parquet(read(tmp_path / "a.csv"), tmp_path / "b.parquet")


def test_reading_swf_and_csv_imports_neither_polars_nor_pydantic_nor_the_compiler():
    code = "import sys, backfill.traces.read, backfill.traces.schedules, backfill.model.platform; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"polars", "pydantic", "numba"} & set(run.stdout.split())


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "out.csv"
    path.write_text("before")

    def write_half() -> None:
        with written(path) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_and_a_device_are_written_to_not_replaced(tmp_path: Path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.touch()
    link.symlink_to(target)
    with written(link) as out:
        out.write(b"new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    with written(os.devnull) as out:
        out.write(b"new")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_folder_cannot_be_written(tmp_path: Path):
    with pytest.raises(BackfillError, match="cannot be written: it is a folder"), written(tmp_path) as out:
        out.write(b"new")


def test_what_is_quoted_is_short_and_shows_control_characters():
    assert quote("a\x1b[1m\n") == r"'a\x1b[1m\n'"
    assert quote("x" * 61) == "'" + "x" * 57 + "...'"
    assert len(quote("\0" * 10**6)) <= 62
