"""`import sacct`: what `sacct --parsable2` prints, with or without a header, its columns in any order.

Source: the manual page of sacct, slurm.schedmd.com/sacct.html ("Job Accounting Fields", "Job State Codes").
"""

from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter

from backfill.model.clock import Clock
from backfill.model.errors import UsageError, WorkloadError, at, quote
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.records import UNLIMITED, Accounted, Record, workload_of
from backfill.traces.accounting.slurm import (
    AGAIN,
    UNFINISHED,
    Tres,
    constraint_of,
    dependencies_of,
    memory_of,
    span_of,
    state_of,
    task_numbers,
    tres_of,
)
from backfill.traces.broken import BrokenLine, BrokenLines, Field
from backfill.traces.dates import EXPECTED, ZONELESS, Instants, zone_of
from backfill.traces.files import Source

# The columns of a dump without a header, unless others are named: those that Open XDMoD asks sacct for.
FIELDS = ("jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid", "submit",
          "eligible", "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus", "reqmem", "reqtres",
          "alloctres", "timelimit", "nodelist", "jobname")  # fmt: skip
_FREE = ("constraints", "jobname", "comment", "submitline", "admincomment", "systemcomment", "workdir", "wckey",
         "extra", "container")  # fmt: skip  # what users write, a | within it too
_SURPLUS_MAX = 8  # separators within what users wrote; more are taken for a broken line
# The columns that are looked at.
_Cells = namedtuple(
    "_Cells",
    "jobid jobidraw partition qos account group user submit eligible start end elapsed elapsedraw suspended state "
    "nnodes allocnodes ncpus alloccpus reqcpus reqmem reqtres alloctres allocgres reqgres timelimit timelimitraw "
    "nodelist constraints submitline",
)
_SEPARATORS = "|^\t;,"
_NEVER = {"", "Unknown", "None", "N/A"}
_NO_LIMIT = ("UNLIMITED", "INFINITE")
_UNSTATED = ("", "Partition_Limit", "INVALID", "Partition_limit")


def read_sacct(source: Source, zone: str | None = None, fields: str | None = None) -> Accounted:
    """The jobs of a dump; docs/reference/files.md says what is taken from which column.

    zone: of dates that name none, by its name in the IANA database. fields: names of the columns with commas between,
    as for `sacct --format`, of a dump without a header. Raises WorkloadError, and UsageError for an unknown number of
    columns and an unknown zone.
    """
    broken, instants, notes = BrokenLines(source.file), Instants(zone_of(zone)), list[str]()
    records = _with_notes(_Lines(source, fields, broken, instants), instants, notes, zone)
    return workload_of(records, source, broken, clock=Clock(0, zone or "UTC"), notes=notes)


def _with_notes(lines: "_Lines", instants: Instants, notes: list[str], zone: str | None) -> Iterator[Record]:
    """The records, and then the sentences about them."""
    yield from whole_jobs(lines.records())
    if instants.zoneless and zone is None:
        notes.append(ZONELESS)
    notes += lines.notes


def whole_jobs(records: Iterator[tuple[str, Record]]) -> Iterator[Record]:
    """Records, with the components of a heterogeneous job put together: those that name the same leader.

    records: the leader of the heterogeneous job, or "", and the record.
    """
    parts: dict[tuple[str, int], Record] = {}
    for leader, record in records:
        if not leader:
            yield record
        elif (first := parts.setdefault((leader, record.start), record)) is not record:
            first.nodes += record.nodes
            first.cpus += record.cpus
            first.memory += record.memory
            first.gpus += record.gpus
            first.hosts += record.hosts
            first.end, first.heterogeneous = max(first.end, record.end), True
        else:
            first.job = leader
    yield from parts.values()


class _Lines:
    """The lines of a dump as records."""

    def __init__(self, source: Source, fields: str | None, broken: BrokenLines, instants: Instants) -> None:
        self._broken, self._instants = broken, instants
        self._text = source.data.decode("utf-8", "replace")
        first = self._text.lstrip("\n").partition("\n")[0].strip("\r")
        self._separator, names = _header(first)
        self._header = first if names is not None else ""
        if fields is not None:
            names = [name.strip().partition("%")[0].lower() for name in fields.split(",")]
        elif names is None:
            names = _assumed(first.split(self._separator), source.file)
        self._place = {name: i for i, name in enumerate(names) if name}
        self._width = len(names)
        self._pick = itemgetter(*(self._place.get(name, self._width) for name in _Cells._fields))
        self._free = [self._place[name] for name in _FREE if name in self._place]
        for several in (("jobid", "jobidraw"), ("submit",), ("start",), ("end", "elapsed", "elapsedraw"), ("state",),
                        ("ncpus", "alloccpus", "alloctres", "reqcpus", "reqtres")):  # fmt: skip
            if not any(name in self._place for name in several):
                raise WorkloadError(at(source.file, 1, f"no column {' or '.join(several)}; see `sacct --helpformat`"))
        self._others: dict[str, int] = {}
        self._steps = 0

    @property
    def notes(self) -> list[str]:
        """What was left aside, once all records are read."""
        found = [f"skipped: {counted(self._steps, 'line')} of job steps"] if self._steps else []
        return found + left_aside(self._others)

    def records(self) -> Iterator[tuple[str, Record]]:
        """The leader of a heterogeneous job, or "", and the record."""
        for line, text in enumerate(self._text.split("\n"), start=1):
            text = text.rstrip("\r")
            if not text or text == self._header:  # which stands in the middle of dumps that were put together
                continue
            cells = text.split(self._separator)
            try:
                if len(cells) == self._width:
                    yield from self._records(cells)
                    continue
                for each in self._readings(cells):
                    try:
                        found = self._records(each)
                        break
                    except BrokenLine as problem:
                        first = problem
                else:
                    raise first
            except BrokenLine as problem:
                self._broken.add(line, problem)
                continue
            yield from found

    def _readings(self, cells: list[str]) -> Iterator[list[str]]:
        """Of a line with too many cells: each way to put a user's text together that holds the separator."""
        surplus = len(cells) - self._width
        if surplus == 1 and not cells[-1]:  # --parsable ends lines with one
            yield cells[:-1]
            return
        if surplus < 0 or not self._free or surplus > _SURPLUS_MAX:
            raise BrokenLine("the line", self._separator.join(cells), f"{self._width} columns, not {len(cells)}")
        for counts in _shares(surplus, len(self._free)):
            more = dict(zip(self._free, counts, strict=True))
            found, at = [], 0
            for place in range(self._width):
                end = at + 1 + more.get(place, 0)
                found.append(self._separator.join(cells[at:end]))
                at = end
            yield found

    def _records(self, row: list[str]) -> list[tuple[str, Record]]:
        """None for a step; several for a line that stands for waiting tasks of an array. Raises BrokenLine."""
        cells = _Cells._make(self._pick([*row, ""]))  # a column that is missing is empty
        job = cells.jobid or cells.jobidraw
        if "." in job or "." in cells.jobidraw:
            self._steps += 1
            return []
        if not job[:1].isdecimal():
            raise BrokenLine("JobID", job, "a number")
        state = _STATE[cells.state]
        if state == "REVOKED":  # ran in another cluster of the federation
            return []
        held = _held(*cells[15:25])
        for name in held.others:
            self._others[name] = self._others.get(name, 0) + 1
        hosts = _HOSTS[cells.nodelist]
        submit, eligible, start, end = self._times(cells)
        runtime = _runtime(cells.elapsedraw, cells.elapsed)
        if state == "CANCELLED" and not runtime and (start == NO_TIME or (start == end and not hosts)):
            start = NO_TIME  # it never ran, and newer versions say so
        walltime = _limit(cells.timelimitraw, cells.timelimit)
        record = Record(
            job=job,
            submit=submit,
            eligible=eligible,
            start=start,
            end=end,
            runtime=runtime,
            walltime=NO_TIME if walltime == UNLIMITED else walltime,
            unlimited=walltime == UNLIMITED,
            nodes=held.nodes or len(hosts),
            cpus=held.cpus,
            memory=held.memory,
            gpus=held.gpus,
            status=status_of(state),
            unfinished=state in UNFINISHED,
            again=state in AGAIN,
            suspended=_SUSPENDED[cells.suspended] > 0,
            user=cells.user,
            group=cells.account or cells.group,
            partition=cells.partition,
            qos=cells.qos,
            constraint=_CONSTRAINTS[cells.constraints],
            gpu_type=held.gpu_type,
            licences=held.licences,
            hosts=hosts,
            after=dependencies_of(cells.submitline) if " -d" in cells.submitline or "--dep" in cells.submitline else (),
        )
        return tasks_of(record)

    def _times(self, cells: _Cells) -> tuple[int, int, int, int]:
        """Submit, eligible, start and end. Raises BrokenLine."""
        instants, name, text = self._instants, "Submit", cells.submit
        try:
            submit = instants(text)
            name, text = "Eligible", cells.eligible
            eligible = NO_TIME if text in _NEVER else instants(text)
            name, text = "Start", cells.start
            start = NO_TIME if text in _NEVER else instants(text)
            name, text = "End", cells.end
            end = NO_TIME if text in _NEVER else instants(text)
        except ValueError:
            raise BrokenLine(name, text, EXPECTED) from None
        return submit, eligible, start, end


def _span(text: str) -> int:
    return span_of(text) if text else 0


_STATE = Field("State", state_of, "a state of a job such as COMPLETED")
_HOSTS = Field("NodeList", host_names, "a list of nodes such as n[01-03,7]")
_CONSTRAINTS = Field("Constraints", constraint_of, "features with & and | between")
_SUSPENDED = Field("Suspended", _span, "a span such as 1-02:03:04")
_ELAPSED = Field("Elapsed", _span, "a span such as 1-02:03:04")
_LIMIT = Field("Timelimit", span_of, "a span such as 1-02:03:04, UNLIMITED or Partition_Limit")
_REQUESTED = Field("ReqTRES", tres_of, "amounts such as cpu=4,mem=8G")
_ALLOCATED = Field("AllocTRES", tres_of, "amounts such as cpu=4,mem=8G")
_MEMORY = Field("ReqMem", memory_of, "an amount such as 4000M, 4Gn or 2Gc")
_TASKS = Field("JobID", task_numbers, "tasks such as 123_[1-3,7]")


@lru_cache(maxsize=1 << 16)
def _held(
    nnodes: str,
    allocnodes: str,
    ncpus: str,
    alloccpus: str,
    reqcpus: str,
    reqmem: str,
    reqtres: str,
    alloctres: str,
    allocgres: str,
    reqgres: str,
) -> Tres:
    """What a job held, or asked for where it never ran. Raises BrokenLine."""
    asked, held = _REQUESTED[reqtres], _ALLOCATED[alloctres]
    cpus = _whole("NCPUS", ncpus or alloccpus) or held.cpus or _whole("ReqCPUS", reqcpus) or asked.cpus
    nodes = _whole("NNodes", nnodes or allocnodes) or held.nodes or asked.nodes
    size, each = _MEMORY[reqmem]
    requested = asked.memory or size * {"n": max(nodes, 1), "c": cpus, "": 1}[each]
    return Tres(
        cpus=cpus,
        nodes=nodes,
        memory=max(held.memory, requested),  # versions of 2015 told the memory of a node or cpu for that of the job
        gpus=held.gpus or asked.gpus or _old_gpus(allocgres or reqgres, max(nodes, 1)),
        gpu_type=asked.gpu_type,
        licences=held.licences or asked.licences,
        others=held.others or asked.others,
    )


def _runtime(raw: str, text: str) -> int:
    return _whole("ElapsedRaw", raw) * SECOND if raw else _ELAPSED[text] if text else NO_TIME


@lru_cache(maxsize=1 << 12)
def _limit(raw: str, text: str) -> int:
    """The time limit; UNLIMITED, or NO_TIME where there is none."""
    if raw in _NO_LIMIT or text in _NO_LIMIT:
        return UNLIMITED
    if raw not in _UNSTATED:
        return _whole("TimelimitRaw", raw) * 60 * SECOND
    if text in _UNSTATED:
        return NO_TIME
    if text.isdecimal():  # minutes, where TimelimitRaw was given another name
        return _whole("Timelimit", text) * 60 * SECOND
    return _LIMIT[text]


def _shares(count: int, among: int) -> Iterator[tuple[int, ...]]:
    """All ways to give so many to so many, the first of them gets most first."""
    if among == 1:
        yield (count,)
        return
    for first in range(count, -1, -1):
        for rest in _shares(count - first, among - 1):
            yield first, *rest


def left_aside(others: dict[str, int]) -> list[str]:
    """Generic resources of jobs that are not taken."""
    each = ", ".join(f"{name} ({counted(jobs, 'job')})" for name, jobs in others.items())
    return [f"resources that are ignored: {each}"] if others else []


def status_of(state: str) -> str:
    """A state as the column `status` has it."""
    return state.lower()


def tasks_of(record: Record) -> list[tuple[str, Record]]:
    """A record for each of the waiting tasks of an array for which one line stands; the components by their leader."""
    if record.job.isdecimal():
        return [("", record)]
    array, bracket, rest = record.job.partition("_[")
    if bracket:
        return [("", replace(record, job=f"{array}_{task}")) for task in _TASKS["[" + rest]]
    leader, plus, _ = record.job.partition("+")
    return [(leader if plus else "", record)]


def _whole(name: str, text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 13):
        raise BrokenLine(name, text, "a whole number")
    return int(text)


def _old_gpus(text: str, nodes: int) -> int:
    """`gpu:2,craynetwork:1` or `gpu:a100:2`, on each node, as versions before 20.11 have it."""
    found = 0
    for part in text.split(",") if text else ():
        name, _, rest = part.partition(":")
        count = rest.rpartition(":")[2].partition("(")[0]
        if name in ("gpu", "gres/gpu"):
            found += int(count) if count.isdecimal() else 1
    return found * nodes


def _header(first: str) -> tuple[str, list[str] | None]:
    """The separator, and the columns in lower case where the first line names them."""
    for separator in _SEPARATORS:
        names = [name.strip().lower() for name in first.split(separator)]
        if {"jobid", "jobidraw"} & set(names) and len(names) > 2:
            return separator, names if names[-1] else names[:-1]
    return next((separator for separator in _SEPARATORS if separator in first), "|"), None


def _assumed(cells: Sequence[str], file: str) -> list[str]:
    """The columns of a dump without a header."""
    if len(cells) == 1:
        what = f"{quote(cells[0])}; expected the output of sacct --parsable2 (with | between columns)"
        raise WorkloadError(at(file, 1, what))
    if len(cells) - (not cells[-1]) != len(FIELDS):
        raise UsageError(
            f"{file} has no header and {len(cells)} columns; name them with --fields JobID,User,... as in --format"
        )
    return list(FIELDS)
