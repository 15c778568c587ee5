import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.model.errors import ScheduleError
from backfill.model.schedule import BACKFILL, COMPLETED, GANG, HEAD, NO_TIME, REJECTED, TIMEOUT, Schedule
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Ragged
from backfill.traces.schedules import HEADER, read_schedule, write_schedule
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


def complaint(data: bytes) -> str:
    try:
        read_schedule(data)
    except ScheduleError as error:
        return str(error)
    return ""


@settings(max_examples=100, deadline=None)
@given(st.binary(), st.integers(0, len(TEXT)))
def test_no_bytes_raise_anything_but_a_schedule_error(data: bytes, place: int):
    for source in (data, TEXT[:place].encode() + data + TEXT[place:].encode()):
        assert "\n" not in complaint(source)


@settings(max_examples=100, deadline=None)
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
    assert (table.start >= table.submit).all()
    assert (table.end >= table.start).all()
