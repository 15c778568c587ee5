"""Connections to the daemon: each request has one to itself, so that leaving it ends the work on its answer."""

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from backfill.client.calling import CODES, FAILED, UNREACHABLE, Problem, line_of
from backfill.system.home import LINE, SOCKET, near, owner, peer, user_name

Facts = dict[str, Any]
PATIENCE_S = 1.0  # for a daemon that ends, until the next one serves
PAUSE_S = 0.05
IDLE = 32  # connections that are kept
AWAY = "no daemon serves this queue now; it starts with the next submit"


class Connection(asyncio.Protocol):
    """One connection to the daemon. It is asked one thing at a time."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of answers, as they arrive
        self._left = 0  # answers that have not arrived
        self._whole: asyncio.Future[bytes] | None = None  # all of them
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._parts.append(data)
        self._left -= data.count(b"\n")
        if self._left <= 0 and self._whole is not None and not self._whole.done():
            self._whole.set_result(b"".join(self._parts))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._lost = True
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(ConnectionError())

    async def answers(self, lines: bytes, count: int) -> list[bytes]:
        """Send requests and return their answers. Raises ConnectionError if the daemon ends before the last one."""
        if self._lost or self._parts:  # of an answer that nobody asked for
            raise ConnectionError
        self._left, self._whole = count, asyncio.get_running_loop().create_future()
        self.transport.write(lines)
        try:
            whole = await self._whole
        finally:
            self._whole = None
            self._parts.clear()
        found = [whole] if count == 1 else whole.splitlines(keepends=True)  # JSON has no other line ends in it
        if len(found) != count:
            raise ConnectionError
        return found

    def close(self) -> None:
        """Close the connection; the daemon drops a question that was not answered yet."""
        self.transport.close()


class Link:
    """The way to the daemon of a queue. most: requests that it works on at once.

    rest_s: after a request the next one waits as long as that took, so much at most: the daemon decides meanwhile.
    """

    def __init__(self, folder: str, most: int, rest_s: float = 0.0) -> None:
        self.folder, self._rest_s = folder, rest_s
        self._most = asyncio.Semaphore(most)
        self._idle: deque[Connection] = deque()

    async def ask(self, what: str, timeout_s: float, **more: Any) -> bytes:
        """Return the answer to a request, JSON in a line. Raises Problem.

        A request whose connection breaks is sent again, so it must be one that may be repeated.
        """
        (line,) = await self.ask_all(what, [more], timeout_s)
        if line.startswith(b'{"error"'):
            raise problem_of(json.loads(line))
        return line

    async def ask_all(self, what: str, requests: list[Facts], timeout_s: float) -> list[bytes]:
        """Return the answers to several requests that are sent at once, errors as received. Raises Problem."""
        lines = [line_of({**each, "v": 1, "do": what}) for each in requests]
        if longest := max((len(line) for line in lines), default=0) > LINE:
            size = f"{longest / (1 << 20):.1f} MiB long; expected at most {LINE >> 20}"
            raise Problem(f"the request, with script and environment, is {size}", FAILED, "size")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answered(b"".join(lines), len(lines))
        except TimeoutError:
            problem = f"the daemon has not answered for {timeout_s:.0f} s"
            raise Problem(problem, UNREACHABLE, "away") from None

    async def _answered(self, lines: bytes, count: int) -> list[bytes]:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                async with self._connection() as connection:
                    return await connection.answers(lines, count)
            except (ConnectionError, FileNotFoundError):
                if time.monotonic() > end:
                    raise Problem(AWAY, UNREACHABLE, "away") from None
            except OSError as error:
                raise Problem(f"{self.folder}/{SOCKET}: {error.strerror}", UNREACHABLE, "away") from None
            await asyncio.sleep(PAUSE_S)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Yield a connection that no other request uses; it is closed unless the block ends well."""
        await self._most.acquire()
        begin = time.monotonic()
        try:
            connection = self._idle.pop() if self._idle else await self._connected()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            if len(self._idle) < IDLE:
                self._idle.append(connection)
            else:
                connection.close()
        finally:
            if self._rest_s:
                rest_s = min(time.monotonic() - begin, self._rest_s)
                asyncio.get_running_loop().call_later(rest_s, self._most.release)
            else:
                self._most.release()

    async def _connected(self) -> Connection:
        path = near(os.path.join(self.folder, SOCKET))
        _, made = await asyncio.get_running_loop().create_unix_connection(Connection, path)
        uid, mine = peer(made.transport.get_extra_info("socket")), owner(self.folder)
        if uid not in (None, mine):  # checked before anything is sent
            made.close()
            problem = f"{path} is served by a process of {user_name(uid or 0)}; expected one of {user_name(mine)}"
            raise Problem(problem, UNREACHABLE, "away")
        return made

    def close(self) -> None:
        """Close all connections that are not in use."""
        while self._idle:
            self._idle.pop().close()


def problem_of(answer: Facts) -> Problem:
    """Return an error of the daemon as it reached us."""
    error = answer["error"]
    return Problem(error["message"], CODES.get(error["code"], FAILED), error["code"], error["field"])
