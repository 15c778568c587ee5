"""Command lines as forks of a process that has loaded the program: most of a short one's time is taken by its start.

    python -m tests.forks SOCKET queue|daemon|simulate|numba

It ends when its standard input does, so no run of the tests leaves it behind.
"""

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from tests import children
from tests.patience import PATIENCE_S, until

# A queue of the tests: its planners are plain Python, so that nothing has to be compiled, are often made anew from the
# disk, and soon find out a policy that loops.
PLAIN = {"NUMBA_DISABLE_JIT": "1", "BACKFILL_KEPT_S": "0.01", "BACKFILL_FILE_CPU_S": "2"}
LOADED = ("fcfs", "easy", "conservative")  # the policies of most examples
REAL = str(Path(sys.executable).parent)
# A program, `backfill` or `python`, that passes on its words, its environment, its working folder and its open files,
# unless it is one that loads little.
PROGRAM = """#!{python} -IS
import json, os, socket, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
if not words or words[0] in {verbs} or name == "python" and not words[0].endswith(".py"):
    os.execv(real := os.path.join({real!r}, name), [real, *words])
asked = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.makefile().read() or 1))  # nothing where a script ended by `os._exit`
"""

_QUEUES: dict[bool, "Forks"] = {}


class Forks:
    """A process that has loaded the verbs of the queue, or those that simulate, and forks for each command line.

    One that has loaded nothing but numba is for scripts.
    """

    def __init__(self, what: str, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = TemporaryDirectory(prefix="forks-")
        self.address = str(Path(self._folder.name) / "forks")
        words = [sys.executable, "-m", "tests.forks", self.address, what]
        # Where `tests` is found: this process may be in the folder of a test.
        self._server = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, cwd=Path(__file__).parents[1])
        until(lambda: Path(self.address).exists() or self._server.poll() is not None)
        assert self._server.poll() is None, f"python {' '.join(words[1:])} has ended"

    def close(self) -> None:
        """End the process."""
        with self._server:
            self._server.kill()
        self._folder.cleanup()

    def run(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command line to its end, as `subprocess.run` does."""
        asked = json.dumps([words, str(folder), dict(environment)]).encode()
        with (
            TemporaryFile() as out,
            TemporaryFile() as err,
            open(os.devnull) as none,
            socket.socket(socket.AF_UNIX) as to,
        ):
            to.settimeout(PATIENCE_S)
            to.connect(self.address)
            socket.send_fds(to, [len(asked).to_bytes(4, "big")], [file.fileno() for file in (none, out, err)])
            to.sendall(asked)
            code = int(to.makefile().read())
            told = []
            for file in (out, err):
                file.seek(0)
                told.append(file.read().decode())
        return subprocess.CompletedProcess(words, code, *told)

    def program(self) -> Path:
        """Make a program `backfill`, and one `python` for scripts. Returns their folder, for the search path."""
        from backfill.client.options import VERBS

        folder = Path(self._folder.name) / "bin"
        folder.mkdir()
        words = {"python": sys.executable, "verbs": {*VERBS}, "real": REAL, "address": self.address}
        for name in ("backfill", "python"):
            (folder / name).write_text(PROGRAM.format(**words))
            (folder / name).chmod(0o755)
        return folder


def queue(serves: bool) -> Forks:
    """The process for verbs of a queue that a daemon serves, or for those that start one and what loads the core.

    It lives until `end`: it belongs to no queue that a test ends.
    """
    if serves not in _QUEUES:
        own = {name: value for name, value in os.environ.items() if name != "BACKFILL_HOME"}
        _QUEUES[serves] = Forks("queue" if serves else "daemon", own | PLAIN | children.ROOM)
    return _QUEUES[serves]


def end() -> None:
    """End the processes for verbs of queues."""
    while _QUEUES:
        _QUEUES.popitem()[1].close()


def serve(address: str, what: str) -> None:
    """Fork for each command line, while somebody may ask for one."""
    LOAD[what]()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address + ".new")
        listening.listen(16)
        os.rename(address + ".new", address)
        while 0 not in (ready := select.select([0, listening], [], [])[0]) and ready:
            client, _ = listening.accept()
            if not os.fork():
                listening.close()
                answer(client)
            client.close()


def load_queue() -> None:
    """Load what the verbs of the queue load."""
    import backfill.client.client  # noqa: F401


def load_daemon() -> None:
    """Load all that, and what daemons and planners load. To fork takes twice as long then."""
    import backfill.cli  # noqa: F401

    load_queue()
    children.load()


def load_simulation() -> None:
    """Run a little of what commands do."""
    from backfill.cli import main

    for name in LOADED:
        with redirect_stdout(StringIO()) as said, redirect_stderr(said):
            code = main(["simulate", "model:lublin?jobs=20&cpus=128", "--policy", name])
        assert code == 0, said.getvalue()


def load_numba() -> None:
    """Load the compiler, and none of what it compiles."""
    import numba  # noqa: F401


LOAD = {"queue": load_queue, "daemon": load_daemon, "simulate": load_simulation, "numba": load_numba}


def answer(client: socket.socket) -> None:
    """Be the command that a client asks for."""
    size, files, *_ = socket.recv_fds(client, 4, 3)
    words, folder, environment = json.loads(client.makefile("rb").read(int.from_bytes(size, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    children.take(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = children.to_its_end(lambda: run(words))
    client.sendall(str(code).encode())
    os._exit(code)


def run(words: list[str]) -> Any:
    """Do what a script or the console entry point does. Return its exit code."""
    if words and words[0].endswith(".py"):
        sys.argv, sys.path[0] = words, os.getcwd()
        runpy.run_path(words[0], run_name="__main__")
        return 0
    import backfill.__main__ as program

    sys.argv, sys.modules["__main__"] = ["backfill", *words], program
    return program.main()


if __name__ == "__main__":
    serve(*sys.argv[1:])
