"""The thread matrix: the threads of several jobs, side by side, are read off row by row into one queue.

A job is a project here, and a thread a job of it. Who waits forms columns, one for each project, of its threads in
queue order. A block is the smallest square: the first n columns, of which none has more than n threads. Its rows, one
behind the other, go to the end of the line, from which threads start first come first served.

A thread may start before those that it comes after have ended, and holds its processor until they have. The first of
these that still waits gets priority 1: it goes ahead, takes the processor, and the thread that asked for it follows on
the same one. The same holds for what that thread comes after in turn.
"""

from collections.abc import Iterable
from math import inf

from .placement import node_slots
from .profile import Profile
from .twotier import project_of
from .words import Decision, Job, Policy, Reservation, Start, View

STARTED, HELD_BACK, NO_ROOM = "started", "held back", "no room"


def blocks(columns: list[list[int]], n_max: float = inf) -> Iterable[list[int]]:
    """The threads of each block in the order in which they start. Column by column: the threads of each job."""
    while columns:
        n = square(columns, n_max)
        rows = max(len(column) for column in columns[:n])
        yield [column[row] for row in range(rows) for column in columns[:n] if row < len(column)]
        columns = columns[n:]


def square(columns: list[list[int]], n_max: float = inf) -> int:
    """Return how many columns make a block: as many as the largest of them has threads, at most n_max."""
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
        self.follower: dict[int, int] = memory.setdefault("follower", {})  # of a run: who follows on its processor
        self.before: dict[int, int] = memory.setdefault("before", {})  # who goes ahead for the sake of a thread
        self.ahead: list[int] = memory.setdefault("ahead", [])  # who went ahead of others, and waits nowhere else
        self.order: dict[int, tuple[int, int]] = memory.setdefault("order", {})  # of every thread seen so far
        self.order.update({job.row: (job.submit, job.row) for job in view.queue})

    def decide(self) -> Decision:
        cancelled = self.everywhere() - self.waiting.keys()
        for row in sorted(cancelled, key=lambda row: self.order[row]):
            self.give_up(row)
        over = [row for row in self.follower if row in self.waiting or row not in self.view.unfinished]
        for row in sorted(over, key=lambda row: self.order[row]):
            self.urgent.append(self.follower.pop(row))
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
        """All that wait in some column, in the line, first of all, for the end of a run, or went ahead."""
        columns = {row for column in self.columns.values() for row in column}
        return {*columns, *self.line, *self.urgent, *self.follower.values(), *self.ahead}

    def give_up(self, row: int) -> None:
        """A thread was cancelled: who went ahead for its sake takes its place at a processor, or is urgent."""
        run = next((run for run, follower in self.follower.items() if follower == row), None)
        self.take_out(row)
        before = self.before.pop(row, None)
        if before in self.ahead:
            self.ahead.remove(before)
            if run is not None:
                self.follower[run] = before
            else:
                self.urgent.append(before)

    def append_block(self) -> None:
        n = square([*self.columns.values()], self.n_max)
        names = [*self.columns][:n]
        self.line += next(iter(blocks([self.columns.pop(name) for name in names], self.n_max)))

    def start_all(self, rows: list[int]) -> str:
        """Start one after the other until one has no room; those that must not start are passed over."""
        passed: set[int] = set()
        while (row := next((row for row in rows if row not in passed), None)) is not None:
            found = self.dispatch(row)
            if found == NO_ROOM:
                return NO_ROOM
            if found == HELD_BACK:
                passed.add(row)
        return STARTED

    def dispatch(self, row: int) -> str:
        """Give a thread a processor: what it comes after and still waits goes ahead, and it follows there."""
        first = self.waiting[self.go_ahead(row)]
        if self.profile.held_back(first):
            return HELD_BACK
        placement = self.profile.place_now(first)
        if placement is None:
            return HELD_BACK if self.is_kept_by_a_window(first) else NO_ROOM
        self.take_out(row)
        if first.row != row:
            self.take_out(first.row)
            self.follower[first.row] = row
        self.starts.append(Start(first, placement, "thread"))
        self.profile.book(first, Reservation(self.view.now, placement))
        del self.waiting[first.row]
        return STARTED

    def go_ahead(self, row: int) -> int:
        """Who starts for a thread: the first waiting one that it comes after, in turn the first of that; else itself.

        Who once went ahead for a thread does so as long as it waits.
        """
        if self.before.get(row) not in self.waiting:
            self.before.pop(row, None)
            before = next((each for each in self.waiting[row].after if each in self.waiting), None)
            if before is None:
                return row
            self.take_out(before)
            self.ahead.append(before)
            self.before[row] = before
        return self.go_ahead(self.before[row])

    def is_kept_by_a_window(self, job: Job) -> bool:
        """Whether it has no room because it would dangle into a window; who makes progress at once may have some."""
        platform, room = self.view.platform, self.profile.rooms[0]
        idle = sum(room[node_slots(platform, node)[0]] for node in range(len(platform.nodes)))
        return self.view.windows and not job.ready and idle > 0

    def take_out(self, row: int) -> None:
        """From where it waits."""
        for rows in (self.line, self.urgent, self.ahead, *self.columns.values()):
            if row in rows:
                rows.remove(row)
        for name in [name for name, column in self.columns.items() if not column]:
            del self.columns[name]
        for run in [run for run, follower in self.follower.items() if follower == row]:
            del self.follower[run]
