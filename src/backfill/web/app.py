"""The application: REST, events, metrics and pages on one queue, behind one check of each request."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from backfill.web import login, metrics, pages, rest
from backfill.web.problems import Refusal, document
from backfill.web.safety import Guarded, Safety
from backfill.web.service import Service

VERSION = "1"


def application(service: Service, safety: Safety) -> ASGIApp:
    """Return the application: every request is checked, then answered."""
    return Guarded(Direct(described(service, safety)), safety)


def described(service: Service, safety: Safety) -> FastAPI:
    """Return the handlers. They find the queue as `request.app.state.service`, safety as `.safety`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.log.close()
        service.close()

    app = FastAPI(
        title="backfill", version=VERSION, openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name.replace(" ", "_"),
    )  # fmt: skip
    app.state.service, app.state.safety = service, safety
    app.state.log = metrics.Log(service.folder)
    for module in (rest, login, metrics, pages):
        app.include_router(module.router)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _mistake)
    return app


Handler = Callable[[Request], Awaitable[Response]]


class Direct:
    """Calls the handlers that take nothing but the request; all others are found and called by FastAPI.

    FastAPI's own work on a request, which they do not need, takes as long as the rest of a submit.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._handlers: dict[tuple[str, str], Handler] = {
            (method, route.path): route.endpoint
            for route in rest.router.routes
            if isinstance(route, Route) and [*inspect.signature(route.endpoint).parameters] == ["request"]
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        handler = self._handlers.get((scope.get("method", ""), scope.get("path", "")))
        if handler is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        request = Request(scope, receive)
        try:
            answer = await handler(request)
        except Refusal as refusal:
            answer = document(refusal)
        except Exception as error:
            await (await _mistake(request, error))(scope, receive, send)
            raise  # for the log
        await answer(scope, receive, send)


async def _refused(request: Request, error: Exception) -> Response:
    return document(cast(Refusal, error))


async def _not_routed(request: Request, error: Exception) -> Response:
    found = cast(HTTPException, error)
    detail = {404: f"there is no {request.url.path}", 405: f"{request.method} is not possible here"}
    refusal = Refusal(found.status_code, detail.get(found.status_code, str(found.detail)))
    refusal.headers = dict(found.headers or {})
    is_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    return pages.refused(request, refusal) if is_page else document(refusal)


async def _invalid(request: Request, error: Exception) -> Response:
    first = cast(RequestValidationError, error).errors()[0]
    field = str(first["loc"][-1])
    return document(Refusal(400, f"{field}: {first['msg']}; got {first.get('input')!r:.60}", "usage", field))


async def _mistake(request: Request, error: Exception) -> Response:
    return document(Refusal(500, f"{type(error).__name__}; see the output of serve --web", "internal"))
