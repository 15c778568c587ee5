"""Write the manual pages, man/*.1, from the help texts: python -m tools.manpages"""

import sys
from pathlib import Path
from typing import Any

import click
import typer

from backfill import __version__
from backfill.cli import app
from backfill.client.options import VERBS, help_text

FOLDER = Path(__file__).parents[1] / "man"
WIDTH = 78
SEE = "The commands are described with their outputs in docs/reference/commands.md and docs/reference/queue.md."


def pages() -> dict[str, str]:
    """Return the text of each page by its name: backfill, and one for each verb."""
    return {name: page(name, text) for name, text in _helps(typer.main.get_command(app), "backfill", None)}


def page(name: str, text: str) -> str:
    """Return the page of a command from the output of its --help."""
    title = name.replace(" ", "-")
    usage, about, *sections = _sections(text)
    head = [f'.TH {title.upper()} 1 "" "backfill {__version__}" "backfill"', ".SH NAME"]
    lines = [*head, _plain(f"{title} - {' '.join(about[1]).partition('. ')[0].rstrip('.')}")]
    for section, body in [("SYNOPSIS", usage[1]), ("DESCRIPTION", about[1]), *sections]:
        lines += [f".SH {section.upper()}", ".nf", *map(_plain, body), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", _plain(SEE), ""])


def _helps(command: Any, name: str, above: click.Context | None) -> list[tuple[str, str]]:
    more = {"terminal_width": WIDTH, **command.context_settings}
    context = click.Context(command, info_name=name.split()[-1], parent=above, **more)
    verb = name.partition(" ")[2]
    found = [(name, help_text(verb) if verb in VERBS else command.get_help(context))]
    for each, one in getattr(command, "commands", {}).items():
        found += _helps(one, f"{name} {each}", context)
    return found


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the usage, the description, and the other sections: heading and lines."""
    usage, _, rest = text.removeprefix("Usage: ").partition("\n\n")
    found = [("usage", [line.strip() for line in usage.splitlines()]), ("about", list[str]())]
    for line in rest.splitlines():
        if line.endswith(":") and (not line.startswith(" ") or line.strip() == "Examples:"):
            found.append((line.strip()[:-1], []))
        else:
            found[-1][1].append(line.removeprefix("  "))
    for _, body in found:
        while body and not body[-1]:
            body.pop()
    return found


def _plain(line: str) -> str:
    """Return a line that roff prints as it is."""
    return "\\&" * line.startswith((".", "'")) + line.replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.1"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / f"{name.replace(' ', '-')}.1").write_text(text, encoding="utf-8")
    print(f"wrote {len(pages())} pages to {FOLDER}", file=sys.stderr)
