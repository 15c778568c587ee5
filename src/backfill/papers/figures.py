"""The figures of a paper: as PNG and SVG by matplotlib (the extra `plot`), and as CSV with intervals."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill.model.errors import MissingExtra
from backfill.papers.claims import Estimate
from backfill.traces.files import written, written_text

# Okabe and Ito's palette, told apart without colour by its markers.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
MARKERS = ("o", "s", "^", "D", "v", "P")
STYLES = ("-", "-", "-", (0, (4, 4)))  # where two lines lie on each other both are seen


@dataclass(frozen=True, eq=False, slots=True)
class Figure:
    """Lines over a few values of x, each point a mean with its interval."""

    name: str  # of its files
    title: str
    x: str
    y: str
    at: Sequence[str]  # values of x, in order
    lines: Mapping[str, Sequence[Estimate]]  # label -> one estimate per x
    percent: bool = False
    first: int = 0  # style of the first line, so that a policy looks the same in all figures
    table: bool = False  # the paper prints it as a table

    def text(self, estimate: Estimate) -> str:
        """A point in the unit of the axis."""
        return str(estimate.times(100) if self.percent else estimate)

    @property
    def rows(self) -> list[tuple[str, str, float, float, float, int]]:
        """What is plotted: (x, line, mean, low, high, replications)."""
        return [
            (x, label, each[i].mean, each[i].low, each[i].high, each[i].count)
            for i, x in enumerate(self.at)
            for label, each in self.lines.items()
        ]


def check_plot() -> None:
    """Raise MissingExtra where no figure can be drawn, before the work rather than after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("a figure", "plot") from None


def write_figure(figure: Figure, folder: Path) -> None:
    """NAME.png, NAME.svg and NAME.csv; the same numbers give the same bytes with one version of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawn

    with written_text(folder / f"{figure.name}.csv") as out:
        sheet = csv.writer(out, lineterminator="\n")
        sheet.writerow((figure.x, "policy", "mean", "low", "high", "replications"))
        sheet.writerows((x, label, *map(repr, numbers)) for x, label, *numbers in figure.rows)
    with mpl.rc_context({"svg.hashsalt": figure.name, "font.size": 11, "svg.fonttype": "none"}):
        drawn = Drawn(figsize=(6.4, 4.2), layout="constrained")
        _draw(figure, drawn.subplots())
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with written(folder / f"{figure.name}.{suffix}") as file:
                drawn.savefig(file, format=suffix, dpi=150, metadata=metadata)


def _draw(figure: Figure, ax: Any) -> None:
    scale = 100 if figure.percent else 1
    places = range(len(figure.at))
    for number, (label, line) in enumerate(figure.lines.items(), figure.first):
        half = [scale * (each.high - each.mean) if each.count > 1 else 0.0 for each in line]
        ax.errorbar(
            places,
            [scale * each.mean for each in line],
            half,
            label=label,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle=STYLES[number % len(STYLES)],
            capsize=3,
        )
    ax.set_xticks(places, figure.at)
    ax.set_xlabel(figure.x)
    ax.set_ylabel(figure.y)
    ax.set_title(figure.title, fontsize=12)
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False)
