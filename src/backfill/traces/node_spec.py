"""What nodes a job of the MetaCentrum dialects asks for, in the two notations that are in use."""

import math
import re
from dataclasses import dataclass

from backfill.model.constraint import is_feature
from backfill.model.units import parse_size

_ALEA = re.compile(r"([^:]+):(\d{1,9})x(\d{1,9})")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Some nodes with some processors on each, and what these nodes must be or must not be."""

    chunks: tuple[tuple[int, int], ...]  # (nodes, processors on each)
    asked: tuple[tuple[str, bool], ...] = ()  # property or node, and whether it must be there
    whole: bool = False  # nobody else may be on them
    memory: int = 0  # bytes on each node

    @property
    def nodes(self) -> int:
        """All nodes."""
        return sum(count for count, _ in self.chunks)

    @property
    def procs(self) -> int:
        """All processors."""
        return sum(count * each for count, each in self.chunks)

    @property
    def even(self) -> bool:
        """Whether each node has as many processors as any other."""
        return len({each for _, each in self.chunks}) == 1

    @property
    def step(self) -> int:
        """The most processors of which each node has a multiple."""
        return math.gcd(*(each for _, each in self.chunks))


def pbs_spec(text: str) -> NodeSpec:
    """`2:ppn=4:cl_x:^n7+1:ppn=8`: chunks with + between, ^ before what must not be. Raises ValueError.

    `#excl` behind a property asks for whole nodes, `host=` names one, `mem=` is the memory of each. A count that is
    left out is 1, and so is ppn; of one with a fraction the whole part counts.
    """
    chunks, asked, whole, memory = [], {}, False, 0
    for chunk in text.split("+"):
        nodes, ppn = 1, 1
        for place, word in enumerate(chunk.split(":")):
            key, equals, value = word.partition("=")
            if place == 0 and word.isascii() and word.isdigit():
                nodes = _count(word)
            elif key == "ppn":
                ppn = _count(value.partition(".")[0])
            elif key == "mem":
                memory = max(memory, parse_size(value.lower().removesuffix("b")))
            else:
                name = value if equals and key == "host" else word
                whole |= name.endswith("#excl")
                feature = name.removesuffix("#excl").removeprefix("^")
                if not is_feature(feature):
                    raise ValueError(text)
                asked[feature] = not name.startswith("^")
        chunks.append((nodes, ppn))
    return NodeSpec(tuple(chunks), tuple(asked.items()), whole, memory)


def alea_spec(text: str) -> NodeSpec:
    """`property:NODESxPPN`, where `all` is any node. Raises ValueError."""
    match = _ALEA.fullmatch(text)
    if not match or not is_feature(match[1]):
        raise ValueError(text)
    asked = () if match[1] == "all" else ((match[1], True),)
    return NodeSpec(((_count(match[2]), _count(match[3])),), asked)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= 10**9):
        raise ValueError(text)
    return int(text)
