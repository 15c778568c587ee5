"""A Slurm of its own on this machine: munged, slurmctld and four slurmd; with accounting also MariaDB and slurmdbd.

It is the one of this system; other versions come from trees of Debian at $SLURM_TREES, separated by colons, see
CONTRIBUTING.md. MariaDB is always that of this system.

Everything is in one folder and ends with it; nothing of the system is touched. Nodes claim more processors than the
machine has, as jobs of tests only sleep.
"""

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from backfill.system import processes

NEEDED = ("munged", "slurmctld", "slurmd", "squeue", "scontrol")
ACCOUNTING = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacct", "sacctmgr")
COMMANDS = (
    *("munged", "slurmctld", "slurmd", "slurmdbd", "sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sinfo"),
    *("sdiag", "sprio", "squeue", "sshare"),
)
TREES = [tree for tree in os.environ.get("SLURM_TREES", "").split(":") if tree]
# What runs a command of a tree. The mounts are seen by this command and its children alone.
ENTER = """#!/bin/sh
exec unshare -m --propagation private sh -ec '
mount --rbind "$1" "$1"; mount --rbind /proc "$1/proc"; mount --rbind /dev "$1/dev"; mount --bind /tmp "$1/tmp"
tree=$1; shift; exec chroot "$tree" "$@"' sh {tree} {command} "$@"
"""
NODES, CPUS, MEMORY = 4, 16, 64000
PATIENCE_S = 60.0
SINCE = "-S now-1hours"  # by default sacct tells what is since midnight

CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
PropagateResourceLimits=NONE
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
Licenses=lic:4
GresTypes=gpu
{accounting}
NodeName=DEFAULT CPUs={cpus} CoresPerSocket={cpus} RealMemory={memory} Feature=fast,x86 State=UNKNOWN
{nodes}
PartitionName=main Nodes=n[1-{count}] Default=YES MaxTime=UNLIMITED DefaultTime=60 DefMemPerCPU=1
PartitionName=short Nodes=n[1-2] MaxTime=30 DefaultTime=5 DefMemPerCPU=1
"""
STORED = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={folder}/munge.sock
AccountingStorageTRES=license/lic,gres/gpu
"""
DBD = """AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""


def missing(accounting: bool = True) -> str:
    """Why it cannot run here; empty where it can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "needs root"
    absent = [name for name in (*NEEDED, *(ACCOUNTING if accounting else ())) if shutil.which(name) is None]
    return f"needs {', '.join(absent)}" if absent else ""


def enter(tree: str, folder: Path) -> str:
    """Make commands in a folder that run those of a tree; the PATH with which they are found first."""
    for name in COMMANDS:
        at = shutil.which(name, path=f"{tree}/usr/sbin:{tree}/usr/bin")
        assert at is not None, f"{tree} has no {name}"
        (folder / name).write_text(ENTER.format(tree=shlex.quote(tree), command=at.removeprefix(tree)))
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def version() -> tuple[int, ...]:
    """The version of the Slurm on PATH, such as (22, 5, 8)."""
    said = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    return tuple(int(part) for part in said.split()[-1].split("."))


@dataclass
class Slurm:
    """A running cluster."""

    folder: Path
    start_controller: Callable[[], None] = lambda: None  # again, with the state that it has saved
    start_node: Callable[[str], None] = lambda name: None  # the daemon of one, again

    def run(self, *words: str, **more: str) -> str:
        """Return what a command of Slurm prints."""
        env = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")} | more
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def submit(self, *words: str) -> str:
        """The number of a job that was submitted."""
        return self.run("sbatch", "--parsable", "-o", "/dev/null", *words).strip().partition(";")[0]

    def wait(self, what: Sequence[str], holds, patience: float = PATIENCE_S) -> str:  # type: ignore[no-untyped-def]
        """Look at what a command prints until something holds of it."""
        begin = time.monotonic()
        while not holds(found := self.run(*what)):
            assert time.monotonic() - begin < patience, f"{what}: {found}"
            time.sleep(0.2)
        return found


@contextmanager
def running(
    folder: Path,
    accounting: bool = True,
    more: str = "",
    options: Mapping[str, str] = MappingProxyType({}),
    gpus: int = 0,
) -> Iterator[Slurm]:
    """A cluster in this folder, ended behind it. more: lines of slurm.conf. options: of nodes there, by their names.

    gpus: devices that take every write, on each node.
    """
    ports = dict(zip(("ctld", "dbd", *(f"n{i + 1}" for i in range(NODES))), _free_ports(NODES + 2), strict=True))
    host = socket.gethostname().partition(".")[0]
    lines = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[name]} {options.get(name, '')}"
        f"{f' Gres=gpu:{gpus}' if gpus else ''}"
        for name in (f"n{i + 1}" for i in range(NODES))
    ]
    folder.chmod(0o755)
    for name in ("state", "spool", "db"):
        (folder / name).mkdir()
    said = {"folder": folder, "host": host, **ports}
    (folder / "slurm.conf").write_text(
        CONF.format(
            **said,
            accounting=(STORED.format(**said) if accounting else "") + more,
            cpus=CPUS,
            memory=MEMORY,
            count=NODES,
            nodes="\n".join(lines),
        )
    )
    if version() >= (23, 11):  # an older one knows no such plugin
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    for device in range(gpus):
        os.mknod(folder / f"gpu{device}", 0o20666, os.makedev(1, 3))
    if gpus:
        listed = f"NodeName=n[1-{NODES}] Name=gpu File={folder}/gpu[0-{gpus - 1}]\n"
        (folder / "gres.conf").write_text(listed)
    (folder / "slurmdbd.conf").write_text(DBD.format(**said))
    (folder / "slurmdbd.conf").chmod(0o600)
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o600)
    started: list[subprocess.Popen[bytes]] = []
    slurm = Slurm(folder)
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(folder / "db" / "sock")}

    def start(*words: str) -> None:
        with open(folder / f"{words[0]}.out", "ab") as log:
            started.append(subprocess.Popen(words, env=env, stdout=log, stderr=log))

    try:
        start(
            *("munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.sock"),
            *(f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"),
        )
        _until(lambda: (folder / "munge.sock").exists())
        if accounting:
            shutil.chown(folder / "db", "mysql")
            apart = {"TMPDIR": str(folder / "db")}  # a database that starts removes temporary tables of others
            subprocess.run(
                ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={folder}/db/data", "--skip-test-db",
                 "--auth-root-authentication-method=normal"], check=True, capture_output=True, timeout=PATIENCE_S,
                env=os.environ | apart,
            )  # fmt: skip
            start("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={folder}/db/data",
                  f"--socket={folder}/db/sock", f"--pid-file={folder}/db/pid", "--skip-networking",
                  f"--tmpdir={folder}/db", "--innodb-buffer-pool-size=64M")  # fmt: skip
            _until((folder / "db" / "sock").exists)
            start("slurmdbd", "-D")
            _until(lambda: "started" in _text(folder / "slurmdbd.log"))
            slurm.run("sacctmgr", "-i", "add", "cluster", "test")
        start("slurmctld", "-D", "-c")
        slurm.start_controller = lambda: start("slurmctld", "-D")
        slurm.start_node = lambda name: start("slurmd", "-D", "-N", name)
        for i in range(NODES):
            slurm.start_node(f"n{i + 1}")
        slurm.wait(["sinfo", "-h", "-N", "-t", "idle", "-p", "main"], lambda found: found.count("\n") == NODES)
        if accounting:
            listed = ["sacctmgr", "-n", "list", "cluster", "format=controlport"]
            slurm.wait(listed, lambda found: found.strip() != "0")
        yield slurm
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        for pid in processes.belonging({"SLURM_CONF": str(folder / "slurm.conf")}):  # its jobs live on without it
            processes.send(pid, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _until(holds) -> None:  # type: ignore[no-untyped-def]
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < PATIENCE_S
        time.sleep(0.1)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
