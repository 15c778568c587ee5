"""Whether the record of a queue is sound: its file, its tables, and what the log says of every job at every instant.

Nothing here asks the code that wrote the log: what was promised (docs/reference/queue-promises.md) is read off the
events alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from backfill.pools.local import witness
from backfill.queue.book import Event, Facts, whole
from backfill.queue.nodes import FLOATING, MACHINE, Nodes
from backfill.queue.store import Store, StoreError

SHOWN = 20  # problems of one kind


def check_deep(home: Path) -> list[str]:
    """What is wrong with the record of a queue, a line each; nothing in a sound one. Raises StoreError if there is no
    store that can be read."""
    # The witness before the log, which is ahead of it. An empty record says only that an attempt may have begun.
    began = [name for kind, name, record in witness.read(str(home)) if kind == "began" and record]
    length = max((int(name) for kind, name, _ in witness.read_since_log(str(home)) if kind == "log"), default=0)
    store = Store(home / "store.db", readonly=True)
    try:
        with store.still():  # a daemon may be at work
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


def judge(log: Iterable[Event]) -> list[str]:
    """Where a log breaks a promise: a job that runs twice at once or again without leave, more held than there is, two
    jobs on one cpu or gpu, an end without a start, time that goes back."""
    wrong: list[str] = []
    jobs: dict[int, Facts] = {}
    running: dict[int, Facts] = {}  # the `start` of each job that holds something
    runs: dict[int, int] = {}  # attempts that may have run
    preempted: set[int] = set()  # by the policy, while they run
    spawned: set[int] = set()  # seen running
    nodes = Nodes({})
    last = 0
    for event in log:
        number, kind, data = event.job, event.kind, event.data
        if event.t < last:
            wrong.append(f"event {event.seq} is dated before the one before it")
        last = event.t
        if kind == "capacity":
            nodes = Nodes(data["nodes"] if "nodes" in data else {MACHINE: data["resources"]})
        elif kind == "node":
            nodes.set(data["node"], data["resources"])
        elif kind in ("submit", "adopted"):
            jobs[number] = whole(data["job"])
        elif kind == "edit":
            jobs[number] |= data["to"]
        if kind == "adopted" and number in running:  # the log has lost how the attempt before this one ended
            del running[number]
            runs[number] -= 1
        if kind == "began" and "job" in data:
            jobs[number] = whole(data["job"])
        if kind in ("start", "adopted", "began"):
            facts = data["job"] if kind == "adopted" else data
            wrong += _begins(event, facts, jobs, running, nodes)
            running[number] = facts
            runs[number] = runs.get(number, 0) + 1
            if runs[number] > 1 and not jobs[number]["requeue"]:
                wrong.append(f"job {number} is started again at event {event.seq} and may have run before")
        elif kind == "spawned":
            spawned.add(number)
        elif kind == "preempt":
            preempted.add(number)
        elif kind in ("end", "requeue", "unstarted", "preempted"):
            if running.pop(number, None) is None and (kind != "end" or data["state"] not in ("CANCELLED", "DEADLINE")):
                wrong.append(f"event {event.seq} ends job {number}, which holds nothing")
            if kind == "preempted" and number not in preempted and not data.get("found"):
                wrong.append(f"event {event.seq} says that job {number} was preempted, which no policy decided")
            if kind == "unstarted" and number in spawned:
                wrong.append(f"event {event.seq} says that job {number} never started, and it was seen running")
            elif kind in ("unstarted", "preempted") or data.get("asked") or data.get("retry"):
                runs[number] -= 1
            spawned.discard(number)
            preempted.discard(number)
    return wrong


def _begins(event: Event, facts: Facts, jobs: dict[int, Facts], running: dict[int, Facts], nodes: Nodes) -> list[str]:
    """What is wrong with a start beside all that runs. One that was not decided here (`adopted`, `began`) may be
    beyond what there is."""
    wrong = []
    if event.job in running:
        wrong.append(f"job {event.job} is started at event {event.seq} while it runs")
    if event.kind != "start":
        return wrong
    held: Counter[tuple[str, str]] = Counter()

    def parts(number: int, start: Facts) -> Iterator[tuple[str, str, int]]:
        return nodes.parts(jobs[number]["need"], start.get("nodes") or [[MACHINE, jobs[number]["tasks"]]])

    for other, its in ((event.job, facts), *running.items()):
        for place, name, amount in parts(other, its):
            held[place, name] += amount
    for place, name, _ in parts(event.job, facts):
        there = nodes.there.get(place, {}).get(name, 0)
        if held[place, name] > there:
            where = "" if place in (MACHINE, FLOATING) else f" of node {place}"
            wrong.append(f"{held[place, name]} {name}{where} are held from event {event.seq} on; there are {there}")
    for ids in ("cpu_ids", "gpu_ids"):
        used = {one for other in running.values() for one in other[ids]}
        if used & {*facts[ids]}:
            wrong.append(f"{ids} {sorted(used & {*facts[ids]})} are given twice at event {event.seq}")
    return wrong


def compare_with_witness(log: Iterable[Event], began: Iterable[str]) -> list[str]:
    """Return where the log and the witness disagree about attempts: they began twice, or without a start in the log, or
    the log says that they never began. Those that a restore has lost are left out."""
    started: dict[str, str] = {}  # attempt -> the last event that says whether it ran
    current: dict[int, str] = {}
    gaps: list[tuple[int, int]] = []  # numbers of jobs that a restore has lost
    last = 0
    for event in log:
        if event.kind in ("submit", "adopted"):
            last = max(last, event.job)
        if event.kind in ("start", "adopted"):
            facts = event.data if event.kind == "start" else event.data["job"]
            current[event.job] = f"{event.job}.{facts['attempt']}"
            started[current[event.job]] = event.kind
            if event.kind == "adopted":  # a restore has lost the starts of those before it
                for attempt in range(1, facts["attempt"]):
                    started.setdefault(f"{event.job}.{attempt}", event.kind)
        elif event.kind == "unstarted" and not event.data.get("launch"):
            started[current[event.job]] = event.kind
        elif event.kind == "up":
            if event.data.get("last_job", 0) > last:
                gaps.append((last, event.data["last_job"]))
            last = max(last, event.data.get("last_job", 0))
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
