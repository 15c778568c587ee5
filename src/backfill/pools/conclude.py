"""What a snapshot of a batch system means to a queue that knows its jobs by their numbers and submits there.

Pure: a snapshot and the open jobs go in, what has happened since the last snapshot comes out, in an order in which the
queue can enter it. Instants become those of the queue clock.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backfill.pools.base import (
    WAITED,
    Arrived,
    Blocked,
    Edited,
    Expected,
    Foreign,
    Gone,
    Identity,
    News,
    NodeSeen,
    Settled,
    Verdict,
)
from backfill.pools.seen import DOWN, DRAIN, OVER, UNKNOWN, UP, WAITING, Asked, JobNow, NodeNow, Snapshot
from backfill.queue.job import DECLINED, NEVER, UNCERTAIN, Job
from backfill.queue.nodes import Amounts, Nodes, Placement
from backfill.queue.shapes import Change, Record, Row
from backfill.queue.states import CANCELLED, HOLDING, NODE_FAIL, PENDING

SECOND = 1_000_000
LOST = "LostByPool"  # why a job is over of which its batch system knows nothing any more
BEGIN, HELD, FAILED = "BeginTime", "JobHeldUser", "LaunchFailed"
NATIVE = "NotAdopted"  # why a job is held that only the batch system starts
BEFORE = "BeforeRestart"  # the same, as it may have run before its controller was started anew
KILLED_US = 60 * SECOND  # after its walltime at which a job is killed at the latest: batch systems look now and then
LONG_S, AGAIN_S = 10.0, 3.0  # after which an attempt that has not begun is taken back, or told again
AVOIDED_US = 60 * SECOND  # for so long nothing starts where an attempt did not begin
AVOIDED = "avoided"  # why such a node has nothing for jobs
COMPARED = ("need", "walltime", "tasks", "spread", "constraint", "partition", "qos", "exclusive")


@dataclass(slots=True)
class Watch:
    """What one snapshot leaves for the next.

    before: its jobs; what is in the next one as it was there is not looked at again, unless they are forgotten.
    foretold: the start that each job was expected to have.
    """

    before: dict[Identity, JobNow] = field(default_factory=dict)
    foretold: dict[Identity, int] = field(default_factory=dict)
    instance: str = ""  # of the controller at the last look that was complete


@dataclass(slots=True)
class Control:
    """What a queue that starts the jobs of a batch system knows of its own acts, and what it is to do next.

    Attempts are known by the number of their job and their own.
    """

    mine: Callable[[JobNow], bool]  # whether a job that nobody has adopted yet is to be
    forgets: bool = True  # whether a controller that is started anew may not know any more that jobs have begun
    told: dict[tuple[int, int], float] = field(
        default_factory=dict
    )  # when attempts were told to start, as `now` counts
    undone: set[tuple[int, int]] = field(default_factory=set)  # attempts that were taken back, as they did not begin
    waits: dict[tuple[int, int], str] = field(default_factory=dict)  # what they waited for, as the batch system said
    nodes: dict[str, int] = field(default_factory=dict)  # those that are avoided, and until when by the calendar
    aside: dict[int, int] = field(default_factory=dict)  # jobs that did not begin elsewhere either: the same
    now: float = 0.0
    wall: int = 0  # the same by the calendar, in microseconds
    instance: str = ""  # of the controller at the last look
    since: int = 0  # when it was seen to be another one than before, by its own clock: what waited unheld then may have
    # been started and forgotten
    adopt: list[JobNow] = field(default_factory=list)
    tell: list[Job] = field(default_factory=list)
    undo: list[Job] = field(default_factory=list)
    give_back: list[JobNow] = field(default_factory=list)  # what came marked, and only the batch system can place

    def avoided(self) -> set[str]:
        """The nodes where nothing is started by now."""
        self.nodes = {name: until for name, until in self.nodes.items() if until > self.wall}
        return {*self.nodes}

    def failed(self, job: Job) -> None:
        """An attempt has not begun. The nodes may be at fault; if that is not the first time, the job is."""
        until = self.wall + AVOIDED_US
        if job.withdrawn:
            self.aside[job.id] = until
        else:
            self.nodes |= {name: until for name, *_ in job.current.nodes}

    def began(self, job: JobNow, known: Job) -> None:
        """An attempt has begun: neither its job nor its nodes are at fault."""
        self.aside.pop(known.id, None)
        for name, *_ in job.nodes:
            self.nodes.pop(name, None)


def absent(snapshot: Snapshot, jobs: Mapping[Identity, Job]) -> list[Identity]:
    """The open jobs that a snapshot does not have; none if it is not complete."""
    if not snapshot.complete:
        return []
    there = {job.identity for job in snapshot.jobs}
    return [identity for identity in jobs if identity not in there]


def conclude(
    snapshot: Snapshot,
    jobs: Mapping[Identity, Job],
    recalled: Mapping[Identity, JobNow],
    watch: Watch,
    ended: Callable[[Identity, int], bool],
    skew: int,
    control: Control | None = None,
) -> list[News]:
    """What has happened to jobs since the last snapshot.

    jobs: the open ones. recalled: what is known of those that are not in the snapshot. ended: whether the end of
    a job that is not open, at this instant, is no news. skew: what the calendar is ahead of the queue clock.
    control: of a queue that starts the jobs itself.
    """
    about = _About(snapshot, watch, ended, skew, control)
    if control is not None and control.instance != snapshot.instance:
        control.since = control.wall if control.instance and control.forgets else control.since
        control.instance = snapshot.instance
    here = {job.identity: job for job in snapshot.jobs}
    before = watch.before
    other = (job for identity, job in here.items() if before.get(identity) is not job or _open(jobs.get(identity)))
    same = watch.instance == snapshot.instance  # else numbers may have come back
    again = _put_back(here, jobs) if same else {}
    jobs = {**jobs, **again}
    seen = sorted(other, key=lambda job: (job.submit, _natural(job.native)))
    found = [news for now in seen for news in _of_job(now, jobs.get(now.identity), about)]
    found += [Edited(job.id, {"native_submit": submit}) for (_, submit), job in again.items()]
    followed = {job.id for job in again.values()}
    for identity in absent(snapshot, jobs):
        if jobs[identity].id in followed:
            continue
        known, last = jobs[identity], recalled.get(identity)
        if last is not None and last.state == OVER:
            found += _ended(last, known, about)
        elif known.state == PENDING:
            found.append(Gone(known.id, CANCELLED, LOST))
        else:
            found.append(Settled(known.id, known.attempts, _end_of(None)))
    watch.foretold = {one: t for one, t in watch.foretold.items() if one in here}
    watch.before = here
    if snapshot.complete:
        watch.instance = snapshot.instance
    return found


def _put_back(here: Mapping[Identity, JobNow], jobs: Mapping[Identity, Job]) -> dict[Identity, Job]:
    """The open jobs that their batch system has put back, by what they are called there now: Slurm gives them another
    submit."""
    others = {native: job for (native, submit), job in jobs.items() if (native, submit) not in here}
    return {
        identity: others[now.native]
        for identity, now in here.items()
        if identity not in jobs and now.restarts > 0 and now.native in others
        if now.submit > others[now.native].native_submit
    }


def nodes_seen(snapshot: Snapshot, nodes: Nodes, avoided: Collection[str] = ()) -> list[NodeSeen]:
    """What there is on each node for the jobs of the snapshot: what the node has, without what is held there by jobs
    that it does not show; nothing on those that are avoided. A node of which its controller has not heard tells
    nothing."""
    explained: dict[str, Counter[str]] = {}
    for job in snapshot.jobs:
        if job.state not in (WAITING, OVER):
            for place, what, amount in nodes.parts(job.asked.need, job.nodes):
                explained.setdefault(place, Counter())[what] += amount
    found = []
    for node in snapshot.nodes:
        if node.state == UNKNOWN or node.name not in nodes.stated:
            continue
        mine = explained.get(node.name, Counter())
        others = {name: max(amount - mine[name], 0) for name, amount in node.held.items()}
        if node.name in avoided and node.state == UP:
            found.append(NodeSeen(node.name, dict.fromkeys(nodes.stated[node.name], 0), AVOIDED))
            continue
        found.append(_node_seen(node, nodes.stated[node.name], others))
    if snapshot.complete:
        there = {node.name for node in snapshot.nodes}
        gone = (name for name in nodes.names if name not in there)
        found += [NodeSeen(name, dict.fromkeys(nodes.stated[name], 0), "gone") for name in gone]
    return found


def _node_seen(node: NodeNow, stated: Amounts, others: Amounts) -> NodeSeen:
    if node.state in (DRAIN, DOWN):
        return NodeSeen(node.name, dict.fromkeys(stated, 0), node.state)
    there = {
        name: max(min(node.there.get(name, 0), amount) - others.get(name, 0), 0) for name, amount in stated.items()
    }
    return NodeSeen(node.name, there, "" if there == stated else "others" if node.state == UP else node.state)


@dataclass(frozen=True, slots=True)
class _About:
    """What is concluded with, besides the job."""

    snapshot: Snapshot
    watch: Watch
    ended: Callable[[Identity, int], bool]
    skew: int
    control: Control | None


def _of_job(now: JobNow, known: Job | None, about: _About) -> Iterator[News]:
    if now.state == OVER and known is not None:
        yield from _ended(now, known, about)
    elif now.state == OVER and not about.ended(now.identity, (now.end or now.submit) - about.skew):
        yield from _came_and_went(now, about)
    elif now.state == OVER:
        return
    elif now.state == WAITING:
        yield from _waits(now, known, about)
    else:
        yield from _runs(now, known, about)


def _came_and_went(now: JobNow, about: _About) -> Iterator[News]:
    """A job was submitted and is over since the last look."""
    skew = about.skew
    if now.nodes and now.start is not None:
        yield Foreign(0, now.nodes, now.start - skew, facts_of(now, about), {})
        yield Settled(now.identity, 1, _end_of(now))
    else:
        yield Arrived(facts_of(now, about))
        yield Gone(now.identity, now.ended or CANCELLED, "", now.end and now.end - skew)


def _ended(now: JobNow, known: Job, about: _About) -> Iterator[News]:
    attempt, skew = known.attempts, about.skew
    if known.state == PENDING:
        if not now.nodes or now.start is None:
            yield Gone(known.id, now.ended or CANCELLED, "", now.end and now.end - skew)
            return
        yield from _begun(now, known, about)
        attempt += 1
    yield Settled(known.id, attempt, _end_of(now))


def _runs(now: JobNow, known: Job | None, about: _About) -> Iterator[News]:
    if not now.nodes or now.start is None:
        return  # where it runs is not known yet
    skew = about.skew
    since = now.start - skew
    if known is None:
        yield Foreign(0, now.nodes, since, facts_of(now, about), {}, _record(now, about))
        return
    if (run := known.attempt) is not None:
        moved = sorted(map(list, run.nodes)) != sorted(map(list, _rescaled(now, known)))
        told = about.control is not None and run.spawned is None  # it was decided before it began
        began = run.processes.get("since", run.start)
        other = bool(now.asked.need) and _total(now.asked) != _total(known)  # it was changed before it began
        again = moved or (other if told else since > began + SECOND)  # it was put back, and begun again
        if again:
            yield Settled(known.id, run.number, Verdict("requeued"))
        elif told and about.control is not None:
            about.control.began(now, known)
            yield Settled(known.id, run.number, Verdict("alive", _record(now, about)))
        elif now.asked.walltime != known.walltime:
            yield Edited(known.id, {"walltime": now.asked.walltime})
        if not again:
            return
    yield from _begun(now, known, about)


def _record(now: JobNow, about: _About) -> Record:
    """By which it is known later whether its controller has forgotten that a job runs; watching needs none of it."""
    if about.control is None:
        return {}
    since = (now.start or 0) - about.skew
    return {"instance": about.snapshot.instance, "restarts": now.restarts, "since": since}


def _begun(now: JobNow, known: Job, about: _About) -> Iterator[News]:
    """A job runs that waited, and may have been changed before."""
    since, record = (now.start or 0) - about.skew, _record(now, about)
    if not now.asked.need or _total(now.asked) == _total(known):
        yield Foreign(known.id, _rescaled(now, known), since, record=record)
        return
    yield Edited(known.id, _changes(now.asked, known))
    yield Foreign(known.id, now.nodes, since, record=record)


def _total(asked: Asked | Job) -> Amounts:
    """What a job asks for in all: batch systems count in other parts once it runs."""
    return {name: amount * asked.tasks for name, amount in asked.need.items() if name in ("cpus", "gpus")}


def _waits(now: JobNow, known: Job | None, about: _About) -> Iterator[News]:
    begin, skew, watch, control = now.begin, about.skew, about.watch, about.control
    blocked = "" if now.blocked == BEGIN and begin is not None else now.blocked  # the queue has a clock of its own
    uncertain = known is not None and known.held == UNCERTAIN
    if known is not None and known.state in HOLDING:
        verdict = _of_attempt(now, known, about)
        if verdict is None:
            return
        yield Settled(known.id, known.attempts, verdict)
        uncertain = verdict.kind == "uncertain"
    if control is not None and not (now.managed and now.held):
        _take_over(now, uncertain, control)
        blocked = blocked or now.own or (BEFORE if now.submit <= control.since else NATIVE)
    elif control is not None and now.own and not uncertain and (known is None or known.state == PENDING):
        control.give_back.append(now)
        blocked = blocked or now.own
    if known is None:
        yield Arrived(facts_of(now, about), blocked)
        yield from _expected(now, now.identity, watch, skew)
        return
    if uncertain and known.held != UNCERTAIN:  # since now
        return
    if control is not None and known.id in control.aside:
        begin = max(control.aside[known.id], begin or 0)
    to = _changes(now.asked, known)
    if begin != known.begin:
        to["begin"] = begin
    if to:
        yield Edited(known.id, to)
    if uncertain:  # until it runs, or is over: who knows whether it did
        return
    if blocked != known.held and not (known.held in (NEVER, DECLINED, FAILED) and not blocked):
        yield Blocked(known.id, blocked)
    yield from _expected(now, known.id, watch, skew)


def _open(known: Job | None) -> bool:
    """Whether the batch system has been told to start a job, and has not been seen to do so; or it may have run, and is
    to be held, however often that fails."""
    if known is None:
        return False
    return known.held == UNCERTAIN or (known.attempt is not None and known.attempt.spawned is None)


def _take_over(now: JobNow, uncertain: bool, control: Control) -> None:
    """Have a job held that only the queue is to start.

    That is one that waits for nothing but room, or was released by somebody; one that was put back, before its begin
    time comes; and one that may have run, so that the batch system does not run it again.
    """
    free = not (now.blocked or now.own) and now.submit > control.since and (now.managed or control.mine(now))
    back = now.managed and now.blocked == BEGIN and now.submit > control.since
    if free or back or (uncertain and not now.returned and now.blocked != HELD):
        control.adopt.append(now)


def _of_attempt(now: JobNow, known: Job, about: _About) -> Verdict | None:
    """What is true of an attempt whose job waits in the batch system; None as long as that is not known."""
    run, control = known.current, about.control
    if control is None:
        return Verdict("requeued")
    key, instance = (known.id, run.number), about.snapshot.instance
    if run.spawned is not None:
        same = run.processes.get("instance") == instance
        return Verdict("requeued" if same or now.restarts > run.processes.get("restarts", 0) else "uncertain")
    if control.forgets and run.instance != instance:  # a controller that has forgotten: it may have run
        return Verdict("uncertain")
    if now.submit != known.native_submit:  # it began, or was to, and was put back before that was seen
        return Verdict("requeued")
    if now.blocked == HELD:  # by its user, before it began
        return Verdict("unstarted")
    told = control.told.get(key) if now.held else control.told.setdefault(key, control.now)
    if key in control.undone and now.held:
        control.undone.discard(key)
        control.told.pop(key, None)
        control.failed(known)
        return Verdict("unstarted", {WAITED: control.waits.pop(key, "")})
    if not now.held and told is not None and control.now - told > LONG_S:
        if all(node.state != UNKNOWN for node in about.snapshot.nodes):
            control.undone.add(key)
            control.waits[key] = now.waits
            control.undo.append(known)
    elif now.held and key not in control.undone and (told is None or control.now - told > AGAIN_S):
        control.tell.append(known)
    return None


def _expected(now: JobNow, job: int | Identity, watch: Watch, skew: int) -> Iterator[News]:
    """The start that the batch system expects by now."""
    if now.estimate is not None and watch.foretold.get(now.identity) != now.estimate:
        watch.foretold[now.identity] = now.estimate
        yield Expected(job, now.estimate - skew)


def _changes(asked: Asked, known: Job) -> Change:
    found: Any = {name: value for name in COMPARED if (value := getattr(asked, name)) != getattr(known, name)}
    return found  # type: ignore[no-any-return]


def _rescaled(now: JobNow, known: Job) -> Placement:
    """Where a job runs, in tasks as it had them while it waited: batch systems show other ones once it runs."""
    if not now.asked.need:  # only the names of its nodes are known
        return [[name, max(known.tasks // len(now.nodes), 1)] for name, *_ in now.nodes]
    mine, its = now.asked.need.get("cpus", 1), max(known.need.get("cpus", 1), 1)
    if mine == its or known.exclusive:
        return now.nodes
    return [[name, max(round(tasks * mine / its), 1), *whole] for name, tasks, *whole in now.nodes]


def facts_of(now: JobNow, about: _About) -> Row:
    """A job as its submit has it; see queue.job.Job."""
    asked, skew = now.asked, about.skew
    return {
        "native": now.native,
        "native_submit": now.submit,
        "submit": now.submit - skew,
        "name": now.name,
        "user": now.user,
        "group": now.group,
        "need": dict(asked.need),
        "walltime": asked.walltime,
        "grace": 0 if about.control is None else KILLED_US,
        "tasks": asked.tasks,
        "ntasks": asked.ntasks,
        "spread": asked.spread,
        "constraint": asked.constraint,
        "partition": asked.partition,
        "qos": asked.qos,
        "exclusive": asked.exclusive,
        "priority": asked.priority,
        "begin": now.begin if now.state == WAITING else None,
    }


def _end_of(now: JobNow | None) -> Verdict:
    """How an attempt ended; None: nobody knows."""
    if now is None:
        return Verdict("ended", {"state": NODE_FAIL, "reason": LOST})
    record: dict[str, Any] = {"state": now.ended, "exit": now.exit, "signal": now.signal or 0}
    if now.end is not None:
        record |= {"wall": now.end, "boot": ""}
    return Verdict("ended", record)


def _natural(native: str) -> tuple[int, ...]:
    """By which numbers are sorted as people do it: 9 before 10, 12_3 before 12_10."""
    return tuple(int(part) for part in native.replace(".", "_").split("_") if part.isdecimal())
