"""What the chart of the page gets, read back as the page reads it."""

import base64
import json
import struct
import zlib

import numpy as np
import pytest

import backfill as bf
from backfill.model.schedule import REASONS
from backfill.model.units import NEVER
from backfill.model.workload import Jobs, Workload
from backfill.report.gantt import pack
from backfill.report.rows import lay_out, with_rows


def unpacked(text):
    """The header, and the columns in order: (name, values)."""
    data = zlib.decompress(base64.b64decode(text))
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    place, columns = 4 + length, []
    for name, count in header["columns"]:
        planes = np.frombuffer(data, np.uint8, 4 * count, place).reshape(4, count)
        columns.append((name, np.ascontiguousarray(planes.T).view("<i4")[:, 0].astype(np.int64)))
        place += 4 * count
    assert place == len(data)
    return header, columns


def packed(result, **more):
    return pack(result.workload, result.platform, [(result.name, result.schedule)], **more)


@pytest.fixture(scope="module")
def result() -> bf.Result:
    return bf.simulate(bf.generate("lublin?jobs=300&cpus=32&load=0.9&seed=3"), policy="easy")


def test_starts_and_ends_come_back(result):
    header, columns = unpacked(packed(result).text)
    of = dict(columns)
    submit = np.cumsum(of["submit"])
    begin = result.schedule.submit.min()
    assert header["tick"] == 1
    assert (submit == (result.schedule.submit - begin) // 10**6).all()
    assert (submit + of["back"] + of["wait"] == (result.schedule.start - begin) // 10**6).all()
    assert (of["held"] == (result.schedule.end - result.schedule.start) // 10**6).all()
    assert (np.cumsum(of["id"]) == result.workload.jobs.job.astype(int)).all()
    assert [header["why"][code] for code in of["why"] // 4] == [REASONS[code] for code in result.schedule.reason]


def test_policies_share_the_columns_of_jobs(result):
    other = bf.simulate(result.workload, policy="fcfs")
    both = [("easy", result.schedule), ("fcfs", other.schedule)]
    _, columns = unpacked(pack(result.workload, result.platform, both).text)
    names = [name for name, _ in columns]
    assert (names.count("submit"), names.count("wait")) == (1, 2)
    assert (columns[-4][0], columns[-4][1].any()) == ("held", False)  # jobs run as long under both


def test_what_is_too_long_is_cut_to_the_first_jobs(result):
    whole = packed(result)
    cut = packed(result, most=len(whole.text) // 2)
    assert whole.jobs == 300
    assert 50 < cut.jobs < 300
    assert len(cut.text) <= len(whole.text) // 2
    assert unpacked(cut.text)[0]["jobs"] == cut.jobs


@pytest.mark.parametrize(("span", "tick"), [(1000, 1e-3), (10**8, 0.1), (10**11, 100)])
def test_times_that_are_not_whole_seconds_get_a_tick_that_fits(span, tick):
    half = 500_000
    log = Workload(Jobs(job=np.array(["a", "b"]), submit=np.array([half, span * 10**6 - half]),
                        runtime=np.array([half, half]), walltime=np.array([half, half])))  # fmt: skip
    header, columns = unpacked(packed(bf.simulate(log, bf.Platform.pool(1))).text)
    assert header["tick"] == tick
    assert header["ids"] == ["a", "b"]
    assert all((values >= -1).all() for _, values in columns)


def test_runs_of_nodes_stand_there_once():
    log = Workload(Jobs(job=np.array([1]), submit=np.zeros(1, np.int64), runtime=np.array([10**6]),
                        walltime=np.array([10**6]), tasks=np.array([40])))  # fmt: skip
    of = dict(unpacked(packed(bf.simulate(log, bf.Platform.pool(64, nodes=16))).text)[1])
    assert (of["runs"].tolist(), of["nodes"].sum()) == ([1], 10)
    assert of["tasks"].tolist() == [4]


def test_deadlines_and_licences_stand_there_once_and_who_was_late_for_each_policy():
    farm = bf.generate("farm?machines=4&licences=3&jobs=50&interarrival=60&seed=1")
    results = [bf.simulate(farm, policy=name) for name in ("fcfs", "bf-mod")]
    header, columns = unpacked(pack(farm, farm.platform, [(r.name, r.schedule) for r in results]).text)
    of = dict(columns)
    assert header["licences"] == list(farm.platform.licences)
    assert header["copies"] == farm.platform.copies.tolist()
    due, submit = farm.jobs.deadline, farm.jobs.submit
    assert (of["due"] == -1).tolist() == (due == NEVER).tolist()
    far = (of["due"] * header["tick"] - (due - submit) / 10**6)[due < NEVER]
    assert np.abs(far).max() <= 2 * header["tick"]
    assert of["licences"].tolist() == [len(set(farm.jobs.licences[job].tolist())) for job in range(50)]
    assert of["copies"].sum() == len(farm.jobs.licences.items)
    late = [values // 2 % 2 == 1 for name, values in columns if name == "why"]
    assert [each.tolist() for each in late] == [(r.schedule.end > due).tolist() for r in results]
    assert late[0].sum() > late[1].sum() > 0


def test_a_rejected_job_has_no_start_and_a_cause():
    log = Workload(Jobs(job=np.array([1]), submit=np.zeros(1, np.int64), runtime=np.array([10**6]),
                        walltime=np.array([10**6]), tasks=np.array([9])))  # fmt: skip
    header, columns = unpacked(packed(bf.simulate(log, bf.Platform.pool(4))).text)
    of = dict(columns)
    assert of["wait"].tolist() == [-1]
    assert header["why"][of["why"][0] // 4] == "cpus"


def test_why_jobs_waited_is_told_of_those_in_the_chart(result):
    order = np.argsort(result.workload.jobs.submit, kind="stable").tolist()
    plain, _ = unpacked(packed(result).text)
    assert not {"explained", "asked"} & {*plain}
    header, _ = unpacked(packed(result, explained=[{order[7]: "why"}], asked=order[7]).text)
    assert (header["explained"], header["asked"]) == ([{"7": "why"}], 7)
    few = packed(result, explained=[{order[-1]: "why"}], asked=order[-1], most=len(packed(result).text) - 200)
    header, _ = unpacked(few.text)
    assert few.jobs < len(order)
    assert not {"explained", "asked"} & {*header}


def test_a_chart_has_the_processors_once_for_each_row_that_takes_turns():
    log = Workload.from_arrays(
        {"job": [1, 2, 3], "submit": [0, 0, 0], "runtime": [9, 9, 9], "cpus": [4, 4, 4], "walltime": [9, 9, 9]}
    )
    result = bf.simulate(log, bf.Platform.pool(4), "gang-matrix:mpl=2,switch=0")
    header, columns = unpacked(pack(log, result.platform, [(result.name, result.schedule)]).text)
    assert header["cpus"] == [8]
    assert dict(columns)["held"].tolist() == [18, 18, 9]  # ticks of a second
    tall = with_rows(result.platform, [result.schedule])
    assert lay_out(log, tall, result.schedule).tolist() == [[0, 0, 4], [1, 4, 8], [2, 0, 4]]
