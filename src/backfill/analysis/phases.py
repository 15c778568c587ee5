"""How far a model of a site's scheduler is from its log, beside its own spread and beside other policies.

Clocks whose phase is in no log decide which of a scheduler's loops sees an end first, so a single run proves little:
the model runs with several phases, and an error within their spread is as good as it can be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from backfill.analysis.recorded import Recorded
from backfill.analysis.replay import Simulated
from backfill.model.units import SECOND, counted, times
from backfill.model.workload import Floats

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The waits of a log beside those of a model with several phases of its clocks. Times in seconds."""

    policy: str
    jobs: int  # with a recorded wait, which ran in all simulations
    recorded_mean: float
    recorded_median: float
    means: tuple[float, ...]  # of each phase, the plain run first
    medians: tuple[float, ...]
    errors: tuple[float, ...]  # quantiles of the distance from the real start, over jobs and phases
    spread: tuple[float, ...]  # the same between two phases of the model
    apart: float  # mean distance of starts from the real ones, over jobs and phases
    others: dict[str, float]  # the same for other policies

    @property
    def sentences(self) -> list[str]:
        """The comparison in sentences."""
        log, model, low, high = times([self.recorded_mean, self.means[0], min(self.means), max(self.means)])
        phases = counted(len(self.means), "phase")
        said = [
            f"fidelity of {self.policy} on {counted(self.jobs, 'job')}: mean wait {log} in the log, {model} in the "
            f"model ({low} to {high} over {phases} of its clocks)",
            f"distance from the real start for 50, 90 and 99% of the jobs: {_listed(self.errors)}; "
            f"between two phases of the model: {_listed(self.spread)}",
        ]
        for name, apart in self.others.items():
            mine, theirs = times([self.apart, apart])
            closer = "closer to the log than" if self.apart < apart else "not closer to the log than"
            said.append(f"{self.policy} is {closer} {name}: mean distance of starts {mine} against {theirs}")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as in the JSON output."""
        return {
            "jobs": self.jobs,
            "recorded_mean_s": self.recorded_mean,
            "recorded_median_s": self.recorded_median,
            "mean_s": list(self.means),
            "median_s": list(self.medians),
            "start_error_s": dict(zip(("p50", "p90", "p99"), self.errors, strict=True)),
            "own_spread_s": dict(zip(("p50", "p90", "p99"), self.spread, strict=True)),
            "mean_start_error_s": self.apart,
            "others_mean_start_error_s": self.others,
        }


def fidelity(phases: Sequence[Simulated], others: Sequence[Simulated] = ()) -> Fidelity | None:
    """Compare runs of one model that differ in the phases of its clocks, two or more, with the recorded starts.

    None if the log has none. others: runs of other policies over the same log.
    """
    recorded = Recorded.of(phases[0].workload)
    if recorded is None:
        return None
    ran = np.all([each.schedule.ran[recorded.rows] for each in (*phases, *others)], axis=0)
    if not ran.any():
        return None
    rows, real, submit = recorded.rows[ran], recorded.start[ran], recorded.submit[ran]

    def starts(results: Sequence[Simulated]) -> Floats:
        """The starts of these runs, in seconds, shape (runs, jobs)."""
        found: Floats = np.array([each.schedule.start[rows] for each in results], np.float64) / SECOND
        return found

    mine, wait = starts(phases), (real - submit) / SECOND
    waits, errors = mine - submit / SECOND, np.abs(mine - real / SECOND)
    pairs = np.array([np.abs(mine[i] - mine[j]) for i, j in combinations(range(len(mine)), 2)])
    return Fidelity(
        policy=phases[0].name,
        jobs=len(rows),
        recorded_mean=float(wait.mean()),
        recorded_median=float(np.median(wait)),
        means=tuple(waits.mean(axis=1).tolist()),
        medians=tuple(np.median(waits, axis=1).tolist()),
        errors=tuple(np.quantile(errors, QUANTILES).tolist()),
        spread=tuple(np.quantile(pairs, QUANTILES).tolist()),
        apart=float(errors.mean()),
        others={
            each.name: float(np.abs(start - real / SECOND).mean())
            for each, start in zip(others, starts(others), strict=True)
        },
    )


def _listed(spans: Sequence[float]) -> str:
    return ", ".join(times(list(spans)))
