"""A grid of sites: a queue for each processor, and gangs that need all their processors at once.

A grid scheduler sends gangs to processors with empty queues, and keeps gangs for which there are too few. A local
scheduler at each site starts local jobs, also on idle processors that are held for a gang.
docs/decisions/0026-grid-readings.md records what the papers leave open.

Slow twin: tests/reference/grid.py.
"""

import numpy as np

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.loops import few_turns
from backfill.core.errors import NONE
from backfill.core.place.placement import ANY
from backfill.core.plan.profile import FUTURE
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Param, Policy, policy
from backfill.core.queue.walk import following, rewind
from backfill.core.random import pick
from backfill.core.verbs import BACKFILL, GANG, HEAD, place_on, reserve, start, withdraw
from backfill.model.units import SECOND
from backfill.policies.processors import (
    ANYWHERE,
    AT_GRID,
    BOUND,
    MEMBER,
    MEMORY,
    NOWHERE,
    all_idle,
    held_by,
    home_of,
    idle_from,
    is_idle,
    is_left,
    known_start,
    leave_grid,
    leave_queue,
    let_go,
    longest,
    next_member,
    scatter,
    some_site,
    soonest,
    start_on,
    suits,
    takes,
    wait_at,
    wait_at_grid,
)

SOURCE = "Dimitriadou and Karatza, CISIS 2010"
MOST = 2.0**61  # microseconds of tolerance
EMPTY, IDLE = np.int64(0), np.int64(1)  # the values of `cross`
SITES, SPAN = np.int64(0), np.int64(1)  # gangs that may use several sites: those that fit on no single site, or all

PARAMS = {
    "tolerance": Param(0, 0, np.inf, "seconds", "how far a backfilled job may delay a gang"),
    "delay": Param.choice(
        "current", "bounded", meaning="the start from which that delay counts: the one known now, or the first one"
    ),
}


@policy(
    "gang-site",
    reserve="a gang on one site, when its processors are chosen",
    fill="local jobs that end before a held processor is needed, within the tolerance",
    source=f"{SOURCE}, approach 1",
    keeps=True,
    index=False,
    processors=True,
    params=PARAMS,
    memory=MEMORY,
)
def gang_site(state):
    """Hold processors of one site for a gang; local jobs start there before it, if they end in time.

    Promise: with tolerance 0 no gang starts later than was known when its processors were chosen, if walltimes hold.
    Cost: processors of a site for a local job, all of them for a gang.
    """
    serve_all(state, SITES, EMPTY)


@policy(
    "gang-span",
    reserve="a gang on one site or, if no site has enough empty queues, on several",
    fill="local jobs that end before a held processor is needed, within the tolerance",
    source=f"{SOURCE}, approach 2",
    keeps=True,
    index=False,
    processors=True,
    params={
        **PARAMS,
        "cross": Param.choice(
            "empty",
            "idle",
            meaning="processors that a gang may hold on several sites: those with an empty queue, or idle ones",
        ),
    },
    memory=MEMORY,
)
def gang_span(state):
    """Like gang-site, but a gang that finds no site with enough empty queues is spread over several sites.

    Promise: with tolerance 0 no gang starts later than was known when its processors were chosen, if walltimes hold.
    Cost: processors of a site for a local job, all of them for a gang.
    """
    serve_all(state, SPAN, np.int64(state.own.cross))


@kernel()
def serve_all(state, which, cross):
    """Serve processors that became idle, then the gangs that wait at the grid scheduler, then the arrivals."""
    batch, runs = state.batch, state.runs
    if runs.count == 0:
        count_empty(state)
    changed = batch.changes + batch.leaves > 0
    if changed:
        take_stock(state, which)
        for node in range(state.machine.nodes):
            serve(state, node)
    else:
        for i in range(batch.ends):
            run = batch.ended[i]
            if state.machine.pool:  # on a pool the nodes of runs are not recorded
                serve(state, np.int64(0))
                continue
            for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
                serve(state, runs.held[pair, 0])
    if changed or batch.ends > 0:
        serve_gangs(state, cross)
    if changed:
        rewind(state, 0)
        job = following(state, 0)
        while job >= 0:
            if state.own.where[job] == NOWHERE:
                receive(state, job, which, cross)
            job = following(state, 0)
    else:
        for i in range(batch.arrivals):
            job = batch.arrived[i]
            if state.own.where[job] == NOWHERE and state.queue.waits[job]:
                receive(state, job, which, cross)


@apart(of_policy=True)
def receive(state, job, which, cross):
    """Receive a job that is in no queue: send a local one to its site, any other to the grid scheduler."""
    home = home_of(state, job)
    if home >= 0 and state.jobs.tasks[job] == 1:
        receive_local(state, job, home)
        return
    gather(state, job)
    own = state.own
    own.wide[job] = is_wide(state, job, which)
    if not dispatch(state, job, cross):
        wait_at_grid(state, job)


# Local schedulers


@kernel()
def receive_local(state, job, site):
    """Start a local job on an idle processor, even one held for a gang; otherwise let it wait at the shortest queue."""
    node = some_idle(state, job, site, False)
    if node >= 0 and start_on(state, job, node, HEAD):
        return
    node = some_idle(state, job, site, True)
    if node >= 0 and start_on(state, job, node, BACKFILL):
        return
    node = shortest(state, job, site, True)
    if node < 0:
        node = shortest(state, job, site, False)
    if node >= 0:
        wait_at(state, job, node)


@kernel()
def some_idle(state, job, site, waited):
    """Return a random idle processor of a site on which a job may start; -1 if there is none.

    waited: consider processors with a queue that the job may pass: a gang, or jobs that a window keeps from starting.
    """
    machine, own, count = state.machine, state.own, 0
    for chosen in range(2):
        left = np.int64(0)
        if chosen:
            if count == 0:
                return NONE
            left = pick(state, count) if count > 1 else np.int64(0)
        passed, may_pass_it = np.int64(0), False
        for i in range(machine.site_first[site], machine.site_first[site + 1]):
            node = machine.site_node[i]
            if (own.gang[node] + own.length[node] > 0) != waited or not is_idle(state, node):
                continue
            if not suits(state, job, node) or not is_left(state, job, node, state.now):
                continue
            if own.gang[node] > 0:
                if own.gang[node] != passed:
                    passed, may_pass_it = own.gang[node], may_pass(state, job, own.gang[node] - 1)
                if not may_pass_it:
                    continue
            if not chosen:
                count += 1
            elif left == 0:
                return node
            else:
                left -= 1
    return NONE


@kernel()
def shortest(state, job, site, is_free_of_windows):
    """Return a random one of the processors of a site with the shortest queues, a gang counting as one job; -1 if none.

    is_free_of_windows: consider only processors that announced windows leave to the job, once they are idle.
    """
    machine, own, least, count = state.machine, state.own, np.int64(0), np.int64(0)
    for chosen in range(2):
        left = np.int64(0)
        if chosen:
            if count == 0:
                return NONE
            left = pick(state, count) if count > 1 else np.int64(0)
        for i in range(machine.site_first[site], machine.site_first[site + 1]):
            node = machine.site_node[i]
            length = own.length[node] + (own.gang[node] > 0)
            if (chosen and length != least) or not suits(state, job, node):
                continue
            if is_free_of_windows and not is_left(state, job, node, idle_from(state, node)):
                continue
            if not chosen:
                if count == 0 or length < least:
                    least, count = length, np.int64(1)
                elif length == least:
                    count += 1
            elif left == 0:
                return node
            else:
                left -= 1
    return NONE


@kernel()
def may_pass(state, job, gang):
    """Return whether a local job would end before a gang starts, or later by at most the tolerance."""
    own = state.own
    start_known = known_start(state, gang) if own.delay == 0 else own.known[gang]
    tolerated = np.int64(np.rint(min(own.tolerance * SECOND, MOST)))
    return state.now + state.jobs.walltime[job] <= start_known + tolerated


@apart(of_policy=True)
def serve(state, node):
    """Serve a processor that may be idle: start its gang if this was the last one needed, else a job from its queue.

    A gang that a window keeps from starting gives its processors back.
    """
    if not is_idle(state, node):
        return
    own = state.own
    gang = own.gang[node] - 1
    if gang < 0 or not all_idle(state, gang):
        serve_local(state, node)
    elif not start_gang(state, gang):
        nodes = held_by(state, gang)
        send_back(state, gang)
        for held in nodes:
            if is_idle(state, held):  # otherwise a job that a window stopped elsewhere has moved here
                serve_local(state, held)


@kernel()
def serve_local(state, node):
    """Start the first job of the queue that may start, behind a gang one that may pass it.

    Jobs stopped by a window move to a processor without one.
    """
    own, site = state.own, state.machine.site[node]
    gang, job, before = own.gang[node] - 1, own.first[node] - 1, NONE
    while job >= 0:
        behind = own.after[job] - 1
        first = gang < 0 and before < 0
        if (gang < 0 or may_pass(state, job, gang)) and start_on(state, job, node, HEAD if first else BACKFILL):
            leave_queue(state, job, before, node)
            return
        if gang < 0 and is_open_somewhere(state, job, site):
            leave_queue(state, job, before, node)
            receive_local(state, job, site)
        else:
            before = job
        job = behind


@kernel()
def is_open_somewhere(state, job, site):
    """Return whether windows leave some processor of its site to a local job, once that is idle."""
    machine = state.machine
    for i in range(machine.site_first[site], machine.site_first[site + 1]):
        node = machine.site_node[i]
        if suits(state, job, node) and is_left(state, job, node, idle_from(state, node)):
            return True
    return False


# The grid scheduler


@kernel()
def gather(state, job):
    """Turn a job into a gang, or a job of one task into a gang with all jobs of its project that arrived with it.

    This sets the gang's size. If there are not enough processors for all of them, each job is a gang by itself.
    """
    own, size, other = state.own, state.jobs.tasks[job], state.projects.next[job]
    if size == 1:
        while other >= 0:
            size += joins(state, job, other)
            other = state.projects.next[other]
        if size > suiting(state, job):
            size = np.int64(1)
        other = state.projects.next[job]
        while other >= 0 and size > 1:
            if joins(state, job, other):
                own.where[other], own.leader[other] = MEMBER, job
            other = state.projects.next[other]
    own.size[job] = size


@kernel()
def suiting(state, job):
    """Return the number of processors on which a task of a job could run if they were idle."""
    count = 0
    for node in range(state.machine.nodes):
        count += suits(state, job, node)
    return count


@kernel(inline=True)
def joins(state, job, other):
    """Return whether another job, also in no queue, requests the same as a job of one task that has no home."""
    jobs = state.jobs
    if state.own.where[other] != NOWHERE or not state.queue.waits[other]:
        return False
    for k in range(state.machine.resources):
        few_turns()
        if jobs.demand[other, k] != jobs.demand[job, k]:
            return False
    return jobs.tasks[other] == 1 and jobs.bound[other] == jobs.bound[job] and home_of(state, other) < 0


@kernel()
def is_wide(state, gang, which):
    """Return whether a gang may use several sites: under gang-site, one that no single site can hold."""
    if state.jobs.tasks[gang] > 1 and state.jobs.spread[gang] < ANY:
        return False
    if which == SPAN:
        return True
    machine = state.machine
    for site in machine.sites:
        count = 0
        for i in range(machine.site_first[site], machine.site_first[site + 1]):
            count += suits(state, gang, machine.site_node[i])
        if count >= state.own.size[gang]:
            return False
    return True


@apart(of_policy=True)
def dispatch(state, gang, cross):
    """Choose processors for a gang if there are enough, and start it if all are idle. Return whether it was sent."""
    machine, own = state.machine, state.own
    size, sites, job = own.size[gang], len(machine.sites), longest(state, gang)
    idle, empty = np.zeros(sites, np.int64), np.zeros(sites, np.int64)
    for place in range(sites):
        site = machine.sites[place]
        if own.empty[site] < size and not own.wide[gang]:
            continue
        for i in range(machine.site_first[site], machine.site_first[site + 1]):
            node = machine.site_node[i]
            if takes(state, gang, node, False):
                empty[place] += 1
                idle[place] += is_idle(state, node) and is_left(state, job, node, state.now)
    found = np.sum(idle) if cross == IDLE else np.sum(empty)
    place = some_site(state, idle, size, np.zeros(sites, np.int64))
    if place < 0:
        for other in range(sites):
            if empty[other] >= size and soonest(state, gang, machine.sites[other], False) == FUTURE:
                empty[other] = 0
        place = some_site(state, empty, size, idle)
    if place >= 0:
        bind(state, gang, machine.sites[place], False)
        return True
    if own.wide[gang] and found >= size and soonest(state, gang, ANYWHERE, cross == IDLE) < FUTURE:
        bind(state, gang, ANYWHERE, cross == IDLE)
        return True
    return False


@apart(of_policy=True)
def bind(state, gang, site, idle):
    """Hold processors of a site (or ANYWHERE) for a gang, idle ones first, then those that are idle soonest.

    While windows are announced: only those on which it may start at the first instant at which there are enough.
    """
    machine, own, size = state.machine, state.own, state.own.size[gang]
    nodes, key, count = np.empty(machine.nodes, np.int64), np.empty(machine.nodes, np.int64), 0
    t, job, windows = soonest(state, gang, site, idle), longest(state, gang), machine.windows > 0
    for node in range(machine.nodes):
        if (site == ANYWHERE or machine.site[node] == site) and takes(state, gang, node, idle):
            then = idle_from(state, node)
            if not windows or (then <= t and is_left(state, job, node, t)):
                nodes[count], key[count] = node, -1 if is_idle(state, node) else then
                count += 1
    order = np.argsort(key[:count], kind="mergesort")
    chosen = np.sort(nodes[order[:size]])
    own.where[gang], own.first_node[gang] = BOUND, chosen[0] + 1
    for i in range(size):
        node = chosen[i]
        own.gang[node] = gang + 1
        own.next_node[node] = chosen[i + 1] + 1 if i + 1 < size else 0
        own.empty[machine.site[node]] -= 1
    own.known[gang] = known_start(state, gang)
    if not all_idle(state, gang) or not start_gang(state, gang):
        promise(state, gang, own.known[gang])


@kernel()
def promise(state, gang, t):
    """Reserve a start for a gang: for its single job, or for all its jobs."""
    reserve(state, gang, t)
    other = next_member(state, gang, gang)
    while other >= 0:
        reserve(state, other, t)
        other = next_member(state, gang, other)


@kernel()
def start_gang(state, gang):
    """Start a gang on the processors that it holds, if windows allow it; all are idle. Return whether it started."""
    own, nodes = state.own, held_by(state, gang)
    if state.jobs.tasks[gang] > 1 or len(nodes) == 1:
        if not place_on(state, gang, nodes):
            return False
        start(state, gang, GANG)
        for node in nodes:
            own.run[node] = state.runs.last[gang] + 1
    else:
        job, i = gang, 0
        while job >= 0:
            if not place_on(state, job, nodes[i : i + 1]):
                return False
            job, i = next_member(state, gang, job), i + 1
        job, i = gang, 0
        while job >= 0:
            place_on(state, job, nodes[i : i + 1])
            start(state, job, GANG)
            own.run[nodes[i]] = state.runs.last[job] + 1
            job, i = next_member(state, gang, job), i + 1
    let_go(state, gang)
    scatter(state, gang)
    return True


@apart(of_policy=True)
def serve_gangs(state, cross):
    """Send waiting gangs to processors, the largest that finds enough empty queues first, the oldest of equals."""
    own = state.own
    while own.gangs[0] > 0:
        gang = largest(state, np.max(own.empty), False, cross)
        if gang < 0 and own.gangs[1] > 0:
            gang = largest(state, np.sum(own.empty), True, cross)
        if gang < 0:
            return
        leave_grid(state, gang)
        dispatch(state, gang, cross)


@kernel()
def largest(state, most, wide, cross):
    """Return the largest waiting gang of at most `most` processors that finds enough of them; -1 if none.

    wide: only gangs that may use several sites.
    """
    own = state.own
    for size in range(min(most, state.machine.nodes), 0, -1):
        gang = own.oldest[size - 1] - 1
        while gang >= 0:
            if (not wide or own.wide[gang]) and finds_enough(state, gang, wide, cross):
                return gang
            gang = own.after[gang] - 1
    return NONE


@kernel()
def finds_enough(state, gang, wide, cross):
    """Return whether a site has enough processors that a gang may hold; wide: whether all sites together have."""
    machine, size, idle, found = state.machine, state.own.size[gang], wide and cross == IDLE, 0
    for site in machine.sites:
        if not wide:
            found = 0
            if state.own.empty[site] < size:
                continue
        for i in range(machine.site_first[site], machine.site_first[site + 1]):
            found += takes(state, gang, machine.site_node[i], idle)
            if found == size and soonest(state, gang, ANYWHERE if wide else site, idle) < FUTURE:
                return True
    return False


# Events other than submits and ends


@apart(of_policy=True)
def take_stock(state, which):
    """Update after a change: remove from the queues of processors all jobs that cannot run there any more."""
    own, machine = state.own, state.machine
    for i in range(state.batch.leaves):
        forget(state, state.batch.left[i])
    for node in range(machine.nodes):
        gang = own.gang[node] - 1
        if gang >= 0 and not suits(state, gang, node):
            release(state, gang)
        job, before = own.first[node] - 1, NONE
        while job >= 0:
            behind = own.after[job] - 1
            if suits(state, job, node):
                before = job
            else:
                leave_queue(state, job, before, node)
            job = behind
    if machine.windows > 0:
        for node in range(machine.nodes):
            gang = own.gang[node] - 1
            if gang >= 0 and not is_left(state, longest(state, gang), node, known_start(state, gang)):
                send_back(state, gang)
    count_empty(state)
    own.gangs[1] = 0
    for size in range(machine.nodes):
        gang = own.oldest[size] - 1
        while gang >= 0:
            behind = own.after[gang] - 1
            own.wide[gang] = is_wide(state, gang, which)
            own.gangs[1] += own.wide[gang]
            if size > 0 and state.jobs.tasks[gang] == 1 and size >= suiting(state, gang):
                leave_grid(state, gang)
                scatter(state, gang)
            gang = behind


@kernel()
def count_empty(state):
    """Count the processors in operation with empty queues."""
    machine, own = state.machine, state.own
    own.empty[:] = 0
    for node in range(machine.nodes):
        if machine.capacity[node, 0] > 0 and own.length[node] == 0 and own.gang[node] == 0:
            own.empty[machine.site[node]] += 1


@kernel()
def release(state, gang):
    """Take from a gang its processors and its promised start; its jobs are then in no queue."""
    take_back(state, gang)
    scatter(state, gang)


@kernel()
def send_back(state, gang):
    """Take from a gang its processors, and let it wait at the grid scheduler."""
    take_back(state, gang)
    wait_at_grid(state, gang)


@kernel()
def take_back(state, gang):
    """Take from a gang the processors that it holds, and its promised start."""
    job = gang
    while job >= 0:
        if state.queue.waits[job] and state.promises.reserved[job] != NO_TIME:
            withdraw(state, job)
        job = next_member(state, gang, job)
    let_go(state, gang)


@kernel()
def forget(state, job):
    """Forget a job that has left; the others of its gang are then in no queue."""
    own = state.own
    where = own.where[job]
    if where > 0:
        before, other = NONE, own.first[where - 1] - 1
        while other != job:
            before, other = other, own.after[other] - 1
        leave_queue(state, job, before, where - 1)
        return
    gang = np.int64(own.leader[job]) if where == MEMBER else job
    if own.where[gang] == BOUND:
        release(state, gang)
    elif own.where[gang] == AT_GRID:
        leave_grid(state, gang)
        scatter(state, gang)


def family() -> dict[str, Policy]:
    """Return every named member."""
    return {each.name: each for each in (gang_site, gang_span)}
