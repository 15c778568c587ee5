"""How far a model of a site's scheduler is from its log, beside its own spread and beside other policies.

Clocks whose phase is in no log decide which of a scheduler's loops sees an end first, so a single run proves little:
the model runs with several phases, and an error within their spread is as good as it can be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from backfill.analysis.recorded import Recorded
from backfill.analysis.replay import Simulated
from backfill.model.schedule import REASONS
from backfill.model.units import SECOND, counted, times
from backfill.model.workload import Floats, Ints, Workload

QUANTILES = (0.5, 0.9, 0.99)
MOST_NAMED = 12  # partitions


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
    partitions: tuple["PartitionError", ...] = ()  # those with most jobs, if there are several
    loops: "Loops | None" = None  # if the log says which loop started its jobs

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
        for each in self.partitions:
            real, mine, half = times([each.recorded_s, each.model_s, each.error_s])
            said.append(
                f"partition {each.name}: {counted(each.jobs, 'job')}, mean wait {real} in the log, {mine} in the "
                f"model; half of the jobs start within {half} of their real start"
            )
        return said if self.loops is None else [*said, self.loops.sentence]

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
            "by_partition": [asdict(each) for each in self.partitions],
            **({} if self.loops is None else {"loops": asdict(self.loops) | {"sentence": self.loops.sentence}}),
        }


@dataclass(frozen=True, slots=True)
class PartitionError:
    """The waits of the jobs of one partition. Times in seconds."""

    name: str
    jobs: int
    recorded_s: float  # mean wait
    model_s: float  # mean wait, mean over the phases
    error_s: float  # median distance from the real start, over jobs and phases


@dataclass(frozen=True, slots=True)
class Loops:
    """Which loop started the jobs, in the log (Flags of sacct) and in the model."""

    jobs: int  # of which the log says it
    logged_backfill: int
    model_backfill: float  # mean over the phases
    alike: float  # share of the jobs that the same loop starts, mean over the phases

    @property
    def sentence(self) -> str:
        """The shares in one sentence."""
        return (
            f"the backfill loop starts {self.logged_backfill / self.jobs:.0%} of {counted(self.jobs, 'job')} in the "
            f"log, {self.model_backfill / self.jobs:.0%} in the model; the same loop starts {self.alike:.0%} of them"
        )


def fidelity(
    phases: Sequence[Simulated], others: Sequence[Simulated] = (), loops: Mapping[str, str] | None = None
) -> Fidelity | None:
    """Compare runs of one model that differ in the phases of its clocks, two or more, with the recorded starts.

    None if the log has none. others: runs of other policies over the same log. loops: by job, `main`, `backfill` or
    `submit`, or empty if the log does not say which loop started it.
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
        partitions=_by_partition(phases[0].workload, rows, wait, waits, errors),
        loops=_loops(phases, rows, loops or {}),
    )


def _by_partition(
    workload: Workload, rows: Ints, recorded: Floats, waits: Floats, errors: Floats
) -> tuple[PartitionError, ...]:
    """Return the errors of the partitions with most jobs. waits, errors: [phase][job]."""
    labels = workload.jobs.partition
    codes = labels.codes[rows]
    count = np.bincount(codes[codes >= 0], minlength=len(labels.names))
    some = [code for code in np.argsort(-count, kind="stable")[:MOST_NAMED].tolist() if count[code]]
    return tuple(
        PartitionError(
            labels.names[code],
            int(count[code]),
            float(recorded[codes == code].mean()),
            float(waits[:, codes == code].mean()),
            float(np.median(errors[:, codes == code])),
        )
        for code in (some if len(some) > 1 else ())
    )


def _loops(phases: Sequence[Simulated], rows: Ints, loops: Mapping[str, str]) -> Loops | None:
    known = [(row, loops[job]) for row, job in zip(rows.tolist(), _ids(phases[0], rows), strict=True) if loops.get(job)]
    if not known:
        return None
    places = np.array([row for row, _ in known])
    logged = np.array([loop == "backfill" for _, loop in known])
    model = np.array([each.schedule.reason[places] == REASONS.index("backfill") for each in phases])
    return Loops(len(known), int(logged.sum()), float(model.sum(axis=1).mean()), float((model == logged).mean()))


def _ids(run: Simulated, rows: Ints) -> list[str]:
    return [str(job) for job in run.workload.jobs.job[rows].tolist()]


def _listed(spans: Sequence[float]) -> str:
    return ", ".join(times(list(spans)))
