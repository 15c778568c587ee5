"""The metrics of the queue in the text format of Prometheus."""

import asyncio
import time
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from backfill.answers.metrics import TYPE, Counted, exposition
from backfill.queue.store import Store, StoreError
from backfill.web.problems import Refusal
from backfill.web.service import Service

router = APIRouter(include_in_schema=False)


class _Log:
    """What the log of a queue tells; one request at a time reads on."""

    def __init__(self) -> None:
        self._counted, self._lock = Counted(), Lock()

    def values(self, service: Service) -> dict[str, Any]:
        """Return counters and histograms. Raises StoreError."""
        with self._lock:
            store = Store(service.folder / "store.db", readonly=True)
            try:
                self._counted.read(store)
            finally:
                store.close()
            return {**self._counted.values()}


_logs: WeakKeyDictionary[Service, _Log] = WeakKeyDictionary()


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics; of a queue whose daemon is down, those that its log tells, and `backfill_up 0`."""
    service: Service = request.app.state.service
    try:
        values: dict[str, Any] = (await service.facts("metrics"))["values"]
    except Refusal:
        values = {"up": [({}, 0)]}
    try:
        told = await asyncio.to_thread(_logs.setdefault(service, _Log()).values, service)
    except StoreError as error:
        raise Refusal(503, str(error), "store") from None
    values |= {"written_timestamp_seconds": [({}, time.time())], **told}
    return PlainTextResponse(exposition(values), media_type=TYPE)
