"""Several policies over the same workload: paired differences, who loses, how far each is from the optimum."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backfill import __version__
from backfill.analysis.bounds import Bound
from backfill.analysis.groups import Fairness, Groups, LongWait
from backfill.analysis.metrics import Metrics
from backfill.analysis.paired import Pair
from backfill.api import SCHEMA, Result


@dataclass(frozen=True, eq=False, kw_only=True)
class Gap:
    """How far a policy is from a lower bound."""

    policy: str
    metric: str
    value: float | None
    bound: float | None
    how: str  # which argument gave the bound
    ratio: float | None  # value / bound, at least 1; None where the bound is 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """What came out of running several policies over the same workload, or over the same generated workloads.

    With replications, `metrics` are means over them and `pairs` are about these means; `results`, `groups`, `fairness`,
    `waits` and `gaps` are of the first replication.
    """

    names: Sequence[str]  # of the policies, as pairs and groups call them
    results: Sequence[Result]  # one per policy
    replicated: Sequence[Sequence[Metrics]]  # [policy][replication]; of a log there is one
    pairs: Sequence[Pair]  # every two policies x metric, the later policy minus the earlier one
    groups: Sequence[Groups]
    fairness: Sequence[Fairness]  # every two policies, in the order of `pairs`
    waits: Sequence[LongWait]  # the longest, policy by policy
    bounds: Sequence[Bound]
    notes: Sequence[str] = ()  # what to know before this is believed

    @property
    def gaps(self) -> list[Gap]:
        """Every policy against every bound."""
        found = []
        for name, result in zip(self.names, self.results, strict=True):
            for bound in self.bounds:
                value = result.metrics[bound.metric]
                ratio = value / bound.value if value is not None and bound.value else None
                found.append(
                    Gap(policy=name, metric=bound.metric, value=value, bound=bound.value, how=bound.how, ratio=ratio)
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `compare --json`."""
        return {
            "schema": SCHEMA,
            "backfill": __version__,
            "results": [result.to_dict() for result in self.results],
            "pairs": [asdict(pair) for pair in self.pairs],
        }
