"""Copies of the store that are stores."""

import os

from backfill.queue.backups import DAY_S, KEPT, back_up_if_due
from backfill.queue.store import Store
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
        live.run("serve", "--backup", live.folder / name)
        store = Store(live.folder / name, readonly=True)
        assert store.job(number).held
        assert store.differences() == []
        store.close()
        live.run("serve", "--stop", check=None)
    for wrong, why in (("nowhere/copy.db", "No such file or directory"), ("with.db/copy.db", "Not a directory")):
        told = live.run("serve", "--backup", wrong, check=1).stderr
        assert told == f"backfill: {live.folder / wrong}: {why}\n"
