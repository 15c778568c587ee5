"""Where compiled code is kept. Import this before numba compiles anything.

What is kept of a function is named by its stamp (stamps.py): by the code that it uses, and nothing else. It lies in a
folder that is named by the sources of the compiler's own part, and by the versions and the processor that it was made
with.

numba also numbers what a process compiles, from 1, and tells functions of one name apart by that number alone. Code
that two processes kept may therefore bear one name and be linked for each other. Here each process begins elsewhere.
"""

import hashlib
import itertools
import os
import secrets
import sys
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
import platformdirs
from llvmlite import binding
from numba.core.bytecode import FunctionIdentity

PACKAGE = Path(__file__).parents[1]
FORGET_S = 60 * 86_400  # compiled code that nobody used for so long is removed
CHECKED = bool(os.environ.get("BACKFILL_CHECKED"))  # BACKFILL_CHECKED=1: the core checks its indices, for tests


def key(root: Path = PACKAGE) -> str:
    """A name for these versions, this processor, and the sources that say how anything is compiled."""
    digest = hashlib.sha256()
    for path in sorted((root / "compiler").rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    python = ".".join(map(str, sys.version_info[:2]))
    versions = (python, numba.__version__, llvmlite.__version__, np.__version__)
    for part in (*versions, binding.get_host_cpu_name(), "checked" * CHECKED):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _folder() -> Path | None:
    base = os.environ.get("BACKFILL_CACHE_DIR") or platformdirs.user_cache_dir("backfill", appauthor=False)
    folder = Path(base) / "jit" / key()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        warnings.warn(
            f"{folder} cannot be written ({error.strerror}), so every process compiles everything again; "
            "set BACKFILL_CACHE_DIR to a writable folder",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return folder


@cache
def forget_old() -> None:
    """Remove what was compiled and not used for a long time, once in a process; others may do so too."""
    if FOLDER is not None:
        remove_old(FOLDER.parent)


def remove_old(kept: Path) -> None:
    """Remove the files below a folder that nobody used for a long time, and folders in which nothing is left."""
    for folder, _, files in os.walk(kept, topdown=False):
        for path in (Path(folder, name) for name in files):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - FORGET_S:
                    path.unlink()
        with suppress(OSError):  # it is not empty
            Path(folder).rmdir()


def number_from_anywhere() -> None:
    """Let this process number what it compiles as no other does."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


number_from_anywhere()
if hasattr(os, "register_at_fork"):  # not on Windows, where no process is a copy of another
    os.register_at_fork(after_in_child=number_from_anywhere)
PLAIN = bool(numba.config.DISABLE_JIT)  # NUMBA_DISABLE_JIT=1: everything runs as plain Python
FOLDER = None if PLAIN else _folder()
WARM = FOLDER is not None and any(FOLDER.iterdir())  # something was compiled and kept here before this process
if FOLDER is not None:
    numba.config.CACHE_DIR = str(FOLDER)
