"""Names in messages: the nearest known one to a mistyped one, and none that commands a terminal.

Clients of the queue load this, so it imports little.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from collections.abc import Iterable

LIKE, ELSEWHERE = 0.6, 0.61  # similarity from which a name is offered, and one with another first letter


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like a mistyped one; empty if none is alike.

    Capital letters, `_` in place of `-`, and dashes in front make no difference.
    """
    from difflib import get_close_matches  # takes 5 ms, and most commands have no such mistake

    names, wanted = {_folded(each): each for each in known}, _folded(name)
    alike = [near for near in names if near[:1] == wanted[:1]]
    found = get_close_matches(wanted, names, 1, ELSEWHERE) or get_close_matches(wanted, alike, 1, LIKE)
    return names[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None, see: str = "") -> str:
    """Return the hint of a message about an unknown name: `did you mean easy?`, or `otherwise` if no name is alike.

    otherwise: by default all known names, `known: fcfs, easy`. see: the command that lists them.
    """
    known = [*known]
    if near := nearest(name, known):
        return f"did you mean {near}?" + (f" See {see}" if see else "")
    return f"known: {', '.join(known) or 'none'}" if otherwise is None else otherwise


def help_hint(near: str, command: str) -> str:
    """Return the hint of a message about an unknown option or command. near: the nearest one, perhaps empty."""
    return f"did you mean {near}? See {command} --help" if near else f"see {command} --help"


def printable(text: str) -> str:
    """Return the text with `?` for control characters, which a terminal would interpret."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _folded(name: str) -> str:
    return name.lower().replace("_", "-").lstrip("-")
