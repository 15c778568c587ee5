"""The formats that `backfill import` knows by name: one row and one module each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from backfill.model.errors import UsageError, quote
from backfill.model.workload import Workload
from backfill.traces.files import Source
from backfill.traces.read import without_zero_runs
from backfill.traces.swf import check_zero_run, read_swf
from backfill.traces.table import read_table


@dataclass(frozen=True, slots=True)
class Rules:
    """What an import does with jobs that no simulation can use as they are."""

    zero_run: str = "keep"  # jobs with run time 0: keep, drop-cancelled or drop
    repeats: str = "drop"  # jobs with an id that stands above already: refuse (the file) or drop (the job)
    resources: tuple[str, ...] = ()  # further columns that are resources

    def __post_init__(self) -> None:
        check_zero_run(self.zero_run)


def _swf(source: Source, rules: Rules) -> Workload:
    found = read_swf(source, zero_run=rules.zero_run, repeats=rules.repeats)
    return replace(found, chosen={"zero_run": rules.zero_run})


def _csv(source: Source, rules: Rules) -> Workload:
    found = read_table(source, rules.resources, repeats=rules.repeats)
    return without_zero_runs(found, rules.zero_run)


Reader = Callable[[Source, Rules], Workload]
FORMATS: dict[str, Reader] = {"swf": _swf, "csv": _csv}


def import_log(format: str, file: str, rules: Rules | None = None) -> Workload:
    """The jobs of a file in a format of FORMATS, whatever its name; `-` is standard input.

    Raises UsageError for an unknown format, and WorkloadError with file, line and field.
    """
    check_format(format)
    return FORMATS[format](Source.of(file), rules or Rules())


def check_format(format: str) -> None:
    """Raise UsageError unless it is a name in FORMATS."""
    if format not in FORMATS:
        raise UsageError(f"unknown format {quote(format)}; known: {', '.join(FORMATS)}")
