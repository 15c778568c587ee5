"""The workload and the platform that the options of a command describe."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.cli import say
from backfill.cli.platforms import found_beside
from backfill.model.errors import BadArgument, UsageError
from backfill.model.units import counted, parse_size, parse_span
from backfill.system.home import home, kept_trouble
from backfill.traces.files import check_writable

NO_PAGES = (".pdf", ".csv", ".json", ".txt", ".md", ".png", ".svg", ".xlsx", ".docx", ".swf", ".toml")

if TYPE_CHECKING:
    from backfill.model.events import Events
    from backfill.model.platform import Platform
    from backfill.model.workload import Workload
    from backfill.streams import Source
    from backfill.traces.slurm_site import ReadSite


def inputs(
    log: str,
    *,
    platform: str | None,
    cpus: int | None,
    nodes: int | None,
    memory: str | None,
    site: str | None = None,
    jobs: int | None = None,
    load: float | None = None,
    dead_time: str | None = None,
    zero_run: str = "keep",
    cancelled: str = "run",
    think: bool = False,
) -> "tuple[Workload, Platform]":
    """Return the workload and the platform that the options describe; prints what was assumed."""
    stated = _stated(log, platform, cpus, nodes, memory, site)
    if jobs is not None and jobs < 1:
        raise BadArgument("jobs", jobs, "a whole number >= 1")

    from backfill.model.workload import check_load
    from backfill.traces.notes import check_cancelled, check_zero_run

    if load is not None:
        check_load(load)
    dead = 0 if dead_time is None else span_of("dead_time", dead_time)
    check_zero_run(zero_run)
    check_cancelled(cancelled, zero_run)
    pool = stated.read()
    resources = pool.resources if pool else ("memory",) if memory else ()
    rules: dict[str, Any] = {"zero_run": zero_run, "cancelled": cancelled, "think": think}
    named = tuple(r for r in resources if r != "cpus")
    workload = read(log, resources=named, machines=pool if stated.platform or site else None, **rules)
    if pool is not None and pool.slurm is not None and pool.slurm.value("PriorityUsageResetPeriod"):
        pool = replace(pool, slurm=replace(pool.slurm, clock=workload.clock_of_log))  # of the midnights of resets
    if site is not None and (requests := site_again(site).requests) is not None:
        from backfill.traces.slurm_requests import as_requested

        workload = as_requested(workload, requests)
    workload = _changed(workload, jobs, load, dead)
    pool = stated.of(workload, pool)
    for text in workload.remarks:
        say.note(f"{workload.name}: {text}")
    if not len(workload):
        say.problem(f"{workload.name}: contains no jobs")
    return workload, pool


def windows_of_site(site: str | None, events: object, workload: "Workload", pool: "Platform") -> "Events | None":
    """Return the reservations of a site as windows in which their nodes are closed; None without any.

    events: those of --events, beside which the site's own do not count.
    """
    from backfill.traces.accounting.slurm_events import read_slurm_events
    from backfill.traces.slurm_site import RESERVATIONS, dump_of

    if site is None or events is not None or (source := dump_of(Path(site), RESERVATIONS)) is None:
        return None
    if workload.clock_of_log is None:
        say.note(f"{source.file}: reservations have dates, and {workload.name} has none, so they are left out")
        return None
    taken = read_slurm_events(source, workload, pool, closed=True)
    for text in taken.notes:
        say.note(f"{source.file}: {text}")
    if taken.windows:
        count = counted(taken.windows, "reservation")
        say.note(f"{source.file}: {count}: no job that would still run then starts on {_their(taken.windows)} nodes")
    return taken.events if taken.windows else None


def _their(count: int) -> str:
    return "its" if count == 1 else "their"


def stream_inputs(
    log: str,
    part: int,
    *,
    platform: str | None,
    cpus: int | None,
    nodes: int | None,
    memory: str | None,
    site: str | None = None,
    **changed: Any,
) -> "tuple[Source, Platform]":
    """Return the source of a stream and the platform that the options describe; prints what was assumed.

    A model that can be drawn in parts is not read as a whole. changed: the other options of `inputs`.
    """
    from backfill.cli.options import Part
    from backfill.streams import Source
    from backfill.workloads import in_parts

    machine = {"platform": platform, "cpus": cpus, "nodes": nodes, "memory": memory, "site": site}
    if not log.startswith("model:") or in_parts(log, part) is None:
        workload, pool = inputs(log, **machine, **changed)  # type: ignore[arg-type]
        return Source.of(workload, part), pool
    usual = vars(Part())
    for name, value in changed.items():
        if value != usual[name]:
            which, option = log.partition("?")[0], f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for logs; {which} is drawn part by part: expected its keys, as load")
    stated = _stated(log, platform, cpus, nodes, memory, site)
    described = stated.read()
    source = Source.of(log, part)
    pool = stated.of(source.first, described)
    for text in source.first.remarks:
        say.note(f"{source.first.name}: {text}")
    return source, pool


@dataclass(frozen=True)
class _Stated:
    """The options that describe a machine, checked."""

    platform: str | None
    site: str | None
    cpus: int | None
    nodes: int | None
    size: int | None  # of the memory

    def read(self) -> "Platform | None":
        """Return the platform, if the options describe one without the log."""
        from backfill.model.platform import Platform
        from backfill.traces.inventory import read_platform

        if self.site is not None:
            return site_read(self.site).platform
        if self.platform is not None:
            return read_platform(self.platform)
        return None if self.cpus is None else Platform.pool(self.cpus, self.nodes or 1, self.size)

    def of(self, workload: "Workload", pool: "Platform | None") -> "Platform":
        """Return the platform that was read, else that of the workload."""
        from backfill.model.platform import Platform

        if pool is None and workload.platform is not None and (self.nodes, self.size) == (None, None):
            pool = Platform.of(workload)
        if pool is None:
            pool = Platform.pool(_cpus_of(workload), self.nodes or 1, self.size)
        return pool


def _stated(
    log: str, platform: str | None, cpus: int | None, nodes: int | None, memory: str | None, site: str | None
) -> _Stated:
    if platform is not None and (cpus, nodes, memory) != (None, None, None):
        raise UsageError("--cpus, --nodes and --memory cannot be combined with --platform")
    if site is not None and (platform, cpus, nodes, memory) != (None, None, None, None):
        raise UsageError("--platform, --cpus, --nodes and --memory cannot be combined with --site")
    size = None if memory is None else _size(memory)
    if (platform, site, cpus, nodes, memory) == (None,) * 5 and (platform := found_beside(log)) is not None:
        say.note(f"{log}: the platform is {platform}, which lies beside it")
    if nodes is not None and nodes < 1:
        raise BadArgument("nodes", nodes, "a whole number >= 1")
    return _Stated(platform, site, cpus, nodes, size)


_read_sites: "dict[str, ReadSite]" = {}  # the last one, by its folder


def site_read(folder: str) -> "ReadSite":
    """Return the dumps of a site; prints what they lack and what the policy `slurm` leaves out."""
    from backfill.traces.slurm_site import read_slurm_site

    found = read_slurm_site(folder)
    for text in found.remarks:
        say.note(f"{folder}: {text}")
    _read_sites.clear()
    _read_sites[folder] = found
    return found


def site_again(folder: str) -> "ReadSite":
    """Return the dumps that `site_read` read last, without printing."""
    return _read_sites[folder]


@dataclass(frozen=True)
class Replicated:
    """A model's workload for each seed, changed as the options say. Picklable, for other processes."""

    log: str
    seed: int  # seed of the first workload, which is drawn with the model's own seed
    jobs: int | None
    load: float | None
    dead_time: str | None
    zero_run: str
    cancelled: str
    think: bool

    def __call__(self, seed: int) -> "Workload":
        """Return the workload for this seed."""
        rules: dict[str, Any] = {"zero_run": self.zero_run, "cancelled": self.cancelled, "think": self.think}
        dead = 0 if self.dead_time is None else span_of("dead_time", self.dead_time)
        return _changed(read(self.log, more_seed=seed - self.seed, **rules), self.jobs, self.load, dead)


def read(
    log: str,
    *,
    zero_run: str = "keep",
    cancelled: str = "run",
    think: bool = False,
    resources: tuple[str, ...] = (),
    more_seed: int = 0,
    machines: "Platform | None" = None,
) -> "Workload":
    """Read a file, standard input, or a generated workload; more_seed is added to the seed of the latter."""
    from backfill.traces.read import read as read_file
    from backfill.traces.read import under_rules

    if log.startswith("model:"):
        from backfill.workloads import generate

        return under_rules(generate(log, more_seed), zero_run, cancelled)
    return read_file(
        log, zero_run=zero_run, cancelled=cancelled, think=think, resources=resources, machines=machines
    )  # fmt: skip


def _changed(workload: "Workload", jobs: int | None, load: float | None, dead: int) -> "Workload":
    """Return the first jobs of a workload, at another load, with a dead time."""
    workload = workload if jobs is None else workload.head(jobs)
    workload = workload if load is None else workload.at_load(load)
    return workload.with_dead_time(dead)


def _cpus_of(workload: "Workload") -> int:
    if workload.cpus is None:
        raise UsageError(
            f"{workload.name} does not state how many cpus the machine has; give --cpus N or --platform FILE"
        )
    say.note(f"{workload.name}: {workload.cpus} cpus, as the log says")
    return workload.cpus


def span_of(option: str, text: str) -> int:
    """Parse an option's span of time, in microseconds. Raises BadArgument."""
    try:
        return parse_span(text)
    except ValueError:
        raise BadArgument(option, text, "a span of time, for instance 1s or 500ms") from None


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise BadArgument("memory", text, "a whole number below 2^62 that may carry K, M, G, T or P") from None


def say_load(events: object, load: float | None) -> None:
    """Note that the times of events are unchanged when `--load` changes the submits of jobs."""
    if events is not None and load not in (None, 1.0):
        say.note(f"--load {load:g} changes when jobs are submitted, but not the times of the events")


def check_outputs(read: Mapping[str, str | None], /, **paths: str | None) -> None:
    """Check before the work starts that output files can be written, and are neither input files nor a queue's own.

    read: descriptions of the input files, with their paths. Raises BadArgument and UsageError.
    """
    taken = {os.path.realpath(path): name for name, path in read.items() if path is not None}
    for option, path in paths.items():
        if path is None:
            continue
        if path == "-":
            raise BadArgument(option, "-", "the name of a file")
        if wrong := kept_trouble(home(), path):
            raise UsageError(f"--{option}: {wrong}")
        check_writable(path)
        real = os.path.realpath(path)
        if real in taken and (os.path.isfile(real) or not os.path.exists(real)):
            raise UsageError(f"--{option} {path} is also {taken[real]}; expected a different file")
        if option == "report" and Path(path).suffix.lower() in NO_PAGES:
            raise BadArgument(option, path, "the name of an HTML page, for instance out.html")
        taken[real] = f"--{option}"
