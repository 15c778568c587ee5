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
from backfill.model.workload import Jobs, Ragged, Workload
from backfill.report.gantt import pack
from backfill.report.rows import drawn, lay_out
from tests.analysis.by_hand import farm


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


def of_matrix(jobs, policy, platform):
    """Some jobs as (cpus, run time, licence or None), all there at once with a walltime of 200 s, in rows that take
    turns."""
    count = len(jobs)
    log = Workload(
        Jobs(
            job=np.arange(1, count + 1), submit=np.zeros(count, np.int64), walltime=np.full(count, 200 * 10**6),
            tasks=np.array([cpus for cpus, *_ in jobs]), runtime=np.array([runtime for _, runtime, _ in jobs]) * 10**6,
            licences=Ragged.of([[] if licence is None else [licence] for *_, licence in jobs]),
        ),
        licences=("x",),
    )  # fmt: skip
    return bf.simulate(log, platform, policy)


def test_a_chart_has_the_processors_once_for_each_row_that_takes_turns():
    result = of_matrix([(4, 9, None)] * 3, "gang-matrix:mpl=2,switch=0", bf.Platform.pool(4))
    header, columns = unpacked(packed(result).text)
    assert (header["cpus"], header["nodes"], header["turns"]) == ([4, 4], ["row 1", "row 2"], ["row 1", "row 2"])
    of = dict(columns)
    assert (of["held"].tolist(), of["made"].tolist()) == ([18, 18, 9], [9, 9, 9])  # ticks of a second
    assert (of["turning"].tolist(), of["turn"].tolist()) == ([0, 1, 2], [0, 1, 0])
    assert lay_out(result.workload, result.platform, result.schedule).tolist() == [[3, 0, 4], [4, 4, 8], [5, 0, 4]]


def pieces_of(result):
    """What is drawn: (job, rows [low, high), begin, end in seconds), in order of start."""
    box = drawn(result.schedule)
    begin, end = box.start // 10**6, box.end // 10**6
    pieces = lay_out(result.workload, result.platform, result.schedule).tolist()
    return [(int(box.job[k]), low, high, int(begin[k]), int(end[k])) for k, low, high in pieces]


MOVES = [(2, 100, None), (2, 50, None), (2, 100, 0), (2, 50, None)]
ONE_LICENCE = farm(4, licences=("x",), copies=np.array([1]))


def test_a_job_that_moves_to_another_row_is_drawn_where_it_ran_when_it_did():
    result = of_matrix(MOVES, "gang-matrix:mpl=2,switch=0,alternative=false", ONE_LICENCE)
    # its licence all the time, below the two rows; two cpus of the second row, then the free ones of the first
    third = [piece for piece in pieces_of(result) if piece[0] == 2]
    assert third == [(2, 8, 9, 0, 150), (2, 4, 6, 0, 100), (2, 2, 4, 100, 150)]


def test_a_job_that_runs_in_two_rows_at_a_time_has_a_box_in_both():
    platform = bf.Platform.pool(4)
    result = of_matrix([(2, 100, None)] * 3, "gang-matrix:mpl=2,switch=0", platform)
    at_once = [(0, 0, 2, 0, 100), (0, 4, 6, 0, 100), (1, 2, 4, 0, 150), (2, 6, 8, 0, 100)]
    assert pieces_of(result) == [*at_once, (2, 0, 2, 100, 150)]


def test_each_row_has_the_nodes_of_the_machine():
    platform = bf.Platform.pool(4, nodes=2)
    result = of_matrix([(4, 100, None), (2, 100, None)], "gang-matrix:mpl=2,switch=0", platform)
    assert pieces_of(result) == [(0, 0, 2, 0, 200), (0, 2, 4, 0, 200), (1, 4, 6, 0, 200)]
    assert unpacked(packed(result).text)[0]["nodes"] == [*platform.nodes] * 2
