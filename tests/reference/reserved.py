"""Reservations in the slow world: parts of nodes on which only those may run who asked, and windows on the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backfill.model.units import NEVER, SECOND, seconds_text
from backfill.model.workload import Labels, Workload

from . import world
from .dice import Dice
from .words import Event, Job, Platform, Policy, Time
from .workloads import KINDS, RESOURCES, Case, as_table, events_for, nodes_of

NAMES = ("r", "q")
USERS = ("ann", "bob")


@dataclass(frozen=True)
class Reserved:
    """What a file says of a reservation."""

    name: str
    user: str
    time: Time
    begin: Time
    until: Time
    nodes: tuple[int, ...]  # whole, or each with the amount; none where they are chosen
    resource: int | None = None
    amount: int = 0
    ended: Time = NEVER  # by an event


@dataclass(frozen=True)
class Happening:
    """A case, whose jobs have users and ask for reservations, and what happens."""

    case: Case
    users: list[str]
    asks: list[str]
    events: list[Event]
    reserved: list[Reserved]

    def table(self) -> list[dict[str, str]]:
        """As a file would have it: the reservations behind the events of their instant, first those that end."""
        rows = [
            (event.time, row) for event, row in zip(self.events, as_table(self.events, self.case.jobs), strict=True)
        ]
        for each in self.reserved:
            cells = {"event": "reserve", "reservation": each.name, "user": each.user}
            names = "".join(map(str, each.nodes))
            cells |= {"node": f"n[{names}]"} if names else {}
            if each.resource is not None:
                cells |= {"resource": RESOURCES[each.resource], "amount": str(each.amount)}
            rows.append((each.time, cells | {"value": seconds_text(each.begin), "until": seconds_text(each.until)}))
            if each.ended < NEVER:
                rows.append((each.ended, {"event": "unreserve", "reservation": each.name}))
        rows.sort(key=lambda row: (row[0], row[1]["event"] == "reserve"))
        return [row | {"time": seconds_text(time)} for time, row in rows]

    def of_model(self, workload: Workload) -> Workload:
        """The workload of the case with its users and what they ask for."""
        jobs = workload.jobs.replace(user=Labels.of(self.users), reservation=Labels.of(self.asks))
        return replace(workload, jobs=jobs)


def happening(dice: Dice, case: Case, kinds: tuple[str, ...] = KINDS[:5] + KINDS[6:], whole: bool = False) -> Happening:
    """One or two reservations beside other events; whether they can be granted is not known. whole: of whole nodes."""
    users = [dice.of(USERS) for _ in case.jobs]
    asks = [dice.of(["", "", "r", "q"]) for _ in case.jobs]
    events = events_for(dice, case, kinds, most=4) if dice.below(2) else []
    nodes, resources = len(case.platform.nodes), len(case.platform.nodes[0].capacity)
    reserved = []
    for name in NAMES[: dice.between(1, 2)]:
        time = dice.between(-1, 6) * SECOND
        begin = time + dice.between(-1, 8) * SECOND
        until = max(begin, time) + dice.between(1, 12) * SECOND
        where: dict[str, Any] = {"nodes": nodes_of(dice.between(1, 2**nodes - 1))}
        if not whole and dice.below(2):
            some = () if dice.below(2) else where["nodes"]
            where = {"nodes": some, "resource": dice.below(resources), "amount": dice.between(1, 4)}
            if nodes == 1:
                where["nodes"] = (0,)
        ended = dice.of([NEVER, NEVER, time + dice.between(1, 9) * SECOND])
        ended = ended if ended < until else NEVER
        reserved.append(Reserved(name, dice.of(USERS), time, begin, until, ended=ended, **where))
    return Happening(case, users, asks, events, reserved)


def run(told: Happening, policy: Policy, lost: str, chosen: Sequence[dict[int, tuple[int, ...]]]) -> list[world.Row]:
    """One row per job. chosen: of each reservation, the amounts that it has of its nodes."""
    platform, nodes = told.case.platform, len(told.case.platform.nodes)
    parts, of, own = list(platform.nodes), [*range(nodes)], []
    for each, amounts in zip(told.reserved, chosen, strict=True):
        own.append([*range(len(parts), len(parts) + len(amounts))])
        for node, amount in amounts.items():
            parts.append(replace(platform.nodes[node], capacity=amount, reservation=each.name, of=node))
            of.append(node)
    jobs = [replace(job, reservation=lawful(told, job)) for job in told.case.jobs]
    first = min(min(job.submit for job in jobs), min(row["time"] for row in _timed(told)))
    events = [(first, -1, Event(time=first, kind="down", nodes=tuple(range(nodes, len(parts)))))]
    for place, row in enumerate(_timed(told)):
        events += [(event.time, place, event) for event in _follow(told, row, chosen, own, of)]
    for each, mine in zip(told.reserved, own, strict=True):
        over = min(each.until, each.ended)
        events += [
            (over, 10**6, Event(time=over, kind="cancel", job=job.row)) for job in jobs if job.reservation == each.name
        ]
        events.append((over, 10**6 + 1, Event(time=over, kind="down", nodes=tuple(mine))))
        events.append((over, 10**6 - 1, Event(time=over, kind="revoke")))
    events.sort(key=lambda event: event[:2])
    divided = Platform(tuple(parts), platform.copies, platform.partitions, platform.limits)
    rows = world.run(jobs, divided, policy, events=[event for *_, event in events], lost=lost)
    for row in rows:
        row.nodes = tuple((of[node], tasks) for node, tasks in row.nodes)
        row.runs = [replace(stay, nodes=tuple((of[node], tasks) for node, tasks in stay.nodes)) for stay in row.runs]
    return rows


def lawful(told: Happening, job: Job) -> str:
    """The reservation in which a job may run; one that there is not where it may not."""
    asked = told.asks[job.row]
    mine = [each for each in told.reserved if each.name == asked and each.user == told.users[job.row]]
    there = [each for each in mine if each.time <= job.submit < min(each.until, each.ended)]
    return asked if there or not asked else "?"


def _timed(told: Happening) -> list[dict[str, Any]]:
    """Events and reservations in the order in which they happen."""
    rows: list[dict[str, Any]] = [{"time": event.time, "event": event} for event in told.events]
    rows += [{"time": each.time, "reserved": number} for number, each in enumerate(told.reserved)]
    return sorted(rows, key=lambda row: row["time"])


def _follow(
    told: Happening,
    row: dict[str, Any],
    chosen: Sequence[dict[int, tuple[int, ...]]],
    own: list[list[int]],
    of: list[int],
) -> list[Event]:
    """Return the events that stand for one on a platform whose nodes are divided into parts."""
    if "reserved" in row:
        return _announce(told, row["reserved"], chosen, own)
    event, time = row["event"], row["time"]
    if event.kind == "window" and event.whole_nodes:
        parts = tuple(part for mine in own for part in mine if of[part] in event.nodes)
        return [replace(event, nodes=event.nodes + parts)]
    found = [event]
    for each, mine in zip(told.reserved, own, strict=True):
        if event.kind in ("down", "up") and each.time <= time < min(each.until, each.ended):
            found += [replace(event, nodes=(part,)) for part in mine if of[part] in event.nodes]
    return found


def _announce(
    told: Happening, number: int, chosen: Sequence[dict[int, tuple[int, ...]]], own: list[list[int]]
) -> list[Event]:
    each, mine = told.reserved[number], own[number]
    begin = max(each.begin, each.time)
    revoked = each.ended if each.ended < NEVER else NEVER
    span: dict[str, Any] = {
        "time": each.time,
        "kind": "window",
        "value": begin,
        "until": each.until,
        "revoked": revoked,
    }
    found = []
    for node, amounts in chosen[number].items():
        if each.resource is None:
            found.append(Event(nodes=(node,), **span))
        else:
            found += [Event(nodes=(node,), resource=k, amount=n, **span) for k, n in enumerate(amounts) if n]
    if begin > each.time:
        found.append(Event(nodes=tuple(mine), **span | {"value": each.time, "until": begin}))
    over = min(each.until, each.ended)
    found.append(Event(nodes=tuple(mine), **span | {"value": each.until, "until": NEVER, "revoked": over}))
    down = set[int]()
    for event in told.events:
        if event.time <= each.time and event.kind in ("down", "up"):
            down = down | {*event.nodes} if event.kind == "down" else down - {*event.nodes}
    nodes = [*chosen[number]]
    up = tuple(part for part, node in zip(mine, nodes, strict=True) if node not in down)
    return [*found, Event(time=each.time, kind="up", nodes=up)]


def grants(told: Happening) -> list[dict[int, tuple[int, ...]]] | None:
    """The amounts that each reservation has of its nodes; None where one of them cannot be granted."""
    platform, granted = told.case.platform, list[dict[int, tuple[int, ...]]]()
    for each in sorted(told.reserved, key=lambda each: each.time):
        begin = max(each.begin, each.time)
        room = {}
        for node, one in enumerate(platform.nodes):
            left = np.array(one.capacity)
            for event in told.events:
                there = event.kind == "window" and max(event.value, event.time) < each.until and begin < event.until
                if there and node in event.nodes:
                    left = (
                        left * 0
                        if event.resource is None
                        else left - np.eye(len(left), dtype=int)[event.resource] * event.amount
                    )
            for other, has in zip(sorted(told.reserved, key=lambda each: each.time), granted, strict=False):
                over = min(other.until, other.ended)
                if over <= each.time:
                    over = min(over, each.time)
                if (
                    node in has
                    and max(other.begin, other.time) < each.until
                    and begin < min(other.until, _ended(other, each))
                ):
                    if each.resource is None and node in each.nodes:
                        return None
                    left = left - np.array(has[node])
            room[node] = np.maximum(left, 0)
        if each.resource is None:
            granted.append({node: platform.nodes[node].capacity for node in each.nodes})
            continue
        found: dict[int, tuple[int, ...]] = {}
        for group in [[node] for node in each.nodes] or [[*reversed(range(len(platform.nodes)))]]:
            wanted = each.amount
            for node in group:
                given = min(wanted, int(room[node][each.resource]))
                if given:
                    share = given / platform.nodes[node].capacity[each.resource]
                    amounts = [
                        min(int(n * share), int(room[node][k])) for k, n in enumerate(platform.nodes[node].capacity)
                    ]
                    amounts[each.resource] = given
                    found[node] = tuple(amounts)
                    wanted -= given
            if wanted:
                return None
        granted.append(dict(sorted(found.items())))
    order = [each.name for each in sorted(told.reserved, key=lambda each: each.time)]
    return [granted[order.index(each.name)] for each in told.reserved]


def _ended(other: Reserved, each: Reserved) -> Time:
    """Return when a reservation ended, as far as is known when another one is made."""
    return other.ended if other.ended <= each.time else NEVER
