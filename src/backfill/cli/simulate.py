"""backfill simulate: one policy over one workload."""

import shlex
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs, inputs, say_load, windows_of_site
from backfill.cli.options import (
    Check,
    Json,
    Log,
    Machine,
    OnePolicy,
    Part,
    Quiet,
    Report,
    RunOptions,
    Save,
    Settings,
    Verbose,
    examples,
    grouped,
)
from backfill.cli.output import keep, print_json, print_table
from backfill.model.errors import NotLawful, UsageError
from backfill.traces.files import check_folder

if TYPE_CHECKING:
    from backfill.api import Result


@examples(
    "backfill simulate KTH-SP2.swf.gz",
    "backfill simulate jobs.csv --cpus 64 --policy conservative --verify --report out.html",
    "backfill simulate jobs.csv --platform farm.toml --policy k-reservations --set k=8",
    "backfill simulate 'model:lublin?jobs=10000&cpus=128' --policy easy-sjbf --json",
    "backfill simulate KTH-SP2.swf.gz --policy easy-sjbf --predict average2",
    "backfill simulate jobs.swf --policy mine.py:mine --schedule out.csv",
    "backfill simulate jobs.swf --events outages.csv --lost fail --runs runs.csv",
    "backfill simulate jobs.swf --policy conservative --explain 1042",
)
@grouped
def simulate(
    *,
    log: Log,
    machine: Machine,
    policy: OnePolicy = "easy",
    settings: Settings = None,
    part: Part,
    options: RunOptions,
    promise: Annotated[
        str | None,
        typer.Option(
            "--promise", metavar="JOB|PROJECT", help="Print each promise to this job or project, and why it changed."
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="JOB",
            help="Print why this job waited: what it needed, which jobs held that, which jobs passed it.",
        ),
    ] = None,
    check: Check = False,
    schedule: Annotated[
        str | None, typer.Option("--schedule", metavar="OUT.csv", help="Write the schedule; - is standard output.")
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(
            "--runs",
            metavar="OUT.csv",
            help="Write every run: a job that was requeued has several; - is standard output.",
        ),
    ] = None,
    as_json: Json = False,
    report: Report = None,
    save: Save = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run one policy over one workload, and print its metrics."""
    printed = [option for option, out in (("--schedule", schedule), ("--runs", runs)) if out == "-"]
    if len(printed) + as_json > 1:
        others = " and ".join([*(f"{option} -" for option in printed), *(["--json"] if as_json else [])])
        raise UsageError(f"{others} cannot both use standard output; give {printed[-1]} a file name")
    read = {"the log": log, "the events": options.events}
    files = {name: None if out == "-" else out for name, out in (("schedule", schedule), ("runs", runs))}
    check_outputs(read, **files, report=report)
    if save is not None:
        check_folder(save)

    from backfill.cli.phases import in_slurms_words, judged
    from backfill.cli.run import described, run
    from backfill.model.promises import subject
    from backfill.report.terminal import WIDTH
    from backfill.traces.schedules import write_runs, write_schedule

    spec = described(policy, options, settings or [], promise, explain)
    workload, pool = inputs(log, **vars(machine), **vars(part))
    spec = spec.under(windows_of_site(machine.site, options.events, workload, pool))
    if promise is not None:
        subject(workload, promise)
    if explain is not None:
        workload.row_of(explain, "explain")
    say_load(options.events, part.load)
    result = run(workload, pool, spec)
    for text in result.notes:
        say.note(text)
    violations = [str(violation) for violation in result.verify()] if check else []
    if schedule is not None:
        write_schedule(result.schedule, sys.stdout if schedule == "-" else schedule)
    if runs is not None:
        write_runs(result.schedule, sys.stdout if runs == "-" else runs)
    keep(result, report, save)
    faithful = judged(result, machine.site) if as_json or not printed else None  # it runs several simulations
    more: dict[str, object] = {"violations": violations} if check else {}
    story = in_slurms_words(result) if explain is not None and (as_json or not printed) else None
    if story is not None:
        more["slurm"] = story.to_dict()
    if as_json:
        print_json(result.to_dict() | more | ({"fidelity": faithful.to_dict()} if faithful else {}))
    elif not printed:
        _print(result)
        if story is not None:
            print("\nin Slurm's words")
            for text in story.text:
                print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))
            print()
        for text in faithful.sentences if faithful else ():
            print(text)
    if violations:
        for line in violations:
            say.problem(line)
        raise NotLawful(f"the schedule of {result.policy.name}")
    if check:
        say.note(f"lawful: {len(workload):,} jobs checked")
    sharing = result.policy.sharing(result.params)
    same: dict[str, object] = {
        **{f"--{name.replace('_', '-')}": value for name, value in (vars(machine) | vars(part)).items()},
        **{f"--{name}": getattr(options, name) for name in ("overrun", "ties", "events", "lost", "estimates", "seed")},
        "--runs": files["runs"],
        "--mpl": sharing[0] if sharing[0] > 1 else None,
        "--switching": sharing[1] / 1e6 if sharing[0] > 1 else None,
        "--dangles": result.policy.dangles and len(workload.jobs.after.items) > 0,
    }
    usual = (vars(Part()) | vars(RunOptions())).items()
    same = {
        option: value
        for option, value in same.items()
        if value not in (None, False) and (option[2:].replace("-", "_"), value) not in usual
    }
    _following(log, schedule, report, same, _goes_on(result) and not files["runs"])


def _print(result: "Result") -> None:
    print_table([(result.policy.name, result.metrics)], ", ".join([result.title, *result.variant]))
    if result.happened is not None:
        print(f"\n{result.happened.sentence}")
    if result.replay is not None:
        print(f"\n{result.replay.short(result.unit)}")
    if result.watched is not None:
        from backfill.model.promises import OF_PROJECT, subject

        project = subject(result.workload, result.watched)[0] is None
        who = f"project {result.watched.removeprefix(OF_PROJECT)}" if project else f"job {result.watched}"
        changes = result.promise_history(result.watched)
        for change in changes:
            print(f"{who}: {change.sentence(result.workload, project)}")
        if not changes:
            print(f"{who} was promised no {'departure' if project else 'start'}")
    if result.spec.explained is not None:
        print(f"\n{result.explain(result.spec.explained)}")


def _goes_on(result: "Result") -> bool:
    """Return whether runs share processors, or go on after a preemption: then start and end do not make a schedule."""
    policy, params = result.policy, result.params
    return policy.sharing(params)[0] > 1 or (policy.preempts and policy.in_full(params).get("how") != "requeue")


def _following(log: str, schedule: str | None, report: str | None, same: dict[str, object], runs: bool) -> None:
    """Print the command that is useful next, unless it would need standard input again.

    runs: whether the file of the schedule can only be verified with one of the runs, which was not written.
    """
    if log == "-":
        return
    if schedule not in (None, "-") and runs:
        say.following(say.command("--runs", "runs.csv"))
    elif schedule not in (None, "-"):
        words = [text for key, value in same.items() for text in ([key] if value is True else [key, str(value)])]
        say.following(shlex.join(["backfill", "verify", say.path(log), say.path(str(schedule)), *words]))
    elif report is None:
        say.following(say.command("--report", "out.html"))
