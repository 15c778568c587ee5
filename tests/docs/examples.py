"""The examples of the documentation: found, run, and compared or written anew.

A ```console block holds commands (`$ ...`, a backslash at the end of a line goes on) and what they print, standard
error included. A ```python block whose first line is `# file: NAME` is written to that file. The blocks of a page run
in order in one empty folder. In an expected output `...` stands for any text, and alone on a line for any lines.
Lines about compiling and of progress are left out: they are printed by the first run, and on a slow machine, only.

The commands find the core install alone: of an extra only what the page has told to install above them, by
`pip install 'backfill[NAME]'`.

    python -m tests.docs.examples docs/reference/commands.md     writes the outputs anew; lines with `...` stay
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backfill.system import processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
CORE = Path(__file__).parent / "core_install"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
TITLE = re.compile(r"# file: ([\w.-]+)\n")
EXTRAS = {
    "data": "polars pyarrow",
    "sweep": "distributed dask",
    "plot": "matplotlib",
    "optimum": "ortools",
    "browser": "playwright",
}
OTHERS = "pandas hypothesis pytest"  # what people may have or not
SLOW = re.compile(r"^(compiling .*; this happens once.*|.*: \d+% done after \d+ s)\n", re.MULTILINE)


WATCHED = ROOT / "docs" / "tutorials" / "administrator-slurm-watched.md"
CONTROL = ROOT / "docs" / "reference" / "pool-control.md"
ON_SLURM = (WATCHED, CONTROL)  # they need one, see tests/real
ON_HTCONDOR = ROOT / "docs" / "tutorials" / "administrator-htcondor-under-my-policy.md"


def pages() -> list[Path]:
    return [
        ROOT / "README.md",
        *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in (*ON_SLURM, ON_HTCONDOR)),
    ]


@dataclass
class Ran:
    command: str
    expected: str
    printed: str
    place: slice  # of the expected output in the page

    @property
    def matches(self) -> bool:
        pattern = re.escape(self.expected)
        pattern = re.sub(r"^\\\.\\\.\\\.\n", r"(?:.*\\n)*", pattern.replace("\\\n", "\n"), flags=re.MULTILINE)
        return re.fullmatch(pattern.replace(r"\.\.\.", ".*"), self.printed) is not None


def run_page(text: str, folder: Path, program: Path | None = None) -> Iterator[Ran]:
    """program: the folder of a `backfill` and a `python` that stand for the installed ones."""
    try:
        for block in BLOCK.finditer(text):
            kind, body = block.groups()
            if kind == "python":
                if title := TITLE.match(body):
                    (folder / title[1]).write_text(body)
                continue
            for step in COMMAND.finditer(body):
                begin, end = block.start(2) + step.start(2), block.start(2) + step.end(2)
                found = printed(step[1], folder, missing(text[:begin]), program)
                yield Ran(step[1], step[2], found, slice(begin, end))
    finally:
        end_queue(folder, program)


def end_queue(folder: Path, program: Path | None) -> None:
    """End the daemon of a page's queue, then its jobs and what waits for more of them."""
    if (folder / ".queue" / "sock").exists():
        printed("backfill serve --stop", folder, program=program)
    for pid in processes.belonging({"BACKFILL_HOME": str(folder / ".queue")}):
        processes.send(pid, signal.SIGKILL)


def missing(above: str) -> str:
    """Return what a reader who followed the page so far has not installed."""
    named = {name for some in re.findall(r"pip install '?backfill\[([\w,]+)\]", above) for name in some.split(",")}
    others = "" if "pip install pandas" in above or "optimum" in named else OTHERS  # a solver brings pandas
    return " ".join([others, *(modules for name, modules in EXTRAS.items() if name not in named)])


def midday() -> str:
    """Return a time zone in which it is about ten o'clock: shortly before midnight the queue shows dates as well."""
    return f"DAY{time.gmtime().tm_hour - 10:+d}"


def core_install(without: str) -> dict[str, str]:
    """The environment in which these modules cannot be imported."""
    return {"PYTHONPATH": os.pathsep.join([str(CORE), os.environ.get("PYTHONPATH", "")]), "BACKFILL_MISSING": without}


def printed(command: str, folder: Path, without: str = "", program: Path | None = None) -> str:
    path = os.pathsep.join([*([str(program)] if program else []), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ
        | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "80", "BACKFILL_HOME": str(folder / ".queue")}
        | {"BACKFILL_REGISTRY": f"page-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"}  # others are not seen
        | ({"TZ": midday()} if "backfill simulate" not in command else {})
        | core_install(without),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    return SLOW.sub("", done.stdout)


def rewrite(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for ran in reversed(list(run_page(text, Path(folder)))):
            if "..." not in ran.expected:
                text = text[: ran.place.start] + ran.printed + text[ran.place.stop :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
