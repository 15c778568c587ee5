"""The folders of compiled code: the disk cache, and what came with the package. Import this before numba compiles.

A cached function is named by its stamp (stamps.py), which depends only on the code that the function uses. The folder
is named by a digest of the sources in compiler/, the versions of Python and the libraries, and the processor.

A wheel may carry such a folder for a class of processors (PORTABLE). It is used where its name is that of this program
and the processor has the features of the class; the disk cache, which has code for this very processor, comes first.

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
# The classes of processors for which wheels carry code, the most capable first, with the features that they need: the
# levels of the x86-64 psABI, and the base of aarch64.
LEVEL_2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
PORTABLE = {
    "x86-64-v3": (*LEVEL_2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v2": LEVEL_2,
    "generic": ("neon",),
}
NATIVE = bool(os.environ.get("BACKFILL_NATIVE"))  # BACKFILL_NATIVE=1: code that came with the package is not used
CHECKED = bool(os.environ.get("BACKFILL_CHECKED"))  # BACKFILL_CHECKED=1: the core checks its indices, for tests


def processor() -> str:
    """Return the processor that this process compiles for, and its features."""
    features = numba.config.CPU_FEATURES
    features = binding.get_host_cpu_features().flatten() if features is None else features
    return f"{numba.config.CPU_NAME or binding.get_host_cpu_name()} {features}".strip()


def key(root: Path = PACKAGE, made_for: str = "") -> str:
    """Return the name of the folder for these versions, a processor (this one, if not given), and the sources that
    define how code is compiled."""
    digest = hashlib.sha256()
    for path in sorted((root / "compiler").rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    python, arrays = ".".join(map(str, sys.version_info[:2])), ".".join(np.__version__.split(".")[:2])
    versions = (python, numba.__version__, llvmlite.__version__, arrays, binding.get_process_triple())
    for part in (*versions, made_for or processor(), "checked" * CHECKED):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def portable() -> list[str]:
    """Return the classes of PORTABLE to which this processor belongs, the most capable first."""
    there = binding.get_host_cpu_features()
    return [name for name, features in PORTABLE.items() if all(there.get(feature) for feature in features)]


def _shipped() -> Path | None:
    """Return the folder of compiled code that came with the package and runs here; None if there is none."""
    if NATIVE or not (PACKAGE / "compiled").is_dir():
        return None
    folders = (PACKAGE / "compiled" / key(made_for=name) for name in portable())
    return next((folder for folder in folders if folder.is_dir()), None)


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
    """Remove all files below a folder that have not been used for 60 days, and folders left empty by that."""
    for folder, _, files in os.walk(kept, topdown=False):
        for path in (Path(folder, name) for name in files):
            with suppress(OSError):  # another process has removed it
                if path.stat().st_mtime < time.time() - FORGET_S:
                    path.unlink()
                    os.removedirs(folder)  # an empty folder that lost nothing here may be about to be filled


def number_from_anywhere() -> None:
    """Start numba's numbering of compiled functions at a random number, so that no two processes share numbers."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


number_from_anywhere()
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=number_from_anywhere)
PLAIN = bool(numba.config.DISABLE_JIT)  # NUMBA_DISABLE_JIT=1: everything runs as plain Python
FOLDER = None if PLAIN else _folder()
SHIPPED = None if PLAIN else _shipped()
# whether there was compiled code before this process
WARM = SHIPPED is not None or (FOLDER is not None and any(FOLDER.rglob("*.nbc")))
if FOLDER is not None or SHIPPED is not None:
    numba.config.CACHE_DIR = str(FOLDER or SHIPPED)
