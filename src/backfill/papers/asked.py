"""The request to reproduce a paper, and the tasks that result from it.

Every module of PAPERS has `reproduce(asked)`, which uses the fields that it needs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backfill.executors import Progress, Where, carry_out
from backfill.papers.claims import UNDECIDED, Claim
from backfill.papers.logs import Log


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Asked:
    """A request to reproduce a paper: replications, seed, options, logs and executor."""

    replications: int  # of each generated workload
    seed: int = 0  # of the first replication
    sensitivity: bool = False  # also sweep the parameters, and run the alternative readings
    quick: bool = False  # a preview, which judges no claim
    logs: Mapping[str, Log] = field(default_factory=dict)  # the available ones of the module's LOGS
    executor: Where = None  # of the tasks; None: this process
    progress: Callable[[float, int], None] | None = None  # called with the number of tasks done, and of all

    @property
    def seeds(self) -> range:
        """The seeds, one per replication."""
        return range(self.seed, self.seed + self.replications)

    def caveat(self, usual: int) -> list[str]:
        """Return a warning for the reader if there are fewer replications than usual."""
        if self.replications >= usual:
            return []
        fewer = f"{self.replications} replications instead of {usual}"
        if self.quick:
            return [f"Quick look: {fewer}; no claim is judged."]
        return [f"{fewer}: intervals are wider, so more claims stay undecided."]

    def judged(self, claims: Iterable[Claim]) -> list[Claim]:
        """Return the claims unchanged; a quick look judges none."""
        if not self.quick:
            return [*claims]
        return [replace(claim, verdict=UNDECIDED).noted("quick look") for claim in claims]


class Plan:
    """The tasks of all experiments in one list, which share one executor and one progress bar."""

    def __init__(self, asked: Asked, run: Callable[[Any], Any]) -> None:
        self.asked, self.run = asked, run  # a function of a module that executes one task
        self.tasks: list[Any] = []

    def add(self, sweep: Mapping[Any, Iterable[Any]]) -> dict[Any, range]:
        """Add a sweep: x -> its tasks. Returns their indices."""
        places = {}
        for x, tasks in sweep.items():
            first = len(self.tasks)
            self.tasks += tasks
            places[x] = range(first, len(self.tasks))
        return places

    def carry_out(self) -> Callable[[Mapping[Any, range]], dict[Any, list[Any]]]:
        """Run all tasks. Returns a function from the indices of a sweep to x -> the results of its tasks."""
        progress = self.asked.progress
        tell: Progress | None = None if progress is None else lambda done: progress(done, len(self.tasks))
        results = carry_out(self.run, self.tasks, self.asked.executor, tell)
        return lambda places: {x: [results[i] for i in which] for x, which in places.items()}
