"""The predictor of a live queue: the one of a simulation, fed from the State of a planner, whose rows it follows."""

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from backfill.compiler.record import replace_array
from backfill.core.compact import Kept
from backfill.core.predict.predictor import NEXT, teach
from backfill.core.snapshot import Snapshot, fill, values_of
from backfill.model.units import SECOND
from backfill.model.workload import Ints
from backfill.worlds.prediction import Prediction
from backfill.worlds.predictors import Known, OfOne, foresight

if TYPE_CHECKING:
    from backfill.worlds.live import Planner

PER_JOB = ("asked", "first", "corrections", "features")  # fields of its memory with a row for each job


class Foreseeing:
    """A predictor of the run times that a planner plans by.

    Its memory has a row for each job of the State, and knowledge of users and ended jobs, which survives when rows are
    reused.
    """

    def __init__(self, text: str, planner: "Planner") -> None:
        """Create the predictor from the text of `--predict`. Raises UsageError or PolicyError."""
        self._planner = planner
        self._made = foresight(Prediction.parse(text), planner.room.rows, self, lambda: planner.state)
        self._memory = self._made.memory

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The kernels that this predictor calls."""
        return self._made.kernel, teach

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a World that continues from here."""
        return self._made.fields

    # ------------------------------------------------------------------ an instant

    def begin(self) -> None:
        """Begin a new instant, at which nothing has ended yet."""
        self._memory.learned = 0

    @property
    def lacks(self) -> bool:
        """Return whether submitted jobs still lack a prediction."""
        return bool(self._memory.known < self._planner.state.jobs.count)

    def look(self) -> None:
        """Learn the new ends, correct the predictions of current runs, and predict the new jobs; each once.

        Raises PolicyError.
        """
        state, memory, run = self._planner.state, self._memory, self._made.kernel
        memory.until = int(state.now) + 1
        run(state, memory)
        memory.until = NEXT
        while self.lacks:
            run(state, memory)
        self._made.check()

    def teach(
        self, job: int, user: str, project: str, cpus: int, submit: int, walltime: int, ran: int, end: int
    ) -> None:
        """Learn from a job that had ended before this planner was created."""
        rule = self._made.rule
        if rule is not None:
            known = Known(str(job), user, project, cpus, submit / SECOND, walltime / SECOND)
            rule.learn(OfOne(known, walltime), 0, ran, end)
        elif (number := self._planner.entry.number_of(user)) >= 0:
            teach(self._memory, number, ran, submit, cpus, end)

    def revised(self, row: int, walltime: int) -> int:
        """Return the smaller of prediction and new walltime, which the policy plans with after a change."""
        memory = self._memory
        if row >= memory.known:
            return walltime
        memory.asked[row] = walltime
        return min(self._now(row), walltime)

    # ------------------------------------------------------------------ what a job has

    def user(self, row: int) -> str:
        """See predictors.Facts."""
        number = int(self._planner.state.jobs.user[row])
        return self._planner.entry.users[number] if number >= 0 else ""

    def asked(self, row: int) -> int:
        """See predictors.Facts."""
        known = row < self._memory.known
        return int(self._memory.asked[row] if known else self._planner.state.jobs.walltime[row])

    def known(self, row: int) -> Known:
        """See predictors.Facts. A hypothetical job has no number."""
        planner, jobs = self._planner, self._planner.state.jobs
        project = int(jobs.project[row])
        return Known(
            job=str(planner.ids[row]) if row < len(planner.ids) else "",
            user=self.user(row),
            project=planner.entry.projects[project] if project >= 0 else "",
            cpus=int(jobs.need[row, 0]),
            submit_s=int(jobs.submit[row]) / SECOND,
            walltime_s=self.asked(row) / SECOND,
        )

    def longer(self, rows: Ints) -> Ints:
        """Return how much longer these jobs may run than the policy has been told."""
        found = np.zeros(len(rows), np.int64)
        known = rows < self._memory.known
        some = rows[known]
        found[known] = self._memory.asked[some] - self._believed[some]
        return found

    @property
    def _believed(self) -> Ints:
        """The whole run time of each job, as the policy has been told."""
        state = self._planner.state
        believed: Ints = state.runs.whole if state.runs.preempts else state.jobs.walltime
        return believed

    def _now(self, row: int) -> int:
        return int(self._believed[row])

    # ------------------------------------------------------------------ rows, and what is put aside

    def grow(self, rows: int) -> None:
        """Ensure capacity for this many rows."""
        for name in PER_JOB:
            value = getattr(self._memory, name)
            if len(value) < rows and value.shape[1:] != (1,):  # features, which only the regression has
                longer = np.zeros((rows, *value.shape[1:]), value.dtype)
                longer[: len(value)] = value
                replace_array(self._memory, name, longer)

    def forget(self, kept: Kept) -> None:
        """Keep only the rows of these jobs."""
        for name in PER_JOB:
            value = getattr(self._memory, name)
            if value.shape[1:] != (1,):
                replace_array(self._memory, name, value[kept.jobs])
        self._memory.known = len(kept.jobs)

    def values(self) -> list[Any]:
        """Return all that it has learned."""
        rule = self._made.rule
        return [values_of(self._memory), pickle.dumps(None if rule is None else rule.memory)]

    def go_on(self, values: list[Any]) -> None:
        """Continue with what another one has learned, except for the address of this process's Python function."""
        answer = self._memory.answer
        fill(self._memory, values[0])
        self._memory.answer = answer
        self._recall(values[1])

    def _recall(self, rule_memory: bytes) -> None:
        if self._made.rule is not None:
            self._made.rule.memory = pickle.loads(rule_memory)

    def aside(self) -> "Aside":
        """Return its present state, for a later restore."""
        return Aside(self, Snapshot(self._memory), self.values()[1])


class Aside:
    """The saved state of a predictor."""

    def __init__(self, of: Foreseeing, memory: Snapshot, rule_memory: bytes) -> None:
        self._of, self._memory, self._rule_memory = of, memory, rule_memory

    def restore(self) -> None:
        """Restore the saved state."""
        self._memory.restore()
        self._of._recall(self._rule_memory)
