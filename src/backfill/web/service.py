"""The queue as the handlers of this process use it: requests to the daemon, and its store, read only."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from backfill.client.calling import STARTING, Problem, Queue
from backfill.queue.schema import REQUESTS, Refused, check
from backfill.queue.store import StoreError
from backfill.system.home import group_name, owner, user_name
from backfill.web.events import Feed
from backfill.web.followed import Followed
from backfill.web.link import Link
from backfill.web.problems import Refusal, of_problem

Facts = dict[str, Any]
Found = TypeVar("Found")
READS, QUESTIONS, CHANGES = 2, 2, 16  # requests that the daemon works on at once, however many clients this process has
READ_S, QUESTION_S, CHANGE_S = 10.0, 60.0, 10.0  # how long an answer may take
STARTING_S = 10.0  # how long a question waits for a planner that is being started
REST_S = 0.05  # most time between two reads of the daemon on one connection; at least as long as the read took
FRESH_S = 1.0  # how long an answer is used again if no event has happened since
KEPT = 100  # answers that are kept
ASKED = {"explain", "eta", "slots", "test", "test_project", "switch"}  # answered by copies of the planner
SHARED = {"queue", "eta", "explain", "ping", "plan"}  # reads whose answers many clients share
ALSO_CHANGE = {"policy", "stop"}  # requests that change more than the queue
SLOW = 2  # long computations of this process at once, such as statistics of the whole log


class Shared:
    """An answer that several clients wait for. seq: of the last event when it was asked for."""

    def __init__(self, seq: int, answer: "asyncio.Task[bytes]") -> None:
        self.seq, self.answer, self.asked = seq, answer, time.monotonic()
        self.begun = False


class Service:
    """A queue, reached from this process. read_only: nothing may be changed through it."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        self.folder, self.read_only = folder, read_only
        self.feed = Feed(folder)
        self._reads = Link(str(folder), READS, REST_S)
        self._questions = Link(str(folder), QUESTIONS)
        self._changes = Link(str(folder), CHANGES)
        self._starting, self._slow = asyncio.Lock(), asyncio.Semaphore(SLOW)
        self._threads = ThreadPoolExecutor(SLOW, "slow")  # its own, so that short work never waits for long
        self._answers: dict[str, Shared] = {}
        self._log = Followed(folder / "store.db")

    @property
    def submitter(self) -> Facts:
        """The user and group as which jobs are submitted: those of the queue's owner."""
        return _submitter(owner(str(self.folder)), os.getgid())

    async def facts(self, what: str, **more: Any) -> Facts:
        """Return the answer to a request of the daemon. Raises Refusal."""
        found: Facts = json.loads(await self.line(what, **more))
        return found

    async def line(self, what: str, **more: Any) -> bytes:
        """Return the answer to a request of the daemon as received: JSON in one line. Raises Refusal."""
        self.check(what, more)

        async def ask() -> bytes:
            return (await self._asked(what, [more]))[0]

        if what in SHARED:
            fresh_s = 0.0 if what == "ping" else FRESH_S  # whether the daemon answers is asked anew
            return await self.shared(f"{what} {json.dumps(more, sort_keys=True)}", ask, fresh_s)
        return await ask()

    async def lines(self, what: str, requests: list[Facts]) -> list[bytes]:
        """Return the answers to several changes that are sent at once, errors as received. Raises Refusal.

        Their fields must have been checked.
        """
        self.check_change(what)
        return await self._asked(what, requests, alone=False)

    async def change(self, what: str, request: Facts) -> Facts:
        """Return the answer to a change whose fields have been checked. Raises Refusal."""
        self.check_change(what)
        found: Facts = json.loads((await self._asked(what, [request]))[0])
        return found

    def check(self, what: str, request: Mapping[str, Any]) -> None:
        """Check a request as the daemon would, before it is sent. Raises Refusal."""
        self.check_change(what)
        try:
            if inner := {"do", "v"} & request.keys():
                raise Refused(f"{min(inner)!r} is not a field of {what}", field=min(inner))
            check({**request, "do": what})
        except Refused as refused:
            raise Refusal(400, str(refused), refused.code, refused.field) from None

    def check_change(self, what: str) -> None:
        """Raise Refusal for a request that changes something, if that is not allowed here."""
        if self.read_only and self.changes(what):
            raise Refusal(403, "this page is read-only; use one that is served without --read-only", "read-only")

    @staticmethod
    def changes(what: str) -> bool:
        """Return whether a request changes anything."""
        return REQUESTS[what].changes or what in ALSO_CHANGE

    async def slowly(self, work: Callable[[], Found]) -> Found:
        """Return the result of a long computation, in another thread, after others that were asked for before."""
        try:
            async with asyncio.timeout(QUESTION_S), self._slow:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            raise Refusal(503, "this process is busy; ask again later", "busy", Retry_After="10") from None
        except Problem as problem:
            raise of_problem(problem) from None

    async def alone(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """Return the result of long work in another process, after others that were asked for before."""
        async with self._slow:
            return await work()

    async def _asked(self, what: str, requests: list[Facts], alone: bool = True) -> list[bytes]:
        """Return the answers to requests. alone: there is one, whose error is raised."""
        try:
            if what in ASKED:
                return [await self._question(what, requests[0])]
            changes = self.changes(what)
            link, timeout_s = (self._changes, CHANGE_S) if changes else (self._reads, READ_S)
            try:
                return await _sent(link, what, requests, timeout_s, alone)
            except Problem as problem:
                if problem.kind != "away" or not changes:
                    raise
            await self._start()
            return await _sent(link, what, requests, timeout_s, alone)
        except Problem as problem:
            raise of_problem(problem) from None

    async def _question(self, what: str, request: Facts) -> bytes:
        """Ask a copy of the planner; a planner that is being started is waited for."""
        end = time.monotonic() + STARTING_S
        while True:
            try:
                return await self._questions.ask(what, QUESTION_S, **request)
            except Problem as problem:
                if problem.code != STARTING or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)

    async def _start(self) -> None:
        """Start the daemon as every change by the command line does. Raises Problem."""
        async with self._starting:
            await asyncio.to_thread(lambda: Queue(str(self.folder)).close())

    # ------------------------------------------------------------------ answers that many clients share

    async def shared(self, key: str, ask: Callable[[], Awaitable[bytes]], fresh_s: float = FRESH_S) -> bytes:
        """Return an answer that was asked for since the last event, or is asked for now; many clients ask once.

        key: of requests that have the same answer. fresh_s: how long one is used again.
        """
        seq, known = self._seq(), self._answers.get(key)
        if known is None or not self._serves(known, seq, fresh_s):
            known = self._ask_for_all(key, seq, known, ask)
        # One client that leaves must not take the answer from the others.
        return await asyncio.shield(known.answer)

    def _serves(self, known: Shared, seq: int, fresh_s: float) -> bool:
        if not known.begun:  # it waits for the answer before it: what it says will be new enough
            return True
        failed = known.answer.done() and (known.answer.cancelled() or known.answer.exception() is not None)
        return not failed and 0 < known.seq == seq and time.monotonic() - known.asked < fresh_s

    def _ask_for_all(self, key: str, seq: int, before: Shared | None, ask: Callable[[], Awaitable[bytes]]) -> Shared:
        async def answer() -> bytes:
            if before is not None and not before.answer.done():
                await asyncio.wait([before.answer])
            made.begun, made.seq, made.asked = True, self._seq(), time.monotonic()
            return await ask()

        made = Shared(seq, asyncio.create_task(answer()))
        made.answer.add_done_callback(seen)
        self._answers.pop(key, None)
        self._answers[key] = made
        for old in [*self._answers][: max(len(self._answers) - KEPT, 0)]:
            if self._answers[old].answer.done():
                del self._answers[old]
        return made

    def _seq(self) -> int:
        """Return the position of the last event; 0 if the store cannot be read now."""
        try:
            return self._log.store().seq
        except (StoreError, OSError):
            self._log.close()
            return 0

    def close(self) -> None:
        """Close the connections to the daemon, and the store."""
        for link in (self._reads, self._questions, self._changes):
            link.close()
        self.feed.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._log.close()


@cache  # the system reads its files for each of the names
def _submitter(uid: int, gid: int) -> Facts:
    return {"user": user_name(uid), "group": group_name(gid)}


def seen(task: "asyncio.Future[Any]") -> None:
    """Note the error of an answer whose clients have all left."""
    if not task.cancelled():
        task.exception()


async def _sent(link: Link, what: str, requests: list[Facts], timeout_s: float, alone: bool) -> list[bytes]:
    if alone:
        return [await link.ask(what, timeout_s, **requests[0])]
    return await link.ask_all(what, requests, timeout_s)
