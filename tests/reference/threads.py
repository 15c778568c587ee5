"""The thread matrix: the threads of several jobs, side by side, are read off row by row into one queue.

A job is a project here, and a thread a job of it. Who waits forms columns, one for each project, of its threads in
queue order. A block is the smallest square: the first n columns, of which none has more than n threads. Its rows, one
behind the other, go to the end of the line, from which threads start first come first served.

A thread may start before those that it comes after have ended, and holds its processor until they have. One that is not
running yet gets priority 1: it takes the processor, and the thread that asked for it follows on the same one.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import inf

from .profile import Profile
from .twotier import project_of
from .words import Decision, Policy, Reservation, Start, View

STARTED, HELD_BACK, NO_ROOM = "started", "held back", "no room"


def blocks(columns: list[list[int]], n_max: float = inf) -> Iterable[list[int]]:
    """The threads of each block in the order in which they start. Column by column: the threads of each job."""
    while columns:
        n = square(columns, n_max)
        rows = max(len(column) for column in columns[:n])
        yield [column[row] for row in range(rows) for column in columns[:n] if row < len(column)]
        columns = columns[n:]


def square(columns: list[list[int]], n_max: float = inf) -> int:
    """How many columns make a block: as many as the largest of them has threads, at most n_max."""
    n = len(columns[0])
    while (big := max(len(column) for column in columns[:n])) > n:
        n = big
    return int(min(n, n_max, len(columns)))


def thread_matrix(n_max: float = inf, eager: bool = False) -> Policy:
    """eager: a block is formed at each submit; else when the line is empty."""

    def decide(view: View) -> Decision:
        return Pass(view, n_max, eager).decide()

    decide.dangles = True  # type: ignore[attr-defined]
    return decide


class Pass:
    def __init__(self, view: View, n_max: float, eager: bool):
        self.view, self.n_max, self.eager = view, n_max, eager
        self.profile, self.starts = Profile.of_running(view), list[Start]()
        self.waiting = {job.row: job for job in view.queue}
        memory = view.memory
        self.columns: dict[str, list[int]] = memory.setdefault("columns", {})
        self.line: list[int] = memory.setdefault("line", [])
        self.urgent: list[int] = memory.setdefault("urgent", [])  # who is first, since the run before it is over
        self.behind: dict[int, int] = memory.setdefault("behind", {})  # who follows whom on the same processor
        self.order: dict[int, tuple[int, int]] = memory.setdefault("order", {})  # of every thread seen so far
        self.order.update({job.row: (job.submit, job.row) for job in view.queue})

    def decide(self) -> Decision:
        for row in self.everywhere() - self.waiting.keys():  # cancelled
            self.take_out(row)
        over = [row for row in self.behind if self.is_over(row)]
        for row in sorted(over, key=lambda row: self.order[row]):
            self.urgent.append(self.behind.pop(row))
        for job in self.view.queue:
            if job.row not in self.everywhere():
                self.columns.setdefault(project_of(job), []).append(job.row)
        if self.eager:
            while self.columns:
                self.append_block()
        if self.start_all(self.urgent) != NO_ROOM:
            while self.start_all(self.line) != NO_ROOM and self.columns:
                self.append_block()
        return Decision(self.starts)

    def everywhere(self) -> set[int]:
        """All that wait in some column, in the line, first of all, or behind another one."""
        columns = {row for column in self.columns.values() for row in column}
        return {*columns, *self.line, *self.urgent, *self.behind.values()}

    def is_over(self, row: int) -> bool:
        """Whether a thread that has one behind it runs no more. It waits behind another one itself, or ran."""
        if row in self.behind.values() or row in self.urgent:
            return False
        return row in self.waiting or row not in self.view.unfinished

    def append_block(self) -> None:
        n = square([*self.columns.values()], self.n_max)
        names = [*self.columns][:n]
        self.line += next(iter(blocks([self.columns.pop(name) for name in names], self.n_max)))

    def start_all(self, rows: list[int]) -> str:
        """Start one after the other until one has no room; those that a limit holds back are passed over."""
        passed: set[int] = set()
        while (row := next((row for row in rows if row not in passed), None)) is not None:
            found = self.dispatch(row)
            if found == NO_ROOM:
                return NO_ROOM
            if found == HELD_BACK:
                passed.add(row)
        return STARTED

    def dispatch(self, row: int) -> str:
        """Give a thread a processor: the first that it comes after and that does not run starts there, else itself."""
        chain = self.not_running(row, [])
        if any(self.profile.held_back(self.waiting[each]) for each in chain):
            return HELD_BACK
        first = self.waiting[chain[0]]
        placement = self.profile.place_now(first)
        if placement is None:
            return NO_ROOM
        for each in chain[:-1]:
            self.take_out(each)
            if each in self.behind:
                self.urgent.append(self.behind.pop(each))
        (self.urgent if row in self.urgent else self.line).remove(row)
        self.behind.update(pairwise(chain))
        self.starts.append(Start(first, placement, "thread"))
        self.profile.book(first, Reservation(self.view.now, placement))
        del self.waiting[first.row]
        return STARTED

    def not_running(self, row: int, found: list[int]) -> list[int]:
        """All that the thread comes after and that neither run nor are over, each behind its own, and the thread."""
        for before in self.waiting[row].after:
            if before in self.waiting and before not in found:
                self.not_running(before, found)
        found.append(row)
        return found

    def take_out(self, row: int) -> None:
        """From where it waits. Behind another one, the next on that processor moves up."""
        for rows in (self.line, self.urgent, *self.columns.values()):
            if row in rows:
                rows.remove(row)
        for name in [name for name, column in self.columns.items() if not column]:
            del self.columns[name]
        for ahead in [ahead for ahead, each in self.behind.items() if each == row]:
            del self.behind[ahead]
            if row in self.behind:
                self.behind[ahead] = self.behind.pop(row)
