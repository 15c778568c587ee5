"""What is true of an attempt, from the files of its folder."""

import fcntl
import json
import os

import pytest

from backfill.queue import attempts, keeper

BOOT = keeper.boot_id()
HERE = {"boot": BOOT, "pid": os.getpid(), "begun": keeper.begun(os.getpid())}
GONE = {"boot": BOOT, "pid": os.getpid(), "begun": 1}  # another process had this number
BEFORE = {"boot": "another boot", "pid": os.getpid(), "begun": keeper.begun(os.getpid())}
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
        ({"claim": 0, "proc.json": BEFORE, "released": 0}, "unknown", BEFORE),
        ({"claim": 0, "proc.json": BEFORE}, "unknown", BEFORE),  # the mark of its release may not have reached the disk
        ({"claim": 0, "proc.json": GONE, "released": 0, "exit.json": END}, "ended", END),
        ({"claim": 0, "proc.json": BEFORE, "released": 0, "exit.json": END}, "ended", END),
    ],
)
def test_a_folder_without_a_supervisor(tmp_path, files, kind, record):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    verdict = attempts.settle(tmp_path)
    assert (verdict.kind, verdict.record) == (kind, record)


def test_whoever_holds_the_lock_lives(tmp_path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert attempts.settle(tmp_path) == attempts.Verdict("alive", {})
    (tmp_path / "proc.json").write_text(json.dumps(HERE))
    assert attempts.settle(tmp_path) == attempts.Verdict("alive", HERE)
    os.close(lock)


def test_a_revoked_attempt_can_never_be_run(tmp_path):
    run = tmp_path / "run" / "3.1"
    assert attempts.settle(run).kind == "unstarted"
    (run / "spec.json").write_text("{}")
    pid = os.fork()
    if pid == 0:
        keeper.Supervisor(str(tmp_path), str(run)).work()
        os._exit(0)
    os.waitpid(pid, 0)
    assert not (run / "proc.json").exists()
    assert attempts.folders(tmp_path) == [(3, 1)]
