"""Queries an HTCondor in a separate process.

The library holds the GIL while it waits for an answer, and waits without limit for the history of a schedd that hangs.
A request is a line of JSON on standard input, its answer a line on standard output; see `answer`. Nothing is ever
changed there; the actions of a queue that starts jobs are in `htcondor_acts.py`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TextIO, TypedDict

import classad2
import htcondor2

from backfill.pools import htcondor_pin as pins
from backfill.pools.htcondor_places import Places

# Attributes of jobs; those behind RemoteHosts are used by expressions for the memory.
WAITS = (
    "ClusterId", "ProcId", "QDate", "JobStatus", "EnteredCurrentStatus", "JobUniverse", "Owner", "AcctGroup", "Cmd",
    "JobBatchName", "DAGNodeName", "JobPrio", "RequestCpus", "RequestMemory", "RequestGPUs", "MaxHosts",
    "ConcurrencyLimits", "AllowedExecuteDuration", "AllowedJobDuration", "MaxRuntime", "MaxWallTimeMins", "BFWallTime",
    "PeriodicRemove", "PeriodicHold", "DeferralTime", "HoldReason", "NumShadowStarts", "JobStartDate",
    "JobCurrentStartDate", "RemoteHost", "RemoteHosts", "MemoryUsage", "ResidentSetSize", "ImageSize", "RequireGPUs",
    "Requirements", pins.QUEUE, pins.PIN, pins.BEFORE,
    pins.COMMENT,
)  # fmt: skip
ENDS = (*WAITS, "CompletionDate", "ExitCode", "ExitBySignal", "ExitSignal", "RemoveReason", "LastJobStatus",
        "LastRemoteHost")  # fmt: skip
SLOT = (
    "Name", "Machine", "SlotType", "PartitionableSlot", "DynamicSlot", "Cpus", "Memory", "GPUs", "TotalSlotCpus",
    "TotalSlotMemory", "TotalSlotGPUs", "TotalGPUs", "State", "Draining", "DrainReason", "Offline", "GlobalJobId",
    "Activity",
)  # fmt: skip
LOCATION = ("Name", "MyAddress", "AddressV1", "MyType", "Machine", "CondorVersion", "CondorPlatform")
HERE = "JobUniverse =!= 7 && JobUniverse =!= 9 && JobUniverse =!= 12"  # other universes hold no slot of this pool
NUMBERS = ("RequestCpus", "RequestMemory", "RequestGPUs", "ConcurrencyLimits", "DeferralTime")  # may be expressions
EXPRESSION = "/Expr("  # how expressions begin in JSON
LIMIT, DEFAULT_LIMIT = "_LIMIT", "CONCURRENCY_LIMIT_DEFAULT"
LONG = 500  # a queue with at least this many jobs is not read completely each time
ALL_S = 30.0  # interval of complete reads, in seconds
ORPHAN_S = 20  # seconds after which a claimed part of a machine that runs nothing counts as lost
SKEW_S = 5  # seconds between the date of a transaction and its visibility
MANY = 100  # most jobs whose numbers are listed in a condition evaluated for each job


class Request(TypedDict):
    """A request.

    collector, schedd, machine: see htcondor.HTCondorReader. timeout: in seconds. limits: whether to return the limits
    of licences. history: non-empty to search for ended jobs even if none has left the queue; `newest` for only the job
    that ended last. since: a condition that holds for the last known job of the history. start: jobs that ended before
    this second are left out. recall: cluster and process of the only jobs to return. edited: clusters with edited jobs.
    places: whether to report which jobs do not accept every node.
    """

    collector: str
    schedd: str
    machine: str
    timeout: float
    limits: bool
    history: str
    since: str
    start: int
    recall: list[list[int]]
    edited: list[int]
    places: bool


class Answer(TypedDict, total=False):
    """The changes since the last answer.

    error: why nothing is known. instance, schedd: identify the schedd. now: its clock, in seconds. whole: `jobs` is
    complete; otherwise `gone` lists the jobs that have left the queue. young: the collector may not know all machines
    yet. history: newest first. limits: settings of HTCondor.
    """

    error: str
    instance: str
    schedd: str
    now: int
    whole: bool
    jobs: list[dict[str, Any]]
    gone: list[str]
    slots: list[dict[str, Any]]
    young: bool
    history: list[dict[str, Any]]
    limits: dict[str, str]


class Pool:
    """The last known state of one schedd. jobs: their ads as texts, with their numbers."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self._instance = ""  # identifies the run of the schedd
        self._now = 0  # time of the last answer, in seconds by the clock of the schedd
        self._last = 0  # highest cluster number at that time
        self._all_at = 0.0  # when all jobs were last read
        self._places = Places()

    def answer(self, request: Request) -> Answer:
        """Return what has changed since the last answer. Raises htcondor2.HTCondorException."""
        collector = htcondor2.Collector(request["collector"] or None)
        at = schedd_at(collector, request["schedd"])
        schedd = htcondor2.Schedd(at)
        if request["recall"]:
            return {"history": _recalled(schedd, request["recall"])}
        before = itself(at)
        same = str(before["DaemonStartTime"]) == self._instance
        found = (self._changed(schedd, request["edited"]) if same else None) or self._all(schedd)
        if itself(at)["DaemonStartTime"] != before["DaemonStartTime"]:
            raise htcondor2.HTCondorException("the schedd was restarted meanwhile")
        jobs, ads = found
        there = {*jobs.values()}
        new = [ad for text, ad in ads.items() if text not in self.jobs]
        if request["places"]:
            self._places.judge(collector, new)
        answer: Answer = {
            "instance": str(before["DaemonStartTime"]),
            "schedd": str(before["Name"]),
            "now": int(before["MyCurrentTime"]),
            "whole": not self.jobs,
            "jobs": [plain(ad) for ad in new],
            "gone": [job for job in self.jobs.values() if job not in there],
            "slots": _slots(collector, str(before["Name"]), request["machine"]),
            "young": _is_young(collector),
        }
        if request["limits"]:
            answer["limits"] = _limits(collector)
        if request["history"] == "newest":
            answer["history"] = [plain(ad) for ad in schedd.history("true", list(ENDS), 1)]
        elif request["history"] or (request["start"] and answer["gone"]):
            start = request["start"]
            wanted = f"{HERE} && (EnteredCurrentStatus >= {start} || CompletionDate >= {start})"
            history = schedd.history(wanted, list(ENDS), -1, since=request["since"] or None)
            answer["history"] = [plain(ad) for ad in history]
        self.jobs, self._now, self._instance = jobs, answer["now"], answer["instance"]
        self._last = max([self._last, *(ad["ClusterId"] for ad in answer["jobs"])])
        return answer

    def _all(self, schedd: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Return all jobs of the queue: their texts with their numbers, and their texts with their ads."""
        at = time.monotonic()
        ads = {_text(ad): ad for ad in schedd.query(HERE, list(ENDS))}
        self._all_at = at
        return {text: self.jobs.get(text) or _id(ad) for text, ad in ads.items()}, ads

    def _changed(self, schedd: Any, edited: list[int]) -> tuple[dict[str, str], dict[str, Any]] | None:
        """Return the same as `_all`, from a query of the jobs that changed; None if that cannot yield all of them.

        Most jobs of a long queue are idle and stay so. A new job has a new cluster, or a date set by the schedd. That a
        job has left shows in the count of idle jobs; edits show when all jobs are read.
        """
        if len(self.jobs) < LONG or time.monotonic() - self._all_at > ALL_S:
            return None
        now = f"JobStatus =!= 1 || EnteredCurrentStatus >= {self._now - SKEW_S} || ClusterId > {self._last}"
        ads = {_text(ad): ad for ad in schedd.query(f"{HERE} && ({now})", list(ENDS))}
        changed = {text: self.jobs.get(text) or _id(ad) for text, ad in ads.items()}
        other = {*changed.values()}
        jobs = {text: job for text, job in self.jobs.items() if job not in other and _is_idle(text)} | changed
        counts = schedd.query(f"{HERE} && JobStatus == 1", opts=htcondor2.QueryOpt.SummaryOnly)
        idle = sum(map(_is_idle, jobs))
        return (jobs, ads) if [int(ad["Idle"]) for ad in counts] == [idle] else None


def _id(ad: Any) -> str:
    return f"{ad['ClusterId']}.{ad['ProcId']}"


def _is_idle(text: str) -> bool:
    """Return whether an ad's text is that of an idle job; values in it contain no line feeds."""
    return "\nJobStatus = 1\n" in f"\n{text}"


def schedd_at(collector: Any, name: str) -> Any:
    """Return the location of the schedd with this name; without a name, of the only one, or that of this machine."""
    wanted = f"Name == {json.dumps(name)}" if name else "true"
    ads = collector.query(htcondor2.AdType.Schedd, wanted, list(LOCATION))
    if len(ads) > 1 and not name:
        ads = [htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)]
    if len(ads) != 1 or ads[0] is None:
        raise htcondor2.HTCondorException(f"the collector knows no schedd{f' {name}' if name else ''}")
    return ads[0]


def _recalled(schedd: Any, some: list[list[int]]) -> list[dict[str, Any]]:
    """Return the ads of these jobs in the history."""
    if len(some) <= MANY:
        wanted = " || ".join(f"ClusterId == {cluster} && ProcId == {process}" for cluster, process in some)
    else:
        wanted = f"ClusterId >= {min(some)[0]} && ClusterId <= {max(some)[0]}"
    jobs = {(cluster, process) for cluster, process in some}
    found = schedd.history(wanted, list(ENDS), -1)
    return [plain(ad) for ad in found if (ad["ClusterId"], ad["ProcId"]) in jobs]


def itself(at: Any) -> Any:
    """Return the schedd's own ad: the collector may still have the ad of a schedd that died."""
    ads = htcondor2.Collector(at).query(
        htcondor2.AdType.Schedd, projection=["Name", "DaemonStartTime", "MyCurrentTime"]
    )
    if len(ads) != 1:
        raise htcondor2.HTCondorException(f"{len(ads)} schedds answer at {at['MyAddress']}")
    return ads[0]


def _slots(collector: Any, schedd: str, machine: str) -> list[dict[str, Any]]:
    """Return the slots that are nodes, those held by other schedds, and those that a dead schedd left claimed."""
    mine = json.dumps(f"{schedd}#")
    others = f"GlobalJobId =!= undefined && substr(GlobalJobId, 0, {len(schedd) + 1}) != {mine}"
    names = [*SLOT, machine] if machine else list(SLOT)
    orphan = f'State == "Claimed" && Activity == "Idle" && time() - EnteredCurrentActivity > {ORPHAN_S}'
    found = collector.query(htcondor2.AdType.Startd, f"DynamicSlot =!= true || ({others}) || ({orphan})", names)
    return [plain(ad) for ad in found]


def _is_young(collector: Any) -> bool:
    """Return whether a collector started less than 15 minutes ago, the lifetime of an ad: it may not know all machines
    yet."""
    ads = collector.query(htcondor2.AdType.Collector, projection=["StatsLifetime"])
    return not any(int(ad.get("StatsLifetime", 0)) >= 900 for ad in ads)


def _limits(collector: Any) -> dict[str, str]:
    """Return the negotiator's settings of licence copies; those of this machine if they are not revealed."""
    settings: Any = htcondor2.param
    for ad in collector.query(htcondor2.AdType.Negotiator, projection=list(LOCATION))[:1]:
        with suppress(htcondor2.HTCondorException):  # requires a right that an ordinary user may lack
            settings = htcondor2.RemoteParam(ad)
    wanted = (name for name in settings if name.upper().endswith(LIMIT) or name.upper().startswith(DEFAULT_LIMIT))
    return {name.upper(): str(settings[name]) for name in wanted}


def _text(ad: Any) -> str:
    """Return an ad as text, without the time of the answer, which differs each time."""
    if "ServerTime" in ad:
        del ad["ServerTime"]
    try:
        return str(ad.printOld())
    except UnicodeDecodeError:
        _cleanse(ad)
        return str(ad.printOld())


def plain(ad: Any) -> dict[str, Any]:
    """Return an ad as a dict; an expression becomes text, or its value for numeric attributes."""
    try:
        found: dict[str, Any] = json.loads(ad.printJson())
    except UnicodeDecodeError:
        _cleanse(ad)
        found = json.loads(ad.printJson())
    for name, value in found.items():
        if isinstance(value, str) and value.startswith(EXPRESSION):
            result = ad.eval(name) if name in NUMBERS else value[len(EXPRESSION) : -len(")/")]
            found[name] = None if isinstance(result, classad2.Value | classad2.ExprTree) else result
    return found


def _cleanse(ad: Any) -> None:
    """Remove values that are not UTF-8."""
    for name in [*ad.keys()]:
        try:
            ad[name]
        except UnicodeDecodeError:
            del ad[name]


def main(answer: Callable[[Any], Any], lines: Iterable[str], out: TextIO) -> None:
    """Answer each request with one line of JSON."""
    for line in lines:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout"])  # ends this process, even inside the library
        try:
            reply = answer(request)
        except (htcondor2.HTCondorException, classad2.ClassAdException) as problem:
            reply = {"error": str(problem)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(reply), file=out, flush=True)


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer the requests on standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps the library's output out of the answers
    main(answer, sys.stdin, answers)


if __name__ == "__main__":
    serve(Pool().answer)
