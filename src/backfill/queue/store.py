"""The log of events on disk, with tables derived from it. The only module that uses SQL.

When `commit` returns, its data is on disk: WAL, synchronous FULL, one transaction for all events at a time.
"""

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from backfill.queue.book import Book
from backfill.queue.events import Array, Entry, decoded
from backfill.queue.job import Job, Task
from backfill.queue.measured import Histogram
from backfill.queue.projects import Project, ProjectEvent, learn
from backfill.queue.shapes import Row, Spec
from backfill.queue.states import COMPLETED, OVER
from backfill.system.processes import sync

encode = json.JSONEncoder(separators=(",", ":")).encode

APPLICATION = 0x62_66_51_31  # bfQ1
SCHEMA = [
    """
    CREATE TABLE spec (id INTEGER PRIMARY KEY, sha256 BLOB UNIQUE NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE TABLE job (
      id INTEGER PRIMARY KEY, token TEXT UNIQUE NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
      submit_us INTEGER NOT NULL, start_us INTEGER, end_us INTEGER, facts TEXT NOT NULL) STRICT;
    CREATE INDEX job_open ON job(id) WHERE end_us IS NULL;
    CREATE TABLE event (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, batch INTEGER NOT NULL, t_us INTEGER NOT NULL, wall_us INTEGER NOT NULL,
      kind TEXT NOT NULL, job INTEGER NOT NULL, data TEXT NOT NULL) STRICT;
    CREATE INDEX event_job ON event(job, seq) WHERE job > 0;
    CREATE INDEX event_epoch ON event(seq) WHERE kind = 'epoch';
    CREATE INDEX event_capacity ON event(seq) WHERE kind = 'capacity';
    CREATE TRIGGER event_stays BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
    CREATE TRIGGER event_kept BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
    """,
    "CREATE INDEX event_up ON event(seq) WHERE kind = 'up';",
    """
    ALTER TABLE job ADD COLUMN array_id INTEGER;
    ALTER TABLE job ADD COLUMN task INTEGER;
    UPDATE job SET array_id = json_extract(facts, '$.array'), task = json_extract(facts, '$.index');
    CREATE INDEX job_array ON job(array_id, id) WHERE array_id IS NOT NULL;
    CREATE INDEX job_name ON job(name, id);
    CREATE INDEX event_array ON event(seq) WHERE kind = 'array';
    CREATE INDEX event_pause ON event(seq) WHERE kind IN ('pause', 'unpause');
    """,
    "CREATE INDEX event_node ON event(seq) WHERE kind = 'node';",
    """
    ALTER TABLE job ADD COLUMN project TEXT;
    UPDATE job SET project = json_extract(facts, '$.project');
    CREATE INDEX job_project ON job(project, id) WHERE project IS NOT NULL;
    CREATE INDEX event_project ON event(t_us, seq) WHERE kind IN ('project', 'departure', 'departed');
    """,
    "CREATE INDEX event_reserve ON event(seq) WHERE kind IN ('reserve', 'opened', 'unreserve');",
]  # one step from version to version each; a released one is never edited


INSERT_EVENT = "INSERT INTO event (seq, batch, t_us, wall_us, kind, job, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
WRITE_JOB = (
    "INSERT INTO job VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET state=excluded.state, "
    "name=excluded.name, start_us=excluded.start_us, end_us=excluded.end_us, facts=excluded.facts"
)


SPECS = 1000  # specs whose numbers are kept in memory
CHECKPOINT_PAGES = 50_000  # pages in the write-ahead log, after which a commit moves it; see `move_writes`
BACKUP = "backup"  # the last event of a backup
NEXT = "store.db.next"  # beside a store: a complete one that is to replace it, see `put_in_place`


class StoreError(Exception):
    """The store cannot be opened or written; nothing of the transaction is there."""


class StoreLost(StoreError):
    """The content of the disk is unknown: only a new process that reads it again may continue."""


class Store:
    """One connection. The daemon writes; readers open with `readonly`."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self.path, self.batch, self._seq = path, 0, 0
        self._specs: dict[bytes, int] = {}  # numbers of the last specs, by digest
        self.commits = Histogram()  # durations of the transactions of this connection
        try:
            if readonly:
                uri = f"{path.absolute().as_uri()}?mode=ro"  # it escapes #, ? and %
                self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)
            else:
                self._db = sqlite3.connect(path, isolation_level=None, timeout=5)
            self._open(readonly)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error

    def _open(self, readonly: bool) -> None:
        run = self._db.execute
        (version,) = run("PRAGMA user_version").fetchone()
        (application,) = run("PRAGMA application_id").fetchone()
        if version and application != APPLICATION:
            raise StoreError(f"{self.path} is not a store of backfill")
        if version > len(SCHEMA):
            known = f"this backfill reads up to {len(SCHEMA)}; install a newer one"
            raise StoreError(f"{self.path} has schema version {version}; {known}")
        self.schema = int(version)
        run("PRAGMA trusted_schema=OFF")
        if readonly:
            return
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        run(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        run("PRAGMA foreign_keys=ON")
        if 0 < version < len(SCHEMA):
            run("VACUUM INTO ?", (str(self.path.with_name(f"store-v{version}.bak")),))
        for number, step in enumerate(SCHEMA[version:], version + 1):
            self._db.executescript(
                f"BEGIN; {step} PRAGMA user_version={number}; PRAGMA application_id={APPLICATION}; COMMIT;"
            )
        self.batch, self._seq = self._last("batch"), self._last("seq")
        self._inode = self.path.stat().st_ino if self.path.exists() else 0  # 0 for a store in memory

    def removed(self) -> bool:
        """Return whether the file was removed. Raises StoreLost if another one is in its place."""
        try:
            if self._inode and self.path.stat().st_ino != self._inode:
                raise StoreLost(f"{self.path}: another file was put in its place")
        except FileNotFoundError:
            return True
        return False

    def write_anew(self) -> None:
        """Write a removed store again, from the data of this connection, which must not be used afterwards."""
        self.backup(self.path.with_name(NEXT))
        put_in_place(self.path)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def commit(self, entries: Sequence[Entry], jobs: Iterable[Job], wall: int) -> int:
        """Write events, and jobs as they are after them, in one transaction. Raises StoreError: nothing was written.

        Return the position of the first event in the log; the others follow it.
        """
        begin = time.perf_counter()
        try:
            self._begin()
            batch, first = self.batch + 1, self._seq + 1
            self._db.executemany(
                INSERT_EVENT,
                [
                    (seq, batch, t, wall, event.kind, event.column, encode(event.data()))
                    for seq, (event, t, _) in enumerate(entries, first)
                ],
            )
            self._db.executemany(
                WRITE_JOB,
                [
                    (job.id, job.token, job.user, job.name, job.state, job.submit, job.start, job.end,
                     encode(job.brief()), job.array or None, job.index, job.project or None)
                    for job in jobs
                ],
            )  # fmt: skip
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._undone(error) from error
        self.commits.observe(time.perf_counter() - begin)
        self.batch, self._seq = batch, self._seq + len(entries)
        return first

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def forget(self) -> None:
        """Drop what was collected for the next commit."""
        self._specs.clear()
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _undone(self, error: sqlite3.Error) -> StoreError:
        """Roll the open transaction back and return its error.

        A failed sync is never retried: the disk is then unknown. A row that exists already was written by another
        process, beside which this one must not continue.
        """
        self._specs.clear()
        lost = "disk I/O error" in str(error) or isinstance(error, sqlite3.IntegrityError)
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            lost = True
        return (StoreLost if lost else StoreError)(f"{self.path}: {error}")

    def _read(self, statement: str, values: Iterable[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. Raises StoreLost: a store that cannot be read is damaged, or its disk is."""
        try:
            yield from self._db.execute(statement, tuple(values))
        except sqlite3.Error as error:
            raise StoreLost(f"{self.path}: {error}") from error

    def keep_spec(self, body: str) -> int:
        """Return the number of a spec; equal ones share one. It is part of the next commit."""
        digest = hashlib.sha256(body.encode()).digest()
        if (known := self._specs.get(digest)) is not None:
            return known
        if len(self._specs) >= SPECS:
            self._specs.clear()
        number = self._specs[digest] = self._spec_number(digest, body)
        return number

    def _spec_number(self, digest: bytes, body: str) -> int:
        try:
            row = self._db.execute("SELECT id FROM spec WHERE sha256 = ?", (digest,)).fetchone()
            if row is None:
                self._begin()
                done = self._db.execute("INSERT INTO spec (sha256, body) VALUES (?, ?)", (digest, body))
                return int(done.lastrowid or 0)
        except sqlite3.Error as error:
            raise self._undone(error) from error
        return int(row[0])

    def spec(self, number: int) -> Spec:
        """Return the spec with this number."""
        ((body,),) = self._read("SELECT body FROM spec WHERE id = ?", (number,))
        found: Spec = json.loads(body)
        return found

    def job(self, number: int) -> Job | None:
        """Return a job, over or not; None if there is none."""
        return self._one("id = ?", number)

    def by_token(self, token: str) -> Job | None:
        """Return the job that was submitted with this token."""
        return self._one("token = ?", token)

    def _one(self, where: str, value: Any) -> Job | None:
        rows = [*self._read(f"SELECT facts FROM job WHERE {where}", (value,))]
        return Job.read(json.loads(rows[0][0])) if rows else None

    def jobs(self, where: str = "1", values: Iterable[Any] = (), limit: int = -1, order: str = "id") -> list[Job]:
        """Return jobs in the order of their ids, or of other columns; with a limit the last ones."""
        by = ", ".join(f"{column} DESC" for column in order.split(", "))
        rows = self._read(f"SELECT facts FROM job WHERE {where} ORDER BY {by} LIMIT ?", (*values, limit))
        facts_of_jobs = json.loads(f"[{','.join([facts for (facts,) in rows])}]")  # much faster than one by one
        return [Job.read(facts) for facts in reversed(facts_of_jobs)]

    def over(self, array: int) -> list[Task]:
        """Return the tasks of an array that are over, in their order."""
        rows = self._read(
            "SELECT id, task, state FROM job WHERE array_id = ? AND end_us IS NOT NULL ORDER BY id", (array,)
        )  # fmt: skip
        return [Task(number, array, index, state) for number, index, state in rows]

    def count(self, where: str, values: Iterable[Any]) -> int:
        """Return the number of jobs that match."""
        ((number,),) = self._read(f"SELECT count(*) FROM job WHERE {where}", values)
        return int(number)

    def counts(self) -> dict[str, int]:
        """Return the number of open jobs in each state."""
        return dict(self._read("SELECT state, count(*) FROM job WHERE end_us IS NULL GROUP BY state"))

    def ended(self, limit: int) -> list[Job]:
        """Return the last jobs that ended, in the order of their ids."""
        return self.jobs(f"state IN ({', '.join('?' * len(OVER))})", OVER, limit)

    def events(
        self, since: int = 0, kinds: Sequence[str] = (), but: Sequence[str] = (), most: int = -1
    ) -> Iterator[Entry]:
        """Yield the events after a position in the log: all, those of some kinds, or all but those of some kinds.

        most: the number of them; -1 for all. Raises KeyError for one that lacks a field.
        """
        where = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        where += f" AND kind NOT IN ({', '.join('?' * len(but))})" if but else ""
        rows = self._read(
            f"SELECT seq, t_us, kind, job, data FROM event WHERE seq > ?{where} ORDER BY seq LIMIT ?",
            (since, *kinds, *but, most),
        )
        for seq, t, kind, number, data in rows:
            yield Entry(decoded(kind, number, json.loads(data) if data != "{}" else {}), t, seq)

    def raw_events(self, since: int, limit: int) -> Iterator[tuple[int, int, str, int, Row]]:
        """Yield the next events after a position as they are written: position, instant, kind, job (0: none), data."""
        statement = "SELECT seq, t_us, kind, job, data FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
        for seq, t, kind, job, data in self._read(statement, (since, limit)):
            yield seq, t, kind, job, json.loads(data)

    def skew(self) -> int:
        """Return how far the calendar was ahead of the queue clock at the last event that says so, in microseconds."""
        query = "SELECT json_extract(data, '$.skew') FROM event WHERE kind IN ('up', 'clock') ORDER BY seq DESC"
        return next((int(skew) for (skew,) in self._read(query) if skew is not None), 0)

    def story(self, job: int) -> Iterator[tuple[int, str, Row]]:
        """Yield the events of a job in the log: instant, kind, data."""
        where = "job = ? AND job > 0"  # the second condition makes SQLite use the index
        for t, kind, data in self._read(f"SELECT t_us, kind, data FROM event WHERE {where} ORDER BY seq", (job,)):
            yield t, kind, json.loads(data)

    def latest(self, count: int, kinds: Sequence[str] = ()) -> Iterator[Entry]:
        """Yield the last events of the log, or those of some kinds."""
        return self.events(max(self._last("seq") - count, 0), kinds)

    def project(self, name: str) -> Project | None:
        """Return a project that was submitted as a whole, departed or not."""
        last, projects = None, dict[str, Project]()
        for event, t in self._project_events(name):
            last = learn(projects, event, t)
        return last

    def _project_events(self, name: str) -> Iterator[tuple[ProjectEvent, int]]:
        """Yield the events of a project itself, without those of its jobs, and their instants."""
        ((since,),) = self._read("SELECT min(submit_us) FROM job WHERE project = ?", [name])
        where = "kind IN ('project', 'departure', 'departed') AND t_us >= ?"
        if since is not None:
            for t, kind, data in self._read(
                f"SELECT t_us, kind, data FROM event WHERE {where} ORDER BY t_us, seq", [since]
            ):
                event = decoded(kind, 0, json.loads(data))
                if isinstance(event, ProjectEvent) and event.project == name:
                    yield event, t

    def jobs_of(self, project: str, limit: int = -1) -> list[Job]:
        """Return the jobs with this project name, however they were submitted; with a limit the last ones."""
        return self.jobs("project = ?", [project], limit)

    def last_job(self) -> int:
        """Return the last job number that must not be assigned again; 0 if there is none."""
        ((last,),) = self._read("SELECT coalesce(max(id), 0) FROM job")
        return max(int(last), int(self.clock().get("last_job", 0)))  # a restore leaves a gap

    def first_t(self) -> int:
        """Return the first instant of the log; 0 if it is empty."""
        return self._last("t_us", "ASC")

    def last_t(self) -> int:
        """Return the last instant of the log; 0 if it is empty."""
        return self._last("t_us")

    def clock(self) -> Row:
        """Return the last daemon's record of its clock; empty if there was none."""
        rows = [*self._read("SELECT data FROM event WHERE kind = 'up' ORDER BY seq DESC LIMIT 1")]
        return json.loads(rows[0][0]) if rows else {}

    def _last(self, column: str, order: str = "DESC") -> int:
        rows = [*self._read(f"SELECT {column} FROM event ORDER BY seq {order} LIMIT 1")]
        return int(rows[0][0]) if rows else 0

    def plan(self) -> list[list[Any]]:
        """Return the reserved starts when the last daemon stopped: job, start, placement; empty if it crashed."""
        last = "SELECT kind, data FROM event WHERE kind IN ('pass', 'plan') ORDER BY seq DESC LIMIT 1"
        plans = [json.loads(data)["plan"] for kind, data in self._read(last) if kind == "plan"]
        return [*plans[0]] if plans else []

    def machine(self) -> Book:
        """Return the book without jobs and projects: nodes, licences, the epoch, reservations, pause."""
        book, run = Book(), self._read
        since = 0
        for kind in ("capacity", "epoch"):
            for seq, t, data in run(
                f"SELECT seq, t_us, data FROM event WHERE kind = '{kind}' ORDER BY seq DESC LIMIT 1"
            ):
                book.apply([Entry(decoded(kind, 0, json.loads(data)), t, seq)])
                since = seq if kind == "capacity" else since
        changed = "SELECT seq, t_us, data FROM event WHERE kind = 'node' AND seq > ? ORDER BY seq"
        book.apply(Entry(decoded("node", 0, json.loads(data)), t, seq) for seq, t, data in run(changed, (since,)))
        paused = [*run("SELECT kind FROM event WHERE kind IN ('pause', 'unpause') ORDER BY seq DESC LIMIT 1")]
        book.paused = paused == [("pause",)]
        kinds = ("reserve", "opened", "unreserve")
        made = f"SELECT seq, t_us, kind, data FROM event WHERE kind IN {kinds} ORDER BY seq"
        book.apply(Entry(decoded(kind, 0, json.loads(data)), t, seq) for seq, t, kind, data in run(made))
        return book

    def load(self) -> Book:
        """Return the book from the tables, without reading the whole log."""
        book, run = self.machine(), self._read
        book.last_t = self.last_t()
        book.last_job = self.last_job()
        passes = "SELECT count(*) FROM event WHERE kind = 'pass' AND seq > ?"
        ((book.passes,),) = run(passes, (book.epoch_seq,))
        last = "SELECT data FROM event WHERE kind = 'pass' AND seq > ? ORDER BY seq DESC LIMIT 1"
        for (data,) in run(last, (book.epoch_seq,)):
            book.passed = json.loads(data)["now"]
        jobs = self.jobs("end_us IS NULL")
        for name in {job.project for job in jobs if job.project}:
            book.apply(Entry(event, t) for event, t in self._project_events(name))
            if name in book.projects:
                for (end,) in run("SELECT max(end_us) FROM job WHERE project = ?", (name,)):
                    book.projects[name].ended(end or 0)
        for job in jobs:
            book.restore(job)
        self._find_unfinished(book)
        failed = cache(lambda array: any(task.state != COMPLETED for task in self.over(array)))
        for job in [*book.jobs.values()]:
            if job.after:
                book.mend(job, self.job, failed)
        book.settle()
        return book

    def _find_unfinished(self, book: Book) -> None:
        """Find the array that was being entered; there is at most one."""
        for (data,) in self._read("SELECT data FROM event WHERE kind = 'array' ORDER BY seq DESC LIMIT 1"):
            whole = Array.read(0, json.loads(data))
            ((done,),) = self._read("SELECT count(*) FROM job WHERE array_id = ?", (whole.row["id"],))
            if done < len(whole.indexes):
                book.begin_array(whole, done)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let all reads in this block see the same instant, whatever is written meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def fold(self) -> dict[int, Job]:
        """Return every job as the log alone defines it."""
        book, over = Book(), {}
        for entry in self.events():
            book.apply([entry])
            book.decide_some()
            over.update(book.over)
            book.settle()
        return {**over, **book.jobs}

    def differences(self) -> list[str]:
        """Return where the tables differ from the log; empty for a sound store."""
        folded, kept = self.fold(), {job.id: job for job in self.jobs()}
        wrong = [
            f"job {number} is only in the {'log' if number in folded else 'table'}"
            for number in folded.keys() ^ kept.keys()
        ]
        return wrong + [
            f"job {number} differs" for number in folded.keys() & kept.keys() if folded[number] != kept[number]
        ]

    def backup(self, path: Path) -> None:
        """Copy the store, even in use, to a file that is complete or does not exist.

        The last event of the copy is a `backup`, by which a daemon recognises it. Raises StoreError, also if the copy
        cannot be read back completely.
        """
        half = path.with_name(path.name + ".tmp")
        try:
            half.unlink(missing_ok=True)
            os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            copy = sqlite3.connect(half, isolation_level=None)
            try:
                with self.still():
                    counts = _counts(self._db)
                    self._db.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")
                mark_as_backup(copy)
            finally:
                copy.close()
            sync(str(half))
            if examine(half) != (counts[0] + 1, counts[1]):
                raise StoreError("the copy differs from the store")
            half.rename(path)
            sync(str(path.parent))
        except (sqlite3.Error, OSError, StoreError) as error:
            with suppress(OSError):
                half.unlink(missing_ok=True)
            raise StoreError(f"{path}: {reason(error)}") from error

    @property
    def seq_written(self) -> int:
        """The last event that this connection wrote."""
        return self._seq

    @property
    def seq(self) -> int:
        """The number of events in the log."""
        return self._last("seq")

    def last_kind(self) -> str:
        """Return the kind of the last event; empty if there is none."""
        rows = [*self._read("SELECT kind FROM event ORDER BY seq DESC LIMIT 1")]
        return str(rows[0][0]) if rows else ""

    def damage(self) -> list[str]:
        """Return what is wrong with the file itself; empty for a sound store."""
        lines = [line for (text,) in self._read("PRAGMA integrity_check(20)") for line in text.splitlines()]
        return [line for line in lines if line != "ok" and not line.startswith("***")]

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the store; return whether that is complete."""
        try:
            busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            return False
        return int(busy) == 0


def reason(error: Exception) -> str:
    """Return what went wrong, without the file, which the caller reports."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def put_in_place(path: Path) -> str:
    """Replace a store by the one named NEXT beside it, if there is one.

    If a process is killed here, the next call finishes its work, since NEXT is complete or does not exist. Return the
    name under which the old store is kept with its write-ahead log; empty if there was none. Neither of them may be in
    use. Raises OSError.
    """
    following = path.with_name(NEXT)
    if not following.exists():
        return ""
    made = following.stat().st_mtime_ns  # every try uses the same name
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(made // 10**9))
    kept = path.with_name(f"store-replaced-{stamp}-{made // 10**6 % 1000:03}.db")
    if path.exists():
        for end in ("-wal", "-shm", ""):  # the three files together are the store
            if Path(f"{path}{end}").exists():
                os.rename(f"{path}{end}", f"{kept}{end}")
    for end in ("-wal", "-shm"):  # of a store that was removed
        Path(f"{path}{end}").unlink(missing_ok=True)
    os.rename(following, path)
    sync(str(path.parent))
    return kept.name if kept.exists() else ""


def move_writes(path: Path) -> None:
    """Move the write-ahead log into the store while its daemon continues; call it in another thread.

    Raises StoreError.
    """
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=5)
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            db.close()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _counts(db: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of events and of jobs."""
    ((events, jobs),) = db.execute("SELECT (SELECT count(*) FROM event), (SELECT count(*) FROM job)").fetchall()
    return int(events), int(jobs)


def mark_as_backup(copy: sqlite3.Connection) -> None:
    """Append the event to the log of a copy by which a daemon recognises it as a backup."""
    (seq, batch, t), *_ = [*copy.execute("SELECT seq, batch, t_us FROM event ORDER BY seq DESC LIMIT 1"), (0, 0, 0)]
    copy.execute(INSERT_EVENT, (seq + 1, batch + 1, t, time.time_ns() // 1000, BACKUP, 0, "{}"))


def examine(path: Path) -> tuple[int, int]:
    """Return the number of events and of jobs of a store that is not in use. Raises StoreError if it is not sound."""
    store = Store(path, readonly=True)
    try:
        (answer,) = next(iter(store._read("PRAGMA quick_check(1)")))
        if answer != "ok":
            raise StoreError(f"{path} is damaged: {answer}")
        if store.schema == 0:
            raise StoreError(f"{path} is not a store of backfill")
        return _counts(store._db)
    finally:
        store.close()
