"""Where the plan of nodes grew, so that a job which has its place is tried again only there.

A job holds the best of all places that there were at its last turn, and room elsewhere has only shrunk since. So nodes
that grew since the last round began are all that its next turn has to look at, on the time that was freed.

Searches in vain are remembered, for each shape of jobs and each class of lengths: on a node, from one instant until
another, none of them starts. That stays true until the node grows, and then at every start from which a job does not
reach what was freed.
"""

from numba import int32, int64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import doubled_rows, record, zeros
from backfill.core.plan.profile import FUTURE, PAST

RECENT, FRESH = 0, 1  # since the last round began; since this one did
CLASSES = 16  # of lengths: each of them up to twice the one before
SHORTEST = 26  # lengths below 2**(SHORTEST + 1) microseconds, which is two minutes, are of the first class
RING = 8  # a power of two: so many times that a node grew are known one by one
MOST = 512  # rows of searches in vain
SINCE, UNTIL, LENGTH, TIMES = range(4)
LOG = 8192  # a power of two: so many times that any node grew are known in their order
NODE, BEGIN, END, ROOM = range(4)
GAIN, GAINED, READ = range(3)

GROWN = [
    ("count", int64[::1]),  # (2,): nodes that grew
    ("node", int64[:, ::1]),  # (2, m): which, ascending
    ("since", int64[:, ::1]),  # (2, m): on node j, somewhere from here
    ("until", int64[:, ::1]),  # (2, m): to here; PAST where it did not
    ("first", int64[::1]),  # (2,): the least `since`, licences included
    ("unknown", int64[::1]),  # (2,): 1: any of them may have
    ("times", int64[::1]),  # (m,): how often a node grew
    ("begin", int64[:, ::1]),  # (m, RING): where it grew, the last times: from here
    ("end", int64[:, ::1]),  # (m, RING): to here
    ("logged", int64),  # how often any node grew
    ("log", int64[:, ::1]),  # (LOG, 3 + K): NODE, BEGIN and END, a ring; from ROOM on the most that was free there then
    # what there was before the plan was made anew (renewed.py); empty but for that pass
    ("was_first", int64[::1]),  # (m + 1,): node j has entries from here, in `was_time` and
    ("was_time", int64[::1]),  # from when on
    ("was_room", int64[:, ::1]),  # (K, ...): how much of resource k was free
    # searches in vain
    ("row", int32[:, ::1]),  # (s, CLASSES): the row of a shape and class of lengths; 0 none
    ("rows", int64),  # that are used, the first one included, which nobody has
    # (rows * m, 4): for each row and node SINCE and UNTIL, exclusive: then no unit of the shape starts there, if it
    # runs no less than LENGTH; and the TIMES that the node had grown when that was found
    ("vain", int64[:, ::1]),
    # (MOST, 3): where no unit of a row starts before GAIN on time that was freed, if it runs for GAINED, as of so many
    # entries of the log that are READ
    ("gain", int64[:, ::1]),
]
Grown, GrownT = record("Grown", GROWN, globals())


def new_grown(nodes: int, shapes: int, resources: int = 1, log: int = LOG) -> object:
    """Nothing grew. log: how many growths are known in their order; LOG, but for a pool, which has none."""
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
        times=zeros(nodes),
        begin=zeros(nodes, RING),
        end=zeros(nodes, RING),
        logged=0,
        log=zeros(log, ROOM + resources),
        was_first=zeros(1),
        was_time=zeros(1),
        was_room=zeros(1, 1),
        row=zeros(shapes, CLASSES).astype("int32"),
        rows=1,
        vain=zeros(8 * nodes, 4),
        gain=zeros(MOST, 3),
    )


@kernel()
def note_grown(grown, node, begin, end):
    """A node grew somewhere on [begin, end)."""
    slot = grown.times[node] & (RING - 1)
    grown.begin[node, slot], grown.end[node, slot] = begin, end
    grown.times[node] += 1
    entry = grown.log[grown.logged & (LOG - 1)]
    entry[NODE], entry[BEGIN], entry[END] = node, begin, end
    entry[ROOM:] = FUTURE  # nobody has looked yet
    grown.logged += 1
    for which in range(2):
        if grown.until[which, node] == PAST:
            _list(grown, which, node)
            grown.since[which, node] = begin
        grown.since[which, node] = min(grown.since[which, node], begin)
        grown.until[which, node] = max(grown.until[which, node], end)
        grown.first[which] = min(grown.first[which], begin)


@kernel()
def _list(grown, which, node):
    """Add a node to those that grew, in order: what is kept of nodes side by side is then read as it lies."""
    i = grown.count[which]
    while i > 0 and grown.node[which, i - 1] > node:
        grown.node[which, i] = grown.node[which, i - 1]
        i -= 1
    grown.node[which, i] = node
    grown.count[which] += 1


@kernel()
def next_round(grown):
    """A round begins: what grew before the last one was looked at by all."""
    _clear(grown, RECENT)
    for i in range(grown.count[FRESH]):
        node = grown.node[FRESH, i]
        grown.node[RECENT, i] = node
        grown.since[RECENT, node], grown.until[RECENT, node] = grown.since[FRESH, node], grown.until[FRESH, node]
    grown.count[RECENT], grown.first[RECENT] = grown.count[FRESH], grown.first[FRESH]
    grown.unknown[RECENT] = grown.unknown[FRESH]
    _clear(grown, FRESH)


@kernel()
def _clear(grown, which):
    for i in range(grown.count[which]):
        grown.until[which, grown.node[which, i]] = PAST
    grown.count[which], grown.first[which], grown.unknown[which] = 0, FUTURE, 0


@kernel()
def note_unknown(grown, now):
    """A job holds a place of which nobody knows whether it is its best: all look for theirs on all nodes."""
    grown.unknown[FRESH], grown.first[FRESH] = 1, now


@kernel()
def forget_vain(grown):
    """No search in vain is known."""
    grown.rows = 1
    for shape in range(len(grown.row)):
        for c in range(CLASSES):
            grown.row[shape, c] = 0


@kernel()
def row_of(grown, shape, length):
    """The row of searches in vain of a shape of jobs that run so long."""
    c = 0
    while c < CLASSES - 1 and length >> (SHORTEST + 1 + c) > 0:
        c += 1
    if grown.row[shape, c] > 0:
        return int64(grown.row[shape, c])
    if grown.rows == MOST:
        forget_vain(grown)
    if grown.rows * len(grown.times) == len(grown.vain):
        grown.vain = doubled_rows(grown.vain)
    row = grown.rows
    grown.row[shape, c] = row
    grown.rows += 1
    grown.gain[row, GAINED] = 0
    for node in range(len(grown.times)):
        grown.vain[row * len(grown.times) + node, SINCE] = grown.vain[row * len(grown.times) + node, UNTIL] = 0
    return row


@kernel()
def vain_until(grown, row, node, length, t):
    """Until when, from t on, no unit of a row that runs so long starts on a node; t itself where nothing is known."""
    vain = grown.vain[row * len(grown.times) + node]
    until = vain[UNTIL]
    if t >= until or t < vain[SINCE] or length < vain[LENGTH]:
        return t
    first, last = vain[TIMES], grown.times[node]
    if last - first > RING:
        return t
    for i in range(first, last):
        if t < grown.end[node, i & (RING - 1)]:
            until = min(until, grown.begin[node, i & (RING - 1)] - length + 1)
    return max(until, t)


@kernel()
def note_vain(grown, row, node, length, since, until):
    """No unit of a row that runs so long starts on a node on [since, until).

    What is known already is kept where it is of shorter jobs as well, and goes on to here.
    """
    vain = grown.vain[row * len(grown.times) + node]
    known = vain_until(grown, row, node, length, vain[SINCE])
    if vain[SINCE] <= since <= known and known > vain[SINCE]:
        if length > vain[LENGTH] and vain[TIMES] == grown.times[node]:
            return
        since = vain[SINCE]
    vain[SINCE], vain[UNTIL], vain[LENGTH], vain[TIMES] = since, until, length, grown.times[node]


@kernel()
def note_gain(grown, row, length, gain):
    """No unit of a row that runs so long starts sooner on time that was freed so far."""
    grown.gain[row, GAIN], grown.gain[row, GAINED], grown.gain[row, READ] = gain, length, grown.logged
