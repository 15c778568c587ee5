"""Space sharing: each job, here a project, gets a partition of the processors, in which its threads run.

Remembered are the line of jobs that wait for a partition, the size of each partition, and the threads that wait in
it, in order; the rest is counted anew in each pass.
"""

from math import inf

from .profile import Profile
from .twotier import project_of
from .words import Decision, Job, Policy, Reservation, Start, Time, View


def partitions(rule: str, count: int = 8, backfill: str = "none", free: str = "job") -> Policy:
    """rule: `fixed` (into `count` equal partitions), `variable` or `adaptive`."""

    def decide(view: View) -> Decision:
        return Pass(view, rule, count, backfill, free).decide()

    return decide


def dynamic_partitions(view: View) -> Decision:
    """The machine is divided equally, anew in every pass."""
    return Equal(view, "dynamic", 0, "none", "job").decide()


class Pass:
    def __init__(self, view: View, rule: str, count: int, backfill: str, free: str):
        self.view, self.rule, self.count, self.backfill, self.free = view, rule, count, backfill, free
        self.profile, self.decision = Profile.of_running(view), Decision()
        resources = len(view.platform.nodes[0].capacity)
        self.processors = sum(view.capacity[0][1][node * resources] for node in range(len(view.platform.nodes)))
        self.waiting = {job.row: job for job in view.queue}
        memory = view.memory
        self.threads: dict[int, Job] = memory.setdefault("threads", {})  # all that were seen
        self.threads.update({job.row: job for job in (*view.submitted, *view.queue, *(r.job for r in view.running))})
        self.lists: dict[str, list[int]] = memory.setdefault("lists", {})  # the threads that wait, of each project
        self.running: list[int] = memory.setdefault("running", [])
        self.over: set[int] = memory.setdefault("over", set())
        self.line: list[str] = memory.setdefault("line", [])
        self.sizes: dict[str, int] = memory.setdefault("sizes", {})  # of the partitions, in order of their begin
        self.overtook: set[str] = memory.setdefault("overtook", set())
        self.counted: dict[str, set[int]] = memory.setdefault("counted", {})  # threads known when one last arrived

    def decide(self) -> Decision:
        self.note_what_happened()
        for project in list(self.sizes):
            self.run_threads(project)
            self.give_up_if_idle(project)
        self.give_partitions()
        return self.decision

    def note_what_happened(self) -> None:
        self.over.update(self.view.left)
        for rows in self.lists.values():
            rows[:] = [row for row in rows if row in self.waiting]
        self.line[:] = [project for project in self.line if self.lists[project]]
        dropped = self.view.dropped.intersection(self.threads) - self.over
        self.over.update(dropped)
        ended = [row for row in self.running if row in self.waiting or row not in self.view.unfinished]
        self.over.update(ended)
        self.running[:] = [row for row in self.running if row not in ended]
        there = {row for rows in self.lists.values() for row in rows}
        for job in self.view.queue:
            if job.row not in there:
                self.arrive(job, project_of(job))
        if self.free == "thread":
            fewer = {
                project_of(self.threads[row]) for row in (*ended, *self.view.left, *dropped) if row in self.threads
            }
            for project in fewer.intersection(self.sizes):
                self.sizes[project] = min(self.sizes[project], self.left(project))

    def arrive(self, job: Job, project: str) -> None:
        self.over.discard(job.row)
        self.counted[project] = {row for row, each in self.threads.items() if project_of(each) == project}
        self.lists.setdefault(project, []).append(job.row)
        if project not in self.sizes and project not in self.line:
            self.line.append(project)

    def left(self, project: str) -> int:
        """The processors for which the threads ask that are not over."""
        return sum(self.threads[row].procs for row in self.counted[project] - self.over)

    def used(self, project: str) -> list[int]:
        return [row for row in self.running if project_of(self.threads[row]) == project]

    @property
    def idle(self) -> int:
        return self.processors - sum(self.sizes.values())

    def run_threads(self, project: str) -> None:
        for row in list(self.lists[project]):
            job = self.waiting[row]
            if self.profile.held_back(job):
                continue
            used = sum(self.threads[each].procs for each in self.used(project))
            placement = self.profile.place_now(job)
            if used + job.procs > self.sizes[project] or placement is None:
                return
            self.lists[project].remove(row)
            self.running.append(row)
            reason = "backfill" if project in self.overtook else "thread"
            self.decision.starts.append(Start(job, placement, reason))
            self.profile.book(job, Reservation(self.view.now, placement))

    def give_up_if_idle(self, project: str) -> None:
        if not self.used(project):
            del self.sizes[project]
            if self.lists[project]:
                self.line.append(project)

    def give_partitions(self) -> None:
        head, beside, shadow = None, 0, inf
        for project in list(self.line):
            if head is not None and self.idle <= 0:
                return
            if self.rule == "fixed" and len(self.sizes) == self.count:
                return
            if all(self.profile.held_back(self.waiting[row]) for row in self.lists[project]):
                continue
            size = self.size_for(project)
            if size > self.idle:
                if self.backfill == "none":
                    return
                if head is None and self.backfill == "easy":
                    shadow, beside = self.find_shadow(size)
                    self.promise(project, shadow)
                head = head or project
                continue
            delays = head is not None and self.view.now + self.time_of(project, size) > shadow
            if delays and size > beside:
                continue
            self.overtook.discard(project)
            if head is not None:
                self.overtook.add(project)
            self.sizes[project] = size
            self.run_threads(project)
            if self.used(project):
                self.line.remove(project)
                beside -= size if delays else 0
            else:
                del self.sizes[project]

    def size_for(self, project: str) -> int:
        widest, left = max(self.waiting[row].procs for row in self.lists[project]), self.left(project)
        if self.rule == "fixed":
            return max(self.processors // self.count, 1, widest)
        if self.rule == "variable":
            return max(min(left, self.processors), widest)
        return max(min(left, self.idle // len(self.line)), widest, 1)

    def time_of(self, project: str, size: int) -> Time:
        """How long it holds a partition of this size at most; what may not run beside the others runs by itself."""
        limits = {r.job.row: r.limit for r in self.view.running}
        limits.update({start.job.row: self.view.now + start.job.estimate for start in self.decision.starts})
        beside, behind = 0, 0
        for row in sorted(row for row, job in self.threads.items() if project_of(job) == project):
            if row in self.running:
                beside = max(beside, limits.get(row, self.view.now) - self.view.now)
            elif row in self.waiting and self.left(project) <= size:
                beside = max(beside, self.waiting[row].estimate)
            elif row not in self.over:
                behind += self.threads[row].estimate
        return beside + behind

    def find_shadow(self, size: int) -> tuple[Time, int]:
        """Return when there is room for a partition of this size, and what is idle beside it then."""
        ends = {project: self.view.now + self.time_of(project, held) for project, held in self.sizes.items()}
        for t in sorted(set(ends.values())):
            idle = self.idle + sum(self.sizes[project] for project, end in ends.items() if end <= t)
            if idle >= size:
                return t, idle - size
        return inf, 0

    def promise(self, project: str, shadow: Time) -> None:
        if shadow < inf:
            for row in self.lists[project]:
                self.decision.promises[row] = Reservation(shadow, ())


class Equal(Pass):
    """Partitions grow and shrink; no thread is stopped for that."""

    def decide(self) -> Decision:
        self.note_what_happened()
        for project in list(self.sizes):
            if not self.used(project) and not self.lists[project]:
                del self.sizes[project]
        self.admit()
        self.divide()
        for project in self.sizes:
            self.run_threads(project)
        return self.decision

    def admit(self) -> None:
        for project in list(self.line):
            if all(self.profile.held_back(self.waiting[row]) for row in self.lists[project]):
                continue
            if sum(self.least(each) for each in [*self.sizes, project]) > self.processors:
                return
            self.sizes[project] = 0
            self.line.remove(project)
            self.overtook.discard(project)

    def least(self, project: str) -> int:
        """Return what its widest waiting thread needs; one that is wider than the machine cannot have it."""
        widest = max((self.waiting[row].procs for row in self.lists[project]), default=1)
        return widest if 1 <= widest <= self.processors else 1

    def usable(self, project: str) -> int:
        return sum(self.threads[row].procs for row in (*self.used(project), *self.lists[project]))

    def divide(self) -> None:
        """One processor at a time, to the job that has fewest and can use it, of equal ones to the earliest."""
        for project in self.sizes:
            self.sizes[project] = self.least(project)
        while self.idle > 0 and (hungry := [p for p, size in self.sizes.items() if size < self.usable(p)]):
            self.sizes[min(hungry, key=lambda project: self.sizes[project])] += 1
