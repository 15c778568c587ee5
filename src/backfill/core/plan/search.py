"""Search for a start in a plan, among nodes and licences: the first instant from which the whole request stays free.

For gangs see several.py.
"""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, zeros
from backfill.compiler.wall import verb
from backfill.core.pace import longest
from backfill.core.place.gangs import may_run_on
from backfill.core.place.placement import ANY, holds, tasks_that_fit
from backfill.core.place.shapes import BLOCK, may_sit, units_of
from backfill.core.plan.profile import FUTURE, TAKE, earliest, earliest_of_many, tasks_over
from backfill.core.runs import is_suspended, place_as_before

ONLY = np.int64(0)  # the only lane of a pool, and of all nodes together
KEPT, LEFT, TAKEN = range(3)
NOT_KEPT = np.int64(0)  # the row of failed searches (grown.py) if none are kept

SEARCH = [
    ("tasks", int64[::1]),  # (m,): at most this many tasks of a gang fit on a node over a whole window
    ("asked", int64[::1]),  # (m,): exactly this many fit if the window begins at this instant
    ("release", int64[::1]),  # (m,): a window that begins before this instant takes no more tasks there
    ("sums", int64[::1]),  # (sites,): sums of `tasks` on a site; all in the first if they may run anywhere
    # scratch: a node that is released then may take so many tasks more
    ("time", int64[::1]),  # (m,)
    ("more", int64[::1]),  # (m,)
    ("own", int64[::1]),  # (m,): number of tasks that the job itself has booked on a node
    ("gain", int64[::1]),  # (m,): the earliest start of a task on freed time of the i-th node that grew
    ("seats", int64[:, :, ::1]),  # (3, m, 2): pairs (node, tasks) that a gang which moves keeps, leaves and takes
    ("vain_since", int64),  # a gang is known not to start on [vain_since, vain_until)
    ("vain_until", int64),
]
Search, SearchT = record("Search", SEARCH, globals())


def new_search(nodes: int, sites: int) -> object:
    """Return the working memory of a search."""
    return Search(
        tasks=zeros(nodes),
        asked=zeros(nodes),
        release=zeros(nodes),
        sums=zeros(sites),
        time=zeros(nodes),
        more=zeros(nodes),
        own=zeros(nodes),
        gain=zeros(nodes),
        seats=zeros(3, nodes, 2),
        vain_since=0,
        vain_until=0,
    )


@kernel()
def span(state, job):
    """Return how long a job is booked: its walltime, and one microsecond if that is 0, so that its promise can be kept.

    A job that would dangle is booked for ever: nobody knows when it will progress.
    """
    if state.runs.dangles and not state.runs.ready[job]:
        return FUTURE - state.now
    return max(longest(state, state.jobs.walltime[job]), 1)


@kernel(inline=True)
def is_plain(state, job):
    """Return whether a job needs neither licences nor room within limits."""
    return state.jobs.licence_first[job] == state.jobs.licence_first[job + 1]


@verb()
def is_as_hard(state, job, other):
    """Return whether a job surely fits only where, and when, another waiting job fits.

    False if the other one needs licences or room within limits, or continues where it was suspended.
    """
    jobs = state.jobs
    if not is_plain(state, other) or is_suspended(state, other):
        return False
    if span(state, job) < span(state, other) or not _asks_no_less(state, jobs.need, job, other):
        return False
    if state.machine.pool:
        return True
    if jobs.bound[other] >= 0 and jobs.bound[other] != jobs.bound[job]:
        return False
    if jobs.alone[other] and jobs.alone[job]:
        return True
    if not _asks_no_less(state, jobs.demand, job, other):
        return False
    if jobs.alone[other] or jobs.alone[job]:
        return jobs.tasks[other] == 1
    if jobs.tasks[job] < jobs.tasks[other] or jobs.most[job] > jobs.most[other]:
        return False
    return jobs.spread[other] == ANY or jobs.spread[other] == jobs.spread[job]


@kernel(inline=True)
def _asks_no_less(state, amounts, job, other):
    """Return whether a job has at least the amounts of another one, of all resources."""
    for k in range(state.machine.resources):
        few_turns()
        if amounts[job, k] < amounts[other, k]:
            return False
    return True


@kernel()
def first_among_all(state, job, begin, before):
    """Return the first instant of [begin, before) at which all nodes together can hold a job; at most FUTURE.

    It is a lower bound for the single nodes. What lies behind `before` is not looked at.
    """
    return earliest_of_many(state.plan.total, ONLY, state.jobs.need, job, TAKE, begin, before, before, span(state, job))


@apart()
def earliest_on_one_node(state, job, begin):
    """Return the first start on one node, the most powerful of several; FUTURE if there is none.

    Licences are considered.
    """
    best = FUTURE
    first, last = state.jobs.licence_first[job], state.jobs.licence_first[job + 1]
    length = span(state, job)
    begin = first_among_all(state, job, begin, FUTURE)
    for node in range(state.machine.nodes):
        if best <= begin:  # no node takes it sooner
            break
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
def sits_from_now(state, job):
    """Return whether a job fits from now on; it is placed on the most powerful nodes (state.placed)."""
    shapes, machine, placed = state.free.shapes, state.machine, state.placed
    s, left = int64(state.jobs.shape[job]), state.jobs.tasks[job]
    placed.count, placed.job = 0, job
    if not may_sit(state, job, False) or not _licences_stay_free(state, job):
        return False
    if not shapes.together[s]:
        for block in range(shapes.sums.shape[1]):
            if shapes.sums[s, block] > 0:
                for node in range(block * BLOCK, min((block + 1) * BLOCK, machine.nodes)):
                    left -= _take_node(state, job, s, node, left)
                    if left == 0:
                        return True
        return False
    for place in range(len(machine.sites)):
        site = machine.sites[place]
        if shapes.by_site[s, site] >= units_of(state, job):
            placed.count, left = 0, state.jobs.tasks[job]
            for i in range(machine.site_first[site], machine.site_first[site + 1]):
                left -= _take_node(state, job, s, machine.site_node[i], left)
                if left == 0:
                    return True
    return False


@kernel()
def _licences_stay_free(state, job):
    """Return whether the licences and limits of a job leave it room from now on."""
    jobs, now, length = state.jobs, state.now, span(state, job)
    for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
        lane = jobs.licence[item]
        if earliest(state.plan.licences, lane, jobs.licence_count, item, TAKE, now, now + 1, FUTURE, length) != now:
            return False
    return True


@kernel()
def _take_node(state, job, s, node, left):
    """Put as many of the remaining tasks on a node as fit there from now on. Return how many.

    The plan of a node is not asked where it surely is even: what is free now stays free.
    """
    shapes, jobs, placed, plan, now = state.free.shapes, state.jobs, state.placed, state.plan, state.now
    alone = jobs.alone[job]
    here = left if alone else min(shapes.units[s, node], left)
    if shapes.units[s, node] == 0 or not may_run_on(state, job, node):
        return int64(0)
    if not shapes.exact:
        if alone and not holds(state.free.nodes, node, jobs.demand, job, left):
            return int64(0)
        if not alone:
            here = tasks_that_fit(state.free.nodes, node, jobs.demand, job, min(left, jobs.most[job]))
    if here > 0 and (plan.uneven[node] != 0 or not plan.live):
        if alone:
            t = earliest(plan.nodes, node, jobs.demand, job, left, now, now + 1, FUTURE, span(state, job))
            here = left if t == now else int64(0)
        else:
            here = tasks_over(plan.nodes, node, now, now + span(state, job), jobs.demand, job, here)[0]
    if here > 0:
        placed.pairs[placed.count, 0], placed.pairs[placed.count, 1] = node, here
        placed.count += 1
    return here


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
