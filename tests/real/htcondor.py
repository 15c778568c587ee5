"""A personal HTCondor pool on this machine: all daemons as `nobody`, on the loopback, in one folder that ends with it.

It is the one of this system, or that of a tree of Debian at $HTCONDOR_TREE, for systems that have no package of it:
`mmdebstrap --variant=minbase --include=condor trixie TREE`.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD
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
"""
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
        """How a command of HTCondor is started, as `nobody`."""
        setting = f"CONDOR_CONFIG={self.folder}/condor_config"
        if shutil.which("condor_master"):
            return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", setting, *words]
        path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
        return ["unshare", "-m", "--propagation", "private", "sh", "-ec", ENTER, "sh", TREE, path, setting, *words]

    def run(self, *words: str) -> str:
        """What a command prints."""
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


@contextmanager
def running(folder: Path) -> Iterator[Pool]:
    """A pool in this folder below /tmp, ended behind it."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    text = CONF.format(folder=folder, port=port, cpus=CPUS, memory=MEMORY)
    (folder / "condor_config").write_text(text)
    for name in ("log", "spool", "execute", "lock", "run", "sock"):
        (folder / name).mkdir()
    for each in (folder, *folder.iterdir()):
        shutil.chown(each, "nobody", "nogroup")
    pool = Pool(folder)
    with open(folder / "master.out", "wb") as log:
        master = subprocess.Popen(pool.command("condor_master", "-f"), stdout=log, stderr=log)
    try:
        begin = time.monotonic()
        while subprocess.run(pool.command("condor_status", "-af", "Name"), capture_output=True).stdout == b"":
            assert time.monotonic() - begin < PATIENCE_S, (folder / "master.out").read_text()
            time.sleep(0.5)
        yield pool
    finally:
        master.terminate()
        try:
            master.wait(30)
        except subprocess.TimeoutExpired:
            master.kill()
