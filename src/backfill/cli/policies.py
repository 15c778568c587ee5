"""backfill policies: the table of policies, or one of them in full."""

import inspect
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, Verbose, examples, known_policies
from backfill.cli.output import print_json, print_lines
from backfill.cli.questions import QUESTIONS

if TYPE_CHECKING:
    from backfill.core.policy import Policy

DITTO = '"'  # same as in the row above


@examples("backfill policies", "backfill policies k-reservations", "backfill policies --json")
def policies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A policy to describe in full; FILE.py:NAME for one of your own.",
            autocompletion=known_policies,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the policies with their answers to the four questions: order, reserve, fill, place."""
    from backfill.packaged import packaged
    from backfill.policies import TABLE, get

    if name is not None:
        policy = _one(name)
        if as_json:
            print_json({"schema": 1, "policies": [described(policy)]})
        else:
            _print_one(policy)
        return
    known = [get(each) for each in TABLE]
    if as_json:
        questions = {question: names.split() for question, names in QUESTIONS.items()}
        print_json({"schema": 1, "policies": [described(policy) for policy in known], "questions": questions})
        return
    _print_all(known)
    for other in packaged().values():
        print(f"{other.name}, of the package {other.dist.name if other.dist else other.module}")
    say.following("backfill policies NAME, for parameters, promise and source")


def _one(name: str) -> "Policy":
    from backfill.packaged import resolved
    from backfill.policies import get

    if ".py" not in resolved(name):
        return get(name)
    from backfill.loading import load

    return load(name)[0]


def described(policy: "Policy") -> dict[str, Any]:
    """Return the description of a policy for JSON."""
    from backfill.core.policy import json_value

    return {
        "name": policy.name,
        "order": policy.order,
        "tried": policy.order if policy.tried == "queue" else policy.tried,
        "reserve": policy.reserve,
        "fill": policy.fill,
        "place": _place(policy),
        "dynamic": policy.dynamic,
        "params": {
            key: {
                **({"choices": list(p.choices)} if p.choices else {}),
                "default": json_value(p.shown(p.default)),
                **({} if p.choices else {"low": json_value(p.low), "high": json_value(p.high), "whole": p.whole}),
                "unit": p.unit,
                "meaning": p.meaning,
            }
            for key, p in policy.params.items()
        },
        "synonyms": {key: {text: "=".join(meant[text]) for text in meant} for key, meant in policy.synonyms.items()},
        "source": policy.source,
    }


def _print_all(known: "list[Policy]") -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    questions = ("order", "reserve", "fill", "place")
    answers = [(_order(p), p.reserve, p.fill, _place(p)) for p in known]
    same = [len({each[i] for each in answers}) == 1 for i in range(len(questions))]
    table.add_column("policy", no_wrap=True)
    for i, question in enumerate(questions):
        if not same[i]:
            table.add_column(question)
    above: tuple[str, ...] = ()
    for policy, answer in zip(known, answers, strict=True):
        shown = tuple(text for i, text in enumerate(answer) if not same[i])
        table.add_row(
            policy.name, *(DITTO if i and [text] == [*above[i : i + 1]] else text for i, text in enumerate(shown))
        )
        above = shown
    print_lines(table)
    for i, question in enumerate(questions):
        if same[i]:
            print(f"\n{question}, the same for all: {answers[0][i]}")
    print("\nparameters")
    for policy in known:
        for key, param in policy.params.items():
            _print_wrapped(policy.name, _parameter(key, param))
    print("\nsources")
    for source in dict.fromkeys(policy.source for policy in known):
        _print_wrapped(", ".join(policy.name for policy in known if policy.source == source), source)
    print("\nquestions, and the policies to compare for an answer")
    for question, names in QUESTIONS.items():
        _print_wrapped(question, names.replace(" ", ", "))


def _print_wrapped(title: str, text: str) -> None:
    from backfill.report.terminal import WIDTH

    between = " " if title.endswith("?") else ": "
    print(textwrap.fill(f"{title}{between}{text}", WIDTH, initial_indent="  ", subsequent_indent="    "))


def _order(policy: "Policy") -> str:
    return f"{policy.order} (dynamic)" if policy.dynamic else policy.order


def _place(policy: "Policy") -> str:
    from backfill.model.partitions import PLACES

    return PLACES[policy.place]


def _print_one(policy: "Policy") -> None:
    kind = "dynamic: the queue is sorted at each pass" if policy.dynamic else "static"
    rows = [
        ("policy", policy.name),
        ("order", f"{policy.order}{_formula(policy.order)}, lowest first; {kind}"),
        *([("tried", f"{policy.tried}{_formula(policy.tried)}, lowest first")] if policy.tried != "queue" else []),
        ("reserve", policy.reserve),
        ("fill", policy.fill),
        ("place", _place(policy)),
        *(("parameter", _parameter(key, param)) for key, param in policy.params.items()),
        *(("parameter", _synonym(key, meant)) for key, meant in policy.synonyms.items()),
        ("source", policy.source),
    ]
    for field, text in rows:
        print(f"{field:10} {text}")
    if about := inspect.getdoc(policy.decide):
        print()
        print(about)


def _formula(order: str) -> str:
    """Return the formula of a named order; empty for a policy that sorts the queue itself."""
    from backfill.core.queue.order import FORMULAS

    return f" = {FORMULAS[order]}" if order in FORMULAS else ""


def _parameter(key: str, param: Any) -> str:
    unit = f" {param.unit}" if param.unit else ""
    meaning = f": {param.meaning}" if param.meaning else ""
    if param.choices:
        return f"{key} = {param.shown(param.default)}, one of {', '.join(param.choices)}{meaning}"
    return f"{key} = {param.default:.10g}{unit}, from {param.low:.10g} to {param.high:.10g}{meaning}"


def _synonym(key: str, meant: Mapping[str, tuple[str, str]]) -> str:
    """Return the meanings of a synonym: `pick = submit: tried=fcfs; score: tried=wfp3`."""
    return f"{key} = " + "; ".join(f"{text}: {answer}={value}" for text, (answer, value) in meant.items())
