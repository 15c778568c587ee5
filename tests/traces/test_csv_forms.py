"""Workload CSV in the forms that people have: other separators, dates, spans, names of their own, broken rows."""

import pytest

from backfill.model.errors import UsageError, WorkloadError
from backfill.model.units import SECOND
from backfill.traces.broken import BrokenLines
from backfill.traces.formats import Rules, import_log
from backfill.traces.table import read_table
from tests.traces.jobs import same

PLAIN = "job,submit,runtime,walltime,procs,licences\na,0,300,3600,4,x:1;y:2\nb,60,604800,648000,1,\n"


@pytest.mark.parametrize("separator", [";", "|", "\t"])
def test_separators(separator):
    turned = PLAIN.replace("x:1;y:2", "'").replace(",", separator).replace("'", '"x:1;y:2"')
    assert same(read_table(turned.encode()), read_table(PLAIN.encode()))


def test_dates_and_spans():
    text = """job,submit,start,runtime,walltime,deadline
a,2026-03-01T12:00:00Z,2026-03-01 13:00:30+01:00,00:05:00,1h,2026-03-02
b,1772366400,1772366430,300,7-12:00:00,
c,2026-03-01T12:00:00.5,2026-03-01T12:00:01,1.5min,90,
"""
    jobs = read_table(text.encode()).jobs
    assert jobs.submit.tolist() == [1772366400 * SECOND, 1772366400 * SECOND, 1772366400_500_000]
    assert jobs.runtime.tolist() == [300 * SECOND, 300 * SECOND, 90 * SECOND]
    assert jobs.walltime.tolist() == [3600 * SECOND, 648000 * SECOND, 90 * SECOND]
    assert jobs.waited.tolist() == [30 * SECOND, 30 * SECOND, 500_000]
    assert jobs.deadline[0] == 1772409600 * SECOND


def test_a_number_beside_dates_counts_from_1970_or_is_refused():
    dates = "job,submit,runtime\na,2026-01-01T00:00:00,5\n"
    assert len(read_table(f"{dates}b,1767225605,5\n".encode()).jobs.job) == 2
    with pytest.raises(WorkloadError, match=r":3: submit is '5'; expected a date, as in other rows, or seconds since"):
        read_table(f"{dates}b,5,5\n".encode())
    assert read_table(b"job,submit,runtime\na,1970-01-01T00:00:00,5\nb,5,5\n").jobs.submit.tolist() == [0, 5 * SECOND]
    assert len(read_table(f"{dates}b,1971-01-01,5\n".encode()).jobs.job) == 2


def test_dates_without_a_zone_are_those_of_the_zone_that_is_named():
    text = b"job,submit,runtime\na,2026-07-01T12:00:00,1\n"
    assert read_table(text).jobs.submit.tolist() == [1782907200 * SECOND]
    assert any("--timezone" in note for note in read_table(text).notes)
    found = read_table(text, zone="Europe/Berlin")
    assert (found.jobs.submit.tolist(), found.clock.zone) == ([1782900000 * SECOND], "Europe/Berlin")
    assert not any("--timezone" in note for note in found.notes)


def test_an_end_beside_a_start_tells_the_run_time():
    found = read_table(b"job,submit,start,end\na,0,10,70\n").jobs
    assert (found.runtime.tolist(), found.waited.tolist()) == ([60 * SECOND], [10 * SECOND])
    with pytest.raises(WorkloadError, match=r":2: end is '5'; expected the start, or a later time"):
        read_table(b"job,submit,start,end\na,0,10,5\n")


def test_columns_under_names_of_their_own():
    text = PLAIN.replace("runtime", "Elapsed").replace("procs", "NCPUS").encode()
    assert same(read_table(text, columns=[("runtime", "Elapsed"), ("procs", "NCPUS")]), read_table(PLAIN.encode()))
    assert same(read_table(text, columns=[("run", "Elapsed"), ("procs", "NCPUS")]), read_table(PLAIN.encode()))
    with pytest.raises(WorkloadError, match=r"no column 'Ncpus' for procs; did you mean NCPUS\?"):
        read_table(text, columns=[("runtime", "Elapsed"), ("procs", "Ncpus")])
    with pytest.raises(WorkloadError, match="no column 'Limit' for runtime; the columns are"):
        read_table(PLAIN.encode(), columns=[("runtime", "Limit")])  # although there is a runtime
    with pytest.raises(UsageError, match="column is 'cores'; expected the name of a column, one of job, submit, "):
        read_table(text, columns=[("cores", "NCPUS")])


def test_broken_rows_are_counted_and_named_and_the_others_kept(tmp_path):
    (tmp_path / "log.csv").write_text(
        PLAIN
        + "c,soon,1,1,1,\nd,0,-1,1,1,\ne,0,1,1,0,\nf,0,1\ng,0,1,1,1,x:0\nh,0,1,nan,1,\n"
        + ",0,1,1,1,\ni,0,9,9,1,\na,0,1,1,1,\n"
    )
    log = import_log("csv", str(tmp_path / "log.csv"))
    assert log.jobs.job.tolist() == ["a", "b", "i"]
    assert log.dropped == {"broken line": 7, "duplicate job id": 1}
    told = [note for note in log.notes if "broken line" in note]
    assert [note.partition("log.csv:")[2].partition(";")[0] for note in told[:3]] == [
        "7: 3 cells",
        "10: job is ''",
        "4: submit is 'soon'",
    ]
    assert told[3] == "and 4 more broken lines"
    # what is said of the others is said of them alone
    assert same(log, import_log("csv", str(tmp_path / "log.csv"), Rules(repeats="drop")))
    with pytest.raises(WorkloadError, match=r"log\.csv:7: 3 cells"):
        read_table(tmp_path / "log.csv")


def test_a_file_in_which_every_row_is_broken_is_refused():
    with pytest.raises(WorkloadError, match=r"<bytes>:2: submit is 'y'"):
        read_table(b"job,submit,runtime\na,y,1\n", broken=BrokenLines("<bytes>"))


def test_a_job_after_a_broken_one_no_longer_waits_for_it():
    text = b"job,submit,runtime,after\na,x,1,\nb,0,1,a\nc,0,1,d\nd,0,1,c\ne,0,1,nobody\n"
    broken = BrokenLines("log")
    log = read_table(text, broken=broken)
    assert log.jobs.job.tolist() == ["b", "d"]
    assert len(log.jobs.after.items) == 0
    assert broken.count == 3
