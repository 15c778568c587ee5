"""The calendar of a log stays with it from file to file."""

from dataclasses import replace

import pytest

import backfill as bf
from backfill.model.clock import Clock
from backfill.model.units import SECOND

STOCKHOLM = Clock(843_480_031, "Europe/Stockholm")
BERLIN = Clock(0, "Europe/Berlin")
UNIX = 1_782_900_000 * SECOND


def log_of(clock, first=0):
    log = bf.generate("lublin?jobs=4&cpus=64")
    return replace(log, jobs=log.jobs.replace(submit=log.jobs.submit + first), clock=clock)


@pytest.mark.parametrize("suffix", [".swf", ".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize(
    ("clock", "first"), [(STOCKHOLM, 0), (BERLIN, UNIX), (None, UNIX), (None, 0)], ids=["old", "unix", "guess", "none"]
)
def test_a_copy_has_the_calendar_of_its_log(clock, first, suffix, tmp_path):
    if suffix == ".parquet":
        pytest.importorskip("polars")
    log = log_of(clock, first)
    bf.write(log, tmp_path / f"a{suffix}")
    copy = bf.read(tmp_path / f"a{suffix}")
    assert copy.calendar == log.calendar
    assert copy.jobs.submit.tolist() == log.jobs.submit.tolist()
    bf.write(copy, tmp_path / f"b{suffix}")
    assert bf.read(tmp_path / f"b{suffix}").calendar == log.calendar


def test_a_csv_states_its_calendar_once_and_other_readers_get_a_column(tmp_path):
    bf.write(log_of(STOCKHOLM), tmp_path / "log.csv")
    rows = [line.rsplit(",", 1)[1] for line in (tmp_path / "log.csv").read_text().splitlines()]
    assert rows == ["time_zero", "1996-09-23T12:00:31Z[Europe/Stockholm]", "", "", ""]
    bf.write(log_of(None, UNIX), tmp_path / "log.csv")
    assert "time_zero" not in (tmp_path / "log.csv").read_text()


@pytest.mark.parametrize(
    ("submit", "cells", "told"),
    [
        ("0", ["noon"], "time_zero is 'noon'; expected when time 0 is"),
        ("0", ["2026-03-01T00:00:00"], "expected when time 0 is"),
        ("0", ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"], "expected the same in all rows"),
        ("2026-03-01T12:00:00Z", ["2026-03-01T00:00:00Z"], "from which dates count"),
    ],
)
def test_a_calendar_that_makes_no_sense_is_refused(submit, cells, told, tmp_path):
    lines = [f"{row},{submit},60,{cell}" for row, cell in enumerate(cells)]
    (tmp_path / "log.csv").write_text("\n".join(["job,submit,runtime,time_zero", *lines, ""]))
    with pytest.raises(bf.WorkloadError, match=told):
        bf.read(tmp_path / "log.csv")


def test_dates_are_told_in_the_zone_that_the_table_names(tmp_path):
    (tmp_path / "log.csv").write_text(
        "job,submit,runtime,time_zero\n1,2026-03-01T12:00:00Z,60,1970-01-01T00:00:00Z[Europe/Berlin]\n"
    )
    assert bf.read(tmp_path / "log.csv").clock == BERLIN
