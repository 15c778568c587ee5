"""The connection of one client: requests arrive, a line each, and are answered in order, however long each takes."""

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

CLIENTS = 10_000  # fewer if this process may not open so many files
ASKING = 256  # connections reserved for clients that do not wait for jobs
STEP_S = 0.01  # time for which requests of one client are processed at once
PIPELINED = 10_000  # requests of one connection that may be unanswered
PATIENCE_S = 10.0  # for a client that does not read, or has left requests behind
UNREAD = 1 << 20  # bytes, after which a client that does not read is sent no more
SENT = 1 << 17  # bytes of answers that are sent at once
IDLE_S = 2.0  # after which a client without requests may be disconnected for another one


class Answer:
    """The answer to a request. Call it once with the answer; `gone` is set if no client will read it.

    ready: called when the answer is there; unwanted: called if the client leaves before that.
    """

    def __init__(self, ready: Callable[[], object] = lambda: None) -> None:
        self._ready = ready
        self.value: JsonObject | None = None
        self.gone = False
        self.unwanted: Callable[[], object] | None = None

    def __call__(self, answer: JsonObject) -> None:
        """Set the answer, unless it is set already."""
        if self.value is None:
            self.value = answer
            self._ready()

    def leave(self) -> None:
        """Note that the client has left."""
        self.gone = True
        if self.value is None and self.unwanted is not None:
            self.unwanted()


class Server(Protocol):
    """The server that answers requests.

    idle: connections that have all their answers and send no requests, longest idle first. ready: those with an answer
    to send.
    """

    connections: "set[Connection]"
    idle: "dict[Connection, None]"
    ready: "set[Connection]"

    def hear(self, line: bytes, reply: Answer) -> None:
        """Process a request; `reply` is called with the answer, at once or later."""

    def poke(self) -> None:
        """Note new input; when it is processed, `Connection.send` is called for those that are ready."""


class Connection(asyncio.Protocol):
    """A client connection. `send` sends all answers that are ready together."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rest = b""  # of an incomplete line
        self._lines: deque[bytes] = deque()  # requests that are not processed yet
        self._closing = False  # no more lines arrive
        self._answers: deque[Answer] = deque()  # to each request
        self._out: deque[bytes] = deque()  # parts of answers that are not sent yet
        self._since = time.monotonic()  # time of its last request or answer
        self._ended = False  # no more requests
        self._unread = False  # the client does not read its answers
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection; only from the owner of the queue."""
        self._transport = cast(asyncio.Transport, transport)
        if not _is_owner(transport.get_extra_info("socket")):
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(UNREAD)
        problem = _make_room(self._server)
        if problem:
            self._transport.writelines(parts(Refused(problem, "busy").answer()))
            self._transport.close()
            return
        self._server.connections.add(self)
        self._note_idle()

    @property
    def idle_s(self) -> float:
        """The time for which it has had all its answers and sent no request."""
        return 0.0 if self._answers or self._lines or self._out else time.monotonic() - self._since

    def _note_idle(self) -> None:
        """Update its position among the idle connections."""
        if self._answers or self._lines or self._out:
            self._server.idle.pop(self, None)
        elif self not in self._server.idle and self in self._server.connections:
            self._since = time.monotonic()
            self._server.idle[self] = None

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the client has left; its answers will not be read."""
        for answer in self._answers:
            answer.leave()
        self._server.connections.discard(self)
        self._server.ready.discard(self)
        self._server.idle.pop(self, None)
        self._be_patient(False)

    def data_received(self, data: bytes) -> None:
        """Process all complete requests."""
        if self._ended:
            return
        *lines, self._rest = (self._rest + data).split(b"\n") if b"\n" in data else (self._rest + data,)
        self._lines += lines
        if len(self._rest) > LINE:
            self._lines.append(self._rest)
        self._work()

    def _work(self) -> None:
        """Process requests for a moment; continue after others have been served."""
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
        self.send()  # answers that are already known
        self._server.poke()

    def _read_on(self) -> None:
        """Resume reading requests, unless too many are unanswered."""
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
        """Send the answers that are ready, in the order of their requests, as fast as the client reads."""
        answers, out = self._answers, self._out
        if self._transport.is_closing():
            return
        while not self._unread:
            block, size = [], 0
            while size < SENT and (out or (answers and answers[0].value is not None)):
                if not out:
                    out += parts(answers.popleft().value or {})
                block.append(out.popleft())
                size += len(block[-1])
            if not block:
                break
            self._transport.write(b"".join(block))
        self._note_idle()
        if self._ended and not (answers or out):
            self._transport.close()
        else:
            self._read_on()

    def close(self) -> None:
        """Stop processing requests; answers are still sent."""
        self._transport.close()

    def eof_received(self) -> bool:
        """Stop reading; the client may still wait for answers, unless it has closed both directions."""
        self._closing = True
        if not self._lines:
            self._end()
        return bool(self._lines) or (bool(self._answers) and not _hung_up(self._transport.get_extra_info("socket")))

    def _end(self) -> None:
        self._ended, self._rest = True, b""
        self._lines.clear()
        self._be_patient(True)

    def pause_writing(self) -> None:
        """Pause sending: the client does not read."""
        self._unread = True
        self._transport.pause_reading()
        self._be_patient(True)

    def resume_writing(self) -> None:
        """Resume sending: the client reads again."""
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
    """Return how many clients may connect: this process needs some files for itself."""
    return min(CLIENTS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _make_room(server: Server) -> str:
    """Disconnect a client that was idle for long, to admit another one. Return why that is impossible, if it is."""
    count = len(server.connections)
    if count < places():
        return ""
    idle = next(iter(server.idle), None)
    if idle is not None and idle.idle_s > IDLE_S:
        idle.close()
        return ""
    return f"{count:,} clients are connected, as many as there may be; ask again later"


def _hung_up(sock: socket.socket) -> bool:
    """Return whether the other end is closed in both directions."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))


def _is_owner(sock: socket.socket) -> bool:
    """Return whether the process at the other end belongs to the owner of this queue, or to root."""
    return peer(sock) in (None, os.getuid(), 0)
