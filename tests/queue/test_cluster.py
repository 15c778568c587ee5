"""A queue that decides on a cluster: nodes of three kinds, whose jobs only take their time."""

import json
import shutil

import pytest

CLUSTER = """\
name = "twelve"
[[node]]
name = "a"
count = 6
cpus = 16
memory = "64G"
[[node]]
name = "b"
count = 4
cpus = 32
memory = "128G"
[[node]]
name = "g"
count = 2
cpus = 16
memory = "128G"
gpus = 4
[[licence]]
name = "matlab"
copies = 3
"""


@pytest.fixture
def cluster(live):
    """A queue on twelve nodes whose clock runs 600 times as fast."""
    (live.folder / "cluster.toml").write_text(CLUSTER)
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:600"')
    return live


def settings(live, *lines):
    (live.folder / "config.toml").write_text("\n".join(['policy = "easy"', *lines, ""]))


def starts(live):
    """Where and when each job was started."""
    found = json.loads(live.run("show", *[job["id"] for job in ended(live)], "--json").stdout)["jobs"]
    return {
        job["id"]: [data | {"t": t} for t, kind, data in job["events"] if kind in ("start", "began")] for job in found
    }


def ended(live):
    found = live.request("queue", ended=1000, limit=1000)["jobs"]
    return [job for job in found if job["end_s"] is not None]


def test_jobs_run_on_the_nodes_that_the_policy_decided_and_never_beyond_what_these_have(cluster):
    for cpus in (16, 8, 32, 2, 12, 16, 4, 30, 16, 16, 7, 9):
        cluster.submit_quickly("true", cpus=cpus)
    gpu = cluster.request("submit", token="gpus", job={"need": {"cpus": 1, "gpus": 3}, "walltime": 600_000_000},
                          spec={"argv": ["true"]})["id"]  # fmt: skip
    some = [
        cluster.request("submit", token=f"m{n}", job={"need": {"cpus": 1, "matlab": 2}, "walltime": 600_000_000},
                        spec={"argv": ["true"], "cwd": "/"})["id"] for n in range(3)
    ]  # fmt: skip
    cluster.until(lambda: not cluster.request("queue")["states"])
    told = starts(cluster)
    assert len(told) == 16
    assert {len(each) for each in told.values()} == {1}
    assert told[gpu][0]["nodes"][0][0].startswith("g")
    begun, over = [sorted(job[name] for job in ended(cluster) if job["id"] in some) for name in ("start_s", "end_s")]
    assert all(start >= end for start, end in zip(begun[1:], over, strict=False)), "two of them do not fit at once"
    assert "no job ran twice or beyond what there is" in cluster.run("doctor", "--deep").stdout


def test_another_daemon_goes_on_with_the_same_cluster(cluster):
    number = cluster.submit("-t", "10:00:00", "-c", "16", "--wrap", "true")
    other = cluster.submit("-t", "10:00:00", "-c", "16", "--wrap", "true")
    cluster.until(lambda: cluster.request("queue")["states"].get("RUNNING") == 2)
    cluster.kill(cluster.daemon())
    before = cluster.job(number)
    assert before["state"] == "RUNNING"
    cluster.run("cancel", other)
    assert cluster.job(other)["state"] == "CANCELLED"
    assert cluster.job(number)["start_s"] == before["start_s"]
    cluster.run("serve", "--stop")
    assert cluster.job(number)["attempt"] == 1


def test_what_no_node_has_is_refused(cluster):
    assert "the machine has 256 cpus" in cluster.run("submit", "-c", "400", "--", "true", check=3).stderr


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['platform = "cluster.toml"'], 'has 12 nodes, and this machine is one; expected pool = "fake:1"'),
        (['platform = "cluster.toml"', 'pool = "fake:1"', "cpus = 3"], "cpus is set, and the platform says it"),
        (['platform = "nosuch.toml"', 'pool = "fake:1"'], "nosuch.toml: cannot be read"),
        (['pool = "fake:0"'], "pool is 'fake:0'; expected local, fake:SPEED"),
        (['pool = "fake:speed=x"'], "pool is 'fake:speed=x'; expected local, fake:SPEED"),
        (['pool = "fake:size=3"'], "expected local, fake:SPEED, or fake: with speed, failures"),
        (['platform = "cluster.toml"', 'pool = "fake:1"', "[licence.ansys]", "copies = 1"], "no such floating licence"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(cluster, lines, told):
    settings(cluster, *lines)
    message = cluster.run("queue", check=4).stderr
    assert told in message
    assert message.count("\n") == 1


def test_serve_begins_a_queue_and_changes_none(live, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    (folder / "cluster.toml").write_text(CLUSTER)
    (folder / "broken.toml").write_text("node = 3\n")
    (live.folder / "config.toml").unlink()
    asked = ["--pool", "fake:600", "--detach"]
    assert "broken.toml" in live.run("serve", *asked, "--platform", folder / "broken.toml", check=2).stderr
    assert not (live.folder / "config.toml").exists()
    assert not (live.folder / "platform.toml").exists()
    for _ in range(2):
        live.run("serve", *asked, "--platform", folder / "cluster.toml")
    assert live.request("queue")["capacity"]["cpus"] == 256
    assert "pool is 'fake:600', not 'fake:60'" in live.run("serve", "--pool", "fake:60", check=2).stderr
    (folder / "cluster.toml").write_text(CLUSTER.replace("count = 6", "count = 7"))
    assert "is another platform" in live.run("serve", "--platform", folder / "cluster.toml", check=2).stderr
    live.run("serve", "--stop")
    shutil.copy(folder / "cluster.toml", live.folder / "platform.toml")  # changed there
    assert live.request("queue")["capacity"]["cpus"] == 272


def test_a_queue_keeps_its_pool(live):
    live.run("wait", live.submit("--", "true"))
    live.run("serve", "--stop")
    settings(live, 'pool = "fake:60"')
    assert "the jobs of this queue are those of pool local" in live.run("queue", check=4).stderr
