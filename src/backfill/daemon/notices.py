"""Commands that are run at the end of a job (`submit --notify`): each runs once, a limited number at a time."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from typing import Any

from backfill.queue.job import Job
from backfill.queue.shapes import Spec
from backfill.queue.variables import inherited
from backfill.system import processes
from backfill.system.home import python_path
from backfill.system.log import note

AT_ONCE = 8
LONGEST_S = 60.0  # after which a command is ended
LOOK_S = 0.1


class Running:
    """A running command. ours: it is a child of this process; otherwise its exit code is unknown."""

    def __init__(self, pid: int, began: int, end: float, label: str, ours: subprocess.Popen[bytes] | None = None):
        self.pid, self.began, self.end, self.label, self._ours = pid, began, end, label, ours

    def is_over(self) -> bool:
        """Return whether it has ended; kill it if it takes too long."""
        late = time.monotonic() > self.end
        if self._ours is None:
            over = processes.begun(self.pid) != self.began
        else:
            over = self._ours.poll() is not None
        if late and not over:
            processes.send_group(self.pid, 9)
            if self._ours is not None:
                self._ours.wait()
            over = True
        if over and self._ours is not None and self._ours.returncode:
            note(f"the command of --notify of job {self.label} ended with {self._ours.returncode}; see notify.log")
        return over


class Notices:
    """The running and the waiting commands."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._waiting: deque[dict[str, Any]] = deque()
        self._running: list[Running] = []

    def start(self, job: Job, spec: Spec) -> None:
        """Run the command of a job that is over."""
        env = {
            **inherited(spec.get("env", {})),
            "BACKFILL_HOME": self._home,
            "BACKFILL_JOB": job.label,
            "BACKFILL_JOB_NAME": job.name,
            "BACKFILL_STATE": job.state,
            "BACKFILL_REASON": job.reason,
            "BACKFILL_EXIT_CODE": str(job.code),
        }
        self._waiting.append({"command": job.notify, "label": job.label, "env": env, "cwd": spec.get("cwd", "/")})
        self.look()

    def look(self) -> bool:
        """Start commands whose turn it is, and kill those that take too long; return whether any are left."""
        self._running = [one for one in self._running if not one.is_over()]
        while self._waiting and len(self._running) < AT_ONCE:
            self._run(**self._waiting.popleft())
        return bool(self._waiting or self._running)

    def close(self) -> None:
        """Hand the waiting commands over to a separate process, which runs them in the same way."""
        if not self._waiting:
            return
        running = [[one.pid, one.began, one.end, one.label] for one in self._running]
        try:
            with tempfile.TemporaryFile("w+", dir=self._home) as file:
                json.dump({"home": self._home, "waiting": [*self._waiting], "running": running}, file)
                file.seek(0)
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "backfill.daemon.notices"], stdin=file, stdout=subprocess.DEVNULL,
                    start_new_session=True, cwd="/",
                    env={**os.environ, "BACKFILL_HOME": self._home, "PYTHONPATH": python_path()},
                )  # fmt: skip
        except OSError as error:
            note(f"{len(self._waiting)} commands of --notify cannot be run: {error.strerror}")
        self._waiting.clear()

    @classmethod
    def handed_over(cls, state: dict[str, Any]) -> "Notices":
        """Return the commands that another process has handed over."""
        made = cls(state["home"])
        made._waiting.extend(state["waiting"])
        made._running = [Running(*one) for one in state["running"]]
        return made

    def _run(self, command: str, label: str, env: dict[str, str], cwd: str) -> None:
        try:
            with open(os.path.join(self._home, "notify.log"), "ab", opener=_private) as log:
                made = subprocess.Popen(
                    ["/bin/sh", "-c", command], env=env, cwd=cwd if os.path.isdir(cwd) else "/",
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            note(f"the command of --notify of job {label} cannot be run: {error.filename}: {error.strerror}")
            return
        self._running.append(Running(made.pid, processes.begun(made.pid), time.monotonic() + LONGEST_S, label, made))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def main() -> None:
    """Run the commands that a daemon has handed over when it ended."""
    notices = Notices.handed_over(json.load(sys.stdin))
    while notices.look():
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
