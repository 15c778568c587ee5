"""What is wrong with a record is found, whatever wrote it."""

import sqlite3

import pytest

from backfill.queue import deep
from backfill.queue.deep import check_deep, compare_with_witness, judge
from backfill.queue.store import Store, StoreError, StoreLost
from backfill.system import witness
from tests.queue.logs import entry
from tests.queue.test_store import filled, submitted
from tests.queue.virtual import Virtual

THERE = entry("capacity", 0, {"resources": {"cpus": 2}, "cpu_ids": [0, 1], "gpu_ids": []})


def start(number, t, *cpus):
    return entry("start", number, {"start": t, "cpu_ids": [*cpus], "gpu_ids": []}, t)


def submit(store, number, **facts):
    book, event = store.load(), submitted(number, **facts)
    book.apply([event])
    store.commit([event], [book.jobs[number]], 5)


def preempt(number, t):
    return entry("preempt", number, {"for": 2}, t)


def end(number, t, kind="end"):
    return entry(kind, number, {"state": "COMPLETED"} if kind == "end" else {}, t)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([start(1, 5, 0), end(1, 6), start(2, 6, 0)], ""),
        ([start(1, 5, 0), end(1, 6, "unstarted"), start(1, 7, 0), end(1, 9)], ""),
        ([start(1, 5, 0), start(1, 6, 1)], "job 1 is started at event 0 while it runs"),
        ([start(1, 5, 0), end(1, 6), start(1, 7, 0)], "job 1 is started again"),
        ([start(1, 5, 0), end(1, 6, "requeue"), start(1, 7, 0)], "job 1 is started again"),
        ([start(3, 5, 0), end(3, 6, "requeue"), start(3, 7, 0)], ""),
        ([start(1, 5, 0), start(2, 5, 1), start(3, 5, 0)], "3 cpus are held"),
        ([start(1, 5, 0), start(2, 5, 0)], "cpu_ids [0] are given twice"),
        ([start(1, 5, 0), preempt(1, 6), end(1, 7, "preempted"), start(1, 8, 0), end(1, 9)], ""),
        ([start(1, 5, 0), preempt(1, 6), start(2, 6, 0)], "cpu_ids [0] are given twice"),
        ([start(1, 5, 0), preempt(1, 6), end(1, 6), start(1, 7, 0)], "job 1 is started again"),
        ([start(1, 5, 0), end(1, 7, "preempted")], "which no policy decided"),
        ([end(1, 6)], "ends job 1, which holds nothing"),
        ([start(1, 5, 0), end(1, 4)], "dated before"),
    ],
)
def test_a_log_that_breaks_a_promise_is_found(events, said):
    jobs = [submitted(1), submitted(2), submitted(3, requeue=True)]
    found = judge([THERE, *jobs, *events])
    assert said in found[0] if said else found == []


def test_a_run_that_was_seen_and_is_said_to_have_never_begun_is_found():
    log = [THERE, submitted(1), start(1, 5, 0), entry("spawned", 1, {"processes": {}}, 6), end(1, 7, "unstarted")]
    assert judge(log) == ["event 0 says that job 1 never started, and it was seen running"]


def test_what_the_witness_knows_and_the_log_does_not_is_found():
    def begins(number, attempt, kind="start"):
        facts = {"attempt": attempt}
        return entry(kind, number, facts if kind == "start" else {"job": facts})

    log = [submitted(1), begins(1, 1), begins(1, 2), submitted(2), begins(2, 1, "adopted"), submitted(3)]
    log += [begins(3, 1), entry("unstarted", 3, {"launch": False})]
    assert compare_with_witness(log, ["1.1", "1.2", "2.1"]) == []
    said = compare_with_witness(log, ["1.1", "1.1", "3.1", "4.1", "2.2"])
    assert [line.partition(",")[0] for line in said] == [
        "attempt 1.1 began twice", "attempt 3.1 began", "attempt 4.1 began", "attempt 2.2 began",
    ]  # fmt: skip
    after_a_restore = [submitted(5), begins(5, 4, "adopted")]  # of a job that had failed, and was started again
    assert compare_with_witness(after_a_restore, ["5.1", "5.2", "5.3", "5.4"]) == []
    assert len(compare_with_witness(after_a_restore, ["5.5"])) == 1
    restored = [*log, entry("up", 0, {"last_job": 1003})]  # a copy of the store has lost job 4
    assert len(compare_with_witness(restored, ["4.1"])) == 0


def test_a_sound_store_and_one_with_another_table(tmp_path):
    filled(tmp_path / "store.db").close()
    assert check_deep(tmp_path) == []
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("UPDATE job SET facts = json_set(facts, '$.walltime', 99) WHERE id = 2")
    db.close()
    assert check_deep(tmp_path) == ["job 2 differs"]


def test_a_log_that_is_shorter_than_it_was_is_found(tmp_path):
    filled(tmp_path / "store.db").close()
    witness.write(str(tmp_path), 'log 3 {"last_job":2}')
    assert check_deep(tmp_path) == []
    witness.write(str(tmp_path), 'log 9 {"last_job":5}')
    assert check_deep(tmp_path)[0].startswith("the log has 3 events, and had 9, says the witness")


def test_a_store_that_is_written_meanwhile_is_judged_as_it_was(tmp_path, monkeypatch):
    store = filled(tmp_path / "store.db")

    def slowly(log):
        found = judge(log)
        submit(store, 3)
        return found

    monkeypatch.setattr(deep, "judge", slowly)
    assert check_deep(tmp_path) == []
    monkeypatch.undo()
    assert check_deep(tmp_path) == []
    assert [job.id for job in store.jobs()] == [1, 2, 3]


def test_a_damaged_file_is_named_and_never_read_in_silence(tmp_path):
    path = tmp_path / "store.db"
    store = filled(path)
    for number in range(3, 60):
        submit(store, number, name="x" * 100)
    store.close()
    whole = bytearray(path.read_bytes())
    for page in range(4096, len(whole), 4096):
        whole[page : page + 200] = b"\xff" * 200
    path.write_bytes(bytes(whole))
    assert "Page" in check_deep(tmp_path)[0]
    with pytest.raises(StoreError):
        Store(path).load()


def test_an_attempt_of_which_the_log_has_lost_the_start_takes_the_place_of_the_one_before_it(tmp_path):
    """Another one is made when the one before it is over, so that is over, too."""
    queue = Virtual(tmp_path)
    number = queue.submit(2)
    book = queue.engine.book
    facts = {**book.jobs[number].facts(), "attempt": 2, "cpu_ids": [2, 3]}
    queue.engine.adopt(facts, {"argv": ["true"]})
    queue.flush()
    assert (book.jobs[number].attempts, book.held["cpus"], {*+book.busy_cpus}) == (2, 2, {2, 3})
    queue.drain()
    assert check_deep(tmp_path) == []


def copies(path):
    """The store and its write-ahead log, as a crash leaves them."""
    return path.read_bytes(), path.with_name("store.db-wal").read_bytes()


@pytest.mark.parametrize("damage", ["torn", "flipped"])
def test_of_a_damaged_log_of_writes_a_whole_number_of_transactions_is_left(tmp_path, damage):
    path = tmp_path / "store.db"
    store = filled(path)
    for number in range(3, 23):
        submit(store, number)
    main, wal = copies(path)
    store.close()
    kept = []
    for place in range(0, len(wal), len(wal) // 25):
        folder = tmp_path / f"{place}"
        folder.mkdir()
        (folder / "store.db").write_bytes(main)
        left = wal[:place] if damage == "torn" else wal[:place] + bytes([wal[place] ^ 255]) + wal[place + 1 :]
        (folder / "store.db-wal").write_bytes(left)
        again = Store(folder / "store.db")
        jobs = [job.id for job in again.jobs()]
        assert jobs == [*range(1, len(jobs) + 1)]
        assert again.differences() == []
        kept.append(len(jobs))
        again.close()
        assert check_deep(folder) == []
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_a_backup_is_a_store_and_is_there_whole_or_not_at_all(tmp_path):
    store = filled(tmp_path / "store.db")
    store._begin()  # something of which nothing is committed yet
    store._db.execute("INSERT INTO spec (sha256, body) VALUES (x'00', '{}')")
    reader = Store(tmp_path / "store.db", readonly=True)
    reader.backup(tmp_path / "copy.db")
    copy = Store(tmp_path / "copy.db", readonly=True)
    assert [job.id for job in copy.jobs()] == [1, 2]
    assert copy.differences() == []
    copy.close()
    with pytest.raises(StoreError, match="No such file"):
        reader.backup(tmp_path / "nowhere" / "copy.db")
    assert not (tmp_path / "copy.db-wal").exists()
    reader.close()
    store.close()


def test_a_store_that_cannot_be_read_ends_the_daemon(tmp_path):
    store = filled(tmp_path / "store.db")
    store._db.execute("DROP TABLE spec")
    with pytest.raises(StoreLost, match="no such table"):
        store.spec(1)
    store.close()
