"""What a comparison found, as the page takes it, and what a result without one has to say of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backfill.analysis.bounds import Gap
from backfill.analysis.groups import Fairness, Groups, LongWait, groups, longest_waits
from backfill.analysis.metrics import NOTHING, Counted, Trim, in_common
from backfill.analysis.paired import Pair
from backfill.model.schedule import Schedule
from backfill.model.workload import Workload


class Findings(Protocol):
    """Statistics over several policies; `backfill.comparison.Comparison` is one."""

    @property
    def pairs(self) -> Sequence[Pair]:
        """Every two policies and metric: difference and interval."""
        ...

    @property
    def groups(self) -> Sequence[Groups]:
        """Metrics by user, group and class, under every policy."""
        ...

    @property
    def fairness(self) -> Sequence[Fairness]:
        """Every two policies: who waits longer."""
        ...

    @property
    def waits(self) -> Sequence[LongWait]:
        """The longest waits of each policy."""
        ...

    @property
    def gaps(self) -> Sequence[Gap]:
        """Every policy against every lower bound."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Grouped:
    """Findings without statistics: who waits how long under each policy."""

    groups: Sequence[Groups]
    waits: Sequence[LongWait]
    pairs: Sequence[Pair] = ()
    fairness: Sequence[Fairness] = ()
    gaps: Sequence[Gap] = ()

    @classmethod
    def of(
        cls,
        workload: Workload,
        schedules: Sequence[tuple[str, Schedule]],
        warmup: Trim = NOTHING,
        cooldown: Trim = NOTHING,
    ) -> "Grouped":
        """Of (policy, schedule) pairs over the same workload."""
        counted = in_common([Counted.of(workload, schedule, warmup, cooldown) for _, schedule in schedules])
        longest = [
            wait
            for (name, schedule), each in zip(schedules, counted, strict=True)
            for wait in longest_waits(name, workload, schedule, each)
        ]
        return cls(groups(workload, counted) if counted and len(counted[0]) else [], longest)
