"""The cells of an sacct dump as columns of stays: each column is parsed at once, each distinct text only once."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Labels
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.records import UNLIMITED
from backfill.traces.accounting.slurm import (
    AGAIN,
    UNFINISHED,
    Tres,
    constraint_of,
    dependencies_of,
    ids_of,
    memory_of,
    span_of,
    spans_of,
    state_of,
    status_of,
    tres_of,
    whole_jobs,
)
from backfill.traces.accounting.stays import (
    SECONDS_MAX,
    Blocks,
    Codes,
    Mask,
    Numbered,
    Record,
    Stays,
    check_amounts,
    is_id,
)
from backfill.traces.broken import BrokenLine, BrokenLines, Field, whole
from backfill.traces.dates import EXPECTED, Instants
from backfill.traces.fixed import whole_numbers

_NEVER = {"", "Unknown", "None", "N/A"}
_NO_LIMIT = ("UNLIMITED", "INFINITE")
_UNSTATED = ("", "Partition_Limit", "INVALID", "Partition_limit")
_ASKED = ("nnodes", "allocnodes", "ncpus", "alloccpus", "reqcpus", "reqmem", "reqtres", "alloctres", "allocgres",
          "reqgres")  # fmt: skip  # the columns that tell what a job held
_A_SPAN = "a span such as 1-02:03:04"
_LISTS_KEPT = 1 << 16  # node list texts that are cached
Value = TypeVar("Value")


class Cells:
    """Rows of a dump: a list of texts per column, empty texts for an absent column."""

    def __init__(self, cells: Sequence[str], place: Mapping[str, int], width: int) -> None:
        """cells: row by row, each `width` long. place: index of each column by name."""
        self._cells, self._place, self._width = cells, place, width
        self.rows = len(cells) // width

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def __getitem__(self, name: str) -> Sequence[str]:
        if name not in self._place:
            return [""] * self.rows
        return self._cells[self._place[name] :: self._width]


class Faults:
    """The first error of each row in a block, and the rows that are not jobs."""

    def __init__(self, rows: int) -> None:
        self.first: dict[int, BrokenLine] = {}
        self.aside = np.zeros(rows, np.bool_)

    def add(self, rows: Iterable[int], problem: BrokenLine) -> None:
        """Mark these rows as broken, unless they are set aside already."""
        for row in rows:
            if not self.aside[row]:
                self.first.setdefault(row, problem)

    def add_each(self, rows: Sequence[int], name: str, texts: Sequence[str], expected: str) -> None:
        """Mark these rows as broken: the texts of this field are invalid."""
        for row in rows:
            self.add((row,), BrokenLine(name, texts[row], expected))

    def put_aside(self, which: Mask) -> None:
        """Mark these rows as not being jobs, whatever their other cells hold."""
        self.aside |= which
        self.aside[list(self.first)] = False

    @property
    def sound(self) -> Mask:
        """The mask of rows that are jobs."""
        sound = ~self.aside
        sound[list(self.first)] = False
        return sound


class Reader:
    """Collects blocks of cells into one table of stays."""

    def __init__(self, file: str, zone: tzinfo) -> None:
        """zone: time zone of dates without one."""
        self._instants = Instants(zone, 0)
        self.zoneless = False  # whether a date of any job had no zone
        self.steps = 0
        self.others: dict[str, int] = {}  # ignored generic resources: the number of jobs with each
        self._blocks = Blocks(file)
        self._lists: dict[str, tuple[int, int]] = {"": (-1, 0)}  # by node list text: its code and its number of nodes
        self._components: list[tuple[str, Record]] = []  # of heterogeneous jobs, with their leaders

    def table(self, broken: BrokenLines) -> Stays:
        """Return all stays, those of heterogeneous jobs last."""
        self._blocks.add_records(whole_jobs(self._components, broken))
        return self._blocks.table()

    def add(self, cells: Cells, line: Sequence[int]) -> dict[int, BrokenLine]:
        """Read more rows; return the errors by line.

        line: of each row. Several rows of one line are alternative readings: the first valid one counts, else the last.
        """
        faults = Faults(cells.rows)
        ids = cells["jobid"] if "jobid" in cells else cells["jobidraw"]
        if "jobid" in cells and "jobidraw" in cells:
            ids = [job or raw for job, raw in zip(ids, cells["jobidraw"], strict=True)]
        steps = _holding(".", ids) | _holding(".", cells["jobidraw"])
        faults.put_aside(steps)
        together = "".join(ids)
        plain = together.isprintable() and " " not in together
        strange = [row for row, job in enumerate(ids) if not (job[:1].isdecimal() and (plain or is_id(job)))]
        faults.add_each(strange, "JobID", ids, "a number")
        columns, held, tres, zoneless = self._columns(cells, faults)
        several: dict[int, tuple[str, list[str]]] = {}
        for row in np.flatnonzero(faults.sound & (_holding("_[", ids) | _holding("+", ids))).tolist():
            try:
                several[row] = ids_of(ids[row])
            except BrokenLine as problem:
                faults.add((row,), problem)
        stands = _stands(line, faults)
        self.steps += int(np.count_nonzero(steps & stands))
        rows = np.flatnonzero(faults.sound & stands)
        self.zoneless |= bool(zoneless[rows].any())
        others = np.array([bool(each.others) for each in tres], np.bool_)[held[rows]]
        for row in rows[others].tolist():
            for name in tres[held[row]].others:
                self.others[name] = self.others.get(name, 0) + 1
        after = _dependencies(cells["submitline"])
        components = [row for row in rows.tolist() if several.get(row, ("",))[0]]
        nodes = cells["nodelist"]
        for row in components:
            values = {name: column[row] for name, column in columns.items()}
            values |= {"job": ids[row], "hosts": host_names(nodes[row]), "after": after.get(row, ())}
            self._components.append((several[row][0], Record(**values)))
        rows = np.setdiff1d(rows, components) if components else rows
        tasks = {row: each for row, (_, each) in several.items()}
        self._add(ids, rows.tolist(), tasks, columns, after)
        return {line[row]: problem for row, problem in faults.first.items() if stands[row]}

    def _columns(self, cells: Cells, faults: Faults) -> tuple[dict[str, Any], Codes, list[Tres], Mask]:
        """Return columns named as in Record, each row's resources as codes into a list, and which dates lack a zone."""
        state, states = _parsed(_STATE.__getitem__, cells["state"], "COMPLETED", faults)

        def is_in(some: Iterable[str]) -> Mask:
            found: Mask = np.array([each in some for each in states], np.bool_)[state]
            return found

        faults.put_aside(is_in({"REVOKED"}))  # ran in another cluster of the federation
        asked = [name for name in _ASKED if name in cells]
        place = [asked.index(name) if name in cells else len(asked) for name in _ASKED]
        held, tres = _parsed(
            lambda key: _held(*map((*key, "").__getitem__, place)),
            list(zip(*(cells[name] for name in asked), strict=True)),
            Tres(),
            faults,
        )
        amounts = (
            dict(zip(Tres._fields, zip(*tres, strict=True), strict=True)) if tres else dict.fromkeys(Tres._fields, ())
        )
        hosts, lists = _parsed(self._host_list, cells["nodelist"], (-1, 0), faults)
        code, size = np.array(lists, np.int64).reshape(-1, 2)[hosts].T
        times: dict[str, Ints] = {}
        zoneless = np.zeros(cells.rows, np.bool_)
        for name in ("submit", "eligible", "start", "end"):
            times[name], bad, without = self._instants.column(cells[name], () if name == "submit" else _NEVER)
            faults.add_each(bad, name.capitalize(), cells[name], EXPECTED)
            zoneless |= without
        start, end = times["start"], times["end"]
        runtime = _runtimes(cells, faults)
        left = is_in({"CANCELLED"}) & (runtime == 0) & ((start == NO_TIME) | ((start == end) & (code < 0)))
        times["start"] = np.where(left, NO_TIME, start)  # it never ran, and newer versions say so
        if "timelimitraw" in cells:
            both = list(zip(cells["timelimitraw"], cells["timelimit"], strict=True))
            limit, limits = _parsed(lambda key: _limit(*key), both, NO_TIME, faults)
        else:
            limit, limits = _parsed(lambda text: _limit("", text), cells["timelimit"], NO_TIME, faults)
        walltime = np.array(limits, np.int64)[limit]
        suspended, spans = _parsed(_SUSPENDED.__getitem__, cells["suspended"], 0, faults)
        constraint, constraints = _parsed(_CONSTRAINTS.__getitem__, cells["constraints"], "", faults)

        def of_held(name: str) -> Ints:
            found: Ints = np.array(amounts[name], np.int64)[held]
            return found

        nodes = of_held("nodes")
        groups = cells["account"] if "account" in cells else cells["group"]
        if "account" in cells and "group" in cells:
            groups = [account or group for account, group in zip(groups, cells["group"], strict=True)]
        columns = {
            **times,
            "runtime": runtime,
            "walltime": np.where(walltime == UNLIMITED, NO_TIME, walltime),
            "unlimited": walltime == UNLIMITED,
            "nodes": np.where(nodes == 0, size, nodes),
            "cpus": of_held("cpus"),
            "memory": of_held("memory"),
            "gpus": of_held("gpus"),
            "status": _labels(state, [status_of(each) for each in states]),
            "unfinished": is_in(UNFINISHED),
            "again": is_in(AGAIN),
            "suspended": np.array(spans, np.int64)[suspended] > 0,
            "user": cells["user"],
            "group": groups,
            "partition": cells["partition"],
            "qos": cells["qos"],
            "reservation": cells["reservation"],
            "constraint": _labels(constraint, constraints),
            "gpu_type": _labels(held, amounts["gpu_type"]),
            "licences": _labels(held, amounts["licences"]),
            "hosts": code,
        }
        return columns, held, tres, zoneless

    def _host_list(self, text: str) -> tuple[int, int]:
        """Return the code of a node list, and its number of nodes. Raises BrokenLine."""
        found = self._lists.get(text)
        if found is None:
            try:
                names = host_names(text)
            except ValueError:
                raise BrokenLine("NodeList", text, "a list of nodes such as n[01-03,7]") from None
            found = self._blocks.host_list(names), len(names)
            if len(self._lists) < _LISTS_KEPT:
                self._lists[text] = found
        return found

    def _add(
        self,
        ids: Sequence[str],
        rows: Sequence[int],
        several: Mapping[int, Sequence[str]],
        columns: Mapping[str, Any],
        after: Mapping[int, tuple[str, ...]],
    ) -> None:
        """Append these rows. several: the ids of rows that represent several tasks."""
        if several:
            rows = [row for row in rows for _ in several.get(row, ("",))]
            names = [name for row in dict.fromkeys(rows) for name in several.get(row, (ids[row],))]
        else:
            names = list(map(ids.__getitem__, rows))
        whole = len(rows) == len(ids) and not several
        self._blocks.add(
            {"job": names} | {name: values if whole else _taken(values, rows) for name, values in columns.items()},
            {place: after[row] for place, row in enumerate(rows) if row in after} if after else {},
        )


def _parsed(
    parse: Callable[[Any], Value], texts: Sequence[Hashable], otherwise: Value, faults: Faults
) -> tuple[Codes, list[Value]]:
    """Return the codes of a column and the value of each. otherwise: value for invalid texts, which become faults."""
    known = Numbered()
    codes = known.of(texts)
    values: list[Value] = []
    for code, text in enumerate(known):
        try:
            values.append(parse(text))
        except BrokenLine as problem:
            values.append(otherwise)
            faults.add(np.flatnonzero(codes == code).tolist(), problem)
    return codes, values


def _labels(codes: Codes, texts: Sequence[str]) -> Labels:
    """Return labels for codes into texts that may be equal or empty."""
    known = Numbered("")
    return Labels(known.of(texts)[codes], known.in_order)


def _taken(values: Any, rows: Sequence[int]) -> Any:
    if isinstance(values, Labels):
        return values.take(np.array(rows, np.int64))
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


def _holding(part: str, texts: Sequence[str]) -> Mask:
    """Return the mask of texts that contain this part."""
    if part not in "\n".join(texts):
        return np.zeros(len(texts), np.bool_)
    return np.fromiter((part in text for text in texts), np.bool_, len(texts))


def _stands(line: Sequence[int], faults: Faults) -> Mask:
    """Return the mask of rows that count, among alternative readings of the same line."""
    stands = np.ones(len(line), np.bool_)
    if len(line) < 2 or (line[-1] - line[0] >= len(line) - 1 and len(set(line)) == len(line)):
        return stands
    chosen: dict[int, int] = {}
    for row, number in enumerate(line):
        if number not in chosen or chosen[number] in faults.first:
            chosen[number] = row
    stands[:] = False
    stands[list(chosen.values())] = True
    return stands


def _dependencies(commands: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Return the jobs that a command line waits for, by row; rows without any are absent."""
    asking = [row for row, text in enumerate(commands) if " -d" in text or "--dep" in text]
    return {row: jobs for row in asking if (jobs := dependencies_of(commands[row]))}


def _runtimes(cells: Cells, faults: Faults) -> Ints:
    """Return elapsed times, NO_TIME if missing."""
    raw, bad = whole_numbers(cells["elapsedraw"], 12)
    faults.add_each(bad, "ElapsedRaw", cells["elapsedraw"], "a whole number")
    bad = np.flatnonzero(raw > SECONDS_MAX).tolist()
    faults.add_each(bad, "ElapsedRaw", cells["elapsedraw"], f"at most {SECONDS_MAX:,} s")
    runtime = np.where(raw < 0, NO_TIME, raw * SECOND)
    if "elapsed" in cells and (raw < 0).any():
        spans, bad = spans_of(cells["elapsed"])
        faults.add_each([row for row in bad if raw[row] < 0], "Elapsed", cells["elapsed"], _A_SPAN)
        runtime = np.where(raw < 0, spans, runtime)
    return runtime


_STATE = Field("State", state_of, "a state of a job such as COMPLETED")
_CONSTRAINTS = Field("Constraints", constraint_of, "features with & and | between")
_SUSPENDED = Field("Suspended", lambda text: span_of(text) if text else 0, _A_SPAN)
_LIMIT = Field("Timelimit", span_of, "a span such as 1-02:03:04, UNLIMITED or Partition_Limit")
_REQUESTED = Field("ReqTRES", tres_of, "amounts such as cpu=4,mem=8G")
_ALLOCATED = Field("AllocTRES", tres_of, "amounts such as cpu=4,mem=8G")
_MEMORY = Field("ReqMem", memory_of, "an amount such as 4000M, 4Gn or 2Gc")


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
    """Return the amounts that a job held, or requested if it never ran. Raises BrokenLine."""
    asked, held = _REQUESTED[reqtres], _ALLOCATED[alloctres]
    cpus = _whole("NCPUS", ncpus or alloccpus) or held.cpus or _whole("ReqCPUS", reqcpus) or asked.cpus
    nodes = _whole("NNodes", nnodes or allocnodes) or held.nodes or asked.nodes
    size, each = _MEMORY[reqmem]
    requested = asked.memory or size * {"n": max(nodes, 1), "c": cpus, "": 1}[each]
    found = Tres(
        cpus=cpus,
        nodes=nodes,
        memory=max(held.memory, requested),  # in 2015, versions reported memory per node or cpu as that of the job
        gpus=held.gpus or asked.gpus or _old_gpus(allocgres or reqgres, max(nodes, 1)),
        gpu_type=asked.gpu_type,
        licences=held.licences or asked.licences,
        others=held.others or asked.others,
    )
    check_amounts(found)
    return found


@lru_cache(maxsize=1 << 12)
def _limit(raw: str, text: str) -> int:
    """Return the time limit; UNLIMITED, or NO_TIME if there is none."""
    if raw in _NO_LIMIT or text in _NO_LIMIT:
        return UNLIMITED
    if raw not in _UNSTATED:
        return _minutes("TimelimitRaw", raw)
    if text in _UNSTATED:
        return NO_TIME
    if text.isdecimal():  # minutes, if TimelimitRaw was renamed
        return _minutes("Timelimit", text)
    return _LIMIT[text]


def _minutes(name: str, text: str) -> int:
    return whole(name, text, SECONDS_MAX // 60) * 60 * SECOND


def _whole(name: str, text: str) -> int:
    return whole(name, text) if text else 0


def _old_gpus(text: str, nodes: int) -> int:
    """Return the GPUs per node of `gpu:2,craynetwork:1` or `gpu:a100:2`, the format before version 20.11."""
    gpus = 0
    for part in text.split(",") if text else ():
        name, _, rest = part.partition(":")
        count = rest.rpartition(":")[2].partition("(")[0]
        if name in ("gpu", "gres/gpu"):
            gpus += whole("AllocGRES", count) if count.isdecimal() else 1
    return gpus * nodes
