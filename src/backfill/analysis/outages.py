"""The effects of events on jobs and machines, computed for the checker alone: capacity over time, and lost runs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.events import CANCEL, CAPACITY, DOWN, UP, WALLTIME, WINDOW, BoundEvents
from backfill.model.platform import Platform
from backfill.model.units import NEVER
from backfill.model.workload import Ints

_END, _BEGIN, _FILE = range(3)  # the order within an instant: ends of windows, begins of windows, events of the file


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """An announced outage, or a reservation of an amount."""

    known: int  # when it is announced
    begin: int
    until: int
    lanes: list[int]  # nodes, or one licence
    resource: int  # of platform.resources; -1 = whole nodes, or a licence
    amount: int
    licence: bool
    revoked: int = NEVER  # when it is withdrawn
    reservation: str = ""  # the reservation that it is for

    @property
    def over(self) -> int:
        """The end of the window."""
        return min(self.until, self.revoked)

    def is_known(self, time: int) -> bool:
        """Return whether the window is known at a time, ahead or active."""
        return self.known <= time < self.revoked


class Holders:
    """The holders of each lane (node or licence) and their amounts, for queries of one lane at one instant."""

    def __init__(self, lane: Ints, run: Ints, amount: Ints, start: Ints, end: Ints, over: NDArray[np.bool_]) -> None:
        """amount: shape (seats, resources); start, end, over: of runs; `over` marks those that end before any event."""
        order = np.argsort(lane, kind="stable")
        self.lane, self.run, self.amount = lane[order], run[order], amount[order]
        self.start, self.end = start[self.run], end[self.run]
        self.over = over[self.run]

    @classmethod
    def none(cls) -> "Holders":
        """Return holders without any seat."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, np.zeros((0, 1), np.int64), nothing, nothing, np.zeros(0, np.bool_))

    def at(self, lane: int, time: int) -> Ints:
        """Return the seats of a lane that are held when the events of an instant begin."""
        low, high = np.searchsorted(self.lane, [lane, lane + 1])
        there = slice(low, high)
        held = (self.start[there] < time) & ((self.end[there] > time) | ((self.end[there] == time) & ~self.over[there]))
        seats: Ints = low + np.flatnonzero(held)
        return seats


Steps = list[tuple[int, Ints, Ints]]  # (time, capacity from then on, the same without any window)


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """The effects of the events: the runs lost at each instant, and the capacity of each lane over time."""

    lost: dict[int, set[int]]  # instant -> runs
    nodes: list[Steps]
    licences: list[Steps]
    closed: list[list[tuple[int, bool]]]  # of each node: (time, whether it is down or entirely taken by a window)

    def is_closed(self, node: int, time: int) -> bool:
        """Return whether a node is closed after the events of an instant."""
        return [closed for when, closed in self.closed[node] if when <= time][-1]

    def blocked(self, most: Ints, licences: bool = False) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the capacity that each lane lacks compared with `most`, shape (lanes, resources): (lane, begin, end,
        amounts).
        """
        stretches: list[tuple[int, int, int, Ints]] = []
        for lane, steps in enumerate(self.licences if licences else self.nodes):
            ends = [*(time for time, *_ in steps[1:]), NEVER]
            stretches += [(lane, step[0], end, most[lane] - step[1]) for step, end in zip(steps, ends, strict=True)]
        stretches = [span for span in stretches if span[1] < span[2] and span[3].any()]
        times = np.array([span[:3] for span in stretches], np.int64).reshape(-1, 3)
        return (
            times[:, 0],
            times[:, 1],
            times[:, 2],
            np.array([span[3] for span in stretches], np.int64).reshape(-1, most.shape[1]),
        )

    def without_windows(self, lane: int, time: int, licence: bool) -> Ints:
        """Return the capacity of a lane at a time, after its events, if no window had begun."""
        steps = (self.licences if licence else self.nodes)[lane]
        return [whole for when, _, whole in steps if when <= time][-1]


class Outages:
    """The events of one run, laid out over time."""

    def __init__(self, events: BoundEvents, platform: Platform, jobs: int) -> None:
        self.events, self.platform = events, platform
        nodes, resources = platform.capacity.shape
        self.base, self.copies = platform.capacity.copy(), platform.copies.copy()
        self.most, self.most_copies = platform.capacity.copy(), platform.copies.copy()
        self.down = np.zeros(nodes, np.bool_)
        self.away = np.zeros(nodes, np.int64)  # number of windows that take the whole node
        self.less = np.zeros((nodes, resources), np.int64)
        self.less_copies = np.zeros(len(platform.licences), np.int64)
        self.cancelled = np.full(jobs, NEVER, np.int64)
        self.walltimes: dict[int, list[tuple[int, int]]] = {}  # job -> (time, walltime from then on)
        self.windows: list[Window] = []
        self._read()

    def _read(self) -> None:
        each = self.events
        for row in range(len(each)):
            kind, time, job = int(each.kind[row]), int(each.time[row]), int(each.job[row])
            if kind == CANCEL:
                self.cancelled[job] = min(self.cancelled[job], time)
            elif kind == WALLTIME and self.cancelled[job] == NEVER:
                self.walltimes.setdefault(job, []).append((time, int(each.value[row])))
            elif kind == WINDOW:
                licence = int(each.resource[row]) - len(self.platform.resources)
                lanes = each.nodes[row].tolist() if licence < 0 else [licence]
                resource = int(each.resource[row]) if licence < 0 else -1
                times = (time, int(each.value[row]), int(each.until[row]))
                revoked = NEVER if each.revoked is None else int(each.revoked[row])
                less, name = int(each.amount[row]), each.made_for.get(row, "")
                self.windows.append(Window(*times, lanes, resource, less, licence >= 0, revoked, name))

    def walltime(self, jobs: Ints, before: Ints, time: Ints | int) -> Ints:
        """Return the walltimes of jobs at a time, after its events; `before` = the original ones."""
        walltimes, times = before[jobs], np.broadcast_to(time, len(jobs))
        for i in np.flatnonzero(np.isin(jobs, list(self.walltimes))).tolist():
            for when, value in self.walltimes[int(jobs[i])]:
                walltimes[i] = value if when <= times[i] else walltimes[i]
        return walltimes

    def room(self, node: int) -> Ints:
        """Return the capacity of a node now, for each resource."""
        if self.down[node] or self.away[node]:
            return np.zeros_like(self.base[node])
        room: Ints = np.maximum(0, self.base[node] - self.less[node])
        return room

    def room_of_licence(self, licence: int) -> int:
        """Return the number of copies of a licence now."""
        return max(0, int(self.copies[licence] - self.less_copies[licence]))

    def _actions(self) -> list[tuple[int, int, int, Window | None, bool]]:
        """Return the changes of capacities, sorted: (time, order within it, event row, window, whether it ends)."""
        rows = [r for r in range(len(self.events)) if self.events.kind[r] in (CANCEL, DOWN, UP, CAPACITY)]
        actions: list[tuple[int, int, int, Window | None, bool]] = [
            (int(self.events.time[r]), _FILE, r, None, False) for r in rows
        ]
        announced = np.flatnonzero(self.events.kind == WINDOW).tolist()
        for row, window in zip(announced, self.windows, strict=True):
            begin = max(window.begin, window.known)
            if window.over > begin:
                actions.append((begin, _BEGIN if window.begin > window.known else _FILE, row, window, False))
                actions.append((window.over, _END if window.until <= window.revoked else _FILE, row, window, True))
        return sorted(actions, key=lambda action: action[:3])

    def replay(self, nodes: Holders, licences: Holders, job: Ints) -> "Replay":
        """Apply all events in order; `job` of each run."""
        effects = Replay({}, [], [], [[(-NEVER, False)] for _ in self.base])
        now, gone = -NEVER, set[int]()
        for lane in range(len(self.base)):
            effects.nodes.append([(-NEVER, self.room(lane), self._without_windows(lane))])
        for lane in range(len(self.copies)):
            effects.licences.append([(-NEVER, self.copies[[lane]], self.copies[[lane]])])
        for time, _, row, window, ends in self._actions():
            if time > now:
                now, gone = time, set()
            if self.events.kind[row] == CANCEL:
                gone |= set(np.flatnonzero(job == self.events.job[row]).tolist())
                continue
            lanes, licence = self._apply(row, window, ends)
            whole = self.events.kind[row] in (DOWN, UP) or (window is not None and window.resource < 0)
            for lane in lanes:
                was, closed = effects.nodes[lane][-1][1], whole and bool(self.down[lane] or self.away[lane])
                for run in self._losers(nodes, lane, was, closed, time, gone, job):
                    effects.lost.setdefault(time, set()).add(run)
                    gone.add(run)
                effects.nodes[lane].append((time, self.room(lane), self._without_windows(lane)))
                effects.closed[lane].append((time, bool(self.down[lane] or self.away[lane])))
            if licence >= 0:
                room = np.array([self.room_of_licence(licence)])
                less = bool((room < effects.licences[licence][-1][1]).all())
                for run in self._drop(licences, licence, 0, int(room[0]), time, gone, job) if less else ():
                    effects.lost.setdefault(time, set()).add(run)
                    gone.add(run)
                effects.licences[licence].append((time, room, self.copies[[licence]]))
        return effects

    def _without_windows(self, node: int) -> Ints:
        return np.zeros_like(self.base[node]) if self.down[node] else self.base[node].copy()

    def _apply(self, row: int, window: Window | None, ends: bool) -> tuple[list[int], int]:
        """Change the capacities; return the affected nodes, and the affected licence or -1."""
        kind, nodes = int(self.events.kind[row]), self.events.nodes[row].tolist()
        if window is not None:
            sign = -1 if ends else 1
            if window.licence:
                self.less_copies[window.lanes[0]] += sign * window.amount
                return [], window.lanes[0]
            if window.resource < 0:
                self.away[window.lanes] += sign
            else:
                self.less[window.lanes, window.resource] += sign * window.amount
            return window.lanes, -1
        if kind in (DOWN, UP):
            self.down[nodes] = kind == DOWN
            return nodes, -1
        resource, value = int(self.events.resource[row]), int(self.events.value[row])
        if resource >= len(self.platform.resources):
            licence = resource - len(self.platform.resources)
            self.copies[licence] = value
            self.most_copies[licence] = max(int(self.most_copies[licence]), value)
            return [], licence
        self.base[nodes, resource] = value
        self.most[nodes, resource] = np.maximum(self.most[nodes, resource], value)
        return nodes, -1

    def _losers(
        self, nodes: Holders, lane: int, was: Ints, closed: bool, time: int, gone: set[int], job: Ints
    ) -> Iterator[int]:
        """Yield the runs that must leave a node because it is closed or has less capacity than before."""
        if closed:
            yield from {int(run) for run in nodes.run[nodes.at(lane, time)].tolist() if run not in gone}
            return
        room = self.room(lane)
        for resource in np.flatnonzero(room < was).tolist():
            yield from self._drop(nodes, lane, resource, int(room[resource]), time, gone, job)

    def _drop(
        self, holders: Holders, lane: int, resource: int, room: int, time: int, gone: set[int], job: Ints
    ) -> Iterator[int]:
        """Drop the runs that started last, ties by higher job, until the amount held on a lane fits."""
        seats = [
            (int(holders.start[seat]), int(job[holders.run[seat]]), int(holders.run[seat]), amount)
            for seat in holders.at(lane, time).tolist()
            if (amount := int(holders.amount[seat, resource])) > 0 and int(holders.run[seat]) not in gone
        ]
        held = sum(amount for *_, amount in seats)
        seats.sort()
        while held > room:
            *_, run, amount = seats.pop()
            held -= amount
            yield run
