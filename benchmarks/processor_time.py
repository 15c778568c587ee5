"""Processor time of a command, its threads and its workers, on which other work has less effect than on the clock."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
LOOK_S = 0.02  # between two looks; what is used after the last one is missed


@dataclass(frozen=True)
class Used:
    """Seconds of processor time."""

    first: float  # of the command's first thread
    threads: float  # of its other thread that used most
    all_threads: float  # of the whole command, without its workers
    workers: tuple[float, ...]  # of each, the longest first

    @property
    def path(self) -> float:
        """The critical path, if every thread and process has a processor: what one after the other needs at least."""
        return self.first + self.threads + max(self.workers, default=0.0)


def used(words: Sequence[str]) -> Used:
    """Run a command to its end and return what it used. Needs Linux's /proc."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        threads: dict[int, float] = {}
        workers: dict[int, float] = {}
        while command.poll() is None:
            for task in _numbers(Path(f"/proc/{command.pid}/task")):
                threads |= _seconds(Path(f"/proc/{command.pid}/task/{task}"), task)
                for child in _children(Path(f"/proc/{command.pid}/task/{task}")):
                    workers |= _seconds(Path(f"/proc/{child}"), child)
            time.sleep(LOOK_S)
        if command.returncode != 0:
            raise subprocess.CalledProcessError(command.returncode, words)
    first = threads.pop(command.pid)
    return Used(
        first,
        max(threads.values(), default=0.0),
        first + sum(threads.values()),
        tuple(sorted(workers.values(), reverse=True)),
    )


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder)]
    except OSError:  # it has ended
        return []


def _children(task: Path) -> list[int]:
    try:
        return [int(word) for word in (task / "children").read_text().split()]
    except OSError:
        return []


def _seconds(process: Path, number: int) -> dict[int, float]:
    try:
        words = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return {}
    return {number: (int(words[11]) + int(words[12])) / TICKS_S}
