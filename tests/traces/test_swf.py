import gzip
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.clock import Clock
from backfill.model.errors import BackfillError, InputError, UsageError, WorkloadError
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from backfill.traces.files import Source
from backfill.traces.swf import read_swf, write_swf
from tests.shares import examples
from tests.traces.jobs import SHARED, needs_logs, same, swf_workloads

HEADER = "; Version: 2.2\n; MaxNodes: 50\n; MaxProcs: 100\n; Note: été\n".encode("latin-1")


def line(**fields: object) -> bytes:
    """A line of SWF: `f4=10` sets field 4; the others make an ordinary job of 4 processors."""
    values = {1: 1, 2: 0, 3: 5, 4: 60, 5: 4, 6: -1, 7: -1, 8: 4, 9: 100, 10: -1, 11: 1, 12: 7, 13: 8}
    values |= {int(name[1:]): value for name, value in fields.items()}
    return (" ".join(str(values.get(number, -1)) for number in range(1, 19)) + "\n").encode()


def read(*lines: bytes, **options: str) -> Workload:
    return read_swf(b"".join(lines), **options)


def refusal(data: bytes) -> str:
    with pytest.raises(WorkloadError) as caught:
        read_swf(data)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    return message


def test_a_line_becomes_a_job_of_so_many_tasks_of_one_cpu():
    jobs = read(line()).jobs
    assert jobs.job.tolist() == [1]
    assert (jobs.submit[0], jobs.runtime[0], jobs.walltime[0]) == (0, 60 * SECOND, 100 * SECOND)
    assert (jobs.tasks[0], jobs.demand.tolist(), jobs.procs[0]) == (4, [[1]], 4)
    assert (jobs.user[0], jobs.group[0], jobs.waited[0]) == ("7", "8", 5 * SECOND)


def test_the_header_gives_processors_before_nodes_before_nothing():
    assert read(HEADER, line()).cpus == 100
    assert read(b"; MaxNodes: 50\n", line()).cpus == 50
    assert read(b"; MaxProcs: 0\n; MaxNodes: 50\n", line()).cpus == 50
    assert read(b"; MaxProcs: -1\n;MaxProcs:7\n", line()).cpus == 7
    assert read(b"; see MaxProcs: 7\n", line()).cpus is None


def test_the_header_gives_the_calendar_and_a_copy_keeps_it(tmp_path):
    head = b"; UnixStartTime: 843480031\n; TimeZone: 3600\n; TimeZoneString: Europe/Stockholm\n"
    log = read(head, line(f2=10))
    assert log.clock == log.calendar == Clock(843480031, "Europe/Stockholm")
    assert log.at_load(2.0).calendar is None
    write_swf(log, tmp_path / "copy.swf")
    assert read_swf(tmp_path / "copy.swf").clock == log.clock
    assert read(head.splitlines(keepends=True)[0], line()).clock == Clock(843480031, "UTC")
    assert read(b"; UnixStartTime: -1\n", line()).calendar is None
    assert read(line(f2=1356996147)).calendar == Clock(0, "UTC")


def test_requested_processors_and_time_go_before_allocated_ones_and_run_time():
    workload = read(line(f8=8, f5=4, f9=100), line(f1=2, f8=-1, f5=3, f9=-1, f4=60), line(f1=3, f8=0, f5=2, f9=0))
    assert workload.jobs.procs.tolist() == [8, 3, 2]
    assert (workload.jobs.walltime // SECOND).tolist() == [100, 60, 60]
    assert workload.notes == (
        "walltime missing: the run time is used: 2 of 3 jobs",
        "requested processors missing: the allocated ones are used: 2 of 3 jobs",
    )


def test_memory_is_a_resource_only_where_some_job_has_a_value():
    assert read(line(f7=0, f10=-1)).resources == ("cpus",)
    workload = read(line(f7=3, f10=5), line(f1=2, f7=3, f10=0), line(f1=3, f7=-1))
    assert workload.resources == ("cpus", "memory")
    assert workload.jobs.demand.tolist() == [[1, 5 * 1024], [1, 3 * 1024], [1, 0]]


def test_jobs_without_run_time_or_processors_are_dropped_and_counted():
    workload = read(line(f4=-1), line(f1=2, f5=0, f8=-1), line(f1=3, f4=-1, f5=0, f8=0), line(f1=4))
    assert workload.jobs.job.tolist() == [4]
    assert workload.dropped == {"run time < 0 or unknown": 2, "processors <= 0": 1}


def test_zero_run_says_what_becomes_of_jobs_that_did_not_run():
    log = (line(f4=0, f9=-1, f11=5), line(f1=2, f4=0, f11=1), line(f1=3, f4=10, f11=5))
    kept = read(*log)
    assert (kept.jobs.job.tolist(), kept.dropped, kept.jobs.walltime[0]) == ([1, 2, 3], {}, 0)
    fewer = read(*log, zero_run="drop-cancelled")
    assert (fewer.jobs.job.tolist(), fewer.dropped) == ([2, 3], {"run time 0, cancelled": 1})
    fewest = read(*log, zero_run="drop")
    assert (fewest.jobs.job.tolist(), fewest.dropped) == ([3], {"run time 0": 2})
    with pytest.raises(UsageError, match="zero_run is 'some'; expected keep, drop-cancelled, drop"):
        read(*log, zero_run="some")


def test_of_two_jobs_with_one_number_the_first_stays_where_that_is_asked_for():
    log = (line(f4=1), line(f4=2), line(f1=2, f4=3), line(f1=3, f4=-1), line(f1=3, f4=5))
    workload = read(*log, repeats="drop")
    assert (workload.jobs.runtime // SECOND).tolist() == [1, 3, 5]
    assert workload.dropped == {"run time < 0 or unknown": 1, "duplicate job id": 1}
    with pytest.raises(UsageError, match="repeats is 'some'; expected refuse, drop"):
        read(*log, repeats="some")


def test_the_status_becomes_a_word_and_a_wait_below_minus_1_is_counted():
    workload = read(line(f11=5), line(f1=2, f11=0, f3=-1), line(f1=3, f11=-1, f3=-7), line(f1=4, f11=9))
    assert [workload.jobs.status[row] for row in range(4)] == ["cancelled", "failed", "", "9"]
    assert workload.assumed == {"negative wait: taken as unknown": 1}


def texts(labels: Labels) -> list[str]:
    return [labels[row] for row in range(len(labels))]


def test_queue_and_partition_are_fields_15_and_16_by_their_names_where_the_header_has_them():
    header = (
        b"; MaxQueues: 3\n; Queue:  3 express  \n; Queue: 4 4\n; Partition: 1 a b;c\n; Partition: 2 \xc3\xa9t\xc3\xa9\n"
    )
    header += b"; Partition: 3 UNKNOWN\n; Partition: 4 UNKNOWN\n; Partition: 5 \xe9t\xe9 2\n"
    jobs = read(header, *(line(f1=k, f15=k - 1, f16=k - 2) for k in range(1, 8))).jobs
    assert texts(jobs.queue) == ["0", "1", "2", "express", "4", "5", "6"]
    assert texts(jobs.partition) == ["", "0", "a b;c", "été", "3", "4", "été 2"]
    assert texts(read(line()).jobs.queue) == texts(read(line()).jobs.partition) == [""]


def test_names_of_queues_and_partitions_are_written_to_the_header(tmp_path: Path):
    workload = Workload(
        jobs(job=np.arange(1, 5), queue=Labels.of(["short", "1", "", "long"]), partition=Labels.of(["", "7", "", "0"]))
    )
    write_swf(workload, tmp_path / "w.swf")
    lines = (tmp_path / "w.swf").read_text().splitlines()
    assert [text for text in lines if "Queue" in text or "Partition" in text] == ["; Queue: 2 short", "; Queue: 3 long"]
    assert [text.split()[14:16] for text in lines[-4:]] == [["2", "-1"], ["1", "7"], ["-1", "-1"], ["3", "0"]]
    assert same(read_swf(tmp_path / "w.swf"), workload)


def test_fractions_of_a_second_are_kept_to_the_microsecond():
    jobs = read(line(f2="1700000000.123457", f4="0.000001", f9="2.5")).jobs
    assert (jobs.submit[0], jobs.runtime[0], jobs.walltime[0]) == (1700000000123457, 1, 2500000)


def test_submit_times_that_go_backwards_and_runs_beyond_the_walltime_are_noted():
    workload = read(line(f2=10), line(f1=2, f2=9), line(f1=3, f2=9, f4=101))
    assert "submitted before the previous job: 1 of 3 jobs" in workload.notes
    assert "run time longer than the walltime: 1 of 3 jobs" in workload.notes


def test_comments_blank_lines_and_line_ends_of_windows_are_no_matter():
    log = (
        b"\xef\xbb\xbf;\r\n\r\n"
        + line().replace(b"\n", b"\r\n")
        + b"  ; a comment\n"
        + line(f1=2)[:-1]
        + b" ; and one\n"
    )
    assert read_swf(log).jobs.job.tolist() == [1, 2]


def test_an_id_that_stands_twice_is_refused_naming_both_lines():
    assert refusal(HEADER + line() + b"; x\n" + line()) == (
        "<bytes>:7: field 1 (job number) is '1'; expected a unique job number (first used in line 5)"
    )
    assert read(line(f4=-1), line()).dropped  # a row that is dropped anyway is no rival


@pytest.mark.parametrize(
    ("text", "field", "quoted", "expected"),
    [
        ("abc", 4, "'abc'", "a number"),
        ("1_0", 4, "'1_0'", "a number"),
        ("0x10", 17, "'0x10'", "a number"),
        ("\0\x1b[1m", 2, r"'\x00\x1b[1m'", "a number"),
        ("nan", 9, "'nan'", "a number within +-100000000000"),
        ("inf", 2, "'inf'", "a number within +-100000000000"),
        ("-100000000001", 2, "'-100000000001'", "a number within +-100000000000"),
        ("1e300", 4, "'1e300'", "a number within +-100000000000"),
        ("1.5", 8, "'1.5'", "a whole number within +-1099511627776"),
        ("1e13", 5, "'1e13'", "a whole number within +-1099511627776"),
        ("9" * 400, 10, "'" + "9" * 57 + "...'", "a number within +-1125899906842624"),
        ("1.5", 1, "'1.5'", "a whole number within +-9007199254740991"),
        ("1.5", 15, "'1.5'", "a whole number within +-9007199254740991"),
        ("1e17", 16, "'1e17'", "a whole number within +-9007199254740991"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_line_and_field(text: str, field: int, quoted: str, expected: str):
    message = refusal(HEADER + line() + line(**{"f1": 2, f"f{field}": text}))
    assert message.startswith(f"<bytes>:6: field {field} (")
    assert message.endswith(f"is {quoted}; expected {expected}")


def test_a_file_is_named_by_its_path(tmp_path: Path):
    path = tmp_path / "jobs.swf"
    path.write_bytes(line() + line(f1=2, f4="abc"))
    with pytest.raises(WorkloadError) as caught:
        read_swf(path)
    assert str(caught.value) == f"{path}:2: field 4 (run time) is 'abc'; expected a number"


def test_lines_of_another_length_are_refused():
    assert refusal(line() + b"2 3 4\n") == "<bytes>:2: 3 fields; expected 18"
    assert "21 fields; expected 18" in refusal(HEADER + line()[:-1] + b" {1,2} q_1d 1:ppn=2\n")
    assert "19 fields; expected 18" in refusal(line() + line(f1=2)[:-1] + b" 7\n")


def test_a_file_with_only_a_header_is_an_empty_workload_and_an_empty_file_is_an_error():
    workload = read_swf(HEADER)
    assert (len(workload), workload.cpus, workload.resources) == (0, 100, ("cpus",))
    assert refusal(b"") == "<bytes>: is empty"
    assert refusal(b" \n\n") == "<bytes>: is empty"


def test_gzip_is_unpacked_and_damage_to_it_is_one_clear_line():
    packed = gzip.compress(HEADER + b"".join(line(f1=k) for k in range(2000)))
    assert len(read_swf(packed)) == 2000
    assert "damaged gzip" in refusal(packed[:-20])
    assert "damaged gzip" in refusal(packed[:200] + b"\xff" * 50 + packed[250:])
    assert "damaged gzip" in refusal(packed + b"garbage")
    assert "damaged gzip" in refusal(b"\x1f\x8b")
    assert "expected a number" in refusal(gzip.compress(bytes(range(256)) * 50))
    assert "is empty" in refusal(gzip.compress(b"", mtime=0))


RUBBISH = {
    "one long word": b"x" * 10**7,
    "five million fields": b"1 " * (5 * 10**6),
    "one long number": b"1" * 10**7,
    "spaces": b" " * 10**7 + b"x",
    "one long comment": b";" * 10**7 + b"\n1",
    "a million short lines": b"1\n" * 10**6,
    "line ends of another kind": b"\r" * 10**6 + b"1",
    "a million empty lines": b"\n" * 10**6 + b"1",
    "one long field": line(f2="9" * 10**7),
}


@pytest.mark.parametrize("kind", RUBBISH)
def test_very_long_lines_and_files_of_rubbish_are_refused_at_once(kind: str):
    begin = time.process_time()
    refusal(RUBBISH[kind])
    assert time.process_time() - begin < 20  # minutes, where each digit costs all the others


def complaint(data: bytes) -> str | None:
    """Return the message of an InputError that a read raises; other errors pass through."""
    try:
        read_swf(data)
    except InputError as error:
        return str(error)
    return None


@examples(150)
@given(st.one_of(st.binary(), st.text("0123456789.-+e; \n\r\tnainf").map(str.encode)))
def test_no_bytes_raise_anything_but_an_input_error(data: bytes):
    for source in (data, HEADER + line() + data, gzip.compress(data, mtime=0)):
        assert "\n" not in (complaint(source) or "")


@examples(150)
@given(
    st.integers(0, 2), st.integers(1, 18), st.one_of(st.text(max_size=5), st.floats().map(str), st.integers().map(str))
)
def test_a_mutated_field_is_read_or_refused_with_its_line(row: int, field: int, text: str):
    lines = [line(f1=k) for k in (1, 2, 3)]
    lines[row] = line(**{"f1": row + 1, f"f{field}": text})
    assert (complaint(b"".join(lines)) or "<bytes>:").startswith("<bytes>:")


@examples(100)
@given(workload=swf_workloads(), packed=st.booleans())
def test_what_is_written_is_read_back(workload: Workload, packed: bool, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.getbasetemp() / ("w.swf.gz" if packed else "w.swf")
    write_swf(workload, path)
    back = read_swf(path)
    assert same(workload, back)
    assert (back.cpus, back.dropped, back.name) == (workload.cpus, {}, "w")


def jobs(**columns: object) -> Jobs:
    n = len(columns["job"])
    zero = np.zeros(n, np.int64)
    return Jobs(**{"submit": zero, "runtime": zero + 1, "walltime": zero + 1} | columns)


def test_the_header_says_what_swf_cannot(tmp_path: Path):
    workload = Workload(
        jobs(job=np.array(["a_1", "b"], object), priority=np.array([1.0, 0]), qos=Labels.of(["a", ""])),
        name="a\nb",
        cpus=9,
    )
    with pytest.warns(UserWarning, match="w.swf: ") as said:
        write_swf(workload, tmp_path / "w.swf")
    assert [str(each.message).partition(": ")[2] for each in said] == [
        "left out because SWF has no field for it: priority, qos"
    ]
    text = (tmp_path / "w.swf").read_text()
    assert "; Computer: a?b\n" in text
    assert "; Note: the job ids were replaced by numbers\n" in text
    assert "; Note: left out because SWF has no field for it: priority, qos\n" in text
    assert read_swf(tmp_path / "w.swf").jobs.job.tolist() == [1, 2]


def test_a_walltime_of_0_which_reads_as_unknown_is_told(tmp_path: Path):
    with pytest.warns(UserWarning, match="a walltime of 0, which readers of SWF take as unknown: 1 job"):
        write_swf(Workload(jobs(job=np.array([1, 2]), walltime=np.array([0, SECOND]))), tmp_path / "w.swf")


def test_numbers_that_a_float_does_not_tell_apart_are_refused():
    line = "9007199254740993 0 -1 1 1 -1 -1 1 1 -1 1 1 1 -1 -1 -1 -1 -1"
    with pytest.raises(
        WorkloadError, match=r"1: field 1 \(job number\) is '9007199254740993'; expected a whole number"
    ):
        read_swf(line.encode())


def test_a_job_without_a_cpu_cannot_be_written(tmp_path: Path):
    workload = Workload(jobs(job=np.array([1]), demand=np.array([[0]])))
    with pytest.raises(WorkloadError, match="job 1 holds no cpu"):
        write_swf(workload, tmp_path / "w.swf")


def test_a_file_that_cannot_be_written_is_left_alone(tmp_path: Path):
    with pytest.raises(BackfillError, match="cannot be written: there is no such folder"):
        write_swf(Workload(jobs(job=np.array([1]))), tmp_path / "none" / "w.swf")
    assert list(tmp_path.iterdir()) == []


@needs_logs
def test_recorded_logs_read_as_their_description_says():
    kth = read_swf(SHARED / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert kth.jobs.partition.names == kth.jobs.queue.names == ()
    atlas = read_swf(SHARED / "traces" / "LLNL-Atlas-2006-2.1-cln.swf.gz").jobs
    assert {*atlas.partition.names} == {"pbatch", "pdebug", "pbroke", "moody20"}
    assert (len(kth), sum(kth.dropped.values()), kth.cpus, kth.resources) == (28475, 1, 100, ("cpus",))
    lublin = read_swf(SHARED / "traces" / "lublin_256.swf.gz")
    assert (len(lublin), lublin.cpus, lublin.dropped) == (10000, 256, {})
    lanl = read_swf(SHARED / "traces" / "LANL-CM5-1994-4.1-cln.swf.gz")
    assert (len(lanl), lanl.cpus, lanl.resources) == (122057, 1024, ("cpus", "memory"))
    assert lanl.dropped == {"processors <= 0": 3}


def test_jobs_follow_their_preceding_ones_where_that_is_wanted():
    log = (
        line(f1=1, f2=10, f4=100, f9=60),
        line(f1=2, f2=500, f3=7, f4=50, f9=90, f17=1, f18=5.5),
        line(f1=3, f2=600, f17=2, f18=-1),
        line(f1=4, f2=700, f3=7, f17=99, f18=5),
        line(f1=5, f2=0, f4=-1),
    )
    as_recorded = read(*log)
    assert (as_recorded.jobs.submit // SECOND).tolist() == [10, 500, 600, 700]
    assert not len(as_recorded.jobs.after.items)
    some = "3 of 4 jobs have one"
    assert f"preceding jobs (field 17) are ignored: {some}; --think uses them" in as_recorded.notes
    follows = read_swf(b"".join(log), think=True)
    assert [follows.jobs.after[row].tolist() for row in range(4)] == [[], [0], [1], []]
    assert (follows.jobs.think / SECOND).tolist() == [0, 5.5, 0, 0]
    # At the earliest: job 1 ends at its walltime at 70 s if it does not wait, job 2 then at 125.5 s.
    assert (follows.jobs.submit / SECOND).tolist() == [10, 75.5, 125.5, 700]
    assert (follows.jobs.waited // SECOND).tolist()[1::2] == [-1, 7]
    assert "preceding job not among the jobs: not waited for: 1 of 4 jobs" in follows.notes
    assert "think time missing: taken as 0: 1 of 4 jobs" in follows.notes


def test_a_job_may_follow_one_that_stands_below_it():
    jobs = read_swf(line(f1=1, f17=2, f18=3) + line(f1=2, f2=40, f4=8, f9=9), think=True).jobs
    assert (jobs.submit // SECOND).tolist() == [51, 40]


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        (
            (line(f1=1, f17=2), line(f1=2, f17=1)),
            "<bytes>:1: field 17 (preceding job) is '2'; expected no cycle of preceding jobs ('1' after '2' after",
        ),
        (
            (line(f1=1, f17=1),),
            "<bytes>:1: field 17 (preceding job) is '1'; expected no cycle of preceding jobs ('1' after '1')",
        ),
        ((line(f1=1, f17=0.5),), "<bytes>:1: field 17 (preceding job) is '0.5'; expected a whole number"),
        ((line(f1=1, f17=1, f18="inf"),), "<bytes>:1: field 18 (think time) is 'inf'; expected a number"),
    ],
)
def test_preceding_jobs_that_make_no_sense_are_refused_where_they_are_wanted(log, complaint):
    assert len(read(*log)) == len(log)
    with pytest.raises(WorkloadError) as refused:
        read_swf(b"".join(log), think=True)
    assert str(refused.value).startswith(complaint)


def test_preceding_jobs_are_written_and_read_back(tmp_path):
    follows = read_swf(line(f1=1, f4=9) + line(f1=2, f4=9, f17=1, f18=2.5), think=True)
    write_swf(follows, tmp_path / "again.swf")
    again = read_swf(tmp_path / "again.swf", think=True).jobs
    assert again.after.items.tolist() == [0]
    assert (again.think.tolist(), again.submit.tolist()) == (follows.jobs.think.tolist(), follows.jobs.submit.tolist())


def test_the_ids_of_jobs_that_are_left_out_are_known():
    log = (line(f1=1), line(f1=2, f4=-1), line(f1=3, f4=0, f11=5), line(f1=4))
    assert read_swf(b"".join(log), zero_run="drop").left_out == {"2", "3"}
    assert read(*log).head(1).left_out == {"2", "3", "4"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\0", "1: holds NUL bytes; expected text in UTF-8"),
        (b"\n", ": only white space for more than 8 MiB; expected a log"),
        (b"1", "1: a line of more than 8 MiB; expected a log"),
        (b"y\n", ": one line repeated for more than 8 MiB; expected a log"),
    ],
    ids=["zeros", "blank lines", "one line", "yes"],
)
def test_what_unpacks_to_no_log_is_refused_before_all_of_it_is_in_memory(tmp_path, content, told):
    path = tmp_path / "w.swf.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        for _ in range(64):
            out.write(content * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(WorkloadError, match=told):
            read_swf(path)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_a_log_that_unpacks_to_a_hundred_times_its_size_is_refused_as_soon_as_it_is_large(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    before = ";".join(str(job) for job in range(6_000))
    with gzip.open(path, "wb", compresslevel=6) as out:
        out.write(b"job,submit,runtime,after\n")
        for job in range(3_500):  # 101 MB, more than 20 million dependencies
            out.write(f"{job},0,1,{before}\n".encode())
    tracemalloc.start()
    try:
        with pytest.raises(
            WorkloadError, match=r"bomb.csv.gz:\d+: unpacks to more than 64 MiB, \d{3} times what it takes"
        ):
            Source.of(path)
        assert tracemalloc.get_traced_memory()[1] < 90 << 20
    finally:
        tracemalloc.stop()
