"""Times and sizes as text, read and written: in memory, time is int64 microseconds and sizes are int64 bytes.

docs/reference/files.md has the forms of spans and sizes, side by side. A client of the queue loads this first, so it
imports little.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from typing import Final

SECOND = 1_000_000  # microseconds
ROWS_MOST = 10  # maximum rows of runs that take turns on processors
TIME_MAX = 10**11 * SECOND  # legal times are within +-10^11 s
NEVER = 2**62  # later than every legal time
LATEST = NEVER >> 2  # longer than any run, and later than any end

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|m|min|h|d|w)?", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtpe]?)(i?b)?", re.IGNORECASE)
_SPAN_UNITS = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "min": 60 * SECOND, "h": 3600 * SECOND,
               "d": 86_400 * SECOND, "w": 604_800 * SECOND}  # fmt: skip


class Form:
    """What a span means that states no unit."""

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
