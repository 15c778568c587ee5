"""Messages to a planner. They follow from the events of the log alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from backfill.queue import events
from backfill.queue.book import Book
from backfill.queue.events import Entry, Event
from backfill.queue.job import PREEMPT, Job
from backfill.queue.nodes import Nodes, Placement
from backfill.queue.protocol import FACTS, KEPT, Message, Pass
from backfill.queue.shapes import Basis, PlannerFacts, Row
from backfill.queue.states import CANCELLED, COMPLETED, NODE_FAIL, TIMEOUT

# Facts of a job that the platform cannot run, so that it never waits.
PLAIN: Row = {"need": {"cpus": 1}, "tasks": 1, "spread": "any", "site": "", "constraint": "", "partition": "",
              "qos": "", "exclusive": False}  # fmt: skip
BASIC = (*FACTS, "submit")
# frequent kinds of events without a message to the planner
SILENT = ("spawned", "promise", "shown", "advised", "expected")
SEEN = {TIMEOUT: TIMEOUT, CANCELLED: CANCELLED, NODE_FAIL: NODE_FAIL}  # how a policy sees an end; COMPLETED otherwise


def planner_facts(row: Mapping[str, Any]) -> PlannerFacts:
    """Return the facts of a job for a planner without defaults, and its submit if the queue learned of it later."""
    facts = {name: row[name] for name, usual in FACTS.items() if row.get(name, usual) != usual}
    if row.get("native"):
        facts["submit"] = row["submit"]
    return cast(PlannerFacts, {**facts, **PLAIN} if row.get("outside") else facts)


def running_facts(row: Mapping[str, Any], placement: Placement, nodes: Nodes) -> PlannerFacts:
    """Return the same for a running job: it is on its nodes, whatever this platform allows.

    Whole nodes must be equal.
    """
    facts = cast(Row, planner_facts({**row, "outside": False}))
    for name in ("site", "partition", "qos", "constraint"):
        facts.pop(name, None)
    names = [name for name, *_ in placement if name in nodes.stated]
    alike = all(nodes.stated[name] == nodes.stated[names[0]] for name in names)
    if facts.pop("exclusive", False) and alike:
        facts |= {"exclusive": True, "constraint": "|".join(names)}
    return cast(PlannerFacts, facts)


def messages(event: Event) -> Iterator[Message]:
    """Yield the messages of an event to a planner."""
    match event:
        case events.Submit():
            yield ["submit", event.job, planner_facts(event.row)]
        case events.Wait(promised=None):
            yield ["wait", event.job]
        case events.Wait():
            yield ["promised", event.job, event.promised, event.nodes]
        case events.End():
            yield ["gone", event.job, SEEN.get(event.state, COMPLETED)]
            yield ["over", event.job]
        case events.Hold() | events.Declined() | events.Withdrawn():
            yield ["gone", event.job, CANCELLED]
        case events.Stop(leaves=True) | events.Preempt(leaves=True):
            yield ["gone", event.job, CANCELLED]
        case events.Unstarted() | events.Requeue() | events.Preempted(leaves=True):
            yield ["gone", event.job, NODE_FAIL]
            if isinstance(event, events.Requeue):
                yield ["kept", event.job, 0, ""]
        case events.Kept():
            yield ["kept", event.job, event.done, event.how]
        case events.Edit():
            if event.leaves or event.told is not None:
                yield ["gone", event.job, CANCELLED]
            if event.told is not None:
                yield ["submit", event.job, event.told]
                if "keeps" in event.told:
                    yield ["kept", event.job, event.told["done"], event.told["keeps"], event.told["stood"]]
            elif not event.leaves:
                yield ["change", event.job, {name: value for name, value in event.to.items() if name in FACTS}]
        case events.Adopted(row=row):
            yield ["gone", event.job, NODE_FAIL]
            yield ["submit", event.job, planner_facts(row)]
            yield ["began", event.job, row["start"], row.get("why", ""), row.get("nodes", [])]
        case events.Began():
            if event.row is None and event.told is None:
                yield ["kept", event.job, 0, ""]
            elif event.row is None:
                yield ["gone", event.job, CANCELLED]
            if event.row is not None or event.told is not None:
                yield ["submit", event.job, event.told or planner_facts(event.row or {})]
            yield ["began", event.job, event.start, event.why, event.nodes]
        case events.Capacity():
            yield ["capacity", event.resources]
        case events.NodeSet():
            yield ["capacity", event.resources, event.node]


def begins_with(book: Book, jobs: list[list[Any]] | None = None) -> Basis:
    """Return what an epoch begins with: the machine, differences from the platform file, and the open jobs.

    jobs: these, if `base` has been computed already.
    """
    nodes = book.nodes
    message: Basis = {"resources": dict(book.capacity), "base": base(book) if jobs is None else jobs}
    if book.platform:
        changed = {place: capacity for place, capacity in nodes.there.items() if capacity != nodes.stated.get(place)}
        message |= {"platform": book.platform, "nodes": changed}
    if book.reservations:
        message["reservations"] = [each.granted(book.skew) for each in book.reservations.values()]
    return message


def base(book: Book) -> list[list[Any]]:
    """Return the open jobs with which an epoch begins, each as its `basis`; later messages let them wait."""
    changed = bool(book.epoch) and book.epoch.get("platform", "") != book.platform
    return [basis(job, book.nodes if changed or job.native else None) for _, job in sorted(book.jobs.items())]


def basis(job: Job, nodes: Nodes | None = None) -> list[Any]:
    """Return a job with which an epoch begins: its facts with its submit, and its start if it runs, else None.

    The facts of a running job include the reason of its start and its nodes. nodes: of a platform that could not have
    started it this way.
    """
    facts: Row = {name: value for name in BASIC if (value := getattr(job, name)) != FACTS.get(name)}
    run = job.attempt
    if run is None:
        return [job.id, {**facts, **(PLAIN if job.outside else {}), **progress(job)}, None]
    if nodes is not None and (job.exclusive or job.outside):
        facts = {**cast(Row, running_facts(job.facts(), run.nodes, nodes)), "submit": job.submit}
    facts |= {name: value for name, value in (("why", job.why), ("nodes", run.nodes)) if value}
    return [job.id, facts | progress(job), job.start]


def progress(job: Job) -> Row:
    """Return what a planner has to know of a job that keeps its progress; empty for other jobs."""
    return {name: getattr(job, name) for name in KEPT} if job.keeps else {}


def ended(jobs: Iterable[Job]) -> list[list[Any]]:
    """Return what a predictor learns from jobs that are over, in the order of their ends; see `taught`."""
    limited = sorted((job for job in jobs if job.says_how_long), key=lambda job: (job.end, job.id))
    return [[job.id, job.user, job.project, job.tasks * job.need.get("cpus", 0), job.submit, job.walltime + job.grace,
             job.took, job.end] for job in limited]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Between:
    """The events between two passes: some are decisions of the first one, and all are reported to the second one."""

    since: int  # the instant of the first pass; 0 if there is none
    entries: list[Entry]
    until: int | None  # that of the second; None if there is none yet


def between_passes(entries: Iterable[Entry]) -> Iterator[Between]:
    """Divide a log at its passes."""
    since, some = 0, list[Entry]()
    for entry in entries:
        if isinstance(entry.event, events.PassBegun):
            yield Between(since, some, entry.event.now)
            since, some = entry.event.now, []
        else:
            some.append(entry)
    yield Between(since, some, None)


def passes(entries: Iterable[Entry], behind: bool = False) -> tuple[list[Pass], list[Message]]:
    """Return the passes since an `epoch`, from the log after it; and the messages for the next pass.

    behind: the events follow a pass, which is then the first one, without its messages.
    """
    found = [Pass(0, [])] if behind else []
    for happened in between_passes(entries):
        messages_since: list[Message] = []
        for event, _, _ in happened.entries:
            _note_decision(event, found)
            messages_since += messages(event)
        if happened.until is not None:
            found.append(Pass(happened.until, messages_since))
    return found, messages_since


def _note_decision(event: Event, found: list[Pass]) -> None:
    """Enter an event into the last pass if that pass decided it."""
    match event:
        case events.Due() | events.Declined() | events.Start(due=None):
            where = [] if event.nodes is None else [event.nodes]
            found[-1].decided.append([event.job, event.why, *where])
        case events.Preempt() | events.Spared():
            how = [event.how, event.overhead] if event.how else []
            found[-1].decided.append([event.job, PREEMPT, event.by, *how])
