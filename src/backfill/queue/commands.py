"""Commands: requests of clients, turned into events. This module uses no disk, clock or process.

A request about many jobs is processed in slices: each slice is written before the next one is computed, so that the
daemon can answer others in between. Each slice sees the state at its time. A large array is in the log as a whole
before its first task is, so it is queued as a whole, whatever happens between two slices.
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, cast

from backfill.model.units import amount_text, folded_labels
from backfill.queue import events, feed, reserving
from backfill.queue.book import ONE_FAILED, Book, each_job
from backfill.queue.events import End, Event, JobEvent, Stop
from backfill.queue.job import PREEMPT, REQUEUE, USUAL, Job, Task
from backfill.queue.schema import Refused, dated
from backfill.queue.shapes import (
    Change,
    Defaults,
    EditRequest,
    JobsRequest,
    JsonObject,
    NewJob,
    PlannerFacts,
    ProjectJob,
    ReserveRequest,
    Row,
    ShowRequest,
    SignalRequest,
    Spec,
    SubmitProjectRequest,
    SubmitRequest,
    UnreserveRequest,
)
from backfill.queue.states import CANCELLED, COMPLETED, DEADLINE, ENDING, HOLDING, OVER, PENDING, RUNNING
from backfill.queue.words import WHOLE

if TYPE_CHECKING:  # a queue of one node needs no numpy
    from backfill.model.platform import Platform

QUEUED_MAX = 100_000
DEPENDENCIES_MAX = 100_000  # of all tasks of an array together
SLICE = 100  # jobs that are changed at once
LOWERED = "JobHeldUser"
PER_PART = ("cpus", "memory", "gpus")  # of a need, what each part of a job has; the rest is for the whole job
INSTANTS: tuple[Literal["begin", "deadline"], ...] = ("begin", "deadline")  # of an edit; 0 for none any more
# What a policy knows of a job since the submit, and learns by another one.
ENTERED = {
    *("need", "deadline", "constraint", "partition", "qos", "reservation", "tasks", "spread", "exclusive", "outside"),
}
CHANGED: tuple[Literal["walltime", "constraint", "partition", "qos", "reservation"], ...] = (
    "walltime",
    "constraint",
    "partition",
    "qos",
    "reservation",
)  # that may be edited, beside the need
# What decides whether the reservation of a job admits it.
ADMITTED = ("reservation", "user", "group", "project", "walltime", "grace", "need", "tasks", "spread", "constraint")
PLACED = (
    "tasks",
    "spread",
    "site",
    "constraint",
    "partition",
    "qos",
    "exclusive",
)  # facts that only several nodes have


class Busy(Exception):
    """An array of the request is still being entered: repeat the request when that is done."""


@dataclass
class Done:
    """The last slice of a request, and the answer, which is sent when everything is on disk."""

    answer: dict[str, object]
    events: list[Event] = field(default_factory=list)


Slices = Generator[list[Event], None, Done]


@dataclass
class Context:
    """The state and functions that commands may use.

    find: returns a job, over or not; over: returns the tasks of an array that are over; keep: returns the number of a
    spec; most: the largest capacity of a resource, if it exceeds the present one; slice: see SLICE; platform: the nodes
    of the queue, if it decides on several; does: what its pool can do to running jobs.
    """

    book: Book
    now: int
    find: Callable[[int], Job | None]
    over: Callable[[int], list[Task]]
    by_token: Callable[[str], Job | None]
    keep: Callable[[Spec], int]
    defaults: Defaults
    most: Mapping[str, int]
    slice: int = SLICE
    platform: "Platform | None" = None  # None: a machine of one node
    does: frozenset[str] = frozenset({"signal", "suspend"})  # see pools.base.Pool
    arrays: dict[int, "Array"] = field(default_factory=dict)  # arrays that were read
    current: set[int] = field(default_factory=set)  # arrays that were read in this slice
    has_project: Callable[[str], bool] = lambda name: False  # whether a job on disk has this project
    ready: bool = True  # a planner is available
    native: Callable[[str], list[Job]] | None = None  # returns the jobs with a name in the watched batch system

    def array(self, number: int) -> "Array":
        """Return the array whose first task has this number. Raises Busy if it is still being entered."""
        if number in self.book.unfinished:
            raise Busy
        if number not in self.arrays:
            self.arrays[number] = Array(number, self.book, self.over(number))
        elif number not in self.current:
            self.arrays[number].look_again()
        self.current.add(number)
        return self.arrays[number]

    def begin_slice(self) -> None:
        """Begin a slice: what was read before may have changed."""
        self.current.clear()


class Array:
    """The tasks of an array, open and over."""

    def __init__(self, number: int, book: Book, over: list[Task]) -> None:
        self.id, self._book = number, book
        self._over = {task.id: task for task in over}
        self.open = [book.jobs[task] for task in sorted(book.tasks.get(number, ()))]
        self.begun = number not in book.unbegun
        self.good = all(task.state == COMPLETED for task in over)
        self._by_index: dict[int | None, int] = {}

    def look_again(self) -> None:
        """Update its tasks."""
        jobs = self._book.jobs
        gone = [Task(job.id, self.id, job.index or 0, job.state) for job in self.open if job.id not in jobs]
        self._over |= {task.id: task for task in gone}
        self.open = [jobs[job.id] for job in self.open if job.id in jobs]
        self.begun = self.id not in self._book.unbegun
        self.good = self.good and all(task.state == COMPLETED for task in gone)

    @property
    def tasks(self) -> list[Job | Task]:
        """All tasks, in their order."""
        return sorted([*self._over.values(), *self.open], key=lambda task: task.id)

    def task(self, index: int | None) -> Job | Task | None:
        """Return the task with this index, if there is one."""
        if not self._by_index:
            self._by_index = {task.index: task.id for task in self.tasks}
        number = self._by_index.get(index, 0)
        return self._book.jobs.get(number) or self._over.get(number)


def submit(request: SubmitRequest, given: Context) -> Slices:
    """Queue a job, or an array of them."""
    token = request["token"]
    if any(one.row["token"] == token for one in given.book.unfinished.values()):
        raise Busy
    known = given.by_token(token)
    if known is not None:  # the earlier answer was lost
        return Done(submitted(known))
    asked, book = request["job"], given.book
    job, ignored = _new_job(asked, token, request, book.last_job + 1, given)
    indexes, after = asked.get("array", [None]), asked.get("after", [])
    if len(set(indexes)) < len(indexes):
        raise Refused("two tasks of the array have the same index", field="array")
    _check_room(len(indexes), given)
    if len(after) * len(indexes) > DEPENDENCIES_MAX:
        problem = (
            f"{len(indexes):,} tasks that wait for {len(after):,} jobs each; expected at most {DEPENDENCIES_MAX:,} "
        )
        raise Refused(f"{problem}dependencies in one array, or one on an array", "full", "dependency")
    _waited_for(after, given)
    if "array" in asked:
        job.array, job.throttle = job.id, asked.get("throttle", 0)
    large = len(indexes) > given.slice
    if large and book.unfinished:
        raise Busy
    job.spec = given.keep(request["spec"])
    whole = events.Array(job.brief(), indexes, after)
    if large:
        yield [whole]
    done = yield from entered(whole, 0, given)
    if ignored:
        done.answer["ignored"] = ignored
    return done


def _check_room(more: int, given: Context) -> None:
    queued = len(given.book.jobs) + sum(len(one.indexes) for one in given.book.unfinished.values())
    if queued + more > QUEUED_MAX:
        raise Refused(f"{queued:,} jobs are queued; expected at most {QUEUED_MAX:,}", "full")


def submit_project(request: SubmitProjectRequest, given: Context) -> Slices:
    """Queue all jobs of a project at once, or none. Dependencies are given as indices in the list of jobs."""
    yield from ()
    token, name, some = request["token"], request["project"], request["jobs"]
    known = given.by_token(token)
    if known is not None:  # the earlier answer was lost
        return Done({"project": known.project, "id": known.id, "count": len(some)})
    if name in given.book.projects or given.has_project(name):
        raise Refused(f"there is a project {name} already; expected another name", "state", "project")
    if given.book.unfinished:
        raise Busy
    _check_room(len(some), given)
    _check_order(some)
    first, ignored, jobs = given.book.last_job + 1, dict[str, None](), list[Job]()
    for place, one in enumerate(some):
        asked: NewJob = {**one["job"], "project": name}
        try:
            job, left_out = _new_job(asked, f"{token}/{place}" if place else token, request, first + place, given)
        except Refused as refused:
            problem = f"job {one['job']['name']}: {refused}"
            raise Refused(problem, refused.code, f"jobs.{place}.{refused.field}") from None
        ignored |= dict.fromkeys(left_out)
        job.after = [[kind, first + on] for kind, on in one["after"]]
        jobs.append(job)
    found: list[Event] = [events.ProjectQueued(name, request.get("user", ""), first, len(some))]
    for job, one in zip(jobs, some, strict=True):
        spec: Spec = {**request.get("spec", {}), **one["spec"]}
        job.spec = given.keep(spec)
        found.append(events.Submit(job.id, job.brief()))
    return Done({"project": name, "id": first, "count": len(some), "ignored": [*ignored]}, found)


def _check_order(some: Sequence[ProjectJob]) -> None:
    """Raise Refused if jobs of a project depend on jobs that are not in the list, or on each other in a cycle."""
    for place, one in enumerate(some):
        if any(on >= len(some) for _, on in one["after"]):
            raise Refused(f"after: expected indices below {len(some)}", field=f"jobs.{place}.after")
    try:
        TopologicalSorter({place: [on for _, on in one["after"]] for place, one in enumerate(some)}).prepare()
    except CycleError as error:
        places = error.args[1]
        names = " before ".join(some[place]["job"]["name"] for place in places)
        raise Refused(f"jobs come after each other: {names}", "impossible", f"jobs.{places[-1]}.after") from None


def _new_job(
    asked: NewJob, token: str, request: SubmitRequest | SubmitProjectRequest, number: int, given: Context
) -> tuple[Job, list[str]]:
    """Return a requested job, or the first of an array, and the names of what the queue ignores. Raises Refused."""
    book = given.book
    asked = dated(asked, given.now + book.skew)
    placed, ignored = _placed(asked, request, given)
    walltime = asked.get("walltime")
    if given.platform is not None:
        from backfill.worlds.possible import check, default_walltime

        walltime = walltime or default_walltime(placed, given.platform)
    walltime = walltime or given.defaults.get("walltime")
    if walltime is None:
        raise Refused("no walltime; expected --time, or default_time in config.toml", field="walltime")
    job = Job(
        id=number,
        token=token,
        name=asked.get("name") or "job",
        priority=asked.get("priority", 0),
        walltime=walltime,
        grace=asked.get("grace", given.defaults.get("grace", 30_000_000)),
        begin=asked.get("begin"),
        deadline=asked.get("deadline"),
        requeue=asked.get("requeue", False),
        retry=asked.get("retry", 0),
        notify=asked.get("notify", ""),
        singleton=asked.get("singleton", False),
        any_of=asked.get("any_of", False),
        held=LOWERED if asked.get("held") else "",
        **placed,
    )
    if given.platform is not None:
        check(job, given.platform)
    if job.reservation:
        reserving.admit(job, book, given.now, given.platform)
    if job.deadline is not None and max(given.now + book.skew, job.begin or 0) + walltime > job.deadline:
        raise Refused("the walltime ends after the deadline, even if the job starts at once", "impossible", "deadline")
    return job, ignored


def _placed(asked: NewJob, request: SubmitRequest | SubmitProjectRequest, given: Context) -> tuple[Row, list[str]]:
    """Return the facts of a new job that restrict its placement, and the names of those that this queue ignores."""
    need = {"cpus": 1, **asked["need"]}
    if need["cpus"] < 1:
        raise Refused("cpus is 0; expected 1 or more", field="cpus")
    found: Row = {"user": request.get("user", "")}
    unknown = _unknown(given)
    found |= {name: value for name, value in asked.items() if name in ("project", "ntasks")}
    found |= {name: value for name, value in asked.items() if name == "reservation" and name not in unknown}
    if given.platform is None:
        found |= {"group": request.get("group", "")} if given.book.reserved else {}
        found["need"] = _on_one_machine(asked, need)
        check_need(found["need"], given)
        if "ntasks" not in found and asked.get("tasks", 1) > 1:
            found["ntasks"] = asked["tasks"]
        return found, [name for name in ("site", *unknown) if asked.get(name)]
    found |= {name: value for name, value in asked.items() if name in PLACED and name not in unknown}
    found |= {"need": need, "group": request.get("group", "")}
    if gpu_type := asked.get("gpu_type"):
        found |= {"constraint": _typed(found.get("constraint", ""), gpu_type), "gpu_type": gpu_type}
    return found, [name for name in unknown if asked.get(name)]


def _typed(constraint: str, gpu_type: str) -> str:
    """Return the constraint of a job that requests gpus of a type."""
    from backfill.model.constraint import with_feature

    try:
        return with_feature(constraint, gpu_type)
    except ValueError as error:
        raise Refused(f"constraint {error}", field="constraint") from None


def _unknown(given: Context) -> list[str]:
    """Return which of partitions, qualities of service and reservations this queue does not have at all.

    It ignores them in requests.
    """
    platform = given.platform
    there: dict[str, object] = {} if platform is None else {"partition": platform.partitions, "qos": platform.qos}
    there["reservation"] = given.book.reserved
    return [name for name in ("partition", "qos", "reservation") if not there.get(name)]


def _on_one_machine(asked: NewJob, need: dict[str, int]) -> dict[str, int]:
    """Return the need of a whole job on a machine of one node. Raises Refused if it requires several nodes."""
    parts = asked.get("tasks", 1)
    if asked.get("spread") == "distinct" and parts > 1:
        raise Refused(f"the queue has one machine, the job asks for {parts:,} nodes; expected 1", field="nodes")
    if asked.get("constraint"):
        raise Refused("the machine has no features to choose from; expected no --constraint", field="constraint")
    if asked.get("exclusive"):
        problem = "--exclusive: jobs share the machine; expected --cpus-per-task with all of its cpus"
        raise Refused(problem, "impossible", "exclusive")
    return {name: amount * (parts if name in PER_PART else 1) for name, amount in need.items()}


def entered(whole: events.Array, done: int, given: Context) -> Slices:
    """Enter the tasks of an array, or a single job, after the first `done` ones."""
    job, some = Job.read(whole.row), whole.indexes[done:]
    waited_for = _waited_for(whole.after, given)
    submits: list[Event] = []
    for place, index in enumerate(some, done):
        if place > done and (place - done) % given.slice == 0:
            yield submits
            submits = []
            given.begin_slice()
            waited_for = _waited_for(whole.after, given)  # as of now
        task = {**whole.row, "id": job.id + place}
        if index is not None:
            task["index"], task["token"] = index, job.token if place == 0 else f"{job.token}/{place}"
        if waited_for:
            task["after"], task["never"] = _own_part(waited_for, index, job.any_of)
        submits.append(events.Submit(task["id"], task))
    return Done(submitted(job), submits)


def check_need(need: Mapping[str, int], given: Context) -> None:
    """Raise Refused for a job that the machine can never run."""
    for name, amount in need.items():
        there = max(given.book.capacity.get(name, 0), given.most.get(name, 0))
        if amount > there:
            where = "cluster" if given.platform is not None else "machine"
            problem = f"the job asks for {amount_text(name, amount)}; the {where} has {amount_text(name, there)}"
            raise Refused(problem, "impossible", name)


def submitted(job: Job) -> dict[str, object]:
    """Return the answer for a job that was queued."""
    facts = {"id": job.array or job.id, "walltime": job.walltime, "need": job.need, "name": job.name, **unusual(job)}
    return {**facts, "held": bool(job.held), "array": bool(job.array)}


def unusual(job: Job) -> dict[str, object]:
    """Return the non-default facts that restrict the placement of a job, as clients see them.

    Its tasks are called parts: `ntasks` are those that its submitter requested, and `tasks` are the jobs of an array.
    """
    names = {name: name for name in ("ntasks", *PLACED, "reservation")} | {"tasks": "parts"}
    return {shown: value for name, shown in names.items() if (value := getattr(job, name)) != USUAL[name]}


def hold(request: JobsRequest, given: Context) -> Slices:
    """Keep pending jobs from starting until they are released."""

    def held(job: Job) -> JobEvent | None:
        return events.Hold(job.id, LOWERED) if job.state == PENDING and not job.held else None

    return (yield from _each(_pending(request, given, "held"), held, given))


def release(request: JobsRequest, given: Context) -> Slices:
    """Release held jobs."""

    def released(job: Job) -> JobEvent | None:
        return events.Release(job.id) if job.state == PENDING and job.held else None

    return (yield from _each(_pending(request, given, "released"), released, given))


def _pending(request: JobsRequest, given: Context, verb: str) -> list[Job | Task]:
    some = chosen(request, given)
    if not any(job.state == PENDING for job in some):
        raise Refused(f"only pending jobs can be {verb}", "state", "ids")
    return some


def cancel(request: JobsRequest, given: Context) -> Slices:
    """Cancel jobs: pending ones at once, others when their processes have ended. Jobs that are over are not changed."""

    def cancelled(job: Job) -> JobEvent | None:
        if job.state == PENDING:
            return End(job.id, CANCELLED, "Cancelled")
        if job.attempt is not None and (job.state != ENDING or job.attempt.cause in (PREEMPT, REQUEUE)):
            return Stop(job.id, "cancel", leaves=job.waits or job.due is not None)
        return None

    return (yield from _each(chosen(request, given), cancelled, given))


def requeue(request: JobsRequest, given: Context) -> Slices:
    """End running jobs and queue them again."""

    def ended(job: Job) -> JobEvent | None:
        going = job.state in HOLDING and job.state != ENDING
        return Stop(job.id, REQUEUE) if going else None

    return (yield from _each(_running(request, given, "requeued"), ended, given))


def suspend(request: JobsRequest, given: Context) -> Slices:
    """Suspend running jobs; they keep their resources, and their limits stay the same."""

    _refuse_if_it_cannot("suspend", given)

    def stood(job: Job) -> JobEvent | None:
        return events.Suspend(job.id) if job.state == RUNNING and not job.current.suspended else None

    return (yield from _each(_running(request, given, "suspended"), stood, given))


def resume(request: JobsRequest, given: Context) -> Slices:
    """Resume suspended jobs."""

    def went(job: Job) -> JobEvent | None:
        return events.Resume(job.id) if job.state == RUNNING and job.current.suspended else None

    return (yield from _each(_running(request, given, "resumed"), went, given))


def signal(request: SignalRequest, given: Context) -> Slices:
    """Send a signal to the processes of running jobs; it does not count as a request to end them."""

    _refuse_if_it_cannot("signal", given)

    def sent(job: Job) -> JobEvent | None:
        going = job.state in (RUNNING, ENDING) and job.current.spawned is not None
        return events.Signal(job.id, request["signal"]) if going else None

    return (yield from _each(_running(request, given, "sent a signal"), sent, given))


def _refuse_if_it_cannot(what: str, given: Context) -> None:
    if what not in given.does:
        raise Refused(f"the pool of this queue cannot {what} jobs", field="ids")


def _running(request: JobsRequest, given: Context, verb: str) -> list[Job | Task]:
    some = chosen(request, given)
    if not any(job.state in HOLDING for job in some):
        raise Refused(f"only running jobs can be {verb}", "state", "ids")
    return some


def pause(request: JsonObject, given: Context) -> Slices:
    """Stop starting jobs until `unpause`; running jobs continue."""
    yield from ()
    return Done({"changed": not given.book.paused}, [] if given.book.paused else [events.Pause()])


def unpause(request: JsonObject, given: Context) -> Slices:
    """Start jobs again."""
    yield from ()
    return Done({"changed": given.book.paused}, [events.Unpause()] if given.book.paused else [])


def reserve(request: ReserveRequest, given: Context) -> Slices:
    """Create an advance reservation."""
    yield from ()
    _refuse_unready(given)
    if given.book.epoch.get("predict"):
        why = "the policy plans by predicted run times, and a run that is longer would be ended by a reservation"
        raise Refused(f"{why}; expected a queue without predict in its config.toml", "state", "reservation")
    known = given.book.reservations.get(request["reservation"])
    again = known is not None and known.token == request["token"]  # the earlier answer was lost
    made = known if known and again else reserving.made(request, given.book, given.now, given.platform)
    answer = {"reservation": reserving.row(made), "now_s": (given.now + given.book.skew) / 1e6}
    return Done(answer, [] if again else [made])


def unreserve(request: UnreserveRequest, given: Context) -> Slices:
    """End an advance reservation early, and the jobs that run in it; jobs that wait for it can never run."""
    yield from ()
    _refuse_unready(given)
    name = request["reservation"]
    over = reserving.cancelled(name, request.get("force", False), given.book, given.now)
    answer: dict[str, object] = {"reservation": name, "changed": over is not None}
    return Done(answer, [] if over is None else [*reserving.stops(given.book, name), over])


def _refuse_unready(given: Context) -> None:
    if not given.ready:
        raise Refused("the policy is being started; ask again", "starting")


def edit(request: EditRequest, given: Context) -> Slices:
    """Give pending jobs another walltime, priority, name, need, begin, deadline, dependency or reservation."""
    to = dated(request["to"], given.now + given.book.skew)
    if not to:
        raise Refused("expected something to change, --time for instance", field="to")
    some = chosen(request, given)
    for one in some:
        if one.state != PENDING:
            raise Refused(f"job {one.label} is {one.state}; only pending jobs can be changed", "state", "ids")
    for name in (*_unknown(given), *([] if given.platform else ["constraint"])):
        if name in to:
            raise Refused(f"the queue has no {name}; expected no --{name}", field=name)
    admitted = set[str]()
    for one in some:
        job = given.book.jobs[one.id]
        _check_edited(job, to, given, admitted)
        deadline = to.get("deadline", job.deadline)
        begin, walltime = to.get("begin", job.begin) or 0, to.get("walltime", job.walltime)
        if deadline and max(given.now + given.book.skew, begin) + walltime > deadline:
            raise Refused(f"the walltime of job {job.label} ends after the deadline", "impossible", "deadline")
    if "after" in to and len(to["after"]) * len(some) > DEPENDENCIES_MAX:
        problem = f"{len(some):,} jobs that wait for {len(to['after']):,} jobs each"
        raise Refused(f"{problem}; expected at most {DEPENDENCIES_MAX:,} dependencies", "full", "dependency")

    if to.keys() & {"after", "name", "singleton"}:
        _refuse_circle(some, to, given)

    def edited(job: Job) -> JobEvent | None:
        if job.state != PENDING or (job.due is not None and to.keys() - {"walltime", "priority"}):
            return None
        if not to.keys() - {"walltime", "priority"}:
            return edit_event(job, to)
        new = _retyped(job, to, given)
        for name in INSTANTS:
            if name in new:
                new[name] = new[name] or None
        if "need" in to:
            new["need"] = {**job.need, **to["need"]}
        if "after" in to:
            any_of = to.get("any_of", False)
            left, never = _own_part(_waited_for(to["after"], given), job.index, any_of)
            new |= {"after": left, "never": never, "any_of": any_of, "singleton": to.get("singleton", False)}
        return edit_event(job, new)

    return (yield from _each(some, edited, given))


def edit_event(job: Job, new: Change) -> events.Edit:
    """Return the event that sets these values of a job."""
    if not new.keys() - {"walltime", "priority"}:
        return events.Edit(job.id, new)
    if new.keys() & ENTERED:
        return events.Edit(job.id, new, job.waits, _facts_changed(job, new))
    if not (new.keys() & {"begin", "after", "name"}):
        return events.Edit(job.id, new, leaves=False)
    return events.Edit(
        job.id, new, job.waits, _facts_changed(job, new) if new.keys() & {"walltime", "priority"} else None
    )


def _facts_changed(job: Job, new: Change) -> PlannerFacts:
    """Return what a planner is told of a changed job. A job whose needs changed is submitted to it again."""
    kept = {} if new.keys() & {"need", "constraint", "partition", "qos", "reservation"} else feed.progress(job)
    return cast(PlannerFacts, {**feed.planner_facts({**job.facts(), **new}), "submit": job.submit, **kept})


def check_tried(job: Job, to: Change, given: Context) -> None:
    """Refuse to try a walltime or amounts with which a job could never run."""
    _check_edited(job, to, given, set())


def _retyped(job: Job, to: Change, given: Context) -> Change:
    """Return the change with its effect on the job's constraint, which includes the type of its gpus."""
    if given.platform is None:
        return cast(Change, {name: value for name, value in to.items() if name != "gpu_type"})
    gpu_type = to.get("gpu_type", "") or job.gpu_type
    if not gpu_type or not to.keys() & {"constraint", "gpu_type"}:
        return to.copy()
    from backfill.model.constraint import without_feature

    constraint = to["constraint"] if "constraint" in to else without_feature(job.constraint, job.gpu_type)
    return {**to, "constraint": _typed(constraint, gpu_type), "gpu_type": gpu_type}


def _check_edited(job: Job, to: Change, given: Context, admitted: set[str]) -> None:
    """Refuse a change after which a job could never run. admitted: the like of jobs that their reservations admit."""
    need = {**job.need, **to.get("need", {})}
    if need["cpus"] < 1:
        raise Refused("cpus is 0; expected 1 or more", field="cpus")
    own = _retyped(job, to, given)
    changed: dict[str, Any] = {name: own[name] for name in CHANGED if name in own}
    new = replace(job, **changed, need=need)
    if given.platform is None:
        check_need(need, given)
    else:
        from backfill.worlds.possible import check

        check(new, given.platform)
    if new.reservation and to.keys() & {"reservation", "walltime", "need", "constraint"}:
        alike = repr([getattr(new, name) for name in ADMITTED])
        if alike not in admitted:
            reserving.admit(new, given.book, given.now, given.platform)
            admitted.add(alike)


def _refuse_circle(some: Sequence[Job | Task], to: Change, given: Context) -> None:
    """Raise Refused for jobs that would wait for each other, by dependencies or as singletons."""
    book, own = given.book, {job.id for job in some}
    waited_for = _waited_for(to["after"], given) if "after" in to else None
    mates: dict[tuple[str, str], list[int]] = {}

    def called(job: Job) -> tuple[str, str]:
        return job.user, to.get("name", job.name) if job.id in own else job.name

    for job in book.jobs.values():
        mates.setdefault(called(job), []).append(job.id)

    def needs(node: Any) -> Iterator[Any]:
        """Yield what a job waits for; a tuple (mates, n) stands for the first n jobs of a user and name."""
        if isinstance(node, tuple):
            who, place = node
            yield mates[who][place - 1]
            yield from [(who, place - 1)] if place > 1 else []
            return
        job = book.jobs[node]
        if node in own and waited_for is not None:
            singleton = to.get("singleton", False)
            for _, on in waited_for:
                yield from [task.id for task in on.open] if isinstance(on, Array) else [on.id]
        else:
            singleton = job.singleton
            yield from (on for _, on in each_job(job.after, {on: [*book.tasks.get(on, ())] for _, on in job.after}))
        place = bisect_left(mates[called(job)], node)
        if singleton and place:
            yield called(job), place

    for ids in mates.values():
        ids.sort()
    known: dict[Any, bool] = {}  # whether all dependencies of a node have been visited
    for first in own:
        path = [(first, needs(first))] if first not in known else []
        known.setdefault(first, False)
        while path:
            node, left = path[-1]
            on = next(left, None)
            if on is None:
                known[node] = True
                path.pop()
            elif known.get(on) is False:
                raise Refused(f"job {book.jobs[first].label} would wait for itself", "impossible", "dependency")
            elif on not in known and (isinstance(on, tuple) or on in book.jobs):
                known[on] = False
                path.append((on, needs(on)))


def _each(some: Sequence[Job | Task], change: Callable[[Job], JobEvent | None], given: Context) -> Slices:
    """Change jobs in slices, and report which were changed and which were not."""
    changed: list[Job | Task] = []
    events: list[Event] = []
    for first in range(0, len(some), given.slice):
        if first:
            yield events
            given.begin_slice()
        events = []
        for one in some[first : first + given.slice]:
            job = given.book.jobs.get(one.id)
            event = None if job is None else change(job)
            if event is not None:
                events.append(event)
                changed.append(one)
    many = len(some) > given.slice
    if many:  # the rest takes time, too
        yield events
        events = []
    ids = {job.id for job in changed}
    others: dict[str, list[Job | Task]] = {}
    for one in some:
        if one.id not in ids:
            job = given.book.jobs.get(one.id)
            free = "held already" if job is not None and job.held else "not held"
            state = one.state if job is None else job.state
            others.setdefault(free if state == PENDING else state, []).append(one)
    if many:
        yield []
    labels = _labels(changed)
    if many:
        yield []
    unchanged = {state: _labels(jobs) for state, jobs in others.items()}
    return Done({"ids": [*ids], "labels": labels, "unchanged": unchanged}, events)


def chosen(request: JobsRequest | ShowRequest, given: Context) -> list[Job | Task]:
    """Return the jobs of a request, each once; for arrays including the tasks that are over."""
    found: dict[int, Job | Task] = {}
    for one in request["ids"]:
        for job in _meant(one, given):
            found[job.id] = job
    return list(found.values())


def _meant(one: Any, given: Context) -> Iterable[Job | Task]:
    if given.native is not None and isinstance(one, int | list):
        names = [str(one)] if isinstance(one, int) else [f"{one[0]}{apart}{one[1]}" for apart in "_."]
        found = next((some for name in names if (some := given.native(name))), None)
        if found is None:
            raise Refused(f"there is no job {names[0]}", "unknown", "ids")
        return found
    if isinstance(one, int):
        job = given.find(one)
        if job is None:
            if one in given.book.unfinished:
                raise Busy
            raise Refused(f"there is no job {one}", "unknown", "ids")
        return given.array(one).tasks if job.array == one else [job]
    if isinstance(one, list):
        task = given.array(one[0]).task(one[1])
        if task is None:
            raise Refused(f"there is no job {one[0]}_{one[1]}", "unknown", "ids")
        return [task]
    if given.book.unfinished:
        raise Busy
    if one == "all":
        return list(given.book.jobs.values())
    if "project" in one:
        own = [job for job in given.book.jobs.values() if job.project == one["project"]]
        if not own:
            raise Refused(f"no job of project {one['project']!r:.60} is open", "unknown", "ids")
        return own
    named = [job for job in given.book.jobs.values() if job.name == one["name"]]
    if not named:
        raise Refused(f"no job with the name {one['name']!r:.60} is open", "unknown", "ids")
    return named


def _labels(jobs: Iterable[Job | Task]) -> list[str]:
    return folded_labels((job.id, job.array, job.index) for job in jobs)


def _waited_for(after: Sequence[Any], given: Context) -> list[tuple[str, Job | Task | Array]]:
    """Return the dependencies of a job: a kind, and a job or an array."""
    found: list[tuple[str, Job | Task | Array]] = []
    for kind, one in after:
        if isinstance(one, list):
            (task,) = _meant(one, given)
            found.append((kind, task))
            continue
        job = given.find(one)
        if job is None:
            tuple(_meant(one, given))  # raises Refused
        elif job.array == one:
            found.append((kind, given.array(one)))
        else:
            found.append((kind, job))
    return found


def _own_part(
    waited_for: list[tuple[str, Job | Task | Array]], index: int | None, any_of: bool
) -> tuple[list[list[Any]], bool]:
    """Return the dependencies of one task that are still open, and whether they can never be satisfied."""
    open_ones: dict[tuple[str, int], None] = {}  # in their order
    met = failed = 0
    for kind, on in waited_for:
        if kind == "aftercorr":  # the task with the same index; without one all tasks, as in Slurm
            kind, on = "afterok", (on.task(index) or on) if isinstance(on, Array) else on
        state, waits = _of_array(kind, on) if isinstance(on, Array) else _of_job(kind, on)
        if state is None:
            open_ones[waits, on.id] = None
        else:
            met, failed = met + state, failed + (not state)
    left = [list(pair) for pair in open_ones]
    if any_of:
        return ([], False) if met else (left, bool(failed) and not left)
    return left, failed > 0


def _of_job(kind: str, on: Job | Task) -> tuple[bool | None, str]:
    """Return whether a dependency is satisfied, None if that is open, and the kind under which the job keeps it."""
    if on.state in OVER:
        return {"afterok": on.state == COMPLETED, "afternotok": on.state != COMPLETED}.get(kind, True), kind
    return True if kind == "after" and isinstance(on, Job) and on.attempts else None, kind


def _of_array(kind: str, on: Array) -> tuple[bool | None, str]:
    if kind == "after":
        return True if on.begun else None, kind + WHOLE
    if kind == "afterok" and not on.good:
        return False, kind
    if kind == "afternotok":
        return (None, ONE_FAILED if on.good else f"afterany{WHOLE}") if on.open else (not on.good, kind)
    return None if on.open else True, kind + WHOLE


def never(job: Job, book: Book, platform: "Platform | None") -> str:
    """Why a platform, or what it has of a reservation, can never run a job; empty if it can."""
    try:
        if platform is not None:
            from backfill.worlds.possible import check  # numpy is for those who have a platform

            check(job, platform)
        if job.reservation in book.reservations:
            reserving.check_room(job, book, platform)
    except Refused as refused:
        return str(refused)
    return ""


def hopeless(job: Job, wall: int, book: Book) -> End | None:
    """Return the end of a pending job that can never start any more. wall: now, by the calendar."""
    if job.reservation and job.reservation not in book.reservations:
        return End(job.id, CANCELLED, reserving.REASONS[reserving.OVER])
    if job.never:
        return End(job.id, CANCELLED, "DependencyNeverSatisfied")
    if job.misses(wall):
        return End(job.id, DEADLINE, "DeadLine")
    return None


VERBS: dict[str, Callable[[Any, Context], Slices]] = {
    "submit": submit,
    "submit_project": submit_project,
    "hold": hold,
    "release": release,
    "cancel": cancel,
    "edit": edit,
    "requeue": requeue,
    "suspend": suspend,
    "resume": resume,
    "signal": signal,
    "reserve": reserve,
    "unreserve": unreserve,
    "pause": pause,
    "unpause": unpause,
}
