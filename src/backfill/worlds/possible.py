"""Check whether the nodes of a queue can ever run a job, by the rules of a simulation, and say why not in one line.

It needs numpy, which a queue of one node does not load.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from backfill.model.constraint import alternatives
from backfill.model.errors import PlatformError, WorkloadError
from backfill.model.names import did_you_mean
from backfill.model.partitions import Rules
from backfill.model.platform import Platform
from backfill.model.units import amount_text, time_text
from backfill.model.workload import Jobs, Workload
from backfill.queue.job import Facts, Job
from backfill.queue.protocol import FACTS
from backfill.queue.schema import Refused
from backfill.queue.words import asks_text
from backfill.worlds.adapt import as_run
from backfill.worlds.hopeless import reject_hopeless
from backfill.worlds.rules import with_default_walltimes
from backfill.worlds.workload import table

SHOWN = 20  # names listed in a message
REMEMBERED = 10_000
ASKED = [name for name in FACTS if name not in ("grace", "priority", "deadline")]  # facts that decide the matter
_POSSIBLE: set[tuple[Platform, str]] = set()  # requests that were accepted: of many equal jobs only one is checked


def default_walltime(placed: Facts, platform: Platform) -> int | None:
    """Return the default walltime of a job, from its partition or quality of service; None if they have none."""
    if not any(each.default_walltime for each in (*platform.partitions, *platform.qos)):
        return None
    asked = _workload(Job(0, walltime=1, **placed), platform)
    asked = asked.with_jobs(asked.jobs.replace(requested=np.zeros(1, np.bool_), walltime=np.zeros(1, np.int64)))
    return int(with_default_walltimes(asked, platform).jobs.walltime[0]) or None


def check(job: Job, platform: Platform) -> None:
    """Raise Refused if a job names what the platform does not have, breaks a rule, or fits nowhere on it."""
    asks = platform, repr([getattr(job, name) for name in ASKED])
    if asks in _POSSIBLE:
        return
    asked = _workload(job, platform)
    try:
        jobs, machine, _, causes = as_run(asked, platform)
    except PlatformError as error:
        raise Refused(str(error).replace(f"job {job.id} ", "the job "), "impossible") from None
    reject_hopeless(jobs, machine, causes, machine.capacity, machine.copies)
    cause = str(causes[0])
    if cause in machine.licences[len(platform.licences) :]:  # the account of a limit
        place = machine.licences.index(cause)
        count = jobs.licences.counts_of(0)[place]
        raise Refused(f"the job alone is beyond the limit {cause}: {count} of {machine.copies[place]}", "impossible")
    if cause:
        raise _refusal(cause, job, asked.jobs, jobs, platform)
    if len(_POSSIBLE) >= REMEMBERED:
        _POSSIBLE.clear()
    _POSSIBLE.add(asks)


def _workload(job: Job, platform: Platform) -> Workload:
    """Return a workload of this job alone. Its walltime is the requested one, without its grace."""
    try:
        return table([(job.id, {**job.facts(), "grace": 0})], platform)
    except WorkloadError as error:
        raise Refused(
            str(error).removeprefix(f"job {job.id}: "), field="constraint" if job.constraint else ""
        ) from None


def _refusal(cause: str, job: Job, asked: Jobs, jobs: Jobs, platform: Platform) -> Refused:
    """Return why a job can never run. asked, jobs: the job as requested, and as a run on the platform has it."""
    names: dict[str, Sequence[Rules]] = {"partition": platform.partitions, "qos": platform.qos}
    if cause in names:
        return _unknown(cause, getattr(job, cause), [each.name for each in names[cause]])
    if cause == "site":
        return _unknown(cause, job.site, platform.sites)
    if cause == "constraint":
        try:
            for each in alternatives(job.constraint):
                for name in each:
                    check_feature(name, platform)
        except Refused as refused:
            return refused
        where = f"in partition {jobs.partition[0]}" if platform.partitions else "that the job may use"
        return Refused(f"no node {where} satisfies {job.constraint!r}", "impossible", cause)
    if cause == "nodes":
        return Refused(_too_few(job, jobs, platform), "impossible", cause)
    if cause in job.need:
        return Refused(_too_much(cause, job, platform), "impossible", cause)
    return Refused(_broken(cause, job, asked, platform), "impossible")


def _unknown(field: str, name: str, known: Sequence[str]) -> Refused:
    return Refused(f"{field} {name!r} is unknown; {_expected(name, known)}", field=field)


def _expected(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known, f"expected {_some(known) or 'none, as there are none'}")


def check_feature(name: str, platform: Platform) -> None:
    """Raise Refused for a feature that no node has."""
    if not platform.allows(name).any():
        known = [*platform.feature_names]
        hint = did_you_mean(name, known, f"expected {_some(known)}, or a node")
        raise Refused(f"no node has the feature {name!r}; {hint}", field="constraint")


def _broken(cause: str, job: Job, asked: Jobs, platform: Platform) -> str:
    """Return which rule of a partition or a quality of service a job breaks, such as max_walltime of short."""
    rule, _, name = cause.partition(" of ")
    tables: list[tuple[str, Sequence[Rules]]] = [("partition", platform.partitions), ("qos", platform.qos)]
    kind, rules = next(
        (kind, each)
        for kind, several in tables
        for each in several
        if each.name == name
        and any(one == rule and broken[0] for one, broken in each.broken(asked, platform.resources))
    )
    if rule == "max_walltime":
        return f"walltime {time_text(job.walltime)}: {kind} {name} allows at most {time_text(rules.max_walltime)}"
    if rule in ("users", "groups"):
        return f"user {job.user!r} of group {job.group!r} may not use {kind} {name}"
    resource = rule.removeprefix("max_size.")
    total = job.tasks * job.need.get(resource, 0)
    most = amount_text(resource, rules.max_size[resource])
    return f"the job asks for {amount_text(resource, total)} in all: {kind} {name} allows at most {most}"


def _too_much(name: str, job: Job, platform: Platform) -> str:
    """Return why the request for one resource or licence is too large."""
    amount, part = job.need[name], "a part of the job" if job.tasks > 1 else "the job"
    if name in platform.resources:
        held = platform.capacity[:, platform.resources.index(name)]
        if amount > (most := int(held.max())):
            return f"{part} asks for {amount_text(name, amount)}; no node has more than {amount_text(name, most)}"
        total = amount_text(name, amount * job.tasks)
        return f"the job asks for {total} in all; the nodes have {amount_text(name, int(held.sum()))}"
    if name in platform.licences:
        there = platform.copies[platform.licences.index(name)]
        return f"the job asks for {amount} {name}; there are {there} licences of it, for the nodes that may use them"
    if name in ("memory", "gpus"):
        return f"the job asks for {amount_text(name, amount)}; no node has any"
    return f"licence {name!r} is unknown; {_expected(name, [*platform.all_licences])}"


def _too_few(job: Job, jobs: Jobs, platform: Platform) -> str:
    """Return why the nodes cannot hold all parts of a job at once, although they have enough in all."""
    partition = jobs.partition[0] if platform.partitions else ""
    nodes = platform.within(partition, jobs.site.codes[0], jobs.constraint[0])
    items = jobs.licences[0]
    nodes &= platform.hosts[:, items[items < len(platform.licences)]].all(axis=1)
    demand = np.maximum(jobs.demand[0], 1)
    fit = np.where(jobs.demand[0] > 0, platform.capacity[nodes] // demand, jobs.tasks[0]).min(axis=1, initial=2**62)
    one = asks_text({"need": job.need, "exclusive": job.exclusive})
    where = f"the {int(nodes.sum())} nodes on which it may run"
    if not (fit > 0).any():
        return f"none of {where} has {one}"
    if job.spread == "distinct" or jobs.tasks[0] != job.tasks:
        return f"the job asks for {jobs.tasks[0]} nodes of {one}; of {where} {int((fit > 0).sum())} have that"
    if job.spread in ("node", "site"):
        return f"{where} cannot hold {job.tasks} tasks of {one} on one {job.spread}"
    return f"the job asks for {job.tasks} tasks of {one}; {where} hold {int(fit.sum())} at once"


def _some(names: Iterable[str]) -> str:
    """Return the first of some names, as a list."""
    some = [*names]
    return ", ".join([*some[:SHOWN], *(["..."] if len(some) > SHOWN else [])])
