"""Platforms that a workload brings along, written beside it."""

from pathlib import Path
from typing import TYPE_CHECKING

from backfill.cli import say
from backfill.model.units import counted
from backfill.traces.files import check_writable, written_text

if TYPE_CHECKING:
    from backfill.model.platform import Platform


def beside(out: str, suffix: str) -> str:
    """The platform file that belongs to a workload file with this suffix. Raises BackfillError."""
    path = str(Path(out).with_name(Path(out).name.removesuffix(suffix) + ".toml"))
    check_writable(path)
    return path


def write_platform(platform: "Platform", path: str) -> None:
    """Write it, and say so."""
    with written_text(path) as out:
        out.write(platform.to_toml())
    licences = f", {counted(len(platform.licences), 'licence')}" if platform.licences else ""
    say.note(f"wrote {path}: {counted(len(platform.nodes), 'node')}{licences}")
