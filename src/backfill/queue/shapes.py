"""Shapes of the JSON that enters and leaves the queue: checked requests, specs of jobs, answers of planners.

Times are microseconds, of the queue clock unless stated otherwise; memory is in bytes.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from backfill.queue.nodes import Amounts, Placement

JsonObject = Mapping[str, object]  # an answer, which is sent as JSON
Row = dict[str, Any]  # a job as JSON, see job.Job
After = list[list[Any]]  # dependencies: [kind, job or array]
Record = dict[str, Any]  # a pool's record of an attempt, in JSON


class PlannerFacts(TypedDict, total=False):
    """The facts of a job that a planner knows, without defaults."""

    need: Amounts
    walltime: int
    grace: int
    priority: int
    user: str
    group: str
    project: str
    deadline: int | None
    tasks: int
    spread: str
    site: str
    constraint: str
    partition: str
    qos: str
    exclusive: bool
    reservation: str
    submit: int
    why: str
    nodes: Placement
    done: int
    keeps: str
    stood: Placement


class Change(TypedDict, total=False):
    """The new values of an edited job."""

    walltime: int
    priority: int
    name: str
    need: Amounts
    begin: int | None
    deadline: int | None
    after: After
    any_of: bool
    singleton: bool
    never: bool
    constraint: str
    gpu_type: str
    partition: str
    qos: str
    tasks: int
    spread: str
    exclusive: bool
    reservation: str
    outside: bool
    native_submit: int


class Grant(TypedDict):
    """A granted advance reservation; nodes: the name of each, its amounts there, and whether it has the whole node."""

    reservation: str
    user: str
    group: str
    project: str
    begin: int
    until: int
    nodes: list[tuple[str, Amounts, bool]]


class Basis(TypedDict, total=False):
    """The state with which the planner of an epoch begins.

    platform: the text of its file; base: see feed.base; preempts: possible kinds of preemption, if not requeue alone;
    reservations: those that are not over.
    """

    policy: str
    asked: str
    program: str
    why: str
    configured: str
    resources: Amounts
    platform: str
    nodes: dict[str, Amounts]
    base: list[list[Any]]
    now: int
    advises: bool  # starts of the policy are only advice, and are withdrawn at once
    preempts: list[str]
    predict: str  # the predictions of run times that the policy plans by, if not by walltimes
    ended: list[list[Any]]  # ended jobs from which its predictor learns, see feed.ended
    mistrusts: str  # predictions not used, since they, or the policy before this one, failed
    reservations: list[Grant]


class SlurmSpec(TypedDict):
    """Options in an sbatch script; per_cpu: memory; array: its count, minimum, maximum and step."""

    tasks: int
    host: str
    dir: str
    per_cpu: NotRequired[int]
    array: NotRequired[list[int]]


class Spec(TypedDict, total=False):
    """The command of a job, and how to run it.

    warn: signal, microseconds before the limit, whether only to its shell.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    limits: dict[str, list[int]]
    nice: int
    affinity: list[int]
    input: str
    output: str
    error: str
    truncate: bool
    keep_descendants: bool
    warn: list[Any]
    script: str
    slurm: SlurmSpec
    runtime: int


class NewJob(TypedDict, total=False):
    """A requested job; after: kinds of dependencies with jobs as clients name them."""

    need: Amounts
    name: str
    project: str
    priority: int
    walltime: int
    grace: int
    begin: int
    deadline: int
    requeue: bool
    retry: int
    notify: str
    singleton: bool
    held: bool
    any_of: bool
    array: list[int]
    throttle: int
    after: list[list[Any]]
    tasks: int
    ntasks: int
    spread: str
    constraint: str
    gpu_type: str
    partition: str
    qos: str
    site: str
    exclusive: bool
    reservation: str


class ReserveRequest(TypedDict):
    """A checked `reserve`; span: from its begin to its end; count: of whole nodes that the queue chooses."""

    token: str
    reservation: str
    nodes: NotRequired[list[str]]
    count: NotRequired[int]
    amount: NotRequired[Amounts]
    begin: NotRequired[int]
    until: NotRequired[int]
    span: NotRequired[int]
    user: NotRequired[str]
    group: NotRequired[str]
    project: NotRequired[str]
    force: NotRequired[bool]


class UnreserveRequest(TypedDict):
    """A checked `unreserve` request."""

    reservation: str
    force: NotRequired[bool]


class SubmitRequest(TypedDict):
    """A checked `submit` or `test` request."""

    token: str
    job: NewJob
    spec: Spec
    user: NotRequired[str]
    group: NotRequired[str]


class ProjectJob(TypedDict):
    """A job of a project.

    after: kinds of dependencies with indices in the list of jobs; spec: without the common fields.
    """

    job: NewJob
    spec: Spec
    after: list[list[Any]]


class SubmitProjectRequest(TypedDict):
    """A checked `submit_project` or `test_project` request; spec: the common fields of the jobs' specs."""

    token: str
    project: str
    jobs: list[ProjectJob]
    spec: NotRequired[Spec]
    user: NotRequired[str]
    group: NotRequired[str]


class ProjectRequest(TypedDict):
    """A checked `project` request."""

    project: str


class EtaRequest(TypedDict, total=False):
    """A checked `eta` request: for the jobs of a project, or for all pending jobs."""

    project: str


class JobsRequest(TypedDict):
    """A checked request about jobs; for the ways to name one see schema.ONE."""

    ids: list[Any]


class SignalRequest(JobsRequest):
    """A checked `signal` request."""

    signal: int


class ExplainRequest(JobsRequest):
    """A checked `explain` request; to: a walltime and amounts to try for the job."""

    to: NotRequired[Change]


class EditRequest(JobsRequest):
    """A checked `edit` request."""

    to: Change


ShowRequest = TypedDict("ShowRequest", {"ids": list[Any], "from": int, "limit": int}, total=False)


class QueueRequest(TypedDict, total=False):
    """A checked `queue` request; after: the last job of the previous rows, limit: most rows, by_id: their order."""

    ended: int
    estimates: bool
    nodes: bool
    states: list[str]
    users: list[str]
    names: list[str]
    projects: list[str]
    fold: bool
    limit: int
    after: int
    by_id: bool


class PlanRequest(TypedDict, total=False):
    """A checked `plan` request; limit: largest number of rows."""

    users: list[str]
    names: list[str]
    projects: list[str]
    limit: int


class SlotsRequest(TypedDict, total=False):
    """A checked `slots` request."""

    need: Amounts
    gpu_type: str
    user: str
    group: str


class OutputRequest(JobsRequest):
    """A checked `output` request."""

    err: NotRequired[bool]


class PolicyRequest(TypedDict):
    """A checked `policy` or `switch` request."""

    policy: str


class Defaults(TypedDict, total=False):
    """Defaults for fields that a job does not state."""

    walltime: int
    grace: int


class ClockFacts(TypedDict, total=False):
    """The data that a later daemon needs to continue a clock."""

    boot: str
    anchor: int


class Over(TypedDict):
    """The end of a job; code: its exit code for `wait`."""

    id: int
    state: str
    code: int


class Failure(TypedDict):
    """The reason why a request was refused: error has a code, a message and a field."""

    error: dict[str, str]


class Estimate(TypedDict):
    """The estimated start of a job, in seconds: the latest one, the likely one, and the bound in nine of ten futures.

    why_not: why it is unknown. history: the group whose ended jobs give its run time, with ended_jobs jobs.
    fewest_ended_jobs: the smallest number of ended jobs that give the run time of a job that runs or starts before it;
    None if there is none. wide: whether so little is known of one of these run times that it is bounded by its
    walltime only. misses_deadline: whether a job that starts at the bound and runs for its walltime ends after
    its deadline, an instant of the calendar; None if it has none, or the bound is not known.
    """

    id: int
    label: str
    name: str
    user: str
    guaranteed_s: float | None
    median_s: float | None
    p90_s: float | None
    history: str
    ended_jobs: int
    fewest_ended_jobs: int | None
    wide: bool
    deadline_s: float | None
    misses_deadline: bool | None
    why_not: str


class Eta(TypedDict):
    """The estimates of pending jobs. widened, held: see answers.asked.Queue; cpu_s, age_s: of the estimation."""

    schema: int
    now_s: float
    policy: str
    binds: bool
    futures: int
    widened: float
    held: float
    arrivals: bool
    jobs: list[Estimate]
    cpu_s: NotRequired[float]
    age_s: NotRequired[float]


class ProjectDeparture(TypedDict):
    """The estimated departure of a project, in seconds: the likely one, and the bound in nine of ten futures.

    why_not: why it is unknown. departs: whether the policy promises departures. promised_s: the last end of the jobs
    that run or have a reserved start, if they use all of their walltimes; None if none is promised. left: number of
    other jobs.
    """

    departs: bool
    promised_s: float | None
    left: int
    median_s: float | None
    p90_s: float | None
    why_not: str


class ProjectEta(Eta):
    """The estimates of the pending jobs of a project, and of its departure."""

    departure: ProjectDeparture


class Question(TypedDict, total=False):
    """A query to a copy of the planner.

    what: the kind of the query; the other fields are set by the daemon, or come from the request.
    """

    what: str
    now: int
    skew: int
    folder: str
    id: int
    reason: str
    need: Amounts
    gpu_type: str
    grace: int
    user: str
    group: str
    tasks: list[Row]
    jobs: list[int]
    policy: str
    epoch: Basis
    to: Change


class Decisions(TypedDict):
    """The decisions of a planner in a pass.

    Each list holds rows that begin with a job; an `anew` plan replaces the old one. moved, if the policy promises
    departures: why starts of jobs have changed, and the job for which each made way (0 for none).
    """

    now: int
    starts: list[list[Any]]
    preempts: list[list[Any]]
    plan: list[list[Any]]
    wake: int | None
    anew: bool
    moved: NotRequired[list[list[Any]]]


class Begun(TypedDict):
    """The state of a planner that is ready.

    passes: its decisions in the replayed passes. binds: whether its plan is a promise. departs: whether its policy
    promises departures. Last, why it does not support reservations; empty if it does.
    """

    passes: list[list[list[Any]]]
    plan: list[list[Any]]
    wake: int | None
    anew: bool
    binds: bool
    departs: bool
