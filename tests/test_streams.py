"""Streams: the folder that they leave, their totals, and what they refuse."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import backfill as bf
from backfill.analysis.sketch import ERROR, Sketch
from backfill.traces.schedules import write_runs, write_schedule
from tests.schemas import check

LOG = "lublin?jobs=3000&cpus=64&load=0.9&estimate_factor=3"


def lines(files: list[Path]) -> list[list[str]]:
    """The rows of several CSV files, with one header."""
    tables = [[*csv.reader(file.read_text().splitlines())] for file in files]
    assert len({tuple(table[0]) for table in tables}) == 1
    return [tables[0][0], *(row for table in tables for row in table[1:])]


@pytest.mark.parametrize("name", ["easy", "conservative", "preemptive:how=suspend"])
def test_the_files_one_after_the_other_are_the_schedule_of_simulate(name, tmp_path):
    log = bf.generate(LOG)
    done = bf.stream(LOG, policy=name, to=tmp_path / "out", part=700)
    whole = bf.simulate(log, policy=name)
    write_schedule(whole.schedule, tmp_path / "whole.csv")
    files = sorted((tmp_path / "out").glob("schedule-*.csv"))
    assert [file.name for file in files] == sorted(done.files)
    assert lines(files) == lines([tmp_path / "whole.csv"])
    if whole.schedule.runs is not None:
        write_runs(whole.schedule, tmp_path / "runs.csv")
        assert lines(sorted((tmp_path / "out").glob("runs-*.csv"))) == lines([tmp_path / "runs.csv"])


@pytest.mark.parametrize("name", ["easy", "preemptive:how=requeue"])
@pytest.mark.parametrize("trim", [{}, {"warmup": "1d", "cooldown": 100}])
def test_totals_are_the_metrics_of_simulate(name, trim, tmp_path):
    log = bf.generate(LOG)
    totals = bf.stream(log, policy=name, to=tmp_path, part=400, **trim).metrics
    whole = bf.simulate(log, policy=name, **trim).metrics
    near = {"median_wait_s", "p95_wait_s"}
    for metric, value in totals.items():
        if metric in near:
            assert value == pytest.approx(whole[metric], rel=0.02)  # between two waits, too
        else:
            assert value == pytest.approx(whole[metric], rel=1e-12), metric
    assert {"max_queue", "utilization", "mean_bounded_slowdown"} < {*totals}


def test_quantiles_are_near_those_of_all_values():
    rng = np.random.default_rng(1)
    values = np.concatenate([np.zeros(5_000, np.int64), np.exp(rng.uniform(0, 39, 20_000)).astype(np.int64)])
    sketch = Sketch()
    for some in np.array_split(values, 7):
        sketch.add(some)
    for share in (0, 0.1, 0.3, 0.5, 0.95, 0.999, 1):
        exact = np.percentile(values, 100 * share, method="lower")
        assert sketch.quantile(share) == pytest.approx(exact, rel=1.01 * ERROR)
    assert Sketch().quantile(0.5) is None


def test_parquet_has_the_columns_of_the_csv(tmp_path):
    pl = pytest.importorskip("polars")
    log, pool = bf.generate(LOG), bf.Platform.pool(60, nodes=4)
    done = bf.stream(log, pool, to=tmp_path, part=1000, format="parquet")
    whole = bf.simulate(log, pool)
    found = pl.concat([pl.read_parquet(tmp_path / name) for name in sorted(done.files)])
    assert whole.schedule.rejected_for.any()
    assert found.to_dict(as_series=False) == pl.DataFrame(whole.schedule.columns()).to_dict(as_series=False)


def test_the_totals_are_in_the_folder_and_match_their_schema(tmp_path):
    done = bf.stream(bf.generate(LOG), bf.Platform.pool(60), to=tmp_path, part=1000)
    text = (tmp_path / "stream.json").read_text()
    assert check("stream", text) == json.loads(json.dumps(done.to_dict()))
    assert sum(each["jobs"] for each in json.loads(text)["files"]) == 3000
    assert sum(done.rejected.values()) == done.metrics["rejected_jobs"] > 0
    assert any(note.startswith("rejected") for note in done.notes)


def test_jobs_without_a_walltime_get_the_default_of_their_partition(tmp_path):
    rows = [{"job": i, "submit": i, "runtime": 5 + i % 7, "partition": "long"} for i in range(40)]
    log = bf.Workload.from_arrays({name: [row[name] for row in rows] for name in rows[0]})
    (tmp_path / "p.toml").write_text(
        '[[node]]\nname = "a"\ncpus = 2\n[[partition]]\nname = "long"\nnodes = ["a"]\ndefault_walltime = "1h"\n'
    )
    pool = bf.read_platform(tmp_path / "p.toml")
    done = bf.stream(log, pool, policy="conservative", to=tmp_path / "out", part=7)
    assert any("40 jobs" in note for note in done.notes)
    write_schedule(bf.simulate(log, pool, "conservative").schedule, tmp_path / "whole.csv")
    assert lines(sorted((tmp_path / "out").glob("*.csv"))) == lines([tmp_path / "whole.csv"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"policy": "slack"}, "policy slack asks about jobs that are over, and a stream forgets them"),
        ({"predict": "average2"}, "predictions learn from jobs that are over"),
        ({"events": [{"time": 0, "event": "cancel", "job": "7"}]}, "takes events of nodes and licences, not cancel"),
        ({"cooldown": "1d"}, "last submit is not known before"),
        ({"part": 0}, "part is 0; expected a number of jobs from 1"),
        ({"format": "xlsx"}, "format is 'xlsx'; expected csv or csv.gz or parquet"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_in_plain_words(given, told, tmp_path):
    with pytest.raises(bf.UsageError, match=told):
        bf.stream(LOG, to=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_jobs_that_depend_on_others_are_refused(tmp_path):
    log = bf.Workload.from_arrays({"job": [1, 2], "submit": [0, 1], "runtime": [5, 5], "after": ["", "1"]})
    with pytest.raises(bf.UsageError, match="jobs depend on others"):
        bf.stream(log, bf.Platform.pool(1), to=tmp_path / "out")


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(bf.BackfillError, match="the folder is not empty"):
        bf.stream(LOG, to=tmp_path)


def test_an_interrupt_leaves_whole_files(tmp_path):
    def interrupt(jobs: int) -> None:
        if jobs > 2_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bf.stream(LOG, to=tmp_path, part=500, progress=interrupt)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert "schedule-000001.csv" in names
    assert all(name.startswith("schedule-") and len(lines([tmp_path / name])) == 501 for name in names)
