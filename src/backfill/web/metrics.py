"""The metrics of the queue in the text format of Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

router = APIRouter(include_in_schema=False)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics."""
    return PlainTextResponse("", media_type=TYPE)
