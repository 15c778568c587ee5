"""The nodes on which a job may run, in Slurm's terms: features of nodes, and the constraint of a job.

`gpu&ssd` asks for both, `a100|h100` for one of the two (`&` binds first), `!n7` for anything else. A node's own name is
one of its features.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from backfill.model.errors import quote

EXPECTED = "features joined by & and |, with a ! in front of those that a node must not have"
NAME = "a text without spaces, brackets and & | ! * ; ,"
PLAIN = "a text without * ; and ,"  # what is_name allows
GPU_TYPE = NAME + " :"  # a job asks for GPUs as `type:count`
_FEATURE = re.compile(r"[^\s&|!*;,()\[\]{}]+")


def alternatives(constraint: str) -> list[dict[str, bool]]:
    """The features that each alternative names, and whether they must be there or must not. Raises ValueError."""
    parts = []
    for part in constraint.split("|"):
        terms: dict[str, bool] = {}
        for term in part.split("&"):
            name, wanted = term.strip().removeprefix("!"), not term.strip().startswith("!")
            if not is_feature(name) or terms.setdefault(name, wanted) != wanted:
                raise ValueError(f"{quote(constraint)}; expected {EXPECTED}")
        parts.append(terms)
    return parts


def with_feature(constraint: str, name: str) -> str:
    """The constraint, or "" for none, that asks for this feature as well. Raises ValueError where it is ruled out."""
    parts = [part for part in constraint.split("|") if constraint and alternatives(part)[0].get(name, True)]
    if constraint and not parts:
        raise ValueError(f"{quote(constraint)} rules out {quote(name)}")
    return "|".join(f"{part}&{name}" for part in parts) or name


def without_feature(constraint: str, name: str) -> str:
    """The constraint that does not ask for this feature any more; "" where nothing is left of an alternative."""
    parts = ["&".join(term for term in part.split("&") if term.strip() != name) for part in constraint.split("|")]
    return "|".join(parts) if all(parts) else ""


def is_name(name: str) -> bool:
    """Whether a node, partition or licence may be called so: names stand in lists such as `a*2;b*3`."""
    return bool(name) and name.isprintable() and not any(mark in name for mark in "*;,")


def is_gpu_type(name: str) -> bool:
    """Whether it can be the type of GPUs, which is a feature of their nodes."""
    return is_feature(name) and ":" not in name


def is_feature(name: str) -> bool:
    """Whether it can stand in a constraint."""
    return _FEATURE.fullmatch(name) is not None and name.isprintable()


def matching(pattern: str, names: Iterable[str]) -> list[int]:
    """The places of the names that a shell pattern matches; upper and lower case differ."""
    return [place for place, name in enumerate(names) if fnmatchcase(name, pattern)]
