"""The page of the queue."""

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)


@router.get("/")
async def queue(request: Request) -> Response:
    """The first page."""
    return HTMLResponse("<!doctype html><title>backfill</title>\n")
