"""Lines over a few values, each point with its interval: as PNG and SVG by matplotlib (the extra `plot`), as CSV."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backfill.analysis.interval import Estimate
from backfill.model.errors import MissingExtra
from backfill.traces.files import written, written_text

# Okabe and Ito's palette; markers tell the lines apart without colour.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MANY_LINES, MANY_TICKS = 5, 18  # with more, the legend is below the lines; not every tick has a label
LONG = 18  # characters of a label
ASIDE = 0.8  # horizontal share of the distance to the next name that a group of points uses
STYLES = ("-", "-", "-", (0, (4, 4)))  # so that two coinciding lines are both visible


class Drawing(Protocol):
    """A figure that can be written as PNG, SVG and CSV. The page also uses x, y, at, lines, text, table and points."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def header(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def rows(self) -> Sequence[tuple[str, ...]]: ...  # noqa: D102
    def draw(self, drawn: Any) -> None: ...  # noqa: D102


@dataclass(frozen=True, eq=False, slots=True)
class Figure:
    """Lines over a few values of x, each point a mean with its interval."""

    name: str  # of its files
    title: str
    x: str
    y: str
    at: Sequence[str]  # values of x, in order
    lines: Mapping[str, Sequence[Estimate | None]]  # label -> one estimate per x; None if missing
    percent: bool = False
    first: int = 0  # style of the first line, so that a policy has the same style in all figures
    table: bool = False  # the paper prints it as a table
    log: bool = False  # values that span decades
    of: str = "policy"  # the meaning of a line
    points: bool = False  # x has names: points side by side, no lines; as wide as the page, to match its table
    apart: bool = False  # the legend is below the lines

    def text(self, estimate: Estimate | None) -> str:
        """Format a point in the unit of the axis."""
        if estimate is None:
            return ""
        return str(estimate.times(100) if self.percent else estimate)

    @property
    def crowded(self) -> bool:
        """Return whether a legend among the lines would hide some."""
        return self.apart or len(self.lines) > MANY_LINES or len(self.at) > MANY_TICKS

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return 6.4, 5.0 if self.crowded else 4.2

    @property
    def header(self) -> tuple[str, ...]:
        """The header of `rows`."""
        return (self.x, self.of, "mean", "low", "high", "replications")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The plotted values: (x, line, mean, low, high, replications); low and high are empty without an interval."""
        return [
            (x, label, repr(p.mean), *((repr(p.low), repr(p.high)) if p.bounded else ("", "")), repr(p.count))
            for i, x in enumerate(self.at)
            for label, each in self.lines.items()
            if (p := each[i]) is not None
        ]

    def draw(self, drawn: Any) -> None:
        """Draw on an empty matplotlib figure."""
        _draw(self, drawn.subplots())


def check_plot() -> None:
    """Raise MissingExtra if no figure can be drawn, before the work starts."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("a figure", "plot") from None


def write_figure(figure: Drawing, folder: Path) -> None:
    """Write NAME.png, NAME.svg and NAME.csv; equal numbers give equal bytes with one version of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawn

    with written_text(folder / f"{figure.name}.csv") as out:
        sheet = csv.writer(out, lineterminator="\n")
        sheet.writerow(figure.header)
        sheet.writerows(figure.rows)
    with mpl.rc_context({"svg.hashsalt": figure.name, "font.size": 11, "svg.fonttype": "none"}):
        drawn = Drawn(figsize=figure.size, layout="constrained")
        figure.draw(drawn)
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with written(folder / f"{figure.name}.{suffix}") as file:
                drawn.savefig(file, format=suffix, dpi=150, metadata=metadata)


def _draw(figure: Figure, ax: Any) -> None:
    scale = 100 if figure.percent else 1
    many = len(figure.at) > MANY_TICKS  # whiskers would hide the points
    for number, (label, line) in enumerate(figure.lines.items(), figure.first):
        aside = (
            (number - figure.first - (len(figure.lines) - 1) / 2) * ASIDE / len(figure.lines) if figure.points else 0
        )
        reach = [(e.mean - e.low, e.high - e.mean) if e and e.bounded and not many else (0.0, 0.0) for e in line]
        ax.errorbar(
            [place + aside for place in range(len(line))],
            [scale * each.mean if each else math.nan for each in line],  # the line has a gap there
            [[scale * side for side in sides] for sides in zip(*reach, strict=True)],
            label=label,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            fillstyle="none" if number >= len(MARKERS) else "full",  # where the styles are used a second time
            linestyle="none" if figure.points else STYLES[number % len(STYLES)],
            capsize=3,
        )
    shown = range(0, len(figure.at), 1 + len(figure.at) // MANY_TICKS)
    texts = [figure.at[place].replace(" ", "\n") if figure.points else figure.at[place] for place in shown]
    ax.set_xticks(shown, texts, rotation=90 if many else 0)
    ax.set_xlabel(figure.x)
    ax.set_ylabel(figure.y)
    ax.set_title(figure.title, fontsize=12)
    if figure.log:
        ax.set_yscale("log")
    elif any(row[2].startswith("-") or row[3].startswith("-") for row in figure.rows):  # some mean or low is below 0
        ax.axhline(0, color="black", linewidth=0.8)
    else:
        ax.set_ylim(0, max(ax.get_ylim()[1], 1.05 * ax.dataLim.y1))  # the margin above values that differ little
    ax.grid(axis="y", alpha=0.3)
    if figure.crowded:
        columns = 3 if max(map(len, figure.lines)) <= LONG else 2  # that fit in its width
        ax.figure.legend(loc="outside lower center", ncols=columns, frameon=False)
    else:
        ax.legend(edgecolor="none", framealpha=0.9)  # readable on the line at 0 too
