"""Workloads as CSV or Parquet: a column per job attribute, times in seconds."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from backfill.model.clock import Clock
from backfill.model.errors import BadArgument, WorkloadError, at, in_file, quote
from backfill.model.precedence import circle_text, circles
from backfill.model.schedule import NO_TIME
from backfill.model.units import NEVER, SECOND, parse_seconds, parse_span, seconds_text
from backfill.model.workload import LABELS, SPREAD, Counted, Ints, Jobs, Labels, Ragged, Workload
from backfill.traces.broken import BrokenLines
from backfill.traces.columns import Columns, parquet_writer, write_columns, write_rows
from backfill.traces.dates import ZONELESS, Instants, zone_of
from backfill.traces.demand import MEMORY, Demand
from backfill.traces.files import EDGES_MAX, Source, written_text
from backfill.traces.notes import REPEATED, check_repeats, count_notes, counted, in_use, oddities, repeated
from backfill.traces.seconds import seconds_texts

_ALIASES = {"run": "runtime", "estimate": "walltime", "wait": "waited"}
_PRIORITIES = ("priority", "admin_priority")
_KNOWN = ("job", "submit", "runtime", "walltime", "procs", "tasks", *MEMORY, "spread", "exclusive", "licences",
          "deadline", *_PRIORITIES, *LABELS, "after", "think", "waited", "start", "end", "time_zero")  # fmt: skip
_EXCLUSIVE = (
    ("procs", "tasks", "procs is short for tasks of one cpu"),
    ("procs", "cpus", "procs is short for tasks of one cpu"),
    ("waited", "start", "the wait is start - submit"),
)
_DATE = ", or a date such as 2026-03-01T12:00:00 or 2026-03-01 12:00+01:00"
_SPAN = ", or a span such as 1h, 00:05:00 or 7-12:00:00"
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}
_RENAMED = "; if it has another name, state it: import csv --column {0}=NAME, in Python columns={{'{0}': NAME}}"
_UNIX = 10**8 * SECOND  # a smaller number of seconds is taken for no date of today
_TASKS_MAX, _COPIES_MAX = 2**40, 2**40


def read_table(
    source: Source | bytes | str | Path,
    resources: Sequence[str] = (),
    *,
    repeats: str = "refuse",
    broken: BrokenLines | None = None,
    columns: Sequence[tuple[str, str]] = (),
    zone: str | None = None,
) -> Workload:
    """Read the jobs of a workload CSV (plain or gzip) or Parquet file; docs/reference/files.md has the columns.

    resources: names of further columns that are resources of the platform, besides cpus, memory and gpus.
    repeats: `refuse` a table with a duplicate id, or `drop` the later jobs.
    broken: counts unreadable rows, which are dropped; without it the first of them is an error.
    columns: our column names and the file's headers. zone: of dates without one, UTC by default.
    Raises WorkloadError with file, line and column, and MissingExtra if Parquet support is not installed.
    """
    check_repeats(repeats)
    source = Source.of(source)
    instants = Instants(zone_of(zone))
    columns = [(_ALIASES.get(name, name), header) for name, header in columns]
    table = Columns(source, WorkloadError, _ALIASES | {header: name for name, header in columns}, broken)
    ended = "runtime" not in table and "start" in table and "end" in table
    known = (*_KNOWN, "cpus", "gpus", *resources)
    if unknown := next((name for name, _ in columns if name not in known), None):
        raise BadArgument("column", unknown, f"the name of a column, one of {', '.join(dict.fromkeys(known))}")
    table.require_headers(columns)
    table.require("job", "submit", *(() if ended else ("runtime",)), hint=_RENAMED)
    for one, other, why in _EXCLUSIVE:
        if one in table and other in table:
            raise WorkloadError(at(table.file, 1, f"both columns {one} and {other}; {why}"))

    names = table.ids("job", repeats)
    submit = table.times("submit", parse=instants, forms=_DATE)
    _check_dates(table, submit, instants)
    runtime = _spans(table, "runtime") if not ended else _lengths(table, instants)
    made: dict[str, Any] = {name: Labels.of(table.texts(name)) for name in LABELS if name != "constraint"}
    walltime = _spans(table, "walltime", NO_TIME) if "walltime" in table else np.full(table.rows, NO_TIME)
    made["walltime"] = np.where(walltime == NO_TIME, runtime, walltime)
    made["requested"] = walltime != NO_TIME
    missing = {"walltime missing: the run time is used": walltime == NO_TIME}
    if not {"procs", "tasks", "cpus"} & set(table.names):
        missing["processors missing: taken as 1"] = np.ones(table.rows, np.bool_)
    tasks = np.ones(table.rows, np.int64)
    for name in {"procs", "tasks"} & set(table.names):
        tasks = table.wholes(name, 1, _TASKS_MAX, 1)
    needs = Demand.of(table, tasks, {*resources} - {*_KNOWN})
    if "deadline" in table:
        made["deadline"] = _deadlines(table, submit, instants)
    if "waited" in table:
        made["waited"] = _spans(table, "waited", -1)
    if "start" in table:
        start = table.times("start", blank=NO_TIME, parse=instants, forms=_DATE)
        made["waited"] = np.where((start != NO_TIME) & (start >= submit), start - submit, -1)
        missing["start before the submit: the wait is taken as unknown"] = (start != NO_TIME) & (start < submit)
    for name in {*_PRIORITIES} & set(table.names):
        made[name] = table.numbers(name, 0.0)
    if "spread" in table:
        made["spread"] = _spread(table)
    if "exclusive" in table:
        made["exclusive"] = _flags(table, "exclusive")
    made["licences"], licences = _licences(table)
    made["after"] = _after(table, names)
    if "think" in table:
        made["think"] = _think(table, made["after"])
    clock = _clock(table, Clock(0, zone or "UTC") if instants.dated else None)
    with in_file(table.file):
        jobs = Jobs(
            job=np.array(names, object),
            submit=submit,
            runtime=runtime,
            tasks=tasks,
            demand=np.column_stack([*needs.held.values()]),
            constraint=needs.constraint,
            **made,
        )
    dropped = {}
    again = repeated(names) & table.good
    if broken is not None:
        if not table.good.any():
            broken.refuse_all()
        dropped = broken.dropped
    if again.any():
        dropped[REPEATED] = int(again.sum())
    if not (kept := table.good & ~again).all():
        rows = np.flatnonzero(kept)
        jobs = jobs.take(rows)
        missing = {note: which[rows] for note, which in missing.items()}
    assumed = counted(missing)
    ignored = ", ".join(quote(name) for name in table.names if name not in {*_KNOWN, *needs.held})
    return Workload(
        jobs,
        name=source.name,
        resources=tuple(needs.held),
        licences=licences,
        sha256=source.sha256,
        dropped=dropped,
        assumed=assumed,
        clock=clock,
        notes=(
            *(broken.notes if broken is not None else ()),
            *([ZONELESS] if instants.zoneless and zone is None else ()),
            *([f"columns ignored: {ignored[:500]}"] if ignored else ()),
            *needs.notes,
            *count_notes(assumed, len(jobs)),
            *oddities(jobs),
        ),
    )


def _clock(table: Columns, dated: Clock | None) -> Clock | None:
    """Return the calendar of the column time_zero, equal in all rows that state it. dated: that of dates."""
    stated: Clock | None = None
    for row, text in enumerate(table.texts("time_zero") if "time_zero" in table else ()):
        if not text:
            continue
        try:
            clock = Clock.parse(text)
        except ValueError:
            table.refuse("time_zero", row, "when time 0 is, such as 2026-03-01T00:00:00Z[Europe/Berlin]")
            continue
        if stated not in (None, clock):
            table.refuse("time_zero", row, "the same in all rows that have it")
        elif dated is not None and clock.epoch:
            table.refuse("time_zero", row, "1970-01-01T00:00:00Z, from which dates count")
        else:
            stated = clock
    return stated or dated


def _spans(table: Columns, name: str, blank: int | None = None) -> Ints:
    return table.times(name, low=0, blank=blank, parse=parse_span, forms=_SPAN)


def _lengths(table: Columns, instants: Instants) -> Ints:
    """Return the run times, computed from starts and ends if the table has those instead."""
    start, end = (table.times(name, parse=instants, forms=_DATE) for name in ("start", "end"))
    table.refuse_any("end", end < start, "the start, or a later time")
    lengths: Ints = np.maximum(end - start, 0)
    return lengths


def _check_dates(table: Columns, submit: Ints, instants: Instants) -> None:
    """Refuse small numbers beside dates: they count from some other instant than 1970."""
    small = (submit < _UNIX) & table.good
    if not instants.dated or not small.any() or not (submit >= _UNIX).any():
        return
    texts = table.texts("submit")
    for row in np.flatnonzero(small).tolist():
        with suppress(ValueError):  # a date of that time
            parse_seconds(texts[row])
            table.refuse("submit", row, "a date, as in other rows, or seconds since 1970")


def _deadlines(table: Columns, submit: Ints, instants: Instants) -> Ints:
    deadlines = table.times("deadline", blank=NEVER, parse=instants, forms=_DATE)
    early = deadlines < submit
    for row in np.flatnonzero(early).tolist():
        table.refuse("deadline", row, f"the submit, {seconds_text(int(submit[row]))} s, or a later time")
    return np.where(early, NEVER, deadlines)


def _spread(table: Columns) -> Any:
    rules = {**{rule: index for index, rule in enumerate(SPREAD)}, "": SPREAD.index("any")}
    texts = table.texts("spread")
    for row, text in enumerate(texts):
        if text not in rules:
            table.refuse("spread", row, f"{', '.join(SPREAD)}")
    return np.fromiter((rules.get(text, 0) for text in texts), np.int8, table.rows)


def _flags(table: Columns, name: str) -> Any:
    texts = [text.strip().lower() for text in table.texts(name)]
    for row, text in enumerate(texts):
        if text not in _FLAGS:
            table.refuse(name, row, "yes or no")
    return np.array([_FLAGS.get(text, False) for text in texts], np.bool_)


def _licences(table: Columns) -> tuple[Counted, tuple[str, ...]]:
    """Parse `a:1;b:2`; a name alone is one copy."""
    known: dict[str, int] = {}
    requested: list[tuple[int, int, int]] = []
    for row, text in enumerate(table.texts("licences") if "licences" in table else ()):
        for part in text.split(";") if text else ():
            name, colon, copies = part.strip().rpartition(":")
            name, count = (name.strip(), copies.strip()) if colon else (copies, "1")
            if not name or not (
                count.isascii() and count.isdigit() and len(count) <= 20 and 1 <= int(count) <= _COPIES_MAX
            ):
                table.refuse("licences", row, f"name:copies items separated by ;, of 1 to {_COPIES_MAX:,} copies each")
                continue
            requested.append((row, known.setdefault(name, len(known)), int(count)))
    items = np.array(requested, np.int64).reshape(-1, 3).T
    return Counted.of_items(table.rows, *items), tuple(known)


def _after(table: Columns, names: list[str]) -> Ragged:
    texts = table.texts("after")
    if not any(texts):
        return Ragged.empty(table.rows)
    place: dict[str, int] = {}
    for row, job in enumerate(names):
        place.setdefault(job, row)  # the first of duplicate ids
    lists: list[list[int]] = []
    many = 0
    for row, text in enumerate(texts):
        before = dict.fromkeys(part.strip() for part in text.split(";") if part.strip())
        many += len(before)
        if many > EDGES_MAX:
            raise WorkloadError(at(table.file, table.line(row), f"more than {EDGES_MAX:,} dependencies up to here"))
        for job in before:
            if job not in place:
                table.refuse("after", row, f"ids of this file separated by ; (no job is called {quote(job)})")
        lists.append([place[job] for job in before if job in place])
    after, refused = Ragged.of(lists), False
    for rows in circles(after):
        table.refuse("after", rows[0], f"no cycle ({circle_text(names, rows)})")
        lists[rows[0]], refused = [], True
    return Ragged.of(lists) if refused else after


def _think(table: Columns, after: Ragged) -> Ints:
    think = _spans(table, "think", 0)
    alone = (think > 0) & (np.diff(after.first) == 0)
    table.refuse_any("think", alone, "nothing, because the job has no `after`")
    return np.where(alone, 0, think)


def write_csv(workload: Workload, path: str | Path) -> None:
    """Write a workload CSV, compressed if the path ends in .gz. Unused columns are omitted."""
    columns = {
        name: seconds_texts(values) if isinstance(values, np.ndarray) else values
        for name, values in _columns(workload).items()
    }
    with written_text(path) as out:
        write_rows(out, columns, zip(*columns.values(), strict=True))


def write_parquet(workload: Workload, path: str | Path) -> None:
    """Write a workload Parquet file. Times are integers if all are whole seconds, else floats."""
    pl, columns = parquet_writer(), {}
    for name, values in _columns(workload).items():
        if isinstance(values, np.ndarray):
            whole = (values[values != NO_TIME] % SECOND == 0).all()
            seconds = pl.Series(values // SECOND if whole else values / SECOND)
            columns[name] = seconds.set(pl.Series(values == NO_TIME), None)
        else:
            columns[name] = pl.Series(values, dtype=None if len(values) else pl.String, strict=True)
    write_columns(columns, path)


def _columns(workload: Workload) -> dict[str, Ints | list[Any]]:
    """Return the columns in use: times as arrays of microseconds or NO_TIME, the others as lists."""
    jobs = workload.jobs
    columns: dict[str, Ints | list[Any]] = {
        "job": [str(job) for job in jobs.job],
        "submit": jobs.submit,
        "runtime": jobs.runtime,
        "walltime": np.where(jobs.requested, jobs.walltime, NO_TIME),
    }
    memory = "memory" in workload.resources  # beside procs, it could be mistaken for the whole job's memory
    one_cpu_tasks = bool((jobs.demand[:, 0] == 1).all()) and not memory
    columns["procs" if one_cpu_tasks else "tasks"] = jobs.tasks.tolist()
    for k, resource in enumerate(workload.resources):
        if resource != "cpus" or not one_cpu_tasks:
            columns[resource] = jobs.demand[:, k].tolist()
    if in_use(jobs, "spread"):
        columns["spread"] = [SPREAD[rule] for rule in jobs.spread.tolist()]
    if in_use(jobs, "exclusive"):
        columns["exclusive"] = ["yes" if alone else None for alone in jobs.exclusive.tolist()]
    if in_use(jobs, "licences"):
        columns["licences"] = [_listed(workload.licences_of(row)) for row in range(len(jobs))]
    if in_use(jobs, "deadline"):
        columns["deadline"] = np.where(jobs.deadline == NEVER, NO_TIME, jobs.deadline)
    for name in _PRIORITIES:
        if in_use(jobs, name):
            columns[name] = jobs[name].tolist()
    for name in LABELS:
        if in_use(jobs, name):
            names = (*jobs[name].names, None)
            columns[name] = [names[code] for code in jobs[name].codes.tolist()]
    if in_use(jobs, "after"):
        columns["after"] = [_listed(str(jobs.job[k]) for k in jobs.after[row].tolist()) for row in range(len(jobs))]
    if in_use(jobs, "think"):
        columns["think"] = jobs.think
    if in_use(jobs, "waited"):
        columns["waited"] = np.where(jobs.waited < 0, NO_TIME, jobs.waited)
    if (clock := workload.clock_to_state) is not None and clock.text is not None and len(jobs):
        columns["time_zero"] = [clock.text, *[None] * (len(jobs) - 1)]
    return columns


def _listed(items: Iterable[str]) -> str:
    parts = list(items)
    if bad := [part for part in parts if ";" in part]:
        raise WorkloadError(f"{quote(bad[0])} contains a ;, which separates the items of a list")
    return ";".join(parts)
