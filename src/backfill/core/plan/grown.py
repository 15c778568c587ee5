"""Growth of the plan of nodes: where free capacity appeared, so that a planned job is tried again only there.

A job holds the best placement that existed at its last turn, and elsewhere the free capacity has only shrunk since. So
its next turn has to consider only nodes that grew since the last round began, and only the time that was freed.

Failed searches are remembered for each shape of jobs and each class of lengths: a node, and an interval in which no
such job starts. This stays true until the node grows, and afterwards at every start from which a job does not reach the
freed time. When a node grows, it is measured for how long each level of amounts stays free around the freed time: a job
that needs this much for longer cannot gain by it. Growth is logged, and a row reads the log when it is used.
"""

from numba import int32, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import doubled_rows, record, zeros
from backfill.core.plan.profile import FUTURE, NONE, PAST, available, entry_after, entry_before, find

FIRST = 0  # resource
RECENT, FRESH = 0, 1  # since the last round began; since this one began
CLASSES = 16  # of lengths: each covers lengths up to twice those of the one before
SHORTEST = 26  # the first class covers lengths below 2**(SHORTEST + 1) microseconds, which is two minutes
LOGGED = 64  # number of growths per node that are known one by one
MOST = 512  # rows of failed searches
SINCE, UNTIL, LENGTH, ENTRY = range(4)
NODE, BEGIN, END = range(3)
LEVELS = 13  # of amounts: level i begins with 2**(i - 1), level 0 with nothing
GAIN, GAINED, READ = range(3)
GANGS = 1024  # facts about whole gangs that are kept, a power of two
SHAPE, TASKS, LASTS, NO_SOONER, NO_LATER, HEEDED = range(6)
TOGETHER = 4096  # number of growths of several nodes together that are known one by one, a power of two

GROWN = [
    ("count", int64[::1]),  # (2,): number of nodes that grew
    ("node", int64[:, ::1]),  # (2, m): these nodes, ascending
    ("since", int64[:, ::1]),  # (2, m): earliest freed instant of a node
    ("until", int64[:, ::1]),  # (2, m): end of the freed time; PAST if the node did not grow
    ("first", int64[::1]),  # (2,): the least `since`, licences included
    ("unknown", int64[::1]),  # (2,): 1: any node may have grown
    ("logged", int64),  # number of growths of any node
    ("log", int64[:, ::1]),  # (a power of two, 3): NODE, BEGIN and END, a ring
    # (LEVELS, as the log): the longest time for which a level of the first resource was free around the freed time
    ("stay", int64[:, ::1]),
    ("opened", int64[::1]),  # (LEVELS,): scratch
    # availability before the plan was rebuilt (renewed.py); empty except during that pass
    ("was_first", int64[::1]),  # (m + 1,): first entry of node j in `was_time` and `was_room`
    ("was_time", int64[::1]),  # begin of an entry
    ("was_room", int64[:, ::1]),  # (K, ...): free amount of resource k
    # failed searches
    ("row", int32[:, ::1]),  # (s, CLASSES): the row of a shape and a class of lengths; 0 none
    ("rows", int64),  # number of rows in use, including row 0, which belongs to no shape
    ("level", int64[::1]),  # (MOST,): level of the need of one unit of a row
    ("read", int64[::1]),  # (MOST,): number of growths that its entries consider
    ("longest", int64[::1]),  # (MOST,): the longest length for which they do
    # (rows * m, ENTRY): for each row and node SINCE and UNTIL, exclusive: no unit of the shape starts there in between,
    # if it runs for at least LENGTH; the last column keeps an entry within half a cache line
    ("vain", int64[:, ::1]),
    # (MOST, 3): no unit of a row that runs for GAINED starts before GAIN on freed time, given the first READ entries of
    # the log
    ("gain", int64[:, ::1]),
    # growths of nodes that were released together, as one, for facts about gangs
    ("together", int64),  # their number
    ("begun", int64[::1]),  # (2,): their number when the last round began, and this one
    ("part", int64[:, ::1]),  # (TOGETHER, 2): begin and end, a ring
    ("stays", int64[:, ::1]),  # (LEVELS, TOGETHER): the greatest `stay` of these nodes
    # (GANGS, 6): no gang of a SHAPE (counted from 1) with so many TASKS that LASTS so long starts on
    # [NO_SOONER, NO_LATER) beside all that is booked, given the first HEEDED growths
    ("gangs", int64[:, ::1]),
]
Grown, GrownT = record("Grown", GROWN, globals())


def new_grown(nodes: int, shapes: int) -> object:
    """Return an empty record."""
    log = 1 << (LOGGED * nodes - 1).bit_length()
    until = zeros(2, nodes)
    until[:] = PAST
    first = zeros(2)
    first[:] = FUTURE
    return Grown(
        count=zeros(2),
        node=zeros(2, nodes),
        since=zeros(2, nodes),
        until=until,
        first=first,
        unknown=zeros(2),
        logged=0,
        log=zeros(log, 3),
        stay=zeros(LEVELS, log),
        opened=zeros(LEVELS),
        was_first=zeros(1),
        was_time=zeros(1),
        was_room=zeros(1, 1),
        row=zeros(shapes, CLASSES).astype("int32"),
        rows=1,
        level=zeros(MOST),
        read=zeros(MOST),
        longest=zeros(MOST),
        vain=zeros(8 * nodes, ENTRY),
        gain=zeros(MOST, 3),
        together=0,
        begun=zeros(2),
        part=zeros(TOGETHER, 2),
        stays=zeros(LEVELS, TOGETHER),
        gangs=zeros(GANGS, 6),
    )


@kernel()
def note_grown(grown, node, begin, end):
    """Record that a node grew somewhere on [begin, end); how long anything stays free around that is not known yet."""
    slot = grown.logged & (len(grown.log) - 1)
    grown.log[slot, NODE], grown.log[slot, BEGIN], grown.log[slot, END] = node, begin, end
    for level in range(LEVELS):
        grown.stay[level, slot] = FUTURE
    grown.logged += 1
    for which in range(2):
        if grown.until[which, node] == PAST:
            _list(grown, which, node)
            grown.since[which, node] = begin
        grown.since[which, node] = min(grown.since[which, node], begin)
        grown.until[which, node] = max(grown.until[which, node], end)
        grown.first[which] = min(grown.first[which], begin)


@kernel(inline=True)
def level_of(amount):
    """Return the level of an amount of the first resource."""
    level = int64(0)
    while level < LEVELS - 1 and amount >> level > 0:
        level += 1
    return level


@apart(grown=GrownT)
def measure_stays(grown, profile, now):
    """Record the longest time for which each level is free around the last growth of a node, from now on."""
    slot, stay, since = (grown.logged - 1) & (len(grown.log) - 1), grown.stay, grown.opened
    node, end = grown.log[slot, NODE], grown.log[slot, END]
    d, e = find(profile, node, grown.log[slot, BEGIN])
    level = _look_back(grown, profile, node, d, e, now)
    for above in range(1, LEVELS):
        stay[above, slot] = 0
    while e != NONE:
        d, e = entry_after(profile, node, d, e)
        t = FUTURE if e == NONE else profile.time[e]
        free = int64(0) if e == NONE else level_of(available(profile, node, d, e, FIRST))
        while level > free:
            stay[level, slot] = FUTURE if e == NONE else max(stay[level, slot], t - since[level])
            level -= 1
        if t < end:
            while level < free:
                level += 1
                since[level] = t
        elif level == 0:
            return


@kernel()
def _look_back(grown, profile, node, d, e, now):
    """Find since when each level has been free up to entry e. Return the level that is free there."""
    highest = level = level_of(available(profile, node, d, e, FIRST))
    while level > 0:
        t, before = max(profile.time[e], now), int64(0)
        if t > now:
            d, e = entry_before(profile, node, d, e)
            before = level_of(available(profile, node, d, e, FIRST))
        while level > before:
            grown.opened[level] = t
            level -= 1
    return highest


@kernel()
def _list(grown, which, node):
    """Add a node to those that grew, in ascending order, so that the data of nodes is later read sequentially."""
    i = grown.count[which]
    while i > 0 and grown.node[which, i - 1] > node:
        grown.node[which, i] = grown.node[which, i - 1]
        i -= 1
    grown.node[which, i] = node
    grown.count[which] += 1


@kernel()
def next_round(grown):
    """Begin a round: forget the growth before the last round, which all jobs have considered."""
    _clear(grown, RECENT)
    for i in range(grown.count[FRESH]):
        node = grown.node[FRESH, i]
        grown.node[RECENT, i] = node
        grown.since[RECENT, node], grown.until[RECENT, node] = grown.since[FRESH, node], grown.until[FRESH, node]
    grown.count[RECENT], grown.first[RECENT] = grown.count[FRESH], grown.first[FRESH]
    grown.unknown[RECENT] = grown.unknown[FRESH]
    grown.begun[RECENT], grown.begun[FRESH] = grown.begun[FRESH], grown.together
    _clear(grown, FRESH)


@kernel()
def _clear(grown, which):
    for i in range(grown.count[which]):
        grown.until[which, grown.node[which, i]] = PAST
    grown.count[which], grown.first[which], grown.unknown[which] = 0, FUTURE, 0


@kernel()
def note_unknown(grown, now):
    """Record that a job holds a placement that may not be its best: all jobs then search all nodes."""
    grown.unknown[FRESH], grown.first[FRESH] = 1, now


@kernel()
def forget_vain(grown):
    """Forget all failed searches."""
    grown.rows = 1
    for shape in range(len(grown.row)):
        for c in range(CLASSES):
            grown.row[shape, c] = 0
    for i in range(GANGS):
        grown.gangs[i, SHAPE] = 0


@kernel()
def row_of(grown, shape, length, need):
    """Return the row of failed searches of a shape of jobs with this length.

    need: of one unit, of the first resource.
    """
    c = 0
    while c < CLASSES - 1 and length >> (SHORTEST + 1 + c) > 0:
        c += 1
    row = int64(grown.row[shape, c])
    if row == 0:
        if grown.rows == MOST:
            forget_vain(grown)
        if grown.rows * grown.since.shape[1] == len(grown.vain):
            grown.vain = doubled_rows(grown.vain)
        row = grown.rows
        grown.row[shape, c] = row
        grown.rows += 1
        grown.level[row], grown.gain[row, GAINED] = level_of(need), 0
        grown.longest[row] = 0
    if length > grown.longest[row] or grown.logged - grown.read[row] > len(grown.log):
        grown.longest[row] = max(grown.longest[row], length)
        _forget_row(grown, row)
    _heed_growth(grown, row)
    grown.read[row] = grown.logged
    return row


@kernel()
def _forget_row(grown, row):
    """Forget the failed searches of a row."""
    nodes = grown.since.shape[1]
    for i in range(row * nodes, (row + 1) * nodes):
        grown.vain[i, SINCE] = grown.vain[i, UNTIL] = 0
    grown.read[row] = grown.logged


@kernel()
def _heed_growth(grown, row):
    """Shorten the entries of a row to what is still true for all its lengths; of two remaining parts the longer one."""
    nodes, mask, longest = grown.since.shape[1], len(grown.log) - 1, grown.longest[row]
    stay, log = grown.stay[grown.level[row]], grown.log
    for i in range(grown.read[row], grown.logged):
        slot = i & mask
        if stay[slot] == 0:
            continue
        entry = grown.vain[row * nodes + log[slot, NODE]]
        if stay[slot] < entry[LENGTH]:
            continue
        first, end = log[slot, BEGIN] - longest + 1, log[slot, END]
        if first < entry[UNTIL] and end > entry[SINCE]:
            if first - entry[SINCE] >= entry[UNTIL] - end:
                entry[UNTIL] = max(first, entry[SINCE])
            else:
                entry[SINCE] = end


@kernel(inline=True)
def vain_until(grown, row, node, length, t):
    """Return until when, from t on, a node is known to start no unit of a row with this length; t if unknown."""
    entry = grown.vain[row * grown.since.shape[1] + node]
    return entry[UNTIL] if entry[SINCE] <= t < entry[UNTIL] and entry[LENGTH] <= length else t


@kernel(inline=True)
def may_gain(grown, row, slot, length):
    """Return whether the need of a unit of a row was free for this long around a growth of a node.

    A window that is free, but was not, was free as a whole when the node last grew within it.
    """
    return grown.stay[grown.level[row], slot] >= length


@kernel()
def note_vain(grown, row, node, length, since, until):
    """Record that no unit of a row with this length starts on a node on [since, until).

    An earlier record that it continues is kept with it, if that covers this length.
    """
    entry = grown.vain[row * grown.since.shape[1] + node]
    if entry[SINCE] <= since <= entry[UNTIL] and entry[LENGTH] <= length and entry[SINCE] < entry[UNTIL]:
        since = entry[SINCE]
    entry[SINCE], entry[UNTIL], entry[LENGTH] = since, until, length


@kernel()
def note_gain(grown, row, length, gain):
    """Record that no unit of a row with this length starts before `gain` on time that was freed so far."""
    grown.gain[row, GAIN], grown.gain[row, GAINED], grown.gain[row, READ] = gain, length, grown.logged


@apart(grown=GrownT)
def note_together(grown, many, begin, end):
    """Record the last `many` growths, of nodes that were released on [begin, end) together, as one."""
    slot, mask = grown.together & (TOGETHER - 1), len(grown.log) - 1
    grown.part[slot, 0], grown.part[slot, 1] = begin, end
    for level in range(LEVELS):
        stay = grown.stay[level]
        longest = int64(0)
        for i in range(max(grown.logged - many, 0), grown.logged):
            longest = max(longest, stay[i & mask])
        grown.stays[level, slot] = longest
    grown.together += 1


@kernel()
def gain_of_growth(grown, level, length, since, begin, held):
    """Bound what a gang that is booked at `held` can gain by the growths from number `since` on.

    Return the first start of [begin, held), the end of such starts, which is not after the first if there is none, and
    whether a node may take more of its tasks at `held`. level: of the need of a task. A window in which a node takes
    more tasks than before was free for one of them when the node last grew in it: all of the window, or up to `held` if
    the gang has tasks there. Nodes that grew together are not told apart.
    """
    first, end, more, mask = held, begin, False, TOGETHER - 1
    since = max(since, grown.begun[RECENT])
    if grown.together - since > mask:
        return begin, held, True
    for i in range(since, grown.together):
        slot = i & mask
        stay, opens, closes = grown.stays[level, slot], grown.part[slot, 0], grown.part[slot, 1]
        if stay >= length or (stay > 0 and opens < held):
            more = more or (stay >= length and opens < held + length and closes > held)
            t = max(begin, opens - length + 1 if stay >= length else held - stay)
            if t < min(held, closes):
                first, end = min(first, t), max(end, min(held, closes))
    return first, end, more


@apart(grown=GrownT)
def fact_of_gang(grown, shape, level, tasks, length):
    """Return the index of the fact about gangs of a shape with so many tasks that run for this length, cut to what is
    still true.

    level: of the need of a task. What a growth makes doubtful is dropped, and of two remaining parts the longer one is
    kept.
    """
    index = (shape * 37 + tasks * 5 + (length >> SHORTEST)) & (GANGS - 1)
    fact, mask, since = grown.gangs[index], TOGETHER - 1, grown.together
    known = fact[SHAPE] == shape + 1 and fact[TASKS] == tasks and fact[LASTS] == length
    if not known or grown.together - fact[HEEDED] > mask:
        fact[SHAPE], fact[TASKS], fact[LASTS], fact[NO_SOONER], fact[NO_LATER] = shape + 1, tasks, length, 0, 0
    elif fact[NO_LATER] > fact[NO_SOONER]:
        since = fact[HEEDED]
    for i in range(since, grown.together):
        slot = i & mask
        first, end = grown.part[slot, 0] - length + 1, grown.part[slot, 1]
        if first < fact[NO_LATER] and end > fact[NO_SOONER] and grown.stays[level, slot] >= length:
            if first - fact[NO_SOONER] >= fact[NO_LATER] - end:
                fact[NO_LATER] = max(first, fact[NO_SOONER])
            else:
                fact[NO_SOONER] = end
    fact[HEEDED] = grown.together
    return int64(index)
