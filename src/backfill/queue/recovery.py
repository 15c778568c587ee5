"""What a daemon does when it begins: it brings the log up to date with what happened while none was there.

The run folders tell of attempts that ended or go on. If the log is older than the witness, because a backup was
restored or the end of the log was lost, the witness tells which attempts began since then; none of them runs again, and
no job number comes back.
"""

from pathlib import Path

from backfill.queue import attempts, processes, witness
from backfill.queue.book import Facts
from backfill.queue.engine import Engine
from backfill.queue.launcher import LocalLauncher
from backfill.queue.processes import read_json
from backfill.queue.states import ENDING, HOLDING
from backfill.queue.store import BACKUP, Store

AHEAD = 1000  # job numbers that the witness covers at a time
LATEST = 50  # attempts of the witness that the log must know
LISTED = 1000  # jobs that the log names one by one


class Numbers:
    """Keeps the highest job number in the witness, ahead of the jobs that get it."""

    def __init__(self, home: Path) -> None:
        self._home, self._most = str(home), 0

    def __call__(self, last: int) -> None:
        """Write down that numbers up to this one are used. Raises OSError."""
        if last > self._most:
            witness.write(self._home, f"numbers {last + AHEAD}")
            self._most = last + AHEAD


def first_lines(seq: int, last_job: int) -> list[str]:
    """Return what a daemon writes into the witness when it begins: how far the log goes, and numbers ahead of it."""
    return [f"log {seq}", f"numbers {last_job + AHEAD}"]


def merge(home: Path, old: Store, copy: Store) -> None:
    """Tell the witness what a store that is about to be replaced by a copy knows, in case the witness was lost."""
    known = {name for kind, name, _ in witness.read(str(home)) if kind == "began"}
    lines = [f"numbers {old.load().last_job}"]
    for job in old.jobs():
        if job.attempt and _lacks(copy, job.id, job.attempt):
            if attempts.name(job.id, job.attempt) not in known:
                lines.append(witness.line("began", attempts.name(job.id, job.attempt), job.processes))
            if job.end is not None:
                lines.append(over_line(old, job.id, job.attempt))
    witness.write(str(home), *lines)


def is_behind(store: Store, home: Path) -> bool:
    """Return whether the log lacks something that has happened."""
    if store.last_kind() == BACKUP:
        return True
    seq = 0
    began: list[str] = []  # since the log had that many events
    for kind, name, _ in witness.tail(str(home)):
        if kind == "log":
            seq, began = int(name), []
        elif kind == "began":
            began.append(name)
    if store.seq < seq:
        return True
    return any(_lacks(store, *pair) for name in began[-LATEST:] if (pair := attempts.numbers(name)))


def _lacks(store: Store, number: int, attempt: int) -> bool:
    job = store.job(number)
    return job is None or job.attempt < attempt


def last_number(home: Path) -> int:
    """Return the last number that a job may have got, as the witness has it; 0 if it has none."""
    last = 0
    for kind, name, _ in witness.read(str(home)):
        if kind == "numbers":
            last = max(last, int(name))
        elif kind in ("began", "over"):
            last = max(last, (attempts.numbers(name) or (0, 0))[0])
    return last


def recover(engine: Engine, store: Store, launcher: LocalLauncher, home: Path, behind: bool) -> list[tuple[int, int]]:
    """Bring the log up to date. Returns the attempts whose run folders are not needed any more."""
    launcher.open([job for job in engine.book.jobs.values() if job.state in HOLDING])
    over, first = [], engine.book.last_job
    adopted = []
    for number, attempt in attempts.folders(home):
        known = engine.book.jobs.get(number) or store.job(number)
        if known is None or known.attempt < attempt:
            spec = read_json(str(home / "run" / attempts.name(number, attempt) / "spec.json"))
            if spec:
                engine.adopt(spec["job"], spec["spec"])
                adopted.append(number)
        elif known.end is not None or known.attempt > attempt:
            over.append((number, attempt))
    if behind:
        _catch_up(engine, store, launcher, home, adopted, first)
    for job in [*engine.book.jobs.values()]:
        if job.state in HOLDING:
            launcher.look(job.id, job.attempt)
        if job.state == ENDING:  # an earlier daemon may have died before it asked for that
            launcher.stop(job)
    witness.write(str(home), *first_lines(store.seq, engine.book.last_job))
    return over


def _catch_up(
    engine: Engine, store: Store, launcher: LocalLauncher, home: Path, adopted: list[int], first: int
) -> None:
    """Enter the attempts that the witness knows and the log does not."""
    began: dict[int, tuple[int, Facts]] = {}  # the last attempt of each job
    ends: dict[tuple[int, int], Facts] = {}
    for kind, name, record in witness.read(str(home)):
        key = attempts.numbers(name)
        if kind == "began" and key is not None and key[1] >= began.get(key[0], (0, {}))[0]:
            began[key[0]] = (key[1], record)
        elif kind == "over" and key is not None:
            ends[key] = record
    lost = []
    for number, (attempt, record) in sorted(began.items()):
        job = engine.book.jobs.get(number) or store.job(number)
        if job is None:
            lost.append(number)
        elif job.end is None and job.attempt < attempt:
            start = engine.clock.instant(record)
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
    for name in processes.attempts_with_processes(str(home)):  # of jobs of which nobody can say what they hold
        number, _ = attempts.numbers(name) or (0, 0)
        if number not in engine.book.jobs and store.job(number) is None:
            engine.notes.append(f"job {number} is not in the copy, nor in its run folder; what was left of it is ended")
            processes.end_attempt(str(home), name)
    ended = []
    for job in [*engine.book.jobs.values()]:
        key = (job.id, job.attempt)
        if job.state in HOLDING and key in ends and ends[key].get("state"):
            engine.ended_before(*key, ends[key])
            ended.append(job.id)
        elif job.state in HOLDING and job.id in began and began[job.id][0] == job.attempt:
            launcher.know(key, began[job.id][1])
    facts = {"first": first + 1, "found": sorted({*adopted})[:LISTED], "ended": ended[:LISTED], "lost": lost[:LISTED]}
    engine.restored(facts)
    engine.notes.append(
        f"the log was older than what has happened: {len(adopted)} jobs had begun since, {len(lost)} jobs that ran "
        f"are not in it; new jobs get numbers from {engine.book.last_job + 1} on"
    )


def over_line(store: Store, number: int, attempt: int) -> str:
    """Return what the witness is told of an attempt that is over."""
    job = store.job(number)
    facts: Facts = {}
    if job is not None and job.attempt == attempt and job.end is not None:
        facts = {"state": job.state, "reason": job.reason, "exit": job.exit, "signal": job.signal, "ended": job.end}
    return witness.line("over", attempts.name(number, attempt), facts)
