"""What the verbs of the queue say, what they refuse, and whom they trust."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time

import pytest

from backfill.client import client
from backfill.client.printing import changed_text, unchanged_text
from backfill.daemon.link import PlannerLink
from backfill.daemon.shown import parts, queue_rows
from backfill.system import home
from tests.patience import PATIENCE_S, completed
from tests.queue.conftest import PYTHON
from tests.queue.virtual import SECOND, Virtual

ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
NOBODY = 65534
only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")


def test_names_beyond_ascii_on_a_terminal_that_knows_ascii_alone(live):
    number = live.submit("-H", "-J", "café", "--", "echo", "ö", **ASCII)
    assert live.job(number)["name"] == "café"
    refused = live.run("submit", "-H", "--wrap", "x", "-d", "é", check=2, **ASCII)
    assert "is not a dependency" in refused.stderr
    live.until(lambda: live.request("ping")["planner"]["ready"])
    for verb in (["show", number], ["queue"], ["eta"], ["explain", number], ["top"], ["doctor"], ["release", number]):
        live.run(*verb, **ASCII)
    for verb in (["show", number], ["queue", "--ended", 9], ["top"], ["slots"]):
        json.loads(live.run(*verb, "--json", **ASCII).stdout)
    live.run("wait", number, "--json", **ASCII)
    assert "caf?" in live.run("queue", "--ended", 1, **ASCII).stdout
    assert "caf?" in live.run("history", **ASCII).stdout
    assert json.loads(live.run("history", "--json", **ASCII).stdout)["jobs"][0]["name"] == "café"
    assert "no job with the name" in live.run("cancel", "--name", "né", check=1, **ASCII).stderr
    assert "ö" in live.run("log", number, **ASCII).stdout


def test_what_an_ascii_locale_cannot_read_travels_as_it_is(live):
    plain = ASCII | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "NAME": "zoë"}
    number = live.submit("-J", "café", "--wrap", 'echo "$NAME ö"', **plain)
    live.run("wait", number)
    assert live.job(number)["name"] == "café"
    assert live.run("log", number).stdout == "zoë ö\n"


def test_a_deleted_folder_is_said_in_a_line(live, tmp_path):
    def submit(*words):
        code = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
        words = ["sh", "-c", code, "sh", *PYTHON, "submit", "-H", *words]
        return subprocess.run(words, env=live.env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)

    done = submit("--", "true")
    told = "backfill: the folder in which you are was deleted; cd to another one, or use --chdir\n"
    assert (done.returncode, done.stderr) == (1, told)
    done = submit("--chdir", "/", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")
    live.env["BACKFILL_HOME"] = "here"
    done = submit("--", "true")
    assert (done.returncode, done.stderr.count("\n"), "Traceback" in done.stderr) == (1, 1, False)


def test_a_job_that_a_signal_ended_has_no_exit_code(live):
    number = live.submit("--wrap", "kill -9 $$")
    live.run("wait", number, check=137)
    assert (live.job(number)["exit_code"], live.job(number)["signal"]) == (None, 9)
    (row,) = live.jobs()
    (ended,) = json.loads(live.run("history", "--json").stdout)["jobs"]
    assert [(each["exit_code"], each["signal"]) for each in (row, ended)] == [(None, 9)] * 2
    assert "exit code" not in live.run("show", number).stdout
    good = live.submit("--", "true")
    live.run("wait", good)
    assert (live.job(good)["exit_code"], live.job(good)["signal"]) == (0, 0)


# ---------------------------------------------------------------------- trust


def test_a_folder_into_which_others_may_write_is_refused_by_client_and_daemon(live):
    live.folder.chmod(0o770)
    told = f"backfill: others may write into {live.folder} (mode 770); expected mode 700: chmod 700 {live.folder}\n"
    assert live.run("submit", "--", "true", check=4).stderr == told
    assert live.run("serve", check=1).stderr == told
    assert told[10:].strip() in live.run("doctor", check=1).stdout
    live.folder.chmod(0o750)
    live.run("submit", "-H", "--", "true")


@only_root
def test_a_folder_of_another_user_is_refused(live, monkeypatch, tmp_path):
    os.chown(tmp_path, NOBODY, -1)
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    assert home.trouble(str(tmp_path)) == ""  # root has named it
    name = home.user_name(NOBODY)
    told = live.run("submit", "--", "true", check=4).stderr
    assert told.endswith(f"only {name}, who owns the folder, can start it\n")
    assert "belongs to another user" in live.run("serve", check=1).stderr
    monkeypatch.delenv("BACKFILL_HOME")
    assert f"belongs to {name}; expected a folder of root" in home.trouble(str(tmp_path))
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 1)
    assert f"belongs to {name}; expected a folder of " in home.trouble(str(tmp_path))
    assert not (tmp_path / "store.db").exists()


def listening(path, uid):
    """A process of another user that listens at a socket, and what it hears."""
    code = (
        "import os, socket, sys; sock = socket.socket(socket.AF_UNIX); sock.bind(sys.argv[1]); "
        "os.setuid(int(sys.argv[2])); sock.listen(); print(flush=True); sock.settimeout(300); "
        "made, _ = sock.accept(); made.settimeout(300); print(len(made.recv(1 << 20)), flush=True)"
    )
    made = subprocess.Popen([sys.executable, "-c", code, str(path), str(uid)], stdout=subprocess.PIPE, text=True)
    made.stdout.readline()
    return made


@only_root
def test_a_socket_of_another_user_in_ones_own_folder_is_told_nothing(live):
    false = listening(live.folder / "sock", NOBODY)
    done = live.run("submit", "--", "true", check=4, SECRET="of mine")
    told = f"{live.folder}/sock is served by a process of {home.user_name(NOBODY)}; expected one of root"
    assert done.stderr == f"backfill: {told}\n"
    assert false.communicate(timeout=PATIENCE_S)[0] == "0\n"


@only_root
def test_root_may_use_the_queue_of_another_user_but_not_submit_to_it(live):
    os.chown(live.folder, NOBODY, -1)
    false = listening(live.folder / "sock", NOBODY)
    assert "who alone may submit to it" in live.run("submit", "--", "true", check=4).stderr
    assert false.communicate(timeout=PATIENCE_S)[0] == "0\n"
    (live.folder / "sock").unlink()
    false = listening(live.folder / "sock", 1)
    assert "is served by a process of" in live.run("queue", check=4).stderr
    assert false.communicate(timeout=PATIENCE_S)[0] == "0\n"


def test_the_user_at_the_other_end_of_a_socket_is_known():
    one, other = socket.socketpair()
    with one, other:
        assert home.peer(one) == os.getuid()


# ---------------------------------------------------------------------- what changed


def test_verbs_say_what_they_changed_and_fail_if_that_is_nothing(live):
    live.submit("-c", 4, "--wrap", "touch on; while [ -e on ]; do sleep 0.05; done")
    live.until((live.folder / "on").exists)  # until it ends, no other job starts
    one = live.submit("-H", "--", "true")
    array = live.submit("-H", "--array", "3-6", "-J", "fit", "--", "true")
    assert live.run("release", one, array).stdout == f"released 5 jobs: {one}, {array}_[3-6]\n"
    assert live.run("hold", "--name", "fit").stdout == f"held 4 jobs: {array}_[3-6]\n"
    again = live.run("hold", "--name", "fit", check=1)
    assert (again.stdout, again.stderr) == ("", f"backfill: nothing to hold: jobs {array}_[3-6] are held already\n")
    assert live.run("edit", "--time", 9, f"{array}_4").stdout == f"changed job {array}_4\n"
    (live.folder / "on").unlink()
    live.run("wait", one)
    done = live.run("cancel", one, f"{array}_3")
    assert (done.stdout, done.stderr) == (
        f"cancelled job {array}_3\n", f"backfill: not changed: job {one} is COMPLETED\n"
    )  # fmt: skip
    told = json.loads(live.run("cancel", "--json", f"{array}_3", f"{array}_5").stdout)
    assert (told["ids"], told["labels"], told["unchanged"]) == (
        [array + 2], [f"{array}_5"], {"CANCELLED": [f"{array}_3"]}
    )  # fmt: skip
    nothing = live.run("cancel", "--json", one, check=1)
    assert json.loads(nothing.stdout)["ids"] == []
    live.run("cancel", "--all")
    assert live.run("cancel", "--all", check=1).stderr == "backfill: nothing to cancel: no job is open\n"


def test_texts_of_changes_name_some_jobs_alone():
    found = {"ids": [*range(50)], "labels": [str(n) for n in range(50)], "unchanged": {"RUNNING": ["7", "8_[1-2]"]}}
    assert changed_text("suspend", found).endswith(", 19 and 30 more")
    assert changed_text("requeue", {"ids": [1], "labels": ["1"]}) == "requeued job 1"
    assert unchanged_text(found) == "jobs 7, 8_[1-2] are RUNNING"


@pytest.mark.parametrize("verb", ["wait", "cancel", "hold", "release", "show", "eta"])
def test_a_name_that_no_job_has_is_a_mistake(live, verb):
    live.submit("-H", "-J", "right", "--", "true")
    assert live.run(verb, "--name", "typo", check=1).stderr == "backfill: no job with the name 'typo' is open\n"


def test_jobs_that_are_over_need_not_be_waited_for(live):
    number = live.submit("-J", "fit", "--", "true")
    live.run("wait", number)
    assert json.loads(live.run("wait", "--name", "fit", "--json").stdout)["jobs"] == []


# ---------------------------------------------------------------------- what is shown


def test_the_queue_is_filtered_and_pending_tasks_are_folded(live):
    on = live.folder / "on"
    on.touch()
    array = live.submit("-c", 2, "--array", "2-30%1", "-J", "fit", "--wrap", "while [ -e on ]; do sleep 0.05; done")
    held = live.submit("-H", "-J", "other", "--", "true")
    live.until(lambda: live.job(f"{array}_2")["state"] == "RUNNING")
    lines = live.run("queue").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [f"{array}_2", f"{array}_[3-30%1]", str(held)]
    assert lines[-1].startswith("1 running, 29 pending; cpus 2/4")

    def shown(*words):
        return [line.split()[0] for line in live.run("queue", *words).stdout.splitlines()[:-1] if "JOB" not in line]

    assert shown("--state", "RUNNING") == shown("-t", "r") == [f"{array}_2"]
    assert shown("--state", "pending,RUNNING", "--name", "other,fit", "-n", 2) == [
        f"{array}_2", f"{array}_[3-30%1]", "and"
    ]  # fmt: skip
    assert shown("--user", "nobody-at-all") == []
    rows = json.loads(live.run("queue", "--json", "--name", "fit").stdout)["jobs"]
    assert [row["index"] for row in rows] == [*range(2, 31)]
    assert {(row["array"], row["throttle"]) for row in rows} == {(array, 1)}
    assert len(json.loads(live.run("queue", "--json", "-n", 3).stdout)["jobs"]) == 3
    assert "expected also --ended N" in live.run("queue", "--state", "FAILED", check=2).stderr
    assert "SLEEPING is not a state" in live.run("queue", "--state", "sleeping", check=2).stderr
    live.run("cancel", "--all")
    live.until(lambda: shown("--state", "CANCELLED", "--ended", 50).count(str(held)))


def test_tasks_that_differ_are_not_folded_into_one_line(tmp_path):
    queue = Virtual(tmp_path)
    queue.submit(4, 100)
    array = queue.submit(1, 60, array=[0, 1, 2, 3])
    queue.request(do="hold", ids=[[array, 1]])
    queue.request(do="edit", ids=[[array, 2]], to={"walltime": 90 * SECOND})
    queue.engine.plan = {array + 3: 5 * SECOND}
    queue.engine.binds = True

    def shown(**asked):
        found = drained(
            queue_rows(queue.engine, queue.store, queue.t, {"fold": True, "states": ["PENDING"], **asked}, {})
        )
        found = json.loads(b"".join(parts(found)))
        return [(row["label"], row["reason"], row["guaranteed_s"]) for row in found["jobs"]], found["more"]

    whole = [
        (f"{array}_[0,3]", "Resources", 5.0), (f"{array}_1", "JobHeldUser", None), (f"{array}_2", "Resources", None)
    ]  # fmt: skip
    assert shown() == (whole, 0)
    assert shown(limit=2) == (whole[:2], 1)
    assert shown(after=array + 1, limit=1) == ([(f"{array}_2", "Resources", None)], 1)


def drained(steps):
    """Return the final answer of one that is computed in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return over.value


def test_all_about_a_job_is_shown_with_dates_and_readable_durations(live):
    first = live.submit("-H", "--", "true")
    options = ["-d", f"afterok:{first}", "-b", "2040-01-31T08:00", "--deadline", "2041-01-31", "--priority", 7,
               "-A", "lab", "--requeue", "-o", "out-%j", "-e", "err-%j", "-i", "/dev/null", "--array", "4,5%1",
               "--grace", 2, "-t", "1:30:00"]  # fmt: skip
    number = live.submit(*options, "--", "cat")
    shown = live.run("show", f"{number}_5").stdout
    fields = dict(re.findall(r"^  (\w[\w ]*?) {2,}(.*)$", shown, re.MULTILINE))
    expected = {
        "dependency": f"afterok:{first}", "begin": "2040-01-31 08:00:00", "deadline": "2041-01-31 00:00:00",
        "priority": "7", "project": "lab", "requeue": "if the machine goes down", "limit": "1 h 30 min, grace 2 min",
        "array": f"{number}, task 5, 1 at once", "input": "/dev/null",
        "output": f"{live.folder}/out-{number + 1}", "errors": f"{live.folder}/err-{number + 1}",
    }  # fmt: skip
    assert {name: fields.get(name) for name in expected} == expected
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", fields["submitted"])
    ran = live.submit("-t", "90s", "-c", 2, "--mem", "1G", "-L", "matlab:0", "--", "true")
    live.run("wait", ran)
    shown = live.run("show", ran).stdout
    assert re.search(r"^  runs on +\S+, cpus [\d,-]+$", shown, re.MULTILINE)
    assert re.search(
        r"start attempt=1 start=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d why=head cpu_ids=\d,\d$", shown, re.MULTILINE
    )
    assert not re.search(r"\d{13}", shown), "raw microseconds"
    live.run("edit", "--time", 5, first)
    assert "edit walltime=5 min" in live.run("show", first).stdout
    (start,) = (data for _, kind, data in live.job(ran)["events"] if kind == "start")
    assert abs(start["start_s"] - time.time()) < 3600


def test_following_a_pending_job_says_what_it_waits_for_once(live):
    first = live.submit("-H", "--", "true")
    number = live.submit("-H", "-d", f"afterok:{first}", "--", "echo", "done")
    words = [*PYTHON, "log", "-f", str(number)]
    made = subprocess.Popen(words, env=live.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told = [made.stderr.readline()]
    live.run("release", number)
    told.append(made.stderr.readline())
    live.run("release", first)
    out, rest = made.communicate(timeout=PATIENCE_S)
    assert told == [
        f"backfill: job {number} is pending, it waits: it is held; next: backfill release {number}\n",
        f"backfill: job {number} is pending, it waits for other jobs: afterok:{first}\n",
    ]
    assert (out, made.returncode) == ("done\n", 0)
    assert not [line for line in rest.splitlines() if "held" in line or "other jobs" in line]
    assert live.run("log", "-f", number).stderr == ""


@pytest.mark.parametrize("gone", [ConnectionResetError(104, "Connection reset by peer"), ConnectionError("it ended")])
def test_a_daemon_that_ends_before_it_answers_is_said_in_a_line(gone, monkeypatch, capsys):
    def asked(*_, **__):
        raise gone

    monkeypatch.setattr(client, "persistent", asked)
    assert client.main(["serve", "--detach"]) == 1
    assert "the daemon ended before it answered; run the command again" in capsys.readouterr().err


def test_an_answer_that_does_not_come_says_why(tmp_path, monkeypatch):
    told = []

    async def ask(error):
        async def late(folder, what, gone):
            raise error

        link = PlannerLink(0)
        monkeypatch.setattr(link, "_question", late)
        link.question(tmp_path, {"what": "eta"}, told.append)
        await asyncio.gather(*link._tasks)

    for error in (TimeoutError(), OSError("see daemon.log")):
        completed(ask(error))
    assert [answer["error"]["message"] for answer in told] == [
        "there is no answer: the planner took too long; see daemon.log", "there is no answer: see daemon.log"
    ]  # fmt: skip


def test_what_edit_has_changed_is_shown_as_people_write_it(live):
    first = live.submit("-H", "--", "true")
    number = live.submit("-H", "-b", "now+1hour", "--", "true")
    live.run("edit", number, "-c", 2, "--mem", "1G", "-t", "2:00:00")
    live.run("edit", number, "--begin", "none")
    live.run("edit", number, "-d", f"afterok:{first}")
    live.run("edit", number, "-d", "none")
    shown = [
        line.split("  edit")[1].strip() for line in live.run("show", number).stdout.splitlines() if "  edit" in line
    ]
    assert shown == ["walltime=2 h cpus=2 memory=1G", "begin=none", f"dependency=afterok:{first}", "dependency=none"]


def test_one_more_job_is_no_more_jobs(live):
    for _ in range(3):
        live.submit("-H", "--", "true")
    assert "\nand 1 more job\n" in live.run("queue", "--lines", 2).stdout


def test_settings_that_are_wrong_are_told_while_the_daemon_still_has_the_old_ones(live):
    live.submit("-H", "--wrap", "true")
    settings = live.folder / "config.toml"
    settings.write_text('cpus = 4\npolicy = "nosuch"\n')
    told = "unknown policy 'nosuch'"
    for verb in (("submit", "-H", "--wrap", "true"), ("queue",)):
        said = live.run(*verb).stderr
        assert said.startswith(f"backfill: {settings}: {told}")
        assert said.endswith("the running daemon keeps its settings, and the next one will not start\n")
        assert said.count("\n") == 1
    live.run("serve", "--stop")
    assert told in live.run("queue", check=4).stderr
    settings.write_text('cpus = 4\npolicy = "easy"\n')
    assert live.run("queue").stderr == ""


def test_settings_that_are_not_text_are_told_with_file_and_line(live):
    (live.folder / "p.toml").write_bytes(b'name = "a"\nx = "\xff"\n')
    said = live.run("serve", "--pool", "fake:1", "--platform", "p.toml", check=2).stderr
    assert said == "backfill: p.toml:2: is not UTF-8 text: byte 0xff\n"
    (live.folder / "config.toml").write_bytes(b"# \xff\n")
    for words, code in ((("queue",), 4), (("serve", "--metrics-file", "m.prom"), 2), (("serve", "--pool", "fake"), 2)):
        said = live.run(*words, check=code).stderr
        assert said.endswith(f"{live.folder}/config.toml:1: is not UTF-8 text: byte 0xff\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_not_a_trouble_of_the_folder(live, unbuffered):
    live.submit("-H", "--", "true")
    env = {**live.env, "PYTHONUNBUFFERED": unbuffered}
    for words in (["queue"], ["show", "1"], ["plan"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([*PYTHON, *words], env=env, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (1, "backfill: standard output: No space left on device\n")
    done = subprocess.run(f"{shlex.join(PYTHON)} show 7 >&-", shell=True, env=env, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "backfill: there is no job 7\n")
