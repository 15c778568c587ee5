"""What a paper is asked to do: every module of PAPERS has `reproduce(asked)`, which reads of it what it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from backfill.executors import Executor, Found, Progress, Task, carry_out
from backfill.papers.logs import Log


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Asked:
    """How often, from which seed, with what, and where."""

    replications: int  # of each generated workload
    seed: int = 0  # of the first one
    sensitivity: bool = False  # also sweep the parameters, and run the second readings
    quick: bool = False  # a first look, on which no claim rests
    logs: Mapping[str, Log] = field(default_factory=dict)  # those of the module's LOGS that are there
    executor: Executor | None = None  # of the tasks; None: this process
    progress: Callable[[int, int], None] | None = None  # is told how many of how many tasks are done

    @property
    def seeds(self) -> range:
        """One per replication."""
        return range(self.seed, self.seed + self.replications)

    def carry_out(self, run: Callable[[Task], Found], tasks: Sequence[Task]) -> list[Found]:
        """What `run` returns for each task, in their order."""
        told = self.progress
        tell: Progress | None = None if told is None else lambda done: told(done, len(tasks))
        return carry_out(run, tasks, self.executor, tell)
