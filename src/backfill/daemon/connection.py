"""One client of the daemon: requests come in, a line each, and are answered in their order, however long each takes."""

import asyncio
import os
import resource
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from backfill.daemon.shown import parts
from backfill.queue.schema import Refused
from backfill.queue.shapes import JsonObject
from backfill.system.home import LINE, peer

CLIENTS = 10_000  # fewer where this process may not have so many files
ASKING = 256  # places that are kept for those who do not wait for jobs
STEP_S = 0.01  # for which requests of one client are taken in one go
PIPELINED = 10_000  # requests of one connection that may wait for their answers
PATIENCE_S = 10.0  # with a client that does not read, or has gone and left requests behind
UNREAD = 1 << 20  # bytes, after which a client that does not read them is sent no more
SENT = 1 << 17  # bytes of answers that are sent in one go
IDLE_S = 2.0  # after which a client that asks for nothing makes way for another one


class Answer:
    """The answer to a request, which is called with it once; `gone` if nobody will read it.

    ready: is called when the answer is there; unwanted: if the client goes before that.
    """

    def __init__(self, ready: Callable[[], object] = lambda: None) -> None:
        self._ready = ready
        self.told: JsonObject | None = None
        self.gone = False
        self.unwanted: Callable[[], object] | None = None

    def __call__(self, told: JsonObject) -> None:
        """Answer, unless that has been done."""
        if self.told is None:
            self.told = told
            self._ready()

    def leave(self) -> None:
        """The client is gone."""
        self.gone = True
        if self.told is None and self.unwanted is not None:
            self.unwanted()


class Server(Protocol):
    """Who answers.

    idle: those connections that have all their answers and ask for nothing, longest first. ready: those that have an
    answer that is to be sent.
    """

    connections: "set[Connection]"
    idle: "dict[Connection, None]"
    ready: "set[Connection]"

    def hear(self, line: bytes, reply: Answer) -> None:
        """Take a request; `reply` is called when it is answered, at once or later."""

    def poke(self) -> None:
        """Something came in. When it is dealt with, `Connection.send` is called of those that are ready."""


class Connection(asyncio.Protocol):
    """See above. Answers are sent by `send`, all that are ready together."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rest = b""  # of a line that is not whole yet
        self._lines: deque[bytes] = deque()  # requests that are not taken yet
        self._closing = False  # no more lines come
        self._answers: deque[Answer] = deque()  # to each request
        self._out: deque[bytes] = deque()  # parts of an answer that are not sent yet
        self._since = time.monotonic()  # when it asked for something, or had its last answer
        self._ended = False  # no more requests
        self._unread = False  # the client does not read its answers
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; only with the owner of the queue."""
        self._transport = cast(asyncio.Transport, transport)
        if not _is_owner(transport.get_extra_info("socket")):
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(UNREAD)
        told = _make_room(self._server)
        if told:
            self._transport.writelines(parts(Refused(told, "busy").answer()))
            self._transport.close()
            return
        self._server.connections.add(self)
        self._note_idle()

    @property
    def idle_s(self) -> float:
        """For how long it has had all its answers and asked for nothing."""
        return 0.0 if self._answers or self._lines or self._out else time.monotonic() - self._since

    def _note_idle(self) -> None:
        """Keep its place among those that are idle, or take one."""
        if self._answers or self._lines or self._out:
            self._server.idle.pop(self, None)
        elif self not in self._server.idle and self in self._server.connections:
            self._since = time.monotonic()
            self._server.idle[self] = None

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone; nobody will read the answers."""
        for answer in self._answers:
            answer.leave()
        self._server.connections.discard(self)
        self._server.ready.discard(self)
        self._server.idle.pop(self, None)
        self._be_patient(False)

    def data_received(self, data: bytes) -> None:
        """Take all requests that are whole."""
        if self._ended:
            return
        *lines, self._rest = (self._rest + data).split(b"\n") if b"\n" in data else (self._rest + data,)
        self._lines += lines
        if len(self._rest) > LINE:
            self._lines.append(self._rest)
        self._work()

    def _work(self) -> None:
        """Take requests for a moment; the rest when others have been served."""
        end = time.perf_counter() + STEP_S
        while self._lines and time.perf_counter() < end:
            self._take(self._lines.popleft())
        if self._lines or len(self._answers) >= PIPELINED:
            self._transport.pause_reading()
        if self._lines:
            asyncio.get_running_loop().call_soon(self._work)
        elif self._closing:
            self._end()
        elif not self._ended:
            self._read_on()
        self._note_idle()
        self.send()  # what is known at once
        self._server.poke()

    def _read_on(self) -> None:
        """Read more requests, unless there are enough."""
        enough = self._lines or self._ended or self._unread or len(self._answers) >= PIPELINED
        if not enough and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()

    def _take(self, line: bytes) -> None:
        if self._ended:
            return
        answer = Answer(lambda: self._server.ready.add(self))
        self._answers.append(answer)
        if len(line) > LINE:
            answer(Refused(f"the request is longer than {LINE >> 20} MiB", "size").answer())
            self._end()
        else:
            self._server.hear(line, answer)

    def send(self) -> None:
        """Send the answers that are ready and have no other one before them, as fast as the client reads."""
        answers, out = self._answers, self._out
        if self._transport.is_closing():
            return
        while not self._unread:
            some, size = [], 0
            while size < SENT and (out or (answers and answers[0].told is not None)):
                if not out:
                    out += parts(answers.popleft().told or {})
                some.append(out.popleft())
                size += len(some[-1])
            if not some:
                break
            self._transport.write(b"".join(some))
        self._note_idle()
        if self._ended and not (answers or out):
            self._transport.close()
        else:
            self._read_on()

    def close(self) -> None:
        """No more requests; what is answered is sent."""
        self._transport.close()

    def eof_received(self) -> bool:
        """The client asks for nothing more, and may wait for answers still, unless it has gone altogether."""
        self._closing = True
        if not self._lines:
            self._end()
        return bool(self._lines) or (bool(self._answers) and not _hung_up(self._transport.get_extra_info("socket")))

    def _end(self) -> None:
        self._ended, self._rest = True, b""
        self._lines.clear()
        self._be_patient(True)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._unread = True
        self._transport.pause_reading()
        self._be_patient(True)

    def resume_writing(self) -> None:
        """It does again."""
        self._unread = False
        self._be_patient(self._ended)
        self.send()
        self._read_on()

    def _be_patient(self, with_it: bool) -> None:
        if self._patience is not None:
            self._patience.cancel()
        later = asyncio.get_running_loop().call_later
        self._patience = later(PATIENCE_S, self._transport.abort) if with_it else None


def places() -> int:
    """Return how many clients there may be: this process needs files for more than them."""
    return min(CLIENTS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _make_room(server: Server) -> str:
    """Return why there is no room for another client, if there is none; one that has long been idle makes way."""
    there = len(server.connections)
    if there < places():
        return ""
    idle = next(iter(server.idle), None)
    if idle is not None and idle.idle_s > IDLE_S:
        idle.close()
        return ""
    return f"{there:,} clients are connected, as many as there may be; ask again later"


def _hung_up(sock: socket.socket) -> bool:
    """Whether the other end is closed in both directions."""
    there = select.poll()
    there.register(sock.fileno(), 0)
    return bool(there.poll(0))


def _is_owner(sock: socket.socket) -> bool:
    """Whether the process at the other end belongs to the owner of this queue, or to root."""
    return peer(sock) in (None, os.getuid(), 0)
