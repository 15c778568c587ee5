"""The policies, one file per family, and the table of their names; calling this module lists them.

>>> import backfill as bf
>>> bf.policies()[:2]
['fcfs', 'easy']
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from backfill.model.errors import UsageError
from backfill.model.names import did_you_mean

if TYPE_CHECKING:  # the daemon of a queue checks names without loading numba
    from backfill.core.policy import Policy

# name -> module of this package; a module is imported and compiled only when one of its policies is requested.
_EASY = (
    "easy easy-priority easy-sjf easy-ljf easy-saf easy-laf easy-lxf easy-wfp3 easy-unicef easy-f1 easy-f2 easy-f3 "
    "easy-f4 easy-sjbf first-fit k-reservations"
)
_FARM = "bf-fcfs bf-mod bf-unmod"
_BALANCE = "bb backfill-lowest ibb best-fit"
_RELAXED = "relaxed dynamic"
_LOOKAHEAD = "lookahead combinational"
_PARTITIONS = "partition-fixed partition-variable partition-adaptive partition-dynamic"
_TWO_TIER = "2tsb 2tfb 2tfb-sf 2tpb"
_GRID = "gang-site gang-span"
_MATRIX = "gang-matrix gang-matrix-backfill"
TABLE = {
    "fcfs": "fcfs",
    **dict.fromkeys(_EASY.split(), "easy"),
    "conservative": "conservative",
    "reservation-depth": "depth",
    **dict.fromkeys(_FARM.split(), "farm"),
    "flexible": "flexible",
    "flexible-fairshare": "fairshare",
    **dict.fromkeys(_BALANCE.split(), "balance"),
    "preemptive": "preemptive",
    **dict.fromkeys(_TWO_TIER.split(), "twotier"),
    **dict.fromkeys(_RELAXED.split(), "relaxed"),
    **dict.fromkeys(_LOOKAHEAD.split(), "lookahead"),
    "multi-queue": "multiqueue",
    "selective": "selective",
    "slack": "slack",
    "thread-matrix": "threads",
    **dict.fromkeys(_PARTITIONS.split(), "partitions"),
    "round-robin": "roundrobin",
    **dict.fromkeys(_GRID.split(), "gang"),
    **dict.fromkeys(_MATRIX.split(), "gangmatrix"),
    "slurm": "slurm",
}


def names() -> list[str]:
    """Return the names of all policies, in the order of `backfill policies`. Nothing is compiled."""
    return [*TABLE]


class _Callable(ModuleType):
    """The type of this module: `bf.policies` is this folder, and `bf.policies()` returns the names."""

    def __call__(self) -> list[str]:
        return names()


sys.modules[__name__].__class__ = _Callable


def check_name(name: str) -> None:
    """Raise UsageError, which names the nearest policy or else all of them, if there is none of this name."""
    if name not in TABLE:
        raise UsageError(f"unknown policy {name!r}; {did_you_mean(name, TABLE, see='backfill policies')}")


@cache
def get(name: str) -> Policy:
    """Return the policy of this name. Raises UsageError like `check_name`."""
    check_name(name)
    module = importlib.import_module(f"{__name__}.{TABLE[name]}")
    found: dict[str, Policy] = module.family()
    return found[name]
