"""Results on standard output."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from backfill.analysis.metrics import Metrics

WIDTH = 80  # where standard output is no terminal


def console() -> "Console":
    """Standard output with colours where they belong; as wide as the terminal, and never narrower than a table."""
    from rich.console import Console

    out = Console(file=sys.stdout, highlight=False)
    out.width = max(out.width, WIDTH) if out.is_terminal else WIDTH
    return out


def print_table(rows: "Sequence[tuple[str, Metrics]]", title: str) -> None:
    """The headline metrics of several runs, side by side."""
    from backfill.report.terminal import result_table

    out = console()
    print(title)
    print()
    out.print(result_table(rows))


def print_json(found: Any) -> None:
    """One JSON document; a NaN in it would be our mistake."""
    print(json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False))
