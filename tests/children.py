"""Daemons and planners of queues as forks of the client or daemon that starts them, which has loaded all they need.

To load numpy, numba and the core takes a second of a processor for each queue. A fork has a session, streams, a folder
and an environment of its own, as a process that is started has, and is the child of the same process. Planners that
come once the daemon has opened its store are started as usual.
"""

import atexit
import ctypes
import gc
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MAINS = ("backfill.daemon.daemon", "backfill.daemon.planning")
# Modules read these once, so a child for which one is different is started as usual.
READ_ONCE = ("BACKFILL_CACHE_DIR", "BACKFILL_CHECKED", "BACKFILL_FILE_CPU_S", "BACKFILL_KEPT_S", "BACKFILL_NATIVE")
READ_ONCE += ("NUMBA_DISABLE_JIT", "PYTHONPATH")
OURS: dict[str, str] = {}
ROOM = {"ROOM": "." * (1 << 14)}  # in which the kernel finds the environment of a fork


def load() -> None:
    """Load what daemons and planners load; from now on those that this process starts are forks."""
    from backfill.answers import history, questions, replay  # noqa: F401
    from backfill.daemon import daemon, planning  # noqa: F401
    from backfill.policies import easy  # noqa: F401
    from backfill.system.home import python_path
    from backfill.worlds import aside, live  # noqa: F401

    for name in MAINS:
        del sys.modules[name]  # each child runs its own
    os.environ["PYTHONPATH"] = python_path()
    OURS.update(os.environ)
    if sys.platform == "linux":
        subprocess.Popen = Popen  # type: ignore[misc]


class Popen(subprocess.Popen[Any]):
    """Forks where this process has loaded what the child would."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        _, _, _, _, folder, environment, _, _, _, *pipes = more[:15]
        same = all((environment or {}).get(name) == OURS.get(name) for name in READ_ONCE)
        if not same or [*args][1:3] != ["-P", "-m"] or args[3] not in MAINS or has_store():
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        self.pid = os.fork()
        if not self.pid:
            code, streams = 1, (pipes[0], pipes[3], pipes[5])
            try:
                code = to_its_end(lambda: become([*args][3:], folder, environment, streams))
            finally:
                os._exit(code)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def has_store() -> bool:
    """Return whether a database is open here, which SQLite could not open in a fork: it knows of the locks there."""
    for end in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder is closed by now
            if ".db" in os.readlink(end):
                return True
    return False


def become(words: list[str], folder: str, environment: dict[str, str], streams: tuple[int, ...]) -> None:
    """Be the child that was to be started, as the leader of a session."""
    from backfill.system import processes

    subprocess._cleanup()  # a child of the parent that is forgotten later would close pipes with numbers of our files
    gc.freeze()  # this process closes nothing that its parent had open
    atexit._clear()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.setsid()
    os.chdir(folder)
    for number, file in enumerate(streams):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    take(environment)
    processes.FAULT = environment.get("BACKFILL_FAULT", "")
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


def take(environment: dict[str, str]) -> None:
    """Take over an environment, which the kernel shows too, and open the standard streams."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    if OURS and sys.platform == "linux":
        begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
        text = b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items())
        assert len(text) <= end - begin
        ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def to_its_end(main: Callable[[], Any]) -> Any:
    """Do what a program does, to the end of its process. Return its exit code."""
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0
