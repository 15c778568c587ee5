"""Compiled code on the disk: what is damaged there is compiled anew, and what cannot be written is not kept.

There is a file for each function, signature and stamp (stamps.py), named by all three, so trees of other sources share
one folder.
"""

import hashlib
import os
import pickle
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from numba import njit
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.sigutils import normalize_signature

from backfill.compiler import jit, stamps

DIGEST = hashlib.sha256().digest_size
DAY_S = 86_400
_told: set[str] = set()  # what was said once


class _Damaged(Exception):
    """A file does not hold what was written to it."""


class _Files(IndexDataCacheFile):
    """The files of one function, each with a digest of its content: machine code with a wrong byte would run."""

    def path(self, key: Any) -> Path:
        """The file of an overload."""
        named = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return Path(self._data_path(f"{self._index_name.removesuffix('.nbi')}.{named}.nbc"))

    def save(self, key: Any, data: Any) -> None:
        """Write it down."""
        content: bytes = self._dump(data)
        path = self.path(key)
        with self._open_for_write(str(path)) as out:
            out.write(hashlib.sha256(content).digest() + content)

    def load(self, key: Any) -> Any:
        """What was written; None if nothing was."""
        path = self.path(key)
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(written[DIGEST:]).digest() != written[:DIGEST]:
            raise _Damaged(path)
        if time.time() - path.stat().st_mtime > DAY_S:
            os.utime(path)
        return pickle.loads(written[DIGEST:])


class _Place(UserProvidedCacheLocator):
    """Where one function is kept: neither the place nor the date of its source counts."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        if (path := Path(file)).is_relative_to(jit.PACKAGE):
            self._cache_path = str(Path(config.CACHE_DIR) / path.parent.relative_to(jit.PACKAGE))

    def get_source_stamp(self) -> str:
        """What tells sources in one folder apart: nothing."""
        return ""

    def ensure_cache_path(self) -> None:
        """Make the folder; that it can be written is known (jit.py)."""
        Path(self._cache_path).mkdir(parents=True, exist_ok=True)


class _Results(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Place]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """How the names of its files begin. In which line it stands does not count."""
        return fullname.replace("<", "").replace(">", "")


class Kept(FunctionCache):
    """What is kept of one function."""

    _impl_class = _Results

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._stamps: dict[Any, str] = {}
        self._cache_file: Any = _Files(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function; None where there is none that can be used."""
        context.refresh()
        key = self._index_key(signature, context.codegen())
        try:
            return super().load_overload(signature, context)
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            _tell(f"{jit.FOLDER}: {why}; the compiled code kept there is discarded and compiled again")
            with suppress(OSError):
                self._cache_file.path(key).unlink(missing_ok=True)
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep it, if that can be."""
        try:
            super().save_overload(signature, compiled)
            jit.forget_old()
        except OSError as error:
            _tell(f"{jit.FOLDER}: {error.strerror}; compiled code cannot be kept for the next run")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        """What tells compiled forms of the function apart."""
        kinds, _ = normalize_signature(signature)
        if kinds not in self._stamps:
            ours = Path(self._py_func.__code__.co_filename).is_relative_to(jit.PACKAGE)
            self._stamps[kinds] = stamps.stamp(self._py_func, kinds, ours)
        return kinds, codegen.magic_tuple(), self._stamps[kinds]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """A compiled function that is kept on the disk, if its source is in a file. options: those of numba.njit."""
    made = njit(**options)(function)
    if jit.FOLDER is not None:
        with suppress(RuntimeError):  # it was typed at a prompt
            made._cache = Kept(function)
    return made


def _tell(text: str) -> None:
    if text not in _told:
        _told.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)
