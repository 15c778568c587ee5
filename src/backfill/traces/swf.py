"""The Standard Workload Format: 18 numbers per job and line, `;` before comments, -1 if unknown.

Source: Chapin et al. 1999 (JSSPP), and the Parallel Workloads Archive.
"""

import warnings
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np

from backfill.model.errors import WorkloadError
from backfill.model.units import SECOND, counted
from backfill.model.workload import Labels, Workload
from backfill.traces.files import Source, written
from backfill.traces.notes import in_use
from backfill.traces.seconds import seconds_texts
from backfill.traces.swf_lines import FIELDS, KB, STATUS, Lines

_CODES = {text: code for code, text in STATUS.items()}


def read_swf(
    source: Source | bytes | str | Path, *, zero_run: str = "keep", repeats: str = "refuse", think: bool = False
) -> Workload:
    """Read the jobs of an SWF log, plain or gzip; docs/reference/files.md has the rules.

    zero_run: treatment of jobs with run time 0: `keep`, `drop-cancelled` (drop those with status 5) or `drop`.
    repeats: `refuse` a log with a duplicate job number, or `drop` the later jobs.
    think: a job with a preceding job (field 17) arrives after that job's end and the think time (field 18).
    Fractions of a second are exact to the microsecond up to 2^33 s (the year 2242 in Unix time).
    Raises WorkloadError with file, line and field.
    """
    lines = Lines.of(Source.of(source), zero_run, repeats, think=think)
    field = lines.field
    memory = np.where(field[10] > 0, field[10], np.maximum(field[7], 0))
    demand = [np.ones(len(lines.rows), np.int64)]
    missing = lines.missing
    if memory.any():
        demand.append(np.rint(memory * KB).astype(np.int64))
        missing["requested memory missing: the used memory is taken"] = (field[10] <= 0) & (memory > 0)
        missing["memory missing: taken as 0"] = memory == 0
    columns = {"tasks": lines.procs, "demand": np.column_stack(demand)}
    return lines.workload(columns, ("cpus", "memory")[: len(demand)], missing)


def write_swf(workload: Workload, path: str | Path) -> None:
    """Write an SWF file, compressed if the path ends in .gz. The header states what SWF has no field for.

    Ids that are not whole numbers are replaced by 1, 2, ...; users and groups likewise. Raises WorkloadError if a
    job holds no cpu, which SWF cannot express.
    """
    jobs = workload.jobs
    if (jobs.procs < 1).any():
        raise WorkloadError(f"job {jobs.job[int(np.argmin(jobs.procs))]} holds no cpu, which SWF cannot express")
    ids = [str(job) for job in jobs.job]
    notes = []
    if not all(_is_count(job) for job in ids):
        ids = [str(number) for number in range(1, len(jobs) + 1)]
        notes.append("the job ids were replaced by numbers")
    renumbered = len(notes)
    if lost := _lost(workload):
        notes.append(f"left out because SWF has no field for it: {', '.join(lost)}")
    if unlimited := int((jobs.walltime == 0).sum()):
        notes.append(f"a walltime of 0, which readers of SWF take as unknown: {counted(unlimited, 'job')}")
    for note in notes[renumbered:]:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    clock = workload.clock_to_state
    header = [
        "Version: 2.2",
        f"Computer: {' '.join(workload.name.split())}",
        f"MaxJobs: {len(jobs)}",
        f"MaxRecords: {len(jobs)}",
        *([f"MaxProcs: {workload.cpus}"] if workload.cpus else ()),
        *([f"UnixStartTime: {clock.epoch}", f"TimeZoneString: {clock.zone}"] if clock and clock.epoch >= 0 else ()),
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
    columns[8] = [
        text if asked else "-1" for text, asked in zip(seconds_texts(jobs.walltime), jobs.requested, strict=True)
    ]
    if "memory" in workload.resources:
        held = jobs.demand[:, workload.resources.index("memory")]
        columns[9] = [
            _kilobytes(size, cpus) for size, cpus in zip(held.tolist(), jobs.demand[:, 0].tolist(), strict=True)
        ]
    codes = [*(_CODES.get(name, "-1") for name in jobs.status.names), "-1"]
    columns[10] = [codes[code] for code in jobs.status.codes.tolist()]
    columns[11] = _numbers(jobs.user)
    columns[12] = _numbers(jobs.group)
    columns[14], queues = _named("Queue", jobs.queue)
    columns[15], partitions = _named("Partition", jobs.partition)
    columns[16], columns[17] = _preceding(workload, ids)
    with written(path) as out:
        out.write("".join(f"; {line}\n" for line in (*header, *queues, *partitions)).encode())
        out.write("".join(" ".join(row) + "\n" for row in zip(*columns, strict=True)).encode())


def _is_count(text: str) -> bool:
    """Return whether an SWF reader returns this text unchanged."""
    return text.isascii() and text.isdigit() and len(text) <= 15 and str(int(text)) == text


def _preceding(workload: Workload, ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the preceding job and think time of each job that follows exactly one job."""
    after = workload.jobs.after
    single = np.flatnonzero(np.diff(after.first) == 1)
    before, think = ["-1"] * len(after), ["-1"] * len(after)
    times = seconds_texts(workload.jobs.think[single])
    for row, earlier, time in zip(single.tolist(), after.items[after.first[single]].tolist(), times, strict=True):
        before[row], think[row] = ids[earlier], time
    return before, think


def _kilobytes(size: int, cpus: int) -> str:
    """Return memory per processor of a task with `size` bytes and `cpus` processors; -1 if it has no memory."""
    per_cpu = size / cpus / KB
    return "-1" if not size else str(int(per_cpu)) if per_cpu == int(per_cpu) else repr(per_cpu)


def _numbers(labels: Labels) -> list[str]:
    keep = all(_is_count(name) for name in labels.names)
    texts = [*(labels.names if keep else (str(code + 1) for code in range(len(labels.names)))), "-1"]
    return [texts[code] for code in labels.codes.tolist()]


def _named(what: str, labels: Labels) -> tuple[list[str], list[str]]:
    """Return the numbers of queues or partitions, and header lines for the names that are not numbers."""
    texts = dict.fromkeys(name for name in labels.names if _is_count(name))
    free = (text for number in count(1) if (text := str(number)) not in texts)
    numbers = [name if name in texts else next(free) for name in labels.names]
    header = [
        f"{what}: {number} {' '.join(name.split())}"
        for number, name in zip(numbers, labels.names, strict=True)
        if number != name
    ]
    return [[*numbers, "-1"][code] for code in labels.codes.tolist()], header


def _lost(workload: Workload) -> list[str]:
    columns = (
        *("spread", "exclusive", "licences", "deadline", "priority", "admin_priority"),
        *("project", "qos", "reservation", "site", "constraint"),
    )
    return [
        *(column for column in columns if in_use(workload.jobs, column)),
        *(["after of several jobs"] if (np.diff(workload.jobs.after.first) > 1).any() else []),
        *(["status"] if {*workload.jobs.status.names} - {*_CODES} else []),
        *(resource for resource in workload.resources if resource not in ("cpus", "memory")),
    ]
