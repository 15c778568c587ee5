"""Conclude from a snapshot of a batch system what has happened to the jobs that its users submit there.

Pure functions: a snapshot and the open jobs go in; the events since the last snapshot come out, in an order in which
the queue can enter them. Times are converted to the queue clock.
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
LOST = "LostByPool"  # reason of the end of a job that its batch system no longer knows
BEGIN, HELD, FAILED = "BeginTime", "JobHeldUser", "LaunchFailed"
NATIVE = "NotAdopted"  # reason of the hold of a job that only the batch system starts
BEFORE = "BeforeRestart"  # the same for a job that may have run before its controller was restarted
KILLED_US = 60 * SECOND  # longest delay of the kill after a walltime: batch systems check in intervals
LONG_S, AGAIN_S = 10.0, 3.0  # delays of withdrawing an attempt that has not begun, and of requesting its start again
AVOIDED_US = 60 * SECOND  # how long nothing is started on a node where an attempt did not begin
AVOIDED = "avoided"  # why such a node has no resources for jobs
COMPARED = ("need", "walltime", "tasks", "spread", "constraint", "partition", "qos", "exclusive")


@dataclass(slots=True)
class Watch:
    """State carried from one snapshot to the next.

    before: the jobs of the last snapshot; a job that has not changed since is skipped, unless `before` was cleared.
    foretold: the start that was last expected for each job.
    unexplained: what each node gave to jobs that the last snapshot did not show.
    """

    before: dict[Identity, JobNow] = field(default_factory=dict)
    foretold: dict[Identity, int] = field(default_factory=dict)
    unexplained: dict[str, Amounts] = field(default_factory=dict)
    instance: str = ""  # the controller's instance at the last complete snapshot


@dataclass(slots=True)
class Control:
    """State of a queue that starts the jobs of a batch system: its own actions, and the actions to be done next.

    Attempts are identified by job number and attempt number.
    """

    mine: Callable[[JobNow], bool]  # whether a job that no queue has adopted yet is to be adopted
    forgets: bool = True  # whether a restarted controller may have forgotten that jobs have begun
    requested: dict[tuple[int, int], float] = field(
        default_factory=dict
    )  # when the start of attempts was requested, in the time of `now`
    undone: set[tuple[int, int]] = field(default_factory=set)  # attempts withdrawn because they did not begin
    waits: dict[tuple[int, int], str] = field(default_factory=dict)  # the batch system's reasons why they waited
    nodes: dict[str, int] = field(default_factory=dict)  # avoided nodes, and until when (calendar time)
    aside: dict[int, int] = field(default_factory=dict)  # jobs that did not begin on other nodes either, until when
    now: float = 0.0
    wall: int = 0  # calendar time, in microseconds
    instance: str = ""  # the controller's instance at the last snapshot
    # when a restart of the controller was noticed (calendar): jobs waiting unheld then may have started unnoticed
    since: int = 0
    loose: dict[Identity, str] = field(default_factory=dict)  # the instance on which jobs were last seen to wait unheld
    adopt: list[JobNow] = field(default_factory=list)
    tell: list[Job] = field(default_factory=list)
    undo: list[Job] = field(default_factory=list)
    give_back: list[JobNow] = field(default_factory=list)  # marked jobs that only the batch system can place

    def avoided(self) -> set[str]:
        """Return the nodes where nothing is started at present."""
        self.nodes = {name: until for name, until in self.nodes.items() if until > self.wall}
        return {*self.nodes}

    def failed(self, job: Job) -> None:
        """Record that an attempt has not begun: its nodes are avoided, or, from the second time on, the job is set
        aside."""
        until = self.wall + AVOIDED_US
        if job.withdrawn:
            self.aside[job.id] = until
        else:
            self.nodes |= {name: until for name, *_ in job.current.nodes}

    def older(self, job: JobNow) -> bool:
        """Return whether a waiting job is held because its controller has gone back to a time before it was released.

        It waited unheld on the controller before, which may have started it since.
        """
        if not (job.managed and job.held):
            self.loose[job.identity] = self.instance
            return False
        return self.forgets and self.loose.pop(job.identity, self.instance) != self.instance

    def began(self, job: JobNow, known: Job) -> None:
        """Record that an attempt has begun: neither its job nor its nodes are avoided any longer."""
        self.aside.pop(known.id, None)
        for name, *_ in job.nodes:
            self.nodes.pop(name, None)


def absent(snapshot: Snapshot, jobs: Mapping[Identity, Job]) -> list[Identity]:
    """Return the open jobs that are missing in a snapshot; none if the snapshot is incomplete."""
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
    """Return what has happened to jobs since the last snapshot.

    jobs: the open jobs. recalled: what is known of jobs that are not in the snapshot. ended: whether the end of a job
    that is not open, at this time, is known already. skew: calendar time minus queue clock. control: given if the queue
    starts the jobs itself.
    """
    about = _About(snapshot, watch, ended, skew, control)
    if control is not None and control.instance != snapshot.instance:
        control.since = control.wall if control.instance and control.forgets else control.since
        control.instance = snapshot.instance
        watch.before = {}
    here = {job.identity: job for job in snapshot.jobs}
    before = watch.before
    other = (job for identity, job in here.items() if before.get(identity) is not job or _open(jobs.get(identity)))
    same = watch.instance == snapshot.instance  # otherwise numbers may have been reused
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
    if control is not None and snapshot.complete:
        control.loose = {one: instance for one, instance in control.loose.items() if one in here}
    if snapshot.complete:
        watch.instance = snapshot.instance
    return found


def _put_back(here: Mapping[Identity, JobNow], jobs: Mapping[Identity, Job]) -> dict[Identity, Job]:
    """Return the open jobs that their batch system has requeued, by their new identity: Slurm gives them another submit
    time."""
    others = {native: job for (native, submit), job in jobs.items() if (native, submit) not in here}
    return {
        identity: others[now.native]
        for identity, now in here.items()
        if identity not in jobs and now.restarts > 0 and now.native in others
        if now.submit > others[now.native].native_submit
    }


def nodes_seen(snapshot: Snapshot, nodes: Nodes, watch: Watch, avoided: Collection[str] = ()) -> list[NodeSeen]:
    """Return the resources of each node that the jobs of the snapshot may use.

    That is what the node has, less what it gives to jobs that the snapshot does not show; nothing on avoided nodes. A
    node that has not yet reported to its controller is left out.

    Nodes are read after jobs: a job that begins in between holds what no job explains. So only what the snapshot before
    did not explain either is taken away.
    """
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
        before = watch.unexplained.get(node.name, others)
        watch.unexplained[node.name] = others
        others = {name: min(amount, before.get(name, 0)) for name, amount in others.items()}
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
    """The context of a conclusion about a job."""

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
    """Yield the events of a job that was submitted and ended since the last snapshot."""
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
        return  # its nodes are not known yet
    skew = about.skew
    since = now.start - skew
    if known is None:
        yield Foreign(0, now.nodes, since, facts_of(now, about), {}, _record(now, about))
        return
    if (run := known.attempt) is not None:
        moved = sorted(map(list, run.nodes)) != sorted(map(list, _rescaled(now, known)))
        decided_here = about.control is not None and run.spawned is None  # decided here, not yet seen to begin
        began = run.processes.get("since", run.start)
        other = bool(now.asked.need) and _total(now.asked) != _total(known)  # its request was changed before it began
        counted = about.control is not None and about.control.forgets  # HTCondor counts a start after the job has begun
        more = counted and now.restarts > run.processes.get("restarts", now.restarts)
        again = moved or (
            other if decided_here else more or since >= began + SECOND
        )  # it was requeued and has begun again
        if again:
            yield Settled(known.id, run.number, Verdict("requeued"))
        elif decided_here and about.control is not None:
            about.control.began(now, known)
            yield Settled(known.id, run.number, Verdict("alive", _record(now, about)))
        elif now.asked.walltime != known.walltime:
            yield Edited(known.id, {"walltime": now.asked.walltime})
        if not again:
            return
    yield from _begun(now, known, about)


def _record(now: JobNow, about: _About) -> Record:
    """Return the record by which it is known later whether the controller has forgotten that a job runs.

    A queue that only watches needs none.
    """
    if about.control is None:
        return {}
    since = (now.start or 0) - about.skew
    return {"instance": about.snapshot.instance, "restarts": now.restarts, "since": since}


def _begun(now: JobNow, known: Job, about: _About) -> Iterator[News]:
    """Yield the events of a job that waited and now runs, and whose request may have been changed before."""
    since, record = (now.start or 0) - about.skew, _record(now, about)
    if not now.asked.need or _total(now.asked) == _total(known):
        yield Foreign(known.id, _rescaled(now, known), since, record=record)
        return
    yield Edited(known.id, _changes(now.asked, known))
    yield Foreign(known.id, now.nodes, since, record=record)


def _total(asked: Asked | Job) -> Amounts:
    """Return the totals of cpus and gpus: batch systems divide a request differently once the job runs."""
    return {name: amount * asked.tasks for name, amount in asked.need.items() if name in ("cpus", "gpus")}


def _waits(now: JobNow, known: Job | None, about: _About) -> Iterator[News]:
    begin, skew, watch, control = now.begin, about.skew, about.watch, about.control
    blocked = "" if now.blocked == BEGIN and begin is not None else now.blocked  # the queue handles begin times itself
    uncertain = known is not None and known.held == UNCERTAIN
    if known is not None and known.state in HOLDING:
        verdict = _of_attempt(now, known, about)
        if verdict is None:
            return
        yield Settled(known.id, known.attempts, verdict)
        uncertain = verdict.kind == "uncertain"
    if control is not None and control.older(now) and known is not None and not uncertain:
        yield Blocked(known.id, UNCERTAIN)
        return
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
    if uncertain and known.held != UNCERTAIN:  # it has become uncertain just now
        return
    if control is not None and known.id in control.aside:
        begin = max(control.aside[known.id], begin or 0)
    to = _changes(now.asked, known)
    if begin != known.begin:
        to["begin"] = begin
    if to:
        yield Edited(known.id, to)
    if uncertain:  # it stays so until it runs or is over, since it may have run
        return
    if blocked != known.held and not (known.held in (NEVER, DECLINED, FAILED) and not blocked):
        yield Blocked(known.id, blocked)
    yield from _expected(now, known.id, watch, skew)


def _open(known: Job | None) -> bool:
    """Return whether a job is to be checked in every snapshot, changed or not.

    That is so if its start was requested and has not been seen, or if it may have run and must be held, however often
    that fails.
    """
    if known is None:
        return False
    return known.held == UNCERTAIN or (known.attempt is not None and known.attempt.spawned is None)


def _take_over(now: JobNow, uncertain: bool, control: Control) -> None:
    """Mark a job for adoption if only the queue is to start it.

    That is a job that waits only for resources, or that somebody has released; one that was requeued, before its begin
    time comes; and one that may have run, so that the batch system does not run it again.
    """
    free = not (now.blocked or now.own) and now.submit > control.since and (now.managed or control.mine(now))
    back = now.managed and now.blocked == BEGIN and now.submit > control.since
    if free or back or (uncertain and not now.returned and now.blocked != HELD):
        control.adopt.append(now)


def _of_attempt(now: JobNow, known: Job, about: _About) -> Verdict | None:
    """Return the state of an attempt whose job waits in the batch system; None while that is not known."""
    run, control = known.current, about.control
    if control is None:
        return Verdict("requeued")
    key, instance = (known.id, run.number), about.snapshot.instance
    if run.spawned is not None:
        same = run.processes.get("instance") == instance
        return Verdict("requeued" if same or now.restarts > run.processes.get("restarts", 0) else "uncertain")
    if control.forgets and run.instance != instance:  # a restarted controller has forgotten: it may have run
        return Verdict("uncertain")
    if now.submit != known.native_submit:  # it began, or was about to, and was requeued before that was seen
        return Verdict("requeued")
    if now.begin is not None and now.begin > control.wall:  # it began, and was requeued; or it was put off by its user
        return Verdict("requeued" if now.restarts else "unstarted")
    if now.blocked == HELD:  # held by its user before it began
        return Verdict("unstarted")
    since = control.requested.get(key) if now.held else control.requested.setdefault(key, control.now)
    if key in control.undone and now.held:
        control.undone.discard(key)
        control.requested.pop(key, None)
        control.failed(known)
        return Verdict("unstarted", {WAITED: control.waits.pop(key, "")})
    if not now.held and since is not None and control.now - since > LONG_S:
        if all(node.state != UNKNOWN for node in about.snapshot.nodes):
            control.undone.add(key)
            control.waits[key] = now.waits
            control.undo.append(known)
    elif now.held and key not in control.undone and (since is None or control.now - since > AGAIN_S):
        control.tell.append(known)
    return None


def _expected(now: JobNow, job: int | Identity, watch: Watch, skew: int) -> Iterator[News]:
    """Yield the start that the batch system expects, if it has changed."""
    if now.estimate is not None and watch.foretold.get(now.identity) != now.estimate:
        watch.foretold[now.identity] = now.estimate
        yield Expected(job, now.estimate - skew)


def _changes(asked: Asked, known: Job) -> Change:
    found: Any = {name: value for name in COMPARED if (value := getattr(asked, name)) != getattr(known, name)}
    return found  # type: ignore[no-any-return]


def _rescaled(now: JobNow, known: Job) -> Placement:
    """Return the nodes of a job in tasks as counted while it waited: batch systems count differently once it runs."""
    if not now.asked.need:  # only the names of its nodes are known
        return [[name, max(known.tasks // len(now.nodes), 1)] for name, *_ in now.nodes]
    mine, its = now.asked.need.get("cpus", 1), max(known.need.get("cpus", 1), 1)
    if mine == its or known.exclusive:
        return now.nodes
    return [[name, max(round(tasks * mine / its), 1), *whole] for name, tasks, *whole in now.nodes]


def facts_of(now: JobNow, about: _About) -> Row:
    """Return the facts of a job at its submit; see queue.job.Job."""
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
    """Return how an attempt ended; for None, that it was lost."""
    if now is None:
        return Verdict("ended", {"state": NODE_FAIL, "reason": LOST})
    record: dict[str, Any] = {"state": now.ended, "exit": now.exit, "signal": now.signal or 0}
    if now.end is not None:
        record |= {"wall": now.end, "boot": ""}
    return Verdict("ended", record)


def _natural(native: str) -> tuple[int, ...]:
    """Return a sort key for job numbers in natural order: 9 before 10, 12_3 before 12_10."""
    return tuple(int(part) for part in native.replace(".", "_").split("_") if part.isdecimal())
