"""Reads the state of Slurm through `squeue` and `scontrol`, with the rights of any user who sees the queue.

Sources: the manual pages of squeue ("output format", "job state codes", "job reason codes") and scontrol ("show"),
slurm.schedmd.com. Tried with 22.05.
"""

import os
import re
import resource
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import gcd
from pathlib import Path
from typing import NamedTuple

from backfill.model.constraint import with_feature
from backfill.model.errors import PlatformError
from backfill.model.units import runs
from backfill.pools.base import Identity
from backfill.pools.comments import KEPT, part_of, with_part
from backfill.pools.marks import MARK, OTHER, mark_of
from backfill.pools.seen import (
    DOWN,
    DRAIN,
    ENDING,
    EXCLUDES,
    NAMES,
    OVER,
    PARTS,
    RANGE,
    RUNNING,
    THROTTLE,
    UNKNOWN,
    UP,
    WAITING,
    Asked,
    Down,
    JobNow,
    NodeNow,
    Snapshot,
)
from backfill.queue.nodes import Amounts, Placement
from backfill.queue.states import CANCELLED, COMPLETED, DEADLINE, FAILED, NODE_FAIL, OUT_OF_MEMORY, TIMEOUT
from backfill.traces.accounting.hosts import host_names
from backfill.traces.accounting.slurm import Tres, span_of, tres_of
from backfill.traces.inventory.nodes import Inventory
from backfill.traces.inventory.slurm import gpus_of, nodes_of_scontrol

CHUNK = 500  # most jobs changed by one call
MANY = 100  # for more jobs than this, Slurm is not asked about each job
TASKS = 500  # most tasks of one array changed by one command
TIMEOUT_S = 10.0  # of one call
SECOND = 1_000_000
UNLIMITED = 365 * 86_400 * SECOND  # the walltime of a job without a limit
APART = "\x1f"  # between fields; a name may contain any other character
NOTHING = ("", "(null)", "N/A", "None", "Unknown")
# Reasons of waiting jobs that a policy may start when resources are free; only Slurm itself can lift other reasons.
ROOM = {"None", "Priority", "Resources", "Licenses", "ReqNodeNotAvail", "Nodes required for job are DOWN", "NodeDown",
        "Cleaning", "Prolog", ""}  # fmt: skip
SUBMITTED = "/submit"  # follows the mark of a job that the submit filter has held
RETURNED = "(released)"  # the AdminComment of jobs that were given back
HELD = ("JobHeldAdmin", "job requeued in held state")
BY_USER = "JobHeldUser"
STATES = {"PD": WAITING, "RQ": WAITING, "RH": WAITING, "RS": RUNNING, "CF": RUNNING, "R": RUNNING, "S": RUNNING,
          "ST": RUNNING, "SI": RUNNING, "SO": RUNNING, "SE": WAITING, "CG": ENDING}  # fmt: skip
ENDS = {"CD": COMPLETED, "F": FAILED, "BF": NODE_FAIL, "CA": CANCELLED, "RV": CANCELLED, "DL": DEADLINE,
        "NF": NODE_FAIL, "OOM": OUT_OF_MEMORY, "PR": CANCELLED, "TO": TIMEOUT}  # fmt: skip
FULL = {"COMPLETED": "CD", "FAILED": "F", "BOOT_FAIL": "BF", "CANCELLED": "CA", "REVOKED": "RV", "DEADLINE": "DL",
        "NODE_FAIL": "NF", "OUT_OF_MEMORY": "OOM", "PREEMPTED": "PR", "TIMEOUT": "TO"}  # fmt: skip
CPU_IDS = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+)")
SILENT = re.compile("ontact slurm controller|timed out|onnection|onfiguration source")  # errors of a call, not of a job
NOW = "Configuration data as of"
QUOTED = re.compile(r"""[\s'"\\]""")  # characters that need quotes in a list of commands for scontrol
PAIR = re.compile(r"(\w+)=(\S*)")
COUNTED = re.compile(r"^Jobs (?:submitted|started|completed|canceled|failed):.*$", re.MULTILINE)  # by sdiag


class Row(NamedTuple):
    """A line of squeue; the names are those of its fields, apart from case."""

    JobArrayID: str
    SubmitTime: str
    UserName: str
    Account: str
    Partition: str
    StateCompact: str
    Reason: str
    TimeLimit: str
    StartTime: str
    EndTime: str
    NumTasks: str
    MaxNodes: str
    tres_alloc: str
    tres_per_node: str
    tres_per_job: str
    tres_per_task: str
    Feature: str
    Licenses: str
    NodeList: str
    OverSubscribe: str
    RestartCnt: str
    exit_code: str
    admin_comment: str
    Dependency: str
    EligibleTime: str
    ReqNodes: str
    Comment: str
    Name: str


FORMAT = ",".join(f"{name.replace('_', '-') if name.startswith('tres') else name}:{APART}" for name in Row._fields)


class SlurmReader:
    """See seen.Reader. A known job is parsed again only if its line has changed."""

    name = "slurm"

    def __init__(self, home: Path) -> None:
        """Create a reader. home: the folder of the queue, which identifies its jobs."""
        self._mark = mark_of(home)
        self._jobs: dict[str, JobNow] = {}  # by line
        self._placed: set[str] = set()  # lines of jobs whose amounts on each node are known
        self._own: dict[Identity, str] = {}  # by number of job or array: why only Slurm can place it, see JobNow
        self._memory = True  # whether Slurm allocates memory
        self._known: frozenset[str] = frozenset()  # floating licences

    def platform(self) -> str:
        """Return the nodes, partitions and licences as the text of a platform file. Raises Down."""
        text = _scontrol("oneliner", "show node", "show partition", "show license", "show config")
        inventory = nodes_of_scontrol("scontrol", text)
        if not _gives_memory(text):
            for node in inventory.nodes.values():
                node.memory = 0
        name = re.search(r"^ClusterName\s*= *(\S+)", text, re.MULTILINE)
        try:
            return inventory.platform(name[1] if name else self.name).to_toml()
        except PlatformError as error:
            raise Down(str(error)) from None

    def look(self) -> Snapshot:
        """Return the present state. Raises Down."""
        begin, used = time.monotonic(), _processor_s()
        lines = _run("squeue", "--noheader", "--all", "--array", "--states=all", f"--Format={FORMAT}").splitlines()
        text = _scontrol("show config", "oneliner", "show node", "show license")
        instance = _instance(text)
        self._memory = _gives_memory(text)
        inventory = nodes_of_scontrol("scontrol", text)
        self._known = frozenset(inventory.licences)
        whole = (line for line in lines if line.count(APART) >= len(Row._fields))  # a name may contain a line feed
        self._jobs = {line: self._jobs.get(line) or self._job(line) for line in whole}
        self._place()
        self._leave()
        nodes = [*_nodes(text, inventory, self._memory)]
        jobs = [*self._jobs.values()]
        took, cpu = time.monotonic() - begin, _processor_s() - used
        return Snapshot(instance, nodes, jobs, inventory.licences, took=took, cpu=cpu)

    def recall(self, some: Sequence[Identity]) -> Sequence[JobNow]:
        """Return the ends of jobs that squeue no longer shows, as far as Slurm's accounting has them. Raises Down."""
        wanted = set(some)
        names = ",".join(sorted({native for native, _ in some}))
        fields = ("JobID", "Submit", "State", "Start", "End", "ExitCode", "NodeList")
        try:
            output = _run("sacct", "-X", "-n", "-P", "--duplicates", f"--jobs={names}", f"--format={','.join(fields)}")
        except Down:  # without accounting the ends are not known
            return ()
        found = []
        for line in output.splitlines():
            native, submit, state, start, end, exit_, nodes = line.split("|")
            identity, compact = (native, _instant(submit) or 0), FULL.get(state.partition(" ")[0], "")
            if identity in wanted and compact:
                code, _, signal = exit_.partition(":")
                found.append(
                    JobNow(*identity, Asked({}, 0), state=OVER, start=_instant(start), end=_instant(end),
                           nodes=[[name, 0] for name in _names(nodes)], ended=ENDS[compact],
                           exit=int(code or 0), signal=int(signal or 0) or None)
                )  # fmt: skip
        return found

    def pulse(self) -> tuple[str, float] | None:
        """See Reader. sdiag prints counts, for which the controller looks at no job."""
        used = _processor_s()
        counts = " ".join(COUNTED.findall(_run("sdiag")))
        return (counts, _processor_s() - used) if counts else None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # ------------------------------------------------------------------

    def _job(self, line: str) -> JobNow:
        row = Row._make(line.split(APART, len(Row._fields) - 1))
        row = row._replace(Name=row.Name.removesuffix(APART))
        compact = row.StateCompact
        state = OVER if compact in ENDS else STATES.get(compact, WAITING)
        reason = row.Reason.partition(",")[0].strip("()")
        start, submit = _instant(row.StartTime), _instant(row.SubmitTime) or 0
        waits = state == WAITING
        filtered = row.admin_comment == self._mark + SUBMITTED
        managed = filtered or row.admin_comment == self._mark
        held = waits and (reason in HELD or (filtered and reason == BY_USER))
        blocked = reason if waits and reason not in ROOM else ""
        if waits and not managed and row.admin_comment.startswith(MARK):
            blocked = OTHER
        begin = start if blocked == "BeginTime" else None
        if managed and held:  # then its reason does not show what else blocks it
            eligible = _instant(row.EligibleTime)
            begin = eligible if eligible is not None and eligible > submit + SECOND else None
            blocked = "Dependency" if row.Dependency not in NOTHING else "BeginTime" if begin else ""
            blocked = BY_USER if part_of(row.Comment) == KEPT else blocked
        status = _number(row.exit_code)
        asked = self._asked(row)
        names = _names(row.NodeList) if not waits else ()
        return JobNow(
            row.JobArrayID,
            submit,
            asked,
            name=row.Name,
            user=row.UserName,
            group=_text(row.Account),
            state=state,
            blocked=blocked,
            begin=begin,
            start=None if waits else start,
            estimate=start if waits and not begin else None,
            nodes=_spread(asked, names),
            restarts=_number(row.RestartCnt),
            end=_instant(row.EndTime) if state == OVER else None,
            ended=ENDS.get(compact, ""),
            exit=(status >> 8) & 255 if state == OVER else None,
            signal=(status & 127) or None,
            managed=managed,
            held=held,
            own="" if managed else _own(row),
            comment=_text(row.Comment),
            waits=reason if waits else "",
            returned=row.admin_comment == RETURNED,
        )

    def _asked(self, row: Row) -> Asked:
        try:
            tres = tres_of("" if row.tres_alloc in NOTHING else row.tres_alloc)
        except ValueError:
            tres = Tres()
        ntasks = max(_number(row.NumTasks), 1)
        cpus = max(tres.cpus, 1)
        exclusive = row.OverSubscribe == "NO"
        nodes = max(tres.nodes, 1)
        if nodes > 1:  # a minimum: Slurm allocates this number if it can
            parts, spread = nodes, "distinct"
        elif ntasks > 1 and row.MaxNodes != "1" and cpus % ntasks == 0 and not exclusive:
            parts, spread = ntasks, "any"
        else:
            parts, spread = 1, "any"
        need = {"cpus": -(-cpus // parts)}
        if self._memory and tres.memory:
            need["memory"] = -(-tres.memory // parts)
        gpu_type, gpus = _gpus(row, tres, nodes, ntasks)
        if gpus:
            need["gpus"] = -(-gpus // parts)
        need |= {name: count for name, count in _licences(row.Licenses) if name in self._known}
        constraint = _text(row.Feature)
        if gpu_type:
            with suppress(ValueError):  # a type that platforms do not know: the job can only be watched
                constraint = with_feature(constraint, gpu_type)
        return Asked(
            need,
            _walltime(row.TimeLimit),
            parts,
            ntasks if ntasks != parts else 0,
            spread,
            constraint,
            row.Partition.partition(",")[0],
            exclusive=exclusive,
        )

    def _leave(self) -> None:
        """Find waiting jobs with requests that squeue does not show; once for each job and array."""
        free = {line: job for line, job in self._jobs.items() if job.state == WAITING and not (job.managed or job.own)}
        arrays = {line: job.native.partition("_")[0] for line, job in free.items()}
        new = {name: free[line].native for line, name in arrays.items() if (name, free[line].submit) not in self._own}
        if new:
            some = ["show job"] if len(new) > MANY else [f"show job {native}" for native in new.values()]
            found = dict(_own_by_job(_scontrol("oneliner", *some)))
            keys = {(arrays[line], job.submit) for line, job in free.items()}
            self._own = {key: self._own[key] if key in self._own else found.get(key[0], "") for key in keys}
        for line, job in free.items():
            if own := self._own[arrays[line], job.submit]:
                self._jobs[line] = replace(job, own=own)

    def _place(self) -> None:
        """Find how many cpus each job on several nodes has on each of them, if not known yet."""
        uneven = {line: job for line, job in self._jobs.items() if _is_uneven(job) and line not in self._placed}
        output = (
            _scontrol("oneliner", "details", *(f"show job {job.native}" for job in uneven.values())) if uneven else ""
        )
        cpus = dict(_cpus_by_node(output))
        for line, job in uneven.items():
            self._jobs[line] = _with_cpus(job, cpus.get(job.native, {}))
        self._placed = {line for line in self._placed if line in self._jobs} | {*uneven}


def _own(row: Row) -> str:
    """Return why only Slurm can place a job, as far as squeue shows it; see seen.JobNow."""
    if "+" in row.JobArrayID:
        return PARTS
    if row.ReqNodes not in NOTHING:
        return NAMES
    try:
        fewest = tres_of("" if row.tres_alloc in NOTHING else row.tres_alloc).nodes
    except ValueError:
        fewest = 0
    return RANGE if _number(row.MaxNodes) > max(fewest, 1) else ""


def _own_by_job(text: str) -> Iterator[tuple[str, str]]:
    """Yield why only Slurm can place jobs, as far as squeue does not show it, by number of job or array."""
    for line in text.splitlines():
        if line.startswith("JobId="):
            pairs = dict(PAIR.findall(line.partition(" JobName=")[0]))
            rest = dict(PAIR.findall(line))  # the last of two counts: a name may contain anything, and comes first
            own = THROTTLE if "ArrayTaskThrottle" in pairs else ""
            own = EXCLUDES if rest.get("ExcNodeList", "") not in NOTHING else own
            yield str(pairs.get("ArrayJobId", pairs["JobId"])), own


def _with_cpus(job: JobNow, cpus: dict[str, int]) -> JobNow:
    """Return a job with these cpus on each of its nodes; unequal numbers are divided into tasks of equal size."""
    if not cpus or len(set(cpus.values())) == 1:
        return job
    each, before = gcd(*cpus.values()), job.asked
    parts = sum(cpus.values()) // each
    need = {
        name: each if name == "cpus" else -(-amount * before.tasks // parts) if name in ("memory", "gpus") else amount
        for name, amount in before.need.items()
    }
    asked = replace(before, need=need, tasks=parts, ntasks=0, spread="any")
    return replace(job, asked=asked, nodes=[[name, count // each] for name, count in cpus.items()])


def _is_uneven(job: JobNow) -> bool:
    return job.state in (RUNNING, ENDING) and len(job.nodes) > 1 and not job.asked.exclusive


def _spread(asked: Asked, names: Sequence[str]) -> Placement:
    """Return the placement on these nodes with equally many tasks on each.

    For tasks that may share nodes it is only a first guess.
    """
    if asked.exclusive:
        return [[name, max(asked.tasks // len(names), 1), True] for name in names]
    return [[name, max(asked.tasks // len(names), 1)] for name in names]


def _cpus_by_node(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the cpus of each job on each node, from `scontrol --details show job`."""
    for line in text.splitlines():
        if "JobId=" not in line:
            continue
        pairs = dict(PAIR.findall(line.partition(" JobName=")[0]))  # a name may contain anything
        found: dict[str, int] = {}
        for nodes, ids in CPU_IDS.findall(line):
            for name in _names(nodes):
                found[name] = len([*_numbers(ids)])
        task = pairs.get("ArrayTaskId", "")
        yield (f"{pairs['ArrayJobId']}_{task}" if task else pairs["JobId"]), found


def _numbers(text: str) -> Iterable[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _nodes(text: str, inventory: Inventory, memory: bool) -> Iterator[NodeNow]:
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        pairs = dict(reversed(PAIR.findall(line)))
        node = inventory.nodes.get(pairs["NodeName"])
        if node is None:
            continue
        there: Amounts = {"cpus": node.cpus}
        if memory and node.memory:
            there["memory"] = node.memory
        if node.gpus:
            there["gpus"] = node.gpus
        state = pairs.get("State", "")
        held = tres_of(pairs.get("AllocTRES", ""))
        yield NodeNow(
            node.name,
            there,
            _state(state),
            state if _state(state) != UP else "",
            {name: amount for name in there if (amount := getattr(held, name))},
        )


def _state(text: str) -> str:
    """Return the state of a node from Slurm's text with flags: `IDLE+DRAIN`, `DOWN*`. A silent node is not down yet."""
    flags = {flag.rstrip("*~#!%$@^-") for flag in text.split("+")}
    if flags & {"DOWN", "POWERING_DOWN", "POWERED_DOWN", "POWER_DOWN"}:
        return DOWN
    if flags & {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "RESERVED", "REBOOT_ISSUED"}:
        return DRAIN
    return UNKNOWN if "UNKNOWN" in flags or text.partition("+")[0].endswith("*") else UP


def _instance(config: str) -> str:
    found = re.search(r"^BOOT_TIME\s*= *(\S+)", config, re.MULTILINE)
    if found is None:
        raise Down("scontrol show config: no BOOT_TIME")
    return found[1]


def _gives_memory(config: str) -> bool:
    found = re.search(r"^SelectTypeParameters\s*= *(\S+)", config, re.MULTILINE)
    return found is not None and "MEMORY" in found[1].upper()


def _gpus(row: Row, tres: Tres, nodes: int, ntasks: int) -> tuple[str, int]:
    """Return the type and the number of gpus of a job."""
    types: tuple[str, ...] = ()
    count = 0
    for text, times in ((row.tres_per_job, 1), (row.tres_per_node, nodes), (row.tres_per_task, ntasks)):
        if text not in NOTHING:
            kinds, n = gpus_of(text.replace("=", ":"))
            types, count = types + kinds, max(count, n * times)
    return (types[0] if len(types) == 1 else tres.gpu_type), tres.gpus or count


def _licences(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and count of each licence in `a:1,b@server:2`."""
    for part in () if text in NOTHING else re.split("[,;|]", text):
        name, _, count = part.partition(":")
        yield name, int(count) if count.isdecimal() else 1


def _walltime(text: str) -> int:
    try:
        return span_of(text)
    except ValueError:  # UNLIMITED, for example
        return UNLIMITED


def _names(text: str) -> tuple[str, ...]:
    try:
        return () if text in NOTHING else host_names(text)
    except ValueError:
        return ()


def _instant(text: str) -> int | None:
    return int(text) * SECOND if text.isdecimal() and text != "0" else None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _text(text: str) -> str:
    return "" if text in NOTHING else text


def _processor_s() -> float:
    """Return the processor time of this thread, and of commands that have ended, in seconds."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + ended.ru_utime + ended.ru_stime


def settings() -> dict[str, str]:
    """Return the settings of Slurm's controller by name, and its time under NOW. Raises Down."""
    text = _scontrol("show config")
    now = re.search(rf"^{NOW} (\d+)", text, re.MULTILINE)
    lines = (line.partition("=") for line in text.splitlines())
    found = {name.strip(): value.strip() for name, equal, value in lines if equal}
    return found | ({NOW: now[1]} if now else {})


def admin_level(account: str) -> str:
    """Return an account's admin level in Slurm's accounting: Administrator, Operator, None; empty if it is not known
    there.

    Raises Down.
    """
    return _run("sacctmgr", "-n", "-P", "show", "user", account, "format=admin").strip()


class SlurmHands:
    """See seen.Hands: uses scontrol and scancel, with the rights of an operator. home: the folder of the queue."""

    forgets = True

    def __init__(self, home: Path) -> None:
        self._mark = mark_of(home)

    def instance(self) -> str:
        """Return when the controller was started. Raises Down."""
        return _instance(_scontrol("show config"))

    def adopt(self, some: Sequence[JobNow]) -> None:
        """See Hands. A job marked but not held is harmless: it is held at the next look."""
        names = _folded([job.native for job in some])
        for first in range(0, len(names), CHUNK):
            part = names[first : first + CHUNK]
            _act(*(f"update JobId={name} AdminComment={self._mark}" for name in part))
            _act(*(f"hold {name}" for name in part))

    def start(self, some: Sequence[tuple[str, Sequence[str]]]) -> None:
        """See Hands. Uses two calls: if the first finds no controller, the second releases nothing."""
        _act(*(f"update JobId={native} ReqNodeList={','.join(nodes)}" for native, nodes in some))
        _act(*(f"release {native}" for native, _ in some))

    def undo(self, some: Sequence[str]) -> None:
        """See Hands."""
        _act(*(f"hold {native}" for native in some), *(f"update JobId={native} ReqNodeList=" for native in some))

    def stop(self, some: Sequence[tuple[str, bool]]) -> None:
        """See Hands."""
        _act(*(f"requeuehold {native}" for native, again in some if again))
        if gone := [native for native, again in some if not again]:
            _act_on("scancel", *gone)

    def comment(self, some: Sequence[tuple[str, str]]) -> None:
        """See Hands. A comment with a space needs its own call: in a list of commands scontrol keeps the quotes."""
        _act(*(f"update JobId={native} Comment={text}" for native, text in some if not QUOTED.search(text)))
        for native, text in some:
            if QUOTED.search(text):
                _act_on("scontrol", "update", f"JobId={native}", f"Comment={text}")

    def release(self, some: Sequence[JobNow]) -> None:
        """See Hands."""
        for first in range(0, len(some), CHUNK):
            part = some[first : first + CHUNK]
            _act(*(f"update JobId={job.native} ReqNodeList=" for job in part))
            _act(*(f"{'uhold' if job.blocked == BY_USER else 'release'} {job.native}" for job in part if job.held))
            self.comment([(job.native, with_part(job.comment, "")) for job in part if part_of(job.comment)])
            _act(*(f"update JobId={job.native} AdminComment={RETURNED}" for job in part))  # last: until then it is ours


def _folded(natives: Iterable[str]) -> list[str]:
    """Return the jobs with tasks of one array in ranges: 12_[1-3,7]. One command for all is 50 times as fast."""
    names, tasks = [], dict[str, list[int]]()
    for native in natives:
        array, _, task = native.partition("_")
        if task.isdecimal():
            tasks.setdefault(array, []).append(int(task))
        else:
            names.append(native)
    for array, some in tasks.items():
        some.sort()
        for first in range(0, len(some), TASKS):
            found = runs(some[first : first + TASKS])
            names.append(f"{array}_[{','.join(f'{one}-{last}' for one, last in found)}]")
    return names


def _scontrol(*commands: str) -> str:
    """Return the output of scontrol for these commands, in one process."""
    return _run("scontrol", said="".join(f"{command}\n" for command in commands))


def _act(*commands: str) -> None:
    """Carry out these commands by scontrol. Errors about single jobs are ignored: the next look shows them. Raises
    Down."""
    _act_on("scontrol", said="".join(f"{command}\n" for command in commands))


def _act_on(*words: str, said: str = "") -> None:
    done = _call(*words, said=said)
    if SILENT.search(done.stderr):
        raise Down(f"{words[0]}: {done.stderr.strip().splitlines()[0]}")


def _run(*words: str, said: str = "") -> str:
    """Return the output of a command; times are seconds since 1970. Raises Down."""
    done = _call(*words, said=said)
    wrong = next((line for line in done.stderr.splitlines() if "error" in line), "")
    if done.returncode or (wrong and not done.stdout.strip()):
        raise Down(f"{words[0]}: {wrong or done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def _call(*words: str, said: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            words, input=said, env=env, capture_output=True, encoding="utf-8", errors="replace", timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise Down(f"{words[0]} did not answer within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise Down(f"{words[0]}: {error.strerror}") from None
