"""The resources that were free for one job during an interval, on the nodes that it may use, from the schedule."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.explain.asks import NODE, SITE, Asks
from backfill.analysis.outages import Holders, Outages, Replay
from backfill.model.events import BoundEvents
from backfill.model.schedule import CANCELLED, NO_TIME, PENDING, Runs, Schedule
from backfill.model.workload import Ints

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Record:
    """A schedule indexed for queries: every run, its nodes, and its latest possible end."""

    asks: Asks
    schedule: Schedule
    runs: Runs
    seen: Ints  # of each job: the walltime seen by policies
    limit: Ints  # of each run: its start + the walltime seen by policies
    owner: Ints  # of each seat: the run
    node: Ints  # of each seat
    tasks: Ints  # of each seat: the tasks on that node; 1 of a job on whole nodes
    outages: Outages | None  # if there were events
    replay: Replay | None
    last: int  # the last instant of any known event

    @classmethod
    def of(
        cls, asks: Asks, schedule: Schedule, seen: Ints, events: BoundEvents | None = None, overhead: int = 0
    ) -> "Record":
        """Index a schedule of the jobs in `asks`.

        seen: their walltimes as seen by policies, shape (jobs,). overhead: what a checkpoint adds to them.
        """
        runs = schedule.all_runs
        outages, replay = None, None
        walltime = seen[runs.job]
        last = [int(schedule.submit.max(initial=NO_TIME)), int(runs.end.max(initial=NO_TIME))]
        if events is not None:
            outages = Outages(events, asks.platform, len(schedule))
            walltime = outages.walltime(runs.job, seen, runs.start)
            nobody, nothing = Holders.none(), np.zeros(0, np.int64)
            replay = Outages(events, asks.platform, len(schedule)).replay(nobody, nobody, nothing)
            last += [int(time) for steps in (*replay.nodes, *replay.licences) for time, *_ in steps[1:]]
        done = np.cumsum(runs.progress) - runs.progress
        done -= done[np.searchsorted(runs.job, runs.job)]  # in earlier runs of the same job
        owner = np.repeat(np.arange(len(runs)), np.diff(runs.held.first) // 2)
        return cls(
            asks=asks,
            schedule=schedule,
            runs=runs,
            seen=seen,
            limit=runs.start + np.maximum(walltime - done + overhead * (done > 0), 0),
            owner=owner,
            node=runs.held.items[::2],
            tasks=np.where(asks.whole[runs.job[owner]], 1, runs.held.items[1::2]),
            outages=outages,
            replay=replay,
            last=max(last),
        )

    @cached_property
    def waits(self) -> tuple[Ints, Ints, Ints]:
        """Every waiting interval, by job and then time: (job, begin, until); its length may be 0."""
        schedule, runs, jobs = self.schedule, self.runs, self.asks.workload.jobs
        stays = np.flatnonzero((schedule.state == PENDING) | ((schedule.state == CANCELLED) & ~schedule.ran))
        over = np.where(schedule.ran, schedule.end, schedule.submit)
        over[schedule.state == PENDING] = self.last
        until = np.full(len(stays), self.last)
        if self.outages is not None:
            gone = (schedule.state == CANCELLED) & ~schedule.ran
            over[gone] = self.outages.cancelled[gone]
            until = np.where(gone[stays], self.outages.cancelled[stays], until)
        begin = np.where(schedule.ran[stays], schedule.end[stays], schedule.submit[stays])
        for i, row in enumerate(stays.tolist()):
            if len(before := jobs.after[row]) and not schedule.ran[row]:
                begin[i] = max(int(begin[i]), int(over[before].max() + jobs.think[row]))
        job = np.concatenate([runs.job, stays])
        begin = np.concatenate([runs.since(schedule.eligible), np.minimum(begin, until)])
        end = np.concatenate([runs.start, until])
        order = np.lexsort((begin, job))
        return job[order], begin[order], end[order]

    def waits_of(self, row: int) -> list[tuple[int, int]]:
        """Return the intervals in which a job waited, in order."""
        job, begin, until = self.waits
        mine = slice(*np.searchsorted(job, [row, row + 1]))
        return [*zip(begin[mine].tolist(), until[mine].tolist(), strict=True)]

    @cached_property
    def rank(self) -> Ints:
        """The index of each job in the order of submits, ties in file order."""
        result = np.empty(len(self.schedule), np.int64)
        result[np.argsort(self.schedule.submit, kind="stable")] = np.arange(len(result))
        return result

    def during(self, begin: int, until: int) -> Mask:
        """Return the runs that held resources at some instant of [begin, until)."""
        result: Mask = (self.runs.start < until) & (self.runs.end > begin) & (self.runs.end > self.runs.start)
        return result


@dataclass(frozen=True, eq=False)
class Room:
    """The resources free for a job from each of `times` until the next, after an instant's starts, without the job.

    In array shapes t is times, k the resources that the job requests, l its licences.
    """

    asks: Asks
    row: int  # of the job
    times: Ints  # (t,), strictly ascending; the first is the begin of the interval
    until: int  # end of the interval
    resources: Ints  # (k,), their indices in the platform
    licences: Ints  # (l,)
    copies: Ints  # (l,): requested by the job
    nodes: Ints  # on which it may run, in order; lanes below are indices into this
    lane: Ints  # of each step: the lane, from a time on; sorted by both
    place: Ints  # of each step: its index in `times`
    there: Ints  # (steps, k): capacity of that node
    held: Ints  # (steps, k)
    copies_there: Ints  # (t, l)
    copies_free: Ints  # (t, l)

    @property
    def demand(self) -> Ints:
        """The demand of a task of the job, shape (k,)."""
        result: Ints = self.asks.demand[self.row, self.resources]
        return result

    @property
    def need(self) -> Ints:
        """The demand of the whole job, shape (k,)."""
        result: Ints = self.tasks * self.demand
        return result

    @property
    def tasks(self) -> int:
        """The tasks of the job."""
        return int(self.asks.jobs.tasks[self.row])

    @property
    def whole(self) -> Ints:
        """The capacity of each node if nothing of the platform were unavailable, shape (steps, k)."""
        capacity = self.asks.platform.capacity[np.ix_(self.nodes, self.resources)]
        result: Ints = np.maximum(self.there, capacity[self.lane])
        return result

    def total(self, values: Ints) -> Ints:
        """Return the sum over nodes of a value per step, shape (t, ...)."""
        change = values.copy()
        goes_on = self.lane[1:] == self.lane[:-1]
        change[1:][goes_on] -= values[:-1][goes_on]
        result = np.zeros((len(self.times), *values.shape[1:]), values.dtype)
        np.add.at(result, self.place, change)
        return result.cumsum(axis=0)

    def tasks_at(self, free: Ints, demand: Ints) -> Ints:
        """Return the number of tasks that fit into each row of `free`, shape (rows, k), up to a node's maximum."""
        most = self.asks.most(self.row)
        if not len(demand):
            return np.full(len(free), most)
        result: Ints = np.clip((free // demand).min(axis=1), 0, most)
        return result

    def seated(self, fit: Ints) -> Ints:
        """Return how many tasks fit together, given the number that fits on the node of each step, shape (t,).

        For a job on one node: all of its tasks or none.
        """
        spread = self.asks.spread(self.row)
        if spread == NODE:
            return self.tasks * (self.total((fit == self.tasks).astype(np.int64)) > 0)
        if spread != SITE:
            return np.minimum(self.total(fit), self.tasks)
        site = self.asks.platform.site[self.nodes][self.lane]
        result = np.zeros(len(self.times), np.int64)
        for one in np.unique(site).tolist():
            result = np.maximum(result, self.total(np.where(site == one, fit, 0)))
        return np.minimum(result, self.tasks)

    def seats(self, fit: Ints) -> Mask:
        """Return whether all tasks fit, from each time on."""
        result: Mask = self.seated(fit) == self.tasks
        return result

    def holds(self, free: Ints) -> bool:
        """Return whether the job fits into these free amounts, shape (nodes of the job, k)."""
        fit = self.tasks_at(free, self.demand)
        spread = self.asks.spread(self.row)
        if spread == NODE:
            return bool((fit == self.tasks).any())
        if spread != SITE:
            return int(fit.sum()) >= self.tasks
        site = self.asks.platform.site[self.nodes]
        return any(int(fit[site == one].sum()) >= self.tasks for one in np.unique(site))

    @cached_property
    def free(self) -> Ints:
        """The free amounts on each node, shape (steps, k)."""
        return self.there - self.held

    @cached_property
    def free_total(self) -> Ints:
        """The free amounts on all these nodes, shape (t, k). A node with more in use than its capacity counts as 0."""
        return self.total(np.maximum(self.free, 0))

    def most_on_one(self, k: int, places: tuple[int, int]) -> int:
        """Return the largest amount of a resource free on any one node at any of these times."""
        low, high = np.searchsorted(self._by_place[1], [places[0] + 1, places[1]])
        begin = self.at(np.arange(len(self.nodes)), np.full(len(self.nodes), places[0]))
        return int(self.free[np.concatenate([begin, self._by_place[0][low:high]]), k].max())

    @cached_property
    def _by_place(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.place, kind="stable")
        return order, self.place[order]

    def at(self, lanes: Ints, places: Ints) -> Ints:
        """Return the step of each of these lanes at an index in `times`."""
        wide = len(self.times)
        result: Ints = np.searchsorted(self.lane * wide + self.place, lanes * wide + places, side="right") - 1
        return result


@dataclass(frozen=True, eq=False, kw_only=True)
class Stretch(Room):
    """The room of a job over an interval of a recorded schedule."""

    record: Record

    @classmethod
    def of(cls, record: Record, row: int, begin: int, until: int, more: Ints | None = None) -> "Stretch":
        """Return the room of a job over [begin, until). more: further instants to include in `times`."""
        asks = record.asks
        nodes = np.flatnonzero(asks.nodes(row))
        resources = np.flatnonzero(asks.demand[row] > 0)
        licences, copies = asks.licences_of(row)
        lane_of = np.full(len(asks.platform.nodes), -1)
        lane_of[nodes] = np.arange(len(nodes))
        there = _capacities(record, nodes, resources, begin, until)
        seats = np.flatnonzero((lane_of[record.node] >= 0) & record.during(begin, until)[record.owner])
        held = _held(record, seats, lane_of, resources, begin, until)
        there_l, held_l = _licences(record, licences, begin, until)
        inside = np.zeros(0, np.int64) if more is None else more[(more > begin) & (more < until)]
        changed = [np.array([begin]), there[1], held[1], there_l[1], held_l[1], inside]
        times = np.unique(np.concatenate(changed))
        lane = np.concatenate([there[0], held[0]])
        place = np.searchsorted(times, np.concatenate([there[1], held[1]]))
        none = np.zeros_like(there[2]), np.zeros_like(held[2])
        changes = np.hstack([np.concatenate([there[2], none[1]]), np.concatenate([none[0], held[2]])])
        lane, place, sums = _steps(lane, place, changes)
        return cls(
            record=record,
            asks=asks,
            row=row,
            times=times,
            until=until,
            resources=resources,
            licences=licences,
            copies=copies,
            nodes=nodes,
            lane=lane,
            place=place,
            there=sums[:, : len(resources)],
            held=sums[:, len(resources) :],
            copies_there=_over(times, len(licences), *there_l),
            copies_free=_over(times, len(licences), *there_l) - _over(times, len(licences), *held_l),
        )

    def copies_left(self, licence: int) -> Ints:
        """Return the copies of a licence, or the rest of a limit, that no job holds, shape (t,)."""
        there, held = _licences(self.record, np.array([licence]), int(self.times[0]), self.until)
        left: Ints = _over(self.times, 1, *there)[:, 0] - _over(self.times, 1, *held)[:, 0]
        return left


Changes = tuple[Ints, Ints, Ints]  # lane, time, change: shape (changes, ...)


def _steps(lane: Ints, place: Ints, changes: Ints) -> Changes:
    """Return the cumulated changes from each (lane, index) on, sorted by both."""
    order = np.lexsort((place, lane))
    lane, place, sums = lane[order], place[order], changes[order].cumsum(axis=0)
    ends = np.append(np.diff(lane) != 0, True)[: len(lane)]  # of each lane
    before = np.concatenate([np.zeros_like(sums[:1]), sums[ends][:-1]])  # the sums of the preceding lanes
    sums -= before[np.cumsum(ends) - ends]
    last = ends | np.append(np.diff(place) != 0, True)[: len(lane)]
    return lane[last], place[last], sums[last]


def _over(times: Ints, lanes: int, lane: Ints, time: Ints, change: Ints) -> Ints:
    """Return the cumulated changes of each lane from each time on, shape (t, lanes)."""
    sums = np.zeros((len(times), lanes), np.int64)
    np.add.at(sums, (np.searchsorted(times, time), lane), change)
    return sums.cumsum(axis=0)


def _capacities(record: Record, nodes: Ints, resources: Ints, begin: int, until: int) -> Changes:
    """Return the capacity of each node, as changes; the first of each at `begin`."""
    capacity = record.asks.platform.capacity[np.ix_(nodes, resources)]
    if record.replay is None:
        return np.arange(len(nodes)), np.full(len(nodes), begin), capacity
    steps = ([(time, room[resources]) for time, room, _ in record.replay.nodes[node]] for node in nodes.tolist())
    return _of_steps(steps, (len(resources),), begin, until)


def _of_steps(lanes: Iterable[list[tuple[int, Ints]]], shape: tuple[int, ...], begin: int, until: int) -> Changes:
    """Return the values of lanes over [begin, until) as changes; each lane is a list of (start, value)."""
    found: list[tuple[int, int, Ints]] = []
    for lane, steps in enumerate(lanes):
        before = np.zeros(shape, np.int64)
        at_begin = [value for time, value in steps if time <= begin][-1]
        for time, value in [(begin, at_begin), *(step for step in steps if begin < step[0] < until)]:
            found.append((lane, time, value - before))
            before = value
    places = np.array([each[:2] for each in found], np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1], np.array([each[2] for each in found], np.int64).reshape(len(found), *shape)


def _held(record: Record, seats: Ints, lane_of: Ints, resources: Ints, begin: int, until: int) -> Changes:
    """Return the amounts held by runs on their seats, as changes."""
    run, lane = record.owner[seats], lane_of[record.node[seats]]
    amount = record.tasks[seats, None] * record.asks.demand[record.runs.job[run]][:, resources]
    return _taken(record, run, lane, amount, begin, until)


def _taken(record: Record, run: Ints, lane: Ints, amount: Ints, begin: int, until: int) -> Changes:
    """Return amounts that are held for the duration of runs, as changes."""
    gone = record.runs.end[run] < until
    return (
        np.concatenate([lane, lane[gone]]),
        np.concatenate([np.maximum(record.runs.start[run], begin), record.runs.end[run][gone]]),
        np.concatenate([amount, -amount[gone]]),
    )


def _licences(record: Record, licences: Ints, begin: int, until: int) -> tuple[Changes, Changes]:
    """Return the copies of each of these licences, and those held by runs, as changes."""
    copies = record.asks.platform.copies[licences]
    there: Changes = (np.arange(len(licences)), np.full(len(licences), begin), copies)
    if record.replay is not None:
        replay = record.replay
        steps = ([(time, room[0]) for time, room, _ in replay.licences[each]] for each in licences.tolist())
        there = _of_steps(steps, (), begin, until)
    none = np.zeros(0, np.int64)
    held: list[Changes] = [(none, none, none)]
    for lane, licence in enumerate(licences.tolist()):
        amount = record.asks.copies_of(licence)[record.runs.job]
        run = np.flatnonzero((amount > 0) & record.during(begin, until))
        held.append(_taken(record, run, np.full(len(run), lane), amount[run], begin, until))
    lanes, times, changes = ([each[i] for each in held] for i in range(3))
    return there, (np.concatenate(lanes), np.concatenate(times), np.concatenate(changes))
