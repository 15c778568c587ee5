"""Tables of machines that accompany a log, as platforms."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backfill.model.constraint import NAME, is_feature
from backfill.model.errors import PlatformError, at, in_file, quote
from backfill.model.platform import NODES_MAX, Platform
from backfill.traces.files import Source

GB = 2**30
_COLUMNS = ("cluster", "name", "nodes", "cpus per node", "speed", "memory per node", "properties", "gpus per node")
_UNITS = {6: 2**10, 8: GB}  # of the memory, by the number of columns


@dataclass(frozen=True, slots=True)
class Kind:
    """A number of equal nodes."""

    name: str
    count: int | None  # nodes with a number after the name; None = the one node of this name
    amounts: tuple[int, ...]  # of each resource
    features: tuple[str, ...]
    speed: float = 1.0

    @property
    def nodes(self) -> list[str]:
        """The names of all these nodes."""
        if self.count is None:
            return [self.name]
        dash = "-" if self.name[-1:].isdigit() else ""
        return [f"{self.name}{dash}{i + 1}" for i in range(self.count)]


def platform_of(kinds: Sequence[Kind], resources: tuple[str, ...], file: str) -> Platform:
    """Return a platform of these kinds of nodes, most powerful first. Raises PlatformError."""
    ordered = sorted(kinds, key=lambda kind: -kind.speed)
    each = [kind for kind in ordered for _ in kind.nodes]
    with in_file(file):
        return Platform(
            nodes=tuple(node for kind in ordered for node in kind.nodes),
            resources=resources,
            capacity=np.array([kind.amounts for kind in each], np.int64),
            speed=np.array([kind.speed for kind in each]),
            site=np.zeros(len(each), np.int64),
            features=tuple(kind.features for kind in each),
            name=Path(file).name.partition(".")[0],
        )


def read_machines(source: Source) -> Platform:
    """Read the clusters of a `.machines` file of the MetaCentrum logs and the simulator Alea.

    A line is: number, name, nodes, cpus per node, speed, memory per node in KB; or, with memory in GB, followed by
    comma-separated properties and gpus per node. A node has the properties, `cl_NAME` and `nodecpusN` as features.
    Raises PlatformError with file and line.
    """
    kinds: list[Kind] = []
    width = 0
    for line, text in enumerate(source.data.decode("latin-1").splitlines(), start=1):
        if not (cells := text.partition(";")[0].split()):
            continue
        width = width or len(cells)
        if width not in _UNITS or len(cells) != width:
            expected = width if width in _UNITS else "6 or 8"
            raise PlatformError(at(source.file, line, f"{len(cells)} columns; expected {expected}"))
        kinds.append(_kind(source.file, line, cells))
        if sum(kind.count or 1 for kind in kinds) > NODES_MAX:
            raise PlatformError(at(source.file, line, f"more than {NODES_MAX:,} nodes up to here"))
    if not kinds:
        raise PlatformError(at(source.file, None, "no machine; expected at least one"))
    return platform_of(kinds, ("cpus", "memory", "gpus")[: len(kinds[0].amounts)], source.file)


def _kind(file: str, line: int, cells: list[str]) -> Kind:
    def number(place: int, low: float, high: float) -> float:
        try:
            value = float(cells[place])
        except ValueError:
            value = np.nan
        if not low <= value <= high or (place != 4 and value != int(value)):
            message = f"{_COLUMNS[place]} is {quote(cells[place])}; expected a number from {low:g} to {high:g}"
            raise PlatformError(at(file, line, message))
        return value

    name = cells[1]
    properties = cells[6].split(",") if len(cells) > 6 else []
    if bad := [text for text in (name, *properties) if not is_feature(text)]:
        raise PlatformError(at(file, line, f"{quote(bad[0])}; expected {NAME}"))
    cpus = int(number(3, 1, 2**40))
    amounts = [cpus, int(number(5, 0, 2**50 // _UNITS[len(cells)])) * _UNITS[len(cells)]]
    if len(cells) > 6:
        amounts.append(int(number(7, 0, 2**40)))
    cluster = name if name.startswith("cl_") else f"cl_{name}"
    features = tuple(dict.fromkeys((cluster, f"nodecpus{cpus}", *properties)))
    return Kind(name, int(number(2, 1, NODES_MAX)), tuple(amounts), features, number(4, 1e-6, 1e6))
