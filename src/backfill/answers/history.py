"""The ended jobs of a queue: listed, summarized, and as a workload for `simulate`."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from backfill.model.errors import InputError
from backfill.model.events import OWNERS, Events
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.model.units import NEVER, seconds, seconds_text
from backfill.model.workload import Ints, Ragged, Workload
from backfill.queue import events
from backfill.queue.book import each_job
from backfill.queue.commands import unusual
from backfill.queue.events import Entry, JobEvent
from backfill.queue.feed import between_passes
from backfill.queue.job import Facts, Job, whole
from backfill.queue.nodes import FLOATING, MACHINE, Amounts, Placement
from backfill.queue.shapes import Basis, Change, Grant, Row
from backfill.queue.states import CANCELLED, OVER
from backfill.queue.store import Store, StoreError

AT_ENDS = ("afterok", "afternotok", "afterany")  # dependencies that an end satisfies
TASKS_MAX = 1000  # jobs that depend on a larger array are simulated with their submit times instead
AGAIN = "waited more than once: it was held, lost or not launched"
LONGER = "ran longer before a preemption than in their last run; they are simulated with their last run times"
ALONE = "ended by themselves while being preempted; they are simulated without that preemption"
FOREIGN = "were started outside the queue; in the simulation the policy starts them"
OTHER = "were submitted after the queue's platform changed; they are simulated on the first platform"
FINAL = ("need", "after", "any_of", "singleton", "reservation")  # a job is simulated with the last values of these
LATER = "waited for a hold, a begin time or another job first; that time is left out"


@dataclass(frozen=True)
class Filter:
    """A selection of jobs; empty fields select everything. Times are microseconds of the queue clock."""

    since: int | None = None
    until: int | None = None
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    @property
    def condition(self) -> tuple[str, list[Any]]:
        """The selection as an SQL condition for the store, with its values."""
        states = self.states or OVER
        parts: list[tuple[str, Sequence[Any]]] = [(f"state IN ({', '.join('?' * len(states))})", states)]
        for name, some in (("user", self.users), ("name", self.names)):
            parts += [(f"{name} IN ({', '.join('?' * len(some))})", some)] if some else []
        for sign, t in ((">=", self.since), ("<", self.until)):
            parts += [(f"end_us {sign} ?", [t])] if t is not None else []
        return " AND ".join(text for text, _ in parts), [value for _, values in parts for value in values]


def opened(folder: Path) -> Store:
    """Open the store in a queue's folder for reading. Raises InputError."""
    path = folder / "store.db" if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(f"{folder}: no queue is recorded there; expected a folder with a store.db")
    try:
        return Store(path, readonly=True)
    except StoreError as error:
        raise InputError(str(error)) from None


def ended(store: Store, wanted: Filter, last: int | None = None) -> tuple[list[Job], int]:
    """Return ended jobs in the order of their ends, or the last ones of them; and the number of all of them."""
    where, values = wanted.condition
    some = store.jobs(where, values, -1 if last is None else last, order="end_us, id")
    return some, len(some) if last is None else store.count(where, values)


def cpus(store: Store, jobs: Sequence[Job]) -> dict[int, int]:
    """Return the cpus that each job had in its last run, or requested if it did not run; whole nodes count in full."""
    found = {job.id: job.need["cpus"] * job.tasks for job in jobs}
    ran = [job.run for job in jobs if job.attempt is not None]
    if whole_nodes := [run for run in ran if any(any(rest) for _, _, *rest in run.attempt.nodes)]:
        from backfill.worlds.workload import parsed

        epochs = [(entry.t, entry.event.basis.get("platform", "")) for entry in store.events(kinds=("epoch",))
                  if isinstance(entry.event, events.Epoch)]  # fmt: skip
        for run in whole_nodes:
            job, attempt = run.job, run.attempt
            text = next((text for t, text in reversed(epochs) if text and t <= attempt.start), "")
            platform = parsed(text or epochs[-1][1])
            there = dict(zip(platform.nodes, platform.capacity[:, 0].tolist(), strict=True))
            found[job.id] = sum(there.get(name, job.need["cpus"] * tasks) for name, tasks, *_ in attempt.nodes)
    return found


def row(job: Job, cpus: int) -> Facts:
    """Return one job for JSON, times in seconds. cpus: its total."""
    facts: Facts = {name: getattr(job, name) for name in ("id", "label", "name", "user", "project", "state", "reason")}
    facts |= {f"{name}_s": seconds(getattr(job, name)) for name in ("submit", "start", "end", "promise")}
    facts |= {"cpu_s": None, "need": job.need, **unusual(job), "cpus": cpus}
    attempt = job.attempt
    if attempt is not None and attempt.nodes and attempt.nodes[0][0] != MACHINE:
        facts["nodes"] = attempt.nodes
    facts |= {"limit_s": job.walltime / 1e6, "wait_s": seconds(waited(job)), "why": job.why}
    facts |= {"exit_code": None, "signal": None, "maxrss": None, "slip": "", "preemptions": job.preemptions}
    facts |= {"keeps": job.keeps, "done_s": job.done / 1e6}
    if attempt is not None:
        facts |= {"exit_code": attempt.exit_code, "signal": attempt.signal, "maxrss": attempt.maxrss}
        facts |= {"slip": attempt.slip, "cpu_s": seconds(attempt.cpu)}
    return facts


def waited(job: Job) -> int | None:
    """Return the wait from submit to start, in microseconds, without earlier runs; None if the job never started.

    A start by others may have been seen before the job was: then it did not wait.
    """
    return None if job.start is None else max(job.start - job.submit - job.ran, 0)


def used(job: Job) -> float | None:
    """Return the share of its walltime that a job used; None if it never started."""
    if job.start is None or job.end is None:
        return None
    return min((job.end - job.start + job.done) / job.walltime, 1.0)


def summed(jobs: Iterable[Job], key: str, cpus: dict[int, int]) -> list[Facts]:
    """Return a row for each user or name, in descending order of cpu time. cpus: of each job."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(getattr(job, key), []).append(job)
    found = []
    for name, some in groups.items():
        waits = [wait for job in some if (wait := waited(job)) is not None]
        shares = [share for job in some if (share := used(job)) is not None]
        held = sum(cpus[job.id] * ((job.end or 0) - job.start) for job in some if job.start is not None)
        states = [job.state for job in some]
        found.append({
            key: name,
            "jobs": len(some),
            "failed": states.count("FAILED") + states.count("OUT_OF_MEMORY") + states.count("NODE_FAIL"),
            "timeout": states.count("TIMEOUT"),
            "cancelled": states.count("CANCELLED") + states.count("DEADLINE"),
            "median_wait_s": float(np.median(waits)) / 1e6 if waits else None,
            "p90_wait_s": float(np.quantile(waits, 0.9)) / 1e6 if waits else None,
            "cpu_h": held / 3.6e9,
            "limit_used": float(np.median(shares)) if shares else None,
        })  # fmt: skip
    return sorted(found, key=lambda each: -each["cpu_h"])


# ---------------------------------------------------------------------- as a workload


@dataclass
class _Life:
    """A job as its policy saw it, with the passes at which events reached the policy."""

    facts: Row
    job: int
    learned: int = 0
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    changes: list[tuple[int, Change]] = field(default_factory=list)
    waits: int = 0
    known: bool = False  # the policy will get a repeated message that it waits, though nothing happened to it
    before: int | None = None  # start of the run that was preempted last, until that run has ended
    longest: int = 0  # longest preempted run whose progress was lost
    done: int = 0  # progress kept at preemptions, less their overhead
    alone: bool = False  # it ended by itself while being preempted
    foreign: bool = False  # it was started outside the queue
    nodes: Placement = field(default_factory=list)  # of its last run, see nodes.Placement


@dataclass
class Recorded:
    """A history in the form that `simulate` takes, and what had to be left out."""

    workload: Workload
    platform: Platform
    events: Events
    policies: list[str]  # policies that made the decisions, in order
    left_out: dict[str, int]  # number of jobs by reason
    started: Ints  # actual start of each job of the workload; NO_TIME if it never started


def recorded(log_: Iterable[Entry], chosen: Iterable[int]) -> Recorded:
    """Convert these jobs to a workload, with the times at which the policy learned of events.

    The submit of a job is the pass at which the policy learned of it; its walltime includes the grace, since the policy
    planned with that. So `simulate --overrun extend` starts each job when and where it started, if there were only
    submits, ends, dependencies on ends, cancelled or changed jobs and changes of capacity. A job that is not over at
    the end of the log runs as long as it may. For runs started outside the queue, the times reported by their pool are
    used where known, since the passes came later. Raises InputError.
    """
    from backfill.worlds.live import platform_of  # this import loads the core
    from backfill.worlds.workload import table

    lives, log = _lives(log_, {*chosen})
    some = [lives[number] for number in sorted(lives)]
    if not some or not log.epochs:
        raise InputError("no job of the history ever came to the policy; nothing can be simulated")
    place = {life.job: row for row, life in enumerate(some)}
    arrays: dict[int, list[int]] = {}
    for life in some:
        arrays.setdefault(life.facts["array"], []).append(life.job)
    begun = min(life.learned for life in some)
    epoch = ([facts for t, facts in log.epochs if t <= begun] or [log.epochs[0][1]])[-1]
    others = [t for t, facts in log.epochs if t > begun and facts.get("platform") != epoch.get("platform")]
    there = _amounts(epoch, log, begun)
    platform = platform_of(epoch if epoch.get("platform") else Basis(resources=there[MACHINE]))
    speed = dict(zip(platform.nodes, platform.speed.tolist(), strict=True))
    left_out: dict[str, int] = {}
    submit, runtime, after = [], [], []
    known = _known(log.epochs)
    steps: list[dict[str, str]] = []
    for life in some:
        on = _after(life, place, arrays)
        late = not on and any(life.facts[name] for name in ("held", "begin", "singleton", "throttle", "after"))
        if late or life.waits > 1:
            why = AGAIN if life.waits > 1 else LATER
            left_out[why] = left_out.get(why, 0) + 1
        stated = life.facts["submit"]
        submitted = stated if life.foreign and log.epochs[0][0] <= stated < life.learned else life.learned
        submitted = max(
            submitted, known.get(life.facts["reservation"], submitted)
        )  # by an edit it asks for a later one
        submit.append(life.eligible if late or life.waits > 1 else submitted)
        after.append(on)
        length = life.facts["walltime"] + life.facts["grace"]
        if life.start is not None:
            length = max(length, log.last - life.start) if life.end is None else life.end - life.start
            length += life.done
        runtime.append(length)
        longer = life.start is not None and life.longest >= runtime[-1]
        other = bool(others) and life.learned >= others[0]
        for why, so in ((LONGER, longer), (ALONE, life.alone), (FOREIGN, life.foreign), (OTHER, other)):
            left_out[why] = left_out.get(why, 0) + so
        runtime[-1] = _at_speed_1(runtime[-1], life.nodes if life.start is not None else [], speed, platform)
        if life.start is None and life.end is not None:
            steps.append({"time": seconds_text(life.end), "event": "cancel", "job": str(life.job)})
        for t, to in life.changes:
            steps += _changes(life, t, to)
    steps += _changed(platform, there, log.there, begun, others[0] if others else NEVER)
    steps += _reservations(log.epochs, platform)
    facts = [(life.job, {**life.facts, "submit": t}) for life, t in zip(some, submit, strict=True)]
    workload = table(facts, platform)
    jobs = workload.jobs.replace(
        job=np.array([str(life.job) for life in some]),
        runtime=np.array(runtime, np.int64),
        after=Ragged.of(after),
    )
    steps.sort(key=lambda step: float(step["time"]))
    left_out = {why: count for why, count in left_out.items() if count}
    workload = replace(workload.with_jobs(jobs), name="history")
    started = np.array([NO_TIME if life.start is None else life.start for life in some], np.int64)
    return Recorded(workload, platform, Events.of(steps), log.policies, left_out, started)


@dataclass
class _Log:
    """Facts about the queue in the log. Each entry of a list begins with a time."""

    epochs: list[tuple[int, Basis]] = field(default_factory=list)
    there: list[tuple[int, str, Amounts]] = field(default_factory=list)  # resources of a place from then on
    policies: list[str] = field(default_factory=list)
    last: int = 0  # time of its last entry


def _amounts(epoch: Basis, log: _Log, begun: int) -> dict[str, Amounts]:
    """Return the resources of each place at the begin; a node without an entry has what the platform states."""
    since = max((t for t, facts in log.epochs if facts is epoch), default=0)
    found = {MACHINE: epoch["resources"]} if not epoch.get("platform") else {}
    found |= epoch.get("nodes", {})
    return found | {place: there for t, place, there in log.there if since <= t <= begun}


def _changed(
    platform: Platform, there: dict[str, Amounts], changes: Iterable[tuple[int, str, Amounts]], begun: int, until: int
) -> Iterator[dict[str, str]]:
    """Yield the events that change the resources of places, relative to what the platform states."""
    now = {
        node: dict(zip(platform.resources, capacity, strict=True))
        for node, capacity in zip(platform.nodes, platform.capacity.tolist(), strict=True)
    }
    now[FLOATING] = dict(zip(platform.licences, platform.copies.tolist(), strict=True))
    first = [(begun, place, amounts) for place, amounts in there.items()]
    for t, place, amounts in [*first, *(one for one in changes if begun < one[0] < until)]:
        for name, before in now.get(place, {}).items():
            if (amount := amounts.get(name, 0)) != before:
                where = {} if place == FLOATING or len(platform.nodes) == 1 else {"node": place}
                yield {"time": seconds_text(t), "event": "capacity", "resource": name, "value": str(amount), **where}
                now[place][name] = amount


def _known(epochs: Iterable[tuple[int, Basis]]) -> dict[str, int]:
    """Return when the policy learned of each reservation."""
    known: dict[str, int] = {}
    for t, facts in epochs:
        for each in facts.get("reservations", ()):
            known.setdefault(each["reservation"], t)
    return known


def _reservations(epochs: Iterable[tuple[int, Basis]], platform: Platform) -> Iterator[dict[str, str]]:
    """Yield the events that create the reservations of a queue, on their chosen nodes, and end them early."""
    known: dict[str, Grant] = {}
    for t, facts in epochs:
        there = {each["reservation"]: each for each in facts.get("reservations", ())}
        for name in [name for name, each in known.items() if name not in there and each["until"] > t]:
            yield {"time": seconds_text(t), "event": "unreserve", "reservation": name}
            del known[name]
        for name, each in there.items():
            if name in known:
                continue
            known[name] = each
            owners = {owner: text for owner in OWNERS if (text := each[owner])}  # type: ignore[literal-required]
            span = {"value": seconds_text(each["begin"]), "until": seconds_text(each["until"])}
            made = {"time": seconds_text(t), "event": "reserve", "reservation": name, **span, **owners}
            for node, amounts, all_of_it in each["nodes"]:
                names = [] if all_of_it else platform.resources
                parts = [{"resource": name, "amount": str(amounts.get(name, 0))} for name in names]
                yield from ({**made, "node": node, **part} for part in parts or [{}])


def _at_speed_1(length: int, nodes: Iterable[Sequence[Any]], speed: dict[str, float], platform: Platform) -> int:
    """Return the run time with which a simulation holds these nodes for `length`, up to rounding on slow nodes."""
    names = [name for name, *_ in nodes if name in speed]
    slowest = min((speed[name] for name in names), default=1.0)
    if len({int(platform.site[platform.nodes.index(name)]) for name in names}) > 1:
        slowest /= 1 + platform.coallocation_overhead
    runtime = math.floor(length * slowest)
    return next((one for one in (runtime, runtime + 1, runtime - 1) if math.ceil(one / slowest) == length), runtime)


def _lives(entries: Iterable[Entry], wanted: set[int]) -> tuple[dict[int, _Life], _Log]:
    """Return the lives of these jobs, and the facts about the queue."""
    lives: dict[int, _Life] = {}
    log = _Log()
    for happened in between_passes(entries):
        log.last = max([log.last, happened.until or 0, *(t for _, t, _ in happened.entries[-1:])])
        until = log.last if happened.until is None else happened.until
        for event, _, _ in happened.entries:
            match event:
                case events.Submit() | events.Began(row=dict()) if event.job in wanted:
                    lives[event.job] = life = _Life(whole(event.row or {}), event.job, until)
                    if isinstance(event, events.Began):
                        life.eligible = until
                        _begin(life, event)
                case events.Capacity() | events.NodeSet():
                    place = event.node if isinstance(event, events.NodeSet) else MACHINE
                    log.there.append((until, place, event.resources))
                case events.Epoch(basis=basis):
                    log.epochs.append((until, basis))
                    log.policies += [] if basis["policy"] in log.policies[-1:] else [basis["policy"]]
                    for each in lives.values():
                        each.known = each.waits > 0 and each.start is None
                case JobEvent() if event.column in lives:
                    _change(lives[event.job], event, happened.since, until)
    return {job: life for job, life in lives.items() if life.eligible is not None}, log


def _change(life: _Life, event: JobEvent, since: int, until: int) -> None:
    """Update the life of a job by one of its events, between two passes. now: the time of the last pass."""
    match event:
        case events.Declined():
            life.known = True
        case events.Wait() if life.known:
            life.known = False
        case events.Wait():
            life.waits += 1
            life.eligible = until
        case events.Start() | events.Due() | events.Began():
            _begin(life, event)
        case events.Preempt():  # the run ends at the pass that decided so, as in a simulation
            ran = since - (since if life.start is None else life.start)
            if event.how:
                life.done += ran - event.overhead
            else:
                life.longest, life.done = max(life.longest, ran), 0
            life.before, life.start = life.start, None
        case events.Preempted():
            life.before = None
        case events.Hold() | events.Unstarted() | events.Requeue():
            life.start, life.known = None, False
            life.done = 0 if isinstance(event, events.Requeue) else life.done
        case events.Edit(to=to):
            life.facts |= {name: value for name, value in to.items() if name in FINAL}
            life.changes.append((until, to))
        case events.End():
            if life.before is not None and event.state != CANCELLED:
                life.start, life.alone = life.before, True
            life.end = event.ended if life.foreign and event.ended is not None else until


def _begin(life: _Life, event: events.Start | events.Due | events.Began) -> None:
    """Record the start of a job, by the policy or outside the queue."""
    due = event.due if isinstance(event, events.Start) else None
    life.start, life.nodes = event.start if due is None else due, event.nodes or []
    life.foreign = isinstance(event, events.Began)


def _after(life: _Life, place: dict[int, int], arrays: dict[int, list[int]]) -> list[int]:
    """Return the rows of the jobs whose ends this job waited for; empty if anything else kept it from the queue."""
    facts = life.facts
    if facts["any_of"] or facts["singleton"] or facts["throttle"] or facts["held"] or facts["begin"]:
        return []
    some = [*each_job(facts["after"], arrays)]
    if len(some) > TASKS_MAX or not all(kind in AT_ENDS and on in place for kind, on in some):
        return []
    return [place[on] for _, on in some]


def _changes(life: _Life, t: int, to: Change) -> Iterable[dict[str, str]]:
    for name in ("walltime", "priority"):
        if name in to:
            text = seconds_text(to[name] + life.facts["grace"]) if name == "walltime" else str(to[name])
            yield {"time": seconds_text(t), "event": name, "job": str(life.job), "value": text}
