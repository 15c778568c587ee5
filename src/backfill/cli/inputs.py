"""From options to a workload and a platform."""

from pathlib import Path
from typing import TYPE_CHECKING

from backfill.cli import say
from backfill.model.errors import BackfillError, PlatformError, UsageError, at
from backfill.model.units import parse_size

if TYPE_CHECKING:
    from backfill.model.platform import Platform
    from backfill.model.workload import Workload


def inputs(
    log: str,
    platform: str | None,
    cpus: int | None,
    nodes: int | None,
    memory: str | None,
    *,
    jobs: int | None = None,
    load: float | None = None,
    zero_run: str = "keep",
) -> "tuple[Workload, Platform]":
    """The workload and the platform that the options name; says what was assumed."""
    if platform is not None and (cpus, nodes, memory) != (None, None, None):
        raise UsageError("--platform says it all; leave out --cpus, --nodes and --memory")
    _at_least_1("--jobs", jobs)
    _at_least_1("--cpus", cpus)
    _at_least_1("--nodes", nodes)
    size = None if memory is None else _size(memory)
    if load is not None and not 0 < load < 1e9:
        raise UsageError(f"--load is {load:g}; expected a number > 0")

    from backfill.model.platform import Platform

    pool = None if platform is None else Platform.read(platform)
    resources = pool.resources if pool else ("memory",) if memory else ()
    workload = read(log, zero_run, tuple(r for r in resources if r != "cpus"))
    if jobs is not None:
        workload = workload.head(jobs)
    if pool is None:
        pool = _pool(workload, cpus, nodes, size)
    if load is not None:
        workload = workload.at_load(load)
    for text in _remarks(workload):
        say.note(f"{workload.name}: {text}")
    return workload, pool


def read(log: str, zero_run: str = "keep", resources: tuple[str, ...] = ()) -> "Workload":
    """A file, standard input, or a generated workload."""
    if log.startswith("model:"):
        from backfill.workloads import generate

        return generate(log)
    from backfill.traces.read import read as read_file

    return read_file(log, zero_run=zero_run, resources=resources)


def _pool(workload: "Workload", cpus: int | None, nodes: int | None, memory: int | None) -> "Platform":
    from backfill.model.platform import Platform

    if cpus is None:
        if workload.cpus is None:
            raise UsageError(
                f"{workload.name} does not say how many cpus the machine has; give --cpus N or --platform FILE"
            )
        say.note(f"{workload.name}: {workload.cpus} cpus, as the log says")
    try:
        return Platform.pool(cpus or workload.cpus or 1, nodes or 1, memory)
    except PlatformError as error:
        raise UsageError(str(error)) from None


def _remarks(workload: "Workload") -> list[str]:
    dropped = [f"left out {count} {'job' if count == 1 else 'jobs'}: {why}" for why, count in workload.dropped.items()]
    return [*dropped, *workload.notes]


def _at_least_1(option: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise UsageError(f"{option} is {value}; expected a whole number >= 1")


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None


def must_be_writable(path: str | None) -> None:
    """Complain before the work rather than after it."""
    if path is not None and path != "-" and not Path(path).resolve().parent.is_dir():
        raise BackfillError(at(path, None, "cannot be written: there is no such folder"))
