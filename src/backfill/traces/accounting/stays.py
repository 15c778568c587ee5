"""The stays of an accounting log, as columns: a million objects would take gigabytes."""

import gc
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import WorkloadError, at
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, TIME_MAX, seconds_text
from backfill.model.workload import Floats, Ints, Labels
from backfill.traces.broken import COUNT_MAX, BrokenLine

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
_CHUNK = 10_000  # records that exist as objects at a time
SECONDS_MAX = TIME_MAX // SECOND  # of instants, which count from 1970, and of spans
_SEATS_MAX = 5 * 10**7  # names in all different lists of nodes
_MEMORY_MAX = 2**60


@dataclass(slots=True)
class Record:
    """One stay of a job on the machine, or a job that never started. Times in microseconds, amounts per whole job."""

    job: str
    submit: int
    eligible: int = NO_TIME  # from when it could have started: no hold, begin time or dependency left
    start: int = NO_TIME
    end: int = NO_TIME
    runtime: int = NO_TIME  # if it differs from end - start, for example because the job was suspended
    walltime: int = NO_TIME
    nodes: int = 0  # 0 = unknown
    cpus: int = 0
    memory: int = 0  # bytes
    gpus: int = 0
    status: str = ""
    unfinished: bool = False  # still waiting or running when the log was written
    again: bool = False  # the job waits again after this stay: it was requeued, preempted, or its node was lost
    suspended: bool = False
    unlimited: bool = False  # no time limit was requested
    exclusive: bool = False  # had its nodes exclusively; it held what it requested of them
    heterogeneous: bool = False  # the sum of unequal components
    user: str = ""
    group: str = ""
    project: str = ""
    partition: str = ""
    queue: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    gpu_type: str = ""
    licences: str = ""  # `a:1;b:2`
    hosts: tuple[str, ...] = ()  # on which it ran; equal lists share one object
    after: tuple[str, ...] = ()  # predecessors
    priority: float = 0.0  # set by the user
    deadline: int = NO_TIME

    def __post_init__(self) -> None:
        """Raise BrokenLine for values that no job can have."""
        if not is_id(self.job):
            raise BrokenLine("the job id", self.job, "a text without control characters and white space around it")
        check_amounts(self)
        times = (self.submit, self.eligible, self.start, self.end, self.runtime, self.walltime, self.deadline)
        for place, time in enumerate(times):
            if not (0 <= time <= TIME_MAX or time == NO_TIME):
                raise BrokenLine(TIMES[place], f"{seconds_text(time)} s", f"0 to {SECONDS_MAX:,} s")


def is_id(job: str) -> bool:
    """Return whether a text may be the id of a job."""
    return bool(job) and job.isprintable() and job == job.strip()


def check_amounts(held: Any) -> None:
    """Raise BrokenLine unless a job may hold these nodes, cpus, gpus and bytes of memory."""
    for name, amount, most in (
        ("nodes", held.nodes, COUNT_MAX),
        ("cpus", held.cpus, COUNT_MAX),
        ("gpus", held.gpus, COUNT_MAX),
        ("memory", held.memory, _MEMORY_MAX),
    ):
        if not 0 <= amount <= most:
            raise BrokenLine(name, str(amount), f"0 to {most:,}")


TIMES = ("submit", "eligible", "start", "end", "runtime", "walltime", "deadline")
WHOLE = (*TIMES, "nodes", "cpus", "memory", "gpus")
FLAGS = ("unfinished", "again", "suspended", "unlimited", "exclusive", "heterogeneous")
LABELS = ("status", "user", "group", "project", "partition", "queue", "qos", "reservation", "constraint", "gpu_type",
          "licences")  # fmt: skip


class Numbered(dict[Hashable, int]):
    """A code for each value ever looked up, from 0 in order of first appearance."""

    def __init__(self, *none: Hashable) -> None:
        """none: the value that means "nothing", with code -1."""
        super().__init__(dict.fromkeys(none, -1))
        self._none = len(none)

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self) - self._none
        return code

    def of(self, values: Sequence[Hashable]) -> Codes:
        """Return the code of each value."""
        if values and values[0] == values[-1] and values.count(values[0]) == len(values):
            return np.full(len(values), self[values[0]], np.int32)  # many columns have equal cells
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))

    @property
    def in_order(self) -> tuple[Any, ...]:
        """The values, ordered by code."""
        return tuple(self)[self._none :]


@dataclass(frozen=True, eq=False)
class Hosts:
    """The nodes on which jobs ran: a list for each job; jobs may share a list."""

    codes: Codes  # the list of each job, -1 = unknown; shape (jobs,)
    first: Ints  # list i is nodes[first[i]:first[i + 1]]; shape (lists + 1,)
    nodes: Codes  # indexes into names
    names: tuple[str, ...]

    def take(self, rows: Ints) -> "Hosts":
        """Return the lists of these jobs, in this order."""
        return Hosts(self.codes[rows], self.first, self.nodes, self.names)


@dataclass(eq=False)
class Stays:
    """A table of stays, one row each."""

    job: NDArray[Any]  # ids, texts
    whole: dict[str, Ints]
    flags: dict[str, Mask]
    labels: dict[str, Labels]
    priority: Floats
    hosts: Hosts
    after: dict[int, tuple[str, ...]]  # by row, if not empty

    @classmethod
    def of(cls, records: Iterable[Record], file: str) -> "Stays":
        """Build a table of these records, in their order. file: its name in messages."""
        blocks = Blocks(file)
        blocks.add_records(records)
        return blocks.table()

    def __len__(self) -> int:
        return len(self.job)

    def take(self, rows: Ints) -> None:
        """Keep these rows, in this order."""
        place = {row: i for i, row in enumerate(rows.tolist())} if self.after else {}
        self.after = {place[row]: jobs for row, jobs in self.after.items() if row in place}
        self.job, self.priority, self.hosts = self.job[rows], self.priority[rows], self.hosts.take(rows)
        for name in self.whole:
            self.whole[name] = self.whole[name][rows]
        for name in self.flags:
            self.flags[name] = self.flags[name][rows]
        self.labels = {name: values.take(rows) for name, values in self.labels.items()}


class Blocks:
    """A table of stays that grows block by block."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._blocks: dict[str, list[NDArray[Any]]] = {name: [] for name in _KINDS}
        self._known = {name: Numbered("") for name in LABELS}
        self._nodes, self._seats, self._ends = Numbered(), array("i"), array("q", [0])
        self._after: dict[int, tuple[str, ...]] = {}
        self._rows = 0

    def host_list(self, names: Iterable[str]) -> int:
        """Return the code of a new node list; -1 for an empty list. Raises WorkloadError."""
        before = len(self._seats)
        self._seats.extend(map(self._nodes.__getitem__, names))
        if len(self._seats) > _SEATS_MAX:
            raise WorkloadError(
                at(self._file, None, f"its different lists of nodes have more than {_SEATS_MAX:,} names")
            )
        if len(self._seats) == before:
            return -1
        self._ends.append(len(self._seats))
        return len(self._ends) - 2

    def add(self, columns: Mapping[str, Any], after: Mapping[int, tuple[str, ...]]) -> None:
        """Append rows. columns: by the names of Record's fields, at least `job` and `submit`, all of one length.

        Labels are texts or Labels, `hosts` are codes of lists. after: by row of this block.
        """
        count = len(columns["job"])
        for name, blocks in self._blocks.items():
            values = columns.get(name)
            if values is None:
                blocks.append(np.full(count, _MISSING[name], _KINDS[name]))
            elif name in LABELS:
                blocks.append(_codes(self._known[name], values))
            else:
                blocks.append(np.array(values, _KINDS[name]))
        self._after |= {row + self._rows: jobs for row, jobs in after.items()}
        self._rows += count

    def add_records(self, records: Iterable[Record]) -> None:
        """Append rows from record objects, which are consumed one at a time."""
        records, lists = iter(records), Numbered(())
        code_of = array("i")  # code of the host list, by the id of its tuple
        with no_collection():
            while chunk := list(islice(records, _CHUNK)):
                columns: dict[str, Any] = {name: [*map(attrgetter(name), chunk)] for name in _KINDS}
                numbers = lists.of(columns["hosts"])
                code_of.extend(map(self.host_list, lists.in_order[len(code_of) :]))
                columns["hosts"] = np.array([*code_of, -1], np.int32)[numbers]
                self.add(columns, {row: each.after for row, each in enumerate(chunk) if each.after})

    def table(self) -> Stays:
        """Return all rows as one table; the blocks are released, so this works once."""

        def column(name: str) -> NDArray[Any]:
            return np.concatenate([np.empty(0, _KINDS[name]), *self._blocks.pop(name)])

        return Stays(
            job=column("job"),
            whole={name: column(name) for name in WHOLE},
            flags={name: column(name) for name in FLAGS},
            labels={name: Labels(column(name), self._known[name].in_order) for name in LABELS},
            priority=column("priority"),
            hosts=Hosts(
                column("hosts"),
                np.array(self._ends, np.int64),
                np.array(self._seats, np.int32),
                self._nodes.in_order,
            ),
            after=self._after,
        )


def _codes(known: Numbered, values: Labels | Sequence[str]) -> Codes:
    """Return the table-wide codes of labels, numbered in order of first appearance."""
    if not isinstance(values, Labels):
        return known.of(values)
    used, first = np.unique(values.codes, return_index=True)
    code = np.full(len(values.names) + 1, -1, np.int32)
    for one in used[np.argsort(first)].tolist():
        if one >= 0:
            code[one] = known[values.names[one]]
    codes: Codes = code[values.codes]
    return codes


_MISSING: dict[str, Any] = {
    **{name: Record.__dataclass_fields__[name].default for name in (*WHOLE, *FLAGS, "priority") if name != "submit"},
    **dict.fromkeys(("hosts", *LABELS), -1),
}
_KINDS: dict[str, Any] = {
    "job": object,
    "priority": np.float64,
    **dict.fromkeys(WHOLE, np.int64),
    **dict.fromkeys(FLAGS, np.bool_),
    **dict.fromkeys(("hosts", *LABELS), np.int32),
}


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend the garbage collector while millions of acyclic objects are made; it would take a sixth of the time."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()
