"""The fidelity of policy slurm on a site's own log: several phases of its clocks, and two policies to beat."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill.analysis.phases import Fidelity
    from backfill.api import Result

OTHERS = ("conservative", "easy-priority")


def judged(result: "Result") -> "Fidelity | None":
    """Return how far a run of policy slurm is from the log of its site; None for another run, or without a site."""
    if result.policy.name != "slurm" or result.platform.slurm is None or result.replay is None:
        return None

    from backfill.analysis.phases import fidelity
    from backfill.cli.run import run
    from backfill.settings import PHASES, in_phases
    from backfill.spec import RunSpec

    workload, platform, spec = result.workload, result.platform, result.spec
    phases = [result, *(run(workload, platform, each) for each in in_phases(spec, platform, PHASES)[1:])]
    others = [
        run(workload, platform, RunSpec(named=name, given={}, options=spec.options, warmup=spec.warmup,
                                        cooldown=spec.cooldown)) for name in OTHERS
    ]  # fmt: skip
    return fidelity(phases, others)
