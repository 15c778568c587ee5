"""Asks an HTCondor, in a process of its own: the library holds the interpreter while it waits for an answer, and waits
without end for the history of a schedd that hangs.

A request is a line of JSON on standard input, its answer a line on standard output; see `answer`. Nothing is ever
changed there; what a queue does that starts jobs is in `htcondor_acts.py`.
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

# Of jobs; those behind RemoteHosts are what an expression for the memory refers to.
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
HERE = "JobUniverse =!= 7 && JobUniverse =!= 9 && JobUniverse =!= 12"  # the others hold no slot of this pool
NUMBERS = ("RequestCpus", "RequestMemory", "RequestGPUs", "ConcurrencyLimits", "DeferralTime")  # may be expressions
EXPRESSION = "/Expr("  # how JSON has them
LIMIT, DEFAULT_LIMIT = "_LIMIT", "CONCURRENCY_LIMIT_DEFAULT"
LONG = 500  # jobs of a queue that is not told as a whole each time
ALL_S = 30.0  # but so often
ORPHAN_S = 20  # after which a part of a machine that is claimed and runs nothing is waited for no more
SKEW_S = 5  # a transaction is dated before it is seen
MANY = 100  # jobs whose numbers can stand in a condition that is tried on each job


class Request(TypedDict):
    """What to ask.

    collector, schedd, machine: see htcondor.HTCondorReader. timeout: in seconds. limits: whether to ask for those of
    licences. history: whether to look for jobs that have ended even if none has left the queue, or `newest` for only
    the last one that did. since: a condition that holds of the last job of the history that is known; start: the second
    before which no job ended that is wanted. recall: cluster and process of the jobs that alone are wanted. edited:
    clusters of which jobs were edited. places: whether to tell which jobs do not take every node.
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
    """What is new since the last one.

    error: why nothing is known. instance, schedd: of which one it is. now: its clock, in seconds. whole: these are all
    jobs; else gone are those that have left the queue. young: the collector may not know all machines
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
    """What was told of one schedd. jobs: their ads as texts, with their numbers."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self._instance = ""  # of the schedd
        self._now = 0  # when that was, in seconds by the clock of the schedd
        self._last = 0  # the highest number of a cluster by then
        self._all_at = 0.0  # when all jobs were asked for
        self._places = Places()

    def answer(self, request: Request) -> Answer:
        """What is new since the last answer. Raises htcondor2.HTCondorException."""
        collector = htcondor2.Collector(request["collector"] or None)
        at = schedd_at(collector, request["schedd"])
        schedd = htcondor2.Schedd(at)
        if request["recall"]:
            return {"history": _recalled(schedd, request["recall"])}
        before = itself(at)
        same = str(before["DaemonStartTime"]) == self._instance
        found = (self._changed(schedd, request["edited"]) if same else None) or self._all(schedd)
        if itself(at)["DaemonStartTime"] != before["DaemonStartTime"]:
            raise htcondor2.HTCondorException("the schedd was started anew meanwhile")
        jobs, ads = found
        there = {*jobs.values()}
        new = [ad for text, ad in ads.items() if text not in self.jobs]
        if request["places"]:
            self._places.judge(collector, new)
        told: Answer = {
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
            told["limits"] = _limits(collector)
        if request["history"] == "newest":
            told["history"] = [plain(ad) for ad in schedd.history("true", list(ENDS), 1)]
        elif request["history"] or (request["start"] and told["gone"]):
            start = request["start"]
            wanted = f"{HERE} && (EnteredCurrentStatus >= {start} || CompletionDate >= {start})"
            history = schedd.history(wanted, list(ENDS), -1, since=request["since"] or None)
            told["history"] = [plain(ad) for ad in history]
        self.jobs, self._now, self._instance = jobs, told["now"], told["instance"]
        self._last = max([self._last, *(ad["ClusterId"] for ad in told["jobs"])])
        return told

    def _all(self, schedd: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """The jobs of the queue: their texts with their numbers, and with their ads."""
        at = time.monotonic()
        ads = {_text(ad): ad for ad in schedd.query(HERE, list(ENDS))}
        self._all_at = at
        return {text: self.jobs.get(text) or _id(ad) for text, ad in ads.items()}, ads

    def _changed(self, schedd: Any, edited: list[int]) -> tuple[dict[str, str], dict[str, Any]] | None:
        """The same by the jobs that are not idle, or are so only now; None if that does not tell all of them.

        Most jobs of a long queue are idle, and stay so. A new one has a new cluster, or is dated by the schedd. That
        one has left is seen by their count; that one was edited is seen when all of them are asked for.
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
    """Of the ad of a job; texts within it have no line feeds."""
    return "\nJobStatus = 1\n" in f"\n{text}"


def schedd_at(collector: Any, name: str) -> Any:
    """Where the schedd of this name is reached, or the only one, or that of this machine."""
    wanted = f"Name == {json.dumps(name)}" if name else "true"
    ads = collector.query(htcondor2.AdType.Schedd, wanted, list(LOCATION))
    if len(ads) > 1 and not name:
        ads = [htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)]
    if len(ads) != 1 or ads[0] is None:
        raise htcondor2.HTCondorException(f"the collector knows no schedd{f' {name}' if name else ''}")
    return ads[0]


def _recalled(schedd: Any, some: list[list[int]]) -> list[dict[str, Any]]:
    """The ads of these jobs in the history."""
    if len(some) <= MANY:
        wanted = " || ".join(f"ClusterId == {cluster} && ProcId == {process}" for cluster, process in some)
    else:
        wanted = f"ClusterId >= {min(some)[0]} && ClusterId <= {max(some)[0]}"
    jobs = {(cluster, process) for cluster, process in some}
    found = schedd.history(wanted, list(ENDS), -1)
    return [plain(ad) for ad in found if (ad["ClusterId"], ad["ProcId"]) in jobs]


def itself(at: Any) -> Any:
    """The ad of the schedd as it tells it itself: what the collector has may be that of one that died."""
    ads = htcondor2.Collector(at).query(
        htcondor2.AdType.Schedd, projection=["Name", "DaemonStartTime", "MyCurrentTime"]
    )
    if len(ads) != 1:
        raise htcondor2.HTCondorException(f"{len(ads)} schedds answer at {at['MyAddress']}")
    return ads[0]


def _slots(collector: Any, schedd: str, machine: str) -> list[dict[str, Any]]:
    """The slots that are nodes, those that jobs of other schedds hold, and those that a schedd which died has left
    claimed."""
    mine = json.dumps(f"{schedd}#")
    others = f"GlobalJobId =!= undefined && substr(GlobalJobId, 0, {len(schedd) + 1}) != {mine}"
    names = [*SLOT, machine] if machine else list(SLOT)
    orphan = f'State == "Claimed" && Activity == "Idle" && time() - EnteredCurrentActivity > {ORPHAN_S}'
    found = collector.query(htcondor2.AdType.Startd, f"DynamicSlot =!= true || ({others}) || ({orphan})", names)
    return [plain(ad) for ad in found]


def _is_young(collector: Any) -> bool:
    """Whether a collector has run for less than machines may take to report to it: an ad lives for 15 minutes."""
    ads = collector.query(htcondor2.AdType.Collector, projection=["StatsLifetime"])
    return not any(int(ad.get("StatsLifetime", 0)) >= 900 for ad in ads)


def _limits(collector: Any) -> dict[str, str]:
    """The settings of the negotiator about copies of licences; those of this machine if it does not tell them."""
    settings: Any = htcondor2.param
    for ad in collector.query(htcondor2.AdType.Negotiator, projection=list(LOCATION))[:1]:
        with suppress(htcondor2.HTCondorException):  # a right that an ordinary user may lack
            settings = htcondor2.RemoteParam(ad)
    wanted = (name for name in settings if name.upper().endswith(LIMIT) or name.upper().startswith(DEFAULT_LIMIT))
    return {name.upper(): str(settings[name]) for name in wanted}


def _text(ad: Any) -> str:
    """An ad without the instant at which it was told, which is in each."""
    if "ServerTime" in ad:
        del ad["ServerTime"]
    try:
        return str(ad.printOld())
    except UnicodeDecodeError:
        _cleanse(ad)
        return str(ad.printOld())


def plain(ad: Any) -> dict[str, Any]:
    """An ad as a dict; an expression is a text, or its value where a number is needed."""
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
    """Leave out texts that are not UTF-8."""
    for name in [*ad.keys()]:
        try:
            ad[name]
        except UnicodeDecodeError:
            del ad[name]


def main(answer: Callable[[Any], Any], lines: Iterable[str], out: TextIO) -> None:
    """Answer each request."""
    for line in lines:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout"])  # ends this process, whatever the library is at
        try:
            told = answer(request)
        except (htcondor2.HTCondorException, classad2.ClassAdException) as problem:
            told = {"error": str(problem)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(told), file=out, flush=True)


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer the requests on standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints is no answer
    main(answer, sys.stdin, answers)


if __name__ == "__main__":
    serve(Pool().answer)
