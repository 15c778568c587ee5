"""The pages for people: rendered here, complete without JavaScript; with it, they follow the queue."""

import asyncio
import os
import time
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from backfill.client.asking import tested
from backfill.client.calling import token
from backfill.client.printing import changed_text, start_text, unchanged_text
from backfill.model.errors import InputError
from backfill.queue.states import CANCELLED, ENDING, OVER, PENDING
from backfill.queue.words import Unreadable, parse_id
from backfill.report.chart import SIDE
from backfill.report.templating import templates
from backfill.report.values import cut
from backfill.web import logs, pages_job, pages_past, pages_queue, pages_submit, pages_whatif
from backfill.web.forms import form_of
from backfill.web.offline import CHART, calendar, zone
from backfill.web.problems import TITLES, Refusal
from backfill.web.safety import POLICY
from backfill.web.service import Service

Facts = dict[str, Any]

router = APIRouter(include_in_schema=False)
TAIL = 64 << 10  # bytes of a job's output that its page shows
SCRIPTS = {  # by page, in the order in which they are loaded
    "queue": ("live", *CHART, "plan"),
    "job": ("live", "log"),
    "use": ("live", "words", "dates", "plots"),
}
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
VERBS = {
    "cancel": "Cancel",
    "hold": "Hold",
    "release": "Release",
    "requeue": "Requeue",
}
ASKS = {  # before a verb is carried out
    "cancel": "Its processes are ended now; this cannot be undone.",
    "hold": "It does not start before it is released, and loses its guaranteed start.",
    "release": "It may start from now on.",
    "requeue": "Its processes are ended now, and it waits to run again from the beginning.",
}


WAITING = "It leaves the queue and never runs; this cannot be undone."


def _read_static() -> dict[str, bytes]:
    """Return the files that pages load, by name; those of the report first."""
    found = {}
    for package in ("backfill.report", "backfill.web"):
        for file in (files(package) / "static").iterdir():
            if file.name.rpartition(".")[2] in TYPES:
                found[file.name] = file.read_bytes()
    return found


STATIC = _read_static()
VERSION = sha256(b"".join(body for _, body in sorted(STATIC.items()))).hexdigest()[:12]
PAGES = templates("backfill.web", "backfill.report")
PAGES.filters |= {"cut": cut}
PAGES.globals |= {"static": lambda name: f"/static/{name}?v={VERSION}"}
# Places of marks are style attributes, which cannot run anything; texts from outside are escaped.
HEADERS = {"content-security-policy": f"{POLICY}; style-src-attr 'unsafe-inline'", "cache-control": "no-store"}


@router.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """A script or a style sheet; its address changes with its content."""
    body = STATIC.get(name)
    if body is None:
        raise Refusal(404, f"there is no {request.url.path}")
    fresh = request.query_params.get("v") == VERSION
    kept = "public, max-age=31536000, immutable" if fresh else "no-cache"
    return Response(body, media_type=TYPES[name.rpartition(".")[2]], headers={"cache-control": kept})


@router.get("/")
async def queue(request: Request) -> Response:
    """The plan and the queue."""
    query = dict(request.query_params)
    try:
        found = await _service(request).facts("queue", **pages_queue.asked(query))
    except Refusal as refusal:
        return refused(request, refusal)
    rows, axis = pages_queue.rows(found)
    last = max((job["id"] for job in found["jobs"] if job["state"] == PENDING), default=0)
    return _page(
        request, "queue", found=found, rows=rows, axis=axis, query=query, address=pages_queue.address,
        used=pages_queue.in_use(found), sentence=pages_queue.sentence(found), notices=pages_queue.notices(found),
        policy=pages_queue.policy_text(found), filters=pages_queue.FILTERS, last=last, now_s=found["now_s"],
        filtered=any(query.get(name) for name in pages_queue.FILTERS), of=pages_queue.chosen(query),
        plan_query=pages_queue.plan_query(query),
    )  # fmt: skip


@router.get("/jobs/{label}")
async def job(request: Request, label: str) -> Response:
    """One job: its story, why it waits, its output."""
    try:
        return await _job(request, label)
    except Refusal as refusal:
        return refused(request, refusal)


async def _job(request: Request, label: str) -> Response:
    service, query = _service(request), dict(request.query_params)
    one = await _one(service, label)
    now = time.time()
    explained: Facts | None = None
    tried, wrong = None, ""
    fields = pages_job.fields_of(one) | {name: query[name] for name in ("time", "cpus", "mem") if name in query}
    if one["state"] == PENDING:
        change: Facts = {}
        if query.get("try"):
            try:
                given = pages_job.fields_of(one)
                change = pages_job.change_of({name: text for name, text in fields.items() if text != given[name]})
                wrong = "" if change else "Change at least one of the fields."
            except Unreadable as error:
                wrong = str(error)
        explained, wrong = await _explained(service, one, change, wrong)
        now = explained.get("now_s", now) if explained else now
        tried = (explained or {}).get("tried")
    row = pages_queue.row(one, now, axis := _axis(one, now))
    return _page(
        request, "job", job=one, row=row, axis=axis, status=pages_job.status(one, now), facts=pages_job.facts(one),
        story=pages_job.story(one), explained=pages_job.explanation(explained) if explained else [],
        helps=[*pages_job.helps(explained)] if explained else [], tried=tried, wrong=wrong, fields=fields,
        when=pages_job.when(tried, now) if tried else "", promised=_promise(one, now), verbs=pages_job.verbs(one),
        titles=VERBS, log=await asyncio.to_thread(_tail, one), done=_done(one, query), now_s=now,
        reserved=(explained or {}).get("reserved_s"), as_it_is=_as_it_is(explained, now), over=OVER,
    )  # fmt: skip


def _as_it_is(explained: Facts | None, now: float) -> str:
    """Return when a job would start as it is, if all jobs ran until their limits."""
    start = (explained or {}).get("by_walltimes_s")
    return "" if start is None else start_text(start, round(now * 1e6))


async def _explained(service: Service, one: Facts, change: Facts, wrong: str) -> tuple[Facts | None, str]:
    """Return the explanation of a pending job with a change that is tried, and what is wrong with the change."""
    more = {"to": change} if change else {}
    try:
        found = await service.facts("explain", ids=[one["id"]], **more)
    except Refusal as refusal:
        if change and refusal.status < 500:
            return (await _explained(service, one, {}, ""))[0], str(refusal)
        return None, wrong  # it was started meanwhile, or the policy is being started: the rest of the page is valid
    if change and "tried" not in found:
        wrong = "No change makes this job start: it does not wait for its turn."
    return found, wrong


def _axis(one: Facts, now: float) -> pages_queue.Axis:
    ahead = [one[name] - now for name in ("guaranteed_s", "p90_s", "median_s") if one.get(name)]
    end = pages_queue.latest_end(one)
    return pages_queue.Axis(max([*ahead, *([] if end is None else [end - now])], default=pages_queue.NEAR_S))


def _promise(one: Facts, now: float) -> str:
    return start_text(one["guaranteed_s"], round(now * 1e6)) if one["guaranteed_s"] is not None else ""


def _done(one: Facts, query: Facts) -> str:
    """Return what a verb has just done, from an address that a form leads to."""
    done = query.get("done", "")
    if done == "submit":
        return f"Job {one['label']} is queued."
    if done not in VERBS or not _still(done, one):
        return ""
    return f"{changed_text(done, {'ids': [one['id']], 'labels': [one['label']]}).capitalize()}."


def _still(verb: str, one: Facts) -> bool:
    """Return whether a job is as a verb leaves it: an address may be old."""
    state: str = one["state"]
    held = "release" in pages_job.verbs(one)
    there = {"cancel": state in (ENDING, CANCELLED), "hold": held, "release": not held, "requeue": state not in OVER}
    return there[verb]


async def _one(service: Service, label: str) -> Facts:
    """Return a job with its story and its estimates. Raises Refusal."""
    try:
        number = parse_id(label)
    except Unreadable as error:
        raise Refusal(404, str(error), "unknown") from None
    found: Facts = (await service.facts("show", ids=[number], limit=1))["jobs"][0]
    estimates: Facts = {"median_s": None, "p90_s": None, "misses_deadline": None}
    if found["state"] == PENDING:
        answer = await service.facts("queue", estimates=True, after=found["id"] - 1, limit=1)
        rows = [each for each in answer["jobs"] if each["id"] == found["id"]]
        estimates |= {name: rows[0][name] for name in estimates} if rows else {}
    return {**found, **estimates}


def _tail(one: Facts) -> Facts:
    """Return the end of a job's output: its text, how much of it precedes that, and its size in bytes."""
    path = one["output"]
    if not path:
        return {"text": "", "skipped": 0, "size": 0, "path": ""}
    try:
        with open(logs.opened(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size - TAIL, 0))
            text = file.read(TAIL).decode(errors="replace")
        return {"text": text, "skipped": max(size - TAIL, 0), "size": size, "path": path}
    except (Refusal, OSError) as error:
        problem = str(error) if path in str(error) else f"{path}: {error}"
        begun = one["start_s"] is not None
        return {"text": "", "skipped": 0, "size": 0, "path": path, "problem": problem if begun else ""}


@router.get("/jobs/{label}/{verb}")
async def ask(request: Request, label: str, verb: str) -> Response:
    """Ask whether a verb shall be carried out."""
    try:
        if verb not in VERBS:
            raise Refusal(404, f"there is no {request.url.path}")
        one = await _one(_service(request), label)
    except Refusal as refusal:
        return refused(request, refusal)
    return _confirm(request, one, verb)


def _confirm(request: Request, one: Facts, verb: str, problem: str = "", status: int = 200) -> Response:
    warning = WAITING if verb == "cancel" and one["state"] == PENDING else ASKS[verb]
    return _page(request, "confirm", status, job=one, verb=verb, title=VERBS[verb], warning=warning, problem=problem)


@router.post("/jobs/{label}/{verb}")
async def change(request: Request, label: str, verb: str) -> Response:
    """Carry out a verb, as a form asks for it."""
    service = _service(request)
    try:
        if verb not in VERBS:
            raise Refusal(404, f"there is no {request.url.path}")
        one = await _one(service, label)
        answer = await service.facts(verb, ids=[one["id"]])
    except Refusal as refusal:
        return refused(request, refusal)
    if not answer["ids"]:
        return _confirm(request, one, verb, f"Nothing was changed: {unchanged_text(answer)}.", 409)
    return RedirectResponse(f"/jobs/{one['label']}?done={verb}", 303)


@router.get("/submit")
async def submit_form(request: Request) -> Response:
    """The form for a new job."""
    fields = pages_submit.DEFAULTS | {
        name: text for name, text in request.query_params.items() if name in pages_submit.DEFAULTS
    }
    return _page(request, "submit", fields=fields, token=token(), problem="", field="", tried=None)


@router.post("/submit")
async def submit(request: Request) -> Response:
    """Queue a job, or say when it would start."""
    service = _service(request)
    try:
        form = await form_of(request)
    except Refusal as refusal:
        return refused(request, refusal)
    fields = pages_submit.DEFAULTS | {name: text for name, text in form.items() if name in pages_submit.DEFAULTS}
    once = form.get("token", "") or token()
    tried, problem, field, status = None, "", "", 200
    try:
        wanted = {**pages_submit.request_of(fields), **service.submitter, "token": once}
        if form.get("do") == "test":
            tried = [*tested(await service.facts("test", **wanted))]
        else:
            answer = await service.facts("submit", **wanted)
            array = wanted["job"].get("array")
            label = f"{answer['id']}_{array[0]}" if array else str(answer["id"])
            return RedirectResponse(f"/jobs/{label}?done=submit", 303)
    except (Unreadable, Refusal) as error:
        problem, status = str(error), error.status if isinstance(error, Refusal) else 400
        field = pages_submit.field_of(error)
    return _page(request, "submit", status, fields=fields, token=once, problem=problem, field=field, tried=tried)


@router.get("/accuracy")
async def accuracy(request: Request) -> Response:
    """What became of promises and estimates."""
    try:
        found = await _past(_service(request), pages_past.accuracy)
    except Refusal as refusal:
        return refused(request, refusal)
    return _page(request, "accuracy", found=found, sentence=pages_past.sentence(found))


@router.get("/use")
async def use(request: Request) -> Response:
    """Use and waits over time."""
    days = pages_past.days_of(request.query_params.get("days", ""))
    try:
        found = await _past(_service(request), lambda folder: pages_past.use(folder, days, zone()))
    except Refusal as refusal:
        return refused(request, refusal)
    return _page(request, "use", found=found, spans=pages_past.DAYS, side=SIDE)


async def _past(service: Service, work: Callable[[Path], Facts]) -> Facts:
    """Return what is computed from the log. Raises Refusal."""
    try:
        return await service.slowly(lambda: work(service.folder))
    except InputError as error:
        raise _missing(error) from None


def _missing(error: Exception) -> Refusal:
    return Refusal(503, str(error), "away", Retry_After="5")


def _trials(request: Request) -> pages_whatif.Trials:
    """Return the trials of policies that this process has made."""
    state = request.app.state
    if not hasattr(state, "trials"):
        state.trials = pages_whatif.Trials(_service(request).folder)
    found: pages_whatif.Trials = state.trials
    return found


@router.get("/what-if")
async def what_if(request: Request) -> Response:
    """The last week under another policy."""
    trials, policy = _trials(request), request.query_params.get("policy", "")[: pages_whatif.TOLD]
    try:
        found = await _service(request).facts("queue", limit=0)
    except Refusal as refusal:
        return refused(request, refusal)
    response = _page(request, "whatif", policy=policy, names=trials.names, trial=trials.trials.get(policy),
                     running=trials.running, now_policy=found["policy"])  # fmt: skip
    if trials.running:
        response.headers["refresh"] = "3"
    return response


@router.post("/what-if")
async def try_policy(request: Request) -> Response:
    """Begin to repeat the week under a policy."""
    try:
        form = await form_of(request)
    except Refusal as refusal:
        return refused(request, refusal)
    policy = form.get("policy", "").strip()[: pages_whatif.TOLD]
    if policy:
        try:
            _trials(request).begin(policy, await asyncio.to_thread(pages_past.last_event, _service(request).folder))
        except InputError as error:
            return refused(request, _missing(error))
    return RedirectResponse(f"/what-if?{urlencode({'policy': policy})}", 303)


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def _page(request: Request, page: str, code: int = 200, **more: Any) -> Response:
    """Return a page. more: what its template needs."""
    service, now = _service(request), time.time()
    given = {
        "page": page,
        "scripts": [f"{script}.js" for script in SCRIPTS.get(page, ("live",))],
        "read_only": service.read_only,
        "here": request.url.path,
        "path": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "dates": calendar(now), "now_s": now, **more,
    }  # fmt: skip
    _trials(request).find_names()
    text = PAGES.get_template(f"live_{page}.html.j2").render(given)
    return HTMLResponse(text, code, HEADERS)


def refused(request: Request, refusal: Refusal) -> Response:
    """Return a page that says why there is no answer, and comes back by itself if there may be one soon."""
    away = refusal.status == 503
    response = _page(request, "problem", refusal.status, title=TITLES.get(refusal.status, "Error"), detail=str(refusal),
                     away=away)  # fmt: skip
    response.headers.update(refusal.headers)
    if away:
        response.headers["refresh"] = "5"
    return response
