"""The schedule CSV, a row for the start, place and reason of each job, and the runs CSV, a row for each run."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import ScheduleError
from backfill.model.schedule import NO_TIME, NODE_FAIL, PREEMPTED, REASONS, STATES, Schedule, place_text
from backfill.model.units import LATEST, SECOND
from backfill.model.workload import Ints, Ragged
from backfill.traces.columns import Columns, write_rows
from backfill.traces.files import Source, written_text
from backfill.traces.seconds import seconds_texts

HEADER = ("job", "submit", "start", "end", "state", "reason", "node")
RUNS_HEADER = ("job", "run", "start", "end", "state", "reason", "node")
TURNS = "turns"  # additional column if runs share processors
_ROW = "(?:[1-9]|[1-5][0-9]|60)"
_TURN = re.compile(rf"(-?[0-9]{{1,12}}(?:\.[0-9]{{1,6}})?):({_ROW}(?:\+{_ROW})*)/({_ROW})", re.ASCII)
PROGRESS = "progress"  # additional column if jobs were preempted or waited for others


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTable:
    """The columns of a runs CSV as written in the file; times are int64 microseconds."""

    job: NDArray[Any]  # texts, like state, reason and node
    run: Ints  # index of the run among those of its job
    start: Ints
    end: Ints
    state: NDArray[Any]
    reason: NDArray[Any] | None = None
    node: NDArray[Any] | None = None
    turns: Ragged | None = None  # (since, rows as bits, number of rows) of runs that share processors, concatenated
    progress: Ints | None = None  # None: the default, the whole run, or nothing if it was lost

    def __len__(self) -> int:
        return len(self.job)

    @property
    def kept(self) -> Ints:
        """The kept part of each run."""
        lost = self.state == STATES[NODE_FAIL]
        return np.where(lost, 0, self.end - self.start) if self.progress is None else self.progress


@dataclass(frozen=True, eq=False, kw_only=True)
class ScheduleTable:
    """The columns of a schedule CSV as written in the file, by backfill or another tool; None if a column is absent.

    Times are int64 microseconds, NO_TIME if the cell is empty (a job that never ran).
    """

    job: NDArray[Any]  # texts, like state, reason and node
    start: Ints
    submit: Ints | None = None
    end: Ints | None = None
    state: NDArray[Any] | None = None
    reason: NDArray[Any] | None = None
    node: NDArray[Any] | None = None
    runs: RunTable | None = None  # of the runs CSV beside it

    def __len__(self) -> int:
        return len(self.job)


def read_schedule(source: Source | bytes | str | Path) -> ScheduleTable:
    """Read a schedule CSV, plain or gzip; `job` and `start` are required. Raises ScheduleError with file, line, column.

    The schedule is not checked for sense here: ids may repeat and jobs may end before they start.
    """
    table = Columns(Source.of(source, ScheduleError), ScheduleError)
    table.require("job", "start")

    def times(name: str) -> Ints:
        return table.times(name, blank=NO_TIME, high=LATEST)

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
    """Write a schedule CSV to a stream or a file; a file is compressed if its name ends in .gz.

    A job that never ran has no start, end and node; its reason is what prevented it.
    """
    why = (*REASONS, "")
    rows = zip(
        schedule.job.tolist(),
        seconds_texts(schedule.submit),
        seconds_texts(schedule.start),
        seconds_texts(schedule.end),
        [STATES[state] for state in schedule.state.tolist()],
        [why[reason] or cause for reason, cause in zip(schedule.reason.tolist(), schedule.rejected_for, strict=True)],
        places_text(schedule.nodes, schedule.held),
        strict=True,
    )
    with written_text(to) if isinstance(to, str | Path) else nullcontext(to) as out:
        write_rows(out, HEADER, rows)


def read_runs(source: Source | bytes | str | Path) -> RunTable:
    """Read a runs CSV, plain or gzip; `job`, `run`, `start`, `end` and `state` are required.

    Raises ScheduleError with file, line and column. The runs are not checked for sense here.
    """
    table = Columns(Source.of(source, ScheduleError), ScheduleError)
    table.require("job", "run", "start", "end", "state")

    def texts(name: str) -> NDArray[Any]:
        return np.array(table.texts(name), object)

    return RunTable(
        job=texts("job"),
        run=table.wholes("run", 1, 2**31, 1),
        start=table.times("start", high=LATEST),
        end=table.times("end", high=LATEST),
        state=texts("state"),
        reason=texts("reason") if "reason" in table else None,
        node=texts("node") if "node" in table else None,
        turns=_turns(table) if TURNS in table else None,
        progress=table.times(PROGRESS, low=0, high=LATEST) if PROGRESS in table else None,
    )


def write_runs(schedule: Schedule, to: str | Path | TextIO) -> None:
    """Write a runs CSV to a stream or a file: a row per run, in order of job and start; none for a job that never ran.

    If a job was preempted, or kept its nodes until another one had ended, there is one more column, `progress`: the
    seconds of the run that were kept. If runs share processors, there is also `turns`: `SINCE:ROWS/OF` for each
    interval: `0:1/1 60:1+2/3` means that a run had all turns from second 0, and from second 60 those of rows 1 and 2
    of three.
    """
    runs, why = schedule.all_runs, (*REASONS, "")
    columns: list[list[Any]] = [
        schedule.job[runs.job].tolist(),
        runs.number.tolist(),
        seconds_texts(runs.start),
        seconds_texts(runs.end),
        [STATES[state] for state in runs.state.tolist()],
        [why[reason] for reason in runs.reason.tolist()],
        places_text(schedule.nodes, runs.held),
    ]
    usual = np.where(runs.state == NODE_FAIL, 0, runs.length)
    partial = (runs.state == PREEMPTED).any() or (runs.progress != usual).any()
    header = (*RUNS_HEADER, PROGRESS) if partial else RUNS_HEADER
    columns += [seconds_texts(runs.progress)] if partial else []
    if runs.turns is not None:
        header, columns = (*header, TURNS), [*columns, _turns_texts(runs.turns)]
    with written_text(to) if isinstance(to, str | Path) else nullcontext(to) as out:
        write_rows(out, header, zip(*columns, strict=True))


def _turns_texts(turns: Ragged) -> list[str]:
    since, rows, of = turns.items.reshape(-1, 3).T
    of_bits = {bits: "+".join(str(row + 1) for row in range(62) if bits >> row & 1) for bits in set(rows.tolist())}
    each = zip(seconds_texts(since), rows.tolist(), of.tolist(), strict=True)
    texts = [f"{t}:{of_bits[bits]}/{many}" for t, bits, many in each]
    return [" ".join(texts[a // 3 : b // 3]) for a, b in pairwise(turns.first.tolist())]


def _turns(table: Columns) -> Ragged:
    """Parse the turns of each run, in the format of `write_runs`. Raises ScheduleError otherwise."""
    turns: list[list[int]] = []
    for row, text in enumerate(table.texts(TURNS)):
        items: list[int] = []
        for each in text.split():
            match = _TURN.fullmatch(each)
            if match is None:
                raise table.fail(TURNS, row, "SINCE:ROWS/OF for each stretch, as in 0:1/1 60:1+2/3")
            bits = {int(one) for one in match[2].split("+")}
            items += [round(Decimal(match[1]) * SECOND), sum(1 << (one - 1) for one in bits), int(match[3])]
        turns.append(items)
    return Ragged.of(turns)


def places_text(names: tuple[str, ...], held: Ragged) -> list[str]:
    """Return the text of each list of pairs (node, tasks); see `place_text`."""
    pairs = np.diff(held.first) // 2
    texts = [""] * len(held)
    single = np.flatnonzero(pairs == 1)
    for row, node in zip(single.tolist(), held.items[held.first[single]].tolist(), strict=True):
        texts[row] = names[node]
    for row in np.flatnonzero(pairs > 1).tolist():
        texts[row] = place_text(names, held[row])
    return texts
