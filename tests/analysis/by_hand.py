"""Workloads and schedules written by hand, in seconds."""

import csv
import gzip
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backfill.model.platform import Platform
from backfill.model.schedule import COMPLETED, FIT, NO_TIME, NODE_FAIL, REJECTED, TIMEOUT, Runs, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Ragged, Workload

ORACLE = Path(__file__).parents[2].parent / "shared" / "oracle"


def times(seconds: Sequence[float]) -> np.ndarray:
    return np.array([round(s * SECOND) for s in seconds], np.int64)


def workload(submit: Sequence[float], runtime: Sequence[float], *, walltime: Sequence[float] | None = None,
             cpus: Sequence[int] | None = None, licences: Sequence[str] = (),
             asks: Sequence[Sequence[int]] | None = None,
             site: Sequence[str] | None = None, constraint: Sequence[str] | None = None,
             after: Sequence[Sequence[int]] | None = None, **columns: Any) -> Workload:  # fmt: skip
    """Jobs a, b, c ...; `cpus` per task; `asks` are indexes into `licences`, `after` rows."""
    n = len(submit)
    columns = {name: np.array(values, np.int64) for name, values in columns.items()}
    if "spread" in columns:
        columns["spread"] = columns["spread"].astype(np.int8)
    return Workload(
        Jobs(
            job=np.array([chr(ord("a") + i) for i in range(n)], object),
            submit=times(submit),
            runtime=times(runtime),
            walltime=times(walltime or runtime),
            demand=np.array(cpus or [1] * n, np.int64).reshape(-1, 1),
            licences=None if asks is None else Ragged.of(asks),
            site=None if site is None else Labels.of(site),
            constraint=None if constraint is None else Labels.of(constraint),
            after=None if after is None else Ragged.of(after),
            **columns,
        ),
        licences=tuple(licences),
    )


def scheduled(log: Workload, platform: Platform, start: Sequence[float | None],
              held: Sequence[Sequence[tuple[int, int]]] | None = None, **columns: Any) -> Schedule:  # fmt: skip
    """These starts (None = rejected), and all the rest lawful unless it is given; `held` = (node, tasks) per job."""
    jobs = log.jobs
    held = held or [[] if s is None else [(0, int(tasks))] for s, tasks in zip(start, jobs.tasks, strict=True)]
    begins = [NO_TIME if s is None else round(s * SECOND) for s in start]
    ends = []
    for i, begin in enumerate(begins):
        pace = min((platform.speed[node] for node, _ in held[i]), default=1.0)
        run = ceil(min(jobs.runtime[i], jobs.walltime[i]) / pace)
        ends.append(NO_TIME if begin == NO_TIME else begin + run)
    killed = jobs.runtime > jobs.walltime
    ran = np.array(begins) != NO_TIME
    made: dict[str, Any] = {
        "job": jobs.job,
        "submit": jobs.submit,
        "start": np.array(begins, np.int64),
        "end": np.array(ends, np.int64),
        "state": np.where(ran, np.where(killed, TIMEOUT, COMPLETED), REJECTED).astype(np.int8),
        "reason": np.where(ran, FIT, -1).astype(np.int8),
        "rejected_for": np.array(["" if r else "cpus" for r in ran], object),
        "eligible": jobs.submit,
        "promise": np.full(len(log), NO_TIME, np.int64),
        "nodes": platform.nodes,
        "held": Ragged.of([[x for pair in pairs for x in pair] for pairs in held]),
    }
    return Schedule(**(made | columns))


def farm(*cpus: int, **fields: Any) -> Platform:
    """Nodes m1, m2, ... with these cpus."""
    n = len(cpus)
    made: dict[str, Any] = {
        "nodes": tuple(f"m{i + 1}" for i in range(n)),
        "resources": ("cpus",),
        "capacity": np.array(cpus, np.int64).reshape(n, 1),
        "speed": np.ones(n),
        "site": np.zeros(n, np.int64),
    }
    return Platform(**(made | fields))


def _columns(path: Path) -> dict[str, list[int]]:
    with gzip.open(path, "rt") as file:
        header, *rows = csv.reader(file)
    return {name: [int(row[i]) for row in rows] for i, name in enumerate(header)}


def oracle(log: str, policy: str) -> tuple[Workload, Platform, Schedule]:
    """Another simulator's schedule of a real log; skips the test where the files are not there."""
    if not ORACLE.exists():
        pytest.skip("needs the schedules that other simulators made of this log")
    table, made = _columns(ORACLE / f"{log}.jobs.csv.gz"), _columns(ORACLE / f"{log}.{policy}.csv.gz")
    n = len(table["job"])
    assert made["job"] == table["job"]
    jobs = Jobs(
        job=np.array(table["job"]),
        submit=times(table["submit"]),
        runtime=times(table["run"]),
        walltime=times(table["estimate"]),
        demand=np.array(table["procs"], np.int64).reshape(n, 1),
    )
    platform = Platform.pool({"kth": 100, "sdsc": 128}[log])
    whole = Workload(jobs, name=log)
    return whole, platform, scheduled(whole, platform, made["start"])


def several(schedule: Schedule, *listed: tuple[int, float, float, int], progress: Sequence[float] | None = None,
            held: Sequence[Sequence[tuple[int, int]]] | None = None) -> Schedule:  # fmt: skip
    """The schedule with these runs: (job, start, end, state); its jobs' columns become those of their last runs.

    A run is where its job is, unless `held` says otherwise; it loses all where its node failed, else nothing, unless
    `progress` says otherwise.
    """
    job, start, end, state = (np.array(column) for column in zip(*listed, strict=True))
    start, end = times(start.tolist()), times(end.tolist())
    kept = np.where(state == NODE_FAIL, 0, end - start) if progress is None else times(progress)
    where = [schedule.held[row].tolist() for row in job.tolist()]
    where = where if held is None else [[x for pair in pairs for x in pair] for pairs in held]
    runs = Runs(job, start, end, state.astype(np.int8), np.full(len(job), FIT, np.int8), Ragged.of(where), kept)
    columns = {name: getattr(schedule, name).copy() for name in ("start", "end", "state", "reason")}
    for name, values in columns.items():
        values[job] = getattr(runs, name)  # of equal places the last one stays
    lists = [schedule.held[row].tolist() for row in range(len(schedule))]
    for row, pairs in zip(job.tolist(), where, strict=True):
        lists[row] = pairs
    return replace(schedule, runs=runs, held=Ragged.of(lists), **columns)
