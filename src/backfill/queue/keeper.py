"""A small process that starts jobs and outlives the daemon. Run by itself: python -I -S keeper.py HOME.

It forks a supervisor for each attempt, which holds the lock of the attempt's folder for as long as it lives, starts the
job, ends it at its limit, and writes down how it ended. If a supervisor is killed, its job becomes a child of the
keeper, which writes that down in its place.

Files of a run folder: spec.json (what to run), lock, claim (made once; who made it may run the job), proc.json (the
processes), released (made just before the job is; it tells nothing after a boot), unreleased (the job's process ended
before it became the job), stop (the daemon wants it ended, and why), told (it was alive and stood still just before it
was told to end; only where `stop` says if_alive), exit.json (how it ended). What they mean is read in attempts.py. The
standard library alone, and little of that.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from typing import Any, NoReturn

    Record = dict[str, Any]

IDLE_S = 20.0  # without jobs and without a daemon a keeper goes away
STAND_STILL_S = 0.003  # a supervisor looks so often whether its job stands still, once it was asked to
STOP_S = 5.0  # a supervisor looks for a request to stop so often, if no signal tells it
MEMORY_S = 1.0
SUBREAPER = 36  # prctl
FAULT = os.environ.get("BACKFILL_FAULT", "")  # kills this process at a named point, for tests


def fault(point: str) -> None:
    """Die here if a test wants that."""
    if point == FAULT:
        os.kill(os.getpid(), signal.SIGKILL)


def become_subreaper() -> None:
    """Descendants whose parent dies become children of this process."""
    if LIBC is not None:
        LIBC.prctl(SUBREAPER, 1, 0, 0, 0)


def boot_id() -> str:
    """What identifies this boot of the machine."""
    return BOOT


def boot_us() -> int:
    """Microseconds since the boot, suspends included."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


def wall_us() -> int:
    """Microseconds since 1970, as the machine believes now."""
    return time.time_ns() // 1000


def instant() -> Record:
    """Now: by the clock of this boot, which nobody sets, and by the calendar for who reads it after another boot."""
    return {"boot": boot_id(), "boottime": boot_us(), "wall": wall_us()}


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


# Read here once: what a fork finds in its memory costs it nothing.
BOOT = _read_boot_id()
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def begun(pid: int) -> int:
    """When a process began, in clock ticks since the boot; 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def children(pid: int) -> list[int]:
    """The children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """The children of a process, theirs, and so on."""
    found: list[int] = []
    todo = [pid]
    while todo:
        some = children(todo.pop())
        found += some
        todo += some
    return found


def send(pid: int, number: int) -> None:
    """Send a signal to a process, which may be gone."""
    with suppress(OSError):
        os.kill(pid, number)


def send_group(pid: int, number: int) -> None:
    """Send a signal to a process group, which may be gone."""
    with suppress(OSError):
        os.killpg(pid, number)


def sync(path: str) -> None:
    """What a file holds, or which files a folder has, is on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: str, record: Record, durable: bool = True) -> None:
    """Write a JSON file that is there whole or not at all; over a `.tmp` that may have room set aside for it. One that
    need not be durable yet is so after `sync` of it and of its folder."""
    text = json.dumps(record).encode()
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(path + ".tmp", path)
    if durable:
        sync(os.path.dirname(path))


def read_json(path: str) -> Any:
    """A JSON file; None if it is not there."""
    try:
        with open(path, "rb", buffering=0) as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        return None


def note_told(run: str) -> None:
    """Write down that a job, which stands still, is told to end: from now on its end is not its own."""
    os.close(os.open(os.path.join(run, "told"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync(run)


def stands_still(pid: int) -> bool:
    """Whether a process was stopped: each of its threads, but for those that are over."""
    states: list[bytes] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb", buffering=0) as file:
                states.append(file.read().rpartition(b")")[2].split()[0])
    except (OSError, IndexError):
        return False
    return any(state in b"Tt" for state in states) and all(state in b"TtZX" for state in states)


def tell(home: str, run: str) -> None:
    """Hint to the daemon that something about a run has changed. It would find out by itself."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            os.chdir(home)
            sock.sendto(os.path.basename(run).encode(), "hint.sock")
    except OSError:
        pass


def wake_pipe(*numbers: int) -> int:
    """A descriptor that becomes readable at a signal."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


# ---------------------------------------------------------------------- the job's own process


def become_job(spec: Record, go: int, errors: int) -> None:
    """Wait to be released, then become the job. Never returns."""
    run = spec["run"]
    try:
        os.setsid()
        if os.read(go, 1) != b"g":  # nobody is there to release it
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


def _set_up(spec: Record, errors: int) -> None:
    os.umask(spec.get("umask", 0o077))
    for name, (soft, hard) in spec.get("limits", {}).items():
        _limit(getattr(resource, name, None), soft, hard)
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
    try:
        if "/" in argv[0]:
            os.execve(argv[0], argv, env)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"backfill: {argv[0]}: {error.strerror}\n".encode())
        _fail(errors, "exec", f"{argv[0]}: {error.strerror}", 127 if error.errno == errno.ENOENT else 126)


def _limit(which: int | None, soft: int, hard: int) -> None:
    if which is None:
        return
    most = resource.getrlimit(which)[1]
    if most != resource.RLIM_INFINITY:
        hard = most if hard == resource.RLIM_INFINITY else min(hard, most)
        soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(which, (soft, hard))


def _fail(errors: int, cause: str, detail: str, code: int) -> NoReturn:
    os.write(errors, json.dumps({"cause": cause, "detail": detail}).encode())
    os._exit(code)


# ---------------------------------------------------------------------- the supervisor


class Supervisor:
    """One attempt, from its claim to the record of its end."""

    def __init__(self, home: str, run: str) -> None:
        self.home, self.run = home, run
        self.cause: str | None = None
        self.detail: str | None = None
        self.kill_at: float | None = None
        self.over_memory = 0

    def path(self, name: str) -> str:
        """A file of the run folder."""
        return os.path.join(self.run, name)

    def work(self) -> None:
        """All of it."""
        os.setsid()
        become_subreaper()
        lock = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(os.open(self.path("claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:  # another one has it
            return
        fault("claimed")
        with open(self.path("exit.json.tmp"), "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, 4096)
        self.spec = read_json(self.path("spec.json"))
        self.spec["run"] = self.run
        self.wakes = wake_pipe(signal.SIGUSR1)
        self.start()
        status, used = self.watch()
        ended = instant()
        self.reap()
        fault("before-exit-record")
        record = {"status": status, "cause": self.cause, "detail": self.detail, "by": "supervisor", **ended,
                  "maxrss": used.ru_maxrss * 1024, "cpu": int((used.ru_utime + used.ru_stime) * 1e6)}  # fmt: skip
        write_whole(self.path("exit.json"), record)
        fault("after-exit-record")
        tell(self.home, self.run)

    def start(self) -> None:
        """Fork the job, write down who it is, release it; not before all that the folder says so far is on the disk."""
        go, release = os.pipe2(os.O_CLOEXEC)
        self.errors, errors = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(release)
            become_job(self.spec, go, errors)
        os.close(go)
        os.close(errors)
        record = {"boot": boot_id(), "pid": self.pid, "begun": begun(self.pid),
                  "supervisor": os.getpid(), "supervisor_begun": begun(os.getpid()),
                  "since": time.monotonic()}  # fmt: skip
        sync(self.path("spec.json"))
        write_whole(self.path("proc.json"), record)
        sync(os.path.dirname(self.run))
        fault("processes-known")
        os.close(os.open(self.path("released"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.write(release, b"g")
        os.close(release)
        fault("released")
        self.since = time.monotonic()
        tell(self.home, self.run)

    def watch(self) -> tuple[int, resource.struct_rusage]:
        """Wait for the end of the job, and bring it about at the limit or on request."""
        process = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        poll = select.poll()
        for fd in (process, self.errors, self.wakes):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        spec = self.spec
        end = self.since + spec["walltime_s"]
        warn = spec.get("warn")  # [signal, seconds before the limit, whether for the first process alone]
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
            waits = [STOP_S]
            if self.cause is None:
                waits.append(end - now)
                if stop:
                    waits.append(STAND_STILL_S)
                if spec.get("memory"):
                    waits.append(MEMORY_S)
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
        """What the job's process said before it ended, and was not read yet."""
        os.set_blocking(self.errors, False)
        try:
            return os.read(self.errors, 4096)
        except OSError:
            return b""

    def may_end(self, stop: Record) -> bool:
        """Whether the job may be told to end. Where it shall be so only if it has not ended by itself, it has to stand
        still first, so that both cannot happen; until then it is asked to."""
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
        """Ask the job to end."""
        self.cause = cause
        self.kill_at = now + (self.spec["grace_s"] if grace is None else grace)
        send_group(self.pid, signal.SIGTERM)
        send(self.pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """End the job, whatever it wants."""
        send_group(self.pid, signal.SIGKILL)
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGKILL)

    def uses_too_much(self, limit: int) -> bool:
        """Whether two readings in a row were above the limit."""
        used = 0
        for pid in descendants(os.getpid()):
            try:
                with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                    used += sum(int(line.split()[1]) for line in file if line.startswith((b"Pss:", b"SwapPss:")))
            except (OSError, ValueError):
                continue
        self.over_memory = self.over_memory + 1 if used * 1024 > limit else 0
        return self.over_memory >= 2

    def reap(self) -> None:
        """What the job left behind ends with it."""
        if self.spec.get("keep_descendants"):
            return
        while children(os.getpid()):
            self.kill_all()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)


# ---------------------------------------------------------------------- the keeper


class Keeper:
    """Forks supervisors, and writes down what a killed one cannot."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.runs: dict[int, str] = {}  # supervisor -> its run folder
        self.orphans: dict[int, str] = {}  # job whose supervisor is gone -> run folder
        self.daemons: dict[int, socket.socket] = {}  # connections

    def work(self) -> None:
        """Serve until nobody needs it."""
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
        """A daemon wants an attempt to begin, or is gone."""
        try:
            asked = self.daemons[fd].recv(256)
        except OSError:
            asked = b""
        if not asked:
            self.poll.unregister(fd)
            self.daemons.pop(fd).close()
            return
        name = asked.decode()
        fault("asked-to-launch")
        try:
            if FAULT == "no-fork":
                raise BlockingIOError
            pid = os.fork()
        except OSError:  # the daemon takes the attempt back when nobody has claimed it for a while
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

    def reap(self) -> None:
        """Look after children that ended: supervisors, and what killed ones left to us."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            pid = found.si_pid
            if pid in self.runs:
                self.lose_supervisor(self.runs.pop(pid))
                os.waitpid(pid, 0)
                continue
            run = self.orphans.pop(pid, None) or self.run_of(pid)
            if run is not None:
                send_group(pid, signal.SIGKILL)  # what is left of its session
                self.write_end(run, found)
                os.waitpid(pid, 0)
                tell(self.home, run)
            else:
                os.waitpid(pid, 0)

    def lose_supervisor(self, run: str) -> None:
        """A supervisor is gone. If its job is not over, that is ours now."""
        known = read_json(os.path.join(run, "proc.json"))
        over = os.path.exists(os.path.join(run, "exit.json"))
        if known and not over and begun(known["pid"]) == known["begun"]:
            self.orphans[known["pid"]] = run
        tell(self.home, run)

    def run_of(self, pid: int) -> str | None:
        """The run of a job that ended before we saw that its supervisor is gone."""
        for run in self.runs.values():
            known = read_json(os.path.join(run, "proc.json"))
            if known and known["pid"] == pid:
                return run
        return None

    def write_end(self, run: str, found: Any) -> None:
        """Write down how an orphan ended; before it is reaped, so that nobody finds it gone without a record."""
        names = ("released", "unreleased", "exit.json", "told")
        there = {name: os.path.exists(os.path.join(run, name)) for name in names}
        if not there["released"] or there["unreleased"] or there["exit.json"]:
            return
        status = found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        stop = read_json(os.path.join(run, "stop")) or {}
        cause = stop.get("cause") if there["told"] or not stop.get("if_alive") else None
        record = {"status": status, "cause": cause, "detail": None, "by": "keeper", **instant(),
                  "maxrss": None, "cpu": None}  # fmt: skip
        write_whole(os.path.join(run, "exit.json"), record)


if __name__ == "__main__":
    Keeper(os.path.abspath(sys.argv[1])).work()
