"""Changes the jobs of an HTCondor for a queue that starts them, in a separate process like `htcondor_client.py`.

An action is a line of JSON on standard input, its answer a line on standard output. Each action may be repeated. A job
that no longer exists is ignored, since only the next look decides what is true.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import classad2
import htcondor2

from backfill.pools import htcondor_pin as pins
from backfill.pools.htcondor_client import LOCATION, itself, plain, schedd_at, serve
from backfill.pools.htcondor_places import WAITS

GONE = "nonexistent job"  # part of the error for a job that does not exist
NOTHING = "undefined"
SETTINGS = ("JOB_TRANSFORM_", "PROTECTED_JOB_ATTRS", "NEGOTIATOR_")  # prefixes of the settings that are reported


class Part(TypedDict):
    """The share of a gang on one node. memory: in MiB."""

    pin: str
    cpus: int
    memory: int


class Gang(TypedDict):
    """A gang whose processes sleep for some seconds on each of its nodes."""

    seconds: float
    parts: list[Part]


class Act(TypedDict, total=False):
    """A request. collector, schedd, timeout: see htcondor_client.Request. mark: of the queue. texts: the pin, or the
    comment, of each job. gangs: to submit."""

    collector: str
    schedd: str
    timeout: float
    do: str  # instance, settings, submit, or one of ACTS
    mark: str
    jobs: list[str]
    texts: list[str]
    gangs: list[Gang]


def answer(act: Act) -> Mapping[str, Any]:
    """Carry out an action and return its answer. Raises htcondor2.HTCondorException."""
    collector = htcondor2.Collector(act["collector"] or None)
    at = schedd_at(collector, act["schedd"])
    if act["do"] == "instance":
        return {"instance": str(itself(at)["DaemonStartTime"]), "version": str(at["CondorVersion"])}
    if act["do"] == "settings":
        return _settings(collector, at)
    if act["do"] == "submit":
        return {"jobs": _submitted(htcondor2.Schedd(at), act)}
    ACTS[act["do"]](htcondor2.Schedd(at), act)
    return {}


def _submitted(schedd: Any, act: Act) -> list[list[str]]:
    """Submit gangs, each as a cluster with one job per node, pinned there. Returns the job numbers."""
    found = []
    for gang in act["gangs"]:
        description = htcondor2.Submit({
            "executable": "/bin/sleep", "arguments": f"{gang['seconds']:.3f}", "transfer_executable": "false",
            "should_transfer_files": "NO", "initialdir": "/", "batch_name": act["mark"],
            "request_cpus": "$(cpus)", "request_memory": "$(memory)", "request_disk": "1",
            "requirements": pins.guarded("true"), f"My.{pins.PIN}": '"$(pin)"', f"My.{pins.QUEUE}": f'"{act["mark"]}"',
        })  # fmt: skip
        rows = [{name: str(value) for name, value in part.items()} for part in gang["parts"]]
        cluster = schedd.submit(description, itemdata=iter(rows)).cluster()
        found.append([f"{cluster}.{process}" for process in range(len(rows))])
    schedd.reschedule()
    return found


def _adopt(schedd: Any, act: Act) -> None:
    """Adopt waiting jobs: set the mark first, so that every job kept from starting has the mark."""
    ads = _ads(schedd, act["jobs"])
    waiting = {job: ad for job, ad in ads.items() if ad["JobStatus"] in WAITS}
    _edit(schedd, [*waiting], pins.QUEUE, f'"{act["mark"]}"')
    _edit(schedd, [job for job, ad in waiting.items() if ad.get(pins.PIN)], pins.PIN, NOTHING)
    open_ = {job: _required(ad) for job, ad in waiting.items() if not pins.is_guarded(_required(ad))}
    for requirements, jobs in _by_value(open_).items():
        _edit(schedd, jobs, pins.BEFORE, requirements)
        _edit(schedd, jobs, "Requirements", pins.guarded(requirements))


def _start(schedd: Any, act: Act) -> None:
    for target, jobs in _by_value(dict(zip(act["jobs"], act["texts"], strict=True))).items():
        _edit(schedd, jobs, pins.PIN, f'"{target}"')
    schedd.reschedule()


def _undo(schedd: Any, act: Act) -> None:
    _edit(schedd, act["jobs"], pins.PIN, NOTHING)


def _comment(schedd: Any, act: Act) -> None:
    for text, jobs in _by_value(dict(zip(act["jobs"], act["texts"], strict=True))).items():
        _edit(schedd, jobs, pins.COMMENT, classad2.quote(text))


def _remove(schedd: Any, act: Act) -> None:
    schedd.act(htcondor2.JobAction.Remove, act["jobs"], "by the queue that starts it")


def _vacate(schedd: Any, act: Act) -> None:
    schedd.act(htcondor2.JobAction.VacateFast, act["jobs"], "by the queue that starts it")


def _release(schedd: Any, act: Act) -> None:
    """Give jobs back: remove the mark last, since until then a job belongs to the queue."""
    ads = _ads(schedd, act["jobs"])
    before = {job: str(ad.get(pins.BEFORE) or NOTHING) for job, ad in ads.items() if pins.is_guarded(_required(ad))}
    for requirements, jobs in _by_value(before).items():
        _edit(schedd, jobs, "Requirements", "true" if requirements == NOTHING else requirements)
    for name in (pins.PIN, pins.BEFORE, pins.QUEUE):
        _edit(schedd, [*ads], name, NOTHING)
    schedd.reschedule()


ACTS: dict[str, Callable[[Any, Act], None]] = {
    "adopt": _adopt, "start": _start, "undo": _undo, "remove": _remove, "vacate": _vacate, "release": _release,
    "comment": _comment,
}  # fmt: skip


def _settings(collector: Any, at: Any) -> Mapping[str, Any]:
    """Return settings of schedd and negotiator, the START of each machine, and our user name at the schedd."""
    params = _params(at)
    for ad in collector.query(htcondor2.AdType.Negotiator, projection=list(LOCATION))[:1]:
        params |= {name: value for name, value in _params(ad).items() if name.startswith("NEGOTIATOR_")}
    slots = collector.query(htcondor2.AdType.Startd, "DynamicSlot =!= true", ["Start"])
    who = htcondor2.ping(at, "WRITE")
    return {
        "settings": params,
        "starts": [str(ad.lookup("Start")) if "Start" in ad else "" for ad in slots],
        "who": str(who.get("MyRemoteUserName", "")),
    }


def _params(at: Any) -> dict[str, str]:
    found = htcondor2.RemoteParam(at)
    wanted = (name for name in found if name.upper().startswith(SETTINGS))
    return {name.upper(): str(found[name]) for name in wanted}


def _edit(schedd: Any, jobs: Sequence[str], name: str, value: str) -> None:
    """Set an attribute of jobs. If one of them does not exist, each job is edited separately."""
    if not jobs:
        return
    try:
        schedd.edit([*jobs], name, value)
    except htcondor2.HTCondorException as problem:
        if GONE not in str(problem):
            raise
        for job in jobs if len(jobs) > 1 else ():
            _edit(schedd, [job], name, value)


def _ads(schedd: Any, jobs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the present ads of those jobs that still exist."""
    wanted = {*jobs}
    clusters = sorted({int(job.partition(".")[0]) for job in wanted})
    names = ["ClusterId", "ProcId", "JobStatus", "Requirements", pins.PIN, pins.BEFORE]
    found = schedd.query(f"member(ClusterId, {{{', '.join(map(str, clusters))}}})", names)
    ads = {f"{ad['ClusterId']}.{ad['ProcId']}": plain(ad) for ad in found}
    return {job: ad for job, ad in ads.items() if job in wanted}


def _required(ad: Mapping[str, Any]) -> str:
    value = ad.get("Requirements", True)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_value(some: Mapping[str, str]) -> Mapping[str, list[str]]:
    found = defaultdict(list)
    for job, value in some.items():
        found[value].append(job)
    return found


if __name__ == "__main__":
    serve(answer)
