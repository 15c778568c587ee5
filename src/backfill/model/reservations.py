"""Advance reservations: nodes, or an amount, that only jobs of an owner may use on [begin, until).

A reservation divides the machine. Each of its nodes gets a separate part, with the features of the node. The part
is closed outside the time of the reservation; within it, a window takes the part's amounts from the node.
Jobs that request the reservation may run on its parts only, all others on none of them. So code that handles
constraints and windows handles reservations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backfill.model.constraint import alternatives
from backfill.model.errors import EventsError
from backfill.model.events import CANCEL, CAPACITY, DOWN, OWNERS, RESERVE, UNRESERVE, UP, WINDOW, BoundEvents
from backfill.model.names import nearest
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import NEVER, amount
from backfill.model.workload import Ints, Jobs, Labels, Ragged, Workload

PART = "@"  # the feature of all parts; `@name` is that of one reservation's parts; no other name contains @
FIRST, LAST = -1, 2**62  # order among the events of one instant


@dataclass(frozen=True, eq=False)
class Reservation:
    """An advance reservation whose nodes are known."""

    name: str
    owners: tuple[frozenset[str], ...]  # users, groups and projects, in the order of OWNERS; any of them may use it
    known: int
    begin: int
    until: int
    nodes: tuple[int, ...]
    amounts: Ints  # shape (nodes of it, resources)
    whole: tuple[bool, ...]  # the nodes that it reserves as a whole
    row: int  # the first event that makes it
    revoked: int = NEVER  # when it is cancelled

    @property
    def over(self) -> int:
        """The end of the reservation."""
        return min(self.until, self.revoked)

    def admits(self, owner: Sequence[str]) -> bool:
        """Return whether a job of this user, group and project may use it."""
        return any(name in names for name, names in zip(owner, self.owners, strict=True) if name)

    def meets(self, begin: int, until: int) -> bool:
        """Return whether it is active at some instant of [begin, until)."""
        return self.begin < until and begin < self.over


class Window(NamedTuple):
    """A time span in which nodes of a division have less, or parts of it nothing."""

    nodes: Sequence[int]
    resource: int  # -1: all that they have
    amount: int  # of the resource
    begin: int
    until: int
    revoked: int  # when it is taken back

    @property
    def over(self) -> int:
        """The end of the window."""
        return min(self.until, self.revoked)


@dataclass(frozen=True, eq=False)
class Division:
    """A platform with the parts of reservations appended to its nodes."""

    whole: Platform
    reservations: Sequence[Reservation]
    platform: Platform = field(init=False)
    node: Ints = field(init=False)  # shape (nodes and parts,): the node of each part; of a node, itself
    first: tuple[int, ...] = field(init=False)  # first part of each reservation

    def __post_init__(self) -> None:
        base = self.whole
        parts = [node for each in self.reservations for node in each.nodes]
        node = np.array([*range(len(base.nodes)), *parts], np.int64)
        names = [each.name for each in self.reservations for _ in each.nodes]
        features = base.features or ((),) * len(base.nodes)
        own = [(*features[at], base.nodes[at], PART, PART + name) for at, name in zip(parts, names, strict=True)]
        partitions = tuple(replace(each, nodes=np.flatnonzero(np.isin(node, each.nodes))) for each in base.partitions)
        platform = replace(
            base,
            nodes=(*base.nodes, *(f"{base.nodes[at]}{PART}{name}" for at, name in zip(parts, names, strict=True))),
            capacity=np.vstack([base.capacity, *(each.amounts for each in self.reservations)]),
            speed=base.speed[node],
            site=base.site[node],
            hosts=base.hosts[node],
            features=(*features, *own),
            partitions=partitions,
        )
        size = np.cumsum([len(base.nodes), *(len(each.nodes) for each in self.reservations)])
        object.__setattr__(self, "platform", platform)
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "first", tuple(size[:-1].tolist()))

    def parts(self, number: int) -> range:
        """Return the parts of a reservation."""
        return range(self.first[number], self.first[number] + len(self.reservations[number].nodes))

    def number(self, name: str) -> int:
        """Return the index of the last reservation of this name; -1 for none."""
        return max((i for i, each in enumerate(self.reservations) if each.name == name), default=-1)

    def windows(self, number: int) -> Iterator[Window]:
        """Yield what a reservation takes from its nodes, and when its parts are closed."""
        each, own = self.reservations[number], self.parts(number)
        whole = [node for node, all_of_it in zip(each.nodes, each.whole, strict=True) if all_of_it]
        if whole:
            yield Window(whole, -1, 0, each.begin, each.until, each.revoked)
        for node, all_of_it, amounts in zip(each.nodes, each.whole, each.amounts.tolist(), strict=True):
            for k, less in enumerate(amounts):
                if less and not all_of_it:
                    yield Window([node], k, less, each.begin, each.until, each.revoked)
        if each.begin > each.known:
            yield Window(own, -1, 0, each.known, each.begin, each.revoked)
        yield Window(own, -1, 0, each.until, NEVER, each.over)

    def beside(self, number: int, node: int, windows: Iterable[Window] = ()) -> Ints:
        """Return the most that other reservations, and these windows, take from a node at one instant of a reservation,
        shape (resources,).
        """
        each = self.reservations[number]
        some = [*windows]
        for other in range(len(self.reservations)):
            some += self.windows(other) if other != number else ()
        some = [window for window in some if window.resource >= 0 and node in window.nodes]
        begins = [window.begin for window in some if each.begin < window.begin < each.over]
        most = np.zeros(len(self.whole.resources), np.int64)
        for t in (each.begin, *begins):
            taken = np.zeros_like(most)
            for window in some:
                taken[window.resource] += window.amount if window.begin <= t < window.over else 0
            most = np.maximum(most, taken)
        return most

    def constraint(self, text: str, reservation: str) -> str:
        """Return the constraint, on the divided platform, of a job that requests this reservation, or none."""
        own = PART + reservation if reservation else f"!{PART}"
        if not text:
            return own
        known = None if self.whole.features else self.whole.nodes  # features that no node states are not checked
        found = []
        for terms in alternatives(text):
            some = {name: wanted for name, wanted in terms.items() if known is None or name in known}
            judged = [("" if wanted else "!") + name for name, wanted in some.items()]
            found.append("&".join([*judged, own]))
        return "|".join(found)

    def constrain(self, jobs: Jobs, allowed: NDArray[np.bool_]) -> Jobs:
        """Return the jobs with constraints that bind them to parts, or exclude parts.

        allowed: the mask of `lawful` jobs; the others fit nowhere.
        """
        asked = np.where(allowed, jobs.reservation.codes, len(jobs.reservation.names))
        names = (*jobs.reservation.names, PART, "")
        kinds, of = np.unique(np.column_stack([jobs.constraint.codes, asked]), axis=0, return_inverse=True)
        texts = [self.constraint(_label(jobs.constraint, c), names[r]) for c, r in kinds.tolist()]
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        codes = np.array([place[text] for text in texts], np.int32)[of.ravel()]
        return jobs.replace(constraint=Labels(codes, tuple(place)))

    def merged(self, schedule: Schedule) -> Schedule:
        """Map a schedule of the divided platform to the whole one."""
        runs = schedule.runs
        return replace(
            schedule,
            nodes=self.whole.nodes,
            held=self._on(schedule.held, self.node),
            runs=None if runs is None else replace(runs, held=self._on(runs.held, self.node)),
        )

    def divided(self, schedule: Schedule, jobs: Jobs) -> Schedule:
        """Map a schedule of the whole platform to the divided one: jobs that request a reservation run on its parts."""
        runs = schedule.runs
        return replace(
            schedule,
            nodes=self.platform.nodes,
            held=self._seated(schedule.held, np.arange(len(jobs)), jobs),
            runs=None if runs is None else replace(runs, held=self._seated(runs.held, runs.job, jobs)),
        )

    def _seated(self, held: Ragged, job: Ints, jobs: Jobs) -> Ragged:
        """Return the pairs (node, tasks) of these jobs, with parts in place of nodes."""
        pairs, owner = held.items.reshape(-1, 2).copy(), np.repeat(job, np.diff(held.first) // 2)
        for code, name in enumerate(jobs.reservation.names):
            number = self.number(name)
            for part in self.parts(number) if number >= 0 else ():
                pairs[(jobs.reservation.codes[owner] == code) & (pairs[:, 0] == self.node[part]), 0] = part
        return Ragged(held.first, pairs.reshape(-1))

    @staticmethod
    def _on(held: Ragged, node: Ints) -> Ragged:
        pairs = held.items.reshape(-1, 2).copy()
        pairs[:, 0] = node[pairs[:, 0]]
        return Ragged(held.first, pairs.reshape(-1))


def _label(labels: Labels, code: int) -> str:
    return labels.names[code] if code >= 0 else ""


def of_grants(platform: Platform, grants: Iterable[Mapping[str, Any]], now: int) -> list[Reservation]:
    """Return reservations that were granted before a run, on those of their nodes that the platform has.

    A grant has the name of the `reservation`, its `begin`, `until` and OWNERS, and `nodes`: for each its name, the
    reserved amounts, and whether it is the whole node.
    """
    place = {name: node for node, name in enumerate(platform.nodes)}
    made = []
    for row, each in enumerate(grants):
        there = [one for one in each["nodes"] if one[0] in place]
        if there:
            amounts = np.array([[has.get(name, 0) for name in platform.resources] for _, has, _ in there], np.int64)
            owners = tuple(frozenset([each[name]] if each[name] else []) for name in OWNERS)
            nodes, whole = tuple(place[name] for name, _, _ in there), tuple(bool(whole) for _, _, whole in there)
            known = min(now, each["begin"])
            span = known, each["begin"], each["until"]
            made.append(Reservation(each["reservation"], owners, *span, nodes, amounts, whole, row))
    return made


def lawful(jobs: Jobs, reservations: Sequence[Reservation]) -> NDArray[np.bool_]:
    """Return the mask of jobs with no reservation, or with their own that exists at the submit; shape (jobs,)."""
    lawful = jobs.reservation.codes < 0
    for row in np.flatnonzero(~lawful).tolist():
        owner = [jobs[name][row] for name in OWNERS]
        last = next((each for each in reversed(reservations) if each.name == jobs.reservation[row]), None)
        submit = int(jobs.submit[row])
        lawful[row] = last is not None and last.admits(owner) and last.known <= submit < last.over
    return lawful


def reservations_of(events: BoundEvents, platform: Platform) -> list[Reservation]:
    """Return the reservations that events make, in the order of announcement. Raises EventsError."""
    made: list[Reservation] = []
    for row, asked in events.reserved.items():
        time, name = int(events.time[row]), asked.reservation
        before = next((i for i, each in enumerate(made) if each.name == name), None)
        if events.kind[row] == UNRESERVE:
            if before is None or made[before].over <= time:
                near = nearest(name, [each.name for each in made if each.over > time])
                hint = f"; did you mean {near}?" if near else ""
                raise EventsError(f"{asked.where}: there is no reservation {name} to end{hint}")
            made[before] = replace(made[before], revoked=time)
        elif before is None:
            made.append(_made(events, row, platform, made))
        elif row not in _together(events, made[before].row):
            raise EventsError(f"{asked.where}: there is another reservation {name}; expected another name")
    return made


def _together(events: BoundEvents, row: int) -> list[int]:
    """Return the rows of the events that make the same reservation: equal name, time, span and owners."""

    def says(row: int) -> tuple[Any, ...]:
        asked = events.reserved[row]
        return (asked.reservation, asked.owners, *(each[row] for each in (events.time, events.value, events.until)))

    return [each for each in events.reserved if events.kind[each] == RESERVE and says(each) == says(row)]


def _made(events: BoundEvents, row: int, platform: Platform, others: Sequence[Reservation]) -> Reservation:
    asked, known = events.reserved[row], int(events.time[row])
    begin, until = max(int(events.value[row]), known), int(events.until[row])
    if until <= known:
        raise EventsError(f"{asked.where}: reservation {asked.reservation} ends before it is made")
    room = room_beside(platform, others, _windows(events), begin, until)
    whole, amounts = list[int](), dict[tuple[int, ...], dict[int, int]]()
    for each in _together(events, row):
        resource, nodes = int(events.resource[each]), events.nodes[each].tolist()
        if resource >= len(platform.resources):
            where = events.reserved[each].where
            raise EventsError(f"{where}: licences float between nodes; expected to reserve nodes, or a resource")
        if resource < 0:
            whole += nodes
        groups: list[tuple[int, ...]] = [(node,) for node in nodes]
        for only in groups or [()] if resource >= 0 else ():
            amounts.setdefault(only, {})[resource] = int(events.amount[each])
    try:
        granted = whole_nodes(platform, whole, others, begin, until)
        for only, wanted in amounts.items():
            granted += [(node, much, False) for node, much in amounts_on(platform, room, wanted, only or None)]
        if not granted:
            raise ValueError("it reserves nothing; expected an amount of 1 or more")
        names = [platform.nodes[node] for node, _, _ in granted]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise ValueError(f"node {twice[0]} is in it twice")
    except ValueError as error:
        raise EventsError(f"{asked.where}: reservation {asked.reservation}: {error}") from None
    nodes, much, all_of_it = zip(*granted, strict=True)
    return Reservation(asked.reservation, asked.owners, known, begin, until, nodes, np.array(much), all_of_it, row)


def _windows(events: BoundEvents) -> Iterator[Window]:
    """Yield the announced windows on nodes."""
    for row in np.flatnonzero(events.kind == WINDOW).tolist():
        if nodes := events.nodes[row].tolist():
            begin, until = max(int(events.value[row]), int(events.time[row])), int(events.until[row])
            yield Window(nodes, int(events.resource[row]), int(events.amount[row]), begin, until, NEVER)


def room_beside(
    platform: Platform,
    others: Iterable[Reservation],
    windows: Iterable[Window],
    begin: int,
    until: int,
) -> Ints:
    """Return the amounts of nodes, shape (nodes, resources), that are free of other reservations and windows on
    [begin, until).
    """
    room = platform.capacity.copy()
    for window in windows:
        if window.begin < until and begin < window.over:
            nodes = [*window.nodes]
            if window.resource < 0:
                room[nodes] = 0
            else:
                room[nodes, window.resource] -= window.amount
    for each in others:
        if each.meets(begin, until):
            room[list(each.nodes)] -= each.amounts
    return np.maximum(room, 0)


def whole_nodes(
    platform: Platform, nodes: Sequence[int], others: Iterable[Reservation], begin: int, until: int
) -> list[tuple[int, Ints, bool]]:
    """Reserve whole nodes: for each the node, its amounts, and True for whole. Raises ValueError."""
    for each in others:
        if each.meets(begin, until) and (both := sorted({*nodes} & {*each.nodes})):
            raise ValueError(f"node {platform.nodes[both[0]]} is part of reservation {each.name} at that time")
    return [(node, platform.capacity[node], True) for node in nodes]


def amounts_on(
    platform: Platform, room: Ints, wanted: dict[int, int], only: Sequence[int] | None
) -> list[tuple[int, Ints]]:
    """Choose nodes, the last ones first, that together have the wanted amounts free, and the amounts that each gives.

    Of a resource that is not wanted, a node gives the same share as of those that are. Raises ValueError.
    """
    left, found = dict(wanted), {}
    for node in reversed(range(len(room)) if only is None else only):
        given = {k: min(much, int(room[node, k])) for k, much in left.items()}
        if not any(given.values()):
            continue
        capacity = platform.capacity[node]
        share = max((given[k] / int(capacity[k]) for k in given if capacity[k]), default=0.0)
        rest = np.minimum((capacity * share).astype(np.int64), room[node])
        found[node] = np.array([given.get(k, int(rest[k])) for k in range(len(capacity))], np.int64)
        left = {k: much - given[k] for k, much in left.items()}
        if not any(left.values()):
            break
    for k, much in left.items():
        if much > 0:
            name = platform.resources[k]
            there = f"only {amount(name, wanted[k] - much)} of {amount(name, wanted[k])} {name} are free"
            where = "" if only is None else f" on node {platform.nodes[only[0]]}"
            raise ValueError(f"{there}{where} beside windows and other reservations at that time")
    return sorted(found.items())


@dataclass(frozen=True, eq=False)
class Divided:
    """A workload, its platform and its events, with reservations expressed as windows on nodes and as parts."""

    workload: Workload
    platform: Platform
    events: BoundEvents
    division: Division
    lawful: NDArray[np.bool_]  # shape (jobs,): the others request a reservation that they may not use


def divide(workload: Workload, platform: Platform, events: BoundEvents | None) -> Divided | None:
    """Express reservations as windows and parts of nodes; None if there are none."""
    if events is None or not events.reserved:
        return None
    division = Division(platform, reservations_of(events, platform))
    allowed = lawful(workload.jobs, division.reservations)
    workload = replace(workload, jobs=division.constrain(workload.jobs, allowed))
    return Divided(
        workload, division.platform, _translated(events, division, workload.jobs, allowed), division, allowed
    )


class _Rows:
    """A collection of event rows, sorted by time and then by order within an instant."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, list[Any], list[int], float, str]] = []

    def add(self, time: int, place: int, kind: int, nodes: Sequence[int] = (), job: int = -1, resource: int = -1,
            value: int = 0, until: int = NEVER, amount: int = 0, revoked: int = NEVER, priority: float = 0.0,
            of: str = "") -> None:  # fmt: skip
        """Append an event. of: the reservation that it is for."""
        numbers = [time, kind, job, resource, value, until, amount, revoked]
        self.rows.append((time, place, len(self.rows), numbers, list(nodes), priority, of))

    def events(self, like: BoundEvents) -> BoundEvents:
        rows = sorted(self.rows, key=lambda row: row[:3])
        table = np.array([row[3] for row in rows], np.int64).reshape(-1, 8)
        time, kind, job, resource, value, until, less, revoked = table.T.copy()
        nodes, priority = Ragged.of([row[4] for row in rows]), np.array([row[5] for row in rows])
        return BoundEvents(time, kind, job, nodes, resource, value, until, less, priority, like.name, like.sha256,
                           revoked=revoked, made_for={i: row[6] for i, row in enumerate(rows) if row[6]})  # fmt: skip


def _translated(events: BoundEvents, division: Division, jobs: Jobs, allowed: NDArray[np.bool_]) -> BoundEvents:
    """Return the events on the divided platform, without reservations."""
    rows, parts = _Rows(), _Parts(events, division)
    begin = min(int(jobs.submit.min(initial=NEVER)), int(events.time[0]))
    behind = list(range(len(division.whole.nodes), len(division.node)))
    rows.add(begin, FIRST, DOWN, behind, of=PART)
    made = {each.row: number for number, each in enumerate(division.reservations)}
    for row in range(len(events)):
        time, kind, nodes = int(events.time[row]), int(events.kind[row]), events.nodes[row].tolist()
        if row in made:
            _announce(rows, row, division, made[row], parts)
        elif kind not in (RESERVE, UNRESERVE):
            numbers: dict[str, Any] = {name: int(getattr(events, name)[row])
                                       for name in ("job", "resource", "value", "until", "amount")}  # fmt: skip
            also = parts.at(nodes) if kind == WINDOW and numbers["resource"] < 0 else []
            rows.add(time, row, kind, nodes + also, **numbers, priority=float(events.priority[row]))
            parts.follow(rows, row)
    for number, each in enumerate(division.reservations):
        rows.add(each.over, LAST, DOWN, division.parts(number), of=each.name)
    for row in np.flatnonzero(allowed & (jobs.reservation.codes >= 0)).tolist():
        each = division.reservations[division.number(jobs.reservation[row])]
        rows.add(each.over, LAST - 1, CANCEL, job=row, of=each.name)
    return rows.events(events)


def _announce(rows: _Rows, row: int, division: Division, number: int, parts: "_Parts") -> None:
    """Announce a reservation: windows take its amounts from its nodes, and close its parts outside its time."""
    each, own = division.reservations[number], division.parts(number)
    for window in division.windows(number):
        rows.add(each.known, row, WINDOW, window.nodes, resource=window.resource, value=window.begin,
                 until=window.until, amount=window.amount, revoked=window.revoked, of=each.name)  # fmt: skip
    rows.add(each.known, row, UP, [part for part in own if not parts.down[division.node[part]]], of=each.name)


class _Parts:
    """Keeps parts consistent with the events of their nodes."""

    def __init__(self, events: BoundEvents, division: Division) -> None:
        self.events, self.division = events, division
        self.down = np.zeros(len(division.whole.nodes), np.bool_)
        self.windows = [*_windows(events)]

    def at(self, nodes: Sequence[int]) -> list[int]:
        """Return the parts of these nodes."""
        behind = np.arange(len(self.division.whole.nodes), len(self.division.node))
        parts: list[int] = behind[np.isin(self.division.node[behind], nodes)].tolist()
        return parts

    def follow(self, rows: _Rows, row: int) -> None:
        """Take the parts of a node down and up with it, and limit them to its capacity."""
        events, time, kind = self.events, int(self.events.time[row]), self.events.kind[row]
        nodes = events.nodes[row].tolist()
        if kind in (DOWN, UP):
            self.down[nodes] = kind == DOWN
        for number, each in enumerate(self.division.reservations):
            for part, amounts, whole in zip(self.division.parts(number), each.amounts, each.whole, strict=True):
                node = int(self.division.node[part])
                if node not in nodes:
                    continue
                if kind in (DOWN, UP) and each.known <= time < each.over:
                    rows.add(time, row, int(kind), [part])
                elif kind == CAPACITY:
                    k, value = int(events.resource[row]), int(events.value[row])
                    beside = int(self.division.beside(number, node, self.windows)[k])
                    there = value if whole else min(int(amounts[k]), max(value - beside, 0))
                    rows.add(time, row, CAPACITY, [part], resource=k, value=there)
