import gzip
import io
import random
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.errors import InputError, WorkloadError
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import SPREAD, Jobs, Workload
from backfill.traces.table import read_table, write_csv, write_parquet
from tests.shares import examples
from tests.traces.jobs import EXACT_FLOAT, SHARED, needs_logs, same, workloads


def table(*lines: str, **options: object) -> Workload:
    return read_table("\n".join(lines).encode(), **options)


def refusal(*lines: str | bytes) -> str:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    with pytest.raises(WorkloadError) as caught:
        read_table(data)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message.removeprefix("<bytes>:")


def test_columns_may_come_in_any_order_and_the_defaults_are_one_cpu_and_the_run_time():
    workload = table("runtime,job,submit", "5,a,10", "0,b,2.5")
    jobs = workload.jobs
    assert jobs.job.tolist() == ["a", "b"]
    assert jobs.submit.tolist() == [10 * SECOND, 2_500_000]
    assert jobs.walltime.tolist() == jobs.runtime.tolist() == [5 * SECOND, 0]
    assert jobs.procs.tolist() == [1, 1]
    assert (workload.resources, workload.licences, workload.cpus) == (("cpus",), (), None)
    assert workload.assumed == {"walltime missing: the run time is used": 2, "processors missing: taken as 1": 2}
    assert workload.notes == (
        "walltime missing: the run time is used: 2 of 2 jobs",
        "processors missing: taken as 1: 2 of 2 jobs",
        "submitted before the previous job: 1 of 2 jobs",
    )


def test_every_column_is_read():
    workload = table(
        "job,submit,run,estimate,tasks,cpus,memory,gpus,spread,licences,deadline,priority,admin_priority,user,"
        "group,project,partition,queue,qos,site,constraint,after,waited",
        "a,0,5,9,2,8,1.5G,1,node,x:2;y:1,100,-1.5,7,ann,g,p,batch,q1,low,s,gpu&!m3,,3",
        "b,0,5,,,,,,,,,,,,,,,,,,,a,",
        "c,0,5,4,1,0,512,0,site,y,,,,bob,,,,,,,,a; b,0",
    )
    jobs = workload.jobs
    assert workload.resources == ("cpus", "memory", "gpus")
    assert workload.licences == ("x", "y")
    assert jobs.demand.tolist() == [[8, 3 * 2**29, 1], [0, 0, 0], [0, 512, 0]]
    assert jobs.tasks.tolist() == [2, 1, 1]
    assert (jobs.walltime // SECOND).tolist() == [9, 5, 4]
    assert [SPREAD[rule] for rule in jobs.spread] == ["node", "any", "site"]
    assert [jobs.licences.counts_of(row) for row in range(3)] == [{0: 2, 1: 1}, {}, {1: 1}]
    assert [jobs.after[row].tolist() for row in range(3)] == [[], [0], [0, 1]]
    assert jobs.deadline.tolist() == [100 * SECOND, NEVER, NEVER]
    assert jobs.priority.tolist() == [-1.5, 0, 0]
    assert jobs.admin_priority.tolist() == [7, 0, 0]
    assert [jobs.user[row] for row in range(3)] == ["ann", "", "bob"]
    assert (jobs.group[0], jobs.project[0], jobs.site[0], jobs.constraint[0]) == ("g", "p", "s", "gpu&!m3")
    assert (jobs.partition[0], jobs.queue[0], jobs.qos[0]) == ("batch", "q1", "low")
    assert workload.to_polars().select("partition", "queue", "qos").rows()[:2] == [("batch", "q1", "low"), ("", "", "")]
    assert jobs.waited.tolist() == [3 * SECOND, -1, 0]


def test_procs_are_tasks_of_one_cpu_and_do_not_go_with_tasks_or_cpus():
    jobs = table("job,submit,runtime,procs,memory", "a,0,1,4,1K").jobs
    assert (jobs.tasks.tolist(), jobs.demand.tolist()) == ([4], [[1, 1024]])
    for other in ("tasks", "cpus"):
        message = refusal(f"job,submit,runtime,procs,{other}", "a,0,1,4,1")
        assert message == f"1: both columns procs and {other}; procs is short for tasks of one cpu"


def test_memory_is_told_per_task_per_job_or_per_cpu():
    lines = ("job,submit,runtime,tasks,cpus,memory_per_cpu,memory,gpus,memory_per_job", "a,0,1,3,4,2G,,1,")
    workload = table(*lines, "b,0,1,3,4,,5,0,", "c,0,1,3,0,,,,10", "d,0,1,3,4,0,0,0,")
    assert workload.resources == ("cpus", "memory", "gpus")
    assert workload.jobs.demand[:, 1].tolist() == [8 * 2**30, 5, 4, 0]  # 10 bytes of a job: 4 for each of 3 tasks
    assert table("job,submit,runtime,memory_per_job", "a,0,1,7").jobs.demand.tolist() == [[1, 7]]
    assert not [note for note in workload.notes if "memory" in note]


def test_memory_beside_procs_is_said_to_be_per_task():
    several = ("job,submit,runtime,walltime,procs,memory", "a,0,1,1,1,48000M", "b,0,1,1,4,", "c,0,1,1,12,48000M")
    said = (
        "memory is per task: procs=12 with memory=48000M hold 562.5 GiB in total; use memory_per_job for the "
        "memory of a whole job"
    )
    assert table(*several).notes == (said,)
    assert table(*several[:-1]).notes == ()  # one task holds what the job holds
    assert table(*several, "d,0,1,1,2,1G").notes == (said,)
    whole = table("job,submit,runtime,walltime,procs,memory_per_job", "c,0,1,1,12,48000M")
    assert (whole.notes, whole.jobs.demand.tolist()) == ((), [[1, 4000 * 2**20]])


@pytest.mark.parametrize(
    ("columns", "cells", "expected"),
    [
        ("memory,memory_per_job", "1,2G", "memory_per_job is '2G'; expected nothing, because the row has memory too"),
        (
            "memory_per_cpu,memory_per_job",
            "1,2",
            "memory_per_cpu is '1'; expected nothing, because the row has memory_per_",
        ),
        (
            "cpus,memory_per_cpu",
            "0,1G",
            "memory_per_cpu is '1G'; expected nothing, because the tasks of the job hold no c",
        ),
        ("cpus,memory_per_cpu", "1T,8P", "memory_per_cpu is '8P'; expected less: the 1,099,511,627,776 cpus of a ta"),
        ("memory_per_cpu", "-1", "memory_per_cpu is '-1'; expected a whole number from 0"),
        ("memory_per_job", "1X", "memory_per_job is '1X'; expected a whole number from 0"),
    ],
)
def test_memory_that_makes_no_sense_is_refused(columns: str, cells: str, expected: str):
    assert refusal(f"job,submit,runtime,{columns}", f"a,0,1,{cells}").startswith(f"2: {expected}")


def test_gpus_may_be_of_a_type_which_is_a_feature_of_their_nodes():
    lines = (
        "job,submit,runtime,gpus,constraint",
        "a,0,1,a100:2,",
        "b,0,1,gpu:h100:1,ssd",
        "c,0,1,a100:3,ssd|!old|!a100",
    )
    workload = table(*lines, "d,0,1,gpu:4,ssd", "e,0,1,,", "f,0,1,a100:0,", "g,0,1,8,")
    jobs = workload.jobs
    assert (workload.resources, jobs.demand[:, 1].tolist()) == (("cpus", "gpus"), [2, 1, 3, 4, 0, 0, 8])
    asked = [jobs.constraint[row] for row in range(7)]
    assert asked == ["a100", "ssd&h100", "ssd&a100|!old&a100", "ssd", "", "", ""]


@pytest.mark.parametrize("text", ["a100", "a100:", "2:a100", "a100:-1", ":2", "a b:1", "a100:1.5", '"a100:1,h100:1"'])
def test_gpus_of_what_is_no_type_or_of_several_are_refused(text: str):
    cell = text.replace('"', "")
    assert refusal("job,submit,runtime,gpus", "a,0,1,1", f"b,0,1,{text}") == (
        f"3: gpus is {cell!r}; expected a whole number from 0 to 4611686018427387904, or type:number of one "
        "type such as a100:2"
    )


def test_gpus_of_a_type_that_the_constraint_rules_out_are_refused():
    message = refusal("job,submit,runtime,gpus,constraint", "a,0,1,a100:1,!a100|ssd&!a100")
    assert message == "2: gpus is 'a100:1'; expected a type that its constraint '!a100|ssd&!a100' allows"


def test_a_copy_has_tasks_of_one_cpu_beside_memory_and_the_type_of_gpus_as_constraint(tmp_path: Path):
    log = table("job,submit,runtime,walltime,procs,memory_per_job,gpus", "a,0,1,1,2,2K,a100:1")
    write_csv(log, tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == (
        "job,submit,runtime,walltime,tasks,cpus,memory,gpus,constraint\na,0,1,1,2,1,1024,1,a100\n"
    )
    again = read_table(tmp_path / "w.csv")
    assert same(log, again)
    assert again.notes == ()


def test_only_known_or_named_resources_are_read_and_other_columns_are_named_once():
    lines = ("job,submit,runtime,tape,colour", "a,0,1,3,red")
    assert table(*lines).notes[0] == "columns ignored: 'tape', 'colour'"
    workload = table(*lines, resources=("cpus", "tape", "user"))
    assert workload.resources == ("cpus", "tape")
    assert workload.jobs.demand.tolist() == [[1, 3]]
    assert workload.notes[0] == "columns ignored: 'colour'"


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("submit", "abc", "submit is 'abc'; expected a number of seconds from -100000000000 to 100000000000"),
        ("submit", "", "submit is ''; expected a number of seconds from -100000000000 to 100000000000"),
        ("submit", "nan", "submit is 'nan'; expected a number of seconds from -100000000000 to 100000000000"),
        ("submit", "100000000000.000001", "submit is '100000000000.000001'; expected a number of seconds from"),
        ("run", "-1", "run is '-1'; expected a number of seconds from 0 to 100000000000"),
        ("estimate", "soon", "estimate is 'soon'; expected a number of seconds from 0 to 100000000000, or a span"),
        ("tasks", "0", "tasks is '0'; expected a whole number from 1 to 1099511627776 that may carry K, M, G or T"),
        ("tasks", "1.5", "tasks is '1.5'; expected a whole number from 1"),
        ("cpus", "-1", "cpus is '-1'; expected a whole number from 0"),
        ("memory", "5X", "memory is '5X'; expected a whole number from 0"),
        ("memory", "9" * 100 + "T", "memory is '" + "9" * 57 + "...'; expected a whole number from 0"),
        ("priority", "inf", "priority is 'inf'; expected a finite number"),
        ("spread", "rack", "spread is 'rack'; expected node, site, any"),
        ("constraint", "a&", "constraint is 'a&'; expected features joined by & and |, with a ! in front of"),
        ("licences", "a:0", "licences is 'a:0'; expected name:copies items separated by ;, of 1 to 1,099,511,627,776"),
        ("licences", ":1", "licences is ':1'; expected name:copies"),
        ("licences", "a:1;;", "licences is 'a:1;;'; expected name:copies"),
        ("after", "z", "after is 'z'; expected ids of this file separated by ; (no job is called 'z'"),
        ("after", "b", "after is 'b'; expected no cycle ('b' after 'b')"),
        ("job", "", "job is ''; expected a text without control characters"),
        ("job", "\x1b[1m", r"job is '\x1b[1m'; expected a text without control characters"),
        ("job", "a", "job is 'a'; expected a unique job id (first used in line 2)"),
    ],
)  # fmt: skip
def test_a_bad_cell_is_refused_with_line_and_column(column: str, cell: str, expected: str):
    names = ["job", "submit", "run", "estimate", "tasks", "cpus", "memory", "priority", "spread", "constraint",
             "licences", "after"]  # fmt: skip
    good = ["0", "1", "1", "1", "1", "1", "0", "any", "", "", ""]
    last = ["b", *good]
    last[names.index(column)] = cell
    message = refusal(",".join(names), ",".join(["a", *good]), "", ",".join(last))
    assert message.startswith(f"4: {expected}")


def test_a_circle_of_predecessors_is_refused():
    message = refusal("job,submit,runtime,after", "a,0,1,c", "b,0,1,a", "c,0,1,b", "d,0,1,a", "e,0,1,")
    assert message == "2: after is 'c'; expected no cycle ('a' after 'c' after 'b' after 'a')"


def test_what_is_not_a_workload_table_is_refused():
    assert refusal("") == " is empty"
    assert refusal("job,submit", "a,1") == (
        "1: no column runtime; the columns are 'job,submit'; if it has another name, state it: "
        "import csv --column runtime=NAME, in Python columns={'runtime': NAME}"
    )
    assert refusal("job,submit,runtime", "a,1") == "2: 2 cells; expected 3, as in the header"
    assert refusal("job,submit,run,runtime", "a,1,1,1") == "1: column 'runtime' and column 'run' are the same"
    assert refusal("job,submit,runtime", 'a,"1,1') == "2: is not CSV: unexpected end of data"
    assert refusal(b"job,submit,runtime", b"a,1,\xff") == "2: is not UTF-8 text: byte 0xff"
    assert refusal("job,submit,runtime", "x" * 10**6) == "2: has a cell of more than 131,072 characters"
    assert "no column job" in refusal("x" * 100_000)
    assert refusal("job,submit,runtime,tasks,memory", "a,0,1,1G,4000P") == (
        " job a: its 1073741824 tasks hold more than 2^62 of a resource"
    )


def test_a_header_alone_is_an_empty_workload():
    assert len(table("job,submit,runtime")) == 0


def test_a_column_of_ten_million_characters_is_refused_at_once():
    begin = time.process_time()
    refusal("job,submit,runtime", ",".join("1" * 100_000 for _ in range(100)))
    refusal("job,submit,runtime", "a,1," + "9" * 131_000)
    refusal("job,submit,runtime", *["a,1,1"] * 100_000)
    assert time.process_time() - begin < 20  # minutes, where each digit costs all the others


def complaint(data: bytes) -> str | None:
    try:
        read_table(data)
    except InputError as error:
        return str(error)
    return None


HEADER = b"job,submit,run,walltime,tasks,cpus,memory,licences,after,spread,priority\n"
CELLS = st.one_of(st.text('0123456789.-eKM;:,"\n\r\0ab ', max_size=6), st.floats().map(str), st.integers().map(str))


@examples(150)
@given(st.one_of(st.binary(), st.lists(CELLS).map(lambda cells: ",".join(cells).encode())))
def test_no_bytes_raise_anything_but_an_input_error(data: bytes):
    for source in (data, HEADER + data, gzip.compress(data, mtime=0), b"PAR1" + data + b"PAR1"):
        assert "\n" not in (complaint(source) or "")


@examples(150)
@given(st.integers(0, 10), CELLS)
def test_a_mutated_cell_raises_nothing_but_an_input_error(place: int, text: str):
    cells = ["b", "0", "1", "1", "1", "1", "1", "x:1", "a", "any", "0"]
    cells[place] = text
    assert (complaint(HEADER + b"a,0,1,1,1,1,1,,,,\n" + ",".join(cells).encode()) or "<bytes>:").startswith("<bytes>:")


@examples(100)
@given(workload=workloads(), packed=st.booleans())
def test_csv_that_is_written_is_read_back(workload: Workload, packed: bool, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.getbasetemp() / ("w.csv.gz" if packed else "w.csv")
    write_csv(workload, path)
    assert same(workload, read_table(path, workload.resources))


@examples(100)
@given(workload=workloads(time_max=EXACT_FLOAT))
def test_parquet_that_is_written_is_read_back(workload: Workload, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.getbasetemp() / "w.parquet"
    write_parquet(workload, path)
    assert same(workload, read_table(path, workload.resources))


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


def test_parquet_of_other_types_is_read_as_the_numbers_they_are():
    workload = read_table(
        parquet(job=[1, 2], submit=[0.5, 1e10], run=[1.0, 3.0], memory=[3.4e10, None], cpus=[2.0, 1.0])
    )
    assert workload.jobs.job.tolist() == ["1", "2"]
    assert workload.jobs.submit.tolist() == [500_000, 10**16]
    assert workload.resources == ("cpus", "memory")
    assert workload.jobs.demand.tolist() == [[2, 34_000_000_000], [1, 0]]


def test_a_deadline_before_the_submit_is_refused():
    said = refusal("job,submit,runtime,deadline", "a,100,10,50")
    assert said == "2: deadline is '50'; expected the submit, 100 s, or a later time"


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662"])
def test_what_only_python_takes_for_a_number_is_refused(text):
    assert refusal("job,submit,runtime", f"a,0,{text}").startswith(f"2: runtime is '{text}'; expected a number")


def test_dependencies_on_jobs_that_are_left_out_are_told():
    found = table("job,submit,runtime,after", "a,0,1,c", "b,0,1,", "c,0,1,").head(2)
    assert found.notes[-1] == "depended on a job that is left out, and no longer wait for it: 1 job"


def test_parquet_that_makes_no_sense_is_refused():
    columns = {"job": ["a"], "runtime": [1]}
    assert complaint(parquet(**columns, submit=[[1, 2]])) == (
        "<bytes>: submit holds List(Int64); expected texts or numbers"
    )
    assert complaint(parquet(**columns, submit=[1], user=[{"name": "ann"}])) == (
        "<bytes>: user holds Struct({'name': String}); expected texts or numbers"
    )
    assert complaint(parquet(**columns, submit=[None])).startswith("<bytes>: row 1: submit is ''; expected a number")
    assert complaint(parquet(**columns)).startswith("<bytes>: no column submit; the columns are 'job,runtime'; ")
    assert complaint(parquet(**columns, submit=[1])[:-9]).startswith("<bytes>: cannot be read as Parquet: ")
    assert complaint(parquet(**columns, submit=[1], nested=[{"a": 1}])) is None


def test_damaged_parquet_is_refused_and_nothing_else_is_printed(capfd):
    good = parquet(job=[f"j{i}" for i in range(100)], submit=[0] * 100, runtime=[1.5] * 100)
    draw = random.Random(1)
    damaged = [good[:size] for size in (5, 12, len(good) // 2, len(good) - 1)]
    damaged += [b"PAR1" + draw.randbytes(size) + b"PAR1" for size in (0, 8, 3000)]
    for data in damaged:
        assert complaint(data).startswith("<bytes>: cannot be read as Parquet: ")
    for _ in range(100):  # a changed byte may also go unseen
        at = draw.randrange(4, len(good) - 4)
        complaint(good[:at] + draw.randbytes(20) + good[at + 20 :])
    assert capfd.readouterr() == ("", "")


def test_an_id_with_a_semicolon_cannot_be_written_as_a_predecessor(tmp_path: Path):
    workload = table("job,submit,runtime,after", "a;b,0,1,", "c,0,1,")
    jobs = workload.jobs.replace(after=type(workload.jobs.after).of([[], [0]]))
    with pytest.raises(WorkloadError, match="'a;b' contains a ;, which separates the items of a list"):
        write_csv(workload.with_jobs(jobs), tmp_path / "w.csv")
    assert list(tmp_path.iterdir()) == []


def test_columns_that_hold_nothing_are_not_written(tmp_path: Path):
    one = np.ones(1, np.int64)
    write_csv(Workload(Jobs(job=one, submit=one, runtime=one * SECOND, walltime=one * 0)), tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == "job,submit,runtime,walltime,procs\n1,0.000001,1,0,1\n"


@needs_logs
def test_the_tables_of_other_simulators_are_read():
    kth, sdsc = (read_table(SHARED / "oracle" / f"{log}.jobs.csv.gz") for log in ("kth", "sdsc"))
    assert (len(kth), len(sdsc), kth.name, kth.jobs.procs.max()) == (28481, 54006, "kth.jobs", 100)
    assert (kth.jobs.runtime <= kth.jobs.walltime).all()


def test_the_recorded_wait_may_be_told_by_the_start():
    jobs = table("job,submit,runtime,start", "a,10,1,15.5", "b,10,1,", "c,10,1,9").jobs
    assert jobs.waited.tolist() == [5_500_000, -1, -1]
    assert table("job,submit,runtime,wait", "a,10,1,5").jobs.waited.tolist() == [5 * SECOND]


def test_a_start_before_the_submit_is_counted_and_not_both_columns_are_taken():
    assumed = table("job,submit,runtime,walltime,procs,start", "a,10,1,1,1,9", "b,10,1,1,1,10").assumed
    assert assumed == {"start before the submit: the wait is taken as unknown": 1}
    assert refusal("job,submit,runtime,start,waited", "a,0,1,0,0") == (
        "1: both columns waited and start; the wait is start - submit"
    )


def test_of_two_rows_with_one_id_the_first_stays_where_that_is_asked_for():
    lines = ("job,submit,runtime,walltime,after", "a,0,5,5,", "a,1,6,,", "b,2,7,7,a")
    workload = table(*lines, repeats="drop")
    assert (workload.jobs.runtime // SECOND).tolist() == [5, 7]
    assert workload.dropped == {"duplicate job id": 1}
    assert workload.assumed == {"processors missing: taken as 1": 2}
    assert workload.jobs.after[1].tolist() == [0]
    assert refusal(*lines) == "3: job is 'a'; expected a unique job id (first used in line 2)"


def test_a_think_time_stands_beside_what_a_job_comes_after(tmp_path):
    text = "job,submit,runtime,after,think\na,0,10,,\nb,0,10,a,2.5\nc,0,10,a;b,\n"
    (tmp_path / "log.csv").write_text(text)
    log = read_table(tmp_path / "log.csv")
    assert log.jobs.think.tolist() == [0, 2_500_000, 0]
    write_csv(log, tmp_path / "again.csv")
    assert read_table(tmp_path / "again.csv").jobs.think.tolist() == log.jobs.think.tolist()
    assert log.head(1).jobs.think.tolist() == [0]
    assert log.jobs.take(np.array([1])).think.tolist() == [0]


def test_a_think_time_without_a_job_before_it_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("job,submit,runtime,think\na,0,10,5\n")
    with pytest.raises(
        WorkloadError, match=r"log.csv:2: think is '5'; expected nothing, because the job has no `after`"
    ):
        read_table(tmp_path / "log.csv")


def test_too_many_dependencies_are_refused_with_the_line(monkeypatch):
    monkeypatch.setattr("backfill.traces.table.EDGES_MAX", 3)
    rows = ("job,submit,runtime,after", "a,0,1,", "b,0,1,a", "c,0,1,a;b;a")
    assert len(table(*rows).jobs.after.items) == 3
    assert refusal(*rows, "d,0,1,a") == "5: more than 3 dependencies up to here"
