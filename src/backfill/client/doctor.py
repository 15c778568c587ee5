"""Check what this machine offers to the queue, and what is wrong. Nothing is started or changed."""

import contextlib
import json
import os
import platform
import resource
import shutil
import socket
import sqlite3
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backfill.client.boot import survives
from backfill.client.calling import FAILED, Problem, Queue
from backfill.client.finding import FAIL, OK, WARN, Finding
from backfill.client.options import parse
from backfill.client.printing import planned_by
from backfill.daemon.config import LOCAL, Config
from backfill.daemon.neighbours import daemons, is_of, overlap, queues
from backfill.model.errors import BackfillError
from backfill.model.names import printable
from backfill.model.units import numbers_text, size_text, time_text
from backfill.pools.local import groups
from backfill.queue.deep import check_deep
from backfill.queue.job import Facts, Job, Run
from backfill.queue.nodes import FLOATING, ON_NODES
from backfill.queue.states import HOLDING, PENDING, STARTING
from backfill.queue.store import SCHEMA, Store, StoreError
from backfill.queue.words import Unreadable
from backfill.system import processes, witness
from backfill.system.home import SOCKET, home, is_locked, near, network_type, peer_facts, trouble, user_name

if TYPE_CHECKING:
    from backfill.pools.seen import JobNow, Snapshot

LITTLE = 512 << 20  # bytes of free disk space that are too few
WAL_MAX = 64 << 20
FILES = 512  # open files that a process needs
STEP_S = 2.0  # seconds between the queue clock and the wall clock
SYNCS = 5
SLOW_MS = 1000.0  # duration of a slow pass
SHOWN = 5  # most jobs that are listed


class Machine:
    """The objects that the checks examine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemon: Facts | None = None  # answer of the daemon; None if there is none
        self.silent = ""  # why an existing daemon does not answer
        with contextlib.suppress(Problem):
            asked = Queue(str(folder), start=False)
            try:
                self.daemon = {**asked.ask("ping", 5.0), "queue": asked.ask("queue", 5.0, limit=0, nodes=True)}
            except (OSError, ValueError, Problem) as error:
                self.silent = str(error) or type(error).__name__

    @cached_property
    def running(self) -> list[Job]:
        """The running jobs in the store; empty if it cannot be read, which another check reports."""
        try:
            opened = Store(self.folder / "store.db", readonly=True)
            try:
                return opened.jobs(f"end_us IS NULL AND state IN ({', '.join('?' * len(HOLDING))})", HOLDING)
            finally:
                opened.close()
        except StoreError:
            return []

    @cached_property
    def local(self) -> bool:
        """Return whether jobs run on this machine, or would."""
        if self.daemon is not None:
            return bool(self.daemon["pool"] == LOCAL)
        try:
            return Config(self.folder).pool == LOCAL
        except Unreadable:  # another setting may be wrong
            with contextlib.suppress(OSError, ValueError):
                text = (self.folder / "config.toml").read_text(encoding="utf-8")
                return bool(tomllib.loads(text).get("pool", LOCAL) == LOCAL)
            return True

    @property
    def policy(self) -> str:
        """The policy that decides, or would; empty if it is not known."""
        if self.daemon is not None:
            return str(self.daemon["queue"]["policy"])
        try:
            return Config(self.folder).policy
        except Unreadable:
            return ""


def versions(machine: Machine) -> Iterator[Finding]:
    """Report the versions of the programs."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"python {platform.python_version()}", f"sqlite {sqlite3.sqlite_version}"]
    for name in ("backfill", "numba", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    yield Finding(OK, "versions", ", ".join([*found, f"{platform.system()} {platform.release()}"]))
    if sys.platform != "linux":
        text = "processes are watched by files alone: a job whose supervisor is killed ends as NODE_FAIL"
        yield Finding(WARN, "system", text, "use Linux if that matters")


def folder(machine: Machine) -> Iterator[Finding]:
    """Check the folder of the queue."""
    there = machine.folder
    if not there.exists():
        yield Finding(OK, "folder", f"{there} is not there yet", "it is created at the first submit")
        return
    kind = network_type(os.path.realpath(there))
    if kind:
        yield Finding(FAIL, "folder", f"{there} is on {kind}, a network file system, whose locks are not safe",
                      "BACKFILL_HOME names a folder on this machine")  # fmt: skip
    mode, wrong = there.stat().st_mode & 0o777, trouble(str(there))
    if wrong:
        yield Finding(FAIL, "folder", wrong)
    elif mode & 0o077:
        yield Finding(WARN, "folder", f"{there} is accessible to other users (mode {mode:o})", f"chmod 700 {there}")
    free = shutil.disk_usage(there).free
    if free < LITTLE:
        yield Finding(FAIL if free < LITTLE // 16 else WARN, "disk", f"only {size_text(free) if free else 0} are free",
                      "free disk space: without it no job is accepted or started")  # fmt: skip
    if not kind and free >= LITTLE:
        yield Finding(OK, "folder", f"{there}, {size_text(free)} free, a sync takes {_sync_ms(there)}")


def _sync_ms(there: Path) -> str:
    """Measure how long the disk takes to store a few bytes, which every submit waits for."""
    path = there / f".doctor-{os.getpid()}"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return f"an error: {error.strerror}"
    try:
        begun = time.perf_counter()
        for _ in range(SYNCS):
            os.write(file, b"x" * 512)
            getattr(os, "fdatasync", os.fsync)(file)
        return f"{(time.perf_counter() - begun) / SYNCS * 1e3:.2g} ms"
    finally:
        os.close(file)
        path.unlink()


def store(machine: Machine) -> Iterator[Finding]:
    """Check the log of events."""
    path = machine.folder / "store.db"
    if not path.exists():
        return
    try:
        opened = Store(path, readonly=True)
        states = opened.counts()
        opened.close()
    except (StoreError, sqlite3.Error) as error:
        yield Finding(FAIL, "store", str(error), "a copy may be beside it: store-v*.bak")
        return
    wal = Path(f"{path}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    text = f"schema {len(SCHEMA)}, {size_text(path.stat().st_size)}, write-ahead log {size_text(size)}"
    pending = states.pop(PENDING, 0)
    text += f", {pending} jobs pending, {sum(states.values())} running"
    if size > WAL_MAX:
        yield Finding(
            WARN, "store", text, "a process has kept the store open for long; stop it so that the log can be truncated"
        )
    else:
        yield Finding(OK, "store", text)


def record(machine: Machine) -> Iterator[Finding]:
    """Read the whole log again, and check each job at each instant, and the tables derived from it."""
    if not (machine.folder / "store.db").exists():
        yield Finding(OK, "record", "nothing is recorded yet")
        return
    begun = time.perf_counter()
    try:
        wrong = check_deep(machine.folder)
    except StoreError as error:
        wrong = [str(error)]
    for line in wrong:
        yield Finding(FAIL, "record", line)
    if wrong:
        return
    took = time_text(round((time.perf_counter() - begun) * 1e6))
    promise = "its file is intact, its tables match the log, no job ran twice or beyond the capacity"
    yield Finding(OK, "record", f"{promise} ({took})")


def settings(machine: Machine) -> Iterator[Finding]:
    """Check config.toml against the machine."""
    if not machine.folder.exists():
        return
    try:
        config = Config(machine.folder)
    except Unreadable as error:
        yield Finding(FAIL, "settings", str(error), "the daemon will not start with these settings")
        return
    if config.pool != LOCAL and config.platform:
        yield from _cluster(config)
        return
    have = config.resources
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    licences = [f"{count} {name}" for name, count in have.items() if name not in ON_NODES]
    text = f"{have['cpus']} cpus, {size_text(have['memory'])} memory, {have['gpus']} gpus"
    text = ", ".join([text, *licences]) + f"; policy {_policy(config)}"
    if have["cpus"] > there:
        yield Finding(WARN, "settings", f"{text}; this process may use {there} cpus alone: jobs are not bound to cpus",
                      "lower cpus in config.toml")  # fmt: skip
    else:
        yield Finding(OK, "settings", text)


def _policy(config: Config) -> str:
    """Return the policy of the settings, and by what it plans."""
    return Path(config.policy).name + planned_by({"predict": config.predict})


def _cluster(config: Config) -> Iterator[Finding]:
    """Check the platform of a queue whose jobs do not run here."""
    many = len([place for place in config.nodes if place != FLOATING])
    amounts: Counter[str] = Counter()
    for there in config.nodes.values():
        amounts.update(there)
    parts = [size_text(amount) + " memory" if name == "memory" else f"{amount} {name}"
             for name, amount in amounts.items() if amount]  # fmt: skip
    text = f"{many} nodes with {', '.join(parts)}; policy {_policy(config)}"
    yield Finding(OK, "settings", text)
    if config.native:
        yield from _elsewhere(config)
        return
    where = "a simulated cluster; jobs start no process" if config.fake else "a pool of your own, which is not checked"
    yield Finding(OK, "pool", f"{config.pool}: {where}")


def _elsewhere(config: Config) -> Iterator[Finding]:
    """Check a batch system in which jobs are submitted, and whether the queue can start them if it is to."""
    from backfill.client.control import controlled  # imports numpy, which only queues with a platform need
    from backfill.daemon.hosting import reader_of
    from backfill.pools.seen import Down

    jobs: Sequence[JobNow] = ()
    try:
        look = reader_of(config.pool, config.file.parent).look()
        jobs = look.jobs
        yield _nodes_of(config, look)
    except Down as down:
        yield Finding(FAIL, "pool", f"{config.pool} does not answer: {down}", "the queue continues when it answers")
    if not config.shadow:
        yield from controlled(config, jobs)


def _nodes_of(config: Config, look: "Snapshot") -> Finding:
    """Check whether a batch system that answers has the nodes that the queue plans with."""
    names = {node.name for node in look.nodes}
    known = {place for place in config.nodes if place != FLOATING}
    does = "is watched" if config.shadow else "answers"
    text = f"{config.pool} {does}: {len(look.jobs):,} jobs, {len(names):,} nodes, a look takes {look.took:.2f} s"
    if names == known:
        return Finding(OK, "pool", text)
    other = ", ".join(sorted(names ^ known)[:3])
    what = f"{text}; {len(names ^ known):,} of its nodes are not those of the queue: {other}"
    how = f"--pool {config.pool}{' --shadow' if config.shadow else ''} --detach"
    again = f"backfill serve --stop, then backfill serve {how}, which reads them again"
    return Finding(WARN, "pool", what, again)


def nodes(machine: Machine) -> Iterator[Finding]:
    """Check the nodes of a cluster, by kind."""
    for kind in machine.daemon["queue"].get("nodes", []) if machine.daemon is not None else ():
        where = f" in {', '.join(kind['partitions'])}" if kind["partitions"] else ""
        text = (
            f"{kind['names']}{where}: jobs hold {kind['held'].get('cpus', 0)} of {kind['stated'].get('cpus', 0)} cpus"
        )
        beyond = [name for name, amount in kind["held"].items() if amount > kind["capacity"].get(name, 0)]
        if not kind["out"] and beyond:
            text += f"; jobs hold more {' and '.join(beyond)} than there is"
            yield Finding(WARN, "nodes", text, "jobs there continue; no job is started until it fits")
            continue
        if not kind["out"]:
            yield Finding(OK, "nodes", text)
            continue
        why = f" ({'; '.join(kind['reasons'])})" if kind["reasons"] else ""
        text += f"; {kind['out']} of {kind['count']} have less than the platform states: {kind['out_names']}{why}"
        yield Finding(WARN, "nodes", text, "jobs there continue; no job is started on what is gone")


def daemon(machine: Machine) -> Iterator[Finding]:
    """Check the daemon that serves the queue."""
    there, lock, sock = machine.folder, machine.folder / "lock", machine.folder / SOCKET
    pid = 0
    with contextlib.suppress(OSError, ValueError):
        pid = int(lock.read_text())
    alive = bool(pid) and bool(processes.begun(pid)) and is_locked(lock)
    if machine.daemon is not None:
        queue, planner = machine.daemon["queue"], machine.daemon["planner"]
        yield Finding(OK, "daemon", f"process {machine.daemon['pid']}")
        yield from _planner(queue, planner)
        yield from _licences(queue)
        off = abs(queue["now_s"] - time.time())
        text = f"the clock of the queue and the wall clock are {off:.0f} s apart"
        if machine.daemon["pool"] == "fake":
            yield Finding(OK, "clock", "the queue has a clock of its own, which runs as fast as config.toml says")
        elif off > STEP_S:
            yield Finding(
                WARN, "clock", text, "the wall clock was set; restart the daemon to adopt it: backfill serve --stop"
            )
        else:
            yield Finding(OK, "clock", "the clock of the queue and the wall clock agree")
    elif machine.silent or alive:
        text = f"process {pid} holds the queue and does not answer"
        yield Finding(FAIL, "daemon", f"{text} ({machine.silent or 'no socket'})", f"see {there / 'daemon.log'}")
    elif there.exists():
        yield Finding(OK, "daemon", "not running", "it starts with the next verb that needs it")
        if sock.exists():
            yield Finding(WARN, "socket", f"{sock} is left over from a daemon that was killed",
                          "the next daemon replaces it")  # fmt: skip
    several = daemons(str(there))
    if several[1:]:
        text = f"processes {', '.join(map(str, several))} serve this queue: the lock of all but one was removed"
        yield Finding(FAIL, "daemon", text, f"end all but the one that {lock} names; jobs continue")
    left = [*there.glob("answer.*")] if machine.daemon is None else []
    if left:
        yield Finding(WARN, "pipes", f"{len(left)} pipes of questions are left over", f"rm {there / 'answer.*'}")


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _planner(queue: Facts, planner: Facts) -> Iterator[Finding]:
    """Check the planner, which makes the decisions."""
    policy, passes = Path(queue["policy"]).name, planner["passes"]
    each = [f"process {pid}, {size_text(_resident(pid))}" for pid in planner["pids"].values()]
    compiled = "not compiled" if planner["kind"] == "plain" else "compiled"
    text = ", ".join([policy + planned_by(queue), compiled, *each])
    if passes["count"]:
        took = f"median {_ms(passes['median_ms'])}, max {_ms(passes['worst_ms'])}"
        text += f"; last {passes['count']} pass{'es' if passes['count'] > 1 else ''}: {took}"
    if queue["policy"] != queue["asked_policy"]:
        yield Finding(FAIL, "planner", f"{policy} decides in place of {Path(queue['asked_policy']).name}, which failed",
                      "see daemon.log; backfill serve --policy NAME tries again")  # fmt: skip
    elif planner["failures"]:
        yield Finding(FAIL, "planner", f"{policy}: {planner['failures'][0]}", "it is started again; see daemon.log")
    elif not planner["ready"]:
        yield Finding(WARN, "planner", f"{policy} is being started", "jobs start shortly")
    elif planner["kind"] == "plain":
        yield Finding(WARN, "planner", text, "it is slower until the compiler is done; nothing to do")
    elif passes["count"] and passes["worst_ms"] > SLOW_MS:
        yield Finding(WARN, "planner", text, "nothing starts during a pass; a policy that plans less is faster")
    else:
        yield Finding(OK, "planner", text)


def _resident(pid: int) -> int:
    """Return the resident memory of a process, in bytes; 0 if it is not known."""
    words = _words(Path(f"/proc/{pid}/statm"))
    return int(words[1]) * resource.getpagesize() if len(words) > 1 else 0


def _licences(queue: Facts) -> Iterator[Finding]:
    for name, licence in queue["licences"].items():
        if licence["stale"]:
            yield Finding(FAIL, "licences", f"{name}: {licence['problem']}; its last report stays in force",
                          f"try the command sync of [licence.{name}] in config.toml")  # fmt: skip
        else:
            yield Finding(OK, "licences", f"{name}: {licence['copies']} copies, {licence['others']} used by others")


def watch(machine: Machine) -> Iterator[Finding]:
    """Check the keeper, which starts jobs, and the supervisors, which end them."""
    if not machine.folder.exists():
        return
    pid, running = _keeper(machine.folder), machine.running
    alone = [job.label for job in running if job.state != STARTING and not _watched(machine.folder, job.run)]
    watched = f"{len(running) - len(alone)} of {len(running)} running jobs have a supervisor"
    if alone:
        text = f"{watched}; without one: {', '.join(alone[:SHOWN])}"
        yield Finding(
            WARN, "keeper", text, "they are still ended at their limits; without a keeper, how they end is not recorded"
        )
    elif pid:
        yield Finding(OK, "keeper", f"process {pid}; {watched}")
    elif running:
        yield Finding(WARN, "keeper", f"not running; {watched}", "it starts with the next job; until then the end "
                      "of a job whose supervisor is killed is not recorded")  # fmt: skip
    else:
        yield Finding(OK, "keeper", "not running", "it starts with the next job")


def _keeper(folder: Path) -> int:
    """Return the process that listens at the keeper's socket; 0 if none does."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        door.connect(near(str(folder / "keeper.sock")))
        return peer_facts(door)[0]
    except (OSError, AttributeError):
        return 0
    finally:
        door.close()


def _watched(folder: Path, run: Run) -> bool:
    """Return whether the supervisor of a running job lives."""
    if run.attempt.processes:
        return processes.lives(run.attempt.processes, "supervisor")
    return is_locked(folder / "run" / witness.name(*run.key) / "lock")


def compiled(machine: Machine) -> Iterator[Finding]:
    """Check the cache of compiled policies, and whether it has the queue's policy."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        from backfill.compiler import jit
        from backfill.loading import is_kept
    if jit.PLAIN:
        yield Finding(WARN, "compiler", "NUMBA_DISABLE_JIT is set: policies run as plain Python", "unset it")
        return
    if jit.FOLDER is None:
        (problem,) = [str(one.message) for one in said if one.category is RuntimeWarning][:1] or ["it cannot be kept"]
        what, _, hint = problem.partition("; ")
        yield Finding(FAIL, "compiler", what, hint)
        return
    size = sum(path.stat().st_size for path in jit.FOLDER.rglob("*") if path.is_file())
    text = f"{jit.FOLDER}, {size_text(size)}" if size else f"{jit.FOLDER}, empty"
    if jit.SHIPPED is not None:
        text += "; compiled code came with backfill"
    elif (jit.PACKAGE / "compiled").is_dir() and not jit.NATIVE:
        text += "; the compiled code that came with backfill is for another processor, Python, numba or numpy"
    policy = machine.policy
    if not policy:
        yield Finding(OK, "compiler", text)
        return
    try:
        kept = is_kept(policy)
    except BackfillError as error:
        yield Finding(FAIL, "compiler", str(error), "backfill policies lists what there is")
        return
    if kept:
        yield Finding(OK, "compiler", f"{text}; {Path(policy).name} is compiled")
    else:
        yield Finding(WARN, "compiler", f"{text}; {Path(policy).name} is not compiled yet",
                      "it takes about a minute, once; jobs are scheduled meanwhile")  # fmt: skip


def memory(machine: Machine) -> Iterator[Finding]:
    """Check how memory limits are enforced."""
    found = groups.place()
    polled = "memory is checked once a second, too late for a job that takes all of it at once"
    if found is None:
        yield Finding(WARN, "memory", f"{polled}; this process may not create control groups (version 2)",
                      "serve --install runs the queue in a systemd unit of yours, if that is permitted")  # fmt: skip
    elif not found[1]:
        text = f"{polled}; {found[0]} has no memory controller, so its groups only end what a job leaves behind"
        yield Finding(WARN, "memory", text)
    else:
        yield Finding(OK, "memory", f"limits are enforced by the kernel: each job has a control group in {found[0]}")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def gpus(machine: Machine) -> Iterator[Finding]:
    """Look for graphics processors."""
    cards = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    others = [path.name for path in Path("/dev").glob("kfd")]
    if others and not cards:
        yield Finding(WARN, "gpus", "there seem to be AMD gpus, which are not counted", "set gpus in config.toml")
    else:
        yield Finding(OK, "gpus", ", ".join(cards) or "none was found")


def limits(machine: Machine) -> Iterator[Finding]:
    """Check the resource limits of the user."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < FILES:
        yield Finding(
            WARN, "limits", f"a process may open {files} files", f"ulimit -n {FILES} before the daemon starts"
        )
    if sys.platform == "linux" and not hasattr(os, "pidfd_open"):
        yield Finding(
            WARN,
            "limits",
            "processes cannot be watched by pidfd",
            "with a newer kernel or Python, ends are noticed at once",
        )
    if not hasattr(socket, "SO_PEERCRED"):
        yield Finding(
            WARN, "limits", "the user of a connection is not known", "only the folder's mode keeps others out"
        )


def shared(machine: Machine) -> Iterator[Finding]:
    """Check other queues on this machine."""
    try:
        cpus = Config(machine.folder).cpu_ids
    except Unreadable:
        return
    others = [one for one in queues() if not is_of(one, str(machine.folder))]
    wrong = overlap(str(machine.folder), cpus)
    if wrong:
        problem, _, hint = wrong.partition("; ")
        more = ", and the memory by memory = SIZE" if hint.startswith("cpus = ") else ""
        yield Finding(WARN, "shared", problem, hint + more)
    elif others:
        others_text = ", ".join(f"{user_name(one.uid)} has cpus {numbers_text(one.cpus)}" for one in others)
        yield Finding(OK, "shared", f"other queues run here: {others_text}; yours has {numbers_text(cpus)}")
    else:
        yield Finding(OK, "shared", "no other queue runs on this machine")


def reboot(machine: Machine) -> Iterator[Finding]:
    """Check whether the queue comes back after a reboot."""
    good, text, hint = survives(str(machine.folder))
    yield Finding(OK if good else WARN, "reboot", text, hint)


CHECKS: Sequence[Callable[[Machine], Iterator[Finding]]] = (
    versions, folder, store, settings, daemon, nodes, watch, compiled, memory, gpus, limits, shared, reboot,
)  # fmt: skip
HERE = (watch, memory, gpus, shared)  # checks that only apply if jobs run on this machine


def doctor(words: Sequence[str]) -> int:
    """Run all checks; return 1 if one of them failed."""
    given, left, _ = parse("doctor", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}")
    machine = Machine(Path(home()))
    checks = [check for check in CHECKS if machine.local or check not in HERE]
    checks += [record] if given.get("deep") else []
    found = [finding for check in checks for finding in check(machine)]
    failed = any(finding.verdict == FAIL for finding in found)
    if given.get("json"):
        print(json.dumps({"schema": 1, "findings": [asdict(finding) for finding in found], "ok": not failed}))
        return FAILED if failed else 0
    for finding in found:
        print(f"{finding.verdict:<5} {finding.check:<9} {printable(finding.told)}")
        if finding.hint:
            print(f"      {'':<9} {printable(finding.hint)}")
    return FAILED if failed else 0
