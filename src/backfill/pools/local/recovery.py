"""Recovery at the start of a daemon: bring the log up to date with what happened while no daemon ran.

The run folders show attempts that ended or still run. If the log is older than the witness, because a backup was
restored or the end of the log was lost, the witness shows which attempts began since then, and which jobs ended while
they waited; none of them runs again, and no job number is reused.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from backfill.pools.local import attempts, witness
from backfill.pools.local.pool import LocalPool, files
from backfill.queue.engine import Engine
from backfill.queue.events import End, Restored
from backfill.queue.job import Job, Run
from backfill.queue.shapes import Record, Spec
from backfill.queue.states import CANCELLED, DEADLINE, ENDING
from backfill.queue.store import BACKUP, Store, encode
from backfill.queue.words import runs
from backfill.system import processes
from backfill.system.processes import read_json

AHEAD = 1000  # job numbers reserved in the witness at a time
LATEST = 50  # latest attempts of the witness that the log must contain
LISTED = 1000  # most jobs that the log lists individually
ENDS = 2000  # most ends recorded in the witness at once


class WitnessWriter:
    """Records in the witness: job numbers ahead of their use, the extent of the log, and the ends of waiting jobs.

    See Evidence: for a pool that keeps no run folders.
    """

    def __init__(self, home: Path, store: Store) -> None:
        self.home, self._store, self._most = home, store, 0
        self._home = str(home)
        known = (int(name) for kind, name, _ in witness.read_since_log(self._home) if kind == "log")
        self._seq = min(next(known, 0), store.seq)  # the last event recorded in the witness

    def number(self, last: int) -> None:
        """Record that numbers up to this one are used. Raises OSError."""
        if last > self._most:
            witness.write(self._home, f"numbers {last + AHEAD}")
            self._most = last + AHEAD

    def anew(self, last: int) -> list[str]:
        """Return the first lines of a witness that replaces a lost one; the rest is recorded with the next events.

        last: the last job number.
        """
        self._seq, self._most = 0, last + AHEAD
        return [f"numbers {self._most}"]

    def tell(self, *lines: str, durable: bool = False) -> bool:
        """Write lines, and the new events of the log; return whether that was all of them. Raises OSError."""
        seq = self._store.seq
        ends = [*islice(self._store.events(self._seq, kinds=("end",)), ENDS)]
        told = len(ends) < ENDS
        seq = seq if told else ends[-1].seq
        if lines or seq > self._seq:
            waited = [
                End(end.job, end.state, end.reason, ended=t if end.ended is None else end.ended)
                for end, t, _ in ends
                if isinstance(end, End) and _had_waited(end)
            ]
            last = encode({"last_job": self._store.last_job()})
            witness.write(self._home, *lines, *_closed(waited), f"log {seq} {last}", durable=durable)
            self._seq = seq
        return told

    def tell_all(self) -> None:
        """Record all of the log in the witness, and flush it to the disk. Raises OSError."""
        while not self.tell():
            pass
        witness.write(self._home, f"numbers {self._store.last_job()}")

    def behind(self) -> bool:
        """See Evidence."""
        return is_behind(self._store, self.home)

    def last_number(self) -> int:
        """See Evidence."""
        return last_number(self.home)

    def recover(self, engine: Engine, behind: bool) -> list[tuple[int, int]]:
        """See Evidence."""
        seen = engine.pool.read(engine.book.runs())
        engine.saw(seen)
        return [(one.job, one.attempt) for one in seen.attempts if one.verdict.over]

    def forget(self, some: Sequence[tuple[int, int]]) -> None:
        """See Evidence. The record that an attempt began outlives its folder, since an old backup lacks it."""
        self.tell(*(over_line(self._store, *key) for key in some), durable=True)
        for key in some:
            attempts.forget(self.home, *key)

    def files(self, job: Job, spec: Spec) -> dict[str, str | None]:
        """See Evidence."""
        return files(self.home, job, spec)


class RunFolders(WitnessWriter):
    """Evidence from the witness and from the run folders of attempts on this machine."""

    def __init__(self, home: Path, store: Store, pool: LocalPool) -> None:
        super().__init__(home, store)
        self._pool = pool

    def recover(self, engine: Engine, behind: bool) -> list[tuple[int, int]]:
        """See Evidence."""
        return recover(engine, self._store, self._pool, self.home, behind)


def _had_waited(end: End) -> bool:
    """Return whether an end may be that of a waiting job, as it is the end of no process."""
    return end.state in (CANCELLED, DEADLINE) and end.signal is None


def _closed(ends: Iterable[End]) -> list[str]:
    """Return the witness lines for jobs that ended while they waited; those of the same second are combined."""
    groups: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for end in sorted(ends, key=attrgetter("job")):
        ended = end.ended or 0
        groups.setdefault((end.state, end.reason, ended // 1_000_000), []).append((end.job, ended))
    lines = []
    for (state, reason, _), some in groups.items():
        ranges = [[*one] for one in runs(number for number, _ in some)]
        ended = max(t for _, t in some)
        lines.append(witness.line("closed", state, {"jobs": ranges, "reason": reason, "ended": ended}))
    return lines


def merge(home: Path, old: Store, copy: Store) -> None:
    """Record in the witness what the present store knows and the copy that replaces it does not."""
    known = {name for kind, name, _ in witness.read(str(home)) if kind == "began"}
    there = {job.id: job for job in copy.jobs()}
    lines, waited = [f"numbers {old.last_job()}"], []
    for job in old.jobs():
        other = there.get(job.id)
        if other is not None and other.end is not None:
            continue
        if (
            job.attempts > (other.attempts if other else 0)
            and (name := attempts.name(job.id, job.attempts)) not in known
        ):
            lines.append(witness.line("began", name, job.attempt.processes if job.attempt else {}))
        if job.end is not None and job.attempt is None:
            waited.append(End(job.id, job.state, job.reason, ended=job.end))
        elif job.end is not None:
            lines.append(_over(job.run, job.end))
    witness.write(str(home), *lines, *_closed(waited))


def is_behind(store: Store, home: Path) -> bool:
    """Return whether the log lacks something that has happened."""
    if store.last_kind() == BACKUP:
        return True
    if not store.seq and last_number(home) > AHEAD:  # numbers were given to jobs, but the log is empty
        return True
    began: list[str] = []  # attempts that began after the last recorded extent of the log
    for kind, name, record in witness.read_since_log(str(home)):
        if kind == "log" and (store.seq < int(name) or store.last_job() < record["last_job"]):
            return True
        if kind == "began":
            began.append(name)
    return any(_lacks(store, *pair) for name in began[-LATEST:] if (pair := attempts.numbers(name)))


def _lacks(store: Store, number: int, attempt: int) -> bool:
    job = store.job(number)
    return job is None or job.attempts < attempt


def last_number(home: Path) -> int:
    """Return the last number that a job may have got according to the witness; 0 if it has none."""
    last = 0
    for kind, name, record in witness.read(str(home)):
        if kind == "numbers":
            last = max(last, int(name))
        elif kind == "log":
            last = max(last, record["last_job"])
        elif kind in ("began", "over"):
            last = max(last, (attempts.numbers(name) or (0, 0))[0])
    return last


def recover(engine: Engine, store: Store, pool: LocalPool, home: Path, behind: bool) -> list[tuple[int, int]]:
    """Bring the log up to date. Returns the attempts whose run folders are no longer needed."""
    pool.open(engine.book.runs())
    over, first = [], engine.book.last_job
    adopted = []
    for number, attempt in attempts.folders(home):
        known = engine.book.jobs.get(number) or store.job(number)
        if known is None or known.attempts < attempt:
            spec = read_json(str(home / "run" / attempts.name(number, attempt) / "spec.json"))
            if spec:
                engine.adopt(spec["job"], spec["spec"])
                adopted.append(number)
        elif known.end is not None or known.attempts > attempt:
            over.append((number, attempt))
    if behind:
        _catch_up(engine, store, pool, home, adopted, first)
    for run in engine.book.runs():
        pool.look(*run.key)
        engine.saw(pool.read(()))
        if run.job.state == ENDING:  # an earlier daemon may have died before it asked for that
            pool.stop([run])
    return over


def _catch_up(engine: Engine, store: Store, pool: LocalPool, home: Path, adopted: list[int], first: int) -> None:
    """Enter the attempts and ends that the witness has and the log lacks."""
    began: dict[int, tuple[int, Record]] = {}  # the last attempt of each job
    ends: dict[tuple[int, int], Record] = {}
    waited: dict[int, End] = {}  # ends of jobs that waited
    for kind, name, record in witness.read(str(home)):
        key = attempts.numbers(name)
        if kind == "began" and key is not None and key[1] >= began.get(key[0], (0, {}))[0]:
            began[key[0]] = (key[1], record)
        elif kind == "over" and key is not None:
            ends[key] = record
            if record.get("state") and key[1] > began.get(key[0], (0, {}))[0]:  # its first line is lost
                began[key[0]] = (key[1], {})
        elif kind == "closed":
            numbers = (number for first, last in record["jobs"] for number in range(first, last + 1))
            some = (number for number in numbers if number in engine.book.jobs)
            waited |= {number: End(number, name, record["reason"], ended=record["ended"]) for number in some}
    lost = []
    for number, (attempt, record) in sorted(began.items()):
        job = engine.book.jobs.get(number) or store.job(number)
        if job is None:
            lost.append(number)
        elif job.end is None and job.attempts < attempt:
            start = engine.clock.instant(record) or ends.get((number, attempt), {}).get("ended")
            facts = {
                **job.facts(),
                "attempt": attempt,
                "start": start or engine.clock.now(),
                "held": "",
                "after": [],
                "processes": record,
            }
            engine.adopt(facts, store.spec(job.spec))
            adopted.append(number)
    for name in processes.attempts_with_processes(str(home)):  # of jobs whose requests are not known
        number, _ = attempts.numbers(name) or (0, 0)
        if number not in engine.book.jobs and store.job(number) is None:
            engine.notes.append(
                f"job {number} is neither in the restored log nor in a run folder; its remaining processes are killed"
            )
            processes.end_attempt(str(home), name)
    ended, closed = [], []
    for job in [*engine.book.jobs.values()]:
        key = (job.id, job.attempts)
        if job.attempt is not None and ends.get(key, {}).get("state"):
            engine.ended_before(job.attempts, End.read(job.id, ends[key]))
            ended.append(job.id)
        elif job.id in waited:
            engine.ended_before(job.attempts, waited[job.id])
            closed.append(job.id)
        elif job.attempt is not None and began.get(job.id, (0, {}))[0] == job.attempts:
            pool.know(key, began[job.id][1])
    found = {"found": sorted({*adopted}), "ended": ended, "closed": closed, "lost": lost}
    engine.restored(
        Restored(
            first + 1,
            **{name: some[:LISTED] for name, some in found.items()},
            counts={name: len(some) for name, some in found.items()},
        )
    )
    engine.notes.append(
        "the log was older than the latest events; recovered jobs that had begun: "
        f"{len(found['found'])}, that had ended while they waited: {len(closed)}; jobs missing in the log: "
        f"{len(lost)}; new jobs get numbers from {engine.book.last_job + 1} on"
    )


def over_line(store: Store, number: int, attempt: int) -> str:
    """Return the witness line for an attempt that is over."""
    job = store.job(number)
    if job is not None and job.end is not None and job.attempt is not None and job.attempt.number == attempt:
        return _over(job.run, job.end)
    return witness.line("over", attempts.name(number, attempt), {})


def _over(run: Run, ended: int) -> str:
    """Return the witness line for a job's last attempt, which is over."""
    job, attempt = run.job, run.attempt
    facts = {"state": job.state, "reason": job.reason, "exit": attempt.exit, "signal": attempt.signal, "ended": ended}
    return witness.line("over", attempts.name(*run.key), facts)
