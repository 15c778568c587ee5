"""Instants as logs write them: seconds since 1970, or dates in ISO 8601, with or without a zone."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from backfill.model.errors import BadArgument
from backfill.model.units import SECOND, parse_seconds

EXPECTED = "a number of seconds or a date such as 2026-03-01T12:00:00 or 2026-03-01 12:00+01:00"
ZONELESS = "dates without a zone are read as UTC; --timezone Europe/Berlin (for example) names the zone of the log"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# `59:59` in microseconds: to look up the end of a date or of a span costs less than to take it apart.
CLOCK = {f"{minute:02}:{second:02}": (minute * 60 + second) * SECOND for minute in range(60) for second in range(60)}


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
        self._hours: dict[str, int] = {}  # `2026-03-01T12:`, of dates without a zone: they make most of most logs
        self.zoneless = self.dated = False

    def __call__(self, text: str) -> int:
        """The microseconds of an instant. Raises ValueError."""
        try:
            return self._hours[text[:14]] + CLOCK[text[14:]]
        except KeyError:
            return self._new(text)

    def _new(self, text: str) -> int:
        if len(text) == 19 and text[13] == ":" and text[14:] in CLOCK:
            hour = self._hours[text[:14]] = self._date(f"{text[:14]}00:00")
            return hour + CLOCK[text[14:]]
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
