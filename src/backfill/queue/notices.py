"""Commands that tell somebody of the end of a job (`submit --notify`): each is run once, at most some at a time."""

import os
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from backfill.queue import processes
from backfill.queue.book import Job

AT_ONCE = 8
LONGEST_S = 60.0  # after which a command is ended


def note(text: str) -> None:
    """A line in the log of the daemon; on a disk that is full nobody can be told."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class Notices:
    """Those that run, and those that wait for their turn."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._waiting: deque[tuple[Job, dict[str, Any]]] = deque()
        self._running: list[tuple[subprocess.Popen[bytes], float, str]] = []  # with when they are ended

    def start(self, job: Job, spec: dict[str, Any]) -> None:
        """Run the command of a job that is over."""
        self._waiting.append((job, spec))
        self.look()

    def look(self) -> None:
        """Start those whose turn it is, and end those that take too long."""
        left = []
        for made, end, label in self._running:
            if made.poll() is None and time.monotonic() < end:
                left.append((made, end, label))
                continue
            if made.returncode is None:
                processes.send_group(made.pid, 9)
                made.wait()
            if made.returncode:
                note(f"the command of --notify of job {label} ended with {made.returncode}; see notify.log")
        self._running = left
        while self._waiting and len(self._running) < AT_ONCE:
            self._run(*self._waiting.popleft())

    def close(self) -> None:
        """Start all that wait; they end by themselves."""
        while self._waiting:
            self._run(*self._waiting.popleft())

    def _run(self, job: Job, spec: dict[str, Any]) -> None:
        env = {
            **spec.get("env", {}),
            "BACKFILL_HOME": str(self._home),
            "BACKFILL_JOB": job.label,
            "BACKFILL_JOB_NAME": job.name,
            "BACKFILL_STATE": job.state,
            "BACKFILL_REASON": job.reason,
            "BACKFILL_EXIT_CODE": str(job.code),
        }
        cwd = spec.get("cwd", "/")
        try:
            with open(self._home / "notify.log", "ab", opener=_private) as log:
                made = subprocess.Popen(
                    ["/bin/sh", "-c", job.notify], env=env, cwd=cwd if os.path.isdir(cwd) else "/",
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            note(f"the command of --notify of job {job.label} cannot be run: {error.filename}: {error.strerror}")
            return
        self._running.append((made, time.monotonic() + LONGEST_S, job.label))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
