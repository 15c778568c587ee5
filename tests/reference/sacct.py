"""A dump of sacct, read line by line: the slow twin of `backfill.traces.accounting.sacct`, for dumps with a header.

Texts of single cells mean what `accounting.slurm` says, which has tests of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

from backfill.model.clock import Clock
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, TIME_MAX
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.records import UNLIMITED, Accounted, workload_of
from backfill.traces.accounting.slurm import (
    AGAIN,
    UNFINISHED,
    constraint_of,
    dependencies_of,
    ids_of,
    left_aside,
    memory_of,
    span_of,
    state_of,
    tres_of,
    whole_jobs,
)
from backfill.traces.accounting.stays import Record, Stays, check_amounts
from backfill.traces.broken import BrokenLine, BrokenLines, Field
from backfill.traces.dates import EXPECTED, ZONELESS, Instants, zone_of
from backfill.traces.files import Source

FREE = ("constraints", "jobname", "comment", "submitline")
NEVER = ("", "Unknown", "None", "N/A")
UNSTATED = ("", "Partition_Limit", "INVALID", "Partition_limit")
A_SPAN = "a span such as 1-02:03:04"
TRES = "amounts such as cpu=4,mem=8G"


def read(text: str, zone: str | None = None) -> Accounted:
    broken, notes = BrokenLines("f"), list[str]()
    table = Stays.of(whole_jobs(lines(text, broken, zone, notes), broken), "f")
    return workload_of(table, Source("f", text.encode(), ""), broken, clock=Clock(0, zone or "UTC"), notes=notes)


def lines(text: str, broken: BrokenLines, zone: str | None, notes: list[str]) -> Iterator[tuple[str, Record]]:
    header, *rows = text.split("\n")
    names = header.removesuffix("|").lower().split("|")
    steps, zoneless, others = 0, False, dict[str, int]()
    for line, row in enumerate(rows, start=2):
        if not row or row == header:
            continue
        ways = readings(row.split("|"), names)
        problem = BrokenLine("the line", row, f"{len(names)} columns, not {row.count('|') + 1}")
        for cells in ways:
            instants = Instants(zone_of(zone), 0)
            try:
                records, aside, step = stays(dict(zip(names, cells, strict=True)), instants)
            except BrokenLine as bad:
                problem = bad
                continue
            steps += step
            zoneless |= instants.zoneless
            for name in aside:
                others[name] = others.get(name, 0) + 1
            yield from records
            break
        else:
            broken.add(line, problem)
    if zoneless and zone is None:
        notes.append(ZONELESS)
    if steps:
        notes.append(f"skipped: {steps} line{'s' * (steps > 1)} of job steps")
    notes += left_aside(others)


def readings(cells: list[str], names: list[str]) -> list[list[str]]:
    """All ways to read a line of which some users' texts hold the separator; none where it is no line of the dump."""
    surplus = len(cells) - len(names)
    if surplus == 0 or (surplus == 1 and not cells[-1]):
        return [cells[: len(names)]]
    places = [names.index(name) for name in FREE if name in names]
    found = []
    for counts in shares(surplus, len(places)) if 0 < surplus <= 8 and places else ():
        left = list(cells)
        more = dict(zip(places, counts, strict=True))
        found.append(["|".join(left.pop(0) for _ in range(1 + more.get(place, 0))) for place in range(len(names))])
    return found


def shares(count: int, among: int) -> list[tuple[int, ...]]:
    if among == 1:
        return [(count,)]
    return [(first, *rest) for first in range(count, -1, -1) for rest in shares(count - first, among - 1)]


def stays(cells: dict[str, str], instants: Instants) -> tuple[list[tuple[str, Record]], tuple[str, ...], int]:
    """The records of a line with their leaders, the resources that are not taken, and whether it is a step."""

    def cell(name: str) -> str:
        return cells.get(name, "")

    def instant(name: str) -> int:
        text = cell(name)
        if name != "submit" and text in NEVER:
            return NO_TIME
        try:
            return instants(text)
        except ValueError:
            raise BrokenLine(name.capitalize(), text, EXPECTED) from None

    def whole(name: str, said: str, most: int = 2**40) -> int:
        text = cell(name)
        if text and not (text.isascii() and text.isdecimal() and int(text) <= most):
            raise BrokenLine(said, text, f"a whole number from 0 to {most:,}")
        return int(text or "0")

    job = cell("jobid") or cell("jobidraw")
    if "." in job or "." in cell("jobidraw"):
        return [], (), 1
    if not job[:1].isdecimal() or not job.isprintable() or job != job.strip():
        raise BrokenLine("JobID", job, "a number")
    state = Field("State", state_of, "a state of a job such as COMPLETED")[cell("state")]
    if state == "REVOKED":
        return [], (), 0
    asked, held = Field("ReqTRES", tres_of, TRES)[cell("reqtres")], Field("AllocTRES", tres_of, TRES)[cell("alloctres")]
    cpus = whole("ncpus", "NCPUS") or held.cpus or whole("reqcpus", "ReqCPUS") or asked.cpus
    nodes = whole("nnodes", "NNodes") or held.nodes or asked.nodes
    size, each = Field("ReqMem", memory_of, "an amount such as 4000M, 4Gn or 2Gc")[cell("reqmem")]
    gpus = held.gpus or asked.gpus
    memory = max(held.memory, asked.memory or size * {"n": max(nodes, 1), "c": cpus, "": 1}[each])
    check_amounts(SimpleNamespace(cpus=cpus, nodes=nodes, gpus=gpus, memory=memory))
    hosts = Field("NodeList", host_names, "a list of nodes such as n[01-03,7]")[cell("nodelist")]
    submit, eligible, start, end = (instant(name) for name in ("submit", "eligible", "start", "end"))
    runtime = NO_TIME
    if cell("elapsedraw"):
        if not (cell("elapsedraw").isascii() and cell("elapsedraw").isdecimal() and len(cell("elapsedraw")) < 13):
            raise BrokenLine("ElapsedRaw", cell("elapsedraw"), "a whole number")
        runtime = int(cell("elapsedraw")) * SECOND
        if runtime > TIME_MAX:
            raise BrokenLine("ElapsedRaw", cell("elapsedraw"), "at most 100,000,000,000 s")
    elif cell("elapsed"):
        runtime = Field("Elapsed", span_of, A_SPAN)[cell("elapsed")]
    if state == "CANCELLED" and runtime == 0 and (start == NO_TIME or (start == end and not hosts)):
        start = NO_TIME
    walltime = NO_TIME
    unlimited = bool({cell("timelimitraw"), cell("timelimit")} & {"UNLIMITED", "INFINITE"})
    minutes = next((name for name in ("timelimitraw", "timelimit") if cell(name) not in UNSTATED), "")
    if minutes == "timelimitraw" or cell(minutes).isdecimal():
        said = {"timelimitraw": "TimelimitRaw", "timelimit": "Timelimit"}[minutes]
        walltime = NO_TIME if unlimited else whole(minutes, said, 10**11 // 60) * 60 * SECOND
    elif minutes and not unlimited:
        walltime = Field("Timelimit", span_of, "a span such as 1-02:03:04, UNLIMITED or Partition_Limit")[cell(minutes)]
    suspended = Field("Suspended", lambda text: span_of(text) if text else 0, A_SPAN)[cell("suspended")] > 0
    record = Record(
        job=job,
        submit=submit,
        eligible=eligible,
        start=start,
        end=end,
        runtime=runtime,
        walltime=NO_TIME if walltime == UNLIMITED else walltime,
        unlimited=unlimited or walltime == UNLIMITED,
        nodes=nodes or len(hosts),
        cpus=cpus,
        memory=memory,
        gpus=gpus,
        status=state.lower(),
        unfinished=state in UNFINISHED,
        again=state in AGAIN,
        suspended=suspended,
        user=cell("user"),
        group=cell("account") or cell("group"),
        partition=cell("partition"),
        qos=cell("qos"),
        reservation=cell("reservation"),
        constraint=Field("Constraints", constraint_of, "features with & and | between")[cell("constraints")],
        gpu_type=asked.gpu_type,
        licences=held.licences or asked.licences,
        hosts=hosts,
        after=dependencies_of(cell("submitline")),
    )
    leader, ids = ids_of(job)
    return [(leader, replace(record, job=each)) for each in ids], held.others or asked.others, 0
