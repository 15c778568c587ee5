"""The nodes on which a job may run, in Slurm's terms: features of nodes, and the constraint of a job.

`gpu&ssd` requires both, `a100|h100` one of the two (`&` binds first), `!n7` any node without it. A node's own name is
one of its features.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from backfill.model.errors import quote

EXPECTED = "features joined by & and |, with a ! in front of those that a node must not have"
NAME = "a text without spaces, brackets and & | ! * ; ,"
PLAIN = "a text without * ; and ,"  # accepted by is_name
GPU_TYPE = NAME + " :"  # a job requests GPUs as `type:count`
_FEATURE = re.compile(r"[^\s&|!*;,()\[\]{}]+")


def alternatives(constraint: str) -> list[dict[str, bool]]:
    """Return the features in each alternative, True if required and False if excluded. Raises ValueError."""
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
    """Extend a constraint, or "" for none, by a required feature. Raises ValueError if the constraint excludes it."""
    parts = [part for part in constraint.split("|") if constraint and alternatives(part)[0].get(name, True)]
    if constraint and not parts:
        raise ValueError(f"{quote(constraint)} rules out {quote(name)}")
    return "|".join(f"{part}&{name}" for part in parts) or name


def without_feature(constraint: str, name: str) -> str:
    """Remove a required feature from a constraint; "" if an alternative becomes empty."""
    parts = ["&".join(term for term in part.split("&") if term.strip() != name) for part in constraint.split("|")]
    return "|".join(parts) if all(parts) else ""


def is_name(name: str) -> bool:
    """Return whether a node, partition or licence may have this name: names occur in lists such as `a*2;b*3`."""
    return bool(name) and name.isprintable() and not any(mark in name for mark in "*;,")


def is_gpu_type(name: str) -> bool:
    """Return whether this may be a GPU type, which is a feature of nodes."""
    return is_feature(name) and ":" not in name


def is_feature(name: str) -> bool:
    """Return whether this may occur in a constraint."""
    return _FEATURE.fullmatch(name) is not None and name.isprintable()


def matching(pattern: str, names: Iterable[str]) -> list[int]:
    """Return the indices of the names that match a shell pattern, case-sensitively."""
    return [place for place, name in enumerate(names) if fnmatchcase(name, pattern)]
