"""Events besides submits and ends: cancelled jobs, outages, maintenance, changed walltimes and capacities."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from backfill.model import notebook
from backfill.model.constraint import NAME, is_feature, matching
from backfill.model.errors import EventsError, UsageError, at, quote
from backfill.model.names import did_you_mean, printable
from backfill.model.platform import Platform
from backfill.model.units import NEVER, SECOND, TIME_MAX, counted, parse_seconds, parse_size, parse_span, seconds_text
from backfill.model.workload import Floats, Ints, Ragged, Workload

EVENTS = ("cancel", "walltime", "priority", "down", "up", "capacity", "window", "reserve", "unreserve")
CANCEL, WALLTIME, PRIORITY, DOWN, UP, CAPACITY, WINDOW, RESERVE, UNRESERVE = range(len(EVENTS))

OWNERS = ("user", "group", "project")
COLUMNS = ("time", "event", "job", "node", "resource", "value", "until", "amount", "reservation", *OWNERS)
_NEEDS = {
    "cancel": ("job",),
    "walltime": ("job", "value"),
    "priority": ("job", "value"),
    "down": ("node",),
    "up": ("node",),
    "capacity": ("resource", "value"),
    "window": ("value", "until"),
    "reserve": ("reservation", "value", "until"),
    "unreserve": ("reservation",),
}
_AMOUNTS = ("node", "resource", "amount")
_MAY_HAVE = {"capacity": ("node",), "window": _AMOUNTS, "reserve": (*_AMOUNTS, *OWNERS)}
_SPANS = ("window", "reserve")  # events with a begin, given as their value, and an end
_TIMES = ("time", "value", "until")  # columns that may hold instants
_SECONDS = f"a number of seconds from {-TIME_MAX // SECOND} to {TIME_MAX // SECOND}"
_INSTANT = f"{_SECONDS}, a date such as 2026-03-01T12:00:00, or a span such as 2h"
_UNTIL = f"{_INSTANT}, or with a + from the begin such as +2h"
_WALLTIME = f"a walltime from 0 to {TIME_MAX // SECOND} s, or a span such as 2h"
_SIZE = "a whole number from 0 to 2^62 that may carry K, M, G or T"
_NOTHING = ("nan", "NaN", "NaT", "<NA>")  # texts for an empty cell in Python tables
_SHOWN = 5  # names listed in a message


@dataclass(frozen=True, slots=True)
class Reserved:
    """The names in an event that makes or ends a reservation."""

    reservation: str
    owners: tuple[frozenset[str], ...]  # in the order of OWNERS
    where: str  # file and line, for messages


@dataclass(frozen=True, eq=False)
class BoundEvents:
    """Events sorted by time, then file order, with jobs and nodes as indices into one workload and platform."""

    time: Ints
    kind: Ints  # index into EVENTS
    job: Ints  # row of the workload; -1 = none
    nodes: Ragged  # affected nodes; empty for events of jobs and licences
    resource: Ints  # index into platform.resources + platform.licences; -1 = none, a window of whole nodes
    value: Ints  # walltime: microseconds; capacity: the amount; window: its begin; else 0
    until: Ints  # end of a window; else NEVER
    amount: Ints  # amount taken in a window of a resource; else 0
    priority: Floats  # of a priority event; else 0
    name: str = "events"
    sha256: str = ""
    reserved: Mapping[int, Reserved] = field(default_factory=dict)  # by row
    revoked: Ints | None = None  # when an announced window is withdrawn; NEVER, or None for all of them
    made_for: Mapping[int, str] = field(default_factory=dict)  # by row: the reservation that a window is for

    def __len__(self) -> int:
        return len(self.time)

    def greatest(self, platform: Platform) -> tuple[Ints, Ints]:
        """Return the largest capacity ever of each node's resources, shape (nodes, resources), and of each licence."""
        capacity, copies, resources = platform.capacity.copy(), platform.copies.copy(), len(platform.resources)
        for row in np.flatnonzero(self.kind == CAPACITY).tolist():
            resource, value = int(self.resource[row]), int(self.value[row])
            if resource < resources:
                nodes = self.nodes[row]
                capacity[nodes, resource] = np.maximum(capacity[nodes, resource], value)
            else:
                copies[resource - resources] = max(int(copies[resource - resources]), value)
        return capacity, copies


@dataclass(frozen=True, eq=False)
class Events:
    """Events as stated by a file or a table, in its order. Checks here need neither jobs nor nodes.

    >>> import backfill as bf
    >>> events = [{"time": 0, "event": "down", "node": "n1"}, {"time": 600, "event": "up", "node": "n1"}]
    >>> len(bf.Events.of(events))
    2
    """

    cells: Mapping[str, Sequence[str]]  # one text per event in each of COLUMNS; empty if absent
    name: str = "events"
    sha256: str = ""  # of the file's bytes; for a Python table, of its cells
    file: str = "events"  # its name in messages
    lines: Sequence[int] | None = None  # line of each event; None = a Python table
    time: Ints = field(init=False)
    kind: Ints = field(init=False)  # index into EVENTS
    value: Ints = field(init=False)
    until: Ints = field(init=False)
    amount: Ints = field(init=False)
    priority: Floats = field(init=False)
    dates: dict[tuple[str, int], datetime] = field(init=False, default_factory=dict)  # by column and row

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))
        rows = range(len(self))
        forms: set[tuple[object, ...]] = set()  # combinations of filled fields; each is checked once
        for row, cells in enumerate(zip(*(self.cells[name] for name in COLUMNS), strict=True)):
            if (form := (cells[1], *map(bool, cells))) not in forms:
                self._check_fields(row)
                forms.add(form)
        kind = self.cells["event"]
        value = [
            self._time("value", row) if kind[row] in _SPANS
            else self._walltime(row) if kind[row] == "walltime"
            else self._size("value", row) if kind[row] == "capacity"
            else 0
            for row in rows
        ]  # fmt: skip
        columns: dict[str, Any] = {
            "time": [self._time("time", row) for row in rows],
            "kind": [EVENTS.index(event) for event in kind],
            "value": value,
            "until": [self._until(row, value[row]) if kind[row] in _SPANS else NEVER for row in rows],
            "amount": [self._size("amount", row) if self.cells["amount"][row] else 0 for row in rows],
        }
        for name, values in columns.items():
            object.__setattr__(self, name, np.array(values, np.int64))
        priority = [self._number("value", row) if kind[row] == "priority" else 0.0 for row in rows]
        object.__setattr__(self, "priority", np.array(priority, np.float64))
        self._check_order([row for row in rows if not self._dated(row)])
        if not self.sha256:
            says = json.dumps([list(self.cells[name]) for name in COLUMNS])
            object.__setattr__(self, "sha256", hashlib.sha256(says.encode()).hexdigest())

    @classmethod
    def of(cls, table: Any, **where: Any) -> "Events":
        """Make events from a list of dicts, a dict of columns, or a pandas or polars DataFrame; None and NaN are empty.

        where: name, sha256, file and lines, if the table was read from a file.
        Raises EventsError, and UsageError for anything else.

        >>> import backfill as bf
        >>> len(bf.Events.of({"time": [0], "event": ["cancel"], "job": ["7"]}))
        1
        """
        if isinstance(table, Events):
            return table
        if isinstance(table, list | tuple) and all(isinstance(row, Mapping) for row in table):
            return cls._of_rows(table, **where)
        if isinstance(table, Mapping):
            columns = {str(name): list(values) for name, values in table.items()}
        elif hasattr(table, "columns"):
            columns = {str(name): list(table[name]) for name in table.columns}
        else:
            kind = type(table).__name__
            raise UsageError(f"events is {kind}; expected a list of dicts, a dict of columns or a DataFrame")
        file, lengths = where.get("file", "events"), {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise EventsError(
                at(file, None, f"columns have {min(lengths)} and {max(lengths)} rows; expected equal lengths")
            )
        missing = next((name for name in ("time", "event") if name not in columns), None)
        if columns and missing:
            raise EventsError(at(file, None, f"no column {missing}; the columns are {quote(','.join(columns))}"))
        if unknown := next((name for name in columns if name not in COLUMNS), None):
            header = 1 if where.get("lines") is not None else None
            raise EventsError(at(file, header, _unknown_column("column", unknown)))
        rows = max(lengths, default=0)
        return cls({name: [text_of(value) for value in columns.get(name, [None] * rows)] for name in COLUMNS}, **where)

    @classmethod
    def _of_rows(cls, rows: Sequence[Mapping[Any, Any]], **where: Any) -> "Events":
        for row, each in enumerate(rows):
            if unknown := next((name for name in each if name not in COLUMNS), None):
                message = _unknown_column("field", unknown)
                raise _refused(where.get("file", "events"), where.get("lines"), row, message)
        return cls({name: [text_of(each.get(name)) for each in rows] for name in COLUMNS}, **where)

    def __len__(self) -> int:
        return len(self.cells["event"])

    def __repr__(self) -> str:
        return f"<Events {self.name}: {counted(len(self), 'event')}>"

    def _repr_html_(self) -> str:
        kinds = self.cells["event"]
        return notebook.table(self.name, [], [[kind, f"{kinds.count(kind):,}"] for kind in EVENTS if kind in kinds])

    def rows(self, rows: Sequence[int]) -> "Events":
        """Return the events of these rows, in this order. Name and hash stay, and messages number the rows as before.

        >>> import backfill as bf
        >>> events = [{"time": 0, "event": "down", "node": "n1"}, {"time": 600, "event": "up", "node": "n1"}]
        >>> len(bf.Events.of(events).rows([1]))
        1
        """
        cells = {name: [texts[row] for row in rows] for name, texts in self.cells.items()}
        lines = range(1, len(self) + 1) if self.lines is None else self.lines
        return Events(cells, self.name, self.sha256, self.file, [lines[row] for row in rows])

    def __add__(self, other: "Events") -> "Events":
        """Return the events of both, in this order, under the name of the first."""
        cells = {name: [*self.cells[name], *other.cells[name]] for name in COLUMNS}
        lines = None if self.lines is None else [*self.lines, *([0] * len(other))]
        return Events(cells, self.name, "", self.file, lines)

    def on(self, workload: Workload) -> "Events":
        """Return the events with seconds in place of dates, on the clock of a workload. Raises EventsError.

        A date without a zone is in the zone of the clock.

        >>> import backfill as bf
        >>> log = bf.Workload.from_arrays({"job": [1], "submit": ["2026-03-01T12:00:00"], "runtime": [60]})
        >>> bf.Events.of([{"time": "2026-03-01", "event": "cancel", "job": "1"}]).on(log).cells["time"]
        ['1772323200']
        """
        if not self.dates:
            return self
        times = {name: getattr(self, name).copy() for name in _TIMES}
        for (column, row), date in sorted(self.dates.items(), key=lambda each: each[0][1]):
            if workload.clock_of_log is None:
                raise self._fail(column, row, f"{_SECONDS}, because {workload.name} states no calendar (time_zero)")
            times[column][row] = instant = workload.clock_of_log.instant(date)
            if not -TIME_MAX <= instant <= TIME_MAX:
                raise self._fail(column, row, f"a date within {TIME_MAX // SECOND} s of the log's time 0")
        for row in range(len(self)):
            if ("value", row) in self.dates and self.cells["until"][row].startswith("+"):
                times["until"][row] = self._until(row, int(times["value"][row]))
        rows = [row for row in range(len(self)) if self._dated(row)]
        self._check_order(rows, times["value"], times["until"])
        cells = {name: [*texts] for name, texts in self.cells.items()}
        for row in rows:
            for column in ("time", *(("value", "until") if self.cells["event"][row] in _SPANS else ())):
                cells[column][row] = seconds_text(int(times[column][row]))
        return Events(cells, self.name, self.sha256, self.file, self.lines)

    def bind(self, workload: Workload, platform: Platform) -> BoundEvents:
        """Return the events sorted by time, with jobs and nodes as indices. Raises EventsError.

        >>> import backfill as bf
        >>> events = [{"time": 0, "event": "down", "node": "n1"}, {"time": 600, "event": "up", "node": "n1"}]
        >>> bound = bf.Events.of(events).bind(bf.generate("lublin?jobs=5&cpus=64"), bf.Platform.pool(64, nodes=2))
        >>> bound.time.tolist()
        [0, 600000000]
        """
        if self.dates:
            return self.on(workload).bind(workload, platform)
        order = np.argsort(self.time, kind="stable")
        made = {place: row for place, row in enumerate(order.tolist()) if self.kind[row] in (RESERVE, UNRESERVE)}
        resource = self._resources([*platform.resources, *platform.licences])
        nodes = Ragged.of(self._nodes(resource, platform))
        bound = BoundEvents(
            time=self.time[order],
            kind=self.kind[order],
            job=np.array(self._jobs(workload), np.int64)[order],
            nodes=nodes.take(order),
            resource=np.array(resource, np.int64)[order],
            value=self.value[order],
            until=self.until[order],
            amount=self.amount[order],
            priority=self.priority[order],
            name=self.name,
            sha256=self.sha256,
            reserved={place: self._reserved(row) for place, row in made.items()},
        )
        most, _ = bound.greatest(platform)
        if (much := most.sum(axis=0, dtype=np.float64) > 2.0**62).any():
            name = platform.resources[int(np.argmax(much))]
            raise EventsError(at(self.file, None, f"the nodes may hold more than 2^62 {name} between them"))
        return bound

    def _reserved(self, row: int) -> Reserved:
        owners = tuple(frozenset(filter(None, map(str.strip, self.cells[name][row].split(";")))) for name in OWNERS)
        where = at(self.file, None, f"row {row + 1}") if self.lines is None else at(self.file, self.lines[row], "")
        return Reserved(self.cells["reservation"][row], owners, where.rstrip(": "))

    def _jobs(self, workload: Workload) -> list[int]:
        if not any(self.cells["job"]):
            return [-1] * len(self)
        rows = {str(job): row for row, job in enumerate(workload.jobs.job.tolist())}
        for row, job in enumerate(self.cells["job"]):
            if job and job not in rows:
                raise self._unknown("job", row, f"the id of one of the {len(workload)} jobs of {workload.name}")
        return [rows[job] if job else -1 for job in self.cells["job"]]

    def _resources(self, names: Sequence[str]) -> list[int]:
        place = {"": -1, **{name: names.index(name) for name in names}}
        for row, name in enumerate(self.cells["resource"]):
            if name not in place:
                raise self._unknown("resource", row, listed(names), names)
        return [place[name] for name in self.cells["resource"]]

    def _nodes(self, resource: Sequence[int], platform: Platform) -> list[list[int]]:
        """Return the nodes of each event. On a platform of one node, a resource without a node refers to that one."""
        place = {name: n for n, name in enumerate(platform.nodes)}
        known: dict[str, list[int]] = {"": []}
        rows: list[list[int]] = []
        for row, text in enumerate(self.cells["node"]):
            floats = resource[row] >= len(platform.resources)
            if text and floats:
                raise self._fail("node", row, "nothing: licences float between the nodes")
            if not text and resource[row] >= 0 and not floats:
                if len(place) > 1 and self.kind[row] == RESERVE:
                    rows.append([])  # the nodes are chosen later
                    continue
                if len(place) > 1:
                    raise self._fail("node", row, f"a node, since the platform has {len(place)}")
                rows.append([0])
                continue
            if text not in known:
                known[text] = [place[text]] if text in place else matching(text, platform.nodes)
            if text and not known[text]:
                raise self._unknown("node", row, f"{listed(platform.nodes)}, or a pattern such as n*")
            rows.append(known[text])
        return rows

    def _check_fields(self, row: int) -> None:
        event = self.cells["event"][row]
        if event not in EVENTS:
            raise self._fail("event", row, ", ".join(EVENTS))
        needs = ("time", "event", *_NEEDS[event])
        has = {name for name in COLUMNS if self.cells[name][row]}
        if missing := next((name for name in needs if name not in has), None):
            raise self._fail(missing, row, f"a value: {event} needs {' and '.join(_NEEDS[event])}")
        if extra := next((n for n in COLUMNS if n in has and n not in {*needs, *_MAY_HAVE.get(event, ())}), None):
            raise self._fail(extra, row, f"nothing: {event} has no {extra}")
        if event in _SPANS:
            each = "window" if event == "window" else "reservation"
            if "node" not in has and "resource" not in has:
                raise self._fail("node", row, f"a node: {event} needs node or resource")
            if "resource" in has and "amount" not in has:
                raise self._fail("amount", row, f"a value: a {each} of a resource needs amount")
            if "amount" in has and "resource" not in has:
                raise self._fail("amount", row, f"nothing: a {each} of whole nodes has no amount")
        if event == "reserve":
            if not any(self.cells[name][row].strip("; ") for name in OWNERS):
                raise self._fail("user", row, "a user, a group or a project, whose reservation it is")
            if not is_feature(name := self.cells["reservation"][row]) or "@" in name:
                raise self._fail("reservation", row, f"{NAME} @")

    def _check_order(self, rows: Sequence[int], value: Ints | None = None, until: Ints | None = None) -> None:
        """Raise EventsError unless windows and reservations of these rows end after their begins, by default ours."""
        value, until = self.value if value is None else value, self.until if until is None else until
        for row in rows:
            if self.kind[row] in (WINDOW, RESERVE) and until[row] <= value[row]:
                each = "window" if self.kind[row] == WINDOW else "reservation"
                begin = (
                    self.cells["value"][row] if ("value", row) in self.dates else f"{seconds_text(int(value[row]))} s"
                )
                raise self._fail("until", row, f"a time after the {each}'s begin, {begin}")

    def _dated(self, row: int) -> bool:
        return any((column, row) in self.dates for column in _TIMES)

    def _time(self, column: str, row: int, expected: str = _INSTANT) -> int:
        """Return an instant in microseconds, 0 for a date, which only a workload's clock makes an instant."""
        text = self.cells[column][row]
        try:
            return parse_seconds(text)
        except ValueError:
            with suppress(ValueError):
                return parse_span(text)
        try:
            self.dates[column, row] = datetime.fromisoformat(text)
        except ValueError:
            raise self._fail(column, row, expected) from None
        return 0

    def _until(self, row: int, begin: int) -> int:
        """Return the end of a window or a reservation; `+2h` counts from its begin."""
        if not (text := self.cells["until"][row]).startswith("+"):
            return self._time("until", row, _UNTIL)
        try:
            until = begin + parse_span(text[1:])
        except ValueError:
            raise self._fail("until", row, _UNTIL) from None
        if until > TIME_MAX:
            raise self._fail("until", row, f"a time within {TIME_MAX // SECOND} s of time 0")
        return until

    def _walltime(self, row: int) -> int:
        text = self.cells["value"][row]
        for parse in (parse_seconds, parse_span):
            with suppress(ValueError):
                if (walltime := parse(text)) >= 0:
                    return walltime
        raise self._fail("value", row, _WALLTIME)

    def _size(self, column: str, row: int) -> int:
        try:
            value = parse_size(self.cells[column][row])
        except ValueError:
            raise self._fail(column, row, _SIZE) from None
        return value

    def _number(self, column: str, row: int) -> float:
        try:
            value = float(self.cells[column][row])
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise self._fail(column, row, "a finite number")
        return value

    def _fail(self, column: str, row: int, expected: str) -> EventsError:
        text = self.cells[column][row]
        return self._refused(row, f"{column} is {quote(text) if text else 'empty'}; expected {expected}")

    def _unknown(self, column: str, row: int, expected: str, known: Sequence[str] = ()) -> EventsError:
        text = self.cells[column][row]
        hint = did_you_mean(text, known, f"expected {expected}")
        return self._refused(row, f"{column} {quote(text)} is unknown; {hint}")

    def _refused(self, row: int, what: str) -> EventsError:
        return _refused(self.file, self.lines, row, what)


def events_of(workload: Workload, given: Events | None) -> Events | None:
    """Return the events of a run, in seconds: those given, without those of dropped jobs, and the log's cancellations.

    With `--cancelled leave`, a job that never ran is cancelled after the wait that the log records.
    """
    ours = given = None if given is None else given.on(workload)
    if given is not None and workload.left_out:
        kept = [row for row, job in enumerate(given.cells["job"]) if job not in workload.left_out]
        ours = given if len(kept) == len(given) else given.rows(kept)
    if workload.chosen.get("cancelled") != "leave":
        return ours
    jobs = workload.jobs
    rows = np.flatnonzero(workload.never_ran & (jobs.waited >= 0))
    cells = {name: [""] * len(rows) for name in COLUMNS}
    cells["time"] = [seconds_text(time) for time in np.minimum(jobs.submit + jobs.waited, TIME_MAX)[rows].tolist()]
    cells["event"] = ["cancel"] * len(rows)
    cells["job"] = [str(job) for job in jobs.job[rows].tolist()]
    leaving = Events(cells, workload.name)
    return leaving if ours is None else ours + leaving


def _unknown_column(kind: str, name: str) -> str:
    hint = did_you_mean(str(name), COLUMNS, f"expected {', '.join(COLUMNS)}")
    return f"{kind} {quote(name)} is unknown; {hint}"


def _refused(file: str, lines: Sequence[int] | None, row: int, what: str) -> EventsError:
    return EventsError(at(file, None, f"row {row + 1}: {what}") if lines is None else at(file, lines[row], what))


def listed(names: Sequence[str]) -> str:
    """Return the first few names, for a message."""
    return ", ".join(map(printable, names[:_SHOWN])) + (f", ... ({len(names):,} in all)" if len(names) > _SHOWN else "")


def text_of(value: Any) -> str:
    """Return a cell of a Python table as in a CSV: whole floats without fraction, missing values empty."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, timedelta) and value == value:  # NaT is one, and differs from itself
        return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".")
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    text = str(value).strip()
    return "" if text in _NOTHING else text
