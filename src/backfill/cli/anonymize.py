"""backfill anonymize: a workload without names, so that it can be shared."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs, read
from backfill.cli.options import Json, PlatformFile, Quiet, Verbose, examples
from backfill.cli.output import print_json, print_lines
from backfill.cli.platforms import beside, write_platform
from backfill.model.errors import UsageError
from backfill.model.units import counted

if TYPE_CHECKING:
    from rich.table import Table

    from backfill.model.workload import Workload
    from backfill.traces.anonymous import Replaced


@examples(
    "backfill anonymize jobs.csv --out share.csv",
    "backfill anonymize jobs.csv --platform jobs.toml --out share.csv --keep partition,qos",
    "backfill anonymize march.csv --out share.csv --aliases secret.csv",
    "backfill anonymize dumps --out share --aliases secret.csv",
)
def anonymize(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="A workload file (convert other logs with import first), or a folder of dumps."
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The copy; ends in .swf, .csv (.gz) or .parquet.")],
    platform: PlatformFile = None,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="KIND,...",
            help="Kinds of names to keep: partition, queue, qos, site, node, feature, licence, resource, status.",
        ),
    ] = "",
    aliases: Annotated[
        str | None,
        typer.Option(
            "--aliases",
            metavar="FILE.csv",
            help="Write the alias of each name to this CSV, and reuse those already in it. Do not share it.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Replace all names, keep everything that policies see, and print the numbers of replaced names.

    LOG may be the folder of a Slurm site's dumps; then FILE is a folder, too.
    """
    from backfill.traces.anonymous import Aliases, anonymous, anonymous_platform
    from backfill.traces.inventory import read_platform
    from backfill.traces.write import check_suffix, write

    if log.startswith("model:"):
        raise UsageError("a generated workload has no names to replace; give a file")
    kept = tuple(kind.strip() for kind in keep.split(",") if kind.strip())
    known = Aliases(keep=kept)
    if os.path.isdir(log):
        if platform is not None:
            raise UsageError("--platform cannot be combined with a folder of dumps, which has the nodes")
        _dumps(log, out, aliases, kept, as_json)
        return
    suffix = check_suffix(out)
    check_outputs({"the log": log, "the platform": platform}, out=out, aliases=aliases)
    machine = read_platform(platform) if platform else None
    nodes = beside(out, suffix) if machine is not None else None
    if aliases is not None and os.path.exists(aliases):
        known = Aliases.read(aliases, kept)
    resources = tuple(name for name in machine.resources if name != "cpus") if machine else ()
    workload = read(log, resources=resources, machines=machine)
    hidden = anonymous_platform(machine, known) if machine else None
    copy, replaced = anonymous(workload, known)
    write(copy, out)
    wrote = [f"wrote {out}: {len(copy):,} jobs"]
    if hidden is not None and nodes is not None:
        wrote.append(write_platform(hidden, nodes))
    if aliases is not None:
        known.write(aliases)
        wrote.append(f"wrote {aliases}: the alias of each name; do not share it")
    if as_json:
        files = {"out": out, "platform": nodes, "aliases": aliases}
        print_json({"schema": 1, **files, "jobs": len(copy), "replaced": [asdict(each) for each in replaced]})
    else:
        print_lines(_table(workload, replaced))
    for note in wrote:
        say.note(note)


def _dumps(folder: str, out: str, aliases: str | None, kept: "tuple[str, ...]", as_json: bool) -> None:
    """Write the dumps of a Slurm site without names."""
    from backfill.traces.anonymous import Aliases
    from backfill.traces.anonymous_dumps import anonymous_dumps

    if os.path.exists(out) and os.path.samefile(folder, out):
        raise UsageError(f"--out {out} is also the folder of the dumps; expected a different one")
    read = aliases is not None and os.path.exists(aliases)
    known = Aliases.read(str(aliases), kept) if read else Aliases(keep=kept)
    files = anonymous_dumps(folder, out, known)
    if aliases is not None:
        known.write(aliases)
    counts = {kind: len(names) for kind, names in known.known.items()}
    if as_json:
        print_json({"schema": 1, "out": out, "aliases": aliases, "files": files, "names": counts})
    else:
        print(f"replaced: {', '.join(f'{kind} {many:,}' for kind, many in counts.items())}")
    say.note(f"wrote {counted(len(files), 'file')} to {out}")


def _table(workload: "Workload", replaced: "list[Replaced]") -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("replaced")
    for head in ("names", "jobs"):
        table.add_column(head, justify="right")
    for each in replaced:
        table.add_row(each.kind, f"{each.names:,}", f"{each.jobs:,}")
    for note in workload.notes:
        if note.startswith("columns ignored: "):
            table.add_row(f"left out: {note.removeprefix('columns ignored: ')}", "", f"{len(workload):,}")
    return table
