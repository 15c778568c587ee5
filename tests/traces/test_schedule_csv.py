import gzip
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.errors import ScheduleError
from backfill.model.schedule import (
    BACKFILL,
    CANCELLED,
    COMPLETED,
    GANG,
    HEAD,
    NO_TIME,
    NODE_FAIL,
    PREEMPTED,
    REJECTED,
    TIMEOUT,
    Runs,
    Schedule,
)
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Ragged
from backfill.traces.schedules import HEADER, read_runs, read_schedule, write_runs, write_schedule
from tests.shares import examples
from tests.traces.jobs import SHARED, needs_logs

TEXT = """\
job,submit,start,end,state,reason,node
prep,0,0,600,COMPLETED,head,m1
mesh,60,600,4200.25,COMPLETED,backfill,m2
"solve,all",60,4200.25,90600.25,TIMEOUT,gang,m1*3;m2*5
huge,90,,,REJECTED,cpus,
"""
JOBS = ["prep", "mesh", "solve,all", "huge"]


def schedule() -> Schedule:
    def micros(*seconds: float | None) -> np.ndarray:
        return np.array([NO_TIME if s is None else round(s * SECOND) for s in seconds], np.int64)

    return Schedule(
        job=np.array(JOBS, object),
        submit=micros(0, 60, 60, 90),
        start=micros(0, 600, 4200.25, None),
        end=micros(600, 4200.25, 90600.25, None),
        state=np.array([COMPLETED, COMPLETED, TIMEOUT, REJECTED], np.int8),
        reason=np.array([HEAD, BACKFILL, GANG, -1], np.int8),
        rejected_for=np.array(["", "", "", "cpus"], object),
        eligible=micros(0, 60, 60, 90),
        promise=micros(None, None, None, None),
        nodes=("m1", "m2"),
        held=Ragged.of([[0, 1], [1, 1], [0, 3, 1, 5], []]),
    )


def test_a_schedule_is_written_as_it_stands_in_the_reference(tmp_path: Path):
    out = io.StringIO()
    write_schedule(schedule(), out)
    assert out.getvalue() == TEXT
    write_schedule(schedule(), tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_bytes() == TEXT.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_it_reads_back(tmp_path: Path):
    write_schedule(schedule(), tmp_path / "s.csv.gz")
    table = read_schedule(tmp_path / "s.csv.gz")
    written = schedule()
    for name in ("submit", "start", "end"):
        assert np.array_equal(getattr(table, name), getattr(written, name))
    assert table.job.tolist() == JOBS
    assert table.state.tolist() == ["COMPLETED", "COMPLETED", "TIMEOUT", "REJECTED"]
    assert table.reason.tolist() == ["head", "backfill", "gang", "cpus"]
    assert table.node.tolist() == ["m1", "m2", "m1*3;m2*5", ""]


def test_another_tool_need_only_say_job_and_start():
    table = read_schedule(b"start,job,colour\n1.5,7,red\n,7,\n")
    assert table.job.tolist() == ["7", "7"]
    assert table.start.tolist() == [1_500_000, NO_TIME]
    assert (table.submit, table.end, table.state, table.reason, table.node) == (None,) * 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,end\na,1\n", "<bytes>:1: no column start; the columns are 'job,end'"),
        ("job,start\na,1\nb,soon\n", "<bytes>:3: start is 'soon'; expected a number of seconds from"),
        ("job,start,end\na,1,nan\n", "<bytes>:2: end is 'nan'; expected a number of seconds from"),
        ("job,start\na\n", "<bytes>:2: 1 cells; expected 2, as in the header"),
        ("", "<bytes>: is empty"),
    ],
)
def test_a_bad_schedule_is_refused_with_its_line(text: str, message: str):
    with pytest.raises(ScheduleError) as caught:
        read_schedule(text.encode())
    assert str(caught.value).startswith(message)


def test_a_missing_file_is_a_schedule_error(tmp_path: Path):
    with pytest.raises(ScheduleError, match="cannot be read: No such file or directory"):
        read_schedule(tmp_path / "none.csv")


RUNS = """\
job,run,start,end,state,reason,node
prep,1,0,10.5,NODE_FAIL,head,m1
prep,2,20,600,COMPLETED,head,m1*1;m2*1
"solve,all",1,0,4,CANCELLED,gang,m2
"""


def with_runs() -> Schedule:
    def column(*values: int) -> np.ndarray:
        return np.array(values, np.int64)

    runs = Runs(
        job=column(0, 0, 2),
        start=column(0, 20, 0) * SECOND,
        end=column(10_500_000, 600 * SECOND, 4 * SECOND),
        state=column(NODE_FAIL, COMPLETED, CANCELLED),
        reason=column(HEAD, HEAD, GANG),
        held=Ragged.of([[0, 1], [0, 1, 1, 1], [1, 1]]),
        progress=column(0, 580, 4) * SECOND,
    )
    return replace(schedule(), runs=runs)


def test_runs_are_written_as_they_stand_in_the_reference_and_read_back(tmp_path: Path):
    out = io.StringIO()
    write_runs(with_runs(), out)
    assert out.getvalue() == RUNS
    write_runs(with_runs(), tmp_path / "runs.csv.gz")
    table, runs = read_runs(tmp_path / "runs.csv.gz"), with_runs().all_runs
    assert table.job.tolist() == ["prep", "prep", "solve,all"]
    assert table.run.tolist() == [1, 2, 1]
    assert np.array_equal(table.start, runs.start)
    assert np.array_equal(table.end, runs.end)
    assert table.state.tolist() == ["NODE_FAIL", "COMPLETED", "CANCELLED"]
    assert table.reason is not None
    assert table.reason.tolist() == ["head", "head", "gang"]
    assert table.node is not None
    assert table.node.tolist() == ["m1", "m1*1;m2*1", "m2"]
    assert table.progress is None
    assert np.array_equal(table.kept, runs.progress)


def test_what_was_kept_stands_there_where_a_job_was_preempted():
    runs = with_runs().all_runs
    runs = replace(runs, state=np.array([PREEMPTED, COMPLETED, CANCELLED]), progress=runs.progress + 1)
    out = io.StringIO()
    write_runs(replace(schedule(), runs=runs), out)
    assert out.getvalue().splitlines()[:2] == [
        "job,run,start,end,state,reason,node,progress",
        "prep,1,0,10.5,PREEMPTED,head,m1,0.000001",
    ]
    assert read_runs(out.getvalue().encode()).kept.tolist() == runs.progress.tolist()


def test_the_turns_of_runs_that_share_processors_stand_there_and_read_back():
    turns = Ragged.of([[0, 1, 1, 540_500_000, 0b101, 3], [20, 2, 2], [-5, 1 << 9, 10]])
    out = io.StringIO()
    write_runs(replace(schedule(), runs=replace(with_runs().all_runs, turns=turns)), out)
    assert [line.rpartition(",")[2] for line in out.getvalue().splitlines()] == [
        "turns",
        "0:1/1 540.5:1+3/3",
        "0.00002:2/2",
        "-0.000005:10/10",
    ]
    found = read_runs(out.getvalue().encode()).turns
    assert found is not None
    assert found.first.tolist() == turns.first.tolist()
    assert found.items.tolist() == turns.items.tolist()


def test_where_each_job_ran_once_its_run_is_what_the_schedule_says():
    out = io.StringIO()
    write_runs(schedule(), out)
    assert out.getvalue().splitlines()[1:3] == [
        "prep,1,0,600,COMPLETED,head,m1",
        "mesh,1,600,4200.25,COMPLETED,backfill,m2",
    ]
    assert len(out.getvalue().splitlines()) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,run,start,end\na,1,0,1\n", "<bytes>:1: no column state; the columns are 'job,run,start,end'"),
        ("job,run,start,end,state\na,0,0,1,X\n", "<bytes>:2: run is '0'; expected a whole number from 1 to"),
        *(
            (
                f"job,run,start,end,state,turns\na,1,0,1,X,{cell}\n",
                f"<bytes>:2: turns is '{cell}'; expected SINCE:ROWS/OF for each stretch, as in 0:1/1 60:1+2/3",
            )
            for cell in ("0", "0:0/1", "0:1", "0:1/0", "0:1+/2", "0:1/1 x", "0:61/61", "9999999999999:1/1", "١:1/1")
        ),
        ("job,run,start,end,state\na,1,,1,X\n", "<bytes>:2: start is ''; expected a number of seconds from"),
    ],
)
def test_bad_runs_are_refused_with_their_line(text: str, message: str):
    with pytest.raises(ScheduleError) as caught:
        read_runs(text.encode())
    assert str(caught.value).startswith(message)


def complaint(data: bytes) -> str:
    try:
        read_schedule(data)
    except ScheduleError as error:
        return str(error)
    return ""


@examples(100)
@given(st.binary(), st.integers(0, len(TEXT)))
def test_no_bytes_raise_anything_but_a_schedule_error(data: bytes, place: int):
    for source in (data, TEXT[:place].encode() + data + TEXT[place:].encode()):
        assert "\n" not in complaint(source)


@examples(100)
@given(st.lists(st.tuples(*[st.one_of(st.just(NO_TIME), st.integers(-TIME_MAX, TIME_MAX))] * 3)))
def test_all_legal_times_come_back_to_the_microsecond(times: list[tuple[int, int, int]]):
    n = len(times)
    submit, start, end = np.array(times, np.int64).reshape(n, 3).T
    none = np.full(n, NO_TIME)
    written = Schedule(
        job=np.arange(n), submit=submit, start=start, end=end, state=np.zeros(n, np.int8), reason=np.zeros(n, np.int8),
        rejected_for=np.full(n, "", object), eligible=submit, promise=none, nodes=("pool",),
        held=Ragged.of([[0, 1]] * n),
    )  # fmt: skip
    out = io.StringIO()
    write_schedule(written, out)
    table = read_schedule(out.getvalue().encode())
    assert all(np.array_equal(a, b) for a, b in ((table.submit, submit), (table.start, start), (table.end, end)))
    assert out.getvalue().splitlines()[0] == ",".join(HEADER)


@needs_logs
@pytest.mark.parametrize("path", sorted((SHARED / "oracle").glob("*.*.*.csv.gz")), ids=lambda path: path.name)
def test_schedules_of_other_simulators_are_read(path: Path):
    table = read_schedule(path)
    if table.submit is None or table.end is None:
        assert gzip.decompress(path.read_bytes()).split()[0] == b"job,start"
        return
    assert (table.start >= table.submit).all()
    assert (table.end >= table.start).all()
