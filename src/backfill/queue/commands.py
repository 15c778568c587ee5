"""What clients ask for, checked and turned into events. Nothing here touches a disk, a clock or a process."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backfill.queue.book import ONE_FAILED, PREEMPT, Book, Event, Facts, Job
from backfill.queue.states import CANCELLED, COMPLETED, DEADLINE, ENDING, HOLDING, OVER, PENDING
from backfill.queue.words import AFTER, folded_labels

NAME_MAX, TASKS_MAX, QUEUED_MAX, ENVIRONMENT_MAX = 256, 10_000, 100_000, 256 << 10
SPAN_MAX = 10**11 * 1_000_000  # microseconds
LOWERED = "JobHeldUser"


class Refused(Exception):
    """A request that cannot be met. Nothing has happened."""

    def __init__(self, message: str, code: str = "usage", field: str = "") -> None:
        super().__init__(message)
        self.code, self.field = code, field

    def answer(self) -> Facts:
        """For the client."""
        return {"error": {"code": self.code, "message": str(self), "field": self.field}}


@dataclass
class Done:
    """What a request leads to: an answer, which is given when the events are on the disk."""

    answer: Facts
    events: list[Event] = field(default_factory=list)


@dataclass
class Context:
    """What commands may look at. find: a job, over or not; tasks: those of an array; keep: the number of a spec;
    most: what there may be of a resource, where that is more than there is now."""

    book: Book
    now: int
    find: Callable[[int], Job | None]
    tasks: Callable[[int], list[Job]]
    by_token: Callable[[str], Job | None]
    keep: Callable[[Facts], int]
    defaults: Mapping[str, Any]
    most: Mapping[str, int]


def submit(request: Facts, given: Context) -> Done:
    """A job, or an array of them."""
    token = _text(request, "token")
    known = given.by_token(token)
    if known is not None:  # the answer was lost on its way
        return Done(submitted(known))
    asked, book = _dict(request, "job"), given.book
    need = {name: _whole(amount, name, 0, 2**62) for name, amount in _dict(asked, "need").items()}
    need = {"cpus": 1, **need}
    if need["cpus"] < 1:
        raise Refused("cpus is 0; expected 1 or more", field="cpus")
    check_need(need, given)
    walltime = _span(asked, "walltime", given.defaults.get("walltime"))
    if walltime is None:
        raise Refused("no walltime; expected --time, or default_time in config.toml", field="walltime")
    job = Job(
        id=book.last_job + 1,
        token=token,
        name=_name(asked.get("name") or "job", "name"),
        user=_name(str(request.get("user", "")), "user"),
        project=_name(asked.get("project") or "", "project"),
        priority=_whole(asked.get("priority", 0), "priority", -(2**31), 2**31),
        need=need,
        walltime=walltime,
        grace=_span(asked, "grace", given.defaults.get("grace", 30_000_000)) or 0,
        begin=_instant(asked, "begin"),
        deadline=_instant(asked, "deadline"),
        requeue=bool(asked.get("requeue", False)),
        singleton=bool(asked.get("singleton", False)),
        held=LOWERED if asked.get("held") else "",
    )
    if job.deadline is not None and max(given.now + book.skew, job.begin or 0) + walltime > job.deadline:
        raise Refused("the walltime ends after the deadline, even if the job starts at once", "impossible", "deadline")
    indexes = _indexes(asked)
    if len(book.jobs) + len(indexes) > QUEUED_MAX:
        raise Refused(f"{len(book.jobs):,} jobs are queued; expected at most {QUEUED_MAX:,}", "full")
    after, job.any_of = _dependencies(asked, given)
    job.throttle = _whole(asked.get("throttle", 0), "throttle", 0, TASKS_MAX)
    _check_spec(_dict(request, "spec"))
    job.spec = given.keep(request["spec"])
    if indexes == [None]:
        job.throttle = 0
    events = []
    for place, index in enumerate(indexes):
        task = {**job.brief(), "id": job.id + place}
        if index is not None:
            task["index"], task["array"] = index, job.id
            task["token"] = token if place == 0 else f"{token}/{place}"
        if after:
            task["after"], task["never"] = _own_part(after, index, job.any_of)
        events.append(Event("submit", task["id"], {"job": task}))
    job.index, job.array = (indexes[0], job.id) if indexes[0] is not None else (None, 0)
    return Done(submitted(job), events)


def check_need(need: Mapping[str, int], given: Context) -> None:
    """Refuse a job that the machine can never run."""
    for name, amount in need.items():
        there = max(given.book.capacity.get(name, 0), given.most.get(name, 0))
        if amount > there:
            told = f"the job asks for {_amount(name, amount)}; the machine has {_amount(name, there)}"
            raise Refused(told, "impossible", name)


def submitted(job: Job) -> Facts:
    """What is told of a job that was queued."""
    facts = {"id": job.array or job.id, "walltime": job.walltime, "need": job.need, "name": job.name}
    return {**facts, "held": bool(job.held), "array": bool(job.array)}


def hold(request: Facts, given: Context) -> Done:
    """Keep pending jobs from starting until they are released."""
    some = [job for job in chosen(request, given) if job.state == PENDING]
    if not some:
        raise Refused("only pending jobs can be held", "state", "ids")
    changed = [job for job in some if not job.held]
    return Done(_ids(changed, chosen(request, given)), [Event("hold", job.id, {"why": LOWERED}) for job in changed])


def release(request: Facts, given: Context) -> Done:
    """Release held jobs."""
    some = [job for job in chosen(request, given) if job.state == PENDING]
    if not some:
        raise Refused("only pending jobs can be released", "state", "ids")
    changed = [job for job in some if job.held]
    return Done(_ids(changed, chosen(request, given)), [Event("release", job.id) for job in changed])


def cancel(request: Facts, given: Context) -> Done:
    """End jobs: pending ones at once, others when their processes are gone. Those that are over stay as they are."""
    some, events = chosen(request, given), []
    for job in some:
        if job.state == PENDING:
            events.append(Event("end", job.id, {"state": CANCELLED, "reason": "Cancelled"}))
        elif job.state in HOLDING and (job.state != ENDING or job.cause == PREEMPT):
            leaves = {"leaves": True} if job.waits or job.due is not None else {}
            events.append(Event("stop", job.id, {"cause": "cancel", **leaves}))
    changed = {event.job for event in events}
    return Done(_ids([job for job in some if job.id in changed], some), events)


def edit(request: Facts, given: Context) -> Done:
    """Give pending jobs another walltime, priority or name."""
    asked = _dict(request, "to")
    to: Facts = {}
    if "walltime" in asked:
        to["walltime"] = _span(asked, "walltime", None)
    if "priority" in asked:
        to["priority"] = _whole(asked["priority"], "priority", -(2**31), 2**31)
    if not to or asked.keys() - to.keys():
        raise Refused("expected a new walltime or priority", field="to")
    some = chosen(request, given)
    for job in some:
        if job.state != PENDING:
            raise Refused(f"job {job.label} is {job.state}; only pending jobs can be changed", "state", "ids")
    return Done(_ids(some), [Event("edit", job.id, {"to": to}) for job in some])


def chosen(request: Facts, given: Context) -> list[Job]:
    """The jobs that a request is about: numbers, tasks as [array, index], names; each once."""
    found: dict[int, Job] = {}
    asked = request.get("ids")
    if not isinstance(asked, list) or not asked:
        raise Refused("no job; expected the ids of jobs", field="ids")
    for one in asked:
        for job in _meant(one, given):
            found[job.id] = job
    return list(found.values())


def _meant(one: Any, given: Context) -> list[Job]:
    if isinstance(one, int) and not isinstance(one, bool):
        job = given.find(one)
        if job is None:
            raise Refused(f"there is no job {one}", "unknown", "ids")
        return given.tasks(job.id) if job.array == job.id else [job]
    if isinstance(one, list) and len(one) == 2:
        some = [job for job in given.tasks(one[0]) if job.index == one[1]]
        if not some:
            raise Refused(f"there is no job {one[0]}_{one[1]}", "unknown", "ids")
        return some
    if isinstance(one, dict) and "name" in one:
        named = [job for job in given.book.jobs.values() if job.name == one["name"]]
        if not named:
            raise Refused(f"no job with the name {one['name']!r:.60} is open", "unknown", "ids")
        return named
    if one == "all":
        return list(given.book.jobs.values())
    raise Refused("a job is named by its number, or by array and index", field="ids")


def _ids(changed: list[Job], chosen: Iterable[Job] = ()) -> Facts:
    """The jobs that a request changes, and those of the chosen ones that it leaves as they are, by what they are."""
    some, others = {job.id for job in changed}, dict[str, list[Job]]()
    for job in chosen:
        if job.id not in some:
            free = "not held" if not job.held else "held already"
            others.setdefault(free if job.state == PENDING else job.state, []).append(job)
    unchanged = {state: _labels(jobs) for state, jobs in others.items()}
    return {"ids": [job.id for job in changed], "labels": _labels(changed), "unchanged": unchanged}


def _labels(jobs: Iterable[Job]) -> list[str]:
    return folded_labels((job.id, job.array, job.index) for job in jobs)


def _indexes(asked: Facts) -> list[int | None]:
    if "array" not in asked:
        return [None]
    some = asked["array"]
    if not isinstance(some, list) or not 1 <= len(some) <= TASKS_MAX:
        raise Refused(f"an array has from 1 to {TASKS_MAX:,} tasks", field="array")
    indexes = [_whole(index, "array", 0, 2**31) for index in some]
    if len(set(indexes)) < len(indexes):
        raise Refused("two tasks of the array have the same index", field="array")
    return [*indexes]


def _dependencies(asked: Facts, given: Context) -> tuple[list[tuple[str, Job]], bool]:
    """What a job waits for, as (kind, job) for each task of what was named; and whether one of them is enough."""
    found: list[tuple[str, Job]] = []
    any_of = bool(asked.get("any_of", False))
    for entry in asked.get("after", []):
        if not (isinstance(entry, list) and len(entry) == 2 and entry[0] in AFTER):
            raise Refused(f"a dependency is one of {', '.join(AFTER)} and a job", field="dependency")
        some = _meant(entry[1], given)
        whole = entry[0] == "afternotok" and len(some) > 1 and not any_of
        found += [(ONE_FAILED if whole else entry[0], job) for job in some]
    return found, any_of


def _own_part(after: list[tuple[str, Job]], index: int | None, any_of: bool) -> tuple[list[list[Any]], bool]:
    """The dependencies of one task that are still open, and whether they can never be met."""
    open_ones, met, failed = [], 0, 0
    arrays: dict[int, list[Job]] = {}  # those in which a failure is waited for
    matched = {on.array for kind, on in after if kind == "aftercorr" and on.index == index is not None}
    for kind, on in after:
        if kind == ONE_FAILED:
            arrays.setdefault(on.array, []).append(on)
            continue
        if kind == "aftercorr":
            if on.array in matched and on.index is not None and on.index != index:
                continue
            kind = "afterok"  # without a task of that index all of them, as in Slurm
        if on.state in OVER:
            good = {"afterok": on.state == COMPLETED, "afternotok": on.state != COMPLETED}.get(kind, True)
            met, failed = met + good, failed + (not good)
        elif kind == "after" and on.state in HOLDING:
            met += 1
        elif [kind, on.id] not in open_ones:
            open_ones.append([kind, on.id])
    for tasks in arrays.values():
        bad = any(on.state in OVER and on.state != COMPLETED for on in tasks)
        rest = [["afterany" if bad else ONE_FAILED, on.id] for on in tasks if on.state not in OVER]
        open_ones += [pair for pair in rest if pair not in open_ones]
        failed += not bad and not rest
    if any_of:
        return ([], False) if met else (open_ones, bool(failed) and not open_ones)
    return open_ones, failed > 0


def hopeless(job: Job, wall: int) -> Event | None:
    """The end of a pending job that can never start any more. wall: now, by the calendar."""
    if job.never:
        return Event("end", job.id, {"state": CANCELLED, "reason": "DependencyNeverSatisfied"})
    if job.deadline is not None and wall + job.walltime > job.deadline:
        return Event("end", job.id, {"state": DEADLINE, "reason": "DeadLine"})
    return None


def _check_spec(spec: Facts) -> None:
    argv, environment = spec.get("argv"), spec.get("env", {})
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) and "\0" not in word for word in argv)):
        raise Refused("argv: expected a command, as a list of words", field="argv")
    if not isinstance(environment, dict) or _size(environment) > ENVIRONMENT_MAX:
        raise Refused(f"the environment is larger than {ENVIRONMENT_MAX >> 10} KiB; see --export", field="env")


def _size(environment: Facts) -> int:
    return sum(map(len, environment)) + sum(map(len, map(str, environment.values())))


def _dict(request: Facts, name: str) -> Facts:
    found = request.get(name)
    if not isinstance(found, dict):
        raise Refused(f"{name} is missing; expected an object", field=name)
    return found


def _text(request: Facts, name: str) -> str:
    found = request.get(name)
    if not isinstance(found, str) or not 1 <= len(found) <= NAME_MAX:
        raise Refused(f"{name}: expected a text of 1 to {NAME_MAX} characters", field=name)
    return found


def _name(text: Any, name: str) -> str:
    if not isinstance(text, str) or len(text) > NAME_MAX or not text.isprintable():
        raise Refused(f"{name}: expected at most {NAME_MAX} printable characters", field=name)
    return text


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Refused(f"{name} is {value!r:.60}; expected a whole number from {low} to {high}", field=name)
    return value


def _span(asked: Facts, name: str, default: int | None) -> int | None:
    value = asked.get(name)
    return default if value is None else _whole(value, name, 1 if name == "walltime" else 0, SPAN_MAX)


def _instant(asked: Facts, name: str) -> int | None:
    value = asked.get(name)
    return None if value is None else _whole(value, name, 0, 2**62)


def _amount(name: str, value: int) -> str:
    return f"{value / 2**30:.4g} GiB of memory" if name == "memory" else f"{value} {name}"


VERBS: dict[str, Callable[[Facts, Context], Done]] = {
    "submit": submit,
    "hold": hold,
    "release": release,
    "cancel": cancel,
    "edit": edit,
}
