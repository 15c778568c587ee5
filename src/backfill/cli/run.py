"""Running a policy with people watching: what takes long says what it is, and a bar shows how far it is."""

import sys
from typing import TYPE_CHECKING, Any

from backfill.cli import say

if TYPE_CHECKING:
    from backfill.api import Result
    from backfill.core.policy import Policy
    from backfill.model.platform import Platform
    from backfill.model.workload import Workload


def _compiling(what: str) -> str:
    from backfill import jit

    kept = "this happens once: the compiled code is kept for the next runs"
    return f"compiling {what}" + (f"; {kept}" if jit.FOLDER else "")


def loaded(text: str, settings: list[str]) -> "tuple[Policy, dict[str, float]]":
    """The policy that a text means, compiled, and its parameters."""
    _engine()
    with say.busy(_compiling(text)):
        from backfill.policies.load import load, parse_param

        policy, params = load(text)
        params |= dict(parse_param(pair) for pair in settings)
        policy.values(params)
        if policy.compiled:
            _ = policy.entry
    return policy, params


def run(workload: "Workload", platform: "Platform", policy: "Policy", **options: Any) -> "Result":
    """Simulate, with a progress bar where it takes long."""
    _engine()
    from backfill.api import simulate

    with say.bar(policy.name, len(workload)) as progress:
        return simulate(workload, platform, policy, progress=progress, **options)


def _engine() -> None:
    """Load the compiled loop, or compile it."""
    if "backfill.worlds.simulated" in sys.modules:
        return
    from backfill import jit

    with say.busy(_compiling("the simulator"), at_once=not jit.WARM and not jit.PLAIN):
        import backfill.worlds.simulated  # noqa: F401
