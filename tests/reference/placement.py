"""Where a gang may sit: nodes in platform order, which is the order of power."""

from collections import Counter
from functools import lru_cache

from .words import Job, Placement, Platform, Room


def whole(platform: Platform) -> Room:
    """Everything there is: the room of the empty platform."""
    return [amount for node in platform.nodes for amount in node.capacity] + list(platform.copies)


def node_slots(platform: Platform, node: int) -> range:
    """Where a room keeps the resources of this node."""
    resources = len(platform.nodes[0].capacity)
    return range(node * resources, (node + 1) * resources)


def licence_slot(platform: Platform, licence: int) -> int:
    """Where a room keeps the free copies of this licence."""
    return len(platform.nodes) * len(platform.nodes[0].capacity) + licence


def plus(room: Room, other: Room) -> Room:
    return [a + b for a, b in zip(room, other, strict=True)]


def minus(room: Room, other: Room) -> Room:
    return [a - b for a, b in zip(room, other, strict=True)]


def least(room: Room, other: Room) -> Room:
    return [min(a, b) for a, b in zip(room, other, strict=True)]


def held(platform: Platform, job: Job, placement: Placement) -> Room:
    """What the job holds when it sits there; licences are held once by the whole job."""
    room = [0] * len(whole(platform))
    for node, tasks in placement:
        for slot, amount in zip(node_slots(platform, node), job.demand, strict=True):
            room[slot] = tasks * amount
    for licence in job.licences:
        room[licence_slot(platform, licence)] += 1
    return room


def place(platform: Platform, job: Job, room: Room) -> Placement | None:
    """The first place in this room for the whole gang; None = it does not fit.

    node: the first node that can hold all tasks. site: the first site, in order of its first node, whose nodes
    together can hold the gang. any: all nodes together. Nodes are filled in order, each with as many tasks as fit.
    A gang of one task sits on one node, whatever its spread.
    """
    if job.licences and any(room[licence_slot(platform, x)] < n for x, n in Counter(job.licences).items()):
        return None
    for nodes in groups(platform, job):
        placement, left = [], job.tasks
        for node in nodes:
            slots = node_slots(platform, node)
            tasks = tasks_that_fit(job, room[slots.start : slots.stop], left)
            if tasks > 0:
                placement.append((node, tasks))
                left -= tasks
        if left == 0:
            return tuple(placement)
    return None


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
    if job.site is not None and node.site != job.site:
        return False
    if job.constraint and not any(meets(platform, n, part.split("&")) for part in job.constraint.split("|")):
        return False
    return node.hosts is None or node.hosts.issuperset(job.licences)


def meets(platform: Platform, n: int, terms: list[str]) -> bool:
    """The node has each feature, and none with a ! in front; where no node states any, only names are judged."""
    names = [f"n{i}" for i in range(len(platform.nodes))]
    if not any(node.features for node in platform.nodes):
        terms = [term for term in terms if term.lstrip("!") in names]
    has = {names[n], *platform.nodes[n].features}
    return all((term[1:] not in has) if term.startswith("!") else (term in has) for term in terms)


def tasks_that_fit(job: Job, free: list[int], tasks: int) -> int:
    """How many of `tasks` tasks fit beside each other; a demand of 0 is no limit."""
    return min([tasks] + [amount // demand for amount, demand in zip(free, job.demand, strict=True) if demand > 0])
