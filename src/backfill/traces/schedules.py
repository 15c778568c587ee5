"""The schedule CSV: who started when, where and why, one row per job."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import ScheduleError
from backfill.model.schedule import NO_TIME, REASONS, STATES, Schedule
from backfill.model.workload import Ints
from backfill.traces.columns import Columns, write_rows
from backfill.traces.files import Source, written_text
from backfill.traces.seconds import seconds_texts

HEADER = ("job", "submit", "start", "end", "state", "reason", "node")


@dataclass(frozen=True, eq=False, kw_only=True)
class ScheduleTable:
    """The columns of a schedule CSV as they stand there, ours or another tool's; None where a column is absent.

    Times are int64 microseconds, NO_TIME where the cell is empty (a job that never ran).
    """

    job: NDArray[Any]  # texts, like state, reason and node
    start: Ints
    submit: Ints | None = None
    end: Ints | None = None
    state: NDArray[Any] | None = None
    reason: NDArray[Any] | None = None
    node: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.job)


def read_schedule(source: Source | bytes | str | Path) -> ScheduleTable:
    """A schedule CSV, plain or gzip; `job` and `start` must be there. Raises ScheduleError with file, line and column.

    Whether the schedule makes sense is not judged here: ids may repeat and jobs may end before they start.
    """
    table = Columns(Source.of(source, ScheduleError), ScheduleError)
    table.require("job", "start")

    def times(name: str) -> Ints:
        return table.times(name, blank=NO_TIME)

    def texts(name: str) -> NDArray[Any]:
        return np.array(table.texts(name), object)

    def present(name: str, column: Callable[[str], NDArray[Any]]) -> NDArray[Any] | None:
        return column(name) if name in table else None

    return ScheduleTable(
        job=texts("job"),
        start=times("start"),
        submit=present("submit", times),
        end=present("end", times),
        state=present("state", texts),
        reason=present("reason", texts),
        node=present("node", texts),
    )


def write_schedule(schedule: Schedule, to: str | Path | TextIO) -> None:
    """Write as schedule CSV to a stream or a file; a file is packed where its name ends in .gz.

    A job that never ran has no start, end and node, and its reason is what stood against it.
    """
    why = (*REASONS, "")
    rows = zip(
        schedule.job.tolist(),
        seconds_texts(schedule.submit),
        seconds_texts(schedule.start),
        seconds_texts(schedule.end),
        [STATES[state] for state in schedule.state.tolist()],
        [why[reason] or cause for reason, cause in zip(schedule.reason.tolist(), schedule.rejected_for, strict=True)],
        _places(schedule),
        strict=True,
    )
    with written_text(to) if isinstance(to, str | Path) else nullcontext(to) as out:
        write_rows(out, HEADER, rows)


def _places(schedule: Schedule) -> list[str]:
    pairs = np.diff(schedule.held.first) // 2
    texts = [""] * len(schedule)
    single = np.flatnonzero(pairs == 1)
    nodes = schedule.held.items[schedule.held.first[single]]
    for row, node in zip(single.tolist(), nodes.tolist(), strict=True):
        texts[row] = schedule.nodes[node]
    for row in np.flatnonzero(pairs > 1).tolist():
        texts[row] = schedule.node_text(row)
    return texts
