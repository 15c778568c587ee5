"""Where a gang may sit: nodes in platform order, which is the order of power."""

from collections import Counter
from functools import lru_cache

from .words import Job, Placement, Platform, Room


def whole(platform: Platform) -> Room:
    """Everything there is: the room of the empty platform."""
    return [amount for node in platform.nodes for amount in node.capacity] + list(platform.copies)


def node_slots(platform: Platform, node: int) -> range:
    """Return where a room keeps the resources of this node."""
    resources = len(platform.nodes[0].capacity)
    return range(node * resources, (node + 1) * resources)


def licence_slot(platform: Platform, licence: int) -> int:
    """Return where a room keeps the free copies of this licence."""
    return len(platform.nodes) * len(platform.nodes[0].capacity) + licence


def plus(room: Room, other: Room) -> Room:
    return [a + b for a, b in zip(room, other, strict=True)]


def minus(room: Room, other: Room) -> Room:
    return [a - b for a, b in zip(room, other, strict=True)]


def least(room: Room, other: Room) -> Room:
    return [min(a, b) for a, b in zip(room, other, strict=True)]


def held(platform: Platform, job: Job, placement: Placement) -> Room:
    """Return what the job holds when it sits there; licences are held once by the whole job."""
    room = [0] * len(whole(platform))
    for node, tasks in placement:
        for slot, amount in zip(node_slots(platform, node), job.demand, strict=True):
            room[slot] = tasks * amount
    for licence in job.licences:
        room[licence_slot(platform, licence)] += 1
    return room


def place_to_start(platform: Platform, job: Job, room: Room) -> Placement | None:
    """Return where the job sits in this room by its rule; None = it does not fit."""
    if job.place == "power" or place(platform, job, room) is None:
        return place(platform, job, room)
    alone = job.tasks == 1 or job.spread == "node"
    for nodes in [[n for (n,) in groups(platform, job)]] if alone else groups(platform, job):
        fit = {n: tasks_that_fit(job, [room[slot] for slot in node_slots(platform, n)], most(job)) for n in nodes}
        if alone:
            whole_gang = [n for n, tasks in fit.items() if tasks == job.tasks]
            return ((min(whole_gang, key=lambda n: (rank(platform, job, room, n), n)), job.tasks),)
        if sum(fit.values()) >= job.tasks:
            return tuple(sorted(seats(platform, job, room, fit).items()))
    raise AssertionError("it fits in order of power, and by no other rule")


def rank(platform: Platform, job: Job, room: Room, n: int) -> int:
    """Lowest first: pack wants the least free of what the job asks for, spread the most."""
    k = next((k for k, amount in enumerate(job.demand) if amount), 0)
    free = room[node_slots(platform, n)[k]]
    return {"pack": free, "spread": -free, "contiguous": 0}[job.place]


def seats(platform: Platform, job: Job, room: Room, fit: dict[int, int]) -> dict[int, int]:
    """Node -> tasks, of nodes that together can take the gang."""
    left, found = job.tasks, {}
    if job.place == "contiguous":
        lasts = range(len(platform.nodes))
        stretches = [range(first, last + 1) for last in lasts for first in range(last + 1)]
        enough = [each for each in stretches if sum(fit.get(n, 0) for n in each) >= left]
        nodes = min(enough, key=lambda each: (len(each), each[0]))
        fit = {n: fit.get(n, 0) for n in nodes}
    order = sorted(fit, key=lambda n: (rank(platform, job, room, n), n))
    while left:
        for n in order:
            more = min(fit[n] - found.get(n, 0), left if job.place != "spread" else min(left, 1))
            if more:
                found[n] = found.get(n, 0) + more
                left -= more
    return found


def place(platform: Platform, job: Job, room: Room) -> Placement | None:
    """The first place in this room for the whole gang; None = it does not fit.

    node: the first node that can hold all tasks. site: the first site, in order of its first node, whose nodes
    together can hold the gang. any: all nodes together; distinct: the same, with one task on each. Nodes are filled in
    order, each with as many tasks as fit.
    A gang of one task sits on one node, whatever its spread.
    """
    if job.licences and any(room[licence_slot(platform, x)] < n for x, n in Counter(job.licences).items()):
        return None
    for nodes in groups(platform, job):
        placement, left = [], job.tasks
        for node in nodes:
            slots = node_slots(platform, node)
            tasks = tasks_that_fit(job, room[slots.start : slots.stop], min(left, most(job)))
            if tasks > 0:
                placement.append((node, tasks))
                left -= tasks
        if left == 0:
            return tuple(placement)
    return None


def most(job: Job) -> int:
    """Return how many tasks of the gang one node may hold."""
    return 1 if job.spread == "distinct" else job.tasks


@lru_cache(1024)
def groups(platform: Platform, job: Job) -> list[list[int]]:
    """The sets of nodes on which the gang may sit together, in the order in which they are tried."""
    nodes = [n for n in range(len(platform.nodes)) if may_use(platform, n, job)]
    if job.spread == "node" or job.tasks == 1:
        return [[n] for n in nodes]
    if job.spread == "site":
        sites = dict.fromkeys(node.site for node in platform.nodes)
        return [[n for n in nodes if platform.nodes[n].site == site] for site in sites]
    return [nodes]


def may_use(platform: Platform, n: int, job: Job) -> bool:
    """The node is on the job's site, has what its constraint asks for, and may use every licence of the job."""
    node = platform.nodes[n]
    if node.reservation != job.reservation:
        return False
    n = n if node.of is None else node.of
    if job.partition is not None and n not in platform.partitions[job.partition]:
        return False
    if job.site is not None and node.site != job.site:
        return False
    if job.constraint and not any(meets(platform, n, part.split("&")) for part in job.constraint.split("|")):
        return False
    real = len(platform.copies) - platform.accounts
    return node.hosts is None or node.hosts.issuperset(x for x in job.licences if x < real)


def meets(platform: Platform, n: int, terms: list[str]) -> bool:
    """The node has each feature, and none with a ! in front; where no node states any, only names are judged."""
    names = [f"n{i}" for i, node in enumerate(platform.nodes) if node.of is None]  # parts of nodes have none
    if not any(node.features for node in platform.nodes):
        terms = [term for term in terms if term.lstrip("!") in names]
    has = {names[n], *platform.nodes[n].features}
    return all((term[1:] not in has) if term.startswith("!") else (term in has) for term in terms)


def tasks_that_fit(job: Job, free: list[int], tasks: int) -> int:
    """Return how many of `tasks` tasks fit beside each other; a demand of 0 is no limit."""
    return min([tasks] + [amount // demand for amount, demand in zip(free, job.demand, strict=True) if demand > 0])
