"""The nodes of a platform by kind.

Nodes of a kind are equal in everything but their names, so that users read of a few kinds instead of a thousand nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.constraint import with_feature
from backfill.model.platform import Platform
from backfill.model.workload import Ints

NAMED = 32  # most nodes of a kind that a constraint lists individually


@dataclass(frozen=True, eq=False)
class Kind:
    """Equal nodes of one partition, ascending. partition: empty if the platform has none.

    constraint: selects them among the nodes of the partition; empty for all of these, None if there is none.
    """

    partition: str
    nodes: Ints
    constraint: str | None
    mixed: bool = False  # whether these are all nodes of a partition with several kinds


def kinds(platform: Platform) -> list[Ints]:
    """Return the nodes of each kind, in the order of their first nodes."""
    inside = np.array([platform.nodes_of(each.name) for each in platform.partitions]).T
    found: dict[tuple[object, ...], list[int]] = {}
    for node in range(len(platform.nodes)):
        key = (
            *platform.capacity[node].tolist(), platform.speed[node], platform.site[node],
            *(platform.features[node] if platform.features else ()), platform.hosts[node].tobytes(),
            inside[node].tobytes() if len(inside) else b"",
        )  # fmt: skip
        found.setdefault(key, []).append(node)
    return [np.array(nodes) for nodes in found.values()]


def choices(platform: Platform, feature: str = "") -> Iterator[Kind]:
    """Yield the sets of nodes that a job can request by partition and constraint.

    These are each partition, and the kinds of nodes in it if there are several. feature: required of all nodes.
    """
    each = kinds(platform)
    wanted = platform.allows(feature) if feature else np.ones(len(platform.nodes), np.bool_)
    for name in [each.name for each in platform.partitions] or [""]:
        inside = wanted & platform.nodes_of(name) if name else wanted
        mine = [nodes for nodes in each if inside[nodes[0]]]
        if not mine:
            continue
        yield Kind(name, np.flatnonzero(inside), feature, mixed=len(mine) > 1)
        if len(mine) > 1:
            for nodes in mine:
                if (constraint := _constraint(platform, inside, nodes)) is not None:
                    yield Kind(name, nodes, with_feature(constraint, feature) if feature else constraint)


def _constraint(platform: Platform, inside: NDArray[np.bool_], nodes: Ints) -> str | None:
    """Return a constraint that selects these nodes within a partition: by features, or else by names; None if
    impossible."""
    wanted = np.zeros(len(platform.nodes), np.bool_)
    wanted[nodes] = True
    if platform.features:
        own = platform.features[nodes[0]]
        others = dict.fromkeys(f for node in np.flatnonzero(inside) for f in platform.features[node] if f not in own)
        terms = [*own, *(f"!{feature}" for feature in others)]

        def selects(some: list[str]) -> bool:
            return bool(some) and bool((platform.allows("&".join(some)) & inside == wanted).all())

        if selects(terms):
            for term in terms[::-1]:  # leave out terms that are not needed
                fewer = [one for one in terms if one != term]
                terms = fewer if selects(fewer) else terms
            return "&".join(terms)
    return "|".join(platform.nodes[node] for node in nodes) if len(nodes) <= NAMED else None
