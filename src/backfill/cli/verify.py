"""backfill verify: the independent checker on any schedule CSV."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from backfill.cli.inputs import inputs, windows_of_site
from backfill.cli.options import (
    EventsFile,
    Json,
    Log,
    Lost,
    Machine,
    Overrun,
    Part,
    Place,
    Quiet,
    Seed,
    Seen,
    Ties,
    Verbose,
    examples,
    grouped,
)
from backfill.cli.output import print_json
from backfill.cli.slurm_log import judge_log
from backfill.model.errors import NotLawful, UsageError


@examples(
    "backfill verify KTH-SP2.swf.gz out.csv",
    "backfill verify jobs.csv theirs.csv --cpus 64 --overrun extend",
    "backfill verify jobs.swf out.csv --events outages.csv --runs runs.csv",
    "backfill verify sacct.txt --slurmctld-log slurmctld.log --site dumps",
)
@grouped
def verify(
    *,
    log: Log,
    schedule: Annotated[
        str | None,
        typer.Argument(metavar="SCHEDULE", help="A CSV with job and start; other columns are checked if present."),
    ] = None,
    machine: Machine,
    part: Part,
    overrun: Overrun = "kill",
    ties: Ties = "batch",
    events: EventsFile = None,
    lost: Lost = "requeue",
    runs: Annotated[
        str | None, typer.Option("--runs", metavar="FILE", help="CSV of the runs, if jobs ran more than once.")
    ] = None,
    dangles: Annotated[
        bool, typer.Option("--dangles", help="Jobs may start before their predecessors have ended.")
    ] = False,
    place: Place = None,
    overhead: Annotated[
        float, typer.Option("--overhead", metavar="S", help="Seconds that each preemption adds to its job's run.")
    ] = 0.0,
    mpl: Annotated[
        int, typer.Option("--mpl", metavar="N", help="Rows of runs that may take turns on the processors.")
    ] = 1,
    switching: Annotated[
        float, typer.Option("--switching", metavar="SHARE", help="Share of each turn that the switch to it takes.")
    ] = 0.0,
    estimates: Seen = "requested",
    seed: Seed = 0,
    slurmctld_log: Annotated[
        str | None,
        typer.Option(
            "--slurmctld-log",
            metavar="FILE",
            help="Instead of SCHEDULE, with --site: a debug log of slurmctld, whose decisions are compared with those "
            "of the policy slurm. LOG is what sacct printed.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check a schedule, ours or another tool's, against its workload and platform."""
    if slurmctld_log is not None:
        if schedule is not None or machine.site is None:
            raise UsageError("--slurmctld-log needs --site DIR, and no SCHEDULE")
        judge_log(log, slurmctld_log, machine.site, as_json)
        return
    if schedule is None:
        raise UsageError("missing argument SCHEDULE; expected one, or --slurmctld-log FILE with --site DIR")
    if [log, schedule, runs].count("-") > 1:
        raise UsageError("only one of LOG, SCHEDULE and --runs can come from standard input")

    from backfill.model.partitions import PLACES
    from backfill.model.units import ROWS_MOST, SECOND
    from backfill.traces.events import read_events
    from backfill.worlds.options import Options

    if place not in (None, *PLACES):
        raise UsageError(f"--place is {place!r}; expected {' or '.join(PLACES)}")
    if not 0.0 <= overhead <= 1e9:
        raise UsageError(f"--overhead is {overhead:g}; expected seconds from 0 to 1e9")
    if not 1 <= mpl <= ROWS_MOST:
        raise UsageError(f"--mpl is {mpl}; expected 1 to {ROWS_MOST}")
    if not 0.0 <= switching < 1.0:
        raise UsageError(f"--switching is {switching:g}; expected a share from 0 to below 1")
    if mpl > 1 and runs is None:
        raise UsageError("--mpl needs the turns of each run; expected --runs FILE, which simulate --runs writes")
    read = None if events is None else read_events(events)
    options = Options.of(
        {"overrun": overrun, "ties": ties, "events": read, "lost": lost, "estimates": estimates, "seed": seed}
    )
    workload, pool = inputs(log, **vars(machine), **vars(part))
    if read is None:
        read = windows_of_site(machine.site, events, workload, pool)

    from backfill.analysis.verify import verify as check
    from backfill.model.events import events_of
    from backfill.traces.schedules import read_runs, read_schedule

    table = read_schedule(schedule)
    if runs is not None:
        table = replace(table, runs=read_runs(runs))
    rules: Any = {"overrun": options.overrun, "ties": options.ties, "lost": options.lost, "dangles": dangles}
    rules |= {"place": place or "power", "overhead": round(overhead * SECOND)}
    rules["sharing"] = (mpl, round(switching * 1e6))
    seen = options.estimates.of(workload.jobs, seed)
    violations = [
        str(each) for each in check(workload, pool, table, events=events_of(workload, read), seen=seen, **rules)
    ]
    if as_json:
        print_json({"schema": 1, "lawful": not violations, "jobs": len(workload), "violations": violations})
    else:
        for line in violations:
            print(line)
        if not violations:
            print(f"lawful: {len(workload):,} jobs checked")
    if violations:
        raise NotLawful(schedule)
