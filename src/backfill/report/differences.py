"""Paired differences as shown on the page: texts, and intervals positioned on one axis of ratios for all pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backfill.analysis.blocks import BLOCKS
from backfill.analysis.metric_table import described
from backfill.analysis.metrics import Metrics
from backfill.analysis.paired import Pair
from backfill.model.units import NONE
from backfill.report.chart import Tick
from backfill.report.values import texts

# The limits of the axis on both sides, and the mark halfway, if there is space.
_FACTORS = {1.1: None, 1.2: None, 1.5: None, 2.0: None, 3.0: None, 5.0: 2, 10.0: 3, 20.0: 5, 50.0: 5, 100.0: 10,
            200.0: 10, 500.0: 20, 1000.0: 20, 10_000.0: 100, 1e6: 1000}  # fmt: skip
MAIN = ("mean_wait_s", "mean_bounded_slowdown")  # shown at once; the other metrics on request


@dataclass(frozen=True, slots=True)
class Drawn:
    """A ratio and its interval, in percent of the axis; None if missing or outside."""

    at: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two policies."""

    a: str
    b: str
    name: str  # of the metric
    value_b: str
    value_a: str
    difference: str
    interval: str
    relative: str
    relative_interval: str
    drawn: Drawn
    why: str  # reason why there is no interval; empty if there is one


@dataclass(frozen=True, slots=True)
class Table:
    """Differences on one axis."""

    rows: list[Difference]
    ticks: list[Tick]

    @classmethod
    def of(cls, pairs: Sequence[Pair], values: dict[str, Metrics], unit: str | None = None) -> "Table":
        """Position the pairs. values: the metrics by policy. unit: of waits."""
        reach = _reach(pairs)
        return cls([_difference(pair, values, reach, unit) for pair in pairs], _ticks(reach))


@dataclass(frozen=True, slots=True)
class Differences:
    """The main metrics of all pairs of policies, and all metrics of each pair."""

    main: Table
    pairs: list[Table]
    methods: list[str]  # of the intervals
    intervals: int  # number of intervals

    @classmethod
    def of(
        cls,
        pairs: Sequence[Pair],
        values: dict[str, Metrics],
        against: str,
        unit: str | None = None,
    ) -> "Differences":
        """values: the metrics by policy. against: the policy of the main pairs. unit: of waits."""
        main = [pair for metric in MAIN for pair in pairs if pair.metric == metric and pair.b == against]
        of_two: dict[tuple[str, str], list[Pair]] = {}
        for pair in pairs:
            of_two.setdefault((pair.a, pair.b), []).append(pair)
        methods = [pair.method for pair in pairs if pair.low is not None]
        tables = [Table.of(two, values, unit) for two in of_two.values()]
        return cls(Table.of(main, values, unit), tables, list(dict.fromkeys(methods)), len(methods))


def _difference(pair: Pair, values: dict[str, Metrics], reach: float, unit: str | None) -> Difference:
    b, a, difference, low, high = texts(
        pair.metric,
        [values.get(p, {}).get(pair.metric) for p in (pair.b, pair.a)] + [pair.difference, pair.low, pair.high],
        unit,
    )
    return Difference(
        a=pair.a,
        b=pair.b,
        name=described(pair.metric).heading,
        value_b=b,
        value_a=a,
        difference=_signed(difference, pair.difference),
        interval=_without(pair) if pair.low is None else f"{_signed(low, pair.low)} to {_signed(high, pair.high)}",
        relative=_percent(pair.relative),
        relative_interval=_without(pair) if pair.low is None else _between(pair.relative_low, pair.relative_high),
        drawn=Drawn(*(_place(x, reach) for x in (pair.relative, pair.relative_low, pair.relative_high))),
        why=pair.method if pair.low is None else "",
    )


def _without(pair: Pair) -> str:
    """Return the certain statement without an interval, if any."""
    return f"{pair.always_higher} higher in each of {BLOCKS} parts" if pair.always_higher else NONE


def _signed(text: str, value: float | None) -> str:
    sign = "+" if value is not None and value > 0 else ""
    return sign + text.replace("-", "\N{MINUS SIGN}") if value is not None else NONE


def _percent(share: float | None) -> str:
    if share is None:
        return NONE
    if share >= 9:  # ten times as much or more
        return f"× {1 + share:,.1f}"
    digits = 0 if abs(share) >= 0.1 else 1
    return f"{share:+.{digits}%}".replace("-", "\N{MINUS SIGN}") if round(share, 2 + digits) else "0%"


def _between(low: float | None, high: float | None) -> str:
    return NONE if low is None or high is None else f"{_percent(low)} to {_percent(high)}"


def _reach(pairs: Sequence[Pair]) -> float:
    """Return the factor at both ends of the axis: the smallest that includes all relative differences."""
    shares = [x for pair in pairs for x in (pair.relative, pair.relative_low, pair.relative_high) if x is not None]
    most = max((max(1 + x, 1 / (1 + x)) for x in shares if x > -1), default=1.0)
    return next((factor for factor in _FACTORS if most <= factor), max(_FACTORS))


def _place(share: float | None, reach: float) -> float | None:
    if share is None:
        return None
    if share <= -1:
        return 0.0
    place = 50 + 50 * math.log(1 + share) / math.log(reach)
    return round(min(100.0, max(0.0, place)), 2)


def _ticks(reach: float) -> list[Tick]:
    marks = [mark for mark in (_FACTORS[reach], reach) if mark]
    ticks = [Tick(_place(mark - 1, reach) or 0.0, f"× {mark:,.10g}") for mark in marks]
    less = [Tick(100 - tick.at, tick.text.replace("×", "÷")) for tick in reversed(ticks)]
    return [*less, Tick(50.0, "equal"), *ticks]
