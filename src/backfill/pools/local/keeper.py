"""The keeper: a small process that starts jobs and outlives the daemon. Run separately: python -I -S keeper.py HOME.

It forks a supervisor for each attempt. If a supervisor is killed, its job becomes a child of the keeper, which then
records how the job ended.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

if __name__ == "__main__":  # started without the paths of an installation: add the folder of the package
    sys.path.append(os.path.abspath(f"{__file__}/../../../.."))

from backfill.pools.local import groups
from backfill.pools.local.supervisor import Supervisor
from backfill.system import witness
from backfill.system.processes import (
    FAULT,
    become_subreaper,
    end_attempt,
    fault,
    instant,
    lives,
    read_json,
    send_group,
    tell,
    unmarked,
    wake_pipe,
    write_whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from typing import Any

    from backfill.system.processes import Record

SERVE = "serve "  # prefix of a request for a daemon; the folder of its queue follows
IDLE_S = 20.0  # seconds without jobs and daemons after which a keeper exits


class Orphan:
    """A job whose supervisor is gone."""

    def __init__(self, run: str, known: Record, begun: bool) -> None:
        self.run, self.known = run, known  # run folder and processes
        self.begun = begun  # it was released


class Keeper:
    """Forks supervisors, and records the ends of jobs whose supervisors were killed."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.runs: dict[int, str] = {}  # run folders by supervisor
        self.orphans: dict[int, Orphan] = {}  # by the process of the job
        self.daemons: dict[int, socket.socket] = {}  # connections by descriptor
        self.kept: set[int] = set()  # daemons started for clients inside jobs

    def work(self) -> None:
        """Serve requests until there have been no jobs and no daemons for IDLE_S seconds, or the socket is removed."""
        os.chdir(self.home)
        lock = os.open("keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        become_subreaper()
        wakes = wake_pipe(signal.SIGCHLD)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        with suppress(FileNotFoundError):
            os.unlink("keeper.sock")
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind("keeper.sock")
        os.chmod("keeper.sock", 0o600)
        door.listen()
        self.poll = select.poll()
        self.poll.register(door, select.POLLIN)
        self.poll.register(wakes, select.POLLIN)
        self.ours = [lock, wakes, door.fileno()]
        idle_since = time.monotonic()
        while True:
            if self.runs or self.orphans or self.daemons:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > IDLE_S or not os.path.exists("keeper.sock"):
                return
            for fd, _ in self.poll.poll(1000):
                if fd == wakes:
                    os.read(wakes, 512)
                elif fd == door.fileno():
                    daemon = door.accept()[0]
                    self.daemons[daemon.fileno()] = daemon
                    self.poll.register(daemon, select.POLLIN)
                else:
                    self.hear(fd)
            self.reap()

    def hear(self, fd: int) -> None:
        """Handle a request of a daemon to begin an attempt, or the end of its connection."""
        try:
            asked = self.daemons[fd].recv(8192)
        except OSError:
            asked = b""
        if not asked:
            self.poll.unregister(fd)
            self.daemons.pop(fd).close()
            return
        name = os.fsdecode(asked)
        if name.startswith(SERVE):
            self.serve(name.removeprefix(SERVE))
            return
        fault("asked-to-launch")
        try:
            if FAULT == "no-fork":
                raise BlockingIOError
            pid = os.fork()
        except OSError:  # the daemon withdraws an attempt that stays unclaimed for a while
            return
        run = os.path.join(self.home, "run", name)
        if pid:
            self.runs[pid] = run
            return
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in [*self.ours, *self.daemons]:
                os.close(other)
            Supervisor(self.home, run).work()
        except BaseException as error:
            os.write(2, f"supervisor of {name}: {error!r}\n".encode())
        finally:
            os._exit(0)

    def serve(self, folder: str) -> None:
        """Start the daemon of a queue for a client inside a job: one that the job itself started would end with it."""
        command = [sys.executable, "-P", "-m", "backfill.daemon.daemon"]
        try:
            log = os.open(
                os.path.join(folder, "daemon.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            try:
                self.kept.add(
                    os.posix_spawn(
                        sys.executable, command, {**unmarked(), "BACKFILL_HOME": folder}, setsid=True,
                        file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
                    )
                )  # fmt: skip
            finally:
                os.close(log)
        except OSError as error:  # the client notices that no daemon comes up
            os.write(2, f"a daemon of {folder} cannot be started: {error.strerror}\n".encode(errors="replace"))

    def reap(self) -> None:
        """Handle children that ended: supervisors, and processes inherited from killed ones."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            self.kept.discard(pid)
            if pid not in self.orphans and self.lose_supervisors():
                continue
            orphan = self.orphans.pop(pid, None)
            if orphan is not None:
                self.end_rest(pid, orphan)
                self.write_end(orphan, found)
            os.waitpid(pid, 0)
            if orphan is not None:
                tell(self.home, orphan.run)

    def lose_supervisors(self) -> bool:
        """Take over from every supervisor that has ended, whether or not its job has; return whether there was one."""
        gone = [pid for pid in self.runs if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)]
        for pid in gone:
            self.lose_supervisor(self.runs.pop(pid))
            os.waitpid(pid, 0)
        return bool(gone)

    def lose_supervisor(self, run: str) -> None:
        """Take over the job of a supervisor that is gone, unless that job is over.

        Its processes are looked up now, since the job may remove its run folder later.
        """
        if not os.path.exists(os.path.join(run, "exit.json")):
            known, begun = read_json(os.path.join(run, "proc.json")), os.path.exists(os.path.join(run, "released"))
            if not (known and begun):
                began = witness.began(self.home, os.path.basename(run))
                known, begun = known or began, began is not None
            if known and lives(known):
                self.orphans[known["pid"]] = Orphan(run, known, begun)
        tell(self.home, run)

    def end_rest(self, pid: int, orphan: Orphan) -> None:
        """End the processes that an orphan left behind, before its end is recorded and its cpus are given to other
        jobs."""
        send_group(pid, signal.SIGKILL)
        if not (read_json(os.path.join(orphan.run, "spec.json")) or {}).get("keep_descendants"):
            if orphan.known.get("group"):
                groups.end(orphan.known["group"])
            end_attempt(self.home, os.path.basename(orphan.run))

    def write_end(self, orphan: Orphan, found: Any) -> None:
        """Record how an orphan ended; called before it is reaped, so that it never seems gone without a record."""
        run = orphan.run
        there = {name: os.path.exists(os.path.join(run, name)) for name in ("unreleased", "exit.json", "told")}
        if not orphan.begun or there["unreleased"] or there["exit.json"]:
            return
        status = found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        stop = read_json(os.path.join(run, "stop")) or {}
        cause = stop.get("cause") if there["told"] or not stop.get("if_alive") else None
        record = {"status": status, "cause": cause, "detail": None, "by": "keeper", **instant(),
                  "maxrss": None, "cpu": None}  # fmt: skip
        os.makedirs(run, mode=0o700, exist_ok=True)  # the job may have removed it
        write_whole(os.path.join(run, "exit.json"), record)


if __name__ == "__main__":
    Keeper(os.path.abspath(sys.argv[1])).work()
