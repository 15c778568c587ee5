"""Jobs that ran more than once, in the chart, in figures and in saved results."""

from dataclasses import replace

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.metrics import metrics
from backfill.model.errors import InputError
from backfill.model.events import Events
from backfill.model.schedule import CANCELLED, COMPLETED, NO_TIME, NODE_FAIL, PREEMPTED, STATES
from backfill.report.gantt import pack
from backfill.report.page import render
from backfill.report.rows import boxes, lay_out
from backfill.report.saved import load
from tests.analysis.by_hand import farm, scheduled, several, workload

from .test_gantt import unpacked

# Job c, submitted first, is in three runs; b is cancelled before it starts; d is cancelled while it runs.
LOG = workload([5, 6, 0, 7], [20, 1, 20, 30], cpus=[1, 2, 2, 1])
TWO = farm(2, 2)
SCHEDULE = several(
    scheduled(LOG, TWO, [5, None, 0, 7], [[(1, 1)], [], [(0, 1)], [(1, 1)]], rejected_for=np.array([""] * 4, object)),
    (0, 5, 25, COMPLETED), (2, 0, 4, NODE_FAIL), (2, 10, 15, PREEMPTED), (2, 26, 41, COMPLETED), (3, 7, 12, CANCELLED),
    held=[[(1, 1)], [(0, 1)], [(0, 1)], [(1, 1)], [(1, 1)]],
)  # fmt: skip
SCHEDULE = replace(SCHEDULE, state=np.array([COMPLETED, CANCELLED, COMPLETED, CANCELLED], np.int8))


def test_there_is_a_box_for_every_run_those_of_the_last_runs_first():
    found = boxes(SCHEDULE)
    assert found.job.tolist() == [0, 1, 2, 3, 2, 2]
    assert (found.start[found.start != NO_TIME] // 10**6).tolist() == [5, 26, 7, 0, 10]
    assert [found.held[box].tolist() for box in range(6)] == [[1, 1], [], [1, 1], [1, 1], [0, 1], [0, 1]]
    assert len(boxes(replace(SCHEDULE, runs=None))) == 4


def test_every_run_has_rows_on_its_node():
    assert lay_out(LOG, TWO, SCHEDULE).tolist() == [[4, 0, 2], [0, 2, 3], [3, 3, 4], [5, 0, 2], [2, 2, 4]]


def test_what_the_chart_gets_tells_every_run():
    header, columns = unpacked(pack(LOG, TWO, [("easy", SCHEDULE)]).text)
    of = dict(columns)
    assert header["ids"] == ["c", "a", "b", "d"]  # by submit
    start = np.cumsum(of["submit"]) + of["back"] + of["wait"]
    assert start[[0, 1, 3]].tolist() == [26, 5, 7]
    assert of["held"].tolist() == [15, 20, 0, 5]
    assert (of["again"].tolist(), of["began"].tolist(), of["stayed"].tolist()) == ([0, 0], [0, 10], [4, 5])
    how = [header["states"][code] for code in of["how"].tolist()]
    assert how == ["COMPLETED", "COMPLETED", "CANCELLED", "CANCELLED", "NODE_FAIL", "PREEMPTED"]
    assert header["why"][of["why"][2] // 4] == STATES[CANCELLED]
    assert of["runs"].tolist() == [1, 1, 0, 1, 1, 1]
    assert of["node"].tolist() == [1, 1, 1, 0, 0]


def test_a_job_that_is_cut_from_the_chart_takes_its_runs_along():
    whole = pack(LOG, TWO, [("easy", SCHEDULE)])
    header, columns = unpacked(pack(LOG, TWO, [("easy", SCHEDULE)], most=len(whole.text) - 1).text)
    assert header["jobs"] == 3
    assert dict(columns)["again"].tolist() == [0, 0]


def test_policies_have_the_same_columns_where_one_of_them_lost_runs():
    plain = scheduled(LOG, TWO, [5, 50, 0, 60], [[(1, 1)], [(0, 1)], [(0, 1)], [(1, 1)]])
    _, columns = unpacked(pack(LOG, TWO, [("easy", SCHEDULE), ("fcfs", plain)]).text)
    names = [name for name, _ in columns]
    assert names.count("again") == names.count("how") == 2
    header, columns = unpacked(pack(LOG, TWO, [("fcfs", plain)]).text)
    assert "states" not in header
    assert "again" not in dict(columns)


@pytest.fixture
def result() -> bf.Result:
    found = bf.simulate(LOG, TWO, policy="easy")
    return replace(
        found,
        simulation=replace(found.simulation, schedule=SCHEDULE),
        metrics=metrics(found.workload, found.platform, SCHEDULE),
    )


def test_a_saved_result_keeps_the_runs(tmp_path, result):
    result.report(tmp_path / "at once.html", "backfill x")
    result.save(tmp_path / "saved", "backfill x")
    page = load(tmp_path / "saved")
    assert page.runs[0].schedule is not None
    assert page.runs[0].schedule.runs is not None
    assert page.runs[0].schedule.runs.progress.tolist() == SCHEDULE.all_runs.progress.tolist()
    assert render(page) == (tmp_path / "at once.html").read_text()
    (tmp_path / "saved" / "runs-1.csv.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"runs-1\.csv\.gz: is not the file that was saved"):
        load(tmp_path / "saved")


def test_a_result_without_runs_has_no_file_of_them(tmp_path):
    bf.simulate(LOG, TWO, policy="easy").save(tmp_path / "saved")
    assert not list(tmp_path.glob("saved/runs*"))


def test_the_figure_has_a_box_for_every_run(result):
    pytest.importorskip("matplotlib")
    axes = result.gantt()
    assert len(axes.collections[0].get_paths()) == 5


def test_the_chart_shades_what_outages_and_windows_take_away():
    platform = farm(2, 4, licences=("l",), copies=np.array([3]))
    log = workload([0], [50], licences=["l"], asks=[[0]])
    schedule = scheduled(log, platform, [0], [[(1, 1)]])
    happened = Events.of(
        [
            {"time": 10, "event": "down", "node": "m1"},
            {"time": 20, "event": "up", "node": "m1"},
            {"time": 0, "event": "window", "node": "m2", "resource": "cpus", "amount": 3, "value": 30, "until": 40},
            {"time": 45, "event": "capacity", "resource": "l", "value": 1},
            {"time": 60, "event": "down", "node": "*"},
        ]
    )
    header, _ = unpacked(pack(log, platform, [("easy", schedule)], events=happened.bind(log, platform)).text)
    assert header["away"] == [[0, 2, 10, 20], [3, 6, 30, 40], [7, 9, 45, 50]]
    assert "away" not in unpacked(pack(log, platform, [("easy", schedule)]).text)[0]
