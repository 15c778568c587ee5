"""Instants as logs write them: seconds since 1970, or dates in ISO 8601, with or without a zone."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from backfill.model.errors import BadArgument
from backfill.model.units import SECOND, parse_seconds

EXPECTED = "a number of seconds or a date such as 2026-03-01T12:00:00 or 2026-03-01 12:00+01:00"
ZONELESS = "dates without a zone are read as UTC; --timezone Europe/Berlin (for example) names the zone of the log"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_of(name: str | None) -> tzinfo:
    """A zone by its name in the IANA database; None is UTC. Raises UsageError."""
    if name is None or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise BadArgument("timezone", name, "a name of the IANA database such as Europe/Berlin") from None


class Instants:
    """Turns texts into microseconds since 1970, and remembers whether a date came without a zone."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        """zone: of dates that name none."""
        self._zone = zone
        self._hours: dict[str, int] = {}  # `2026-03-01T12`, of dates without a zone: they make most of most logs
        self.zoneless = self.dated = False

    def __call__(self, text: str) -> int:
        """The microseconds of an instant. Raises ValueError."""
        if len(text) == 19 and text[13] == text[16] == ":":
            minute, second = text[14:16], text[17:]
            if minute.isdecimal() and second.isdecimal() and minute < "60" and second < "60" and text.isascii():
                hour = self._hours.get(text[:13])
                if hour is None:
                    hour = self._hours[text[:13]] = self._date(f"{text[:13]}:00:00")
                return hour + (int(minute) * 60 + int(second)) * SECOND
        if text.isascii() and text.isdigit() and len(text) < 11:
            return int(text) * SECOND
        if "-" not in text[1:] or "e" in text:
            return parse_seconds(text)
        return self._date(text)

    def _date(self, text: str) -> int:
        date = datetime.fromisoformat(text)
        self.dated = True
        if date.tzinfo is None:
            self.zoneless = True
            date = date.replace(tzinfo=self._zone)
        since = date - _EPOCH
        return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds
