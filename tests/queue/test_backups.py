"""Copies of the store that are stores."""

import os
import signal
import sys
import traceback

import pytest

from backfill.daemon.backups import DAY_S, KEPT, back_up, back_up_if_due, finish_restore, restore
from backfill.queue.store import Store, StoreError
from tests.queue.test_deep import submit
from tests.queue.test_store import filled


def test_one_copy_a_day_and_the_last_ones_are_kept(tmp_path):
    filled(tmp_path / "store.db").close()
    now = 1_700_000_000.0
    for day in range(KEPT + 3):
        at = now + day * (DAY_S + 1)
        for _ in range(2):
            assert back_up_if_due(tmp_path, at) == ""
            for copy in (tmp_path / "backups").iterdir():
                if copy.stat().st_mtime > at + 10:  # just made: as if it had been made then
                    os.utime(copy, (at, at))
        assert len([*(tmp_path / "backups").iterdir()]) == min(day + 1, KEPT)
    last = sorted((tmp_path / "backups").iterdir())[-1]
    store = Store(last, readonly=True)
    assert [job.id for job in store.jobs()] == [1, 2]
    store.close()


def test_a_copy_on_request_with_and_without_a_daemon(live):
    number = live.submit("-H", "--", "true")
    for name in ("with.db", "without.db"):
        live.run("serve", "--backup", live.folder / "backups" / name)
        store = Store(live.folder / "backups" / name, readonly=True)
        assert store.job(number).held
        assert store.differences() == []
        store.close()
        live.run("serve", "--stop", check=None)
    wrong = "backups/with.db/copy.db"
    told = live.run("serve", "--backup", wrong, check=1).stderr
    assert told == f"backfill: {live.folder / wrong}: Not a directory\n"


def test_a_copy_replaces_neither_a_file_of_the_queue_nor_a_device(live, tmp_path_factory):
    number = live.submit("-H", "--", "true")
    beside = tmp_path_factory.mktemp("beside")
    (beside / "link").symlink_to(live.folder / "store.db")
    (beside / "folder").symlink_to(live.folder)
    os.mkfifo(beside / "pipe")
    before = (live.folder / "store.db").stat().st_ino
    for name in ("store.db", "config.toml", "witness", "lock", "new.db", "log/1.out", beside / "link",
                 beside / "folder" / "store.db"):  # fmt: skip
        told = live.run("serve", "--backup", name, check=2).stderr
        assert told == (
            f"backfill: --backup: {name} is in the folder of the queue, {live.folder}; expected a file outside it, "
            "or in its folder backups\n"
        )
    for name in (beside, beside / "pipe", "/dev/full"):
        told = live.run("serve", "--backup", name, check=2).stderr
        assert told == f"backfill: --backup: {name} is not a regular file; expected a file, which is replaced\n"
    assert (live.folder / "store.db").stat().st_ino == before
    assert live.job(number)["state"] == "PENDING"


def test_no_output_replaces_a_file_of_the_queue(live):
    """Outputs may be in its folder, but under other names."""
    live.run("serve", "--metrics-file", "metrics.prom", "--detach")
    live.submit("--wait", "--output", "mine.txt", "--wrap", "echo ran")
    live.until((live.folder / "planner.kept").exists)
    live.until((live.folder / "metrics.prom").exists)
    kept = {path.name for path in live.folder.iterdir()} - {"log", "mine.txt", "metrics.prom"}
    assert {"store.db", "config.toml", "witness", "lock", "sock", "planner.kept"} <= kept
    for name in kept:
        told = live.run("plan", "--report", live.folder / name, check=2).stderr
        assert told == (
            f"backfill: --report: {live.folder / name} is one of the queue's own files; expected another file\n"
        )
    for words in (
        ("history", "--workload", "config.csv"),
        ("history", "--workload", "store.csv"),
        ("serve", "--metrics-file", "store.db"),
        ("submit", "--output", "store.db", "--wrap", "true"),
        ("submit", "--error", "witness", "--wrap", "true"),
        ("generate", "lublin", "--out", "store.csv"),
        ("simulate", "model:lublin?jobs=2", "--report", "store.db"),
    ):
        assert "is one of the queue's own files; expected another file\n" in live.run(*words, check=2).stderr
    live.run("plan", "--report", "plan.html")
    live.run("history", "--workload", "week.csv")
    live.run("serve", "--stop")
    (live.folder / "config.toml").write_text('metrics_file = "witness"\n')
    told = live.run("serve", "--detach", check=4).stderr
    assert f"metrics_file: {live.folder}/witness is one of the queue's own files" in told


def test_a_copy_that_cannot_be_written_is_one_plain_sentence(tmp_path):
    home, other = tmp_path / "queue", tmp_path / "other"
    home.mkdir()
    filled(home / "store.db").close()
    other.touch()
    assert back_up(str(home), "/nowhere/x.db") == "/nowhere/x.db: No such file or directory"
    assert back_up(str(home), str(other / "x.db")) == f"{other / 'x.db'}: Not a directory"


# ---------------------------------------------------------------------- what a killed restore leaves

TOUCHES = ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "sqlite3.connect")


def killed_restore(home, copy, at):
    """Restore a copy in a process that is killed before it touches a file for the `at`-th time; whether it was."""
    pid = os.fork()
    if pid == 0:
        left = at

        def count(event, _):
            nonlocal left
            left -= event in TOUCHES
            if left <= 0 and event in TOUCHES:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            restore(str(home), str(copy))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


@pytest.mark.parametrize("closed", [True, False], ids=["stopped", "killed before"])
def test_a_restore_that_is_killed_anywhere_leaves_the_old_store_or_the_copy(tmp_path, closed):
    """Never an empty queue; and the old store with its log of writes is kept whenever the copy took its place."""
    filled(tmp_path / "first.db").close()
    assert restore_from(tmp_path / "first.db", tmp_path / "copy.db")
    outcomes = []
    for at in range(1, 1000):
        home = tmp_path / f"{at}"
        home.mkdir()
        store = filled(home / "store.db")
        submit(store, 3)
        assert (home / "store.db-wal").stat().st_size > 0
        if closed:
            store.close()
        killed = killed_restore(home, tmp_path / "copy.db", at)
        finish_restore(home)
        found = Store(home / "store.db")
        jobs = [job.id for job in found.jobs()]
        assert jobs in ([1, 2], [1, 2, 3])
        assert found.differences() == []
        found.close()
        assert not [*home.glob("*.tmp")]
        kept = [*home.glob("store-replaced-*.db")]
        assert len(kept) == (jobs == [1, 2])
        for one in kept:
            old = Store(one)
            assert [job.id for job in old.jobs()] == [1, 2, 3]
            old.close()
        store.close()
        outcomes.append(len(jobs))
        if not killed:
            break
    assert outcomes == sorted(outcomes, reverse=True)
    assert (outcomes[0], outcomes[-1], len(outcomes) > 20) == (3, 2, True)


def restore_from(store, copy):
    """Copy a store; whether that went well."""
    opened = Store(store, readonly=True)
    opened.backup(copy)
    opened.close()
    return copy.exists()


def test_a_store_that_is_missing_after_a_restore_is_not_replaced_by_an_empty_one(tmp_path):
    filled(tmp_path / "store-replaced-20261124-070000-000.db").close()
    with pytest.raises(StoreError, match=r"store.db is missing.*store-replaced-20261124-070000-000.db: backfill serve"):
        finish_restore(tmp_path)
    assert restore(str(tmp_path), str(tmp_path / "store-replaced-20261124-070000-000.db")) == ""
    finish_restore(tmp_path)
    store = Store(tmp_path / "store.db")
    assert [job.id for job in store.jobs()] == [1, 2]
    store.close()


def test_a_restore_that_was_killed_halfway_is_finished_by_the_next_command(live):
    first = live.submit("-H", "--", "true")
    live.run("serve", "--backup", "backups/copy.db")
    second = live.submit("-H", "--", "true")
    live.run("serve", "--stop")
    for at in range(1, 1000):
        assert killed_restore(live.folder, live.folder / "backups" / "copy.db", at)
        if not (live.folder / "store.db").exists():
            break
    assert "1 pending" in live.run("queue").stdout
    assert live.submit("-H", "--", "true") > second > first
    assert "interrupted" in (live.folder / "daemon.log").read_text()


def test_a_restore_that_fails_leaves_the_daemon_at_work(live):
    number = live.submit("-H", "--", "true")
    live.run("serve", "--backup", "backups/copy.db")
    (live.folder / "garbage.db").write_bytes(os.urandom(100_000))
    daemon = live.daemon()
    assert "garbage.db" in live.run("serve", "--restore", "garbage.db", check=1).stderr
    assert live.daemon() == daemon
    (live.folder / "store.db.tmp").mkdir()  # in the way
    assert "Is a directory" in live.run("serve", "--restore", "backups/copy.db", check=1).stderr
    assert live.daemon() not in (0, daemon)
    live.run("serve", "--stop")
    live.run("serve", "--restore", "backups/copy.db", check=1)
    live.until(lambda: live.daemon() == 0)  # it may not have been reaped yet
    (live.folder / "store.db.tmp").rmdir()
    assert live.job(number)["state"] == "PENDING"
    said = live.run("serve", "--restore", "backups/copy.db").stdout
    assert "no job of the copy had begun since it was made" in said
