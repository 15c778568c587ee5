"""Write the platform of a workload to a file beside it."""

from pathlib import Path
from typing import TYPE_CHECKING

from backfill.model.errors import UsageError
from backfill.model.units import counted
from backfill.system.home import home, kept_trouble
from backfill.traces.files import check_writable, suffix_of, written_text

if TYPE_CHECKING:
    from backfill.model.platform import Platform


MARK = "# written by backfill; a later run replaces it\n"


def beside(out: str, suffix: str, option: str = "out") -> str:
    """Return the platform file that belongs to a workload file with this suffix. option: the one that names that file.

    Raises UsageError if a file of that name exists that backfill did not write, or that belongs to the live queue.
    """
    path = _toml(out, suffix)
    if wrong := kept_trouble(home(), str(path)):
        raise UsageError(f"--{option}: {wrong}")
    if path.exists() and not (path.is_file() and path.read_bytes().startswith(MARK.encode())):
        raise UsageError(f"{path} exists and was not written by backfill; give --{option} another name")
    check_writable(path)
    return str(path)


def found_beside(log: str) -> str | None:
    """Return the platform file that lies beside a table of jobs, jobs.toml beside jobs.csv; None if there is none."""
    suffix = suffix_of(log)
    if not suffix or suffix.startswith(".swf") or not Path(log).is_file():  # SWF states the machine itself
        return None
    path = _toml(log, suffix)
    return str(path) if path.is_file() else None


def _toml(workload: str, suffix: str) -> Path:
    return Path(workload[: len(workload) - len(suffix)] + ".toml")


def write_platform(platform: "Platform", path: str) -> str:
    """Write a platform, and return a note on that."""
    with written_text(path) as out:
        out.write(MARK + platform.to_toml())
    licences = f", {counted(len(platform.licences), 'licence')}" if platform.licences else ""
    return f"wrote {path}: {counted(len(platform.nodes), 'node')}{licences}"
