"""Disk cache of compiled code: corrupt entries are recompiled, and write errors disable it.

Each file is named by function, signature and stamp (stamps.py), so source trees of different versions share a folder.
Code that came with the package is read where the cache has none (jit.SHIPPED).
"""

import hashlib
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.sigutils import normalize_signature

from backfill.compiler import jit, stamps

DIGEST = hashlib.sha256().digest_size
DAY_S = 86_400
_told: set[str] = set()  # warnings already issued


class _Damaged(Exception):
    """The content of a cache file does not match its digest."""


class _Files(IndexDataCacheFile):
    """The cache files of one function, each with a digest of its content: corrupt code must not run."""

    def path(self, key: Any) -> Path:
        """Return the file of one overload (a compiled signature)."""
        named = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return Path(self._data_path(f"{self._index_name.removesuffix('.nbi')}.{named}.nbc"))

    def save(self, key: Any, data: Any) -> None:
        """Write compiled code with its digest to the file of an overload."""
        content: bytes = self._dump(data)
        path = self.path(key)
        with self._open_for_write(str(path)) as out:
            out.write(hashlib.sha256(content).digest() + content)

    def load(self, key: Any) -> Any:
        """Read the compiled code of an overload; None if there is no file. Raises _Damaged if the digest does not
        match."""
        for path in self._paths(key):
            try:
                written = path.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(written[DIGEST:]).digest() != written[:DIGEST]:
                raise _Damaged(path)
            if time.time() - path.stat().st_mtime > DAY_S:
                with suppress(PermissionError):  # it came with the package, which belongs to somebody else
                    os.utime(path)
            return pickle.loads(written[DIGEST:])
        return None

    def _paths(self, key: Any) -> Iterator[Path]:
        yield self.path(key)
        if jit.SHIPPED is not None and jit.FOLDER is not None and (path := self.path(key)).is_relative_to(jit.FOLDER):
            yield jit.SHIPPED / path.relative_to(jit.FOLDER)


class _Place(UserProvidedCacheLocator):
    """The folder for the cache of one function; path and date of its source are ignored.

    While a user's file is loaded, numba's folder is that of the file. The package's own functions do not go there, even
    if they are imported for the first time: others need them as well.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        if (path := Path(file)).is_relative_to(jit.PACKAGE):
            self._cache_path = str(Path(jit.FOLDER or jit.SHIPPED or "") / path.parent.relative_to(jit.PACKAGE))

    def get_source_stamp(self) -> str:
        """Return an empty stamp: source dates are not compared."""
        return ""

    def ensure_cache_path(self) -> None:
        """Create the folder; jit.py has checked that it is writable."""
        Path(self._cache_path).mkdir(parents=True, exist_ok=True)


class Results(CompileResultCacheImpl):
    """What the cache keeps of a compiled function."""

    _locator_classes: ClassVar[list[Any]] = [_Place]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """Return the prefix of the function's file names, without the line number of its definition."""
        return fullname.replace("<", "").replace(">", "")


class Kept(FunctionCache):
    """The disk cache of one function."""

    _impl_class = Results
    form = "machine code"  # a function may be kept in two forms

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._stamps: dict[Any, str] = {}
        self._cache_file: Any = _Files(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled function; None if the cache has no usable entry."""
        context.refresh()
        key = self._index_key(signature, context.codegen())
        try:
            return super().load_overload(signature, context)
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            if jit.FOLDER is None or not self._cache_file.path(key).exists():
                _tell(f"{jit.SHIPPED}: {why}; the compiled code that came with backfill is not used")
                return None
            _tell(f"{jit.FOLDER}: {why}; the compiled code kept there is discarded and compiled again")
            with suppress(OSError):
                self._cache_file.path(key).unlink(missing_ok=True)
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Write the compiled function to the cache; a write error becomes a warning."""
        if jit.FOLDER is None:
            return
        try:
            super().save_overload(signature, compiled)
            jit.forget_old()
        except OSError as error:
            _tell(f"{jit.FOLDER}: {error.strerror}; compiled code cannot be kept for the next run")

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        """Return the key of a compiled function: argument types, stamp, form; the folder stands for the processor."""
        kinds, _ = normalize_signature(signature)
        if kinds not in self._stamps:
            self._stamps[kinds] = stamps.stamp(self._py_func, kinds, _is_ours(self._py_func))
        return kinds, self._stamps[kinds], self.form


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function with numba.njit's options; its code is cached on disk if its source is in a file."""
    made = njit(**options)(function)
    if jit.FOLDER is not None or (jit.SHIPPED is not None and _is_ours(function)):
        with suppress(RuntimeError):  # typed at a prompt: there is no source file
            made._cache = Kept(function)
    return made


def _is_ours(function: Callable[..., Any]) -> bool:
    return Path(function.__code__.co_filename).is_relative_to(jit.PACKAGE)


def _tell(text: str) -> None:
    if text not in _told:
        _told.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)
