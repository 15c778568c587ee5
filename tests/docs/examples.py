"""The examples of the documentation: found, run, and compared or written anew.

A ```console block holds commands (`$ ...`, a backslash at the end of a line goes on) and what they print, standard
error included. A ```python block whose first line is `# file: NAME` is written to that file. The blocks of a page run
in order in one empty folder. In an expected output `...` stands for any text, and alone on a line for any lines.
The line about compiling is left out: it is printed by the first run on a machine only.

    python -m tests.docs.examples docs/reference/commands.md     writes the outputs anew; lines with `...` stay
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
TITLE = re.compile(r"# file: ([\w.-]+)\n")
COMPILING = re.compile(r"^compiling .*; this happens once.*\n", re.MULTILINE)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


def run_page(text: str, folder: Path) -> Iterator[Ran]:
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            if title := TITLE.match(body):
                (folder / title[1]).write_text(body)
            continue
        for step in COMMAND.finditer(body):
            begin, end = block.start(2) + step.start(2), block.start(2) + step.end(2)
            yield Ran(step[1], step[2], printed(step[1], folder), slice(begin, end))


def printed(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return COMPILING.sub("", done.stdout)


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
