"""Results as tables for a terminal, 80 columns wide."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backfill.analysis.metrics import Metrics
from backfill.report.values import columns, cut, headline, texts

WIDTH = 80
_GAP = 2
_OF = "utilization_"
_FEW, _CELL = 4, 14  # resources of which the use is told, and characters of their names


def result_table(rows: Sequence[tuple[str, Metrics]], title: str | None = None) -> Table:
    """The headline metrics of one or several results, (policy, metrics) each, side by side."""
    names = headline([metrics for _, metrics in rows])
    return policy_table([policy for policy, _ in rows], columns(names, [metrics for _, metrics in rows]), title)


def used_table(rows: Sequence[tuple[str, Metrics]]) -> Table | None:
    """How far the resources are used of which most is held; None where cpus are the only one."""
    metrics = [each for _, each in rows]
    further = [name.removeprefix(_OF) for name in metrics[0] if name.startswith(_OF)] if metrics else []
    if not further:
        return None
    use = {"cpus": "utilization", **{name: _OF + name for name in further}}
    most = sorted(use, key=lambda name: -max(each[use[name]] or 0.0 for each in metrics))[:_FEW]
    named = []
    for name in (name for name in use if name in most):
        held, unusable = (texts(of, [each.get(of) for each in metrics]) for of in (use[name], f"fragmentation_{name}"))
        named.append((cut(name)[:_CELL], [f"{a} ({b})" for a, b in zip(held, unusable, strict=True)]))
    imbalance = ("imbalance", texts("imbalance", [each["imbalance"] for each in metrics]))
    left = len(use) - len(most)
    what = f"held on average, and in brackets free but unusable{f'; {left} more in --json' if left else ''}"
    return policy_table([policy for policy, _ in rows], [*named, imbalance], what)


def policy_table(
    policies: Sequence[str], named: Sequence[tuple[str, Sequence[str]]], title: str | None = None
) -> Table:
    """A row for each policy, with these columns: a heading and a cell for each policy.

    Lines fit 80 columns: a policy's name is cut where it would not, or goes on below where cut names would be alike.
    Print it with a `rich.console.Console`, which knows about colours, NO_COLOR and non-terminals.
    """
    narrow = [(head.replace(" ", "\n"), cells) for head, cells in named]
    room = WIDTH - sum(_GAP + max(map(len, [*head.split("\n"), *cells])) for head, cells in narrow)
    table = Table(
        title=Text(plain(title)) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),  # the box adds a column
    )
    room = max(room, 6)
    alike = len({policy[: room - 1] for policy in policies}) < len(set(policies))  # once they are cut
    cut: dict[str, Any] = {"overflow": "fold"} if alike else {"overflow": "ellipsis", "no_wrap": True}
    table.add_column("policy", max_width=room, vertical="bottom", **cut)
    for head, _ in narrow:
        table.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    for row, policy in enumerate(policies):
        table.add_row(Text(plain(policy)), *(cells[row] for _, cells in narrow))
    return table


def as_text(table: Table) -> str:
    """A table without colours, 80 columns wide, without white space at the ends of its lines."""
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def plain(label: str) -> str:
    """Without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in label)
