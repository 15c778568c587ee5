"""Times, sizes and ids as text, read and written: in memory, time is int64 microseconds and sizes are int64 bytes.

docs/reference/files.md has the forms of spans and sizes, side by side. A client of the queue loads this first, so it
imports little. Dates of a log are in clock.py, which has its calendar; those here are in local time.
"""

from __future__ import annotations

import re
import time
from itertools import groupby, pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from collections.abc import Iterable, Sequence
    from typing import Final

SECOND = 1_000_000  # microseconds
MINUTE = 60 * SECOND
NEAR = 10 * MINUTE  # instants this near are shown to the second
FEW = 4  # names of nodes listed if they cannot be written as ranges
UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}  # seconds
NONE = "-"  # in tables
ROWS_MOST = 10  # maximum rows of runs that take turns on processors
TIME_MAX = 10**11 * SECOND  # legal times are within +-10^11 s
NEVER = 2**62  # later than every legal time
LATEST = NEVER >> 2  # longer than any run, and later than any end

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|m|min|h|d|w)?", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtpe]?)(i?b)?", re.IGNORECASE)
_SPAN_UNITS = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "min": 60 * SECOND, "h": 3600 * SECOND,
               "d": 86_400 * SECOND, "w": 604_800 * SECOND}  # fmt: skip


class Form:
    """How a span is read that states no unit."""

    def __init__(self, alone: str, pair: str, clock: str, expected: str) -> None:
        """alone: the unit of `90`. pair: the unit with which `1:30` begins. clock: a pattern of four groups."""
        self.alone, self.pair, self.clock, self.expected = alone, pair, re.compile(clock), expected


PLAIN: Final = Form(
    "s", "h", r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?", "for instance 90, 1.5h, 2d or 1-12:00:00"
)
_SLURM = r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?"
SLURM: Final = Form("m", "m", _SLURM, "minutes, H:M:S, D-H:M:S, or for instance 90s, 1.5h, 2d")  # as its users type
SACCT: Final = Form("s", "m", _SLURM + r"(?:\.\d+)?", "for instance 03:04, 02:03:04 or 1-02:03:04")  # as it prints
MIB = 2**20  # the unit of memory in Slurm


def number(text: str) -> float:
    """Parse a number in its common form: without `_` between digits, which Python accepts. Raises ValueError."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def parse_span(text: str, form: Form = PLAIN) -> int:
    """Parse a time span to microseconds: `90`, `1.5h`, `2d`, `D-HH:MM:SS`, `HH:MM:SS`. Raises ValueError."""
    text = text.strip()
    if match := _SPAN.fullmatch(text):
        micros = float(match[1]) * _SPAN_UNITS[(match[2] or form.alone).lower()]
    elif match := form.clock.fullmatch(text):
        days, *parts = match.groups()
        first = "h" if days is not None or parts[2] is not None else form.pair
        if first == "m":
            parts = ["0", *parts[:2]]
        hours, minutes, seconds = (float(part or 0) for part in parts)
        micros = (float(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds) * SECOND
    else:
        raise ValueError(f"{text!r} is not a span of time; expected {form.expected}")
    if micros > TIME_MAX:
        raise ValueError(f"{text!r} is too long")
    return round(micros)


def parse_seconds(text: str) -> int:
    """Parse seconds within +-10^11 to microseconds, rounded once: `90`, `-1.5`, `1e3`. Raises ValueError."""
    if len(text) < 11 and text.isascii() and text.isdigit():
        return int(text) * SECOND
    from decimal import Decimal, InvalidOperation

    try:
        number(text)
        seconds = Decimal(text.strip())
    except (ValueError, InvalidOperation):
        raise ValueError(f"{text!r} is not a number") from None
    if not seconds.is_finite() or abs(seconds) > TIME_MAX // SECOND:
        raise ValueError(f"{text!r} is not within +-{TIME_MAX // SECOND} s")
    return round(seconds * SECOND)


def parse_size(text: str, alone: int = 1) -> int:
    """Parse a whole number with an optional K, M, G, T, P or E (powers of 1024): `32G`, `512`. Raises ValueError.

    alone: what a number without a unit counts in, MIB in Slurm.
    """
    from decimal import Decimal

    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size; expected a number that may carry K, M, G or T")
    unit = match[2].lower()
    value = Decimal(match[1]) * Decimal(1024 ** "kmgtpe".index(unit) * 1024 if unit else alone)
    if value >= 2**62:
        raise ValueError(f"{text!r} is too large")
    if not unit and alone == 1 and value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return round(value)


def seconds(micros: int | None, skew: int = 0) -> float | None:
    """Return an instant or a span, shifted by `skew`, in seconds; None stays None."""
    return None if micros is None else (micros + skew) / SECOND


def seconds_text(micros: int) -> str:
    """Format seconds with up to six decimals and no trailing zeros."""
    whole, part = divmod(abs(micros), SECOND)
    text = f"{whole}.{part:06d}".rstrip("0").rstrip(".") if part else str(whole)
    return "-" + text if micros < 0 else text


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: `1 job`, `1,000 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def span_text(micros: float) -> str:
    """Format a time span for people: `42 s`, `17 min`, `3.2 h`, `5.1 d`."""
    seconds = micros / SECOND
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds == round(seconds) or abs(seconds) >= 10 else f"{seconds:.2g} s"


def amount(name: str, value: int) -> str:
    """Format an amount of a resource or a number of licence copies: memory with a unit."""
    if name != "memory":
        return f"{value:,}"
    power = min(max(value.bit_length() - 1, 0) // 10, 5)
    return f"{value / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"


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


def time_text(micros: int) -> str:
    """Return a limit for people: 45 s, 5 min, 1 h 30 min, 2 d 4 h."""
    seconds = round(micros / SECOND)
    days, hours, minutes, rest = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value]
    return " ".join(shown[:2]) or "0 s"


def clock_text(micros: int) -> str:
    """Return a span for a table: 0:42, 1:02:03, 2-04:00:00."""
    seconds = max(micros, 0) // SECOND
    days, hours, minutes, rest = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bound_text(micros: int, now: int) -> str:
    """Return an instant like `local_text`, rounded up."""
    far = abs(micros - now) >= NEAR
    return local_text(-(-micros // MINUTE) * MINUTE if far else micros, now)


def local_text(micros: int, now: int) -> str:
    """Return an instant in local time: 14:05 today, else with its date."""
    then, today = time.localtime(micros / SECOND), time.localtime(now / SECOND)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S" if abs(micros - now) < NEAR else "%H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def date_text(micros: int) -> str:
    """Return an instant in local time, to the second, with its date."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(micros / SECOND))


def size_text(size: int) -> str:
    """Return a size for a table: 512M, 16G."""
    if not size:
        return "-"
    for unit, power in (("T", 40), ("G", 30), ("M", 20)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g}{unit}"
    return f"{size / 1024:.4g}K"


def amount_text(name: str, value: int) -> str:
    """Format an amount of a resource in a sentence: `12 cpus`, `1 cpu`, `1.5 GiB of memory`."""
    if name == "memory":
        return f"{amount(name, value)} of memory"
    return f"{value:,} {name[:-1] if value == 1 and name in ('cpus', 'gpus') else name}"


def more_text(count: int) -> str:
    """Return `1 more job`, `1,234 more jobs`."""
    return f"{count:,} more job{'' if count == 1 else 's'}"


def label_text(number: int, array: int, index: int | None) -> str:
    """Format the id of a job of the queue: `118`, or `112_3` for a task of an array."""
    return str(number) if index is None else f"{array}_{index}"


def folded_labels(jobs: Iterable[tuple[int, int, int | None]]) -> list[str]:
    """Return the labels of jobs, given as (number, array, index), in order; the tasks of an array share one label."""
    arrays: dict[int, list[int]] = {}
    labels: list[int | str] = []
    for number, array, index in jobs:
        if index is None:
            labels.append(label_text(number, array, index))
            continue
        if array not in arrays:
            arrays[array] = []
            labels.append(array)
        arrays[array].append(index)

    def of_array(array: int) -> str:
        tasks = arrays[array]
        return label_text(0, array, tasks[0]) if len(tasks) == 1 else f"{array}_[{numbers_text(tasks)}]"

    return [one if isinstance(one, str) else of_array(one) for one in labels]


def numbers_text(numbers: Iterable[int], most: int = 8) -> str:
    """Return numbers as ranges, as `--array` takes them: 3-400, 1,5,7-9, 1-9:2; after `most` ranges `...`."""
    ordered = sorted(set(numbers))
    steps = {later - before for before, later in pairwise(ordered)}
    if len(ordered) > 2 and len(steps) == 1 and steps != {1}:
        return f"{ordered[0]}-{ordered[-1]}:{steps.pop()}"
    found_runs = runs(ordered)
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in found_runs[:most]]
    return ",".join([*parts, *(["..."] if len(found_runs) > most else [])])


def names_text(names: Iterable[str]) -> str:
    """Return names of nodes, grouped if they differ only by a number at the end: `n[1-6], g2`."""
    texts = []
    for base, group in groupby(names, lambda name: name.rstrip("0123456789")):
        numbers = [name[len(base) :] for name in group]
        plain = [int(number) for number in numbers if number and str(int(number)) == number]
        if len(numbers) > 1 and len(plain) == len(numbers):
            texts.append(f"{base}[{numbers_text(plain)}]")
        else:
            texts += [base + number for number in (numbers if len(numbers) <= FEW else [*numbers[:FEW], "..."])]
    return ", ".join(texts)


def runs(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last of each run of successive numbers, given in ascending order."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans
