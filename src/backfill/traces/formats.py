"""The formats that `backfill import` knows by name: one row and one module each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from backfill.model.errors import BadArgument, UsageError, quote
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.traces.alibaba import read_alibaba
from backfill.traces.files import Source
from backfill.traces.mwf import is_mwf, read_mwf
from backfill.traces.notes import check_zero_run
from backfill.traces.read import read_any_swf, under_rules, with_cancelled
from backfill.traces.table import read_table


@dataclass(frozen=True, slots=True)
class Rules:
    """What an import does with jobs that no simulation can use as they are."""

    zero_run: str = "keep"  # jobs with run time 0: keep, drop-cancelled or drop
    repeats: str = "drop"  # jobs with an id that stands above already: refuse (the file) or drop (the job)
    resources: tuple[str, ...] = ()  # further columns that are resources
    machines: Platform | str | None = None  # the nodes that the log is of, or the table of them

    def __post_init__(self) -> None:
        check_zero_run(self.zero_run)


def _mwf(source: Source, rules: Rules) -> Workload:
    found = read_mwf(source, rules.machines, zero_run=rules.zero_run, repeats=rules.repeats)
    return with_cancelled(replace(found, chosen={"zero_run": rules.zero_run}), "run")


def _swf(source: Source, rules: Rules) -> Workload:
    if not is_mwf(source):
        _check_no_machines(rules, "SWF of 18 fields")
    found = read_any_swf(source, rules.machines, zero_run=rules.zero_run, repeats=rules.repeats)
    return with_cancelled(found, "run")


def _csv(source: Source, rules: Rules) -> Workload:
    _check_no_machines(rules, "CSV")
    found = read_table(source, rules.resources, repeats=rules.repeats)
    return under_rules(found, rules.zero_run)


def _alibaba(source: Source, rules: Rules) -> Workload:
    return under_rules(read_alibaba(source, rules.machines, repeats=rules.repeats), rules.zero_run)


def _check_no_machines(rules: Rules, format: str) -> None:
    if isinstance(rules.machines, str):
        raise BadArgument("machines", rules.machines, f"none, as {format} comes without a table of machines")


Reader = Callable[[Source, Rules], Workload]
FORMATS: dict[str, Reader] = {"swf": _swf, "mwf": _mwf, "alibaba": _alibaba, "csv": _csv}


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
