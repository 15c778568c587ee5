"""Figures by matplotlib, tables of other libraries, and what notebooks show."""

import sys
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import backfill as bf
from backfill.model.clock import Clock
from backfill.model.errors import MissingExtra, UsageError
from backfill.model.units import NEVER
from backfill.model.workload import Jobs, Labels, Workload
from backfill.report.figures import KINDS


@pytest.fixture(scope="module")
def result() -> bf.Result:
    return bf.simulate(bf.generate("lublin?jobs=100&cpus=16&load=0.8"), policy="easy")


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_figure_is_drawn(result, plt, tmp_path, kind):
    ax = result.plot(kind)
    ax.figure.savefig(tmp_path / "out.svg")
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_the_table_of_a_workload_tells_its_licences():
    farm = bf.generate("farm?machines=4&licences=3&jobs=20")
    told = farm.to_pandas()["licences"].tolist()
    assert told == [";".join(f"{farm.licences[k]}:1" for k in farm.jobs.licences[row]) for row in range(20)]
    assert any(told)


def test_lines_of_several_results_share_an_axis(result, plt):
    ax = plt.subplots()[1]
    assert result.plot("queue", ax) is result.plot("queue", ax) is ax
    assert len(ax.patches) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["easy", "easy"]


@pytest.mark.parametrize("kind", ["gantt", "utilization", "queue", "jobs"])
def test_the_axis_of_time_has_dates_where_the_log_knows_them_and_human_units_elsewhere(result, kind, plt):
    ax = result.plot(kind)
    assert ax.get_xlabel() == "hours since the first submit"
    assert ax.get_xlim()[1] < 100
    clock = Clock(1_772_319_600, "Europe/Berlin")  # 1 March 2026, midnight
    dated = bf.simulate(replace(result.workload, clock=clock), policy="easy").plot(kind)
    assert dated.get_xlabel() == "date (Europe/Berlin)"
    dated.figure.canvas.draw()
    end = plt.matplotlib.dates.num2date(dated.get_xlim()[1], tz=ZoneInfo("Europe/Berlin"))
    assert (end.year, end.month) == (2026, 3)
    assert "2026-Mar" in dated.xaxis.get_major_formatter().get_offset()


def test_waits_and_shares_are_told_in_human_units(result, plt):
    wait, used = result.plot("wait"), result.plot("utilization")
    for ax in (wait, used):
        ax.figure.canvas.draw()
    assert [text.get_text() for text in wait.get_xticklabels()][:3] == ["1 s", "10 s", "1 min"]
    assert "100%" in [text.get_text() for text in wait.get_yticklabels()]
    assert "20%" in [text.get_text() for text in used.get_yticklabels()]


def test_the_gantt_chart_has_a_box_per_piece_inside_its_axes(result, plt):
    ax = result.gantt()
    boxes = ax.collections[0].get_paths()
    assert len(boxes) >= 100
    corners = np.concatenate([box.vertices for box in boxes])
    assert corners[:, 1].min() >= 0
    assert corners[:, 1].max() <= 16


def test_the_gantt_chart_of_threads_is_pale_where_a_processor_is_held_and_coloured_by_project(plt):
    log = bf.generate("threads?jobs=12&cpus=8&linked=0.5&seed=3")
    result = bf.simulate(log, log.platform, "thread-matrix")
    ax = result.gantt(colour="project")
    boxes, held = ax.collections[:2]
    colours = {tuple(colour) for colour in boxes.get_facecolor()}
    assert len(colours) == 8
    waits = result.schedule.all_runs.dangled(result.schedule.ready(log.jobs))
    width = sum(np.ptp(box.vertices[:, 0]) for box in held.get_paths())
    assert ax.get_xlabel() == "minutes since the first submit"
    assert width * 60 == pytest.approx(waits.sum() / 1e6)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "different colours: different projects",
        "held but not busy",
    ]


def test_an_unknown_colour_names_the_known_ones(result):
    with pytest.raises(UsageError, match="colour is 'size'; expected one of why, user, project"):
        result.gantt(colour="size")


def test_an_empty_result_can_be_drawn(plt):
    empty = bf.simulate(bf.generate("lublin?jobs=5&cpus=16").head(0), bf.Platform.pool(16))
    for kind in KINDS:
        empty.plot(kind)


def test_an_unknown_kind_names_the_known_ones(result):
    with pytest.raises(UsageError, match="kind is 'pie'; expected one of gantt, utilization"):
        result.plot("pie")


def test_without_matplotlib_the_extra_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtra, match=r"pip install 'backfill\[plot\]'"):
        result.gantt()


def test_pandas_and_polars_get_the_same_table(result):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    ours, theirs = result.to_polars(), result.to_pandas()
    assert list(theirs.columns) == ours.columns
    for name in ours.columns:
        assert theirs[name].tolist() == ours[name].to_list()


def test_a_workload_and_a_comparison_are_tables_too():
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    log = bf.generate("farm?jobs=20&machines=4")
    jobs = log.to_pandas()
    assert jobs["submit"].tolist() == [t / 1e6 for t in log.jobs.submit.tolist()]
    assert jobs["deadline"].isna().sum() == (log.jobs.deadline == NEVER).sum()
    assert jobs["cpus"].tolist() == log.to_polars()["cpus"].to_list() == log.jobs.demand[:, 0].tolist()
    found = bf.compare(log, None, ["fcfs", "easy"])
    for table in (found.to_polars(), found.to_pandas()):
        assert list(table["policy"]) == ["fcfs", "easy"]
        assert list(table["mean_wait_s"]) == [each["mean_wait_s"] for each in found.metrics]


def test_without_pandas_it_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        result.to_pandas()


HOSTILE = "<script>alert(1)</script>" + "x" * 10_000


def test_notebooks_show_workload_result_and_comparison(result):
    assert "<td><bdi>100</bdi></td>" in result.workload._repr_html_()
    assert "mean wait" in result._repr_html_()
    compared = bf.compare(result.workload, None, ["fcfs", "easy"])
    assert "easy" in compared._repr_html_()
    assert "<p><bdi>" in compared._repr_html_()


def test_notebooks_escape_and_cut_what_comes_from_outside():
    jobs = Jobs(job=np.array(["a"]), submit=np.zeros(1, np.int64), runtime=np.ones(1, np.int64),
                walltime=np.ones(1, np.int64), user=Labels.of([HOSTILE]))  # fmt: skip
    log = Workload(jobs, name=HOSTILE, notes=(HOSTILE,), dropped={HOSTILE: 1})
    for shown in (log._repr_html_(), bf.simulate(log, bf.Platform.pool(1))._repr_html_()):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
        assert len(shown) < 3000


def test_an_empty_workload_shows_itself():
    assert "<td>" in bf.generate("lublin?jobs=5").head(0)._repr_html_()
