"""Options that several verbs share."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from backfill.cli import say


def examples(*lines: str) -> Callable[[Any], Any]:
    """Examples for the end of a verb's help."""

    def add(verb: Any) -> Any:
        verb.examples = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return verb

    return add


def known_policies(incomplete: str) -> list[str]:
    """For the shell to complete. The names are read where they stand; nothing is compiled."""
    from backfill.policies import TABLE

    return [name for name in TABLE if name.startswith(incomplete)]


def known_models(incomplete: str) -> list[str]:
    """For the shell to complete."""
    from backfill.workloads import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]


Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A file (.swf, .swf.gz, .csv, .csv.gz, .parquet), - for standard input, or model:NAME?key=value&...",
    ),
]
PlatformFile = Annotated[str | None, typer.Option("--platform", metavar="FILE", help="Platform TOML: nodes, licences.")]
Cpus = Annotated[int | None, typer.Option("--cpus", metavar="N", help="Processors in all, instead of --platform.")]
Nodes = Annotated[int | None, typer.Option("--nodes", metavar="N", help="Equal nodes that share them. [default: 1]")]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Memory in all, for instance 64G.")]
JobCount = Annotated[int | None, typer.Option("--jobs", metavar="N", help="Keep the first N jobs.")]
Load = Annotated[float | None, typer.Option("--load", metavar="F", help="Divide inter-arrival times by F.")]
ZeroRun = Annotated[
    str, typer.Option("--zero-run", metavar="RULE", help="Jobs of run time 0: keep, drop-cancelled or drop.")
]
Seen = Annotated[
    str,
    typer.Option(
        "--estimates",
        metavar="KIND",
        help="What policies see as walltime: requested, exact, inflate:F or uniform:F. Kills stay as they are.",
    ),
]
Overrun = Annotated[
    str, typer.Option("--overrun", metavar="RULE", help="At its walltime a job is killed (kill) or stays (extend).")
]
Ties = Annotated[str, typer.Option("--ties", metavar="RULE", help="One pass per instant (batch) or per event (step).")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is drawn.")]
Warmup = Annotated[str, typer.Option("--warmup", metavar="SPAN|N", help="Leave the first jobs out of the metrics.")]
Cooldown = Annotated[str, typer.Option("--cooldown", metavar="SPAN|N", help="Leave the last jobs out of the metrics.")]
Workers = Annotated[int, typer.Option("--workers", metavar="N", help="Processes that share the work.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="A running Dask cluster, instead of --workers.")
]
Check = Annotated[bool, typer.Option("--verify", help="Check the schedule independently; exit 5 if it fails.")]
Save = Annotated[str | None, typer.Option("--save", metavar="DIR", help="Keep the result, for `backfill report DIR`.")]
Report = Annotated[str | None, typer.Option("--report", metavar="OUT.html", help="Write an HTML page.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=say.be_quiet, help="Say nothing but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", callback=say.be_verbose, help="Tell the full cause of an error.")]
