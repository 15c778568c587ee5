"""The engine: requests, decisions and ends go in, events come out. It has no clock, file or process of its own.

All that happened since the last `flush` is one transaction. Only when it is on disk are answers sent, jobs launched or
stopped, and the planner asked. So a crash at any point leaves either nothing, or something that can be recovered:

* a start that is on disk and was not launched is found by `settle`, and revoked;
* a decision of the planner that is not on disk is declined, and requested again.

A job that the policy preempts is asked to end, and is in the policy's queue again at once. Its resources are free when
its attempt has provably ended, not before: a job that was started in its place is *due* until then.
"""

import heapq
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backfill.pools.base import (
    WATCHES,
    Arrived,
    Decision,
    Expected,
    Foreign,
    Identity,
    Pool,
    Seen,
    Settled,
    Verdict,
    batch_system,
)
from backfill.queue import commands, ends, epochs, events, feed, news, progress, protocol, reserving, schema, starts
from backfill.queue.around import Clock, Link, Waiter
from backfill.queue.commands import Busy, Context, Slices
from backfill.queue.departures import Departures
from backfill.queue.ends import WITHDRAWALS
from backfill.queue.events import Entry, Event
from backfill.queue.job import DECLINED, NEVER, PREEMPT, Job, Run, Task
from backfill.queue.nodes import Placement
from backfill.queue.schema import Refused
from backfill.queue.shapes import (
    Basis,
    Begun,
    Decisions,
    Defaults,
    JsonObject,
    Over,
    Row,
    Spec,
)
from backfill.queue.states import ENDING, HOLDING, PENDING, STARTING
from backfill.queue.store import Store, StoreError, StoreLost

Reply = Callable[[JsonObject], None]
SECOND = 1_000_000
STEP = 2 * SECOND  # difference of clocks above which the calendar must have been set
RELIVED = 10_000  # largest number of passes that a planner replays if it has no saved state
FALLBACKS = ("easy", "fcfs")  # policies that replace one that fails
PAUSE = SECOND // 10  # between two passes while a large request is processed
REVIEWED = 500  # jobs that are reviewed in one flush


@dataclass
class Work:
    """A request that is processed in slices. token: of a submit."""

    slices: Slices
    reply: Reply
    token: str = ""


class Engine:
    """The engine of a queue; see the module.

    fault: called with the name of each point at which a crash is tested. number: called with the last number that a job
    is about to get, before it gets it; may raise OSError. notify: called for a job that is over, if a command is to be
    run.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        pool: Pool,
        link: Link,
        defaults: Defaults,
        fault: Callable[[str], None] = lambda point: None,
        encode: Callable[[Spec], str] = str,
        number: Callable[[int], None] = lambda last: None,
        slice_: int = commands.SLICE,
        notify: Callable[[Job, Spec], None] = lambda job, spec: None,
    ) -> None:
        self.store, self.clock, self.pool, self.link, self.notify = store, clock, pool, link, notify
        self.defaults, self.fault, self.encode, self.number = defaults, fault, encode, number
        self.slice, self.batch = slice_, batch_system(pool)
        self.native = self.batch is not None
        self.shadow = WATCHES in pool.does  # others start the jobs, and decisions of the policy are only advice
        self.late = int(SECOND * clock.speed)  # tolerated delay of a start
        self.book = store.load()
        self.most: dict[str, int] = {}  # see Context
        self.plan: dict[int, int] = {}  # planned starts of waiting jobs
        self.places: dict[int, list[Any]] = {}  # their placements, if there are several nodes; see nodes.Placement
        self.carried: dict[int, list[Any]] = {}  # both, from the planner of the previous epoch
        self.binds = False  # whether planned starts are promises
        self.expected: dict[int, int] = {}  # starts that a watched batch system expects at present
        self.departures = Departures(self.late)  # promised departures of projects
        self.wake: int | None = None  # instant of the next pass that the policy requested
        self.asked: int | None = None  # instant of a pass without an answer yet; -1 while a planner is being started
        self.ready = False  # a planner is ready
        self.changing = False  # and is replaced by a better one
        self.outbox: list[protocol.Message] = []  # for the planner
        self._stirred = False  # one of these messages may lead to a decision
        self._opened = (events.Capacity({}, (), ()), "", "", "")
        self.failures: list[str] = []  # of planners, since the last answer
        self.notes: list[str] = []  # notes for the operator
        self.stopping = False  # no more starts
        self._history: list[protocol.Pass] = []
        self._unjudged: set[int] = set()  # jobs whose feasibility on the platform is not checked yet
        self._declined: Counter[int] = Counter()  # by job: starts in a row that did not fit, according to the book
        self._disturbed: set[int] = set()  # jobs with messages since the pass began
        self._events: list[Entry] = []
        self._answers: list[tuple[Callable[[Any], None], JsonObject, str]] = []  # with the token of a submit
        self._launches: list[Run] = []
        self._stops: list[Run] = []
        self._acts: list[events.Signal | events.Suspend | events.Resume] = []
        self._foreign: list[Foreign] = []  # runs that the book does not know yet
        self._timers: list[tuple[int, int]] = []
        self._works: deque[Work] = deque()
        self._deferred: list[Callable[[], None]] = []  # until no array is being entered
        self._backlog: deque[int] = deque()  # jobs to review that were too many for one flush
        self._waiters: dict[int, dict[Waiter, None]] = {}
        self._wanted: Basis | None = None  # an epoch that is to begin
        self.last_pass = self.pass_seq = 0  # the instant of the last pass, and its position in the log
        self._slept = clock.slept()

    # ------------------------------------------------------------------ input

    def open(self, capacity: events.Capacity, policy: str, program: str, predict: str = "") -> None:
        """Start work.

        capacity: of the machine; policy: of the configuration; program: identifies its code; predict: the predictions
        that it plans by.
        """
        self._opened = (capacity, policy, program, predict)
        book = self.book
        last = book.last_job
        self._happen(events.Up(self.pool.name, "daemon-down", **self.clock.facts, skew=self._skew(), last_job=last))
        changed = epochs.differs(book, capacity)
        if changed:
            self._happen(capacity)
            self._lose_suspended()
        self._unjudged = set()  # before a reload it may have named jobs that were not stored
        if book.platform or book.reservations:  # those that could not be judged are judged once they wait
            left = (job for job in book.jobs.values() if job.state in HOLDING or job.held or job.due is not None)
            self._unjudged = set(book.jobs) if changed else {job.id for job in left}
        for number in sorted(self._unjudged) if changed else ():
            if book.jobs[number].state == PENDING and book.jobs[number].due is None:
                self._judge(book.jobs[number])
        why, by = epochs.successor(book, self.pool, capacity, policy, program, predict)
        if why == "reserved":
            self._again(why)
        elif why:
            self.switch(by, program, why)
        else:
            self._wanted = {}
        book.review.update(book.jobs)
        for array, whole in book.unfinished.items():
            done = len(whole.indexes) - sum(task not in book.jobs for task in book.tasks[array])
            self._works.append(Work(commands.entered(whole, done, self.context()), _nobody))

    def never(self, job: Job) -> str:
        """Why the nodes of the platform, or of its reservation, can never run a job; empty if they can."""
        return commands.never(job, self.book, self.context().platform)

    def _judge(self, job: Job) -> None:
        """Hold a pending job that the platform can never run; release it if it was held for that and can now be run.

        A job held for another reason is checked when it is released.
        """
        if job.held and job.held != NEVER:
            return
        self._unjudged.discard(job.id)
        why = self.never(job)
        if job.native and job.outside != bool(why):
            self._happen(commands.edit_event(job, {"outside": bool(why)}))
        if why and not job.held:
            self._happen(events.Hold(job.id, NEVER))
            self.notes.append(f"job {job.label} can never run on this platform, and is held: {why}")
        elif job.held and not why:
            self._happen(events.Release(job.id))

    def switch(self, policy: str, program: str, why: str, asked: str = "") -> None:
        """Switch to another policy, or restart the same one in a new epoch. asked: the policy that it replaces.

        It stays until the configuration names another policy than now.
        """
        self._wanted = {"policy": policy, "asked": asked or policy, "program": program, "why": why}
        self._wanted |= {"configured": self._opened[1], **self.predictions()}

    def predictions(self) -> Basis:
        """Return the predictions that the policy plans by, for an epoch; empty if it plans by walltimes."""
        predict = self._opened[3]
        return {"predict": predict, "ended": feed.ended(self.store.ended(protocol.LEARNED))} if predict else {}

    def _again(self, why: str) -> None:
        """Begin an epoch with the present policy."""
        epoch = self.book.epoch
        self.switch(epoch["policy"], epoch["program"], why, epoch["asked"])
        if self._wanted and "mistrusts" in epoch:
            epochs.mistrust(self._wanted)

    def set_capacity(self, place: str, resources: dict[str, int], reason: str = "") -> None:
        """Set the capacity of a node, or the copies of a licence; see Nodes for places."""
        nodes = self.book.nodes
        if resources != nodes.there.get(place) or reason != nodes.reasons.get(place, ""):
            self._happen(events.NodeSet(place, resources, reason))
            self._lose_suspended()

    def _lose_suspended(self) -> None:
        """End the jobs that were suspended on nodes that are lost."""
        for event in progress.lost(self.book):
            self._happen(event)

    def request(self, message: dict[str, Any], reply: Reply) -> None:
        """Process a request of a client; it is answered when its effects are on disk."""
        try:
            schema.check(message)
        except Refused as error:
            self._answers.append((reply, error.answer(), ""))
            return
        self.meet(message, reply)

    def meet(self, message: dict[str, Any], reply: Reply) -> None:
        """Process a request that has been checked."""
        if self.native and (self.shadow or message["do"] not in ("pause", "unpause")):
            does = "only watches" if self.shadow else "starts the jobs of"
            problem = f"this queue {does} {self.pool.name}; expected a command of {self.pool.name} for that"
            self._answers.append((reply, Refused(problem, "shadow").answer(), ""))
            return
        slices = commands.VERBS[message["do"]](message, self.context())
        try:
            self._go_on_with(Work(slices, reply, message.get("token", "")))
        except Busy:
            self.defer(lambda: self.meet(message, reply))

    def defer(self, action: Callable[[], None]) -> None:
        """Call a function when no array is being entered any more."""
        self._deferred.append(action)

    @property
    def busy(self) -> bool:
        """Return whether `go_on` and `flush` are to be called at once, even without input."""
        return bool(self._works or self._backlog or self.book.review or self.book.undecided)

    def go_on(self) -> None:
        """Process the next slice of a large request, if there is one."""
        if self._works:
            self._go_on_with(self._works.popleft())
        if not self.book.unfinished and self._deferred:
            deferred, self._deferred = self._deferred, []
            for action in deferred:
                action()

    def _go_on_with(self, work: Work) -> None:
        """Process the next slice as a whole, or not at all.

        Raises Busy if no slice of the request has been processed.
        """
        try:
            try:
                happened = next(work.slices)
                self._works.append(work)
            except StopIteration as over:
                happened = over.value.events
                self._answers.append((work.reply, over.value.answer, work.token))
            for event in happened:
                self._happen(event)
        except Refused as error:
            self._answers.append((work.reply, error.answer(), ""))
        except (Busy, StoreLost):
            raise
        except StoreError as error:
            self._answers.append((work.reply, {}, work.token))
            self._reload(error)
        except Exception as error:  # a mistake in this program: undo what has happened since the last flush
            self.notes.append(traceback.format_exc())
            self._answers.append((work.reply, {}, work.token))
            self._reload(Refused(f"{error!r:.200}; see daemon.log", "internal"))

    def context(self) -> Context:
        """Return the state for commands, including what is not on disk yet."""
        keep, platform = self.store.keep_spec, None
        if self.book.platform:
            from backfill.worlds.workload import parsed  # numpy and pydantic are needed only with a platform

            platform = parsed(self.book.platform)
        return Context(
            self.book, self._now(), self.job, self._over, self._by_token,
            lambda spec: keep(self.encode(spec)), self.defaults, self.most, self.slice, platform,
            self.pool.does, native=self._natives if self.native else None,
            has_project=lambda name: bool(self.store.jobs_of(name, 1)),
            ready=self.ready and self._wanted is None,
        )  # fmt: skip

    def job(self, number: int) -> Job | None:
        """Return a job, over or not."""
        return self.book.jobs.get(number) or self.book.over.get(number) or self.store.job(number)

    def _by_token(self, token: str) -> Job | None:
        for whole in self.book.unfinished.values():
            if whole.row["token"] == token:
                return Job.read(whole.row)
        number = self.book.fresh.get(token)
        return self.job(number) if number is not None else self.store.by_token(token)

    def _natives(self, name: str) -> list[Job]:
        """Return the job with this name in the watched batch system, with all tasks of an array.

        The last one of that name if none is open.
        """
        some = [job for job in self.book.jobs.values() if job.native == name or job.native.startswith(f"{name}_")]
        return some or self.store.jobs("token GLOB ?", [f"{name}@*"], 1)

    def _over(self, array: int) -> list[Task]:
        some = {task.id: task for task in self.store.over(array)}
        for job in self.book.over.values():  # not in the store yet
            if job.array == array and job.index is not None:
                some[job.id] = Task(job.id, array, job.index, job.state)
        return [task for _, task in sorted(some.items())]

    def wait(self, number: int, reply: Waiter) -> None:
        """Answer when a job is over."""
        job = self.job(number)
        if job is None:
            reply(Refused(f"there is no job {number}", "unknown", "ids").answer())
        elif number in self.book.jobs:
            self._waiters.setdefault(number, {})[reply] = None
        else:
            self._answers.append((reply, ended(job), ""))

    def wait_no_more(self, numbers: Iterable[int], reply: Waiter) -> None:
        """Forget a client that waits for jobs."""
        for number in numbers:
            some = self._waiters.get(number, {})
            some.pop(reply, None)
            if not some:
                self._waiters.pop(number, None)

    def stop(self) -> None:
        """Stop starting jobs. Waiting clients are told, so that they do not take this for a crash."""
        self.stopping = True
        if self.binds and self.plan:  # for a planner of another version, which cannot read the saved one
            self._happen(events.Plan(self._promises()))
        answer = Refused("the queue was stopped; jobs that run go on", "stopped").answer()
        waiters, self._waiters = self._waiters, {}
        for replies in waiters.values():
            for reply in replies:
                reply(answer)

    def saw(self, seen: Seen) -> None:
        """Process a report of the pool about its present state."""
        for node in seen.nodes:
            if node.name in self.book.nodes.stated:
                self.set_capacity(node.name, node.there, node.reason)
            else:
                self.notes.append(f"pool {self.pool.name} tells of node {node.name}, which the platform does not have")
        self._foreign += seen.foreign
        for sighting in seen.attempts:
            self.settled(sighting.job, sighting.attempt, sighting.verdict)
        for one in seen.news:
            match one:
                case Settled():
                    known = self._found(one.job)
                    if known is not None:
                        self.settled(known.id, one.attempt, one.verdict)
                case Foreign():
                    self._began(one)
                case _:
                    spec = self._keep({}) if isinstance(one, Arrived) else 0
                    if isinstance(one, Arrived):
                        one.facts["token"] = self._token(one.facts, self.book.last_job + 1)
                    if isinstance(one, Expected) and (job := self._found(one.job)) is not None:
                        self.expected[job.id] = one.start
                    for event in news.events_of(one, self.book, spec, self._found, self.never):
                        self._happen(event)

    def _found(self, which: int | Identity) -> Job | None:
        """Return an open job, by its number or by its number and submit in the batch system."""
        return self.book.jobs.get(which if isinstance(which, int) else self.book.natives.get(which, 0))

    def has_been(self, which: Identity) -> bool:
        """Return whether a job of a batch system has been known here."""
        native, submit = which
        return self._by_token(f"{native}@{submit}") is not None

    def _token(self, facts: Row, number: int) -> str:
        """Return the token of a job that was submitted elsewhere: a new one if it was over and has come back."""
        token = f"{facts['native']}@{facts['native_submit']}"
        return token if self._by_token(token) is None else f"{token}#{number}"

    def settled(self, number: int, attempt: int, verdict: Verdict) -> None:
        """Process the settled fate of an attempt."""
        book, job = self.book, self.book.jobs.get(number)
        if job is None or job.attempt is None or job.attempt.number != attempt:
            return
        for event in ends.events_of(job, verdict, self._now(), book.skew, self.clock.instant(verdict.record)):
            self._happen(event)
        if verdict.kind == "uncertain":
            self.notes.append(f"job {job.label} is held: {self.pool.name} has forgotten that it was started")

    def adopt(self, facts: Row, spec: Spec) -> None:
        """Enter an attempt that is not in the log, from its run folder: the end of the log was lost."""
        known = self.book.jobs.get(facts["id"]) or self.store.job(facts["id"])
        if known is not None and (known.end is not None or known.attempts >= facts["attempt"]):
            return
        facts = {**facts, "state": "", "spec": self._keep(spec)}
        self._happen(events.Adopted(facts["id"], facts))
        self.notes.append(f"job {facts['id']} was found in its run folder: the end of the log was lost")

    def _began(self, run: Foreign) -> None:
        """Enter a run that the policy has not started: an administrator or the pool started it."""
        for event in news.began(run, self.book, self._keep, self._token, self.never):
            self._happen(event)

    def _keep(self, spec: Spec) -> int:
        """Store a spec together with the next events, and return its number."""
        return self.store.keep_spec(self.encode(spec))

    def ended_before(self, attempt: int, end: events.End) -> None:
        """Enter an end that the witness has and the log has lost, of a waiting job or of an attempt."""
        job = self.book.jobs.get(end.job)
        if job is not None and job.attempts == attempt:
            self._happen(end)

    def restored(self, found: events.Restored) -> None:
        """Record that the log is older than what has happened, and what was recovered."""
        self._happen(found)

    def begun(self, answer: Begun) -> None:
        """Take over a planner that is ready. Its repeated decisions must be the same as in the log."""
        self.asked, wanted = None, self._wanted is not None
        self.binds = answer["binds"] and not self.shadow
        self.ready, self.changing = not wanted, wanted  # a better one is ready meanwhile, and is started at once
        for number, (then, now) in enumerate(zip(self._history, answer["passes"], strict=True), 1):
            if then.decided == now:
                continue
            if number == len(self._history) and not then.decided:
                for job, why, *more in now:  # the daemon ended before it could write them
                    if why == PREEMPT:
                        self._preempt(job, *more)
                    else:
                        self._decline(job, why, *more)
                continue
            self.notes.append(f"pass {number} since the epoch gave other decisions when it was repeated")
            self.ready = False
            self._again("diverged")
            return
        self._history = []
        self._take_plan(answer)
        self.departures.promised = answer["departs"]
        self._follow_departures(answer)

    def decided(self, answer: Decisions) -> None:
        """Process the planner's decisions of the requested pass."""
        if self.asked is None or answer["now"] != self.asked:
            return
        now, self.asked = self.asked, None
        self.failures.clear()
        self._take_plan(answer)
        for number, *preemption in answer["preempts"]:
            self._preempt(number, *preemption)
        disturbed = self._disturbed | {run.job for run in self._foreign}
        for number, why, *where in answer["starts"]:
            job, book, nodes = self.book.jobs.get(number), self.book, where[0] if where else None
            late = book.paused or number in disturbed  # something has happened since the policy was asked
            if self.shadow:
                if job is not None and job.waits and job.advised is None:
                    self._happen(events.Advised(number, nodes))
            elif late or job is None or not job.waits:
                self._decline(number, why, nodes)
            elif not book.will_fit(job, book.placed(job, nodes)):
                self._decline(number, why, nodes)
                self._declined[number] += 1
                if self._declined[number] >= WITHDRAWALS:
                    self._happen(events.Hold(number, DECLINED))
                    self.notes.append(f"job {job.label} is held: policy and queue count what is free differently")
            elif self._start(job, now, why, nodes):
                self._declined.pop(number, None)
            elif book.yielding:
                self._happen(events.Due(number, now, why, nodes, starts.behind(job, book.placed(job, nodes), book)))
            else:
                self._decline(number, why, nodes)
        self._follow_departures(answer)

    def _follow_departures(self, answer: Begun | Decisions) -> None:
        """Record the departures that the policy now promises to projects."""
        for event in self.departures.changes(self.book, self.plan, answer, self._disturbed):
            self._happen(event)

    def _decline(self, number: int, why: str, nodes: Placement | None = None) -> None:
        """Tell the policy that a job was not started after all."""
        self._happen(events.Declined(number, why, nodes, gone=number not in self.book.jobs))

    def _start(self, job: Job, start: int, why: str, nodes: Placement | None) -> bool:
        """Start a job, if what it needs is free there. nodes: if the queue has a platform."""
        instance = "" if self.batch is None else self.batch.instance
        some = starts.events_of(job, start, why, nodes, self.book, self.late, instance)
        for event in some:
            self._happen(event)
        if some:
            self._launches.append(job.run)
        return bool(some)

    def _preempt(self, number: int, by: int, how: str = "", overhead: int = 0) -> None:
        """Preempt a job as the policy decided: end its attempt, unless it is over."""
        job = self.book.jobs.get(number)
        idle = job is None or job.attempt is None  # it has made no progress since its start was decided
        if job is None or (job.due is None and (job.yields or job.attempt is None)):
            self._happen(events.Spared(number, by, job is None, how, overhead))
        else:
            leaves = job.attempt is not None and job.attempt.cause == "cancel"
            self._happen(events.Preempt(number, by, leaves, how, overhead))
        if how and idle and job is not None:
            self._happen(events.Kept(number, job.done, job.keeps))

    def failed(self, why: str, blame: bool = True) -> None:
        """Restart a planner that has failed.

        blame: its policy is at fault; if that happens twice at the same pass, another policy takes over. A planner that
        was ended from outside says nothing about its policy.
        """
        self.ready, self.changing, self.asked, self.wake = False, False, None, None
        self.notes.append(f"planner: {why}")
        self._happen(events.PlannerDown())
        if blame:
            self.failures.append(why)
        if self._wanted is not None:
            return
        epoch = self.book.epoch
        other = epoch["policy"] != FALLBACKS[-1] or "predict" in epoch
        if blame and len(self.failures) % 2 == 0 and other:
            fallback = FALLBACKS[epoch["policy"] in FALLBACKS]
            self.switch(fallback, epoch["program"], "switched", epoch["asked"])
            if self._wanted:
                epochs.mistrust(self._wanted)
        else:
            self._wanted = {}

    def take_over(self, policy: str, program: str) -> None:
        """Switch to another policy at once, whether the planner has answered or not."""
        self.failures.clear()
        self.ready, self.changing, self.asked, self.wake = False, False, None, None
        self.switch(policy, program, "switched")

    def remake(self) -> None:
        """Replace the planner by a better one when no pass is in progress."""
        if self._wanted is None:
            self._wanted = {}
            self.ready, self.changing = False, True

    def note_shown(self, estimates: Sequence[list[Any]]) -> None:
        """Record which starts users were shown as expected."""
        if estimates:
            self._happen(events.Shown([*estimates]))

    def tick(self) -> None:
        """Process the passing of time."""
        now = self._now()
        while self._timers and self._timers[0][0] <= now:
            self.book.review.add(heapq.heappop(self._timers)[1])

    def look_at_clock(self) -> bool:
        """Return whether the machine slept, or its calendar was set, since the last call.

        Begins and deadlines keep their calendar times; limits and promises are spans, and stay.
        """
        slept, skew = self.clock.slept() - self._slept, self._skew()
        self._slept += slept
        set_ = skew != self.book.skew
        if set_:
            self.notes.append(f"the clock of the machine was set: it is {skew / SECOND:+,.0f} s from that of the queue")
        if set_ or slept > STEP:
            trouble = ("machine-suspended", slept) if slept > STEP else ("", 0)
            self._happen(events.ClockSet(*trouble, skew if set_ else None))
            self._timers.clear()
            self.book.review.update(self.book.jobs)
            if set_ and self.book.reservations and not self._wanted:
                self._again("reserved")
        return set_ or slept > STEP

    def _skew(self) -> int:
        """Return calendar minus queue clock; unchanged unless the calendar has stepped."""
        skew = self.clock.wall() - self.clock.now()
        return skew if abs(skew - self.book.skew) > STEP * max(self.clock.speed, 1) else self.book.skew

    def next_timer(self) -> int | None:
        """Return when `tick` and `flush` are to be called at the latest."""
        some = [self._timers[0][0]] if self._timers else []
        if self.wake is not None and self.ready and self.asked is None and not self.book.paused:
            some.append(self.wake)
        if (then := reserving.next_instant(self.book, self.clock.now())) is not None:
            some.append(then)
        return min(some, default=None)

    # ------------------------------------------------------------------ output

    def flush(self) -> None:
        """Write what happened since the last flush, then carry out its consequences."""
        if self.asked is None and self._wanted != {}:
            # Otherwise the policy might start them too, in this pass or on a repeat of the last one; that is declined
            # first.
            foreign, self._foreign = self._foreign, []
            for run in foreign:
                self._began(run)
        for event in [*reserving.due(self.book, self._now())]:
            self._happen(event)
        self._review()
        self._begin_epoch()
        self._start_due()
        asks = self._ask()
        if self._events or self.book.touched:
            try:
                self.fault("before-commit")
                self._number()
                first = self.store.commit(self._events, self._dirty(), self.clock.wall())
            except StoreLost:
                raise
            except StoreError as error:
                self._reload(error)
                return
            self.fault("after-commit")
            self._number_passes(first)
        self._written()
        if self._wanted is not None and self.asked is None:
            self._make_planner()
        elif asks is not None:
            messages, self.outbox, self._stirred = self.outbox, [], False
            self._disturbed.clear()
            self.link.ask(asks, messages)
            self.fault("asked")

    def _number(self) -> None:
        """Record the numbers of new jobs apart from the log, so that they are never reused."""
        if self.book.fresh:
            try:
                self.number(self.book.last_job)
            except OSError as error:
                raise StoreError(f"{error.filename}: {error.strerror}") from error

    def _dirty(self) -> list[Job]:
        book = self.book
        return [*(book.jobs[number] for number in sorted(book.touched)), *book.over.values()]

    def _number_passes(self, first: int) -> None:
        """Note the positions in the log of the last epoch and the last pass.

        first: the position of the first new event.
        """
        for seq, (event, _, _) in enumerate(self._events, first):
            if isinstance(event, events.Epoch):
                self.book.epoch_seq = seq
            elif isinstance(event, events.PassBegun):
                self.pass_seq = seq

    def _written(self) -> None:
        book, launches, stops = self.book, self._launches, [run for run in self._stops if run.there]
        over = list(book.over.values())
        book.settle()
        acts, self._acts = self._acts, []
        self._events, self._launches, self._stops = [], [], []
        answers, self._answers = self._answers, []
        for reply, answer, _ in answers:
            reply(answer)
        for job in over:
            for waiter in self._waiters.pop(job.id, []):
                waiter(ended(job))
            if job.notify:
                self.notify(job, self.store.spec(job.spec))
        some = [
            Decision(run.job, run.attempt, self.store.spec(run.job.spec))
            for run in launches
            if run.there and run.job.state == STARTING
        ]
        if some:
            self._have_pool(lambda: self.pool.start(some))
        if stops:
            self._have_pool(lambda: self.pool.stop(stops))
        for act in acts:
            known = book.jobs.get(act.job)
            if known is None or known.attempt is None:
                continue
            if isinstance(act, events.Signal):
                self.pool.signal(known.run, act.number)
            else:
                self.pool.freeze(known.run)

    def _have_pool(self, act: Callable[[], None]) -> None:
        """Let the pool do something. If it fails, the fate of the attempts is found when the pool is read."""
        try:
            act()
        except StoreLost:
            raise
        except Exception:
            self.notes.append(f"pool {self.pool.name}: {traceback.format_exc()}")

    def _reload(self, error: StoreError | Refused) -> None:
        """Reload the book from the store: what happened since the last flush is not on disk, so it is undone."""
        if isinstance(error, StoreLost):
            raise error
        answers, self._answers = self._answers, []
        answers += [(work.reply, {}, work.token) for work in self._works]
        self._works.clear()
        self._backlog.clear()
        self._events, self._launches, self._stops, self._acts = [], [], [], []
        self.store.forget()
        self.book = self.store.load()
        self.notes.append(f"store: {error}")
        self.ready, self.asked = False, None
        self.open(*self._opened)
        for reply, _, token in answers:
            stored = self._by_token(token) if token else None  # by an earlier try
            reply(_failed(error) if stored is None else commands.submitted(stored))

    def _now(self) -> int:
        return max(self.clock.now(), self.book.last_t)

    def _happen(self, event: Event, t: int | None = None) -> None:
        """Apply an event. t: its instant, by default now."""
        entry = Entry(event, self._now() if t is None else t)
        self.book.apply([entry])
        self._events.append(entry)
        for more in self.departures.follow(event, self.book):
            self._happen(more)
        for message in feed.messages(event):
            self.outbox.append(message)
            self._stirred |= message[0] not in protocol.CALM
            if message[0] in ("gone", "change", *protocol.WAITS):
                self._disturbed.add(message[1])
        match event:
            case events.Epoch():
                self.outbox, self._stirred = [], False
            case events.Reserve() | events.Unreserve() if reserving.renews(event, self.book):
                self._disturbed.update(self.book.jobs)  # what the policy is deciding does not count
                self._again("reserved")
            case events.Hold() | events.Edit() | events.End():
                self.carried.pop(event.job, None)
                self.expected.pop(event.job, None)
            case events.Release() if self.book.platform or self.book.reservations:
                self._unjudged.add(event.job)
            case events.Suspend() | events.Resume() | events.Signal():
                self._acts.append(event)
            case events.Stop() | events.Preempt() if (job := self.book.jobs[event.job]).state == ENDING:
                self._stops.append(job.run)

    def _review(self) -> None:
        """Let jobs wait that may wait from now on; end those that never can."""
        book, backlog = self.book, self._backlog
        book.decide_some(REVIEWED)
        if book.review or backlog:
            self.look_at_clock()  # before anything is found to have begun, or to be too late
        for _ in range(REVIEWED):  # in larger queues the rest is reviewed in the next flushes
            if not backlog:
                backlog.extend(sorted(book.review))
                book.review.clear()
            if not backlog:
                return
            number = backlog.popleft()
            book.review.discard(number)
            if number in book.changed:
                book.changed.discard(number)
                book.touched.add(number)
            job = book.jobs.get(number)
            if job is None or job.state != PENDING:
                continue
            if (number in self._unjudged and job.due is None) or job.held == NEVER:
                self._judge(job)
            now, skew = self._now(), book.skew
            over = commands.hopeless(job, now + skew, book)
            if over is not None:
                self._happen(over)
                continue
            decided = job.waits or job.due is not None
            why = "" if decided else book.blocked(job, now)
            if decided:
                pass
            elif not why:
                self._happen(self._wait(job))
            elif why == "JobArrayTaskLimit":
                book.park(job)
            elif why == "BeginTime" and job.begin is not None:
                heapq.heappush(self._timers, (job.begin - skew, number))
            if job.deadline is not None:
                heapq.heappush(self._timers, (job.deadline - job.walltime + 1 - skew, number))

    def _promises(self) -> list[list[Any]]:
        """Return the reserved starts: job, start, placement if there are several nodes."""
        return [[job, t, self.places.get(job, [])] for job, t in self.plan.items()]

    def _carry(self) -> None:
        """Keep the promises to waiting jobs for the planner of the next epoch."""
        if self.book.epoch and self.book.epoch.get("platform", "") != self.book.platform:
            return  # on other nodes everything is planned again
        plan = self._promises() if self.binds else self.store.plan()
        known = {job: where for job, *where in plan}
        for job in self.book.jobs.values():
            if job.waits and job.promise is not None:
                self.carried[job.id] = known.get(job.id, [job.promise, []])

    def _wait(self, job: Job) -> events.Wait:
        """Return the event by which a job joins the policy's queue, with its promise of an earlier epoch."""
        start, nodes = self.carried.pop(job.id, [0, []])
        if start <= self._now() or (not nodes and len(self.book.nodes.names) > 1):
            return events.Wait(job.id)
        return events.Wait(job.id, start, nodes or ())

    def _begin_epoch(self) -> None:
        """Begin an epoch: its planner will know only the open jobs."""
        if self._wanted and self.asked is None:
            self._carry()
            basis: Basis = {**self._wanted, **feed.begins_with(self.book), "now": self._now()}
            basis |= epochs.of_pool(self.pool)
            if self.shadow:
                basis["advises"] = True
            self._happen(events.Epoch(basis))
            self._wanted = {}
            self.ready = False
            self.plan.clear()

    def _start_due(self) -> None:
        """Start the due jobs that fit now; tell the policy which ones can no longer start."""
        book = self.book
        if not book.due or self.stopping or book.paused:
            return
        for event in starts.unmet(book):
            self._happen(event)
        some = sorted(book.due_starts(), key=lambda each: (each[1].start, each[0].id))
        for job, due in some:
            nodes = due.nodes if book.platform else None
            if job.due is not None and not self._start(job, self._now(), due.why, nodes) and not book.yielding:
                self._happen(events.Withdrawn(job.id))

    def _ask(self) -> int | None:
        """Return the instant of a pass, if one is due; it is written before the planner is asked."""
        if not self.ready or self.asked is not None or self._wanted is not None or self.stopping:
            return None
        if self.book.paused:
            return None
        now, last = self.clock.now(), max(self.book.last_t, self.last_pass + 1)
        if self.wake is not None and self.wake <= now:
            # A small delay is tolerated: the pass counts for the instant that the policy requested.
            now = self.wake if now - self.wake < self.late else now
        elif not self._stirred or (self._works and now - self.last_pass < PAUSE):
            return None
        now = max(now, last)
        self.wake, self.asked, self.last_pass = None, now, now
        self._happen(events.PassBegun(now), now)
        return now

    def _make_planner(self) -> None:
        """Start a planner that knows everything since the epoch."""
        book = self.book
        self._wanted = None
        since, now = self.link.kept(book.epoch_seq, book.epoch["program"])
        there = next(self.store.events(since - 1), None) if since else None
        if there is None or there.event != events.PassBegun(now):  # another log, as after a restore
            since = 0
        if not since and book.passes > RELIVED:
            self._again("restarted")
            self.flush()
            return
        log = self.store.events(since or book.epoch_seq, but=feed.SILENT)
        self._history, self.outbox = feed.passes(log, bool(since))
        self._stirred = any(message[0] not in protocol.CALM for message in self.outbox)
        self.last_pass = max([self.last_pass, *(one.now for one in self._history[-1:])])
        self._disturbed.clear()
        if not self.changing:  # else the plan of the planner before it is shown, and holds, until this one has its own
            self.plan.clear()
        self.asked = -1
        self.link.begin(book.epoch, self._history, since)

    def _take_plan(self, answer: Decisions | Begun) -> None:
        if answer["anew"]:
            self.plan.clear()
            self.places.clear()
        for number, t, *nodes in answer["plan"]:
            if t is None:
                self.plan.pop(number, None)
                self.places.pop(number, None)
                continue
            self.plan[number] = t
            if nodes:
                self.places[number] = nodes[0]
            job = self.book.jobs.get(number)
            if self.binds and job is not None and job.waits and job.promise is None and number not in self._disturbed:
                self._happen(events.Promise(number, t))
        self.wake = answer["wake"]
        if self.shadow and self.wake is not None:  # a run far over its limit is always expected to end now
            self.wake = max(self.wake, self.last_pass + SECOND)


def ended(job: Job) -> Over:
    """Return the answer for a job that is over."""
    return {"id": job.id, "state": job.state, "code": job.code}


def _failed(error: StoreError | Refused) -> JsonObject:
    if isinstance(error, Refused):
        return error.answer()
    return {"error": {"code": "store", "message": f"nothing was stored: {error}", "field": ""}}


def _nobody(answer: JsonObject) -> None:
    """Ignore an answer whose client left with an earlier daemon."""
