"""A simulation that gets its jobs part by part, and forgets those that are over.

The schedule is that of `simulated.simulate`: between two parts time stands still, the State and the World move into new
ones with rows for the next part (core/compact.py), and the order of all jobs stays. A part ends where the submit
changes, so that no instant is divided.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.compiler.record import column, fields_of, zeros
from backfill.core.compact import Kept, begins, items, renumbered
from backfill.core.entry import Entrants, Entry, Room
from backfill.core.plan.planned import use_plan
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Policy
from backfill.core.runs import RUNNING
from backfill.core.setup import new_state, without_accounts
from backfill.core.snapshot import move_into
from backfill.core.trace import LOOKS
from backfill.core.world import NOT_YET, World
from backfill.model import events
from backfill.model.clock import Clock
from backfill.model.errors import UsageError
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Ints, Workload
from backfill.worlds.options import Options
from backfill.worlds.rules import WholeNodes
from backfill.worlds.simulated import (
    Prepared,
    Progress,
    Table,
    check_all_started,
    prepare,
    run_passes,
    schedule_of,
    world_of,
)

# Columns of the World with an entry for each job, whatever the policy and the options.
JOBS = ("row", "submit", "runtime", "kill", "tasks", "demand", "outcome", "eligible")
OF_JOBS = (events.CANCEL, events.WALLTIME, events.PRIORITY)


@dataclass(frozen=True, eq=False)
class Part:
    """The next jobs of a log."""

    workload: Workload  # in order of submit, then file order
    rows: Ints  # their rows in the log


@dataclass(frozen=True, eq=False)
class Over:
    """Jobs that are over, in queue order, and what became of them."""

    number: Ints  # of each job in queue order
    rows: Ints  # in the log
    procs: Ints  # processors that each asked for
    schedule: Schedule
    open_number: Ints  # of the jobs that run or wait
    open: Schedule  # what is known of them


def parts_of(log: Workload, size: int) -> Iterator[Part]:
    """Yield the jobs of a log in parts of this size, or a little more: an instant is not divided."""
    submit = log.jobs.submit
    order = np.argsort(submit, kind="stable")
    submit, begin = submit[order], 0
    while begin < len(order):
        end = int(np.searchsorted(submit, submit[min(begin + size, len(order)) - 1], side="right"))
        rows = order[begin:end]
        yield Part(replace(log, jobs=log.jobs.take(rows)), rows)
        begin = end


def check_streams(policy: Policy, options: Options, log: Workload) -> None:
    """Raise UsageError for what asks about jobs that are over, or jobs that are not known yet.

    log: the log, or the first part of one.
    """
    who, hint = f"policy {policy.name}", "use simulate"
    if policy.forgets == "no" or policy.facts is not None:
        raise UsageError(f"{who} asks about jobs that are over, and a stream forgets them; {hint}, or another policy")
    if policy.forgets == "alone" and log.jobs.project.names:
        raise UsageError(f"{who} asks about jobs of a project that are over, and a stream forgets them; {hint}")
    if len(log.jobs.after.items):
        raise UsageError(f"{log.name}: jobs depend on others, which a stream may have forgotten; {hint}")
    if options.predict is not None:
        raise UsageError(f"predictions learn from jobs that are over, and a stream forgets them; {hint}")
    given = options.events
    known = (*OF_JOBS, events.RESERVE, events.UNRESERVE)
    if given is not None and len(those := np.flatnonzero(np.isin(given.kind, known))):
        kind = events.EVENTS[int(given.kind[those[0]])]
        raise UsageError(f"{given.name}: a stream takes events of nodes and licences, not {kind}; {hint}")
    if log.chosen.get("cancelled") == "leave":
        raise UsageError(f"jobs that leave the queue are events of jobs, which a stream does not take; {hint}")


class Stream:
    """One run. Iterate over `over` to carry it out."""

    def __init__(
        self,
        platform: Platform,
        policy: Policy,
        params: Mapping[str, float | str],
        options: Options,
        clock: Clock | None,
        bound: BoundEvents | None,
    ) -> None:
        """Start without jobs. platform: as it is described. bound: the events of nodes and licences."""
        self.most_rows = self.passes = 0
        self._described, self._policy, self._params, self._options = platform, policy, params, options
        self._clock, self._bound = clock, bound
        self._counts = any(limit.amounts for limit in platform.limits)
        self._queued = any(limit.queued_jobs is not None for limit in platform.limits)
        self._pool = platform.is_pool and not self._counts
        self._quotas: dict[str, int] = {}  # number of each account of a limit on queued jobs
        self._came = 0  # jobs so far
        self._state: Any = None
        self._world: Any = None
        self._entry: Any = None
        self._known: _Known | None = None

    @property
    def looks(self) -> int:
        """The number of jobs, or nodes of the queue's tree, that were checked."""
        return int(self._state.trace.counters[LOOKS]) if self._state is not None else 0

    def over(self, parts: Iterable[Part], progress: Progress | None = None) -> Iterator[Over]:
        """Run the policy over the parts, and yield after each the jobs that are over.

        progress: called with the number of jobs submitted so far. Raises as `simulated.simulate`.
        """
        several, part = iter(parts), None
        following = next(several, None)
        while following is not None:
            part, following = following, next(several, None)
            self._enter(part)
            until = FUTURE if following is None else np.int64(following.workload.jobs.submit[0])
            yield self._run(until, progress)

    def _run(self, until: Any, progress: Progress | None) -> Over:
        known, state, world = self._known, self._state, self._world
        assert known is not None
        world.until = until
        before = self._came - len(known)

        def came(count: int) -> None:
            if progress is not None:
                progress(before + count)

        platform = self._platform_now
        self.passes += run_passes(self._policy, state, world, known.job, platform, self._clock, came)
        if self._queued:
            names = [*self._quotas]
            for row in np.flatnonzero(world.refused_for != -1).tolist():
                known.causes[row] = names[world.refused_for[row]]
        schedule = schedule_of(self._table(known), state, world, self._bound is not None or self._policy.preempts)
        if until == FUTURE:
            check_all_started(self._policy.name, schedule, state, self._clock)
        ended = ~known.yielded & ((world.outcome != NOT_YET) | (until == FUTURE))
        rows = np.flatnonzero(ended)
        known.yielded[rows] = True
        others = np.flatnonzero(~known.yielded)
        return Over(
            known.number[rows],
            known.rows[rows],
            known.procs[rows],
            schedule.take(rows),
            known.number[others],
            schedule.take(others),
        )

    def _table(self, known: "_Known") -> Table:
        whole = WholeNodes(known.own_tasks, known.per_node, np.zeros(0, np.bool_), zeros(len(known.own_tasks), 0))
        return Table(known.job, self._world.submit, self._world.tasks, whole, known.causes, self._described.nodes)

    def _enter(self, part: Part) -> None:
        """Move into a State and a World that have the jobs that are not over, and those of a part."""
        policy, options = self._policy, self._options
        known = {} if self._entry is None else self._entry.accounts
        made = prepare(part.workload, self._described, policy, self._params, options, self._bound, known)
        if self._bound is not None and made.platform.resources != self._described.resources:
            raise UsageError(
                f"{part.workload.name}: some jobs ask for no resource, which a stream cannot tell before they come; "
                "use simulate, or no events"
            )
        alone = without_accounts(made.platform, len(self._described.licences))
        if self._entry is None:
            self._entry = Entry(alone, policy, self._pool)
        entry, kept = self._entry, None
        if self._state is not None and self._known is not None:
            kept = Kept.of(self._state, policy, np.flatnonzero(self._known.yielded), runs=True)
            entry.forget(kept)
        some = entry.take(made.jobs, made.platform, made.estimate)
        room = entry.room
        if self._counts:
            room = replace(room, accounts=max(room.accounts, 1))
        state = self._new_state(alone, room, some)
        if kept is not None:
            move_into(self._state, state, policy, kept)
        entry.write(state, some)
        self._world = self._new_world(made, part, some, state, kept)
        more = _Known.of(part, made, np.arange(self._came, self._came + len(part.rows)))
        self._known = more if kept is None or self._known is None else self._known.followed(kept.jobs, more)
        self._state, self._platform_now = state, made.platform
        self._came += len(part.rows)
        self.most_rows = max(self.most_rows, room.rows)

    def _new_state(self, alone: Platform, room: Room, some: Entrants) -> Any:
        sizes = np.ascontiguousarray(some.columns["need"][:, 0])
        values, seed = self._policy.values(self._params), self._options.seed
        state = new_state(alone, self._policy, values, room, sizes=sizes, seed=seed, recorded=self._policy.booked)
        if self._bound is not None:
            use_plan(state)
        return state

    def _new_world(self, made: Prepared, part: Part, some: Entrants, state: Any, kept: Kept | None) -> Any:
        """Return a World of the jobs that are kept, followed by those of a part."""
        firsts, licences, counts, _ = some.items
        given: dict[str, Any] = {"row": column(part.rows), "licence_first": firsts}
        given |= {"licence": column(licences), "copies": column(counts[:, 0])}
        quotas, left = self._counted(made)
        if self._queued:
            n = len(part.rows)
            given |= {"quota_first": column(made.quotas.asked.first), "quota_item": quotas, "quota_left": left}
            given |= {"refused_for": np.full(n, -1), "queued": np.zeros(n, np.int8)}
        accounts = slice(len(self._described.licences), int(state.machine.licences + state.machine.accounts))
        if kept is None:
            given |= {"book_licences": np.append(self._described.copies, state.machine.copies[accounts])}
            given |= {"base_copies": given["book_licences"].reshape(-1, 1).copy()}
            given |= {"less_copies": np.zeros_like(given["book_licences"])}
            return world_of(made, self._options, self._policy, **given)
        old, new = self._world, world_of(replace(made, bound=None), self._options, self._policy, **given)
        found = {name: getattr(old, name) for name in fields_of(old)}
        found = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in found.items()}
        there, came = kept.jobs, len(part.rows)
        found["jobs"] = len(there) + came
        preempts, stepping = self._policy.preempts, self._options.ties == "step"
        used = [*JOBS, *(["refused_for", "queued"] if self._queued else [])]
        for name in [*used, *(["done", "owed", "anew"] if preempts else [])]:
            found[name] = np.concatenate([found[name][there], getattr(new, name)])
        if preempts:
            found["anew"][: len(there)] = renumbered(found["anew"][: len(there)], kept.runs)
        for name in ["due", "cut", *(["gone"] if stepping else []), *(["kept"] if preempts else [])]:
            row = np.zeros(max(len(kept.runs), found["jobs"]), found[name].dtype)
            row[: len(kept.runs)] = found[name][kept.runs]
            found[name] = row
        for first, columns in (("licence_first", ("licence", "copies")), ("quota_first", ("quota_item",))):
            if first == "quota_first" and not self._queued:
                continue
            places, begin = items(found[first], there), begins(found[first], there)
            for name in columns:
                found[name] = np.concatenate([found[name][places], getattr(new, name)])
            found[first] = np.concatenate([begin, begin[-1] + getattr(new, first)[1:]])
        found["after_first"] = zeros(found["jobs"] + 1)
        if not self._queued:
            found["quota_first"] = zeros(found["jobs"] + 1)
        found |= self._heaps(old, kept)
        fresh = state.machine.copies[len(old.book_licences) : accounts.stop]
        found["book_licences"] = np.append(found["book_licences"], fresh)
        found["base_copies"] = np.vstack([found["base_copies"], fresh.reshape(-1, 1)])
        found["less_copies"] = np.append(found["less_copies"], np.zeros_like(fresh))
        found["quota_left"] = np.append(found["quota_left"], left[len(found["quota_left"]) :])
        return World(**found)

    def _heaps(self, old: Any, kept: Kept) -> dict[str, Any]:
        """Return the heaps of ends and limits without void entries, and sorted, which a heap may be."""
        runs, found = self._state.runs, dict[str, Any]()
        for count, times, which, true in (
            ("ends", "end_time", "end_run", old.due),
            ("overs", "over_time", "over_run", runs.limit),
        ):
            many = int(getattr(old, count))
            time, run = getattr(old, times)[:many], getattr(old, which)[:many]
            valid = (runs.how[run] == RUNNING) & (true[run] == time)
            order = np.lexsort((run[valid], time[valid]))
            room = zeros(max(len(getattr(old, times)), 1))
            found |= {count: len(order), times: room, which: room.copy()}
            found[times][: len(order)] = time[valid][order]
            found[which][: len(order)] = renumbered(run[valid][order], kept.runs)
        return found

    def _counted(self, made: Prepared) -> tuple[Ints, Ints]:
        """Return the accounts of limits on queued jobs that count each job, and the most jobs of each account."""
        numbers, left = self._quotas, np.full(len(self._quotas), 0, np.int64)
        fresh = [i for i, name in enumerate(made.quotas.names) if name not in numbers]
        numbers |= {made.quotas.names[i]: len(numbers) + place for place, i in enumerate(fresh)}
        of = np.array([numbers[name] for name in made.quotas.names], np.int64)
        return of[made.quotas.asked.items], np.append(left, made.quotas.most[fresh])


@dataclass(frozen=True, eq=False)
class _Known:
    """Facts of the jobs in the rows of a State that the State does not hold."""

    job: NDArray[Any]
    number: Ints
    rows: Ints
    procs: Ints
    own_tasks: Ints
    per_node: Ints
    causes: NDArray[Any]
    yielded: NDArray[np.bool_]  # it is over, and was yielded

    @classmethod
    def of(cls, part: Part, made: Prepared, number: Ints) -> "_Known":
        """Return what is known of the jobs of a part."""
        whole, jobs = made.whole, part.workload.jobs
        yielded = np.zeros(len(number), np.bool_)
        return cls(jobs.job, number, part.rows, jobs.procs, whole.tasks, whole.per_node, made.causes, yielded)

    def __len__(self) -> int:
        return len(self.job)

    def followed(self, rows: Ints, more: "_Known") -> "_Known":
        """Return these rows, followed by others."""
        return _Known(
            *(np.concatenate([getattr(self, each.name)[rows], getattr(more, each.name)]) for each in fields(self))
        )
