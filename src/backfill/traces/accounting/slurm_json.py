"""`import slurm`: the output of `sacct --json`, of any version of the data parser.

Source: the OpenAPI specification of slurmdbd ("dbv0.0.37_job" and later), slurm.schedmd.com/rest_api.html.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from backfill.model.clock import Clock
from backfill.model.errors import WorkloadError, at
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.slurm import (
    AGAIN,
    UNFINISHED,
    Tres,
    constraint_of,
    dependencies_of,
    ids_of,
    left_aside,
    state_of,
    status_of,
    whole_jobs,
)
from backfill.traces.accounting.stays import SECONDS_MAX, Record, Stays
from backfill.traces.broken import COUNT_MAX, BrokenLine, BrokenLines, whole
from backfill.traces.files import Source
from backfill.traces.json_values import json_text, value_at

_MIB = 2**20
_UNSET, _INFINITE = (
    (2**32 - 2, 2**64 - 2),
    2**32 - 1,
)  # Slurm's NO_VAL and INFINITE, which older versions write as numbers
_TOLD = 1000  # jobs between two progress reports
_JOBS = re.compile(r'"jobs"\s*:\s*\[')


def read_slurm_json(source: Source) -> Accounted:
    """Read the jobs of a dump. Times are seconds since 1970. Raises WorkloadError."""
    broken, notes = BrokenLines(source.file), list[str]()
    records = whole_jobs(_records(_jobs(source), broken, notes), broken)
    return workload_of(Stays.of(records, source.file), source, broken, clock=Clock(0), notes=notes)


def _jobs(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the objects of the list `jobs`, each with its line, one by one: all at once would take gigabytes."""
    text = json_text(source.data)
    head = _JOBS.search(text)
    if not text.lstrip().startswith("{") or head is None:
        raise WorkloadError(at(source.file, 1, "has no list of jobs; expected the output of sacct --json"))
    place, line = head.end(), text.count("\n", 0, head.end()) + 1
    count = 0
    while text[place : place + 1] != "]":
        if text[place : place + 1] in (" ", "\n", "\t", "\r", ","):
            line += text[place] == "\n"
            place += 1
            continue
        try:
            job, end = value_at(text, place)
        except ValueError as problem:
            raise WorkloadError(at(source.file, line, f"is not JSON: {problem}")) from None
        yield line, job
        count += 1
        if source.progress is not None and count % _TOLD == 0:
            source.progress(place / len(text))
        line += text.count("\n", place, end)
        place = end


def _records(jobs: Iterator[tuple[int, Any]], broken: BrokenLines, notes: list[str]) -> Iterator[tuple[str, Record]]:
    """Yield the leader of the heterogeneous job, or "", and the record."""
    others: dict[str, int] = {}
    elsewhere = 0
    for line, job in jobs:
        try:
            records = _record(job, others)
        except BrokenLine as problem:
            broken.add(line, problem)
            continue
        except (LookupError, TypeError, AttributeError) as problem:
            broken.add(line, f"a job lacks {problem}; expected the fields of sacct --json")
            continue
        elsewhere += not records
        yield from records
    notes += left_aside(others)
    if elsewhere:
        notes.append(f"skipped: {counted(elsewhere, 'job')} that ran in another cluster of the federation")


def _record(job: dict[str, Any], others: dict[str, int]) -> list[tuple[str, Record]]:
    times, tres = job["time"], job["tres"]
    try:
        state = state_of(_first(job["state"]["current"]))
    except ValueError:
        raise BrokenLine("state", str(job["state"]["current"]), "a state of a job such as COMPLETED") from None
    if state == "REVOKED":
        return []
    held, asked = Tres.of(_amounts(tres.get("allocated"))), Tres.of(_amounts(tres.get("requested")))
    for name in held.others or asked.others:
        others[name] = others.get(name, 0) + 1
    try:
        hosts = host_names(job.get("nodes") or "")
    except ValueError:
        raise BrokenLine("nodes", str(job["nodes"]), "a list of nodes such as n[01-03,7]") from None
    start, end = _instant(times, "start"), _instant(times, "end")
    elapsed = _number(times, "elapsed", SECONDS_MAX) or 0
    if state == "CANCELLED" and not elapsed and (start == NO_TIME or (start == end and not hosts)):
        start = NO_TIME
    limit = times.get("limit")
    unlimited = isinstance(limit, dict) and bool(limit.get("infinite"))
    minutes = None if unlimited else _number(times, "limit", 2**64)
    if minutes is not None and minutes >= _INFINITE:
        minutes, unlimited = None, True
    required = job.get("required", {})
    cpus = held.cpus or asked.cpus or _number(required, "CPUs") or 0
    nodes = held.nodes or len(hosts) or asked.nodes or 1
    each_cpu, each_node = _number(required, "memory_per_cpu") or 0, _number(required, "memory_per_node") or 0
    try:
        constraint = constraint_of(job.get("constraints") or "")
    except ValueError:
        raise BrokenLine("constraints", str(job["constraints"]), "features with & and | between") from None
    record = Record(
        job=_id(job),
        submit=_instant(times, "submission"),
        eligible=_instant(times, "eligible"),
        start=start,
        end=end,
        runtime=elapsed * SECOND if start != NO_TIME else NO_TIME,
        walltime=NO_TIME if minutes is None else minutes * 60 * SECOND,
        unlimited=unlimited,
        nodes=nodes,
        cpus=cpus,
        memory=held.memory or asked.memory or max(each_cpu * cpus, each_node * nodes) * _MIB,
        gpus=held.gpus or asked.gpus,
        status=status_of(state),
        unfinished=state in UNFINISHED,
        again=state in AGAIN,
        suspended=(_number(times, "suspended", SECONDS_MAX) or 0) > 0,
        user=_name(job),
        group=str(job.get("account") or job.get("group") or ""),
        partition=str(job.get("partition") or ""),
        qos=str(job.get("qos") or ""),
        reservation=_reservation(job.get("reservation")),
        constraint=constraint,
        gpu_type=asked.gpu_type,
        licences=held.licences or asked.licences,
        hosts=hosts,
        after=dependencies_of(job.get("submit_line") or ""),
    )
    if record.submit == NO_TIME:
        raise BrokenLine("time.submission", str(times["submission"]), "seconds since 1970")
    leader, ids = ids_of(record.job)
    return [(leader, replace(record, job=each)) for each in ids]


def _id(job: dict[str, Any]) -> str:
    """Return the id as sacct shows it: with the array task, or the component of a heterogeneous job."""
    array, het = job.get("array") or {}, job.get("het") or {}
    leader, offset = _number(het, "job_id"), _number(het, "job_offset")
    if leader:
        return f"{leader}+{offset or 0}"
    number, task = _number(array, "job_id"), _number(array, "task_id")
    if not number:
        return str(job["job_id"])
    if task is not None:
        return f"{number}_{task}"
    return f"{number}_[{array['task']}]" if array.get("task") else str(job["job_id"])


def _name(job: dict[str, Any]) -> str:
    association = job.get("association") or {}
    return str(job.get("user") or (association.get("user") if isinstance(association, dict) else "") or "")


def _reservation(said: Any) -> str:
    """Return the name of the reservation that a job asked for; empty if none."""
    return str(said.get("name") or "") if isinstance(said, dict) else ""


def _first(state: Any) -> str:
    """Return the job's state; later versions list it first, before its flags."""
    return str(state[0] if isinstance(state, list) else state)


def _number(fields: dict[str, Any], name: str, most: int = COUNT_MAX) -> int | None:
    """Return a number, which later versions wrap in {set, infinite, number}. Raises BrokenLine."""
    value = fields.get(name)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if value is None or value in _UNSET:
        return None
    return whole(name, str(value), most)


def _instant(times: dict[str, Any], name: str) -> int:
    seconds = _number(times, name, SECONDS_MAX)
    return seconds * SECOND if seconds else NO_TIME


def _amounts(tres: Any) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for each in tres or ():
        name = f"{each['type']}/{each['name']}" if each.get("name") else str(each["type"])
        amounts[name] = (_number(each, "count", 2**53) or 0) * (_MIB if name == "mem" else 1)
    return amounts
