"""Growth of a rebuilt plan of nodes: where it grew is found by comparing it with the old plan.

So after a change of capacity, too, a job is tried only where it can gain. Licences are not compared: jobs that need
some are tried in each round. On a pool nothing is compared, see rooms.py.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.wall import verb
from backfill.core.plan.grown import FRESH, RECENT
from backfill.core.plan.plan import book_again, book_running
from backfill.core.plan.profile import FUTURE, NONE, available, entry_after, find
from backfill.core.plan.rooms import note_growth


@verb()
def renew_running(state):
    """Like `book_running`, while jobs are planned; call `note_renewed` after they are booked again."""
    if state.machine.pool:
        book_running(state)
        return
    _put_aside(state)
    book_again(state)


@kernel()
def _put_aside(state):
    """Save the availability of each node over time, from now on."""
    plan, grown, entries = state.plan.nodes, state.plan.grown, 0
    for node in range(state.machine.nodes):
        for d in range(plan.blocks[node]):
            entries += plan.count[plan.lane[node, d]]
    grown.was_first = np.zeros(state.machine.nodes + 1, np.int64)
    grown.was_time = np.zeros(entries, np.int64)
    grown.was_room = np.zeros((plan.columns, entries), np.int64)
    i = 0
    for node in range(state.machine.nodes):
        grown.was_first[node] = i
        d, e = find(plan, node, state.now)
        while e != NONE:
            grown.was_time[i] = plan.time[e]
            for c in range(plan.columns):
                few_turns()
                grown.was_room[c, i] = available(plan, node, d, e, c)
            i += 1
            d, e = entry_after(plan, node, d, e)
    grown.was_first[state.machine.nodes] = i


@verb()
def note_renewed(state):
    """Record where a plan that was rebuilt has more than was saved at some instant, and drop what was saved."""
    if state.machine.pool:
        return
    plan, grown = state.plan.nodes, state.plan.grown
    for node in range(state.machine.nodes):
        i, last = grown.was_first[node], grown.was_first[node + 1] - 1
        d, e = find(plan, node, state.now)
        t, begin, end = state.now, FUTURE, state.now
        while t < FUTURE:
            next_place, next_entry = entry_after(plan, node, d, e)
            ends = FUTURE if next_entry == NONE else plan.time[next_entry]
            was_ends = FUTURE if i == last else grown.was_time[i + 1]
            until = min(ends, was_ends, FUTURE)
            for c in range(plan.columns):
                few_turns()
                if available(plan, node, d, e, c) > grown.was_room[c, i]:
                    begin, end = min(begin, t), until
            if ends == until and next_entry != NONE:
                d, e = next_place, next_entry
            if was_ends == until and i < last:
                i += 1
            t = until
        if begin < end:
            note_growth(state, node, begin, end)
    grown.first[RECENT] = grown.first[FRESH] = state.now  # licences may have been added
    grown.was_first, grown.was_time = np.zeros(1, np.int64), np.zeros(1, np.int64)
    grown.was_room = np.zeros((plan.columns, 1), np.int64)
