"""The pool that is this machine: it hands attempts to the keeper and watches them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from backfill.pools.base import Decision, Seen, Sighting, Verdict
from backfill.pools.local import attempts, groups, keeper
from backfill.queue.files import files
from backfill.queue.job import PREEMPT, Run
from backfill.queue.shapes import Record, Spec
from backfill.queue.states import ENDING, STARTING
from backfill.queue.variables import of_job
from backfill.system import processes, witness
from backfill.system.home import near
from backfill.system.log import note

ROUNDS = 20  # of searching for processes that were forked meanwhile
START_S = 5.0  # seconds for a keeper to start, and for an attempt to claim its folder


class LocalPool:
    """Attempts on this machine; see pools.base.Pool.

    news: called when there is something to read. pinned: jobs are bound to the cpus that they were given.
    """

    name = "local"
    does = frozenset({"signal", "suspend"})

    def __init__(
        self,
        home: Path,
        news: Callable[[], None],
        pinned: bool,
        faults: dict[str, str],
        first_lines: Callable[[], list[str]] = list,
    ) -> None:
        self.home, self.news, self.pinned, self.faults = home, news, pinned, faults
        self._seen: list[Sighting] = []
        self._first_lines = first_lines
        (home / "log").mkdir(mode=0o700, exist_ok=True)
        self._door: socket.socket | None = None
        self._watched: dict[tuple[int, int], int] = {}  # pidfds of supervisors by attempt
        self._launched: dict[tuple[int, int], float] = {}
        self._kill_at: dict[tuple[int, int], float] = {}  # of orphans that were asked to end
        self._known: dict[tuple[int, int], Record] = {}  # processes of attempts that were seen running
        self._unproven: set[tuple[int, int]] = set()  # launched before the witness was lost
        self._witness = witness.identity(str(home))

    def know(self, key: tuple[int, int], processes: Record) -> None:
        """Remember the processes of an attempt that was seen running."""
        self._known[key] = processes

    def open(self, some: Iterable[Run]) -> None:
        """Remember the attempts that an earlier daemon launched."""
        for run in some:
            if run.attempt.processes:
                self.know(run.key, run.attempt.processes)
            if not self._witness:
                self._unproven.add(run.key)
        if not self._witness:
            self._write_witness_anew()

    def start(self, some: Sequence[Decision]) -> None:
        """Hand attempts to the keeper. `read` discovers failures."""
        for one in some:
            try:
                self._launch(one)
            except Exception as error:  # a bug that affects this job must not keep other jobs from starting
                problem = str(error) if isinstance(error, OSError) else traceback.format_exc()
                note(f"launch of job {one.job.label}: {problem}")
                self._launched.pop(one.key)

    def _launch(self, one: Decision) -> None:
        self._launched[one.key] = time.monotonic()
        spec = attempt_spec(self.home, one, one.spec)
        spec["affinity"] = one.attempt.cpu_ids if self.pinned else one.spec.get("affinity", [])
        attempts.prepare(self.home, *one.key, spec)
        self._send(witness.name(*one.key).encode())

    def stop(self, some: Sequence[Run]) -> None:
        """Ask attempts to end; the request stays in force whenever they are looked at."""
        for run in some:
            self._stop(run)

    def _stop(self, run: Run) -> None:
        folder, cause = self._folder(*run.key), run.attempt.cause
        attempts.ask_to_stop(folder, cause, cause == PREEMPT)
        known = self._known.get(run.key) or processes.read_json(str(folder / "proc.json"))
        if known and processes.lives(known, "supervisor"):
            processes.send(known["supervisor"], signal.SIGUSR1)

    def signal(self, run: Run, number: int) -> None:
        """Send a signal to every process of an attempt."""
        for pid in self._processes(run.key):
            processes.send(pid, number)

    def freeze(self, run: Run) -> None:
        """Stop or continue every process of an attempt, as its `suspended` says. Repeating is harmless."""
        done: set[int] = set()
        for _ in range(ROUNDS):  # a process that has not stopped yet may create others
            some = {*self._processes(run.key)} - done
            if not some:
                return
            for pid in some:
                processes.send(pid, signal.SIGSTOP if run.attempt.suspended else signal.SIGCONT)
            done |= some

    def _processes(self, key: tuple[int, int]) -> list[int]:
        """Return the processes of an attempt, including those that have left its session."""
        known = self._known.get(key) or processes.read_json(str(self._folder(*key) / "proc.json"))
        some = {*processes.belonging(processes.marks(str(self.home), witness.name(*key)))}
        if known and processes.lives(known, "supervisor"):
            some.update(processes.descendants(known["supervisor"]))
        if known and known.get("group"):
            some.update(groups.members(known["group"]))
        return sorted(some)

    def read(self, some: Iterable[Run]) -> Seen:
        """See Pool. Looks at those attempts whose changes are not reported: just launched, orphaned, or from an earlier
        daemon."""
        self._sweep(some)
        seen, self._seen = self._seen, []
        return Seen(seen)

    def news_at(self) -> int | None:
        """Return None: ends are not known in advance."""
        return None

    def _sweep(self, some: Iterable[Run]) -> None:
        self._look_at_witness()
        for run in some:
            if run.attempt.suspended:  # the daemon may have been killed before it did this
                self.freeze(run)
            key = run.key
            since = self._launched.get(key)
            if key in self._watched or (since is not None and time.monotonic() - since < START_S):
                continue
            self.look(*key)
            if run.job.state == ENDING:
                self._stop(run)
            self._guard(run)

    def hear(self, text: str) -> None:
        """Look at an attempt whose supervisor reports a change."""
        found = witness.numbers(text)
        if found is not None and (found in self._launched or found in self._known):  # otherwise it is over
            with suppress(OSError):  # the next sweep looks again
                self.look(*found)

    def look(self, job: int, attempt: int) -> None:
        """Determine the state of an attempt and report it."""
        key = (job, attempt)
        verdict = self._settle(key)
        if verdict.kind in ("alive", "orphan") and verdict.record:
            self._known[key] = verdict.record
        if verdict.kind == "alive" and verdict.record:
            self._watch(key, verdict.record)
        elif verdict.kind != "alive":
            self._unwatch(key)
            if verdict.kind != "orphan":
                if not self._end_rest(key, verdict):
                    return  # the next sweep looks again
                self._launched.pop(key, None)
                self._kill_at.pop(key, None)
                self._known.pop(key, None)
                self._unproven.discard(key)
        self._seen.append(Sighting(job, attempt, verdict))
        self.news()

    def _settle(self, key: tuple[int, int]) -> Verdict:
        self._look_at_witness()
        return attempts.settle(self._folder(*key), self._known.get(key), key in self._unproven)

    def _look_at_witness(self) -> None:
        """Treat every launched attempt as one that may have begun if the witness, which could disprove it, is gone."""
        found = witness.identity(str(self.home))
        if found == self._witness:
            return
        note(f"{self.home / witness.FILE} was removed; it is created again")
        self._unproven.update(self._launched)
        self._write_witness_anew()

    def _write_witness_anew(self) -> None:
        """Create a new witness from what the log and this process know of job numbers and attempts."""
        began = [witness.line("began", witness.name(*key), record) for key, record in self._known.items()]
        witness.write(str(self.home), *self._first_lines(), *began)
        self._witness = witness.identity(str(self.home))

    def _end_rest(self, key: tuple[int, int], verdict: Verdict) -> bool:
        """End the remaining processes of an attempt that is over and had no supervisor; return whether none is left."""
        if verdict.kind == "unstarted" or verdict.record.get("by") == "supervisor":
            return True
        spec = processes.read_json(str(self._folder(*key) / "spec.json")) or {}
        if spec.get("keep_descendants"):
            return True
        known = self._known.get(key) or verdict.record
        if known.get("group"):
            groups.end(known["group"])
        return processes.end_attempt(str(self.home), witness.name(*key))

    def _guard(self, run: Run) -> None:
        """End an orphan at its limit or on request, by the clock that its supervisor would have used."""
        job, cause, key = run.job, run.attempt.cause, run.key
        folder = self._folder(*key)
        if key in self._watched or job.state == STARTING:
            return
        verdict = self._settle(key)
        if verdict.kind != "orphan":
            return
        late = time.monotonic() > verdict.record["since"] + job.walltime / 1e6
        if not late and job.state != ENDING:
            return
        attempts.ask_to_stop(folder, "limit" if late and not cause else cause, cause == PREEMPT)
        if not attempts.may_end(folder, verdict.record["pid"]) and not late:
            return
        first = key not in self._kill_at
        kill_at = self._kill_at.setdefault(key, time.monotonic() + job.grace / 1e6)
        number = signal.SIGKILL if time.monotonic() >= kill_at else signal.SIGTERM
        if first or number == signal.SIGKILL:
            processes.send_group(verdict.record["pid"], number)
            processes.send(verdict.record["pid"], signal.SIGCONT)

    def close(self) -> None:
        """Release all resources; jobs keep running."""
        for key in [*self._watched]:
            self._unwatch(key)
        if self._door is not None:
            self._door.close()

    def _folder(self, job: int, attempt: int) -> Path:
        return self.home / "run" / witness.name(job, attempt)

    def _watch(self, key: tuple[int, int], known: Record) -> None:
        if key in self._watched or not hasattr(os, "pidfd_open"):
            return
        try:
            fd = os.pidfd_open(known["supervisor"])
        except OSError:
            return
        if not processes.lives(known, "supervisor"):
            os.close(fd)
            return
        self._watched[key] = fd
        asyncio.get_running_loop().add_reader(fd, self._gone, key)

    def _gone(self, key: tuple[int, int]) -> None:
        self._unwatch(key)
        with suppress(OSError):  # the next sweep looks again
            self.look(*key)

    def _unwatch(self, key: tuple[int, int]) -> None:
        fd = self._watched.pop(key, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def _send(self, what: bytes) -> None:
        for again in (True, False):
            if self._door is None:
                self._door = self._open_door()
            try:
                self._door.send(what)
                return
            except OSError:
                self._door.close()
                self._door = None
                if not again:
                    raise

    def _open_door(self) -> socket.socket:
        """Return a connection to the keeper, which is started if necessary."""
        found = self._connected()
        if found is not None:
            return found
        log = os.open(self.home / "daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(self.home)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, **self.faults},
            )  # fmt: skip
        finally:
            os.close(log)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            found = self._connected()
            if found is not None:
                return found
            time.sleep(0.005)
        raise OSError("the keeper does not start; see daemon.log")

    def _connected(self) -> socket.socket | None:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            door.connect(near(str(self.home / "keeper.sock")))
        except OSError:
            door.close()
            return None
        door.settimeout(START_S)
        return door


def attempt_spec(home: Path, run: Run, spec: Spec) -> Record:
    """Return the instructions for a supervisor. They contain the whole job, as a second copy besides the store."""
    job, argv = run.job, list(spec["argv"])
    if spec.get("script"):  # outside the run folder, since some scripts remove the folder that they are in
        script = home / "script" / witness.name(*run.key) / script_name(argv[0])
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        script.write_text(spec["script"], encoding="utf-8")
        script.chmod(0o700)
        argv = [str(script), *argv[1:]]
    cwd = spec.get("cwd", "/")
    return {
        "version": 1,
        "job": job.facts(),
        "spec": spec,
        "argv": argv,
        "env": of_job(str(home), run, spec),
        "cwd": cwd,
        "umask": spec.get("umask", 0o077),
        "limits": spec.get("limits", {}),
        "nice": spec.get("nice"),
        **files(home, job, spec),
        "truncate": spec.get("truncate", False),
        "memory": job.need.get("memory", 0),
        "walltime_s": job.walltime / 1e6,
        "grace_s": job.grace / 1e6,
        "warn": spec.get("warn"),
        "keep_descendants": spec.get("keep_descendants", False),
    }


def script_name(word: str) -> str:
    """Return the file name under which the script of a job runs: the name that it was submitted with."""
    name = os.path.basename(word)[:64]
    return name if name not in ("", ".", "..") else "script"
