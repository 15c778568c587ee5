"""Availability over future time, lane by lane, as the list of all bookings: nothing is ever merged or cut.

The twin of core/plan/profile.py. Amounts are tuples, one number per resource. What lies before the horizon is the past:
nobody books there, and nobody asks.
"""

from bisect import bisect_right
from itertools import pairwise

from .words import Time

Amounts = tuple[int, ...]
Booking = tuple[int, Time, Time, Amounts]  # lane, begin, end, what is taken (given back, where negative)

FUTURE = 2**62  # no such instant


class Lanes:
    def __init__(self, capacity: list[Amounts], horizon: Time):
        self.capacity, self.horizon = capacity, horizon
        self.bookings: list[Booking] = []

    def book(self, lane: int, begin: Time, end: Time, amounts: Amounts) -> None:
        begin, end = max(begin, self.horizon), min(end, FUTURE)
        if begin < end:
            self.bookings.append((lane, begin, end, amounts))

    def steps(self, lane: int) -> list[tuple[Time, Amounts]]:
        """The step function from the horizon on: instants at which availability changes, and what it is from there."""
        events = [(self.horizon, tuple(0 for _ in self.capacity[lane]))]
        for where, begin, end, amounts in self.bookings:
            if where == lane and end > self.horizon:
                events.append((max(begin, self.horizon), tuple(-amount for amount in amounts)))
                events.append((end, amounts))
        room, found = self.capacity[lane], {}
        for t, change in sorted(events):
            room = found[t] = tuple(a + b for a, b in zip(room, change, strict=True))
        steps = list(found.items())
        return steps[:1] + [later for before, later in pairwise(steps) if later[1] != before[1]]

    def from_instant(self, lane: int, t: Time) -> list[tuple[Time, Amounts]]:
        """The steps that lie after an instant, and in front of them the one that holds it, as if it began there."""
        steps = self.steps(lane)
        first = bisect_right(steps, t, key=lambda step: step[0]) - 1
        return [(t, steps[first][1]), *steps[first + 1 :]]

    def next_change(self, lane: int, after: Time) -> Time:
        later = self.from_instant(lane, after)[1:]
        return later[0][0] if later else FUTURE

    def least(self, lane: int, begin: Time, end: Time) -> Amounts:
        """The least availability at `begin` and over [begin, end), resource by resource."""
        rooms = [room for t, room in self.from_instant(lane, begin) if t == begin or t < end]
        return tuple(map(min, zip(*rooms, strict=True)))

    def earliest(self, lane: int, amounts: Amounts, begin: Time, before: Time, until: Time, length: Time) -> Time:
        """The first start in [begin, before) with the amount free until start + length, or until `until`.

        Room appears only where a step begins, so these instants are enough.
        """
        steps = self.from_instant(lane, begin)
        for first, (start, _) in enumerate(steps):
            end = min(start + length, until)
            window = [room for t, room in steps[first : first + length + 1] if t == start or t < end]
            if start < before and all(covers(room, amounts) for room in window):
                return start
        return FUTURE

    def free_since(self, lane: int, amounts: Amounts, t: Time) -> Time:
        """The first instant, no earlier than the horizon, from which the amount is free up to t."""
        steps = [step for step in self.steps(lane) if step[0] < t]
        since = t
        while steps and covers(steps[-1][1], amounts):
            since = steps.pop()[0]
        return since

    def free_around(self, lane: int, amount: int, t: Time) -> tuple[Time, Time]:
        """Since when, and until when, an amount of the first resource stays free around an instant at which it is."""
        steps = self.steps(lane)
        lacking = [begin for begin, room in steps if room[0] < amount]
        ends = [end for (_, room), (end, _) in pairwise(steps) if room[0] < amount and end <= t]
        return max(ends, default=self.horizon), min((begin for begin in lacking if begin > t), default=FUTURE)


def covers(room: Amounts, amounts: Amounts) -> bool:
    return all(there >= asked for there, asked in zip(room, amounts, strict=True))
