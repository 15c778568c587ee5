"""Reads the state of HTCondor through its Python bindings, with the rights of any user who may read the queue.

Sources: the HTCondor manual, "Job ClassAd Attributes", "Machine ClassAd Attributes" and "Python Bindings",
htcondor.readthedocs.io. Tried with 23.9.6, by the bindings of 25.14.1.
"""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from os.path import basename
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, TypeVar

from backfill.model.errors import MissingExtra, PlatformError
from backfill.model.schedule import NO_TIME
from backfill.pools import htcondor_pin as pins
from backfill.pools.marks import MARK, OTHER, mark_of
from backfill.pools.seen import (
    DOWN,
    DRAIN,
    ENDING,
    OVER,
    PARALLEL,
    REQUIREMENTS,
    RUNNING,
    UNKNOWN,
    UP,
    WAITING,
    Asked,
    Down,
    JobNow,
    NodeNow,
    Snapshot,
)
from backfill.queue.nodes import Amounts, Placement
from backfill.queue.states import CANCELLED, COMPLETED, FAILED, TIMEOUT
from backfill.traces.accounting import htcondor_ads as ads
from backfill.traces.accounting.htcondor_ads import Ad
from backfill.traces.broken import COUNT_MAX, BrokenLine
from backfill.traces.inventory.htcondor import is_shared_out, slots_of_ads
from backfill.traces.inventory.nodes import Inventory, Node

if TYPE_CHECKING:
    from backfill.pools.htcondor_acts import Act
    from backfill.pools.htcondor_client import Answer, Request

SECOND = 1_000_000
GRACE_S = 2.0  # seconds to wait for a client beyond its own alarm
TIMEOUT_S = 20.0  # for a look; HTCondor's own tools use the same
RECALL_S = 600.0  # for a search of the whole history
HISTORY_S = 10.0  # interval of searches for jobs that ended without having been seen in the queue
LIMITS_S = 60.0  # interval of reading the configuration
DAY = 86_400 * SECOND
UNLIMITED = 2_308_032  # the default of CONCURRENCY_LIMIT_DEFAULT
LATE = "HTCondor did not answer within {:g} s"
OTHER_LIMITS = ("ARC_GAHP_COMMAND_LIMIT", "DETECTED_CPUS_LIMIT")  # settings of HTCondor that are not licences
BY_EXPRESSION = ("The job attribute PeriodicRemove ", "The system macro SYSTEM_PERIODIC_REMOVE ")  # removal reasons
GONE = "gone"  # why a node is down that the collector no longer knows
HELD = "Held"  # reason of a held job without one
COMMAND = (sys.executable, "-P", "-m", "backfill.pools.htcondor_client")
KINDS = ("cpus", "memory", "gpus")
GRID_MIB = 128  # machines round memory up to multiples of this (MODIFY_REQUEST_EXPR_REQUESTMEMORY)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Slot:
    """The node of a slot. whole: a job in this slot has the whole node."""

    node: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Site:
    """The context needed to interpret the ads of jobs.

    walltime: for a job that states none, in microseconds. slots: by name. licences: the copies of each; a licence that
    is not listed is unlimited. mark: of the queue that looks.
    """

    walltime: int = DAY
    mark: str = ""
    slots: Mapping[str, Slot] = field(default_factory=dict)
    licences: Mapping[str, int] = field(default_factory=dict)

    def slot(self, name: str) -> Slot:
        """Return a slot, or the parent of a dynamic slot: `slot1_3@n7` is part of `slot1@n7`."""
        first, _, host = name.partition("@")
        known = self.slots.get(name) or self.slots.get(f"{first.partition('_')[0]}@{host}")
        return known or Slot(host or name, False)


class HTCondorReader:
    """See seen.Reader.

    collector: its address; empty: as this machine is configured. schedd: its name; empty: the only one of the pool, or
    that of this machine. machine: the attribute with the names of machines; empty: the part of a slot's name behind the
    @, which is the host unless several startds share it. walltime: of jobs that state none, in microseconds. timeout:
    of a look, in seconds. home: the folder of the queue, which identifies its jobs. Raises MissingExtra.
    """

    name = "htcondor"

    def __init__(
        self,
        collector: str = "",
        schedd: str = "",
        *,
        machine: str = "",
        walltime: int = DAY,
        timeout: float = TIMEOUT_S,
        home: Path | None = None,
    ) -> None:
        if find_spec("htcondor2") is None:
            raise MissingExtra("--pool htcondor", "htcondor")
        self._collector, self._schedd, self._machine, self._timeout = collector, schedd, machine, timeout
        self._client = Client()
        self._site = Site(walltime, "" if home is None else mark_of(home))
        self._ads: dict[str, Ad] = {}  # by job number, like the jobs made from them
        self._jobs: dict[str, JobNow] = {}
        self._nodes: dict[str, NodeNow] = {}  # by name
        self._first: set[str] = set()  # the initial nodes; that other nodes disappear is not reported
        self._listed: list[tuple[Ad, Node]] = []  # the slots that are nodes, see listed
        self._asked: set[str] = set()  # licences that jobs request
        self._settings: dict[str, str] = {}  # limits of licences
        self._since = ""  # a condition that holds only for the last known job of the history
        self._edited: set[int] = set()  # clusters with jobs that the queue has edited since the last look
        self._start = 0  # ends before this second are not reported; 0 before the first look
        self._history_at = self._limits_at = 0.0  # when each is read again

    def platform(self) -> str:
        """Return the machines and licences as the text of a platform file. Raises Down."""
        self._ask(limits=True)
        inventory = Inventory("the collector", licences=dict(self._site.licences))
        try:
            for _, node in self._listed:
                inventory.add(node)
            return inventory.platform(self.name).to_toml()
        except PlatformError as error:
            raise Down(str(error)) from None

    def look(self) -> Snapshot:
        """Return the present state. Raises Down."""
        begin = time.monotonic()
        # a new client does not know which jobs have left the queue
        history = (begin >= self._history_at or not self._client.runs) and ("all" if self._start else "newest")
        answer = self._ask(limits=begin >= self._limits_at, history=history or "")
        ended = [job_of(ad, self._site, over=True) for ad in answer.get("history", ())] if self._start else []
        if "history" in answer:
            self._start = self._start or answer["now"]
            self._since = _only(answer["history"][0]) if answer["history"] else self._since
            self._history_at = begin + HISTORY_S
        left = {job.identity for job in ended}
        jobs = [*(job for job in self._jobs.values() if job.identity not in left), *ended]
        nodes = self._machines(answer, jobs)
        return Snapshot(answer["instance"], nodes, jobs, self._site.licences, took=time.monotonic() - begin)

    def recall(self, some: Sequence[tuple[str, int]]) -> Sequence[JobNow]:
        """Return the ends of jobs that have left the queue, as far as the history has them. Raises Down."""
        if not some:
            return ()
        wanted = set(some)
        answer = self._ask(recall=[[int(part) for part in native.split(".")] for native, _ in some])
        found = (job_of(ad, self._site, over=True) for ad in answer["history"])
        return [job for job in found if job.identity in wanted]

    def where(self, native: str, node: str) -> str:
        """Return the pin that lets a job start once on a node, as of the last look; empty if the job or slot is not
        known."""
        ad = self._ads.get(native)
        return "" if ad is None else self.pin(node, ads.number(ad, pins.STARTS))

    def pin(self, node: str, starts: int = 0) -> str:
        """Return the pin that lets a job with this number of previous starts start on a node; empty if no slot is
        known."""
        slot = next((name for name, slot in self._site.slots.items() if slot.node == node), "")
        return pins.pin(starts, slot) if slot else ""

    def at(self, what: str) -> "Act":
        """Return a request for an action at the schedd that this reader looks at."""
        return {"do": what, "collector": self._collector, "schedd": self._schedd, "timeout": self._timeout}

    def edited(self, some: Iterable[str]) -> None:
        """Note that these jobs were edited: the next look reads them in any case."""
        self._edited |= {int(native.partition(".")[0]) for native in some}

    def pulse(self) -> None:
        """See Reader. HTCondor has no such thing: None."""

    def close(self) -> None:
        """End the client process."""
        self._client.close()

    # ------------------------------------------------------------------

    def _ask(self, *, limits: bool = False, history: str = "", recall: Sequence[list[int]] = ()) -> "Answer":
        """Ask the client process, and update jobs, slots and licences from its answer."""
        answer: Answer = self._client.ask(
            {
                "timeout": max(self._timeout, RECALL_S) if recall else self._timeout,
                "collector": self._collector,
                "schedd": self._schedd,
                "machine": self._machine,
                "limits": limits,
                "history": history,
                "since": self._since,
                "start": self._start,
                "recall": [*recall],
                "edited": sorted(self._edited),
                "places": self._site.mark != "",
            }
        )
        if not recall:
            self._edited.clear()
            try:
                self._learn(answer)
            except PlatformError as error:  # this answer is lost; a new client sends everything again
                self.close()
                raise Down(str(error)) from None
        return answer

    def _learn(self, answer: "Answer") -> None:
        """Update the state from an answer; an unchanged job remains the same object."""
        new, gone = {ads.id_of(ad): ad for ad in answer["jobs"]}, set(answer["gone"])
        kept = {} if answer["whole"] else {job: ad for job, ad in self._ads.items() if job not in gone}
        self._ads = kept | new
        self._asked |= {name for ad in new.values() for name, _ in _said(ads.licences_of, ad) or ()}
        if "limits" in answer:
            self._settings = answer["limits"]
            self._limits_at = time.monotonic() + LIMITS_S
        self._listed = [*listed(answer["slots"], self._machine)]
        self._first = self._first or {node.name for _, node in self._listed}
        known = {name: slot for name, slot in self._site.slots.items() if slot.node in self._first}
        slots = {ad["name"]: Slot(node.name, not is_shared_out(ad)) for ad, node in self._listed}
        site = replace(self._site, slots=known | slots, licences=copies(self._settings, self._asked))
        if site.licences != self._site.licences:
            new = self._ads
        elif site.slots != self._site.slots:
            new |= {job: ad for job, ad in self._ads.items() if ad.get("RemoteHost") or ad.get("RemoteHosts")}
        self._site = site
        made = {job: job_of(ad, site) for job, ad in new.items()}
        before, self._jobs = self._jobs, {}
        for job in self._ads:
            one = made.get(job)
            self._jobs[job] = before[job] if one is None or before.get(job) == one else one

    def _machines(self, answer: "Answer", jobs: Iterable[JobNow]) -> list[NodeNow]:
        """Return the nodes with what jobs hold there: known jobs, jobs of other schedds, and claims without a job."""
        held: dict[str, Counter[str]] = {}
        sizes = {node.name: node for _, node in self._listed}
        for job in jobs:
            if job.state in (RUNNING, ENDING):
                for name, tasks, *whole in job.nodes:
                    amounts = _amounts(sizes[name]) if any(whole) and name in sizes else _times(job.asked.need, tasks)
                    held.setdefault(name, Counter()).update({kind: amounts.get(kind, 0) for kind in KINDS})
        for ad in answer["slots"]:
            mine = str(ad.get("GlobalJobId") or answer["schedd"]).partition("#")[0] == answer["schedd"]
            if not mine or (ad.get("DynamicSlot") and ad.get("Activity") == "Idle"):
                amounts = {"cpus": _amount(ad, "Cpus"), "memory": _amount(ad, "Memory") * ads.MIB,
                           "gpus": _amount(ad, "GPUs")}  # fmt: skip
                held.setdefault(self._site.slot(str(ad.get("Name"))).node, Counter()).update(amounts)
        found = {node.name: node_of(ad, node, held.get(node.name, {})) for ad, node in self._listed}
        state = UNKNOWN if answer["young"] else DOWN
        gone = (node for name, node in self._nodes.items() if name in self._first and name not in found)
        self._nodes = {node.name: replace(node, state=state, reason=GONE, held={}) for node in gone} | found
        return [*self._nodes.values()]


class Client:
    """The process that talks to HTCondor. command: how it is started."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None  # its standard error

    @property
    def runs(self) -> bool:
        """Return whether the process runs, so that it remembers earlier requests."""
        return self._process is not None

    def ask(self, request: "Request | Act") -> Any:
        """Send a request and return the answer; see the module that the process runs. Raises Down."""
        if self._process is None:
            self._said = TemporaryFile()  # noqa: SIM115 - closed with the process
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                process_group=0,  # Ctrl-C is for the process that asks
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(process.stdout, request["timeout"] + GRACE_S))
        except (BrokenPipeError, EOFError):
            code, message = process.wait(), self._last_message()
            self.close()
            if code != -signal.SIGALRM:
                raise Down(f"the process that asks HTCondor has ended: {message or f'exit code {code}'}") from None
            raise Down(LATE.format(request["timeout"])) from None
        except TimeoutError:
            self.close()
            raise Down(LATE.format(request["timeout"])) from None
        if "error" in answer:
            raise Down(f"HTCondor: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        process, said = self._process, self._said
        self._process = self._said = None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout, said):
                if stream is not None:
                    stream.close()
            process.wait()

    def _last_message(self) -> str:
        assert self._said is not None
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip().rpartition("\n")[2]


def _line(stream: IO[bytes], timeout: float) -> bytes:
    """Return the next line of a stream. Raises EOFError, TimeoutError."""
    parts: list[bytes] = []
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not parts or not parts[-1].endswith(b"\n"):
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise TimeoutError
            part = os.read(stream.fileno(), 1 << 20)
            if not part:
                raise EOFError
            parts.append(part)
    return b"".join(parts)


def job_of(ad: Ad, site: Site, *, over: bool = False) -> JobNow:
    """Return a job from its ad. over: the ad comes from the history."""
    status = ads.number(ad, "JobStatus")
    state = _state(ad, status, over)
    waits, is_over = state == WAITING, state == OVER
    # a job removed while it waited did not run then, even if it has run before
    idle = status == ads.REMOVED and ads.number(ad, "LastJobStatus") in (ads.IDLE, ads.HELD)
    start = _known(ads.start_of, ad) if not waits and not (is_over and idle) else None
    end = (
        (_known(ads.instant, ad, "CompletionDate") or _known(ads.instant, ad, "EnteredCurrentStatus"))
        if is_over
        else None
    )
    signalled = is_over and status == ads.COMPLETED and bool(ad.get("ExitBySignal"))
    runs = start is not None or state in (RUNNING, ENDING)
    mark, starts = str(ad.get(pins.QUEUE) or ""), ads.number(ad, pins.STARTS)
    managed, guarded = mark == site.mark != "", pins.is_guarded(str(ad.get("Requirements")))
    blocked = str(ad.get("HoldReason") or HELD) if waits and status == ads.HELD else ""
    if waits and not managed and mark.startswith(MARK):
        blocked = blocked or OTHER
    return JobNow(
        ads.id_of(ad),
        _known(ads.instant, ad, "QDate") or 0,
        _asked(ad, site),
        name=str(ad.get("DAGNodeName") or ad.get("JobBatchName") or basename(str(ad.get("Cmd") or ""))),
        user=str(ad.get("Owner") or ""),
        group=str(ad.get("AcctGroup") or ""),
        state=state,
        blocked=blocked,
        begin=_known(ads.instant, ad, "DeferralTime") if waits else None,
        start=start,
        nodes=_placement(ad, site, is_over) if runs else (),
        restarts=max(starts - runs, 0),
        end=end,
        ended=_end(ad, status, start, end) if is_over else "",
        exit=ads.number(ad, "ExitCode") if is_over and status == ads.COMPLETED and not signalled else None,
        signal=ads.number(ad, "ExitSignal") if signalled else None,
        managed=managed,
        held=waits and managed and guarded and not pins.is_pinned(ad.get(pins.PIN), starts),
        comment=str(ad.get(pins.COMMENT) or ""),
        own=_own(ad),
    )


def _own(ad: Ad) -> str:
    """Return why only HTCondor can place a job, empty if the queue can; see seen.JobNow."""
    if ads.number(ad, "JobUniverse") == ads.PARALLEL:
        return PARALLEL
    return REQUIREMENTS if ad.get(pins.PICKY) or ad.get("RequireGPUs") else ""


def _state(ad: Ad, status: int, over: bool) -> str:
    """Return the state of a job. It holds its slot until its files are back, and while it is being stopped."""
    if over:
        return OVER
    if status == ads.TRANSFERRING or (status in (ads.HELD, ads.REMOVED) and ad.get("RemoteHost")):
        return ENDING
    if status in (ads.REMOVED, ads.COMPLETED):
        return OVER
    return RUNNING if status in (ads.RUNNING, ads.SUSPENDED) else WAITING


def _end(ad: Ad, status: int, start: int | None, end: int | None) -> str:
    if status == ads.COMPLETED:
        return FAILED if ads.has_failed(ad) else COMPLETED
    limit = _known(ads.limit_of, ad)
    by_expression = str(ad.get("RemoveReason") or "").startswith(BY_EXPRESSION)
    ran = end - start if start is not None and end is not None else 0
    return TIMEOUT if by_expression and limit is not None and ran >= limit else CANCELLED


def _asked(ad: Ad, site: Site) -> Asked:
    need = {
        "cpus": _amount(ad, "RequestCpus") or 1,
        "memory": -(-_amount(ad, "RequestMemory") // GRID_MIB) * GRID_MIB * ads.MIB,
        "gpus": _amount(ad, "RequestGPUs"),
    }
    for name, count in _said(ads.licences_of, ad) or ():
        if name in site.licences:
            need[name] = need.get(name, 0) + count
    return Asked(
        {name: amount for name, amount in need.items() if amount},
        _known(ads.limit_of, ad) or site.walltime,
        tasks=max(_amount(ad, "MaxHosts"), 1) if ads.number(ad, "JobUniverse") == ads.PARALLEL else 1,
        priority=_said(ads.number, ad, "JobPrio") or 0,
    )


def _placement(ad: Ad, site: Site, is_over: bool) -> Placement:
    """Return where a job runs or ran; empty for a moment after its start.

    HTCondor sets the status of a job that ends before it moves RemoteHost to LastRemoteHost.
    """
    hosts = str(ad.get("RemoteHosts") or ad.get("RemoteHost") or (is_over and ad.get("LastRemoteHost")) or "")
    count = Counter(site.slot(name.strip()) for name in hosts.split(",") if name.strip())
    return [[slot.node, tasks, True] if slot.whole else [slot.node, tasks] for slot, tasks in count.items()]


def listed(slots: Iterable[Ad], machine: str) -> Iterator[tuple[Ad, Node]]:
    """Yield the ad of each slot that is a node, with attribute names in lower case, and the node, in natural order.

    machine: see HTCondorReader. Raises PlatformError.
    """
    in_order = sorted(slots, key=lambda ad: _natural(str(ad.get("Name"))))
    names = [str(ad.get("Name")) for ad in in_order]
    if machine:
        called = [str(ad.get(machine) or name.partition("@")[2]) for ad, name in zip(in_order, names, strict=True)]
        names = [f"{name.partition('@')[0]}@{host}" for name, host in zip(names, called, strict=True)]
    renamed = ({**ad, "Name": name, "slot": ad.get("Name")} for ad, name in zip(in_order, names, strict=True))
    for ad, node in slots_of_ads("the collector", renamed):
        yield {**ad, "name": str(ad["slot"])}, node


def node_of(ad: Ad, node: Node, held: Mapping[str, int]) -> NodeNow:
    """Return a node from the ad of its slot, with attribute names in lower case. held: what jobs hold there."""
    state, reason = UP, ""
    if ad.get("offline") is True:
        state, reason = DOWN, "offline"
    elif ad.get("state") == "Drained" or ad.get("draining") is True:
        state, reason = DRAIN, str(ad.get("drainreason") or "drained")
    return NodeNow(node.name, _amounts(node), state, reason, {kind: held[kind] for kind in KINDS if held.get(kind)})


def copies(settings: Mapping[str, str], asked: Iterable[str]) -> dict[str, int]:
    """Return the copies of each licence, by the settings `NAME_LIMIT` and their defaults. asked: requested ones."""
    said = {name: int(text) for name, text in settings.items() if text.isdecimal() and len(text) < 13}
    found = {
        name.removesuffix("_LIMIT").lower(): count
        for name, count in said.items()
        if name.endswith("_LIMIT") and name not in OTHER_LIMITS
    }
    for name in asked:
        of_group = said.get(f"CONCURRENCY_LIMIT_DEFAULT_{name.partition('.')[0].upper()}") if "." in name else None
        count = said.get("CONCURRENCY_LIMIT_DEFAULT", UNLIMITED) if of_group is None else of_group
        if count < UNLIMITED:
            found.setdefault(name, count)
    return {name: found[name] for name in sorted(found) if name not in KINDS}


def _amounts(node: Node) -> Amounts:
    """Return the nonzero amounts of a node."""
    return {kind: amount for kind in KINDS if (amount := getattr(node, kind))}


def _times(need: Amounts, tasks: int) -> Amounts:
    return {kind: amount * tasks for kind, amount in need.items()}


def _amount(ad: Ad, name: str) -> int:
    """Return a number of an ad, between 0 and COUNT_MAX."""
    try:
        return max(ads.number(ad, name), 0)
    except BrokenLine:
        return COUNT_MAX


def _said(what: Callable[..., Value], *given: Any) -> Value | None:
    """Return a value; None if the user's text for it is invalid."""
    try:
        return what(*given)
    except BrokenLine:
        return None


def _known(what: Callable[..., int], *given: Any) -> int | None:
    """Return a time or a span; None if it is unknown or 0."""
    value = _said(what, *given)
    return value if value and value != NO_TIME else None


def _only(ad: Ad) -> str:
    """Return a condition that holds for one job only: the date is needed because numbers are reused."""
    return f"ClusterId == {ad['ClusterId']} && ProcId == {ad['ProcId']} && QDate == {ad['QDate']}"


def _natural(name: str) -> list[int | str]:
    """Return a sort key for names in natural order: slot1@n9 before slot1@n10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
