"""A supervisor: starts one attempt, ends it at its limit or on request, and records how it ended.

The keeper forks a supervisor for each attempt. It holds the lock of the run folder as long as it lives; `attempts.py`
describes the files of that folder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import signal
import time
from contextlib import suppress

from backfill.pools.local import groups
from backfill.system import witness
from backfill.system.processes import (
    become_subreaper,
    begun,
    children,
    descendants,
    fault,
    instant,
    memory_of,
    note_told,
    read_json,
    send,
    send_group,
    sync,
    tell,
    wake_pipe,
    write_whole,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from typing import NoReturn

    from backfill.system.processes import Record

STAND_STILL_S = 0.003  # interval of checks whether a job has stopped, as it was asked to
STOP_S = 5.0  # interval of checks for a request to stop, in case its signal was lost
MEMORY_S = 1.0  # interval of checks of the memory of a job that has a limit
# Without a limit, memory is measured for its peak only: intervals grow with the age of the job up to PEAK_S, and
# measuring takes at most 1/PEAK_SHARE of a cpu.
FIRST_PEAK_S, PEAK_S, PEAK_SHARE = 0.2, 10.0, 200


def become_job(spec: Record, go: int, errors: int) -> None:
    """Wait to be released, then become the job. Never returns."""
    run = spec["run"]
    try:
        os.setsid()
        if os.read(go, 1) != b"g":  # the supervisor is gone
            os.close(os.open(os.path.join(run, "unreleased"), os.O_WRONLY | os.O_CREAT, 0o600))
            sync(run)
            os._exit(125)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1,
                       signal.SIGCHLD):  # fmt: skip
            signal.signal(number, signal.SIG_DFL)
        _set_up(spec, errors)
    except OSError as error:
        _fail(errors, "exec", f"{error.filename or spec['argv'][0]}: {error.strerror}", 126)
    except BaseException as error:
        _fail(errors, "exec", repr(error), 126)
    finally:
        os._exit(126)  # whatever went wrong, this process must not act as a supervisor


def _set_up(spec: Record, errors: int) -> None:
    os.umask(spec.get("umask", 0o077))
    cwd = spec.get("cwd", "/")
    try:
        os.chdir(cwd)
    except OSError as error:
        _fail(errors, "exec", f"working directory {cwd}: {error.strerror}", 126)
    if spec.get("affinity") and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, spec["affinity"])
    try:
        append = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if spec.get("truncate") else os.O_APPEND)
        streams = [os.open(spec.get("input") or os.devnull, os.O_RDONLY), os.open(spec["output"], append, 0o666)]
        same = spec.get("error") in (None, spec["output"])
        streams.append(os.dup(streams[1]) if same else os.open(spec["error"], append, 0o666))
    except OSError as error:
        _fail(errors, "output", f"{error.filename}: {error.strerror}", 126)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.set_inheritable(errors, False)
    low = min(3, errors)
    os.closerange(low, errors)
    os.closerange(errors + 1, 65_536)
    argv, env = spec["argv"], spec["env"]
    if spec.get("nice") is not None:
        with suppress(PermissionError):  # a value below the keeper's requires a privilege
            os.setpriority(os.PRIO_PROCESS, 0, spec["nice"])
    for name, (soft, hard) in spec.get("limits", {}).items():  # last, since they bind this process as well
        _limit(getattr(resource, name, None), soft, hard)
    try:
        if "/" in argv[0]:
            os.execve(argv[0], argv, env)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"backfill: {argv[0]}: {error.strerror}\n".encode())
        _fail(errors, "exec", f"{argv[0]}: {error.strerror}", 127 if error.errno == errno.ENOENT else 126)


def _limit(which: int | None, soft: int, hard: int) -> None:
    """Set a limit to its value at submit; without a privilege at most to the hard limit of this process."""
    if which is None:
        return
    try:
        resource.setrlimit(which, (soft, hard))
    except (ValueError, PermissionError):
        most = resource.getrlimit(which)[1]
        hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(which, (hard if soft == resource.RLIM_INFINITY else min(soft, hard), hard))


def _fail(errors: int, cause: str, detail: str, code: int) -> NoReturn:
    os.write(errors, json.dumps({"cause": cause, "detail": detail}).encode())
    os._exit(code)


class Supervisor:
    """One attempt, from its claim to the record of its end."""

    def __init__(self, home: str, run: str) -> None:
        self.home, self.run = home, run
        self.cause: str | None = None
        self.detail: str | None = None
        self.kill_at: float | None = None
        self.over_memory = 0
        self.group = ""  # the control group of the attempt; empty if it has none
        self.by_kernel = False  # whether the kernel enforces its memory limit
        self.peak = 0  # highest measured memory of all processes, in bytes
        self.peak_at = 0.0  # when it is measured next

    def path(self, name: str) -> str:
        """Return the path of a file in the run folder."""
        return os.path.join(self.run, name)

    def work(self) -> None:
        """Run the attempt from its claim to the record of its end."""
        os.setsid()
        become_subreaper()
        lock = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            claim = os.open(self.path("claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:  # another supervisor has it
            return
        self.claim = claim  # stays open, so that its inode number is not reused
        fault("claimed")
        with open(self.path("exit.json.tmp"), "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 4096)
        self.spec = read_json(self.path("spec.json"))
        self.spec["run"] = self.run
        self.wakes = wake_pipe(signal.SIGUSR1)
        if not self.start():
            return
        status, used = self.watch()
        ended = instant()
        if self.group:
            self.peak = max(self.peak, groups.used(self.group)[1])
            if self.by_kernel and self.cause is None and status and groups.was_out_of_memory(self.group):
                self.cause = "memory"
        self.reap()
        fault("before-exit-record")
        peak, cpu = max(used.ru_maxrss * 1024, self.peak), int((used.ru_utime + used.ru_stime) * 1e6)
        record = {"status": status, "cause": self.cause, "detail": self.detail, "by": "supervisor", **ended,
                  "maxrss": peak, "cpu": cpu}  # fmt: skip
        os.makedirs(self.run, mode=0o700, exist_ok=True)  # the job may have removed it
        write_whole(self.path("exit.json"), record)
        fault("after-exit-record")
        tell(self.home, self.run)

    def start(self) -> bool:
        """Fork the job, record its processes, and release it once all of that is on the disk.

        Returns False if the attempt was revoked meanwhile; then the job never begins.
        """
        go, release = os.pipe2(os.O_CLOEXEC)
        self.errors, errors = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(release)
            become_job(self.spec, go, errors)
        os.close(go)
        os.close(errors)
        made = groups.make(self.home, os.path.basename(self.run), self.spec.get("memory", 0))
        if made and groups.enter(made[0], self.pid):
            self.group, self.by_kernel = made
        elif made:
            groups.remove(made[0])
        record = {**instant(), "pid": self.pid, "begun": begun(self.pid),
                  "supervisor": os.getpid(), "supervisor_begun": begun(os.getpid()), "since": time.monotonic(),
                  "group": self.group, "memory_by": "kernel" if self.by_kernel else "supervisor"}  # fmt: skip
        sync(self.path("spec.json"))
        write_whole(self.path("proc.json"), record, durable=False)
        sync(self.run)
        sync(os.path.dirname(self.run))
        fault("processes-known")
        if not witness.release(self.home, os.path.basename(self.run), record, self.unrevoked):
            return False
        os.close(os.open(self.path("released"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.write(release, b"g")
        os.close(release)
        fault("released")
        self.since = time.monotonic()
        self.peak_at = self.since + FIRST_PEAK_S
        tell(self.home, self.run)
        return True

    def unrevoked(self) -> bool:
        """Return whether the claim of this run folder is still ours, so that the attempt was neither revoked nor
        removed."""
        try:
            return os.path.samestat(os.stat(self.path("claim")), os.fstat(self.claim))
        except OSError:
            return False

    def watch(self) -> tuple[int, resource.struct_rusage]:
        """Wait for the end of the job, and end it at its limit or on request. Returns its status and resource usage."""
        process = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        poll = select.poll()
        for fd in (process, self.errors, self.wakes):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        spec = self.spec
        end = self.since + spec["walltime_s"]
        warn = spec.get("warn")  # [signal, seconds before the limit, whether only the first process gets it]
        while True:
            now = time.monotonic()
            stop = read_json(self.path("stop"))
            if self.cause is None and now >= end:
                self.begin_end("limit", now)
            if self.cause is None and stop and self.may_end(stop):
                self.begin_end(stop.get("cause", "cancel"), now)
            if warn and now >= end - warn[1]:
                (send if warn[2:] == [True] else send_group)(self.pid, warn[0])
                warn = None
            if self.kill_at is not None and now >= self.kill_at:
                self.kill_all()
                self.kill_at = now + 1
            if spec.get("memory") and self.cause is None and self.uses_too_much(spec["memory"]):
                self.begin_end("memory", now, 0)
            if not spec.get("memory") and now >= self.peak_at:
                self.measure()
                age, took = now - self.since, time.monotonic() - now
                self.peak_at = now + min(age, PEAK_S) + PEAK_SHARE * took
            waits = [STOP_S]
            if self.cause is None:
                waits.append(end - now)
                if stop:
                    waits.append(STAND_STILL_S)
                waits.append(MEMORY_S if spec.get("memory") else self.peak_at - now)
                if warn:
                    waits.append(end - warn[1] - now)
            elif self.kill_at is not None:
                waits.append(self.kill_at - now)
            if process is None:
                waits.append(0.05)
            for fd, _ in poll.poll(max(min(waits), 0) * 1000 + 1):
                if fd == self.wakes:
                    os.read(fd, 512)
                elif fd == self.errors:
                    told = os.read(fd, 4096)
                    poll.unregister(fd)
                    if told:
                        self.cause, self.detail = (json.loads(told)[name] for name in ("cause", "detail"))
                        self.kill_at = time.monotonic() + 1
            found, status, used = os.wait4(self.pid, os.WNOHANG)
            if found:
                told = self.rest_of_errors() if self.cause is None else b""
                if told:
                    self.cause, self.detail = (json.loads(told)[name] for name in ("cause", "detail"))
                return status, used

    def rest_of_errors(self) -> bytes:
        """Return an error message of the job's process that was not read before the process ended."""
        os.set_blocking(self.errors, False)
        try:
            return os.read(self.errors, 4096)
        except OSError:
            return b""

    def may_end(self, stop: Record) -> bool:
        """Return whether the job may be signalled to end.

        With if_alive it is signalled only if it has not ended by itself. So that both cannot happen, it is stopped
        first.
        """
        if not stop.get("if_alive"):
            return True
        found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            send(self.pid, signal.SIGSTOP)
        if found is None or found.si_code != os.CLD_STOPPED:
            return False
        fault("stands-still")
        note_told(self.run)
        fault("told")
        return True

    def begin_end(self, cause: str, now: float, grace: float | None = None) -> None:
        """Signal the job to end, and set the time at which it is killed."""
        self.cause = cause
        self.kill_at = now + (self.spec["grace_s"] if grace is None else grace)
        alone = os.getpgid(self.pid) != self.pid  # it was released, but has not created its process group yet
        (send if alone else send_group)(self.pid, signal.SIGTERM)
        for pid in (self.pid, *descendants(os.getpid())):  # a suspended job has to continue in order to end
            send(pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """Kill all processes of the job."""
        send_group(self.pid, signal.SIGKILL)
        for pid in {*descendants(os.getpid()), *(groups.members(self.group) if self.group else ())}:
            send(pid, signal.SIGKILL)

    def uses_too_much(self, limit: int) -> bool:
        """Return whether the job exceeds its memory limit, by the kernel or by two readings in a row."""
        if self.by_kernel:
            self.measure()
            return groups.was_out_of_memory(self.group)
        used = self.measure()
        self.over_memory = self.over_memory + 1 if used > limit else 0
        return self.over_memory >= 2

    def measure(self) -> int:
        """Return the memory of all processes of the job, in bytes, and update the peak."""
        used = groups.used(self.group)[0] if self.by_kernel else sum(map(memory_of, descendants(os.getpid())))
        self.peak = max(self.peak, used)
        return used

    def reap(self) -> None:
        """End the processes that the job left behind, unless its descendants are to be kept."""
        if self.spec.get("keep_descendants"):
            return
        if self.group:
            groups.end(self.group)
        while children(os.getpid()):
            self.kill_all()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)
