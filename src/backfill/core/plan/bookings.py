"""Bookings: the reserved starts of waiting jobs, found by time.

A booking [begin, begin + length) lies in a cell: its length is from 2**c to 2**(c + 1), and the time line is cut into
cells of 2**c for each c. So all bookings that cover an instant lie in three cells for each c in use. Cells are lists in
a hash table of heads. In addition, a heap holds the begins.

Bookings are kept for policies that declare `booked`; `reserve`, `withdraw`, `start` and the transition `leave` write
them.
Slow twin: a scan of all bookings, in tests/invariants.py.
"""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled, record, zeros
from backfill.compiler.wall import verb
from backfill.core.errors import BY_ALLOW_UNTIL, NONE, NOT_BOOKED, fail
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import CHANGED, NO_TIME, note_promise
from backfill.core.plan.search import span
from backfill.core.queue.heaps import pop_end, push_end
from backfill.core.queue.walk import is_waiting

CLASSES = 63
OPENINGS = 64
STRIDE = 7919  # distance between the hashes of equal cells of neighbouring classes

BOOKINGS = [
    ("kept", int64),  # 1: bookings are kept
    ("begin", int64[::1]),  # (n,): NO_TIME if a job has none
    ("length", int64[::1]),  # (n,)
    ("latest", int64[::1]),  # (n,): the latest start to which a job may be moved
    ("many", int64[::1]),  # (CLASSES,): number of bookings of a class
    ("head", int64[::1]),  # (a power of two,): first job of a list, -1 none
    ("next", int64[::1]),  # (n,)
    ("before", int64[::1]),  # (n,)
    ("found", int64[::1]),  # result of `booked_at`
    ("due", int64[::1]),  # (n,): 1 if `next_booked` may report the begin
    ("due_time", int64[::1]),  # heap of begins; an entry that differs from the job's current begin is void
    ("due_job", int64[::1]),
    ("dues", int64),
    # for the moves on behalf of one project (moves.py, way.py)
    ("moved", int64[:, ::1]),  # (moves, 2): job, and its start before the move
    ("moves", int64),
    # (tries, 4): job, start if the try is kept, first and number of its `seats`
    ("tried", int64[:, ::1]),
    ("tries", int64),
    ("seats", int64[:, ::1]),  # (seated, 2): node, tasks; unused on a pool
    ("seated", int64),
    ("singly", int64),  # 1: jobs of one project make way for each other
    ("lack", int64[::1]),  # (k,): the overbooked amount at an instant
    ("soonest", int64[::1]),  # (n,): lower bound of the start of a job if it were taken out of the plan;
    ("since", int64[::1]),  # (n,): number of openings when that bound was found
    ("opened", int64[::1]),  # (OPENINGS,): where free capacity appeared in the plan, the last ones; a ring
    ("openings", int64),
]
Bookings, BookingsT = record("Bookings", BOOKINGS, globals(), fixed=("kept",))


def new_bookings(jobs: int, resources: int, kept: bool) -> Any:
    """Return an empty table of bookings."""
    n = jobs if kept else 1
    return Bookings(
        kept=int(kept),
        begin=np.full(n, NO_TIME),
        length=zeros(n),
        latest=zeros(n),
        many=zeros(CLASSES),
        head=np.full(1 << max(n - 1, 1).bit_length(), -1),
        next=zeros(n),
        before=zeros(n),
        found=zeros(SMALL),
        due=zeros(n),
        due_time=zeros(SMALL),
        due_job=zeros(SMALL),
        dues=0,
        moved=zeros(SMALL, 2),
        moves=0,
        tried=zeros(SMALL, 4),
        tries=0,
        seats=zeros(SMALL, 2),
        seated=0,
        singly=0,
        lack=zeros(resources),
        soonest=zeros(n),
        since=np.full(n, -OPENINGS - 1),
        opened=zeros(OPENINGS),
        openings=0,
    )


@kernel(inline=True)
def _class_of(length):
    c = 0
    while length >> (c + 1) > 0:
        c += 1
    return c


@kernel(inline=True)
def _head_of(bookings, c, cell):
    return (cell + STRIDE * c) & (len(bookings.head) - 1)


@apart()
def book_in(state, job, t, due):
    """Book the walltime of a job from t on, in place of what it had booked.

    due: whether `next_booked` may report it.
    """
    drop_booking(state, job)
    bookings = state.bookings
    length = span(state, job)
    c = _class_of(length)
    h = _head_of(bookings, c, t >> c)
    bookings.begin[job], bookings.length[job], bookings.due[job] = t, length, due
    bookings.many[c] += 1
    first = bookings.head[h]
    bookings.next[job], bookings.before[job] = first, NONE
    if first >= 0:
        bookings.before[first] = job
    bookings.head[h] = job
    if due:
        if bookings.dues == len(bookings.due_time):
            bookings.due_time, bookings.due_job = doubled(bookings.due_time), doubled(bookings.due_job)
        bookings.dues = push_end(bookings.due_time, bookings.due_job, bookings.dues, t, job)


@apart()
def drop_booking(state, job):
    """Drop the booking of a job that runs or has left."""
    bookings = state.bookings
    t = bookings.begin[job]
    if t == NO_TIME:
        return
    c = _class_of(bookings.length[job])
    bookings.many[c] -= 1
    behind, front = bookings.next[job], bookings.before[job]
    if behind >= 0:
        bookings.before[behind] = front
    if front >= 0:
        bookings.next[front] = behind
    else:
        bookings.head[_head_of(bookings, c, t >> c)] = behind
    bookings.begin[job] = NO_TIME


@kernel()
def take_back(state, job):
    """Withdraw the promised start of a waiting job, and its booking."""
    note_promise(state, job, NO_TIME, CHANGED, NONE)
    state.promises.reserved[job] = NO_TIME
    if state.bookings.kept:
        drop_booking(state, job)


@verb()
def renew_booking(state, job):
    """Update the booking of a job whose walltime, or whose start after an overdue run, has changed."""
    if state.bookings.kept and state.promises.reserved[job] != NO_TIME:
        book_in(state, job, state.promises.reserved[job], np.int64(1))


@apart()
def booked_at(state, t):
    """Write the jobs that have booked the instant t to bookings.found, in no particular order. Return how many."""
    bookings, count = state.bookings, np.int64(0)
    for c in range(CLASSES):
        if bookings.many[c] == 0:
            continue
        for cell in range((t >> c) - 2, (t >> c) + 1):
            job = bookings.head[_head_of(bookings, c, cell)]
            while job >= 0:
                begin, length = bookings.begin[job], bookings.length[job]
                # other cells may share this head
                if begin <= t and t - begin < length and begin >> c == cell and _class_of(length) == c:
                    if count == len(bookings.found):
                        bookings.found = doubled(bookings.found)
                    bookings.found[count] = job
                    count += 1
                job = bookings.next[job]
    return count


@verb()
def next_due(state):
    """Return the waiting job of the lowest number whose reserved start is now; -1 if there is none."""
    count = booked_at(state, state.now)
    found = state.bookings.found
    job = NONE
    for i in range(count):
        if state.bookings.begin[found[i]] == state.now and (job < 0 or found[i] < job):
            job = found[i]
    return job


@kernel(inline=True)
def _is_due(bookings, job, t):
    return bookings.begin[job] == t and bookings.due[job] == 1


@verb()
def next_booked(state):
    """Return the next reserved start; FUTURE if there is none. Starts broken by an overdue job are left out."""
    bookings = state.bookings
    while bookings.dues > 0 and not _is_due(bookings, bookings.due_job[0], bookings.due_time[0]):
        bookings.dues = pop_end(bookings.due_time, bookings.due_job, bookings.dues)
    return bookings.due_time[0] if bookings.dues > 0 else FUTURE


@verb()
def forget_soonest(state):
    """Forget all lower bounds of starts: free capacity may have appeared anywhere in the plan."""
    state.bookings.openings += OPENINGS + 1


@kernel(inline=True)
def are_booked(state):
    """Return whether bookings are kept; requesting a move without them is a mistake of the policy."""
    if not state.bookings.kept:
        fail(state, NOT_BOOKED, NONE, NONE, NONE, NONE)
    return state.bookings.kept == 1


@verb()
def allow_until(state, job, t):
    """Allow a booked job to be moved to any start up to t. Without this call a job is never moved."""
    if are_booked(state) and is_waiting(state, job, BY_ALLOW_UNTIL):
        state.bookings.latest[job] = min(t, FUTURE)
