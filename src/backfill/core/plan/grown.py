"""Where the plan of nodes grew, so that a job which has its place is tried again only there.

A job holds the best of all places that there were at its last turn, and room elsewhere has only shrunk since. So nodes
that grew since the last round began are all that its next turn has to look at, on the time that was freed.
"""

from numba import int64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import record, zeros
from backfill.core.plan.profile import FUTURE, PAST

RECENT, FRESH = 0, 1  # since the last round began; since this one did

GROWN = [
    ("count", int64[::1]),  # (2,): nodes that grew
    ("node", int64[:, ::1]),  # (2, m): which
    ("since", int64[:, ::1]),  # (2, m): on node j, somewhere from here
    ("until", int64[:, ::1]),  # (2, m): to here; PAST where it did not
    ("first", int64[::1]),  # (2,): the least `since`, licences included
    ("unknown", int64[::1]),  # (2,): 1: any of them may have
    # searches in vain: a job of a shape that runs no less than `length` starts no sooner on a node, since it grew last
    ("times", int64[::1]),  # (m,): how often a node grew
    ("length", int64[:, ::1]),  # (s, m)
    ("soonest", int64[:, ::1]),  # (s, m)
    ("found", int64[:, ::1]),  # (s, m): `times` when that was found
    # for gangs: from one instant until another no task of a shape that runs no less than `barren_length` starts
    ("barren_since", int64[:, ::1]),  # (s, m)
    ("barren_until", int64[:, ::1]),  # (s, m)
    ("barren_length", int64[:, ::1]),  # (s, m)
    ("barren", int64[:, ::1]),  # (s, m): `times` when that was found
]
Grown, GrownT = record("Grown", GROWN, globals())


def new_grown(nodes: int, shapes: int) -> object:
    """Nothing grew."""
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
        times=zeros(nodes) + 1,
        length=zeros(shapes, nodes),
        soonest=zeros(shapes, nodes),
        found=zeros(shapes, nodes),
        barren_since=zeros(shapes, nodes),
        barren_until=zeros(shapes, nodes),
        barren_length=zeros(shapes, nodes),
        barren=zeros(shapes, nodes),
    )


@kernel()
def note_grown(grown, node, begin, end):
    """A node grew somewhere on [begin, end)."""
    grown.times[node] += 1
    for which in range(2):
        if grown.until[which, node] == PAST:
            grown.node[which, grown.count[which]] = node
            grown.count[which] += 1
            grown.since[which, node] = begin
        grown.since[which, node] = min(grown.since[which, node], begin)
        grown.until[which, node] = max(grown.until[which, node], end)
        grown.first[which] = min(grown.first[which], begin)


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
