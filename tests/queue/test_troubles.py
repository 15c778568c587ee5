"""A disk that is full or read-only, a system that forks no more, clients that misbehave: real processes."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.daemon import connection
from backfill.system import processes
from tests.patience import PATIENCE_S
from tests.queue.conftest import Live
from tests.queue.test_clock import queue_at
from tests.queue.world import Clock

SMALL = "6m"
MANY = 50 if "BACKFILL_KILLS" in os.environ else 8


def test_jobs_have_the_limits_of_who_submits_them_and_not_of_who_started_the_daemon(live):
    first = f"ulimit -S -t 3; ulimit -S -n 100; exec nice -n 5 taskset -c 0 {sys.executable} -m backfill serve --detach"
    subprocess.run(["/bin/bash", "-c", first], env=live.env, check=True, cwd="/")
    show = "echo $(ulimit -S -t) $(ulimit -S -n) $(ulimit -H -n) $(ulimit -c) $(nice) $(OMP_NUM_THREADS= nproc)"
    submit = f"{sys.executable} -m backfill submit --parsable -- bash -c '{show}'"
    mine = f"ulimit -S -t 1000; ulimit -S -n 300; ulimit -c 0; exec nice -n 7 {submit}"
    done = subprocess.run(["/bin/bash", "-c", mine], env=live.env, capture_output=True, text=True, cwd="/")
    number = int(done.stdout)
    live.run("wait", number)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    nice = str(min(os.nice(0) + 7, 19))
    cpus = len(os.sched_getaffinity(0))  # the queue has more cpus than the machine, so it binds no job to some
    assert live.run("log", number).stdout.split() == ["1000", "300", str(hard), "0", nice, str(cpus)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two processes of a user without privileges")
def test_memory_that_a_process_hides_counts():
    """Two processes of a user without privileges: one that changed its user cannot be read by the other one."""
    (ready, say), (result, tell) = os.pipe(), os.pipe()
    hidden = os.fork()
    if hidden == 0:
        os.setuid(65534)
        kept = b"x" * (300 << 20)
        os.write(say, kept[:1])
        signal.pause()
    os.read(ready, 1)
    looks = os.fork()
    if looks == 0:
        try:
            os.setuid(65534)
            with pytest.raises(PermissionError), open(f"/proc/{hidden}/smaps_rollup") as file:
                file.read()
            os.write(tell, str(processes.memory_of(hidden)).encode())
        finally:
            os._exit(0)
    os.waitpid(looks, 0)
    processes.send(hidden, signal.SIGKILL)
    os.waitpid(hidden, 0)
    assert int(os.read(result, 100)) > 290 << 20


@pytest.mark.parametrize("limit", [["--mem", "1G"], []])
def test_the_peak_of_a_job_is_that_of_all_its_processes(live, limit):
    (live.folder / "two.py").write_text(
        "import subprocess, sys, time\nkept = b'x' * (80 << 20)\nif len(sys.argv) < 3:\n"
        "    subprocess.run([sys.executable, *sys.argv, 'again'])\nelse:\n    time.sleep(int(sys.argv[1]))\n"
    )

    def peak(seconds):
        number = live.submit("-t", "5", *limit, "--", sys.executable, "two.py", str(seconds))
        live.run("wait", number)
        return live.job(number)["maxrss"]

    # Without a limit, the longer a measurement takes, the later is the next one: on a busy machine seconds later.
    assert any(peak(seconds) > 150 << 20 for seconds in (2, 10, 60))


def test_a_daemon_that_nobody_waits_for_any_more_ends(live):
    """Its client was served by another daemon, which was stopped before this one had come up."""
    wanted, ours = os.pipe()
    command = [sys.executable, "-P", "-m", "backfill.daemon.daemon"]
    env = live.env | {"BACKFILL_WANTED": "1"}
    os.close(ours)
    late = subprocess.Popen(command, stdin=wanted, env=env, stderr=subprocess.PIPE, cwd="/")
    os.close(wanted)
    assert late.communicate(timeout=PATIENCE_S)[1] == b""
    assert late.returncode == 0
    assert not (live.folder / "store.db").exists()


def test_a_job_that_calls_another_queue_leaves_its_daemon_alive(live, tmp_path_factory):
    other = Live(tmp_path_factory.mktemp("other"))
    other.env.pop("BACKFILL_HOME")
    other.env |= {"XDG_STATE_HOME": str(other.folder)}
    there = other.folder / "backfill" / "queue"
    submit = f"{sys.executable} -m backfill submit -- sh -c 'sleep 3; echo ran > {other.folder}/ran'"
    calls = {
        "by its name": f"BACKFILL_HOME={there} {submit}",
        "as the usual one": f"unset BACKFILL_HOME; XDG_STATE_HOME={other.folder} {submit}",
    }
    try:
        for what, call in calls.items():
            live.run("wait", live.submit("-t", "1", "--wrap", call))
            pid = int((there / "lock").read_text())
            (number,) = json.loads(other.run("queue", "--json").stdout)["jobs"]
            other.run("wait", number["id"])
            assert (other.folder / "ran").read_text() == "ran\n", what
            (other.folder / "ran").unlink()
            assert int((there / "lock").read_text()) == pid, what
            marks = {f"{name}=".encode() for name in (processes.JOB, processes.ATTEMPT, processes.KEEPER)}
            with open(f"/proc/{pid}/environ", "rb") as file:
                assert not any(word.startswith(tuple(marks)) for word in file.read().split(b"\0")), what
            other.run("serve", "--stop")
    finally:
        live.run("serve", "--stop", check=None)
        other.folder = there
        other.end()


def run_job(live, *words):
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran", *words)
    live.run("wait", number)
    return number


@pytest.fixture
def small_disk(tmp_path):
    """A queue on a small disk of its own, which a test may fill or make read-only."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=700", "none", tmp_path]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a file system, and not everywhere")
    queue = Live(tmp_path)
    yield queue
    queue.end()
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_full_disk_refuses_submits_records_ends_and_heals(small_disk):
    live = small_disk
    run_job(live)
    (live.folder / "on").touch()
    numbers = [live.submit("--wrap", "while [ -e on ]; do sleep 0.1; done; exit 3") for _ in range(2)]
    live.until(lambda: all(live.job(number)["state"] == "RUNNING" for number in numbers))
    with open(live.folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    refused = live.run("submit", "--", "true", check=None)
    assert refused.returncode == 1
    assert "nothing was stored" in refused.stderr
    (live.folder / "on").unlink()
    for number in numbers:
        live.until(lambda number=number: (live.folder / "run" / f"{number}.1" / "exit.json").exists())
    assert len(live.jobs()) == 3
    (live.folder / "filler").unlink()
    for number in numbers:
        live.run("wait", number, check=3)
    run_job(live)


def test_a_disk_that_is_read_only_is_told_and_nothing_is_lost(small_disk):
    live = small_disk
    number = live.submit("-H", "--", "true")
    live.run("serve", "--stop")
    live.until(lambda: not live.keepers())
    subprocess.run(["mount", "-o", "remount,ro", live.folder], check=True)
    told = live.run("submit", "--", "true", check=4).stderr
    assert "Read-only file system" in told
    assert told.count("\n") == 1
    subprocess.run(["mount", "-o", "remount,rw", live.folder], check=True)
    assert [job["id"] for job in live.jobs()] == [number]
    run_job(live)


def test_a_keeper_that_can_start_nothing_holds_the_job_and_another_one_runs_it(live):
    run_job(live)
    (daemon_keeper,) = live.keepers()
    resource.prlimit(daemon_keeper, resource.RLIMIT_NOFILE, (9, 9))  # enough for the keeper, not for a supervisor
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran")
    live.until(lambda: live.job(number)["reason"] == "LaunchFailed")
    assert [kind for _, kind, _ in live.job(number)["events"]].count("unstarted") == 3
    live.kill(daemon_keeper)
    live.run("release", number)
    live.run("wait", number)
    assert (live.folder / "ran").read_text().split() == ["1", str(number)]


def test_an_attempt_that_the_keeper_cannot_fork_is_taken_back_and_made_again(live):
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran", KEEPER_FAULT="no-fork")
    live.until(lambda: "unstarted" in [kind for _, kind, _ in live.job(number)["events"]])
    live.kill(live.daemon(), *live.keepers())
    live.run("wait", number)
    assert (live.folder / "ran").read_text().split() == [str(number)]


def test_many_clients_at_once_get_a_job_each(live):
    words = [sys.executable, "-m", "backfill", "submit", "--parsable", "-H", "--", "true"]
    some = [subprocess.Popen(words, env=live.env, stdout=subprocess.PIPE, text=True) for _ in range(MANY)]
    numbers = [int(one.communicate(timeout=PATIENCE_S)[0]) for one in some]
    assert sorted(numbers) == [*range(1, MANY + 1)]


def test_a_socket_that_somebody_removed_is_there_again(live):
    run_job(live)
    pid = live.daemon()
    (live.folder / "sock").unlink()
    (live.folder / "hint.sock").unlink()
    run_job(live)
    assert live.daemon() == pid
    live.until(lambda: (live.folder / "hint.sock").exists())
    (live.folder / "sock").unlink()
    live.run("serve", "--stop")  # which comes before the socket does
    assert processes.state(pid) in (b"", b"Z")
    assert not (live.folder / "sock").exists()


def test_when_somebody_removed_lock_and_socket_there_is_one_daemon_in_the_end(live):
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran; sleep 2")
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    first = live.daemon()
    os.kill(first, signal.SIGSTOP)  # as if it came to look late
    for name in ("lock", "sock"):
        (live.folder / name).unlink()
    second = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran")
    assert live.daemon() != first
    live.until(lambda: f"processes {', '.join(map(str, sorted((first, live.daemon()))))} serve this queue" in live.run(
        "doctor", "--deep", check=None).stdout)  # fmt: skip
    os.kill(first, signal.SIGCONT)
    live.until(lambda: not processes.begun(first))
    for one in (number, second):
        live.run("wait", one)
    run_job(live)  # its socket is still there
    assert (live.folder / "ran").read_text().split() == ["1", "2", "3"]
    log = (live.folder / "daemon.log").read_text()
    assert len(log.splitlines()) < 20, log
    live.run("doctor", "--deep")


def test_a_lock_that_somebody_removed_is_taken_again(live):
    run_job(live)
    pid = live.daemon()
    (live.folder / "lock").unlink()
    live.until(lambda: live.daemon() == pid)
    assert live.run("serve", check=75).stderr == f"backfill: process {pid} serves {live.folder} already\n"


def connected(live):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(live.folder / "sock"))
    return sock


def test_clients_that_misbehave_are_shown_the_door_and_others_are_served(live):
    number = live.submit("-H", "--", "true")
    with connected(live) as huge, connected(live) as deaf, connected(live) as gone, connected(live) as halved:
        huge.sendall(b"x" * (connection.LINE + 10))
        file = huge.makefile("rb")
        assert "longer than 8 MiB" in json.loads(file.readline())["error"]["message"]
        assert file.readline() == b""
        deaf.setblocking(False)
        request = json.dumps({"do": "show", "ids": [number]}).encode() + b"\n"
        sent = 0
        try:
            for _ in range(50_000):  # and never reads an answer
                sent += deaf.send(request)
        except BlockingIOError:
            pass
        assert sent
        gone.sendall(request[:-3])
        gone.close()
        halved.sendall(request * 2)
        halved.shutdown(socket.SHUT_WR)
        assert len(halved.makefile("rb").readlines()) == 2
        assert live.ask({"do": "ping"})["pid"] == live.daemon()
        assert run_job(live) == number + 1
    memory = (live.folder / "daemon.log").read_text()
    assert "Traceback" not in memory


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some, max_size=3),
    max_leaves=6,
)
JOB = st.dictionaries(
    st.sampled_from(["need", "name", "walltime", "grace", "priority", "begin", "deadline", "array", "throttle", "after",
                     "any_of", "singleton", "held", "requeue", "project"]), ANYTHING, max_size=4)  # fmt: skip


@settings(max_examples=max(30, settings.default.max_examples), deadline=None)
@given(
    st.sampled_from(["submit", "hold", "release", "cancel", "edit", "fly", None, 3]),
    st.dictionaries(st.sampled_from(["token", "user", "ids", "to", "spec"]), ANYTHING),
    JOB,
    st.booleans(),
)
def test_whatever_is_asked_there_is_one_answer_and_an_error_leaves_no_trace(verb, more, job, well_formed):
    engine, got = queue_at(Clock()), []
    request = {"do": verb, "job": {"need": {"cpus": 1}, **job}, **more}
    if well_formed:
        request |= {"token": "t", "user": "ana", "spec": {"argv": ["true"]}}
    engine.request(request, got.append)
    engine.flush()
    (answer,) = got
    json.dumps(answer)
    events = [one for one in engine.store.events() if one.job]
    assert "error" not in answer or not events
    assert engine.store.differences() == []
