"""The section of a page that compares several kinds of estimates: longer waits, and promised starts that slip."""

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.analysis.metric_table import described
from backfill.model.units import NONE, times, unit_of
from backfill.report.chart import names_chart
from backfill.report.values import cut, share_text

AGAINST = "later_share"  # values of this metric are relative to the first kind
FIGURES = (  # metric, title, explanation
    ("mean_wait_s", "Mean wait", "Of all jobs."),
    ("later_share", "Jobs that start later", "The share of the jobs that start later than under"),
    ("broken_share", "Promises that slip", "The share of the promised jobs that start later than promised."),
    ("mean_slip_s", "How far they slip", "The mean of start - promise of the jobs that start later than promised."),
)
COLUMNS = (
    "mean_wait_s",
    "mean_bounded_slowdown",
    "later_share",
    "users_longer",
    "broken_share",
    "mean_slip_s",
    "max_slip_s",
)
Rows = Sequence[Mapping[str, Any]]


def swept(sweep: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """Return the figures and the table of a sweep: its kinds of estimates, and a row for each policy under each.

    unit: of waits.
    """
    kinds, rows = sweep["kinds"], sweep["rows"]
    by_policy: dict[str, Rows] = {}
    for row in rows:
        by_policy[row["policy"]] = [*by_policy.get(row["policy"], ()), row]
    columns = [_texts(metric, rows, unit) for metric in COLUMNS]
    return {
        "first": kinds[0],
        "figures": [
            {"title": title, "says": says, "against": metric == AGAINST, **drawn}
            for metric, title, says in FIGURES
            if (drawn := _figure(metric, kinds, by_policy, unit))
        ],
        "heads": [described(metric).heading for metric in COLUMNS],
        "rows": [
            (row["policy"], row["estimates"], cells, _hurt(row, unit) if row["estimates"] != kinds[0] else [])
            for row, *cells in zip(rows, *columns, strict=True)
        ],
    }


def _figure(metric: str, kinds: Sequence[str], by_policy: Mapping[str, Rows], unit: str) -> dict[str, Any]:
    """Return the figure of a metric: a line for each policy that has a value under some kind; empty if none has."""
    lines = {policy: [row[metric] for row in rows] for policy, rows in by_policy.items()}
    known = {policy for policy, values in lines.items() if any(value is not None for value in values)}
    if not known:
        return {}
    shown = "; ".join(
        f"{cut(policy)}: "
        + ", ".join(
            f"{text} under {row['estimates']}" for row, text in zip(rows, _texts(metric, rows, unit), strict=True)
        )
        for policy, rows in by_policy.items()
        if policy in known
    )
    own = "%" if described(metric).share else _unit(metric, [v for values in lines.values() for v in values], unit)
    notes = ["" if policy in known else "promises no starts" for policy in lines]
    return {"chart": names_chart(kinds, list(lines.values()), own), "summary": shown, "notes": notes}


def _unit(metric: str, values: Sequence[float | None], unit: str) -> str:
    return unit if "wait" in metric else unit_of(values)


def _texts(metric: str, rows: Rows, unit: str) -> list[str]:
    if metric == "users_longer":
        return [NONE if not row["users"] else f"{row[metric]:,} of {row['users']:,}" for row in rows]
    values = [row[metric] for row in rows]
    if described(metric).share:
        return [NONE if value is None else share_text(value) for value in values]
    if described(metric).unit == "s":
        return times(values, _unit(metric, values, unit))
    return [NONE if value is None else f"{value:,.1f}" for value in values]


def _hurt(row: Mapping[str, Any], unit: str) -> list[str]:
    """Return the class and the user whose mean wait grew most."""
    return [
        f"{of}{cut(row[f'worst_{who}'])}, {times([row[f'worst_{who}_s']], unit)[0]}"
        for who, of in (("class", ""), ("user", "user "))
        if row[f"worst_{who}"]
    ]
