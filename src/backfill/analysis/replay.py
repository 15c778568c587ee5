"""The replay of reality: a simulated schedule beside the one that the log recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.groups import RUNS, SIZES, Codes, class_of
from backfill.analysis.metrics import Trim, kept
from backfill.analysis.recorded import Explained, Recorded, explain
from backfill.model import notebook
from backfill.model.errors import wrong_type
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND, times
from backfill.model.workload import Ints, Jobs, Workload, total

WITHIN_S = (60, 600, 3600)  # maximum distance from its real start for a job to count as reproduced
MOST_NAMED = 12  # partitions with a row
FAR = 0.25  # a mean wait with a larger relative error is not reproduced


class Simulated(Protocol):
    """A simulated run: an `api.Result`, or any object with these attributes."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def workload(self) -> Workload: ...  # noqa: D102
    @property
    def platform(self) -> Platform: ...  # noqa: D102
    @property
    def schedule(self) -> Schedule: ...  # noqa: D102
    @property
    def warmup(self) -> Trim: ...  # noqa: D102
    @property
    def cooldown(self) -> Trim: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ClassError:
    """The mean waits of the jobs of one class, recorded and simulated."""

    by: str  # `size`, `run time`, `partition` or `queue`
    label: str
    jobs: int
    recorded_s: float
    simulated_s: float

    @property
    def relative(self) -> float | None:
        """The relative error of the mean wait; None if no job waited in reality."""
        return self.simulated_s / self.recorded_s - 1 if self.recorded_s else None


@dataclass(frozen=True, slots=True)
class Replay:
    """The comparison of a simulation with the waits that the log recorded.

    A wait is start - submit here; for a job with several simulated runs, the last start - submit, without the
    time of its earlier runs.
    """

    policy: str
    jobs: int  # with a recorded wait, and run in the simulation
    recorded_s: float  # mean wait
    simulated_s: float
    recorded_median_s: float
    simulated_median_s: float
    apart_s: float  # mean distance of the simulated start from the real one, job by job
    off_s: float  # mean over jobs of the distance of their class's (size and run time) mean wait from the recorded one
    correlation: float | None  # of the waits, by rank (Spearman); None if all are equal
    within: dict[int, float]  # seconds -> share of the jobs that start at most this far from their real start
    classes: tuple[ClassError, ...]
    explained: Explained

    def __repr__(self) -> str:
        return f"<Replay of {self.sentence()}>"

    def _repr_html_(self) -> str:
        rows = [
            [f"{by} {label}".strip(), f"{jobs:,}", *times([recorded, simulated]), "" if off is None else f"{off:+.0%}"]
            for by, label, jobs, recorded, simulated, off in self.rows()
        ]
        head = ["class", "jobs", "mean wait in the log", "simulated", "error"]
        return notebook.table(self.policy, head, rows) + notebook.paragraphs([self.sentence()])

    @property
    def relative(self) -> float | None:
        """The relative error of the mean wait; None if no job waited in reality."""
        return self.simulated_s / self.recorded_s - 1 if self.recorded_s else None

    def sentence(self, unit: str | None = None) -> str:
        """Return a sentence on how far the simulation is from the recorded waits. unit: of waits, see `times`."""
        near = f"{self.within[600]:.0%} of the jobs start within 10 min of their real start"
        return f"{self.policy}: {self.against(unit)}; {near}"

    def short(self, unit: str | None = None) -> str:
        """Return a line for below a table that has the simulated mean wait. unit: of waits, as in the table."""
        there = f"in reality the mean wait was {times([self.simulated_s, self.recorded_s], unit)[1]}"
        if not self.explained.holds:
            return f"{there}; this log does not fit a machine of {self.explained.cpus:,} cpus"
        return there if self.relative is None else f"{there} ({self.policy}: {100 * self.relative:+,.0f}%)"

    def against(self, unit: str | None = None) -> str:
        """Phrase the comparison: `mean wait 7.4 h against 6.9 h in reality (+7%)`."""
        change = "" if self.relative is None else f" ({100 * self.relative:+,.0f}%)"
        simulated, recorded = times([self.simulated_s, self.recorded_s], unit)
        return f"mean wait {simulated} against {recorded} in reality{change}"

    @property
    def caution(self) -> str:
        """A warning about a mean wait that is far from the recorded one; empty if it is near."""
        if self.relative is None or abs(self.relative) <= FAR:
            return ""
        if self.relative < 0:
            why = "perhaps the real jobs also waited for limits, priorities, partitions or repairs"
        else:
            why = "perhaps the real machine was larger, or started its jobs by other rules"
        return f"; {why}, so trust differences between policies more than the waits themselves"

    def rows(self) -> list[tuple[str, str, int, float, float, float | None]]:
        """Return the rows (by, class, jobs, recorded and simulated mean wait in s, relative error); all jobs first."""
        whole = ("", "all", self.jobs, self.recorded_s, self.simulated_s, self.relative)
        return [whole, *((c.by, c.label, c.jobs, c.recorded_s, c.simulated_s, c.relative) for c in self.classes)]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        names = ("policy", "jobs", "recorded_s", "simulated_s", "relative", "recorded_median_s", "simulated_median_s",
                 "apart_s", "off_s", "correlation")  # fmt: skip
        heads = ("by", "class", "jobs", "recorded_s", "simulated_s", "relative")
        return {
            **{name: getattr(self, name) for name in names},
            "within_s": {str(span): share for span, share in self.within.items()},
            "classes": [dict(zip(heads, row, strict=True)) for row in self.rows()[1:]],
            "explained": self.explained.to_dict(),
            "sentence": self.sentence(),
        }


def replay(result: Simulated, explained: Explained | None = None) -> Replay | None:
    """Compare a simulation with the recorded waits; None if the counted jobs have none.

    explained: the verdict on its log and platform, if it is known.

    >>> import backfill as bf
    >>> arrays = {"job": [1, 2], "submit": [0, 5], "runtime": [60, 90], "waited": [0, 55]}
    >>> result = bf.simulate(bf.Workload.from_arrays(arrays), bf.Platform.pool(1), "fcfs")
    >>> bf.replay(result).relative
    0.0
    """
    if not hasattr(result, "schedule"):
        raise wrong_type("result", result, "a Result, such as that of simulate(log)")
    recorded = Recorded.of(result.workload)
    explained = explained or explain(result.workload, result.platform)
    if recorded is None or explained is None:
        return None
    counts = kept(result.workload.jobs.submit, result.warmup, result.cooldown) & result.schedule.ran
    counted = np.flatnonzero(counts[recorded.rows])
    if not len(counted):
        return None
    submit, runtime = recorded.submit[counted], (recorded.end - recorded.start)[counted]
    real = recorded.start[counted] - submit
    simulated = result.schedule.start[recorded.rows[counted]] - submit
    if result.schedule.runs is not None:
        runs = result.schedule.runs_of(recorded.rows[counted])
        again = np.flatnonzero(np.diff(runs.job) == 0)  # runs before the last one
        np.subtract.at(simulated, runs.job[again], runs.length[again])
    apart = np.abs(simulated - real)
    size, run = class_of(recorded.procs[counted], SIZES).codes, class_of(runtime, RUNS).codes
    return Replay(
        policy=result.name,
        jobs=len(counted),
        recorded_s=_mean_s(real),
        simulated_s=_mean_s(simulated),
        recorded_median_s=float(np.median(real)) / SECOND,
        simulated_median_s=float(np.median(simulated)) / SECOND,
        apart_s=_mean_s(apart),
        off_s=_off_s(size * len(RUNS) + run, simulated - real),
        correlation=_correlation(real, simulated),
        within={span: float((apart <= span * SECOND).mean()) for span in WITHIN_S},
        classes=(
            *_classes("size", SIZES, size, real, simulated),
            *_classes("run time", RUNS, run, real, simulated),
            *_named_classes(result.workload.jobs, recorded.rows[counted], real, simulated),
        ),
        explained=explained,
    )


def closest(replays: Sequence[Replay]) -> Replay:
    """Return the replay whose mean waits by class are nearest to the recorded ones.

    The smallest distance job by job is no criterion: since no simulation hits single starts, it favours policies with
    short waits for all jobs.
    """
    return min(replays, key=lambda each: each.off_s)


def reality(replays: Sequence[Replay], unit: str | None = None) -> str:
    """Return the first sentence of a comparison: the policy closest to reality, or why there is none."""
    best = closest(replays)
    if not best.explained.holds:
        return best.explained.sentence()
    if len(replays) == 1:
        return best.sentence(unit) + best.caution
    waits = best.sentence(unit).removeprefix(f"{best.policy}: ")
    return f"{best.policy} comes closest to the waits of the log, class by class: {waits}{best.caution}"


def _classes(by: str, bounds: Mapping[str, int | None], place: Codes, real: Ints, simulated: Ints) -> list[ClassError]:
    """Return the waits of each class that has jobs."""
    errors = []
    for label, rows in ((label, place == each) for each, label in enumerate(bounds)):
        if count := int(np.count_nonzero(rows)):
            errors.append(ClassError(by, label, count, _mean_s(real[rows]), _mean_s(simulated[rows])))
    return errors


def _named_classes(jobs: Jobs, rows: Ints, real: Ints, simulated: Ints) -> list[ClassError]:
    """Return the errors of the partitions with the most jobs; of queues, if the log has fewer than two partitions."""
    for by in ("partition", "queue"):
        labels = jobs[by]
        codes = labels.codes[rows]
        used, count = np.unique(codes[codes >= 0], return_counts=True)
        if len(used) > 1:
            most = sorted(used[np.argsort(-count, kind="stable")][:MOST_NAMED].tolist())
            place = np.searchsorted(most, codes) % len(most)
            place = np.where(np.array(most)[place] == codes, place, -1)
            return _classes(by, dict.fromkeys(labels.names[code] for code in most), place, real, simulated)
    return []


def _off_s(place: Codes, error: Ints) -> float:
    """Return the distance of the mean waits by class, weighted by jobs."""
    sums = np.bincount(place, weights=error.astype(np.float64))
    return float(np.abs(sums).sum()) / (len(error) * SECOND)


def _mean_s(values: Ints) -> float:
    return total(values) / (len(values) * SECOND)


def _correlation(a: Ints, b: Ints) -> float | None:
    """Return Spearman's correlation: Pearson's of the ranks, ties sharing the mean of theirs."""
    x, y = _ranks(a), _ranks(b)
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else None


def _ranks(values: Ints) -> NDArray[np.float64]:
    """Return the ranks, centred on their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place] - (len(values) + 1) / 2
