"""Growth of the plan of nodes: where free capacity appeared, so that a planned job is tried again only there.

A job holds the best placement that existed at its last turn, and elsewhere the free capacity has only shrunk since. So
its next turn has to consider only nodes that grew since the last round began, and only the time that was freed.

Failed searches are remembered for each shape of jobs and each class of lengths: a node, and an interval in which no
such job starts. This stays true until the node grows, and afterwards at every start from which a job does not reach the
freed time.
"""

from numba import int32, int64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import doubled_rows, record, zeros
from backfill.core.plan.profile import FUTURE, PAST

RECENT, FRESH = 0, 1  # since the last round began; since this one began
CLASSES = 16  # of lengths: each covers lengths up to twice those of the one before
SHORTEST = 26  # the first class covers lengths below 2**(SHORTEST + 1) microseconds, which is two minutes
RING = 8  # a power of two: number of growths of one node that are known one by one
MOST = 512  # rows of failed searches
SINCE, UNTIL, LENGTH, TIMES = range(4)
LOG = 8192  # a power of two: number of growths of any node that are known in order
NODE, BEGIN, END, ROOM = range(4)
GAIN, GAINED, READ = range(3)

GROWN = [
    ("count", int64[::1]),  # (2,): number of nodes that grew
    ("node", int64[:, ::1]),  # (2, m): these nodes, ascending
    ("since", int64[:, ::1]),  # (2, m): earliest freed instant of a node
    ("until", int64[:, ::1]),  # (2, m): end of the freed time; PAST if the node did not grow
    ("first", int64[::1]),  # (2,): the least `since`, licences included
    ("unknown", int64[::1]),  # (2,): 1: any node may have grown
    ("times", int64[::1]),  # (m,): number of growths of a node
    ("begin", int64[:, ::1]),  # (m, RING): begins of the last growths of a node
    ("end", int64[:, ::1]),  # (m, RING): their ends
    ("logged", int64),  # number of growths of any node
    ("log", int64[:, ::1]),  # (LOG, 3 + K), a ring: NODE, BEGIN, END; from ROOM on the most that was free there then
    # availability before the plan was rebuilt (renewed.py); empty except during that pass
    ("was_first", int64[::1]),  # (m + 1,): first entry of node j in `was_time` and `was_room`
    ("was_time", int64[::1]),  # begin of an entry
    ("was_room", int64[:, ::1]),  # (K, ...): free amount of resource k
    # failed searches
    ("row", int32[:, ::1]),  # (s, CLASSES): the row of a shape and a class of lengths; 0 none
    ("rows", int64),  # number of rows in use, including row 0, which belongs to no shape
    # (rows * m, 4): for each row and node SINCE and UNTIL, exclusive: no unit of the shape starts there in between, if
    # it runs for at least LENGTH; TIMES: number of growths of the node when that was found
    ("vain", int64[:, ::1]),
    # (MOST, 3): no unit of a row that runs for GAINED starts before GAIN on freed time, given the first READ entries of
    # the log
    ("gain", int64[:, ::1]),
]
Grown, GrownT = record("Grown", GROWN, globals())


def new_grown(nodes: int, shapes: int, resources: int = 1, log: int = LOG) -> object:
    """Return an empty record.

    log: number of growths that are known in order; shorter than LOG for a pool, which has none.
    """
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
    """Record that a node grew somewhere on [begin, end)."""
    slot = grown.times[node] & (RING - 1)
    grown.begin[node, slot], grown.end[node, slot] = begin, end
    grown.times[node] += 1
    entry = grown.log[grown.logged & (LOG - 1)]
    entry[NODE], entry[BEGIN], entry[END] = node, begin, end
    entry[ROOM:] = FUTURE  # not measured yet
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


@kernel()
def row_of(grown, shape, length):
    """Return the row of failed searches of a shape of jobs with this length."""
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
    """Return until when, from t on, a node is known to start no unit of a row with this length; t if unknown."""
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
    """Record that no unit of a row with this length starts on a node on [since, until).

    An earlier record is kept and extended if it covers shorter jobs as well.
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
    """Record that no unit of a row with this length starts before `gain` on time that was freed so far."""
    grown.gain[row, GAIN], grown.gain[row, GAINED], grown.gain[row, READ] = gain, length, grown.logged
