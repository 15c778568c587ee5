"""`import htcondor`: `condor_history -json` or `-long`, raw history files, or a job event log.

Source: the HTCondor manual, "Job ClassAd Attributes" and "Job Event Log Codes".
"""

from collections.abc import Iterator
from typing import Any

from backfill.model.clock import Clock
from backfill.model.errors import WorkloadError, at
from backfill.model.schedule import NO_TIME
from backfill.model.units import counted
from backfill.traces.accounting.htcondor_ads import (
    COMPLETED,
    MIB,
    ON_THE_ACCESS_POINT,
    PARALLEL,
    REMOVED,
    has_failed,
    id_of,
    instant,
    licences_of,
    limit_of,
    number,
    start_of,
)
from backfill.traces.accounting.htcondor_events import is_event_log, records_of_events
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.stays import Record, Stays
from backfill.traces.broken import BrokenLine, BrokenLines
from backfill.traces.classads import ads_of
from backfill.traces.files import Source
from backfill.traces.json_values import json_text


def read_htcondor(source: Source, zone: str | None = None) -> Accounted:
    """Read the jobs of a history or an event log. zone: time zone of the event log's dates. Raises WorkloadError."""
    broken, notes = BrokenLines(source.file), list[str]()
    text = json_text(source.data)
    if is_event_log(text):
        records = records_of_events(text, zone, broken, notes)
    else:
        records = _records(source.file, text, broken, notes)
    return workload_of(Stays.of(records, source.file), source, broken, clock=Clock(0, zone or "UTC"), notes=notes)


def _records(file: str, text: str, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    local, several = 0, 0
    nodes: dict[tuple[int, str], str] = {}  # the job of each DAG node
    waits: list[tuple[Record, int, str]] = []
    for line, ad in _ads(file, text):
        try:
            if number(ad, "JobUniverse") in ON_THE_ACCESS_POINT:
                local += 1
                continue
            record, dag = _record(ad), number(ad, "DAGManJobId")
            starts = number(ad, "NumJobStarts") or number(ad, "NumShadowStarts")
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
    state = number(ad, "JobStatus") or COMPLETED
    submit = instant(ad, "QDate")
    start = start_of(ad)
    epoch = instant(ad, "EpochWriteDate")  # condor_history -epochs: one ad for each run
    end = instant(ad, "CompletionDate")
    if end == NO_TIME:
        end = epoch if epoch != NO_TIME else instant(ad, "EnteredCurrentStatus")
    machines = max(number(ad, "MaxHosts"), 1) if number(ad, "JobUniverse") == PARALLEL else 1
    requested = number(ad, "MemoryProvisioned") or number(ad, "RequestMemory")
    host = str(ad.get("LastRemoteHost") or ad.get("RemoteHost") or "").partition("@")[2]  # slot1_1@host
    group = str(ad.get("AcctGroup") or "")
    return Record(
        job=id_of(ad),
        submit=submit,
        eligible=instant(ad, "DeferralTime"),
        start=start,
        end=end,
        walltime=limit_of(ad),
        nodes=machines,
        cpus=(number(ad, "CpusProvisioned") or number(ad, "RequestCpus") or 1) * machines,
        memory=requested * MIB * machines,
        gpus=(number(ad, "GPUsProvisioned") or number(ad, "RequestGPUs")) * machines,
        status=_status(ad, state),
        unfinished=state not in (REMOVED, COMPLETED) and epoch == NO_TIME,
        again=epoch != NO_TIME and state not in (REMOVED, COMPLETED),
        user=str(ad.get("Owner") or ""),
        group=group,
        licences=";".join(f"{name}:{count}" for name, count in licences_of(ad)),
        hosts=(host,) if host and machines == 1 else (),
        priority=float(number(ad, "JobPrio")),
    )


def _status(ad: dict[str, Any], state: int) -> str:
    if state == REMOVED:
        return "cancelled"
    if state != COMPLETED:
        return "requeued"
    return "failed" if has_failed(ad) else "completed"
