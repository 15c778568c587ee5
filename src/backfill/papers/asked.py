"""The request to reproduce a paper, and the tasks that it makes of it.

Every module of PAPERS has `reproduce(asked)`, which reads of it what it needs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backfill.executors import Progress, Where, carry_out
from backfill.papers.claims import UNDECIDED, Claim
from backfill.papers.logs import Log


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Asked:
    """How often, from which seed, with what, and where."""

    replications: int  # of each generated workload
    seed: int = 0  # of the first one
    sensitivity: bool = False  # also sweep the parameters, and run the second readings
    quick: bool = False  # a first look, which judges no claim
    logs: Mapping[str, Log] = field(default_factory=dict)  # those of the module's LOGS that are there
    executor: Where = None  # of the tasks; None: this process
    progress: Callable[[float, int], None] | None = None  # is told how many of how many tasks are done

    @property
    def seeds(self) -> range:
        """One per replication."""
        return range(self.seed, self.seed + self.replications)

    def caveat(self, usual: int) -> list[str]:
        """What a reader must know where there are fewer replications than usual."""
        if self.replications >= usual:
            return []
        fewer = f"{self.replications} replications instead of {usual}"
        if self.quick:
            return [f"Quick look: {fewer}; no claim is judged."]
        return [f"{fewer}: intervals are wider, so more claims stay undecided."]

    def judged(self, claims: Iterable[Claim]) -> list[Claim]:
        """The claims as they are; a quick look judges none."""
        if not self.quick:
            return [*claims]
        return [replace(claim, verdict=UNDECIDED).noted("quick look") for claim in claims]


class Plan:
    """The tasks of all experiments in one list, so that they share one executor and one bar."""

    def __init__(self, asked: Asked, run: Callable[[Any], Any]) -> None:
        self.asked, self.run = asked, run  # a function of a module, which carries out one task
        self.tasks: list[Any] = []

    def add(self, sweep: Mapping[Any, Iterable[Any]]) -> dict[Any, range]:
        """A sweep: x -> its tasks. Returns where they are."""
        places = {}
        for x, tasks in sweep.items():
            first = len(self.tasks)
            self.tasks += tasks
            places[x] = range(first, len(self.tasks))
        return places

    def carry_out(self) -> Callable[[Mapping[Any, range]], dict[Any, list[Any]]]:
        """Run all tasks. Returns what gives the results of a sweep: x -> what its tasks returned."""
        progress = self.asked.progress
        tell: Progress | None = None if progress is None else lambda done: progress(done, len(self.tasks))
        results = carry_out(self.run, self.tasks, self.asked.executor, tell)
        return lambda places: {x: [results[i] for i in which] for x, which in places.items()}
