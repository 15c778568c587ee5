"""A sweep over generated workloads: its tasks, their results, and their means, differences and ratios."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill.analysis.interval import Estimate
from backfill.api import Result
from backfill.model.errors import BackfillError
from backfill.spec import RunSpec

Numbers = dict[str, float]  # metric -> value


@dataclass(frozen=True, slots=True)
class Cell:
    """A generated workload under several policies. It can be sent to any process."""

    arguments: Mapping[str, Any]  # of the model
    specs: Mapping[str, RunSpec]  # by policy

    @classmethod
    def of(cls, policies: Iterable[str], **arguments: Any) -> "Cell":
        """Build the task with policies given as texts."""
        return cls(arguments, {text: RunSpec.of(text) for text in policies})


def kept(result: Result, metrics: Mapping[str, str]) -> Numbers:
    """Return metrics of a run under other names. Raises BackfillError if one has no value, which claims need."""
    numbers: Numbers = {}
    for name, metric in metrics.items():
        if (value := result.metrics[metric]) is None:
            raise BackfillError(f"{result.name} with seed {result.seed}: {metric} has no value")
        numbers[name] = float(value)
    return numbers


def ratio(p: Sequence[float], q: Sequence[float]) -> Estimate:
    """Return the ratio of the means of paired values, with the interval of the delta method."""
    mean = sum(p) / sum(q)
    spread = Estimate.of([(one - mean * other) * len(q) / sum(q) for one, other in zip(p, q, strict=True)])
    return Estimate(mean, mean + spread.low, mean + spread.high, spread.count)


@dataclass(frozen=True, eq=False, slots=True)
class Sweep:
    """The results of one sweep: for every x, one result per replication."""

    found: Mapping[Any, Sequence[Mapping[str, Numbers]]]

    def values(self, x: Any, policy: str, metric: str) -> list[float]:
        """Return the values, one per replication."""
        return [each[policy][metric] for each in self.found[x]]

    def mean(self, x: Any, policy: str, metric: str) -> Estimate:
        """Return the mean over the replications."""
        return Estimate.of(self.values(x, policy, metric))

    def changes(self, x: Any, a: str, b: str, metric: str) -> list[float]:
        """Return the differences of policies a and b, one per replication."""
        return [p - q for p, q in zip(self.values(x, a, metric), self.values(x, b, metric), strict=True)]

    def change(self, x: Any, a: str, b: str, metric: str) -> Estimate:
        """Return the mean of the differences."""
        return Estimate.of(self.changes(x, a, b, metric))

    def ratio(self, x: Any, a: str, b: str, metric: str) -> Estimate:
        """Return the ratio of the means of a and b."""
        return ratio(self.values(x, a, metric), self.values(x, b, metric))
