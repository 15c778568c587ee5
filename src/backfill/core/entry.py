"""Enter jobs into the rows of a State: turn their requests into numbers, given the platform and the earlier jobs.

A simulation enters its whole log at once, a queue enters each job when it becomes known. The numbers of a job do not
depend on later jobs. The policy cannot see a row until its job is submitted (transitions.py).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import int64
from numpy.typing import NDArray

from backfill.compiler.kernel import apart
from backfill.compiler.record import column, doubled, doubled_rows, replace_array
from backfill.core.compact import Kept
from backfill.core.jobs import LicenceItems
from backfill.core.numbers import Numbers, Remembers
from backfill.core.place.kinds import CODES, Kinds
from backfill.core.place.placement import DISTINCT, NODE
from backfill.core.place.seating import CONTIGUOUS, PACK, POWER, SPREAD
from backfill.core.plan.profile import fill_lanes
from backfill.core.policy import Policy
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Jobs

MANY = 4_096  # number of different requests that are remembered
# The layout of a job for `write_row`: these, priorities by their bits; then its demand, need, items and their counts.
(
    ROW, SUBMIT, WALLTIME, DEADLINE, USER, GROUP, PROJECT, OF, PRIORITY, ADMIN_PRIORITY,
    TASKS, SPREAD_, MOST, ALONE, BOUND, SHAPE, PLACE, ITEMS, LICENCES, HEAD,
) = np.arange(20)  # fmt: skip
OWN = {"need", "most", "alone", "bound", "place", "user", "group", "project"}  # columns that `take` makes
RULES = {"power": POWER, "pack": PACK, "spread": SPREAD, "contiguous": CONTIGUOUS, "exclusive": POWER}


@dataclass(frozen=True, slots=True)
class Room:
    """The capacity of a State: numbers of rows, shapes and accounts."""

    rows: int
    shapes: int  # of jobs among nodes
    accounts: int  # of limits on running jobs

    def holds(self, other: "Room") -> bool:
        """Return whether every number is at least that of the other."""
        return self.rows >= other.rows and self.shapes >= other.shapes and self.accounts >= other.accounts

    def doubled_for(self, other: "Room") -> "Room":
        """Return a capacity that holds the other one, and twice as much of what this one lacks for it."""
        return Room(
            self.rows if self.rows >= other.rows else 2 * other.rows,
            self.shapes if self.shapes >= other.shapes else min(2 * other.shapes, CODES),
            self.accounts if self.accounts >= other.accounts else 2 * other.accounts,
        )


@dataclass(frozen=True, slots=True)
class Entrants:
    """Jobs whose numbers are known but whose rows are not written yet."""

    first: int  # row of the first job
    jobs: Jobs
    columns: dict[str, Any]  # of the job table
    items: LicenceItems
    project: Ints  # a job without a project is a project of its own
    lasting: bool  # whether later jobs with the same request get the same numbers


@dataclass(frozen=True, slots=True)
class Alike:
    """The numbers shared by all jobs with the same request (a row of `write_row`), and the caller's data about them."""

    numbers: Ints
    also: Any


class Entry(Remembers):
    """The numbers given so far to jobs, users, projects and shapes, on one platform."""

    def __init__(self, platform: Platform, policy: Policy, pool: bool) -> None:
        """Start without jobs.

        platform: with its floating licences, without accounts of limits. pool: whether it is a single pool, see
        machine.py.
        """
        self._platform, self._pool = platform, pool
        self._rules = [RULES[each.place or policy.place] for each in platform.partitions] + [RULES[policy.place]]
        self._kinds = Kinds(platform.capacity, pool)
        self._users, self._groups, self._named, self._projects = Numbers(), Numbers(), Numbers(), Numbers()
        numbers = {"user": self._users, "group": self._groups, "project": self._named}
        for target in platform.targets:  # they have the first numbers, see setup.py
            numbers[target.per].of_one(target.name)
        self._constraints, self._sets, self._accounts = Numbers(), Numbers(), Numbers()
        self._allowed = np.zeros((0, len(platform.nodes)), np.int8)
        self._copies: list[int] = []  # of each account
        self._rows, self._began = 0, False
        self.known: dict[Hashable, Alike] = {}

    @property
    def room(self) -> Room:
        """Return the capacity that a State needs for the jobs so far."""
        return Room(self._rows, len(self._kinds), len(self._copies))

    @property
    def users(self) -> list[str]:
        """Return the users by their numbers."""
        return [*self._users.known]

    def number_of(self, user: str) -> int:
        """Return the number of a user, who may have had no job so far; -1 for an empty name."""
        return self._users.of_one(user)

    @property
    def accounts(self) -> dict[str, int]:
        """Return the numbers of the accounts of limits that count jobs so far."""
        return self._accounts.known

    @property
    def projects(self) -> list[str]:
        """Return the names of the projects, by their numbers."""
        return [*self._named.known]

    def forget(self, kept: Kept) -> None:
        """Keep only the jobs that are kept."""
        self._rows = len(kept.jobs)
        self._projects.forget(kept.projects)
        self._kinds.forget(kept.jobs)

    def take(self, jobs: Jobs, platform: Platform, estimate: Ints) -> Entrants:
        """Assign the next rows to these jobs.

        jobs: in queue order (submit, then file order), resources and licences those of the platform, which may be
        followed by accounts of limits. estimate: the walltime that the policy may count on.
        """
        n, first = len(jobs), self._rows
        need = np.ascontiguousarray(jobs.demand * jobs.tasks[:, None])
        bound, items, exact = self._bound(jobs), self._items(jobs, platform), self._kinds.exact
        shape = self._kinds.of(first, jobs, need, bound, items)
        lasting = exact == self._kinds.exact
        if not lasting:
            self.known = {}
        partition = jobs.partition.codes if len(self._rules) > 1 else np.broadcast_to(-1, n)
        columns: dict[str, Any] = {
            "submit": jobs.submit,
            "walltime": estimate,
            "tasks": jobs.tasks,
            "demand": jobs.demand,
            "need": need,
            "spread": jobs.spread,
            "most": np.where(jobs.spread == DISTINCT, 1, jobs.tasks),
            "alone": (jobs.spread == NODE) | (jobs.tasks == 1),
            "bound": bound,
            "place": np.array(self._rules, np.int8)[partition],
            "deadline": jobs.deadline,
            "priority": jobs.priority,
            "admin_priority": jobs.admin_priority,
            "user": self._users.of(jobs.user.codes, jobs.user.names),
            "group": self._groups.of(jobs.group.codes, jobs.group.names),
            "project": self._named.of(jobs.project.codes, jobs.project.names),
        }
        if not self._pool:
            columns["shape"] = shape
        self._rows += n
        project = self._projects.of(jobs.project.codes, jobs.project.names, alone=True)
        return Entrants(first, jobs, columns, items, project, lasting)

    def remember(self, asked: Hashable, some: Entrants, i: int, also: Any) -> None:
        """Remember the numbers of the i-th of these jobs for later jobs with the same request.

        None of them has dependencies. asked: a key of everything that determines the numbers, except walltime,
        deadline, user, group and project.
        """
        if not some.lasting:
            return
        if len(self.known) == MANY:
            self.known = {}
        got = {name: values[i] for name, values in some.columns.items()}
        firsts, items, counts, limits = some.items
        mine = slice(firsts[i], firsts[i + 1])
        numbers = np.concatenate(
            [np.zeros(HEAD, np.int64), got["demand"], got["need"], items[mine], counts[mine, 0]], dtype=np.int64
        )
        for place, name in (
            (TASKS, "tasks"), (SPREAD_, "spread"), (MOST, "most"), (ALONE, "alone"), (BOUND, "bound"), (PLACE, "place")
        ):  # fmt: skip
            numbers[place] = got[name]
        numbers[SHAPE] = got.get("shape", 0)
        numbers[ITEMS], numbers[LICENCES] = firsts[i + 1] - firsts[i], limits[i] - firsts[i]
        numbers.view(np.float64)[[PRIORITY, ADMIN_PRIORITY]] = got["priority"], got["admin_priority"]
        self.known[asked] = Alike(numbers, also)

    def take_alike(
        self, numbers: Ints, submit: int, walltime: int, deadline: int, user: str, group: str, project: str
    ) -> Ints:
        """Assign the next row to one more job whose request is remembered. Return the numbers for `write_row`."""
        row = numbers.copy()
        row[:PRIORITY] = (
            self._rows, submit, walltime, deadline,
            self._users.of_one(user), self._groups.of_one(group), self._named.of_one(project),
            self._projects.of_one(project, alone=True),
        )  # fmt: skip
        self._rows += 1
        return row

    def write(self, state: Any, some: Entrants, only: bool = False) -> None:
        """Fill the rows of these jobs in a State that has the capacity for them.

        only: whether these are all jobs that the State ever has, one for each row. Then it takes over the columns that
        were made for it.
        """
        table, n, first = state.jobs, len(some.jobs), some.first
        rows = slice(first, first + n)
        new = not self._began  # then all rows are as `new_jobs` made them; zeros that nobody writes need no memory
        if n and new:
            self._began, table.origin = True, int(some.jobs.submit[0])
        for name, values in some.columns.items():
            old = getattr(table, name)
            if only and name in OWN:
                replace_array(table, name, column(values, old.dtype))
            elif not new or values.any():
                old[rows] = values
        firsts, items, counts, limits = some.items
        if not new or len(items):
            used = int(table.licence_first[first])
            _append(table, "licence", used, items)
            _append(table, "licence_count", used, counts)
            table.licence_first[first + 1 : first + n + 1] = used + firsts[1:]
            table.limit_first[rows] = used + limits
        after = some.jobs.after
        if not new or len(after.items):
            known = int(table.after_first[first])
            _append(table, "after", known, after.items)
            table.after_first[first + 1 : first + n + 1] = known + after.first[1:]
        if state.runs.preempts:
            state.runs.whole[rows] = some.columns["walltime"]
        if state.runs.dangles:
            state.runs.ready[rows] = np.diff(after.first) == 0
        if only:
            replace_array(state.projects, "of", column(some.project, np.int32))
        else:
            state.projects.of[rows] = some.project
        for plan in (state.plan, state.other):
            if n:
                plan.rooms_origin = min(plan.rooms_origin, int(some.jobs.submit.min()))
        if len(self._allowed) > len(state.machine.allowed):
            replace_array(state.machine, "allowed", self._allowed.copy())
        if len(self._copies) > state.machine.accounts:
            self._open_accounts(state)
        if not state.machine.pool:
            self._kinds.write(state.free.shapes)

    def _bound(self, jobs: Jobs) -> Ints:
        """Return the set of nodes to which site, constraint and partition bind each job: a row of machine.allowed.

        -1 stands for all nodes.
        """
        platform, n = self._platform, len(jobs)
        if not (jobs.site.names or jobs.constraint.names or platform.partitions):
            return np.full(n, -1, np.int32)
        partition = jobs.partition.codes if platform.partitions else np.full(n, -1)
        constraint = self._constraints.of(jobs.constraint.codes, jobs.constraint.names)
        keys = (
            ((constraint.astype(np.int64) + 1) << 40) + ((partition.astype(np.int64) + 1) << 20) + jobs.site.codes + 1
        )
        bound = self._sets.of(np.where(keys > 0, keys, -1))
        new = [key for key, number in self._sets.known.items() if number >= len(self._allowed)]
        for key in sorted(new, key=self._sets.known.__getitem__):
            row = int(np.argmax(keys == key))
            name = jobs.partition[row] if partition[row] >= 0 else ""
            some = platform.within(name, jobs.site.codes[row], jobs.constraint[row])
            self._allowed = np.vstack([self._allowed, some.astype(np.int8)])
        return bound

    def _items(self, jobs: Jobs, platform: Platform) -> LicenceItems:
        """Return the licences of each job and their copies, followed by the accounts of limits that count the job."""
        asked, floating = jobs.licences, len(self._platform.licences)
        items = asked.items.copy()
        behind = items >= floating
        if behind.any():
            names = platform.licences[floating:]
            items[behind] = floating + self._accounts.of(items[behind] - floating, names)
            copies = dict(zip(names, platform.copies[floating:].tolist(), strict=True))
            new = sorted((number, name) for name, number in self._accounts.known.items() if name in copies)
            self._copies += [copies[name] for number, name in new if number >= len(self._copies)]
        real = np.bincount(asked.jobs[asked.items < floating], minlength=len(jobs))
        return column(asked.first), items, asked.counts.reshape(-1, 1), column(asked.first[:-1] + real)

    def _open_accounts(self, state: Any) -> None:
        """Set the copies of each account of a limit that no job has used before."""
        machine, floating = state.machine, len(self._platform.licences)
        copies = np.array(self._copies[machine.accounts :], np.int64)
        new = slice(floating + machine.accounts, floating + len(self._copies))
        machine.copies[new] = machine.base_copies[new, 0] = state.free.licences[new] = copies
        for plan in (state.plan, state.other):
            fill_lanes(plan.licences, new, copies)
        machine.accounts = len(self._copies)


@apart(told=int64[::1])
def write_row(state, told):
    """Fill the row of one job without dependencies, in a State that has the capacity for it; see `Entry.take_alike`."""
    jobs, row, resources, items = state.jobs, told[ROW], state.machine.resources, told[ITEMS]
    jobs.submit[row], jobs.walltime[row], jobs.deadline[row] = told[SUBMIT], told[WALLTIME], told[DEADLINE]
    jobs.user[row], jobs.group[row], jobs.project[row] = told[USER], told[GROUP], told[PROJECT]
    jobs.tasks[row], jobs.spread[row], jobs.most[row] = told[TASKS], told[SPREAD_], told[MOST]
    jobs.alone[row], jobs.bound[row], jobs.place[row] = told[ALONE], told[BOUND], told[PLACE]
    jobs.priority[row] = told.view(np.float64)[PRIORITY]
    jobs.admin_priority[row] = told.view(np.float64)[ADMIN_PRIORITY]
    if not state.machine.pool:
        jobs.shape[row] = told[SHAPE]
    for k in range(resources):
        jobs.demand[row, k], jobs.need[row, k] = told[HEAD + k], told[HEAD + resources + k]
    begin, used = HEAD + 2 * resources, jobs.licence_first[row]
    while used + items > len(jobs.licence):
        jobs.licence = doubled(jobs.licence)
    while used + items > len(jobs.licence_count):
        jobs.licence_count = doubled_rows(jobs.licence_count)
    for i in range(items):
        jobs.licence[used + i], jobs.licence_count[used + i, 0] = told[begin + i], told[begin + items + i]
    jobs.licence_first[row + 1], jobs.limit_first[row] = used + items, used + told[LICENCES]
    jobs.after_first[row + 1] = jobs.after_first[row]
    if state.runs.preempts:
        state.runs.whole[row] = told[WALLTIME]
    if state.runs.dangles:
        state.runs.ready[row] = 1
    state.projects.of[row] = told[OF]
    state.plan.rooms_origin = min(state.plan.rooms_origin, told[SUBMIT])
    state.other.rooms_origin = min(state.other.rooms_origin, told[SUBMIT])


def _append(record: Any, field: str, used: int, more: NDArray[Any]) -> None:
    """Append rows to the used part of an array of a record; the array grows if it is too short."""
    if not len(more):
        return
    array = getattr(record, field)
    if used + len(more) > len(array):
        longer = np.zeros((max(used + len(more), 2 * used), *array.shape[1:]), array.dtype)
        longer[:used] = array[:used]
        replace_array(record, field, longer)
        array = longer
    array[used : used + len(more)] = more
