"""The events of the log as they happen (server-sent events): each with its position, by which a client goes on.

A client has a position and no buffer: what it has not taken yet stays in the log. The last events are kept in memory,
so that many clients read them once from the disk.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backfill.daemon.shown import event_data
from backfill.model.units import seconds
from backfill.queue.store import StoreError
from backfill.web.followed import Followed
from backfill.web.problems import Refusal

HEARTBEAT_S = 15.0
LOOK_S = 0.1  # between looks at the log
UNREAD_S = 60.0  # after which a client that takes nothing is disconnected
LATEST, BATCH = 5000, 500  # events in memory; read from the log at once
STREAMS = 200  # clients at once
INSIDE = ("pass", "plan", "shown")  # kinds that are sent only to a client that names them
BULKY = ("array", "epoch", "capacity", "plan", "shown", "restored")  # kinds whose data is not sent
UNSAID = ("token", "boot", "anchor")  # fields that are not sent


@dataclass(frozen=True, slots=True)
class Sent:
    """An event as it is sent."""

    seq: int
    kind: str
    job: int
    text: bytes


@dataclass(frozen=True)
class Wanted:
    """The events that a client wants; empty fields select everything but INSIDE."""

    kinds: frozenset[str] = frozenset()
    jobs: frozenset[int] = frozenset()

    def has(self, event: Sent) -> bool:
        """Return whether an event is among them."""
        kind = event.kind in self.kinds if self.kinds else event.kind not in INSIDE
        return kind and (not self.jobs or event.job in self.jobs)


class Feed:
    """The events of one queue. They are read while there are clients, by one thread."""

    def __init__(self, folder: Path) -> None:
        self._log = Followed(folder / "store.db")
        self._reader = ThreadPoolExecutor(1, "events")
        self._skew, self._skew_of = 0, -1  # see Store.skew; of which of the lives
        self._latest: deque[Sent] = deque(maxlen=LATEST)
        self.last = -1  # position of the last event that was read; -1 before the first look
        self.ending = False  # this process ends: streams do so as well
        self._news = asyncio.Event()
        self._streams = 0
        self._watching: asyncio.Task[None] | None = None

    @property
    def lives(self) -> int:
        """How often another log took the place of the one that was read."""
        return self._log.lives

    async def begin(self) -> int:
        """Count a client, and return the position of the last event. Raises Refusal if there are too many."""
        if self._streams >= STREAMS:
            raise Refusal(503, f"{self._streams} clients follow the events already", "busy", Retry_After="10")
        self._streams += 1
        if self._watching is None:
            self._latest.clear()
            self.last = -1
            try:
                await self._look()
            except (StoreError, OSError) as error:
                self._streams -= 1
                raise Refusal(503, str(error), "away", Retry_After="1") from None
            if self._watching is None:  # nobody was faster
                self._watching = asyncio.create_task(self._watch())
        return self.last

    def end(self) -> None:
        """A client has left."""
        self._streams -= 1
        if not self._streams and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def close(self) -> None:
        """Stop reading."""
        if self._watching is not None:
            self._watching.cancel()
        self._reader.submit(self._log.close)
        self._reader.shutdown(wait=True)

    async def after(self, place: int) -> list[Sent]:
        """Return the next events behind a position; empty if there are none now."""
        if place >= self.last:
            return []
        if self._latest and self._latest[0].seq <= place + 1:
            first = max(place + 1 - self._latest[0].seq, 0)
            return [self._latest[at] for at in range(first, min(first + BATCH, len(self._latest)))]
        try:
            return await self._read(place)
        except (StoreError, OSError):  # the next look finds out
            return []

    async def news(self, timeout_s: float) -> None:
        """Wait for another event, or for this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(StoreError, OSError):  # for instance between a removed store and the one written anew
                while await self._look():
                    pass

    async def _look(self) -> bool:
        """Read the events that are new; return whether there may be more."""
        last, lives = self.last, self.lives
        if last < 0:
            self.last = await asyncio.get_running_loop().run_in_executor(self._reader, self._end)
            return False
        found = await self._read(last)
        if lives != self.lives:  # another log: its positions have nothing to do with those of the one before
            self._latest.clear()
            self.last = await asyncio.get_running_loop().run_in_executor(self._reader, self._end)
        elif found:
            self._latest += found
            self.last = found[-1].seq
        else:
            return False
        news, self._news = self._news, asyncio.Event()
        news.set()
        return len(found) == BATCH

    async def _read(self, place: int) -> list[Sent]:
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._from_store, place)

    # ------------------------------------------------------------------ in the thread that reads

    def _end(self) -> int:
        return self._log.store().seq

    def _from_store(self, place: int) -> list[Sent]:
        store = self._log.store()
        if self._skew_of != self.lives:
            self._skew, self._skew_of = store.skew(), self.lives
        return [self._sent(*each) for each in store.raw_events(place, BATCH)]

    def _sent(self, seq: int, t: int, kind: str, job: int, data: dict[str, Any]) -> Sent:
        if kind in ("up", "clock") and data.get("skew") is not None:
            self._skew = data["skew"]
        shown = {} if kind in BULKY else event_data(data, self._skew)
        shown = {name: value for name, value in shown.items() if name not in UNSAID}
        row = {"seq": seq, "t_s": seconds(t, self._skew), "kind": kind, "job": job or None, "data": shown}
        return Sent(seq, kind, job, f"id: {seq}\ndata: {json.dumps(row)}\n\n".encode())


class Stream(Response):
    """The events behind a position, until the client leaves. still: returns whether it may go on."""

    def __init__(self, feed: Feed, place: int | None, wanted: Wanted, still: Callable[[], bool]) -> None:
        super().__init__(
            media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
        )
        del self.headers["content-length"]
        self._feed, self._place, self._wanted, self._still = feed, place, wanted, still

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events as the client takes them."""
        now = await self._feed.begin()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            left = asyncio.create_task(_leaves(receive))
            try:
                async for block in self._blocks(now):
                    if left.done():
                        break
                    async with asyncio.timeout(UNREAD_S):
                        await send({"type": "http.response.body", "body": block, "more_body": True})
                async with asyncio.timeout(UNREAD_S):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:  # it takes nothing: the connection ends with an error, and the client comes back
                raise ConnectionResetError("the client does not read") from None
            finally:
                left.cancel()
        finally:
            self._feed.end()

    async def _blocks(self, now: int) -> AsyncIterator[bytes]:
        feed, lives = self._feed, self._feed.lives
        place = now if self._place is None else self._place
        if place > now:  # of a log that was replaced by an older one
            yield b"event: reset\ndata: {}\n\n"
            place = now
        yield b"retry: 1000\nid: %d\n\n" % place
        beat = time.monotonic() + HEARTBEAT_S
        while self._still() and not feed.ending:
            if lives != feed.lives:
                lives, place = feed.lives, feed.last
                yield b"event: reset\ndata: {}\n\nid: %d\n\n" % place
            if some := await feed.after(place):
                place = some[-1].seq
                if block := b"".join(event.text for event in some if self._wanted.has(event)):
                    yield block
                    beat = time.monotonic() + HEARTBEAT_S
                    continue
            else:
                await feed.news(max(min(beat - time.monotonic(), 1.0), 0.01))
            if time.monotonic() > beat:
                yield b": heartbeat\nid: %d\n\n" % place  # the position moves on without an event
                beat = time.monotonic() + HEARTBEAT_S


async def _leaves(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
