"""The findings of a comparison, in the form that the page uses; empty for results without one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from backfill.analysis.bounds import BoundGap
from backfill.analysis.distance import Distance
from backfill.analysis.groups import Fairness, Groups, LongWait, groups, longest_waits
from backfill.analysis.metrics import NOTHING, Counted, Trim, in_common
from backfill.analysis.paired import Pair
from backfill.model.schedule import Schedule
from backfill.model.workload import Workload

_KINDS: dict[str, Any] = {
    "groups": Groups,
    "longest_waits": LongWait,
    "pairs": Pair,
    "fairness": Fairness,
    "gaps": BoundGap,
    "optimum": Distance,
}


@dataclass(frozen=True, eq=False, slots=True)
class Findings:
    """The waits under each policy; for a comparison with statistics, in the order of its policies."""

    groups: Sequence[Groups]  # metrics by user, group and class, under every policy
    waits: Sequence[LongWait]  # the longest of each policy
    pairs: Sequence[Pair] = ()  # every two policies and metric: difference and interval
    fairness: Sequence[Fairness] = ()  # every two policies: the jobs and users that wait longer
    gaps: Sequence[BoundGap] = ()  # every policy against every lower bound
    distances: Sequence[Distance] = ()  # every policy against the best possible, on sampled windows

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> "Findings | None":
        """Return the findings in the JSON of a result; None if there was no comparison."""
        if "pairs" not in result:
            return None
        each: dict[str, list[Any]] = {
            name: [kind(**{column.name: one[column.name] for column in fields(kind)}) for one in result.get(name, [])]
            for name, kind in _KINDS.items()
        }
        return cls(*each.values())

    @classmethod
    def of(
        cls,
        workload: Workload,
        schedules: Sequence[tuple[str, Schedule]],
        warmup: Trim = NOTHING,
        cooldown: Trim = NOTHING,
    ) -> "Findings":
        """Return the findings from (policy, schedule) pairs over the same workload."""
        counted = in_common([Counted.of(workload, schedule, warmup, cooldown) for _, schedule in schedules])
        longest = [
            wait
            for (name, schedule), each in zip(schedules, counted, strict=True)
            for wait in longest_waits(name, workload, schedule, each)
        ]
        return cls(groups(workload, counted) if counted and len(counted[0]) else [], longest)
