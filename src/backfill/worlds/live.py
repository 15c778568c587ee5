"""A planner: the policy and its State, driven by the events of the live queue.

It simulates nothing: it applies each transition that a message describes, and calls the same policy that `simulate`
runs. Its State follows from the messages since the epoch alone, so a replayed planner decides like the original.

A message describes a job by facts: `need` per task, except floating licences, which are for the whole job; `tasks`,
`spread`, `constraint`, `site`, `partition`, `qos`, `exclusive` and the rest as in a workload. The code of simulations
translates them for the platform. A single machine, with licences as resources, is such a platform too.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import numpy as np

from backfill.compiler.kernel import Apart
from backfill.compiler.record import zeros
from backfill.compiler.users import Misused
from backfill.compiler.view import View
from backfill.core.compact import Kept
from backfill.core.entry import ROW, Alike, Entrants, Entry, Room, write_row
from backfill.core.errors import OK, raise_misuse
from backfill.core.journal import (
    ANEW,
    ASK,
    BEGIN,
    CAPACITY,
    CHANGE,
    COPIES,
    DECIDE,
    DROP,
    END,
    LEAVE,
    NUMBERS,
    ON,
    PREEMPT,
    PROMISED,
    PUT,
    RELEASE,
    RESERVE,
    START,
    SUBMIT,
    TICK,
    VACATE,
    WITHDRAW,
)
from backfill.core.once import NEITHER, WAITS, arranger, decide_once, standing
from backfill.core.plan.promises import GIVEN, NO_TIME
from backfill.core.policy import Policy
from backfill.core.runs import REQUEUE
from backfill.core.setup import new_state
from backfill.core.snapshot import fill, move_into
from backfill.core.transitions import PRIORITY, WALLTIME, do_again
from backfill.loading import load
from backfill.model.errors import PolicyError, UsageError
from backfill.model.machines import machine
from backfill.model.platform import Platform
from backfill.model.promises import CAUSES
from backfill.model.schedule import PREEMPTED, REASONS, STATES
from backfill.model.units import NEVER
from backfill.model.workload import Ints, Jobs, Workload
from backfill.queue import protocol
from backfill.queue.job import CHECKPOINT, SUSPEND, Facts
from backfill.queue.nodes import FLOATING, MACHINE
from backfill.queue.protocol import Message
from backfill.queue.shapes import Basis, Begun, Decisions
from backfill.queue.states import CANCELLED
from backfill.worlds.adapt import as_run
from backfill.worlds.admission import check_processors
from backfill.worlds.blame import blaming
from backfill.worlds.foreseeing import Foreseeing
from backfill.worlds.moves import Moves
from backfill.worlds.reserved import Reserved
from backfill.worlds.rules import WholeNodes
from backfill.worlds.watchdog import WATCHDOG
from backfill.worlds.workload import parsed, table

ROOM = 256  # capacity of the first State for jobs
FEW = 8  # and for shapes of jobs and accounts of limits
PROGRESS_S = 0.5  # seconds between two signs of progress while a history is replayed
SEVERAL = 32  # from this many jobs at once, columns are faster than rows
# What a job has of its own; it asks for the same as others that differ in nothing else. A limit may be one's own, too.
OWN = frozenset(("need", "walltime", "grace", "deadline", "submit", "why", "nodes", *protocol.KEPT))
WHOSE = ("user", "group", "project")
HOW = ("requeue", CHECKPOINT, SUSPEND)  # kinds of preemption, by their numbers in core/runs.py
LOCAL = HOW[:1]  # the only one of a pool that can just end jobs


def _direct(kernel: Any) -> Any:
    """Return the compiled code of a kernel, loaded, so that no pass waits for it.

    Its dispatcher would examine the types of the arguments, which takes longer than most transitions.
    """
    if not isinstance(kernel, Apart):  # there is no compiler
        return kernel
    return kernel.load().entry_point


def platform_of(epoch: Basis) -> Platform:
    """Return the platform of an epoch: that of its platform file, else one node with its resources."""
    return parsed(epoch["platform"]) if epoch.get("platform") else machine(epoch["resources"], MACHINE)


class Planner:
    """A policy and its State since the beginning of an epoch."""

    def __init__(self, text: str, epoch: Basis, platform: Platform | None = None, preempts: Sequence[str] = ()) -> None:
        """Create a planner. platform, preempts: by default those of the epoch.

        preempts: possible kinds, some of HOW.
        """
        self.whole = platform or platform_of(epoch)
        self.divided = Reserved.of(self.whole, epoch.get("reservations", ()), epoch.get("now", 0))
        self.platform = self.whole if self.divided is None else self.divided.division.platform
        preempts = preempts or epoch.get("preempts", LOCAL)  # empty for a queue that only watches
        hint = "" if self.divided is None else ", as reservations divide its nodes"
        self.policy, params = load_policy(text, self.platform, preempts, hint)
        self.spec = text.rpartition(".py:")[2]  # the policy with its parameters, without the file
        self._preempts = preempts
        self.advises = epoch.get("advises", False)  # its starts are only advice, and are withdrawn
        self._values = self.policy.values(params)
        pool = self.platform.is_pool and not self.platform.limits
        self.entry = Entry(self.platform, self.policy, pool)
        self.nodes = {name: place for place, name in enumerate(self.whole.nodes)}
        self.names = self.whole.nodes if self.divided is None else self.divided.names  # with those of parts of nodes
        alone = self.whole.is_pool and not self.whole.limits
        self.named = bool(epoch.get("platform")) or not alone  # starts name their nodes
        self.inside: dict[int, str] = {}  # by job: the reservation that it requests
        self._own = OWN if self.platform.limits else OWN.union(WHOSE)
        self._row = zeros(NUMBERS)  # the row of the current transition
        self.late = 0  # number of passes later than requested by the policy
        self.arrange = arranger(self.policy)
        self.jobs = 0  # number of rows in use
        self.ids: list[int] = []
        self.rows: dict[int, int] = {}
        self.moves = Moves()  # of waiting jobs, if the policy keeps its reservations
        self._grace: dict[int, int] = {}
        self._kept: dict[int, str] = {}  # how jobs keep their progress, see HOW
        self._behind: dict[int, int] = {}  # the part of a walltime that is hidden from a policy that does not preempt
        self.last: list[list[Any]] = []  # the last decisions; advice is not in the log
        self._over: list[int] = []  # rows of ended jobs
        self._whole: dict[int, tuple[int, int]] = {}  # jobs on whole nodes: tasks on each node, and in all
        self._raised: dict[int, float] = {}  # priority that partition and quality of service add to a job
        self._known = protocol.begun(epoch)
        self._began = False  # whether it has decided before
        self._undated: list[int] = []  # rows of jobs that count as submitted at the next pass
        self.room = Room(ROOM, FEW, FEW if self.platform.limits else 0)
        # A run that is longer than predicted would be ended by a reservation, so beside those walltimes count.
        foresees = epoch.get("predict") and not epoch.get("reservations")
        self.foresight = Foreseeing(epoch["predict"], self) if foresees else None
        self._use(self._new_state())
        foreseen = () if self.foresight is None else self.foresight.kernels
        for needed in foreseen:
            _direct(needed)
        self._do_again, self._write_row, self._standing = map(_direct, (do_again, write_row, standing))

    def decide(self, now: int, messages: Iterable[Message]) -> Decisions:
        """Return the decisions of the policy at an instant, given what has happened since the last pass."""
        said = [*self._known, *messages]
        self._known = []
        self.rest()
        self._enter([message[1:] for message in said if message[0] == "submit"], now)
        done, self._began = self._decide(now, said), True
        self.last = [] if self.advises else protocol.decisions(done)
        return done

    def rest(self) -> None:
        """Do the work that would only delay a pass. It changes no decision."""
        if len(self._over) >= max(ROOM, self.jobs - len(self._over)) and self.policy.forgets != "no":
            self._forget()
        self._grow(replace(self.entry.room, rows=self.jobs + self.jobs // 4))
        self.moves.rest(lambda: np.array(self.ids)[np.flatnonzero(self.state.queue.waits[: self.jobs])])

    def learn(self, messages: list[Message]) -> None:
        """Take in messages before the next pass; `decide` then gets only the later ones."""
        submits = 0 if self._known else sum(1 for _ in takewhile(lambda message: message[0] == "submit", messages))
        some = [message[1:] for message in messages[:submits]]
        self._enter(some, max(int(self.state.now), 0))
        self._undated += [self.jobs + i for i, (_, facts) in enumerate(some) if "submit" not in facts]
        self._hear_submits(some)
        self._known += messages[submits:]

    @property
    def knows_more(self) -> bool:
        """Return whether it has received messages since the last pass."""
        return bool(self._known or self._undated)

    @property
    def binds(self) -> bool:
        """Return whether a reservation of the policy is a promise. A plan based on predictions makes no promises."""
        return self.policy.binds and self.policy.keeps and self.foresight is None

    @property
    def departs(self) -> bool:
        """Return whether the policy promises departures of projects."""
        return self.policy.projects and self.foresight is None

    @property
    def walltimes(self) -> Ints:
        """The longest run time of the job in each row, whatever the policy has been told."""
        rows = np.arange(self.jobs)
        walltime: Ints = self.state.jobs.walltime[rows]
        return walltime if self.foresight is None else walltime + self.foresight.longer(rows)

    def limits(self, runs: Ints) -> Ints:
        """Return the latest ends of these runs, whatever the policy has been told."""
        limit: Ints = self.state.runs.limit[runs]
        return limit if self.foresight is None else limit + self.foresight.longer(self.state.runs.job[runs])

    def make_room(self, more: int) -> None:
        """Ensure capacity for this many more jobs."""
        self._grow(replace(self.entry.room, rows=self.jobs + more))

    def go_on(self, values: dict[str, Any], state: list[Any], foresight: list[Any]) -> None:
        """Take over the Python side, the State, and the predictor of another planner of this policy and platform."""
        vars(self).update(values)
        new = self._new_state()
        fill(new, state)
        self._use(new)
        if self.foresight is not None:
            self.foresight.go_on(foresight)

    def enter(self, jobs: Jobs, machine: Platform) -> Entrants:
        """Enter these jobs, as returned by `translated`, into the next rows."""
        some = self.entry.take(jobs, machine, jobs.walltime)
        self._grow(self.entry.room)
        self.entry.write(self.state, some)
        return some

    def translated(self, some: Sequence[tuple[int, Facts]]) -> tuple[Jobs, Platform, WholeNodes]:
        """Return the jobs with these numbers and facts as a run on the platform counts them; see worlds/adapt.py."""
        jobs, machine, whole, _ = as_run(self.workload(some), self.platform, self.policy.place)
        return jobs, machine, whole

    def workload(self, some: Sequence[tuple[int, Facts]]) -> Workload:
        """Return the jobs with these numbers and facts, constrained to or excluded from the parts of reservations."""
        asked = table(some, self.platform)
        return asked if self.divided is None else self.divided.constrained(asked)

    # ------------------------------------------------------------------

    def _use(self, state: Any) -> None:
        self.state, self.view = state, View(state, self.policy.layout)
        if self.divided is not None:
            from backfill.core.plan.planned import use_plan  # few queues ever need it

            use_plan(state)

    def _new_state(self) -> Any:
        """Return a State that knows no job."""
        sizes = 1 << np.arange(int(self.platform.capacity[0, 0]).bit_length())
        recorded = self.policy.booked
        return new_state(
            self.platform, self.policy, self._values, self.room, sizes=sizes, recorded=recorded, journal=True
        )

    def _grow(self, needed: Room) -> None:
        """Ensure the capacity that these jobs need; move into a larger State if necessary."""
        if not self.room.holds(needed):
            self.room = self.room.doubled_for(needed)
            bigger = self._new_state()
            move_into(self.state, bigger, self.policy)
            self._use(bigger)
            if self.foresight is not None:
                self.foresight.grow(self.room.rows)

    def _forget(self) -> None:
        """Free the rows of jobs that are over."""
        kept = Kept.of(self.state, self.policy, np.array(self._over, np.int64))
        self.entry.forget(kept)
        rows = kept.jobs.tolist()
        self.room = replace(self.room, rows=max(ROOM, 2 * len(rows)))
        smaller = self._new_state()
        move_into(self.state, smaller, self.policy, kept)
        self._use(smaller)
        if self.foresight is not None:
            self.foresight.forget(kept)
            self.foresight.grow(self.room.rows)
        over = {*self._over}
        place = {row: i for i, row in enumerate(rows)}
        self.ids = [self.ids[row] for row in rows]
        self.rows = {job: place[row] for job, row in self.rows.items() if row in place and row not in over}
        self._whole = {place[row]: whole for row, whole in self._whole.items() if row in place}
        self._raised = {place[row]: more for row, more in self._raised.items() if row in place}
        self._grace = {job: grace for job, grace in self._grace.items() if job in self.rows}
        self._kept = {job: how for job, how in self._kept.items() if job in self.rows}
        self._behind = {job: done for job, done in self._behind.items() if job in self.rows}
        self.inside = {job: name for job, name in self.inside.items() if job in self.rows}
        self._undated = [place[row] for row in self._undated]
        self.jobs, self._over = len(rows), []  # the remaining ended jobs are kept for good

    def _enter(self, submits: Sequence[Message], now: int) -> None:
        """Enter jobs that are about to be submitted."""
        asked = [self._asked(facts) for _, facts in submits] if len(submits) <= SEVERAL else []
        known = self.entry.known
        if asked and all(each in known for each in asked):
            for each, (_, facts) in zip(asked, submits, strict=True):
                self._enter_alike(known[each], facts, now)
        elif submits:
            self._enter_all(submits, now, asked)

    def _asked(self, facts: Facts) -> Hashable:
        """Return the key of a job's request."""
        more = [item for item in facts.items() if item[0] not in self._own]
        return (*facts.get("need", protocol.FACTS["need"]).items(), None, *more)

    def _enter_alike(self, alike: Alike, facts: Facts, now: int) -> None:
        """Enter one more job with a request that is remembered."""
        submit, due = facts.get("submit", now), facts.get("deadline")
        row = self.entry.take_alike(
            alike.numbers,
            submit,
            facts["walltime"] + facts.get("grace", 0),
            NEVER if due is None else max(due, submit),
            *(facts.get(name, "") for name in WHOSE),
        )
        self._grow(self.entry.room)
        self._write_row(self.state, row)
        self._note(int(row[ROW]), *alike.also)

    def _enter_all(self, submits: Sequence[Message], now: int, asked: Sequence[Hashable]) -> None:
        """Enter jobs column by column. asked: the key of each request, to be remembered."""
        some = [(job, {**protocol.FACTS, "submit": now, **facts}) for job, facts in submits]
        jobs, machine, whole = self.translated(some)
        entered = self.enter(jobs, machine)
        raised = jobs.priority.tolist()
        for i, (per_node, tasks) in enumerate(zip(whole.per_node.tolist(), whole.tasks.tolist(), strict=True)):
            also = (per_node, tasks), raised[i] - some[i][1]["priority"]
            self._note(entered.first + i, *also)
            if asked and asked[i] not in self.entry.known:
                self.entry.remember(asked[i], entered, i, also)

    def _note(self, row: int, whole: tuple[int, int], raised: float) -> None:
        """Record a job's tasks per node (0 if it shares nodes), its number of tasks, and its added priority."""
        if whole[0]:
            self._whole[row] = whole
        if raised:
            self._raised[row] = raised

    def _decide(self, now: int, messages: list[Message]) -> Decisions:
        state = self.state
        batch = state.batch
        late, before = batch.timed > 0 and batch.timers[0] < now, int(state.now)
        self._do(TICK, now)
        if self.divided is not None and self._began:
            self.divided.pass_to(state, self._do, before, now)
        elif self.divided is not None:
            self.divided.begin(state, self._do, now)
        if late:  # reservations since then have passed: a change of the world that no policy could foresee
            batch.changes = batch.changes + 1
            self.late += 1
        if self.foresight is not None:
            self.foresight.begin()
        self._date_submits()
        if self.foresight is not None and self.foresight.lacks:
            self._foresee()
        for kind, some in groupby(messages, itemgetter(0)):
            if kind == "submit":
                self._hear_submits([message[1:] for message in some])
                self._foresee()
            else:
                for message in some:
                    self._hear(*message)
        self._foresee()
        self._do(DECIDE)
        self.arrange(state)
        with WATCHDOG.policy(), blaming(self.policy), suppress(Misused):  # reported below
            if self.policy.compiled:
                decide_once(self.policy.entry, state)
            else:
                self.policy.decide(self.view)
        if state.trace.error[0] != OK:
            raise_misuse(self.policy.name, state, np.array(self.ids), self.platform)
        done = self._read(now, [message[1] for message in messages if message[0] == "gone"])
        if self.advises:  # they wait again, and the policy learns this before its next decision
            for job, *_ in done["starts"]:
                self._known += [["gone", job, CANCELLED], ["wait", job]]
        return done

    def _do(self, code: Any, *numbers: int) -> None:
        row = self._row
        row[0] = code
        for place, number in enumerate(numbers, 1):
            row[place] = number
        self._do_again(self.state, row)

    def _hear(self, kind: str, *about: Any) -> None:
        getattr(self, f"_hear_{kind}")(*about)

    def _hear_submits(self, some: Sequence[Message]) -> None:
        """Submit jobs whose rows are written already."""
        first = self.jobs
        for job, facts in some:
            if job in self.rows:  # its request has changed
                self._over.append(self.rows[job])
            self.rows[job], self._grace[job] = self.jobs, facts.get("grace", 0)
            self._kept.pop(job, None)
            self._behind.pop(job, None)
            if self.divided is not None and facts.get("reservation"):
                self.inside[job] = facts["reservation"]
            self.ids.append(job)
            self._do(SUBMIT, self.jobs)
            self.jobs += 1
        for row in [first] if len(some) == 1 else self._mixes(first):
            self._do(ASK, row)

    def _mixes(self, first: int) -> Iterable[int]:
        """Return one job for each combination of resources that the jobs from this row on request."""
        rows: dict[bytes, int] = {}
        for row, mix in enumerate(self.state.jobs.need[first : self.jobs] > 0, first):
            rows.setdefault(mix.tobytes(), row)
        return rows.values()

    def _date_submits(self) -> None:
        """Set the submits of new jobs to the instant of the present pass."""
        if self._undated:
            now, rows, projects = int(self.state.now), np.array(self._undated), self.state.projects
            own = projects.of[rows]
            self.state.jobs.submit[rows] = now
            if not self._began and rows[0] == 0:
                self.state.jobs.origin = now
            projects.submit[own[projects.first[own] == rows]] = now
            self._undated = []

    def _foresee(self) -> None:
        """Let the predictor learn new ends and predict new jobs, in the order in which they happened."""
        if self.foresight is not None:
            with WATCHDOG.policy():
                self.foresight.look()

    def _hear_wait(self, job: int) -> None:
        row = self.rows[job]
        if self._standing(self.state, row) == NEITHER:
            if job in self._kept and self.policy.preempts:  # the end of its last start does not affect that
                self.state.runs.paused[row] = HOW.index(self._kept[job])
            self._do(RELEASE, row)

    def _hear_promised(self, job: int, start: int, nodes: Sequence[Sequence[Any]]) -> None:
        """Let a job wait that holds a start promised by another State; see nodes.Placement.

        For a policy that keeps no reservations, or plans by predictions, the job simply waits.
        """
        row, now, nodes = self.rows[job], int(self.state.now), self._placement(job, nodes)
        known = self._standing(self.state, row) == NEITHER
        placed = self.state.machine.pool or (nodes and all(name in self.nodes for name, *_ in nodes))
        if not (known and self.policy.keeps and start > now and placed) or self.foresight is not None:
            self._hear_wait(job)
            return
        self._put(row, nodes)
        self._do(PROMISED, row, start)

    def _put(self, row: int, nodes: Sequence[Sequence[Any]]) -> None:
        """Set the placement of the job of a row; on a pool there is none."""
        if not self.state.machine.pool:
            inside = self.inside.get(self.ids[row], "")
            for pair, (name, tasks, *_) in enumerate(nodes):
                node = self.nodes[name] if self.divided is None else self.divided.place(self.nodes[name], inside)
                self._do(PUT, row, pair, node, 1 if row in self._whole else tasks)

    def _placement(self, job: int, nodes: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the placement of a job; the log of a single machine does not record it."""
        if self.divided is None or self.named:
            return nodes
        return [[MACHINE, int(self.state.jobs.tasks[self.rows[job]])]]

    def _hear_began(self, job: int, since: int, why: str, nodes: Sequence[Sequence[Any]] = ()) -> None:
        """Record a run that the policy did not start in this State. nodes: its placement; see nodes.Placement.

        On nodes that the platform no longer has, it holds nothing that the policy could give to others.
        """
        row, known = self.rows[job], [one for one in self._placement(job, nodes) if one[0] in self.nodes]
        if not known and not self.state.machine.pool:
            return
        self._put(row, known)
        self._do(BEGIN, row, since, REASONS.index(why) if why in REASONS else 0)

    def _hear_gone(self, job: int, how: str) -> None:
        row = self.rows.get(job)
        if row is None:
            return
        run = self._standing(self.state, row)
        if run == WAITS:
            self._do(LEAVE, row)
        elif run == NEITHER:
            self._do(DROP, row)
        else:
            self._do(VACATE, run)
            self._do(END, run, STATES.index(how))

    def _hear_over(self, job: int) -> None:
        if (row := self.rows.get(job)) is not None:
            self._over.append(row)

    def _hear_taught(self, *about: Any) -> None:
        if self.foresight is not None:
            self.foresight.teach(*about)

    def _hear_kept(self, job: int, done: int, how: str, nodes: Sequence[Sequence[Any]] = ()) -> None:
        """Set the used walltime of a job and how it continues; it starts over if `how` is empty.

        It also starts over if the nodes on which it was suspended are gone.
        """
        row, state = self.rows[job], self.state
        if not self.policy.preempts:
            self._hide(job, row, done if how == CHECKPOINT or self._run_of(row) is not None else 0)
            return
        runs = state.runs
        if not all(name in self.nodes for name, *_ in nodes):
            done, how = 0, ""
        if nodes and how == SUSPEND and int(runs.last[row]) < 0:  # this State does not know its last run
            self._put(row, nodes)
            self._do(BEGIN, row, int(state.now), 0)
            run = int(runs.last[row])
            self._do(VACATE, run)
            self._do(END, run, PREEMPTED)
        if how:
            self._kept[job] = how
        else:
            self._kept.pop(job, None)
        if self._run_of(row) is None:
            if not how and (runs.paused[row] != REQUEUE or runs.used[row] != 0):
                self._do(ANEW, row)
            runs.paused[row] = HOW.index(how) if how else REQUEUE
        if runs.used[row] != done:
            runs.used[row] = done
            self._change(row, WALLTIME, int(runs.whole[row]), 0.0)

    def _hide(self, job: int, row: int, done: int) -> None:
        """Let a policy that does not preempt plan with the rest of a walltime."""
        before = self._behind.get(job, 0)
        if done != before:
            self._rewall(row, int(self.walltimes[row]) + before - done)
            self._behind[job] = done

    def _hear_change(self, job: int, to: dict[str, int]) -> None:
        row = self.rows[job]
        if "walltime" in to:
            self._rewall(row, to["walltime"] + self._grace[job] - self._behind.get(job, 0))
        if "priority" in to:
            self._change(row, PRIORITY, 0, to["priority"] + self._raised.get(row, 0.0))

    def _rewall(self, row: int, walltime: int) -> None:
        """Set the walltime of a job, and tell the policy that or the prediction based on it."""
        seen_walltime = walltime if self.foresight is None else self.foresight.revised(row, walltime)
        self._change(row, WALLTIME, seen_walltime, 0.0)

    def _change(self, row: int, what: Any, walltime: int, priority: float) -> None:
        numbers = zeros(NUMBERS)
        numbers[:4] = CHANGE, row, what, walltime
        numbers.view(np.float64)[4] = priority
        self._do_again(self.state, numbers)

    def _hear_capacity(self, resources: dict[str, int], node: str = MACHINE) -> None:
        if node == FLOATING:
            for name, copies in resources.items():
                self._do(COPIES, self.platform.licences.index(name), copies, copies)
            return
        place = self.nodes[node]
        if self.divided is not None:
            base = np.array([resources.get(name, 0) for name in self.platform.resources], np.int64)
            if (base != self.state.machine.base[place]).any():
                self.divided.follow(self.state, self._do, place, base, int(self.state.now))
            return
        for k, name in enumerate(self.platform.resources):
            amount = resources.get(name, 0)
            if amount != self.state.machine.capacity[place, k]:
                self._do(CAPACITY, place, k, amount, amount)

    def _run_of(self, row: int) -> int | None:
        """Return the current run of a job, None if it does not run."""
        run = int(self._standing(self.state, row))
        return run if run >= 0 else None

    def _read(self, now: int, gone: list[int]) -> Decisions:
        """Read the decisions of a pass from the journal."""
        state, ids = self.state, self.ids
        rows = state.journal.row[: state.journal.rows]
        reserved = rows[:, 0] == RESERVE
        plan: dict[int, int | None] = {ids[job]: start for job, start in rows[reserved][:, 1:3].tolist()}
        if plan and self.policy.keeps:
            self._note_moves(now, rows[reserved], gone[:3])
        starts: list[list[Any]] = []
        preempts: list[list[Any]] = []
        places = np.flatnonzero(~reserved)
        for place, (code, job, a, b, *_) in zip(places.tolist(), rows[places].tolist(), strict=True):
            if code == PREEMPT:
                if HOW[a] not in self._preempts:
                    who = f"policy {self.policy.name} preempts job {ids[job]}"
                    raise PolicyError(f"{who} by {HOW[a]}; {_can(self._preempts)}")
                preempts.append([ids[job], 0, *([] if a == REQUEUE else [HOW[a], b])])
                if a == REQUEUE:
                    self._kept.pop(ids[job], None)
                else:
                    self._kept[ids[job]] = HOW[a]
            elif code == ON and self.named:
                self._add_node(starts[-1][2], self.rows[starts[-1][0]], job, a)
            elif code == START:
                starts.append([ids[job], REASONS[a], *([[]] if self.named else [])])
                if self.named and state.machine.pool:
                    self._add_node(starts[-1][2], job, 0, int(state.jobs.tasks[job]))
                for one in preempts[::-1]:  # jobs that were preempted to make it fit
                    if one[1]:
                        break
                    one[1] = ids[job]
                if self.policy.keeps:
                    self.moves.forget(ids[job])
            elif code == PROMISED:
                plan.setdefault(ids[job], a)
            if code in (START, WITHDRAW, LEAVE):
                reserved_since = ids[job] in plan and (rows[place:, 1] == job)[reserved[place:]].any()
                plan[ids[job]] = plan[ids[job]] if reserved_since else None
        state.journal.rows = 0
        answer: Decisions = {"now": now, "starts": starts, "preempts": preempts, "plan": self._placed(plan),
                           "wake": self.wake, "anew": not self.policy.keeps}  # fmt: skip
        if self.departs:
            answer["moved"] = self._moved(rows[reserved])
        return answer

    def _note_moves(self, now: int, reserved: Ints, gone: list[int]) -> None:
        """Record the reservations of a pass: rows of the journal, perhaps thousands."""
        _, jobs, start, cause, by, _ = reserved.T
        numbers = np.array([self.ids[row] for row in jobs.tolist()])
        others = np.array([self.ids[row] if row >= 0 else 0 for row in by.tolist()])
        self.moves.note(now, gone, numbers, start, cause, others)

    def _moved(self, rows: Ints) -> list[list[Any]]:
        """Return why starts of jobs of projects have changed, and the job for which each made way (0 for none)."""
        found = {job: (cause, by) for _, job, _, cause, by, _ in rows.tolist() if cause != GIVEN}
        return [[self.ids[job], CAUSES[cause], self.ids[by] if by >= 0 else 0] for job, (cause, by) in found.items()]

    @property
    def wake(self) -> int | None:
        """The next instant for a pass: a timer of the policy, or the begin or end of a reservation's window."""
        times = [int(self.state.batch.timers[0])] if self.state.batch.timed > 0 else []
        if self.divided is not None and (window := self.divided.next(int(self.state.now))) is not None:
            times.append(window)
        return min(times, default=None)

    def _add_node(self, nodes: list[list[Any]], row: int, node: int, tasks: int) -> None:
        """Append a node to the placement of a job; see nodes.Placement."""
        name, whole = self.names[node], self._whole.get(row)
        if whole is None:
            nodes.append([name, tasks])
        else:
            nodes.append([name, min(whole[0], whole[1] - whole[0] * len(nodes)), True])

    def _placed(self, plan: dict[int, int | None]) -> list[list[Any]]:
        """Return reserved starts, with their placements if there are several nodes."""
        unnamed = self.state.machine.pool or not self.named
        if unnamed or not (self.policy.keeps and self.policy.binds):
            return [[*each] for each in plan.items()]
        found, held = [], self.state.plan
        for job, t in plan.items():
            nodes: list[list[Any]] = []
            row = self.rows.get(job, -1)
            if t is not None and row >= 0:
                first = int(held.first[row])
                for node, tasks in held.pairs[first : first + int(held.many[row])].tolist():
                    self._add_node(nodes, row, node, tasks)
            found.append([job, t, nodes])
        return found

    def placed(self) -> list[list[Any]]:
        """Return the starts that the policy keeps for waiting jobs, with placements if there are several nodes."""
        return self._placed({**self.reserved()})

    def reserved(self) -> dict[int, int]:
        """Return the starts that the policy keeps for waiting jobs."""
        state = self.state
        some = np.flatnonzero((state.queue.waits != 0) & (state.promises.reserved != NO_TIME))
        starts = state.promises.reserved[some].tolist()
        return {self.ids[row]: t for row, t in zip(some.tolist(), starts, strict=True)} if self.policy.keeps else {}


def load_policy(
    text: str, platform: Platform | None = None, preempts: Sequence[str] = LOCAL, hint: str = ""
) -> tuple[Policy, Any]:
    """Return a policy that the queue can use, and its parameters.

    platform: by default a machine of one node. preempts: possible kinds of preemption. hint: added to the message about
    a platform that the policy does not support. Raises UsageError, and PolicyError for a mistake in a file.
    """
    with WATCHDOG.policy():
        policy, params = load(text)
    if policy.preempts:
        _check_preempts(policy, params, preempts)
    if policy.sharing(policy.in_full(params))[0] > 1:
        problem = "lets jobs take turns on the processors, which a queue cannot carry out"
        why = "its jobs have processors of their own, and walltimes by the clock"
        raise UsageError(f"policy {policy.name} {problem}: {why}; expected mpl=1, or a policy without rows")
    platform = platform or machine({"cpus": 2})
    check_processors(policy, platform, platform.capacity, hint)
    return policy, params


def _check_preempts(policy: Policy, params: Any, can: Sequence[str]) -> None:
    """Reject a policy whose preemptions the pool does not support; one without `how` needs a pool that supports all."""
    how = policy.in_full(params).get("how")
    if not can:
        only = "the queue only watches its pool, in which no job can be preempted"
        raise UsageError(f"policy {policy.name} preempts jobs; {only}; expected a policy that does not")
    if not {*(HOW if how is None else [how])} <= {*can}:
        other = f"{policy.name}:how={HOW[0]}" if how else f"a policy with how={HOW[0]}, such as preemptive"
        what = f"by {how}" if how else "and keeps their progress"
        raise UsageError(f"policy {policy.name} preempts jobs {what}; {_can(can)}; expected {other}")


def _can(some: Sequence[str]) -> str:
    return f"the pool of the queue preempts them by {' and '.join(some)}"


def answer(
    planner: Planner | None, asked: dict[str, Any], progress: Callable[[], None] = lambda: None
) -> tuple[Planner, Decisions | Begun]:
    """Answer a request of the daemon.

    planner: the planner for the request; for a history, the one to continue, or None. progress: called from time to
    time while a long history is replayed.
    """
    if asked["do"] == "ask":
        assert planner is not None
        return planner, planner.decide(asked["now"], asked["messages"])
    passes: list[Any] = [] if planner is None else [planner.last]
    if planner is None:
        planner = Planner(asked["epoch"]["policy"], asked["epoch"])
    plan: dict[int, list[Any]] = {}
    wake = planner.wake
    spoke = time.monotonic()
    for now, messages in asked["history"]:
        if time.monotonic() - spoke > PROGRESS_S:
            progress()
            spoke = time.monotonic()
        done = planner.decide(now, messages)
        changed = {each[0]: each for each in done["plan"]}
        plan = changed if done["anew"] else plan | changed
        passes.append(planner.last)
        wake = done["wake"]
    placed = planner.placed() if planner.policy.keeps else [*plan.values()]
    found: Begun = {"passes": passes, "plan": placed, "wake": wake, "anew": True, "binds": planner.binds,
                    "departs": planner.departs}  # fmt: skip
    return planner, found
