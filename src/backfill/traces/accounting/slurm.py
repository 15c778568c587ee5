"""Slurm's text formats, shared by `sacct --parsable2` and `sacct --json`: states, amounts, time spans, constraints.

Source: the manual pages of sacct ("Job Accounting Fields", "Job State Codes") and sbatch, slurm.schedmd.com.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from backfill.model.constraint import is_feature, is_gpu_type
from backfill.model.schedule import NO_TIME
from backfill.model.units import MIB, SACCT, SECOND, counted, parse_size, parse_span
from backfill.model.workload import Ints
from backfill.traces.accounting.stays import Record, check_amounts
from backfill.traces.broken import BrokenLine, BrokenLines, Field
from backfill.traces.fixed import Texts, number

UNFINISHED = {"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT",
              "REQUEUE_HOLD", "RESV_DEL_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}  # fmt: skip
AGAIN = {"REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING", "BOOT_FAIL"}  # another record of the job follows
STATES = UNFINISHED | AGAIN | {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "REVOKED",
                               "LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB", "POWER_UP_NODE"}  # fmt: skip
PER_CPU = 1 << 31  # the bit by which Slurm marks memory as per cpu; old versions printed it with the number
PER_CPU_64 = 1 << 63  # the same in later versions
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)B?([nc]?)")
_DEPENDENCY = re.compile(r"(?:--dependency[= ]|-d ?)(['\"]?)([a-z]+:[^\s'\"]+)\1")
_TASKS_MAX = 10**6  # of a waiting array
_PLAIN = {"cpu", "mem", "node"}
_JOB_IDS = re.compile(r":(\d+(?:_\d+)?)(?:\+\d+)?")


class Tres(NamedTuple):
    """Trackable resources of a whole job, 0 if unstated."""

    cpus: int = 0
    memory: int = 0  # bytes
    nodes: int = 0
    gpus: int = 0
    gpu_type: str = ""  # only if there is exactly one type
    licences: str = ""  # `a:1;b:2`
    others: tuple[str, ...] = ()  # ignored generic resources

    @classmethod
    def of(cls, amounts: dict[str, int]) -> "Tres":
        """Build from amounts by name, such as `gres/gpu:a100`; memory in bytes."""
        if amounts.keys() <= _PLAIN:
            return cls(cpus=amounts.get("cpu", 0), memory=amounts.get("mem", 0), nodes=amounts.get("node", 0))
        typed = {name[9:]: n for name, n in amounts.items() if name.startswith("gres/gpu:") and n}
        licences = {name[8:]: n for name, n in amounts.items() if name.startswith("license/") and n}
        types = [name for name in typed if is_gpu_type(name)]
        return cls(
            cpus=amounts.get("cpu", 0),
            memory=amounts.get("mem", 0),
            nodes=amounts.get("node", 0),
            gpus=amounts.get("gres/gpu", 0) or sum(typed.values()),
            gpu_type=types[0] if len(typed) == len(types) == 1 else "",
            licences=";".join(f"{name}:{n}" for name, n in licences.items() if ":" not in name and ";" not in name),
            others=tuple(n for n in amounts if n.startswith("gres/") and not n.startswith("gres/gpu") and amounts[n]),
        )


@lru_cache(maxsize=1 << 16)
def tres_of(text: str) -> Tres:
    """Parse `billing=12,cpu=12,gres/gpu:a100=2,mem=31000M,node=1`. Raises ValueError."""
    amounts: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(text)
        if name == "mem":
            amounts[name] = memory_of(value)[0]
        elif name in ("cpu", "node") or name.startswith(("gres/", "license/")):
            amounts[name] = int(value)
            if not 0 <= amounts[name] < 2**53:
                raise ValueError(text)
    return Tres.of(amounts)


@lru_cache(maxsize=1 << 16)
def memory_of(text: str) -> tuple[int, str]:
    """Return bytes and their scope: `n` per node, `c` per cpu, "" per job. Without a unit, MB. Raises ValueError.

    If the number itself has the per-cpu bit, that counts, whatever letter follows.
    """
    if text in ("", "0", "?"):
        return 0, ""
    match = _MEMORY.fullmatch(text)
    if not match:
        raise ValueError(text)
    number, unit, each = match.groups()
    if "." not in number and unit in ("", "M"):
        for mark in (PER_CPU_64, PER_CPU):
            if int(number) >= mark:
                number, each = str(int(number) - mark), "c"
    return parse_size(number + unit, MIB), each


@lru_cache(maxsize=1 << 16)
def span_of(text: str) -> int:
    """Parse `1-02:03:04`, `02:03:04` or `03:04` (minutes and seconds) to microseconds. Raises ValueError."""
    return parse_span(text, SACCT)


def spans_of(texts: Sequence[str]) -> tuple[Ints, list[int]]:
    """Parse a column of spans, NO_TIME for empty texts; also return the rows whose text is not a span."""
    spans, left, fixed = np.full(len(texts), NO_TIME), np.ones(len(texts), np.bool_), Texts(texts)
    for form in ("00:00:00", "0-00:00:00", "00-00:00:00"):
        rows, digits = fixed.digits(form)
        hours = 24 * number(digits[:, :-6]) + number(digits[:, -6:-4])
        spans[rows] = (3600 * hours + 60 * number(digits[:, -4:-2]) + number(digits[:, -2:])) * SECOND
        left[rows] = False
    bad = list[int]()
    for row in np.flatnonzero(left).tolist():
        try:
            spans[row] = span_of(texts[row]) if texts[row] else NO_TIME
        except ValueError:
            bad.append(row)
    return spans, bad


@lru_cache(maxsize=1 << 12)
def state_of(text: str) -> str:
    """Return a state without its suffix: `CANCELLED by 1000` and `CANCELLED+` are CANCELLED. Raises ValueError."""
    word = text.split(" ", 1)[0].rstrip("+")
    if word not in STATES:
        matches = [state for state in STATES if len(word) > 4 and state.startswith(word)]
        if len(matches) != 1:
            raise ValueError(text)
        word = matches[0]
    return word


@lru_cache(maxsize=1 << 12)
def constraint_of(text: str) -> str:
    """Translate a `--constraint` into a workload's notation: `[a|b]` and `a*2` lose their counts and their sameness.

    What cannot be translated is returned unchanged, and `records` counts it. Raises ValueError if it is no constraint.
    """
    if re.search(r"\s|^[&|,]|[&|,]$|\]\||\|\[", text) or text.count("[") != text.count("]"):
        raise ValueError(text)
    plain = re.sub(r"\*\d+", "", text.strip())
    if plain.startswith("[") and plain.endswith("]") and plain.count("[") == 1:
        plain = plain[1:-1]
    if plain.startswith("(") and plain.endswith(")") and plain.count("(") == 1:
        plain = plain[1:-1]
    return plain.replace(",", "&") if all(map(is_feature, re.split(r"[&|,]", plain))) else text


@lru_cache(maxsize=1 << 12)
def dependencies_of(command: str) -> tuple[str, ...]:
    """Return the jobs that a command line's `--dependency` names; () if it has none, or only `singleton`."""
    return tuple(job for match in _DEPENDENCY.finditer(command) for job in _JOB_IDS.findall(match[2]))


def task_numbers(text: str) -> list[str]:
    """Return the array tasks that `[1-3,7%2]` represents. Raises ValueError."""
    tasks: list[str] = []
    for part in text.strip("[]").partition("%")[0].split(","):
        if part == "...":  # sacct truncated the list
            continue
        span, _, step = part.partition(":")
        first, dash, last = span.partition("-")
        stop = int(last if dash else first)
        if not 0 <= stop - int(first) <= _TASKS_MAX - len(tasks):
            raise ValueError(text)
        tasks += map(str, range(int(first), stop + 1, int(step or 1)))
    return tasks


_TASKS = Field("JobID", task_numbers, "tasks such as 123_[1-3,7]")


def ids_of(job: str) -> tuple[str, list[str]]:
    """Parse a job id of sacct into its heterogeneous-job leader (or "") and the expanded ids.

    Waiting tasks of an array expand to several ids. Raises BrokenLine.
    """
    array, bracket, rest = job.partition("_[")
    if bracket:
        return "", [f"{array}_{task}" for task in _TASKS["[" + rest]]
    leader, plus, _ = job.partition("+")
    return leader if plus else "", [job]


def whole_jobs(records: Iterable[tuple[str, Record]], broken: BrokenLines) -> Iterator[Record]:
    """Merge the components of each heterogeneous job, those with the same leader; yield the other records unchanged.

    records: the leader of the heterogeneous job, or "", and the record. broken: counts jobs whose sum is too large.
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
    for record in parts.values():
        try:
            check_amounts(record)
        except BrokenLine as problem:
            broken.add(None, f"job {record.job}: {problem}")
        else:
            yield record


def status_of(state: str) -> str:
    """Return a state as written in the column `status`."""
    return state.lower()


def left_aside(others: dict[str, int]) -> list[str]:
    """Return notes on the generic resources that are ignored."""
    each = ", ".join(f"{name} ({counted(jobs, 'job')})" for name, jobs in others.items())
    return [f"resources that are ignored: {each}"] if others else []
