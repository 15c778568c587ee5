"""Run many simulations, policies x replications, one after the other in this process or in parallel in others."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from backfill import executors
from backfill.analysis.bounds import Bound, bounds
from backfill.analysis.metrics import Counted, Metrics
from backfill.api import run_spec
from backfill.core.policy import NO_JOB, Policy
from backfill.executors import Progress, Where
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.spec import RunSpec
from backfill.workloads import generate
from backfill.worlds.simulated import Simulation

Source = partial[Workload]  # the workload of a replication
Log = Workload | str | Callable[[int], Workload]  # a workload; or a model or function that gives one for each seed


def source_of(log: Log, seed: int) -> Source:
    """Return the source of the workloads of replications."""
    if isinstance(log, str):
        return partial(generate, log)
    return partial(_same, log) if isinstance(log, Workload) else partial(_drawn, log, seed)


def _same(log: Workload, replication: int) -> Workload:
    return log


def _drawn(draw: Callable[[int], Workload], seed: int, replication: int) -> Workload:
    return draw(seed + replication)


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of one run: a policy over the workload of a replication."""

    policy: int  # its index among the policies
    replication: int


@dataclass(frozen=True, eq=False, slots=True)
class Done:
    """The outcome of one run."""

    metrics: Metrics
    simulation: Simulation | None  # of the first replication only
    bounds: Sequence[Bound] = ()  # of the first policy only: they do not depend on it


@dataclass(frozen=True, eq=False, kw_only=True)
class Shared:
    """Everything that the runs have in common. It is sent to each process once."""

    source: Source
    platform: Platform | None  # None: that of each workload
    specs: Sequence[RunSpec]  # one per policy
    made: dict[int, Workload] = field(default_factory=dict)  # the last workload, by replication

    def workload(self, replication: int) -> Workload:
        """Return the workload of a replication; only the last one is kept."""
        if replication not in self.made:
            made = self.source(replication)
            self.made.clear()
            self.made[replication] = made
        return self.made[replication]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: a workload is made again from its source."""
        return {**vars(self), "made": {}}

    def carry_out(self, run: RunKey, tell: Progress | None = None) -> Done:
        """Simulate one run; tell: called with the finished fraction."""
        spec = self.specs[run.policy].replicated(run.replication)
        workload = self.workload(run.replication)
        jobs = max(len(workload), 1)
        result = run_spec(
            workload, self.platform, spec, None if tell is None else lambda submitted: tell(submitted / jobs)
        )
        lower: Sequence[Bound] = ()
        if run.policy == 0:
            counted = Counted.of(workload, result.schedule, spec.warmup, spec.cooldown)
            lower = () if result.no_bounds else bounds(workload, result.platform, counted, spec.options.overrun)
        return Done(result.metrics, None if run.replication else result.simulation, lower)


class Keeper(Protocol):
    """A store of finished runs, so that they need not be run again."""

    def found(self, run: RunKey) -> Done | None:
        """Return a stored run; None if it has to be run."""

    def keep(self, run: RunKey, done: Done) -> None:
        """Store a run that has finished."""


def carry_out(
    plan: Shared,
    runs: Sequence[RunKey],
    where: Where = None,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
) -> tuple[dict[RunKey, Done], bool]:
    """Return the results of the runs, and whether Ctrl-C ended them before all were done.

    keeper: has the runs that were finished before, and gets each of the others as soon as it is finished.
    """
    stored = {run: keeper.found(run) for run in runs} if keeper is not None else {}
    results = {run: each for run, each in stored.items() if each is not None}
    left = [run for run in runs if run not in results]
    if where is not None:  # the longest of a replication first, so that the last ones end at about the same time
        left.sort(key=lambda run: (run.replication, *_weight(plan.specs[run.policy].policy, run.policy == 0)))
    if where is not None and left:
        _check_can_be_sent(plan)
    done: dict[int, Done] = {}
    interrupted, before = False, len(results)

    def compile_once(run: RunKey) -> None:
        found = plan.specs[run.policy].policy
        _ = found.compiled and found.entry  # before several processes would

    def taken(place: int, each: Done) -> None:
        if keeper is not None:
            with executors.held_back() as pressed:
                keeper.keep(left[place], each)
            if pressed:
                raise KeyboardInterrupt

    try:
        executors.carry_out(
            plan.carry_out,
            left,
            where,
            progress if progress is None else lambda finished: progress(before + finished),
            tells=True,
            done=done,
            before=compile_once,
            taken=taken,
        )
    except KeyboardInterrupt:
        interrupted = True
    except SystemError as error:  # Ctrl-C within a call of numba's own C code
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        interrupted = True
    return results | {left[place]: each for place, each in done.items()}, interrupted


def _weight(policy: Policy, bounds: bool) -> tuple[bool, ...]:
    """Return a key that sorts runs that take long before others, by what their policies declare.

    bounds: the run computes the lower bounds, too.
    """
    plans = policy.keeps or policy.booked or policy.preempts
    return not plans, not policy.dynamic, not bounds, policy.reserve == policy.fill == NO_JOB


def _check_can_be_sent(plan: Shared) -> None:
    """Raise UsageError for what cannot be sent to another process, such as a function inside a function."""
    drawn_by = [each for each in plan.source.args if callable(each)]
    for thing in [*(spec.named for spec in plan.specs), *drawn_by]:
        try:
            pickle.dumps(thing)
        except (pickle.PicklingError, AttributeError, TypeError):
            name = getattr(thing, "name", getattr(thing, "__name__", thing))
            raise UsageError(
                f"{name} cannot be sent to another process; use workers=1, or name a policy by its text"
            ) from None
