"""Availability over future time: one lane per node (or licence), K resources each.

A lane is a step function. Its breakpoints lie in blocks of at most BLOCK; a block knows bounds of the availability of
its entries and a lift that is added to all of them. So a search skips blocks, a booking over many blocks touches each
once, and a cut moves one block. Entries before the horizon are past and are removed over time.

An amount is always (matrix, row, factor): `matrix[row, k] * factor` of resource k.
Slow twin: tests/reference/lanes.py.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler import jit
from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import doubled, doubled_columns, doubled_rows, record, replace_array
from backfill.core.place.placement import times

BLOCK = 64
STALE = 8  # number of past entries of a first block at which they are removed
# np.int64, here and elsewhere, so that a constant does not cause another compilation
PAST, FUTURE = np.int64(-(2**62)), np.int64(2**62)
TAKE, GIVE, NONE = np.int64(1), np.int64(-1), np.int64(-1)

PROFILE = [
    ("columns", int64),  # K
    ("horizon", int64),  # entries that end before it are never read again
    ("time", int64[::1]),  # (blocks * BLOCK,): instant at which an entry begins
    ("room", int64[:, ::1]),  # (K, blocks * BLOCK): availability, less the lift of the block
    ("count", int64[::1]),  # (blocks,): entries in use
    ("lift", int64[:, ::1]),  # (K, blocks)
    ("least", int64[:, ::1]),  # (K, blocks): lower bound for all entries, lift included
    ("most", int64[:, ::1]),  # (K, blocks): upper bound
    ("lane", int64[:, ::1]),  # (lanes, width): blocks of a lane in order of time
    ("blocks", int64[::1]),  # (lanes,): their number
    ("layout", int64),  # counts how often entries moved to another block
    ("idle", int64[::1]),  # (blocks,): stack of unused blocks
    ("idles", int64),
    ("released", int64),  # counts what was released; as long as it stays, there is only less and less free
    ("saved", int64),  # open savepoints
    ("noted", int64),  # bookings in the journal
    ("note", int64[:, ::1]),  # (notes, 3 + K): lane, begin, end, amounts
]
Profile, ProfileT = record("Profile", PROFILE, globals(), fixed=("columns",))


def new_profile(capacity: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> object:
    """Return a profile in which all of `capacity` (lanes, K) is free for ever."""
    lanes, k = capacity.shape
    blocks = lanes + 8
    profile = Profile(
        columns=k,
        horizon=PAST,
        time=np.zeros(blocks * BLOCK, np.int64),
        room=np.zeros((k, blocks * BLOCK), np.int64),
        count=np.zeros(blocks, np.int64),
        lift=np.zeros((k, blocks), np.int64),
        least=np.zeros((k, blocks), np.int64),
        most=np.zeros((k, blocks), np.int64),
        lane=np.zeros((lanes, 8), np.int64),
        blocks=np.zeros(lanes, np.int64),
        layout=0,
        idle=np.zeros(blocks, np.int64),
        idles=0,
        released=0,
        saved=0,
        noted=0,
        note=np.zeros((8, 3 + k), np.int64),
    )
    clear(profile, np.ascontiguousarray(capacity))
    return profile


def fill_lanes(profile: Any, lanes: slice, amounts: Any) -> None:
    """Set the amounts, shape (lanes,), of lanes of one resource in which nothing was ever booked."""
    blocks = profile.lane[lanes, 0]
    more = amounts - profile.room[0, blocks * BLOCK] - profile.lift[0, blocks]
    for bounds in (profile.lift, profile.least, profile.most):
        bounds[0, blocks] += more


def add_lanes(profile: Any, amounts: Any) -> None:
    """Append empty lanes with these amounts, shape (lanes, K), in blocks that no other lane uses."""
    lanes, old = len(profile.blocks), len(profile.count)
    more = len(amounts)
    blocks, entries = np.arange(old, old + more), np.arange(old, old + more) * BLOCK
    for name, longer in (("time", more * BLOCK), ("count", more), ("blocks", more), ("idle", more)):
        replace_array(profile, name, np.append(getattr(profile, name), np.zeros(longer, np.int64)))
    for name, longer in (("room", more * BLOCK), ("lift", more), ("least", more), ("most", more)):
        replace_array(profile, name, np.pad(getattr(profile, name), ((0, 0), (0, longer))))
    replace_array(profile, "lane", np.pad(profile.lane, ((0, more), (0, 0))))
    profile.lane[lanes:, 0], profile.blocks[lanes:], profile.count[blocks] = blocks, 1, 1
    profile.time[entries] = PAST
    profile.room[:, entries] = profile.least[:, blocks] = profile.most[:, blocks] = np.transpose(amounts)


@apart(capacity=int64[:, ::1])
def clear(profile, capacity):
    """Remove all bookings: every lane is free from the beginning of time."""
    lanes, k = capacity.shape
    for b in range(len(profile.count)):
        profile.idle[b] = len(profile.count) - 1 - b
    profile.idles = len(profile.count)
    profile.horizon = PAST
    profile.released += 1
    profile.saved = 0
    profile.noted = 0
    for lane in range(lanes):
        b = _take_block(profile)
        profile.count[b] = 1
        profile.time[b * BLOCK] = PAST
        for c in range(k):
            profile.room[c, b * BLOCK] = capacity[lane, c]
            profile.lift[c, b] = 0
            profile.least[c, b] = capacity[lane, c]
            profile.most[c, b] = capacity[lane, c]
        profile.lane[lane, 0] = b
        profile.blocks[lane] = 1


@apart(to=ProfileT)
def copy_profile(profile, to):
    """Copy a profile to another one with as many lanes, without its journal."""
    to.time, to.room, to.count = profile.time.copy(), profile.room.copy(), profile.count.copy()
    to.lift, to.least, to.most = profile.lift.copy(), profile.least.copy(), profile.most.copy()
    to.lane, to.blocks, to.idle = profile.lane.copy(), profile.blocks.copy(), profile.idle.copy()
    to.horizon, to.idles, to.layout = profile.horizon, profile.idles, to.layout + 1
    to.saved, to.noted, to.released = 0, 0, to.released + 1


@kernel()
def _take_block(profile):
    if profile.idles == 0:
        old = len(profile.count)
        profile.time = doubled(profile.time)
        profile.room = doubled_columns(profile.room)
        profile.count = doubled(profile.count)
        profile.lift = doubled_columns(profile.lift)
        profile.least = doubled_columns(profile.least)
        profile.most = doubled_columns(profile.most)
        profile.idle = doubled(profile.idle)
        for b in range(old):
            profile.idle[b] = 2 * old - 1 - b
        profile.idles = old
    profile.idles -= 1
    return profile.idle[profile.idles]


@kernel()
def _insert_block(profile, lane, d, b):
    """Insert block b at index d of the lane."""
    profile.layout += 1
    n = profile.blocks[lane]
    if n == profile.lane.shape[1]:
        wider = np.empty((profile.lane.shape[0], 2 * n), np.int64)
        for one in range(profile.lane.shape[0]):
            for i in range(n):
                wider[one, i] = profile.lane[one, i]
        profile.lane = wider
    i = n
    while i > d:
        profile.lane[lane, i] = profile.lane[lane, i - 1]
        i -= 1
    profile.lane[lane, d] = b
    profile.blocks[lane] = n + 1


@kernel()
def _drop_block(profile, lane, d):
    profile.layout += 1
    profile.idle[profile.idles] = profile.lane[lane, d]
    profile.idles += 1
    profile.blocks[lane] -= 1
    for i in range(d, profile.blocks[lane]):
        profile.lane[lane, i] = profile.lane[lane, i + 1]


@kernel()
def _bound(profile, b):
    """Compute the least and the greatest availability of block b."""
    first, last = b * BLOCK, b * BLOCK + profile.count[b]
    for c in range(profile.columns):
        few_turns()
        room = profile.room[c]
        low = high = room[first]
        for e in range(np.uint64(first + 1), np.uint64(last)):
            low = min(low, room[e])
            high = max(high, room[e])
        profile.least[c, b] = low + profile.lift[c, b]
        profile.most[c, b] = high + profile.lift[c, b]


@kernel(inline=True)
def _unbound(profile, b):
    """Give block b bounds that exclude nothing: the only block of a lane is searched in any case."""
    for c in range(profile.columns):
        few_turns()
        profile.least[c, b], profile.most[c, b] = PAST, FUTURE


@kernel()
def _block_at(profile, lane, t):
    """Return the index in the lane of the block that holds instant t."""
    low, high = 0, profile.blocks[lane]
    while high - low > 1:
        middle = (low + high) >> 1
        if profile.time[profile.lane[lane, middle] * BLOCK] <= t:
            low = middle
        else:
            high = middle
    return low


@kernel()
def _entry_at(profile, b, t):
    """Return the last entry of block b that begins at t or earlier. It compares all, which is faster than branching."""
    first, used = np.uint64(b * BLOCK), np.uint64(profile.count[b])
    begun = np.int64(0)
    for i in range(used if jit.PLAIN else np.uint64(BLOCK)):
        begun += np.int64(profile.time[first + i] <= t and i < used)
    return b * BLOCK + max(begun, 1) - 1


@kernel()
def find(profile, lane, t):
    """Return the index in the lane of the block that holds instant t, and its entry."""
    d = _block_at(profile, lane, t)
    return d, _entry_at(profile, profile.lane[lane, d], t)


@kernel(inline=True)
def entry_after(profile, lane, d, e):
    """Return the index and entry after e, which lies in the block at index d of the lane; entry NONE after the last."""
    b = profile.lane[lane, d]
    if e + 1 < b * BLOCK + profile.count[b]:
        return d, e + 1
    if d + 1 < profile.blocks[lane]:
        return d + 1, profile.lane[lane, d + 1] * BLOCK
    return d, NONE


@kernel(inline=True)
def entry_before(profile, lane, d, e):
    """Return the index and entry before e, which lies in the block at index d of the lane. There must be one."""
    if e > profile.lane[lane, d] * BLOCK:
        return d, e - 1
    b = profile.lane[lane, d - 1]
    return d - 1, b * BLOCK + profile.count[b] - 1


@kernel()
def first_free(profile, lane, d, e, amount):
    """Return the first of the consecutive entries up to e that have an amount of the first resource free."""
    b = profile.lane[lane, d]
    while True:
        floor = amount - profile.lift[0, b]
        while e > b * BLOCK and profile.room[0, e - 1] >= floor:
            e -= 1
        if e > b * BLOCK or d == 0:
            return d, e
        b = profile.lane[lane, d - 1]
        last = b * BLOCK + profile.count[b] - 1
        if profile.room[0, last] + profile.lift[0, b] < amount:
            return d, e
        d -= 1
        e = b * BLOCK if profile.least[0, b] >= amount else last


@kernel()
def last_free(profile, lane, d, e, amount):
    """Return the last of the consecutive entries from e that have an amount of the first resource free."""
    b = profile.lane[lane, d]
    while True:
        floor, last = amount - profile.lift[0, b], b * BLOCK + profile.count[b] - 1
        while e < last and profile.room[0, e + 1] >= floor:
            e += 1
        if e < last or d + 1 == profile.blocks[lane]:
            return d, e
        b = profile.lane[lane, d + 1]
        if profile.room[0, b * BLOCK] + profile.lift[0, b] < amount:
            return d, e
        d += 1
        e = b * BLOCK
        if profile.least[0, b] >= amount:
            e += profile.count[b] - 1


@kernel()
def change_after(profile, lane, t):
    """Return the first instant after t at which a lane changes; FUTURE if there is none."""
    d, e = find(profile, lane, t)
    d, e = entry_after(profile, lane, d, e)
    return FUTURE if e == NONE else profile.time[e]


@kernel(inline=True)
def available(profile, lane, d, e, c):
    """Return the available amount of resource c at entry e, in the block at index d of the lane."""
    return profile.room[c, e] + profile.lift[c, profile.lane[lane, d]]


@kernel()
def _shift(profile, first, last, places):
    """Move the entries from first to last (exclusive) by `places`."""
    _shift_row(profile.time, first, last, places)
    for c in range(profile.columns):
        few_turns()
        _shift_row(profile.room[c], first, last, places)


@kernel(inline=True)
def _shift_row(row, first, last, places):
    """Move a part of a row. Unsigned indices spare the compiler the negative case, so such loops are vectorized."""
    n, here, there = np.uint64(last - first), np.uint64(first), np.uint64(first + places)
    if places < 0:
        for i in range(n):
            row[there + i] = row[here + i]
    else:
        for i in range(np.uint64(1), n + np.uint64(1)):
            row[there + n - i] = row[here + n - i]


@kernel(inline=True)
def _add(row, first, last, amount):
    for e in range(np.uint64(first), np.uint64(last)):
        row[e] += amount


@apart()
def trim(profile, now):
    """Remove past blocks, which end before `now`, and past entries of the first block if there are many."""
    profile.horizon = now
    for lane in range(len(profile.blocks)):
        while profile.blocks[lane] > 1 and profile.time[profile.lane[lane, 1] * BLOCK] <= now:
            _drop_block(profile, lane, 0)
        b = profile.lane[lane, 0]
        if profile.count[b] > STALE and profile.time[b * BLOCK + STALE] <= now:
            _shed(profile, b)


@kernel()
def _shed(profile, b):
    """Remove the past entries of a first block. Return their number."""
    keep = _entry_at(profile, b, profile.horizon)
    gone = keep - b * BLOCK
    if gone > 0:
        profile.layout += 1
        _shift(profile, keep, b * BLOCK + profile.count[b], -gone)
        profile.count[b] -= gone
        _bound(profile, b)
    return gone


@kernel()
def _split(profile, lane, d):
    """Split the block at index d into halves."""
    b = profile.lane[lane, d]
    new = _take_block(profile)
    half = BLOCK // 2
    for e in range(half):
        profile.time[new * BLOCK + e] = profile.time[b * BLOCK + half + e]
        for c in range(profile.columns):
            few_turns()
            profile.room[c, new * BLOCK + e] = profile.room[c, b * BLOCK + half + e]
    for c in range(profile.columns):
        few_turns()
        profile.lift[c, new] = profile.lift[c, b]
    profile.count[b] = half
    profile.count[new] = BLOCK - half
    _bound(profile, b)
    _bound(profile, new)
    _insert_block(profile, lane, d + 1, new)


@kernel()
def _cut(profile, lane, t):
    """Make t a breakpoint. Return the index in the lane of its block, and its entry."""
    d = _block_at(profile, lane, t)
    b = profile.lane[lane, d]
    e = _entry_at(profile, b, t)
    if profile.time[e] == t:
        return d, e
    if profile.count[b] == BLOCK:
        if d > 0 or profile.horizon == PAST or _shed(profile, b) == 0:
            _split(profile, lane, d)
            d = _block_at(profile, lane, t)
            b = profile.lane[lane, d]
        e = _entry_at(profile, b, t)
    _shift(profile, e, b * BLOCK + profile.count[b], np.int64(1))
    profile.time[e + 1] = t
    profile.count[b] += 1
    return d, e + 1


@kernel()
def _join(profile, lane, d, e):
    """Remove the breakpoint at entry e, in the block at index d, if nothing changes there."""
    b = profile.lane[lane, d]
    first = b * BLOCK
    before, lifted = e - 1, b
    if e == first:
        if d == 0:
            return
        lifted = profile.lane[lane, d - 1]
        before = lifted * BLOCK + profile.count[lifted] - 1
    for c in range(profile.columns):
        few_turns()
        if profile.room[c, e] + profile.lift[c, b] != profile.room[c, before] + profile.lift[c, lifted]:
            return
    _shift(profile, e + 1, first + profile.count[b], np.int64(-1))
    profile.count[b] -= 1
    if profile.count[b] == 0:
        _drop_block(profile, lane, d)
    elif profile.count[b] < BLOCK // 4 and profile.blocks[lane] > 1:
        _merge(profile, lane, d if d + 1 < profile.blocks[lane] else d - 1)


@kernel()
def _merge(profile, lane, d):
    """Move the entries of the next block into the block at index d, if they fit easily."""
    b, gone = profile.lane[lane, d], profile.lane[lane, d + 1]
    base, n = b * BLOCK + profile.count[b], profile.count[gone]
    if profile.count[b] + n > BLOCK // 2:
        return
    for e in range(n):
        profile.time[base + e] = profile.time[gone * BLOCK + e]
        for c in range(profile.columns):
            few_turns()
            profile.room[c, base + e] = profile.room[c, gone * BLOCK + e] + profile.lift[c, gone] - profile.lift[c, b]
    profile.count[b] += n
    for c in range(profile.columns):
        few_turns()
        profile.least[c, b] = min(profile.least[c, b], profile.least[c, gone])
        profile.most[c, b] = max(profile.most[c, b], profile.most[c, gone])
    _drop_block(profile, lane, d + 1)


@apart(matrix=int64[:, ::1])
def book(profile, lane, begin, end, matrix, row, factor):
    """Book the amount (release it if factor < 0) on [begin, end) of a lane, except for the past.

    A booking ends at FUTURE at the latest, so that nothing starts later and no sum of a start and a length overflows.
    """
    begin, end = max(begin, profile.horizon), min(end, FUTURE)
    if end <= begin:
        return
    profile.released += factor < 0
    if profile.saved > 0:
        _note(profile, lane, begin, end, matrix, row, factor)
    last_place, last_entry = _cut(profile, lane, end)
    laid, held = profile.layout, profile.count[profile.lane[lane, last_place]]
    place, entry = _cut(profile, lane, begin)
    if profile.layout != laid:
        last_place, last_entry = find(profile, lane, end)
    elif place == last_place:
        last_entry += profile.count[profile.lane[lane, place]] - held
    for d in range(place, last_place + 1):
        b = profile.lane[lane, d]
        first = b * BLOCK
        begins = entry if d == place else first
        last = last_entry if d == last_place else first + profile.count[b]
        if begins == first and last == first + profile.count[b]:
            for c in range(profile.columns):
                few_turns()
                amount = matrix[row, c] * factor
                profile.lift[c, b] -= amount
                profile.least[c, b] -= amount
                profile.most[c, b] -= amount
        elif last > begins:
            for c in range(profile.columns):
                few_turns()
                _add(profile.room[c], begins, last, -matrix[row, c] * factor)
            if profile.blocks[lane] > 1:
                _bound(profile, b)
            else:
                _unbound(profile, b)
    laid = profile.layout
    _join(profile, lane, last_place, last_entry)
    if profile.layout != laid:
        place, entry = find(profile, lane, begin)
    _join(profile, lane, place, entry)


@kernel(inline=True)
def least_for(matrix, row, c, factor):
    """Return how much of a resource must be free; if none is requested, any negative amount will do.

    Windows may take what runs still hold, so availability may be negative.
    """
    amount = matrix[row, c] * factor
    return amount if amount > 0 else PAST


@apart(matrix=int64[:, ::1])
def earliest(profile, lane, matrix, row, factor, begin, before, until, length):
    """Return the first s in [begin, before) with the amount free on [s, min(s + length, until)); FUTURE if none.

    `before` = `until` = FUTURE gives the earliest start. A job that already holds a start passes it as `until`: from
    there on the time is covered by its own booking, so a better start is found without taking the job out of the plan.
    """
    d = _block_at(profile, lane, begin)
    b = profile.lane[lane, d]
    e = _entry_at(profile, b, begin)
    start = begin
    blocked = False
    while True:
        first, last = b * BLOCK, b * BLOCK + profile.count[b]
        somewhere, everywhere = _bounds_allow(profile, b, matrix, row, factor)
        if not somewhere:
            blocked = True
        elif everywhere:
            if blocked:
                start = profile.time[first]
                blocked = False
        else:
            floor = least_for(matrix, row, 0, factor) - profile.lift[0, b]
            while e < last:
                t = profile.time[e]
                if t >= until or (not blocked and t - start >= length):
                    break
                fits = profile.room[0, e] >= floor
                for c in range(1, profile.columns):
                    few_turns()
                    fits = fits and profile.room[c, e] + profile.lift[c, b] >= least_for(matrix, row, c, factor)
                if not fits:
                    blocked = True
                    if t >= before:
                        return FUTURE
                elif blocked:
                    start = t
                    blocked = False
                e += 1
        d += 1
        if not blocked and start >= before:
            return FUTURE
        if d == profile.blocks[lane]:
            return FUTURE if blocked else start
        b = profile.lane[lane, d]
        e = b * BLOCK
        if not blocked and (profile.time[e] - start >= length or profile.time[e] >= until):
            return start
        if blocked and profile.time[e] >= before:
            return FUTURE


@apart(matrix=int64[:, ::1])
def earliest_of_many(profile, lane, matrix, row, factor, begin, before, until, length):
    """Return the first s in [begin, before) with the amount free on [s, min(s + length, until)); FUTURE if none.

    The same as `earliest`, for windows with many entries: each window is checked from its end, so that everything
    before a blocking entry is skipped.
    """
    d = _block_at(profile, lane, begin)
    start, known = begin, begin  # free from `start` to `known`
    while start < before:
        end = min(start + length, until)
        while d + 1 < profile.blocks[lane] and profile.time[profile.lane[lane, d + 1] * BLOCK] < end:
            d += 1
        somewhere, everywhere = _bounds_allow(profile, profile.lane[lane, d], matrix, row, factor)
        if everywhere or not somewhere:
            e = profile.lane[lane, d] * BLOCK
            ahead_place, ahead = d + 1, _first_entry(profile, lane, d + 1)
        else:
            e = _entry_at(profile, profile.lane[lane, d], end - 1)
            ahead_place, ahead = entry_after(profile, lane, d, e)
        free_until = FUTURE if ahead == NONE else profile.time[ahead]
        blocked, entered = not somewhere, False
        while not blocked:
            if entered:  # else the bounds are those of the entry before
                _, everywhere = _bounds_allow(profile, profile.lane[lane, d], matrix, row, factor)
            if everywhere:
                e = profile.lane[lane, d] * BLOCK
            else:
                for c in range(profile.columns):
                    few_turns()
                    blocked = blocked or available(profile, lane, d, e, c) < least_for(matrix, row, c, factor)
            if blocked or profile.time[e] <= known:
                break
            ahead_place, ahead = d, e
            d, e = entry_before(profile, lane, d, e)
            entered = d != ahead_place
        if not blocked:
            return start
        if ahead == NONE:
            return FUTURE
        d, start = ahead_place, profile.time[ahead]
        known = free_until
    return FUTURE


@kernel(inline=True)
def _bounds_allow(profile, b, matrix, row, factor):
    """Return whether the amount may be free somewhere in block b, and whether it is everywhere, by its bounds."""
    somewhere = everywhere = True
    for c in range(profile.columns):
        few_turns()
        amount = least_for(matrix, row, c, factor)
        somewhere = somewhere and profile.most[c, b] >= amount
        everywhere = everywhere and profile.least[c, b] >= amount
    return somewhere, everywhere


@kernel(inline=True)
def _first_entry(profile, lane, d):
    """Return the first entry of the block at index d of a lane; NONE behind the last block."""
    return profile.lane[lane, d] * BLOCK if d < profile.blocks[lane] else NONE


@apart(out=int64[:, ::1])
def least_over(profile, lane, begin, end, out, row):
    """Write the least availability of a lane over [begin, end), and at `begin` itself, to out[row]."""
    d = _block_at(profile, lane, begin)
    b = profile.lane[lane, d]
    e = _entry_at(profile, b, begin)
    for c in range(profile.columns):
        few_turns()
        out[row, c] = profile.room[c, e] + profile.lift[c, b]
    while d < profile.blocks[lane]:
        b = profile.lane[lane, d]
        last = b * BLOCK + profile.count[b]
        if profile.time[b * BLOCK] >= end:
            return
        while e < last and profile.time[e] < end:
            for c in range(profile.columns):
                few_turns()
                out[row, c] = min(out[row, c], profile.room[c, e] + profile.lift[c, b])
            e += 1
        d += 1
        if d < profile.blocks[lane]:
            e = profile.lane[lane, d] * BLOCK


@apart(demand=int64[:, ::1])
def tasks_over(profile, lane, begin, end, demand, job, most):
    """Return how many tasks of a job, at most `most`, a lane takes over all of [begin, end), and when this bound ends.

    The bound ends with the last entry on which the lane takes no more tasks than that.
    """
    d = _block_at(profile, lane, end - 1)
    b = profile.lane[lane, d]
    e = _entry_at(profile, b, end - 1)
    _, behind = entry_after(profile, lane, d, e)
    after = FUTURE if behind == NONE else profile.time[behind]
    fewest, release = most, begin
    while True:
        while e >= b * BLOCK:
            tasks = most
            for c in range(profile.columns):
                few_turns()
                if demand[job, c] > 0:
                    tasks = min(tasks, times(profile.room[c, e] + profile.lift[c, b], demand[job, c]))
            if tasks < fewest:
                fewest, release = max(tasks, 0), after
            after = profile.time[e]
            if fewest == 0 or after <= begin:
                return fewest, release
            e -= 1
        d -= 1
        b = profile.lane[lane, d]
        e = b * BLOCK + profile.count[b] - 1


@apart(matrix=int64[:, ::1])
def free_since(profile, lane, matrix, row, factor, t):
    """Return the first instant from which the amount is free up to t; t if it is not free just before."""
    d, e = find(profile, lane, t - 1)
    since = t
    while True:
        for c in range(profile.columns):
            few_turns()
            if available(profile, lane, d, e, c) < least_for(matrix, row, c, factor):
                return since
        since = profile.time[e]
        if since <= profile.horizon:
            return since
        entered = e == profile.lane[lane, d] * BLOCK
        d, e = entry_before(profile, lane, d, e)
        if entered and _bounds_allow(profile, profile.lane[lane, d], matrix, row, factor)[1]:
            e = profile.lane[lane, d] * BLOCK


@kernel()
def _note(profile, lane, begin, end, matrix, row, factor):
    if profile.noted == len(profile.note):
        profile.note = doubled_rows(profile.note)
    profile.note[profile.noted, 0] = lane
    profile.note[profile.noted, 1] = begin
    profile.note[profile.noted, 2] = end
    for c in range(profile.columns):
        few_turns()
        profile.note[profile.noted, 3 + c] = matrix[row, c] * factor
    profile.noted += 1


@kernel()
def savepoint(profile):
    """Start recording bookings. Return the mark for `rollback` and `commit`; savepoints nest."""
    profile.saved += 1
    return profile.noted


@kernel()
def rollback(profile, mark):
    """Undo every booking since the savepoint with this mark, the last one first, and close it."""
    profile.saved -= 1
    saved, profile.saved = profile.saved, 0
    amount = np.empty((1, profile.columns), np.int64)
    for n in range(profile.noted - 1, mark - 1, -1):
        for c in range(profile.columns):
            few_turns()
            amount[0, c] = profile.note[n, 3 + c]
        book(profile, profile.note[n, 0], profile.note[n, 1], profile.note[n, 2], amount, np.int64(0), GIVE)
    profile.noted = mark
    profile.saved = saved


@kernel()
def commit(profile):
    """Keep the bookings since the savepoint, and close it."""
    profile.saved -= 1
    if profile.saved == 0:
        profile.noted = 0
