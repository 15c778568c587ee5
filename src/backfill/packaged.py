"""Policies that other installed packages bring, by the entry point group `backfill.policies`. Needs no compiled code.

In the pyproject.toml of such a package:

    [project.entry-points."backfill.policies"]
    polite = "my_package.policies:polite"

The module is treated as a user's file of policies is: it is checked, compiled and kept by its content.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from backfill.model.errors import UsageError
from backfill.policies import TABLE

GROUP = "backfill.policies"


@cache
def packaged() -> dict[str, EntryPoint]:
    """The entry points by the names of their policies."""
    return {point.name: point for point in entry_points(group=GROUP)}


def resolved(text: str) -> str:
    """The text of a policy, with `FILE.py:NAME` in place of the name of one that a package brings.

    Names of this package go first. Raises UsageError for an entry point that leads nowhere.
    """
    name, colon, params = text.partition(":")
    if ".py" in name or name in TABLE or name not in packaged():
        return text
    point = packaged()[name]
    try:
        spec = find_spec(point.module)
    except ImportError:
        spec = None
    if spec is None or not (spec.origin or "").endswith(".py"):
        where = f"{point.value} of {point.dist.name if point.dist else 'a package'}"
        raise UsageError(f"policy {name}: {where} is no module in a file; expected MODULE:FUNCTION")
    return f"{spec.origin}:{point.attr}{colon}{params}"
