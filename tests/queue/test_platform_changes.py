"""A queue whose platform file is another one when its daemon comes back; and platforms that do not state everything."""

import json

from backfill.queue.book import Book
from backfill.queue.deep import check_deep
from backfill.queue.job import Attempt, Job
from backfill.queue.nodes import MACHINE, Nodes
from tests.queue.test_cluster import settings

NODES = """\
name = "two kinds"
[[node]]
name = "n"
count = 2
cpus = 8
features = ["fast"]
[[node]]
name = "m"
cpus = 4
[[partition]]
name = "x"
nodes = ["n[1-2]"]
default = true
"""
BEFORE = (
    NODES
    + """\
[[licence]]
name = "matlab"
copies = 2
[[partition]]
name = "y"
nodes = ["m"]
"""
)
AFTER = NODES.replace("cpus = 8", "cpus = 6").replace("fast", "slow")


def serve(live, platform):
    """Have a daemon serve the queue on this platform."""
    live.run("serve", "--stop", check=None)
    (live.folder / "cluster.toml").write_text(platform)
    live.run("serve", "--detach")


def reasons(live):
    return {job["name"]: job["reason"] for job in live.request("queue")["jobs"] if job["state"] == "PENDING"}


def test_memory_that_no_node_states_is_not_limited(live):
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:600"')
    serve(live, '[[node]]\nname = "n"\ncount = 2\ncpus = 8\n')
    number = live.submit("--mem", "4G", "-t", "10", "--", "true")
    live.run("wait", number, check=None)
    events = [kind for _, kind, _ in live.job(number)["events"]]
    assert events.count("start") == 1
    assert "declined" not in events


def test_jobs_that_another_platform_can_never_run_are_held_until_one_can(live):
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:1"')
    serve(live, BEFORE)
    for name, *words in (
        ("busy", "--exclusive"),
        ("busy", "--exclusive"),
        ("part", "-p", "y", "--exclusive"),
        ("part", "-p", "y"),
        ("licence", "-L", "matlab:2"),
        ("feature", "-C", "fast"),
        ("large", "-c", "8"),
        ("plain", "-c", "2"),
    ):
        live.submit("-J", name, "-t", "600", *words, "--", "true")
    live.until(lambda: live.request("queue")["states"].get("RUNNING") == 3)
    serve(live, AFTER)
    wanted = dict.fromkeys(("part", "licence", "feature", "large"), "BadConstraints")
    found = live.until(lambda: (now := reasons(live)).get("plain") == "Resources" and now)
    assert found == {**wanted, "plain": "Resources"}
    jobs = {job["name"]: job["id"] for job in live.request("queue")["jobs"] if job["state"] == "PENDING"}
    for name, told in (("part", "'y' is unknown"), ("licence", "matlab"), ("feature", "'fast'"), ("large", "6 cpus")):
        why = live.run("explain", jobs[name]).stdout
        assert f"job {jobs[name]} can never start on this platform: " in why
        assert told in why
    log = (live.folder / "daemon.log").read_text()
    assert f"job {jobs['large']} can never run on this platform, and is held" in log
    assert "PENDING (BadConstraints)" in live.run("show", jobs["large"]).stdout
    live.run("eta")
    live.run("edit", jobs["large"], "-c", "6")
    live.until(lambda: reasons(live)["large"] == "Resources")
    serve(live, BEFORE)
    live.until(lambda: "BadConstraints" not in {*reasons(live).values()} and reasons(live))
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []
    assert json.loads(live.run("queue", "--json").stdout)["policy"] == "easy"


def test_jobs_that_run_or_are_held_meanwhile_are_judged_when_they_come_back(live):
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:1"')
    serve(live, BEFORE)
    runs = live.submit("-J", "runs", "-t", "600", "-p", "y", "--requeue", "--", "true")
    held = live.submit("-J", "held", "-t", "600", "-p", "y", "-H", "--", "true")
    live.until(lambda: live.job(runs)["state"] == "RUNNING")
    serve(live, AFTER)
    serve(live, AFTER)
    assert reasons(live) == {"held": "JobHeldUser"}
    live.run("release", held)
    live.run("requeue", runs)
    live.until(lambda: reasons(live) == {"held": "BadConstraints", "runs": "BadConstraints"})
    live.run("release", held)
    live.until(lambda: reasons(live)["held"] == "BadConstraints")


def test_a_promise_on_nodes_that_are_others_by_now_is_not_kept_on_them(live):
    text = 'policy = "conservative"\nplatform = "cluster.toml"\npool = "fake:1"\n'
    (live.folder / "config.toml").write_text(text)
    serve(live, BEFORE)
    live.submit("-t", "600", "-c", "8", "-C", "n1", "--", "true")
    live.submit("-t", "300", "-c", "8", "-C", "n2", "--", "true")
    fast = live.submit("-t", "60", "-c", "8", "-C", "fast", "--", "true")
    live.until(lambda: live.job(fast)["promise_s"])
    swapped = BEFORE.replace("[[node]]", '[[node]]\nname = "n2"\ncpus = 8\n[[node]]', 1)
    serve(live, swapped.replace('name = "n"\ncount = 2', 'name = "n1"'))
    live.until(lambda: live.run("explain", fast).stdout.count("n1") and "on n2" not in live.run("explain", fast).stdout)
    live.run("eta")


def test_jobs_of_a_store_that_knew_one_node_only_hold_what_they_have():
    book = Book(nodes=Nodes({MACHINE: {"cpus": 4}}))
    book.restore(Job(1, state="RUNNING", need={"cpus": 3}, attempt=Attempt(1, 0)))
    assert book.held == {"cpus": 3}
    assert book.touched == {1}
