"""Check that the record of a queue is sound: its file, its tables, and the history of every job.

Nothing here uses the code that wrote the log: the promises (docs/reference/queue-promises.md) are checked on the events
alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from backfill.queue import events
from backfill.queue.events import Entry, JobEvent
from backfill.queue.job import SUSPEND, whole
from backfill.queue.nodes import FLOATING, MACHINE, Nodes, Placement
from backfill.queue.shapes import Row
from backfill.queue.store import Store, StoreError
from backfill.system import witness

SHOWN = 20  # problems of one kind that are listed


def check_deep(home: Path) -> list[str]:
    """Return what is wrong with the record of a queue, a line each; empty for a sound one.

    Raises StoreError if there is no readable store.
    """
    # Read the witness before the log, since it is ahead of it. An empty record means that an attempt may have begun.
    began = [name for kind, name, record in witness.read(str(home)) if kind == "began" and record]
    length = max((int(name) for kind, name, _ in witness.read_since_log(str(home)) if kind == "log"), default=0)
    store = Store(home / "store.db", readonly=True)
    try:
        with store.still():  # a daemon may be running
            damage = store.damage()
            if damage:
                return damage[:SHOWN]
            wrong = [*judge(store.events())[:SHOWN], *store.differences()[:SHOWN]]
            if store.seq < length:
                wrong.append(
                    f"the log has {store.seq} events, and had {length}, says the witness: it is an older copy; "
                    "the next daemon enters what happened since"
                )
            return wrong + compare_with_witness(store.events(), began)[:SHOWN]
    except StoreError as error:
        return [str(error)]
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        return [f"{store.path}: the log makes no sense: {error!r}"]
    finally:
        store.close()


@dataclass
class Run:
    """The resources that an attempt holds, as in its first event."""

    nodes: Placement
    cpu_ids: Sequence[int]
    gpu_ids: Sequence[int]


def judge(log: Iterable[Entry]) -> list[str]:
    """Return the violations of the rules of a queue in a log.

    A job runs twice at once, or again without permission; more is held than exists; two jobs share a cpu or gpu; an
    attempt ends without a start; time goes back.
    """
    wrong: list[str] = []
    jobs: dict[int, Row] = {}
    running: dict[int, Run] = {}  # resources that each job holds
    runs: dict[int, int] = {}  # number of attempts that may have run
    preempted: set[int] = set()  # by the policy, while they were running
    spawned: set[int] = set()  # their processes were seen
    suspended: set[int] = set()  # may be lost with their nodes
    nodes = Nodes({})
    last = 0
    for event, t, seq in log:
        if t < last:
            wrong.append(f"event {seq} is dated before the one before it")
        last = t
        match event:
            case events.Capacity():
                nodes = Nodes({MACHINE: event.resources} if event.nodes is None else event.nodes)
            case events.NodeSet():
                nodes.set(event.node, event.resources)
            case events.Submit() | events.Adopted() | events.Began(row=dict()):
                jobs[event.job] = whole(event.row or {})
            case events.Edit():
                jobs[event.job] |= event.to
        if not isinstance(event, JobEvent):
            continue
        number = event.job
        if isinstance(event, events.Adopted) and number in running:  # the end of the last attempt is missing in the log
            del running[number]
            runs[number] -= 1
        match event:
            case events.Start() | events.Adopted() | events.Began():
                run = _run(event)
                if number in running:
                    wrong.append(f"job {number} is started at event {seq} while it runs")
                if isinstance(event, events.Start):
                    wrong += _begins(number, run, seq, jobs, running, nodes)
                running[number] = run
                runs[number] = runs.get(number, 0) + 1
                if runs[number] > 1 and not jobs[number]["requeue"]:
                    wrong.append(f"job {number} is started again at event {seq} and may have run before")
                suspended.discard(number)
            case events.Spawned():
                spawned.add(number)
            case events.Kept():
                (suspended.add if event.how == SUSPEND else suspended.discard)(number)
            case events.Preempt():
                preempted.add(number)
            case events.End() | events.Requeue() | events.Unstarted() | events.Preempted():
                held = running.pop(number, None) is not None
                wanted = isinstance(event, events.Requeue) and (event.asked or event.retry > 0)
                may = ("CANCELLED", "DEADLINE", *(["NODE_FAIL"] if number in suspended else []))
                if not held and not (isinstance(event, events.End) and event.state in may):
                    wrong.append(f"event {seq} ends job {number}, which holds nothing")
                if isinstance(event, events.Preempted) and number not in preempted and not event.found:
                    wrong.append(f"event {seq} says that job {number} was preempted, which no policy decided")
                if isinstance(event, events.Unstarted) and number in spawned:
                    wrong.append(f"event {seq} says that job {number} never started, and it was seen running")
                elif wanted or isinstance(event, events.Unstarted | events.Preempted):
                    runs[number] -= 1
                spawned.discard(number)
                preempted.discard(number)
    return wrong


def _run(event: events.Start | events.Adopted | events.Began) -> Run:
    if isinstance(event, events.Adopted):
        return Run(event.row.get("nodes", ()), event.row["cpu_ids"], event.row["gpu_ids"])
    return Run(event.nodes or (), event.cpu_ids, event.gpu_ids)


def _begins(number: int, run: Run, seq: int, jobs: dict[int, Row], running: dict[int, Run], nodes: Nodes) -> list[str]:
    """Return what is wrong with a start that was decided here, given all that runs.

    Starts decided elsewhere may exceed the capacity.
    """
    wrong = []
    held: Counter[tuple[str, str]] = Counter()

    def parts(number: int, run: Run) -> Iterator[tuple[str, str, int]]:
        return nodes.parts(jobs[number]["need"], run.nodes or [[MACHINE, jobs[number]["tasks"]]])

    for other, its in ((number, run), *running.items()):
        for place, name, amount in parts(other, its):
            held[place, name] += amount
    for place, name, _ in parts(number, run):
        there = nodes.there.get(place, {}).get(name, 0)
        if held[place, name] > there:
            where = "" if place in (MACHINE, FLOATING) else f" of node {place}"
            wrong.append(f"{held[place, name]} {name}{where} are held from event {seq} on; there are {there}")
    for name, mine, others in (
        ("cpu_ids", run.cpu_ids, [other.cpu_ids for other in running.values()]),
        ("gpu_ids", run.gpu_ids, [other.gpu_ids for other in running.values()]),
    ):
        twice = {*mine} & {*chain.from_iterable(others)}
        if twice:
            wrong.append(f"{name} {sorted(twice)} are given twice at event {seq}")
    return wrong


def compare_with_witness(log: Iterable[Entry], began: Iterable[str]) -> list[str]:
    """Return where the log and the witness disagree about attempts.

    Attempts began twice, or without a start in the log, or the log says that they never began. Attempts lost by a
    restore are left out.
    """
    started: dict[str, str] = {}  # attempt -> the last event that tells whether it ran
    current: dict[int, str] = {}
    gaps: list[tuple[int, int]] = []  # numbers of jobs lost by a restore
    last = 0
    for event, _, _ in log:
        if isinstance(event, events.Submit | events.Adopted):
            last = max(last, event.job)
        match event:
            case events.Start() | events.Adopted():
                attempt = event.attempt if isinstance(event, events.Start) else event.row["attempt"]
                current[event.job] = f"{event.job}.{attempt}"
                started[current[event.job]] = event.kind
                if isinstance(event, events.Adopted):  # the starts of earlier attempts were lost by a restore
                    for before in range(1, attempt):
                        started.setdefault(f"{event.job}.{before}", event.kind)
            case events.Unstarted(launch=False):
                started[current[event.job]] = event.kind
            case events.Up():
                if event.last_job > last:
                    gaps.append((last, event.last_job))
                last = max(last, event.last_job)
    wrong, seen = [], set()
    for name in began:
        number = int(name.partition(".")[0])
        if any(low < number <= high for low, high in gaps):
            continue
        if name in seen:
            wrong.append(f"attempt {name} began twice, says the witness")
        elif name not in started:
            wrong.append(f"attempt {name} began, says the witness, and the log knows nothing of it")
        elif started[name] == "unstarted":
            wrong.append(f"attempt {name} began, says the witness, and the log says that it never did")
        seen.add(name)
    return wrong
