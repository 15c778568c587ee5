"""`import sacct`: the output of `sacct --parsable2`, with or without a header, its columns in any order.

Source: the manual page of sacct, slurm.schedmd.com/sacct.html ("Job Accounting Fields", "Job State Codes").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill.model.clock import Clock
from backfill.model.errors import UsageError, WorkloadError, at, quote
from backfill.model.units import counted
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.sacct_columns import Cells, Reader
from backfill.traces.accounting.slurm import left_aside
from backfill.traces.accounting.stays import no_collection
from backfill.traces.broken import BrokenLine, BrokenLines
from backfill.traces.dates import ZONELESS, zone_of
from backfill.traces.files import Source

# The default columns of a dump without a header: those that Open XDMoD requests from sacct.
FIELDS = ("jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid", "submit",
          "eligible", "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus", "reqmem", "reqtres",
          "alloctres", "timelimit", "nodelist", "jobname")  # fmt: skip
_FREE = ("constraints", "jobname", "comment", "submitline", "admincomment", "systemcomment", "workdir", "wckey",
         "extra", "container")  # fmt: skip  # what users write, a | within it too
_SURPLUS_MAX = 8  # separators within user-written text; a line with more is broken
_SEPARATORS = "|^\t;,"


def read_sacct(source: Source, zone: str | None = None, fields: str | None = None) -> Accounted:
    """Read the jobs of a dump; docs/reference/files.md lists which column each value comes from.

    zone: IANA time zone of dates without a zone. fields: comma-separated column names of a dump without a header, as
    for `sacct --format`. Raises WorkloadError, and UsageError for an unknown number of columns and an unknown zone.
    """
    broken, reader, lines = BrokenLines(source.file), Reader(source.file, zone_of(zone)), _Lines(source, fields)
    with no_collection():
        for piece in lines.pieces():
            problems = piece.refused | reader.add(piece.cells, piece.line)
            for line in sorted(problems):
                broken.add(line, problems[line])
    notes = [ZONELESS] if reader.zoneless and zone is None else []
    if steps := lines.steps + reader.steps:
        notes.append(f"skipped: {counted(steps, 'line')} of job steps")
    notes += left_aside(reader.others)
    return workload_of(reader.table(broken), source, broken, clock=Clock(0, zone or "UTC"), notes=notes)


@dataclass(frozen=True, eq=False)
class _Piece:
    """A block of lines: their cells, the line of each row, and the errors of lines without a row."""

    cells: Cells
    line: list[int]
    refused: dict[int, BrokenLine]


class _Lines:
    """The lines of a dump as rows of cells."""

    def __init__(self, source: Source, fields: str | None) -> None:
        self._source = source
        first = next(line for line in source.lines() if line).strip("\r")
        if first.lstrip().startswith("{"):
            what = (
                "is JSON; expected the output of sacct --parsable2 (`backfill import slurm` reads that of sacct --json)"
            )
            raise WorkloadError(at(source.file, 1, what))
        self._separator, names = _header(first)
        self._header = first if names is not None else ""
        if fields is not None:
            names = [name.strip().partition("%")[0].lower() for name in fields.split(",")]
        elif names is None:
            names = _assumed(first.split(self._separator), source.file)
        self._place = {name: i for i, name in enumerate(names) if name}
        self._width = len(names)
        self._free = [self._place[name] for name in _FREE if name in self._place]
        for several in (("jobid", "jobidraw"), ("submit",), ("start",), ("end", "elapsed", "elapsedraw"), ("state",),
                        ("ncpus", "alloccpus", "alloctres", "reqcpus", "reqtres")):  # fmt: skip
            if not any(name in self._place for name in several):
                raise WorkloadError(at(source.file, 1, f"no column {' or '.join(several)}; see `sacct --helpformat`"))
        self._id = self._place.get("jobid", self._place.get("jobidraw", 0))
        self.steps = 0  # job steps that are in no piece

    def pieces(self) -> Iterator[_Piece]:
        """Yield all lines except those that are empty, repeat the header, or are recognized early as job steps."""
        first = 1
        for text in self._source.pieces():
            lines = text.removesuffix("\n").split("\n")
            yield self._piece(text, lines, first)
            first += len(lines)

    def _piece(self, text: str, lines: list[str], first: int) -> _Piece:
        if "\r" in text:
            lines = [line.rstrip("\r") for line in lines]
        if self._header and self._header in text:  # repeated headers in concatenated dumps
            lines = ["" if line == self._header else line for line in lines]
        separators = self._width - 1
        odd: dict[int, list[list[str]]] = {}  # lines with several possible readings
        refused: dict[int, BrokenLine] = {}
        for place in [place for place, line in enumerate(lines) if line.count(self._separator) != separators]:
            if not lines[place]:
                continue
            if lines[place].endswith(self._separator) and lines[place].count(self._separator) == self._width:
                lines[place] = lines[place][: -len(self._separator)]  # --parsable ends lines with one
                continue
            try:
                odd[place] = list(self._readings(lines[place].split(self._separator)))
            except BrokenLine as problem:
                refused[first + place] = problem
        rows = [place for place in range(len(lines)) if lines[place] and first + place not in refused]
        steps = any(f".{name}{self._separator}" in text for name in ("batch", "extern", "0"))
        return _Piece(*self._cells(lines, rows, odd, first, steps), refused)

    def _cells(
        self, lines: list[str], rows: list[int], odd: dict[int, list[list[str]]], first: int, steps: bool
    ) -> tuple[Cells, list[int]]:
        """Return the cells of these lines, and the line of each row. steps: drop job steps before splitting cells."""
        separator, end = self._separator, self._id + 1
        if steps:
            jobs = [place for place in rows if place in odd or "." not in lines[place].split(separator, end)[end - 1]]
            self.steps += len(rows) - len(jobs)
            rows = jobs
        if not odd:
            cells = separator.join([lines[place] for place in rows]).split(separator) if rows else []
            return Cells(cells, self._place, self._width), [first + place for place in rows]
        cells, numbers = [], []
        for place in rows:
            readings = odd[place] if place in odd else [lines[place].split(separator)]
            for each in readings:
                cells += each
                numbers.append(first + place)
        return Cells(cells, self._place, self._width), numbers

    def _readings(self, cells: list[str]) -> Iterator[list[str]]:
        """Yield every way to read a line with too many cells: user-written text may contain the separator."""
        surplus = len(cells) - self._width
        if surplus < 0 or not self._free or surplus > _SURPLUS_MAX:
            raise BrokenLine("the line", self._separator.join(cells), f"{self._width} columns, not {len(cells)}")
        for counts in _shares(surplus, len(self._free)):
            more = dict(zip(self._free, counts, strict=True))
            found, at = [], 0
            for place in range(self._width):
                end = at + 1 + more.get(place, 0)
                found.append(self._separator.join(cells[at:end]))
                at = end
            yield found


def _shares(count: int, among: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to distribute `count` items over `among` places, the first place getting most first."""
    if among == 1:
        yield (count,)
        return
    for first in range(count, -1, -1):
        for rest in _shares(count - first, among - 1):
            yield first, *rest


def _header(first: str) -> tuple[str, list[str] | None]:
    """Return the separator, and the column names in lower case if the first line is a header."""
    for separator in _SEPARATORS:
        names = [name.strip().lower() for name in first.split(separator)]
        if {"jobid", "jobidraw"} & set(names) and len(names) > 2:
            return separator, names if names[-1] else names[:-1]
    return next((separator for separator in _SEPARATORS if separator in first), "|"), None


def _assumed(cells: Sequence[str], file: str) -> list[str]:
    """Return the columns assumed for a dump without a header."""
    if len(cells) == 1:
        what = f"{quote(cells[0])}; expected the output of sacct --parsable2 (with | between columns)"
        raise WorkloadError(at(file, 1, what))
    if len(cells) - (not cells[-1]) != len(FIELDS):
        raise UsageError(
            f"{file} has no header and {len(cells)} columns; name them with --fields JobID,User,... as in --format"
        )
    return list(FIELDS)
