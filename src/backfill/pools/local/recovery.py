"""Recovery at the start of a daemon: bring the log up to date with what happened while no daemon ran.

The run folders show attempts that ended or still run. If the log is older than the witness, because a backup was
restored or the end of the log was lost, the witness shows which attempts began since then, and which jobs ended while
they waited; none of them runs again, and no job number is reused.
"""

from collections.abc import Sequence
from pathlib import Path

from backfill.pools.local import attempts
from backfill.pools.local.pool import LocalPool
from backfill.queue.engine import Engine
from backfill.queue.events import End, Restored
from backfill.queue.evidence import WitnessWriter
from backfill.queue.shapes import Record
from backfill.queue.states import ENDING
from backfill.queue.store import Store
from backfill.system import processes, witness
from backfill.system.processes import read_json

LISTED = 1000  # most jobs that the log lists individually


class RunFolders(WitnessWriter):
    """Evidence from the witness and from the run folders of attempts on this machine."""

    def __init__(self, home: Path, store: Store, pool: LocalPool) -> None:
        super().__init__(home, store)
        self._pool = pool

    def recover(self, engine: Engine, behind: bool) -> list[tuple[int, int]]:
        """See Evidence."""
        return recover(engine, self._store, self._pool, self.home, behind)

    def forget(self, some: Sequence[tuple[int, int]]) -> None:
        """See Evidence. The record that an attempt began outlives its folder."""
        super().forget(some)
        for key in some:
            attempts.forget(self.home, *key)


def recover(engine: Engine, store: Store, pool: LocalPool, home: Path, behind: bool) -> list[tuple[int, int]]:
    """Bring the log up to date. Returns the attempts whose run folders are no longer needed."""
    pool.open(engine.book.runs())
    over, first = [], engine.book.last_job
    adopted = []
    for number, attempt in attempts.folders(home):
        known = engine.book.jobs.get(number) or store.job(number)
        if known is None or known.attempts < attempt:
            spec = read_json(str(home / "run" / witness.name(number, attempt) / "spec.json"))
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
        key = witness.numbers(name)
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
        number, _ = witness.numbers(name) or (0, 0)
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
