"""The recorded logs that a paper needs: given by path, or found in a folder. None is part of the project."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from backfill.model.errors import UsageError, quote
from backfill.model.workload import Workload
from backfill.traces.files import Source
from backfill.traces.swf import read_swf

FOLDERS = ("traces", "../shared/traces")  # folders searched for a log that was not given
SUFFIXES = (".swf", ".swf.gz")


@dataclass(frozen=True, slots=True)
class Log:
    """The bytes of a log file, mostly compressed: a few MB that are sent to other processes and read there."""

    file: str
    sha256: str
    data: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, path: str | Path) -> "Log":
        """Read the file. Raises WorkloadError if it cannot be read."""
        source = Source.of(path)
        return cls(str(path), source.sha256, Path(path).read_bytes())

    def read(self) -> Workload:
        """Read the jobs of the log. Raises WorkloadError."""
        return read_swf(replace(Source.of(self.data), file=self.file))

    @property
    def title(self) -> str:
        """The name of the file and its hash."""
        return f"{Path(self.file).name}, sha256 {self.sha256}"


def find(wanted: Sequence[str], given: Sequence[str], folders: Sequence[str] = FOLDERS) -> dict[str, Log]:
    """Find the logs of a paper by their names, as far as available; a file matches if its name contains the log's name.

    given: paths of logs; each must be one of those wanted. Others are searched in `folders`. Raises UsageError.
    """
    paths: dict[str, Path] = {}
    for path in given:
        if not wanted:
            raise UsageError(f"--log {path}: this paper needs no log; leave it out")
        name = next((name for name in wanted if _is(Path(path), name)), None)
        if name is None:
            raise UsageError(
                f"--log {path}: expected an SWF file whose name has {' or '.join(wanted)} in it, which tells the logs"
                " of this paper apart"
            )
        if name in paths:
            raise UsageError(f"--log {path}: {name} is given twice, as {quote(str(paths[name]))} already")
        paths[name] = Path(path)
    for name in wanted:
        places = [path for folder in folders for path in sorted(Path(folder).glob("*")) if _is(path, name)]
        if name not in paths and places:
            paths[name] = places[0]
    return {name: Log.of(paths[name]) for name in wanted if name in paths}


def how_to_get(names: Sequence[str]) -> str:
    """Return a hint for missing logs."""
    return f"needs the log {' and '.join(names)}; give it by --log PATH"


def _is(path: Path, name: str) -> bool:
    return name.lower() in path.name.lower() and path.name.lower().endswith(SUFFIXES)


def missing(names: Sequence[str], logs: Mapping[str, Log]) -> list[str]:
    """Return the logs that are missing."""
    return [name for name in names if name not in logs]
