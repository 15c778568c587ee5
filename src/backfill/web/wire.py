"""The HTTP protocol of the page: uvicorn's on httptools, with bounds on what comes before a request is complete."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MOST, HEAD_S = 64 << 10, 30.0  # bytes of a request line and its headers; how long they may take to arrive


class Bounded(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too long, or do not come."""

    _read = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._in_head:
            self._read += len(data)
        super().data_received(data)
        if not self._in_head:
            self._stop_timer()
        elif self._read > HEAD_MOST:
            self.transport.close()
        elif self._timer is None:
            self._start_timer()

    def on_message_begin(self) -> None:
        """See httptools."""
        if not self._in_head:
            self._in_head, self._read = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._in_head = False
        super().on_headers_complete()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
