"""A measurement: repeats of the same work in one process, beside a yardstick that takes turns with it."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from baseline import population

from backfill.core.policy import Policy
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.worlds.simulated import Simulation, simulate

# policy, what grows, and (size, seconds for a job, most jobs that waited) of each point
Curve = tuple[str, str, tuple[tuple[int, float, int], ...]]
WARM_UP = 200  # jobs that are simulated first, so that compiling and loading are not measured


@dataclass(frozen=True)
class Target:
    """A bound on the best of the repeats, or on the median ratio to the yardstick."""

    bound: float
    most: bool = False  # the bound is an upper one

    def met(self, value: float) -> bool:
        return value <= self.bound if self.most else value >= self.bound


@dataclass(frozen=True)
class Result:
    """One row of the table. `values` are repeats, in `unit`; `yardstick` are those of what it is held against."""

    name: str
    unit: str
    values: Sequence[float]
    target: Target | None = None
    less: bool = False  # less is better
    against: str = ""
    yardstick: Sequence[float] = ()
    ratio_target: Target | None = None
    facts: dict[str, float] = field(default_factory=dict)
    note: str = ""
    curve: Curve | None = None

    @property
    def best(self) -> float:
        return min(self.values) if self.less else max(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Best against best."""
        return self.best / max(self.yardstick) if self.yardstick else None

    @property
    def median_ratio(self) -> float | None:
        """The median over pairs that ran one after the other, so that both met the same noise."""
        pairs = zip(self.values, self.yardstick, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs) if self.yardstick else None

    @property
    def met(self) -> bool | None:
        """Whether the targets are met; None where there is none."""
        checks = []
        if self.target:
            checks.append(self.target.met(self.best))
        if self.ratio_target and self.median_ratio is not None:
            checks.append(self.ratio_target.met(self.median_ratio))
        return all(checks) if checks else None


def warm(workload: Workload, platform: Platform, policy: Policy) -> None:
    """Compile, or load what was compiled."""
    simulate(workload.head(WARM_UP), platform, policy)


def speeds(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    repeats: int,
    between: Callable[[], None] = lambda: None,
    params: Mapping[str, float | str] | None = None,
) -> tuple[list[float], Simulation]:
    """Jobs per second of the loop alone in each repeat, and the last simulation. `between` runs after each repeat."""
    warm(workload, platform, policy)
    found = []
    for _ in range(repeats):
        done = simulate(workload, platform, policy, params)
        found.append(len(workload) / done.elapsed_s)
        between()
    return found, done


def work(done: Simulation) -> dict[str, float]:
    """The counters that explain the cost: looks per job, and the most jobs that waited and ran at once."""
    schedule = done.schedule
    return {
        "looks_per_job": done.looks / len(schedule),
        "most_waiting": population(schedule.eligible, schedule.start)[1],
        "most_running": population(schedule.start, schedule.end)[1],
    }


def exponent(what: str, took: Sequence[tuple[int, float]]) -> Result:
    """Of the seconds for each job or project, over the ends of a curve of (size, seconds)."""
    (first, least), (last, most) = took[0], took[-1]
    found = np.log(most / least) / np.log(last / first)
    return Result(f"exponent with {what}", "", [float(found)], less=True, note=f"{first:,} to {last:,}")
