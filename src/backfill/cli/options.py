"""Options that several verbs share."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from backfill.cli import say


def examples(*lines: str) -> Callable[[Any], Any]:
    """Add examples to the end of a verb's help."""

    def add(verb: Any) -> Any:
        verb.examples = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return verb

    return add


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a group below by the options of that group."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    def options() -> Iterator[inspect.Parameter]:
        for each in inspect.signature(verb).parameters.values():
            if each.name not in groups:
                yield each.replace(annotation=hints[each.name], kind=each.KEYWORD_ONLY)
            else:
                kinds = get_type_hints(groups[each.name], include_extras=True)
                for one in fields(groups[each.name]):
                    yield each.replace(name=one.name, default=one.default, annotation=kinds[one.name])

    @wraps(verb)
    def called(**given: Any) -> None:
        made: dict[str, Any] = {}
        for name, kind in groups.items():
            made[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        verb(**given, **made)

    shown = [*options()]
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in shown}
    return called


def known_policies(incomplete: str) -> list[str]:
    """Return the policies that the shell offers for completion; nothing is compiled."""
    from backfill.packaged import packaged
    from backfill.policies import TABLE

    return [name for name in (*TABLE, *packaged()) if name.startswith(incomplete)]


def known_models(incomplete: str) -> list[str]:
    """Return the models that the shell offers for completion."""
    from backfill.workloads import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]


Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="A file (.swf, .swf.gz, .csv, .csv.gz, .parquet), - for standard input, model:NAME?key=value&..., or "
        "sample:itp, which comes with backfill.",
    ),
]
PlatformFile = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="FILE",
        help="Nodes, licences, partitions: TOML, or what scontrol, sinfo, pbsnodes or condor_status print.",
    ),
]
Site = Annotated[
    str | None,
    typer.Option(
        "--site",
        metavar="DIR",
        help="A folder with what scontrol, sacctmgr and sshare print: nodes, partitions and rules of a Slurm, "
        "for the policy slurm.",
    ),
]
Cpus = Annotated[
    int | None, typer.Option("--cpus", metavar="N", help="Total number of processors, instead of --platform.")
]
Nodes = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", help="Number of equal nodes that share the processors. [default: 1]"),
]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Total memory, for instance 64G.")]
JobCount = Annotated[int | None, typer.Option("--jobs", metavar="N", help="Keep the first N jobs.")]
Load = Annotated[float | None, typer.Option("--load", metavar="F", help="Divide inter-arrival times by F.")]
DeadTime = Annotated[
    str | None,
    typer.Option(
        "--dead-time",
        metavar="SPAN",
        help="Time for which each run holds its nodes after its end, for instance 1s: the overhead of a real pool.",
    ),
]
ZeroRun = Annotated[
    str, typer.Option("--zero-run", metavar="RULE", help="Jobs of run time 0: keep, drop-cancelled or drop.")
]
Seen = Annotated[
    str,
    typer.Option(
        "--estimates",
        metavar="KIND",
        help="What policies see as walltime: requested, exact, inflate:F, uniform:F, within:E, lognormal:S, over:S, "
        "under:S or user-bias:S. Jobs are killed at the requested walltime all the same.",
    ),
]
Predict = Annotated[
    str | None,
    typer.Option(
        "--predict",
        metavar="RULE",
        help="Plan by predicted run times: average2, regression, history or FILE.py:NAME, and behind it "
        ":correct=reqtime, incremental or doubling. Jobs are killed at the walltime; no start is promised.",
    ),
]
Overrun = Annotated[
    str,
    typer.Option("--overrun", metavar="RULE", help="At its walltime a job is killed (kill) or keeps running (extend)."),
]
EventsFile = Annotated[
    str | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Outages, maintenance windows, cancelled jobs: CSV or JSON lines. --load does not move their times.",
    ),
]
Lost = Annotated[
    str,
    typer.Option(
        "--lost", metavar="RULE", help="A job whose run is lost with its node waits again (requeue) or fails (fail)."
    ),
]
Cancelled = Annotated[
    str,
    typer.Option(
        "--cancelled",
        metavar="RULE",
        help="Cancelled jobs of run time 0 run for 0 s (run), or leave after their recorded wait (leave).",
    ),
]
Think = Annotated[
    bool,
    typer.Option(
        "--think", help="SWF: submit jobs by fields 17 and 18 (preceding job, think time), not at the recorded time."
    ),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="RULE",
        help="How jobs are placed: power (most powerful first), pack (least free first), spread, contiguous or "
        "exclusive (whole nodes). A partition of the platform may set its own. [default: power]",
    ),
]
Ties = Annotated[str, typer.Option("--ties", metavar="RULE", help="One pass per instant (batch) or per event (step).")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
Warmup = Annotated[
    str,
    typer.Option(
        "--warmup", metavar="SPAN|N", help="Leave the first jobs out of the metrics: a number, or a span such as 2d."
    ),
]
Cooldown = Annotated[
    str,
    typer.Option(
        "--cooldown", metavar="SPAN|N", help="Leave the last jobs out of the metrics: a number, or a span such as 2d."
    ),
]
Workers = Annotated[int, typer.Option("--workers", metavar="N", help="Number of worker processes.")]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ADDRESS", help="Address of a running Dask scheduler, instead of --workers."),
]
OnePolicy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="NAME[:KEY=VALUE,...] or FILE.py:NAME; `backfill policies` lists them.",
        autocompletion=known_policies,
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the policy; repeatable.")
]
Check = Annotated[bool, typer.Option("--verify", help="Check the schedule independently; exit 5 if it fails.")]
Save = Annotated[
    str | None, typer.Option("--save", metavar="DIR", help="Save the result in a folder, for `backfill report DIR`.")
]
SaveRuns = Annotated[
    str | None,
    typer.Option(
        "--save",
        metavar="DIR",
        help="Save the result in a folder, for `backfill report DIR`, and before it each run as soon as it has "
        "finished: the same command goes on where it stopped.",
    ),
]
Report = Annotated[str | None, typer.Option("--report", metavar="OUT.html", help="Write an HTML page.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=say.be_quiet, help="Print errors only.")]
Verbose = Annotated[bool, typer.Option("--verbose", callback=say.be_verbose, help="Show the full cause of an error.")]


@dataclass(frozen=True)
class Machine:
    """The platform: a file, the dumps of a site, or its size."""

    platform: PlatformFile = None
    site: Site = None
    cpus: Cpus = None
    nodes: Nodes = None
    memory: Memory = None


@dataclass(frozen=True)
class Part:
    """The options that select jobs of the log, scale their arrivals, and say how to treat special ones."""

    jobs: JobCount = None
    load: Load = None
    dead_time: DeadTime = None
    zero_run: ZeroRun = "keep"
    cancelled: Cancelled = "run"
    think: Think = False


@dataclass(frozen=True)
class RunOptions:
    """The options of a run besides its policy; their names are those of `backfill.spec.Given`."""

    place: Place = None
    estimates: Seen = "requested"
    predict: Predict = None
    overrun: Overrun = "kill"
    ties: Ties = "batch"
    events: EventsFile = None
    lost: Lost = "requeue"
    seed: Seed = 0
    warmup: Warmup = "0"
    cooldown: Cooldown = "0"
