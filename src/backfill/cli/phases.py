"""The fidelity of policy slurm on a site's own log: several phases of its clocks, and two policies to beat."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill.analysis.phases import Fidelity
    from backfill.api import Result

PHASES = 6
GOLDEN = 0.6180339887  # its multiples spread evenly over a period
OTHERS = ("conservative", "easy-priority")


def judged(result: "Result") -> "Fidelity | None":
    """Return how far a run of policy slurm is from the log of its site; None for another run, or without a site."""
    if result.policy.name != "slurm" or result.platform.slurm is None or result.replay is None:
        return None

    from dataclasses import replace

    from backfill.analysis.phases import fidelity
    from backfill.cli.run import run
    from backfill.spec import RunSpec

    workload, platform, spec = result.workload, result.platform, result.spec
    interval = result.policy.resolved(spec.params, platform)["bf_interval"]
    phases = [result]
    for i in range(1, PHASES):
        shifts = {"tick_phase": round(i * GOLDEN % 1, 3), "bf_phase": round(i * GOLDEN**2 % 1 * max(interval, 1.0), 3)}
        given = {**spec.given, **{name: value for name, value in shifts.items() if name not in spec.given}}
        phases.append(run(workload, platform, replace(spec, given=given, watched=None, explained=None)))
    others = [
        run(workload, platform, RunSpec(named=name, given={}, options=spec.options, warmup=spec.warmup,
                                        cooldown=spec.cooldown)) for name in OTHERS
    ]  # fmt: skip
    return fidelity(phases, others)
