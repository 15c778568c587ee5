"""backfill policies: the table of policies, or one of them in full."""

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, Verbose, examples, known_policies
from backfill.cli.output import console, print_json

if TYPE_CHECKING:
    from backfill.core.policy import Policy


@examples("backfill policies", "backfill policies k-reservations", "backfill policies --json")
def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One policy in full.", autocompletion=known_policies)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the policies with their answers to the four questions: order, reserve, fill, place."""
    from backfill.policies import TABLE, get

    if name is not None:
        policy = get(name)
        if as_json:
            print_json({"schema": 1, "policies": [described(policy)]})
        else:
            _print_one(policy)
        return
    known = [get(each) for each in TABLE]
    if as_json:
        print_json({"schema": 1, "policies": [described(policy) for policy in known]})
        return
    _print_all(known)
    say.following("backfill policies NAME, for parameters, promise and source")


def described(policy: "Policy") -> dict[str, Any]:
    """What there is to know about a policy."""
    return {
        "name": policy.name,
        "order": policy.order,
        "tried": policy.order if policy.tried == "queue" else policy.tried,
        "reserve": policy.reserve,
        "fill": policy.fill,
        "place": policy.place,
        "dynamic": policy.dynamic,
        "params": {
            key: {"default": p.default, "low": p.low, "high": p.high, "unit": p.unit, "meaning": p.meaning}
            for key, p in policy.params.items()
        },
        "source": policy.source,
    }


def _print_all(known: "list[Policy]") -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("policy", "order", "reserve", "fill", "place"):
        table.add_column(column, no_wrap=column in ("policy", "order"))
    for policy in known:
        order = f"{policy.order} (dynamic)" if policy.dynamic else policy.order
        table.add_row(policy.name, order, policy.reserve, policy.fill, policy.place)
    console().print(table)


def _print_one(policy: "Policy") -> None:
    from backfill.core.order import FORMULAS

    kind = "dynamic: the queue is sorted at each pass" if policy.dynamic else "static"
    rows = [
        ("policy", policy.name),
        ("order", f"{policy.order} = {FORMULAS[policy.order]}, lowest first; {kind}"),
        *([("tried", f"{policy.tried} = {FORMULAS[policy.tried]}, lowest first")] if policy.tried != "queue" else []),
        ("reserve", policy.reserve),
        ("fill", policy.fill),
        ("place", policy.place),
        *(("parameter", _parameter(key, param)) for key, param in policy.params.items()),
        ("source", policy.source),
    ]
    for what, text in rows:
        print(f"{what:10} {text}")
    if about := inspect.getdoc(policy.decide):
        print()
        print(about)


def _parameter(key: str, param: Any) -> str:
    unit = f" {param.unit}" if param.unit else ""
    meaning = f": {param.meaning}" if param.meaning else ""
    return f"{key} = {param.default:g}{unit}, from {param.low:g} to {param.high:g}{meaning}"
