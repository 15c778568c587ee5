"""Accounting records of any batch system as a workload."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backfill.model.clock import Clock
from backfill.model.constraint import alternatives, with_feature
from backfill.model.errors import in_file
from backfill.model.events import listed
from backfill.model.platform import Platform
from backfill.model.precedence import circles
from backfill.model.schedule import NO_TIME
from backfill.model.units import NEVER, SECOND
from backfill.model.units import counted as many
from backfill.model.workload import Counted, Ints, Jobs, Labels, Ragged, Workload
from backfill.traces.accounting.estimate import estimated_platform
from backfill.traces.accounting.stays import LABELS, Hosts, Mask, Numbered, Stays
from backfill.traces.broken import BrokenLines
from backfill.traces.files import EDGES_MAX, Source
from backfill.traces.notes import REPEATED, count_notes, counted, oddities

UNLIMITED = 365 * 86_400 * SECOND  # Slurm's backfill scheduler plans this for a job without a limit (YEAR_MINUTES)
_OWN = ("constraint", "gpu_type", "licences")  # labels that do not become workload columns unchanged
_NUMBERS = re.compile(r"(\d{1,17})\D+(\d{1,17})")


@dataclass(frozen=True, eq=False)
class Accounted:
    """The workload of an accounting log, and where and when each of its jobs ran."""

    workload: Workload
    start: Ints  # microseconds, NO_TIME of jobs that never started; shape (jobs,)
    end: Ints
    hosts: Hosts

    def on(self, machine: Platform | None) -> Workload:
        """Return the workload with its machine; None: the machine estimated from the jobs."""
        if machine is not None:
            return _judged_on(self.workload, machine)
        shown, how = estimated_platform(self.workload, self.start, self.end, self.hosts)
        if shown is None:
            return self.workload
        return replace(self.workload, platform=shown, cpus=shown.cpus, notes=(*self.workload.notes, how))


def _judged_on(workload: Workload, machine: Platform) -> Workload:
    """Return the workload on a machine, without constraints on features that none of its nodes has."""
    stated = {*machine.nodes, *machine.feature_names}
    known: dict[str, str] = {"": ""}
    for text in workload.jobs.constraint.names:
        parts = [[term for term in part.split("&") if term.removeprefix("!") in stated] for part in text.split("|")]
        known[text] = "|".join("&".join(terms) for terms in parts) if all(parts) else ""
    constraint = workload.jobs.constraint
    lost = np.array([*(known[text] != text for text in constraint.names), False])[constraint.codes]
    assumed = counted({"constraint on a feature that no node states: this part is left out": lost})
    if lost.any():
        constraint = Labels.of([known[constraint[row]] for row in range(len(workload))])
    return replace(
        workload.with_jobs(workload.jobs.replace(constraint=constraint), *count_notes(assumed, len(workload))),
        platform=machine,
        cpus=machine.cpus,
        assumed=workload.assumed | assumed,
    )


def workload_of(
    table: Stays,
    source: Source,
    broken: BrokenLines,
    *,
    clock: Clock | None = None,
    notes: Sequence[str] = (),
) -> Accounted:
    """Return the jobs of an accounting log in order of submit.

    table: in any order; it is consumed. Raises WorkloadError if no line can be read.
    """
    if not len(table):
        broken.refuse_all()
    dropped = dict(broken.dropped)
    _drop(table, dropped)
    before = _in_order(table, _stays(table, dropped))
    tasks, demand, resources, of_shape = _shape(table)
    times, of_times = _times(table, before)
    after, think, of_after = _after(table, before)
    constraint, of_constraint = _constraint(table)
    table.labels["partition"], of_partition = _first_partition(table.labels["partition"])
    licences, names = licences_of(table.labels["licences"])
    missing = {**of_times, **of_shape, **of_after, **of_constraint, **of_partition}
    missing["whole nodes: only what was asked for of them is held"] = table.flags["exclusive"]
    assumed = counted(missing)
    labels: dict[str, Any] = {name: table.labels[name] for name in LABELS if name not in _OWN}
    with in_file(source.file):
        jobs = Jobs(
            job=table.job,
            tasks=tasks,
            demand=demand,
            constraint=constraint,
            licences=licences,
            after=after,
            think=think,
            priority=table.priority,
            **times,
            **labels,
        )
    workload = Workload(
        jobs,
        name=source.name,
        resources=resources,
        licences=names,
        sha256=source.sha256,
        clock=clock,
        dropped=dropped,
        assumed=assumed,
        notes=(*count_notes(assumed, len(jobs)), *_reserved(jobs.reservation), *notes, *broken.notes, *oddities(jobs)),
    )
    return Accounted(workload, table.whole["start"], table.whole["end"], table.hosts)


def _reserved(asked: Labels) -> list[str]:
    """Return the note about jobs of advance reservations; empty if there are none."""
    if not (count := int(np.count_nonzero(asked.codes >= 0))):
        return []
    names = listed(sorted({asked.names[code] for code in asked.codes[asked.codes >= 0].tolist()}))
    what = f"{many(count, 'job')} asked for an advance reservation, which only events make"
    return [f"{what} (import slurm-events): {names}"]


def _drop(table: Stays, dropped: dict[str, int]) -> None:
    """Drop the stays that no simulation can use and count them; the first reason counts."""
    whole = table.whole
    ran = whole["start"] != NO_TIME
    runtime = np.where(ran & (whole["end"] != NO_TIME), whole["end"] - whole["start"], 0)
    runtime = np.where(whole["runtime"] != NO_TIME, whole["runtime"], runtime)
    kept = np.ones(len(table), np.bool_)
    for reason, which in {
        "still waiting or running when the log was written": table.flags["unfinished"],
        "end not recorded": (whole["end"] == NO_TIME) & (whole["runtime"] == NO_TIME),
        "run time < 0": runtime < 0,
        "processors <= 0": whole["cpus"] <= 0,
    }.items():
        if count := int(np.count_nonzero(kept & which)):
            dropped[reason] = count
        kept &= ~which
    whole["runtime"] = runtime
    table.take(np.flatnonzero(kept))


def _numbers(ids: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the first two numbers of each id (job and task, cluster and process), the order within an instant."""
    first, second = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    if "".join(ids).isdecimal() and max(map(len, ids)) < 18:
        return np.fromiter(map(int, ids), np.int64, len(ids)), second
    for row, text in enumerate(ids):
        job, underscore, task = text.partition("_")
        task = task if underscore else "0"
        if len(text) < 18 and job.isdecimal() and task.isdecimal():
            first[row], second[row] = int(job), int(task)
        elif match := _NUMBERS.match(text):
            first[row], second[row] = int(match[1]), int(match[2])
    return first, second


def _stays(table: Stays, dropped: dict[str, int]) -> Ints:
    """Give each stay a unique id; return for each the row of the stay after which its job waited again, or -1.

    A record that repeats an earlier one is dropped.
    """
    jobs = table.job.tolist()
    if len(set(jobs)) == len(jobs):
        return np.full(len(table), -1)
    several = {job for job, count in Counter(jobs).items() if count > 1}
    rows_of: dict[str, list[int]] = {job: [] for job in several}
    for row, job in enumerate(jobs):
        if job in several:
            rows_of[job].append(row)
    submit, start, end = (table.whole[name].tolist() for name in ("submit", "start", "end"))
    again = table.flags["again"].tolist()
    kept = np.ones(len(table), np.bool_)
    before = np.full(len(table), -1)
    for job, rows in rows_of.items():
        seen: set[tuple[int, int, int]] = set()
        number, last = 0, -1
        for row in sorted(rows, key=lambda row: (end[row] if start[row] == NO_TIME else start[row], row)):
            what = submit[row], start[row], end[row]
            if what in seen:
                kept[row] = False
                continue
            seen.add(what)
            number += 1
            if number > 1:
                table.job[row] = f"{job}#{number}"
            before[row] = last
            last = row if again[row] else -1
    if (count := int(np.count_nonzero(~kept))) > 0:
        dropped[REPEATED] = count
    left = np.flatnonzero(kept)
    place = np.full(len(table) + 1, -1)
    place[left] = np.arange(len(left))
    table.take(left)
    found: Ints = place[before[left]]
    return found


def _in_order(table: Stays, before: Ints) -> Ints:
    """Sort by the instant from which a job could start, then by number. Returns `before` in the new order.

    A later stay follows the previous one, so the job's first submit only bounds it from below.
    """
    whole, follows = table.whole, before >= 0
    depends = np.zeros(len(table), np.bool_)
    depends[list(table.after)] = True
    held = (whole["eligible"] != NO_TIME) & (whole["eligible"] > whole["submit"]) & ~depends & ~follows
    # A job that leaves without a start may have been held to its end.
    left = np.where(whole["start"] == NO_TIME, whole["end"], NO_TIME)
    table.flags["left held"] = held & (left != NO_TIME) & (whole["eligible"] > left)
    table.flags["held"] = held & ~table.flags["left held"]
    whole["come"] = whole["submit"]
    whole["submit"] = np.where(table.flags["held"], whole["eligible"], whole["submit"])
    for row in np.flatnonzero(follows).tolist():
        whole["submit"][row] = min(whole["submit"][row], whole["submit"][before[row]])
    began = np.where(whole["start"] == NO_TIME, whole["end"], whole["start"])
    job, task = _numbers(table.job.tolist())
    order = np.lexsort((np.arange(len(table)), np.where(follows, began, NO_TIME), task, job, whole["submit"]))
    place = np.full(len(table) + 1, -1)
    place[order] = np.arange(len(table))
    table.take(order)
    return place[before[order]]


def _shape(table: Stays) -> tuple[Ints, Ints, tuple[str, ...], dict[str, Mask]]:
    """Return the number of equal tasks, the demand of a task, the resources, and the assumptions made.

    A task is the part of a job on one node. If the number of nodes is unknown, or the cpus do not divide evenly, the
    job becomes tasks of one cpu each; if it has GPUs, fewer than cpus, the share of each node is rounded up instead.
    """
    cpus, memory, gpus = (table.whole[name] for name in ("cpus", "memory", "gpus"))
    known = table.whole["nodes"] > 0
    nodes = np.clip(table.whole["nodes"], 1, np.maximum(cpus, 1))
    even = (cpus % nodes == 0) & (gpus % nodes == 0) & (known | (gpus > 0))
    single = ~even & (gpus == 0)
    tasks = np.where(single, cpus, nodes)
    demand = [-(-cpus // tasks)]
    resources = ["cpus"]
    if memory.any():
        demand.append(-(-memory // tasks))
        resources.append("memory")
    if gpus.any():
        demand.append(-(-gpus // tasks))
        resources.append("gpus")
    return tasks, np.column_stack(demand), tuple(resources), {
        "cpus that do not divide evenly among the nodes: taken as tasks of one cpu": single & known,
        "cpus or gpus that do not divide evenly among the nodes: rounded up on each": ~even & ~single,
        "heterogeneous job: its components are taken as one job of equal tasks": table.flags["heterogeneous"],
        "memory missing: taken as 0": (memory == 0) & bool(memory.any()),
    }  # fmt: skip


def _first_partition(partitions: Labels) -> tuple[Labels, dict[str, Mask]]:
    """Return one partition per job. A job submitted to several lists all of them until it starts in one."""
    several = np.array([*("," in name for name in partitions.names), False])[partitions.codes]
    if not several.any():
        return partitions, {}
    first = Labels.of([partitions[job].partition(",")[0] for job in range(len(partitions))])
    return first, {"list of partitions: the job is taken to be in the first": several}


def _times(table: Stays, before: Ints) -> tuple[dict[str, Any], dict[str, Mask]]:
    """Return submit, run time, walltime, recorded wait, and the assumptions made."""
    whole, flags = table.whole, table.flags
    submit, runtime = whole["submit"], whole["runtime"]
    depends = before >= 0
    depends[list(table.after)] = True
    until = np.where(
        whole["start"] != NO_TIME, whole["start"], whole["end"]
    )  # a job that never started waited until its end
    early = (until != NO_TIME) & (until < submit)
    known = (until != NO_TIME) & ~early & ~depends
    asked = (whole["walltime"] != NO_TIME) | flags["unlimited"]
    walltime = np.where(flags["unlimited"], np.maximum(UNLIMITED, runtime), whole["walltime"])
    deadline = whole["deadline"]
    times: dict[str, Any] = {
        "submit": submit,
        "runtime": runtime,
        "walltime": np.where(asked, walltime, runtime),
        "requested": asked,
        "waited": np.where(known, until - submit, -1),
    }
    if (has := (deadline != NO_TIME) & (deadline >= submit)).any():
        times["deadline"] = np.where(has, deadline, NEVER)
    return times, {
        "walltime missing: the run time is used": ~asked,
        "no time limit: planned as 365 days, as Slurm does": flags["unlimited"],
        "held at first, by a user, a begin time or a dependency: submitted when it became eligible": flags["held"],
        "cancelled while it was held": flags["left held"],
        "suspended for a while: the run time excludes that": flags["suspended"],
        "start before the submit: the wait is taken as unknown": early,
    }


def _after(table: Stays, before: Ints) -> tuple[Ragged, Ints, dict[str, Mask]]:
    """Return the predecessors of each job (those it names, or its own previous stay) and the delay after their ends.

    A batch system makes a requeued job wait for a while before it may start again.
    """
    follows = before >= 0
    lost, beyond, many = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_), 0
    if not table.after and not follows.any():
        return Ragged.empty(len(table)), np.zeros(len(table), np.int64), {}
    ready = np.maximum(table.whole["come"], table.whole["eligible"])
    pause = np.where(follows, np.maximum(ready - table.whole["end"][before], 0), 0)
    further = "further run of a requeued or preempted job: starts after the previous one has ended"
    if not table.after:
        return Ragged(np.append(0, np.cumsum(follows)), before[follows]), pause, {further: follows}
    rows_of: dict[str, list[int]] = {}  # rows of all stays of a job, and of all tasks of an array
    for row, name in enumerate(table.job.tolist()):
        job = name.partition("#")[0]
        for one in dict.fromkeys((job, job.partition("_")[0])):
            rows_of.setdefault(one, []).append(row)
    lists: list[list[int]] = [[row] if row >= 0 else [] for row in before.tolist()]
    for row, jobs in table.after.items():
        if not follows[row]:  # it waited for them before its first stay
            many += sum(len(rows_of.get(job, ())) for job in dict.fromkeys(jobs))
            if many > EDGES_MAX:  # an array that depends on an array: each of its tasks follows all tasks of the other
                beyond[row] = True
                continue
            lists[row] = [other for job in dict.fromkeys(jobs) for other in rows_of.get(job, ()) if other != row]
            lost[row] = any(job not in rows_of for job in jobs)
    after = Ragged.of(lists)
    again = [rows[0] for rows in circles(after)]  # job numbers that were reused
    if again:
        lost[again] = True
        for row in again:
            lists[row] = []
        after = Ragged.of(lists)
    return (
        after,
        np.where(follows & (np.diff(after.first) > 0), pause, 0),
        {
            further: follows,
            "depends on a job that is not in the log: not waited for": lost,
            f"dependency beyond the first {EDGES_MAX:,} of the log: not waited for": beyond,
        },
    )


def _constraint(table: Stays) -> tuple[Labels, dict[str, Mask]]:
    """Return the node constraint of each job, and the jobs whose constraint cannot be expressed."""
    asked, types = table.labels["constraint"], table.labels["gpu_type"]
    if not (asked.codes >= 0).any() and not (types.codes >= 0).any():
        return Labels.none(len(table)), {}
    many = len(types.names) + 1
    pairs, row_of, pair_of = np.unique(
        asked.codes.astype(np.int64) * many + types.codes, return_index=True, return_inverse=True
    )
    texts, strange = [], np.zeros(len(pairs), np.bool_)
    for place, row in enumerate(row_of.tolist()):
        text, gpu_type = asked[row], types[row]
        try:
            if text:
                alternatives(text)
        except ValueError:
            text, strange[place] = "", True
        try:
            text = with_feature(text, gpu_type) if gpu_type else text
        except ValueError:
            strange[place] = True
        texts.append(text)
    said = Numbered("")
    codes = np.zeros(len(pairs), np.int32)
    for place in np.argsort(row_of).tolist():  # names are in order of first appearance
        codes[place] = said[texts[place]]
    labels = Labels(codes[pair_of], said.in_order)
    return labels, {"constraint that cannot be expressed: left out": strange[pair_of]}


def licences_of(labels: Labels) -> tuple[Counted, tuple[str, ...]]:
    """Return the licences of each job, and their names. labels: texts such as `a:1;b:2`."""
    known: dict[str, int] = {}
    of_text: list[list[tuple[int, int]]] = []
    for text in labels.names:
        pairs = [part.rpartition(":") for part in text.split(";")]
        of_text.append([(known.setdefault(name, len(known)), int(count)) for name, _, count in pairs])
    asked = [
        (row, item, count)
        for row in np.flatnonzero(labels.codes >= 0).tolist()
        for item, count in of_text[labels.codes[row]]
    ]
    items = np.array(asked, np.int64).reshape(-1, 3).T
    return Counted.of_items(len(labels), *items), tuple(known)
