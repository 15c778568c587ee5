"""The accuracy of a model of a watched pool: the section of a page, and the text for a terminal."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from backfill.model.names import printable
from backfill.model.units import NONE, brief, counted, times, unit_of
from backfill.report.chart import cloud_chart, tail_chart
from backfill.report.terminal import WIDTH, as_text

MOST = 6  # classes shown in a terminal
THEN = "What follows compares the policies on the observed jobs. The first one is the model of the pool."
DOUBT = (
    "The differences below are those between simulated policies. The model does not start jobs as the pool does, so "
    "they may differ on the pool."
)
Data = Mapping[str, Any]  # as in `Fit.to_dict`


def how(data: Data) -> str:
    """Return sentences on how the model was found."""
    fitted, judged = (counted(data[half]["jobs"], "job") for half in ("fitted", "judged"))
    return (
        f"The model is {model_text(data['model'])}. It was chosen by the real starts of the {fitted} that were "
        f"submitted in the first half of the observed time, and is judged by those of the {judged} of the second half."
    )


def model_text(model: Data) -> str:
    """Phrase a model: `easy, with 1 s of dead time after each run`."""
    dead, delay = model["dead_time_s"], model["delay_s"]
    said = [f"{dead:g} s of dead time after each run" if dead else "no dead time"]
    said += [f"{delay:g} s from submit to first look"] if delay else []
    return f"{model['policy']}, with {' and '.join(said)}"


def verdict(data: Data) -> str:
    """Return the verdict as a sentence of its own."""
    said = data["sentence"]
    return f"{said[:1].upper()}{said[1:]}."


def measures(data: Data) -> list[tuple[str, list[str]]]:
    """Return the rows (measure, values of the first and second half)."""
    both = (data["fitted"], data["judged"])
    waits = times([each[name] for name in ("observed_s", "simulated_s") for each in both])
    apart = [each["difference_s"] for each in both]
    unit = unit_of([value for each in apart for value in each.values()])
    return [
        ("jobs", [f"{each['jobs']:,}" for each in both]),
        ("of these waited", [f"{each['waited']:,}" for each in both]),
        ("mean wait, observed", waits[:2]),
        ("mean wait, simulated", waits[2:]),
        ("error of the mean wait", [signed(each["relative"]) for each in both]),
        ("pairs in the same order", [_share(each["in_order"]) for each in both]),
        ("of those that waited at the same time", [_share(each["chosen_in_order"]) for each in both]),
        ("simulated \N{MINUS SIGN} real start, median", [_at(each, "0.5", unit) for each in apart]),
        ("middle half of the jobs", [f"{_at(each, '0.25', unit)} to {_at(each, '0.75', unit)}" for each in apart]),
        ("90 of 100 jobs", [f"{_at(each, '0.05', unit)} to {_at(each, '0.95', unit)}" for each in apart]),
    ]


def class_rows(data: Data) -> list[tuple[str, list[str]]]:
    """Return the rows (class, cells) of the judged jobs: jobs, observed and simulated mean wait, error."""
    classes = data["judged"]["classes"]
    unit = unit_of([value for each in classes for value in (each["observed_s"], each["simulated_s"])])
    return [
        (
            each["class"] if each["by"] == "size" else f"{each['by']} {each['class']}",
            [
                f"{each['jobs']:,}",
                *(brief(each[n], unit) for n in ("observed_s", "simulated_s")),
                signed(each["relative"]),
            ],
        )
        for each in classes
    ]


def fidelity_section(data: Data) -> dict[str, Any]:
    """Return the values for the template."""
    observed, simulated = (np.array(data["waits_s"][name], np.float64) for name in ("observed", "simulated"))
    jobs = data["judged"]["jobs"]
    real, model = times([data["judged"]["observed_s"], data["judged"]["simulated_s"]])
    unit = unit_of([data["judged"]["observed_s"], data["judged"]["simulated_s"]])
    return {
        "verdict": verdict(data) if data["conclusive"] else "Not conclusive.",
        "reasons": [f"{each[:1].upper()}{each[1:]}." for each in data["reasons"]],
        "how": how(data),
        "then": THEN if data["conclusive"] else DOUBT,
        "rows": measures(data),
        "tail": tail_chart([np.sort(observed), np.sort(simulated)], seconds=True, unit=unit) if jobs else None,
        "cloud": cloud_chart(observed, simulated, unit),
        "summary": f"mean wait observed {real}, simulated {model}",
        "of_them": f" (of {len(observed):,} of the {jobs:,})" if len(observed) < jobs else "",
        "classes": class_rows(data),
        "tried": [
            (
                each["policy"],
                [
                    f"{each['dead_time_s']:g} s",
                    signed(each["relative"]),
                    _share(each["in_order"]),
                    _share(each["chosen_in_order"]),
                ],
            )
            for each in data["tried"]
        ],
    }


def fidelity_text(data: Data) -> list[str]:
    """Return the same section for a terminal, 80 columns wide."""
    lines = ["fidelity:", *_wrapped(data["sentence"])]
    for reason in data["reasons"][1:]:
        lines += _wrapped(reason)
    lines += [*_wrapped(how(data)), ""]
    lines += as_text(
        _table(["", "first half", "second half"], [[head, *cells] for head, cells in measures(data)])
    ).split("\n")
    classes = [[label, *cells] for label, cells in class_rows(data)]
    if len(classes) > 1:
        heads = ["second half", "jobs", "observed", "simulated", "error"]
        lines += ["", *as_text(_table(heads, classes[:MOST])).split("\n")]
        lines += [f"{counted(len(classes) - MOST, 'more row')} in --json"] if len(classes) > MOST else []
    return lines


def signed(share: float | None) -> str:
    """Return a relative error as a percentage with its sign."""
    if share is None:
        return NONE
    return f"{share:+,.1%}".replace("-", "\N{MINUS SIGN}") if round(share, 3) else "0%"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=bool(place))
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="    ")


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.1%}"


def _at(quantiles: Mapping[str, float], name: str, unit: str) -> str:
    value = quantiles.get(name)
    return NONE if value is None else times([value], unit)[0].replace("-", "\N{MINUS SIGN}")
