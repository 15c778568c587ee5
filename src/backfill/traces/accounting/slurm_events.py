"""`import slurm-events`: outages from `sacctmgr --parsable2 show event`, reservations from `scontrol show reservation`.

A file may hold both outputs, one behind the other.
Source: the manual pages of sacctmgr ("SPECIFICATIONS FOR EVENTS") and scontrol ("RESERVATIONS"), and what 22.05 prints.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from backfill.model.clock import Clock
from backfill.model.constraint import is_feature
from backfill.model.errors import EventsError, at, quote
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.reservations import reservations_of
from backfill.model.units import SECOND, TIME_MAX, counted, seconds_text
from backfill.model.workload import Workload
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.slurm import tres_of
from backfill.traces.broken import BrokenLine, BrokenLines, Field
from backfill.traces.dates import EXPECTED, ZONELESS, Instants, zone_of
from backfill.traces.files import Source

EVENTS = "slurm-events"  # its name as a format of `import`
DRAIN, DOWN = 1, 2  # no run starts on the node; its runs are lost
_STATES = {"DOWN": DOWN, **dict.fromkeys(("DRAIN", "DRNG", "FAIL", "MAINT", "REBOOT", "INVAL", "NO_RESP"), DRAIN)}
_SUFFIXES = "*~#!%$@^-+"  # of states; the first one: the node does not respond
_OPEN = ("Unknown", "None", "")
_CALLED = {"timestart": "start", "timeend": "end"}
_NEEDED = {"nodename": "NodeName", "start": "TimeStart", "end": "TimeEnd", "state": "State"}
_PAIR = re.compile(r"(\w+)=(\S*)")
_CORES = re.compile(r"NodeName=(\S+)\s+CoreIDs=(\S+)")
_KEPT_FLAGS = {"MAINT", "IGNORE_JOBS", "SPEC_NODES", "ALL_NODES", "ANY_NODES", "PART_NODES", "OVERLAP", "STATIC", ""}
_CELL = "state, start and end of an event, with | between them"
Row = dict[str, str]


@dataclass(frozen=True)
class Taken:
    """The events of a file, and how many of its entries are in them."""

    events: Events
    outages: int
    drains: int
    reservations: int
    windows: int  # of reservations that are for nobody
    left_out: Mapping[str, int]  # entries, by reason
    not_carried: Mapping[str, int]  # reservations, by the property that events do not have
    notes: Sequence[str]


def read_slurm_events(
    source: Source,
    workload: Workload,
    platform: Platform,
    zone: str | None = None,
    fields: str | None = None,
    *,
    closed: bool = False,
) -> Taken:
    """Read outages and reservations that concern the nodes of a platform and the time of a log.

    zone: IANA zone of dates, by default that of the log. fields: columns of a dump by `sacctmgr --noheader`.
    closed: whether reservations are windows, closed for all jobs; then there may be none.
    Raises EventsError with file and line, and UsageError for an unknown zone.
    """
    if (clock := workload.clock_of_log) is None or not len(workload):
        what = "has no jobs" if clock is not None else "states no calendar (time_zero), so dates have no place in it"
        raise EventsError(at(source.file, None, f"{workload.name} {what}"))
    reader = _Reader(source.file, workload, platform, clock, Instants(zone_of(zone or clock.zone)), closed)
    for number, entry in _entries(source, reader, fields):
        try:
            reader.reservation(entry) if isinstance(entry, str) else reader.outage(entry)
        except BrokenLine as problem:
            reader.broken.add(number, problem)
    return reader.taken(source, zone)


def _entries(source: Source, reader: "_Reader", fields: str | None) -> Iterator[tuple[int, str | Row]]:
    """Yield the line and the text of each reservation, and the line and the cells of each event."""
    names, trailing = [] if fields is None else reader.header(1, fields.split(",")), False
    begin, parts = 0, list[str]()
    for number, line in enumerate((*source.lines(), ""), 1):
        line = line.rstrip("\r")
        if parts and line[:1].isspace() and line.strip():
            parts.append(line)
            continue
        if parts:
            yield begin, " ".join(parts)
            parts = []
        if line.startswith("ReservationName="):
            begin, parts = number, [line]
        elif "|" in line and {"TimeStart", "State"} <= {*line.split("|")}:
            names, trailing = reader.header(number, line.rstrip("|").split("|")), line.endswith("|")
        elif "|" in line:
            if not names:
                message = (
                    "no header with NodeName and TimeStart; expected the output of `sacctmgr --parsable2 show event`"
                )
                raise EventsError(at(source.file, number, f"{message} or --fields"))
            cells = (line.removesuffix("|") if trailing else line).split("|")
            if (more := len(cells) - len(names)) and (more < 0 or "reason" not in names):
                reader.broken.add(number, f"{len(cells)} cells; expected {len(names)}, as in the header")
                continue
            place = names.index("reason") if more else 0
            cells[place : place + more + 1] = ["|".join(cells[place : place + more + 1])]
            yield number, dict(zip(names, (cell.strip() for cell in cells), strict=True))
        elif line.strip() and not line.startswith("No reservations"):
            reader.broken.add(number, f"is {quote(line)}; expected {_CELL}, or ReservationName=")


@dataclass
class _Reader:
    """The events read so far."""

    file: str
    workload: Workload
    platform: Platform
    clock: Clock
    instants: Instants
    closed: bool = False  # whether reservations are for nobody
    left_out: Counter[str] = field(default_factory=Counter)
    not_carried: Counter[str] = field(default_factory=Counter)
    down: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)  # by node: begin, end, DRAIN or DOWN
    made: list[tuple[int, int, Row, list[Row]]] = field(default_factory=list)  # reservations: the cells of each node
    spans: dict[str, tuple[int, int, frozenset[str], bool]] = field(default_factory=dict)  # begin, end, nodes, whole
    seen: set[tuple[str, int, int]] = field(default_factory=set)
    times: tuple[str, str] = ("TimeStart", "TimeEnd")  # the columns of events with start and end, as the file has them

    def __post_init__(self) -> None:
        self.broken, self.windows = BrokenLines(self.file), 0
        self.first = int(self.workload.jobs.submit.min())
        self.cpus = dict(zip(self.platform.nodes, self.platform.capacity[:, 0].tolist(), strict=True))
        self._starts, self._ends = dict[str, Field[int]](), dict[str, Field[int]]()  # by the name of the column
        self._hosts, self._tres = (
            Field("Nodes", host_names, "a list of nodes such as n[01-03,7]"),
            Field("TRES", tres_of, "amounts such as cpu=4,mem=8G"),
        )

    def header(self, line: int, called: Sequence[str]) -> list[str]:
        """Read the columns of events, and return them in lower case. Raises EventsError."""
        called = [name.partition("%")[0].replace(" ", "") for name in called]
        names = [_CALLED.get(name.lower(), name.lower()) for name in called]
        if missing := next((name for key, name in _NEEDED.items() if key not in names), None):
            raise EventsError(at(self.file, line, f"no column {missing}; expected {', '.join(_NEEDED.values())}"))
        self.times = called[names.index("start")], called[names.index("end")]
        return names

    def _instant(self, text: str) -> int:
        return self.instants(text) - self.clock.epoch * SECOND

    def _end_of(self, text: str) -> int:
        return TIME_MAX if text in _OPEN else self._instant(text)

    def _span(self, start: str, end: str, columns: tuple[str, str]) -> tuple[int, int] | None:
        """Return begin and end; None if they are over before the log begins. Raises BrokenLine.

        columns: the names of start and end in the file.
        """
        first, last = columns
        begin = self._starts.setdefault(first, Field(first, self._instant, EXPECTED))[start]
        until = self._ends.setdefault(last, Field(last, self._end_of, f"{EXPECTED}, or Unknown"))[end]
        if until < begin:
            raise BrokenLine(last, end, f"a time after {first}, {start}")
        if until <= self.first:
            self.left_out["those over before the log begins"] += 1
            return None
        return begin, until

    def outage(self, row: Row) -> None:
        """Enter an event of sacctmgr. Raises BrokenLine."""
        if not row["nodename"]:
            self.left_out["rows of the whole cluster"] += 1
            return
        words = row["state"].split("+")
        kinds = [kind for word in words for state, kind in _STATES.items() if word.startswith(state)]
        if not kinds and not words[0].endswith("*"):
            self.left_out[f"rows in state {row['state'].rstrip(_SUFFIXES) or '(none)'}, which is no outage"] += 1
        elif row["nodename"] not in self.cpus:
            self.left_out["rows of nodes that the platform does not have"] += 1
        elif (span := self._span(row["start"], row["end"], self.times)) is not None:
            self.down.setdefault(row["nodename"], []).append((*span, max(kinds, default=DRAIN)))

    def reservation(self, text: str) -> None:
        """Enter a reservation of scontrol. Raises BrokenLine."""
        said = dict(reversed(_PAIR.findall(text)))  # the first of equal keys: later ones are in comments
        said = {key: "" if value in ("(null)", "None") else value for key, value in said.items()}
        name, times = said["ReservationName"], ("StartTime", "EndTime")
        span = self._span(said.get(times[0], ""), said.get(times[1], ""), times)
        if span is None or (name, *span) in self.seen:  # several dumps may list it
            return
        self.seen.add((name, *span))
        nodes = [node for node in self._hosts[said.get("Nodes", "")] if node in self.cpus]
        flags = {*re.split("[,+]", said.get("Flags", ""))}
        if not nodes:
            self.left_out["reservations without nodes of the platform"] += 1
            return
        for what in (*sorted(flags - _KEPT_FLAGS), *(["Licenses"] if said.get("Licenses") else [])):
            self.not_carried[what] += 1
        amounts = self._amounts(said, nodes, text)
        owners = {} if "MAINT" in flags or self.closed else self._owners(said)
        mine = (*span, frozenset(nodes), not amounts)
        if owners and (not is_feature(name) or "@" in name or name in self.spans or self._overlaps(*mine)):
            self.not_carried["owners of one beside another of its name or on its nodes"] += 1
            owners = {}
        cells = {
            "time": self._text(min(self.first, span[0])),
            "value": self._text(span[0]),
            "until": self._text(span[1]),
        }
        if owners:
            self.spans[name] = mine
            cells |= {"event": "reserve", "reservation": name, **owners}
        else:
            cells["event"], self.windows = "window", self.windows + 1
        if amounts:
            each = [{"node": node, "resource": "cpus", "amount": str(cpus)} for node, cpus in amounts.items() if cpus]
        else:
            each = [{"node": node} for node in (["*"] if len(nodes) == len(self.cpus) else nodes)]
        self.made.append((*span, cells, each))

    def _amounts(self, said: Row, nodes: Sequence[str], text: str) -> dict[str, int]:
        """Return the cpus reserved on each node; empty for whole nodes. Raises BrokenLine."""
        cpus = self._tres[said.get("TRES", "")].cpus
        if not cpus or cpus >= sum(self.cpus[node] for node in nodes):
            return {}
        cores = {node: _count(ids) for node, ids in _CORES.findall(text) if node in self.cpus}
        if cores:
            return {node: cpus * count // sum(cores.values()) for node, count in cores.items()}
        least, more = divmod(cpus, len(nodes))
        return {node: min(least + (i < more), self.cpus[node]) for i, node in enumerate(nodes)}

    def _owners(self, said: Row) -> Row:
        """Return users, or else accounts; empty if events cannot name those who may use the reservation."""
        users, accounts = (said.get(key, "").replace(",", ";") for key in ("Users", "Accounts"))
        if any(name.startswith("-") for name in f"{users};{accounts}".split(";")):
            self.not_carried["owners, if all but some"] += 1
            return {}
        if users and accounts:
            self.not_carried["Accounts beside Users"] += 1
        if not users and not accounts:
            self.not_carried["Groups"] += 1
            return {}
        return {"user": users} if users else {"group": accounts}

    def _overlaps(self, begin: int, until: int, nodes: frozenset[str], whole: bool) -> bool:
        spans = self.spans.values()
        return any(
            start < until and begin < end and nodes & there and whole | all_of for start, end, there, all_of in spans
        )

    def _text(self, time: int) -> str:
        date = None if time == TIME_MAX else self.clock.date(time)
        return seconds_text(time) if date is None else date.isoformat()

    def taken(self, source: Source, zone: str | None) -> Taken:
        """Return the events, outages in order of time. Raises EventsError if there are none."""
        lead = int(self.workload.jobs.walltime.max())
        timed: list[tuple[int, Row]] = []
        counts, drained = {DRAIN: 0, DOWN: 0}, list[tuple[int, int, str]]()
        for node, spans in self.down.items():
            for begin, until, kind in _joined(spans):
                counts[kind] += 1
                known = max(begin - lead, min(begin, self.first))
                what = {"node": node, "event": "down" if kind == DOWN else "window"}
                if kind == DRAIN:  # known so early that no job runs into it, because a drain does not end any
                    what |= {"value": self._text(begin), "until": self._text(until)}
                    drained.append((begin, until, node))
                timed.append((begin, what | {"time": self._text(begin if kind == DOWN else known)}))
                if kind == DOWN and until < TIME_MAX:
                    timed.append((until, {"node": node, "event": "up", "time": self._text(until)}))
        rows = [row for _, row in sorted(timed, key=lambda pair: pair[0])] + [*self._reservations(drained)]
        if not rows and not self.closed:
            self.broken.refuse_all(EventsError)
            reasons = "".join(f"; {count:,} {why}" for why, count in self.left_out.items())
            raise EventsError(at(source.file, None, f"no outage or reservation of the {self._machine()}{reasons}"))
        events = Events.of(rows, name=source.name, sha256=source.sha256, file=source.file)
        reservations_of(events.bind(self.workload, self.platform), self.platform)
        asked = [*self.workload.jobs.reservation.names]
        missing = [name for name in asked if name not in self.spans]
        notes = [ZONELESS] if zone is None and self.instants.zoneless and self.clock.zone == "UTC" else []
        if missing and self.spans:
            count = int(np.isin(self.workload.jobs.reservation.codes, [asked.index(name) for name in missing]).sum())
            notes.append(f"{counted(count, 'job')} will be rejected: the file has no reservation {', '.join(missing)}")
        return Taken(
            events,
            outages=counts[DOWN],
            drains=counts[DRAIN],
            reservations=len(self.spans),
            windows=self.windows,
            left_out={**self.left_out, **self.broken.dropped},
            not_carried=dict(self.not_carried),
            notes=(*self.broken.notes, *notes),
        )

    def _reservations(self, windows: list[tuple[int, int, str]]) -> Iterator[Row]:
        """Yield the rows of reservations; cpus beside a window of their node (begin, end, name) cannot be reserved."""
        for begin, until, cells, each in self.made:
            if cells["event"] == "window":
                windows += [(begin, until, row["node"]) for row in each]
        for begin, until, cells, each in self.made:
            closed = {node for start, end, node in windows if start < until and begin < end}
            if "reservation" in cells and "amount" in each[0] and closed & {"*", *(row["node"] for row in each)}:
                self.not_carried["cpus of nodes that are closed at the time"] += 1
                each = [row for row in each if not closed & {"*", row["node"]}]
                if not each:
                    del self.spans[cells["reservation"]]
            yield from (cells | row for row in each)

    def _machine(self) -> str:
        return f"{counted(len(self.cpus), 'node')} of {self.platform.name or 'the platform'} in the time of the log"


def _joined(spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the spans in which a node is drained or down, without overlaps; where both apply it is down."""
    steps = Counter[tuple[int, int]]()
    for begin, until, kind in spans:
        steps[begin, kind] += 1
        steps[until, kind] -= 1
    times = sorted({time for time, _ in steps})
    open_now, last = {DRAIN: 0, DOWN: 0}, (0, 0, 0)
    for time, following in pairwise(times):
        for kind in open_now:
            open_now[kind] += steps[time, kind]
        if not (now := max((kind for kind, count in open_now.items() if count), default=0)):
            continue
        if last[2] == now and last[1] == time:
            last = (last[0], following, now)
            continue
        if last[2]:
            yield last
        last = (time, following, now)
    if last[2]:
        yield last


def _count(ids: str) -> int:
    """Return how many cores `0-3,7` is; 0 if it is no list."""
    with suppress(ValueError):
        return len(host_names(f"[{ids}]"))
    return 0
