"""A queue that decides on a cluster: nodes of three kinds, which are simulated."""

import json
import shutil
from itertools import pairwise

import pytest

from backfill.queue.deep import check_deep

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


OF_A_FILE = """
import backfill as bf
from backfill.verbs import start_heads


@bf.policy("mine", params={"k": bf.Param(3, low=1, high=9)}, compiled=False)
def mine(state):
    start_heads(state)
"""


def settings(live, *lines):
    (live.folder / "config.toml").write_text("\n".join(['policy = "easy"', *lines, ""]))


def starts(live):
    """Return where and when each job was started."""
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
    assert "no job ran twice or beyond the capacity" in cluster.run("doctor", "--deep").stdout


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


def test_what_its_pool_cannot_do_to_jobs_is_refused(cluster):
    number = cluster.submit("-t", "100:00:00", "--wrap", "true")
    cluster.until(lambda: cluster.job(number)["state"] == "RUNNING")
    told = "backfill: the pool of this queue cannot {} jobs\n"
    assert cluster.run("suspend", number, check=2).stderr == told.format("suspend")
    assert cluster.run("cancel", "--signal", "USR1", number, check=2).stderr == told.format("signal")
    assert not cluster.job(number)["suspended"]


def test_what_no_node_has_is_refused(cluster):
    for words, told in (
        (["-c", 400], "the job asks for 400 cpus; no node has more than 32 cpus"),
        (["-N", 13], "the job asks for 13 nodes of 1 cpu; of the 12 nodes on which it may run 12 have that"),
        (["-L", "matlab:4"], "the job asks for 4 matlab; there are 3 licences of it"),
        (["--exclusive"], "are not alike; expected equal nodes to place a job on whole nodes"),
    ):
        assert told in cluster.run("submit", *words, "--", "true", check=3).stderr
    ignored = "ignored options, which this queue does not have: --partition"
    assert ignored in cluster.run("submit", "-p", "short", "--", "true").stderr
    number = cluster.submit("-H", "--", "true")
    assert "no node has more than 32" in cluster.run("edit", number, "--cpus", 40, check=3).stderr


def test_a_job_asks_for_nodes_in_the_words_of_slurm(cluster):
    four = cluster.submit("-t", "100:00:00", "-N", 2, "--ntasks-per-node=2", "-c", 4, "--mem", "1G", "--", "true")
    alone = cluster.submit("-t", "60", "--exclusive", "-C", "a1", "--", "true")
    beside = cluster.submit("-t", "60", "-C", "a1", "-c", 16, "--", "true")
    cluster.until(lambda: len(cluster.job(four).get("nodes", [])) == 2)
    line = next(line for line in cluster.run("queue").stdout.splitlines() if line.split()[0] == str(four))
    assert line.split()[3:5] == ["16", "2G"]
    told = cluster.run("show", four, alone).stdout
    assert "needs       2 nodes of 8 cpus, 1G" in told
    assert "needs       1 cpu, whole nodes" in told
    cluster.run("cancel", four)
    cluster.until(lambda: len(ended(cluster)) == 3)
    where = {number: events[0] for number, events in starts(cluster).items()}
    assert len({name for name, *_ in where[four]["nodes"]}) == 2
    assert where[alone]["nodes"] == [["a1", 1, True]]
    (found,) = [job for job in ended(cluster) if job["id"] == alone]
    assert where[beside]["start_s"] >= found["end_s"]


def test_a_workload_is_fed_and_its_jobs_take_their_time(cluster):
    rows = [
        f"{n},{30 * n},{60 + n},900,{n % 3 + 1},{n % 8 + 1},{'ana' if n % 2 else 'bob'},{n - 1 or ''}"
        for n in range(1, 9)
    ]
    text = "\n".join(["job,submit,runtime,walltime,tasks,cpus,user,after", *rows, "10,0,9,9,1,99,ana,", ""])
    (cluster.folder / "jobs.csv").write_text(text)
    done = cluster.run("submit", "--from", "jobs.csv", "--json", check=3)
    told = json.loads(done.stdout)
    assert (told["queued"], [*told["refused"].values()]) == (8, [1])
    cluster.until(lambda: not cluster.request("queue")["states"])
    jobs = sorted(ended(cluster), key=lambda job: int(job["name"]))
    assert [round(job["end_s"] - job["start_s"]) for job in jobs] == [60 + n for n in range(1, 9)]
    assert [job["user"] for job in jobs[:2]] == ["ana", "bob"]
    assert all(later["start_s"] >= before["end_s"] for before, later in pairwise(jobs))
    assert cluster.run("submit", "--from", "nosuch.csv", check=3).stderr.startswith("backfill: nosuch.csv: ")
    again = cluster.run("submit", "--from", "jobs.csv", check=3).stdout.splitlines()
    assert again[0].startswith("8 jobs of jobs queued, arriving over 4.0 min: ")
    assert again[1] == "refused: 1 job: the job asks for 99 cpus; no node has more than 32 cpus"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['platform = "cluster.toml"'], 'has 12 nodes, and this machine is one; expected pool = "fake:1"'),
        (['platform = "cluster.toml"', 'pool = "fake:1"', "cpus = 3"], "cpus is set, and the platform sets it too"),
        (['platform = "nosuch.toml"', 'pool = "fake:1"'], "nosuch.toml: cannot be read"),
        (['pool = "fake:0"'], "pool is 'fake:0'; expected a speed above 0"),
        (['pool = "fake:failures=2"'], "pool is 'fake:failures=2'; expected failures from 0 to 1"),
        (['pool = "fake:speed=x"'], "pool is 'fake:speed=x'; expected local, slurm, htcondor, fake:SPEED"),
        (['pool = "fake:size=3"'], "expected local, slurm, htcondor, fake:SPEED, fake: with speed, failures"),
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
    whole = [*asked, "--platform", folder / "cluster.toml", "--policy", "eazy"]
    assert "did you mean easy?" in live.run("serve", *whole, check=2).stderr
    assert {path.name for path in live.folder.iterdir()} == set()  # no queue was made
    for _ in range(2):
        live.run("serve", *asked, "--platform", folder / "cluster.toml")
    assert live.request("queue")["capacity"]["cpus"] == 256
    assert "pool is 'fake:600', not 'fake:60'" in live.run("serve", "--pool", "fake:60", check=2).stderr
    (folder / "cluster.toml").write_text(CLUSTER.replace("count = 6", "count = 7"))
    assert "is another platform" in live.run("serve", "--platform", folder / "cluster.toml", check=2).stderr
    live.run("serve", "--stop")
    shutil.copy(folder / "cluster.toml", live.folder / "platform.toml")  # changed there
    assert live.request("queue")["capacity"]["cpus"] == 272


def test_serve_drops_no_setting(live, tmp_path_factory):
    (live.folder / "cluster.toml").write_text(CLUSTER)
    (live.folder / "config.toml").unlink()
    asked = ["--pool", "fake:600", "--platform", "cluster.toml"]
    for option in ("--stop", "--install"):
        assert f"without {option}" in live.run("serve", *asked, option, check=2).stderr
    assert "without --dry-run" in live.run("serve", *asked, "--policy", "easy", "--dry-run", check=2).stderr
    live.run("serve", *asked, "--policy", "easy", "--detach")
    found = live.request("queue")
    assert (found["policy"], found["capacity"]["cpus"]) == ("easy", 256)

    other = tmp_path_factory.mktemp("begun")
    here = {"BACKFILL_HOME": str(other)}
    live.run("serve", "--detach", **here)
    for words in (asked[:2], asked[2:], [*asked, "--policy", "easy"]):
        refused = live.run("serve", *words, "--detach", check=2, **here).stderr
        assert f"{other} is a queue that has begun without {' '.join(words[:2])}" in refused
    assert not [*other.glob("*.toml")]
    live.run("serve", "--stop", **here)


def test_the_clock_of_a_simulated_cluster_waits_for_the_planner(cluster):
    (cluster.folder / "slow.py").write_text(f"import time\n\ntime.sleep(2)\n{OF_A_FILE}")  # it loads after the submit
    lines = ('policy = "slow.py:mine"', 'platform = "cluster.toml"', 'pool = "fake:1000"', "")
    (cluster.folder / "config.toml").write_text("\n".join(lines))
    for number in (1, 2):
        assert cluster.submit("-t", "1:00:00", "--", "true") == number
        cluster.run("wait", number)
        job = cluster.job(number)
        assert job["start_s"] - job["submit_s"] < 0.001
        cluster.run("serve", "--stop")


def test_a_queue_keeps_its_pool_while_jobs_are_open(live):
    done, held = live.submit("--", "true"), live.submit("-H", "--", "true")
    live.run("wait", done)
    live.run("serve", "--stop")
    text = (live.folder / "config.toml").read_text()
    settings(live, 'pool = "fake:60"')
    told = live.run("queue", check=4).stderr
    assert "pool is fake, and 1 open job of this queue belong to pool local" in told
    (live.folder / "config.toml").write_text(text)
    live.run("cancel", held)
    live.run("serve", "--stop")
    settings(live, 'pool = "fake:6000"')
    again = live.submit("-t", "1:00:00", "--", "true")
    live.run("wait", again)
    assert live.request("ping")["pool"] == "fake"
    assert [live.job(one)["state"] for one in (done, held, again)] == ["COMPLETED", "CANCELLED", "COMPLETED"]
    live.run("serve", "--stop")
    (live.folder / "config.toml").write_text(text)
    live.run("wait", live.submit("--", "true"))
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []
    live.run("replay", live.folder, "--check")


def test_a_pool_that_cannot_be_is_told_by_the_option_that_named_it(live):
    (live.folder / "config.toml").unlink()
    told = live.run("serve", "--pool", "fake:0", check=2).stderr
    assert told == "backfill: --pool is 'fake:0'; expected a speed above 0\n"


def test_the_first_policy_of_a_queue_takes_over_from_none(live):
    assert live.run("serve", "--policy", "fcfs").stdout.startswith("policy fcfs decides, until")
    assert live.run("serve", "--policy", "easy").stdout.startswith("policy easy takes over from fcfs, until")


def test_a_policy_is_named_with_its_parameters(live):
    live.run("serve", "--policy", "k-reservations:k=3")
    told = live.run("serve", "--policy", "preemptive:how=requeue").stdout
    assert told.startswith("policy preemptive:how=requeue takes over from k-reservations:k=3, until")
    (live.folder.parent / "mine.py").write_text(OF_A_FILE)
    live.run("serve", "--policy", f"{live.folder.parent}/mine.py:mine:k=4")
    assert live.run("slots").stdout.endswith("policy mine:k=4\n")
    assert live.run("serve", "--policy", "easy", "--dry-run").stdout.startswith("easy in place of mine:k=4: ")


def test_slots_of_a_cluster_without_gpus_do_not_speak_of_a_machine(live):
    (live.folder / "cluster.toml").write_text('resources = ["cpus"]\n[[node]]\nname = "n[1-2]"\ncpus = 4\n')
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:60"')
    told = live.run("slots", "-G", 1, check=None).stderr
    assert "the job asks for 1 gpu; the cluster has 0 gpus" in told


def test_history_tells_the_cpus_of_all_tasks_and_of_whole_nodes(cluster):
    tasks = cluster.submit("-t", "1", "-n", 6, "-c", 4, "--", "true")
    whole = cluster.submit("-t", "1", "--exclusive", "-C", "b1", "-c", 2, "--", "true")
    cluster.run("wait", tasks, whole)
    found = {job["id"]: job for job in json.loads(cluster.run("history", "--json").stdout)["jobs"]}
    assert (found[tasks]["cpus"], found[tasks]["parts"]) == (24, 6)
    assert sum(count for _, count, *_ in found[tasks]["nodes"]) == 6
    assert (found[whole]["cpus"], found[whole]["exclusive"], found[whole]["nodes"][0][0]) == (32, True, "b1")
    rows = {int(words[0]): words for words in map(str.split, cluster.run("history").stdout.splitlines()[1:3])}
    assert {number: words[rows[tasks].index("24")] for number, words in rows.items()} == {tasks: "24", whole: "32"}
    (summed,) = json.loads(cluster.run("history", "--by", "user", "--json").stdout)["users"]
    held = {number: (job["end_s"] - job["start_s"]) * job["cpus"] / 3600 for number, job in found.items()}
    assert summed["cpu_h"] == pytest.approx(sum(held.values()))


def test_a_platform_of_one_node_may_be_this_machine(live):
    (live.folder / "box.toml").write_text('[[node]]\nname = "box"\ncpus = 2\n')
    settings(live, 'platform = "box.toml"')
    number, whole = live.submit("-c", "2", "-t", "1", "--", "true"), live.submit("--exclusive", "-t", "1", "--", "true")
    live.run("wait", number, whole)
    assert live.job(number)["nodes"] == [["box", 1]]
    assert "no job ran twice or beyond the capacity" in live.run("doctor", "--deep").stdout
    live.run("serve", "--stop")
    assert "all the same" in live.run("replay", live.folder, "--check").stdout
