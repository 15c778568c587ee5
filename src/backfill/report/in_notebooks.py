"""Differences of policies, and sweeps, as small HTML tables for a notebook."""

from collections.abc import Mapping, Sequence
from typing import Any

from backfill.analysis.paired import Pair
from backfill.model import notebook
from backfill.report.differences import Table
from backfill.report.swept import swept

HEADS = ("policies", "metric", "difference", "95% interval", "relative", "95% interval")


def pairs_html(pairs: Sequence[Pair]) -> str:
    """Return a row for each pair: the difference of a metric and its interval, absolute and relative."""
    shown = Table.of(pairs, {}).rows
    rows = [
        (f"{row.a} against {row.b}", row.name, row.difference, row.interval, row.relative, row.relative_interval)
        for row in shown
    ]
    why = dict.fromkeys(row.why for row in shown if row.why)
    return notebook.table("differences of policies", HEADS, rows) + notebook.paragraphs(why)


def sweep_html(title: str, sweep: Mapping[str, Any], unit: str) -> str:
    """Return a row for each policy and kind of estimates, and the jobs whose mean wait grows most.

    sweep: the kinds, and the rows of a sweep. unit: of waits.
    """
    shown = swept(sweep, unit)
    rows = [(policy, kind, *cells) for policy, kind, cells, _ in shown["rows"]]
    hurt = [f"{policy}, {kind}: {'; '.join(lost)}" for policy, kind, _, lost in shown["rows"] if lost]
    table = notebook.table(title, ["policy", "estimates", *shown["heads"]], rows)
    return table + notebook.paragraphs(
        [f"the mean wait grew most, against {shown['first']}, for jobs of:", *hurt] if hurt else []
    )
