"""Gangs on an HTCondor: one job of the vanilla universe per node, submitted when the gang is to start.

The dedicated scheduler, HTCondor's own way to run gangs, is not used: that of HTCondor 23.9.6 ends with signal 11 when
gangs of several nodes wait.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backfill.pools.htcondor import HELD, HTCondorReader
from backfill.pools.htcondor_hands import HTCondorHands
from backfill.pools.marks import OTHER, mark_of
from backfill.pools.seen import ENDING, OVER, RUNNING, UP, JobNow
from backfill.queue.states import COMPLETED

MIB = 2**20
AT_WORK = (RUNNING, ENDING, OVER)


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang to be started now. nodes: number of tasks on each. memory: per task, in bytes."""

    name: str
    seconds: float
    nodes: Mapping[str, int]
    memory: int


@dataclass(slots=True)
class Begun:
    """A gang that was submitted. parts: the node of each of its jobs. over: its jobs that have ended."""

    parts: dict[str, str]
    over: set[str] = field(default_factory=set)


class GangFailed(Exception):
    """A gang did not run as requested."""


class HTCondorGangs:
    """Runs gangs in the pool that the environment's CONDOR_CONFIG names. home: a folder whose name marks the jobs.

    Raises MissingExtra.
    """

    def __init__(self, home: Path) -> None:
        self._reader = HTCondorReader()
        self._hands = HTCondorHands(home, self._reader)
        self._mark = mark_of(home)  # also the name of the jobs
        self._begun: dict[str, Begun] = {}

    def version(self) -> str:
        """Return the version of HTCondor. Raises Down."""
        return self._hands.version()

    def platform(self) -> str:
        """Return the nodes as the text of a platform file. Raises Down."""
        return self._reader.platform()

    def occupied(self) -> str:
        """Return why nothing can be measured now; empty if all nodes are up and there are no jobs. Raises Down."""
        seen = self._reader.look()
        if bad := [node.name for node in seen.nodes if node.state != UP]:
            return f"node {bad[0]} is not up"
        jobs = [job.native for job in seen.jobs if job.state != OVER]
        return f"there are other jobs, {jobs[0]} for one" if jobs else ""

    def start(self, some: Sequence[Gang]) -> None:
        """Start gangs on the nodes chosen for them. Raises Down; then it is not known which of them run."""
        numbers = self._hands.submit(
            [
                {
                    "seconds": gang.seconds,
                    "parts": [
                        {"pin": self._reader.pin(node), "cpus": tasks, "memory": tasks * gang.memory // MIB}
                        for node, tasks in gang.nodes.items()
                    ],
                }
                for gang in some
            ]
        )
        for gang, jobs in zip(some, numbers, strict=True):
            self._begun[gang.name] = Begun(dict(zip(jobs, gang.nodes, strict=True)))

    def look(self) -> tuple[list[str], list[str]]:
        """Return the gangs whose parts have all begun, and those whose parts have all ended; ended gangs are reported
        once.

        Raises Down, and GangFailed.
        """
        jobs = {job.native: job for job in self._reader.look().jobs}
        runs, over = [], []
        for name, gang in self._begun.items():
            for native, node in gang.parts.items():
                if native in jobs and _is_over(name, jobs[native], node):
                    gang.over.add(native)
            if all(native in gang.over or _runs(jobs.get(native)) for native in gang.parts):
                runs.append(name)
            if len(gang.over) == len(gang.parts):
                over.append(name)
        for name in over:
            del self._begun[name]
        return runs, over

    def remove(self) -> None:
        """End all gangs, including gangs submitted by a request whose answer was lost. Raises Down."""
        self.close()  # an interrupted request may have left an answer unread
        jobs = (job for job in self._reader.look().jobs if job.state != OVER)
        self._hands.stop([(job.native, False) for job in jobs if job.name == self._mark])
        self._begun.clear()

    def close(self) -> None:
        """End the processes of the reader and of the actions."""
        self._reader.close()
        self._hands.close()


def _runs(job: JobNow | None) -> bool:
    return job is not None and job.state in AT_WORK and bool(job.nodes)


def _is_over(gang: str, job: JobNow, node: str) -> bool:
    """Return whether a part of a gang has ended. Raises GangFailed."""
    if job.nodes and job.nodes[0][0] != node:
        raise GangFailed(f"job {job.native} of {gang} runs on {job.nodes[0][0]}, not on {node}")
    if job.blocked not in ("", OTHER):  # this reader is not a queue, but the jobs have a mark
        reason = "" if job.blocked == HELD else f": {job.blocked}"
        raise GangFailed(f"HTCondor holds job {job.native} of {gang}{reason}")
    if job.state == OVER and job.ended != COMPLETED:
        raise GangFailed(f"job {job.native} of {gang} did not run to its end: {job.ended.lower()}")
    return job.state == OVER
