"""The lines of an SWF log, or of a dialect with more fields: the parts that all readers share."""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.clock import Clock
from backfill.model.errors import WorkloadError, at, in_file, quote
from backfill.model.precedence import circle, circle_text, in_order
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Floats, Ints, Jobs, Labels, Ragged, Workload, ids_without
from backfill.traces.broken import BrokenLines
from backfill.traces.files import Source
from backfill.traces.notes import (
    REPEATED,
    check_repeats,
    check_zero_run,
    count_notes,
    counted,
    first_repeat,
    oddities,
    repeated,
)
from backfill.traces.seconds import to_micros
from backfill.traces.whole_numbers import whole_numbers

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average cpu time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_CANCELLED = 5
STATUS = {"1": "completed", "0": "failed", "5": "cancelled", "2": "part", "3": "last part", "4": "last part, failed"}
KB = 1024
# Fields that are read, by number: the largest magnitude, and whether they must be whole. Times may have fractions.
_SECONDS, _EXACT = TIME_MAX / SECOND, 2.0**53 - 1  # larger numbers cannot be told apart
_LIMITS = {1: (_EXACT, True), 2: (_SECONDS, False), 3: (_SECONDS, False), 4: (_SECONDS, False), 5: (2.0**40, True),
           7: (2.0**50, False), 8: (2.0**40, True), 9: (_SECONDS, False), 10: (2.0**50, False), 11: (_EXACT, False),
           12: (_EXACT, True), 13: (_EXACT, True), 15: (_EXACT, True), 16: (_EXACT, True), 17: (_EXACT, True),
           18: (_SECONDS, False)}  # fmt: skip
_FEEDBACK = (17, 18)  # read only on request
_HEAD = re.compile(
    r"\s*;\s*(?:(MaxProcs|MaxNodes|UnixStartTime)\s*:\s*(\d{1,12})\b|(TimeZoneString)\s*:\s*(\S+))", re.A
)
_NAMED = re.compile(r"\s*;\s*(Queue|Partition)\s*:\s*(\d{1,15})\s(.*)", re.ASCII)


@dataclass(frozen=True, eq=False)
class Lines:
    """The first 18 fields of a log, for the jobs that can be simulated."""

    log: Source
    rows: Ints  # line indices of these jobs, from 0
    field: dict[int, Floats]  # by field number; only those that are read
    dropped: dict[str, int]
    think: bool  # whether jobs follow the preceding job of field 17
    left_out: frozenset[str]  # job numbers of lines that were dropped

    @classmethod
    def of(
        cls, log: Source, zero_run: str, repeats: str, fields: Sequence[str] = FIELDS, think: bool = False
    ) -> "Lines":
        """Read the jobs of a log whose lines have these fields. Raises WorkloadError with file, line and field."""
        check_zero_run(zero_run)
        check_repeats(repeats)
        table = _table(log, fields)
        field = {number: table[:, number - 1] for number in _LIMITS}
        _check(log, {number: each for number, each in field.items() if think or number not in _FEEDBACK})
        kept, dropped = _kept(field, zero_run)
        rows = np.flatnonzero(kept)
        if repeats == "drop" and (again := repeated(field[1][rows].tolist())).any():
            rows, dropped[REPEATED] = rows[~again], int(again.sum())
        left_out = ids_without(field[1].astype(np.int64), rows)
        if left_out:
            left_out -= {str(int(job)) for job in field[1][rows]}
        lines = cls(log, rows, {number: values[rows] for number, values in field.items()}, dropped, think, left_out)
        if repeat := first_repeat(lines.field[1].tolist()):
            earlier, _ = _found(log, int(rows[repeat[1]]), 1)
            raise lines.refused(repeat[0], 1, f"a unique job number (first used in line {earlier})")
        return lines

    @property
    def procs(self) -> Ints:
        """Processors of each job."""
        return _procs(self.field).astype(np.int64)

    @property
    def missing(self) -> dict[str, NDArray[np.bool_]]:
        """Masks of the jobs for which a missing value was replaced."""
        field = self.field
        return {
            "walltime missing: the run time is used": field[9] <= 0,
            "requested processors missing: the allocated ones are used": field[8] <= 0,
            "negative wait: taken as unknown": (field[3] < 0) & (field[3] != -1),
        }

    def refused(self, job: int, number: int, expected: str, fields: Sequence[str] = FIELDS) -> WorkloadError:
        """Return the error for an unexpected value in a field of a job."""
        line, text = _found(self.log, int(self.rows[job]), number)
        return _refusal(self.log.file, line, number, text, expected, fields)

    def texts(self, first: int) -> list[list[str]]:
        """Return the texts of each job, from field `first` on."""
        every = [texts[first - 1 :] for _, texts in _data_lines(self.log)]
        return [every[row] for row in self.rows.tolist()]

    def workload(
        self,
        columns: dict[str, Any],
        resources: Sequence[str],
        missing: dict[str, NDArray[np.bool_]],
        notes: Sequence[str] = (),
    ) -> Workload:
        """Return the workload with these demand columns; the other columns come from SWF."""
        field, names = self.field, self.field[17] > 0
        times: dict[str, Any] = {
            "submit": to_micros(field[2]),
            "runtime": to_micros(field[4]),
            "walltime": to_micros(np.where(field[9] > 0, field[9], field[4])),
            "requested": field[9] > 0,
            "waited": np.where(field[3] >= 0, to_micros(field[3]), -1),
            "queue": _named(field[15], _names(self.log, "Queue")),
            "partition": _named(field[16], _names(self.log, "Partition")),
        } | columns
        if self.think:
            missing = missing | self._follow(times)
        elif names.any():
            with_preceding = f"{int(names.sum()):,} of {len(names):,} jobs"
            notes = (*notes, f"preceding jobs (field 17) are ignored: {with_preceding} have one; --think uses them")
        assumed, head = counted(missing), _head(self.log)
        with in_file(self.log.file):
            jobs = Jobs(
                job=field[1].astype(np.int64),
                user=_labels(field[12]),
                group=_labels(field[13]),
                status=_status(field[11]),
                **times,
            )
        return Workload(
            jobs,
            name=self.log.name,
            resources=tuple(resources),
            sha256=self.log.sha256,
            cpus=_size(head),
            clock=_clock(head, jobs.submit),
            dropped=self.dropped,
            assumed=assumed,
            notes=(*count_notes(assumed, len(jobs)), *notes, *oddities(jobs)),
            left_out=self.left_out,
        )

    def _follow(self, times: dict[str, Any]) -> dict[str, NDArray[np.bool_]]:
        """Make jobs follow their preceding ones; return the masks of jobs for which a value had to be replaced.

        The submit of such a job becomes the earliest possible one: the end of the preceding job if that did not wait,
        plus the think time. The wait in the log is not measured from this instant.
        """
        before, thinks = self.field[17], self.field[18]
        places = {number: row for row, number in enumerate(self.field[1].tolist())}
        place = np.array([places.get(number, -1) for number in before.tolist()], np.int64)
        names = before > 0
        follows = names & (place >= 0)
        after = Ragged.of([[row] if there else [] for row, there in zip(place.tolist(), follows, strict=True)])
        if rows := circle(after):
            numbers = [f"{number:g}" for number in self.field[1].tolist()]
            raise self.refused(rows[0], 17, f"no cycle of preceding jobs ({circle_text(numbers, rows)})")
        think = np.where(follows, to_micros(np.maximum(thinks, 0)), 0)
        submit, length = times["submit"].copy(), np.minimum(times["runtime"], times["walltime"])
        for row in in_order(after):
            if follows[row]:
                submit[row] = submit[place[row]] + length[place[row]] + think[row]
        times |= {"submit": submit, "after": after, "think": think, "waited": np.where(follows, -1, times["waited"])}
        return {
            "preceding job not among the jobs: not waited for": names & ~follows,
            "think time missing: taken as 0": follows & (thinks < 0),
        }


def count_fields(log: Source) -> int:
    """Return the number of fields of the first job of an SWF log; 0 if there is none."""
    return len(next(_data_lines(log), (0, []))[1])


def without_broken_lines(log: Source, broken: BrokenLines) -> Source:
    """Comment out by `;` each line with an invalid value in one of the first 18 fields, and count these lines."""
    width = Counter(len(texts) for _, texts in _data_lines(log)).most_common(1)
    bad: dict[int, str] = {}
    for line, texts in _data_lines(log):
        if len(texts) != width[0][0] or len(texts) < len(FIELDS):
            bad[line] = f"{len(texts)} fields; expected {max(width[0][0], len(FIELDS))}"
        elif what := _broken(texts):
            bad[line] = what
    for line, what in bad.items():
        broken.add(line, what)
    if not bad:
        return log
    lines = log.data.split(b"\n")
    for line in bad:
        lines[line - 1] = b";" + lines[line - 1]
    return replace(log, data=b"\n".join(lines))


def _broken(texts: Sequence[str]) -> str:
    """Return the error of the first bad field of a line; empty if all are valid."""
    for number, text in enumerate(texts[: len(FIELDS)], start=1):
        limit, whole = _LIMITS.get(number, (np.inf, False))
        if not _is_number(text):
            return f"field {number} ({FIELDS[number - 1]}) is {quote(text)}; expected a number"
        if number not in _FEEDBACK and (not abs(float(text)) <= limit or (whole and float(text) % 1)):
            kind = "a whole number" if whole else "a number"
            return f"field {number} ({FIELDS[number - 1]}) is {quote(text)}; expected {kind} within +-{limit:.0f}"
    return ""


def _procs(field: dict[int, Floats]) -> Floats:
    return np.where(field[8] > 0, field[8], field[5])


def _kept(field: dict[int, Floats], zero_run: str) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return the mask of jobs that are kept, and the number dropped for each reason; the first reason counts."""
    procs = _procs(field)
    kept = np.ones(len(procs), np.bool_)
    dropped: dict[str, int] = {}

    def drop(reason: str, which: NDArray[np.bool_]) -> None:
        if count := int(np.count_nonzero(kept & which)):
            dropped[reason] = count
        np.logical_and(kept, ~which, out=kept)

    drop("run time < 0 or unknown", field[4] < 0)
    drop("processors <= 0", procs <= 0)
    if zero_run == "drop-cancelled":
        drop("run time 0, cancelled", (field[4] == 0) & (field[11] == _CANCELLED))
    elif zero_run == "drop":
        drop("run time 0", field[4] == 0)
    return kept, dropped


def _lines(log: Source) -> Iterator[str]:
    # Latin-1 accepts any byte, and headers do contain names in it. numpy reads this as fast as a file.
    return io.TextIOWrapper(io.BytesIO(log.data), encoding="latin-1", newline="\n")


def _data_lines(log: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and fields of each line that holds a job."""
    for line, text in enumerate(_lines(log), start=1):
        if fields := text.partition(";")[0].split():
            yield line, fields


def _table(log: Source, fields: Sequence[str]) -> Floats:
    """Return the numbers, shape (jobs, 18). numpy reads them; the bad line is searched for only if it fails."""
    if not count_fields(log):
        return np.zeros((0, len(FIELDS)))
    whole = whole_numbers(log.data, len(fields))
    if whole is not None:
        return whole[:, : len(FIELDS)]
    further = len(fields) > len(FIELDS)
    try:
        columns = range(len(FIELDS)) if further else None
        table: Floats = np.loadtxt(_lines(log), np.float64, comments=";", ndmin=2, usecols=columns)
        if table.shape[1] == len(FIELDS) and not (
            further and any(len(texts) != len(fields) for _, texts in _data_lines(log))
        ):
            return table
        refusal = f"{table.shape[1]} fields"
    except ValueError as error:
        refusal = str(error)
    for line, texts in _data_lines(log):
        for number, text in enumerate(texts[: len(FIELDS)], start=1):
            if not _is_number(text):
                raise _refusal(log.file, line, number, text, "a number")
        if len(texts) != len(fields):
            raise WorkloadError(at(log.file, line, f"{len(texts)} fields; expected {len(fields)}"))
    raise WorkloadError(at(log.file, None, f"cannot be read as SWF: {quote(refusal)}"))


def _check(log: Source, field: dict[int, Floats]) -> None:
    """Refuse the first value beyond its limits, which includes NaN and infinite values."""
    worst: tuple[int, int] | None = None
    for number, values in field.items():
        limit, whole = _LIMITS[number]
        bad = ~(np.abs(values) <= limit)
        if whole:
            bad |= values != np.floor(values)
        if bad.any():
            worst = min(worst or (len(bad), 0), (int(np.argmax(bad)), number))
    if worst:
        limit, whole = _LIMITS[worst[1]]
        kind = "a whole number" if whole else "a number"
        line, text = _found(log, worst[0], worst[1])
        raise _refusal(log.file, line, worst[1], text, f"{kind} within +-{limit:.0f}")


def _found(log: Source, row: int, number: int) -> tuple[int, str]:
    """Return the line of a table row, and the text of one of its fields."""
    line, texts = next(islice(_data_lines(log), row, None))
    return line, texts[number - 1]


def _refusal(
    file: str, line: int, number: int, text: str, expected: str, fields: Sequence[str] = FIELDS
) -> WorkloadError:
    message = f"field {number} ({fields[number - 1]}) is {quote(text)}; expected {expected}"
    return WorkloadError(at(file, line, message))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _labels(values: Floats) -> Labels:
    """Return the numbers as labels, codes in order of first appearance; negative is unknown."""
    numbers, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    known = np.flatnonzero(numbers >= 0)
    known = known[np.argsort(first[known])]
    codes = np.full(len(numbers), -1, np.int32)
    codes[known] = np.arange(len(known))
    return Labels(codes[inverse], tuple(str(int(number)) for number in numbers[known]))


def _status(values: Floats) -> Labels:
    """Return labels for the codes of field 11; a code unknown to SWF stays a number."""
    codes = _labels(values)
    return Labels(codes.codes, tuple(STATUS.get(name, name) for name in codes.names))


def _named(values: Floats, names: Mapping[str, str]) -> Labels:
    """Return labels with the names in the header; a number without a name stays a number."""
    codes = _labels(values)
    return Labels(codes.codes, tuple(names.get(name, name) for name in codes.names))


def _names(log: Source, what: str) -> dict[str, str]:
    """Return the names of queues or partitions in the header, by number, except numbers and duplicates."""
    names: dict[str, str] = {}
    for text in _header(log):
        if (match := _NAMED.match(text)) and match[1] == what and (name := match[3].strip()):
            names.setdefault(str(int(match[2])), _utf8(name))
    often = Counter(names.values())
    return {n: name for n, name in names.items() if often[name] == 1 and name.isprintable() and not _is_number(name)}


def _utf8(text: str) -> str:
    """Decode a text read as Latin-1 that may have been UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return text


def _header(log: Source) -> Iterator[str]:
    """Yield the lines before the first job."""
    return takewhile(lambda text: text.lstrip()[:1] in ("", ";"), _lines(log))


def _head(log: Source) -> dict[str, str]:
    """Return the machine and calendar entries of the header; of repeated entries, the first."""
    fields: dict[str, str] = {}
    for text in _header(log):
        if match := _HEAD.match(text):
            fields.setdefault(match[1] or match[3], match[2] or match[4])
    return fields


def _size(head: dict[str, str]) -> int | None:
    """Return MaxProcs of the header, else MaxNodes, else None."""
    return int(head.get("MaxProcs", 0)) or int(head.get("MaxNodes", 0)) or None


def _clock(head: dict[str, str], submit: Ints) -> Clock | None:
    """Return the clock of UnixStartTime and TimeZoneString; None if the log does not state when it began."""
    begin, zone = int(head.get("UnixStartTime", 0)), head.get("TimeZoneString", "UTC")
    counts_from_1970 = zone != "UTC" and Clock.guess(int(submit.min()) if len(submit) else None) is not None
    return Clock(begin, zone) if begin or counts_from_1970 else None
