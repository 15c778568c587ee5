"""`import sge`: the accounting file of Grid Engine, of Sun, Son of, Open and Univa (Altair).

Source: the manual page accounting(5) of Grid Engine 6.2u5 and 8.1.9, and of Univa Grid Engine 8.6.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from backfill.model.clock import Clock
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted, parse_size, parse_span
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.stays import SECONDS_MAX, Record, Stays
from backfill.traces.broken import BrokenLine, BrokenLines, whole
from backfill.traces.files import Source

_WIDTH = 43  # up to maxvmem; later versions have more
_AGAIN = {24, 25}  # `failed`: the job was migrated, or rescheduled
_KILLED, _OVER_H_RT = 100, 37  # `failed`: by a signal after its start; by the enforcer of h_rt
_REQUEST = re.compile(r"-l\s+(\S+)")
_MEMORY = ("mem", "m_mem_free", "mem_free", "h_vmem", "virtual_free", "s_vmem")
_MS = 10**11  # times above are milliseconds


def read_sge(source: Source) -> Accounted:
    """Read the jobs of a file. Times are seconds since 1970, or milliseconds. Raises WorkloadError."""
    broken, notes = BrokenLines(source.file), list[str]()
    table = Stays.of(_records(source, broken, notes), source.file)
    return workload_of(table, source, broken, clock=Clock(0), notes=notes)


def _records(source: Source, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    slaves, several, asked = 0, 0, 0
    for line, text in enumerate(source.lines(), start=1):
        if len(text) < 2 or text.startswith("#"):
            continue
        fields = text.rstrip("\r").split(":")
        try:
            if len(fields) < _WIDTH:
                raise BrokenLine("the line", text, f"{_WIDTH} or more fields with : between, not {len(fields)}")
            if fields[41] != "NONE":  # a task of a tightly integrated parallel job with a record of its own
                slaves += 1
                continue
            record = _record(fields)
        except BrokenLine as problem:
            broken.add(line, problem)
            continue
        several += record.cpus > 1
        asked += record.memory > 0
        yield record
    if several:
        notes.append("the log does not state on which hosts parallel jobs ran: their slots are tasks of one cpu")
    if asked:
        notes.append("memory that was requested (-l mem_free, h_vmem and the like) is taken as that of each slot")
    if slaves:
        notes.append(f"skipped: {counted(slaves, 'record')} of tasks of parallel jobs")


def _record(fields: list[str]) -> Record:
    submit, start, end = (_instant(fields, place, name) for place, name in enumerate(_TIMES, start=8))
    failed, slots = whole("failed", fields[11]), whole("slots", fields[34])
    if submit == NO_TIME:
        raise BrokenLine("submission_time", fields[8], "seconds or milliseconds since 1970")
    walltime, memory, gpus = _requests(fields[39])
    task = fields[35]
    parallel = slots > 1
    record = Record(
        job=fields[5] if task in ("0", "NONE", "") else f"{fields[5]}.{task}",
        submit=submit,
        start=start,
        end=end,
        walltime=walltime,
        nodes=0 if parallel else 1,
        cpus=slots,
        memory=memory * slots,
        gpus=gpus,
        again=failed in _AGAIN,
        user=fields[3],
        group=fields[2] if fields[31] == "NONE" else fields[31],
        queue=fields[0],
        hosts=() if parallel else _host(fields[1]),
    )
    if start == NO_TIME and end == NO_TIME:
        record.end = submit  # it failed before its start, at an unrecorded time
    record.status = _status(record, failed, fields[12])
    return record


_TIMES = ("submission_time", "start_time", "end_time")


def _status(record: Record, failed: int, code: str) -> str:
    if record.again:
        return "requeued"
    if failed == 0:
        return "completed" if code == "0" else "failed"
    ran = record.end - record.start if record.start != NO_TIME else 0
    if failed == _OVER_H_RT or (failed == _KILLED and record.walltime != NO_TIME and ran >= record.walltime):
        return "timeout"
    return "failed"


@lru_cache(maxsize=1 << 12)
def _host(name: str) -> tuple[str, ...]:
    return () if name in ("UNKNOWN", "NONE", "") else (name,)


def _instant(fields: list[str], place: int, name: str) -> int:
    value = whole(name, fields[place], 1000 * SECONDS_MAX)
    if not value:
        return NO_TIME
    return value * (SECOND // 1000) if value > _MS else value * SECOND


@lru_cache(maxsize=1 << 14)
def _requests(category: str) -> tuple[int, int, int]:
    """Return the walltime in microseconds, the bytes per slot and the GPUs of a job, from its category (-l)."""
    asked: dict[str, str] = {}
    for text in _REQUEST.findall(category):
        asked |= dict(part.partition("=")[::2] for part in text.split(","))
    walltime = asked.get("h_rt") or asked.get("s_rt") or ""
    memory = next((asked[name] for name in _MEMORY if name in asked), "")
    gpus = next((asked[name] for name in ("gpu", "gpus", "ngpus") if name in asked), "0")
    try:
        span = parse_span(walltime) if walltime and walltime.upper() != "INFINITY" else NO_TIME
        size = parse_size(memory) if memory and memory.upper() != "INFINITY" else 0
    except ValueError:
        raise BrokenLine("category", category, "amounts such as h_rt=36000,h_vmem=4G") from None
    return span, size, whole("category", gpus) if gpus.isdecimal() else 0
