"""The data of the chart of every job: the columns of jobs and schedules, packed small.

The text is base64 of one zlib stream: the length of a header (4 bytes, little-endian), the header (JSON), and the
columns that the header lists, concatenated. A column is int32, stored as four planes of bytes, lowest first,
so that zero planes cost nothing. Data common to the policies are stored once: a schedule is the wait of each
job and the reason of its start, and deviations from the defaults. `static/data.js` reads it.
"""

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.outages import Holders, Outages
from backfill.analysis.resources import shared
from backfill.analysis.series import window
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import CANCELLED, PENDING, REASONS, REJECTED, STATES, TIMEOUT, Schedule
from backfill.model.units import NEVER, SECOND, amount
from backfill.model.workload import Ints, Ragged, Workload
from backfill.report.rows import (
    Stretches,
    boxes,
    lanes,
    licence_lanes,
    licences_of,
    node_names,
    turn_names,
    turns_of,
)
from backfill.report.values import cut

BYTES_MAX = 9_000_000  # of the text; the page must stay below 10 MB
_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Packed:
    """The data of a chart as text, and the number of jobs, by submit, that it contains."""

    text: str
    jobs: int


def pack(
    workload: Workload,
    platform: Platform,
    schedules: Sequence[tuple[str, Schedule]],
    most: int = BYTES_MAX,
    events: BoundEvents | None = None,
    explained: Sequence[Mapping[int, str]] = (),
    asked: int | None = None,
) -> Packed:
    """Pack the chart's data for (policy, schedule) pairs over one workload into at most `most` characters.

    The jobs submitted last are omitted if it would be longer.
    events:    whose outages and windows are shaded.
    explained: for each schedule, row of the workload -> why that job waited; asked: the job selected at first.
    """
    order = np.argsort(workload.jobs.submit, kind="stable")
    rows = order
    while True:
        text = _packed(workload, platform, schedules, rows, events, _explanations(rows, explained, asked))
        if len(text) <= most or len(rows) < 2:
            return Packed(text, len(rows))
        rows = order[: int(len(rows) * min(0.95, 0.98 * most / len(text)))]


def _packed(
    workload: Workload,
    platform: Platform,
    schedules: Sequence[tuple[str, Schedule]],
    rows: Ints,
    events: BoundEvents | None,
    chosen: Mapping[str, Any],
) -> str:
    jobs = workload.jobs
    begin, end = window(*(schedule for _, schedule in schedules))
    if len(rows):
        begin, end = min(begin, int(jobs.submit.min())), max(end, int(jobs.submit.max()))
    clock = _Clock.of(begin, end, workload, [schedule for _, schedule in schedules])
    submit = clock.ticks(jobs.submit[rows])
    codes = jobs.user.codes[rows]
    users = np.unique(codes)
    words: dict[str, int] = {word: code for code, word in enumerate(REASONS)}
    columns: list[tuple[str, NDArray[Any]]] = [
        ("submit", np.diff(submit, prepend=0)),
        ("procs", jobs.procs[rows]),
        ("each", jobs.demand[rows, 0]),
        ("walltime", jobs.walltime[rows] // clock.tick),
        ("user", np.searchsorted(users, codes) - (users[:1] < 0).sum()),
    ]
    ties = jobs.project.codes[rows]
    projects = np.unique(ties)
    if (projects >= 0).any():
        columns.append(("project", np.searchsorted(projects, ties) - (projects[:1] < 0).sum()))
    if (jobs.deadline[rows] < NEVER).any():
        columns.append(("due", np.where(jobs.deadline[rows] < NEVER, clock.ticks(jobs.deadline[rows]) - submit, -1)))
    lanes = licence_lanes(workload, platform)
    licences = [*platform.all_licences.items()]
    shown = [licences[i] for i in lanes.tolist()]
    if len(lanes):
        job, lane, copies = licences_of(workload, platform, rows)
        columns += [("licences", np.bincount(job, minlength=len(rows))), ("licence", lane), ("copies", copies)]
    resources = _resources(workload, platform)
    columns += [(f"use{i}", amounts[rows]) for i, (_, amounts) in enumerate(resources)]
    ids = _whole_ids(jobs.job[rows])
    if ids is not None:
        columns.append(("id", np.diff(ids, prepend=0)))
    usual = np.zeros(len(rows), np.int64)
    waits = [_dangled(workload, schedule)[rows] for _, schedule in schedules]
    dangles = any(each.any() for each in waits)
    again = any(s.runs is not None or (s.state > REJECTED).any() for _, s in schedules)
    turns, shares = turns_of(each for _, each in schedules), any(each.shares for _, each in schedules)
    for place, (_, schedule) in enumerate(schedules):
        ran = schedule.ran[rows]
        start, stop, eligible = (np.where(ran, clock.ticks(t[rows]), submit) for t in _instants(schedule))
        held = stop - start
        columns += [
            ("held", held - usual),
            ("back", np.where(ran, eligible - submit, 0)),
            ("wait", np.where(ran, start - eligible, -1)),
            ("why", _why(schedule, rows, words, jobs.deadline[rows])),
        ]
        if dangles:
            columns.append(("dangled", waits[place] // clock.tick))
        usual = held if place == 0 else usual
        box = schedule.take(rows) if again else None
        if turns * len(platform.nodes) > 1:
            columns += _places(schedule.held.take(rows) if box is None else boxes(box).held)
        if box is not None:
            columns += _again(box, clock)
            columns += _turns(box, clock) if shares else ()
    header = {
        **({"states": list(STATES)} if again else {}),
        **({} if events is None else {"away": _away(events, workload, platform, turns, clock, end)}),
        **chosen,
        **({"resources": [chosen for chosen, _ in resources]} if resources else {}),
        **({"epoch": calendar.epoch + clock.begin / SECOND} if (calendar := workload.calendar) else {}),
        "tick": clock.tick / SECOND,
        "length": (end - begin) // clock.tick + 1,
        "jobs": len(rows),
        "cpus": platform.capacity[:, 0].tolist() * turns,
        "nodes": [cut(name) for name in node_names(platform, turns)] if turns * len(platform.nodes) > 1 else [],
        **(
            {"sites": [cut(name) for name in platform.sites], "site": platform.site.tolist() * turns}
            if has_sites(platform)
            else {}
        ),
        **({"turns": turn_names(turns)} if turns > 1 else {}),
        "copies": [copies for _, copies in shown],
        "licences": [cut(name) for name, _ in shown],
        "users": [cut(jobs.user.names[code]) for code in users.tolist() if code >= 0],
        "projects": [cut(jobs.project.names[code]) for code in projects.tolist() if code >= 0],
        "ids": None if ids is not None else [cut(str(job)) for job in jobs.job[rows].tolist()],
        "why": list(words),
        "policies": [name for name, _ in schedules],
        "columns": [(name, len(values)) for name, values in columns],
    }
    head = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    planes = [_planes(values) for _, values in columns]
    data = zlib.compress(b"".join([struct.pack("<I", len(head)), head, *planes]), 6)
    return base64.b64encode(data).decode()


def _resources(workload: Workload, platform: Platform) -> list[tuple[dict[str, Any], Ints]]:
    """Return the resources beside cpus that jobs request: name, text and number of the machine's size, jobs' amounts.

    Sizes are in a unit in which the whole machine is a number of 30 bits.
    """
    rows_of = []
    for name in shared(workload, platform)[1:]:
        held = workload.jobs.tasks * workload.jobs.demand[:, workload.resources.index(name)]
        whole = int(platform.capacity[:, platform.resources.index(name)].sum())
        if whole and held.any() and name not in platform.node_licences:
            unit = max(whole >> 30, 1)
            header = {"name": cut(name), "there": amount(name, whole), "whole": whole / unit}
            rows_of.append((header, np.minimum(held // unit, _LIMIT)))
    return rows_of


def has_sites(platform: Platform) -> bool:
    """Return whether the chart separates sites."""
    return len(platform.sites) > 1


def _explanations(rows: Ints, explained: Sequence[Mapping[int, str]], asked: int | None) -> dict[str, Any]:
    """Return the explanations of jobs among the rows: for each schedule, index of the job -> text."""
    place = {row: i for i, row in enumerate(rows.tolist())}
    texts = [{place[row]: text for row, text in each.items() if row in place} for each in explained]
    return {
        **({"explained": texts} if any(texts) else {}),
        **({"asked": place[asked]} if asked in place else {}),
    }


@dataclass(frozen=True, slots=True)
class _Clock:
    """Time counted in ticks from the first instant; a tick is a second if that is exact, else as fine as possible."""

    begin: int
    tick: int

    @classmethod
    def of(cls, begin: int, end: int, workload: Workload, schedules: Sequence[Schedule]) -> "_Clock":
        times = [workload.jobs.submit, *(t[s.ran] for s in schedules for t in _instants(s))]
        times += [t for s in schedules if s.runs is not None for t in (s.runs.start, s.runs.end)]
        fits = [10**power for power in range(3, 19) if (end - begin) // 10**power < _LIMIT]
        exact = SECOND in fits and not any((t % SECOND).any() for t in times)
        return cls(begin, SECOND if exact else fits[0])

    def ticks(self, times: Ints) -> Ints:
        """Convert times to ticks, rounded down, so that intervals that did not overlap still do not."""
        ticks: Ints = (times - self.begin) // self.tick
        return ticks


def _instants(schedule: Schedule) -> tuple[Ints, Ints, Ints]:
    return schedule.start, schedule.end, np.maximum(schedule.eligible, schedule.submit)


def _dangled(workload: Workload, schedule: Schedule) -> Ints:
    """Return the time for which the last run of each job held its nodes before it made progress."""
    return boxes(schedule).take(np.arange(len(schedule))).dangled(schedule.ready(workload.jobs))


def _why(schedule: Schedule, rows: Ints, words: dict[str, int], deadline: Ints) -> Ints:
    """Return four times the index of the reason of each job's start, or of its rejection; +1 if killed, +2 if late."""
    codes: Ints = schedule.reason[rows].astype(np.int64)
    for at in np.flatnonzero(codes < 0).tolist():
        state = schedule.state[rows[at]]
        cause = STATES[state] if state in (CANCELLED, PENDING) else cut(str(schedule.rejected_for[rows[at]]))
        codes[at] = words.setdefault(cause, len(words))
    killed = schedule.state[rows] == TIMEOUT
    late = schedule.ran[rows] & (schedule.end[rows] > deadline)
    packed: Ints = 4 * codes + 2 * late + killed
    return packed


def _places(held: Ragged) -> list[tuple[str, Ints]]:
    """Return the places of boxes: their numbers of node ranges; first node, length and tasks per node of each range."""
    owner = np.repeat(np.arange(len(held)), np.diff(held.first) // 2)
    node, tasks = held.items[::2], held.items[1::2]
    goes_on = (np.diff(owner) == 0) & (np.diff(node) == 1) & (np.diff(tasks) == 0)
    first = np.flatnonzero(np.concatenate([np.ones(min(len(node), 1), np.bool_), ~goes_on]))
    length = np.diff(first, append=len(node))
    return [
        ("runs", np.bincount(owner[first], minlength=len(held))),
        ("node", node[first]),
        ("nodes", length),
        ("tasks", tasks[first]),
    ]


def _away(
    events: BoundEvents, workload: Workload, platform: Platform, turns: int, clock: _Clock, end: int
) -> list[tuple[int, int, int, int]]:
    """Return the processors and licences that events make unavailable: (low, high row, begin, end).

    The events are outages, windows and smaller capacities. Which processors of a node are affected is unknown; its
    highest rows are drawn, in every turn.
    """
    replay = Outages(events, platform, len(workload)).replay(Holders.none(), Holders.none(), np.zeros(0, np.int64))
    _, floor = lanes(workload, platform, turns)
    nodes, shown = len(platform.nodes), licence_lanes(workload, platform).tolist()
    there = [*platform.capacity[:, 0].tolist(), *platform.copies.tolist()]
    steps = [*replay.nodes, *replay.licences]
    of_row = [*[*range(nodes)] * turns, *(nodes + i for i in shown if i < len(platform.copies))]
    boxes = []
    for row, lane in enumerate(of_row):
        ends = [*(time for time, *_ in steps[lane][1:]), end]
        for (begin, room, _), until in zip(steps[lane], ends, strict=True):
            away = min(there[lane], there[lane] - int(room[0]))
            if away > 0 and begin < until and clock.begin < until and begin < end:
                top = int(floor[row + 1])
                times = (max(begin, clock.begin), min(until, end))
                boxes.append((top - away, top, *((t - clock.begin) // clock.tick for t in times)))
    return boxes


def _again(schedule: Schedule, clock: _Clock) -> list[tuple[str, Ints]]:
    """Return the outcome of each box, jobs first, and for earlier runs the job, start, length and reason."""
    box = boxes(schedule)
    runs = box.take(np.arange(len(schedule), len(box)))
    start = clock.ticks(runs.start)
    return [
        ("how", box.state.astype(np.int64)),
        ("again", runs.job),
        ("began", start),
        ("stayed", clock.ticks(runs.end) - start),
        ("because", 4 * runs.reason.astype(np.int64)),
    ]


def _turns(schedule: Schedule, clock: _Clock) -> list[tuple[str, Ints]]:
    """Return the stretches of turns: box, turn, start and length; and the progress of the last run of each job."""
    each, progress = Stretches.of(schedule), boxes(schedule).progress[: len(schedule)]
    start = clock.ticks(each.start)
    return [
        ("turning", each.box),
        ("turn", each.turn),
        ("since", start),
        ("lasted", clock.ticks(each.end) - start),
        ("made", progress // clock.tick),
    ]


def _whole_ids(ids: NDArray[Any]) -> Ints | None:
    """Return the ids as numbers if each is a number whose text is the same; else None."""
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, TypeError, OverflowError):
        return None
    if len(ids) and (numbers.min() < 0 or numbers.max() > _LIMIT):
        return None
    same = ids.dtype.kind in "iu" or list(map(str, numbers.tolist())) == list(map(str, ids.tolist()))
    return numbers if same else None


def _planes(values: NDArray[Any]) -> bytes:
    clipped = np.clip(values, -_LIMIT - 1, _LIMIT).astype("<i4")
    planes: bytes = clipped.view(np.uint8).reshape(-1, 4).T.tobytes()
    return planes
