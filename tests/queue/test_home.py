"""Where a queue lives."""

import os

from backfill.system import home


def test_the_folder_is_named_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("BACKFILL_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert home.home() == f"{tmp_path}/backfill/queue"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BACKFILL_HOME", "here")
    assert home.home() == f"{tmp_path}/here"


def test_a_network_file_system_is_told_by_the_mount_that_is_nearest(monkeypatch, tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text("disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\ndisk2 /home/me/my\\040disk xfs rw 0 0\n")
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda name, **more: real(mounts if name == "/proc/self/mounts" else name, **more)
    )
    assert home.network_type("/home/me/queue") == "nfs4"
    assert home.network_type("/home/me/my disk/queue") == ""
    assert home.network_type("/homes/queue") == ""


def test_a_daemon_that_has_just_taken_the_lock_has_no_number_yet(tmp_path):
    lock = home.alone(tmp_path)
    assert home.served_by(tmp_path) == f"process {os.getpid()}"
    os.ftruncate(lock, 0)
    assert home.served_by(tmp_path) == "another process"
    os.close(lock)
