"""What policies are called where several stand side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence

from backfill.model.errors import UsageError


def names_of(policies: Sequence[tuple[str, Mapping[str, float]]]) -> list[str]:
    """Names of (policy, parameters) each: with the parameters where one policy comes twice. Raises UsageError."""
    if len(policies) < 2:
        raise UsageError(f"a comparison needs two policies or more; got {len(policies)}")
    often = Counter(name for name, _ in policies)
    names = []
    for name, params in policies:
        values = ",".join(f"{key}={value:g}" for key, value in params.items())
        names.append(f"{name}:{values}" if often[name] > 1 and values else name)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"policy {twice[0]} is given twice")
    return names
