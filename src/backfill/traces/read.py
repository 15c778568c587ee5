"""Read a workload file of any format."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from backfill.data import PREFIX, SAMPLES
from backfill.model.errors import UsageError, WorkloadError, at, check_path
from backfill.model.names import nearest
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.traces.files import SUFFIXES, Source, suffix_of
from backfill.traces.mwf import is_mwf, read_mwf
from backfill.traces.notes import check_cancelled, check_zero_run
from backfill.traces.swf import read_swf
from backfill.traces.table import read_table


def read(
    path: str | Path,
    *,
    zero_run: str = "keep",
    cancelled: str = "run",
    think: bool = False,
    resources: Sequence[str] = (),
    machines: Platform | None = None,
) -> Workload:
    """Read the workload in a file, by its suffix: .swf, .swf.gz, .csv, .csv.gz or .parquet; `-` is standard input.

    `sample:NAME` is a log that comes with backfill, with an assumed pool as its machine.
    zero_run: treatment of jobs with run time 0: `keep`, `drop-cancelled` or `drop`.
    cancelled: treatment of cancelled jobs with run time 0: they `run` like the others, or `leave` the queue after
    their recorded wait.
    think: jobs of an SWF log arrive after the preceding job and think time of fields 17 and 18, not at their submit.
    resources: names of further columns of a CSV or Parquet file that are resources, as the platform has them.
    machines: the nodes to which node specs of a log of 21 fields refer; by default those in the file beside it.
    Raises WorkloadError, and UsageError for an unknown `zero_run`.

    >>> import backfill as bf
    >>> bf.write(bf.generate("lublin?jobs=100&cpus=64"), "jobs.swf")
    >>> bf.read("jobs.swf")
    <Workload jobs: 100 jobs in 21.9 h, 64 cpus>
    """
    check_path("path", path)
    check_zero_run(zero_run)
    check_cancelled(cancelled, zero_run)
    if str(path).startswith(PREFIX):
        return under_rules(_sample(str(path).removeprefix(PREFIX)), zero_run, cancelled)
    suffix = suffix_of(str(path))
    if not suffix and str(path) != "-":
        raise WorkloadError(at(str(path), None, f"unknown suffix; expected {', '.join(SUFFIXES)}, or - for stdin"))
    source = Source.of(path)
    if suffix.startswith(".swf") or (not suffix and _looks_like_swf(source.data)):
        return with_cancelled(read_any_swf(source, machines, zero_run=zero_run, think=think), cancelled)
    return under_rules(read_table(source, resources), zero_run, cancelled)


def _sample(name: str) -> Workload:
    if name not in SAMPLES:
        known = [PREFIX + each for each in SAMPLES]
        near = nearest(name, SAMPLES)  # without the prefix, which makes all of them alike
        hint = f"did you mean {PREFIX}{near}?" if near else f"expected {' or '.join(known)}"
        raise UsageError(f"{PREFIX}{name} is unknown; {hint}")
    sample = SAMPLES[name]
    size = f"the log does not state the size of the machine; {sample.cpus:,} processors are assumed"
    log = read_table(Source.of(sample.path), ())
    return replace(log, platform=Platform.pool(sample.cpus), notes=(sample.about, *log.notes, size))


def read_any_swf(
    source: Source,
    machines: Platform | str | None = None,
    *,
    zero_run: str = "keep",
    repeats: str = "refuse",
    think: bool = False,
) -> Workload:
    """Read an SWF log of 18 or 21 fields. machines: for the latter, see read_mwf. Raises WorkloadError."""
    if is_mwf(source):
        log = read_mwf(source, machines, zero_run=zero_run, repeats=repeats, think=think)
    else:
        log = read_swf(source, zero_run=zero_run, repeats=repeats, think=think)
    return replace(log, chosen={"zero_run": zero_run, **({"think": True} if think else {})})


def _looks_like_swf(data: bytes) -> bool:
    """Return whether the data begin with comments, or with a line of numbers without a comma."""
    text = data.lstrip()
    return text.startswith(b";") or (text[:1] in b"+-.0123456789" and b"," not in text.partition(b"\n")[0])


def under_rules(workload: Workload, zero_run: str, cancelled: str = "run") -> Workload:
    """Apply the rules for jobs with run time 0."""
    return with_cancelled(without_zero_runs(workload, zero_run), cancelled)


def with_cancelled(workload: Workload, rule: str) -> Workload:
    """Apply a rule for cancelled jobs with run time 0; a note reports their number."""
    count = int(workload.never_ran.sum())
    share = f"{count:,} of {len(workload):,} jobs"
    if rule == "run":
        note = f"cancelled before they ran, kept as jobs of 0 s: {share}; with --cancelled leave they leave the queue"
        return replace(workload, notes=(*workload.notes, note)) if count else workload
    note = f"cancelled before they ran, leave after their recorded wait: {share}"
    unknown = int((workload.never_ran & (workload.jobs.waited < 0)).sum())
    note += f", but {unknown:,} without a recorded wait, kept as jobs of 0 s" if unknown else ""
    return workload.with_jobs(workload.jobs, note, cancelled=rule)


def without_zero_runs(workload: Workload, zero_run: str) -> Workload:
    """Apply a rule for jobs with run time 0 to a workload that may not state which jobs were cancelled."""
    check_zero_run(zero_run)
    workload = replace(workload, chosen={**workload.chosen, "zero_run": zero_run})
    zero, reason = workload.jobs.runtime == 0, "run time 0"
    if zero_run == "keep" or not zero.any():
        return workload
    if zero_run == "drop-cancelled":
        status = workload.jobs.status
        if not status.names:
            note = "the log does not state which jobs were cancelled: those with run time 0 are kept"
            return replace(workload, notes=(*workload.notes, note))
        zero, reason = workload.never_ran, "run time 0, cancelled"
    kept = workload.with_rows(np.flatnonzero(~zero))
    return replace(kept, dropped=workload.dropped | {reason: int(np.count_nonzero(zero))})
