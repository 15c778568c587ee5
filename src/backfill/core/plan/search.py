"""Search for a start in a plan, among nodes and licences: the first instant from which the whole request stays free."""

import numpy as np
from numba import int8, int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import SMALL, doubled, record, zeros
from backfill.core.pace import longest
from backfill.core.place.gangs import first_enough, group_of, may_run_on, seat, shares_site
from backfill.core.place.placement import tasks_that_fit
from backfill.core.plan.grown import RECENT, note_vain, vain_until
from backfill.core.plan.profile import FUTURE, TAKE, earliest, tasks_over
from backfill.core.queue.heaps import pop_end, push_end
from backfill.core.runs import place_as_before
from backfill.core.trace import LOOKS

ONLY = np.int64(0)  # the only lane of a pool, and of all nodes together
NOT_KEPT = np.int64(0)  # the row of failed searches (grown.py) if none are kept

SEARCH = [
    ("tasks", int64[::1]),  # (m,): number of tasks of a gang that a node takes over a whole window
    ("release", int64[::1]),  # (m,): a window that begins before this instant takes no more tasks there
    ("sums", int64[::1]),  # (sites,): sums of the tasks on a site; all in the first if they may run anywhere
    # heap of releases (time, node); void if it is no longer the node's release
    ("time", int64[::1]),
    ("node", int64[::1]),
    ("waiting", int64),
    ("out", int64[::1]),  # (m,): nodes that were released since they were last checked
    ("released", int64),  # number of these nodes
    ("own", int8[::1]),  # (m,): 1: the job was taken out from here, so what is known of the node does not hold
    ("gain", int64[::1]),  # (m,): the i-th node that grew takes no task sooner on freed time
]
Search, SearchT = record("Search", SEARCH, globals())


def new_search(nodes: int, sites: int) -> object:
    """Return the working memory of a search."""
    return Search(
        tasks=zeros(nodes),
        release=zeros(nodes),
        sums=zeros(sites),
        time=zeros(SMALL),
        node=zeros(SMALL),
        waiting=0,
        out=zeros(nodes),
        released=0,
        own=np.zeros(nodes, np.int8),
        gain=zeros(nodes),
    )


@kernel()
def span(state, job):
    """Return how long a job is booked: its walltime, and one microsecond if that is 0, so that its promise can be kept.

    A job that would dangle is booked for ever: nobody knows when it will progress.
    """
    if state.runs.dangles and not state.runs.ready[job]:
        return FUTURE - state.now
    return max(longest(state, state.jobs.walltime[job]), 1)


@kernel()
def first_among_all(state, job, begin, before):
    """Return the first instant of [begin, before) at which all nodes together can hold a job; at most FUTURE.

    It is a lower bound for the single nodes. With windows it is `begin`: a window takes what a run that extends into it
    still holds, so the sum would subtract that amount twice.
    """
    if state.machine.windows > 0:
        return begin
    return earliest(state.plan.total, ONLY, state.jobs.need, job, TAKE, begin, before, before, span(state, job))


@apart()
def earliest_on_one_node(state, job, begin):
    """Return the earliest start on one node: the minimum over nodes, in order of power, with licences considered."""
    best = FUTURE
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    length = span(state, job)
    begin = first_among_all(state, job, begin, FUTURE)
    for node in range(state.machine.nodes):
        if not may_run_on(state, job, node):
            continue
        t, agreed = begin, False
        while not agreed and t < best:
            agreed = True
            t = earliest(state.plan.nodes, node, state.jobs.demand, job, state.jobs.tasks[job], t, best, FUTURE, length)
            for item in range(first, last):
                lane = state.jobs.licence[item]
                later = earliest(
                    state.plan.licences, lane, state.jobs.licence_count, item, TAKE, t, best, FUTURE, length
                )
                if later > t:
                    t, agreed = later, False
        if agreed and t < best:
            best = t
            state.placed.pairs[0, 0], state.placed.pairs[0, 1] = node, state.jobs.tasks[job]
            state.placed.count, state.placed.job = 1, job
    return best


@apart()
def earliest_of_gang(state, job, begin, before, row):
    """Return the first instant of [begin, before) from which enough tasks of a gang stay free; FUTURE if there is none.

    row: of failed searches, if the job was planned, was taken out, and can start sooner only where nodes grew.

    A node takes more tasks only once the last stretch on which it takes so few has left the window. So time moves from
    one such release to the next, and only the released node is checked again. The earlier results of the other nodes
    are upper bounds, which are verified in the plan once they suffice.
    """
    search = state.search
    t = _next_chance(state, job, begin, before, row)
    if t >= before:
        return FUTURE
    search.waiting = 0
    for i in range(len(search.sums)):
        search.sums[i] = 0
    for node in range(state.machine.nodes):
        search.tasks[node] = 0
        _ask_node(state, job, node, t, before, row)
        if search.sums[0] >= state.jobs.tasks[job] and not shares_site(state, job):
            seat(state, job, search.tasks, int64(0))
            return t
    while True:
        group = first_enough(state, job, search.sums)
        if group >= 0:
            for node in range(state.machine.nodes):
                if search.tasks[node] > 0:
                    _ask_node(state, job, node, t, before, row)
            group = first_enough(state, job, search.sums)
        if group >= 0:
            seat(state, job, search.tasks, group)
            return t
        t = _next_chance(state, job, _release_enough(state, job), before, row)
        if t >= before:
            return FUTURE
        while search.waiting > 0 and search.time[0] <= t:
            _release_first(state)
        for i in range(search.released):
            _ask_node(state, job, search.out[i], t, before, row)


@kernel()
def _release_first(state):
    """Take the first release from the heap. Return its node; -1 if it was void."""
    search = state.search
    node, release = search.node[0], search.time[0]
    search.waiting = pop_end(search.time, search.node, search.waiting)
    if search.release[node] != release:
        return int64(-1)
    search.release[node] = FUTURE
    search.out[search.released] = node
    search.released += 1
    return node


@kernel()
def _release_enough(state, job):
    """Release nodes until they may take all missing tasks. Return when that is; FUTURE if they never can."""
    search, jobs, machine = state.search, state.jobs, state.machine
    most = int64(0)
    for i in range(len(search.sums)):
        most = max(most, search.sums[i])
    lacking, t = jobs.tasks[job] - most, FUTURE
    search.released = 0
    while lacking > 0:
        if search.waiting == 0:
            return FUTURE
        t = search.time[0]
        node = _release_first(state)
        if node >= 0:
            could = tasks_that_fit(machine.base, node, jobs.demand, job, jobs.most[job])
            lacking -= max(could - search.tasks[node], 0)
    return t


@kernel()
def first_gain(state, job, begin, held, row):
    """Return the first start of [begin, held) at which a node that grew takes a task on freed time; `held` if none.

    At its last turn a gang lacked tasks at every earlier start, and only nodes that grew can take more since. Its own
    nodes are marked in `search.own`. The result for a node is in `search.gain` for the next call of this turn, which
    starts at a later instant.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    own, gain, first = state.search.own, state.search.gain, held
    for i in range(grown.count[RECENT]):
        if gain[i] >= first:
            continue
        node = grown.node[RECENT, i]
        since = t = max(begin, grown.since[RECENT, node] - length + 1)
        until = grown.until[RECENT, node]
        before = min(first, until)
        keeps = row != NOT_KEPT and not own[node]
        if keeps and t < before:
            t = vain_until(grown, row, node, length, t)
        if t < before and may_run_on(state, job, node):
            state.trace.counters[LOOKS] += 1
            if keeps:
                t = earliest(plan.nodes, node, jobs.demand, job, TAKE, t, FUTURE, FUTURE, length)
                note_vain(grown, row, node, length, since, t)
            else:
                under_own = held if own[node] else FUTURE
                t = min(earliest(plan.nodes, node, jobs.demand, job, TAKE, t, before, under_own, length), before)
        elif t < before:
            t = FUTURE
        gain[i] = t if t < until else FUTURE
        if t < before:
            first = t
            if t == begin:
                break
    return first


@kernel()
def _next_chance(state, job, begin, before, row):
    """Return the first instant of [begin, before) that neither the total nor the growth of nodes excludes."""
    t = _earliest_of_all(state, job, begin)
    while row != NOT_KEPT and t < before:
        gain = first_gain(state, job, t, before, row)
        if gain == t:
            break
        t = _earliest_of_all(state, job, gain) if gain < before else FUTURE
    return t


@kernel()
def _earliest_of_all(state, job, begin):
    """Return the first instant at which all nodes together can hold a gang, and its licences are free."""
    jobs, length, t = state.jobs, span(state, job), begin
    found = False
    while not found and t < FUTURE:
        later = first_among_all(state, job, t, FUTURE)
        for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
            if later < FUTURE:
                lane = jobs.licence[item]
                later = earliest(
                    state.plan.licences, lane, jobs.licence_count, item, TAKE, later, FUTURE, FUTURE, length
                )
        found = later == t
        t = later
    return t


@kernel()
def _ask_node(state, job, node, t, before, row):
    """Find how many tasks a node takes from t on, and from when on a window may let it take more."""
    search, jobs = state.search, state.jobs
    tasks, release, length, nodes = int64(0), FUTURE, span(state, job), state.plan.nodes
    keeps = row != NOT_KEPT and not search.own[node]
    known = vain_until(state.plan.grown, row, node, length, t) if keeps else t
    if known > t:
        release = known
    elif may_run_on(state, job, node):
        tasks, release = tasks_over(nodes, node, t, t + length, jobs.demand, job, jobs.most[job])
        if tasks == jobs.most[job]:
            release = FUTURE
        elif keeps and tasks == 0:
            release = earliest(nodes, node, jobs.demand, job, TAKE, release, FUTURE, FUTURE, length)
            note_vain(state.plan.grown, row, node, length, t, release)
    search.sums[group_of(state, job, node)] += tasks - search.tasks[node]
    search.tasks[node], search.release[node] = tasks, release
    if release < before:
        if search.waiting == len(search.time):
            search.time, search.node = doubled(search.time), doubled(search.node)
        search.waiting = push_end(search.time, search.node, search.waiting, release, node)


@apart()
def earliest_as_before(state, job, begin):
    """Return the first instant from which what a suspended job held stays free for its remaining walltime."""
    place_as_before(state, job)
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    plan, jobs, placed, length = state.plan, state.jobs, state.placed, span(state, job)
    t, agreed = begin, 0
    while agreed < placed.count + last - first and t < FUTURE:
        agreed = 0
        for lane in range(placed.count + last - first):
            if lane < placed.count:
                node, tasks = placed.pairs[lane, 0], placed.pairs[lane, 1]
                later = earliest(plan.nodes, node, jobs.demand, job, tasks, t, FUTURE, FUTURE, length)
            else:
                item = first + lane - placed.count
                later = earliest(
                    plan.licences, jobs.licence[item], jobs.licence_count, item, TAKE, t, FUTURE, FUTURE, length
                )
            agreed += later == t
            t = later
            if t == FUTURE:
                break
    return t
