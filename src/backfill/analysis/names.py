"""What policies are called where several stand side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence

from backfill.model.errors import UsageError


def params_text(params: Mapping[str, float | str]) -> str:
    """Parameters as in `NAME:KEY=VALUE,...`."""
    return ",".join(f"{key}={value if isinstance(value, str) else format(value, 'g')}" for key, value in params.items())


def names_of(policies: Sequence[tuple[str, Mapping[str, float | str]]]) -> list[str]:
    """Names of (policy, parameters) each: with the answers that were given, and all parameters where one comes twice.

    Raises UsageError.
    """
    if len(policies) < 2:
        raise UsageError(f"a comparison needs two policies or more; got {len(policies)}")
    often = Counter(name for name, _ in policies)
    names = []
    for name, params in policies:
        answers = {key: value for key, value in params.items() if isinstance(value, str)}
        values = params_text(params if often[name] > 1 else answers)
        names.append(f"{name}:{values}" if values else name)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"policy {twice[0]} is given twice")
    return names
