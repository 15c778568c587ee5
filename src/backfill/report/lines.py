"""The figures of a page: lines over time and distributions, with equivalent tables and sentences."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from backfill.analysis.series import Binned
from backfill.model.units import NONE, amount, span_text
from backfill.report.chart import count_chart, ratio_chart, share_chart, table, tail_chart
from backfill.report.dates import Dates
from backfill.report.shown import BINS, QUANTILES, Shown, Used, longest, quantiles
from backfill.report.values import cut, number, texts

FIGURES, AT_ONCE = 100, 8  # licences with a figure, and figures shown at first; the table has all


def lines(names: Sequence[str], shown: Sequence[Shown], unit: str, dates: Dates | None) -> dict[str, Any]:
    """Return the figures of policies of these names, with the texts beside their lines. unit: of waits."""
    policies = [cut(name) for name in names]
    held, queue, inside = ([getattr(each, name) for each in shown] for name in ("held", "queue", "inside"))
    waits, slowdowns = ([quantiles(getattr(each, name)) for each in shown] for name in ("waits", "slowdowns"))
    cpus = [each.cpus for each in shown]
    return {
        "used": share_chart(held, cpus, dates=dates),
        "used_rows": [(when, _shares(row, cpus)) for when, row in table(held, dates)],
        "used_summary": _averages(policies, _shares(map(_mean, held), cpus)),
        **_counts("queue", policies, queue, dates),
        **_counts("inside", policies, inside, dates),
        "waits": tail_chart([each.waits for each in shown], seconds=True, unit=unit),
        "waits_summary": _each(policies, [_spread("mean_wait_s", each, unit) for each in waits]),
        "wait_table": _quantiles("mean_wait_s", waits, unit),
        "slowdowns": tail_chart([each.slowdowns for each in shown], seconds=False),
        "slowdowns_summary": _each(policies, [_spread("mean_slowdown", each, unit) for each in slowdowns]),
        "slowdown_table": _quantiles("mean_slowdown", slowdowns, unit),
        "licences": _used(policies, [each.licences for each in shown], dates),
        "resources": _used(policies, [each.resources for each in shown], dates),
        **_balance(policies, [each.imbalance for each in shown if each.imbalance is not None], dates),
        "bin": span_text(longest(shown) / BINS),
    }


def _used(policies: Sequence[str], shown: Sequence[Sequence[Used]], dates: Dates | None) -> dict[str, Any] | None:
    """Return the use of each licence or resource: figures, most used first, and a table."""
    rows = [*zip(*shown, strict=True)]
    if not rows:
        return None
    most = sorted(range(len(rows)), key=lambda i: -max(_mean(each.held) / max(each.there, 1) for each in rows[i]))
    cells = [[(_shares([_mean(each.held)], [each.there])[0], f"{each.all_held:.1%}") for each in row] for row in rows]
    highest = max(_most_unusable(row) for row in rows)
    return {
        "at_once": AT_ONCE,
        "rows": [(cut(row[0].name), _there(row), cell) for row, cell in zip(rows, cells, strict=True)],
        "figures": [_figure(policies, rows[i], highest, dates) for i in most[:FIGURES]],
        "usable": [cut(row[0].name) for row in rows if row[0].unusable and not _most_unusable(row)],
    }


def _figure(policies: Sequence[str], row: Sequence[Used], highest: float, dates: Dates | None) -> dict[str, Any]:
    """Return the use of one licence or resource under each policy, and the part that is free but unusable, if any."""
    wholes, held = [each.there for each in row], [each.held for each in row]
    unusable = [each.unusable for each in row if each.unusable] if _most_unusable(row) else []
    return {
        "name": cut(row[0].name),
        "there": _there(row),
        "chart": share_chart(held, wholes, dates=dates),
        "summary": _averages(policies, _shares(map(_mean, held), wholes)),
        "unusable": share_chart(unusable, wholes, highest, dates) if unusable else None,
        "unusable_summary": _averages(policies, _shares(map(_mean, unusable), wholes)) if unusable else "",
    }


def _there(row: Sequence[Used]) -> str:
    return amount(row[0].name, row[0].there)


def _most_unusable(row: Sequence[Used]) -> float:
    """Return the greatest share that is free but unusable at any time, under any policy."""
    return max((float(u.unusable.mean.max(initial=0)) / max(u.there, 1) for u in row if u.unusable), default=0.0)


def _balance(policies: Sequence[str], series: Sequence[Binned], dates: Dates | None) -> dict[str, Any]:
    """Return the figure of the imbalance over time, if there are several resources."""
    if not series:
        return {"imbalance": None}
    means = [number(_mean(each)) for each in series]
    rows = table(series, dates)
    return {
        "imbalance": ratio_chart(series, dates),
        "imbalance_means": [f"mean {mean}" for mean in means],
        "imbalance_rows": [(when, [NONE if math.isnan(mean) else number(mean) for mean in row]) for when, row in rows],
        "imbalance_summary": _averages(policies, means),
    }


def _counts(name: str, policies: Sequence[str], series: Sequence[Binned], dates: Dates | None) -> dict[str, Any]:
    """Return a figure of numbers of jobs over time."""
    most = [f"{each.most.max(initial=0):,}" for each in series]
    means = [f"{_mean(each):,.1f}" for each in series]
    return {
        name: count_chart(series, dates),
        f"{name}_peaks": [f"peak {number}" for number in most],
        f"{name}_rows": [(when, [f"{mean:,.1f}" for mean in row]) for when, row in table(series, dates)],
        f"{name}_summary": _each(policies, [f"{a} on average, at most {b}" for a, b in zip(means, most, strict=True)]),
    }


def _shares(held: Iterable[float], cpus: Sequence[int]) -> list[str]:
    return [f"{mean / max(whole, 1):.1%}" for mean, whole in zip(held, cpus, strict=True)]


def _each(policies: Sequence[str], texts_: Sequence[str]) -> str:
    """Return a text for each policy, for readers who cannot see the lines."""
    return "; ".join(f"{policy}: {text}" for policy, text in zip(policies, texts_, strict=True))


def _averages(policies: Sequence[str], means: Sequence[str]) -> str:
    return _each(policies, [f"{mean} on average" for mean in means])


def _mean(binned: Binned) -> float:
    steps = binned.time > 0
    return float(np.average(binned.mean[steps], weights=binned.time[steps])) if steps.any() else 0.0


def _spread(name: str, values: Sequence[float | None], unit: str) -> str:
    half, *_, most = (texts(name, [value], unit)[0] for value in values)
    return f"half of the jobs above {half}, at most {most}"


def _quantiles(name: str, values: Sequence[Sequence[float | None]], unit: str) -> list[tuple[str, list[str]]]:
    """Return a column for each share; the whole table in one unit."""
    heads = [*(f"{percent}%" for percent in QUANTILES), "100%"]
    cells = texts(name, [each[i] for i in range(len(heads)) for each in values], unit)
    return [(head, cells[i * len(values) : (i + 1) * len(values)]) for i, head in enumerate(heads)]
