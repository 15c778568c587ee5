"""The simulated world: a virtual clock that jumps from event to event, and knows when each job will end."""

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from backfill.compiler.explain import is_users
from backfill.compiler.far import address_of
from backfill.compiler.record import column, kept_array
from backfill.compiler.users import Misused
from backfill.core.acts import do_act
from backfill.core.errors import OK, raise_misuse, story
from backfill.core.once import arranger
from backfill.core.place.shapes import forget_units
from backfill.core.plan.planned import use_plan
from backfill.core.policy import Policy
from backfill.core.setup import state_of
from backfill.core.trace import LOOKS, PASSES
from backfill.core.verbs import fit_empty
from backfill.core.world import NOT_YET
from backfill.model.clock import Clock, exact_text, zone_text
from backfill.model.errors import PolicyError, UsageError, at
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.precedence import followers
from backfill.model.promises import Promises, subject
from backfill.model.reservations import Division, divide
from backfill.model.schedule import NO_TIME, NODE_FAIL, PENDING, REJECTED, Runs, Schedule
from backfill.model.units import counted
from backfill.model.workload import Ints, Jobs, Ragged, Workload
from backfill.worlds.acts import acts, cancelled_at
from backfill.worlds.adapt import PRESENCE, Causes, as_run, with_presence
from backfill.worlds.admission import check_processors, refuse_unreserved
from backfill.worlds.hopeless import reject_hopeless
from backfill.worlds.options import Options
from backfill.worlds.predictors import Foresight, OfLog, foresight
from backfill.worlds.rules import NO_ACCOUNTS, Quotas, WholeNodes, check_whole, quotas
from backfill.worlds.sharing import check_shared, in_rows, of_one_row
from backfill.worlds.virtual import new_world, pass_time

FIRST_BUDGET, LARGEST_BUDGET = 1_024, 65_536  # passes between two returns to Python
MISUSED_S = 1.0  # how long a pass may continue after it broke a rule
NOT_THE_POLICY = ("numba", "bdb", "pdb", "pydevd", "_pydevd_bundle")  # modules in which a pass may take any time
ANSWER_S = 0.2  # between two checks for Ctrl-C
STRETCH = 1 << 16  # rows that are gathered together
PATIENCE_S = 0.1  # time between returns, so that interrupts are handled and the bar moves, however slow a pass is
MAKES = "; --cpus N --nodes N makes such nodes, and easy takes any platform"
Result = TypeVar("Result")
Progress = Callable[[int], None]  # called with the number of jobs submitted so far


@dataclass(frozen=True, eq=False)
class Simulation:
    """The outcome of a simulation: the schedule, the time that the loop took, and its counters."""

    schedule: Schedule
    elapsed_s: float
    passes: int
    looks: int  # jobs, or nodes of the queue's tree, that were checked
    promises: Promises  # of the watched job; of all jobs with a watched project, or if the policy is `booked`
    journal: Ints  # (rows, 6), see core/journal.py; empty if none was kept
    predicted: Ints | None = None  # the predicted run time of each job at its submit, if predicted

    def __repr__(self) -> str:
        return f"<Simulation: {counted(len(self.schedule), 'job')} in {self.elapsed_s:.3g} s>"


def simulate(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str] | None = None,
    options: Options | None = None,
    *,
    watched: str | None = None,
    journal: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """Run one policy over one workload.

    watched: id of the job, or the project, whose promises are recorded. journal: whether one is kept (core/journal.py).

    Raises PolicyError if the policy breaks a rule, UsageError for a wrong parameter or an unknown job.
    """
    options = options or Options()
    begun = begin(workload, platform, policy, params or {}, options, watched, journal)
    jobs, state, clock = begun.jobs, begun.state, workload.calendar
    world, platform = world_of(begun, options, policy), begun.platform
    seer = begun.foresight
    if seer is not None:
        progress = seer.watched(progress)
    start = time.perf_counter()
    passes = run_passes(policy, state, world, jobs.job, platform, clock, progress)
    elapsed = time.perf_counter() - start
    refused = np.flatnonzero(world.refused_for != -1)
    begun.causes[refused] = [begun.quotas.cause(account) for account in world.refused_for[refused].tolist()]
    forget_units(state.free.shapes)
    schedule = schedule_of(begun.table, state, world, several=begun.bound is not None)
    if seer is not None:  # a start that is planned by predictions is not a promise
        schedule = replace(schedule, promise=np.full(len(schedule), NO_TIME))
    may_wait = _minutes_are_counted(begun) if policy.name == "slurm" else None
    check_all_started(policy.name, schedule, state, clock, may_wait)
    if not _ascend(begun.rows):
        schedule = schedule.take(begun.place)
    if begun.division is not None:
        schedule = begun.division.merged(schedule)
    promises, predicted = _promises(state, begun.rows, policy.keeps), None
    if seer is not None:
        promises, predicted = promises.take(np.empty(0, np.int64)), seer.predicted[begun.place]
    looks, noted = int(state.trace.counters[LOOKS]), state.journal.row[: state.journal.rows].copy()
    return Simulation(schedule, elapsed, passes, looks, promises, noted, predicted)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a schedule beside starts, ends and states, in queue order."""

    job: Any  # ids
    submit: Ints
    tasks: Ints  # as a run counts them
    whole: WholeNodes
    causes: Causes  # of rejected jobs
    nodes: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """Jobs in the terms of a platform, checked."""

    jobs: Jobs  # in queue order
    platform: Platform  # with the accounts of its limits behind its licences
    quotas: Quotas
    whole: WholeNodes
    rows: Ints  # their rows in the workload
    place: Ints  # the inverse: the index here of each job of the workload
    causes: Causes  # of rejected jobs
    bound: BoundEvents | None
    estimate: Ints  # the walltimes that the policy may count on
    division: Division | None = None  # of the platform, if there are reservations
    foresight: Foresight | None = None  # if run times are predicted

    @property
    def table(self) -> Table:
        """Those columns of the schedule."""
        return Table(self.jobs.job, self.jobs.submit, self.jobs.tasks, self.whole, self.causes, self.platform.nodes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Begun(Prepared):
    """A State before anything has happened, and its inputs."""

    state: Any


def begin(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str],
    options: Options,
    watched: str | None,
    journal: bool,
) -> Begun:
    """Return the State of one run. See `simulate`."""
    values = policy.values(params)
    bound = None if options.events is None else options.events.bind(workload, platform)
    made = prepare(workload, platform, policy, params, options, bound)
    jobs = made.jobs
    watched_row, of_all = _watched(workload, made.rows, watched)
    state = state_of(
        jobs,
        made.platform,
        policy,
        values,
        estimate=made.estimate,
        seed=options.seed,
        watched=watched_row,
        recorded=of_all or policy.booked,
        journal=journal,
        licences=len(platform.licences),
        asked=made.whole.asked,
    )
    if made.bound is not None:
        use_plan(state)
    seer = None
    if options.predict is not None:
        seer = foresight(options.predict, len(jobs), OfLog(jobs), lambda: state)
    return Begun(**vars(made) | {"state": state, "foresight": seer})


def prepare(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str],
    options: Options,
    bound: BoundEvents | None,
    known: Mapping[str, int] = NO_ACCOUNTS,
) -> Prepared:
    """Return the jobs of a run, or some of them, and the platform as the run counts them. See `simulate`.

    known: the numbers of accounts of limits that count earlier jobs.
    """
    divided = divide(workload, platform, bound)
    if divided is not None:
        workload, platform, bound = divided.workload, divided.platform, divided.events
    sharing = policy.sharing(policy.in_full(params))
    jobs, machine, whole, causes = as_run(workload, platform, policy.place, known)
    refuse_unreserved(divided, causes)
    place = rows = np.argsort(jobs.submit, kind="stable")
    if not _ascend(rows):
        place = np.argsort(rows, kind="stable")
        jobs, causes, whole = jobs.take(rows), causes[rows], whole.take(rows)
    most = (machine.capacity, machine.copies) if bound is None else bound.greatest(machine)
    check_whole(platform, whole, most[0])
    check_shared(policy, sharing[0], bool(whole.per_node.any()), bound, len(platform.resources))
    if policy.processors:
        check_processors(policy, platform, most[0], MAKES)
        if len(idle := np.flatnonzero(jobs.demand[:, 0] == 0)):
            who = f"policy {policy.name}: job {jobs.job[idle[0]]}"
            raise UsageError(f"{who} asks for no cpu; expected one for each task")
    if bound is not None:
        jobs, machine, capacity = with_presence(jobs, machine, most[0])
        most = (capacity, most[1])
    estimate = options.estimates.of(jobs, options.seed)
    if bound is not None or policy.preempts:  # these may change them
        jobs = jobs.replace(walltime=jobs.walltime.copy(), priority=jobs.priority.copy())
    cancelled = None if bound is None else cancelled_at(bound, jobs, place)
    reject_hopeless(jobs, machine, causes, *most, cancelled)
    return Prepared(
        jobs=jobs,
        platform=in_rows(machine, sharing[0]),
        quotas=quotas(jobs, platform),
        whole=whole,
        rows=rows,
        place=place,
        causes=causes,
        bound=bound,
        estimate=estimate,
        division=None if divided is None else divided.division,
    )


def _watched(workload: Workload, rows: Ints, watched: str | None) -> tuple[int, bool]:
    """Return the job whose promises are recorded, -1 for none, and whether a watched project has all recorded."""
    if watched is None:
        return -1, False
    job, _ = subject(workload, watched)
    return (-1, True) if job is None else (int(np.argmax(rows == job)), False)


def _promises(state: Any, rows: Ints, kept: bool) -> Promises:
    """Return the record of promises, with jobs by their rows in the workload."""
    at, job, start, end, cause, by = state.promises.record[: state.promises.rows].T.copy()
    return Promises(at, rows[job], start, end, cause, np.where(by >= 0, rows[by], -1), kept)


def _ascend(rows: Ints) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def _line_of(policy: Policy, error: BaseException) -> tuple[str, int | None]:
    """Return the file and line of the user's own code that an error passed through last."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return (frames[-1].filename, frames[-1].lineno) if frames else (f"policy {policy.name}", None)


def run_passes(
    policy: Policy,
    state: Any,
    world: Any,
    ids: Any,
    platform: Platform,
    clock: Clock | None,
    progress: Progress | None,
) -> int:
    """Pass the time of a world until nothing more happens in it. Return the number of passes. See `simulate`.

    ids: of the jobs, by their numbers.
    """
    run = _run_compiled if policy.compiled else _run_stepping
    try:
        passes = run(policy, state, world, clock, progress)
    except Misused as error:
        raise_misuse(policy.name, state, ids, platform, *_line_of(policy, error), clock=clock)
        raise
    raise_misuse(policy.name, state, ids, platform, clock=clock)
    return passes


def _run_compiled(policy: Policy, state: Any, world: Any, clock: Clock | None, progress: Progress | None) -> int:
    arrange = arranger(policy)
    _interruptible(lambda: policy.entry, lambda: None)  # to compile it may take longer than a pass
    passes, budget, look = 0, FIRST_BUDGET, _patience(policy, state, clock)
    while True:
        since = time.perf_counter()
        try:
            done = _interruptible(partial(pass_time, policy, arrange, state, world, budget), look)
        except (IndexError, ZeroDivisionError) as error:  # only user code checks indices and divisors
            raise PolicyError(at(*_line_of(policy, error), f"{error}, {_now(state, clock)}")) from error
        passes += done
        if progress is not None:
            progress(int(state.jobs.count))
        if done < budget:
            return passes
        pace = PATIENCE_S / max(time.perf_counter() - since, 1e-6)
        budget = int(min(max(budget * min(pace, 8), 1), LARGEST_BUDGET))


def _interruptible(call: Callable[[], Result], look: Callable[[], None]) -> Result:
    """Make a call and return its result. On Ctrl-C, or an error of `look`, the call is abandoned at once."""
    result: list[Result] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(ANSWER_S)
        if worker.is_alive():
            look()
    if failed:
        raise failed[0]
    return result[0]


def _now(state: Any, clock: Clock | None) -> str:
    return f"at {exact_text(int(state.now), clock)}{zone_text(clock)}"


def _run_stepping(policy: Policy, state: Any, world: Any, clock: Clock | None, progress: Progress | None) -> int:
    """Apply the transitions one by one, with a plain Python policy between them."""
    arrange = arranger(policy)
    passes = 0
    with _stopped_when_stuck(policy, state, clock):
        while done := pass_time(policy, arrange, state, world, FIRST_BUDGET):
            passes += done
            if progress is not None:
                progress(int(state.jobs.count))
    return passes


def _patience(
    policy: Policy, state: Any, clock: Clock | None, may_last: Callable[[], bool] = lambda: False
) -> Callable[[], None]:
    """Return a function that raises if a pass does not return; it must be called every ANSWER_S.

    It counts calls, since clocks may jump.
    """
    seen, looks = -1, 0

    def look() -> None:
        nonlocal seen, looks
        passes = int(state.trace.counters[PASSES])
        seen, looks = passes, looks + 1 if passes == seen and not may_last() else 0
        if looks * ANSWER_S >= MISUSED_S and state.trace.error[0] != OK:
            raise Misused  # it does not return after a verb rejected its arguments
        if looks * ANSWER_S >= policy.patience_s:
            message = (
                f"policy {policy.name} has not returned from its pass {_now(state, clock)} for {policy.patience_s:g} s"
            )
            raise PolicyError(f"{message}; expected less, or @policy({policy.name!r}, patience=SECONDS)")

    return look


class _Stuck(BaseException):
    """Raised in the middle of a pass by the thread that watches it."""


@contextmanager
def _stopped_when_stuck(policy: Policy, state: Any, clock: Clock | None) -> Iterator[None]:
    """Stop a pass in plain Python that does not return, and report its line."""
    here = threading.get_ident()
    look, over, lock = _patience(policy, state, clock, partial(_may_last, here)), threading.Event(), threading.Lock()
    caught: list[BaseException] = []
    stop = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        while not over.wait(ANSWER_S):
            try:
                look()
            except (PolicyError, Misused) as error:
                with lock:
                    if not over.is_set():
                        caught.append(error)
                        stop(ctypes.c_ulong(here), ctypes.py_object(_Stuck))
                over.wait(MISUSED_S)  # stop it again if a bare `except:` swallowed the first

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            with lock:
                over.set()
                stop(ctypes.c_ulong(here), None)  # withdraw a pending one
    except _Stuck as stuck:
        if isinstance(caught[0], Misused):
            raise caught[0].with_traceback(stuck.__traceback__) from None
        raise PolicyError(at(*_line_of(policy, stuck), str(caught[0]))) from None


def _may_last(thread: int) -> bool:
    """Return whether a thread is in a debugger, or compiles a verb that it calls for the first time."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).split(".")[0] in NOT_THE_POLICY:
            return True
        frame = frame.f_back
    return False


def world_of(begun: Prepared, options: Options, policy: Policy, **given: Any) -> Any:
    """Return the World of a log. given: fields of core/world.py, for runs that have begun already."""
    jobs, rows, causes, platform, quotas = begun.jobs, begun.rows, begun.causes, begun.platform, begun.quotas
    n, more = len(jobs), {}
    if len(jobs.after.items):
        after, think = followers(jobs.after), np.where(np.diff(jobs.after.first) > 0, jobs.think, 0)
        before = np.diff(jobs.after.first) + (think > 0)
        more = {"linked": 1, "before": before, "think": think, "after_first": after.first, "after_item": after.items}
    if policy.dangles:
        more["unknown"] = np.diff(jobs.after.first)
    if len(quotas.most):
        more |= {"quota_first": quotas.asked.first, "quota_item": quotas.asked.items, "quota_left": quotas.most.copy()}
        more |= {"refused_for": np.full(n, -1), "queued": np.zeros(n, np.int8)}
    if options.ties == "step":
        more["gone"] = np.zeros(max(n, 1), np.int8)
    if begun.bound is not None:
        stated = len(platform.resources) - (PRESENCE in platform.resources)
        steps, priorities = acts(begun.bound, stated, begun.place, jobs)
        more |= {"act": steps, "act_priority": priorities, "do_act": address_of(do_act), "acts_left": len(steps)}
    if begun.foresight is not None:
        more |= begun.foresight.fields
    usual = {
        "stepping": int(options.ties == "step"),
        "overrun": int(options.overrun == "extend"),
        "requeue": int(options.lost == "requeue"),
        "row": column(rows),
        "submit": column(jobs.submit),
        "runtime": column(jobs.runtime),
        "kill": column(jobs.walltime),
        "tasks": column(jobs.tasks),
        "demand": column(jobs.demand),
        "licence_first": column(jobs.licences.first),
        "licence": column(jobs.licences.items),
        "copies": column(jobs.licences.counts),
        "outcome": np.where(causes != "", REJECTED, NOT_YET).astype(np.int8),
        "eligible": jobs.submit.copy(),
    }
    return new_world(n, platform, policy, **(usual | more | given))


def schedule_of(jobs: Table, state: Any, world: Any, several: bool = False) -> Schedule:
    """Return the schedule: the fate of each job, and its runs as a table of their own if there may be several.

    several: whether to state the runs in any case.
    """
    core, last = state.runs, state.runs.last[: len(jobs.job)]
    ran = last >= 0
    dangled = core.dangles and (core.since[: core.count] != core.start[: core.count]).any()
    several = several or core.count > ran.sum() or dangled or bool(core.rows > 1)
    held = _alone(ran, jobs.tasks) if state.machine.pool else _rows(_pairs(core), last)

    def of_last(values: Any, nothing: Any) -> Any:
        found = values[last]
        found[~ran] = nothing
        return found

    return Schedule(
        job=jobs.job,
        submit=jobs.submit,
        start=of_last(core.start, NO_TIME),
        end=of_last(core.end, NO_TIME),
        state=np.where(world.outcome == NOT_YET, np.int8(PENDING), world.outcome),
        reason=of_last(core.reason, -1),
        rejected_for=jobs.causes,
        eligible=kept_array(world, "eligible"),
        promise=kept_array(state.promises, "first")[: len(last)],
        nodes=jobs.nodes,
        held=jobs.whole.own_tasks(held, slice(None)),
        runs=_runs(jobs, state, world) if several else None,
    )


def _runs(jobs: Table, state: Any, world: Any) -> Runs:
    """Return all runs, by job, then by start."""
    core, count = state.runs, int(state.runs.count)
    job = core.job[:count].astype(np.int64)
    start, end, how = core.start[:count], core.end[:count], core.how[:count]
    progress = np.where(how == NODE_FAIL, 0, end - start)
    if core.dangles:
        since = core.since[:count]
        progress = np.where((how == NODE_FAIL) | (since == NO_TIME), 0, end - since)
    if core.preempts:
        progress = np.where((how == NODE_FAIL) | (np.arange(count) <= world.anew[job]), 0, world.kept[:count])
    if core.rows > 1:
        progress = np.where(how == NODE_FAIL, 0, core.done[:count])
    every = np.arange(count)
    held = _alone(np.ones(count, np.bool_), jobs.tasks[job]) if state.machine.pool else _rows(_pairs(core), every)
    turns = _turns(start, world.pace[: world.paces]) if core.rows > 1 else None
    runs = Runs(job, start, end, how, core.reason[:count], jobs.whole.own_tasks(held, job), progress, turns)
    return runs.take(np.argsort(job, kind="stable"))


def _turns(start: Ints, paces: Ints) -> Ragged:
    """Return the turns of each run: since when, in which rows, of how many.

    paces: (run, these three), in order of time.
    """
    begins = np.column_stack([np.arange(len(start)), start, np.ones_like(start), np.ones_like(start)])
    every = np.vstack([begins, paces])
    every = every[np.lexsort((np.arange(len(every)), every[:, 1], every[:, 0]))]
    counts = np.append((np.diff(every[:, :2], axis=0) != 0).any(axis=1), True)[: len(every)]  # last of an instant
    every = every[counts]
    first = np.searchsorted(every[:, 0], np.arange(len(start) + 1))
    return Ragged(3 * first, np.ascontiguousarray(every[:, 1:]).reshape(-1))


def _alone(ran: Any, tasks: Ints) -> Ragged:
    """Return the nodes of jobs on a pool: all their tasks on node 0, none if they did not run. Pairs, end to end."""
    first = np.zeros(len(ran) + 1, np.int64)
    np.cumsum(ran, out=first[1:])
    first *= 2
    items = np.zeros(first[-1], np.int64)
    items[1::2] = tasks[ran]
    return Ragged(first, items)


def _pairs(core: Any) -> Ragged:
    """Return the nodes that each run holds, in the order in which the runs began.

    The items are memory of the core, which is freed with the State.
    """
    items = core.held[: core.held_used].reshape(-1)
    return Ragged(2 * np.append(core.first[: core.count], core.held_used), items)


def _rows(held: Ragged, rows: Ints) -> Ragged:
    """Return the lists of these rows, empty for -1."""
    count = np.where(rows >= 0, np.diff(np.append(held.first, held.first[-1:]))[rows], 0)
    first = np.concatenate(([0], np.cumsum(count)))
    items = np.empty(first[-1], held.items.dtype)
    for begin in range(0, len(rows), STRETCH):  # an index of all items would take more memory than they do
        some = slice(begin, min(begin + STRETCH, len(rows)))
        within = slice(first[some.start], first[some.stop])
        there = np.repeat(held.first[rows[some]] - first[some], count[some]) + np.arange(within.start, within.stop)
        items[within] = held.items[there]
    return Ragged(first, items)


def _minutes_are_counted(begun: Begun) -> Callable[[int], bool] | None:
    """Under `slurm`, jobs may wait for ever that a limit on minutes counts."""
    site, of = begun.platform.slurm, begun.jobs
    if site is None:
        return None
    return lambda job: site.counts_minutes(of.group[job], of.user[job], of.partition[job], of.qos[job])


def check_all_started(
    name: str,
    schedule: Schedule,
    state: Any,
    clock: Clock | None,
    may_wait_for_ever: Callable[[int], bool] | None = None,
) -> None:
    """Raise PolicyError if a job waits for ever, unless it may or one of them lacks capacity that never came back."""
    stuck = np.flatnonzero(schedule.state == PENDING)
    if may_wait_for_ever is not None:
        stuck = np.array([job for job in stuck.tolist() if not may_wait_for_ever(job)], np.int64)
    if not len(stuck):
        return
    fits = np.empty(int(state.jobs.rows), np.int8)
    capacity = of_one_row(state.machine.capacity, int(state.runs.rows))
    fit_empty(state, capacity, state.machine.copies, fits)  # a suspended job fits only where it was
    if fits[stuck].all():
        stuck_jobs = f"{counted(len(stuck), 'job')} never start{'s' if len(stuck) == 1 else ''}"
        raise PolicyError(
            f"policy {name}: {stuck_jobs} (the first is {story(state, int(stuck[0]), schedule.job, clock)})"
        )
