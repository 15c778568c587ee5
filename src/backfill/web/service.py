"""The queue as the handlers of this process use it: requests to the daemon, and its store, read only."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from backfill.client.calling import STARTING, Problem, Queue
from backfill.queue.schema import REQUESTS, Refused, check
from backfill.system.home import group_name, owner, user_name
from backfill.web.link import Link
from backfill.web.problems import Refusal, of_problem

Facts = dict[str, Any]
READS, QUESTIONS, CHANGES = 2, 2, 16  # requests that the daemon works on at once, however many clients this process has
READ_S, QUESTION_S, CHANGE_S = 10.0, 60.0, 10.0  # how long an answer may take
STARTING_S = 10.0  # how long a question waits for a planner that is being started
ASKED = {"explain", "eta", "slots", "test", "test_project", "switch"}  # answered by copies of the planner
ALSO_CHANGE = {"policy", "stop"}  # requests that change more than the queue


class Service:
    """A queue, reached from this process. read_only: nothing may be changed through it."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        self.folder, self.read_only = folder, read_only
        self._reads = Link(str(folder), READS)
        self._questions = Link(str(folder), QUESTIONS)
        self._changes = Link(str(folder), CHANGES)
        self._starting = asyncio.Lock()

    @property
    def submitter(self) -> Facts:
        """The user and group as which jobs are submitted: those of the queue's owner."""
        uid = owner(str(self.folder))
        return {"user": user_name(uid), "group": group_name(os.getgid())}

    async def facts(self, what: str, **more: Any) -> Facts:
        """Return the answer to a request of the daemon. Raises Refusal."""
        found: Facts = json.loads(await self.line(what, **more))
        return found

    async def line(self, what: str, **more: Any) -> bytes:
        """Return the answer to a request of the daemon as received: JSON in one line. Raises Refusal."""
        (line,) = await self.lines(what, [more])
        return line

    async def lines(self, what: str, requests: list[Facts]) -> list[bytes]:
        """Return the answers to several requests; of more than one, errors are returned as received."""
        for each in requests:
            self.check(what, each)
        changes = self.changes(what)
        try:
            if what in ASKED:
                return [await self._question(what, requests[0])]
            link, patience_s = (self._changes, CHANGE_S) if changes else (self._reads, READ_S)
            try:
                return await _asked(link, what, requests, patience_s)
            except Problem as problem:
                if problem.kind != "away" or not changes:
                    raise
            await self._start()
            return await _asked(link, what, requests, patience_s)
        except Problem as problem:
            raise of_problem(problem) from None

    def check(self, what: str, request: Facts) -> None:
        """Check a request as the daemon would, before it is sent. Raises Refusal."""
        if self.read_only and self.changes(what):
            raise Refusal(403, "this page is read-only; use one that is served without --read-only", "read-only")
        try:
            check({"do": what, **request})
        except Refused as refused:
            raise Refusal(400, str(refused), refused.code, refused.field) from None

    @staticmethod
    def changes(what: str) -> bool:
        """Return whether a request changes anything."""
        return REQUESTS[what].changes or what in ALSO_CHANGE

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

    def close(self) -> None:
        """Close the connections to the daemon."""
        for link in (self._reads, self._questions, self._changes):
            link.close()


async def _asked(link: Link, what: str, requests: list[Facts], timeout_s: float) -> list[bytes]:
    if len(requests) == 1:
        return [await link.ask(what, timeout_s, **requests[0])]
    return await link.ask_all(what, requests, timeout_s)
