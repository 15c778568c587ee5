"""The book: the state of the queue that follows from the log of events, in memory and mirrored in the store's tables.

Times are microseconds of the queue clock, memory is in bytes. Only jobs that are not over stay in the book.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from backfill.queue import events
from backfill.queue.events import Entry, JobEvent
from backfill.queue.job import FOREIGN, PREEMPT, REQUEUE, SUSPEND, Attempt, DueStart, Job, Run
from backfill.queue.nodes import MACHINE, Amounts, Free, Nodes, Placement
from backfill.queue.projects import Project, learn
from backfill.queue.shapes import Basis
from backfill.queue.states import COMPLETED, HOLDING, NEW, PENDING, after
from backfill.queue.words import WHOLE

ONE_FAILED = f"afternotok{WHOLE}"  # all tasks of the array are over, and one of them is not COMPLETED
# A cause of broken promises that is named only if there is no other. The nodes of the job do not matter: a job that was
# to follow there may have been planned elsewhere meanwhile, and delay others there.
SEEN_LATE = "end-seen-late"
FEW = 100  # up to this many jobs that wait for the same are written at once when that is decided


def each_job(
    after: Iterable[list[Any]], tasks: Mapping[int, Sequence[int]], most: int | None = None
) -> Iterator[tuple[str, int]]:
    """Yield the single jobs of dependencies with their kinds.

    tasks: the tasks of each array, in their order; of more than `most` the last ones are taken.
    """
    for kind, on in after:
        if kind.endswith(WHOLE):
            members = tasks.get(on, ())
            yield from ((kind.removesuffix(WHOLE), task) for task in (members if most is None else members[-most:]))
        else:
            yield kind, on


@dataclass
class Book:
    """The open jobs, the capacity of the nodes, and what jobs hold of it."""

    jobs: dict[int, Job] = field(default_factory=dict)
    platform: str = ""  # the text of the platform file; empty for a machine of one node
    nodes: Nodes = field(default_factory=lambda: Nodes({}))
    cpu_ids: list[int] = field(default_factory=list)  # cpus that jobs may use
    gpu_ids: list[int] = field(default_factory=list)
    holding: set[int] = field(default_factory=set)  # jobs whose attempts hold something
    busy_cpus: Counter[int] = field(default_factory=Counter)  # number of holders of each cpu; two only after a restore
    busy_gpus: Counter[int] = field(default_factory=Counter)
    epoch: Basis = field(default_factory=lambda: Basis())  # policy and platform since the last `epoch`
    epoch_seq: int = 0
    passes: int = 0  # number of passes since then
    passed: int = 0  # the instant of the last pass
    last_job: int = 0
    last_t: int = 0
    applied: int = 0  # number of events since it was read
    paused: bool = False  # no job is started
    skew: int = 0  # calendar minus queue clock
    troubles: list[tuple[int, str]] = field(default_factory=list)  # instants and possible causes of broken promises
    undecided: deque[tuple[str, int, bool, list[int]]] = field(default_factory=deque)  # see `decide_some`
    dependants: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # jobs by what they wait for
    tasks: dict[int, set[int]] = field(default_factory=dict)  # open tasks of an array
    unbegun: dict[int, set[int]] = field(default_factory=dict)  # those of them that have never been started
    unfinished: dict[int, events.Array] = field(default_factory=dict)  # arrays that are not entered completely
    mates: dict[tuple[str, str], list[int]] = field(
        default_factory=dict
    )  # heap of jobs by user and name; some are over
    active: dict[int, set[int]] = field(default_factory=dict)  # waiting and running tasks of throttled arrays
    parked: dict[int, list[int]] = field(default_factory=dict)  # heap of the tasks that a throttle holds back
    touched: set[int] = field(default_factory=set)  # jobs whose facts changed since the last commit
    changed: set[int] = field(default_factory=set)  # the same, if there are so many that they are written bit by bit
    over: dict[int, Job] = field(default_factory=dict)  # jobs that ended since the last commit
    fresh: dict[str, int] = field(default_factory=dict)  # jobs submitted since the last commit, by token
    review: set[int] = field(default_factory=set)  # jobs that an event may have made eligible, or hopeless
    yielding: set[int] = field(default_factory=set)  # jobs whose preempted attempts have not ended yet
    due: set[int] = field(default_factory=set)  # jobs that start when the resources they need are released
    projects: dict[str, Project] = field(default_factory=dict)  # projects that have not departed yet
    reservations: dict[str, events.Reserve] = field(default_factory=dict)  # reservations that are not over
    opened: set[str] = field(default_factory=set)  # those of them that have begun
    reserved: set[str] = field(default_factory=set)  # the names of all reservations ever made
    natives: dict[tuple[str, int], int] = field(default_factory=dict)  # jobs by number and submit in the batch system

    @property
    def capacity(self) -> Amounts:
        """The total of each resource and licence."""
        return self.nodes.capacity

    @property
    def held(self) -> Amounts:
        """The amount of each resource and licence that jobs hold."""
        return self.nodes.held_in_all

    def runs(self) -> list[Run]:
        """Return the attempts that hold resources, in the order of their jobs."""
        return [self.jobs[number].run for number in sorted(self.holding)]

    def parts(self, job: Job) -> list[tuple[str, str, int]]:
        """Return what the attempt of a job holds on its nodes; see Nodes.parts."""
        return [*self.nodes.parts(job.need, job.current.nodes)]

    def placed(self, job: Job, nodes: Placement | None) -> list[list[Any]]:
        """Return the nodes where a job is started; None stands for the single node of a queue without a platform."""
        if nodes is None:
            (name,) = self.nodes.names
            return [[name, job.tasks]]
        return [[*each] for each in nodes]

    def might_fit(self, job: Job) -> bool:
        """Return whether a job fits now on the one node of a queue without a platform."""
        free = self.free_in(job.reservation).get(MACHINE, {})
        here = self.nodes.parts(job.need, [[MACHINE, job.tasks]])
        return all(amount <= free.get(name, 0) for _, name, amount in here)

    def free_in(self, reservation: str) -> dict[str, Amounts]:
        """Return what is free on each node for jobs of a reservation that has begun, or for those of none.

        Jobs of none find nothing of what open reservations have, whether their jobs use it or not.
        """
        free = self.nodes.free()
        left = {
            node: {name: free.of(node, name) for name in amounts} for node, amounts in self.nodes.there.items()
        }  # fmt: skip
        if not self.opened:
            return left
        used: dict[str, dict[str, Amounts]] = {}  # by reservation: what its jobs hold of each node
        for number in self.holding:
            job = self.jobs[number]
            for node, name, amount in self.parts(job):
                here = used.setdefault(job.reservation, {}).setdefault(node, {})
                here[name] = here.get(name, 0) + amount
        mine: dict[str, Amounts] = {node: {} for node in self.nodes.there}
        for each in (self.reservations[name] for name in sorted(self.opened)):
            for node, has, whole in each.nodes:
                its = self.nodes.there.get(node, {}) if whole else has
                taken = used.get(each.reservation, {}).get(node, {})
                for name, amount in its.items():
                    unused = max(amount - taken.get(name, 0), 0)
                    if each.reservation == reservation:
                        mine[node][name] = unused
                    elif name in left.get(node, {}):
                        left[node][name] -= unused
        return left if reservation not in self.opened else mine

    def fits(self, job: Job, nodes: Placement) -> bool:
        """Return whether the need of a job is free on these nodes."""
        return self.nodes.free().holds(self.nodes.parts(job.need, nodes))

    def free_for_policy(self) -> Free:
        """Return what is free for the policy: preempted attempts count as over, and jobs that are due as started.

        Once the former have ended, the latter take their resources.
        """
        free = self.nodes.free()
        for number in self.yielding:
            free.take(self.parts(self.jobs[number]), -1)
        for job, due in self.due_starts():
            free.take(self.nodes.parts(job.need, due.nodes))
        return free

    def due_starts(self) -> list[tuple[Job, DueStart]]:
        """Return the jobs that are due."""
        jobs = (self.jobs[number] for number in self.due)
        return [(job, job.due) for job in jobs if job.due is not None]

    def will_fit(self, job: Job, nodes: Placement) -> bool:
        """Return whether the need of a job is free on these nodes once all preempted attempts have ended."""
        return self.free_for_policy().holds(self.nodes.parts(job.need, nodes))

    def placement(self, job: Job) -> tuple[list[int], list[int]]:
        """Return the cpus and gpus that a job would get on this machine: the lowest free ones."""
        cpus = [one for one in self.cpu_ids if not self.busy_cpus[one]]
        gpus = [one for one in self.gpu_ids if not self.busy_gpus[one]]
        return cpus[: job.tasks * job.need.get("cpus", 0)], gpus[: job.tasks * job.need.get("gpus", 0)]

    def apply(self, entries: Iterable[Entry]) -> None:
        """Apply events."""
        for entry in entries:
            event, t, _ = entry
            self.applied += 1
            self.last_t = max(self.last_t, t)
            match event:
                case events.Submit() | events.Adopted():
                    self._enter(event, t)
                case events.Declined() | events.Spared() if event.gone:
                    pass
                case JobEvent() if event.column:
                    self._job_event(event, t)
                case events.PassBegun():
                    self.passes += 1
                    self.passed = event.now
                case events.Array():
                    self.begin_array(event, 0)
                case events.Capacity():
                    self._set_capacity(event, t)
                case events.NodeSet():
                    if self.nodes.set(event.node, event.resources, event.reason):
                        self._trouble(t, "capacity-lowered")
                case events.Epoch():
                    self._begin_epoch(event.basis, entry)
                case events.Pause() | events.Unpause():
                    self.paused = isinstance(event, events.Pause)
                    self._trouble(t, "queue-paused")
                case events.PlannerDown():
                    self._trouble(t, "planner-down")
                case events.Up() | events.ClockSet():
                    self.skew = self.skew if event.skew is None else event.skew
                    if isinstance(event, events.Up):
                        self.last_job = max(self.last_job, event.last_job)
                    if event.trouble:
                        self._trouble(t, event.trouble)
                case events.Reserve():
                    self.reservations[event.reservation] = event
                    self.reserved.add(event.reservation)
                    self._trouble(t, "reservation-made")
                case events.Opened():
                    self.opened.add(event.reservation)
                case events.Unreserve():
                    self.opened.discard(event.reservation)
                    del self.reservations[event.reservation]
                    self.review.update(job.id for job in self.jobs.values() if job.reservation == event.reservation)
                case events.ProjectQueued() | events.Departure() | events.Departed():
                    learn(self.projects, event, t)

    def begin_array(self, whole: events.Array, done: int) -> None:
        """Register the tasks of an array that are about to be entered, except for the first `done` ones."""
        array = whole.row["id"]
        left = range(array + done, array + len(whole.indexes))
        self.unfinished[array] = whole
        self.last_job = max(self.last_job, left[-1])
        self.tasks.setdefault(array, set()).update(left)
        self.unbegun.setdefault(array, set()).update(left)

    def settle(self) -> None:
        """Forget the jobs that are over, after everything touched was written."""
        self.touched.clear()
        self.over.clear()
        self.fresh.clear()

    def trouble(self, since: int, until: int) -> str:
        """Return the last event of this span that may have broken promises; empty if there is none.

        An end of any job that was seen late is returned only if there was no other event; see SEEN_LATE.
        """
        known = [what for t, what in reversed(self.troubles) if since <= t <= until]
        return next((what for what in known if what != SEEN_LATE), *known[:1] or ("",))

    def _trouble(self, t: int, what: str) -> None:
        self.troubles.append((t, what))
        del self.troubles[:-1000]

    def _set_capacity(self, event: events.Capacity, t: int) -> None:
        """Set the capacity of all nodes: those of a platform, or the machine of one node."""
        before = self.capacity
        if self.platform and self.platform != (event.platform or ""):
            self._trouble(t, "platform-changed")
        self.platform = event.platform or ""
        self.nodes = Nodes({MACHINE: event.resources} if event.nodes is None else event.nodes)
        for number in self.holding:
            self.nodes.take(self.parts(self.jobs[number]))
        if any(self.capacity.get(name, 0) < amount for name, amount in before.items()):
            self._trouble(t, "capacity-lowered")
        self.cpu_ids, self.gpu_ids = list(event.cpu_ids), list(event.gpu_ids)

    def _begin_epoch(self, basis: Basis, entry: Entry) -> None:
        if basis["why"] == "switched":
            self._trouble(entry.t, "policy-switched")
        self.epoch, self.epoch_seq, self.passes, self.passed = basis, entry.seq, 0, 0
        for job in self.jobs.values():
            if job.waits or job.yields or job.due is not None:  # the policy's queue starts empty
                job.waits, job.due = False, None
                if job.attempt is not None:
                    job.attempt.yields = False
                self._sort_in(job)
                self.touched.add(job.id)
                self.review.add(job.id)

    def _job_event(self, event: JobEvent, t: int) -> None:
        if isinstance(event, events.Began) and event.row is not None:
            self._enter(event, t)
        job = self.jobs[event.job]
        for waiting, on, met, _ in self.undecided:  # a job learns of decided dependencies before its end
            if [waiting, on] in job.after:
                self.decide_for(job, waiting, on, met)
        kind = event.name if isinstance(event, events.Other) else event.kind
        job.state = after(job.state, kind, event.state if isinstance(event, events.End) else "")
        self.touched.add(job.id)
        self._change(job, event, t)
        self._sort_in(job)
        if job.throttle:
            self._count_active(job)

    def _change(self, job: Job, event: JobEvent, t: int) -> None:
        """Change the data of a job by an event, except for its state."""
        match event:
            case events.Wait():
                job.waits, job.reason = True, ""
            case events.Start() | events.Began():
                self._start(job, event, t)
            case events.Spawned():
                attempt = job.current
                attempt.spawned, attempt.processes, job.failures, job.withdrawn = t, event.processes, 0, 0
            case events.End():
                self._end(job, event, t)
            case events.Promise():
                # Trouble between a pass and its answer was unknown to the plan that makes the promise.
                job.promise, job.promised = event.start, min(t, self.passed or t)
            case events.Expected():
                job.expected = event.start
            case events.Advised():
                job.advised = t
            case events.Hold():
                job.waits, job.due, job.held, job.reason = False, None, event.why, event.why
            case events.Release():
                job.held, job.reason, job.failures, job.withdrawn = "", "", 0, 0
                self.review.add(job.id)
            case events.Edit():
                self._edit(job, event, t)
            case events.Due():
                job.waits, job.due = False, DueStart(event.start, event.why, self.placed(job, event.nodes))
                if job.attempt is not None:  # it is preempted; the row of a job has one `why`
                    job.attempt.why = event.why
            case events.Withdrawn():
                job.due = None
                self.review.add(job.id)
            case events.Declined() if job.waits:  # the policy must be told again that it waits
                job.waits = False
                self.review.add(job.id)
            case events.Preempt():
                self._preempt(job, event)
            case events.Preempted():
                self._preempted(job, t)
            case events.Kept():
                job.done, job.keeps = event.done, event.how
            case events.Stop():
                job.current.cause, job.waits, job.due = event.cause, False, None
            case events.Unstarted():
                self._unstarted(job, event, t)
            case events.Requeue():
                self._requeue(job, event, t)
            case events.Suspend() | events.Resume():
                job.current.suspended = isinstance(event, events.Suspend)

    def _sort_in(self, job: Job) -> None:
        """Update the sets of preempted and due jobs."""
        for numbers, member in ((self.yielding, job.yields), (self.due, job.due is not None)):
            if member:
                numbers.add(job.id)
            else:
                numbers.discard(job.id)

    def _count_active(self, job: Job) -> None:
        """Update the active tasks of a throttled array; release the next one when a task leaves."""
        active = self.active.setdefault(job.array, set())
        if job.waits or job.due is not None or job.state in HOLDING:
            active.add(job.id)
        elif job.id in active:
            active.discard(job.id)
            parked = self.parked.get(job.array, [])
            while parked:
                next_one = self.jobs.get(heappop(parked))
                if next_one is not None and next_one.state == PENDING and not (next_one.held or next_one.waits):
                    self.review.add(next_one.id)
                    break

    def park(self, job: Job) -> None:
        """Hold a task back by the throttle of its array until another one is done."""
        heappush(self.parked.setdefault(job.array, []), job.id)

    def _enter(self, event: events.Submit | events.Adopted | events.Began, t: int) -> None:
        known = self.jobs.get(event.job)
        state = known.state if known else NEW
        if known:
            if known.state in HOLDING:  # the next attempt starts when the one before it is over
                self._give_back(known)
            self._forget(known)
        facts = event.row or {}
        lists = ("after", "nodes", "due_nodes", "cpu_ids", "gpu_ids")
        own = {name: [*facts[name]] for name in lists if name in facts}  # copied, so that the event stays unchanged
        job = Job.read({**facts, **own, "id": event.job})
        job.state = state if isinstance(event, events.Began) else after(state, event.kind)
        if isinstance(event, events.Submit):
            job.submit = job.submit if job.native else t
            self.fresh[job.token] = job.id
        elif isinstance(event, events.Began):
            job.submit = job.submit or t
        else:
            job.current.nodes = job.current.nodes or self.placed(job, None)
            self._take(job)
            self._begin(job)
        self.jobs[job.id] = job
        self._index(job)
        self.touched.add(job.id)
        whole = self.unfinished.get(job.array)
        if whole and job.id == job.array + len(whole.indexes) - 1:
            del self.unfinished[job.array]

    def restore(self, job: Job) -> None:
        """Enter an open job from the store."""
        self.jobs[job.id] = job
        self._index(job)
        self._sort_in(job)
        if job.state in HOLDING:
            if not job.current.nodes:  # written by a version that knew only one node
                job.current.nodes = self.placed(job, None)
                self.touched.add(job.id)
            self._take(job)

    def _index(self, job: Job) -> None:
        self.last_job = max(self.last_job, job.id)
        if job.native:
            self.natives[job.native, job.native_submit] = job.id
        if job.project in self.projects:
            self.projects[job.project].jobs.add(job.id)
        for kind, on in job.after:
            self.dependants.setdefault((kind, on), set()).add(job.id)
        if job.array:
            self.tasks.setdefault(job.array, set()).add(job.id)
            if not job.attempts:
                self.unbegun.setdefault(job.array, set()).add(job.id)
        mates = self.mates.setdefault((job.user, job.name), [])
        heappush(mates, job.id)
        if len(mates).bit_count() == 1:  # from time to time
            mates[:] = sorted(number for number in mates if number in self.jobs)
        if job.throttle:
            self._count_active(job)
        self.review.add(job.id)

    def _take(self, job: Job) -> None:
        self.holding.add(job.id)
        self.nodes.take(self.parts(job))
        self.busy_cpus.update(job.current.cpu_ids)
        self.busy_gpus.update(job.current.gpu_ids)

    def _give_back(self, job: Job) -> None:
        self.holding.discard(job.id)
        self.nodes.take(self.parts(job), -1)
        self.busy_cpus.subtract(job.current.cpu_ids)
        self.busy_gpus.subtract(job.current.gpu_ids)

    def _leave(self, job: Job) -> None:
        """End the attempt of a job, which is pending again."""
        self._give_back(job)
        job.attempt = None
        self.review.add(job.id)

    def _edit(self, job: Job, event: events.Edit, t: int) -> None:
        to = event.to
        if "name" in to:
            mates = self.mates[job.user, job.name]
            mates.remove(job.id)
            heapify(mates)
            self.review.add(self._first_mate(job))
        self._unlink(job)
        if "native_submit" in to:
            self.natives.pop((job.native, job.native_submit), None)
            self.natives[job.native, to["native_submit"]] = job.id
        for name, value in to.items():
            setattr(job, name, [*to["after"]] if name == "after" else value)
        for kind, on in job.after:
            self.dependants.setdefault((kind, on), set()).add(job.id)
        if "name" in to:
            heappush(self.mates.setdefault((job.user, job.name), []), job.id)
        if event.leaves:
            job.waits = False
        if event.told is not None and "keeps" not in event.told:
            job.done, job.keeps = 0, ""
        self.review.add(job.id)
        self._trouble(t, "job-edited")

    def _preempt(self, job: Job, event: events.Preempt) -> None:
        job.preempted_for, job.promise, job.promised = event.by, None, 0
        job.waits = not event.leaves
        if job.due is not None:  # it had not begun
            job.due = None
            return
        attempt = job.current
        attempt.yields = True
        if attempt.cause in ("", REQUEUE):
            attempt.cause = PREEMPT
        job.keeps, job.done = event.how, job.done - event.overhead if event.how else 0

    def _preempted(self, job: Job, t: int) -> None:
        job.stood = job.current.nodes if job.keeps == SUSPEND else []
        job.preemptions += 1
        job.ran += t - job.current.start
        self._leave(job)

    def _start(self, job: Job, event: events.Start | events.Began, t: int) -> None:
        job.waits, job.due, job.reason, job.attempts = False, None, "", event.attempt
        nodes, cpu_ids, gpu_ids = self.placed(job, event.nodes), [*event.cpu_ids], [*event.gpu_ids]
        job.attempt = Attempt(event.attempt, event.start, event.why, "", nodes, cpu_ids, gpu_ids)
        if isinstance(event, events.Began):
            job.attempt.spawned, job.attempt.processes = t, event.processes or {}
            job.done, job.keeps = 0, ""
            self._trouble(t, FOREIGN)
        else:
            job.attempt.slip, job.attempt.instance = event.slip, event.instance
        self._take(job)
        self._begin(job)

    def _unstarted(self, job: Job, event: events.Unstarted, t: int) -> None:
        job.withdrawn += 1
        if event.launch:
            job.failures += 1
            self._trouble(t, "launch-failed")
        self._leave(job)

    def _requeue(self, job: Job, event: events.Requeue, t: int) -> None:
        if event.retry:
            job.retries += 1
        elif not event.asked:
            job.restarts += 1
        job.done, job.keeps = 0, ""
        job.ran += t - job.current.start
        self._leave(job)

    def _end(self, job: Job, event: events.End, t: int) -> None:
        ended = t if event.ended is None else event.ended
        job.end, job.waits, job.due, job.reason = ended, False, None, event.reason
        attempt = job.attempt
        if attempt is not None:
            limit = attempt.start + job.left + job.grace
            if t > limit:  # until then the policy counted it as a run beyond its limit
                self._trouble(t, "overrun-kill-late" if ended > limit else SEEN_LATE)
            self._give_back(job)
            attempt.cpu_ids, attempt.gpu_ids, attempt.suspended, attempt.yields = [], [], False, False
            attempt.exit, attempt.signal = event.exit, event.signal
            attempt.maxrss, attempt.cpu = event.maxrss, event.cpu
        if job.project in self.projects:
            self.projects[job.project].ended(ended)
        self._begin(job)  # satisfy the dependencies on its begin
        good = job.state == COMPLETED
        for kind, met in (("afterok", good), ("afternotok", not good), ("afterany", True)):
            self._decide(kind, job.id, met)
        if job.array:
            self._end_task(job, good)
        self._forget(job)
        self.over[job.id] = job

    def _begin(self, job: Job) -> None:
        self._decide("after", job.id, True)
        unbegun = self.unbegun.get(job.array)
        if unbegun is not None:
            unbegun.discard(job.id)
            if not unbegun:
                del self.unbegun[job.array]
                self._decide(f"after{WHOLE}", job.array, True)

    def _end_task(self, job: Job, good: bool) -> None:
        """Decide the dependencies on the array of a task that is over."""
        array, tasks = job.array, self.tasks[job.array]
        tasks.discard(job.id)
        if not good:
            self._decide(f"afterok{WHOLE}", array, False)
            waiting = sorted(self.dependants.pop((ONE_FAILED, array), ()))
            for other in waiting:
                self._wait_for_ends(self.jobs[other], array)
            self._note(waiting)
        if not tasks:
            del self.tasks[array]
            for kind, met in ((f"afterok{WHOLE}", True), (ONE_FAILED, False), (f"afterany{WHOLE}", True)):
                self._decide(kind, array, met)

    def _decide(self, kind: str, on: int, met: bool) -> None:
        """Decide a dependency: it is satisfied, or never will be."""
        waiting = self.dependants.pop((kind, on), None)
        if not waiting:
            return
        numbers = sorted(waiting)
        if len(numbers) > FEW:
            self.undecided.append((kind, on, met, numbers[::-1]))
            return
        for other in numbers:
            self.decide_for(self.jobs[other], kind, on, met)
        self._note(numbers)

    def decide_some(self, most: int | None = None) -> None:
        """Apply decided dependencies to at most `most` waiting jobs, or to all.

        Until then they wait. A crash in between leaves rows that are behind the log: see `mend`.
        """
        while self.undecided and most != 0:
            kind, on, met, left = self.undecided[0]
            numbers = left[: -most - 1 : -1] if most is not None else left[::-1]
            del left[-len(numbers) :]
            most = None if most is None else most - len(numbers)
            dependants = [other for other in numbers if other in self.jobs and [kind, on] in self.jobs[other].after]
            for other in dependants:
                self.decide_for(self.jobs[other], kind, on, met)
            self._note(dependants)
            if not left:
                self.undecided.popleft()

    def _note(self, numbers: Sequence[int]) -> None:
        """Have jobs with changed dependencies written: at once, or bit by bit as they are reviewed.

        A crash in between leaves rows that are behind the log: see `mend`.
        """
        (self.touched if len(numbers) <= FEW else self.changed).update(numbers)
        self.review.update(numbers)

    def decide_for(self, later: Job, kind: str, on: int, met: bool) -> None:
        """Apply a decided dependency to a waiting job."""
        self.dependants.get((kind, on), set()).discard(later.id)
        later.after.remove([kind, on])
        if later.any_of:
            later.never = not met and not later.after
            if met:
                self._unlink(later)
                later.after = []
        else:
            later.never = later.never or not met
        self.review.add(later.id)

    def _wait_for_ends(self, later: Job, array: int) -> None:
        """Let a job wait for the ends of the other tasks of an array, after one has failed as required."""
        self.dependants.get((ONE_FAILED, array), set()).discard(later.id)
        later.after.remove([ONE_FAILED, array])
        kind = f"afterany{WHOLE}"
        if [kind, array] not in later.after:
            later.after.append([kind, array])
        self.dependants.setdefault((kind, array), set()).add(later.id)

    def mend(self, job: Job, over: Callable[[int], Job | None], failed: Callable[[int], bool]) -> None:
        """Apply decisions on dependencies that had been made but not written for this job; see `changed`.

        over: returns a job that has ended; failed: returns whether a task of an array has failed.
        """
        before = [*map(tuple, job.after)]
        for kind, on in before:
            if [kind, on] not in job.after:
                continue
            met: bool | None = None
            if not kind.endswith(WHOLE):
                other = self.jobs.get(on)
                if other is None and (ended := over(on)) is not None:
                    good = ended.state == COMPLETED
                    met = {"afterok": good, "afternotok": not good}.get(kind, True)
                elif other is not None and kind == "after" and other.attempts:
                    met = True
            elif kind == f"after{WHOLE}":
                met = True if on not in self.unbegun else None
            elif on not in self.tasks:
                met = {ONE_FAILED: failed(on), f"afterok{WHOLE}": not failed(on)}.get(kind, True)
            elif kind == f"afterok{WHOLE}" and failed(on):
                met = False
            elif kind == ONE_FAILED and failed(on):
                self._wait_for_ends(job, on)
            if met is not None:
                self.decide_for(job, kind, on, met)
        if before != [*map(tuple, job.after)]:
            self.changed.add(job.id)

    def _unlink(self, job: Job) -> None:
        for kind, on in job.after:
            self.dependants.get((kind, on), set()).discard(job.id)

    def _forget(self, job: Job) -> None:
        del self.jobs[job.id]
        self.natives.pop((job.native, job.native_submit), None)
        self.touched.discard(job.id)
        self.changed.discard(job.id)
        self.yielding.discard(job.id)
        self.due.discard(job.id)
        self._unlink(job)
        first = self._first_mate(job)
        if not first:
            del self.mates[job.user, job.name]
        elif job.singleton or self.jobs[first].singleton:
            self.review.add(first)

    def _first_mate(self, job: Job) -> int:
        """Return the first open job of the same user and name; 0 if there is none."""
        mates = self.mates[job.user, job.name]
        while mates and mates[0] not in self.jobs:
            heappop(mates)
        return mates[0] if mates else 0

    def blocked(self, job: Job, now: int) -> str:
        """Return why a pending job may not be in the policy's queue; empty if it may. now: by the queue clock."""
        if job.held:
            return job.held
        if job.never:
            return "DependencyNeverSatisfied"
        if job.begin is not None and job.begin > now + self.skew:
            return "BeginTime"
        if job.after or (job.singleton and self._first_mate(job) < job.id):
            return "Dependency"
        if job.throttle and len(self.active[job.array] - {job.id}) >= job.throttle:
            return "JobArrayTaskLimit"
        return ""
