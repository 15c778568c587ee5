"""A queue that watches Slurm, whose commands are scripts here that print what a file says."""

import json
import os
import re
import stat
import time

import pytest

from backfill.model.errors import UsageError
from backfill.pools.slurm import mark_of
from backfill.worlds.live import Planner, load_policy
from tests.patience import until
from tests.queue.conftest import live  # noqa: F401
from tests.schemas import check

APART = "\x1f"
COLUMNS = (
    "JobArrayID", "SubmitTime", "UserName", "Account", "Partition", "StateCompact", "Reason", "TimeLimit", "StartTime",
    "EndTime", "NumTasks", "MaxNodes", "tres-alloc", "tres-per-node", "tres-per-job", "tres-per-task", "Feature",
    "Licenses", "NodeList", "OverSubscribe", "RestartCnt", "exit_code", "admin_comment", "Dependency", "EligibleTime",
    "ReqNodes", "Comment",
    "Name",
)  # fmt: skip
USUAL = {
    "UserName": "ann", "Account": "(null)", "Partition": "main", "Reason": "None", "TimeLimit": "10:00",
    "StartTime": "N/A", "EndTime": "N/A", "NumTasks": "1", "MaxNodes": "1", "tres-alloc": "cpu=1,node=1",
    "tres-per-node": "N/A", "tres-per-job": "N/A", "tres-per-task": "N/A", "Feature": "(null)", "Licenses": "(null)",
    "OverSubscribe": "OK", "RestartCnt": "0", "exit_code": "0", "admin_comment": "(null)", "Dependency": "(null)",
    "EligibleTime": "N/A", "ReqNodes": "", "NodeList": "", "Comment": "(null)",
    "Name": "wrap",
}  # fmt: skip
NODE = (
    "NodeName={name} CPUTot=4 RealMemory=4000 State={state} Partitions=main AllocTRES= AvailableFeatures=(null) "
    "Gres={gres} CfgTRES=cpu=4\n"
)
CONFIG = (
    "BOOT_TIME = 1795562763\nClusterName = tiny\nSelectTypeParameters = CR_CORE\nSlurmUser = slurm(64030)\n"
    "SLURM_CONF = /etc/slurm/slurm.conf\nJobSubmitPlugins = all_partitions\nSchedulerParameters = bf_interval=1\n"
)
ECHO = "#!/bin/sh\n[ -f {folder}/silent ] && echo 'squeue: error: Unable to contact slurm controller' >&2 && exit 1\n"
ASKED = '[ $# -gt 0 ] && echo "$*" >> {folder}/called || cat >> {folder}/asked\n'


class Cluster:
    """What `squeue` and `scontrol` show."""

    def __init__(self, folder):
        self.folder, self.jobs, self.states = folder, {}, {"n1": "IDLE", "n2": "IDLE"}
        for name, file in (("squeue", "jobs"), ("scontrol", "nodes")):
            script = folder / name
            asked = ASKED.format(folder=folder) if name == "scontrol" else ""
            script.write_text(ECHO.format(folder=folder) + f"{asked}cat {folder}/{file}\n")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        for name in ("scancel", "sbatch"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/acted\n")
            (folder / name).chmod(0o755)
        (folder / "sdiag").write_text("#!/bin/sh\nexit 1\n")  # not that of this machine, which would look for its Slurm
        (folder / "sdiag").chmod(0o755)
        (folder / "asked").touch()
        self.show()

    def job(self, number, submit, state="PD", **more):
        more = {name.replace("_", "-") if name.startswith("tres") else name: value for name, value in more.items()}
        known = self.jobs.get(number, USUAL | {"JobArrayID": number, "SubmitTime": str(submit)})
        self.jobs[number] = known | {"StateCompact": state} | more
        self.show()

    def acts(self):
        """Return the changes requested of scontrol, except for the nodes of jobs."""
        asked = (self.folder / "asked").read_text().splitlines()
        return [line for line in asked if line.split()[0] in ("update", "hold", "uhold", "release", "requeuehold")]

    def called(self):
        """Return the arguments of each call of scontrol."""
        file = self.folder / "called"
        return file.read_text().splitlines() if file.exists() else []

    def show(self):
        lines = "".join(APART.join(job[name] for name in COLUMNS) + APART + "\n" for job in self.jobs.values())
        nodes = "".join(NODE.format(name=name, state=state, gres="(null)") for name, state in self.states.items())
        for file, text in (
            ("jobs", lines),
            ("nodes", CONFIG + nodes + "PartitionName=main Default=YES Nodes=n[1-2]\n"),
        ):
            (self.folder / "new").write_text(text)
            os.replace(self.folder / "new", self.folder / file)


@pytest.fixture
def cluster(tmp_path_factory):
    return Cluster(tmp_path_factory.mktemp("slurm"))


@pytest.fixture
def watching(live, cluster):  # noqa: F811
    (live.folder / "config.toml").unlink()
    live.env["PATH"] = f"{cluster.folder}:{live.env['PATH']}"
    return live


def rows(queue):
    return {row["label"]: row for row in queue.request("queue")["jobs"]}


def test_what_slurm_shows_is_what_the_queue_shows(watching, cluster):
    now = int(time.time()) - 10
    cluster.job("7", now, "R", tres_alloc="cpu=4,node=1", NodeList="n1", StartTime=str(now + 1))
    cluster.job("8", now + 2, tres_alloc="cpu=8,node=2", NumTasks="2", MaxNodes="2", StartTime=str(now + 900))
    cluster.job("9_1", now + 3, Reason="JobHeldUser")
    cluster.job("10", now + 4, Name="quick|one", TimeLimit="1:00")  # it fits beside the others, and is not started
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    until(lambda: rows(watching).get("10", {}).get("advised_s"))
    found = rows(watching)
    assert found.keys() == {"7", "8", "9_1", "10"}
    assert (found["7"]["state"], found["7"]["nodes"]) == ("RUNNING", [["n1", 1]])
    assert found["8"]["expected_s"] == now + 900
    assert found["9_1"]["reason"] == "JobHeldUser"
    assert found["8"]["advised_s"] is None
    shown = watching.run("queue").stdout
    assert "SLURM" in shown
    assert "which only watches slurm" in shown
    assert "would start job 10 now; slurm has not" in watching.run("explain", "10").stdout
    assert "slurm says JobHeldUser" in watching.run("explain", "9_1").stdout
    assert "n1" in watching.run("explain", "8").stdout
    assert "quick|one" in watching.run("eta").stdout
    assert "slurm is watched: 4 jobs, 2 nodes" in watching.run("doctor", check=None).stdout
    begun = int(time.time()) + 1
    until(lambda: time.time() > begun)
    cluster.job("10", 0, "R", NodeList="n2", StartTime=str(begun))
    until(lambda: rows(watching)["10"]["state"] == "RUNNING")
    assert "before its start" in watching.run("show", "10").stdout
    cluster.job("10", 0, "F", EndTime=str(begun), exit_code="768")
    until(lambda: "10" not in rows(watching))
    (ended,) = json.loads(watching.run("show", "10", "--json").stdout)["jobs"]
    assert (ended["state"], ended["exit_code"], ended["end_s"]) == ("FAILED", 3, begun)
    checked = watching.run("replay", str(watching.folder), "--check")
    assert "all the same" in checked.stdout
    assert "1 epoch not simulated: its policy gave only advice" in checked.stderr
    assert "fcfs" in watching.run("replay", str(watching.folder), "--policy", "fcfs").stdout
    assert "SLURM BEFORE" not in watching.run("eta", "--accuracy").stdout  # 8 has not started yet


def test_a_queue_that_watches_changes_nothing(watching, cluster):
    cluster.job("7", 1795562780)
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    until(lambda: "7" in rows(watching))
    for words in (["cancel", "7"], ["hold", "7"], ["edit", "-t", "5", "7"], ["submit", "--", "true"], ["pause"],
                  ["reserve", "r", "--nodes", "1", "--for", "1h", "--user", "ana"], ["unreserve", "r"]):  # fmt: skip
        assert "this queue only watches slurm" in watching.run(*words, check=1).stderr
    assert not (cluster.folder / "acted").exists()
    assert cluster.acts() == []
    assert "there is no job 8" in watching.run("show", "8", check=1).stderr


def test_what_happened_while_nobody_watched_is_found(watching, cluster):
    cluster.job("7", 1795562780)
    cluster.job("8", 1795562780)
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    until(lambda: rows(watching).keys() == {"7", "8"})
    watching.kill(watching.daemon())
    cluster.job("7", 0, "CD", NodeList="n1", StartTime="1795562790", EndTime="1795562795")
    del cluster.jobs["8"]
    cluster.job("9", 2795562700, "CA", StartTime="N/A", EndTime="2795562795")  # came and went
    cluster.states["n2"] = "DOWN"
    cluster.show()
    watching.run("serve", "--detach")
    until(lambda: not rows(watching) and watching.run("show", "9", check=None).returncode == 0)
    jobs = {name: json.loads(watching.run("show", name, "--json").stdout)["jobs"][0] for name in ("7", "8", "9")}
    assert (jobs["7"]["state"], jobs["7"]["start_s"], jobs["7"]["end_s"]) == ("COMPLETED", 1795562790, 1795562795)
    assert (jobs["8"]["state"], jobs["8"]["reason"]) == ("CANCELLED", "LostByPool")
    assert jobs["9"]["state"] == "CANCELLED"
    until(lambda: watching.request("queue", nodes=True)["nodes"][0]["out_names"] == "n2")


def test_a_job_that_ends_where_nobody_saw_it_run_is_over(watching, cluster):
    for number in "78":
        cluster.job(number, 1795562780)
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    until(lambda: rows(watching).keys() == {"7", "8"})
    cluster.job("7", 0, "F", EndTime="1795562795", exit_code="256")
    cluster.job("8", 0, "CD", StartTime="1795562790", EndTime="1795562795")
    cluster.job("9", 2795562700, "F", EndTime="2795562795")  # it also came between two looks
    until(lambda: not rows(watching) and watching.run("show", "9", check=None).returncode == 0)
    jobs = {name: json.loads(watching.run("show", name, "--json").stdout)["jobs"][0] for name in ("7", "8", "9")}
    assert [(job["state"], job["start_s"]) for job in jobs.values()] == [
        ("FAILED", None), ("COMPLETED", None), ("FAILED", None)]  # fmt: skip
    assert "Traceback" not in (watching.folder / "daemon.log").read_text()
    assert "all the same" in watching.run("replay", str(watching.folder), "--check").stdout


def test_a_batch_system_that_is_silent_is_said(watching, cluster):
    cluster.job("7", 1795562780)
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    until(lambda: "7" in rows(watching))
    (cluster.folder / "silent").touch()
    until(lambda: watching.request("queue")["problem"])
    assert "does not answer: s" in watching.run("queue").stdout
    assert "7" in rows(watching)  # nothing is concluded from that
    (cluster.folder / "silent").unlink()
    until(lambda: not watching.request("queue")["problem"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--adopt"], "expected --pool slurm or --pool htcondor with it"),
        (["--pool", "fake:1", "--adopt"], "expected --pool slurm or --pool htcondor with it"),
        (["--pool", "slurm", "--adopt", "--shadow"], "expected --pool slurm or --pool htcondor with it"),
        (["--shadow"], "expected --pool slurm or --pool htcondor with it"),
        (["--pool", "fake:1", "--shadow"], "expected --pool slurm or --pool htcondor with it"),
    ],
)
def test_what_only_batch_systems_have_is_refused_elsewhere(watching, words, told):
    assert told in watching.run("serve", *words, check=2).stderr


def test_a_queue_cannot_begin_with_a_batch_system_that_is_not_there(watching, cluster):
    (cluster.folder / "silent").touch()
    assert "--pool slurm: scontrol" in watching.run("serve", "--pool", "slurm", "--shadow", check=2).stderr
    assert not (watching.folder / "config.toml").exists()


@pytest.mark.parametrize(("policy", "how"), [("preemptive", "requeue"), ("round-robin", "checkpoint")])
def test_a_policy_that_preempts_is_refused_in_one_line(watching, cluster, policy, how):
    told = f"policy {policy} preempts jobs by {how}; the queue only watches pool slurm and cannot preempt its jobs"
    watching.run("serve", "--pool", "slurm", "--shadow", "--detach")
    assert told in watching.run("serve", "--policy", policy, check=None).stderr
    watching.run("serve", "--stop")
    file = watching.folder / "config.toml"
    file.write_text(f'policy = "{policy}"\n' + file.read_text())
    assert told in watching.run("serve", "--detach", check=None).stderr


def test_the_planner_of_a_queue_that_watches_takes_no_policy_that_preempts():
    with pytest.raises(UsageError, match=r"policy preemptive preempts jobs; the queue only watches its pool"):
        load_policy("preemptive", preempts=[])
    with pytest.raises(UsageError, match="policy preemptive preempts"):
        Planner("preemptive", {"policy": "preemptive", "resources": {"cpus": 4}, "base": [], "preempts": []})


def begin(queue, cluster):
    """A queue that starts the jobs of Slurm, with no daemon at work."""
    platform = queue.folder / "platform.toml"
    platform.write_text('[[node]]\nname = "n1"\ncpus = 4\n[[node]]\nname = "n2"\ncpus = 4\n')
    (queue.folder / "config.toml").write_text('pool = "slurm"\nplatform = "platform.toml"\nadopt = true\n')


def test_jobs_are_adopted_by_hand_and_given_back_without_a_daemon(watching, cluster):
    begin(watching, cluster)
    cluster.job("7", 1795562780)
    cluster.job("8", 1795562780, UserName="bob")
    cluster.job("9", 1795562780, Reason="JobHeldUser")
    cluster.job("10", 1795562780, admin_comment="backfill-12345678")  # another queue has just let it go
    told = watching.run("pool", "adopt", "--dry-run", "--user", "ann")
    assert told.stdout == "would adopt 1 job: 7\n"
    assert "next: " in told.stderr
    assert cluster.acts() == []
    assert watching.run("pool", "adopt").stdout == "adopted 2 jobs: 7, 8\n"
    marks = [f"update JobId={number} AdminComment={mark_of(watching.folder)}" for number in (7, 8)]
    adopted = [*marks, "hold 7", "hold 8"]
    assert cluster.acts() == adopted  # marks first: a job that is held has one
    cluster.job("7", 0, Reason="JobHeldAdmin", admin_comment=mark_of(watching.folder))
    cluster.job("8", 0, "R", NodeList="n1", StartTime="1795562790", admin_comment=mark_of(watching.folder))
    assert "2 jobs of the queue: 1 waiting, 1 running" in watching.run("pool", "show").stdout
    assert check("pool-show", watching.run("pool", "show", "--json").stdout)["of_the_queue"] == {
        "waiting": 1,
        "running": 1,
    }
    assert check("pool-adopt", watching.run("pool", "adopt", "--dry-run", "--json").stdout)["jobs"] == []
    assert watching.run("pool", "release-all").stdout == "released 1 job: 7\n"
    assert cluster.acts()[-2:] == [
        "release 7",
        "update JobId=7 AdminComment=(released)",
    ]  # until then it is the queue's
    (cluster.folder / "silent").touch()
    assert "Unable to contact" in watching.run("pool", "release-all", check=1).stderr


def test_the_watchdog_gives_jobs_back_once_nobody_looks(watching, cluster):
    begin(watching, cluster)
    cluster.job("7", 1795562780, Reason="JobHeldAdmin", admin_comment=mark_of(watching.folder))
    assert watching.run("pool", "watchdog", "--after", "1m").stdout == ""  # no daemon was ever there
    looked = watching.folder / "looked"
    looked.write_text("{}")
    assert watching.run("pool", "watchdog", "--after", "1m").stdout == ""
    os.utime(looked, (time.time() - 100,) * 2)
    assert "released 1 job: 7" in watching.run("pool", "watchdog", "--after", "1m").stdout
    assert check("pool-watchdog", watching.run("pool", "watchdog", "--json").stdout)["silent_s"] > 60
    assert "expected" in watching.run("pool", "watchdog", "--after", "soon", check=2).stderr


def test_verbs_of_held_jobs_belong_to_a_queue_that_starts_them(watching):
    watching.configure("easy")
    for verb in ("adopt", "release-all", "show"):
        assert "expected a queue of slurm" in watching.run("pool", verb, check=2).stderr


@pytest.mark.parametrize(
    ("setting", "told"),
    [('adopt = "x"', "adopt is 'x'; expected true"), ("adopt = {groups = []}", "a table of users and partitions")],
)
def test_whose_jobs_are_adopted_is_told_in_a_setting(watching, cluster, setting, told):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    file.write_text(file.read_text().replace("adopt = true", setting))
    assert told in watching.run("queue", check=4).stderr


def test_setup_prints_what_a_site_installs(watching, cluster):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    assert "expected --print" in watching.run("pool", "setup", check=2).stderr
    whole = watching.run("pool", "setup", "--print", "--partition", "main", "--user", 'a"b').stdout
    parts = {name: watching.run("pool", "setup", "--print", "--part", name).stdout
             for name in ("filter", "conf", "rights", "unit", "watchdog")}  # fmt: skip
    assert f'local QUEUE = "{mark_of(watching.folder)}"' in whole
    assert 'local PARTITIONS = { ["main"] = true }' in whole
    assert 'local USERS = { ["a\\"b"] = true }' in whole
    assert "local USERS = {}" in parts["filter"]
    assert "JobSubmitPlugins=all_partitions,lua\n" in parts["conf"]  # what there is already stays
    assert "SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_min_interval=0\n" in parts["conf"]
    assert "The account that runs the queue" in parts["rights"]
    assert f"Environment=BACKFILL_HOME={watching.folder}\n" in parts["unit"]
    assert "ExecStart=" in parts["unit"]
    assert f"BACKFILL_HOME={watching.folder} " in parts["watchdog"]
    assert "'x'; expected filter, conf" in watching.run("pool", "setup", "--print", "--part", "x", check=2).stderr
    file.unlink()  # a queue that has not begun
    assert watching.run("pool", "setup", "--print", "--part", "filter").stdout == parts["filter"]
    assert check("pool-setup", watching.run("pool", "setup", "--print", "--json").stdout)["parts"] == parts
    assert cluster.acts() == []
    (cluster.folder / "silent").touch()
    assert "Unable to contact" in watching.run("pool", "setup", "--print", check=1).stderr


def test_doctor_looks_at_all_that_control_needs(watching, cluster):
    begin(watching, cluster)
    watching.run("pool", "watchdog")
    told = watching.run("doctor", check=None).stdout
    for name in ("rights", "filter", "limits", "select", "ends", "delay", "requeue", "clocks"):
        assert f" {name} " in told
    assert re.search(r"the watchdog ran \d+ s ago", told)
    assert cluster.acts() == []
    (cluster.folder / "silent").touch()
    told = watching.run("doctor", check=1).stdout
    assert "slurm does not answer" in told
    assert " rights " not in told


def filtered(queue):
    return mark_of(queue.folder) + "/submit"


def test_a_job_that_the_submit_filter_has_held_is_the_queues(watching, cluster):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    file.write_text(file.read_text().replace("adopt = true", 'policy = "easy"'))
    cluster.job("7", 1795562780, Reason="JobHeldUser", admin_comment=filtered(watching))
    cluster.job("8", 1795562781, Reason="JobHeldUser", admin_comment=filtered(watching), Comment="x[backfill:held]")
    cluster.job("9", 1795562782)
    watching.run("serve", "--detach")
    until(lambda: "release 7" in cluster.acts())
    assert "hold 7" not in cluster.acts()  # it is held already
    until(lambda: rows(watching).keys() == {"7", "8", "9"})
    assert (rows(watching)["8"]["state"], rows(watching)["8"]["reason"]) == ("PENDING", "JobHeldUser")
    assert rows(watching)["9"]["reason"] == "NotAdopted"
    cluster.job("7", 0, "R", NodeList="n1", StartTime=str(int(time.time())))
    cluster.job("8", 0, Comment="x")  # its user has released it
    until(lambda: "release 8" in cluster.acts())
    watching.run("serve", "--stop")
    cluster.job("8", 0, Comment="x y[backfill:held]")
    (given,) = check("pool-release-all", watching.run("pool", "release-all", "--json").stdout)["jobs"]
    assert given["native"] == "8"
    assert "uhold 8" in cluster.acts()  # what its user holds stays held, and its user can release it
    assert cluster.called() == ["update JobId=8 Comment=x y"]


def test_promised_starts_are_published_in_comments(watching, cluster):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    file.write_text(file.read_text().replace("adopt = true", 'publish = true\npolicy = "conservative"'))
    now = int(time.time())
    cluster.job("7", now - 10, "R", tres_alloc="cpu=8,node=2", NodeList="n[1-2]", StartTime=str(now - 5))
    mine = {"Reason": "JobHeldUser", "admin_comment": filtered(watching), "tres_alloc": "cpu=8,node=2"}
    cluster.job("8", now, NumTasks="2", **mine)
    cluster.job("9", now, NumTasks="2", Comment="two words", **mine)
    watching.run("serve", "--detach")
    until(lambda: any("Comment=" in act for act in cluster.acts()) and cluster.called())
    (told,) = {act for act in cluster.acts() if "Comment=" in act}
    first = re.fullmatch(r"update JobId=8 Comment=\[backfill:start=(.*)\]", told)
    assert 10 * 60 <= time.mktime(time.strptime(first[1], "%Y-%m-%dT%H:%M")) - now <= 13 * 60  # as Slurm kills late
    assert re.fullmatch(r"update JobId=9 Comment=two words\[backfill:start=.*\]", cluster.called()[0])


@pytest.mark.parametrize(("setting", "shadow"), [('publish = "x"', ""), ("publish = true", "shadow = true\n")])
def test_only_a_queue_that_starts_jobs_publishes_promises(watching, cluster, setting, shadow):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    file.write_text(file.read_text().replace("adopt = true", f"{shadow}{setting}"))
    assert "expected true or false, in a queue that starts" in watching.run("queue", check=4).stderr


def test_a_queue_starts_what_it_has_adopted(watching, cluster):
    begin(watching, cluster)
    file = watching.folder / "config.toml"
    file.write_text(file.read_text().replace("adopt = true", 'adopt = {users = ["ann"]}') + 'policy = "easy"\n')
    cluster.job("7", 1795562780)
    cluster.job("8", 1795562781, UserName="bob")
    watching.run("serve", "--detach")
    until(lambda: "hold 7" in cluster.acts())
    cluster.job("7", 0, Reason="JobHeldAdmin", admin_comment=mark_of(watching.folder))
    until(lambda: "release 7" in cluster.acts())
    assert "update JobId=7 ReqNodeList=n1" in cluster.acts()
    assert rows(watching)["7"]["state"] == "STARTING"
    assert (rows(watching)["8"]["state"], rows(watching)["8"]["reason"]) == ("PENDING", "NotAdopted")
    cluster.job("7", 0, "R", NodeList="n1", StartTime=str(int(time.time())))
    until(lambda: rows(watching)["7"]["state"] == "RUNNING")
    assert "hold 8" not in cluster.acts()
    watching.run("pause")
    watching.run("resume")
    assert "this queue starts the jobs of slurm" in watching.run("hold", "7", check=1).stderr
