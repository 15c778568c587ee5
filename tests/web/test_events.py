"""Server-sent events: nothing is missed, whoever ends meanwhile, and who does not read costs nothing."""

import asyncio
import json
import threading

import pytest

from backfill.queue.store import Store
from backfill.web import events
from backfill.web.events import Feed, Stream, Wanted
from backfill.web.problems import Refusal
from tests.patience import completed, until


class Follower:
    """A client in a thread of its own that keeps what it receives."""

    def __init__(self, site, path="/v1/events", **headers):
        self.told, self.last, self.lines = [], "", []
        self._response = None
        self._begun, self._client = threading.Event(), site.new_client()
        self._thread = threading.Thread(target=self._follow, args=(path, headers), daemon=True)
        self._thread.start()
        until(lambda: self.last)

    def _follow(self, path, headers):
        try:
            with self._client.stream("GET", path, headers=headers) as self._response:
                for line in self._response.iter_lines():
                    self.lines.append(line)
                    if line.startswith("id: "):
                        self.last = line.removeprefix("id: ")
                    elif line.startswith("data: "):
                        self.told.append(json.loads(line.removeprefix("data: ")))
        except Exception as error:  # the connection ends with the client
            self.lines.append(repr(error))

    def kinds(self, job):
        return [one["kind"] for one in self.told if one["job"] == job]

    def end(self):
        self._client.close()


def test_the_life_of_a_job_is_followed(site):
    follower = Follower(site)
    number = site.submit("true").json()["id"]
    until(lambda: "end" in follower.kinds(number))
    kinds = follower.kinds(number)
    assert [kind for kind in kinds if kind in ("submit", "start", "end")] == ["submit", "start", "end"]
    end = next(one for one in follower.told if (one["kind"], one["job"]) == ("end", number))
    assert end["data"]["state"] == "COMPLETED"
    now_s = site.get("/v1/jobs").json()["now_s"]
    assert all(0 <= now_s - one["t_s"] < 3600 for one in follower.told)
    assert [one["seq"] for one in follower.told] == sorted({one["seq"] for one in follower.told})
    follower.end()


def test_who_comes_back_misses_nothing(site):
    first = site.submit("true").json()["id"]
    until(lambda: site.state(first) == "COMPLETED")
    whole = Follower(site, "/v1/events?since=0")
    until(lambda: "end" in whole.kinds(first))
    middle = whole.told[len(whole.told) // 2]["seq"]
    again = Follower(site, **{"Last-Event-ID": str(middle)})
    until(lambda: "end" in again.kinds(first))
    end = next(one["seq"] for one in whole.told if (one["kind"], one["job"]) == ("end", first))
    seen = [[one["seq"] for one in each.told if middle < one["seq"] <= end] for each in (again, whole)]
    assert seen[0] == seen[1]
    assert again.told[0]["seq"] > middle
    for follower in (whole, again):
        follower.end()


def test_events_of_one_job_and_of_some_kinds(site):
    number = site.submit("true").json()["id"]
    until(lambda: site.state(number) == "COMPLETED")
    one = Follower(site, f"/v1/jobs/{number}/events?since=0")
    ends = Follower(site, "/v1/events?since=0&kind=end&kind=submit")
    until(lambda: "end" in one.kinds(number))
    until(lambda: "end" in ends.kinds(number))
    assert {told["job"] for told in one.told} == {number}
    assert {told["kind"] for told in ends.told} == {"end", "submit"}
    for follower in (one, ends):
        follower.end()


def test_a_daemon_that_is_killed_is_no_gap(own):
    site = own()
    follower = Follower(site)
    before = site.submit("sleep", "1000").json()["id"]
    until(lambda: "start" in follower.kinds(before))
    site.live.kill(site.live.daemon())
    site.live.run("serve", "--detach")
    after = site.submit("true").json()["id"]
    until(lambda: "end" in follower.kinds(after))
    store = Store(site.live.folder / "store.db", readonly=True)
    begin = int(next(line for line in follower.lines if line.startswith("id: ")).removeprefix("id: "))
    logged = [entry.seq for entry in store.events(begin, but=events.INSIDE) if entry.seq <= follower.told[-1]["seq"]]
    store.close()
    assert [one["seq"] for one in follower.told] == logged
    assert "reset" not in "".join(follower.lines)
    follower.end()


class Taker:
    """An ASGI connection that takes what it is sent, or does not."""

    def __init__(self, takes=True):
        self.sent, self.takes, self.open = [], takes, True
        self._left = asyncio.Event()

    async def receive(self):
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)
        while not self.takes and message["type"] == "http.response.body":
            await asyncio.sleep(0.01)

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    def leave(self):
        self._left.set()


@pytest.fixture
def feed(tmp_path):
    Store(tmp_path / "store.db").close()
    return Feed(tmp_path)


async def follow(feed, taker, still=lambda: True):
    await Stream(feed, None, Wanted(), still)({}, taker.receive, taker.send)


def test_a_quiet_stream_says_that_it_lives(feed, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)

    async def work():
        taker = Taker()
        task = asyncio.create_task(follow(feed, taker))
        while ": heartbeat" not in taker.text:
            await asyncio.sleep(0.01)
        taker.leave()
        await task
        feed.close()

    completed(work())


def test_who_does_not_read_is_disconnected_and_keeps_no_buffer(feed, monkeypatch):
    monkeypatch.setattr(events, "UNREAD_S", 0.05)

    async def work():
        taker = Taker(takes=False)
        with pytest.raises(ConnectionResetError):
            await follow(feed, taker)
        assert len(taker.sent) <= 2
        feed.close()

    completed(work())


def test_a_stream_ends_with_its_token(feed):
    async def work():
        allowed = [True]
        taker = Taker()
        task = asyncio.create_task(follow(feed, taker, lambda: allowed[0]))
        while not taker.text:
            await asyncio.sleep(0.01)
        allowed[0] = False
        await task
        assert not taker.sent[-1]["more_body"]
        feed.close()

    completed(work())


def test_there_are_only_so_many_streams(feed, monkeypatch):
    monkeypatch.setattr(events, "STREAMS", 2)

    async def work():
        for _ in range(2):
            await feed.begin()
        with pytest.raises(Refusal, match="2 clients follow"):
            await feed.begin()
        feed.end()
        await feed.begin()
        feed.close()

    completed(work())


def test_another_log_in_its_place_is_said(feed, tmp_path, monkeypatch):
    async def work():
        taker = Taker()
        task = asyncio.create_task(follow(feed, taker))
        while not taker.text:
            await asyncio.sleep(0.01)
        Store(tmp_path / "other.db").close()
        (tmp_path / "other.db").replace(tmp_path / "store.db")
        while "event: reset" not in taker.text:
            await asyncio.sleep(0.01)
        taker.leave()
        await task
        feed.close()

    completed(work())
