"""The Standard Workload Format: a line of 18 numbers per job, `;` before comments, -1 for what is not known.

Source: Chapin et al. 1999 (JSSPP), and the Parallel Workloads Archive.
"""

import io
import re
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import BadArgument, WorkloadError, at, quote
from backfill.model.units import SECOND, TIME_MAX
from backfill.model.workload import Floats, Jobs, Labels, Workload
from backfill.traces.files import Source, written
from backfill.traces.notes import REPEATED, check_repeats, counted, first_repeat, in_use, oddities, repeated, told
from backfill.traces.seconds import seconds_texts, to_micros

ZERO_RUN = ("keep", "drop-cancelled", "drop")
FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average cpu time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_CANCELLED = 5
_STATUS = {"1": "completed", "0": "failed", "5": "cancelled", "2": "part", "3": "last part", "4": "last part, failed"}
_CODES = {text: code for code, text in _STATUS.items()}
_KB = 1024
# What is read, by field number: the greatest magnitude, and whether fractions are out. Times may carry fractions.
_SECONDS = TIME_MAX / SECOND
_LIMITS = {1: (2.0**53, True), 2: (_SECONDS, False), 3: (_SECONDS, False), 4: (_SECONDS, False), 5: (2.0**40, True),
           7: (2.0**50, False), 8: (2.0**40, True), 9: (_SECONDS, False), 10: (2.0**50, False), 11: (2.0**53, False),
           12: (2.0**53, True), 13: (2.0**53, True)}  # fmt: skip
_SIZE = re.compile(r"\s*;\s*(MaxProcs|MaxNodes)\s*:\s*(\d{1,12})\b", re.ASCII)


def check_zero_run(rule: str) -> None:
    """Raise UsageError unless it is a rule about jobs with run time 0."""
    if rule not in ZERO_RUN:
        raise BadArgument("zero_run", rule, ", ".join(ZERO_RUN))


def read_swf(source: Source | bytes | str | Path, *, zero_run: str = "keep", repeats: str = "refuse") -> Workload:
    """The jobs of an SWF log, plain or gzip; docs/reference/files.md has the rules.

    zero_run: what becomes of jobs with run time 0: `keep`, `drop-cancelled` (those with status 5 go) or `drop`.
    repeats: `refuse` a log in which a job number stands twice, or `drop` the later jobs.
    Times carry fractions of a second exactly, to the microsecond, up to 2^33 s (the year 2242 in Unix time).
    Raises WorkloadError with file, line and field.
    """
    check_zero_run(zero_run)
    check_repeats(repeats)
    log = Source.of(source)
    table = _table(log)
    field = {number: table[:, number - 1] for number in _LIMITS}
    _check(log, field)

    procs = np.where(field[8] > 0, field[8], field[5])
    kept, dropped = _kept(field, procs, zero_run)
    rows = np.flatnonzero(kept)
    if repeats == "drop" and (again := repeated(field[1][rows].tolist())).any():
        rows, dropped[REPEATED] = rows[~again], int(again.sum())
    field = {number: values[rows] for number, values in field.items()}
    ids = field[1].astype(np.int64)
    if repeat := first_repeat(ids.tolist()):
        line, text = _found(log, int(rows[repeat[0]]), 1)
        earlier, _ = _found(log, int(rows[repeat[1]]), 1)
        _fail(log.file, line, 1, text, f"a number of its own, and line {earlier} has it already")

    memory = np.where(field[10] > 0, field[10], np.maximum(field[7], 0))
    demand = [np.ones(len(rows), np.int64)]
    missing = {
        "no requested time, the run time stands for it": field[9] <= 0,
        "no requested processors, the allocated ones stand for them": field[8] <= 0,
        "a negative wait, taken as unknown": (field[3] < 0) & (field[3] != -1),
    }
    if memory.any():
        demand.append(np.rint(memory * _KB).astype(np.int64))
        missing["no requested memory, the used memory stands for it"] = (field[10] <= 0) & (memory > 0)
        missing["no memory value at all, taken as 0"] = memory == 0
    assumed = counted(missing)
    try:
        jobs = Jobs(
            job=ids,
            submit=to_micros(field[2]),
            runtime=to_micros(field[4]),
            walltime=to_micros(np.where(field[9] > 0, field[9], field[4])),
            tasks=procs[rows].astype(np.int64),
            demand=np.column_stack(demand),
            user=_labels(field[12]),
            group=_labels(field[13]),
            waited=np.where(field[3] >= 0, to_micros(field[3]), -1),
            status=_status(field[11]),
        )
    except WorkloadError as error:
        raise WorkloadError(at(log.file, None, str(error))) from None
    return Workload(
        jobs,
        name=log.name,
        resources=("cpus", "memory")[: len(demand)],
        sha256=log.sha256,
        cpus=_size(log),
        dropped=dropped,
        assumed=assumed,
        notes=(*told(assumed, len(jobs)), *oddities(jobs)),
    )


def _kept(field: dict[int, Floats], procs: Floats, zero_run: str) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which jobs stay, and how many go for which reason; the first reason counts."""
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
    # Latin-1 takes any byte, and headers do carry names in it. numpy reads from this as fast as from a file.
    return io.TextIOWrapper(io.BytesIO(log.data), encoding="latin-1", newline="\n")


def _data_lines(log: Source) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that holds a job."""
    for line, text in enumerate(_lines(log), start=1):
        if fields := text.partition(";")[0].split():
            yield line, fields


def _table(log: Source) -> Floats:
    """The numbers, shape (jobs, 18). numpy reads; only when it refuses is the line looked for."""
    if next(_data_lines(log), None) is None:
        return np.zeros((0, len(FIELDS)))
    try:
        table: Floats = np.loadtxt(_lines(log), np.float64, comments=";", ndmin=2)
        if table.shape[1] == len(FIELDS):
            return table
        refusal = f"{table.shape[1]} fields"
    except ValueError as error:
        refusal = str(error)
    for line, texts in _data_lines(log):
        for number, text in enumerate(texts[: len(FIELDS)], start=1):
            if not _is_number(text):
                _fail(log.file, line, number, text, "a number")
        if len(texts) != len(FIELDS):
            what = f"{len(texts)} fields; expected {len(FIELDS)}"
            dialect = " (dialects of SWF with further fields are not read)" if len(texts) > len(FIELDS) else ""
            raise WorkloadError(at(log.file, line, what + dialect))
    raise WorkloadError(at(log.file, None, f"cannot be read as SWF: {quote(refusal)}"))


def _check(log: Source, field: dict[int, Floats]) -> None:
    """Refuse the first value beyond its limits. NaN and infinite values are."""
    worst: tuple[int, int] | None = None
    for number, (limit, whole) in _LIMITS.items():
        bad = ~(np.abs(field[number]) <= limit)
        if whole:
            bad |= field[number] != np.floor(field[number])
        if bad.any():
            worst = min(worst or (len(bad), 0), (int(np.argmax(bad)), number))
    if worst:
        limit, whole = _LIMITS[worst[1]]
        kind = "a whole number" if whole else "a number"
        line, text = _found(log, worst[0], worst[1])
        _fail(log.file, line, worst[1], text, f"{kind} within +-{limit:.0f}")


def _found(log: Source, row: int, number: int) -> tuple[int, str]:
    """The line of a row of the table, and the text of a field in it."""
    line, texts = next(islice(_data_lines(log), row, None))
    return line, texts[number - 1]


def _fail(file: str, line: int, number: int, text: str, expected: str) -> NoReturn:
    what = f"field {number} ({FIELDS[number - 1]}) is {quote(text)}; expected {expected}"
    raise WorkloadError(at(file, line, what))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _labels(values: Floats) -> Labels:
    """The numbers as texts, codes in order of first appearance; negative is unknown."""
    numbers, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    known = np.flatnonzero(numbers >= 0)
    known = known[np.argsort(first[known])]
    codes = np.full(len(numbers), -1, np.int32)
    codes[known] = np.arange(len(known))
    return Labels(codes[inverse], tuple(str(int(number)) for number in numbers[known]))


def _status(values: Floats) -> Labels:
    """Texts for the codes of field 11; a code that is not SWF's stays a number."""
    codes = _labels(values)
    return Labels(codes.codes, tuple(_STATUS.get(name, name) for name in codes.names))


def _size(log: Source) -> int | None:
    """MaxProcs of the header, else MaxNodes, else None."""
    sizes: dict[str, int] = {}
    for text in takewhile(lambda text: text.lstrip()[:1] in ("", ";"), _lines(log)):
        if match := _SIZE.match(text):
            sizes.setdefault(match[1], int(match[2]))
    return sizes.get("MaxProcs") or sizes.get("MaxNodes") or None


def write_swf(workload: Workload, path: str | Path) -> None:
    """Write as SWF, packed where the path ends in .gz. The header says what SWF has no field for.

    Ids that are no whole numbers are replaced by 1, 2, ...; users and groups likewise. Raises WorkloadError where a
    job holds no cpu, which SWF cannot say.
    """
    jobs = workload.jobs
    if (jobs.procs < 1).any():
        raise WorkloadError(f"job {jobs.job[int(np.argmin(jobs.procs))]} holds no cpu, which SWF cannot say")
    ids = [str(job) for job in jobs.job]
    notes = []
    if not all(_is_count(job) for job in ids):
        ids = [str(number) for number in range(1, len(jobs) + 1)]
        notes.append("the job numbers are new")
    if lost := _lost(workload):
        notes.append(f"left out, as SWF has no field for it: {', '.join(lost)}")
    header = [
        "Version: 2.2",
        f"Computer: {' '.join(workload.name.split())}",
        f"MaxJobs: {len(jobs)}",
        f"MaxRecords: {len(jobs)}",
        *([f"MaxProcs: {workload.cpus}"] if workload.cpus else ()),
        *(f"Note: {note}" for note in notes),
    ]
    unknown = ["-1"] * len(jobs)
    procs = [str(count) for count in jobs.procs.tolist()]
    columns = [unknown] * len(FIELDS)
    columns[0] = ids
    columns[1] = seconds_texts(jobs.submit)
    columns[2] = seconds_texts(np.where(jobs.waited >= 0, jobs.waited, -SECOND))
    columns[3] = seconds_texts(jobs.runtime)
    columns[4] = columns[7] = procs
    columns[8] = seconds_texts(jobs.walltime)
    if "memory" in workload.resources:
        held = jobs.demand[:, workload.resources.index("memory")]
        columns[9] = [
            _kilobytes(size, cpus) for size, cpus in zip(held.tolist(), jobs.demand[:, 0].tolist(), strict=True)
        ]
    codes = [*(_CODES.get(name, "-1") for name in jobs.status.names), "-1"]
    columns[10] = [codes[code] for code in jobs.status.codes.tolist()]
    columns[11] = _numbers(jobs.user)
    columns[12] = _numbers(jobs.group)
    with written(path) as out:
        out.write("".join(f"; {line}\n" for line in header).encode())
        out.write("".join(" ".join(row) + "\n" for row in zip(*columns, strict=True)).encode())


def _is_count(text: str) -> bool:
    """Whether an SWF reader gives this very text back."""
    return text.isascii() and text.isdigit() and len(text) <= 15 and str(int(text)) == text


def _kilobytes(size: int, cpus: int) -> str:
    """Memory per processor of a task that holds `size` bytes and `cpus` processors; -1 where it holds none."""
    per_cpu = size / cpus / _KB
    return "-1" if not size else str(int(per_cpu)) if per_cpu == int(per_cpu) else repr(per_cpu)


def _numbers(labels: Labels) -> list[str]:
    keep = all(_is_count(name) for name in labels.names)
    texts = [*(labels.names if keep else (str(code + 1) for code in range(len(labels.names)))), "-1"]
    return [texts[code] for code in labels.codes.tolist()]


def _lost(workload: Workload) -> list[str]:
    columns = ("spread", "licences", "deadline", "priority", "admin_priority", "project", "site", "constraint", "after")
    return [
        *(column for column in columns if in_use(workload.jobs, column)),
        *(["status"] if {*workload.jobs.status.names} - {*_CODES} else []),
        *(resource for resource in workload.resources if resource not in ("cpus", "memory")),
    ]
