"""`import pbs`: accounting logs of OpenPBS, PBS Pro and Torque, one file or several concatenated.

Source: PBS Professional 2022 Administrator's Guide, "Format of Accounting Log Messages"; Torque Administrator Guide,
"Accounting Records" (docs.adaptivecomputing.com/torque/3-0-5/9.1accounting.php).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from backfill.model.clock import Clock
from backfill.model.constraint import is_feature
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted, parse_size, parse_span
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.stays import Record, Stays
from backfill.traces.broken import BrokenLine, BrokenLines, whole
from backfill.traces.dates import Instants, zone_of
from backfill.traces.files import Source

_PAIR = re.compile(r"(?:^|\s)([A-Za-z_][\w.]*)=(.*?)(?=\s[A-Za-z_][\w.]*=|$)")
_JOBS = re.compile(r":(\d+(?:\[\d+\])?)")
_TYPES = "ACDEQRS"  # abort, checkpoint, delete, end, queued, rerun, start; the other types do not concern runs of jobs
# Words of node specs and selects that are not node properties.
_WORDS = {"default", "shared", "excl", "excl_host", "shared_gpus", "exclusive_thread", "exclusive_process"}
_KILLED_AT_WALLTIME = -29  # JOB_EXEC_KILL_WALLTIME of PBS Pro


@dataclass(slots=True)
class _Job:
    """The state of a job while its records are read."""

    asked: dict[str, str]  # from the latest record that states any request
    queued: int = NO_TIME
    started: int = NO_TIME
    deleted: int = NO_TIME
    ended: bool = False
    again: bool = False


def read_pbs(source: Source, zone: str | None = None) -> Accounted:
    """Read the jobs of a log; docs/reference/files.md lists which attribute each value comes from.

    zone: time zone of the records' leading dates, used if a record states no time in seconds since 1970. Raises
    WorkloadError, and UsageError for an unknown zone.
    """
    broken, notes = BrokenLines(source.file), list[str]()
    records = _records(source, Instants(zone_of(zone), 0), broken, notes)
    return workload_of(Stays.of(records, source.file), source, broken, clock=Clock(0, zone or "UTC"), notes=notes)


def _records(source: Source, instants: Instants, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    jobs: dict[str, _Job] = {}
    others = 0
    for line, text in enumerate(source.lines(), start=1):
        if not text.strip():
            continue
        try:
            date, kind, name, message = _parts(text.rstrip("\r"))
            if kind not in _TYPES or "[]" in name:  # the parent of an array never runs
                others += 1
                continue
            yield from _heard(jobs, name.partition(".")[0], kind, _instant(date, instants), message)
        except BrokenLine as problem:
            broken.add(line, problem)
    for name, job in jobs.items():
        if job.ended:
            continue
        try:
            left = job.deleted != NO_TIME
            record = _record(name, job.asked, job.queued if job.queued != NO_TIME else job.deleted)
            record.end = job.deleted if left else NO_TIME
            record.start = NO_TIME if left and job.started == NO_TIME else job.started
            record.status, record.unfinished = "cancelled", not left
        except BrokenLine as problem:
            broken.add(None, f"job {name}: {problem}")
            continue
        yield record
    if others:
        notes.append(f"skipped: {counted(others, 'record')} of reservations, parents of arrays, licences and the like")


def _heard(jobs: dict[str, _Job], name: str, kind: str, now: int, message: str) -> Iterator[Record]:
    """Process one record of a job; yield the finished run if the record ends one."""
    pairs = dict(_PAIR.findall(message))
    job = jobs.setdefault(name, _Job({}))
    if kind == "Q":
        if job.ended:  # the job number is reused
            job = jobs[name] = _Job({})
        job.queued = now if job.queued == NO_TIME else job.queued
        job.asked |= pairs
    elif kind == "S":
        job.asked |= pairs
        job.started = _seconds(pairs, "start", now)
    elif kind in "DA":
        job.deleted = now
    elif kind in "RC":
        if job.started != NO_TIME:
            record = _record(name, job.asked | pairs, job.queued)
            record.start, record.end = job.started, _seconds(pairs, "end", now)
            record.status, record.again = "requeued", True
            job.started, job.again = NO_TIME, True
            yield record
    else:
        job.ended = True
        record = _record(name, job.asked | pairs, job.queued)
        record.start, record.end = _seconds(pairs, "start", job.started), _seconds(pairs, "end", now)
        record.status = _status(record, pairs, job.deleted != NO_TIME)
        yield record


def _record(name: str, pairs: dict[str, str], queued: int) -> Record:
    """Return a record of the requested and the held amounts of a job."""

    def asked(key: str) -> str:
        return pairs.get(f"Resource_List.{key}", "")

    hosts, cpus, gpus, memory = _places("exec_vnode", pairs.get("exec_vnode", ""))
    if not cpus:
        hosts, cpus, gpus, memory = _places("exec_host", pairs.get("exec_host", ""))
    nodes, wanted, wanted_gpus, chunk_memory, constraint = _spec(
        asked("select") or asked("nodes") or asked("neednodes")
    )
    cpus = max(cpus, _whole(pairs, "ncpus")) if "exec_vnode" not in pairs else cpus
    submit = _seconds(pairs, "ctime", queued)
    if submit == NO_TIME:
        raise BrokenLine("ctime", "", "seconds since 1970")
    return Record(
        job=name,
        submit=submit,
        eligible=_seconds(pairs, "etime", NO_TIME),
        walltime=_span("Resource_List.walltime", asked("walltime")),
        nodes=len(hosts) or nodes or _whole(pairs, "nodect"),
        cpus=cpus or wanted,
        memory=_size("Resource_List.mem", asked("mem")) or memory or chunk_memory,
        gpus=gpus or _whole(pairs, "ngpus") or _whole(pairs, "gpu") or wanted_gpus,
        exclusive="excl" in asked("place"),
        user=pairs.get("user", "") or pairs.get("owner", "").partition("@")[0],
        group=pairs.get("group", ""),
        queue=pairs.get("queue", ""),
        qos=pairs.get("qos", "") or asked("qos"),
        constraint=constraint,
        hosts=hosts,
        after=tuple(_JOBS.findall(pairs.get("depend", "") or asked("depend"))),
    )


def _status(record: Record, pairs: dict[str, str], deleted: bool) -> str:
    code = pairs.get("Exit_status", "0")
    if code == "0":
        return "completed"
    reached = record.walltime != NO_TIME and record.end - record.start >= record.walltime
    if reached or code == str(_KILLED_AT_WALLTIME):
        return "timeout"
    return "cancelled" if deleted else "failed"


def _parts(text: str) -> list[str]:
    parts = text.split(";", 3)
    if len(parts) != 4:
        raise BrokenLine("the line", text, "a record such as 01/31/2026 12:00:00;E;123.server;user=ann ...")
    return parts


@lru_cache(maxsize=1 << 16)
def _date(text: str) -> datetime:
    return datetime.strptime(text, "%m/%d/%Y %H:%M:%S")


def _instant(text: str, instants: Instants) -> int:
    try:
        return instants(_date(text).isoformat())
    except ValueError:
        raise BrokenLine("the date", text, "a date such as 01/31/2026 12:00:00") from None


def _seconds(pairs: dict[str, str], key: str, otherwise: int) -> int:
    text = pairs.get(key, "")
    if not text or text == "0":
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise BrokenLine(key, text, "seconds since 1970")
    return int(text) * SECOND


def _whole(pairs: dict[str, str], key: str) -> int:
    key = f"Resource_List.{key}"
    return whole(key, pairs.get(key, "0").partition(":")[0])


@lru_cache(maxsize=1 << 14)
def _span(key: str, text: str) -> int:
    try:
        return parse_span(text) if text else NO_TIME
    except ValueError:
        raise BrokenLine(key, text, "a span such as 24:00:00 or a number of seconds") from None


@lru_cache(maxsize=1 << 14)
def _size(key: str, text: str) -> int:
    try:
        return parse_size(text.lower().removesuffix("w").removesuffix("b")) if text else 0
    except ValueError:
        raise BrokenLine(key, text, "a size such as 1993mb") from None


@lru_cache(maxsize=1 << 16)
def _places(key: str, text: str) -> tuple[tuple[str, ...], int, int, int]:
    """Return where a job ran: the nodes, and its total cpus, GPUs and bytes.

    `exec_vnode` is `(n1:ncpus=4:mem=8gb)+(n2:ncpus=4)`; `exec_host` `n1/0*4+n2/0*4` (PBS Pro) or `n1/0-3+n2/7+n2/6`.
    """
    cpus, gpus, memory = 0, 0, 0
    names: dict[str, None] = {}
    for part in re.split(r"\+", text.replace("(", "").replace(")", "")) if text else ():
        if key == "exec_vnode":
            name, *words = re.split(r":(?=\w+=)", part)
            values = dict(word.split("=", 1) for word in words)
            cpus += whole(key, values.get("ncpus", "0"))
            gpus += whole(key, values.get("ngpus", "0"))
            memory += _size(key, values.get("mem", ""))
        else:
            name, _, slots = part.rpartition("/")
            name = name or part
            _, star, count = slots.partition("*")
            cpus += whole(key, count) if star and name != part else _slots(key, slots)
        names[name] = None
    return tuple(names), cpus, gpus, memory


def _slots(key: str, text: str) -> int:
    """Return the number of slots in a list such as `0-3,7`."""
    count = 0
    for part in text.split(","):
        first, dash, last = part.partition("-")
        count += whole(key, last) - whole(key, first) + 1 if dash else 1
    return count


@lru_cache(maxsize=1 << 14)
def _spec(text: str) -> tuple[int, int, int, int, str]:
    """Parse a `select` or `nodes`: chunks, total cpus, GPUs and bytes, and the node properties common to all chunks."""
    chunks, cpus, gpus, memory = 0, 0, 0, 0
    wishes: list[str] = []
    for chunk in text.split("+") if text else ():
        count, each, each_gpus, each_memory = 1, 1, 0, 0
        terms: list[str] = []
        for place, word in enumerate(chunk.split(":")):
            key, equals, value = word.partition("=")
            if place == 0 and word.isascii() and word.isdecimal():
                count = whole("Resource_List.nodes", word)
            elif key in ("ppn", "ncpus"):
                each = whole(key, value)
            elif key in ("ngpus", "gpus", "gpu"):
                each_gpus = whole(key, value)
            elif key in ("mem", "reqmem"):
                each_memory = _size(key, value)
            elif key in ("host", "vnode"):
                terms.append(value)
            elif not equals and word not in _WORDS:
                terms.append(word)
            elif value == "True":
                terms.append(key)
        wish = "&".join(dict.fromkeys(term for term in terms if is_feature(term)))
        chunks, cpus, gpus = chunks + count, cpus + count * each, gpus + count * each_gpus
        memory += count * each_memory
        wishes.append(wish)
    several = list(dict.fromkeys(wishes))
    return chunks, cpus, gpus, memory, "|".join(several) if several and all(several) else ""
