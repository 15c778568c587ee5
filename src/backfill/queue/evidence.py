"""The evidence that a queue keeps beside its store, in the witness: what an older copy of the store would lack."""

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

from backfill.model.units import runs
from backfill.queue.engine import Engine
from backfill.queue.events import End
from backfill.queue.files import files
from backfill.queue.job import Job, Run
from backfill.queue.shapes import Spec
from backfill.queue.states import CANCELLED, DEADLINE
from backfill.queue.store import BACKUP, Store, encode
from backfill.system import witness

AHEAD = 1000  # job numbers reserved in the witness at a time
LATEST = 50  # latest attempts of the witness that the log must contain
ENDS = 2000  # most ends recorded in the witness at once


class WitnessWriter:
    """Records in the witness: job numbers ahead of their use, the extent of the log, and the ends of waiting jobs.

    See Evidence: a pool without files of its own needs nothing else.
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
        """Write lines and new events of the log; return whether all events are written. Raises OSError."""
        seq = self._store.seq
        ends = [*islice(self._store.events(self._seq, kinds=("end",)), ENDS)]
        complete = len(ends) < ENDS
        seq = seq if complete else ends[-1].seq
        if lines or seq > self._seq:
            waited = [
                End(end.job, end.state, end.reason, ended=t if end.ended is None else end.ended)
                for end, t, _ in ends
                if isinstance(end, End) and _had_waited(end)
            ]
            last = encode({"last_job": self._store.last_job()})
            witness.write(self._home, *lines, *_closed(waited), f"log {seq} {last}", durable=durable)
            self._seq = seq
        return complete

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
        """See Evidence. The record that an attempt began stays, since an old backup lacks it."""
        self.tell(*(over_line(self._store, *key) for key in some), durable=True)

    def files(self, job: Job, spec: Spec) -> dict[str, str | None]:
        """See Evidence."""
        return files(self.home, job, spec)


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
            and (name := witness.name(job.id, job.attempts)) not in known
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
    return any(_lacks(store, *pair) for name in began[-LATEST:] if (pair := witness.numbers(name)))


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
            last = max(last, (witness.numbers(name) or (0, 0))[0])
    return last


def over_line(store: Store, number: int, attempt: int) -> str:
    """Return the witness line for an attempt that is over."""
    job = store.job(number)
    if job is not None and job.end is not None and job.attempt is not None and job.attempt.number == attempt:
        return _over(job.run, job.end)
    return witness.line("over", witness.name(number, attempt), {})


def _over(run: Run, ended: int) -> str:
    """Return the witness line for a job's last attempt, which is over."""
    job, attempt = run.job, run.attempt
    facts = {"state": job.state, "reason": job.reason, "exit": attempt.exit, "signal": attempt.signal, "ended": ended}
    return witness.line("over", witness.name(*run.key), facts)
