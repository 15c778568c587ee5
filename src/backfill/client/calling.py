"""The connection to the daemon, which is started if necessary, and requests that are repeated until answered."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress

from backfill.system.home import (
    LINE,
    LOCK,
    SOCKET,
    WANTED,
    is_locked,
    near,
    owner,
    peer,
    python_path,
    trouble,
    user_name,
)

FAILED, USAGE, REJECTED, UNREACHABLE, INTERRUPTED = 1, 2, 3, 4, 130
STARTING = 75  # exit code: the policy is being started, try again
START_S, ANSWER_S = 60.0, 60.0
LATE_S = 2.0
BUFFER = 1 << 16  # bytes of an answer read at a time
CODES = {"usage": USAGE, "size": USAGE, "unknown": FAILED, "impossible": REJECTED, "stopped": UNREACHABLE}
CODES |= {"starting": STARTING, "busy": UNREACHABLE}
SENDS_ENVIRONMENT = ("submit", "test", "submit_project", "test_project")
CHANGES = ("cancel", "hold", "release", "edit", "requeue", "suspend", "resume", "signal", "pause", "unpause")

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    import subprocess
    from typing import Any

    Facts = dict[str, Any]


_started: list[subprocess.Popen[bytes]] = []  # daemons that are children of this process, to be reaped when they end


class Problem(Exception):
    """An error: its message in one line, and the exit code."""

    def __init__(self, message: str, code: int, kind: str = "", field: str = "") -> None:
        super().__init__(message)
        self.code, self.kind, self.field = code, kind, field  # error code and field in the daemon's answer


class Queue:
    """A connection to the daemon, which is started if necessary."""

    def __init__(self, folder: str, start: bool = True) -> None:
        self.folder = folder
        wrong = trouble(folder)
        if wrong:
            raise Problem(wrong, UNREACHABLE)
        self.owner = owner(folder)
        sock = self._connected()
        if sock is None and not start:
            sock = self._connected_late()
        if sock is None and not start:
            raise Problem("no daemon serves this queue; it starts with the first submit", UNREACHABLE)
        self._sock = sock or self._start()
        self._file = self._sock.makefile("rb", BUFFER)

    def ask(self, what: str, timeout: float | None = ANSWER_S, **more: Any) -> Facts:
        """Return the answer to a request. Raises Problem."""
        answer: Facts = json.loads(self.text(what, timeout, **more))
        return answer

    def text(self, what: str, timeout: float | None = ANSWER_S, **more: Any) -> bytes:
        """Return the answer to a request as received: JSON in one line. Raises Problem."""
        if what in SENDS_ENVIRONMENT and self.owner != os.getuid():
            message = f"the queue of {self.folder} belongs to {user_name(self.owner)}, who alone may submit to it"
            raise Problem(message, UNREACHABLE)
        request = line_of({"v": 1, "do": what, **more})
        if len(request) > LINE:
            size = f"{len(request) / (1 << 20):.1f} MiB long; expected at most {LINE >> 20}"
            raise Problem(f"the request, with script and environment, is {size}", USAGE, "size")
        self._sock.settimeout(timeout)
        with suppress(BrokenPipeError):  # the daemon may have answered with an error before it closed the connection
            self._sock.sendall(request)
        line = self._file.readline()
        if not line:
            raise ConnectionError("the daemon ended")
        if line.startswith(b'{"error"'):
            problem = json.loads(line)["error"]
            raise Problem(problem["message"], CODES.get(problem["code"], FAILED), problem["code"], problem["field"])
        return line

    def all(self, requests: list[Facts]) -> list[Facts]:
        """Return the answers to several requests sent at once, with errors as received."""
        self._sock.settimeout(ANSWER_S)
        self._sock.sendall(b"".join(line_of({"v": 1, "do": "submit", **request}) for request in requests))
        lines = [self._file.readline() for _ in requests]
        if not all(lines):
            raise ConnectionError("the daemon ended")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._sock.close()

    def _connected(self) -> socket.socket | None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = os.path.join(self.folder, SOCKET)
        try:
            sock.connect(near(path))
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
            return None
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}", UNREACHABLE) from None
        uid = peer(sock)
        if uid not in (None, self.owner):  # checked before anything is sent: a submit contains the whole environment
            sock.close()
            message = f"{path} is served by a process of {user_name(uid or 0)}; expected one of {user_name(self.owner)}"
            raise Problem(message, UNREACHABLE)
        return sock

    def _connected_late(self) -> socket.socket | None:
        """Connect to a daemon whose socket was removed, and which is about to create another one."""
        end, sock = time.monotonic() + LATE_S, None
        while sock is None and time.monotonic() < end and self._is_locked():
            time.sleep(0.02)
            sock = self._connected()
        return sock

    def _is_locked(self) -> bool:
        """Return whether the process exists that wrote its number into the lock."""
        try:
            with open(os.path.join(self.folder, LOCK), "rb") as file:
                return os.path.exists(f"/proc/{int(file.read())}")
        except (OSError, ValueError):
            return False

    def _start(self) -> socket.socket:
        """Start the daemon; if two clients do so at once, only one daemon remains."""
        import subprocess

        if self.owner != os.getuid():
            message = f"no daemon serves {self.folder}; only {user_name(self.owner)}, who owns the folder, can start it"
            raise Problem(message, UNREACHABLE)

        said_in = os.path.join(self.folder, "daemon.log")
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            log = os.open(said_in, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise Problem(f"{error.filename}: {error.strerror}", UNREACHABLE) from None
        begin, size = time.monotonic(), os.fstat(log).st_size
        from backfill.system.processes import JOB, unmarked

        if os.environ.get(JOB):
            return self._start_outside(log)
        # A pipe that this process closes once a daemon answers: a late daemon then knows that it is not needed.
        wanted, ours = os.pipe2(os.O_CLOEXEC)
        made = subprocess.Popen(
            [sys.executable, "-P", "-m", "backfill.daemon.daemon"],
            stdin=wanted, stdout=log, stderr=log, start_new_session=True, cwd="/",
            env={**unmarked(), "BACKFILL_HOME": self.folder, "PYTHONPATH": python_path(), WANTED: "1"},
        )  # fmt: skip
        _started[:] = [*(each for each in _started if each.poll() is None), made]
        os.close(log)
        os.close(wanted)
        try:
            return self._await(made, begin, said_in, size)
        finally:
            os.close(ours)

    def _await(self, made: subprocess.Popen[bytes], begin: float, said_in: str, size: int) -> socket.socket:
        """Wait until a daemon answers, whether the one started here or another one."""
        while time.monotonic() - begin < START_S:
            sock = self._connected()
            if sock is not None:
                return sock
            code = made.poll()
            if code is not None and code < 0:
                raise ConnectionError("the daemon was killed")
            if code is not None and code not in (0, 75):
                with open(said_in, "rb") as file:
                    said = file.read()[size:].decode(errors="replace").strip().splitlines()
                ours = [line.removeprefix("backfill: ") for line in said if line.startswith("backfill: ")]
                why = [f"exit code {code}", *said[-1:], *ours[-1:]][-1]  # libraries may print more at exit
                raise Problem(f"the daemon does not start: {why}", UNREACHABLE)
            time.sleep(0.005)
        raise Problem(f"the daemon has not answered for {START_S:.0f} s; see {said_in}", UNREACHABLE)

    def _start_outside(self, log: int) -> socket.socket:
        """Have the keeper of this job start the daemon: one that the job itself started would end with the job."""
        from backfill.system.processes import JOB, KEEPER

        os.close(log)
        keeper = os.environ.get(KEEPER) or os.path.join(self.folder, "keeper.sock")
        end = time.monotonic() + START_S
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            try:
                door.connect(near(keeper))
                door.send(b"serve " + os.fsencode(self.folder))
            except OSError:
                message = f"no daemon serves {self.folder}, and a job cannot start one: its keeper is gone"
                raise Problem(f"{message}; outside a job, unset {JOB}", UNREACHABLE) from None
            while time.monotonic() < end:
                sock = self._connected()
                if sock is not None:
                    return sock
                time.sleep(0.005)
        raise Problem(f"the daemon does not start; see {os.path.join(self.folder, 'daemon.log')}", UNREACHABLE)


_as_it_is = json.JSONEncoder(ensure_ascii=False).encode


def line_of(request: Facts) -> bytes:
    """Encode a request as it is sent. UTF-8 that a terminal with another encoding has garbled is restored."""
    try:
        line = _as_it_is(request).encode("utf-8", "surrogateescape")
        line.decode()
    except UnicodeError:
        line = json.dumps(request).encode()
    return line + b"\n"


def persistent(what: str, folder: str, **more: Any) -> Facts:
    """Return the answer to a request, repeating it if the daemon ends meanwhile; only for repeatable requests."""
    return asked(what, folder, **more)[0]


def asked(what: str, folder: str, **more: Any) -> tuple[Facts, bool]:
    """Return the answer as `persistent` does, and whether the request was repeated, so that the first may have
    succeeded."""
    line, again = answered(what, folder, **more)
    return json.loads(line), again


def answered(what: str, folder: str, **more: Any) -> tuple[bytes, bool]:
    """Return the same as `asked`, with the answer as JSON in one line."""
    end, again = time.monotonic() + ANSWER_S, False
    while True:
        try:
            queue = Queue(folder)
            try:
                return queue.text(what, **more), again
            finally:
                queue.close()
        except (ConnectionError, TimeoutError):
            again = True
            if time.monotonic() > end:
                raise Problem(f"the daemon does not answer{_unknown(what)}", UNREACHABLE) from None
            time.sleep(0.02)
        except KeyboardInterrupt:
            raise Problem(f"interrupted{_unknown(what)}", INTERRUPTED) from None


def _unknown(what: str) -> str:
    """Return the addition to an error message for a request that may have been carried out, or may still be."""
    if what in ("submit", "submit_project"):
        return f": it is unknown whether the {'job' if what == 'submit' else 'project'} is queued; see: backfill queue"
    return f": it is unknown whether {what} was done; see: backfill queue" if what in CHANGES else ""


def waited(ids: list[Any], folder: str, timeout: float | None = None) -> list[Facts]:
    """Wait until jobs are over, and return them, whichever daemons serve the queue meanwhile. Raises TimeoutError."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            connection = Queue(folder)
            try:
                left = None if end is None else max(end - time.monotonic(), 0.001)
                jobs: list[Facts] = connection.ask("wait", left, ids=ids)["jobs"]
                return jobs
            finally:
                connection.close()
        except ConnectionError:  # the daemon ended; the next one knows as much
            time.sleep(0.05)


def stop(folder: str) -> None:
    """Stop the daemon and wait until it is gone; running jobs continue. Raises Problem if there is none."""
    from backfill.system import processes

    queue = Queue(folder, start=False)
    try:
        pid = queue.ask("stop")["pid"]
    finally:
        queue.close()
    end = time.monotonic() + START_S
    # A Python program that started it may never reap it, and a thread of it may outlive its first one.
    gone, lock = (b"", b"Z", b"X"), os.path.join(folder, LOCK)
    while time.monotonic() < end and (processes.state(pid) not in gone or is_locked(lock)):
        time.sleep(0.02)


def token() -> str:
    """Return a unique name for a request, by which a repeated request is carried out only once."""
    return f"{os.getpid():x}-{time.time_ns():x}-{os.urandom(8).hex()}"
