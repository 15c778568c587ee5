"""A folder of the schedule of a stream: a file for so many jobs of the log each, written when all of them are over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from backfill.model.schedule import NO_TIME, REASONS, STATES, Schedule, joined
from backfill.model.units import SECOND
from backfill.model.workload import Ints
from backfill.traces.columns import parquet_writer, write_columns
from backfill.traces.schedules import HEADER, places_text, write_runs, write_schedule

FORMATS = ("csv", "csv.gz", "parquet")
Write = Callable[[Schedule, Path], None]


class Folder:
    """The files of one stream.

    A file holds `size` jobs in the order of the log, so all files one after the other are the schedule CSV of
    `simulate`. A file appears whole, when the last of its jobs is over; a job that waits while others pass holds back
    its own file only.
    """

    def __init__(self, folder: Path, size: int, suffix: str) -> None:
        """Write into a folder that exists. suffix: one of FORMATS."""
        self._folder, self._size, self._suffix = folder, size, suffix
        self._write: Write = write_parquet if suffix == "parquet" else write_schedule
        self._open: dict[int, list[tuple[Ints, Schedule]]] = {}  # by number of the file: rows in it, and their jobs
        self.files: dict[str, int] = {}  # the files, and how many jobs each has

    def add(self, rows: Ints, schedule: Schedule) -> None:
        """Take jobs that are over, and write the files that are complete. rows: in the log."""
        number = rows // self._size
        for each in np.unique(number).tolist():
            mine = np.flatnonzero(number == each)
            some = schedule if len(mine) == len(rows) else schedule.take(mine)
            there = self._open.setdefault(each, [])
            there.append((rows[mine], some))
            if sum(len(known) for known, _ in there) == self._size:
                self._close(each)

    def end(self) -> None:
        """Write the files that have fewer jobs."""
        for each in sorted(self._open):
            self._close(each)

    def _close(self, number: int) -> None:
        several = self._open.pop(number)
        order = np.argsort(np.concatenate([rows for rows, _ in several]))
        schedule = joined([some for _, some in several]).take(order)
        name = f"schedule-{number + 1:06}.{self._suffix}"
        self._write(schedule, self._folder / name)
        self.files[name] = len(schedule)
        if schedule.runs is not None:
            suffix = "csv.gz" if self._suffix == "csv.gz" else "csv"
            write_runs(schedule, self._folder / f"runs-{number + 1:06}.{suffix}")


def write_parquet(schedule: Schedule, path: Path) -> None:
    """Write a schedule as Parquet, with the columns of a schedule CSV; times are float seconds, missing ones null."""
    pl = parquet_writer()

    def named(names: tuple[str, ...], codes: Any) -> Any:
        return pl.Series([*names, ""], dtype=pl.String).gather(pl.Series(codes % (len(names) + 1)))

    reason = named(REASONS, schedule.reason.astype(np.int64))
    if rejected := np.flatnonzero(schedule.rejected_for != "").tolist():
        reason = reason.scatter(rejected, schedule.rejected_for[rejected].tolist())
    columns = {"job": pl.Series(schedule.job.tolist()).cast(pl.String)}
    for name in ("submit", "start", "end"):
        times = getattr(schedule, name)
        columns[name] = pl.Series(times / SECOND).set(pl.Series(times == NO_TIME), None)
    columns |= {"state": named(STATES, schedule.state.astype(np.int64)), "reason": reason}
    columns["node"] = pl.Series(places_text(schedule.nodes, schedule.held), dtype=pl.String)
    write_columns({name: columns[name] for name in HEADER}, path)
