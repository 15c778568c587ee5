"""Format time spans: several in one unit, so that they are easy to compare."""

from collections.abc import Sequence

from backfill.model.units import SECOND, span_text

UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
NONE = "-"


def times(seconds: Sequence[float | int | None], unit: str | None = None) -> list[str]:
    """Format time spans in one unit, by default the most readable one."""
    sizes = [abs(value) for value in seconds if value]
    unit = unit or unit_of(seconds)
    size = UNITS[unit]
    digits = 1 if min(sizes, default=0) >= 2 * size or max(sizes, default=0) < 0.005 * size else 2
    return [NONE if value is None else _in_unit(value / size, digits, unit) for value in seconds]


def brief(seconds: float, unit: str) -> str:
    """Format a time span in this unit to about two digits, for dense tables."""
    value = seconds / UNITS[unit]
    return _in_unit(value, 0 if abs(value) >= 9.95 else 1, unit)


def span(seconds: float, unit: str) -> str:
    """Format a time span within a sentence: in this unit, or in a smaller one if it is short."""
    if abs(seconds) < max(0.1 * UNITS[unit], 2):
        return span_text(seconds * SECOND)
    if unit == "s":
        return f"{seconds:,.0f} s"
    return brief(seconds, unit) if abs(seconds) >= 100 * UNITS[unit] else times([seconds], unit)[0]


def unit_of(seconds: Sequence[float | int | None]) -> str:
    """Return the unit in which all of these read well, else the largest unit of which the longest span has ten."""
    sizes = [abs(value) for value in seconds if value]
    if not sizes:
        return "s"
    least, most = min(sizes), max(sizes)
    return _unit(least, most) or next((unit for unit, size in UNITS.items() if most >= 10 * size), "s")


def _unit(least: float, most: float) -> str | None:
    """Return the unit for times of this range: the largest of which all have two, or one, and none a thousand.

    Otherwise it is the unit of the longest, if the shortest has two digits in it.
    """
    units = [unit for unit, size in UNITS.items() if most >= 2 * size or size == 1]
    full = [u for floor in (2, 1) for u in units if least >= floor * UNITS[u] and most < 1000 * UNITS[u]]
    return next(iter(full), units[0] if least >= 0.095 * UNITS[units[0]] else None)


def _in_unit(value: float, digits: int, unit: str) -> str:
    least = 10.0**-digits
    if 0 < abs(value) < least / 2:
        return f"{'-' if value < 0 else ''}<{least:.{digits}f} {unit}"
    return f"{value:,.{digits}f} {unit}" if value else f"0 {unit}"
