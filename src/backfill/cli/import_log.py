"""backfill import: reads a log, reports on its quality, and writes a cleaned copy; events see import_events.py."""

import shlex
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.import_events import import_events
from backfill.cli.import_site import import_site
from backfill.cli.inputs import check_outputs
from backfill.cli.options import Cpus, Json, PlatformFile, Quiet, Verbose, ZeroRun, examples
from backfill.cli.output import print_json, print_lines
from backfill.cli.platforms import beside, write_platform
from backfill.model.errors import BadArgument, UsageError
from backfill.model.names import printable
from backfill.model.units import counted
from backfill.traces.files import suffix_of

if TYPE_CHECKING:
    from rich.table import Table

    from backfill.analysis.quality import Quality
    from backfill.model.workload import Floats

STEPS = 1000  # of the progress bar
SHOWN = 6  # most sentences on a terminal; --json has all
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 60  # most characters of a bar chart


def known_formats(incomplete: str) -> list[str]:
    """Return the formats that the shell offers for completion."""
    from backfill.traces.formats import EVENTS, FORMATS, SITE

    return [name for name in (*FORMATS, EVENTS, SITE) if name.startswith(incomplete)]


@examples(
    "backfill import sacct dump.txt --platform nodes.txt --out jobs.csv",
    "backfill import swf KTH-SP2.swf.gz",
    "backfill import csv jobs.csv --cpus 64 --out clean.parquet",
    "backfill import swf log.txt --zero-run drop-cancelled --out clean.swf.gz --json",
    "backfill import slurm-events outages.txt --log jobs.csv --out events.csv",
    "backfill import slurm-site dumps",
)
def import_log(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="Format: sacct, slurm, pbs, lsf, sge, htcondor, swf, mwf, alibaba, csv; slurm-events; or slurm-site.",
            autocompletion=known_formats,
        ),
    ],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A log, plain or gzip; - is standard input; slurm-site: a folder.")
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write a cleaned copy; ends in .swf, .csv (.gz) or .parquet."),
    ] = None,
    machines: Annotated[
        str | None,
        typer.Option("--machines", metavar="FILE", help="mwf and alibaba: the table of nodes that belongs to the log."),
    ] = None,
    platform: PlatformFile = None,
    cpus: Cpus = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone",
            metavar="ZONE",
            help="Time zone of dates that state none, for instance Europe/Berlin. [default: UTC]",
        ),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields", metavar="NAME,...", help="sacct, slurm-events: the columns of a dump without a header."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=HEADER",
            help="csv: the column that holds NAME, such as runtime=Elapsed; repeatable.",
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="slurm-events: the log in whose time the events happen."),
    ] = None,
    zero_run: ZeroRun = "keep",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Read a log; report jobs kept and dropped, assumptions and oddities; write a cleaned copy.

    `slurm-events` reads what `sacctmgr show event` and `scontrol show reservation` print, and writes a file of events.
    `slurm-site` reads a folder of dumps of a Slurm, and says what is missing for the policy slurm.
    """
    from backfill.traces.formats import EVENTS, SITE, Rules, check_format, check_options
    from backfill.traces.formats import import_log as read
    from backfill.traces.write import check_suffix, write

    if platform is not None and (cpus, machines) != (None, None):
        raise UsageError(f"{'--machines' if cpus is None else '--cpus'} cannot be combined with --platform")
    check_format(format, EVENTS, SITE)
    others: dict[str, object] = {"machines": machines, "cpus": cpus, "column": column}
    others["zero-run"] = None if zero_run == "keep" else zero_run
    if format == SITE:
        others |= {"out": out, "platform": platform, "timezone": timezone, "fields": fields, "log": log}
        if unused := next((name for name, value in others.items() if value is not None), None):
            raise UsageError(f"--{unused} cannot be combined with {SITE}")
        import_site(file, as_json)
        return
    if format == EVENTS:
        if unused := next((name for name, value in others.items() if value is not None), None):
            raise UsageError(f"--{unused} cannot be combined with {EVENTS}")
        import_events(file, log, platform, out, timezone, fields, as_json)
        return
    if log is not None:
        raise UsageError(f"--log is for {EVENTS}")
    check_options(format, timezone=timezone, fields=fields, column=column[0] if column else None)
    rules = Rules(zero_run=zero_run, machines=machines, zone=timezone, fields=fields, columns=_columns(column))
    suffix = "" if out is None else check_suffix(out)
    check_outputs({"the log": file, "the table of machines": machines}, out=out)

    from backfill import __version__
    from backfill.analysis.quality import quality
    from backfill.model.platform import Platform
    from backfill.traces.inventory import is_toml, read_platform

    machine = read_platform(platform) if platform else Platform.pool(cpus) if cpus is not None else None
    if machine is not None:
        rules = replace(rules, resources=tuple(name for name in machine.resources if name != "cpus"))
    if platform is not None:
        rules = replace(rules, machines=machine)
    with say.bar(f"reading {file}", STEPS) as bar:
        workload = read(format, file, rules, None if bar is None else lambda share: bar(round(share * STEPS)))
    if machine is not None:
        workload = replace(workload, cpus=machine.cpus)
    judged = quality(workload, machine)
    made = machine is None or (platform is not None and not is_toml(platform))
    brought = (workload.platform if machine is None else machine) if made and not suffix.startswith(".swf") else None
    nodes = beside(out, suffix) if out is not None and brought is not None else None
    wrote = []
    if out is not None:
        write(workload, out)
        wrote.append(f"wrote {out}: {counted(len(workload), 'job')}")
    if nodes is not None and brought is not None:
        wrote.append(write_platform(brought, nodes))
    if as_json:
        about = {"schema": 1, "backfill": __version__, "format": format, "sha256": workload.sha256}
        print_json({**about, **judged.to_dict(), "out": out})
    else:
        _print(judged)
    for note in wrote:
        say.note(note)
    as_it_is = machines is None and suffix_of(file).startswith(".swf" if format == "mwf" else f".{format}")
    _following(file, as_it_is, out, nodes or platform, judged)


def _columns(given: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Return `NAME=HEADER` texts as pairs. Raises BadArgument."""
    pairs = [text.partition("=") for text in given or ()]
    if bad := next((text for text, pair in zip(given or (), pairs, strict=True) if not (pair[0] and pair[2])), None):
        raise BadArgument("column", bad, "NAME=HEADER such as runtime=Elapsed")
    return tuple((name.strip(), header.strip()) for name, _, header in pairs)


def _print(log: "Quality") -> None:
    weeks = f"{len(log.weeks):,} {'week' if len(log.weeks) == 1 else 'weeks'}"
    users = f" of {log.users:,} {'user' if log.users == 1 else 'users'}" if log.users else ""
    machine = "" if log.cpus is None else f" on {log.cpus:,} cpus"
    _line(f"{log.name}: {counted(log.kept, 'job')}{users} in {weeks}{machine}")
    print()
    print_lines(_table(log))
    print()
    if log.status:
        shares = [f"{count / log.kept:.0%} {name}" for name, count in _most(log.status)]
        _line(f"status: {', '.join(shares)}")
    for text in log.named():
        _line(text)
    _print_weeks(log)
    sentences = log.sentences()
    for text in sentences[:SHOWN]:
        _line(text)
    if len(sentences) > SHOWN:
        _line(f"and {len(sentences) - SHOWN} more; --json has all")


def _table(log: "Quality") -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("", min_width=38)
    for head in ("jobs", "share"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("first", no_wrap=True, max_width=12, overflow="ellipsis")
    above = ""
    for kind, what, jobs, share, first in log.rows():
        texts = ["" if kind == above else kind, printable(what), f"{jobs:,}", _share(share, jobs), printable(first)]
        table.add_row(*map(Text, texts))
        above = kind
    return table


def _share(share: float | None, jobs: int) -> str:
    if share is None:
        return ""
    return "< 0.1%" if jobs and share < 0.0005 else f"{share:.1%}"


def _most(status: dict[str, int], shown: int = 4) -> list[tuple[str, int]]:
    """Return the most frequent statuses, and the others combined."""
    ranked = sorted(status.items(), key=lambda pair: -pair[1])
    rest = sum(count for _, count in ranked[shown:])
    return [*ranked[:shown], *([("other", rest)] if rest else [])]


def _print_weeks(log: "Quality") -> None:
    """Print submitted work and held processors by week as bar charts; in long logs a bar stands for several weeks."""
    weeks = log.weeks
    if not len(weeks):
        return
    each = -(-len(weeks) // COLUMNS)
    for what, values in (("submitted", weeks.work), ("held", weeks.held)):
        if values is not None:
            unit = "cpus" if log.cpus is None else f"of {log.cpus:,} cpus"
            shown = [f"{v:,.0f}" if log.cpus is None else f"{v / log.cpus:.0%}" for v in _extremes(values)]
            extremes = f" on average, from {shown[1]} to {shown[2]}" if len(values) > 1 else ""
            _line(f"load by week, {what}: {shown[0]} {unit}{extremes}")
            print(f"  {_bars(values, each, log.cpus)}")
    if each > 1:
        print(f"  {each} weeks to a bar")


def _extremes(values: "Floats") -> tuple[float, float, float]:
    return float(values.mean()), float(values.min()), float(values.max())


def _bars(values: "Floats", each: int, cpus: int | None) -> str:
    """Return one character for `each` weeks; a full one is all cpus, or the greatest value if these are not known."""
    means = [float(values[i : i + each].mean()) for i in range(0, len(values), each)]
    top = cpus or max(means) or 1
    return "".join(BARS[min(int(mean / top * len(BARS)), len(BARS) - 1)] for mean in means)


def _line(text: str) -> None:
    print(textwrap.fill(printable(text), 80, subsequent_indent="  ", break_on_hyphens=False))


def _following(file: str, as_it_is: bool, out: str | None, platform: str | None, judged: "Quality") -> None:
    """Print the next command: compare policies on the copy, or on the log if every verb can read it unchanged."""
    from backfill.traces.notes import REPEATED

    if out is None and (not as_it_is or any(f.what == REPEATED for f in judged.of("dropped"))):
        if file != "-":
            say.following(say.command("--out", f"{Path(file).name.partition('.')[0] or 'log'}-clean.csv"))
        return
    words = ["backfill", "compare", say.path(out or file), "--policy", "easy", "--policy", "conservative"]
    if platform is not None:
        words += ["--platform", platform]
    elif judged.cpus is None:
        words += ["--cpus", "N"]
    elif not suffix_of(out or file).startswith(".swf"):
        words += ["--cpus", str(judged.cpus)]
    say.following(shlex.join(words))
