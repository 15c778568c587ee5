"""The display names of policies in a comparison."""

from collections import Counter
from collections.abc import Mapping, Sequence

from backfill.model.errors import UsageError


def name_of(policy: str, params_given: Mapping[str, float | str]) -> str:
    """Format a policy and its distinguishing parameters: `NAME:KEY=VALUE,...`."""
    params = ",".join(
        f"{key}={value if isinstance(value, str) else format(value, 'g')}" for key, value in params_given.items()
    )
    return f"{policy}:{params}" if params else policy


def names_of(policies: Sequence[tuple[str, Mapping[str, float | str]]]) -> list[str]:
    """Return the names of policies, given as (policy, distinguishing parameters).

    Raises UsageError.
    """
    if len(policies) < 2:
        raise UsageError(f"a comparison needs two policies or more; got {len(policies)}")
    names = [name_of(policy, params_given) for policy, params_given in policies]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"policy {twice[0]} is given twice")
    return names
