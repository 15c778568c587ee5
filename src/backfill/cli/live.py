"""The verbs of the live queue: those of its light client, which are only declared here, and the replay."""

import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, examples, known_policies
from backfill.client.options import VERBS, Option
from backfill.model.errors import BackfillError
from backfill.model.units import SECOND, counted
from backfill.system.home import home

if TYPE_CHECKING:
    from backfill.queue.job import Job

OVER_TOO = ("show", "log", "wait")  # verbs that also accept ended jobs
LATELY = 50  # number of ended jobs offered for completion


class Differs(BackfillError):
    """A replayed decision differs from the recorded one."""

    exit_code = 5


def light(verb: str) -> Callable[..., None]:
    """Return a stub for a verb of the light client, for the list of verbs and for shell completion.

    `main` runs the light client before typer reaches the stub.
    """

    def run(**given: Any) -> None:
        raise AssertionError(verb)

    shown = [_shown(option) for option in VERBS[verb].options]
    kind: Any
    if "ID" in VERBS[verb].usage:
        complete = partial(known_jobs, over=verb in OVER_TOO)
        kind = Annotated[list[str] | None, typer.Argument(metavar="ID...", autocompletion=_named(complete))]
        shown.append(inspect.Parameter("ids", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    elif verb == "submit":
        kind = Annotated[list[str] | None, typer.Argument(metavar="COMMAND...")]
        shown.append(inspect.Parameter("command", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    run.__name__, run.__doc__ = verb, VERBS[verb].help
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    return run


def _shown(option: Option) -> inspect.Parameter:
    """Return an option of the light client as a typer parameter."""
    complete = {"policy": known_policies, "name": known_names}.get(option.key)
    more: dict[str, Any] = {"autocompletion": complete} if complete and option.read is not None else {}
    typed: Any = typer.Option(*option.each, help=option.help, **more)
    kind: Any = Annotated[bool, typed] if option.read is None else Annotated[str | None, typed]
    name, default = f"option_{option.each[-1].lstrip('-').replace('-', '_')}", False if option.read is None else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _named(complete: Callable[[str], list[tuple[str, str]]]) -> Callable[[str], list[tuple[str, str]]]:
    """Wrap a completion function, since typer inspects its signature."""

    def named(incomplete: str) -> list[tuple[str, str]]:
        return complete(incomplete)

    return named


def known_jobs(incomplete: str, over: bool = False) -> list[tuple[str, str]]:
    """Return open jobs, and the last ended ones if wanted, with names and states; no daemon is started for this."""
    jobs = _jobs(LATELY if over else 0)
    return [(job.label, f"{job.name} {job.state}") for job in jobs if job.label.startswith(incomplete)]


def known_names(incomplete: str) -> list[str]:
    """Return the names of open jobs."""
    return sorted({job.name for job in _jobs(0) if job.name.startswith(incomplete)})


def _jobs(over: int) -> "list[Job]":
    from backfill.queue.store import Store, StoreError

    path = Path(home()) / "store.db"
    if not path.exists():
        return []
    try:
        store = Store(path, readonly=True)
        return [*store.jobs("end_us IS NULL"), *(store.ended(over)[::-1] if over else [])]
    except StoreError:  # no completion if the store cannot be read
        return []


@examples("backfill replay ~/.local/state/backfill/queue --check", "backfill replay queue/ --policy easy --policy fcfs")
def replay(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of a queue ($BACKFILL_HOME).")],
    check: Annotated[bool, typer.Option("--check", help="Exit with 5 if a decision differs from the log.")] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show the waits that jobs would have had under this policy."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a recorded queue: make every decision again, and simulate its jobs."""
    from backfill.answers import replay as recorded

    epochs_read = recorded.epochs(Path(folder))
    if policy:
        _what_if(recorded, epochs_read, policy, as_json)
        return
    with say.busy("compiling the policies of the log; this happens once for each"):
        checked = recorded.check(epochs_read)
    differences = [*checked.open_loop, *checked.closed_loop]
    if as_json:
        print(json.dumps({"schema": 1, "epochs": len(epochs_read), **vars(checked)}))
    else:
        epochs, starts = counted(len(epochs_read), "epoch"), counted(checked.starts, "start")
        same = (
            "all the same" if not checked.open_loop else f"{counted(len(checked.open_loop), 'epoch')} with differences"
        )
        print(f"{epochs}, {checked.passes:,} passes, {starts} repeated: {same}")
        same = (
            "all start at the same microsecond" if not checked.closed_loop else f"{len(checked.closed_loop):,} differ"
        )
        again = counted(checked.closed_jobs, "job")
        print(f"{again} played again, {checked.simulated_jobs:,} of them simulated: {same}")
        for why, count in checked.left_out.items():
            say.note(f"{counted(count, 'epoch')} not simulated: {why}")
        for line in differences[: recorded.SHOWN]:
            say.problem(line)
    if check and differences:
        raise Differs(f"{len(differences)} differences from the log of {folder}")


def _what_if(recorded: Any, epochs_read: Any, policies: list[str], as_json: bool) -> None:
    """Print the recorded waits of a queue beside those under other policies."""
    results = {}
    with say.busy("compiling; this happens once for each policy"):
        for policy in policies:
            results[policy] = recorded.what_if(epochs_read, policy)
    if as_json:
        print(json.dumps({"schema": 1, "policies": {policy: vars(one) for policy, one in results.items()}}))
        return
    print(f"{'policy':<24}{'jobs':>8}{'mean wait':>14}{'longest':>14}{'sooner':>8}{'later':>8}")

    def line(name: str, waits: list[int], *moved: int) -> None:
        spans = [sum(waits) / max(len(waits), 1), max(waits, default=0)]
        cells = [f"{name:<24}{len(waits):>8,}", *(f"{span / SECOND:>12,.1f} s" for span in spans)]
        print("".join([*cells, *(f"{count:>8,}" for count in moved)]))

    for place, (policy, one) in enumerate(results.items()):
        if place == 0:
            line("as it was", one.was)
        pairs = [*zip(one.was, one.would_be, strict=True)]
        line(policy, one.would_be, sum(b < a for a, b in pairs), sum(b > a for a, b in pairs))
