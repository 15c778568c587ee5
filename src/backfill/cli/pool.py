"""backfill pool: commands about the pool of a queue, in particular a batch system."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.commands import Commands
from backfill.cli.held import adopt, release_all, setup, show, watchdog
from backfill.cli.options import Json, Quiet, Verbose, examples, known_policies
from backfill.cli.output import print_compared, print_json
from backfill.model.errors import UsageError
from backfill.model.units import counted
from backfill.system.home import home

if TYPE_CHECKING:
    from backfill.analysis.fidelity import Fit
    from backfill.pool_report import PoolReport, Watched

pool = typer.Typer(
    cls=Commands,
    help="Commands about the pool of a queue: how it starts jobs, and what another policy would change.",
    rich_markup_mode=None,
)


@examples(
    "backfill pool report",
    "backfill pool report -o pool.html",
    "backfill pool report --queue shadow/ --policies easy,easy-sjbf,k-reservations:k=10 -o pool.html",
    "backfill pool report --json",
)
def report(
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="FOLDER", help="The folder of the queue. [default: $BACKFILL_HOME]"),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policies",
            "--policy",
            metavar="NAME,...",
            help="Policies to compare with the model of the pool, NAME[:KEY=VALUE,...] each. "
            "[default: easy,easy-sjbf,conservative]",
            autocompletion=known_policies,
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--models", metavar="NAME,...", help="Policies to try as models of the pool, besides the usual."),
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--report", metavar="OUT.html", help="Write an HTML page.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Report how faithfully a model simulates the pool that a queue has watched, and what other policies would change.

    The model, a policy and a dead time after each run, is fitted on the first half of the observed time and judged on
    the second. If its mean wait is more than 10% off there, the report is "not conclusive" and says why.
    """
    from backfill.cli.inputs import check_outputs

    check_outputs({}, report=out)
    chosen, tried = _listed(policies), _listed(models)
    from backfill.cli.run import compare_all, engine

    watched, own, notes = _watched(Path(queue or home()))
    engine()
    from backfill.pool_report import reported, to_compare

    found = _fitted(watched, [*own, *tried])
    specs = to_compare(watched, found, chosen)
    if len(specs) < 2:
        raise UsageError(f"--policies names only the model itself, {specs[0].name}; expected another policy")
    comparison = compare_all(watched.with_waits(found.model), watched.platform, specs)
    result = reported(watched, found, comparison, notes)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
    for note in result.notes:
        say.note(note)
    if out is not None:
        result.report(out, say.command())
        say.note(f"wrote {out}")
    if comparison.interrupted:
        say.note(comparison.interrupted)
        raise typer.Exit(130)
    if out is None:
        say.following(say.command("-o", "pool.html"))
    elif found.conclusive:
        best = min(zip(comparison.names, comparison.metrics, strict=True), key=lambda one: one[1]["mean_wait_s"] or 0)
        say.following(f"backfill policies {best[0].partition(':')[0]}")
    else:
        say.following("backfill pool report --models NAME, once more is observed")


def _watched(folder: Path) -> "tuple[Watched, list[str], list[str]]":
    """Return the workload of a queue, the policies that it used, and notes on what its log could not represent."""
    from backfill.answers.advice import advice_text
    from backfill.answers.history import FOREIGN, opened, recorded
    from backfill.pool_report import Watched

    store = opened(folder)
    try:
        with say.busy(f"reading the log of {folder}"):
            jobs = store.jobs()
            exported = recorded(store.events(), [job.id for job in jobs])
    finally:
        store.close()
    notes = [f"{counted(count, 'job')} {why}" for why, count in exported.left_out.items() if why != FOREIGN]
    notes += advice_text(jobs)
    watched = Watched.of(exported.workload, exported.platform, exported.started, exported.events)
    return watched, list(dict.fromkeys(reversed(exported.policies))), notes


def _fitted(watched: "Watched", more: list[str]) -> "Fit":
    """Fit the model, with a progress bar."""
    from backfill.cli.run import compile_one
    from backfill.pool_report import fit_model, models_for

    models = models_for(watched.workload, more)
    for model in models:
        compile_one(watched.spec(model).policy)
    steps = 1000
    with say.bar("fitting a model", steps) as bar:
        return fit_model(watched, models, None if bar is None else lambda done, of: bar(round(steps * done / of)))


def _print(result: "PoolReport") -> None:
    from backfill.report.compared import losers_text
    from backfill.report.fidelity import fidelity_text

    comparison = result.comparison
    fit = result.fit.to_dict()
    print(comparison.on[0])
    print()
    for line in fidelity_text(fit):
        print(line)
    print()
    if not result.fit.conclusive:
        print("not conclusive; the policies below differ so in the simulation of that model:")
        print()
    for line in losers_text(comparison.fairness, comparison.unit):
        print(line)
    print()
    print_compared(comparison, losers=False)


def _listed(given: list[str] | None) -> list[str]:
    """Split a list of policies at commas, except those between the parameters of a policy."""
    found: list[str] = []
    for part in (part for text in given or () for part in text.split(",")):
        if found and "=" in part and ":" not in part.partition("=")[0]:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return found


verb: Any
for verb in (report, show, setup, adopt, release_all, watchdog):
    pool.command(verb.__name__.replace("_", "-"), epilog=verb.examples)(verb)
