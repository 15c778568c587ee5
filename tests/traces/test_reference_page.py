"""The examples of docs/reference/files.md are read as the page says."""

import re
from pathlib import Path

import pytest

from backfill.model.errors import EventsError, PlatformError, WorkloadError
from backfill.model.events import EVENTS
from backfill.model.platform import Platform
from backfill.traces.events import read_events
from backfill.traces.read import read
from backfill.traces.schedules import read_schedule
from backfill.traces.swf import read_swf
from backfill.traces.table import read_table

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "files.md").read_text(encoding="utf-8")


def example(section: str) -> str:
    return re.search(rf"^## {section}\n.*?^```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_workload_csv():
    workload = read_table(example("Workload CSV and Parquet").encode())
    jobs = workload.jobs
    assert workload.notes == ()
    assert (workload.resources, workload.licences) == (("cpus", "memory"), ("matlab", "abaqus"))
    assert jobs.demand.tolist() == [[4, 8 * 2**30], [16, 64 * 2**30], [32, 120 * 2**30]]
    assert jobs.after[2].tolist() == [0, 1]
    assert jobs.procs.tolist() == [4, 16, 256]


def test_the_line_of_swf():
    workload = read_swf(example("Standard Workload Format").encode())
    jobs = workload.jobs
    assert (workload.cpus, jobs.job[0], jobs.procs[0], jobs.user[0], jobs.group[0]) == (100, 15, 4, "12", "12")
    assert [int(jobs[name][0]) // 10**6 for name in ("submit", "waited", "runtime", "walltime")] == [
        599850, 192180, 3477, 53940,
    ]  # fmt: skip


def test_the_platform(tmp_path: Path):
    (tmp_path / "farm.toml").write_text(example("Platform TOML"))
    farm = Platform.read(tmp_path / "farm.toml")
    assert (len(farm.nodes), farm.nodes[:2], farm.nodes[-1]) == (101, ("big", "m1"), "m100")
    assert farm.resources == ("cpus", "memory", "abaqus", "gpus")
    assert (farm.cpus, farm.sites) == (864, ("", "a"))


def test_the_schedule():
    assert read_schedule(example("Schedule CSV").encode()).node.tolist() == ["m1", "m2", "m1*3;m2*5", ""]


def test_the_events(tmp_path: Path):
    (tmp_path / "farm.toml").write_text(example("Platform TOML"))
    workload, farm = read_table(example("Workload CSV and Parquet").encode()), Platform.read(tmp_path / "farm.toml")
    text = example("Events")
    bound = read_events(text.encode()).bind(workload, farm)
    assert set(bound.kind.tolist()) == set(range(len(EVENTS)))
    assert [len(bound.nodes[row]) for row in range(len(bound))] == [100, 1, 9, 0, 9, 0, 0, 1, 0, 9, 0]
    told = re.search(r"^    (events\.csv:7: .*)$", PAGE, re.MULTILINE)[1]
    (tmp_path / "events.csv").write_text(text.replace("big,memory", "x9,memory"))
    with pytest.raises(EventsError) as caught:
        read_events(tmp_path / "events.csv").bind(workload, farm)
    assert str(caught.value) == f"{tmp_path}/{told}"


def test_the_errors(tmp_path: Path):
    told = re.findall(r"^    ((?:jobs|farm)\..*)$", PAGE, re.MULTILINE)
    assert len(told) == 4
    line = "{} 0 5 {} 4 -1 -1 4 100 -1 1 7 8 -1 -1 -1 -1 -1\n"
    (tmp_path / "jobs.swf").write_text("".join(line.format(k, "abc" if k == 214 else 1) for k in range(1, 300)))
    with pytest.raises(WorkloadError) as caught:
        read(tmp_path / "jobs.swf")
    assert str(caught.value) == f"{tmp_path}/{told[0]}"
    for key, expected in zip(("cout = 2", 'cpus = "8"', "speed = -1"), told[1:], strict=True):
        (tmp_path / "farm.toml").write_text(f'[[node]]\nname = "m"\n{key}\n')
        with pytest.raises(PlatformError) as refused:
            Platform.read(tmp_path / "farm.toml")
        assert str(refused.value) == f"{tmp_path}/{expected}"


def test_the_reading_of_memory_beside_procs():
    (told,) = re.findall(r"^    jobs: (memory is per task: .*)$", PAGE, re.MULTILINE)
    assert read_table(b"job,submit,runtime,walltime,procs,memory\na,0,1,1,12,48000M\n").notes == (told,)
