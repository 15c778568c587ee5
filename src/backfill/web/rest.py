"""The REST interface, version 1: the requests of the socket as resources, their answers as the verbs print them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from backfill.web.service import Service

router = APIRouter(prefix="/v1")
JSON = "application/json"


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


@router.get("/jobs")
async def jobs(request: Request, limit: Annotated[int, Query(ge=1, le=10_000)] = 100) -> Response:
    """List open jobs."""
    return Response(await _service(request).line("queue", estimates=True, limit=limit), media_type=JSON)
