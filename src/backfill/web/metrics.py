"""The metrics of the queue in the text format of Prometheus."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from backfill.answers.metrics import TYPE, Counted, exposition
from backfill.queue.store import Store, StoreError
from backfill.web.problems import Refusal
from backfill.web.service import Service, seen

router = APIRouter(include_in_schema=False)
COUNT_S = 8.0  # how long a request waits for the log to be counted; Prometheus gives up after 10 s


class Log:
    """Metrics from the log of a queue, counted by one thread for all requests."""

    def __init__(self, folder: Path) -> None:
        self._path, self._counted, self._goes_on = folder / "store.db", Counted(), True
        self._thread = ThreadPoolExecutor(1, "metrics")
        self._task: asyncio.Future[dict[str, Any]] | None = None

    async def values(self) -> dict[str, Any]:
        """Return counters and histograms. Raises StoreError, and Refusal as long as a long log is being counted."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().run_in_executor(self._thread, self._count)
            self._task.add_done_callback(seen)
        try:
            async with asyncio.timeout(COUNT_S):
                return await asyncio.shield(self._task)
        except TimeoutError:
            problem = "the log is long and being counted; ask again later"
            raise Refusal(503, problem, "busy", Retry_After="10") from None

    def close(self) -> None:
        """Stop counting."""
        self._goes_on = False
        self._thread.shutdown(wait=False)

    def _count(self) -> dict[str, Any]:
        store = Store(self._path, readonly=True)
        try:
            self._counted.read(store, lambda: self._goes_on)
        finally:
            store.close()
        return {**self._counted.values()}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics; of a queue whose daemon is down, those that its log tells, and `backfill_up 0`."""
    service: Service = request.app.state.service
    log: Log = request.app.state.log
    try:
        values: dict[str, Any] = (await service.facts("metrics"))["values"]
    except Refusal:
        values = {"up": [({}, 0)]}
    try:
        counted = await log.values()
    except StoreError as error:
        raise Refusal(503, str(error), "store") from None
    values |= {"written_timestamp_seconds": [({}, time.time())], **counted}
    return PlainTextResponse(exposition(values), media_type=TYPE)
