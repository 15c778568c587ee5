"""Read and unpack whole sources, and write files atomically."""

import errno
import gzip
import hashlib
import io
import os
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from backfill.model.errors import BackfillError, InputError, WorkloadError, at, quote

SUFFIXES = (".swf", ".swf.gz", ".csv", ".csv.gz", ".parquet")
PARQUET = b"PAR1"
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
EDGES_MAX = 2 * 10**7  # dependencies between the jobs of a log; more would take gigabytes and a minute
_PIECE, _MOST, _MANY = 1 << 20, 8 << 20, 1 << 10  # bytes: per read, without a line end, and of NULs
_PACKED, _RATIO = 64 << 20, 100  # an unpacked log of more bytes is at most this many times its file's size
_LOOKED_AT = 4 << 20  # bytes that readers decode at a time


@dataclass(frozen=True)
class Source:
    """A file or stream, read completely and unpacked."""

    file: str  # its name in messages
    data: bytes  # unpacked where it was gzip
    sha256: str  # of the bytes before unpacking
    progress: Callable[[float], None] | None = None  # receives the share of the text read so far

    @classmethod
    def of(cls, source: "Source | bytes | str | Path", error: type[InputError] = WorkloadError) -> "Source":
        """Read a path, `-` for standard input, or the bytes themselves. Raises `error` if reading fails."""
        if isinstance(source, Source):
            return source
        if isinstance(source, bytes):
            return cls._read("<bytes>", io.BytesIO(source), error)
        if str(source) == "-":
            if sys.stdin is None:
                raise error(at("<stdin>", None, "is closed"))
            return cls._read("<stdin>", sys.stdin.buffer, error)
        try:
            with open(source, "rb") as stream:
                return cls._read(str(source), stream, error)
        except OSError as problem:
            raise error(at(str(source), None, f"cannot be read: {problem.strerror}")) from None
        except ValueError:  # the path contains a NUL
            raise error(f"{quote(str(source))} is not a file name") from None

    @classmethod
    def _read(cls, file: str, stream: BinaryIO, error: type[InputError]) -> "Source":
        raw = _Hashed(stream)
        first = raw.read(len(_GZIP))
        raw.ahead = first
        try:
            opened = gzip.GzipFile(fileobj=raw, mode="rb") if first == _GZIP else raw  # type: ignore[call-overload]
            data = _text(file, opened, raw, error)
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            raise error(at(file, None, f"is a damaged gzip file: {problem}")) from None
        data = data.removeprefix(_BOM)
        if not data or data.isspace():
            raise error(at(file, None, "is empty"))
        return cls(file, data, raw.digest.hexdigest())

    def pieces(self) -> Iterator[str]:
        """Yield the text in chunks of whole lines; decoding it at once would double the memory."""
        begin = 0
        while begin < len(self.data):
            end = self.data.find(b"\n", begin + _LOOKED_AT)
            end = len(self.data) if end < 0 else end + 1
            yield self.data[begin:end].decode("utf-8", "replace")
            begin = end
            if self.progress is not None:
                self.progress(begin / len(self.data))

    def lines(self) -> Iterator[str]:
        """Yield the lines without their line ends."""
        return (line for piece in self.pieces() for line in piece.removesuffix("\n").split("\n"))

    @property
    def name(self) -> str:
        """The file's name without folder and format."""
        name = Path(self.file).name
        return name[: -len(suffix)] if (suffix := suffix_of(name)) else name.strip("<>")


class _Hashed:
    """A stream with a running digest of the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.digest, self.ahead, self.count = stream, hashlib.sha256(), b"", 0

    def read(self, size: int) -> bytes:
        """Read at most `size` bytes, -1: all that are left; empty at the end."""
        ahead, self.ahead = self.ahead, b""
        data = self.stream.read(size if size < 0 else size - len(ahead))
        self.digest.update(data)
        self.count += len(data)
        return ahead + data


def _text(file: str, stream: Any, raw: _Hashed, error: type[InputError]) -> bytes:
    """Read a whole stream, in pieces, so that data that cannot be a log is refused before it fills the memory.

    raw: the stream itself, or its compressed form.
    """
    held, line, unended, blank, alike = bytearray(), 1, 0, 0, 0
    while piece := stream.read(_PIECE):
        if not held and (piece.startswith(PARQUET) or file.lower().endswith(".parquet")):
            return bytes(piece + stream.read(-1))
        if piece.count(0) > _MANY:
            where = line + piece[: piece.find(b"\0")].count(b"\n")
            raise error(at(file, where, "holds NUL bytes; expected text in UTF-8"))
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        unended = unended + len(piece) if end < 0 else len(piece) - end - 1
        blank = blank + len(piece) if piece.isspace() else 0
        if len(held) <= _MOST + _PIECE:  # an endless stream repeats its line from the beginning
            # A chunk of one repeated line may begin and end within it.
            alike = alike + len(piece) if len(set(piece.split(b"\n"))) <= 3 else 0
        if max(unended, blank, alike) > _MOST:
            kind = (
                "a line of" if unended > _MOST else "only white space for" if blank > _MOST else "one line repeated for"
            )
            raise error(at(file, line, f"{kind} more than {_MOST >> 20} MiB; expected a log"))
        line += piece.count(b"\n")
        held += piece
        if len(held) > max(_PACKED, _RATIO * raw.count):
            size = f"{_PACKED >> 20} MiB, {len(held) // raw.count} times what it takes as gzip"
            raise error(
                at(file, line, f"unpacks to more than {size}; expected a log (unpack it first to read it anyway)")
            )
    return bytes(held)


def suffix_of(path: str) -> str:
    """Return the format suffix of a file name, one of SUFFIXES; empty if it has none of them."""
    return max((suffix for suffix in SUFFIXES if path.lower().endswith(suffix)), key=len, default="")


def check_writable(path: str | Path) -> None:
    """Raise the error that `written` would raise, before the work starts. Leaves no file behind."""
    with _named(path):
        target, special = _target(path)
        if not special:
            with suppress(FileNotFoundError):
                os.lstat(_part(target))  # raises if the name is too long
            with tempfile.TemporaryFile(dir=target.parent):  # nameless, so that nothing can be left behind
                pass
        elif not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def make_folder(path: str | Path) -> None:
    """Make a folder unless it exists, and raise the error that writing into it would raise."""
    with _named(path):
        if not str(path) or "\0" in str(path):
            raise OSError(errno.EINVAL, "not a folder name")
        Path(path).mkdir(exist_ok=True)
    check_writable(Path(path) / "x")


def check_folder(path: str | Path) -> None:
    """Raise the error that `make_folder` would raise, and leave nothing behind."""
    existed = Path(path).exists()
    make_folder(path)
    if not existed:
        Path(path).rmdir()


@contextmanager
def filled_folder(path: str | Path) -> Iterator[Path]:
    """Yield a folder to write into; on failure, remove it if it did not exist before."""
    existed = Path(path).exists()
    make_folder(path)
    try:
        yield Path(path)
    except BaseException:
        if not existed:
            shutil.rmtree(path)
        raise


@contextmanager
def written(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a file that appears completely or not at all; compressed if its name ends in .gz. Raises BackfillError."""
    with _named(path):
        target, special = _target(path)
        part = target if special else _part(target)
        try:
            with open(part, "wb") as raw:
                if target.suffix == ".gz":
                    with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                        yield packed  # type: ignore[misc]
                else:
                    yield raw
            if not special:
                os.replace(part, target)
        except BaseException:
            if not special:
                part.unlink(missing_ok=True)
            raise


def _target(path: str | Path) -> tuple[Path, bool]:
    """Return the file to write, and whether it is a device or pipe, which is written in place."""
    if not str(path) or "\0" in str(path):
        raise OSError(errno.EINVAL, "not a file name")
    target = Path(os.path.realpath(path))
    if str(path).endswith("/") or target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder; expected a file name")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder")
    return target, target.exists() and not target.is_file()


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Convert an error of the operating system into a one-line BackfillError."""
    try:
        yield
    except OSError as problem:
        raise BackfillError(at(str(path), None, f"cannot be written: {problem.strerror or problem}")) from None


@contextmanager
def written_text(path: str | Path) -> Iterator[TextIO]:
    """Yield a UTF-8 text file like `written`, without translation of line ends."""
    with written(path) as out:
        text = io.TextIOWrapper(out, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()
