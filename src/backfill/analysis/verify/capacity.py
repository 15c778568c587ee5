"""Checks of the nodes on which runs are placed, and of the resources that they hold there.

Rules `node`, `spread`; `site`, `constraint`, `host`; `window`; `capacity`, `licence`. The amounts held at each
instant come from a sweep over all begins and ends, separately for each node or licence.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from backfill.analysis.outages import Outages, Replay, Window
from backfill.analysis.verify.case import Case, Report, copies_held, items_of, licence_index, limited, meets
from backfill.analysis.verify.times import Lengths
from backfill.analysis.verify.turns import Turns
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Ints

_LOW = 0xFFFFFFFF  # the lower half of 64 bits


def check_nodes(case: Case) -> None:
    """Check that all tasks of a job are on nodes, and that a gang stays together."""
    jobs, report, runs, n = case.workload.jobs, case.report, case.runs, len(case.runs)
    seated, strange = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    np.add.at(seated, case.seat_run, case.seat_tasks)
    strange[case.seat_run[(case.seat_node < 0) | (case.seat_tasks < 1)]] = True
    for i in report.each("node", strange | (seated != jobs.tasks[runs.job])):
        text = f"sits on {str(case.place(i))!r}; expected {jobs.tasks[runs.job[i]]} tasks on nodes of the platform"
        report.add("node", jobs.job[runs.job[i]], runs.start[i], text)

    real = case.seat_node >= 0
    run, node = case.seat_run[real], case.seat_node[real]
    apart = jobs.spread[runs.job] == SPREAD.index("distinct")
    seats, place = np.unique(np.stack([case.seat_run, case.seat_node]), axis=1, return_inverse=True)
    crowded = np.zeros(n, np.bool_)
    crowded[seats[0][np.bincount(place.ravel(), case.seat_tasks, seats.shape[1]) > 1]] = True
    for i in report.each("spread", apart & crowded):
        report.add("spread", jobs.job[runs.job[i]], runs.start[i], "has more than one task on a node")
    for rule, where in (("node", node), ("site", case.platform.site[node])):
        low, high = np.full(n, 2**62), np.full(n, -1)
        np.minimum.at(low, run, where)
        np.maximum.at(high, run, where)
        for i in report.each("spread", (low < high) & (jobs.spread[runs.job] == SPREAD.index(rule))):
            report.add("spread", jobs.job[runs.job[i]], runs.start[i], f"is spread over more than one {rule}")


def check_hosts(case: Case) -> None:
    """Check that jobs run only on nodes that their site, constraint and licences allow."""
    jobs, platform, report = case.workload.jobs, case.platform, case.report
    real = case.seat_node >= 0
    job, node = case.seat_job[real], case.seat_node[real]
    start = case.runs.start[case.seat_run[real]]
    place = {name: i for i, name in enumerate(platform.sites)}
    pinned = np.array([place.get(name, -2) for name in jobs.site.names] + [-1], np.int64)[jobs.site.codes[job]]
    for i in report.each("site", (pinned != -1) & (pinned != platform.site[node])):
        text = f"sits on node {platform.nodes[node[i]]}; expected site {jobs.site[job[i]]}"
        report.add("site", jobs.job[job[i]], start[i], text)

    fitting = np.array([meets(platform, text) for text in jobs.constraint.names] + [np.ones(len(platform.nodes))], bool)
    for i in report.each("constraint", ~fitting[jobs.constraint.codes[job], node]):
        text = f"sits on node {platform.nodes[node[i]]}; expected {jobs.constraint[job[i]]}"
        report.add("constraint", jobs.job[job[i]], start[i], text)

    index, seat = items_of(jobs.licences, job)
    licence = licence_index(case.workload, platform)[jobs.licences.items[index]]
    seat, licence = seat[licence >= 0], licence[licence >= 0]
    for i in report.each("host", ~platform.hosts[node[seat], licence]):
        row, where = job[seat[i]], platform.nodes[node[seat[i]]]
        text = f"sits on node {where}, which may not host licence {platform.licences[licence[i]]}"
        report.add("host", jobs.job[row], start[seat[i]], text)


def check_windows(case: Case, until: Ints, seen: Ints, lengths: Lengths, since: Ints) -> None:
    """Check that at the begin of each window known at a job's start, the amounts held by walltimes fit beside it.

    since: when each run began to make progress; until then its end is unknown.
    """
    runs, platform, outages = case.runs, case.platform, cast(Outages, case.outages)
    real = (case.seat_node >= 0) & case.placed
    run, node, tasks = case.seat_run[real], case.seat_node[real], case.seat_tasks[real]
    licence_run, licence, copies = copies_held(case)
    names = case.workload.resources

    def limit(of: Ints, time: Ints | int) -> Ints:
        walltime = outages.walltime(runs.job[of], seen, time)
        at: Ints = since[of] + np.maximum(walltime - lengths.spent[of] + lengths.extra[of], 1)
        return np.where(since[of] > time, NEVER, at)

    def check(window: Window, lane: int, resource: int, held: Ints, amount: Ints) -> None:
        begin = window.begin
        start, end = runs.start[held], until[held]
        early = (window.known <= start) & (start < min(begin, window.revoked))
        late = np.flatnonzero(early & (amount > 0) & (limit(held, start) > begin))
        for time in np.unique(start[late]).tolist():
            there = (start <= time) & (limit(held, time) > begin)
            stays, gone = there & (time < end), there & (start == time) & (end <= time)
            # A run of length 0 may have ended before another started.
            passing = sum(amount[stays & (start < time)].tolist()) + int(amount[gone].max(initial=0))
            taken = max(sum(amount[stays].tolist()), passing)
            room = _room_then(case, lane, resource, time, begin, window.licence)
            if taken <= room:
                continue
            if case.report.each("window", np.ones(1, np.bool_)):
                last = runs.job[held[late[start[late] == time][-1]]]
                what = platform.licences[lane] if window.licence else platform.resources[resource]
                where = "" if window.licence else f" of node {platform.nodes[lane]}"
                date = case.report.date
                text = f"may run into the window at {date(begin)}, announced at {date(window.known)}: "
                text += f"by their walltimes jobs hold {taken} {what}{where} then; available: {room}"
                case.report.add("window", case.workload.jobs.job[last], time, text)

    for window in outages.windows:
        if window.begin <= window.known:
            continue
        if window.licence:
            mine = licence == window.lanes[0]
            check(window, window.lanes[0], 0, licence_run[mine], copies[mine])
            continue
        taken = range(len(platform.resources)) if window.resource < 0 else [window.resource]
        for lane in window.lanes:
            mine = node == lane
            for k in taken:
                if platform.resources[k] in names:
                    demand = case.workload.jobs.demand[runs.job[run[mine]], names.index(platform.resources[k])]
                    check(window, lane, k, run[mine], tasks[mine] * demand)


def _room_then(case: Case, lane: int, resource: int, now: int, then: int, licence: bool) -> int:
    """Return the capacity of a lane at a later time, as known now: the capacity now, less the windows active then."""
    room = int(cast(Replay, case.replay).without_windows(lane, now, licence)[resource])
    for window in cast(Outages, case.outages).windows:
        there = window.is_known(now) and window.begin <= then < window.until and lane in window.lanes
        if there and window.licence == licence:
            if window.resource < 0 and not licence:
                return 0
            room -= window.amount if licence or window.resource == resource else 0
    return max(room, 0)


def check_capacity(case: Case, until: Ints, turns: Turns | None = None) -> None:
    """Check that no node resource is held beyond its capacity; cpus of rows that take turns, in each row."""
    workload, platform = case.workload, case.platform
    if case.outages is not None:
        platform = replace(platform, capacity=case.outages.most)
    resources, demand, capacity = limited(workload, platform)
    blocked = Blocked.none()
    if case.replay is not None:
        lane, begin, end, less = case.replay.blocked(platform.capacity)
        columns = [platform.resources.index(name) if name in platform.resources else -1 for name in resources]
        less = np.pad(less, ((0, 0), (0, 1)))[:, columns]
        blocked = Blocked(lane if case.placed else np.zeros_like(lane), begin, end, less)
    holders = [f"node {name}" for name in platform.nodes] if case.placed else ["the platform"]
    capacity = capacity if case.placed else capacity.sum(axis=0, keepdims=True)
    real = case.seat_node >= 0
    run, node, tasks = case.seat_run[real], case.seat_node[real], case.seat_tasks[real]
    job = case.runs.job[run]
    sweep = Sweep(node, case.runs.start[run], until[run], blocked)
    for k, resource in enumerate(resources):
        if turns is not None and resource == platform.resources[0]:
            _check_rows(case, turns, holders, (run, node, tasks * demand[job, k]), blocked, capacity[:, k], k)
            continue
        amount, most = tasks * demand[job, k], capacity[:, k]
        for seat, time, at, held, there in sweep.above(k, amount, most, case.report, "capacity"):
            text = f"{holders[at]} holds {held} {resource} of {there}"
            case.report.add("capacity", workload.jobs.job[job[seat]], time, text)
    if case.replay is not None and case.placed:
        start, asks = case.runs.start[run], np.asarray(demand.any(axis=1))
        on_closed = np.zeros(len(run), np.bool_)
        for seat in np.flatnonzero(~asks[job]).tolist():
            on_closed[seat] = case.replay.is_closed(int(node[seat]), int(start[seat]))
        for seat in case.report.each("capacity", on_closed):
            text = f"starts on {holders[node[seat]]}, which is closed"
            case.report.add("capacity", workload.jobs.job[job[seat]], start[seat], text)


def _check_rows(
    case: Case,
    turns: Turns,
    holders: list[str],
    seats: tuple[Ints, Ints, Ints],
    blocked: "Blocked",
    most: Ints,
    k: int,
) -> None:
    """Check that no row holds more cpus of a node than it has. seats: run, node, cpus; k: index of cpus."""
    run, node, amount = seats
    by_run = np.argsort(run, kind="stable")
    first = np.searchsorted(run[by_run], np.arange(len(case.runs) + 1))
    for row in range(turns.most):
        stretches = turns.in_row(row)
        count = np.diff(first)[turns.run[stretches]]
        owner = np.repeat(np.arange(len(stretches)), count)
        skipped = first[turns.run[stretches]] - (np.cumsum(count) - count)
        seat = by_run[np.arange(len(owner)) + skipped[owner]]
        stretch = stretches[owner]
        sweep = Sweep(node[seat], turns.since[stretch], turns.until[stretch], blocked)
        for i, time, at, held, there in sweep.above(k, amount[seat], most, case.report, "capacity"):
            text = f"row {row + 1} of {holders[at]} holds {held} {case.platform.resources[0]} of {there}"
            case.report.add("capacity", case.workload.jobs.job[case.runs.job[run[seat[i]]]], time, text)


def check_licences(case: Case, until: Ints) -> None:
    """Check that no floating licence is held beyond its copies."""
    licences, platform, runs = case.workload.jobs.licences, case.platform, case.runs
    index, run = items_of(licences, runs.job)
    licence_of = licences.items[index]
    place = licence_index(case.workload, platform)
    copies, blocked = platform.copies, Blocked.none()
    if case.outages is not None and case.replay is not None:
        copies = case.outages.most_copies
        lane, begin, end, less = case.replay.blocked(copies[:, None], licences=True)
        known = np.isin(lane, place)
        asked_as = np.array([np.flatnonzero(place == each)[0] for each in lane[known].tolist()], np.int64)
        blocked = Blocked(asked_as, begin[known], end[known], less[known])
    copies = np.append(copies, 0)[place]
    sweep = Sweep(licence_of, runs.start[run], until[run], blocked)
    for item, time, licence, held, most in sweep.above(0, licences.counts[index], copies, case.report, "licence"):
        text = f"{held} copies of {case.workload.licences[licence]} are held of {most}"
        case.report.add("licence", case.workload.jobs.job[runs.job[run[item]]], time, text)


@dataclass(frozen=True, eq=False, slots=True)
class Blocked:
    """The amounts that are unavailable on [begin, end), compared with the largest capacity."""

    lane: Ints
    begin: Ints
    end: Ints
    amount: Ints  # shape (spans, resources)

    @classmethod
    def none(cls) -> "Blocked":
        """Return no blocked amounts."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros((0, 0), np.int64))


class Sweep:
    """Amounts held on intervals [begin, end), each in its lane, in order of time; blocked amounts come first."""

    def __init__(self, lane: Ints, begin: Ints, end: Ints, blocked: Blocked) -> None:
        self.blocked, self.skip = blocked, len(blocked.lane)
        if self.skip:
            lane, begin, end = (
                np.concatenate(pair) for pair in ((blocked.lane, lane), (blocked.begin, begin), (blocked.end, end))
            )
        self.lane, self.begin, self.end = lane, begin, end
        real = np.flatnonzero(begin < end)
        lanes, times = np.tile(lane[real], 2), np.concatenate([begin[real], end[real]])
        order = np.lexsort((times, lanes))
        self.lanes, self.times = lanes[order], times[order]
        self.interval, self.sign = np.tile(real, 2)[order], np.where(order < len(real), 1, -1)

    def above(
        self, k: int, amount: Ints, limit: Ints, report: Report, rule: str
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the instants at which a lane exceeds its limit: (last interval that begins there, instant, lane, held,
        limit then).

        k: the resource. If no interval begins there, because the limit falls: the one that began last.
        """
        if self.skip:
            amount = np.concatenate([self.blocked.amount[:, k], amount])
        change = amount[self.interval] * self.sign
        # In two halves, so that no sum exceeds 2^63: `>>` rounds down and `&` is its remainder, also below zero.
        low = np.cumsum(change & _LOW)
        high = np.cumsum(change >> 32) + (low >> 32)
        low &= _LOW
        most = limit[self.lanes]
        over = (high > most >> 32) | ((high == most >> 32) & (low > most & _LOW))
        # Only the amounts held after all events of an instant count.
        at = np.flatnonzero(np.append((self.lanes[1:] != self.lanes[:-1]) | (self.times[1:] != self.times[:-1]), True))
        at = at[: len(over)]
        was = np.append(False, over[at[:-1]])[: len(at)] & (self.lanes[at] == self.lanes[at - 1])
        rises = at[over[at] & ~was]
        for i in report.each(rule, np.ones(len(rises), np.bool_)):
            event = rises[i]
            lane, time = int(self.lanes[event]), int(self.times[event])
            mine = (self.lane == lane) & (amount > 0)
            cause = int(np.flatnonzero(mine & (self.begin == time))[-1])
            gone = 0
            if self.skip:
                holding = np.flatnonzero(mine & (self.begin <= time) & (time < self.end))
                gone = sum(amount[holding[holding < self.skip]].tolist())
                held = holding[holding >= self.skip]
                cause = int(held[np.argsort(self.begin[held], kind="stable")[-1]])
            total = (int(high[event]) << 32) + int(low[event])
            yield cause - self.skip, time, lane, total - gone, int(limit[lane]) - gone
