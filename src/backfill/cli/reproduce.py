"""backfill reproduce: the experiments of a paper, its figures and its claims."""

import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.options import Cluster, Json, Quiet, Seed, Verbose, Workers, examples
from backfill.cli.output import print_json, print_lines
from backfill.cli.reproduce_pool import OfPool, check_pool, reproduce_on_pool
from backfill.model.errors import BadArgument, UsageError
from backfill.model.names import did_you_mean
from backfill.traces.files import make_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill.papers.claims import Claim

QUICK = 3  # replications
_COLOURS = {"holds": "green", "contradicted": "red", "undecided": "yellow", "fitted": "cyan"}


def known_papers(incomplete: str) -> list[str]:
    """Return the papers that the shell offers for completion."""
    from backfill.papers import PAPERS

    return [name for name in PAPERS if name.startswith(incomplete)]


@examples(
    "backfill reproduce",
    "backfill reproduce farm --out farm --workers 4",
    "backfill reproduce farm --quick",
    "backfill reproduce farm --sensitivity --cluster tcp://127.0.0.1:8786",
    "backfill reproduce two-tier --workers 2",
    "backfill reproduce ibb --log LANL-CM5-1994-4.1-cln.swf.gz --log METACENTRUM-2009-2.swf.gz --workers 2",
    "backfill reproduce ibb --pool htcondor --replications 1 --policy fcfs --policy ibb",
)
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]", help="The paper; without it, the papers are listed.", autocompletion=known_papers
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Output folder. [default: reproduced-PAPER]")
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="PATH", help="A log that the paper needs; repeatable."),
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option("--replications", metavar="N", help="Number of replications, instead of that of the paper."),
    ] = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    seed: Seed = 0,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also sweep the parameters and run the alternative readings.")
    ] = False,
    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="KIND", help="Run the 54 jobs of ibb on a real pool: htcondor."),
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="Run only this policy on a pool; repeatable.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", metavar="X", help="Factor of the run times on a pool. [default: 0.04]")
    ] = None,
    cycle: Annotated[
        str | None,
        typer.Option("--cycle", metavar="SPAN", help="On a pool, repeat IBB with one pass per SPAN; 0s: do not."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"Run {QUICK} replications only, for a first look.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Repeat a paper's experiments: draw its figures as PNG and SVG, and say of each claim whether it holds."""
    from backfill.papers import PAPERS

    if paper is None:
        known = {name: what for name, (_, what) in PAPERS.items()}
        if as_json:
            print_json({"schema": 1, "papers": known})
        else:
            print("\n".join(f"{name}: {what}" for name, what in known.items()))
        say.following("backfill reproduce PAPER --quick")
        return
    if paper not in PAPERS:
        raise UsageError(f"unknown paper {paper!r}; {did_you_mean(paper, PAPERS)}")
    if quick and replications is not None:
        raise UsageError("--quick is --replications 3; leave one of them out")
    own = OfPool(scale, tuple(policy or ()), cycle)
    others = {"--log": bool(log), "--workers": workers != 1, "--cluster": cluster is not None,
              "--sensitivity": sensitivity, "--quick": quick}  # fmt: skip
    check_pool(pool, paper, own, others)
    if replications is not None and replications < (2 if pool is None else 1):
        expected = (
            "a whole number >= 2, since a single one gives no interval" if pool is None else "a whole number >= 1"
        )
        raise BadArgument("replications", replications, expected)
    if pool is not None:
        folder = out or f"reproduced-{paper}-{pool}"
        _print(paper, folder, reproduce_on_pool(own, replications, seed, folder), as_json)
        return

    module = import_module(f"backfill.papers.{PAPERS[paper][0]}")

    from backfill.executors import executor
    from backfill.papers.asked import Asked
    from backfill.papers.logs import find
    from backfill.papers.write import write
    from backfill.policies import get
    from backfill.report.plots import check_plot

    check_plot()
    logs = find(module.LOGS, log or ())
    for name, each in logs.items():
        say.note(f"{name}: {each.file}")
    folder = out or f"reproduced-{paper}"
    with executor(workers, cluster) as where:
        make_folder(folder)
        with say.busy(f"preparing {paper}"):
            for name in module.NAMES:  # once here, so that worker processes need not compile
                _ = get(name).entry
        count = QUICK if quick else replications or module.REPLICATIONS
        with say.bar(f"reproduce {paper}", 1000) as bar:
            request = Asked(
                replications=count, seed=seed, sensitivity=sensitivity, quick=quick, logs=logs, executor=where,
                progress=None if bar is None else lambda done, of: bar(round(1000 * done / of)),
            )  # fmt: skip
            reproduction = module.reproduce(request)
    reproduction.provenance.update({"command": say.command(), "seed": str(seed), "replications": str(count)})
    reproduction.provenance.update({f"log {name}": each.title for name, each in logs.items()})
    write(reproduction, folder)
    _print(paper, folder, reproduction.claims, as_json)
    if count < module.REPLICATIONS:
        few = "quick look, which judges nothing: " if quick else "intervals are wider, and more claims undecided: "
        say.note(f"{few}{count} replications instead of {module.REPLICATIONS}")
    handed_over = [word for path in log or () for word in ("--log", path)]
    say.note(f"wrote {folder}/index.html, claims.json and {len(reproduction.figures)} figures as PNG, SVG and CSV")
    if count < module.REPLICATIONS:
        say.following(shlex.join(["backfill", "reproduce", paper, *handed_over, "--workers", "2"]))


def _print(paper: str, folder: str, claims: "Sequence[Claim]", as_json: bool) -> None:
    if as_json:
        print_json({"schema": 1, "paper": paper, "folder": folder, "claims": [claim.to_dict() for claim in claims]})
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim, with the measured value below it")
    for claim in claims:
        cell = Text(f"{claim.claim}\n").append(claim.measured, "dim")
        table.add_row(Text(claim.id), Text(claim.verdict, _COLOURS[claim.verdict]), cell)
    print_lines(table)
