"""The REST interface, version 1: the requests of the socket as resources, their answers as the verbs print them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from starlette.responses import FileResponse, Response

from backfill.client import calling
from backfill.client.asking import FIRST, accuracy_of
from backfill.client.printing import first_of
from backfill.client.requests import environment
from backfill.model.errors import InputError
from backfill.queue.events import KINDS
from backfill.queue.protocol import BARS, PLANNED
from backfill.queue.schema import Record, Refused
from backfill.queue.states import HOLDING, OVER, PENDING
from backfill.queue.words import Unreadable, parse_id, parse_licences, parse_memory
from backfill.web import declared, logs, past
from backfill.web.declared import checked, json_schema
from backfill.web.events import Stream, Wanted
from backfill.web.problems import Refusal
from backfill.web.safety import Safety
from backfill.web.service import Service

Facts = dict[str, Any]
router = APIRouter(prefix="/v1")
OPENAPI = FilePath(__file__).with_name("openapi.json")  # written by `python -m tools.openapi`
JSON, CSV, ZIP, EVENTS = "application/json", "text/csv; charset=utf-8", "application/zip", "text/event-stream"
PAGE, PAGE_MOST, STORIES = 100, 10_000, 100  # rows of an answer
KEY_MOST = 240  # characters of an idempotency key
INSTANT_MOST = 4e9  # seconds since 1970

Id = Annotated[str, Path(pattern=r"^\d{1,15}([_.]\d{1,9})?$", description="118, or 12_3 for a task of an array")]
Names = Annotated[list[str] | None, Query(max_length=1000)]
KEY: Facts = {  # read by the handlers themselves: submits are to be quick
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MOST},
    "description": "repeats the request, not its effect",
}
Limit = Annotated[int, Query(ge=1, le=PAGE_MOST, description="most rows of the answer")]
Instant = Annotated[float | None, Query(ge=0, le=INSTANT_MOST, description="seconds since 1970")]


def answers(schema: str, status: int = 200, body: Record | None = None, kind: str = JSON, **more: Any) -> Facts:
    """Return the description of an operation: its answer, a published schema, and its body as declared.

    more: further parts of the description.
    """
    content = {kind: {"schema": {"$ref": f"#/components/schemas/{schema}"}}} if schema else {kind: {}}
    described: Facts = {"responses": {str(status): {"description": "The answer.", "content": content}}, **more}
    if body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": json_schema(body)}}}
    return {"openapi_extra": described, "status_code": status, "response_class": Response}


def service_of(request: Request) -> Service:
    """Return the queue of a request."""
    return cast(Service, request.app.state.service)


async def body_of(request: Request, record: Record, name: str) -> Facts:
    """Return the body of a request, as declared. Raises Refusal."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refusal(415, f"Content-Type is {kind!r:.60}; expected {JSON}", "usage")
    try:
        return checked(record, json.loads(await request.body()), name)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON", "usage") from None
    except Refused as refused:
        raise Refusal(400, str(refused), refused.code, refused.field) from None


def json_answer(found: Facts | bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as JSON, with the version of its schema."""
    content = found if isinstance(found, bytes) else json.dumps({"schema": 1, **found}).encode()
    return Response(content, status, headers, JSON)


def id_of(label: str) -> Any:
    """Return a job as a request names it. Raises Refusal."""
    try:
        return parse_id(label)
    except Unreadable as error:
        raise Refusal(400, str(error), "usage", "id") from None


def token_of(request: Request) -> str:
    """Return the token of a request: its idempotency key, which may be in quotation marks, or a new one."""
    key = request.headers.get(KEY["name"])
    if key is None:
        return calling.token()
    name = key.strip().removeprefix('"').removesuffix('"')
    if not 0 < len(name) <= KEY_MOST or not name.isprintable():
        raise Refusal(
            400, f"Idempotency-Key: expected up to {KEY_MOST} printable characters", "usage", "Idempotency-Key"
        )
    return name


def split_names(names: list[str] | None) -> list[str]:
    """Return names that may be given one by one or separated by commas."""
    return [part for name in names or () for part in name.split(",") if part]


def states_of(names: list[str] | None, known: tuple[str, ...]) -> list[str]:
    """Return states. Raises Refusal for one that does not exist."""
    states = [name.upper() for name in split_names(names)]
    if unknown := next((state for state in states if state not in known), None):
        raise Refusal(400, f"state is {unknown!r:.60}; expected {', '.join(known)}", "usage", "state")
    return states


# ---------------------------------------------------------------------- jobs


@router.get("/jobs", **answers("queue"))
async def list_jobs(
    request: Request,
    state: Names = None,
    user: Names = None,
    name: Names = None,
    project: Names = None,
    ended: Annotated[int, Query(ge=0, le=PAGE_MOST, description="also the last jobs that have ended")] = 0,
    fold: Annotated[bool, Query(description="tasks of an array that ask for the same are one row")] = False,
    after: Annotated[int, Query(ge=0, le=10**15, description="continue behind the job with this id")] = 0,
    limit: Limit = PAGE,
) -> Response:
    """List open jobs in the order of their ids, page by page; `Link` has the next page."""
    states = states_of(state, (*HOLDING, PENDING, *OVER))
    users, names, projects = map(split_names, (user, name, project))
    chosen = {"states": states, "users": users, "names": names, "projects": projects}
    asked: Facts = {key: names for key, names in chosen.items() if names}
    line = await service_of(request).line(
        "queue", estimates=True, limit=limit, by_id=True, after=after, ended=ended, fold=fold, **asked
    )
    found = json.loads(line)
    headers = {}
    if found["more"] and found["jobs"]:
        following = request.url.include_query_params(after=found["jobs"][-1]["id"])
        headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return json_answer(line, 200, headers)


@router.post("/jobs", **answers("submit", 201, declared.NEW_JOB, parameters=[KEY]))
async def submit(request: Request) -> Response:
    """Queue a job, or an array of jobs."""
    service, token = service_of(request), token_of(request)
    asked = completed(service, await body_of(request, declared.NEW_JOB, "job"), token)
    found = await service.change("submit", asked)
    return json_answer(found, 201, {"Location": f"/v1/jobs/{found['id']}"})


@router.post("/jobs:batch", **answers("web-batch", 200, declared.NEW_JOBS, parameters=[KEY]))
async def batch(request: Request) -> Response:
    """Queue several jobs; each is queued or refused by itself."""
    service, token = service_of(request), token_of(request)
    body = await body_of(request, declared.NEW_JOBS, "batch")
    asked = [completed(service, one, f"{token}/{place}") for place, one in enumerate(body["jobs"])]
    found = [json.loads(line) for line in await service.lines("submit", asked)]
    return json_answer({"queued": sum("error" not in one for one in found), "jobs": found})


@router.post("/jobs:test", **answers("submit-test", 200, declared.NEW_JOB))
async def test(request: Request) -> Response:
    """Return when a job would start if it were submitted; nothing is queued."""
    service = service_of(request)
    asked = completed(service, await body_of(request, declared.NEW_JOB, "job"), calling.token())
    return json_answer(await service.facts("test", **asked))


def completed(service: Service, body: Facts, token: str) -> Facts:
    """Return a submit request: what a client of the socket would add, and nothing of this process's environment."""
    spec = {"cwd": "/", "env": environment("NONE"), "umask": 0o077, **body.get("spec", {})}
    return {"token": token, **service.submitter, **body, "spec": spec}


@router.get("/jobs/{id}", **answers("show"))
async def show(
    request: Request,
    id: Id,
    first: Annotated[int, Query(ge=0, le=100_000, alias="from", description="of an array, from this task on")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = STORIES,
) -> Response:
    """Return all about a job, or the tasks of an array."""
    found = await service_of(request).facts("show", ids=[id_of(id)], limit=limit, **{"from": first})
    return json_answer({"jobs": found["jobs"], "all": found["all"]})


@router.patch("/jobs/{id}", **answers("edit", 200, declared.CHANGE))
async def edit(request: Request, id: Id) -> Response:
    """Change a pending job."""
    to = await body_of(request, declared.CHANGE, "change")
    return json_answer(await service_of(request).facts("edit", ids=[id_of(id)], to=to))


@router.delete("/jobs/{id}", **answers("cancel"))
async def cancel(request: Request, id: Id) -> Response:
    """End a job, or take it out of the queue."""
    return json_answer(await service_of(request).facts("cancel", ids=[id_of(id)]))


ACTIONS = {
    "cancel": "End jobs, or take them out of the queue.",
    "hold": "Keep pending jobs from starting.",
    "release": "Release held jobs.",
    "requeue": "End running jobs, and queue them again.",
    "suspend": "Suspend running jobs.",
    "resume": "Resume suspended jobs.",
}


def _add_action(verb: str, about: str) -> None:
    async def one(request: Request, id: Id) -> Response:
        return json_answer(await service_of(request).facts(verb, ids=[id_of(id)]))

    async def many(request: Request) -> Response:
        body = await body_of(request, declared.SOME, verb)
        return json_answer(await service_of(request).facts(verb, ids=body["ids"]))

    add: Callable[..., Any] = partial(router.add_api_route, methods=["POST"], description=about, **answers(verb))
    if verb != "cancel":  # of one job: DELETE
        add(f"/jobs/{{id}}/{verb}", one, name=verb)
    many_of = answers(verb, 200, declared.SOME)
    router.add_api_route(f"/jobs:{verb}", many, methods=["POST"], description=about, name=f"{verb} many", **many_of)


for _verb, _about in ACTIONS.items():
    _add_action(_verb, _about)


@router.post("/jobs/{id}/signal", **answers("cancel", 200, declared.SIGNAL_ONE))
async def signal(request: Request, id: Id) -> Response:
    """Send a signal to the processes of a running job."""
    body = await body_of(request, declared.SIGNAL_ONE, "signal")
    return json_answer(await service_of(request).facts("signal", ids=[id_of(id)], signal=body["signal"]))


@router.get("/jobs/{id}/explain", **answers("explain"))
async def explain(request: Request, id: Id) -> Response:
    """Return why a job does not run yet, and what would help."""
    return json_answer(await service_of(request).facts("explain", ids=[id_of(id)]))


@router.post("/jobs/{id}/explain", **answers("explain", 200, declared.TRIED))
async def try_change(request: Request, id: Id) -> Response:
    """Return the same, and when the job would start with another walltime or other amounts; nothing is changed."""
    to = await body_of(request, declared.TRIED, "change")
    return json_answer(await service_of(request).facts("explain", ids=[id_of(id)], to=to))


@router.get("/jobs/{id}/eta", **answers("eta"))
async def eta_of(request: Request, id: Id) -> Response:
    """Return when a job starts, or the tasks of an array."""
    service = service_of(request)
    wanted = {*(await service.facts("find", ids=[id_of(id)]))["ids"]}
    found = await service.facts("eta")
    rows = [row for row in found["jobs"] if row["id"] in wanted]
    if not rows:
        raise Refusal(409, f"job {id} has no estimate; expected a pending job", "state", "id")
    return json_answer({**found, "jobs": rows})


@router.get("/jobs/{id}/log", **answers("", kind="text/plain"))
async def log(
    request: Request,
    id: Id,
    err: Annotated[bool, Query(description="standard error, if it has its own file")] = False,
    range: Annotated[str | None, Header(description="bytes=FIRST-LAST")] = None,
) -> Response:
    """Return what a job has written so far, whole or a range of bytes; `Backfill-State` has the state of the job."""
    found = await service_of(request).facts("output", ids=[id_of(id)], err=err)
    return await logs.output(found["path"], range, found["job"]["state"])


# ---------------------------------------------------------------------- the queue


@router.get("/eta", **answers("eta"))
async def eta(request: Request) -> Response:
    """Return when pending jobs start."""
    return json_answer(await service_of(request).line("eta"))


@router.get("/slots", **answers("slots"))
async def slots(
    request: Request,
    mem: Annotated[str | None, Query(max_length=40, description="memory, for instance 16G")] = None,
    gpus: Annotated[int | None, Query(ge=1, le=10**6)] = None,
    gpu_type: Annotated[str, Query(max_length=256)] = "",
    licenses: Annotated[str | None, Query(max_length=256, description="NAME:COUNT,...")] = None,
) -> Response:
    """Return what fits now, and for how long."""
    service = service_of(request)
    try:
        need = {"memory": parse_memory(mem)} if mem else {}
        need |= {"gpus": gpus} if gpus else {}
        need |= parse_licences(licenses) if licenses else {}
    except Unreadable as error:
        raise Refusal(400, str(error), "usage") from None
    return json_answer(await service.line("slots", need=need, gpu_type=gpu_type, **service.submitter))


@router.get("/plan", **answers("plan"))
async def plan(
    request: Request,
    since: Instant = None,
    until: Instant = None,
    user: Names = None,
    node: Names = None,
    name: Names = None,
    project: Names = None,
    kind: Names = None,
    ended_by: Annotated[
        float | None, Query(ge=0, le=INSTANT_MOST, description="of runs that are over those that were so by then")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=PLANNED, description="most bars of each kind")] = 2000,
) -> Response:
    """Return what ran, runs and waits, on nodes and licences over time."""
    if since is not None and until is not None and until <= since:
        raise Refusal(400, f"until is {until:.15g}; expected a time after since, {since:.15g}", "usage", "until")
    service, kinds = service_of(request), split_names(kind) or [*BARS]
    if unknown := next((one for one in kinds if one not in BARS), None):
        raise Refusal(400, f"kind is {unknown!r:.60}; expected {', '.join(BARS)}", "usage", "kind")
    chosen = {"users": split_names(user), "names": split_names(name), "projects": split_names(project)}
    window = {"since_s": since, "until_s": until, "nodes": tuple(split_names(node)), "most": limit,
              "ended_by_s": ended_by, "kinds": tuple(kinds)}  # fmt: skip
    window |= {each: tuple(names) for each, names in chosen.items()}

    async def found() -> bytes:
        some = {each: names for each, names in chosen.items() if names}
        starts = await service.facts("plan", limit=limit if "pending" in kinds else 0, **some)
        return await service.slowly(lambda: json.dumps(plan_of(service.folder, starts, window)).encode())

    return Response(await service.shared(f"bars {sorted(window.items())}", found), media_type=JSON)


def plan_of(folder: FilePath, starts: Facts, window: Facts) -> Facts:
    """Return the plan, from the starts that the daemon answered and from the store. Raises InputError."""
    from backfill.answers.history import opened  # these load numpy
    from backfill.answers.plan import Window
    from backfill.answers.plan import plan as bars

    store = opened(folder)
    try:
        return {**bars(store, starts, Window(**window))}
    finally:
        store.close()


@router.get("/accuracy", **answers("eta-accuracy"))
async def accuracy(request: Request) -> Response:
    """Return how accurate estimates and promises were."""
    service = service_of(request)
    return json_answer(await service.slowly(lambda: accuracy_of(str(service.folder))))


@router.get("/nodes", **answers("web-nodes"))
async def nodes(request: Request) -> Response:
    """Return what the machine has and what jobs hold of it, and the nodes by kind."""
    found = await service_of(request).facts("queue", nodes=True, limit=0)
    names = ("now_s", "capacity", "held", "held_elsewhere", "licences", "reservations")
    return json_answer({name: found[name] for name in names} | {"nodes": found.get("nodes", [])})


@router.get("/policy", **answers("web-policy"))
async def policy(request: Request) -> Response:
    """Return the policy that decides."""
    found = await service_of(request).facts("queue", limit=0)
    names = ("now_s", "policy", "asked_policy", "predict", "planner", "paused")
    return json_answer({name: found[name] for name in names})


@router.post("/policy:try", **answers("serve", 200, declared.TRIAL))
async def try_policy(request: Request) -> Response:
    """Return what another policy would change; nothing is changed."""
    body = await body_of(request, declared.TRIAL, "policy")
    return json_answer({**await service_of(request).facts("switch", policy=body["policy"]), "switched": False})


@router.put("/policy", **answers("serve", 200, declared.SWITCH))
async def switch(request: Request) -> Response:
    """Let another policy take over, if it keeps every promised start, or if promises may be dropped."""
    service, body = service_of(request), await body_of(request, declared.SWITCH, "policy")
    name, drop = body["policy"], body.get("drop_promises", False)
    service.check("policy", {"policy": name})
    try:
        tried = await service.facts("switch", policy=name)
    except Refusal as refusal:  # the trial failed, or the planner does not answer
        if not drop or refusal.kind not in ("starting", "question"):
            raise
        changed = await service.facts("policy", policy=name)
        return json_answer({"to": changed["policy"], "switched": True, "compared": False})
    if tried["fall"] and not drop:
        labels = first_of(tried["fall"], FIRST)
        detail = f"{tried['to']} would not keep the starts that were promised to {labels}; nothing was changed"
        raise Refusal(409, f"{detail}; drop_promises lets it take over", "promises", "policy")
    await service.facts("policy", policy=name)
    return json_answer({**tried, "switched": True})


@router.post("/queue:pause", **answers("pause"))
async def pause(request: Request) -> Response:
    """Start no more jobs; running jobs continue."""
    return json_answer({"paused": True, **await service_of(request).facts("pause")})


@router.post("/queue:resume", **answers("pause"))
async def unpause(request: Request) -> Response:
    """Let the queue start jobs again."""
    return json_answer({"paused": False, **await service_of(request).facts("unpause")})


@router.get("/reservations", **answers("reservations"))
async def reservations(request: Request) -> Response:
    """List advance reservations."""
    found = await service_of(request).facts("queue", limit=0)
    return json_answer({name: found[name] for name in ("now_s", "reservations")})


@router.post("/reservations", **answers("reserve", 201, declared.RESERVE, parameters=[KEY]))
async def reserve(request: Request) -> Response:
    """Make an advance reservation."""
    body = await body_of(request, declared.RESERVE, "reservation")
    return json_answer(await service_of(request).facts("reserve", **{**body, "token": token_of(request)}), 201)


@router.delete("/reservations/{name}", **answers("unreserve"))
async def unreserve(
    request: Request, name: Annotated[str, Path(max_length=256)], force: Annotated[bool, Query()] = False
) -> Response:
    """End an advance reservation now."""
    return json_answer(await service_of(request).facts("unreserve", reservation=name, force=force))


@router.post("/projects", **answers("submit-project", 201, declared.NEW_PROJECT, parameters=[KEY]))
async def submit_project(request: Request) -> Response:
    """Queue all jobs of a project, or none."""
    service, body = service_of(request), await body_of(request, declared.NEW_PROJECT, "project")
    asked = completed(service, body, token_of(request))
    return json_answer(await service.facts("submit_project", **asked), 201)


@router.get("/projects/{name}", **answers("show-project"))
async def show_project(request: Request, name: Annotated[str, Path(max_length=256)]) -> Response:
    """Return all about a project: its jobs, the departures that it was promised, and whether they were kept."""
    return json_answer(await service_of(request).facts("project", project=name))


@router.get("/health", **answers("web-health"))
async def health(request: Request) -> Response:
    """Return whether the daemon answers, and whether its planner decides."""
    service = service_of(request)
    found = await service.facts("ping")
    planner = found["planner"]
    state = {"pool": found["pool"], "now_s": found["now_s"], "read_only": service.read_only}
    return json_answer({"daemon": found["pid"], "planner": "ready" if planner["ready"] else "starting",
                 "passes": planner["passes"], "failures": planner["failures"], **state})  # fmt: skip


# ---------------------------------------------------------------------- what was


async def selected(
    since: Instant = None, until: Instant = None, user: Names = None, name: Names = None, state: Names = None
) -> past.Selection:
    """Return which jobs that are over a request is about. Raises Refusal."""
    lists = (tuple(split_names(user)), tuple(split_names(name)), tuple(states_of(state, OVER)))
    return past.Selection(since, until, *lists)


Chosen = Annotated[past.Selection, Depends(selected)]


@router.get("/history", **answers("history"))
async def history(
    request: Request,
    chosen: Chosen,
    limit: Annotated[int, Query(ge=1, le=100_000, description="the last of them")] = 1000,
) -> Response:
    """List jobs that are over, in the order of their ends."""
    return json_answer({"jobs": await _past(request, chosen, limit)})


@router.get("/history.csv", **answers("", kind="text/csv"))
async def history_csv(
    request: Request,
    chosen: Chosen,
    limit: Annotated[int, Query(ge=1, le=1_000_000, description="the last of them")] = 100_000,
) -> Response:
    """Return jobs that are over as CSV."""
    found = await _past(request, chosen, limit)
    text = await service_of(request).slowly(lambda: past.table(found).encode(errors="backslashreplace"))
    return Response(text, 200, {"content-disposition": 'attachment; filename="history.csv"'}, CSV)


@router.get("/history/workload", **answers("", kind=ZIP))
async def history_workload(request: Request, chosen: Chosen) -> Response:
    """Return jobs that are over as a workload for simulate and compare, with its platform and events: a zip."""
    found = await service_of(request).alone(lambda: past.workload(service_of(request).folder, chosen))
    return Response(found, 200, {"content-disposition": 'attachment; filename="history.zip"'}, ZIP)


async def _past(request: Request, chosen: past.Selection, limit: int) -> list[Facts]:
    service = service_of(request)
    try:
        return await service.slowly(lambda: past.rows(service.folder, chosen, limit))
    except InputError as error:
        raise Refusal(404, str(error), "unknown") from None


# ---------------------------------------------------------------------- events


async def place_of(
    since: Annotated[int | None, Query(ge=0, le=10**15, description="the position behind which they begin")] = None,
    last: Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^\d{1,15}$")] = None,
) -> int | None:
    """Return the position in the log behind which events begin; None for the next one that happens."""
    return int(last) if last is not None else since


Place = Annotated[int | None, Depends(place_of)]


@router.get("/events", **answers("", kind=EVENTS))
async def events(
    request: Request,
    place: Place,
    kind: Names = None,
    job: Annotated[list[Id] | None, Query(max_length=100)] = None,
) -> Response:
    """Follow the events of the queue: server-sent events whose ids are their positions in the log."""
    return await _stream(request, split_names(kind), job or [], place)


@router.get("/jobs/{id}/events", **answers("", kind=EVENTS))
async def events_of(request: Request, id: Id, place: Place) -> Response:
    """Follow the events of a job, or of the tasks of an array; since=0 begins with its submit."""
    return await _stream(request, [], [id], place)


async def _stream(request: Request, kinds: list[str], labels: list[str], place: int | None) -> Response:
    if unknown := {*kinds} - KINDS.keys():
        raise Refusal(400, f"kind is {min(unknown)[:60]!r}; expected {', '.join(sorted(KINDS))}", "usage", "kind")
    service, safety = service_of(request), cast(Safety, request.app.state.safety)
    jobs: set[int] = set()
    for label in labels:
        jobs |= {*(await service.facts("find", ids=[id_of(label)]))["ids"]}

    def still() -> bool:
        try:
            return safety.admit(request.scope) is None
        except (Refusal, Unreadable):
            return False

    return Stream(service.feed, place, Wanted(frozenset(kinds), frozenset(jobs)), still)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the description of this interface."""
    return FileResponse(OPENAPI, media_type=JSON)
