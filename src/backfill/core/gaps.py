"""What a plan offers besides its earliest start, and how a booking moves: for policies that try several places."""

from backfill.core.kernel import kernel
from backfill.core.profile import FUTURE, GIVE, NONE, TAKE, available, book, earliest, entry_after, find


@kernel()
def feasible_starts(profile, lane, matrix, row, factor, begin, length):
    """The first stretch [first, last] of starts from `begin` on, at each of which the amount is free for `length`.

    last is FUTURE where the stretch has no end; both are where there is no such start. The next stretch begins behind
    last: ask again from last + 1.
    """
    first = earliest(profile, lane, matrix, row, factor, begin, FUTURE, FUTURE, length)
    if first == FUTURE:
        return FUTURE, FUTURE
    d, e = find(profile, lane, first)
    while True:
        d, e = entry_after(profile, lane, d, e)
        if e == NONE:
            return first, FUTURE
        for c in range(profile.columns):
            if available(profile, lane, d, e, c) < matrix[row, c] * factor:
                return first, profile.time[e] - length


@kernel()
def shift(profile, lane, begin, end, by, matrix, row, factor):
    """Move what is booked on [begin, end) of a lane by a span, which may be negative."""
    book(profile, lane, begin, end, matrix, row, GIVE * factor)
    book(profile, lane, begin + by, end + by, matrix, row, TAKE * factor)
