"""What a planner is told: messages that follow from the events of the log, and from nothing else.

A message is a list: its kind and what belongs to it. A planner that is told all messages since the `epoch`, pass by
pass, decides what the one before it decided; that is how it is made anew.

submit job facts       a job is known
wait job               it is in the queue of the policy from now on
promised job start nodes    the same, and the planner before this one had promised it this start there
began job since why nodes   it runs since then, and another planner or somebody else started it
gone job how           it is in the queue no more, or runs no more
over job               it is never told of again
change job facts       its walltime or priority is another one; one that needs something else is submitted anew
taught job user project cpus submit walltime ran end    before the epoch this job had ended
kept job done how nodes    so much of its walltime is behind it, and it goes on so, or begins anew where that is empty;
                       nodes: where it was suspended, if the planner does not know that
capacity resources place    what the machine has, or a node, or how many copies there are of floating licences

What the policy did itself it is not told: it has started a job that is due, and a job that it preempted is in its queue
again, whatever becomes of the attempt that makes way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from backfill.queue import events
from backfill.queue.book import Book
from backfill.queue.events import Entry, Event
from backfill.queue.job import PREEMPT, USUAL, Job
from backfill.queue.nodes import Nodes, Placement
from backfill.queue.shapes import Basis, Decisions, Row, Told
from backfill.queue.states import CANCELLED, COMPLETED, NODE_FAIL, TIMEOUT

Message = list[Any]
# What a policy may know of a job, and what is usual.
FACTS = {
    name: USUAL[name]
    for name in (
        "need", "walltime", "grace", "priority", "user", "group", "project", "deadline",
        "tasks", "spread", "site", "constraint", "partition", "qos", "exclusive", "reservation",
    )
}  # fmt: skip
# What it knows of one that the platform cannot run, so that it never waits.
PLAIN: Row = {"need": {"cpus": 1}, "tasks": 1, "spread": "any", "site": "", "constraint": "", "partition": "",
              "qos": "", "exclusive": False}  # fmt: skip
BASIC = (*FACTS, "submit")
KEPT = ("done", "keeps", "stood")  # what a job has that keeps its progress
# frequent kinds of events of which a planner is told nothing
SILENT = ("spawned", "promise", "shown", "advised", "expected")
CALM = ("submit", "kept")  # messages after which there is nothing new to decide
WAITS = ("wait", "promised")  # messages by which a job joins the queue of the policy
LEARNED = 2_000  # ended jobs from which run times are known
SEEN = {TIMEOUT: TIMEOUT, CANCELLED: CANCELLED, NODE_FAIL: NODE_FAIL}  # how a policy sees an end; else as COMPLETED


def told(row: Mapping[str, Any]) -> Told:
    """What a planner is told of a job: its facts, without what is usual; and its submit, if that was before it became
    known here."""
    found = {name: row[name] for name, usual in FACTS.items() if row.get(name, usual) != usual}
    if row.get("native"):
        found["submit"] = row["submit"]
    return cast(Told, {**found, **PLAIN} if row.get("outside") else found)


def told_running(row: Mapping[str, Any], placement: Placement, nodes: Nodes) -> Told:
    """The same of a job that runs: it is on the nodes that it has, whatever may be done there on this platform. Whole
    nodes must be alike."""
    found = cast(Row, told({**row, "outside": False}))
    for name in ("site", "partition", "qos", "constraint"):
        found.pop(name, None)
    names = [name for name, *_ in placement if name in nodes.stated]
    alike = all(nodes.stated[name] == nodes.stated[names[0]] for name in names)
    if found.pop("exclusive", False) and alike:
        found |= {"exclusive": True, "constraint": "|".join(names)}
    return cast(Told, found)


def messages(event: Event) -> Iterator[Message]:
    """What an event means to a planner."""
    match event:
        case events.Submit():
            yield ["submit", event.job, told(event.row)]
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
            yield ["submit", event.job, told(row)]
            yield ["began", event.job, row["start"], row.get("why", ""), row.get("nodes", [])]
        case events.Began():
            if event.row is None and event.told is None:
                yield ["kept", event.job, 0, ""]
            elif event.row is None:
                yield ["gone", event.job, CANCELLED]
            if event.row is not None or event.told is not None:
                yield ["submit", event.job, event.told or told(event.row or {})]
            yield ["began", event.job, event.start, event.why, event.nodes]
        case events.Capacity():
            yield ["capacity", event.resources]
        case events.NodeSet():
            yield ["capacity", event.resources, event.node]


def begins_with(book: Book, jobs: list[list[Any]] | None = None) -> Basis:
    """What an epoch begins with: the machine, what its nodes have by now where that is not what the platform states,
    and the open jobs. jobs: these, if `base` has been made already."""
    nodes = book.nodes
    found: Basis = {"resources": dict(book.capacity), "base": base(book) if jobs is None else jobs}
    if book.platform:
        changed = {place: there for place, there in nodes.there.items() if there != nodes.stated.get(place)}
        found |= {"platform": book.platform, "nodes": changed}
    if book.reservations:
        found["reservations"] = [each.granted(book.skew) for each in book.reservations.values()]
    return found


def base(book: Book) -> list[list[Any]]:
    """The open jobs with which an epoch begins, each as its `basis`; those that may start are said to wait in what
    follows."""
    changed = bool(book.epoch) and book.epoch.get("platform", "") != book.platform
    return [basis(job, book.nodes if changed or job.native else None) for _, job in sorted(book.jobs.items())]


def basis(job: Job, nodes: Nodes | None = None) -> list[Any]:
    """A job with which an epoch begins: its facts with its submit (and why it started, and where), and its start if it
    runs, else None. nodes: those of a platform on which nobody could have started it so."""
    facts: Row = {name: value for name in BASIC if (value := getattr(job, name)) != FACTS.get(name)}
    run = job.attempt
    if run is None:
        return [job.id, {**facts, **(PLAIN if job.outside else {}), **progress(job)}, None]
    if nodes is not None and (job.exclusive or job.outside):
        facts = {**cast(Row, told_running(job.facts(), run.nodes, nodes)), "submit": job.submit}
    facts |= {name: value for name, value in (("why", job.why), ("nodes", run.nodes)) if value}
    return [job.id, facts | progress(job), job.start]


def progress(job: Job) -> Row:
    """What a planner has to know of a job that keeps its progress; nothing of another one."""
    return {name: getattr(job, name) for name in KEPT} if job.keeps else {}


def ended(jobs: Iterable[Job]) -> list[list[Any]]:
    """What a predictor learns from jobs that are over, in the order of their ends; see `taught`."""
    some = sorted((job for job in jobs if job.says_how_long), key=lambda job: (job.end, job.id))
    return [[job.id, job.user, job.project, job.tasks * job.need.get("cpus", 0), job.submit, job.walltime + job.grace,
             job.took, job.end] for job in some]  # fmt: skip


def begun(epoch: Basis) -> list[Message]:
    """The messages for a new planner about that with which its epoch begins; runs in the order of their starts."""
    base = epoch["base"]
    running = sorted(
        (start, job, facts.get("why", ""), facts.get("nodes", [])) for job, facts, start in base if start is not None
    )
    return [
        *(["taught", *about] for about in epoch.get("ended", ())),
        *(["capacity", there, place] for place, there in epoch.get("nodes", {}).items()),
        *(["submit", job, facts] for job, facts, _ in base),
        *(["kept", job, *(facts[name] for name in KEPT)] for job, facts, _ in base if "keeps" in facts),
        *(["began", job, start, *about] for start, job, *about in running),
    ]


@dataclass
class Pass:
    """What a planner was told before a pass, and what it decided, as `decisions` has it."""

    now: int
    messages: list[Message]
    decided: list[list[Any]] = field(default_factory=list)


def decisions(answer: Decisions) -> list[list[Any]]:
    """What a planner decided: [job, PREEMPT, for which job] of each preemption, and how the job keeps its progress, and
    at which overhead; [job, why] of each start, and among nodes its placement."""
    return [*([job, PREEMPT, *more] for job, *more in answer["preempts"]), *answer["starts"]]


def passes(entries: Iterable[Entry], behind: bool = False) -> tuple[list[Pass], list[Message]]:
    """The passes since an `epoch`, from the log behind it; and what the next one will be told.

    behind: the events are those behind a pass, which is the first then, without what was said before it.
    """
    found = [Pass(0, [])] if behind else []
    said: list[Message] = []
    for event, _, _ in entries:
        match event:
            case events.PassBegun():
                found.append(Pass(event.now, said))
                said = []
                continue
            case events.Due() | events.Declined() | events.Start(due=None):
                where = [] if event.nodes is None else [event.nodes]
                found[-1].decided.append([event.job, event.why, *where])
            case events.Preempt() | events.Spared():
                how = [event.how, event.overhead] if event.how else []
                found[-1].decided.append([event.job, PREEMPT, event.by, *how])
        said += messages(event)
    return found, said
