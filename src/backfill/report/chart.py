"""Line charts as numbers for a page: paths in a square of 1000 x 1000 and the ticks around it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from backfill.analysis.series import Binned
from backfill.model.units import SECOND, UNITS, span
from backfill.model.workload import Floats
from backfill.report.dates import Dates

SIDE = 1000
_SPANS = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
# Marks of an axis of waits: short ones, and long ones in the unit of waits of the page.
_SHORT = {"1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600}
_LONG = {
    "d": {"1 h": 3600, "6 h": 21_600, "1 d": 86_400, "10 d": 864_000, "100 d": 8_640_000},
    "h": {"1 h": 3600, "10 h": 36_000, "100 h": 360_000, "1,000 h": 3_600_000, "10,000 h": 36_000_000},
    "min": {"100 min": 6000, "1,000 min": 60_000, "10,000 min": 600_000, "100,000 min": 6_000_000},
    "s": {"100 s": 100, "1,000 s": 1000, "10,000 s": 10_000, "100,000 s": 100_000},
}
_SHARES = (100, 10, 1, 0.1, 0.01, 0.001)  # percent
_POINTS = 160
_ROWS = 20  # of a table
_DATES = 9  # marks of an axis of dates, about
_APART = 8  # minimum distance of two marks in percent of the axis
_UNEQUAL = 8  # a count this many times another's peak puts both on a logarithmic axis

_LEAST_TOP = 0.04  # of an axis of ratios, above 1
_DASH = "h5"  # draws a point without neighbours, which would be invisible


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float  # percent of the axis
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines that share both axes."""

    paths: list[str]  # SVG path data, one per line
    x_ticks: list[Tick]
    x_unit: str
    y_ticks: list[Tick]
    logarithmic: bool = False  # of 1 + the value, so that 0 can be shown
    zone: str = ""  # of the dates on the x axis, if it has dates
    scale: str = ""  # how values are computed from positions of points; static/plots.js implements these

    @property
    def under(self) -> str:
        """The label of the time axis."""
        return f"date ({self.zone})" if self.zone else f"{self.x_unit} since the first submit"


def share_chart(
    series: Sequence[Binned], wholes: Sequence[int], highest: float = 1.0, dates: Dates | None = None
) -> Chart:
    """Return the mean of each bin as a share of the whole; the y axis ends at 100%, or above `highest`."""
    step = 0.25 if highest > 0.8 else _nice(highest / 4)
    top = _top(highest, step)
    heights = [binned.mean / max(whole, 1) / top for binned, whole in zip(series, wholes, strict=True)]
    return _chart(series, heights, _ticks(100 * top, 100 * step, "{:.10g}%".format), f"share {top:.10g}", dates)


def ratio_chart(series: Sequence[Binned], dates: Dates | None = None) -> Chart:
    """Return the mean of each bin, none below 1, where the y axis begins; lines break where there is no mean."""
    highest = max([_LEAST_TOP, *(float(np.fmax.reduce(binned.mean, initial=1)) - 1 for binned in series)])
    step = _nice(highest / 4)
    top = _top(highest, step)
    ticks = _ticks(top, step, lambda more: f"{1 + more:.10g}")
    return _chart(series, [(b.mean - 1) / top for b in series], ticks, f"ratio {top:.10g}", dates)


def count_chart(series: Sequence[Binned], dates: Dates | None = None) -> Chart:
    """Return the mean of each bin as a count; on a logarithmic axis if one line would flatten another."""
    peaks = [float(binned.mean.max(initial=0)) for binned in series]
    highest = max(peaks, default=0)
    if highest > _UNEQUAL * min([peak for peak in peaks if peak >= 1], default=highest):
        top = 10.0 ** math.ceil(math.log10(highest))
        marks = [0, *(10**power for power in range(round(math.log10(top)) + 1))]
        ticks = [Tick(100 * math.log1p(mark) / math.log1p(top), f"{mark:,}") for mark in marks]
        heights = [np.log1p(b.mean) / math.log1p(top) for b in series]
        return _chart(series, heights, ticks, f"log {top:.10g}", dates)
    step = _nice(highest / 4) if highest else 1.0
    top = _top(highest, step)
    return _chart(series, [b.mean / top for b in series], _ticks(top, step), f"count {top:.10g}", dates)


def tail_chart(samples: Sequence[Floats], seconds: bool, unit: str = "d") -> Chart:
    """Chart the share of the values above each value, both axes logarithmic; samples are sorted, and lines begin at 1.

    A line ends at its greatest value, with the share of the values equal to it; the axis ends at the greatest of all.
    seconds: the values are spans of time, so their axis has marks such as `10 min`. unit: of the long ones.
    """
    highest = max((float(values[-1]) for values in samples if len(values)), default=1.0)
    most = max((len(values) for values in samples), default=1)
    top = max(highest, 10.0)
    lowest = next((i for i, share in enumerate(_SHARES) if share / 100 * most <= 1), len(_SHARES) - 1) or 1
    decades = float(lowest)
    short = {text: value for text, value in _SHORT.items() if unit != "s" or value < 60}
    marks = (
        {**short, **_LONG[unit]}
        if seconds
        else {f"{10**power:,}": 10**power for power in range(math.ceil(math.log10(top)) + 1)}
    )
    x_ticks = [Tick(100 * math.log(v) / math.log(top), text) for text, v in marks.items() if v <= top * (1 + 1e-9)]
    if highest >= top:
        end = Tick(100, span(highest, unit) if seconds else f"{highest:,.0f}")
        x_ticks = [*(tick for tick in x_ticks if tick.at <= 100 - _APART), end]
    return Chart(
        paths=[_tail(values, top, decades) for values in samples],
        x_ticks=x_ticks,
        x_unit="",
        y_ticks=[Tick(100 * (1 - i / decades), f"{share:g}%") for i, share in enumerate(_SHARES[: lowest + 1])],
        logarithmic=True,
        scale=f"tail {top:.10g} {decades:g} {'s' if seconds else '1'}",
    )


def cloud_chart(across: Floats, up: Floats, unit: str) -> Chart:
    """Chart a dot for each pair of spans in seconds, on equal logarithmic axes, and the line on which both are equal.

    Values below 1 s are drawn at 1 s. unit: of long marks.
    """
    top = max([10.0, *across.tolist(), *up.tolist()])
    marks = {**{text: v for text, v in _SHORT.items() if unit != "s" or v < 60}, **_LONG[unit]}
    ticks = [Tick(100 * math.log(v) / math.log(top), text) for text, v in marks.items() if v <= top]
    x, y = (np.log(np.maximum(values, 1)) / math.log(top) * SIDE for values in (across, up))
    dots = "".join(f"M{a:.1f} {SIDE - b:.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return Chart(paths=[dots, f"M0 {SIDE}L{SIDE} 0"], x_ticks=ticks, x_unit="", y_ticks=ticks, logarithmic=True)


def names_chart(names: Sequence[str], lines: Sequence[Sequence[float | None]], unit: str) -> Chart:
    """Chart a point for each name at equal distances, 0 at the bottom; lines break at missing values.

    unit: `%` for shares, else one of time for spans in seconds.
    """
    size = 0.01 if unit == "%" else UNITS[unit]
    heights = [np.array([np.nan if value is None else value / size for value in line]) for line in lines]
    highest = max((float(np.fmax.reduce(line, initial=0)) for line in heights), default=0) or 1.0
    step = _nice(highest / 4)
    top = _top(highest, step)
    middles = (np.arange(len(names)) + 0.5) / len(names)
    return Chart(
        paths=[_path(middles, line / top) for line in heights],
        x_ticks=[Tick(100 * at, name) for at, name in zip(middles.tolist(), names, strict=True)],
        x_unit="",
        y_ticks=_ticks(top, step, f"{{:,.10g}}{'' if unit == '%' else ' '}{unit}".format),
        scale=f"names {top:.10g} {unit} {' '.join(names)}",
    )


def table(series: Sequence[Binned], dates: Dates | None = None) -> list[tuple[str, list[float]]]:
    """Return the lines as table rows: the begin of a time interval, and the mean of each line in it, or NaN."""
    begin, _, _, size = _span(series)
    bins = min((len(binned.mean) for binned in series), default=0)
    first = np.unique(np.linspace(0, bins, _ROWS, endpoint=False).astype(np.int64))[:bins]
    if not bins:
        return []
    means = []
    for b in series:
        time = np.add.reduceat(b.time, first)
        area = np.add.reduceat(np.where(b.time > 0, b.mean * b.time, 0), first)
        means.append(np.divide(area, time, out=np.full(len(first), np.nan), where=time > 0))
    edges = series[0].edges[first].tolist()
    whens = [f"{(edge - begin) / size:,.4g}" if dates is None else dates.text(edge) for edge in edges]
    return [(when, [float(each[i]) for each in means]) for i, when in enumerate(whens)]


def _tail(values: Floats, top: float, decades: float) -> str:
    """Return the path of one line, sampled evenly on both axes, so that short and long steps are equally visible."""
    if not len(values) or values[-1] < 1:
        return ""
    last = float(values[-1])
    ranks = len(values) - np.geomspace(1, len(values), _POINTS).astype(np.int64)
    at = np.unique(np.concatenate([np.geomspace(1, top, _POINTS), values[ranks]]))
    at = at[(at >= 1) & (at < last)]
    above = 1 - np.searchsorted(values, at, side="right") / len(values)
    end = 1 - np.searchsorted(values, last, side="left") / len(values)
    height = 1 + np.log10(np.append(above, end)) / decades
    inside = height >= 0
    return _path(np.log(np.append(at, last))[inside] / math.log(top), height[inside])


def _chart(
    series: Sequence[Binned], heights: Sequence[Floats], y_ticks: list[Tick], scale: str, dates: Dates | None
) -> Chart:
    begin, length, unit, size = _span(series)
    middles = [((b.edges[1:] - begin) + (b.edges[:-1] - begin)) / (2 * length) for b in series]
    marks = [] if dates is None else dates.marks(begin, begin + length, _DATES)
    return Chart(
        paths=[_path(x, y) for x, y in zip(middles, heights, strict=True)],
        x_ticks=[Tick(100 * (at - begin) / length, text) for at, text in marks]
        if dates
        else _ticks(length / size, _nice(length / size / 7)),
        x_unit=unit,
        y_ticks=y_ticks,
        logarithmic=scale.startswith("log"),
        zone=dates.zone if dates else "",
        scale=f"{scale} {begin / SECOND:.6f} {length / SECOND:.6f}",
    )


def _span(series: Sequence[Binned]) -> tuple[int, int, str, int]:
    """Return the time range of the lines: begin and length in microseconds, and the unit of its axis."""
    edges = [binned.edges for binned in series if len(binned.mean)]
    begin = min((int(e[0]) for e in edges), default=0)
    length = max((int(e[-1]) for e in edges), default=SECOND) - begin
    unit, size = next((name, n * SECOND) for name, n in _SPANS if length >= 3 * n * SECOND or n == 1)
    return begin, length, unit, size


def _path(x: Floats, y: Floats) -> str:
    """Return a path from point to point, broken where y is NaN; x and y are shares of their axes."""
    points = zip((x * SIDE).tolist(), ((1 - y) * SIDE).tolist(), strict=True)
    parts = [
        "L".join(f"{across:.1f} {down:.1f}" for across, down in part)
        for unknown, part in groupby(points, lambda point: math.isnan(point[1]))
        if not unknown
    ]
    return "".join(f"M{part}" if "L" in part else f"M{part}{_DASH}" for part in parts)


def _nice(step: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50 ... that is at least `step`."""
    power: float = 10.0 ** math.floor(math.log10(step))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= step * (1 - 1e-9))


def _top(highest: float, step: float) -> float:
    """Return the smallest multiple of the step that is at least the highest value."""
    return step * max(1, math.ceil(highest / step - 1e-9))


def _ticks(end: float, step: float, text: Callable[[float], str] = "{:,.10g}".format) -> list[Tick]:
    values = [i * step for i in range(math.floor(end / step + 1e-9) + 1)]
    return [Tick(100 * value / end, text(value)) for value in values]
