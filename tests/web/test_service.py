"""What reaches the daemon of what clients ask: without a daemon, by answers that the test gives."""

import asyncio

import pytest

from backfill.client.calling import Problem
from backfill.queue.store import Store
from backfill.web import service
from backfill.web.problems import Refusal
from backfill.web.service import Service
from tests.patience import completed


class Asked:
    """The daemon: counts requests, and answers when the test says so."""

    def __init__(self):
        self.count, self.most, self.now, self.go = 0, 0, 0, asyncio.Event()
        self.fails = False

    async def ask(self, what, timeout_s, **more):
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        number = self.count
        try:
            await self.go.wait()
        finally:
            self.now -= 1
        if self.fails:
            raise Problem("it failed", 4, "busy")
        return b"%d" % number


def served(tmp_path):
    """A service whose reads are answered by the test."""
    Store(tmp_path / "store.db").close()
    found, asked = Service(tmp_path), Asked()
    found._reads.ask = asked.ask
    return found, asked


def test_many_readers_share_an_answer_and_none_gets_an_older_one_than_it_asked_for(tmp_path, monkeypatch):
    async def work():
        site, asked = served(tmp_path)
        seq = [7]
        monkeypatch.setattr(Service, "_seq", lambda self: seq[0])
        first = asyncio.create_task(site.line("queue", limit=10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seq[0] += 1  # an event, after the first was asked for
        later = [asyncio.create_task(site.line("queue", limit=10)) for _ in range(50)]
        await asyncio.sleep(0)
        asked.go.set()
        assert await first == b"1"
        assert {await each for each in later} == {b"2"}  # one more request for all of them
        assert await site.line("queue", limit=10) == b"2"  # nothing has happened since
        seq[0] += 1
        assert await site.line("queue", limit=10) == b"3"
        assert await site.line("queue", limit=11) == b"4"  # another question
        assert (asked.count, asked.most) == (4, 1)
        site.close()

    completed(work())


def test_an_answer_is_used_again_only_for_a_moment(tmp_path, monkeypatch):
    async def work():
        site, asked = served(tmp_path)
        monkeypatch.setattr(Service, "_seq", lambda self: 7)
        asked.go.set()
        assert await site.line("queue") == await site.line("queue") == b"1"
        monkeypatch.setattr(service, "FRESH_S", 0)
        assert await site.line("queue") == b"2"
        monkeypatch.setattr(Service, "_seq", lambda self: 0)  # a store that cannot be read: nothing is known of events
        assert await site.line("queue") == b"3"
        assert await site.line("queue") == b"4"
        site.close()

    completed(work())


def test_a_client_that_leaves_takes_the_answer_from_no_other(tmp_path, monkeypatch):
    async def work():
        site, asked = served(tmp_path)
        monkeypatch.setattr(Service, "_seq", lambda self: 7)
        leaves, stays = (asyncio.create_task(site.line("queue")) for _ in range(2))
        await asyncio.sleep(0)
        leaves.cancel()
        asked.go.set()
        assert await stays == b"1"
        site.close()

    completed(work())


def test_an_error_is_not_kept(tmp_path, monkeypatch):
    async def work():
        site, asked = served(tmp_path)
        monkeypatch.setattr(Service, "_seq", lambda self: 7)
        asked.fails = True
        asked.go.set()
        with pytest.raises(Refusal, match="it failed"):
            await site.line("queue")
        asked.fails = False
        assert await site.line("queue") == b"2"
        site.close()

    completed(work())


def test_kept_answers_are_bounded(tmp_path, monkeypatch):
    async def work():
        site, asked = served(tmp_path)
        monkeypatch.setattr(Service, "_seq", lambda self: 7)
        asked.go.set()
        for limit in range(3 * service.KEPT):
            await site.line("queue", limit=limit)
        assert len(site._answers) <= service.KEPT
        site.close()

    completed(work())


def test_a_request_cannot_name_another_one(tmp_path):
    site, _ = served(tmp_path)
    for name in ("do", "v"):
        with pytest.raises(Refusal, match=f"'{name}' is not a field of queue"):
            site.check("queue", {name: "stop"})
    site.close()


def test_a_read_only_service_changes_nothing(tmp_path):
    Store(tmp_path / "store.db").close()
    site = Service(tmp_path, read_only=True)
    ids = {"ids": [1]}
    for what, request in (("cancel", ids), ("policy", {"policy": "easy"}), ("stop", {}), ("pause", {})):
        with pytest.raises(Refusal, match="read-only") as refusal:
            site.check(what, request)
        assert refusal.value.status == 403
    site.check("queue", {})
    site.check("switch", {"policy": "easy"})
    site.close()
