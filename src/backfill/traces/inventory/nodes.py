"""Nodes as listed by a batch system, and the platform that they form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from backfill.model.constraint import PLAIN, is_feature, is_gpu_type, is_name
from backfill.model.errors import PlatformError, at, in_file, quote
from backfill.model.partitions import Partition
from backfill.model.platform import NODES_MAX, Platform

_AMOUNTS = {"cpus": 2**40, "gpus": 2**40, "memory": 2**60}


@dataclass(slots=True)
class Node:
    """A node of an inventory."""

    name: str
    cpus: int
    memory: int = 0  # bytes
    gpus: int = 0
    features: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    weight: int = 1  # Slurm: nodes of lower weight are chosen first


@dataclass(slots=True)
class Terms:
    """The limits of a partition. Times in microseconds, 0 = no limit."""

    default: bool = False
    default_walltime: int = 0
    max_walltime: int = 0
    priority: float = 0.0
    place: str = ""
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()  # if the partition names them
    stated: Mapping[str, str] = field(default_factory=dict)  # everything that the batch system says of it


@dataclass(slots=True)
class Inventory:
    """The nodes and partitions of a machine."""

    file: str
    nodes: dict[str, Node] = field(default_factory=dict)
    partitions: dict[str, Terms] = field(default_factory=dict)
    licences: dict[str, int] = field(default_factory=dict)  # copies of each

    def add(self, node: Node, line: int | None = None) -> None:
        """Add a node; repeated listings, one per partition, are one node. Raises PlatformError."""
        self._check_name("node", node.name, line)
        for name, most in _AMOUNTS.items():
            if not 0 <= getattr(node, name) <= most:
                expected = f"a whole number from 0 to {most:,}"
                raise wrong(self.file, line, node.name, name, getattr(node, name), expected)
        if node.name in self.nodes:
            known = self.nodes[node.name]
            known.partitions = tuple(dict.fromkeys((*known.partitions, *node.partitions)))
        else:
            self.nodes[node.name] = node

    def platform(self, name: str) -> Platform:
        """Return the platform of this name, nodes in list order. Raises PlatformError if no node has a cpu."""
        nodes = [node for node in self.nodes.values() if node.cpus > 0]
        if not nodes:
            raise PlatformError(at(self.file, None, "no node with cpus; expected at least one"))
        if len(nodes) > NODES_MAX:
            raise PlatformError(at(self.file, None, f"more than {NODES_MAX:,} nodes"))
        amounts = {"cpus": [node.cpus for node in nodes]}
        if any(node.memory for node in nodes):
            amounts["memory"] = [node.memory for node in nodes]
        if any(node.gpus for node in nodes):
            amounts["gpus"] = [node.gpus for node in nodes]
        names = dict.fromkeys((*self.partitions, *(name for node in nodes for name in node.partitions)))
        for kind, given in (("partition", names), ("licence", self.licences)):
            for each in given:
                self._check_name(kind, each, None)
        with in_file(self.file):
            return Platform(
                nodes=tuple(node.name for node in nodes),
                resources=tuple(amounts),
                capacity=np.array([*amounts.values()], np.int64).T.copy(),
                speed=np.ones(len(nodes)),
                site=np.zeros(len(nodes), np.int64),
                features=tuple(_features(node) for node in nodes),
                licences=tuple(self.licences),
                copies=np.array([*self.licences.values()], np.int64),
                name=name,
                partitions=tuple(p for name in names if (p := self._partition(name, nodes)) is not None),
            )

    def _check_name(self, kind: str, name: str, line: int | None) -> None:
        if not is_name(name) or (kind == "licence" and ":" in name):
            expected = PLAIN + (" :" if kind == "licence" else "")
            raise PlatformError(at(self.file, line, f"the name of a {kind} is {quote(name)}; expected {expected}"))

    def _partition(self, name: str, nodes: Iterable[Node]) -> Partition | None:
        terms = self.partitions.get(name, Terms())
        mine = np.array(
            [i for i, node in enumerate(nodes) if name in node.partitions or node.name in terms.nodes], np.int64
        )
        if not len(mine):
            return None
        return Partition(
            name=name,
            nodes=mine,
            default=terms.default,
            default_walltime=terms.default_walltime,
            max_walltime=terms.max_walltime,
            priority=terms.priority,
            place=terms.place,
            groups=terms.groups,
        )


def _features(node: Node) -> tuple[str, ...]:
    types = [name for name in node.gpu_types if is_gpu_type(name)]
    named = [name for name in node.features if is_feature(name)]
    return tuple(dict.fromkeys([*named, *types]))


def wrong(
    file: str, line: int | None, owner: str, name: str, value: object, expected: str, kind: str = "node"
) -> PlatformError:
    """Return the error for a field of a node, or of an owner of another kind."""
    return PlatformError(at(file, line, f"{kind} {owner}: {name} is {quote(value)}; expected {expected}"))
