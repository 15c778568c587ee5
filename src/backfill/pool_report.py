"""Report how far a model of a watched pool can be trusted, and what the pool would have done under other policies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backfill.analysis.fidelity import Fit, Model, Observed, Tell, Waits, fit
from backfill.api import run_spec
from backfill.comparison import Comparison, compare_specs
from backfill.model.errors import InputError
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import counted, seconds_text
from backfill.model.workload import Ints, Workload
from backfill.spec import RunSpec

if TYPE_CHECKING:
    from backfill.report.outcome import Outcome

# Common schedulers of pools: in order of submit with and without backfilling, and with a few reservations.
MODELS = (
    "fcfs", "easy", "k-reservations:k=4", "k-reservations:k=10", "k-reservations:k=30", "conservative", "first-fit",
)  # fmt: skip
BY_PRIORITY = ("easy-priority",)  # if the jobs have priorities
WHAT_IF = ("easy", "easy-sjbf", "conservative")
CAUTION = "the model does not behave like this pool, so the differences between policies may not hold on the pool"


@dataclass(frozen=True, eq=False, kw_only=True)
class PoolReport:
    """The accuracy of a model of the pool, and the comparison of policies that is based on it."""

    fit: Fit
    comparison: Comparison  # of the model and the other policies, on the observed workload with its dead time
    notes: Sequence[str]

    @property
    def baseline(self) -> str:
        """The policy of the model."""
        return self.comparison.names[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of `pool report --json`: that of `compare --json`, and `fidelity`."""
        found = self.comparison.to_dict()
        return {**found, "fidelity": self.fit.to_dict(), "notes": [*found["notes"], *self.notes]}

    def outcome(self, command: str = "") -> "Outcome":
        """Return the data of its page."""
        shown = self.comparison.outcome(command, *self.notes)
        return replace(shown, data={**shown.data, "fidelity": self.fit.to_dict()})

    def report(self, path: str | Path, command: str = "") -> None:
        """Write it as one HTML page. command: the command line that reproduces it."""
        from backfill.report.write import write_report

        write_report(path, self.outcome(command))


@dataclass(frozen=True, eq=False)
class Watched:
    """The observed workload, ready to be simulated, and the jobs whose starts were seen."""

    workload: Workload
    platform: Platform
    events: Events | None
    observed: Observed
    running: int  # jobs that ran when the pool was first seen; they are simulated from then on, and not compared

    @classmethod
    def of(cls, workload: Workload, platform: Platform, started: Ints, events: Events | None = None) -> "Watched":
        """Return the workload, given when each job really started, NO_TIME if it did not.

        Raises InputError if none did. A job that already ran when it was seen first is submitted just before the others
        of that instant, with the rest of its run.
        """
        jobs = workload.jobs
        ran = started != NO_TIME
        running = ran & (started < jobs.submit)
        before = np.where(running, jobs.submit - started, 0)
        jobs = jobs.replace(
            submit=jobs.submit - running,
            runtime=np.where(running, np.maximum(jobs.runtime - before, 0), jobs.runtime),
            walltime=np.where(running, np.maximum(jobs.walltime - before, 1), jobs.walltime),
        )
        rows = np.flatnonzero(ran & ~running)
        if not len(rows):
            raise InputError("no job was seen to start, so there is nothing to compare a model with")
        end = np.where(ran, started + workload.jobs.runtime, NO_TIME)
        eligible = np.array([max([int(jobs.submit[r]), *end[jobs.after[r]].tolist()]) for r in rows.tolist()], np.int64)
        observed = Observed(
            rows,
            jobs.submit[rows],
            np.minimum(eligible, started[rows]),
            started[rows],
            jobs.runtime[rows],
            jobs.procs[rows],
            jobs.user.take(rows),
        )
        some = events if events is not None and len(events) else None
        return cls(workload.with_jobs(jobs), platform, some, observed, int(np.count_nonzero(running)))

    def spec(self, policy: str) -> RunSpec:
        """Return the run of a policy; jobs run as long as they did, even beyond their walltimes."""
        return RunSpec.of(policy, overrun="extend", events=self.events)

    def under(self, model: Model) -> Workload:
        """Return the workload as a pool with this overhead runs it."""
        jobs = self.workload.jobs
        late = self.workload.with_jobs(jobs.replace(submit=jobs.submit + model.delay)) if model.delay else self.workload
        return late.with_dead_time(model.dead_time)

    def with_waits(self, model: Model) -> Workload:
        """Return the same with the observed waits."""
        log, seen = self.under(model), self.observed
        waited = np.full(len(log), -1, np.int64)
        waited[seen.rows] = np.maximum(seen.start - log.jobs.submit[seen.rows], 0)
        return log.with_jobs(log.jobs.replace(waited=waited))

    def waits(self, model: Model, spec: RunSpec) -> Waits:
        """Return when each observed job could start and did start under a model; its delay is part of the wait."""
        result = run_spec(self.under(model), self.platform, spec)
        rows, schedule = self.observed.rows, result.schedule
        if len(never := np.flatnonzero(~schedule.ran[rows])):
            job = self.workload.jobs.job[rows[never[0]]]
            more = f"{counted(len(never), 'job')} of the pool cannot run on its platform; the first is {job}"
            raise InputError(f"{more}. Check the platform of the queue")
        late = schedule.eligible[rows] > result.workload.jobs.submit[rows]  # it waited for other jobs
        eligible = np.where(late, schedule.eligible[rows], self.observed.submit)
        return eligible, schedule.start[rows]


def models_for(workload: Workload, own: Sequence[str] = ()) -> list[str]:
    """Return the policies to try as models. own: those of the queue itself."""
    priority = workload.jobs.priority
    different = len(priority) > 0 and bool((priority != priority[0]).any())
    return list(dict.fromkeys([*own, *MODELS, *(BY_PRIORITY if different else ())]))


def fit_model(watched: Watched, models: Sequence[str], tell: Tell | None = None) -> Fit:
    """Fit a model to a watched pool. tell: called with the number of finished simulations, and their total."""
    specs = {model: watched.spec(model) for model in models}
    return fit(watched.observed, models, lambda model: watched.waits(model, specs[model.policy]), tell)


def to_compare(watched: Watched, found: Fit, policies: Sequence[str] = ()) -> list[RunSpec]:
    """Return the runs to compare: that of the model, and those of the other policies, by default WHAT_IF."""
    first = watched.spec(found.model.policy)
    others = (watched.spec(policy) for policy in policies or WHAT_IF)
    return [first, *(spec for spec in others if spec.name != first.name)]


def reported(watched: Watched, found: Fit, comparison: Comparison, notes: Sequence[str] = ()) -> PoolReport:
    """Return the report of a model and the comparison on its workload, `watched.with_waits(found.model)`."""
    more = [*notes]
    if watched.running:
        more.append(
            f"{counted(watched.running, 'job')} ran already when the pool was first seen; such jobs are not compared"
        )
    if found.model.delay:
        span = seconds_text(found.model.delay)
        more.append(f"waits of the comparison begin {span} s after the submit, when the pool first looks at a job")
    if not found.conclusive:
        more.append(CAUTION)
    return PoolReport(fit=found, comparison=comparison, notes=more)


def pool_report(
    workload: Workload,
    platform: Platform,
    started: Ints,
    policies: Sequence[str] = (),
    *,
    events: Events | None = None,
    own: Sequence[str] = (),
) -> PoolReport:
    """Fit a model to a watched pool, and compare it with other policies. See Watched.of and models_for."""
    watched = Watched.of(workload, platform, started, events)
    found = fit_model(watched, models_for(workload, own))
    specs = to_compare(watched, found, policies)
    return reported(watched, found, compare_specs(watched.with_waits(found.model), platform, specs))
