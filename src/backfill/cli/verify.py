"""backfill verify: the independent checker on any schedule CSV."""

from typing import Annotated, Any

import typer

from backfill.cli.inputs import inputs
from backfill.cli.options import (
    Json,
    Log,
    Machine,
    Overrun,
    Part,
    Quiet,
    Verbose,
    ZeroRun,
    examples,
    grouped,
)
from backfill.cli.output import print_json
from backfill.model.errors import NotLawful, UsageError


@examples(
    "backfill verify KTH-SP2.swf.gz out.csv",
    "backfill verify jobs.csv theirs.csv --cpus 64 --overrun extend",
)
@grouped
def verify(
    *,
    log: Log,
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="A CSV with job and start; other columns are checked if present.")
    ],
    machine: Machine,
    part: Part,
    overrun: Overrun = "kill",
    zero_run: ZeroRun = "keep",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check a schedule, ours or another tool's, against its workload and platform."""
    if log == schedule == "-":
        raise UsageError("only one of LOG and SCHEDULE can come from standard input")

    from backfill.worlds.options import Options

    rule: Any = Options(overrun=overrun).overrun
    workload, pool = inputs(log, zero_run=zero_run, **vars(machine), **vars(part))

    from backfill.analysis.verify import verify as check
    from backfill.traces.schedules import read_schedule

    violations = [str(violation) for violation in check(workload, pool, read_schedule(schedule), overrun=rule)]
    if as_json:
        print_json({"schema": 1, "lawful": not violations, "jobs": len(workload), "violations": violations})
    else:
        for line in violations:
            print(line)
        if not violations:
            print(f"lawful: {len(workload):,} jobs checked")
    if violations:
        raise NotLawful(schedule)
