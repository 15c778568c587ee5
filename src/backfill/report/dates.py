"""Calendar time on a page: dates in the log's zone, and the marks of a time axis.

`static/dates.js` implements the same rule for axes that zoom, and a test compares them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from backfill.model.clock import Clock
from backfill.model.units import SECOND

DAY = 86_400
# Seconds between two marks, followed by days, Mondays, months and years.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY, 2 * DAY, 7 * DAY)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_MONTH = 30.4 * DAY
_MONDAY = 4 * DAY  # 5 January 1970
_SAMPLES = 4000  # instants at which the offset of a zone is looked up, at most one a day
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates of a time range in the log's zone."""

    zone: str
    epoch: int  # seconds from 1970 to time 0 of the log
    offsets: tuple[tuple[int, int], ...]  # (Unix time, seconds that the zone is ahead of UTC from then on), in order

    @classmethod
    def of(cls, clock: Clock | None, begin: int, end: int) -> "Dates | None":
        """Return the dates of [begin, end], microseconds of the log; None without a clock or outside the calendar."""
        if clock is None or clock.date(begin) is None or clock.date(end) is None:
            return None
        first, last = clock.epoch + begin // SECOND, clock.epoch + end // SECOND

        def ahead(unix: int) -> int:
            date = clock.date((unix - clock.epoch) * SECOND)
            offset = None if date is None else date.utcoffset()
            return 0 if offset is None else int(offset.total_seconds())

        offsets = [(first, ahead(first))]
        step = max(DAY, (last - first) // _SAMPLES)
        for at in range(first + step, last + step, step):
            if (offset := ahead(min(at, last))) != offsets[-1][1]:
                low, high = at - step, min(at, last)
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if ahead(middle) == offset else (middle, high)
                offsets.append((high, offset))
        return cls(clock.name, clock.epoch, tuple(offsets))

    @property
    def packed(self) -> str:
        """The offsets as text, for the page."""
        return ";".join(f"{unix},{offset}" for unix, offset in self.offsets)

    def text(self, time: int, with_seconds: bool = False) -> str:
        """Format an instant in microseconds of the log: `2013-01-30 08:41`."""
        date = _EPOCH + timedelta(seconds=int(self.local(self.epoch + time / SECOND)))
        return date.strftime("%Y-%m-%d %H:%M:%S" if with_seconds else "%Y-%m-%d %H:%M")

    def local(self, unix: float) -> float:
        """Return the local time as seconds since 1970."""
        return unix + next((offset for begin, offset in reversed(self.offsets) if begin <= unix), self.offsets[0][1])

    def marks(self, begin: int, end: int, most: float) -> list[tuple[int, str]]:
        """Return about `most` round instants within [begin, end], in microseconds of the log, and their texts."""
        first, last = self.epoch + begin / SECOND, self.epoch + end / SECOND
        least = (last - first) / max(most, 1)
        marked, before = [], None
        for wall, text in _walls(self.local(first), self.local(last), least):
            unix = self._unix(wall)
            if first <= unix <= last and unix != before:
                marked.append(((unix - self.epoch) * SECOND, text))
            before = unix
        return marked

    def _unix(self, wall: int) -> int:
        """Return the instant of a local time; the later one if it occurs twice."""
        return next((wall - offset for begin, offset in reversed(self.offsets) if begin <= wall - offset),
                    wall - self.offsets[0][1])  # fmt: skip


def _walls(first: float, last: float, least: float) -> Iterator[tuple[int, str]]:
    """Yield round local times with at least this many seconds between them."""
    step = next((step for step in STEPS if step >= least), None)
    if step is None:
        months = next((count for count in MONTHS if count * _MONTH >= least), MONTHS[-1])
        begin = _EPOCH + timedelta(seconds=int(first))
        number = (begin.year * 12 + begin.month - 1) // months * months
        while number // 12 < 10_000:
            date = datetime(max(number // 12, 1), number % 12 + 1, 1, tzinfo=UTC)
            wall = int((date - _EPOCH).total_seconds())
            if wall > last:
                return
            yield wall, f"{date.year:04}" if months % 12 == 0 else f"{date:%Y-%m}"
            number += months
        return
    shift = _MONDAY if step == 7 * DAY else 0
    wall = int((first - shift) // step) * step + shift
    while wall <= last:
        date = _EPOCH + timedelta(seconds=wall)
        yield wall, f"{date:{'%Y-%m-%d' if step >= DAY else '%m-%d %H:%M' if step >= 60 else '%H:%M:%S'}}"
        wall += step
