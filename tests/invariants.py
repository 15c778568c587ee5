"""The invariants of a State, each counted anew from what it should follow from; in plain Python, for tests."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from backfill.core.place.shapes import BLOCK as NODES
from backfill.core.place.shapes import MANY
from backfill.core.plan.bookings import booked_at
from backfill.core.plan.outline import ROWS
from backfill.core.plan.profile import BLOCK, FUTURE, PAST
from backfill.core.plan.promises import NO_TIME
from backfill.core.queue.order import DYNAMIC, FCFS, score
from backfill.core.queue.places import BLOCK as PLACES
from backfill.core.runs import RUNNING


def check(state: Any, overbooked: bool = False) -> None:
    """Raise AssertionError, with the invariant and the values, where one of them does not hold.

    Between passes, and in a pass whenever no verb is at work. overbooked: whether runs may hold more than there is,
    since capacity went away or somebody else started them.
    """
    _check_runs(state)
    _check_free(state, overbooked)
    _check_queue(state)
    for slot in range(state.queue.slots):
        _check_order(state, slot)
    if state.bookings.kept:
        _check_bookings(state)
    if not state.machine.pool:
        _check_shapes(state)
        _check_later(state)
        if state.plan.outline.kept:
            _check_outline(state)


def _check_outline(state: Any) -> None:
    """Check each bound of the outline against what the plan leaves free at the most at any instant of its row."""
    outline, plan = state.plan.outline, state.plan.nodes
    rows = [r for b in range(outline.blocks) for r in range(b * ROWS, b * ROWS + int(outline.count[b]))]
    begins = np.array([int(outline.begin[r]) for r in rows])
    _same("begins of rows, in order", begins, np.unique(begins))
    for node in range(state.machine.nodes):
        times, rooms = [], []
        for d in range(int(plan.blocks[node])):
            b = int(plan.lane[node, d])
            entries = range(b * BLOCK, b * BLOCK + int(plan.count[b]))
            times += [int(plan.time[e]) for e in entries]
            rooms += [[int(plan.room[k, e] + plan.lift[k, b]) for k in range(plan.columns)] for e in entries]
        ends = [*times[1:], FUTURE]
        for r, begin, end in zip(rows, begins, [*begins[1:], FUTURE], strict=True):
            if end > state.now:
                within = [
                    room
                    for t, until, room in zip(times, ends, rooms, strict=True)
                    if t < end and until > max(begin, state.now)
                ]
                for k, most in enumerate(np.max(within, axis=0).tolist()):
                    bound = int(outline.room[k, r, node]) << int(outline.shift[k])
                    if bound < most:
                        raise AssertionError(f"outline: node {node} has {bound} of {k} from {begin} on, planned {most}")


def _check_bookings(state: Any) -> None:
    """Check the search for a booked instant against a scan of all waiting jobs with a reserved start."""
    bookings, reserved = state.bookings, state.promises.reserved
    held = np.flatnonzero((state.queue.waits[: state.jobs.count] > 0) & (reserved[: state.jobs.count] != NO_TIME))
    _same("jobs with a booking", np.flatnonzero(bookings.begin != NO_TIME), held)
    _same("bookings.begin", bookings.begin[held], reserved[held])
    if state.batch.changes == 0:  # else a walltime may have changed since the last pass
        _same("bookings.length", bookings.length[held], np.maximum(state.jobs.walltime[held], 1))
    begin, end = bookings.begin[held], bookings.begin[held] + bookings.length[held]
    for t in np.unique(np.concatenate([begin, end - 1, end])).tolist():
        count = int(booked_at(state, t))
        _same(f"jobs that have {t} booked", np.sort(bookings.found[:count]), held[(begin <= t) & (t < end)])


def _same(what: str, found: Any, expected: Any) -> None:
    if not np.array_equal(found, expected):
        raise AssertionError(f"{what} is {found}; counted anew it is {expected}")


def active(state: Any) -> list[int]:
    """The runs that hold something."""
    found: list[int] = state.runs.by_limit[: state.runs.active].tolist()
    return found


def pairs_of(state: Any, run: int) -> Iterator[tuple[int, int]]:
    """The nodes of a run, and its tasks on each."""
    runs, job = state.runs, int(state.runs.job[run])
    if state.machine.pool:
        yield 0, int(state.jobs.tasks[job])
        return
    first = int(runs.first[run])
    yield from runs.held[first : first + int(runs.many[run])].tolist()


def licences_of(state: Any, job: int) -> Iterator[tuple[int, int]]:
    """The licences of a job, and the copies of each."""
    jobs = state.jobs
    for item in range(int(jobs.licence_first[job]), int(jobs.licence_first[job + 1])):
        yield int(jobs.licence[item]), int(jobs.licence_count[item, 0])


def _check_runs(state: Any) -> None:
    runs = state.runs
    holding = active(state)
    _same("runs.limits", runs.limits[: runs.active], runs.limit[holding] if holding else [])
    _same("runs.limits, sorted", runs.limits[: runs.active], np.sort(runs.limits[: runs.active]))
    if state.machine.pool:
        _same("runs.amounts", runs.amounts[:, : runs.active].T, state.jobs.need[runs.job[holding]])
    _same("runs that hold something, each once", len(set(holding)), len(holding))
    _same("those that have ended of runs that hold something", (runs.how[holding] != RUNNING).sum(), 0)
    last = np.full(len(runs.last), -1)
    last[runs.job[: runs.count]] = np.arange(runs.count)  # of several the greatest is written last
    _same("runs.last", runs.last, last)
    _same("jobs that run and wait", [j for j in runs.job[holding].tolist() if state.queue.waits[j]], [])
    over = runs.how[: runs.count] != RUNNING
    _same("runs that are over without an end", (runs.end[: runs.count][over] == NO_TIME).sum(), 0)


def _check_free(state: Any, overbooked: bool) -> None:
    machine, free, jobs = state.machine, state.free, state.jobs
    nodes, licences = machine.capacity.copy(), machine.copies.copy()
    for run in active(state):
        job = int(state.runs.job[run])
        for node, tasks in pairs_of(state, run):
            nodes[node] -= tasks * jobs.demand[job]
        for licence, copies in licences_of(state, job):
            licences[licence] -= copies
    _same("free.nodes", free.nodes, nodes)
    _same("free.licences", free.licences, licences)
    if not overbooked:
        _same("amounts below 0 of free.nodes", (free.nodes < 0).sum(), 0)
        _same("amounts below 0 of free.licences", (free.licences < 0).sum(), 0)
    if not machine.pool:
        _same("free.total", free.total, nodes.sum(axis=0))


def _units(state: Any, job: int) -> int:
    return 1 if state.jobs.alone[job] else int(state.jobs.tasks[job])


def _check_shapes(state: Any) -> None:
    """Check the counts of each shape on the nodes unchanged since; if it is up to date, the sums too."""
    shapes, free, machine = state.free.shapes, state.free.nodes, state.machine
    most = np.array([free[i : i + NODES].max(axis=0) for i in range(0, machine.nodes, NODES)])
    _same("blocks with more free than their bound", np.flatnonzero((most > shapes.top.T).any(axis=1)), [])
    _same("nodes with more free than the largest amount", np.flatnonzero(free[:, 0] > shapes.largest), [])
    for s in np.flatnonzero((shapes.seen >= 0) & (shapes.changes - shapes.seen <= len(shapes.node))).tolist():
        missed = shapes.node[np.arange(shapes.seen[s], shapes.changes) % len(shapes.node)]
        same = np.setdiff1d(np.arange(machine.nodes), missed)
        _same(f"units of shape {s}", shapes.units[s, same], _counts(state, s, same, free))
        spare = _counts(state, s, same, np.minimum(free, shapes.bound))
        _same(f"units of shape {s} beside the reservation", shapes.spare[s, same], spare)
        by_site = [shapes.units[s, machine.site == site].sum() for site in range(shapes.by_site.shape[1])]
        _same(f"units of shape {s} by site", shapes.by_site[s], by_site)
        left = [shapes.spare[s, machine.site == site].sum() for site in range(shapes.by_site.shape[1])]
        _same(f"units of shape {s} left by site", shapes.spare_by_site[s], left)
        _same(f"units of shape {s} left for one job", shapes.beside[s], max(left) if shapes.together[s] else sum(left))
        blocks = [shapes.units[s, i : i + NODES].sum() for i in range(0, machine.nodes, NODES)]
        _same(f"units of shape {s} by block", shapes.sums[s], blocks)
        _same(f"units of shape {s} for one job", shapes.all[s], max(by_site) if shapes.together[s] else sum(by_site))


def _counts(state: Any, s: int, nodes: Any, room: Any) -> Any:
    """How many units of a shape fit into the room of each of these nodes."""
    shapes, jobs, machine = state.free.shapes, state.jobs, state.machine
    asked, most = shapes.unit[s] > 0, 1 if shapes.single[s] else int(MANY)
    units = (np.maximum(room[nodes][:, asked], 0) // shapes.unit[s, asked]).min(axis=1, initial=most)
    if not shapes.anywhere[s]:
        job = int(shapes.first[s])
        licences = [licence for licence, _ in licences_of(state, job) if licence < machine.licences]
        allowed = machine.hosts[nodes][:, licences].all(axis=1)
        if jobs.bound[job] >= 0:
            allowed &= machine.allowed[jobs.bound[job], nodes] != 0
        units[~allowed] = 0
    return units


def _check_later(state: Any) -> None:
    """Check what will be free at the stored instant, and how many tasks of a job fit then."""
    later, runs, jobs, machine = state.later, state.runs, state.jobs, state.machine
    if not later.live or later.until < state.now:
        return
    nodes, licences = state.free.nodes.copy(), state.free.licences.copy()
    over = [run for run in active(state) if runs.limit[run] <= later.until]
    held = [run for run in over if runs.limit[run] > state.now or active(state).index(run) < later.count]
    _same("later.count", later.count, len(held))
    for run in held:
        job = int(runs.job[run])
        for node, tasks in pairs_of(state, run):
            nodes[node] += tasks * jobs.demand[job]
        for licence, copies in licences_of(state, job):
            licences[licence] += copies
    _same("later.nodes", later.nodes, nodes)
    _same("later.licences", later.licences, licences)
    if later.job >= 0:
        sums = [later.tasks[machine.site == site].sum() for site in range(len(later.sums))]
        _same("later.enough", later.enough, (np.array(later.sums) >= jobs.tasks[later.job]).sum())
        _same("later.sums", later.sums.sum(), sum(sums))


def _check_queue(state: Any) -> None:
    queue = state.queue
    waiting = np.flatnonzero(queue.waits)
    _same("queue.waiting", queue.waiting, len(waiting))
    _same("jobs that wait and were not submitted", (waiting >= state.jobs.count).sum(), 0)
    fresh = queue.fresh[: queue.fresh_count].tolist()
    for slot in range(queue.slots):
        places = list(places_of(state, slot))
        _same(f"jobs of order {slot}", sorted([*queue.line[places].tolist(), *fresh]), waiting)


def places_of(state: Any, slot: int) -> Iterator[int]:
    """The places of an order at which a job is, in order."""
    queue = state.queue
    if not queue.deep:
        yield from range(int(queue.front[slot]), int(queue.back[slot]))
        return
    blocks = queue.places // PLACES
    for block in range(slot * blocks, (slot + 1) * blocks):
        yield from range(block * PLACES, block * PLACES + int(queue.count[block]))


def _check_order(state: Any, slot: int) -> None:
    queue, jobs = state.queue, state.jobs
    order = int(queue.order[slot])
    places = list(places_of(state, slot))
    for place in places:
        job = int(queue.line[place])
        _same(f"queue.walltime of job {job}", queue.walltime[place], jobs.walltime[job])
        need = jobs.need[job] if state.machine.pool else [_units(state, job)]
        _same(f"queue.need of job {job}", queue.need[:, place], need)
        if order not in DYNAMIC and order != FCFS:
            since = int(jobs.submit[job] - jobs.origin)
            need, priority = int(jobs.need[job, 0]), float(jobs.priority[job])
            key = score(order, 0, int(jobs.walltime[job]), need, since, priority)
            _same(f"queue.key of job {job}", queue.key[place], key)
    if queue.indexed:  # else it may be sorted by what is not kept
        keys = [(float(queue.key[place]), int(queue.line[place])) for place in places]
        _same(f"order {slot}", keys, sorted(keys))
    if queue.deep:
        _check_tree(state, slot)


def _check_tree(state: Any, slot: int) -> None:
    """Check each block and each node of the tree against a plain scan of the jobs below it."""
    queue = state.queue
    blocks = queue.places // PLACES
    tree, classes = queue.tree[2 * blocks * slot : 2 * blocks * (slot + 1)], queue.bound.shape[1] + 1
    expected = np.full((2 * blocks, classes * (1 + len(queue.need))), np.inf, np.float32)
    for block in range(blocks):
        begin = (slot * blocks + block) * PLACES
        for place in range(begin, begin + int(queue.count[slot * blocks + block])):
            _same("queue.block", queue.block[slot, queue.line[place]], slot * blocks + block)
            size = int(queue.need[queue.scarce[slot], place])
            c = int((queue.bound[slot] < size).sum())
            if not state.machine.pool:
                c = int(state.jobs.shape[queue.line[place]])
            _same("queue.size", queue.size[place], c)
            amounts = [queue.walltime[place], *queue.need[:, place]]
            for column, amount in enumerate(np.array(amounts, np.float32)):
                at = column * classes + c
                expected[blocks + block, at] = min(expected[blocks + block, at], amount)
    for node in range(blocks - 1, 0, -1):
        expected[node] = np.minimum(expected[2 * node], expected[2 * node + 1])
    _same(f"the tree of order {slot}", tree[1:], expected[1:])


def check_plan(state: Any, booked: Iterator[tuple[int, int, int]]) -> None:
    """Hold the plan to a plain list of bookings, at every instant from now at which one begins or ends.

    booked: (job, begin, end) of each waiting job that has a place in it. Of runs, those whose limit has not come.
    """
    machine, runs, now = state.machine, state.runs, int(state.now)
    spans: list[tuple[int, int, int, Any]] = []  # begin, end, lane (licences behind the nodes), amounts
    for run in active(state):
        limit = int(runs.limit[run])
        spans += _lanes(state, int(runs.job[run]), pairs_of(state, run), now, limit) if limit > now else []
    for job, begin, end in booked:
        spans += _lanes(state, job, _places_in_plan(state, job), begin, end)
    for t in sorted({now, *(max(t, now) for span in spans for t in span[:2])}):
        for lane in range(machine.nodes):
            left = machine.base[lane] - sum(span[3] for span in spans if span[2] == lane and span[0] <= t < span[1])
            _same(f"plan at {t}, node {lane}", available_at(state.plan.nodes, lane, t), left)
        for licence in range(len(machine.copies)):
            lane = machine.nodes + licence
            taken = sum(span[3] for span in spans if span[2] == lane and span[0] <= t < span[1])
            left = machine.base_copies[licence] - taken
            _same(f"plan at {t}, licence {licence}", available_at(state.plan.licences, licence, t), left)


def _lanes(state: Any, job: int, pairs: Any, begin: int, end: int) -> list[tuple[int, int, int, Any]]:
    found = [(begin, end, node, tasks * state.jobs.demand[job]) for node, tasks in pairs]
    return found + [(begin, end, state.machine.nodes + which, many) for which, many in licences_of(state, job)]


def _places_in_plan(state: Any, job: int) -> Iterator[tuple[int, int]]:
    if state.machine.pool:
        yield 0, int(state.jobs.tasks[job])
        return
    plan = state.plan
    first = int(plan.first[job])
    yield from plan.pairs[first : first + int(plan.many[job])].tolist()


def available_at(profile: Any, lane: int, t: int) -> Any:
    """Return the availability of each resource on a lane of a profile at an instant."""
    assert PAST <= t < FUTURE
    found = None
    for block in profile.lane[lane, : profile.blocks[lane]].tolist():
        for entry in range(block * BLOCK, block * BLOCK + int(profile.count[block])):
            if profile.time[entry] <= t:
                found = profile.room[:, entry] + profile.lift[:, block]
    return found
