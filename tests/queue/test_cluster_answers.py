"""What the verbs say of a cluster: why jobs wait, what fits, which nodes there are."""

import json

from tests.queue.test_cluster import cluster, settings  # noqa: F401
from tests.queue.test_slots_nodes import TWO_TYPES


def test_every_answer_of_a_cluster_knows_its_nodes(cluster):  # noqa: F811
    def submit(cpus):
        job = {"need": {"cpus": cpus}, "walltime": 10**13}
        spec = {"argv": ["true"], "cwd": "/"}
        return cluster.request("submit", token=f"token {cluster.t}", job=job, spec=spec)["id"]

    for cluster.t in range(14):  # on six nodes of kind a and four of kind b
        submit(16)
    cluster.t = 14
    waiting = submit(32)
    cluster.until(lambda: cluster.request("queue")["states"].get("RUNNING") == 14)
    said = cluster.run("explain", waiting).stdout
    assert f"job {waiting} waits for cpus on one node: it needs 32, the most that is free on one is 16" in said
    assert "4 of these are large enough for it" in said
    assert "b1 is full until" in said
    assert "submitted again with --cpus-per-task 16" in said
    offered = json.loads(cluster.run("slots", "--json").stdout)
    assert max(one["tasks"] for one in offered["slots"]) == 32
    assert max(one["tasks"] for one in offered["slots"] if one["on_one"]) == 16
    assert "g[1-2]" in cluster.run("slots").stdout
    assert str(waiting) in cluster.run("eta").stdout
    lines = cluster.run("top", "--once").stdout.splitlines()
    (kind,) = [line for line in lines if line.startswith("b[1-4]")]
    assert "/128 cpus" in kind
    found = {one["told"]: one for one in json.loads(cluster.run("doctor", "--json", check=None).stdout)["findings"]}
    assert any(told.startswith("12 nodes with 256 cpus") for told in found)
    assert any(told.startswith("a[1-6]: jobs hold ") for told in found)
    assert not any("have a supervisor" in told for told in found)
    cluster.run("cancel", "--all")


LIMITED = """\
[[node]]
name = "n"
count = 2
cpus = 8
[[limit]]
name = "users"
per = "user"
running = {cpus = 2}
"""


def test_slots_offers_no_more_than_limits_leave_to_the_user_who_asks(live):
    (live.folder / "cluster.toml").write_text(LIMITED)
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:1"')
    assert max(one["tasks"] for one in json.loads(live.run("slots", "--json").stdout)["slots"]) == 2
    number = live.submit("-c", 2, "-t", "10:00:00", "--", "true")
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    assert json.loads(live.run("slots", "--json").stdout)["slots"] == []
    head, why, *_ = live.run("slots").stdout.splitlines()
    assert head.startswith("nothing fits now")
    assert why == "  limit users (running cpus of root) leaves nothing"
    other = live.request("slots", user="somebody else")["slots"]
    assert max(one["tasks"] for one in other) == 2


def test_edit_and_slots_keep_to_the_type_of_gpus_that_is_asked_for(live):
    (live.folder / "cluster.toml").write_text(TWO_TYPES.replace("count = 3\n", ""))
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:1"')
    number = live.submit("-H", "-G", "v100:1", "--", "true")
    live.run("edit", "-G", "a100:2", number)
    job = live.job(number)
    assert (job["constraint"], job["need"]["gpus"]) == ("a100", 2)
    offered = json.loads(live.run("slots", "-G", "a100:2", "--json").stdout)["slots"]
    assert {one["nodes"] for one in offered} == {"g"}
    assert "no node has the feature 'h100'" in live.run("slots", "-G", "h100:2", check=2).stderr
