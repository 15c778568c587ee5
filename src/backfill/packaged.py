"""Policies that other installed packages provide, by the entry point group `backfill.policies`. Needs no compiled code.

In the pyproject.toml of such a package:

    [project.entry-points."backfill.policies"]
    polite = "my_package.policies:polite"

The module is treated like a user's file of policies: it is checked, compiled and cached by its content.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from backfill.model.errors import UsageError
from backfill.policies import TABLE

GROUP = "backfill.policies"


@cache
def packaged() -> dict[str, EntryPoint]:
    """Return the entry points by the names of their policies."""
    return {point.name: point for point in entry_points(group=GROUP)}


def resolved(text: str) -> str:
    """Return the text of a policy; the name of a policy of a package is replaced by `FILE.py:NAME`.

    Names of this package take precedence. Raises UsageError for an entry point that leads nowhere.
    """
    name, colon, params = text.partition(":")
    if ".py" in name or name in TABLE or name not in packaged():
        return text
    point = packaged()[name]
    file = _file_of(point.module)
    if file is None:
        where = f"{point.value} of {point.dist.name if point.dist else 'a package'}"
        raise UsageError(f"policy {name}: {where} is no module in a file; expected MODULE:FUNCTION")
    return f"{file}:{point.attr}{colon}{params}"


def _file_of(module: str) -> Path | None:
    """Return the file of a module. Nothing of its package is imported, since the daemon calls this, too."""
    top, *inner = module.split(".")
    spec = find_spec(top)
    if spec is None:
        return None
    if not inner and spec.origin is not None:
        return Path(spec.origin) if spec.origin.endswith(".py") else None
    places = [Path(place, *inner) for place in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.is_file()), None)
