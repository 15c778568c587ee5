"""backfill compare: several policies over the same workload."""

from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import Replicated, check_outputs, inputs, say_load, windows_of_site
from backfill.cli.options import (
    Check,
    Cluster,
    Json,
    Log,
    Machine,
    Part,
    Quiet,
    Report,
    RunOptions,
    SaveRuns,
    Verbose,
    Workers,
    examples,
    grouped,
    known_policies,
)
from backfill.cli.output import USUAL, keep, print_compared, print_json
from backfill.cli.shards import INTERRUPTED, check_save, opened, run_share, say_kept
from backfill.model.errors import BadArgument, NotLawful, UsageError

if TYPE_CHECKING:
    from backfill.comparison import Comparison
    from backfill.executors import Where


@examples(
    "backfill compare KTH-SP2.swf.gz --policy fcfs --policy easy --policy conservative",
    "backfill compare jobs.csv --cpus 64 --policy easy --policy k-reservations:k=8 --report out.html",
    "backfill compare 'model:lublin?jobs=5000&cpus=128' --policy easy --policy easy-sjbf --replications 20 --workers 4",
    "backfill compare jobs.csv --cpus 64 --policy easy --policy conservative --sweep exact,lognormal:0.5,lognormal:1",
    "backfill compare KTH-SP2.swf.gz --policy easy --policy easy-sjbf --sweep requested,average2,regression,history",
    "backfill compare jobs.csv --cpus 64 --policy easy --policy fcfs --sweep exact,requested --shard 3/20 --save runs",
    "backfill compare 'model:farm' --policy bf-fcfs --policy bf-mod --replications 100 --cluster tcp://127.0.0.1:8786",
)
@grouped
def compare(
    *,
    log: Log,
    machine: Machine,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="NAME[:KEY=VALUE,...] or FILE.py:NAME[:KEY=VALUE,...]; twice or more. The first is the baseline. "
            f"Without any: {', '.join(USUAL)}.",
            autocompletion=known_policies,
        ),
    ] = None,
    part: Part,
    options: RunOptions,
    replications: Annotated[
        int,
        typer.Option(
            "--replications", metavar="N", help="Generate N workloads from a model, with seeds seed, seed + 1, ..."
        ),
    ] = 1,
    workers: Workers = 1,
    cluster: Cluster = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            "--sweep",
            metavar="KIND,KIND,...",
            help="Compare under each of these --estimates or --predict; the first is the baseline.",
        ),
    ] = None,
    optimum: Annotated[
        int | None,
        typer.Option(
            "--optimum",
            metavar="N",
            help="Search the best possible schedule on N windows of 40 jobs: how far is each policy above it? "
            "Needs backfill[optimum].",
        ),
    ] = None,
    phases: Annotated[
        int | None,
        typer.Option(
            "--phases",
            metavar="N",
            help="With --site and several --policy slurm: phases of Slurm's clocks for the noise floor, usually 6.",
        ),
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option("--figures", metavar="DIR", help="With --sweep: folder for its figures, as PNG, SVG and CSV."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Carry out the I-th of N shares of the runs, into the folder of --save. `backfill report DIR...` "
            "merges the shares.",
        ),
    ] = None,
    check: Check = False,
    as_json: Json = False,
    report: Report = None,
    save: SaveRuns = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run several policies on one workload: differences with intervals, who waits longer, distance to the optimum."""
    for option, count in (
        ("replications", replications),
        ("workers", workers),
        ("phases", 1 if phases is None else phases),
    ):
        if count < 1:
            raise BadArgument(option, count, "a whole number >= 1")
    if replications > 1 and not log.startswith("model:"):
        raise UsageError(f"--replications {replications} needs a generated workload, model:NAME?...")
    check_outputs({"the log": log, "the events": options.events}, report=report)
    share = check_save(
        save, shard, {"report": report, "figures": figures, "optimum": optimum is not None, "verify": check}
    )

    from backfill.cli.run import all_described, compare_all, engine
    from backfill.executors import executor
    from backfill.spec import names

    specs = all_described(policies or USUAL, options)
    if optimum is not None:
        from backfill.distances import check as check_windows

        if sweep is not None:
            raise UsageError("--optimum cannot be combined with --sweep")
        check_windows(optimum)
    if sweep is not None:
        from backfill.cli.sweep import check_sweep

        check_sweep(specs, sweep, figures, options, {"verify": check})
    elif figures is not None:
        raise UsageError("--figures can only be used with --sweep")
    else:
        names(specs)
    runs = len(specs) * replications * (1 if sweep is None else len(sweep.split(",")))
    with executor(workers, cluster, imports="backfill.runs", tasks=runs) as where:
        workload, pool = inputs(log, **vars(machine), **vars(part))
        windows = windows_of_site(machine.site, options.events, workload, pool)
        specs = [spec.under(windows) for spec in specs]
        say_load(options.events, part.load)
        drawn = Replicated(log, options.seed, **vars(part)) if replications > 1 else workload
        platform = None if workload.platform is pool else pool
        if not policies:
            say.note(f"policies: {', '.join(USUAL)}; --policy chooses others")
            say.note("`backfill policies` says at its end which policies to compare for which question")
        saved, kinds = None, sweep.split(",") if sweep is not None else []
        if save is not None:
            engine()
            from backfill.estimate_sweep import kinds_of, variants

            kinds = kinds_of(kinds) if kinds else []
            saved = opened(drawn, platform, specs, kinds, replications, save, share)
            if share is not None:
                run_share(drawn, platform, variants(specs, kinds) or [specs], share, saved, where, as_json)
                return
        if sweep is not None:
            from backfill.cli.sweep import compare_under

            swept = compare_under(drawn, platform, specs, sweep, replications, where, as_json, figures, saved)
            keep(swept, report, None if swept.interrupted else save)
            if swept.interrupted:
                say.note(swept.interrupted)
                if saved is not None:
                    say_kept(saved)
                raise typer.Exit(INTERRUPTED)
            return
        comparison = compare_all(drawn, platform, specs, replications, where, saved)
        if optimum is not None and not comparison.interrupted:
            with say.bar("windows", optimum) as bar:
                progress = None if bar is None else lambda done: bar(round(done))
                comparison = comparison.with_optimum(optimum, where, progress)
        comparison = with_settings(comparison, phases, where)
    for text in comparison.notes:
        say.note(text)
    lawless = _lawless(comparison) if check else []
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_compared(comparison)
    keep(comparison, report, None if comparison.interrupted else save)
    if lawless:
        raise NotLawful(f"the schedule of {', '.join(lawless)}")
    if check:
        say.note(f"lawful: {len(comparison.results)} schedules of {len(workload):,} jobs checked")
    if comparison.interrupted:
        if saved is not None:
            say_kept(saved)
        raise typer.Exit(INTERRUPTED)
    if report is None and log != "-":
        say.following(say.command("--report", "out.html"))


def with_settings(comparison: "Comparison", phases: int | None, where: "Where") -> "Comparison":
    """Return a comparison of settings of a site's Slurm with their effect; any other comparison as it is."""
    from backfill.settings import PHASES, is_of_settings

    if comparison.interrupted or len(comparison.replicated[0]) > 1 or not is_of_settings(comparison.results):
        if phases is not None:
            raise UsageError("--phases needs --site DIR, and --policy slurm twice or more with other settings")
        return comparison
    count = phases or PHASES
    with say.bar("phases", len(comparison.results) * count) as bar:
        progress = None if bar is None else lambda done: bar(round(done))
        return comparison.with_settings(count, where, progress)


def _lawless(comparison: "Comparison") -> list[str]:
    """Return the policies whose schedules the independent checker rejects, and print the violations."""
    lawless = []
    for name, result in zip(comparison.names, comparison.results, strict=True):
        if violations := result.verify():
            lawless.append(name)
            for violation in violations:
                say.problem(f"{name}: {violation}")
    return lawless
