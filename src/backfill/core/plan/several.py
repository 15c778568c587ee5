"""Search for a start of a gang in the plan of nodes: the first instant from which enough of its tasks stay free."""

from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.place.gangs import group_of, may_run_on, seat, shares_site
from backfill.core.place.placement import tasks_that_fit
from backfill.core.plan.grown import RECENT, note_vain, vain_until
from backfill.core.plan.outline import BITS, count_tasks, first_in_outline
from backfill.core.plan.profile import FUTURE, PAST, TAKE, earliest, tasks_over
from backfill.core.plan.search import NOT_KEPT, first_among_all, span
from backfill.core.trace import LOOKS


@apart()
def earliest_of_gang(state, job, begin, before, held, row):
    """Return the first instant of [begin, before) from which enough tasks of a gang stay free; FUTURE if there is none.

    held: where the gang is booked from, if it is planned already; it stays booked for the search, and `search.own` says
    how many tasks it has where. FUTURE if it is not planned.
    row: of failed searches, if the gang is planned and can start sooner only where nodes grew.

    A node takes more tasks only once the last stretch on which it takes so few has left the window. So time moves from
    one such release to the next. A node is asked only while the upper bounds of all of them suffice, and not where the
    outline leaves it no task.
    """
    search = state.search
    t = _next_chance(state, job, begin, before, held, row)
    if t >= before:
        return FUTURE
    for i in range(len(search.sums)):
        search.sums[i] = 0
    for node in range(state.machine.nodes):
        search.tasks[node], search.release[node] = 0, t
    while True:
        _bound_released(state, job, t, held, row)
        group = _group_that_takes(state, job, t, held, row)
        if group >= 0:
            seat(state, job, search.tasks, group)
            return t
        t = _next_chance(state, job, _release_enough(state, job, before), before, held, row)
        if t >= before:
            return FUTURE


@apart()
def _bound_released(state, job, t, held, row):
    """Bound the tasks of each node that is released by t, for windows from t on, by what is known without a search.

    `first_in_outline` has returned t. It tells nothing of windows that begin in a later row of the outline.
    """
    search, grown, length, could, last = state.search, state.plan.grown, span(state, job), int64(0), NONE
    outlined, until = state.plan.outline.kept, FUTURE
    if outlined:
        until = count_tasks(state, job, t)
    for node in range(state.machine.nodes):
        if search.release[node] > t:
            continue
        tasks, release, known = int64(0), FUTURE, t
        if row != NOT_KEPT and (search.own[node] == 0 or t + length <= held):
            known = vain_until(grown, row, node, length, t)
        if known > t:
            release = known if search.own[node] == 0 else min(known, held - length + 1)
        elif may_run_on(state, job, node):
            could, last = _could_take(state, job, node, could, last)
            tasks, release = could, t
            if outlined and state.plan.outline.fit[node] < min(could, int64(1) << BITS):
                tasks, release = max(int64(state.plan.outline.fit[node]), 0), until
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
def _group_that_takes(state, job, t, held, row):
    """Return the first group that takes all tasks of a gang from t on, sites in order of their first node; -1 if none.

    Nodes are asked in order of power, up to the one with which the group takes them all. Those on which the gang itself
    is booked come before: mostly they take nothing sooner, which decides.
    """
    search, tasks, plan = state.search, state.jobs.tasks[job], state.plan
    for pair in range(plan.first[job], plan.first[job] + plan.many[job] if held < FUTURE else 0):
        node = plan.pairs[pair, 0]
        if search.asked[node] != t and search.sums[group_of(state, job, node)] >= tasks:
            _ask_node(state, job, node, t, held, row)
    for i in range(len(state.machine.sites) if shares_site(state, job) else 1):
        group = state.machine.sites[i] if shares_site(state, job) else int64(0)
        taken = int64(0)
        for node in range(state.machine.nodes):
            if search.sums[group] < tasks:
                break
            if search.tasks[node] > 0 and group_of(state, job, node) == group:
                if search.asked[node] != t:
                    _ask_node(state, job, node, t, held, row)
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
def first_gain(state, job, begin, before, held, row):
    """Return the first start of [begin, before) at which a node that grew takes a task on freed time; `before` if none.

    At its last turn a gang lacked tasks at every earlier start, and only nodes that grew can take more since. Its own
    nodes, which it holds from `held` on, are marked in `search.own`. The result for a node is in `search.gain` for the
    next call of this turn, which starts at a later instant.
    """
    plan, jobs, grown, length = state.plan, state.jobs, state.plan.grown, span(state, job)
    own, gain, first = state.search.own, state.search.gain, before
    for i in range(grown.count[RECENT]):
        if gain[i] >= first:
            continue
        node = grown.node[RECENT, i]
        since = t = max(begin, grown.since[RECENT, node] - length + 1)
        until = grown.until[RECENT, node]
        last = min(first, until)
        keeps = row != NOT_KEPT and own[node] == 0
        if keeps and t < last:
            t = vain_until(grown, row, node, length, t)
        if t < last and may_run_on(state, job, node):
            state.trace.counters[LOOKS] += 1
            if keeps:
                t = earliest(plan.nodes, node, jobs.demand, job, TAKE, t, FUTURE, FUTURE, length)
                note_vain(grown, row, node, length, since, t)
            else:
                under_own = held if own[node] > 0 else FUTURE
                t = min(earliest(plan.nodes, node, jobs.demand, job, TAKE, t, last, under_own, length), last)
        elif t < last:
            t = FUTURE
        gain[i] = t if t < until else FUTURE
        if t < last:
            first = t
            if t == begin:
                break
    return first


@kernel()
def _next_chance(state, job, begin, before, held, row):
    """Return the first instant of [begin, before) that is not excluded without a search; FUTURE if there is none.

    All nodes together, the outline, a search in vain by a gang like it, and the growth of nodes exclude instants.
    """
    t = _earliest_of_all(state, job, begin, before)
    while t < before:
        later = t
        if state.plan.outline.kept:
            later = first_in_outline(state, job, t, before, held)
        if later == t and row != NOT_KEPT:
            if state.search.vain_since <= t < state.search.vain_until:
                later = min(state.search.vain_until, before)
            later = first_gain(state, job, later, before, held, row)
        if later == t:
            return t
        t = _earliest_of_all(state, job, later, before)
    return FUTURE


@kernel()
def _earliest_of_all(state, job, begin, before):
    """Return the first instant of [begin, before) at which all nodes together, and licences, can hold a gang.

    FUTURE if there is none. A gang that is booked has no licences.
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
def _ask_node(state, job, node, t, held, row):
    """Find how many tasks a node takes from t on, and from when on a window may let it take more.

    From `held` on the gang holds the tasks that it has booked, and may take more beside them.
    """
    search, jobs = state.search, state.jobs
    length, nodes, own, most = span(state, job), state.plan.nodes, search.own[node], jobs.most[job]
    end = t + length
    covered = own > 0 and end > held
    tasks, release = tasks_over(nodes, node, t, min(end, held) if covered else end, jobs.demand, job, most)
    if covered and tasks > own:
        more, later = tasks_over(nodes, node, held, end, jobs.demand, job, most - own)
        if own + more <= tasks and more < most - own:
            tasks, release = own + more, later
    if tasks == most:
        release = FUTURE
    elif row != NOT_KEPT and tasks == 0 and not covered:
        release = earliest(nodes, node, jobs.demand, job, TAKE, release, FUTURE, FUTURE, length)
        note_vain(state.plan.grown, row, node, length, t, release)
    if own > 0 and not covered:
        release = min(release, held - length + 1)  # what the gang has booked counts from there on
    search.sums[group_of(state, job, node)] += tasks - search.tasks[node]
    search.tasks[node], search.release[node], search.asked[node] = tasks, release, t
