"""The daemon's own account of each node's capacity and what jobs hold of it, in plain integers.

A floating licence has no node: its copies are counted at FLOATING. The machine of a queue without a platform is one
node, MACHINE, with its licences as resources.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MACHINE = "machine"
FLOATING = ""  # stands for a node where floating licences are counted
ON_NODES = ("cpus", "memory", "gpus")  # resources that are no licences

Amounts = dict[str, int]  # by resource
# The nodes of a job: the name of each, the number of tasks there, and a true third value if it has the whole node.
Placement = Sequence[Sequence[Any]]


class Nodes:
    """The nodes of a queue.

    stated: the capacity of each node when nothing is drained, and the copies of each floating licence at FLOATING. A
    job on whole nodes holds what is stated of them. Memory that no node states is not limited, as in a simulation; see
    Platform.bounds.
    """

    def __init__(self, stated: Mapping[str, Amounts]) -> None:
        self.stated = {place: dict(amounts) for place, amounts in stated.items()}
        self.there = {place: dict(amounts) for place, amounts in stated.items()}
        self.held: dict[str, Amounts] = {place: {} for place in stated}
        self.reasons: dict[str, str] = {}  # why a node has less than is stated
        self.names = [place for place in stated if place != FLOATING]  # in the order of the platform
        self._unlimited = "" if any("memory" in amounts for amounts in stated.values()) else "memory"
        self._add_up()

    def set(self, place: str, amounts: Amounts, reason: str = "") -> bool:
        """Set the capacity of a node; return whether any amount has decreased."""
        before = self.there.get(place, {})
        less = any(amounts.get(name, 0) < amount for name, amount in before.items())
        self.there[place] = dict(amounts)
        self.held.setdefault(place, {})
        self.reasons.pop(place, None)
        if reason:
            self.reasons[place] = reason
        self._add_up()
        return less

    def parts(self, need: Amounts, placement: Placement) -> Iterator[tuple[str, str, int]]:
        """Yield what a job holds: node, resource, amount.

        need: per task, except floating licences, which are for the whole job.
        """
        floating = self.there.get(FLOATING, {})
        for node, tasks, *whole in placement:
            if any(whole):
                yield from ((node, what, amount) for what, amount in self.stated.get(node, {}).items() if amount)
            else:
                for what, amount in need.items():
                    if amount and what not in floating and what != self._unlimited:
                        yield node, what, amount * tasks
        for what, amount in need.items():
            if amount and what in floating:
                yield FLOATING, what, amount

    def take(self, parts: Iterable[tuple[str, str, int]], sign: int = 1) -> None:
        """Add what is held from now on, or, with sign -1, remove it."""
        for place, name, amount in parts:
            here = self.held.setdefault(place, {})
            here[name] = here.get(name, 0) + sign * amount
            self.held_in_all[name] = self.held_in_all.get(name, 0) + sign * amount

    @property
    def held_elsewhere(self) -> Amounts:
        """Return what runs hold on nodes that were removed from the platform."""
        amounts: Amounts = {}
        for place in self.held.keys() - self.stated.keys():
            for name, amount in self.held[place].items():
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if amount}

    def free(self) -> "Free":
        """Return the free amounts."""
        return Free(self)

    def _add_up(self) -> None:
        """Sum up the capacity and the held amount of each resource."""
        self.capacity: Amounts = {}
        self.held_in_all: Amounts = {}
        for total, places in ((self.capacity, self.there), (self.held_in_all, self.held)):
            for amounts in places.values():
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount


class Free:
    """The free amounts of each node: negative if capacity was taken away from runs. A copy, free to change."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._less: dict[tuple[str, str], int] = {}

    def of(self, place: str, name: str) -> int:
        """Return the free amount of a resource of a node."""
        nodes = self._nodes
        there, held = nodes.there.get(place, {}).get(name, 0), nodes.held.get(place, {}).get(name, 0)
        return there - held - self._less.get((place, name), 0)

    def take(self, parts: Iterable[tuple[str, str, int]], sign: int = 1) -> None:
        """See Nodes.take."""
        for place, name, amount in parts:
            self._less[place, name] = self._less.get((place, name), 0) + sign * amount

    def holds(self, parts: Iterable[tuple[str, str, int]]) -> bool:
        """Return whether these amounts are free."""
        asked: dict[tuple[str, str], int] = {}
        for place, name, amount in parts:
            asked[place, name] = asked.get((place, name), 0) + amount
        return all(amount <= self.of(*part) for part, amount in asked.items())
