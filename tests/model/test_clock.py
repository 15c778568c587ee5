"""Calendar time of workloads."""

import pytest

from backfill.model.clock import Clock, instant_text, instants
from backfill.model.units import NEVER, SECOND

KTH = Clock(843480031, "Europe/Stockholm")


@pytest.mark.parametrize(
    ("seconds", "clock", "text"),
    [
        (0, KTH, "1996-09-23 14:00:31"),
        (86_400 * 60, KTH, "1996-11-22 13:00:31"),  # in winter
        (1_359_535_301, Clock(0), "2013-01-30 08:41:41"),
        (1_359_535_301, Clock(0, "no zone of this world"), "2013-01-30 08:41:41"),
        (90_061, None, "day 1 01:01:01"),
        (-1, None, "day -1 23:59:59"),
        (10**12, Clock(0), "day 11574074 01:46:40"),  # beyond the calendar
    ],
)
def test_an_instant_reads_as_a_date_where_there_is_a_clock(seconds, clock, text):
    assert instant_text(seconds * SECOND, clock) == text


def test_a_zone_that_is_not_known_is_told_as_utc():
    assert (KTH.name, Clock(0, "../etc").name) == ("Europe/Stockholm", "UTC")


def test_json_has_seconds_and_the_date():
    assert instants(KTH, start=1_500_000, end=None) == {
        "start_s": 1.5,
        "end_s": None,
        "start": "1996-09-23T14:00:32.500000+02:00",
        "end": None,
    }
    assert instants(None, start=0) == {"start_s": 0}
    assert instants(KTH, end=NEVER)["end"] is None


def test_submits_that_can_only_be_unix_time_are_taken_as_that():
    assert Clock.guess(1_356_996_147 * SECOND) == Clock(0, "UTC")
    assert Clock.guess(31_656_837 * SECOND) is None
    assert Clock.guess(None) is None
