"""What is true of an attempt, from the files of its folder."""

import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from backfill.pools.local import attempts, supervisor
from backfill.system import processes, witness
from tests.patience import until

BOOT = processes.boot_id()
HERE = {"boot": BOOT, "pid": os.getpid(), "begun": processes.begun(os.getpid())}
GONE = {"boot": BOOT, "pid": os.getpid(), "begun": 1}  # another process had this number
BEFORE = {"boot": "another boot", "pid": os.getpid(), "begun": processes.begun(os.getpid())}
END = {"status": 0}
FAILED = {"launch": True}


@pytest.mark.parametrize(
    ("files", "kind", "record"),
    [
        ({}, "unstarted", {}),
        ({"spec.json": {}}, "unstarted", {}),
        ({"claim": 0}, "unstarted", FAILED),
        ({"claim": 0, "proc.json": GONE}, "unstarted", FAILED),
        ({"claim": 0, "proc.json": HERE}, "unstarted", FAILED),  # blocked for ever, or gone soon
        ({"claim": 0, "proc.json": GONE, "released": 0, "unreleased": 0}, "unstarted", FAILED),
        ({"claim": 0, "proc.json": HERE, "released": 0}, "orphan", HERE),
        ({"claim": 0, "proc.json": GONE, "released": 0}, "unknown", GONE),
        ({"claim": 0, "proc.json": GONE, "released": 0, "told": 0}, "unknown", GONE | {"told": True}),
        ({"claim": 0, "proc.json": BEFORE, "released": 0, "told": 0}, "unknown", BEFORE | {"told": True}),
        ({"claim": 0, "proc.json": BEFORE, "released": 0}, "unknown", BEFORE),
        ({"claim": 0, "proc.json": BEFORE}, "unstarted", FAILED),  # the witness was told nothing
        ({"claim": 0, "witness": BEFORE}, "unknown", BEFORE),
        ({"witness": GONE}, "unknown", GONE),
        ({"witness": HERE}, "orphan", HERE),
        ({"witness": GONE, "unreleased": 0}, "unstarted", FAILED),
        ({"witness": GONE, "exit.json": END}, "ended", END),
        ({"claim": 0, "proc.json": GONE, "released": 0, "exit.json": END}, "ended", END),
        ({"claim": 0, "proc.json": BEFORE, "released": 0, "exit.json": END}, "ended", END),
    ],
)
def test_a_folder_without_a_supervisor(tmp_path, files, kind, record):
    run = tmp_path / "run" / "3.1"
    run.mkdir(parents=True)
    for name, content in files.items():
        if name == "witness":
            witness.write(str(tmp_path), witness.line("began", "3.1", content))
        else:
            (run / name).write_text(json.dumps(content))
    verdict = attempts.settle(run)
    assert (verdict.kind, verdict.record) == (kind, record)


def test_whoever_holds_the_lock_lives(tmp_path):
    run = tmp_path / "run" / "3.1"
    run.mkdir(parents=True)
    lock = os.open(run / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert attempts.settle(run) == attempts.Verdict("alive", {})
    (run / "proc.json").write_text(json.dumps(HERE))
    assert attempts.settle(run) == attempts.Verdict("alive", {})  # not released yet
    (run / "released").touch()
    assert attempts.settle(run) == attempts.Verdict("alive", HERE)
    os.close(lock)


def test_a_job_that_ended_before_it_was_told_to_make_way_has_just_ended(tmp_path):
    """The request comes at about the instant at which the job ends: one of both happens, and the record says which."""
    causes = []
    for number in range(1, 41):
        run = tmp_path / "run" / f"{number}.1"
        spec = {"argv": ["/bin/sleep", "0.03"], "env": {}, "output": os.devnull, "walltime_s": 60, "grace_s": 5}
        attempts.prepare(tmp_path, number, 1, spec)
        pid = os.fork()
        if pid == 0:
            supervisor.Supervisor(str(tmp_path), str(run)).work()
            os._exit(0)
        while not (run / "released").exists():
            time.sleep(0.0005)
        time.sleep(0.024 + 0.0003 * number)
        attempts.ask_to_stop(run, "preempt", if_alive=True)
        processes.send(pid, signal.SIGUSR1)
        os.waitpid(pid, 0)
        verdict = attempts.settle(run)
        assert verdict.kind == "ended"
        cause, status = verdict.record["cause"], verdict.record["status"]
        assert (cause, status) in ((None, 0), ("preempt", signal.SIGTERM)), (cause, status)
        assert (run / "told").exists() == (cause == "preempt")
        causes.append(cause)
    print({cause: causes.count(cause) for cause in causes})


def test_a_job_is_told_to_end_that_has_only_just_been_released(tmp_path, monkeypatch):
    """Between its release and its own process group there are a few microseconds: here half a second."""
    run = tmp_path / "run" / "1.1"
    spec = {"argv": ["/bin/sleep", "60"], "env": {}, "output": os.devnull, "walltime_s": 600, "grace_s": 30}
    attempts.prepare(tmp_path, 1, 1, spec)
    own_group = os.setsid
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(os, "setsid", lambda: (time.sleep(0.5), own_group()))
        supervisor.Supervisor(str(tmp_path), str(run)).work()
        os._exit(0)
    until((run / "released").exists, 0.001)
    attempts.ask_to_stop(run, "cancel")
    processes.send(pid, signal.SIGUSR1)
    os.waitpid(pid, 0)
    record = attempts.settle(run).record
    assert (record["cause"], record["status"]) == ("cancel", signal.SIGTERM)


def test_an_orphan_is_told_to_make_way_once_it_stands_still(tmp_path):
    attempts.ask_to_stop(tmp_path, "preempt", if_alive=True)
    job = subprocess.Popen(["/bin/sleep", "6000"])
    try:
        assert attempts.may_end(tmp_path, job.pid)
        assert (tmp_path / "told").exists()
        assert processes.stands_still(job.pid)
        (tmp_path / "told").unlink()
    finally:
        job.kill()
        job.wait()
    assert not attempts.may_end(tmp_path, job.pid)  # it has ended
    assert not (tmp_path / "told").exists()


def test_a_revoked_attempt_can_never_be_run(tmp_path):
    run = tmp_path / "run" / "3.1"
    assert attempts.settle(run).kind == "unstarted"
    (run / "spec.json").write_text("{}")
    pid = os.fork()
    if pid == 0:
        supervisor.Supervisor(str(tmp_path), str(run)).work()
        os._exit(0)
    os.waitpid(pid, 0)
    assert not (run / "proc.json").exists()
    assert attempts.folders(tmp_path) == [(3, 1)]
