"""Calendar time: the instant of a workload's time 0, and the zone in which its instants are shown."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from backfill.model.units import SECOND

_DAY = 86_400 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIX = (6 * 10**8 * SECOND, 4 * 10**9 * SECOND)  # 1989 to 2096: logs that begin here count Unix time


@dataclass(frozen=True)
class Clock:
    """The calendar of a workload: time 0 is `epoch` seconds after 1970 began, and instants are shown in `zone`."""

    epoch: int
    zone: str = "UTC"  # an IANA name; an unknown one reads as UTC

    @classmethod
    def guess(cls, first: int | None) -> "Clock | None":
        """Guess the clock of a workload that states none: Unix time in UTC if its first submit looks like it."""
        return cls(0) if first is not None and _UNIX[0] <= first <= _UNIX[1] else None

    @classmethod
    def parse(cls, text: str) -> "Clock":
        """Parse a clock such as `2013-01-30T08:41:41Z[Europe/Berlin]` (RFC 9557): time 0 and the zone."""
        date, bracket, zone = text.partition("[")
        begin = datetime.fromisoformat(date)
        if begin.tzinfo is None or begin.microsecond or (bracket and not (zone.endswith("]") and zone[:-1])):
            raise ValueError
        return cls((begin - _EPOCH) // timedelta(seconds=1), zone[:-1] or "UTC")

    @property
    def text(self) -> str | None:
        """The text that `parse` reads; None if the calendar does not reach time 0."""
        begin = Clock(self.epoch).date(0)
        return None if begin is None else f"{begin.replace(tzinfo=None).isoformat()}Z[{self.zone}]"

    @cached_property
    def _zone(self) -> tzinfo:
        try:
            return ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError):  # not a zone name, or one that this machine does not have
            return UTC

    @property
    def name(self) -> str:
        """The zone in which instants are shown."""
        return "UTC" if self._zone is UTC else self.zone

    def date(self, time: int) -> datetime | None:
        """Return the date and time of an instant in microseconds; None if it is outside the calendar."""
        try:
            return (_EPOCH + timedelta(seconds=self.epoch, microseconds=time)).astimezone(self._zone)
        except OverflowError:
            return None

    def instant(self, date: datetime) -> int:
        """Return the instant of a date in microseconds; a date without a zone is in that of the clock."""
        return unix_micros(date, self._zone) - self.epoch * SECOND


def unix_micros(date: datetime, zone: tzinfo) -> int:
    """Return the microseconds from the begin of 1970 to a date; zone: that of a date which states none."""
    since = (date if date.tzinfo is not None else date.replace(tzinfo=zone)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def instant_text(time: int, clock: Clock | None) -> str:
    """Format an instant as `2013-01-30 08:41:41` in the clock's zone, or without a clock as `day 3 08:41:41`."""
    date = None if clock is None else clock.date(time)
    if date is not None:
        return date.strftime("%Y-%m-%d %H:%M:%S")
    day, rest = divmod(time, _DAY)
    minutes, seconds = divmod(rest // SECOND, 60)
    return f"day {day} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def exact_text(time: int, clock: Clock | None) -> str:
    """Format an instant to the microsecond: like `instant_text`, with the fraction of the second if there is one."""
    part = time % SECOND
    text = instant_text(time - part, clock)
    return f"{text}.{part:06d}".rstrip("0") if part else text


def zone_text(clock: Clock | None) -> str:
    """Return the zone of a clock in brackets, as a suffix of an instant; empty without a clock."""
    return "" if clock is None else f" ({clock.name})"


def instants(clock: Clock | None, **times: int | None) -> dict[str, Any]:
    """Return instants for JSON: `NAME_s` in seconds, and if there is a clock `NAME`, the date in ISO 8601."""
    fields: dict[str, Any] = {f"{name}_s": None if time is None else time / SECOND for name, time in times.items()}
    if clock is not None:
        dates = {name: None if time is None else clock.date(time) for name, time in times.items()}
        fields |= {name: None if date is None else date.isoformat() for name, date in dates.items()}
    return fields
