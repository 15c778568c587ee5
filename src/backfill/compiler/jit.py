"""The folder of the disk cache for compiled code. Import this before numba compiles anything.

A cached function is named by its stamp (stamps.py), which depends only on the code that the function uses. The folder
is named by a digest of the sources in compiler/, the versions of Python and the libraries, and the processor.

numba also numbers the functions that a process compiles, from 1, and tells functions of the same name apart by that
number alone. Code cached by two processes could therefore share a symbol and be linked in place of each other. So each
process starts counting at a random number.
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
FORGET_S = 60 * 86_400  # compiled code that has not been used for this long is removed
CHECKED = bool(os.environ.get("BACKFILL_CHECKED"))  # BACKFILL_CHECKED=1: the core checks its indices, for tests


def key(root: Path = PACKAGE) -> str:
    """Return the cache key of these versions, this processor, and the sources that define how code is compiled."""
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
    """Remove cached code that has not been used for 60 days, once per process; other processes may do so as well."""
    if FOLDER is not None:
        remove_old(FOLDER.parent)


def remove_old(kept: Path) -> None:
    """Remove all files below a folder that have not been used for 60 days, and folders left empty."""
    for folder, _, files in os.walk(kept, topdown=False):
        for path in (Path(folder, name) for name in files):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - FORGET_S:
                    path.unlink()
        with suppress(OSError):  # the folder is not empty
            Path(folder).rmdir()


def number_from_anywhere() -> None:
    """Start numba's numbering of compiled functions at a random number, so that no two processes share numbers."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


number_from_anywhere()
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=number_from_anywhere)
PLAIN = bool(numba.config.DISABLE_JIT)  # NUMBA_DISABLE_JIT=1: everything runs as plain Python
FOLDER = None if PLAIN else _folder()
WARM = FOLDER is not None and any(FOLDER.iterdir())  # whether the cache had content before this process
if FOLDER is not None:
    numba.config.CACHE_DIR = str(FOLDER)
