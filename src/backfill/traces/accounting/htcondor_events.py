"""The HTCondor job event log, as written for users and DAGMan.

Source: the HTCondor manual, "Job Event Log Codes".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from backfill.model.schedule import NO_TIME
from backfill.model.units import counted
from backfill.traces.accounting.stays import Record
from backfill.traces.broken import BrokenLine, BrokenLines
from backfill.traces.dates import ZONELESS, Instants, zone_of

_HEAD = re.compile(r"(\d{3}) \((\d+)\.(\d+)\.\d+\) (\S+ [\d:.]+)(.*)")
_TABLE = re.compile(r"^\s+(Cpus|Memory \(MB\)|GPUs)\s*:\s*(.*)$", re.MULTILINE)
_SLOT = re.compile(r"^\s*SlotName: (\S+)", re.MULTILINE)
_ALIAS = re.compile(r"\balias=([^&>]+)")
_SUBMIT, _EXECUTE, _EVICTED, _TERMINATED, _ABORTED, _HELD, _RELEASED = 0, 1, 4, 5, 9, 12, 13
_MIB = 2**20


@dataclass(slots=True)
class _Job:
    submit: int
    start: int = NO_TIME
    held: int = NO_TIME
    released: int = NO_TIME
    host: str = ""
    done: bool = False


def is_event_log(text: str) -> bool:
    """Return whether the text begins with an event."""
    return _HEAD.match(text.lstrip()) is not None


def records_of_events(text: str, zone: str | None, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    """Yield the stays of the jobs in an event log. Users are unknown, and so is memory that no event states."""
    jobs: dict[str, _Job] = {}
    instants, strange, line = Instants(zone_of(zone), 0), 0, 1
    for block in re.split(r"(?m)^\.\.\.\s*$\n?", text):
        begin = line + len(block) - len(block.lstrip("\n"))
        line += block.count("\n") + 1
        if not block.strip():
            continue
        try:
            code, name, now, more = _event(block.strip("\n"), instants)
        except BrokenLine as problem:
            broken.add(begin, problem)
            continue
        if name.startswith("0."):  # DAGMan's mark for a node without a job
            continue
        if code == _SUBMIT:
            jobs[name] = _Job(now)
            continue
        job = jobs.get(name)
        if job is None:
            strange += 1
        elif (record := _heard(job, name, code, now, more)) is not None:
            yield record
    for name, job in jobs.items():
        if not job.done:
            yield Record(name, job.submit, start=job.start, cpus=1, nodes=1, unfinished=True)
    if strange:
        notes.append(f"skipped: {counted(strange, 'event')} of jobs whose submit is not in the log")
    if instants.zoneless and zone is None:
        notes.append(ZONELESS)


def _event(block: str, instants: Instants) -> tuple[int, str, int, str]:
    match = _HEAD.match(block)
    if not match:
        raise BrokenLine(
            "the event", block.partition("\n")[0], "an event such as 000 (12.000.000) 2026-03-01 12:00:00 ..."
        )
    code, cluster, proc, date, _ = match.groups()
    if "/" in date:
        raise BrokenLine("the date", date, "a date with its year; see EVENT_LOG_FORMAT_OPTIONS = ISO_DATE")
    try:
        return int(code), f"{int(cluster)}.{int(proc)}", instants(date), block
    except ValueError:
        raise BrokenLine("the date", date, "a date such as 2026-03-01 12:00:00") from None


def _heard(job: _Job, name: str, code: int, now: int, text: str) -> Record | None:
    """Return the stay that an event ends; None if it ends none."""
    if code == _EXECUTE:
        job.start = now
        slot, alias = _SLOT.search(text), _ALIAS.search(text)
        job.host = slot[1].partition("@")[2] if slot else alias[1] if alias else ""
    elif code == _HELD:
        job.held = now
    elif code == _RELEASED:
        job.released = now
    elif code in (_EVICTED, _TERMINATED, _ABORTED):
        record = Record(name, job.submit, eligible=job.released, start=job.start, end=now, cpus=1, nodes=1)
        _amounts(record, text)
        record.hosts = (job.host,) if job.host else ()
        record.again = code == _EVICTED
        record.status = {_EVICTED: "requeued", _ABORTED: "cancelled"}.get(code, "completed")
        if code == _TERMINATED and "(1) Normal termination (return value 0)" not in text:
            record.status = "failed"
        job.start, job.done = NO_TIME, not record.again
        return record
    return None


def _amounts(record: Record, text: str) -> None:
    """Fill in the amounts from the resource table: the allocated ones, else the requested ones."""
    for name, cells in _TABLE.findall(text):
        numbers = [int(float(cell)) for cell in cells.split() if re.fullmatch(r"\d+(\.\d+)?", cell)]
        if not numbers:
            continue
        held = numbers[-1]
        if name == "Cpus":
            record.cpus = max(held, 1)
        elif name == "GPUs":
            record.gpus = held
        else:
            record.memory = held * _MIB
