"""The answers of a slurmctld at one moment: sprio, squeue --start, sdiag, and advance reservations.

Source: the manual pages of sprio, squeue, sdiag and scontrol, and what 22.05 prints.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill.model.units import SECOND
from backfill.traces.accounting.hosts import host_names
from backfill.traces.broken import BrokenLine, BrokenLines, whole
from backfill.traces.files import Source

FACTORS = {  # column of `sprio -l` -> the part of the model's priority
    "AGE": "age",
    "ASSOC": "association",
    "FAIRSHARE": "fair share",
    "JOBSIZE": "job size",
    "PARTITION": "partition",
    "QOS": "QOS",
    "NICE": "nice",
}
_SPRIO = "JOBID PARTITION USER PRIORITY SITE AGE ASSOC FAIRSHARE JOBSIZE PARTITION QOS NICE TRES"
_SQUEUE = ("JOBID", "START_TIME", "PRIORITY", "REASON")
_BACKFILL = "Backfilling stats"
_CYCLE = re.compile(r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The priority of a waiting job, and its factors by FACTORS, each times its weight; `TRES` is their sum."""

    job: str
    partition: str
    priority: int
    factors: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Expected:
    """A waiting job in `squeue --start`; the start in microseconds, None for N/A."""

    job: str
    start: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The figures of the backfill loop in `sdiag`."""

    mean_cycle_us: int
    mean_tried: int
    last_cycle: int  # microseconds; 0 if there was none

    def __str__(self) -> str:
        cost = self.test_cost_ms
        return "no cycle" if cost is None else f"a backfill test takes {cost:.2g} ms (bf_test_cost={cost:.2g})"

    @property
    def test_cost_ms(self) -> float | None:
        """The cost of one test; None without cycles."""
        return self.mean_cycle_us / self.mean_tried / 1000 if self.mean_tried else None


@dataclass(frozen=True, slots=True)
class Reserved:
    """An advance reservation, which closes nodes for other jobs. Times in microseconds."""

    name: str
    begin: int
    end: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """The dumps of one moment; empty without them."""

    ranked: tuple[Ranked, ...] = ()
    expected: tuple[Expected, ...] = ()
    diagnosed: Diagnosed | None = None
    reserved: tuple[Reserved, ...] = ()


def read_sprio(source: Source) -> tuple[list[Ranked], list[str]]:
    """Return the rows of `sprio -l`, with a header or without, and the damaged lines."""
    names, found, broken = _SPRIO.split(), [], BrokenLines(source.file)
    for number, line in enumerate(source.lines(), 1):
        cells = line.split()
        if not cells or cells[0] == "Weights":
            continue
        if cells[0] == "JOBID":
            names = cells
            continue
        try:
            found.append(_ranked(names, cells))
        except BrokenLine as problem:
            broken.add(number, problem)
    return found, broken.notes


def _ranked(names: list[str], cells: list[str]) -> Ranked:
    if not len(names) - 1 <= len(cells) <= len(names):  # the last column, TRES, may be empty
        raise BrokenLine("line", " ".join(cells), f"{len(names)} columns: {' '.join(names)}")
    row = dict(zip(names, cells, strict=False))  # of two columns PARTITION the second one is the factor
    factors = {called: _number(name, row[name]) for name, called in FACTORS.items() if name in row}
    if "TRES" in names:
        parts = row.get("TRES", "").split(",") if len(cells) == len(names) else []
        factors["TRES"] = sum(_number("TRES", part.partition("=")[2]) for part in parts if "=" in part)
    first = names.index("PARTITION") if "PARTITION" in names else -1
    partition = cells[first] if first >= 0 and first < names.index("PRIORITY") else ""
    return Ranked(row["JOBID"], partition, whole("PRIORITY", row["PRIORITY"]), factors)


def _number(name: str, text: str) -> int:
    try:
        return round(float(text))
    except ValueError:
        raise BrokenLine(name, text, "a number") from None


def read_squeue(source: Source) -> tuple[list[Expected], list[str]]:
    """Return the rows of `squeue --start -o '%i %S %Q %r'`, and the damaged lines."""
    found, broken = [], BrokenLines(source.file)
    for number, line in enumerate(source.lines(), 1):
        cells = line.split()
        if not cells or cells[0] == "JOBID":
            continue
        try:
            if len(cells) < len(_SQUEUE):
                raise BrokenLine("line", line.strip(), " ".join(_SQUEUE))
            start = None if cells[1] in ("N/A", "Unknown", "None") else instant("START_TIME", cells[1])
            found.append(Expected(cells[0], start, reason_code(cells[3:])))
        except BrokenLine as problem:
            broken.add(number, problem)
    return found, broken.notes


def reason_code(words: list[str]) -> str:
    """Return a reason code; `squeue` prints a sentence in place of this one."""
    text = " ".join(words).strip("()")
    return "ReqNodeNotAvail" if text.startswith(("Nodes required", "ReqNodeNotAvail")) else text


def read_sdiag(source: Source) -> tuple[Diagnosed | None, list[str]]:
    """Return what `sdiag` says of the backfill loop; None and a note if it says nothing."""
    inside, values, last = False, dict[str, int](), 0
    for line in source.lines():
        inside = inside or line.startswith(_BACKFILL)
        name, _, value = line.strip().partition(":")
        if inside and name.strip() == "Last cycle when" and (date := _CYCLE.search(value)):
            last = int((datetime.strptime(date[0], "%a %b %d %H:%M:%S %Y") - _EPOCH).total_seconds()) * SECOND
        digits = value.split()
        if inside and digits and digits[0].isdecimal():
            values.setdefault(name.strip(), int(digits[0]))
    try:
        return Diagnosed(values["Mean cycle"], values["Depth Mean (try depth)"], last), []
    except KeyError as missing:
        return None, [f"{source.file}: {_BACKFILL} have no {missing.args[0]!r}; the cost of a backfill test is 0"]


def read_reservations(source: Source) -> tuple[list[Reserved], list[str]]:
    """Return the rows of `scontrol show reservation`, and the damaged ones."""
    found, broken = [], BrokenLines(source.file)
    text = "".join(source.pieces())
    for number, block in enumerate(re.split(r"(?=ReservationName=)", text), 0):
        cells = dict(part.split("=", 1) for part in block.split() if "=" in part)
        if "ReservationName" not in cells:
            continue
        try:
            begin, end = (instant(name, cells.get(name, "")) for name in ("StartTime", "EndTime"))
            nodes = host_names(cells.get("Nodes", ""))
            found.append(Reserved(cells["ReservationName"], begin, end, nodes))
        except BrokenLine as problem:
            broken.add(None, f"reservation {number}: {problem}")
        except ValueError:
            broken.add(None, f"reservation {number}: Nodes is {cells['Nodes']!r}; expected names such as n[1-3]")
    return found, broken.notes


def instant(name: str, text: str) -> int:
    """Parse a date of Slurm, in microseconds since 1970 as if it were UTC. Raises BrokenLine."""
    try:
        return int((datetime.fromisoformat(text) - _EPOCH).total_seconds()) * SECOND
    except (ValueError, TypeError):
        raise BrokenLine(name, text, "a date such as 2026-01-02T03:04:05") from None
