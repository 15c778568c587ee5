"""The simulated world: a virtual clock that jumps from event to event, and knows when each job will end."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from backfill.core.errors import raise_misuse
from backfill.core.loop import World, advance, close_instant, keep, open_instant
from backfill.core.policy import Policy
from backfill.core.queue import arrange
from backfill.core.record import kernel
from backfill.core.setup import new_state
from backfill.core.trace import LOOKS
from backfill.model.errors import PolicyError
from backfill.model.platform import Platform
from backfill.model.precedence import followers
from backfill.model.schedule import COMPLETED, NO_TIME, REJECTED, TIMEOUT, Schedule
from backfill.model.units import seconds_text
from backfill.model.workload import Ints, Jobs, Ragged, Workload
from backfill.worlds.admission import Causes, adapt, mark_in_play, reject_hopeless
from backfill.worlds.options import Options

FIRST_BUDGET, LARGEST_BUDGET = 1_024, 65_536  # passes between two looks at the outside
ANSWER_S = 0.2  # between two looks at whether Ctrl-C was pressed
PATIENCE_S = 0.1  # so that an interrupt is answered and the bar moves, however slow a pass is
Progress = Callable[[int], None]  # is told how many jobs were submitted so far


@dataclass(frozen=True, eq=False)
class Simulation:
    """What came out: the schedule, how long the loop took, and how hard it worked."""

    schedule: Schedule
    elapsed_s: float
    passes: int
    looks: int  # jobs, or nodes of the queue's tree, that were looked at
    history: Ints  # (entries, 2): when the watched job was promised a start, and which


def simulate(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str] | None = None,
    options: Options | None = None,
    *,
    watched: str | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Run one policy over one workload. watched: id of the job whose promises are written down.

    Raises PolicyError where the policy breaks a rule, UsageError for a wrong parameter or an unknown job.
    """
    options = options or Options()
    values = policy.values(params or {})
    decide = policy.entry if policy.compiled else policy.decide
    jobs, causes = adapt(workload, platform)
    by_queue = np.argsort(jobs.submit, kind="stable")
    row = -1 if watched is None else int(np.argmax(by_queue == workload.row_of(watched)))
    sorted_already = bool((by_queue[1:] > by_queue[:-1]).all())
    if not sorted_already:
        jobs, causes = jobs.take(by_queue), causes[by_queue]
    estimate = options.estimates.of(jobs, options.seed)
    state = new_state(jobs, platform, policy, values, estimate=estimate, seed=options.seed, watched=row)
    reject_hopeless(state, jobs, platform, causes)
    mark_in_play(state, jobs, platform, causes)
    world = _new_world(jobs, platform, options, causes)
    run = _run_compiled if policy.compiled else _run_stepping
    begin = time.perf_counter()
    passes = run(policy, decide, state, world, progress)
    elapsed = time.perf_counter() - begin
    raise_misuse(policy.name, state.trace.error, jobs.job, platform)
    schedule = _schedule(jobs, platform, state, world, causes)
    _check_all_started(policy.name, schedule)
    if not sorted_already:
        schedule = schedule.take(np.argsort(by_queue, kind="stable"))
    history = promises(state) if watched is not None else np.zeros((0, 2), np.int64)
    return Simulation(schedule, elapsed, passes, int(state.trace.counters[LOOKS]), history)


def _run_compiled(policy: Policy, decide: Any, state: Any, world: Any, progress: Progress | None) -> int:
    before = sorter() if policy.sorted_for_it else keep
    passes, budget = 0, FIRST_BUDGET
    while True:
        begin = time.perf_counter()
        try:
            done = _interruptible(partial(advance, before, decide, state, world, budget))
        except (IndexError, ZeroDivisionError) as error:  # only what a user wrote checks indices and divisors
            when = f"policy {policy.name}, at {seconds_text(int(state.now))} s"
            hint = f"with @policy({policy.name!r}, compiled=False) the message has the line"
            raise PolicyError(f"{when}: {error}; {hint}") from error
        passes += done
        if progress is not None:
            progress(int(state.jobs.count))
        if done < budget:
            return passes
        pace = PATIENCE_S / max(time.perf_counter() - begin, 1e-6)
        budget = int(min(max(budget * min(pace, 8), 1), LARGEST_BUDGET))


def _interruptible(call: Callable[[], int]) -> int:
    """What a call returns. Ctrl-C is answered at once: the call goes on, but nobody waits for it."""
    found: list[int] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(int(call()))
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(ANSWER_S)
    if failed:
        raise failed[0]
    return found[0]


def _run_stepping(policy: Policy, decide: Any, state: Any, world: Any, progress: Progress | None) -> int:
    """The same transitions one by one, with a plain Python policy between them."""
    passes = 0
    while open_instant(state, world):
        if policy.sorted_for_it:
            arrange(state)
        decide(state)
        close_instant(state, world)
        passes += 1
        if progress is not None and passes % 1024 == 0:
            progress(int(state.jobs.count))
    return passes


def sorter() -> Any:
    """What sorts queues whose order changes with time, compiled at its first use."""
    from backfill.core.sorter import sort_before_pass

    return sort_before_pass


@kernel()
def promises(state):  # type: ignore[no-untyped-def]
    """A copy of what was promised to the watched job."""
    return state.promises.history[: state.promises.entries].copy()


@kernel()
def _pairs(state):  # type: ignore[no-untyped-def]
    """A copy of all placements: they grow in compiled code, where Python does not see it."""
    return state.runs.held[: state.runs.held_used].copy()


def _new_world(jobs: Jobs, platform: Platform, options: Options, causes: Causes) -> Any:
    n = len(jobs)
    after = followers(jobs.after) if len(jobs.after.items) else Ragged.empty(n)
    overs = n + 1 if options.overrun == "extend" else 1

    def times(size: int) -> Ints:
        return np.empty(size, np.int64)

    def column(values: Any, dtype: Any = np.int64) -> Any:
        return np.require(values, dtype, ["C", "W", "A"])

    return World(
        stepping=int(options.ties == "step"),
        overrun=int(options.overrun == "extend"),
        runtime=column(jobs.runtime),
        kill=column(jobs.walltime),
        speed=column(platform.speed, np.float64),
        idle=0,
        rejected=(causes != "").astype(np.int8),
        linked=int(len(after.items) > 0),
        before=np.diff(jobs.after.first).astype(np.int64),
        after_first=after.first,
        after_item=after.items,
        eligible=jobs.submit.copy(),
        end=np.full(n, NO_TIME, np.int64),
        timeout=np.zeros(n, np.int8),
        starts=0,
        end_time=times(n + 1),
        end_serial=times(n + 1),
        end_job=times(n + 1),
        ends=0,
        over_time=times(overs),
        over_serial=times(overs),
        over_job=times(overs),
        overs=0,
        gone=np.zeros(n, np.int8),
    )


def _schedule(jobs: Jobs, platform: Platform, state: Any, world: Any, causes: Causes) -> Schedule:
    rejected = causes != ""
    started = state.runs.start != NO_TIME
    if len(platform.nodes) == 1 and not platform.licences:
        first = np.concatenate(([0], np.cumsum(2 * started)))
        items = np.zeros((int(started.sum()), 2), np.int64)
        items[:, 1] = jobs.tasks[started]
    else:
        count = np.where(started, state.runs.held_count, 0)
        first = np.concatenate(([0], np.cumsum(2 * count)))
        rows = np.repeat(state.runs.held_first - first[:-1] // 2, count) + np.arange(first[-1] // 2)
        items = _pairs(state)[rows]
    return Schedule(
        job=jobs.job,
        submit=jobs.submit,
        start=state.runs.start,
        end=world.end,
        state=np.where(rejected, REJECTED, np.where(world.timeout == 1, TIMEOUT, COMPLETED)).astype(np.int8),
        reason=np.where(started, state.runs.reason, -1).astype(np.int8),
        rejected_for=causes,
        eligible=world.eligible,
        promise=state.promises.first,
        nodes=platform.nodes,
        held=Ragged(first.astype(np.int64), items.reshape(-1)),
    )


def _check_all_started(name: str, schedule: Schedule) -> None:
    stuck = np.flatnonzero((schedule.start == NO_TIME) & (schedule.state != REJECTED))
    if len(stuck):
        first = schedule.job[stuck[0]]
        raise PolicyError(f"policy {name} leaves {len(stuck)} jobs waiting for ever; the first is {first}")
