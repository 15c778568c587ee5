"""Print results on standard output, and save them."""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backfill.cli import say

if TYPE_CHECKING:
    from rich.table import Table

    from backfill.analysis.metrics import Metrics
    from backfill.api import Result
    from backfill.comparison import Comparison
    from backfill.estimate_sweep import EstimateSweep

USUAL = ("fcfs", "easy", "easy-sjbf", "conservative")  # compared if no policy is given


def print_lines(table: "Table") -> None:
    """Print a table, in colour on a terminal, as wide as the terminal but no narrower than its designed width."""
    from rich.console import Console

    from backfill.report.terminal import WIDTH, as_text

    wide = Console(file=sys.stdout, highlight=False)
    if wide.is_terminal:
        wide.width = max(wide.width, WIDTH)
        wide.print(table)
    else:
        print(as_text(table))


def print_table(rows: "Sequence[tuple[str, Metrics]]", title: str) -> None:
    """Print the headline metrics of several runs side by side."""
    from backfill.report.terminal import result_table

    print(title)
    print()
    print_lines(result_table(rows))
    print_used(rows)


def print_used(rows: "Sequence[tuple[str, Metrics]]") -> None:
    """Print the use of each resource, if there are several."""
    from backfill.report.terminal import used_table

    if (used := used_table(rows)) is not None:
        title, table = used
        print(f"\n{title}")
        print_lines(table)


def print_compared(comparison: "Comparison", losers: bool = True) -> None:
    """Print a comparison as tables and sentences. losers: whether to include the jobs that wait longer."""
    from backfill.report.compared import compared_table, compared_text

    print(comparison.title)
    print()
    print_lines(compared_table(comparison.names, comparison.metrics, comparison.gaps))
    print_used(list(zip(comparison.names, comparison.metrics, strict=True)))
    print()
    for line in [*comparison.happened, ""] if comparison.happened else []:
        print(line)
    for line in compared_text(
        comparison.sentences,
        comparison.fairness,
        comparison.waits,
        comparison.gaps,
        comparison.unit,
        comparison.reality,
        losers,
        comparison.distances,
    ):
        print(line)
    if comparison.settings is not None:
        from backfill.report.settings import settings_text

        print("\n".join(settings_text(comparison.settings.to_dict())))


def keep(result: "Result | Comparison | EstimateSweep", report: str | None, save: str | None) -> None:
    """Write the report page, and the folder from which it can be made again."""
    if report is not None:
        result.report(report, say.command())
        say.note(f"wrote {report}")
    if save is not None:
        result.save(save, say.command())
        say.note(f"kept in {save}; next: backfill report {shlex.quote(say.path(save))}")


def print_json(document: Any) -> None:
    """Print one JSON document; a NaN in it would be a bug, and raises ValueError."""
    plain = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")  # the terminal's encoding is not Unicode
    print(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=plain))
