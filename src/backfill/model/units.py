"""Conversions of units in input and output: in memory, time is int64 microseconds and sizes are int64 bytes."""

import re
from decimal import Decimal, InvalidOperation

SECOND = 1_000_000  # microseconds
ROWS_MOST = 10  # maximum rows of runs that take turns on processors
TIME_MAX = 10**11 * SECOND  # legal times are within +-10^11 s
NEVER = 2**62  # later than every legal time
LATEST = NEVER >> 2  # longer than any run, and later than any end

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(us|ms|s|m|min|h|d|w)?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(i?b)?", re.IGNORECASE)
_SPAN_UNITS = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "min": 60 * SECOND, "h": 3600 * SECOND,
               "d": 86_400 * SECOND, "w": 604_800 * SECOND}  # fmt: skip


def number(text: str) -> float:
    """Parse a number in its common form: without `_` between digits, which Python accepts. Raises ValueError."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def parse_span(text: str) -> int:
    """Parse a time span to microseconds: `90`, `1.5h`, `2d`, `D-HH:MM:SS`, `HH:MM:SS`. Raises ValueError."""
    text = text.strip()
    if match := _SPAN.fullmatch(text):
        micros = float(match[1]) * _SPAN_UNITS[(match[2] or "s").lower()]
    elif match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        micros = (days * 86_400 + hours * 3600 + minutes * 60 + seconds) * SECOND
    else:
        raise ValueError(f"{text!r} is not a span of time; expected for instance 90, 1.5h, 2d or 1-12:00:00")
    if micros > TIME_MAX:
        raise ValueError(f"{text!r} is too long")
    return round(micros)


def parse_seconds(text: str) -> int:
    """Parse seconds within +-10^11 to microseconds, rounded once: `90`, `-1.5`, `1e3`. Raises ValueError."""
    if len(text) < 11 and text.isascii() and text.isdigit():
        return int(text) * SECOND
    try:
        number(text)
        seconds = Decimal(text.strip())
    except (ValueError, InvalidOperation):
        raise ValueError(f"{text!r} is not a number") from None
    if not seconds.is_finite() or abs(seconds) > TIME_MAX // SECOND:
        raise ValueError(f"{text!r} is not within +-{TIME_MAX // SECOND} s")
    return round(seconds * SECOND)


def parse_size(text: str) -> int:
    """Parse a whole number with an optional K, M, G, T or P (powers of 1024): `32G`, `512`. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size; expected a number that may carry K, M, G or T")
    unit = match[2].lower()
    value = Decimal(match[1]) * Decimal(1024 ** " kmgtp".index(unit or " "))
    if value >= 2**62:
        raise ValueError(f"{text!r} is too large")
    if not unit and value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return round(value)


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
