"""Many runs: policies x replications, one after the other in this process, or side by side elsewhere."""

import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

from backfill.analysis.bounds import Bound, bounds
from backfill.analysis.metrics import Counted, Metrics, Trim
from backfill.api import simulate
from backfill.core.policy import Policy
from backfill.executors import Executor, gather, processes
from backfill.model.errors import BackfillError, PolicyError, UsageError, WorkloadError
from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import Simulation

Source = Callable[[int], Workload]  # the workload of a replication
Progress = Callable[[float], None]  # is told how many runs are done, and how much of those under way


@dataclass(frozen=True, slots=True)
class Run:
    """One policy over one workload."""

    policy: int  # its place among the policies
    replication: int


@dataclass(frozen=True, eq=False, slots=True)
class Done:
    """What a run leaves behind."""

    metrics: Metrics
    simulation: Simulation | None  # of the first replication only
    bounds: Sequence[Bound] = ()  # of the first policy only: they do not depend on it


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """All that runs share. It is sent to each process once."""

    source: Source
    platform: Platform | None  # None: that of each workload
    policies: Sequence[tuple[str | Policy | Callable[[Any], None], Mapping[str, float | str]]]
    options: Options
    warmup: Trim
    cooldown: Trim
    fixed: bool  # there is one workload, the same in every replication
    made: dict[int, Workload] = field(default_factory=dict)  # the last workload, by replication

    def workload(self, replication: int) -> Workload:
        """That of a replication; only the last one is kept."""
        if replication not in self.made:
            made = self.source(replication)
            self.made.clear()
            self.made[replication] = made
        return self.made[replication]

    def carry_out(self, run: Run, tell: Progress | None) -> Done:
        """Simulate; tells which share of it is done."""
        policy, params = self.policies[run.policy]
        workload, options = self.workload(run.replication), self.options
        platform = Platform.of(workload) if self.platform is None else self.platform
        jobs = max(len(workload), 1)
        result = simulate(
            workload,
            platform,
            policy,
            params=params,
            ties=options.ties,
            overrun=options.overrun,
            estimates=options.estimates,
            seed=options.seed + run.replication,
            warmup=self.warmup,
            cooldown=self.cooldown,
            progress=None if tell is None else lambda submitted: tell(submitted / jobs),
        )
        found: Sequence[Bound] = ()
        if run.policy == 0:
            counted = Counted.of(workload, result.schedule, self.warmup, self.cooldown)
            found = bounds(workload, platform, counted, options.overrun)
        return Done(result.metrics, None if run.replication else result.simulation, found)


def carry_out(
    plan: Plan,
    runs: Sequence[Run],
    workers: int = 1,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> tuple[dict[Run, Done], bool]:
    """What the runs leave behind, and whether Ctrl-C ended them before all were done.

    executor: where they are carried out, instead of in this process and `workers` - 1 others.
    """
    done: dict[Run, Done] = {}
    tell = progress or (lambda _: None)
    try:
        if executor is not None:
            _check_can_be_sent(plan)
            sent = plan if plan.fixed else replace(plan, made={})
            gather({executor.submit(_alone, sent, run): run for run in runs}, done, lambda: tell(len(done)))
        elif workers > 1 and len(runs) > 1:
            _check_can_be_sent(plan)
            shares = get_context("spawn").Array("d", len(runs), lock=False)
            with processes(min(workers, len(runs)), _begin, plan, shares) as pool:
                gather({pool.submit(_one, i, run): run for i, run in enumerate(runs)}, done, lambda: tell(sum(shares)))
        else:
            for count, run in enumerate(runs):
                done[run] = plan.carry_out(run, None if progress is None else _after(count, progress))
    except KeyboardInterrupt:
        return done, True
    return done, False


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Let a first Ctrl-C wait until what is under way is whole, and note it; a second one ends it."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _after(count: int, progress: Progress) -> Progress:
    return lambda share: progress(count + share)


_HERE: list[Any] = []  # in a process of many: the plan, and which share of each run is done


def _begin(plan: Plan, shares: Any) -> None:
    warnings.simplefilter("ignore")
    _HERE[:] = [plan, shares]


def _one(place: int, run: Run) -> Done:
    plan, shares = _HERE
    done = _alone(plan, run, lambda share: shares.__setitem__(place, share))
    shares[place] = 1
    return done


def _alone(plan: Plan, run: Run, tell: Progress | None = None) -> Done:
    """A run in another process. Only errors that can be sent back as they are leave it."""
    try:
        return plan.carry_out(run, tell)
    except Exception as error:
        if type(error) in (PolicyError, WorkloadError, UsageError, MemoryError):
            raise
        raise BackfillError(f"{type(error).__name__}: {error}") from None


def _check_can_be_sent(plan: Plan) -> None:
    """Complain about what only this process knows, such as a function inside a function."""
    things = [policy for policy, _ in plan.policies if not isinstance(policy, str)]
    for thing in [*things, *([] if plan.fixed else [plan.source])]:
        try:
            pickle.dumps(thing)
        except (pickle.PicklingError, AttributeError, TypeError):
            told = thing.args[0] if isinstance(thing, partial) else thing  # the function behind a source
            name = getattr(told, "name", getattr(told, "__name__", told))
            raise UsageError(
                f"{name} cannot be sent to another process; use workers=1, or name a policy by its text"
            ) from None
