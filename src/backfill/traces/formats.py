"""The named formats of `backfill import`: one table row and one module each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from backfill.model.errors import BadArgument, UsageError, WorkloadError, check_path, quote
from backfill.model.names import did_you_mean
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.traces.accounting.htcondor import read_htcondor
from backfill.traces.accounting.lsf import read_lsf
from backfill.traces.accounting.pbs import read_pbs
from backfill.traces.accounting.records import Accounted
from backfill.traces.accounting.sacct import read_sacct
from backfill.traces.accounting.sge import read_sge
from backfill.traces.accounting.slurm_events import EVENTS as EVENTS
from backfill.traces.accounting.slurm_json import read_slurm_json
from backfill.traces.alibaba import read_alibaba
from backfill.traces.broken import BrokenLines
from backfill.traces.files import Source
from backfill.traces.mwf import is_mwf, read_mwf
from backfill.traces.notes import check_zero_run
from backfill.traces.read import read_any_swf, under_rules, with_cancelled
from backfill.traces.swf_lines import count_fields, without_broken_lines
from backfill.traces.table import read_table

SITE = "slurm-site"  # the name of a folder of dumps as a format of `import`
Reader = Callable[[Source, "Rules"], Workload]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of an import: the treatment of jobs that cannot be simulated as recorded, and reading options."""

    zero_run: str = "keep"  # jobs with run time 0: keep, drop-cancelled or drop
    repeats: str = "drop"  # duplicate job ids: refuse (the file) or drop (the job)
    resources: tuple[str, ...] = ()  # further columns that hold resources
    machines: Platform | str | None = None  # the log's nodes, or the file that lists them
    zone: str | None = None  # IANA time zone of dates without one
    fields: str | None = None  # comma-separated column names of a log without a header
    columns: tuple[tuple[str, str], ...] = ()  # column of the workload CSV, and its header in the file

    def __post_init__(self) -> None:
        check_zero_run(self.zero_run)


def _mwf(source: Source, rules: Rules) -> Workload:
    def read(log: Source) -> Workload:
        log_read = read_mwf(log, rules.machines, zero_run=rules.zero_run, repeats=rules.repeats)
        return replace(log_read, chosen={"zero_run": rules.zero_run})

    return with_cancelled(_mended(source, read), "run")


def _swf(source: Source, rules: Rules) -> Workload:
    if not is_mwf(source):
        _check_no_machines(rules, "SWF of 18 fields")

    def read(log: Source) -> Workload:
        return read_any_swf(log, rules.machines, zero_run=rules.zero_run, repeats=rules.repeats)

    return with_cancelled(_mended(source, read), "run")


def _mended(source: Source, read: Callable[[Source], Workload]) -> Workload:
    """Read an SWF log; only if that fails, find its broken lines and read it without them."""
    try:
        return read(source)
    except WorkloadError:
        broken = BrokenLines(source.file)
        mended = without_broken_lines(source, broken)
        if not broken.count or not count_fields(mended):
            raise
    workload = read(mended)
    return replace(workload, dropped=broken.dropped | workload.dropped, notes=(*broken.notes, *workload.notes))


def _csv(source: Source, rules: Rules) -> Workload:
    _check_no_machines(rules, "CSV")
    broken = BrokenLines(source.file)
    workload = read_table(
        source, rules.resources, repeats=rules.repeats, broken=broken, columns=rules.columns, zone=rules.zone
    )
    return under_rules(workload, rules.zero_run)


def _alibaba(source: Source, rules: Rules) -> Workload:
    return under_rules(read_alibaba(source, rules.machines, repeats=rules.repeats), rules.zero_run)


def _accounting(read: Callable[..., Accounted], *, takes: Sequence[str] = ()) -> Reader:
    """Make the reader of an accounting log. takes: additional fields of Rules that it uses."""

    def found(source: Source, rules: Rules) -> Workload:
        _check_no_machines(rules, "an accounting log")
        machine = rules.machines if isinstance(rules.machines, Platform) else None
        log = read(source, **{name: getattr(rules, name) for name in takes})
        return under_rules(log.on(machine), rules.zero_run)

    return found


def _check_no_machines(rules: Rules, format: str) -> None:
    if isinstance(rules.machines, str):
        raise BadArgument("machines", rules.machines, f"none, as {format} comes without a table of machines")


# Fields of Rules that only some formats take.
TAKES = {"sacct": ("zone", "fields"), "pbs": ("zone",), "htcondor": ("zone",), "csv": ("zone", "columns")}
OPTIONS = {"timezone": "zone", "fields": "fields", "column": "columns"}  # of import, and the fields that they set


def check_options(format: str, **given: str | None) -> None:
    """Raise BadArgument for an option that a format does not take."""
    for option, value in given.items():
        takers = [name for name, takes in TAKES.items() if OPTIONS[option] in takes]
        if value is not None and format not in takers:
            raise BadArgument(option, value, f"none for {format}; it is for {', '.join(takers)}")


FORMATS: dict[str, Reader] = {
    "sacct": _accounting(read_sacct, takes=TAKES["sacct"]),
    "slurm": _accounting(read_slurm_json),
    "pbs": _accounting(read_pbs, takes=TAKES["pbs"]),
    "lsf": _accounting(read_lsf),
    "sge": _accounting(read_sge),
    "htcondor": _accounting(read_htcondor, takes=TAKES["htcondor"]),
    "swf": _swf,
    "mwf": _mwf,
    "alibaba": _alibaba,
    "csv": _csv,
}


def import_log(
    format: str, file: str, rules: Rules | None = None, progress: Callable[[float], None] | None = None
) -> Workload:
    r"""Read the jobs of a file in one of FORMATS, whatever its name; `-` is standard input.

    progress: called now and then with the share of the log read so far (0 to 1), if the format reports it.
    Raises UsageError for an unknown format, and WorkloadError with file, line and field.

    >>> import backfill as bf
    >>> from pathlib import Path
    >>> _ = Path("jobs.txt").write_text("job;submit;runtime\n1;0;60\n")
    >>> bf.import_log("csv", "jobs.txt")
    <Workload jobs.txt: 1 job>
    """
    check_format(format)
    check_path("file", file)
    return FORMATS[format](replace(Source.of(file), progress=progress), rules or Rules())


def check_format(format: str, *others: str) -> None:
    """Raise UsageError unless it is a name in FORMATS, or one of the others."""
    if format not in (known := (*FORMATS, *others)):
        raise UsageError(f"unknown format {quote(format)}; {did_you_mean(format, known)}")
