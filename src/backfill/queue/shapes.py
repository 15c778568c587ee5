"""The shapes of the JSON that enters and leaves the queue: checked requests, specs of jobs, answers of planners.

Times are microseconds, of the queue clock unless it is said otherwise; memory is in bytes.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from backfill.queue.nodes import Amounts, Placement

JsonObject = Mapping[str, object]  # an answer, which leaves as JSON
Row = dict[str, Any]  # a job as JSON, see job.Job
After = list[list[Any]]  # what a job waits for: [kind, job or array]
Record = dict[str, Any]  # what a pool knows of an attempt, in JSON


class Told(TypedDict, total=False):
    """What a planner knows of a job, without what is usual."""

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
    """An advance reservation that was granted; nodes: the name of each, what it has there, and whether that is all."""

    reservation: str
    user: str
    group: str
    project: str
    begin: int
    until: int
    nodes: list[tuple[str, Amounts, bool]]


class Basis(TypedDict, total=False):
    """What the planner of an epoch begins with; the platform is the text of its file, for `base` see feed.base; by what
    jobs can be preempted there, if not by requeue alone; reservations: those that are not over."""

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
    advises: bool  # what the policy starts is only advice, and is taken back at once
    preempts: list[str]
    predict: str  # by which predictions of run times the policy plans, if it does not by walltimes
    ended: list[list[Any]]  # what its predictor learns from jobs that are over, see feed.ended
    mistrusts: str  # by which it would, had they, or the policy before this one, not failed
    reservations: list[Grant]


class SlurmSpec(TypedDict):
    """What a script of sbatch states; per_cpu: memory; array: its count, minimum, maximum and step."""

    tasks: int
    host: str
    dir: str
    per_cpu: NotRequired[int]
    array: NotRequired[list[int]]


class Spec(TypedDict, total=False):
    """What a job runs, and how. warn: signal, microseconds before the limit, whether only to its shell."""

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
    """What a submit asks for; after: kinds of dependencies with jobs as clients name them."""

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
    """A checked `reserve`; ahead, until_ahead: from now to its begin and to its end, in place of `begin` and `until`;
    span: from its begin to its end; count: of whole nodes that the queue chooses."""

    token: str
    reservation: str
    nodes: NotRequired[list[str]]
    count: NotRequired[int]
    amount: NotRequired[Amounts]
    begin: NotRequired[int]
    ahead: NotRequired[int]
    until: NotRequired[int]
    until_ahead: NotRequired[int]
    span: NotRequired[int]
    user: NotRequired[str]
    group: NotRequired[str]
    project: NotRequired[str]
    force: NotRequired[bool]


class UnreserveRequest(TypedDict):
    """A checked `unreserve`."""

    reservation: str
    force: NotRequired[bool]


class SubmitRequest(TypedDict):
    """A checked `submit` or `test`."""

    token: str
    job: NewJob
    spec: Spec
    user: NotRequired[str]
    group: NotRequired[str]


class ProjectJob(TypedDict):
    """A job of a project; after: kinds of dependencies with places in the list of jobs, spec: without what all have in
    common."""

    job: NewJob
    spec: Spec
    after: list[list[Any]]


class SubmitProjectRequest(TypedDict):
    """A checked `submit_project` or `test_project`; spec: what the specs of the jobs have in common."""

    token: str
    project: str
    jobs: list[ProjectJob]
    spec: NotRequired[Spec]
    user: NotRequired[str]
    group: NotRequired[str]


class ProjectRequest(TypedDict):
    """A checked `project`."""

    project: str


class EtaRequest(TypedDict, total=False):
    """A checked `eta`: of the jobs of a project, or of all that are pending."""

    project: str


class JobsRequest(TypedDict):
    """A checked request about jobs; for the ways to name one see schema.ONE."""

    ids: list[Any]


class SignalRequest(JobsRequest):
    """A checked `signal`."""

    signal: int


class EditRequest(JobsRequest):
    """A checked `edit`."""

    to: Change


ShowRequest = TypedDict("ShowRequest", {"ids": list[Any], "from": int, "limit": int}, total=False)


class QueueRequest(TypedDict, total=False):
    """A checked `queue`; after: the last job of the rows before, limit: rows at most."""

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


class SlotsRequest(TypedDict, total=False):
    """A checked `slots`."""

    need: Amounts
    gpu_type: str
    user: str
    group: str


class OutputRequest(JobsRequest):
    """A checked `output`."""

    err: NotRequired[bool]


class PolicyRequest(TypedDict):
    """A checked `policy` or `switch`."""

    policy: str


class Defaults(TypedDict, total=False):
    """What a job has that does not say it."""

    walltime: int
    grace: int


class ClockFacts(TypedDict, total=False):
    """What a later daemon needs to carry a clock on."""

    boot: str
    anchor: int


class Over(TypedDict):
    """How a job ended; code: its exit code for `wait`."""

    id: int
    state: str
    code: int


class Failure(TypedDict):
    """Why a request was not met: error has a code, a message and a field."""

    error: dict[str, str]


class Estimate(TypedDict):
    """When a job starts, in seconds: at the latest, likely, and in nine of ten futures; why_not: why that is unknown.

    history: whose ended jobs say how long it runs, of which there are ended_jobs.
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
    why_not: str


class Eta(TypedDict):
    """The estimates of pending jobs. widened, held: see answers.asked.Queue; cpu_s, age_s: once it is told."""

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
    """When a project departs, in seconds: likely, and in nine of ten futures; why_not: why that is unknown.

    departs: whether the policy promises departures. promised_s: the last end of the jobs for which it has reserved a
    start, or that run, if they use all of their walltimes; None if it promises none. left: how many others there are.
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
    """What is asked of a copy of the planner. what: which question; the other fields are those of the daemon, and what
    the request had."""

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


class Decisions(TypedDict):
    """What a planner decided in a pass. Each list holds rows that begin with a job; a plan that is `anew` replaces the
    one before it. moved, where the policy promises departures: why jobs have other starts than before, and for which
    job each of them made way (0 none)."""

    now: int
    starts: list[list[Any]]
    preempts: list[list[Any]]
    plan: list[list[Any]]
    wake: int | None
    anew: bool
    moved: NotRequired[list[list[Any]]]


class Begun(TypedDict):
    """What a planner knows once it has been made: its decisions of old, whether its plan binds, whether its policy
    promises departures, and why it can have no reservations (empty if it can)."""

    passes: list[list[list[Any]]]
    plan: list[list[Any]]
    wake: int | None
    anew: bool
    binds: bool
    departs: bool
