"""A real daemon, a real keeper, real jobs: what a user sees."""

import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest

from tests.patience import PATIENCE_S


def test_a_job_runs_and_wait_returns_its_code(live):
    number = live.submit("--time", "5", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert live.run("wait", number, check=7).stdout == ""
    assert live.run("log", number).stdout == "out\nerr\n"
    job = live.job(number)
    assert (job["state"], job["exit_code"], job["limit_s"]) == ("FAILED", 7, 300)
    (listed,) = live.jobs()
    assert (listed["id"], listed["state"]) == (number, "FAILED")


def test_jobs_never_hold_more_cpus_than_there_are_and_all_run(live):
    (live.folder / "out").mkdir()
    script = "echo $BACKFILL_JOB_ID $(date +%s%N) >> begun; sleep 0.2; echo $(date +%s%N) > out/$BACKFILL_JOB_ID"
    for cpus in (1, 2, 3, 1, 4, 2):
        live.submit("-c", cpus, "--time", "1", "--wrap", script)
    live.run("wait", "--all")
    jobs = live.jobs()
    assert {job["state"] for job in jobs} == {"COMPLETED"}
    spans = []
    for line in (live.folder / "begun").read_text().splitlines():
        number, begin = map(int, line.split())
        end = int((live.folder / "out" / str(number)).read_text())
        spans.append((begin, end, next(job["need"]["cpus"] for job in jobs if job["id"] == number)))
    assert len(spans) == 6
    for at, _, _ in spans:
        assert sum(cpus for begin, end, cpus in spans if begin <= at < end) <= 4


def test_a_job_is_ended_at_its_walltime_with_all_that_it_started(live):
    script = "trap '' TERM; (trap '' TERM; setsid sleep 6000 & echo $! > child; wait) & sleep 6000"
    number = live.submit("--time", "1s", "--grace", "1s", "--wrap", script)
    live.run("wait", number, check=None)
    job = live.job(number)
    assert job["state"] == "TIMEOUT"
    assert job["end_s"] - job["start_s"] < 2000
    child = int((live.folder / "child").read_text())
    assert not os.path.exists(f"/proc/{child}")


def test_cancelled_jobs_end_and_pending_ones_never_run(live):
    running = live.submit("-c", 4, "--", "sleep", "3000")
    live.until(lambda: live.job(running)["state"] == "RUNNING")
    waiting = live.submit("-c", 4, "--wrap", "touch ran")
    live.run("cancel", waiting)
    assert live.run("wait", waiting, check=None).returncode != 0
    live.run("cancel", running)
    live.run("wait", running, check=None)
    assert [job["state"] for job in live.jobs()] == ["CANCELLED", "CANCELLED"]
    assert not (live.folder / "ran").exists()
    assert "nothing to cancel: job 1 is CANCELLED" in live.run("cancel", running, check=1).stderr


def test_holds_dependencies_and_arrays(live):
    first = live.submit("-H", "--wrap", "exit 1")
    good = live.submit("-d", f"afternotok:{first}", "--wrap", "exit 0")
    never = live.submit("-d", f"afterok:{first}", "--wrap", "exit 0")
    array = live.submit("-a", "3-5%1", "--wrap", "echo $BACKFILL_ARRAY_INDEX >> indexes; sleep 0.1")
    last = live.submit("-d", f"afterok:{array}", "--wrap", "cp indexes copy")
    assert live.job(first)["reason"] == "JobHeldUser"
    assert live.job(good)["reason"] == "Dependency"
    live.run("release", first)
    live.run("wait", last)
    live.run("wait", good)
    assert (live.folder / "copy").read_text() == "3\n4\n5\n"
    assert (live.job(never)["state"], live.job(never)["reason"]) == ("CANCELLED", "DependencyNeverSatisfied")
    assert live.job(f"{array}_4")["label"] == f"{array}_4"


def test_a_task_that_was_released_says_what_else_it_waits_for(live):
    array = live.submit("-H", "-a", "1-2%1", "--wrap", "sleep 3000")
    live.run("release", array)
    assert live.until(lambda: live.job(f"{array}_1")["state"] == "RUNNING")
    assert live.job(f"{array}_2")["reason"] == "JobArrayTaskLimit"
    live.run("cancel", array)


def test_a_script_brings_its_options_and_is_kept_as_it_was(live):
    script = live.folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --job-name=fit --time=0:30\n#BACKFILL -o result-%j-%x.txt\necho $1 $X\n")
    number = live.submit("-c", 2, "-H", "job.sh", "seven", X="as at submit")
    script.write_text("#!/bin/sh\necho changed\n")
    live.run("release", number)
    live.run("wait", number)
    job = live.job(number)
    assert (job["name"], job["limit_s"], job["need"]["cpus"]) == ("fit", 30, 2)
    assert (live.folder / f"result-{number}-fit.txt").read_text() == "seven as at submit\n"


def test_a_script_for_slurm_runs_with_the_options_that_are_known_here(live):
    script = live.folder / "job.sh"
    script.write_text('#!/bin/sh\n#SBATCH --partition=short -c 2\necho "$@"\n')
    done = live.run("submit", "--parsable", "job.sh", "--help")
    assert done.stderr == "backfill: job.sh: ignored options, which this queue does not have: --partition\n"
    number = int(done.stdout)
    live.run("wait", number)
    assert live.job(number)["need"]["cpus"] == 2
    assert live.run("log", number).stdout == "--help\n"


def test_a_file_that_is_no_script_is_a_program_of_this_folder(live):
    program = live.folder / "program"
    program.symlink_to("/bin/echo")
    number = live.submit("program", "here")
    live.run("wait", number)
    assert live.run("log", number).stdout == "here\n"
    (live.folder / "notes").write_text("echo\n")
    refused = live.run("submit", "notes", check=2)
    assert refused.stderr == "backfill: notes is not a program; expected a script that begins with #!\n"


def test_a_command_that_is_not_there_fails_and_says_so(live):
    number = live.submit("--", "no-such-command")
    live.run("wait", number, check=127)
    assert "no-such-command" in live.run("log", number).stdout
    unwritable = live.submit("-o", "no/such/folder/file", "--", "true")
    live.run("wait", unwritable, check=126)
    assert live.job(unwritable)["reason"] == "Output"
    assert re.search(r"detail=.*no/such/folder/file: No such file", live.run("show", unwritable).stdout)
    nowhere = live.submit("-D", "no/such/folder", "--", "true")
    live.run("wait", nowhere, check=126)
    assert re.search(r"detail=working directory .*no/such/folder: No such file", live.run("show", nowhere).stdout)


def test_licences_are_never_used_beyond_their_copies(live):
    with (live.folder / "config.toml").open("a") as file:
        file.write("[licence.matlab]\ncopies = 1\n")
    script = "mkdir busy || touch broken; sleep 0.15; rmdir busy"
    for _ in range(3):
        live.submit("-L", "matlab", "--wrap", script)
    live.run("wait", "--all")
    assert not (live.folder / "broken").exists()
    refused = live.run("submit", "-L", "matlab:2", "--", "true", check=3)
    assert refused.stderr == "backfill: the job asks for 2 matlab; the machine has 1 matlab\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["submit"], "no command; expected backfill submit [OPTIONS] -- COMMAND, or a script"),
        (["submit", "--time", "soon", "--", "true"], "--time: 'soon' is not a time; expected minutes, H:M:S, ..."),
        (
            ["submit", "--tme", "5", "--", "true"],
            "unknown option --tme; did you mean --time? See backfill submit --help",
        ),
        (["submit", "-d", "later:3", "--", "true"], "--dependency: 'later:3' is not a dependency; expected after, ..."),
        (["show", "x"], "'x' is not a job; expected its number, or ARRAY_INDEX"),
        (["wait"], "no job; expected its number"),
    ],
)
def test_a_mistake_is_one_line(live, words, said):
    done = live.run(*words, check=2)
    begin = said.removesuffix("...")
    assert done.stderr.startswith(f"backfill: {begin}")
    assert done.stderr.count("\n") == 1
    assert not live.daemon()  # nothing was started for that


def test_a_job_that_is_not_there_and_one_that_can_never_run(live):
    assert live.run("show", 99, check=1).stderr == "backfill: there is no job 99\n"
    refused = live.run("submit", "-c", 5, "--", "true", check=3)
    assert refused.stderr == "backfill: the job asks for 5 cpus; the machine has 4 cpus\n"
    assert live.run("serve", "--stop").returncode == 0
    assert live.run("serve", "--stop", check=4).stderr.startswith("backfill: no daemon serves this queue")


def test_a_queue_that_was_stopped_goes_on_where_it_was(live):
    running = live.submit("--wrap", "while [ ! -e go ]; do sleep 0.05; done; echo done > done")
    held = live.submit("-H", "--", "true")
    live.until(lambda: live.job(running)["state"] == "RUNNING")
    live.run("serve", "--stop")
    assert not live.daemon()
    (live.folder / "go").touch()
    live.until((live.folder / "run" / f"{running}.1" / "exit.json").exists)  # it ran on, and is over
    over = time.time()
    time.sleep(1.2)
    job = live.job(running)
    assert job["state"] == "COMPLETED"
    assert job["end_s"] < over + 1  # when it ended, not when the daemon learned of it
    assert live.job(held)["state"] == "PENDING"
    assert os.stat(live.folder / "sock").st_mode & 0o777 == 0o600


def test_first_submits_at_once_end_up_with_one_daemon_and_all_jobs(live):
    words = [sys.executable, "-m", "backfill", "submit", "--parsable", "-H", "--", "true"]
    some = [subprocess.Popen(words, env=live.env, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    numbers = {int(one.communicate(timeout=PATIENCE_S)[0]) for one in some}
    assert numbers == {*range(1, 7)}
    assert len(live.jobs()) == 6


def test_the_light_path_loads_nothing_heavy(live):
    watch = (
        "import sys; from backfill.__main__ import main; "
        "sys.argv = ['backfill', 'submit', '-H', '--', 'true']; main(); "
        "print({'numpy', 'numba', 'pydantic', 'typer', 'click', 'rich', 'asyncio', 'sqlite3'} & set(sys.modules))"
    )
    live.submit("-H", "--", "true")
    done = subprocess.run(
        [sys.executable, "-c", watch], env=live.env, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_a_name_with_escape_sequences_drives_no_terminal(live):
    done = live.run("submit", "-H", "-J", "\x1b[2J", "--", "true", check=2)
    assert "\x1b" not in done.stderr
    number = live.submit("-H", "--", "echo", "\x1b[2J")
    assert "\x1b" not in live.run("show", number).stdout + live.run("queue").stdout


def test_what_is_no_request_gets_an_error_and_others_go_on(live):
    import socket

    live.submit("-H", "--", "true")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(live.folder / "sock"))
        file = sock.makefile("rwb")
        for line in (
            b"garbage",
            b"[1]",
            b'{"do": "fly"}',
            b'{"do": "submit"}',
            b'{"do": "wait", "ids": [true]}',
            b'{"v": 9}',
        ):
            file.write(line + b"\n")
            file.flush()
            assert json.loads(file.readline())["error"]["message"]
        sock.sendall(b"half a line")
    assert len(live.jobs()) == 1


def test_a_job_that_uses_more_memory_than_it_asked_for_is_ended(live):
    code = "x = bytearray(200 << 20); import time; time.sleep(60)"
    number = live.submit("--mem", "30M", "--", sys.executable, "-c", code)
    live.run("wait", number, check=None)
    assert live.job(number)["state"] == "OUT_OF_MEMORY"


def test_a_job_is_warned_before_its_walltime(live):
    script = "trap 'echo warned; exit 0' USR1; sleep 60 & wait"
    number = live.submit("--time", "1", "--signal", "USR1@58", "--wrap", script)
    live.run("wait", number)
    assert live.run("log", number).stdout == "warned\n"


def test_a_warning_for_the_script_alone_leaves_what_it_started_alone(live):
    child = "trap 'echo child; exit' USR1; while :; do sleep 0.05; done"

    def told(warning, then):
        script = f"trap '{then}; echo shell; exit 0' USR1; sh -c {shlex.quote(child)} & wait"
        number = live.submit("--time", "60s", "--signal", warning, "--wrap", script)
        live.run("wait", number)
        return [word for word in live.run("log", number).stdout.split() if word in ("child", "shell")]

    assert told("B:USR1@58", "sleep 0.3") == ["shell"]
    assert told("USR1@58", "wait") == ["child", "shell"]


def test_another_policy_takes_over_with_the_jobs_that_are_there(live):
    running = live.submit("-c", 3, "--wrap", "touch on; while [ -e on ]; do sleep 0.05; done")
    live.until((live.folder / "on").exists)
    large = live.submit("-c", 4, "--wrap", "echo large >> order")
    live.run("serve", "--stop")
    mine = live.folder / "mine.py"
    mine.write_text(
        "import backfill as bf\n"
        "from backfill.verbs import FIT, following, place, rewind, start\n\n\n"
        "@bf.policy('greedy')\n"
        "def greedy(state):\n"
        "    rewind(state, 0)\n"
        "    job = following(state, 0)\n"
        "    while job >= 0:\n"
        "        if place(state, job):\n"
        "            start(state, job, FIT)\n"
        "        job = following(state, 0)\n"
    )
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "mine.py:greedy"\n')
    small = live.submit("--wrap", "echo small >> order")
    mine.write_text("what is edited later does not matter")
    live.run("wait", small)
    (live.folder / "on").unlink()
    live.run("wait", large)
    live.run("wait", running)
    assert (live.folder / "order").read_text() == "small\nlarge\n"
    assert live.job(small)["why"] == "fit"
    assert "greedy" in live.run("queue").stdout


def test_the_file_of_a_policy_is_found_from_where_one_is(live, tmp_path_factory):
    here = tmp_path_factory.mktemp("here")
    (here / "mine.py").write_text("import backfill as bf\n\n\n@bf.policy('idle')\ndef idle(state):\n    pass\n")
    words = [sys.executable, "-m", "backfill", "serve", "--policy", "mine.py:idle"]
    done = subprocess.run(words, env=live.env, capture_output=True, text=True, timeout=PATIENCE_S, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"policy .*mine-\w+\.py:idle", live.run("queue").stdout)


def test_a_policy_that_fails_is_replaced_and_the_queue_says_so(live):
    (live.folder / "bad.py").write_text(
        "import backfill as bf\n\n\n@bf.policy('bad')\ndef bad(state):\n    state.nothing = 1\n"
    )
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "bad.py:bad"\n')
    number = live.submit("--", "true")
    live.run("wait", number)
    assert "policy easy in place of " in live.run("queue").stdout


def test_a_licence_that_others_use_is_waited_for(live):
    ask = live.folder / "ask"
    ask.write_text("#!/bin/sh\necho comsol 9 9\necho matlab 3 $(cat used)\n")
    ask.chmod(0o700)
    (live.folder / "used").write_text("2")
    with (live.folder / "config.toml").open("a") as file:
        file.write(f'[licence.matlab]\ncopies = 0\nsync = ["/bin/sh", "-c", "cd {live.folder}; ./ask"]\nevery = "1s"\n')
    small = live.submit("-H", "--wrap", "true")  # the daemon starts, and asks
    live.until(lambda: "others use 2 matlab" in live.run("queue").stdout)
    refused = live.run("submit", "-L", "matlab:4", "--", "true", check=3)
    assert "the machine has 3 matlab" in refused.stderr
    large = live.submit("-L", "matlab:3", "--wrap", "test $(cat used) = 0")
    live.until(lambda: live.job(large)["reason"] == "Resources")
    (live.folder / "used").write_text("0")
    live.run("wait", large)
    live.until(lambda: "matlab 0/3" in live.run("queue").stdout)
    ask.write_text("exit 1\n")
    live.until(lambda: "matlab not asked" in live.run("queue").stdout)
    assert "matlab 0/3" in live.run("queue").stdout
    live.run("cancel", small)


def test_who_waits_is_told_that_the_queue_was_stopped(live):
    number = live.submit("-H", "--", "true")
    words = [sys.executable, "-m", "backfill", "wait", str(number)]
    waiting = subprocess.Popen(words, env=live.env, stderr=subprocess.PIPE, text=True)
    live.until(lambda: live.ask({"do": "ping"})["waiters"])
    live.run("serve", "--stop")
    assert waiting.communicate(timeout=PATIENCE_S)[1] == "backfill: the queue was stopped; jobs that run go on\n"
    assert waiting.returncode == 4
    assert not live.daemon()


def waits_for(file):
    """A script that goes on once there is such a file."""
    return f"while [ ! -e {file} ]; do sleep 0.05; done"


def preempted_one(live, while_told):
    """The second and the third of three jobs. The third makes way for the second, and does `while_told` meanwhile."""
    live.configure("preemptive", grace="600s")
    live.submit("-t", "60", "-c", "2", "--wrap", waits_for("first"))
    head = live.submit("-t", "60", "-c", "4", "--wrap", waits_for("head"))
    begins = f"trap '{while_told}; exit 0' TERM; touch on; {waits_for('never')}"
    behind = live.submit("-t", "300", "-c", "2", "--wrap", f"echo $BACKFILL_ATTEMPT; [ -e first ] || {{ {begins}; }}")
    live.until((live.folder / "on").exists)
    (live.folder / "first").touch()
    live.until(lambda: live.job(behind)["state"] == "ENDING")
    return head, behind


def test_a_job_that_makes_way_runs_anew_and_everything_says_so(live):
    head, behind = preempted_one(live, waits_for("told"))
    assert live.job(head)["reason"] == "Preempting"
    assert "the policy has preempted 3" in live.run("explain", head).stdout
    assert "the policy preempts it for job 2" in live.run("explain", behind).stdout
    assert live.job(behind)["state"] == "ENDING"
    assert "only pending jobs can be held" in live.run("hold", behind, check=1).stderr
    (live.folder / "told").touch()
    live.until(lambda: live.job(behind)["state"] == "PENDING")
    assert "it was preempted once for job 2" in live.run("explain", behind).stdout
    (live.folder / "head").touch()
    live.run("wait", behind)
    kinds = [kind for _, kind, _ in live.job(behind)["events"] if kind not in ("submit", "wait", "spawned")]
    assert kinds == ["start", "preempt", "preempted", "start", "end"]
    assert [kind for _, kind, _ in live.job(head)["events"]][-4:] == ["due", "start", "spawned", "end"]
    assert live.run("log", behind).stdout.replace("Terminated\n", "") == "1\n2\n"
    assert "preempted   once for job 2" in live.run("show", behind).stdout
    assert "PREEMPTED" in live.run("history").stdout
    live.run("replay", live.folder, "--check")


def test_a_job_may_be_cancelled_while_it_makes_way(live):
    head, behind = preempted_one(live, waits_for("told"))
    live.run("cancel", behind)
    (live.folder / "told").touch()
    (live.folder / "head").touch()
    live.run("wait", behind, check=None)
    live.run("wait", head)
    assert (live.job(behind)["state"], live.job(behind)["attempt"]) == ("CANCELLED", 1)
    live.run("replay", live.folder, "--check")


@pytest.mark.parametrize("policy", ["round-robin", "preemptive:how=suspend"])
def test_another_policy_that_keeps_what_a_preempted_job_did_does_not_take_over(live, policy):
    live.submit("-H", "--", "true")
    live.until(lambda: live.request("ping")["planner"]["ready"])
    done = live.run("serve", "--policy", policy, check=2)
    assert "pool local can only end a preempted job, which later starts again from the beginning" in done.stderr
    assert live.request("queue")["policy"] == "easy"


@pytest.mark.parametrize("more", [[], ["--drop-promises"], ["--dry-run"]])
def test_another_policy_whose_jobs_take_turns_on_the_processors_does_not_take_over(live, more):
    live.submit("-H", "--", "true")
    done = live.run("serve", "--policy", "gang-matrix", *more, check=2)
    assert "lets jobs take turns on the processors, which a queue cannot carry out" in done.stderr
    assert "--drop-promises" not in done.stderr
    assert live.request("queue")["policy"] == "easy"


@pytest.mark.parametrize("policy", ["round-robin", "preemptive:how=suspend"])
def test_a_queue_of_this_machine_is_not_served_by_a_policy_that_it_cannot_carry_out(live, policy):
    live.configure(policy)
    done = live.run("queue", check=None)
    assert f"policy {policy} preempts jobs by" in done.stderr
    assert "pool local can only end a preempted job" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("policy", ["round-robin:quantum=600", "preemptive:how=suspend"])
def test_a_fake_pool_suspends_and_goes_on(live, policy):
    live.configure(policy, pool="fake:6000")
    asks = [(3, 2), (3, 1), (3, 3), *[(1, 3)] * 4, *[(3, 2)] * 3]  # cpus, hours
    some = [live.submit("-c", cpus, "-t", f"{hours}:00:00", "--wrap", "true") for cpus, hours in asks]
    live.run("wait", *some, check=None)
    jobs = [live.job(one) for one in some]
    assert {job["state"] for job in jobs} == {"COMPLETED"}
    for job in jobs:
        kinds = [kind for _, kind, _ in job["events"]]
        assert kinds.count("end") == 1
        assert kinds.count("start") == job["attempt"] == 1 + kinds.count("preempted")
    if policy != "preemptive:how=suspend":
        assert sum(job["preemptions"] for job in jobs) > 3
        one = max(jobs, key=lambda job: job["preemptions"])
        assert "progress" in live.run("show", one["id"]).stdout
        assert "kept" in live.run("show", one["id"]).stdout
    live.run("replay", live.folder, "--check")
