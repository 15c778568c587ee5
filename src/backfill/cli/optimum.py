"""backfill optimum: the best schedule that a small workload can have, or a bound for a long one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs, inputs, windows_of_site
from backfill.cli.options import (
    Json,
    Log,
    Machine,
    Overrun,
    Part,
    Quiet,
    Seed,
    Verbose,
    examples,
    grouped,
    known_policies,
)
from backfill.cli.output import print_json
from backfill.model.errors import NotLawful, UsageError

if TYPE_CHECKING:
    from backfill.optima import Optimum

TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="For each instance, in seconds that the solver counts by its steps: the same answer on any machine. "
        "When it is over, the best schedule found and a proven bound remain.",
    ),
]


@examples(
    "backfill optimum jobs.csv --cpus 64",
    "backfill optimum KTH-SP2.swf.gz --jobs 40 --objective makespan --schedule best.csv",
    "backfill optimum KTH-SP2.swf.gz --jobs 2000 --window 40 --time-limit 5",
)
@grouped
def optimum(
    *,
    log: Log,
    machine: Machine,
    objective: Annotated[
        str,
        typer.Option(
            "--objective", metavar="NAME", help="mean-wait, makespan or weighted-bounded-slowdown (by processors)."
        ),
    ] = "mean-wait",
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            metavar="N",
            help="Take N jobs at a time, in order of submit: a bound for a log that is too long for one instance.",
        ),
    ] = None,
    time_limit: TimeLimit = 60.0,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="The policy whose schedule the solver begins with.",
            autocompletion=known_policies,
        ),
    ] = "easy",
    part: Part,
    overrun: Overrun = "kill",
    seed: Seed = 0,
    schedule: Annotated[
        str | None, typer.Option("--schedule", metavar="OUT.csv", help="Write the best schedule that was found.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find the best schedule that knows every run time in advance, or prove how good any schedule can be."""
    check_outputs({"the log": log}, schedule=schedule)
    if schedule is not None and window is not None:
        raise UsageError("--schedule needs one instance; --window gives a bound and no schedule")
    from backfill.analysis.optimum.solver import check_installed
    from backfill.cli.run import engine
    from backfill.optima import check_arguments

    check_arguments(objective, window, time_limit)
    check_installed()
    workload, pool = inputs(log, **vars(machine), **vars(part))
    engine()
    best = _found(
        workload,
        pool,
        {
            "objective": objective,
            "window": window,
            "time_limit": time_limit,
            "seed": seed,
            "overrun": overrun,
            "policy": policy,
            "events": windows_of_site(machine.site, None, workload, pool),
        },
    )
    for text in best.base.notes:
        say.note(text)
    if best.pooled:
        say.note("jobs x nodes are too many to place one by one: the nodes count as one, so this is a bound only")
    if violations := best.verify():
        for violation in violations:
            say.problem(str(violation))
        raise NotLawful("the schedule of the solver")
    if schedule is not None:
        best.write(schedule)
        say.note(f"wrote {schedule}")
    if as_json:
        print_json(best.to_dict())
    else:
        print(best.summary())


def _found(workload: Any, pool: Any, given: dict[str, Any]) -> "Optimum":
    """Return the optimum, with a progress bar over the windows; for one instance only a message is printed."""
    from backfill.optima import optimum as find

    if given["window"] is None:
        with say.busy("searching the best schedule"):
            return find(workload, pool, **given)
    with say.bar("windows", len(workload)) as bar:
        return find(workload, pool, progress=None if bar is None else lambda done: bar(round(done)), **given)
