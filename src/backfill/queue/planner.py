"""A planner: the policy, on a State that the events of the queue bring about.

It simulates nothing: it does each transition as the message says, and asks the very policy that `simulate` runs. All
that it knows follows from the messages since the epoch, so one that is made anew decides as the one before it did.

The machine is one node; a licence is a resource of it, so every policy can be used.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import numpy as np

from backfill.core.errors import OK, Misused, raise_misuse
from backfill.core.journal import (
    ASK,
    BEGIN,
    CAPACITY,
    CHANGE,
    DECIDE,
    DROP,
    END,
    LEAVE,
    NUMBERS,
    PREEMPT,
    RELEASE,
    RESERVE,
    START,
    SUBMIT,
    TICK,
    VACATE,
    WITHDRAW,
)
from backfill.core.loop import decide_once, take_in
from backfill.core.policy import Policy
from backfill.core.record import zeros
from backfill.core.runs import REQUEUE, RUNNING
from backfill.core.setup import new_state
from backfill.core.snapshot import move_into
from backfill.core.transitions import PRIORITY, WALLTIME, do_again
from backfill.core.view import View
from backfill.loading import load
from backfill.model.errors import PolicyError, UsageError
from backfill.model.platform import Platform
from backfill.model.promises import CAUSES
from backfill.model.schedule import REASONS, STATES
from backfill.model.units import NEVER
from backfill.model.workload import Jobs
from backfill.queue import feed
from backfill.queue.feed import Message
from backfill.queue.watchdog import WATCHDOG
from backfill.worlds.simulated import sorter

ROOM = 256  # jobs for which the first State has room
PROGRESS_S = 0.5  # between two signs of life while a history is replayed
MOVES = 20  # of a job's promised start that are remembered
RESOURCES = ("cpus", "memory", "gpus")
ANEW = "the queue runs a preempted job anew from its beginning"

Decisions = dict[str, Any]


def platform_of(resources: dict[str, int]) -> Platform:
    """One node with these resources, cpus first; what is none of RESOURCES is a licence."""
    names = ("cpus", *(name for name in resources if name != "cpus"))
    return Platform(
        nodes=("machine",),
        resources=names,
        capacity=np.array([[resources[name] for name in names]], np.int64),
        speed=np.ones(1),
        site=np.zeros(1, np.int64),
        name="machine",
        node_licences=tuple(name for name in names if name not in RESOURCES),
    )


class Planner:
    """A policy and its State since an epoch began."""

    def __init__(self, text: str, epoch: dict[str, Any]) -> None:
        self.policy, params = load_policy(text)
        self._values = self.policy.values(params)
        self.platform = platform_of(epoch["resources"])
        self._row = zeros(NUMBERS)  # the transition that is done
        self.late = 0  # passes that came later than the policy had asked for
        self.arrange = sorter() if self.policy.sorted_for_it else take_in
        self.jobs = 0  # rows of the State that are used
        self.ids: list[int] = []
        self.rows: dict[int, int] = {}
        self.moves: dict[int, list[Move]] = {}  # of jobs that wait, where the policy keeps what it reserves
        self._grace: dict[int, int] = {}
        self.users: dict[str, int] = {}
        self.projects: dict[str, int] = {}
        self._known = feed.begun(epoch["base"])
        self._undated: list[int] = []  # rows of jobs that are submitted at the instant of the next pass
        self._use(self._new_state(ROOM))

    def decide(self, now: int, messages: Iterable[Message]) -> Decisions:
        """What the policy decides at an instant at which this has happened."""
        said = [*self._known, *messages]
        self._known = []
        self.make_room(sum(message[0] == "submit" for message in said))
        return self._decide(now, said)

    def learn(self, messages: list[Message]) -> None:
        """What has happened before the next pass, as far as it is known: `decide` is told the rest alone."""
        submits = 0 if self._known else sum(1 for _ in takewhile(lambda message: message[0] == "submit", messages))
        self.make_room(submits)
        if submits:
            self._hear_submits([message[1:] for message in messages[:submits]])
        self._known += messages[submits:]

    @property
    def knows_more(self) -> bool:
        """Whether it has learned of something since the last pass."""
        return bool(self._known or self._undated)

    def make_room(self, more: int) -> None:
        """Have room for so many more jobs."""
        needed, state = self.jobs + more, self.state
        if needed > state.jobs.rows:
            bigger = self._new_state(2 * needed)
            move_into(state, bigger)
            self._use(bigger)

    # ------------------------------------------------------------------

    def _use(self, state: Any) -> None:
        self.state, self.view = state, View(state, self.policy.layout)

    def _new_state(self, room: int) -> Any:
        """Return a State in which nothing has happened, with room for so many jobs."""
        platform, k = self.platform, len(self.platform.resources)
        cpus = int(platform.capacity[0, 0])
        demand = zeros(room, k)
        sizes = [1 << n for n in range(cpus.bit_length())]
        demand[:, 0] = np.resize(np.array(sizes, np.int64), room)  # typical sizes, until there are jobs
        return new_state(
            Jobs(job=np.arange(room), submit=zeros(room), runtime=zeros(room), walltime=zeros(room), demand=demand),
            platform,
            self.policy,
            self._values,
            estimate=zeros(room),
            recorded=self.policy.booked,
            journal=True,
        )

    def _decide(self, now: int, messages: list[Message]) -> Decisions:
        state = self.state
        batch = state.batch
        late = batch.timed > 0 and batch.timers[0] < now
        self._do(TICK, now)
        if late:  # what was reserved since then has passed: a change of the world, which no policy could foresee
            batch.changes = batch.changes + 1
            self.late += 1
        self._date_submits()
        for kind, some in groupby(messages, itemgetter(0)):
            if kind == "submit":
                self._hear_submits([message[1:] for message in some])
                self._date_submits()
            else:
                for message in some:
                    self._hear(*message)
        self._do(DECIDE)
        self.arrange(state)
        with WATCHDOG.policy(), suppress(Misused):  # it is told below
            if self.policy.compiled:
                decide_once(self.policy.entry, state)
            else:
                self.policy.decide(self.view)
        if state.trace.error[0] != OK:
            raise_misuse(self.policy.name, state, np.array(self.ids), self.platform)
        return self._read(now, [message[1] for message in messages if message[0] == "gone"])

    def _do(self, code: Any, *numbers: int) -> None:
        row = self._row
        row[0] = code
        for place, number in enumerate(numbers, 1):
            row[place] = number
        do_again(self.state, row)

    def _hear(self, kind: str, *about: Any) -> None:
        getattr(self, f"_hear_{kind}")(*about)

    def _hear_submits(self, some: list[Message]) -> None:
        """Jobs that come one after the other."""
        state, first = self.state, self.jobs
        rows, jobs, projects = slice(first, first + len(some)), state.jobs, []
        facts = [facts for _, facts in some]
        self.ids += (job for job, _ in some)
        self.rows.update((job, row) for row, (job, _) in enumerate(some, first))
        self._grace.update((job, one["grace"]) for job, one in some)
        for job, one in some:  # a job without a project is a project of its own
            projects.append(self.projects.setdefault(one["project"] or f"\0{job}", len(self.projects)))
        jobs.submit[rows] = [one.get("submit", 0) for one in facts]
        self._undated += (row for row, one in enumerate(facts, first) if "submit" not in one)
        jobs.walltime[rows] = [one["walltime"] + one["grace"] for one in facts]
        if state.runs.preempts:
            state.runs.whole[rows] = jobs.walltime[rows]
        need = [[one["need"].get(name, 0) for name in self.platform.resources] for one in facts]
        jobs.demand[rows], jobs.need[rows] = need, need
        jobs.priority[rows] = [one["priority"] for one in facts]
        jobs.deadline[rows] = [NEVER if one["deadline"] is None else one["deadline"] for one in facts]
        jobs.user[rows] = [self.users.setdefault(one["user"], len(self.users)) for one in facts]
        state.projects.of[rows] = projects
        for _ in some:
            self._do(SUBMIT, self.jobs)
            self.jobs += 1
        asks = {
            tuple(map(bool, one)): row for row, one in enumerate(need, first)
        }  # a job for all that ask for the same
        for row in asks.values():
            self._do(ASK, row)

    def _date_submits(self) -> None:
        """A job is submitted at the instant of the pass that follows."""
        if self._undated:
            now, rows, projects = int(self.state.now), np.array(self._undated), self.state.projects
            own = projects.of[rows]
            self.state.jobs.submit[rows] = now
            projects.submit[own[projects.first[own] == rows]] = now
            self._undated = []

    def _hear_wait(self, job: int) -> None:
        row = self.rows[job]
        if not self.state.queue.waits[row] and self._run_of(row) is None:
            self._do(RELEASE, row)

    def _hear_began(self, job: int, since: int, why: str) -> None:
        """A job runs that the policy did not start in this State."""
        self._do(BEGIN, self.rows[job], since, REASONS.index(why) if why in REASONS else 0)

    def _hear_gone(self, job: int, how: str) -> None:
        row = self.rows.get(job)
        if row is None:
            return
        if self.state.queue.waits[row]:
            self._do(LEAVE, row)
            return
        run = self._run_of(row)
        if run is not None:
            self._do(VACATE, run)
            self._do(END, run, STATES.index(how))
        else:
            self._do(DROP, row)

    def _hear_change(self, job: int, to: dict[str, int]) -> None:
        row = self.rows[job]
        if "walltime" in to:
            self._change(row, WALLTIME, to["walltime"] + self._grace[job], 0.0)
        if "priority" in to:
            self._change(row, PRIORITY, 0, float(to["priority"]))

    def _change(self, row: int, what: Any, walltime: int, priority: float) -> None:
        numbers = zeros(NUMBERS)
        numbers[:4] = CHANGE, row, what, walltime
        numbers.view(np.float64)[4] = priority
        do_again(self.state, numbers)

    def _hear_capacity(self, resources: dict[str, int]) -> None:
        for k, name in enumerate(self.platform.resources):
            amount = resources.get(name, 0)
            if amount != self.state.machine.capacity[0, k]:
                self._do(CAPACITY, 0, k, amount, amount)

    def _run_of(self, row: int) -> int | None:
        """The run of a job, if it runs."""
        runs = self.state.runs
        run = int(runs.last[row])
        return run if run >= 0 and runs.how[run] == RUNNING else None

    def _read(self, now: int, gone: list[int]) -> Decisions:
        """What was written down of the pass."""
        state = self.state
        starts: list[list[Any]] = []
        preempts: list[list[int]] = []
        plan: dict[int, int | None] = {}
        for code, job, a, b, c, _ in state.journal.row[: state.journal.rows].tolist():
            if code == PREEMPT:
                if a != REQUEUE:
                    who = f"policy {self.policy.name} preempts job {self.ids[job]}"
                    raise PolicyError(f"{who} and keeps its progress; {ANEW}")
                preempts.append([self.ids[job], 0])
            elif code == START:
                starts.append([self.ids[job], REASONS[a]])
                for one in preempts[::-1]:  # those that left so that it has room
                    if one[1]:
                        break
                    one[1] = self.ids[job]
                plan[self.ids[job]] = None
                self.moves.pop(self.ids[job], None)
            elif code == RESERVE:
                plan[self.ids[job]] = a
                if self.policy.keeps:
                    self._note_move(self.ids[job], Move(now, a, CAUSES[b], self.ids[c] if c >= 0 else 0, gone[:3]))
            elif code in (WITHDRAW, LEAVE):
                plan[self.ids[job]] = None
        state.journal.rows = 0
        wake = int(state.batch.timers[0]) if state.batch.timed > 0 else None
        told: Decisions = {"now": now, "starts": starts, "preempts": preempts, "plan": [*plan.items()], "wake": wake}
        return told | {"anew": not self.policy.keeps}

    def _note_move(self, job: int, move: "Move") -> None:
        """Remember that a job has another start in the plan than before."""
        known = self.moves.get(job, [])
        if not known or known[-1].start != move.start:
            self.moves[job] = [*known[:1], *known[1:][-MOVES:], move]


@dataclass(frozen=True, slots=True)
class Move:
    """A start that the policy reserved for a job."""

    t: int
    start: int
    cause: str  # of model.promises.CAUSES
    by: int  # the job for which it made way; 0 none
    gone: list[int]  # the first jobs that ended at that instant


def load_policy(text: str) -> tuple[Policy, Any]:
    """A policy that the queue can use. Raises UsageError, and PolicyError for a mistake in a file."""
    with WATCHDOG.policy():
        policy, params = load(text)
    if policy.preempts:
        _check_preempts(policy, params)
    if policy.processors:
        raise UsageError(f"policy {policy.name} schedules nodes of one cpu each; the queue has one node")
    return policy, params


def _check_preempts(policy: Policy, params: Any) -> None:
    """A job that makes way is ended; nobody can keep what it has done, or the memory that it has."""
    how = policy.in_full(params).get("how")
    if how != "requeue":
        other = f"{policy.name}:how=requeue" if how else "a policy with how=requeue, such as preemptive"
        what = f"by {how}" if how else "and keeps their progress"
        raise UsageError(f"policy {policy.name} preempts jobs {what}; {ANEW}; expected {other}")


def answer(
    planner: Planner | None, asked: dict[str, Any], progress: Callable[[], None] = lambda: None
) -> tuple[Planner, Decisions]:
    """Answer a request of the daemon. progress: is called now and then while a long history is replayed."""
    if asked["do"] == "ask":
        assert planner is not None
        return planner, planner.decide(asked["now"], asked["messages"])
    planner = Planner(asked["epoch"]["policy"], asked["epoch"])
    planner.make_room(sum(message[0] == "submit" for _, messages in asked["history"] for message in messages))
    passes: list[Any] = []
    plan: dict[int, int | None] = {}
    wake = None
    spoke = time.monotonic()
    for now, messages in asked["history"]:
        if time.monotonic() - spoke > PROGRESS_S:
            progress()
            spoke = time.monotonic()
        done = planner.decide(now, messages)
        plan = dict(done["plan"]) if done["anew"] else plan | dict(done["plan"])
        passes.append(feed.decisions(done))
        wake = done["wake"]
    policy = planner.policy
    binds = policy.binds and policy.keeps
    return planner, {"passes": passes, "plan": [*plan.items()], "wake": wake, "anew": True, "binds": binds}
