"""The node requests of the MetaCentrum dialects, in the two notations in use."""

import math
import re
from dataclasses import dataclass

from backfill.model.constraint import is_feature
from backfill.model.units import parse_size

Asked = tuple[tuple[str, bool], ...]  # property or node, and whether it is required or excluded
_ALEA = re.compile(r"([^:]+):(\d+)x(\d+)")
_MOST = 10**9  # nodes of a chunk, or processors of a node


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A request for nodes with some processors on each, and their required and excluded properties."""

    chunks: tuple[tuple[int, int], ...]  # (nodes, processors on each)
    asked: tuple[Asked, ...] = ((),)  # of each chunk, without duplicates
    whole: bool = False  # exclusive nodes
    memory: int = 0  # bytes on each node

    def __post_init__(self) -> None:
        if self.procs > 2**40:
            raise ValueError(self.chunks)

    @property
    def nodes(self) -> int:
        """The total number of nodes."""
        return sum(count for count, _ in self.chunks)

    @property
    def procs(self) -> int:
        """The total number of processors."""
        return sum(count * each for count, each in self.chunks)

    def tasks(self, procs: int) -> int:
        """Return the number of equal tasks that `procs` processors form: one per node if they divide evenly."""
        each = {each for _, each in self.chunks}
        if procs == self.procs and len(each) > 1:
            return procs // math.gcd(*each)
        return math.gcd(self.nodes, procs)


def pbs_spec(text: str) -> NodeSpec:
    """Parse `2:ppn=4:cl_x:^n7+1:ppn=8`: chunks separated by +, ^ marks an excluded property. Raises ValueError.

    `#excl` after a word requests whole nodes, `host=` names one, `mem=` is the memory per node. A missing count is 1,
    and so is a missing ppn; fractions of a count are dropped.
    """
    chunks, requested, whole, memory = [], [], False, 0
    for chunk in text.split("+"):
        nodes, ppn = 1, 1
        terms: dict[str, bool] = {}
        for place, word in enumerate(chunk.split(":")):
            whole |= word.endswith("#excl")
            wanted = not word.startswith("^")
            word = word.removesuffix("#excl").removeprefix("^")
            key, equals, value = word.partition("=")
            if place == 0 and word.isascii() and word.isdigit():
                nodes = number(word, 1, _MOST)
            elif key == "ppn":
                ppn = number(value.partition(".")[0], 1, _MOST)
            elif key == "mem":
                memory = max(memory, parse_size(value.lower().removesuffix("b")))
            else:
                name = value if equals and key == "host" else word
                if not is_feature(name) or terms.setdefault(name, wanted) != wanted:
                    raise ValueError(text)
        chunks.append((nodes, ppn))
        requested.append(tuple(terms.items()))
    return NodeSpec(tuple(chunks), tuple(dict.fromkeys(requested)), whole, memory)


def alea_spec(text: str) -> NodeSpec:
    """Parse `property:NODESxPPN`; the property `all` allows any node. Raises ValueError."""
    match = _ALEA.fullmatch(text)
    if not match or not is_feature(match[1]):
        raise ValueError(text)
    chunk = (number(match[2], 1, _MOST), number(match[3], 1, _MOST))
    return NodeSpec((chunk,), ((),) if match[1] == "all" else (((match[1], True),),))


def number(text: str, low: int, high: int) -> int:
    """Parse a whole number from `low` to `high`. Raises ValueError."""
    digits = text.lstrip("0") or text[:1]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(high)) and low <= int(digits) <= high):
        raise ValueError(text)
    return int(digits)
