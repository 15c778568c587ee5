"""The metrics of a queue over HTTP."""

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
