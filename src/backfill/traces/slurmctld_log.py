"""A debug log of slurmctld: SlurmctldDebug=debug2, DebugFlags=Backfill,BackfillMap, LogTimeFormat=iso8601_ms.

A task of an array is `17_3`, the tasks that still wait together are `17`.

Source: the messages of Slurm 22.05.8, 24.11.5 and 26.05.5 (job_scheduler.c, sched/backfill, job_mgr.c).
"""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from backfill.model.errors import WorkloadError, at, check_path
from backfill.model.slurm_log import Aged, Charge, Decided, LoopPass, SlurmctldLog
from backfill.model.units import SECOND
from backfill.traces.accounting.hosts import host_names
from backfill.traces.files import Source

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)\] (.*)")
_JOB = r"JobId=(\d+(?:_\d+)?)(?:_\*)?(?:\(\d+\))?"
_SUBMIT = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) (?:SLUID=\S+ )?InitPrio=(\d+)")
_SHARE = re.compile(r"Weighted Fairshare priority is ([\d.]+) \*")
_AGE = re.compile(r"Weighted Age priority is ([\d.]+) \*")
_SUM = re.compile(r"Job (\d+) priority: \d+ \+ ")  # behind the parts of a priority
_INITIAL = re.compile(r"initial priority for job (\d+) is")
_PRIORITY = re.compile(r"(?:priority for job |_set_priority.*JobId=)(\d+) is now (\d+)")
_SEVERAL = re.compile(r"JobId=(\d+) multi-partition priorities: (.*)")
_CHARGE = re.compile(r"_apply_new_usage: job (\d+) ran for (\d+) seconds")
_DECAY = re.compile(r"Decay factor over \S+ seconds goes from \S+ -> ([\d.]+)")
_MAIN = re.compile(r"sched: Running job scheduler for (default depth|full queue|all jobs)?")
_ALLOCATE = re.compile(rf"sched: Allocate {_JOB} NodeList=(\S+) #CPUs=")
_TEST = re.compile(rf"BACKFILL: test for {_JOB} Prio=(\d+)(?: Partition=(\S+))?")
_STARTED = re.compile(rf"_start_job: Started {_JOB} in \S+ on (\S+)")
_BLOCKED = re.compile(rf"{_JOB}\.? unable to schedule in Partition=\S+ .*?(?:New|scheduling )-?Reason=(\w+)")
_CREDENTIAL = re.compile(rf"slurm_cred_create: creating credential for {_JOB}")  # from 25.05 on; at a start a
_LAID_OUT = re.compile(r"laying out the \d+ tasks on \d+ hosts (\S+) dist")  # layout and the number of starts follow
_BACKFILLED = "BACKFILL: Jobs backfilled since boot"
_PLAN = re.compile(rf"_dump_job_sched: (?:BACKFILL: )?{_JOB} to start at (\S+), end at \S+ on nodes (\S+)")
_BEYOND = "StartTime set to time after current backfill window. No reservation created"
_OVER = re.compile(rf"_job_complete: {_JOB} done")
_CANCELLED = re.compile(rf"(?:REQUEST_KILL_JOB|job_str_signal|_slurm_rpc_kill_job).*{_JOB}")
_EPILOG = re.compile(rf"_slurm_rpc_epilog_complete: {_JOB} Node=")  # of the last node of the job
_ANSWER = re.compile(r"node_did_resp (\S+)")
_AGENT = re.compile(r"Spawning RPC agent for msg_type (\S+)")
_HEAD = re.compile(r"Tree head got back (\d+)(?: looking for (\d+))?")  # answers of nodes to an agent, of all nodes


def read_slurmctld_log(path: str | Path) -> SlurmctldLog:
    """Read the passes of both loops. Raises WorkloadError if there are none."""
    check_path("slurmctld_log", path)
    source = Source.of(path, WorkloadError)
    reader = _Reader()
    for number, line in enumerate(source.lines(), 1):
        if match := _LINE.match(line):
            reader.take(number, _instant(match[1]), match[2])
    if not reader.passes:
        expected = "expected SlurmctldDebug=debug2 and DebugFlags=Backfill,BackfillMap"
        raise WorkloadError(at(source.file, None, f"has no pass of a loop; {expected}"))
    known = (reader.submits, reader.first, reader.shares, tuple(reader.charges), tuple(reader.ages))
    return SlurmctldLog(source.file, tuple(reader.passes), *known)


@dataclass(eq=False)
class _Agent:
    """What tells nodes of a start or an end: since when, of the end of which job, and how many of them answered."""

    at: int
    job: str = ""
    answers: int = 0
    nodes: int = 0


class _Reader:
    def __init__(self) -> None:
        self.passes: list[LoopPass] = []
        self.submits: dict[str, int] = {}
        self.first: dict[str, int] = {}
        self.shares: dict[str, float] = {}
        self.share = self.age = 0.0
        self.ages: list[Aged] = []
        self.charges: list[Charge] = []
        self.waiting: dict[str, int] = {}
        self.pairs: dict[tuple[str, str], int] = {}
        self.running: dict[str, Decided] = {}
        self.completing: dict[str, Decided] = {}
        self.left: dict[str, set[str]] = {}  # nodes of these that have not answered
        self.untold: list[str] = []  # jobs that are over, with no agent yet
        self.early: list[_Agent] = []  # agents that end a job of which the log does not yet say that it is over
        self.spawned: list[_Agent] = []  # agents that have not said yet how many nodes they tell
        self.agents: list[_Agent] = []  # those that wait for answers
        self.laid_out = ("", "")  # the last job with a credential, and the nodes of the last layout
        self.main: LoopPass | None = None
        self.cycle: LoopPass | None = None

    def take(self, number: int, now: int, text: str) -> None:
        """Take one line, without its date."""
        if match := _SUBMIT.search(text):
            job, priority = match[1], int(match[2])
            self.submits[job], self.first[job], self.waiting[job] = now, priority, priority
        elif match := _SHARE.search(text):
            self.share = float(match[1])
        elif match := _AGE.search(text):
            self.age = float(match[1])
        elif match := _SUM.search(text):
            self.ages.append(Aged(now, match[1], self.age))
        elif match := _INITIAL.search(text):
            self.shares[match[1]], self.share = self.share, 0.0
        elif match := _PRIORITY.search(text):
            if match[1] in self.waiting:
                self.waiting[match[1]] = int(match[2])
        elif match := _SEVERAL.search(text):
            for part, _, points in (each.partition("=") for each in match[2].split(", ")):
                self.pairs[match[1], part] = int(points)
        elif match := _CHARGE.search(text):
            self.charges.append(Charge(now, match[1], float(match[2])))
        elif match := _DECAY.search(text):
            self.charges.append(Charge(now, "", float(match[1])))
        elif match := _MAIN.search(text):
            self.main = self._begin(number, now, backfill=False, full=match[1] != "default depth")
        elif "_attempt_backfill: beginning" in text:
            self.cycle = self._begin(number, now, backfill=True, full=True)
        elif match := _ALLOCATE.search(text):
            self._start(self.main, Decided(match[1], now, host_names(match[2])))
        elif match := _STARTED.search(text):
            self._start(self.cycle, Decided(match[1], now, host_names(match[2])))
        elif match := _BLOCKED.search(text):
            if self.main is not None:
                self.main.reasons[match[1]] = match[2]
        elif match := _CREDENTIAL.search(text):
            self.laid_out = match[1], ""
        elif match := _LAID_OUT.search(text):
            self.laid_out = self.laid_out[0], match[1]
        elif _BACKFILLED in text:
            job, nodes = self.laid_out
            if nodes and job not in self.running:
                self._start(self.cycle, Decided(job, now, host_names(nodes)))
        elif match := _TEST.search(text):
            self.waiting[match[1]] = self.pairs[match[1], match[3] or ""] = int(match[2])
            if self.cycle is not None:
                self.cycle.waiting[match[1]] = self.cycle.pairs[match[1], match[3] or ""] = int(match[2])
        elif match := _PLAN.search(text):
            if self.cycle is not None:
                self.cycle.plans.append(Decided(match[1], _instant(match[2]), host_names(match[3])))
        elif _BEYOND in text:  # bf_window: what was just told is no plan
            if self.cycle is not None and self.cycle.plans:
                self.cycle.plans.pop()
        elif "_attempt_backfill: completed testing" in text:
            if self.cycle is not None:
                self.cycle.ended = True
        elif match := _OVER.search(text):
            self._over(match[1], now)
        elif match := _EPILOG.search(text):
            self.left.pop(match[1], None)
            self.completing.pop(match[1], None)
        elif match := _ANSWER.search(text):
            self._answer(match[1])
        elif match := _AGENT.search(text):
            self._spawn(_Agent(now), ends=match[1] == "REQUEST_TERMINATE_JOB")
        elif match := _HEAD.search(text):
            self._hear(int(match[1]), match[2], now)

    def _begin(self, number: int, now: int, *, backfill: bool, full: bool) -> LoopPass:
        states = (dict(self.waiting), dict(self.pairs), dict(self.running), dict(self.completing))
        self.passes.append(LoopPass(backfill, full, now, number, *states, ended=not backfill))
        return self.passes[-1]

    def _start(self, of: LoopPass | None, started: Decided) -> None:
        if of is not None:
            of.starts.append(started)
        self.waiting.pop(started.job, None)
        self.running[started.job] = started

    def _over(self, job: str, now: int) -> None:
        self.waiting.pop(job, None)
        if (run := self.running.pop(job, None)) is not None:
            self.completing[job], self.left[job] = run, set(run.nodes)
            self.early = [agent for agent in self.early if agent.at > now - SECOND]
            if self.early:
                self.early.pop(0).job = job
            else:
                self.untold.append(job)

    def _spawn(self, agent: "_Agent", *, ends: bool) -> None:
        self.spawned.append(agent)
        if ends and self.untold:
            agent.job = self.untold.pop(0)
        elif ends:
            self.early.append(agent)

    def _hear(self, answers: int, of: str | None, now: int) -> None:
        """Note how many nodes have answered an agent: from 24.11 on node_did_resp may follow a second later."""
        if of is not None:
            agent = self.spawned.pop(0) if self.spawned else _Agent(now)
            agent.nodes = int(of)
            self.agents.append(agent)
            return
        for agent in self.agents:
            if agent.answers < answers <= agent.nodes:
                agent.answers = answers
                if answers == agent.nodes:
                    self.agents.remove(agent)
                    self.left.pop(agent.job, None)
                    self.completing.pop(agent.job, None)
                return

    def _answer(self, node: str) -> None:
        for job in list(self.left):
            self.left[job].discard(node)
            if not self.left[job]:
                del self.left[job], self.completing[job]


def _instant(text: str) -> int:
    stamp = datetime.fromisoformat(text)
    whole = int((stamp.replace(microsecond=0) - datetime(1970, 1, 1)).total_seconds())
    return whole * 1_000_000 + stamp.microsecond
