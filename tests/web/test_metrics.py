"""The metrics of a queue over HTTP."""

import asyncio
import threading

import pytest

from backfill.queue.store import Store
from backfill.web import metrics
from backfill.web.problems import Refusal
from tests.patience import completed
from tests.queue.test_metrics import samples


def test_metrics_are_served_to_the_token_alone_and_also_while_the_daemon_is_down(own):
    site = own()
    assert site.submit("true").status_code == 201
    site.live.until(lambda: site.state(1) == "COMPLETED")
    told = site.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(told.text)
    assert (found["up", frozenset()], found["jobs_submitted_total", frozenset()]) == (1, 1)
    assert found["submit_duration_seconds_count", frozenset()] == 1
    assert found["jobs_ended_total", frozenset({("state", "COMPLETED")})] == 1
    with site.new_client() as stranger:
        assert stranger.get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 401
    site.live.run("serve", "--stop")
    found = samples(site.get("/metrics").text)
    assert (found["up", frozenset()], found["jobs_submitted_total", frozenset()]) == (0, 1)


def test_a_long_log_is_counted_once_for_all_who_ask(tmp_path, monkeypatch):
    async def work():
        Store(tmp_path / "store.db").close()
        log, counts, go = metrics.Log(tmp_path), [], threading.Event()
        read = log._counted.read
        log._counted.read = lambda *more: (counts.append(1), go.wait(), read(*more))
        monkeypatch.setattr(metrics, "COUNT_S", 0.01)
        for _ in range(3):
            with pytest.raises(Refusal, match="being counted"):
                await log.values()
        monkeypatch.undo()
        go.set()
        found = await asyncio.gather(*[log.values() for _ in range(5)])
        assert len(counts) == 1
        assert all("jobs_submitted_total" in each for each in found)
        log.close()

    completed(work())
