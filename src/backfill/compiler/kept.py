"""Compiled code on the disk: what is damaged there is compiled anew, and what cannot be written is not kept."""

import hashlib
import io
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from numba import njit
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

from backfill.compiler import jit

DIGEST = hashlib.sha256().digest_size
_told: set[str] = set()  # what was said once


class _Damaged(Exception):
    """A file does not hold what was written to it."""


class _Files(IndexDataCacheFile):
    """The files of one function, each with a digest of its content: machine code with a wrong byte would run."""

    def _dump(self, obj: Any) -> bytes:
        content: bytes = super()._dump(obj)
        return hashlib.sha256(content).digest() + content

    def _load_index(self) -> Any:
        path = Path(self._index_path)
        if not path.exists():
            return {}
        written = io.BytesIO(path.read_bytes())
        if pickle.load(written) != self._version:
            return {}
        stamp, overloads = _content(path, written.read())
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))
        return _content(path, path.read_bytes())


def _content(path: Path, written: bytes) -> Any:
    if hashlib.sha256(written[DIGEST:]).digest() != written[:DIGEST]:
        raise _Damaged(path)
    return pickle.loads(written[DIGEST:])


class _Place(UserProvidedCacheLocator):
    """Where one function is kept: in a folder named by all sources, so neither the place nor the date of one counts."""

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


class Kept(FunctionCache):
    """What is kept of one function."""

    _impl_class = _Results

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _Files(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function; None where there is none that can be used."""
        try:
            return super().load_overload(signature, context)
        except Exception as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            _tell(f"{jit.FOLDER}: {why}; the compiled code kept there is discarded and compiled again")
            with suppress(OSError):
                Path(self._cache_file._index_path).unlink(missing_ok=True)
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep it, if that can be."""
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            _tell(f"{jit.FOLDER}: {error.strerror}; compiled code cannot be kept for the next run")


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
