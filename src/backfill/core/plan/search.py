"""Search for a start in a plan, among nodes and licences: the first instant from which the whole request stays free."""

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.compiler.record import record, zeros
from backfill.compiler.wall import verb
from backfill.core.errors import NONE
from backfill.core.pace import longest
from backfill.core.place.gangs import group_of, may_run_on, seat, shares_site
from backfill.core.place.placement import ANY, holds, tasks_that_fit
from backfill.core.place.shapes import BLOCK, may_sit, units_of
from backfill.core.plan.grown import RECENT, note_vain, vain_until
from backfill.core.plan.profile import FUTURE, PAST, TAKE, earliest, earliest_of_many, tasks_over
from backfill.core.runs import is_suspended, place_as_before
from backfill.core.trace import LOOKS

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
def earliest_of_gang(state, job, begin, before, row):
    """Return the first instant of [begin, before) from which enough tasks of a gang stay free; FUTURE if there is none.

    before: where the gang is booked from, if it is planned already; it stays booked for the search, and `search.own`
    says how many tasks it has where. FUTURE if it is not planned.
    row: of failed searches, if the gang is planned and can start sooner only where nodes grew.

    A node takes more tasks only once the last stretch on which it takes so few has left the window. So time moves from
    one such release to the next. A node is asked only while the upper bounds of all of them suffice.
    """
    search = state.search
    t = _next_chance(state, job, begin, before, row)
    if t >= before:
        return FUTURE
    for i in range(len(search.sums)):
        search.sums[i] = 0
    for node in range(state.machine.nodes):
        search.tasks[node], search.release[node] = 0, t
    while True:
        _release(state, job, t, before, row)
        group = _group_that_takes(state, job, t, before, row)
        if group >= 0:
            seat(state, job, search.tasks, group)
            return t
        t = _next_chance(state, job, _release_enough(state, job, before), before, row)
        if t >= before:
            return FUTURE


@apart()
def _release(state, job, t, before, row):
    """Bound the tasks of each node that is released by t, for windows from t on, by what is known without a search."""
    search, grown, length, could, last = state.search, state.plan.grown, span(state, job), int64(0), NONE
    for node in range(state.machine.nodes):
        if search.release[node] > t:
            continue
        tasks, release, known = int64(0), FUTURE, t
        if row != NOT_KEPT and (search.own[node] == 0 or t + length <= before):
            known = vain_until(grown, row, node, length, t)
        if known > t:
            release = known
        elif may_run_on(state, job, node):
            could, last = _could_take(state, job, node, could, last)
            tasks, release = could, t
        if search.own[node] > 0:
            release = min(release, max(t, before - length + 1))
        if tasks != search.tasks[node]:
            search.sums[group_of(state, job, node)] += tasks - search.tasks[node]
        search.tasks[node], search.release[node], search.asked[node] = tasks, release, PAST


@kernel(inline=True)
def _could_take(state, job, node, could, last):
    """Return how many tasks an empty node takes, and the node. It takes `could` if it is like the node `last`."""
    base, alike = state.machine.base, last != NONE
    for k in range(state.machine.resources):
        few_turns()
        alike = alike and base[node, k] == base[last, k]
    return could if alike else tasks_that_fit(base, node, state.jobs.demand, job, state.jobs.most[job]), node


@apart()
def _group_that_takes(state, job, t, before, row):
    """Return the first group that takes all tasks of a gang from t on, sites in order of their first node; -1 if none.

    Nodes are asked in order of power, up to the one with which the group takes them all. Those on which the gang itself
    is booked come before: mostly they take nothing sooner, which decides.
    """
    search, tasks, plan = state.search, state.jobs.tasks[job], state.plan
    for pair in range(plan.first[job], plan.first[job] + plan.many[job] if before < FUTURE else 0):
        node = plan.pairs[pair, 0]
        if search.asked[node] != t and search.sums[group_of(state, job, node)] >= tasks:
            _ask_node(state, job, node, t, before, row)
    for i in range(len(state.machine.sites) if shares_site(state, job) else 1):
        group = state.machine.sites[i] if shares_site(state, job) else int64(0)
        taken = int64(0)
        for node in range(state.machine.nodes):
            if search.sums[group] < tasks:
                break
            if search.tasks[node] > 0 and group_of(state, job, node) == group:
                if search.asked[node] != t:
                    _ask_node(state, job, node, t, before, row)
                taken += search.tasks[node]
                if taken >= tasks:
                    return group
    return int64(-1)


@apart()
def _release_enough(state, job, before):
    """Return when nodes may take all missing tasks, by their releases; FUTURE if that is not earlier than `before`."""
    search, most, waiting, all_of_them = state.search, int64(0), int64(0), int64(0)
    for i in range(len(search.sums)):
        most = max(most, search.sums[i])
    lacking, could, last = state.jobs.tasks[job] - most, int64(0), NONE
    for node in range(state.machine.nodes):
        if search.release[node] < before:
            could, last = _could_take(state, job, node, could, last)
            if could > search.tasks[node]:
                search.time[waiting], search.more[waiting] = search.release[node], could - search.tasks[node]
                all_of_them += could - search.tasks[node]
                waiting += 1
    return FUTURE if all_of_them < lacking else _when_enough(search.time, search.more, waiting, lacking)


@kernel()
def _when_enough(time, more, count, lacking):
    """Return the first instant by which `more` sums up to what lacks, at least 1; both arrays are reordered."""
    first, last = int64(0), count
    while last - first > 1:
        pivot, here = time[(first + last) >> 1], first
        earlier = int64(0)
        for i in range(first, last):
            if time[i] <= pivot:
                time[here], time[i] = time[i], time[here]
                more[here], more[i] = more[i], more[here]
                earlier += more[here]
                here += 1
        if earlier < lacking:
            lacking -= earlier
            first = here
        elif here < last:
            last = here
        else:
            # No one is later than the pivot: those before it, or the pivot.
            here, earlier = first, int64(0)
            for i in range(first, last):
                if time[i] < pivot:
                    time[here], time[i] = time[i], time[here]
                    more[here], more[i] = more[i], more[here]
                    earlier += more[here]
                    here += 1
            if earlier < lacking:
                return pivot
            last = here
    return time[first]


@apart()
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
        keeps = row != NOT_KEPT and own[node] == 0
        if keeps and t < before:
            t = vain_until(grown, row, node, length, t)
        if t < before and may_run_on(state, job, node):
            state.trace.counters[LOOKS] += 1
            if keeps:
                t = earliest(plan.nodes, node, jobs.demand, job, TAKE, t, FUTURE, FUTURE, length)
                note_vain(grown, row, node, length, since, t)
            else:
                under_own = held if own[node] > 0 else FUTURE
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
    """Return the first instant of [begin, before) that neither the total, a fact, nor the growth of nodes excludes."""
    t = _earliest_of_all(state, job, begin, before)
    while row != NOT_KEPT and t < before:
        gain = t
        if state.search.vain_since <= t < state.search.vain_until:
            gain = min(state.search.vain_until, before)
        gain = first_gain(state, job, gain, before, row)
        if gain == t:
            break
        t = _earliest_of_all(state, job, gain, before)
    return t


@kernel()
def _earliest_of_all(state, job, begin, before):
    """Return the first instant of [begin, before) at which all nodes together, and licences, can hold a gang.

    FUTURE if there is none. A gang that is booked from `before` on needs no licences.
    """
    jobs, length, t = state.jobs, span(state, job), begin
    found = False
    while not found and t < before:
        later = first_among_all(state, job, t, before)
        for item in range(jobs.licence_first[job], jobs.licence_first[job + 1]):
            if later < FUTURE:
                lane = jobs.licence[item]
                later = earliest(
                    state.plan.licences, lane, jobs.licence_count, item, TAKE, later, FUTURE, FUTURE, length
                )
        found = later == t
        t = later
    return t if found else FUTURE


@apart()
def _ask_node(state, job, node, t, before, row):
    """Find how many tasks a node takes from t on, and from when on a window may let it take more.

    From `before` on the gang holds the tasks that it has booked, and may take more beside them.
    """
    search, jobs = state.search, state.jobs
    length, nodes, own, most = span(state, job), state.plan.nodes, search.own[node], jobs.most[job]
    end = t + length
    covered = own > 0 and end > before
    tasks, release = tasks_over(nodes, node, t, min(end, before) if covered else end, jobs.demand, job, most)
    if covered and tasks > own:
        more, later = tasks_over(nodes, node, before, end, jobs.demand, job, most - own)
        if own + more <= tasks and more < most - own:
            tasks, release = own + more, later
    if tasks == most:
        release = FUTURE
    elif row != NOT_KEPT and tasks == 0 and not covered:
        release = earliest(nodes, node, jobs.demand, job, TAKE, release, FUTURE, FUTURE, length)
        note_vain(state.plan.grown, row, node, length, t, release)
    if own > 0 and not covered:
        release = min(release, before - length + 1)  # what the gang has booked counts from there on
    search.sums[group_of(state, job, node)] += tasks - search.tasks[node]
    search.tasks[node], search.release[node], search.asked[node] = tasks, release, t


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
