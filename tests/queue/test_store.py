"""The log on disk: append-only, all or nothing, and refused by a program that is too old for it."""

import sqlite3

import pytest

from backfill.queue.job import Job
from backfill.queue.store import Store, StoreError, StoreLost
from tests.queue.logs import entry


def submitted(number, **facts):
    return entry(
        "submit", number, {"job": Job(number, token=f"t{number}", need={"cpus": 1}, **facts).facts()}, t=number
    )


def filled(path):
    store = Store(path)
    book = store.load()
    events = [
        entry("capacity", 0, {"resources": {"cpus": 2}, "cpu_ids": [0, 1], "gpu_ids": []}),
        submitted(1),
        submitted(2),
    ]
    book.apply(events)
    store.commit(events, book.jobs.values(), 5)
    return store


def test_what_was_committed_is_read_again(tmp_path):
    filled(tmp_path / "store.db").close()
    store = Store(tmp_path / "store.db")
    book = store.load()
    assert sorted(book.jobs) == [1, 2]
    assert book.capacity == {"cpus": 2}
    assert [one.event.kind for one in store.events()] == ["capacity", "submit", "submit"]
    assert store.by_token("t2").id == 2
    assert store.differences() == []
    store.close()


def test_a_table_that_is_not_the_fold_of_the_log_is_found(tmp_path):
    store = filled(tmp_path / "store.db")
    store._db.execute("UPDATE job SET facts = json_set(facts, '$.walltime', 99) WHERE id = 2")
    assert store.differences() == ["job 2 differs"]
    store.close()


def test_the_log_can_only_grow(tmp_path):
    store = filled(tmp_path / "store.db")
    for statement in ("DELETE FROM event", "UPDATE event SET kind = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            store._db.execute(statement)
    store.close()


def test_a_full_disk_leaves_nothing_and_heals(tmp_path):
    store = filled(tmp_path / "store.db")
    store._db.execute(f"PRAGMA max_page_count={store._db.execute('PRAGMA page_count').fetchone()[0]}")
    number = store.keep_spec("small")
    large = submitted(3, name="x" * 200_000)
    with pytest.raises(StoreError, match="full"):
        store.commit([large], [Job.read(large.event.row)], 5)
    assert store.job(3) is None
    assert len([*store.events()]) == 3
    store._db.execute("PRAGMA max_page_count=1000000")
    store.commit([large], [Job.read(large.event.row)], 5)
    assert store.job(3).id == 3
    assert store.keep_spec("small") == number
    store.close()


def test_a_store_to_which_another_process_wrote_must_be_read_anew(tmp_path):
    store = filled(tmp_path / "store.db")
    other = Store(tmp_path / "store.db")
    other.commit([submitted(3)], [Job.read(submitted(3).event.row)], 5)
    with pytest.raises(StoreLost, match="UNIQUE"):
        store.commit([submitted(4)], [Job.read(submitted(4).event.row)], 5)
    assert len([*other.events()]) == 4
    store.close()
    other.close()


def test_a_newer_or_a_foreign_store_is_refused(tmp_path):
    path = tmp_path / "store.db"
    filled(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=7")
    db.close()
    with pytest.raises(StoreError, match="schema version 7"):
        Store(path)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("PRAGMA user_version=1")
    db.close()
    with pytest.raises(StoreError, match="is not a store of backfill"):
        Store(other)
    with pytest.raises(StoreError, match="unable to open"):
        Store(tmp_path / "missing.db", readonly=True)


def test_equal_specs_are_kept_once(tmp_path):
    store = filled(tmp_path / "store.db")
    assert store.keep_spec('{"argv": 1}') == store.keep_spec('{"argv": 1}') != store.keep_spec('{"argv": 2}')
    store.close()


def test_events_and_specs_of_a_transaction_that_failed_leave_no_gap(tmp_path):
    store = filled(tmp_path / "store.db")
    first = store.keep_spec('{"argv":["a"]}')
    with pytest.raises(StoreError):
        store.commit([submitted(3)], [Job(3, token="t1")], 5)  # a token that is there
    other = store.keep_spec('{"argv":["b"]}')
    again = store.keep_spec('{"argv":["a"]}')
    assert {first, other, again} == {other, again}
    assert other != again
    job = Job(3, token="t3", spec=again)
    event = submitted(3)
    assert store.commit([event], [job], 5) == 4
    assert store.spec(again) == {"argv": ["a"]}
    assert [one.seq for one in store.events()] == [1, 2, 3, 4]
    store.close()
