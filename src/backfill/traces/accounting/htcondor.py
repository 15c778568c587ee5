"""`import htcondor`: `condor_history -json` or `-long`, history files as they are, or a job event log.

Source: the HTCondor manual, "Job ClassAd Attributes" and "Job Event Log Codes".
"""

import re
from collections.abc import Iterator
from typing import Any

from backfill.model.clock import Clock
from backfill.model.errors import WorkloadError, at
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted
from backfill.traces.accounting.htcondor_events import is_event_log, records_of_events
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.stays import SECONDS_MAX, Record, Stays
from backfill.traces.broken import COUNT_MAX, BrokenLine, BrokenLines, whole
from backfill.traces.classads import ads_of
from backfill.traces.files import Source
from backfill.traces.json_values import json_text

_IDLE, _RUNNING, _REMOVED, _COMPLETED, _HELD, _SUSPENDED = 1, 2, 3, 4, 5, 7  # JobStatus
_ON_THE_ACCESS_POINT = {7: "scheduler", 12: "local"}  # universes whose jobs hold no slot
_MIB = 2**20
_LIMITS = (("AllowedExecuteDuration", 1), ("AllowedJobDuration", 1), ("MaxRuntime", 1), ("MaxWallTimeMins", 60))


def read_htcondor(source: Source, zone: str | None = None) -> Accounted:
    """The jobs of a history or an event log. zone: of the dates in an event log. Raises WorkloadError."""
    broken, notes = BrokenLines(source.file), list[str]()
    text = json_text(source.data)
    if is_event_log(text):
        records = records_of_events(text, zone, broken, notes)
    else:
        records = _records(source.file, text, broken, notes)
    return workload_of(Stays.of(records, source.file), source, broken, clock=Clock(0, zone or "UTC"), notes=notes)


def _records(file: str, text: str, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    local, several = 0, 0
    nodes: dict[tuple[int, str], str] = {}  # of each DAG: the job of a node
    waits: list[tuple[Record, int, str]] = []
    for line, ad in _ads(file, text):
        try:
            if _number(ad, "JobUniverse") in _ON_THE_ACCESS_POINT:
                local += 1
                continue
            record, dag = _record(ad), _number(ad, "DAGManJobId")
            starts = _number(ad, "NumJobStarts") or _number(ad, "NumShadowStarts")
        except BrokenLine as problem:
            broken.add(line, problem)
            continue
        if dag and "DAGNodeName" in ad:
            nodes[dag, str(ad["DAGNodeName"])] = record.job
            if parents := str(ad.get("DAGParentNodeNames") or ""):
                waits.append((record, dag, parents))
                continue
        several += starts > 1 and not record.again
        yield record
    for record, dag, parents in waits:
        record.after = tuple(nodes.get((dag, name), f"{dag}/{name}") for name in parents.split(",") if name)
        yield record
    if local:
        notes.append(f"skipped: {counted(local, 'job')} of the scheduler and local universes, which hold no slot")
    if several:
        notes.append(f"started several times: {counted(several, 'job')}; the history has only the last run of each")


def _ads(file: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        empty = True
        for line, ad in ads_of(text):
            empty = False
            yield line, ad
    except ValueError as problem:
        raise WorkloadError(at(file, getattr(problem, "lineno", None), f"is not JSON of ClassAds: {problem}")) from None
    if empty:
        what = "no ClassAd; expected the output of condor_history -json or -long, or a job event log"
        raise WorkloadError(at(file, 1, what))


def _record(ad: dict[str, Any]) -> Record:
    if "ClusterId" not in ad or "QDate" not in ad:
        missing = "ClusterId" if "ClusterId" not in ad else "QDate"
        raise BrokenLine(missing, "", "the attributes of a job")
    state = _number(ad, "JobStatus") or _COMPLETED
    submit = _instant(ad, "QDate")
    start = _instant(ad, "JobCurrentStartDate")
    start = _instant(ad, "JobStartDate") if start == NO_TIME else start
    epoch = _instant(ad, "EpochWriteDate")  # condor_history -epochs: one ad for each run
    end = _instant(ad, "CompletionDate")
    if end == NO_TIME:
        end = epoch if epoch != NO_TIME else _instant(ad, "EnteredCurrentStatus")
    limit = next(((name, unit) for name, unit in _LIMITS if isinstance(ad.get(name), int | float)), None)
    machines = max(_number(ad, "MaxHosts"), 1) if _number(ad, "JobUniverse") == 11 else 1
    requested = _number(ad, "MemoryProvisioned") or _number(ad, "RequestMemory")
    host = str(ad.get("LastRemoteHost") or ad.get("RemoteHost") or "").partition("@")[2]  # slot1_1@host
    group = str(ad.get("AcctGroup") or "")
    return Record(
        job=f"{_number(ad, 'ClusterId')}.{_number(ad, 'ProcId')}",
        submit=submit,
        eligible=_instant(ad, "DeferralTime"),
        start=start,
        end=end,
        walltime=NO_TIME if limit is None else _number(ad, limit[0], SECONDS_MAX // limit[1]) * limit[1] * SECOND,
        nodes=machines,
        cpus=(_number(ad, "CpusProvisioned") or _number(ad, "RequestCpus") or 1) * machines,
        memory=requested * _MIB * machines,
        gpus=(_number(ad, "GPUsProvisioned") or _number(ad, "RequestGPUs")) * machines,
        status=_status(ad, state, start),
        unfinished=state not in (_REMOVED, _COMPLETED) and epoch == NO_TIME,
        again=epoch != NO_TIME and state not in (_REMOVED, _COMPLETED),
        user=str(ad.get("Owner") or ""),
        group=group,
        licences=_licences(ad),
        hosts=(host,) if host and machines == 1 else (),
        priority=float(_number(ad, "JobPrio")),
    )


def _status(ad: dict[str, Any], state: int, start: int) -> str:
    if state == _REMOVED:
        return "cancelled"
    if state != _COMPLETED:
        return "requeued"
    return "completed" if not ad.get("ExitBySignal") and not ad.get("ExitCode") else "failed"


def _licences(ad: dict[str, Any]) -> str:
    """`ConcurrencyLimits`, as `lic:2,other`, whose copies default to 1."""
    text = ad.get("ConcurrencyLimits")
    if not isinstance(text, str):
        return ""
    found = []
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if re.fullmatch(r"[\w.]+", name):
            found.append(f"{name.lower()}:{whole('ConcurrencyLimits', count.partition('.')[0]) if count else 1}")
    return ";".join(found)


def _number(ad: dict[str, Any], name: str, most: int = COUNT_MAX) -> int:
    """A number without its fraction, 0 where it is missing, undefined or an expression. Raises BrokenLine."""
    value = ad.get(name)
    if not isinstance(value, int | float):
        return 0
    if not abs(value) <= most:
        raise BrokenLine(name, str(value), f"a number up to {most:,}")
    return int(value)


def _instant(ad: dict[str, Any], name: str) -> int:
    value = ad.get(name)
    if value in (None, 0) or (isinstance(value, str) and name == "DeferralTime"):
        return NO_TIME
    if not isinstance(value, int | float) or not 0 < value <= SECONDS_MAX:
        raise BrokenLine(name, str(value), "seconds since 1970")
    return round(value * SECOND)
