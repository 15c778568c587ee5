"""The requests of jobs as users made them, from what `sacct` prints with SubmitLine: tasks, cpus per task, nodes.

Source: the manual pages of sbatch and sacct.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from backfill.model.errors import WorkloadError, at
from backfill.model.partitions import joined
from backfill.model.platform import Platform
from backfill.model.slurm_site import SlurmSite
from backfill.model.units import MIB, SECOND, SLURM, parse_size, parse_span
from backfill.model.workload import SPREAD, Counted, Jobs, Labels, Workload
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.records import licences_of
from backfill.traces.accounting.slurm import ids_of, tres_of
from backfill.traces.broken import BrokenLine, BrokenLines, Field, whole
from backfill.traces.files import Source

_NEEDED = ("jobid", "submit", "start", "end", "timelimit", "reqtres", "partition", "account", "user")
_SHORT = {
    "n": "ntasks",
    "N": "nodes",
    "c": "cpus-per-task",
    "t": "time",
    "p": "partition",
    "A": "account",
    "q": "qos",
    "o": "output",
    "J": "job-name",
    "d": "dependency",
    "w": "nodelist",
    "x": "exclude",
    "C": "constraint",
    "a": "array",
    "L": "licenses",
    "G": "gpus",
    "O": "overcommit",
}
_FLAGS = {"exclusive", "parsable", "hold", "requeue", "no-requeue", "contiguous", "overcommit", "spread-job", "wait"}
_NUMBER = re.compile(r"\d+")
_THROTTLE = re.compile(r"%(\d+)")
_LICENCE = re.compile(r"([^:;|=@]+)(?:@[^:=]+)?(?:[:=](\d+))?")
_NICE = re.compile(r"-?\d{1,10}")
_YEAR = 365 * 86_400 * SECOND  # the limit of a job without one
_MINUTE = 60 * SECOND
_MEMORY_MAX = 2**53  # bytes
_NODES = re.compile(r"(\d+)(?:-(\d+))?")


_TRES = Field("ReqTRES", tres_of, "amounts such as cpu=8,mem=32G")
_MEMORY = Field("memory", lambda text: parse_size(text, MIB), "an amount such as 4G")
_LEFT_OUT = {  # option -> what the policy `slurm` leaves out
    "reservation": "reservations",
    "switches": "--switches",
    "contiguous": "--contiguous",
    "spread-job": "--spread-job",
    "bb": "burst buffers",
    "bbf": "burst buffers",
    "licenses": "licences",
    "deadline": "--deadline",
    "overcommit": "--overcommit",
}
_ONLY_IF_LACKING = ("licences",)  # left out unless the platform states them
_LOOPS = {"schedmain": "main", "schedbackfill": "backfill", "schedsubmit": "submit"}


@dataclass(frozen=True, slots=True)
class Logged:
    """The facts of a job in a log beside its request. Times in microseconds; 0 if the log has none."""

    start: int = 0
    end: int = 0
    eligible: int = 0
    nodes: tuple[str, ...] = ()
    loop: str = ""  # that started it: main, backfill or submit; empty if the log does not say
    partition: str = ""  # in which it ran; of a waiting job maybe a list
    named: tuple[str, ...] = ()  # nodes that it asked for
    excluded: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # what it asked for and the policy `slurm` leaves out
    throttle: int = 0  # how many tasks of its array may run at once; 0: any number
    least_limit: int = 0  # --time-min
    lowered: int = 0  # its limit in the log, if that is less than it asked for


@dataclass(frozen=True, slots=True)
class Requests:
    """Jobs as they were requested, the least and the most nodes of each by its id, and what the log says of each."""

    workload: Workload
    nodes: Mapping[str, tuple[int, int]]
    notes: tuple[str, ...]
    logged: Mapping[str, Logged]

    def on_site(self, site: SlurmSite) -> SlurmSite:
        """Return a site that knows what a workload has no column for."""
        logged = self.logged.items()
        return replace(
            site,
            nodes=self.nodes,
            named={job: each.named for job, each in logged if each.named},
            throttles={job.partition("_")[0]: each.throttle for job, each in logged if each.throttle},
            least_limits={job: each.least_limit for job, each in logged if each.least_limit},
            lowered={job: each.lowered for job, each in logged if each.lowered},
        )

    def on(self, platform: Platform) -> "tuple[Requests, Platform]":
        """Return the requests as jobs of a platform: nodes that they name or exclude as constraints, and lists of
        partitions, each of which is one more partition of the platform. What cannot be kept is left out.
        """
        return self._with_licences(platform)._with_nodes(platform)._with_lists(platform)

    def _with_licences(self, platform: Platform) -> "Requests":
        """Return the requests with only the licences that the platform states."""
        asked, place = self.workload.jobs.licences, {name: i for i, name in enumerate(platform.licences)}
        known = np.array([place.get(name, -1) for name in self.workload.licences], np.int64)[asked.items]
        kept = known >= 0
        licences = Counted.of_items(len(self.workload.jobs), asked.jobs[kept], known[kept], asked.counts[kept])
        jobs, logged = self.workload.jobs.replace(licences=licences), dict(self.logged)
        for row in {*asked.jobs[~kept].tolist()} if platform.licences else ():
            job = str(jobs.job[row])
            logged[job] = replace(logged[job], left_out=(*logged[job].left_out, "licences that no dump states"))
        return replace(self, workload=replace(self.workload, jobs=jobs, licences=platform.licences), logged=logged)

    def _with_nodes(self, platform: Platform) -> "Requests":
        """Return the requests with a constraint for nodes that a job excludes, or names where it wants no others.

        A list of nodes that lacks room for the job is left out: on these it could never run.
        """
        jobs, place = self.workload.jobs, {name: node for node, name in enumerate(platform.nodes)}
        texts, ranges, logged = [""] * len(jobs), dict(self.nodes), dict(self.logged)
        of_part = {each.name: {*each.nodes.tolist()} for each in platform.partitions}
        columns = [platform.resources.index(name) for name in self.workload.resources if name in platform.resources]
        for row, job in enumerate(map(str, jobs.job.tolist())):
            each = logged[job]
            if len(each.named) > jobs.tasks[row]:  # sbatch keeps one for each task
                each = logged[job] = replace(each, named=each.named[: jobs.tasks[row]])
            mine, alone = [place[name] for name in each.named if name in place], False
            least, most = ranges[job]
            if each.named:
                demand, room = jobs.demand[row][: len(columns)], platform.capacity[mine][:, columns]
                fit = np.where(demand > 0, room // np.maximum(demand, 1), jobs.tasks[row]).min(axis=1, initial=2**40)
                alone = most == len(each.named)
                there = any({*mine} <= of_part.get(part, set()) for part in jobs.partition[row].split(","))
                roomy = fit.all() and (not alone or fit.sum() >= jobs.tasks[row])
                if len(mine) == len(each.named) and there and roomy:
                    ranges[job] = max(least, len(mine)), max(most, len(mine)) if most else 0
                else:
                    left_out = (*each.left_out, "named nodes without room for the job")
                    each, alone = replace(each, named=(), left_out=left_out), False
                    logged[job] = each
            without = [f"!{name}" for name in each.excluded if name in place]
            only = each.named if alone else ()
            texts[row] = "|".join("&".join([name, *without]) for name in only) or "&".join(without)
        workload = self.workload.with_jobs(jobs.replace(constraint=Labels.of(texts)))
        return replace(self, workload=workload, nodes=ranges, logged=logged)

    def _with_lists(self, platform: Platform) -> "tuple[Requests, Platform]":
        """Return the requests, and the platform with each list of partitions that they ask for, `a,b`, as one more.

        A list with a partition that the platform lacks, or with EXCLUSIVE partitions and others, is left out: then the
        partition in which a job ran counts.
        """
        known, labels = {each.name: each for each in platform.partitions}, self.workload.jobs.partition
        refused = set[str]()
        for name in (name for name in labels.names if "," in name and name not in known):
            parts = [known.get(part) for part in name.split(",")]
            several = [part for part in parts if part is not None]
            if len(several) == len(parts) and len({part.place for part in several}) == 1:
                known[name] = joined(several)
            else:
                refused.add(name)
        requests, logged = self, dict(self.logged)
        if refused:
            names = [labels[row] for row in range(len(labels.codes))]
            for row, job in enumerate(map(str, self.workload.jobs.job.tolist())):
                if names[row] in refused:
                    names[row] = logged[job].partition.partition(",")[0]
                    logged[job] = replace(logged[job], left_out=(*logged[job].left_out, "several unlike partitions"))
            workload = self.workload.with_jobs(self.workload.jobs.replace(partition=Labels.of(names)))
            requests = replace(self, workload=workload, logged=logged)
        return requests, replace(platform, partitions=tuple(known.values()))

    def left_out(self, licences: bool) -> str:
        """Return a sentence about the share of the jobs that ask for what the model leaves out; empty if none do.

        licences: whether the platform states licences.
        """
        asked = [[what for what in each.left_out if not (licences and what in _ONLY_IF_LACKING)]
                 for each in self.logged.values()]  # fmt: skip
        some, kinds = sum(bool(each) for each in asked), Counter(what for each in asked for what in each)
        if not some:
            return ""
        listed = ", ".join(f"{what} {_percent(count, len(asked))}" for what, count in kinds.most_common())
        return (
            f"{_percent(some, len(asked))} of the jobs asked for what the model leaves out ({listed}); their starts, "
            "and those of jobs behind them, are less certain"
        )


def as_requested(workload: Workload, requests: Requests) -> Workload:
    """Return a workload whose jobs ask for tasks, cpus, memory, GPUs and partitions as in these requests, by id."""
    known = {str(name): row for row, name in enumerate(requests.workload.jobs.job.tolist())}
    rows = [(row, known[str(name)]) for row, name in enumerate(workload.jobs.job.tolist()) if str(name) in known]
    if not rows or not {*requests.workload.resources} <= {*workload.resources}:
        return workload
    mine, theirs = np.array(rows, np.int64).T
    jobs, asked = workload.jobs, requests.workload.jobs
    demand = jobs.demand.copy()
    for k, resource in enumerate(requests.workload.resources):
        demand[mine, workload.resources.index(resource)] = asked.demand[theirs, k]
    columns: dict[str, Any] = {"demand": demand, "walltime": jobs.walltime.copy()}
    for row, other in rows:  # the log may have the limit to which the backfill loop has lowered it
        if requests.logged[str(jobs.job[row])].least_limit:
            columns["walltime"][row] = asked.walltime[other]
    for name in ("tasks", "spread", "exclusive", "admin_priority"):
        column = getattr(jobs, name).copy()
        column[mine] = getattr(asked, name)[theirs]
        columns[name] = column
    several = [asked.partition[row] for row in theirs.tolist()]
    if any("," in name for name in several):
        names = [jobs.partition[row] for row in range(len(jobs))]
        for row, name in zip(mine.tolist(), several, strict=True):
            names[row] = name if "," in name else names[row]
        columns["partition"] = Labels.of(names)
    if asked.constraint.names:
        texts = [jobs.constraint[row] for row in range(len(jobs))]
        for row, other in zip(mine.tolist(), theirs.tolist(), strict=True):
            texts[row] = _both(texts[row], asked.constraint[other])
        columns["constraint"] = Labels.of(texts)
    return replace(workload, jobs=jobs.replace(**columns))


def _both(one: str, other: str) -> str:
    """Return a constraint that requires two others; empty stands for none.

    >>> _both("a|b", "c|!d")
    'a&c|a&!d|b&c|b&!d'
    """
    pairs = (filter(None, (some, more)) for some in one.split("|") for more in other.split("|"))
    return "|".join("&".join(pair) for pair in pairs)


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f}%" if share >= 1 else f"{share:.2g}%"


def read_requests(path: Source | str | Path) -> Requests:
    """Read a table of `sacct --parsable2 -X` with ReqTRES and the columns of a job; SubmitLine, if any, is the last.

    What a command line does not say is in the script: then ReqTRES counts, evenly over its nodes.

    Raises WorkloadError if no line can be read.
    """
    source = Source.of(path, WorkloadError)
    names: list[str] = []
    rows, broken = list[dict[str, str]](), BrokenLines(source.file)
    for number, line in enumerate(source.lines(), 1):
        cells = line.rstrip("\r\n").split("|")
        if not names:
            names = [cell.lower() for cell in cells]
            if missing := [name for name in _NEEDED if name not in names]:
                raise WorkloadError(at(source.file, number, f"no column {missing[0]}; expected {', '.join(_NEEDED)}"))
            continue
        if len(cells) < len(names):
            broken.add(number, f"{len(cells)} cells; expected {len(names)}, as in the header")
            continue
        cells[len(names) - 1 :] = ["|".join(cells[len(names) - 1 :])]
        row = dict(zip(names, cells, strict=True))
        try:
            request = row | _request(row)
            rows += [request | {"jobid": task} for task in _tasks(row["jobid"])]
        except BrokenLine as problem:
            broken.add(number, problem)
    if not rows:
        broken.refuse_all()
        raise WorkloadError(at(source.file, None, "contains no jobs"))
    rows.sort(key=lambda row: (row["submit"], int(row["number"])))
    ranges = {row["jobid"]: _range(row) for row in rows}
    return Requests(_workload(source, rows), ranges, tuple(broken.notes), {row["jobid"]: _logged(row) for row in rows})


def _tasks(job: str) -> list[str]:
    """Return the tasks of an array that wait together; the job itself if it is none, or if they cannot be read.

    >>> _tasks("17_[1-3,9-13:2%2]")
    ['17_1', '17_2', '17_3', '17_9', '17_11', '17_13']
    """
    try:
        return ids_of(job)[1]
    except BrokenLine:
        return [job]


def _workload(source: Source, rows: list[dict[str, str]]) -> Workload:
    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([int(row[name]) for row in rows], np.int64)

    labels = {"group": "account", "user": "user", "partition": "listed", "qos": "qos"}
    licences, called_so = licences_of(Labels.of([row["licences"] for row in rows]))
    resources = ("cpus", "memory", *(("gpus",) if column("gpus").any() else ()))
    jobs = Jobs(
        job=np.array([row["jobid"] for row in rows]),
        submit=column("at"),
        runtime=column("ran"),
        walltime=column("limit"),
        tasks=column("tasks"),
        demand=np.column_stack([column(f"{name}_each" if name != "gpus" else name) for name in resources]),
        spread=np.array([SPREAD.index(row["spread"]) for row in rows], np.int8),
        exclusive=np.array([row["whole"] == "1" for row in rows]),
        admin_priority=-column("nice").astype(np.float64),
        licences=licences,
        **{name: Labels.of([row.get(called, "") for row in rows]) for name, called in labels.items()},  # type: ignore[arg-type]
    )
    return Workload(jobs, name=source.name, resources=resources, licences=called_so)


def _logged(row: Mapping[str, str]) -> Logged:
    loops = [_LOOPS[flag] for flag in row.get("flags", "").lower().split(",") if flag in _LOOPS]
    return Logged(
        start=int(row["begun"]),
        end=int(row["over"]),
        eligible=_instant(row.get("eligible", "")),
        nodes=tuple(row["hosts"].split()),
        partition=row["partition"],
        named=tuple(row["named"].split()),
        excluded=tuple(row["excluded"].split()),
        loop=loops[0] if loops else "",
        left_out=tuple(what for what in row["asks"].split("|") if what),
        throttle=int(row["throttle"]),
        least_limit=int(row["least_limit"]),
        lowered=int(row["lowered"]),
    )


def _asks(row: Mapping[str, str], options: Mapping[str, str]) -> list[str]:
    """Return what a job asks for and the policy `slurm` leaves out."""
    found = [what for option, what in _LEFT_OUT.items() if option in options]
    found += ["heterogeneous jobs"] if "+" in row["jobid"] else []
    found += ["a choice of licences"] if "|" in options.get("licenses", "") else []
    return list(dict.fromkeys(found))


def _range(row: Mapping[str, str]) -> tuple[int, int]:
    return int(row["least"]), int(row["most"])


def _request(row: Mapping[str, str]) -> dict[str, str]:
    """Return the request of a job as further cells. Raises BrokenLine."""
    options = options_of(row.get("submitline", ""))
    total = _TRES[row["reqtres"]]

    def count(name: str, usual: int) -> int:
        text = options.get(name, "")
        return whole(f"--{name}", text) if text else usual

    nodes = _NODES.match(options.get("nodes", ""))
    least = whole("--nodes", nodes[1]) if nodes else 0
    most = whole("--nodes", nodes[2] or nodes[1]) if nodes else 0
    per_node, each = count("ntasks-per-node", 0), count("cpus-per-task", 1)
    tasks = max(count("ntasks", max(least, 1) * max(per_node, 1)), 1)
    if total.cpus and tasks * each != total.cpus:  # options are in the script, which no log shows
        least = max(least, total.nodes)
        even = least > 1 and total.cpus % least == 0
        tasks, per_node, each = (least, 1, total.cpus // least) if even else (total.cpus, 0, 1)
    gpus = total.gpus or _gpus(options, tasks, max(least, 1))
    if gpus % tasks:  # stated for each node, and shared by the tasks there
        parts = max(least, total.nodes, 1)
        if "gpus" not in options and gpus % parts == 0 and tasks * each % parts == 0:
            tasks, per_node, each = parts, 1, tasks * each // parts
            least = max(least, parts) if parts > 1 else least
        else:
            gpus = -(-gpus // tasks) * tasks
    for name, amount in (("CPUs", tasks * each), ("GPUs", gpus)):
        whole(f"number of {name}", str(amount))
    memory = 0
    if "mem-per-cpu" in options:
        memory = each * _MEMORY[options["mem-per-cpu"]]
    elif "mem" in options:
        memory = _MEMORY[options["mem"]] // max(per_node, -(-tasks // max(least, 1)))
    elif total.cpus:
        memory = total.memory * each // total.cpus
    if memory > _MEMORY_MAX:
        raise BrokenLine("memory", f"{memory}", f"at most {_MEMORY_MAX} bytes for a task")
    spread = "distinct" if per_node == 1 else "node" if most == 1 else "any"
    start, end = (_instant(row[name]) for name in ("start", "end"))
    limit = row["timelimit"]
    try:
        span = parse_span(limit, SLURM) if "-" in limit or limit.count(":") == 2 else _YEAR
    except ValueError:
        raise BrokenLine("Timelimit", limit, "a span such as 1-02:03:04") from None
    least_limit, logged = _span(options, "time-min", 0), span
    if least_limit:
        span = _span(options, "time", span)
    nice = _NICE.fullmatch(options.get("nice", "0"))
    throttle = _THROTTLE.search(options.get("array", "") or row["jobid"])
    number = _NUMBER.match(row["jobid"])
    if number is None:
        raise BrokenLine("JobID", row["jobid"], "a number such as 17, 17_3 or 17+1")
    try:
        hosts = host_names(row.get("nodelist", ""))
    except ValueError:
        raise BrokenLine("NodeList", row["nodelist"], "names such as n[1-3,7]") from None
    cells = {
        "at": _instant(row["submit"], needed=True), "ran": max(end - start, 0) if start and end else 0, "limit": span,
        "tasks": tasks, "cpus_each": each, "memory_each": memory, "gpus": gpus // tasks, "spread": spread,
        "whole": int("exclusive" in options), "least": least, "most": most,
        "nice": int(nice[0]) if nice else 100,
        "number": number[0], "begun": start, "over": end, "hosts": " ".join(hosts),
        "asks": "|".join(_asks(row, options)), "listed": _partitions(row["partition"], options),
        "throttle": whole("--array", throttle[1]) if throttle else 0,
        "licences": total.licences or _licences(options.get("licenses", "")),
        "least_limit": least_limit, "lowered": logged if logged < span else 0,
        "named": _hosts(options, "nodelist"), "excluded": _hosts(options, "exclude"),
    }  # fmt: skip
    return {name: str(value) for name, value in cells.items()}


def _gpus(options: Mapping[str, str], tasks: int, nodes: int) -> int:
    """Return the GPUs that options ask for.

    >>> _gpus({"gres": "shard:1,gpu:a100:2"}, 4, 2), _gpus({"gpus-per-task": "1"}, 4, 2), _gpus({}, 1, 1)
    (4, 4, 0)
    """
    for option, times in (("gpus", 1), ("gpus-per-task", tasks), ("gpus-per-node", nodes), ("gres", nodes)):
        if count := gpus_of(option, options.get(option, "")):
            return count * times
    return 0


def gpus_of(option: str, text: str) -> int:
    """Return the GPUs that the value of an option states; 0 for none. Raises BrokenLine.

    >>> gpus_of("gres", "gpu"), gpus_of("gres", "nvme:3,gpu:a100:2"), gpus_of("gpus", "h100:4"), gpus_of("gpus", "")
    (1, 2, 4, 0)
    """
    found = 0
    for part in filter(None, text.split(",")):
        name, *rest = re.split("[:=]", part if option == "gres" else f"gpu:{part}")
        if name == "gpu":
            found += whole(f"--{option}", rest[-1]) if rest and rest[-1].isdecimal() else 1
    return found


def _span(options: Mapping[str, str], option: str, usual: int) -> int:
    """Return a time that an option states, in microseconds, in whole minutes as Slurm counts it. Raises BrokenLine."""
    text = options.get(option, "")
    if text.upper() in ("", "UNLIMITED", "INFINITE", "-1", "0"):
        return usual if not text else _YEAR
    try:
        return -(-parse_span(text, SLURM) // _MINUTE) * _MINUTE
    except ValueError:
        raise BrokenLine(f"--{option}", text, f"a time such as {SLURM.expected}") from None


def _licences(text: str) -> str:
    """Return the licences that an option asks for as `a:1;b:2`; empty for a choice such as `a|b`. Raises BrokenLine.

    >>> _licences("a:2,b")
    'a:2;b:1'
    """
    parts = [_LICENCE.fullmatch(part) for part in text.split(",")]
    counts = [(part[1], whole("--licenses", part[2] or "1")) for part in parts if part]
    return ";".join(f"{name}:{count}" for name, count in counts) if all(parts) else ""


def _hosts(options: Mapping[str, str], option: str) -> str:
    """Return the nodes that an option lists, with spaces between; none if it names a file, which no log shows."""
    try:
        return " ".join(host_names(options.get(option, "")))
    except ValueError:
        return ""


def _partitions(ran: str, options: Mapping[str, str]) -> str:
    """Return the partition of a job, or all that it asked for: its command line says them, or `ran` while it waits."""
    parts = list(dict.fromkeys(part for part in options.get("partition", ran).split(",") if part))
    return ",".join(parts) if len(parts) > 1 else ran


def options_of(command: str) -> dict[str, str]:
    """Return the options of a command line of sbatch, srun or salloc by their long names, up to its script.

    >>> options_of("sbatch -n4 --mem=2G -p a,b job.sh -n 7")
    {'ntasks': '4', 'mem': '2G', 'partition': 'a,b'}
    """
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        words = command.split()[1:]
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _FLAGS and name != "nice" and at < len(words):
                value, at = words[at], at + 1
        else:
            name, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            if not value and at < len(words) and name not in ("H", "W", "Q"):
                value, at = words[at], at + 1
        found.setdefault(name, value)
    return found


def _instant(text: str, *, needed: bool = False) -> int:
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        if needed:
            raise BrokenLine("Submit", text, "a date such as 2026-01-02T03:04:05") from None
        return 0
    return int((stamp - datetime(1970, 1, 1)).total_seconds()) * SECOND
