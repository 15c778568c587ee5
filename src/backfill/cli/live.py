"""The verbs of the live queue: those of its light client, which are only named here, and the replay."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, examples
from backfill.model.errors import BackfillError
from backfill.model.units import SECOND, counted
from backfill.queue.options import VERBS


class Differs(BackfillError):
    """A recorded decision was not made again."""

    exit_code = 5


def light(verb: str) -> Callable[[], None]:
    """A verb of the light client, for the list of verbs: `main` hands its words on before they come here."""

    def run() -> None:
        raise AssertionError(verb)

    run.__name__, run.__doc__ = verb, VERBS[verb].help
    return run


@examples("backfill replay ~/.local/state/backfill/queue --check", "backfill replay queue/ --policy easy --policy fcfs")
def replay(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of a queue ($BACKFILL_HOME).")],
    check: Annotated[bool, typer.Option("--check", help="Exit 5 where a decision differs from the log.")] = False,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The waits that jobs would have had under this policy.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Live a recorded queue again: every decision, and every start as a simulation has it."""
    from backfill.queue import replay as recorded

    some = recorded.epochs(Path(folder))
    if policy:
        _what_if(recorded, some, policy, as_json)
        return
    with say.busy("compiling the policies of the log; this happens once for each"):
        found = recorded.check(some)
    differences = [*found.open_loop, *found.closed_loop]
    if as_json:
        print(json.dumps({"schema": 1, "epochs": len(some), **vars(found)}))
    else:
        epochs, starts = counted(len(some), "epoch"), counted(found.starts, "start")
        same = "all the same" if not found.open_loop else f"{counted(len(found.open_loop), 'epoch')} with differences"
        print(f"{epochs}, {found.passes:,} passes, {starts} repeated: {same}")
        same = "all start at the same microsecond" if not found.closed_loop else f"{len(found.closed_loop):,} differ"
        print(f"{counted(found.closed_jobs, 'job')} simulated: {same}")
        for why, count in found.left_out.items():
            say.note(f"{counted(count, 'epoch')} not simulated: {why}")
        for line in differences[: recorded.SHOWN]:
            say.problem(line)
    if check and differences:
        raise Differs(f"{len(differences)} differences from the log of {folder}")


def _what_if(recorded: Any, some: Any, policies: list[str], as_json: bool) -> None:
    """Print the waits of a recorded queue beside those under other policies."""
    found = {}
    with say.busy("compiling; this happens once for each policy"):
        for policy in policies:
            found[policy] = recorded.what_if(some, policy)
    if as_json:
        print(json.dumps({"schema": 1, "policies": {policy: vars(one) for policy, one in found.items()}}))
        return
    print(f"{'policy':<24}{'jobs':>8}{'mean wait':>14}{'longest':>14}{'sooner':>8}{'later':>8}")

    def line(name: str, waits: list[int], *moved: int) -> None:
        spans = [sum(waits) / max(len(waits), 1), max(waits, default=0)]
        cells = [f"{name:<24}{len(waits):>8,}", *(f"{span / SECOND:>12,.1f} s" for span in spans)]
        print("".join([*cells, *(f"{count:>8,}" for count in moved)]))

    for place, (policy, one) in enumerate(found.items()):
        if place == 0:
            line("as it was", one.was)
        pairs = [*zip(one.was, one.would_be, strict=True)]
        line(policy, one.would_be, sum(b < a for a, b in pairs), sum(b > a for a, b in pairs))
