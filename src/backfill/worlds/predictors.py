"""Predictors of run times for a World or a live queue: a kernel and its memory."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Protocol

from backfill.compiler.far import address_of, address_outside
from backfill.core.predict.average2 import average2
from backfill.core.predict.outside import outside
from backfill.core.predict.predictor import new_predictor
from backfill.core.predict.regression import FEATURES, TERMS, regression
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Jobs
from backfill.queue.protocol import LEARNED
from backfill.worlds.prediction import CORRECTIONS, Prediction, PredictorError
from backfill.worlds.runtimes import RunTimes


@dataclass(frozen=True)
class Known:
    """The facts of a job for a user's predictor; times in seconds. run_s: None while the job has not ended."""

    job: str
    user: str
    project: str
    cpus: int
    submit_s: float
    walltime_s: float
    run_s: float | None = None
    end_s: float | None = None


class Facts(Protocol):
    """Source of facts about the job of a row: a log, or a live queue."""

    def user(self, row: int) -> str:
        """Return its user."""

    def asked(self, row: int) -> int:
        """Return its walltime."""

    def known(self, row: int) -> Known:
        """Return the facts for a user's predictor, while the job has not ended."""


@dataclass(eq=False)
class Foresight:
    """A predictor. Its Python function lives as long as this object."""

    kernel: Any
    memory: Any
    rule: "_History | _Own | None" = None  # in Python
    kept: Any = None
    failed: list[Exception] = field(default_factory=list)  # errors of a user's function

    @property
    def predicted(self) -> Ints:
        """The predicted run time of each job at its submit."""
        first: Ints = self.memory.first.copy()
        return first

    def check(self) -> None:
        """Raise the error of a user's predictor, if it failed."""
        if self.failed:
            raise self.failed[0]

    def watched(self, progress: Callable[[int], None] | None) -> Callable[[int], None]:
        """Return a progress function that also stops the run if a user's predictor has failed."""

        def tell(done: int) -> None:
            self.check()
            if progress is not None:
                progress(done)

        return tell

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a World whose run times are predicted."""
        return {"foresee": address_of(self.kernel), "predictor": self.memory}


def foresight(prediction: Prediction, jobs: int, facts: Facts, state: Callable[[], Any]) -> Foresight:
    """Return the predictor, with capacity for this many jobs.

    state: returns the present State, which knows the ends.
    """
    correct = CORRECTIONS.index(prediction.correct)
    if prediction.rule == "average2":
        return Foresight(average2, new_predictor(jobs, correct))
    if prediction.rule == "regression":
        return Foresight(regression, new_predictor(jobs, correct, FEATURES, TERMS))
    made = Foresight(outside, None, _History() if prediction.rule == "history" else _Own(prediction.load()))
    address, made.kept = address_outside(_answer(made, facts, state, prediction))
    made.memory = new_predictor(jobs, correct, answer=address)
    return made


def _answer(made: Foresight, facts: Facts, state: Callable[[], Any], prediction: Prediction) -> Callable[[int], int]:
    """Return the function that the kernel `outside` calls.

    After an error it predicts walltimes, until `check` raises it.
    """
    rule: Any = made.rule

    def answer(number: int) -> int:
        try:
            if number >= 0:
                return int(rule.predict(facts, number, int(state().jobs.walltime[number])))
            runs, run = state().runs, -1 - number
            rule.learn(facts, int(runs.job[run]), int(runs.end[run] - runs.start[run]), int(runs.end[run]))
            return 0
        except Exception as error:
            made.failed.append(prediction.mistake(error))
            return int(state().jobs.walltime[max(number, 0)])

    return answer


class OfLog:
    """Facts about the jobs of a log, in the order of the core."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def user(self, row: int) -> str:
        """Return its user."""
        return self._jobs.user[row]

    def asked(self, row: int) -> int:
        """Return its walltime."""
        return int(self._jobs.walltime[row])

    def known(self, row: int) -> Known:
        """Return the facts for a user's predictor, while the job has not ended."""
        jobs = self._jobs
        return Known(
            job=str(jobs.job[row]),
            user=jobs.user[row],
            project=jobs.project[row],
            cpus=int(jobs.procs[row]),
            submit_s=int(jobs.submit[row]) / SECOND,
            walltime_s=int(jobs.walltime[row]) / SECOND,
        )


@dataclass(frozen=True)
class OfOne:
    """Facts about one job, whatever the row."""

    job: Known
    walltime: int

    def user(self, row: int) -> str:
        """Return its user."""
        return self.job.user

    def asked(self, row: int) -> int:
        """Return its walltime."""
        return self.walltime

    def known(self, row: int) -> Known:
        """Return the facts for a user's predictor, while the job has not ended."""
        return self.job


class _History:
    """A predictor: the walltime times the median share of their walltimes that similar jobs used."""

    def __init__(self) -> None:
        self.memory = RunTimes(most=LEARNED)

    def learn(self, facts: Facts, row: int, ran: int, end: int) -> None:
        self.memory.learn(facts.user(row), "", ran, max(facts.asked(row), 1))

    def predict(self, facts: Facts, row: int, walltime: int) -> int:
        return self.memory.predict(facts.user(row), "", walltime)


class _Own:
    """A user's function of the job, and of the ended jobs of its user, the latest last."""

    def __init__(self, function: Callable[[Known, list[Known]], float]) -> None:
        self._function = function
        self.memory: dict[str, list[Known]] = {}

    def learn(self, facts: Facts, row: int, ran: int, end: int) -> None:
        ended = self.memory.setdefault(facts.user(row), [])
        ended.append(replace(facts.known(row), run_s=ran / SECOND, end_s=end / SECOND))
        del ended[:-LEARNED]

    def predict(self, facts: Facts, row: int, walltime: int) -> int:
        job = facts.known(row)
        seconds = self._function(job, self.memory.get(job.user, []))
        if isinstance(seconds, bool) or not isinstance(seconds, Real) or math.isnan(seconds):
            raise PredictorError(f"it predicts {seconds!r} for job {job.job}; expected seconds")
        return round(min(max(float(seconds), 0.0), walltime / SECOND) * SECOND)
