"""The submit filter that `backfill pool setup --print` prints, in a real Slurm, as users meet it."""

import json

import pytest

from tests.docs.examples import CONTROL, run_page
from tests.patience import until
from tests.real import slurm
from tests.real.users import USER, User, install

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing(accounting=False) != "", reason=f"a real Slurm {slurm.missing(False)}"),
]


@pytest.fixture
def user(cluster, live):
    """A queue at work, and its filter as it is printed."""
    live.run("serve", "--pool", "slurm", "--detach")
    install(cluster, live)
    return User(cluster)


def rows(live):
    return {row["label"]: row for row in live.request("queue")["jobs"]}


def facts(cluster, job):
    told = cluster.run("squeue", "-h", "-j", job, "-O", "State:|,Reason:|,admin_comment:|,Comment:|,NodeList:|")
    return told.strip().split("|")


def test_a_job_comes_held_and_the_queue_starts_it(cluster, live, user):
    job = user.submit("-c", "16", "--wrap", "sleep 60")
    assert facts(cluster, job)[2].endswith("/submit")
    until(lambda: rows(live).get(job, {}).get("state") == "RUNNING")
    assert facts(cluster, job)[4] == rows(live)[job]["nodes"][0][0]
    others = [user.submit("-w", "n4", "--wrap", "sleep 60"), user.submit("-n1", ":", "-n1", "--wrap", "sleep 60")]
    for other in others:  # the queue cannot place them
        assert facts(cluster, other)[2] == "(null)"
        until(lambda other=other: facts(cluster, other)[0] == "RUNNING")
    later = user.submit("--begin=now+8", "--wrap", "sleep 60")
    after = user.submit("-d", f"afterok:{job}", "--wrap", "sleep 60")
    array = user.submit("-a", "1-2", "--wrap", "sleep 60")
    until(
        lambda: {f"{array}_1", f"{array}_2"} <= {name for name, row in rows(live).items() if row["state"] == "RUNNING"}
    )
    until(lambda: rows(live).get(after, {}).get("reason") == "Dependency")
    until(lambda: rows(live)[later]["state"] == "RUNNING")


def test_doctor_finds_the_filter_and_the_rights(live, user):
    live.run("pool", "watchdog")
    found = {one["check"]: one for one in json.loads(live.run("doctor", "--json", check=None).stdout)["findings"]}
    ours = ("pool", "rights", "filter", "watchdog", "limits", "select", "delay", "requeue", "clocks")
    assert {name: found[name]["verdict"] for name in ours} == dict.fromkeys(ours, "ok")
    assert "marks and holds jobs" in found["filter"]["told"]
    assert "LostByPool" in found["ends"]["told"]  # no accounting is there


def test_users_neither_release_nor_unmark_jobs_of_the_queue(cluster, live, user):
    live.run("pause")
    job = user.submit("--wrap", "sleep 60")
    until(lambda: job in rows(live))
    before = facts(cluster, job)
    denied = "Access/permission denied"
    for change in (
        ["release", job],
        ["update", f"jobid={job}", "priority=9"],
        ["update", f"jobid={job}", "admincomment="],
    ):
        assert denied in user.run("scontrol", *change)
    assert facts(cluster, job) == before
    user.run("scontrol", "update", f"jobid={job}", "comment=two words", "timelimit=3")
    until(lambda: rows(live)[job]["limit_s"] == 180)
    assert facts(cluster, job)[3] == "two words"
    live.run("resume")
    until(lambda: rows(live)[job]["state"] == "RUNNING")


def test_a_user_holds_a_job_and_releases_it_again(cluster, live, user):
    held = user.submit("-H", "--comment", "mine", "--wrap", "sleep 60")
    until(lambda: rows(live).get(held, {}).get("reason") == "JobHeldUser")
    assert facts(cluster, held)[3] == "mine[backfill:held]"
    user.run("scontrol", "update", f"jobid={held}", "comment=other")
    assert facts(cluster, held)[3] == "other[backfill:held]"
    user.run("scontrol", "release", held)
    until(lambda: rows(live)[held]["state"] == "RUNNING")
    assert facts(cluster, held)[3] == "other"
    plain = user.submit("-H", "--wrap", "sleep 60")  # without a comment of its user's
    until(lambda: rows(live).get(plain, {}).get("reason") == "JobHeldUser")
    user.run("scontrol", "release", plain)
    until(lambda: rows(live)[plain]["state"] == "RUNNING")
    live.run("pause")
    job = user.submit("--wrap", "sleep 60")
    until(lambda: rows(live).get(job, {}).get("state") == "PENDING")
    user.run("scontrol", "hold", job)
    until(lambda: rows(live)[job]["reason"] == "JobHeldUser")
    live.run("resume")
    free = user.submit("--wrap", "sleep 60")
    until(lambda: rows(live).get(free, {}).get("state") == "RUNNING")
    assert facts(cluster, job)[0] == "PENDING"
    live.run("serve", "--stop")
    live.run("pool", "release-all")
    assert facts(cluster, job)[:2] == ["PENDING", "JobHeldUser"]  # what its user holds stays held
    user.run("scontrol", "release", job)
    until(lambda: facts(cluster, job)[0] == "RUNNING")


def test_a_filter_is_for_some_partitions_and_users(cluster, live, user):
    install(cluster, live, "--partition", "short", "--user", USER)
    until(lambda: facts(cluster, user.submit("-H", "--wrap", "true"))[2] == "(null)")  # slurmctld has read it anew
    assert facts(cluster, user.submit("-H", "-p", "short,main", "--wrap", "true"))[2].endswith("/submit")
    assert facts(cluster, cluster.submit("-H", "-p", "short", "--wrap", "true"))[2] == "(null)"  # root is another user
    install(cluster, live, "--partition", "main")
    until(lambda: facts(cluster, user.submit("-H", "--wrap", "true"))[2].endswith("/submit"))  # main is the default


def test_the_page_about_control_of_slurm(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(cluster.folder / "slurm.conf"))
    monkeypatch.setenv("USER", "root")
    for ran in run_page(CONTROL.read_text(encoding="utf-8"), tmp_path):
        assert ran.matches, f"$ {ran.command}\n{ran.printed}--- the page says\n{ran.expected}"
