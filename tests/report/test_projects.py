"""The projects on the page: the case study of the paper and small logs by hand."""

import json
import re

import pytest

import backfill as bf
from backfill.report.page import render
from backfill.report.projects import MOVES_DRAWN, MOVES_TOLD, Projects
from backfill.report.saved import load, rewrite
from backfill.report.write import page_of

from .test_page import NASTY, Parsed

CLOUD = 'resources = ["r0", "r1"]\n[[node]]\nname = "cloud"\ncpus = 1\nr0 = 3\nr1 = 4\n'
JOBS = """job,submit,runtime,walltime,tasks,cpus,spread,project,r0,r1
J1.1,100,2,2,1,0,node,P1,1,2
J1.2,100,6,6,1,0,node,P1,1,2
J2.1,101,1,1,1,0,node,P2,1,3
J3.1,102,1,1,1,0,node,P3,1,2
J3.2,102,4,4,1,0,node,P3,2,2
J4.1,105,2,2,1,0,node,P4,1,2
"""


def cloud(folder, jobs=JOBS):
    (folder / "cloud.toml").write_text(CLOUD)
    (folder / "jobs.csv").write_text(jobs)
    machine = bf.Platform.read(folder / "cloud.toml")
    return bf.read(folder / "jobs.csv", resources=machine.resources), machine


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> bf.Result:
    return bf.simulate(*cloud(tmp_path_factory.mktemp("cloud")), policy="2tfb-sf:sf=0.2")


def projects(result) -> Projects:
    found = page_of(result.outcome()).projects
    assert found is not None
    return found


def test_a_row_has_every_departure_and_for_whom_it_was_moved(result):
    # Instants are 100 to 110 s: 10% of the axis are a second. P2 is promised 107, then 108 to make way for J3.2.
    (timeline,) = projects(result).timelines
    assert [(row.name, row.result) for row in timeline.rows] == [
        ("P1", "kept"), ("P2", "later"), ("P3", "kept"), ("P4", "kept"),
    ]  # fmt: skip
    row = timeline.rows[1]
    assert (row.submit, row.start, row.end, row.promised) == (10, 70, 80, [70, 80])
    assert row.cells == ["00:00:01", "00:00:07", "00:00:08", "00:00:08"]
    (move,) = row.moves
    assert (move.begin, move.end, move.far, move.project, move.job) == (70, 80, "+1 s", "P3", "J3.2")
    assert move.summary == "00:00:02: departure moved by +1 s for project P3 (job J3.2)"
    assert row.label == (70, "end", "for P3")
    assert [each.promised for each in timeline.rows] == [[60], [70, 80], [70], [100]]


def test_the_page_has_a_chart_and_a_table_of_the_projects(result):
    page = Parsed(render(page_of(result.outcome())))
    assert ("a", {"href": "#projects"}) in page.tags
    for text in ("P2", "00:00:08", "+1 s for project", "P3", "J3.2", "for P3", "later"):
        assert text in page.texts
    told = "P2: submit 00:00:01, promised 00:00:07, last 00:00:08, departed 00:00:08 (later than first promised"
    assert any(text.startswith(told) for text in page.texts)
    assert (
        "3 of 4 projects departed no later than first promised, 4 no later than last promised. The promised departures "
        "of 1 project moved 1 time, by 1.00 s on average and 1.00 s at most. 1 project made way for jobs of others."
    ) in page.texts
    bars = [fields for tag, fields in page.tags if tag == "rect" and fields["class"] == "bar"]
    assert [(each["x"], each["width"]) for each in bars][1] == ("70.0%", "10.0%")
    marks = [text for text in page.texts if text.startswith("day 0 00:00:")]
    assert marks == [f"day 0 00:00:{second:02}" for second in (0, 2, 4, 6, 8, 10)]


def test_without_projects_or_promises_the_page_has_nothing_of_them(tmp_path, result):
    easy = bf.simulate(result.workload, result.platform, policy="easy")
    alone = "\n".join(re.sub(r"P\d", "", line) for line in JOBS.splitlines())
    loose = bf.simulate(*cloud(tmp_path, alone), policy="2tsb")
    for each in (easy, loose):
        text = render(page_of(each.outcome()))
        assert "projects" not in each.to_dict()
        assert not {"departures", "timeline", "--p-late"} & {*re.findall(r"[\w-]+", text)}
        assert 'id="projects"' not in text


def test_only_policies_that_promise_are_in_the_section(result):
    found = bf.compare(result.workload, result.platform, ["easy", "2tsb", "2tfb-sf:sf=0.2"])
    shown = page_of(found.outcome()).projects
    assert [each.policy for each in shown.timelines] == ["2tsb", "2tfb-sf:sf=0.2"]
    assert shown.length == 11  # 2tsb needs a second more
    assert shown.timelines[0].sentences[1] == "No promised departure moved."


def test_the_page_of_a_saved_result_has_the_projects_too(tmp_path, result):
    result.report(tmp_path / "at once.html", "backfill x")
    result.save(tmp_path / "saved", "backfill x")
    rewrite(tmp_path / "saved", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "at once.html").read_bytes()
    (tmp_path / "out.json").write_text(json.dumps(result.to_dict()))
    alone = render(load(tmp_path / "out.json"))
    assert 'id="projects"' in alone
    assert "class Timeline" in alone
    assert "class Section" not in alone  # the chart of every job needs the schedule


def test_of_many_projects_some_are_shown_and_which_is_said():
    found = bf.compare("two-tier?projects=40&interarrival=60", None, ["2tsb", "2tfb-sf"], replications=2)
    shown = projects(found)
    kept, moved = shown.timelines
    assert shown.which == (
        "Shown are the 30 of 40 projects whose departures moved farthest under any of the policies, in order of "
        "submit. They are of the first replication."
    )
    assert len(kept.rows) == 30
    assert [row.name for row in kept.rows] == [row.name for row in moved.rows]
    mean = found.results[1].metrics["mean_departure_move_s"]
    assert f"by {mean / 60:.1f} min on average" in moved.sentences[1]
    alone = projects(found.results[0])
    assert alone.which == "Shown are the first 30 of 40 projects, in order of submit."


def told(promises, end=20.0, result="late", name="p"):
    """The JSON of a policy that promised one project these departures."""
    some = [{"at_s": float(i), "departure_s": until, "cause": cause, "job": "a"} | ({"for": "b"} if way else {})
            for i, (until, cause, way) in enumerate(promises)]  # fmt: skip
    project = {"project": name, "jobs": 1, "submit_s": 0.0, "start_s": 5.0 if end else None, "end_s": end}
    numbers = dict.fromkeys(["promised_projects", "kept_departures", "kept_last_departures", "moved_projects"], 0)
    return {
        "projects": {"promised": 1, "first_submit_s": 0.0, "shown": [project | {"result": result, "promises": some}]},
        "metrics": numbers | {"moved_departures": 0, "made_way_projects": 0},
    }


def test_a_promise_moves_earlier_grows_and_is_taken_back():
    given, up = (10.0, "given", False), (8.0, "moved-up", False)
    row = Projects.of(["x"], [told([given, up, (None, "changed", False), (16.0, "given", False)])]).timelines[0].rows[0]
    assert row.promised == [50, 40, 80]
    assert [(move.far, move.whom) for move in row.drawn] == [
        ("\N{MINUS SIGN}2 s", ": capacity became free"), ("+8 s", ": more jobs of the project came"),
    ]  # fmt: skip
    assert [move.far for move in row.moves] == ["\N{MINUS SIGN}2 s"]
    assert row.label is None


def test_of_many_moves_some_are_told_and_drawn():
    promises = [(10.0, "given", False), *((10.0 + i / 100, "moved", True) for i in range(1, 200))]
    row = Projects.of(["x"], [told(promises)]).timelines[0].rows[0]
    assert (row.moved, len(row.moves), len(row.drawn)) == (199, MOVES_TOLD, MOVES_DRAWN)
    assert len(row.promised) == MOVES_DRAWN + 1
    assert row.promised[0] == 50


def test_a_project_that_never_departed_has_no_bar():
    found = Projects.of(["x"], [told([(10.0, "given", False)], end=None, result=None)])
    row = found.timelines[0].rows[0]
    assert found.open
    assert (row.start, row.end, row.until, row.last, row.cells[-1]) == (None, None, 0, 100, "-")


@pytest.mark.parametrize("name", NASTY, ids=["html", "script", "rtl mark", "long", "odd", "hebrew"])
def test_hostile_names_of_projects_are_text(tmp_path, result, name):
    labels = result.workload.jobs.project
    renamed = type(labels)(labels.codes, tuple(name + each for each in labels.names))
    log = result.workload.with_jobs(result.workload.jobs.replace(project=renamed))
    text = render(page_of(bf.simulate(log, result.platform, policy="2tfb-sf:sf=0.2").outcome()))
    plain = Parsed(render(page_of(result.outcome())))
    parsed = Parsed(text)
    assert [tag for tag, _ in parsed.tags] == [tag for tag, _ in plain.tags]
    assert max(map(len, parsed.texts)) < 2000
    for _, attrs in parsed.tags:
        assert not any(each.startswith("on") or each == "src" for each in attrs)


def test_the_axis_of_a_log_without_dates_counts_days():
    long = told([(30.0 * 86_400, "given", False)])
    found = Projects.of(["x"], [long])
    assert [tick.text for tick in found.ticks] == ["day 0", "day 5", "day 10", "day 15", "day 20", "day 25", "day 30"]
