"""A personal HTCondor pool on this machine: all daemons as `nobody`, on the loopback, in one folder that ends with it.

It has one machine, or several that are startds of their own.

It is the one of this system, or that of a tree of Debian at $HTCONDOR_TREE, for systems that have no package of it:
`mmdebstrap --variant=minbase --include=condor trixie TREE`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from backfill.system import processes

TREE = os.environ.get("HTCONDOR_TREE", "")
CPUS, MEMORY = 16, 64000
PATIENCE_S = 120.0

CONF = """RELEASE_DIR = /usr
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
SBIN = /usr/sbin
LOCAL_DIR = {folder}
LOG = {folder}/log
SPOOL = {folder}/spool
EXECUTE = {folder}/execute
LOCK = {folder}/lock
RUN = {folder}/run
DAEMON_SOCKET_DIR = {folder}/sock
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
SHARED_PORT_PORT = {port}
USE_SHARED_PORT = True
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
NO_DNS = True
DEFAULT_DOMAIN_NAME = example.org
UID_DOMAIN = example.org
ENABLE_KERNEL_TUNING = False
PER_JOB_NAMESPACES = False
MOUNT_UNDER_SCRATCH =
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, IDTOKENS
SEC_PASSWORD_DIRECTORY = {folder}/passwords.d
SEC_TOKEN_DIRECTORY = {folder}/tokens.d
SEC_TOKEN_SYSTEM_DIRECTORY = {folder}/tokens.d
SEC_TOKEN_ISSUER_KEY = POOL
TRUST_DOMAIN = example.org
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
QUEUE_SUPER_USERS = root, condor, nobody
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD {startds}
NUM_CPUS = {cpus}
MEMORY = {memory}
START = True
SUSPEND = False
PREEMPT = False
KILL = False
RUNBENCHMARKS = 0
LIC_LIMIT = 4
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 5
PERIODIC_EXPR_INTERVAL = 2
ALIVE_INTERVAL = 5
MASTER_BACKOFF_CEILING = 2
"""
MACHINE = """{name} = $(SBIN)/condor_startd
{name}_ARGS = -f -local-name {name}
{name}.STARTD_NAME = {name}
{name}.STARTD_LOG = $(LOG)/StartLog.{name}
{name}.STARTER_LOG = $(LOG)/StarterLog.{name}
{name}.EXECUTE = {folder}/execute/{name}
{name}.STARTD_CLAIM_ID_FILE = $(LOG)/.startd_claim_id.{name}
{name}.STARTD_HISTORY = $(LOG)/startd_history.{name}
{name}.STARTD_ADDRESS_FILE = $(LOG)/.startd_address.{name}
"""
PARTS = """SLOT_TYPE_1 = 100%
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1_PARTITIONABLE = True
"""
DAEMON = r'condor_{}", pid and pgroup = (\d+)'
# What enters the tree. The mounts are seen by this command and its children alone.
ENTER = """
mount --rbind "$1" "$1"; mount --rbind /proc "$1/proc"; mount --rbind /dev "$1/dev"; mount --bind /tmp "$1/tmp"
tree=$1; shift; exec chroot --userspec=nobody:nogroup "$tree" env "$@"
"""


def missing() -> str:
    """Why it cannot run here; empty where it can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "needs root"
    if shutil.which("condor_master") or (Path(TREE, "usr/sbin/condor_master").exists() and TREE):
        return ""
    return "needs condor_master, or $HTCONDOR_TREE"


@dataclass
class Pool:
    """A running pool."""

    folder: Path

    def command(self, *words: str) -> list[str]:
        """Return how a command of HTCondor is started, as `nobody`."""
        setting = f"CONDOR_CONFIG={self.folder}/condor_config"
        if shutil.which("condor_master"):
            return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", setting, *words]
        path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        return ["unshare", "-m", "--propagation", "private", "sh", "-ec", ENTER, "sh", TREE, path, setting, *words]

    def run(self, *words: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            self.command(*words), cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, name: str, text: str) -> None:
        """Queue what a submit description says."""
        file = self.folder / f"{name}.sub"
        file.write_text(text)
        self.run("condor_submit", "-terse", str(file))

    def wait(self, what: tuple[str, ...], holds) -> str:  # type: ignore[no-untyped-def]
        """Look at what a command prints until something holds of it."""
        begin = time.monotonic()
        while not holds(found := self.run(*what)):
            assert time.monotonic() - begin < PATIENCE_S, f"{what}: {found}"
            time.sleep(0.5)
        return found

    def token(self, name: str) -> None:
        """Let whoever may read the folder be this account: the file system does not prove it outside of the tree."""
        text = self.run("condor_token_create", "-identity", f"{name}@example.org")
        file = self.folder / "tokens.d" / name
        file.touch(0o600)
        file.write_text(text)

    def daemon(self, name: str) -> int:
        """The process of a daemon, as `schedd`."""
        return int(re.findall(DAEMON.format(name), (self.folder / "log" / "MasterLog").read_text())[-1])

    def kill(self, name: str) -> None:
        """End a daemon where it is; its master starts another one."""
        with suppress(ProcessLookupError):  # which the master has not seen yet
            os.kill(self.daemon(name), signal.SIGKILL)


@contextmanager
def running(folder: Path, machines: Sequence[str] = (), cpus: int = CPUS, extra: str = "") -> Iterator[Pool]:
    """A pool in this folder below /tmp, ended behind it. machines: their names, if there is more than one. extra: what
    its configuration says besides."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    text = CONF.format(folder=folder, port=port, cpus=cpus, memory=MEMORY, startds=" ".join(machines) or "STARTD")
    several = PARTS * bool(machines) + "".join(MACHINE.format(name=name, folder=folder) for name in machines)
    (folder / "condor_config").write_text(text + several + extra)
    for name in (
        "log",
        "spool",
        "execute",
        "lock",
        "run",
        "sock",
        "passwords.d",
        "tokens.d",
        *(f"execute/{name}" for name in machines),
    ):
        (folder / name).mkdir()
    for each in (folder, *folder.iterdir(), *(folder / "execute").iterdir()):
        shutil.chown(each, "nobody", "nogroup")
    for name in ("passwords.d", "tokens.d"):
        (folder / name).chmod(0o700)
    pool = Pool(folder)
    with open(folder / "master.out", "wb") as log:
        master = subprocess.Popen(pool.command("condor_master", "-f"), stdout=log, stderr=log)
    try:
        begin = time.monotonic()
        seen = pool.command("condor_status", "-af", "Name")
        while subprocess.run(seen, capture_output=True).stdout.count(b"\n") < max(len(machines), 1):
            assert time.monotonic() - begin < PATIENCE_S, (folder / "master.out").read_text()
            time.sleep(0.5)
        yield pool
    finally:
        master.send_signal(signal.SIGQUIT)
        try:
            master.wait(60)
        except subprocess.TimeoutExpired:
            master.kill()
        for pid in processes.belonging({"CONDOR_CONFIG": f"{folder}/condor_config"}):  # if the master was killed
            processes.send(pid, signal.SIGKILL)
