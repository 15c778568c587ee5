"""What a World needs to predict run times: the kernel that does it, and its memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backfill.compiler.far import address_of, address_outside
from backfill.core.predict.average2 import average2
from backfill.core.predict.outside import outside
from backfill.core.predict.predictor import new_predictor
from backfill.core.predict.regression import FEATURES, TERMS, regression
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Jobs
from backfill.worlds.prediction import CORRECTIONS, Prediction
from backfill.worlds.runtimes import LEARNED, RunTimes


@dataclass(eq=False)
class Foresight:
    """The predictor of a run. What Python does in it lives as long as this."""

    kernel: Any
    memory: Any
    kept: Any = None
    failed: list[Exception] = field(default_factory=list)  # by what a user wrote

    @property
    def predicted(self) -> Ints:
        """The run time predicted of each job at its submit."""
        first: Ints = self.memory.first.copy()
        return first

    def watched(self, progress: Callable[[int], None] | None) -> Callable[[int], None]:
        """The progress of a run, which ends where a user's predictor failed."""

        def tell(done: int) -> None:
            if self.failed:
                raise self.failed[0]
            if progress is not None:
                progress(done)

        return tell

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a World whose run times are predicted."""
        return {"foresee": address_of(self.kernel), "predictor": self.memory}


def foresight(prediction: Prediction, jobs: Jobs, state: Any) -> Foresight:
    """The predictor for these jobs, in the order of the core. state: it tells what has ended."""
    n, correct = len(jobs), CORRECTIONS.index(prediction.correct)
    if prediction.rule == "average2":
        return Foresight(average2, new_predictor(n, correct))
    if prediction.rule == "regression":
        return Foresight(regression, new_predictor(n, correct, FEATURES, TERMS))
    made = Foresight(outside, None)
    rule = _History(jobs) if prediction.rule == "history" else _Own(prediction.load(), jobs)
    address, made.kept = address_outside(_answer(rule, state, prediction, made.failed))
    made.memory = new_predictor(n, correct, answer=address)
    return made


def _answer(rule: Any, state: Any, prediction: Prediction, failed: list[Exception]) -> Callable[[int], int]:
    """The function that the kernel `outside` calls. After an error it predicts walltimes, until the run is stopped."""

    def answer(number: int) -> int:
        try:
            if number < 0:
                run = -1 - number
                job = int(state.runs.job[run])
                rule.learn(job, int(state.runs.end[run] - state.runs.start[run]), int(state.now))
                return 0
            return int(rule.predict(number, int(state.jobs.walltime[number])))
        except Exception as error:
            failed.append(prediction.mistake(error))
            return int(state.jobs.walltime[max(number, 0)])

    return answer


class _History:
    """The middle of the shares of their walltimes that jobs like it used, times the walltime."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._times = jobs, RunTimes(most=LEARNED)

    def learn(self, job: int, ran: int, now: int) -> None:
        self._times.learn(self._jobs.user[job], "", ran, max(int(self._jobs.walltime[job]), 1))

    def predict(self, job: int, walltime: int) -> int:
        return self._times.predict(self._jobs.user[job], "", walltime)


@dataclass(frozen=True)
class Known:
    """What a predictor of one's own may know of a job; times in seconds. run_s: None while the job has not ended."""

    job: str
    user: str
    project: str
    cpus: int
    submit_s: float
    walltime_s: float
    run_s: float | None = None
    end_s: float | None = None


class _Own:
    """A user's function: of the job, and of the jobs of its user that have ended, the latest last."""

    def __init__(self, function: Callable[[Known, list[Known]], float], jobs: Jobs) -> None:
        self._function, self._jobs = function, jobs
        self._ended: dict[str, list[Known]] = {}

    def learn(self, job: int, ran: int, now: int) -> None:
        self._ended.setdefault(self._jobs.user[job], []).append(self._known(job, ran / SECOND, now / SECOND))

    def predict(self, job: int, walltime: int) -> int:
        seconds = self._function(self._known(job), self._ended.get(self._jobs.user[job], []))
        return round(min(max(float(seconds), 0.0), walltime / SECOND) * SECOND)

    def _known(self, job: int, run_s: float | None = None, end_s: float | None = None) -> Known:
        jobs = self._jobs
        return Known(
            job=str(jobs.job[job]),
            user=jobs.user[job],
            project=jobs.project[job],
            cpus=int(jobs.procs[job]),
            submit_s=int(jobs.submit[job]) / SECOND,
            walltime_s=int(jobs.walltime[job]) / SECOND,
            run_s=run_s,
            end_s=end_s,
        )
