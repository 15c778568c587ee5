"""Where compiled code is kept. Import this before numba compiles anything.

numba's own disk cache looks only at the file that defines a function, not at the helpers it calls, so an edited
helper would go unseen. Compiled code therefore lives under a folder named by the hash of all sources that take part,
and of the versions and the processor that it was made with.

numba also numbers what a process compiles, from 1, and tells functions of one name apart by that number alone. Code
that two processes kept may therefore bear one name and be linked for each other. Here each process begins elsewhere.
"""

import hashlib
import itertools
import os
import secrets
import shutil
import time
import warnings
from contextlib import suppress
from pathlib import Path

import llvmlite
import numba
import numpy as np
import platformdirs
from llvmlite import binding
from numba.core.bytecode import FunctionIdentity

PACKAGE = Path(__file__).parents[1]
FORGET_S = 60 * 86_400  # compiled code that nobody used for so long is removed
COMPILED = ("compiler", "core", "policies")  # the packages whose sources become machine code
CHECKED = bool(os.environ.get("BACKFILL_CHECKED"))  # BACKFILL_CHECKED=1: the core checks its indices, for tests


def sources(root: Path = PACKAGE) -> list[Path]:
    """Every source file that takes part in compiled code, in a fixed order."""
    ours = (path for package in COMPILED for path in (root / package).rglob("*.py"))
    return sorted(ours)


def key(root: Path = PACKAGE) -> str:
    """A name for this exact set of sources, versions and processor."""
    digest = hashlib.sha256()
    for path in sources(root):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    for part in (*versions, binding.get_host_cpu_name(), "checked" * CHECKED):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _folder() -> Path | None:
    base = os.environ.get("BACKFILL_CACHE_DIR") or platformdirs.user_cache_dir("backfill", appauthor=False)
    folder = Path(base) / "jit" / key()
    fresh = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
        os.utime(folder)
    except OSError as error:
        warnings.warn(
            f"{folder} cannot be written ({error.strerror}), so every process compiles everything again; "
            "set BACKFILL_CACHE_DIR to a writable folder",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    if fresh:
        forget_old(folder.parent)
    return folder


def forget_old(kept: Path) -> None:
    """Remove what other versions compiled, if nobody used it for a long time; other processes may do so too."""
    for folder in kept.iterdir():
        with suppress(FileNotFoundError):
            if folder.stat().st_mtime < time.time() - FORGET_S:
                shutil.rmtree(folder, ignore_errors=True)


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
