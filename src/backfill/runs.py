"""Many runs: policies x replications, one after the other in this process or side by side in several."""

import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from typing import Any

from backfill.analysis.bounds import Bound, bounds
from backfill.analysis.metrics import Counted, Metrics, Trim
from backfill.api import simulate
from backfill.core.policy import Policy
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
    plan: Plan, runs: Sequence[Run], workers: int = 1, progress: Progress | None = None
) -> tuple[dict[Run, Done], bool]:
    """What the runs leave behind, and whether Ctrl-C ended them before all were done."""
    done: dict[Run, Done] = {}
    try:
        if workers > 1 and len(runs) > 1:
            _in_processes(plan, runs, min(workers, len(runs)), progress, done)
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


def _in_processes(
    plan: Plan, runs: Sequence[Run], workers: int, progress: Progress | None, done: dict[Run, Done]
) -> None:
    """Fill `done`. Processes are spawned, take one run at a time, and are ended when the last is done or one fails."""
    _check_can_be_sent(plan)
    context = get_context("spawn")
    left = iter(runs)
    under_way: dict[Any, tuple[Run, float]] = {}  # connection -> what it does, and which share of it is done
    processes = []
    try:
        for _, run in zip(range(workers), left, strict=False):  # in this order, which takes no run too many
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, plan), daemon=True)
            process.start()
            theirs.close()  # so that the end of the process is the end of the connection
            processes.append(process)
            ours.send(run)
            under_way[ours] = (run, 0.0)
        while under_way:
            for ready in connection.wait(list(under_way)):
                _hear(ready, under_way, left, done)
            if progress is not None:
                progress(len(done) + sum(share for _, share in under_way.values()))
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _hear(ready: Any, under_way: dict[Any, tuple[Run, float]], left: Any, done: dict[Run, Done]) -> None:
    """Take one message from a process, and give it the next run where it is done with one."""
    try:
        told = ready.recv()
    except (EOFError, ConnectionResetError):
        raise BackfillError("a worker process ended; memory may have run out: try fewer --workers") from None
    if isinstance(told, BaseException):
        raise told
    run = under_way[ready][0]
    if isinstance(told, float):
        under_way[ready] = (run, told)
        return
    done[run] = told
    if (following := next(left, None)) is not None:
        ready.send(following)
        under_way[ready] = (following, 0.0)
    else:
        del under_way[ready]


def _work(pipe: Any, plan: Plan) -> None:
    """What a process does: runs that come through the pipe, until it is ended. Ctrl-C is for its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    while True:
        try:
            run = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(plan.carry_out(run, lambda share: pipe.send(float(share))))
        except Exception as error:
            same = type(error) in (PolicyError, WorkloadError, UsageError, MemoryError)
            pipe.send(error if same else BackfillError(f"{type(error).__name__}: {error}"))


def _check_can_be_sent(plan: Plan) -> None:
    """Complain about what only this process knows, such as a function inside a function."""
    things = [policy for policy, _ in plan.policies if not isinstance(policy, str)]
    for thing in [*things, *([] if plan.made else [plan.source])]:
        try:
            pickle.dumps(thing)
        except (pickle.PicklingError, AttributeError, TypeError):
            name = getattr(thing, "name", getattr(thing, "__name__", thing))
            raise UsageError(
                f"{name} cannot be sent to another process; use workers=1, or name a policy by its text"
            ) from None
