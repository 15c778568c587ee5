"""Instants in logs: seconds since 1970, or ISO 8601 dates, with or without a zone."""

from collections.abc import Container, Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from backfill.model.clock import unix_micros
from backfill.model.errors import BadArgument
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, TIME_MAX, parse_seconds
from backfill.model.workload import Ints
from backfill.traces.fixed import Texts, number

EXPECTED = "a number of seconds or a date such as 2026-03-01T12:00:00 or 2026-03-01 12:00+01:00"
ZONELESS = "dates without a zone are read as UTC; import --timezone Europe/Berlin (for example) names the zone"
# Microseconds of `59:59`: a lookup of the end of a date or span is cheaper than parsing it.
CLOCK = {f"{minute:02}:{second:02}": (minute * 60 + second) * SECOND for minute in range(60) for second in range(60)}


def zone_of(name: str | None) -> tzinfo:
    """Return a zone by its IANA name; UTC for None. Raises UsageError."""
    if name is None or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise BadArgument("timezone", name, "a name of the IANA database such as Europe/Berlin") from None


class Instants:
    """Parser of instants to microseconds since 1970, which remembers whether a date came without a zone."""

    def __init__(self, zone: tzinfo = UTC, earliest: int = -TIME_MAX) -> None:
        """zone: of dates without one. earliest: anything before it is not accepted as an instant."""
        self._zone, self._earliest = zone, earliest
        self._hours: dict[str, int] = {}  # by `2026-03-01T12:`, for dates without a zone: most dates in most logs
        self.zoneless = self.dated = False

    def __call__(self, text: str) -> int:
        """Return the microseconds of an instant, within +-10^11 s. Raises ValueError."""
        try:
            return self._hours[text[:14]] + CLOCK[text[14:]]
        except KeyError:
            return self._new(text)

    def column(self, texts: Sequence[str], blank: Container[str]) -> tuple[Ints, list[int], NDArray[np.bool_]]:
        """Parse a column to instants, NO_TIME for texts in `blank`; also return the bad rows and the zoneless ones.

        A row is bad if its text is not an instant. The zone flag is not updated.
        """
        instants, left, zoneless = np.full(len(texts), NO_TIME), np.ones(len(texts), np.bool_), self.zoneless
        without = np.zeros(len(texts), np.bool_)
        fixed = Texts(texts)
        rows, digits = fixed.digits("0000-00-00T00:00:00")
        clock = (digits[:, 10] < 6) & (digits[:, 12] < 6)
        rows, digits = rows[clock], digits[clock]
        hours, first, hour_of = np.unique(number(digits[:, :10]), return_index=True, return_inverse=True)
        begins = np.full(len(hours), NO_TIME)
        for place, row in enumerate(rows[first].tolist()):
            with suppress(ValueError):
                begins[place] = self(f"{texts[row][:14]}00:00")
        begin, clock_of = begins[hour_of], 60 * number(digits[:, 10:12]) + number(digits[:, 12:])
        dated = begin != NO_TIME
        instants[rows[dated]] = (begin + clock_of * SECOND)[dated]
        left[rows[dated]], without[rows[dated]] = False, True
        rows, digits = fixed.digits("0" * 10)
        instants[rows], left[rows] = number(digits) * SECOND, False
        bad = list[int]()
        for row in np.flatnonzero(left).tolist():
            text = texts[row]
            if text in blank:
                continue
            self.zoneless = False
            try:
                instants[row] = self(text)
            except ValueError:
                bad.append(row)
            without[row] = self.zoneless or (text[:14] in self._hours and text[14:] in CLOCK)
        self.zoneless = zoneless
        return instants, bad, without

    def _new(self, text: str) -> int:
        if len(text) == 19 and text[13] == ":" and text[14:] in CLOCK:
            hour = self._date(f"{text[:14]}00:00")
            if self._earliest <= hour <= TIME_MAX - 3600 * SECOND:
                self._hours[text[:14]] = hour
            return self._checked(text, hour + CLOCK[text[14:]])
        return self._checked(text, self._parsed(text))

    def _checked(self, text: str, micros: int) -> int:
        if not self._earliest <= micros <= TIME_MAX:
            raise ValueError(text)
        return micros

    def _parsed(self, text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 11:
            return int(text) * SECOND
        if "-" not in text[1:] or "e" in text:
            return parse_seconds(text)
        return self._date(text)

    def _date(self, text: str) -> int:
        date = datetime.fromisoformat(text)
        self.dated = True
        self.zoneless |= date.tzinfo is None
        return unix_micros(date, self._zone)
