"""An Ousterhout matrix: rows of jobs take turns on all processors; jobs wait first come first served, or by EASY.

Source: Zhang, Franke, Moreira and Sivasubramaniam, IPDPS 2000.
"""

from fractions import Fraction
from math import ceil

from .lanes import FUTURE
from .limits import held_back, holds_turn, in_turn, keep_turn
from .placement import held, minus, node_slots, place, place_to_start
from .words import Decision, Job, Placement, Policy, Reservation, Room, Running, Start, Time, View


def gang_matrix(
    mpl: int = 5,
    quantum: str = "200",
    switch: str = "10",
    repack: bool = True,
    alternative: bool = True,
    backfill: bool = False,
) -> Policy:
    """mpl: rows that there may be; quantum, switch: a turn, and what the switch to it takes, in seconds."""
    lost = Fraction(round(1_000_000 * float(switch) / float(quantum)), 1_000_000)

    def decide(view: View) -> Decision:
        return Pass(view, mpl, lost, repack, alternative).decide(backfill)

    decide.sharing = mpl, lost
    return decide


class Pass:
    def __init__(self, view: View, mpl: int, lost: Fraction, repack: bool, alternative: bool):
        self.view, self.mpl, self.repack, self.alternative = view, mpl, repack, alternative
        self.platform, self.now = view.platform, view.now
        self.slowest = Fraction(1, mpl) * (1 - lost if mpl > 1 else 1)
        self.running = list(view.running)
        self.row: dict[int, int] = view.memory.setdefault("row", {})  # of each job that runs
        self.decision = Decision()

    def decide(self, backfill: bool) -> Decision:
        self.tidy()
        queue, reason = in_turn(self.view, self.view.queue), "head"
        while queue:
            job = queue.pop(0)
            if self.start_somewhere(job, reason):
                continue
            if held_back(self.platform, job, self.free()) and not (backfill and holds_turn(self.view, job)):
                continue
            if not backfill:
                break
            reason = "backfill"
            if found := self.shadow(job):
                keep_turn(self.view, self.view.queue, job, self.free())
                self.fill([other for other in self.view.queue if other in queue], job, *found)
                break
        self.take_turns()
        return self.decision

    # The matrix

    def tidy(self) -> None:
        """Rows without jobs are gone; jobs move first fit decreasing, if that needs fewer rows."""
        used = sorted({self.row[r.job.row] for r in self.running})
        rows = {r.job.row: used.index(self.row[r.job.row]) for r in self.running}
        self.row.clear()
        packed = self.packed()
        better = self.repack and max(packed.values(), default=0) < max(rows.values(), default=0)
        self.row.update(packed if better else rows)

    def packed(self) -> dict[int, int]:
        rows: dict[int, int] = {}
        for r in sorted(self.running, key=lambda r: -r.job.procs):
            row = 0
            while not self.has_idle(row, r, [other for other in self.running if rows.get(other.job.row) == row]):
                row += 1
            rows[r.job.row] = row
        return rows

    def has_idle(self, row: int, r: Running, there: list[Running]) -> bool:
        """Do the processors of a run lie idle beside those that are in a row?"""
        idle = self.idle(there)
        return all(tasks * r.job.demand[0] <= idle[node] for node, tasks in r.placement)

    def idle(self, there: list[Running]) -> list[int]:
        """The cpus of each node that these do not have."""
        idle = [self.view.capacity[0][1][node_slots(self.platform, n)[0]] for n in range(len(self.platform.nodes))]
        for r in there:
            for node, tasks in r.placement:
                idle[node] -= tasks * r.job.demand[0]
        return idle

    def in_row(self, row: int, running: list[Running]) -> list[Running]:
        return [r for r in running if self.row[r.job.row] == row]

    def used(self) -> int:
        return max((self.row[r.job.row] + 1 for r in self.running), default=0)

    def take_turns(self) -> None:
        rows = [self.in_row(row, self.running) for row in range(self.used())]
        for r in self.running:
            turns = {self.row[r.job.row]}
            for row, there in enumerate(rows):
                if self.alternative and row not in turns and self.has_idle(row, r, there):
                    there.append(r)
                    turns.add(row)
            self.decision.turns[r.job.row] = frozenset(turns), len(rows)

    # Starts

    def free(self, running: list[Running] | None = None) -> Room:
        free = self.view.capacity[0][1]
        for r in self.running if running is None else running:
            free = minus(free, r.held)
        return free

    def room(self, job: Job, t: Time, running: list[Running], row: int) -> Room:
        """Return what is free from t on if these run: the idle cpus of a row, and all else that no job holds."""
        room = self.free(running)
        for node, cpus in enumerate(self.idle(self.in_row(row, running))):
            room[node_slots(self.platform, node)[0]] = cpus
        return minus(room, self.away(t, t + max(self.stay(job), 1)))

    def away(self, t: Time, until: Time) -> Room:
        """Return how far the capacity falls below the present one in [t, until), by the known windows."""
        now, least = self.view.capacity[0][1], None
        ends = [time for time, _ in self.view.capacity[1:]] + [until]
        for (begin, there), end in zip(self.view.capacity, ends, strict=True):
            if begin < until and end > t:
                least = there if least is None else [min(a, b) for a, b in zip(least, there, strict=True)]
        return minus(now, least)

    def stay(self, job: Job) -> Time:
        return ceil(job.estimate / self.slowest)

    def start_somewhere(self, job: Job, reason: str) -> bool:
        for row in range(min(self.used() + 1, self.mpl)):
            if placement := place_to_start(self.platform, job, self.room(job, self.now, self.running, row)):
                self.start(job, row, placement, reason)
                return True
        return False

    def start(self, job: Job, row: int, placement: Placement, reason: str) -> None:
        self.row[job.row] = row
        self.running.append(self.as_running(job, placement))
        self.decision.starts.append(Start(job, placement, reason))

    def as_running(self, job: Job, placement: Placement) -> Running:
        return Running(job, self.now, placement, held(self.platform, job, placement))

    # Backfilling

    def end(self, r: Running) -> Time:
        """The latest end, if the walltime holds."""
        return self.now + max(ceil((r.job.estimate - r.made) / self.slowest), 0)

    def shadow(self, job: Job) -> tuple[int, Time] | None:
        """The row in which a job may start first, and when."""
        instants = {self.now, *map(self.end, self.running), *(t for t, _ in self.view.capacity)}
        for t in sorted(t for t in instants if t < FUTURE):
            for row in range(self.mpl):
                stay = [r for r in self.running if self.end(r) > t]
                if placement := place(self.platform, job, self.room(job, t, stay, row)):
                    self.decision.promises[job.row] = Reservation(t, placement)
                    return row, t
        return None

    def fill(self, queue: list[Job], head: Job, its_row: int, shadow: Time) -> None:
        """Start whoever leaves the head its room at its shadow time."""
        then = [r for r in self.running if self.end(r) > shadow]
        for job in queue:
            for row in range(min(self.used() + 1, self.mpl)):
                placement = place_to_start(self.platform, job, self.room(job, self.now, self.running, row))
                if placement is None:
                    continue
                stays = self.now + self.stay(job) > shadow
                self.row[job.row] = row
                beside = [*then, self.as_running(job, placement)]
                if stays and place(self.platform, head, self.room(head, shadow, beside, its_row)) is None:
                    del self.row[job.row]
                    continue
                then = beside if stays else then
                self.start(job, row, placement, "backfill")
                break
