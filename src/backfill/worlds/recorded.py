"""Replay of an epoch on a virtual clock, in a closed loop, by the policy of the log or by another one.

Actions of people and of the machine are taken from the log, at the instants at which the policy learned of them:
submits, holds, cancels of pending jobs, edits, capacity, and the spans without decisions. The consequences of decisions
are not: a run ends when its length has passed since its replayed start, the policy preempts, and it is called when it
requests a pass. So the same policy must give the same starts, to the microsecond.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill.queue.job import PREEMPT, Facts
from backfill.queue.protocol import FACTS, WAITS, Message, Pass
from backfill.queue.shapes import Basis
from backfill.queue.states import CANCELLED, TIMEOUT
from backfill.worlds.live import Planner

Away = list[tuple[int, int]]  # spans [from, to) without decisions, in order
Nodes = list[list[Any]]  # the name of each node of a run and the tasks there; empty on one machine


@dataclass
class Step:
    """The next event of a job: a message to the policy, a preemption, or a start (no message).

    A preemption is [PREEMPT, job, on whose behalf, how it keeps its progress, overhead]; the last two only if it does.
    """

    t: int
    place: int  # position among all events
    message: Message | None
    nodes: Nodes = field(default_factory=list)  # of a start

    @property
    def starts(self) -> bool:
        """Return whether a run begins, started by the policy or otherwise."""
        return self.message is None or self.message[0] == "began"


@dataclass
class Life:
    """A job of an epoch, as the policy knew it."""

    facts: Facts
    steps: list[Step] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)  # when it joined the queue
    starts: list[int] = field(default_factory=list)
    nodes: list[Nodes] = field(default_factory=list)  # of each start that is a step
    ends: list[int] = field(default_factory=list)  # when the policy preempted each run, or learned of its end

    @property
    def preempted(self) -> bool:
        """Return whether the policy preempted it last, and has not restarted it."""
        did = [step for step in self.steps if step.starts or (step.message or [""])[0] == PREEMPT]
        return bool(did) and not did[-1].starts

    def start_from(self, at: int, whole: bool = False) -> int | None:
        """Return the step of the next start, from this one on. whole: of a run that was not preempted."""
        for place in range(at, len(self.steps)):
            if self.steps[place].starts and not (whole and self.cut(place)):
                return place
        return None

    @property
    def keeps(self) -> bool:
        """Return whether it was preempted and kept its progress."""
        return any(_keeps(step.message) for step in self.steps)

    def length(self, start: int) -> int | None:
        """Return the work of a job that ran from this step on; None if it never ended.

        This includes its runs before and after in which it kept its progress.
        """
        done, begun = 0, None
        for place, step in enumerate(self.steps):
            message = step.message
            if step.starts:
                begun = step.t
            elif message is not None and message[0] == PREEMPT:
                done = done + step.t - (step.t if begun is None else begun) - message[4] if _keeps(message) else 0
                begun = None
            elif message is not None and message[0] == "gone":
                if place > start and message[2] != CANCELLED:  # a run that ended as it was preempted did so just before
                    return done + (1 if begun is None else step.t - begun)
                begun = None
            elif message is not None and message[0] == "kept" and not message[3]:
                done = 0
        return None

    def cut(self, start: int) -> int | None:
        """Return the step at which a run was preempted; None if it was not."""
        for place in range(start + 1, len(self.steps)):
            message = self.steps[place].message
            if message is None or message[0] in ("began", "gone"):
                return None
            if message[0] == PREEMPT:
                return place
        return None


def lives(base: Iterable[list[Any]], passes: Iterable[Pass]) -> tuple[dict[int, Life], list[Step]]:
    """Return the jobs of an epoch, and the messages about the machine."""
    found = {job: Life({**FACTS, **facts}, starts=[] if start is None else [start]) for job, facts, start in base}
    machine: list[Step] = []
    place = 0
    for then in passes:
        for message in then.messages:
            place += 1
            step = Step(then.now, place, message)
            kind = message[0]
            if kind == "capacity":
                machine.append(step)
                continue
            if kind == "over":
                continue
            if kind == "submit":  # again, if it was edited: it is the same job, and keeps its progress
                found.setdefault(message[1], Life({})).facts = {**FACTS, **message[2]}
            life = found[message[1]]
            life.steps.append(step)
            if kind in WAITS:
                life.waits.append(then.now)
            elif kind == "began":
                step.nodes = places(message[4:])
                life.starts.append(then.now)
                life.nodes.append(step.nodes)
            elif kind == "gone" and len(life.ends) < len(life.starts):
                life.ends.append(then.now)
            elif kind == "gone" and message[2] != CANCELLED and life.preempted:  # it had ended before it was signalled
                life.ends[-1] = then.now
        for job, why, *where in then.decided:
            place += 1
            life = found[job]
            if why == PREEMPT:
                life.steps.append(Step(then.now, place, [PREEMPT, job, *where]))
                life.ends += [then.now] * (len(life.ends) < len(life.starts))
                continue
            life.starts.append(then.now)
            life.nodes.append(places(where))
            life.steps.append(Step(then.now, place, None, life.nodes[-1]))
    return found, machine


def places(placement: Sequence[Any]) -> Nodes:
    """Return the nodes and tasks of a decision; see nodes.Placement."""
    return [[name, tasks] for name, tasks, *_ in (placement[0] if placement else ())]


def _keeps(message: Message | None) -> bool:
    """Return whether this is a preemption after which the job keeps its progress."""
    return message is not None and message[0] == PREEMPT and len(message) > 3


class Closed:
    """The replay of one epoch.

    A run that the log does not have lasts for its walltime; one on nodes of another speed is longer or shorter in
    proportion, unless it was ended at its walltime.

    For another policy, which is called at other instants: submits: when each job was submitted; the policy of the log
    may have learned it later, before its next decision. after: the jobs whose ends a job waits for; it joins the queue
    after the last of them, with the same delay as in the log.
    """

    def __init__(
        self,
        policy: str,
        facts: Basis,
        passes: list[Pass],
        away: Away,
        submits: Mapping[int, int] | None = None,
        after: Mapping[int, list[int]] | None = None,
    ) -> None:
        self.lives, machine = lives(facts["base"], passes)
        for job, t in (submits or {}).items():
            if job in self.lives:
                self.lives[job].steps[0].t = t
        self.starts: dict[int, list[int]] = {job: [] for job in self.lives}
        self.nodes: dict[int, list[Nodes]] = {job: [] for job in self.lives}
        self.waits: dict[int, int] = {}  # when each first joined the queue
        self._ends: dict[int, int] = {}
        self._follows = {job: on for job, on in (after or {}).items() if all(self._ended(one) for one in on)}
        self._followers: dict[int, list[int]] = {}
        for job, on in self._follows.items():
            for one in on:
                self._followers.setdefault(one, []).append(job)
        self._planner, self._now = Planner(policy, {**facts, "advises": False}), 0
        self._other = policy != facts["policy"]  # such a policy does not take over promised starts
        platform = self._planner.platform
        self._speed = dict(zip(platform.nodes, platform.speed.tolist(), strict=True))
        self._away = away
        self._due: list[tuple[int, int, int, int]] = []  # instant, position, job (0: the machine), step
        self._machine = machine
        self._at = dict.fromkeys(self.lives, 0)  # the next step of each job
        self._late = dict.fromkeys(self.lives, 0)  # delay of its last run against the log
        self._done: dict[int, int] = {}  # the completed work of each job that was preempted and kept its progress
        self._run: dict[int, int | None] = {}  # recorded step of the start of each job's run; None: not in the log
        self._when: dict[int, int] = {}  # when the next step of each job is due
        for number, step in enumerate(machine):
            heapq.heappush(self._due, (step.t, step.place, 0, number))
        for job in self.lives:
            self._go_on(job)

    def live(self, until: int | None = None) -> None:
        """Replay until an instant, or until all jobs have ended."""
        wake: int | None = None
        last = -1
        while self._is_due() or (wake is not None and self._planner.state.queue.waiting > 0):
            t = min([*(self._due[0][:1] if self._due else ()), *(() if wake is None else (wake,))])
            now = max(next((end for begin, end in self._away if begin <= t < end), t), last + 1)
            if until is not None and now > until:
                return
            wake, last = self._decide(now), now

    def _is_due(self) -> bool:
        """Return whether an event is due; drop events that became void because a run was preempted."""
        while self._due and self._is_void(*self._due[0]):
            heapq.heappop(self._due)
        return bool(self._due)

    def _is_void(self, t: int, place: int, job: int, number: int) -> bool:
        return job > 0 and (number != self._at[job] or t != self._when.get(job))

    def _ended(self, job: int) -> int:
        """Return when a job was over in the log; 0 if it was not."""
        ends = self.lives[job].ends if job in self.lives else []
        return ends[-1] if ends else 0

    def _next(self, job: int) -> Step | None:
        steps, at = self.lives[job].steps, self._at[job]
        return steps[at] if at < len(steps) else None

    def _go_on(self, job: int) -> None:
        """Schedule the next event of a job, unless it is its start, which the policy decides."""
        step = self._next(job)
        if step is None or step.message is None:
            return
        t = step.t + self._late[job]
        on = self._follows.get(job) if step.message[0] in WAITS else None
        if on:
            if not self._ends.keys() >= {*on}:
                return  # until the last of them ends
            t = max(max(self._ends[one] for one in on) + max(step.t - max(map(self._ended, on)), 0), self._now)
            del self._follows[job]
        self._when[job] = t
        heapq.heappush(self._due, (t, step.place, job, self._at[job]))

    def _decide(self, now: int) -> int | None:
        """Apply all that is due by now, and let the policy decide. Return when it requests the next pass."""
        self._now = now
        messages: list[tuple[int, Message]] = []
        while self._due and self._due[0][0] <= now:
            t, place, job, number = heapq.heappop(self._due)
            if not job:
                messages.append((place, self._machine[number].message or []))
            elif not self._is_void(t, place, job, number):
                message = self.lives[job].steps[number].message or []
                messages.append((place, ["wait", job] if self._other and message[0] == "promised" else message))
                self._at[job] += 1
                self._go_on(job)
                if message[0] in WAITS:
                    self.waits.setdefault(job, now)
                elif message[0] == "began":
                    self.starts[job].append(now)
                    self.nodes[job].append(places(message[4:]))
                    self._run[job] = number
                elif message[0] == "kept" and not message[3]:
                    self._done.pop(job, None)
                elif message[0] == "gone":
                    self._ends[job] = now
                    for other in self._followers.get(job, ()):
                        if other in self._follows:
                            self._go_on(other)
        done = self._planner.decide(now, [message for _, message in sorted(messages, key=lambda one: one[0])])
        for job, _, *how in done["preempts"]:
            if how:
                begun = (self.starts[job] or self.lives[job].starts)[-1]
                self._done[job] = self._done.get(job, 0) + now - begun - how[1]
            else:
                self._done.pop(job, None)
            self._preempt(job, now)
        for job, _, *where in done["starts"]:
            self._start(job, now, places(where))
        wake: int | None = done["wake"]
        return wake

    def _start(self, job: int, now: int, nodes: Nodes) -> None:
        self.starts[job].append(now)
        self.nodes[job].append(nodes)
        life, at = self.lives[job], self._at[job]
        start = life.start_from(at)
        if start is not None:  # actions on it in the log before its recorded start are skipped
            self._when.pop(job, None)
            self._run[job] = start
            length = life.length(start) if life.keeps or job in self._done else None
            left = None if length is None else max(length - self._done.get(job, 0), 1)
            self._at[job], self._late[job] = _end_of(life, start, now, left)
            self._late[job] += self._longer(job, now, life.steps[start].nodes, nodes)
        elif at == len(life.steps):  # it never started in the log
            end = now + max(life.facts["walltime"] - self._done.get(job, 0), 1)
            life.steps.append(Step(end, 1 << 62, ["gone", job, "COMPLETED"]))
            self._run[job], self._late[job] = None, 0
        else:
            return  # it was cancelled in the log, and is cancelled here
        self._go_on(job)

    def _longer(self, job: int, now: int, before: Nodes, nodes: Nodes) -> int:
        """Return how much longer the run that begins now lasts than on its previous nodes."""
        step = self._next(job)
        fast, slow = (min((self._speed.get(name, 1.0) for name, _ in some), default=1.0) for some in (before, nodes))
        if step is None or fast == slow or (step.message or [""])[-1] == TIMEOUT:
            return 0
        length = step.t + self._late[job] - now
        walltime: int = self.lives[job].facts["walltime"]
        return min(round(length * fast / slow), max(walltime, length)) - length

    def _preempt(self, job: int, now: int) -> None:
        """Preempt a job: its next run is the next one of the log, or this one again if it continued there."""
        if job not in self._run:
            return
        life, run = self.lives[job], self._run.pop(job)
        self._when.pop(job, None)
        if run is None:
            life.steps.pop()
            return
        cut = life.cut(run)
        if cut is None:
            self._at[job] = run
            return
        self._at[job], self._late[job] = cut + 1, now - life.steps[cut].t
        self._go_on(job)


def _end_of(life: Life, start: int, now: int, left: int | None) -> tuple[int, int]:
    """Return the next recorded step of a run that starts now, and its delay against the log.

    left: remaining work of a job that keeps its progress. A run that was preempted in the log would have lasted as long
    as the last one, but no less than it did.
    """
    cut, begun = life.cut(start), life.steps[start].t
    if cut is None:
        over = start + 1 < len(life.steps) and (life.steps[start + 1].message or [""])[0] == "gone"
        return start + 1, now + left - life.steps[start + 1].t if left is not None and over else now - begun
    whole = life.start_from(cut, whole=True)
    at = (cut if whole is None else whole) + 1
    late = now - (begun if whole is None else life.steps[whole].t)
    if left is not None and at < len(life.steps):
        late = now + left - life.steps[at].t
    if at < len(life.steps):
        late = max(late, now + life.steps[cut].t - begun + 1 - life.steps[at].t)
    return at, late
