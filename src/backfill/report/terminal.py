"""Results as tables for a terminal, 80 columns wide."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backfill.analysis.metrics import Metrics
from backfill.model.names import printable
from backfill.report.values import columns, headline, texts, wait_unit

WIDTH = 80
_GAP = 2
_OF = "utilization_"
_CELL, _BESIDE = 14, 26  # characters of a resource's name, and of the columns beside the resources


def result_table(rows: Sequence[tuple[str, Metrics]]) -> Table:
    """Return the headline metrics of one or several results, (policy, metrics) each, side by side."""
    all_metrics = [metrics for _, metrics in rows]
    return policy_table(
        [policy for policy, _ in rows], columns(headline(all_metrics), all_metrics, wait_unit(all_metrics))
    )


def used_table(rows: Sequence[tuple[str, Metrics]]) -> tuple[str, Table] | None:
    """Return the table of the use of resources, the most used first, with a title. None if cpus are the only one."""
    metrics = [each for _, each in rows if each["utilization"] is not None]
    use = {"cpus": "utilization"} | {
        n.removeprefix(_OF): n for n in (metrics[0] if metrics else ()) if n.startswith(_OF)
    }
    if len(use) == 1:
        return None
    order = sorted(use, key=lambda name: -max(each[use[name]] or 0.0 for each in metrics))
    cells = {name: _used_cells(use[name], f"fragmentation_{name}", [each for _, each in rows]) for name in use}
    heads = {name: name if len(name) <= _CELL else f"{name[: _CELL // 2]}…{name[1 - _CELL // 2 :]}" for name in use}
    shown = len(order)
    while shown > 1 and sum(max(map(len, [heads[n], *cells[n]])) + _GAP for n in order[:shown]) > WIDTH - _BESIDE:
        shown -= 1
    named = [(heads[name], cells[name]) for name in use if name in order[:shown]]
    named.append(("imbalance", texts("imbalance", [each["imbalance"] for _, each in rows])))
    more = f"; {len(order) - shown} more in --json" if shown < len(order) else ""
    title = f"held on average, and in brackets free but unusable{more}"
    return title, policy_table([policy for policy, _ in rows], named)


def _used_cells(held: str, unusable: str, metrics: Sequence[Metrics]) -> list[str]:
    both = (texts(name, [each.get(name) for each in metrics]) for name in (held, unusable))
    return [f"{a} ({b})" for a, b in zip(*both, strict=True)]


def policy_table(policies: Sequence[str], named: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """Return a table with a row for each policy and these columns: a heading and a cell for each policy.

    Lines fit 80 columns: a policy's name is cut if it is too long, or wrapped if cut names would be equal.
    Print it with a `rich.console.Console`, which handles colours, NO_COLOR and non-terminals.
    """
    narrow = [(stacked(head), cells) for head, cells in named]
    room = WIDTH - sum(_GAP + max(map(len, [*head.split("\n"), *cells])) for head, cells in narrow)
    padding = (0, _GAP - 1, 0, 0)  # the box adds a column
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    room = max(room, 6)
    alike = len({policy[: room - 1] for policy in policies}) < len(set(policies))  # after they are cut
    cut: dict[str, Any] = {"overflow": "fold"} if alike else {"overflow": "ellipsis", "no_wrap": True}
    table.add_column("policy", max_width=room, vertical="bottom", **cut)
    for head, _ in narrow:
        table.add_column(Text(head), justify="right", no_wrap=True, vertical="bottom")
    for row, policy in enumerate(policies):
        table.add_row(Text(printable(policy)), *(cells[row] for _, cells in narrow))
    return table


def as_text(table: Table) -> str:
    """Format a table without colours, 80 columns wide, without trailing white space."""
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def stacked(heading: str) -> str:
    """Return the heading of a narrow column: one word on each line."""
    return "\n".join(map(printable, heading.split(" ")))
