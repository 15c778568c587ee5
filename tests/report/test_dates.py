"""Dates on the axes of a page."""

from datetime import UTC, datetime

import pytest

from backfill.model.clock import Clock
from backfill.model.units import SECOND
from backfill.report.dates import Dates

DAY = 86_400
STOCKHOLM = Clock(int(datetime(1996, 9, 23, 12, tzinfo=UTC).timestamp()), "Europe/Stockholm")


def marks(days: float, most: int = 9, clock: Clock = STOCKHOLM) -> list[str]:
    length = round(days * DAY) * SECOND
    dates = Dates.of(clock, 0, length)
    assert dates is not None
    return [text for _, text in dates.marks(0, length, most)]


def test_marks_are_round_in_the_zone_of_the_log():
    assert marks(0.25, 6) == ["09-23 14:00", "09-23 15:00", "09-23 16:00", "09-23 17:00", "09-23 18:00", "09-23 19:00",
                              "09-23 20:00"]  # fmt: skip
    assert marks(4, 4) == ["1996-09-24", "1996-09-25", "1996-09-26", "1996-09-27"]
    assert marks(30, 5) == ["1996-09-30", "1996-10-07", "1996-10-14", "1996-10-21"]  # Mondays
    assert marks(330)[:3] == ["1996-11", "1997-01", "1997-03"]
    assert marks(4000) == ["1998", "2000", "2002", "2004", "2006"]
    assert marks(60 / DAY, 6)[:2] == ["14:00:00", "14:00:10"]


def test_midnight_stays_midnight_when_the_clocks_change():
    dates = Dates.of(STOCKHOLM, 0, 60 * DAY * SECOND)
    assert dates is not None
    assert [offset for _, offset in dates.offsets] == [7200, 3600]
    assert dates.offsets[1][0] == int(datetime(1996, 10, 27, 1, tzinfo=UTC).timestamp())
    october, november = (time for time, text in dates.marks(0, 60 * DAY * SECOND, 3) if text in ("1996-10", "1996-11"))
    assert STOCKHOLM.date(int(october)).isoformat() == "1996-10-01T00:00:00+02:00"
    assert STOCKHOLM.date(int(november)).isoformat() == "1996-11-01T00:00:00+01:00"


@pytest.mark.parametrize("clock", [None, Clock(10**13)], ids=["none", "beyond all calendars"])
def test_without_a_calendar_there_are_no_dates(clock):
    assert Dates.of(clock, 0, DAY * SECOND) is None


def test_an_instant_reads_as_in_the_zone():
    dates = Dates.of(STOCKHOLM, 0, DAY * SECOND)
    assert dates is not None
    assert dates.text(0) == "1996-09-23 14:00"
